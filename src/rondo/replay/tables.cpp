#include "rondo/replay/tables.h"

#include <fmt/format.h>

#include <cstring>

#include "rondo/graph/state.h"

namespace rondo::replay {
namespace {

using graph::detail::LetThrough;

size_t aligned(size_t bytes) { return (bytes + 255) & ~size_t{255}; }

}  // namespace

Tables::Tables(const driver::Driver& d, CUcontext context, const std::vector<Content>& contents)
    : d_(d), context_(context) {
  for (const Content& c : contents) {
    size_t& end = c.changes ? bytes_ : constant_bytes_;
    places_.push_back({c.changes, end});
    end += aligned(c.bytes->size());
  }
  contents_ = std::make_unique<uint8_t[]>(bytes_);
  const size_t count = bytes_ ? kGenerations : 1;
  for (size_t g = 0; g < count; ++g) generations_.push_back({graph::Event::create()});
  {
    const LetThrough relaxed(d);
    void* memory = nullptr;
    const size_t all = constant_bytes_ + count * bytes_;
    RONDO_CU_WITH(d, cuMemHostAlloc(&memory, all, 0), fmt::format("{} bytes for tables of a recording", all));
    memory_ = static_cast<uint8_t*>(memory);
  }
  for (size_t t = 0; t < contents.size(); ++t) {
    const std::vector<uint8_t>& bytes = *contents[t].bytes;
    if (contents[t].changes) std::memcpy(content(t), bytes.data(), bytes.size());
    std::memcpy(const_cast<void*>(source(t)), bytes.data(), bytes.size());
  }
}

Tables::~Tables() {
  const LetThrough relaxed(d_);
  CUcontext ignored = nullptr;
  const bool pushed = d_.cuCtxPushCurrent(context_) == CUDA_SUCCESS;
  for (const Generation& g : generations_)
    if (g.read) (void)d_.cuEventSynchronize(g.event);
  (void)d_.cuMemFreeHost(memory_);
  if (pushed) (void)d_.cuCtxPopCurrent(&ignored);
}

const void* Tables::source(size_t table) const noexcept {
  const Place& p = places_[table];
  return (p.changes ? generation(now_) : memory_) + p.offset;
}

bool Tables::next() {
  if (!bytes_) return false;
  size_t to = now_;
  if (generations_[now_].read) {
    to = (now_ + 1) % kGenerations;
    Generation& g = generations_[to];
    if (g.read) {
      const LetThrough relaxed(d_);
      RONDO_CU_WITH(d_, cuEventSynchronize(g.event), "a launch that reads the tables of a recording");
      g.read = false;
    }
  }
  std::memcpy(generation(to), contents_.get(), bytes_);
  now_ = to;
  return true;
}

void Tables::launched(CUstream stream) {
  Generation& g = generations_[now_];
  // What no event marks is waited for at once. Launches of one exec end in their order, so the last one
  // counts.
  if (d_.cuEventRecord(g.event, stream) == CUDA_SUCCESS) {
    g.read = true;
    return;
  }
  // The launch is made: nothing may look as if it was not. Where waiting fails too, so will the caller's next
  // call.
  const LetThrough relaxed(d_);
  (void)d_.cuStreamSynchronize(stream);
  g.read = false;
}

}  // namespace rondo::replay
