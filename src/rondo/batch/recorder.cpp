#include "rondo/batch/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "rondo/base/memory.h"
#include "rondo/error.h"

namespace rondo::batch {
namespace {

constexpr uint32_t kFirstDepths = 64;
constexpr uint64_t kFirstLogWords = 1024;
constexpr size_t kFirstChunk = size_t{64} << 10, kLargestChunk = size_t{16} << 20;

Recorder* owner(abi::Recorder* r) { return static_cast<Recorder*>(r->owner); }

}  // namespace

Recorder::Recorder(const plan::Plan& plan, std::string file)
    : phases_(static_cast<uint32_t>(plan.phases)),
      block_bits_(static_cast<uint32_t>(plan.block_bits)),
      file_(std::move(file)),
      logs_(plan.blocks.size()) {
  if (phases_ > abi::kMaxPhases)
    throw Error(ErrorKind::Internal, fmt::format("a plan of {} phases; the most is {}", phases_, abi::kMaxPhases));
  abi_.log = logs_.data();
  abi_.grow_depths = grow_depths;
  abi_.grow_log = grow_log;
  abi_.grow_arena = grow_arena;
  abi_.fault = fault;
  abi_.owner = this;
  for (uint32_t p = 0; p < phases_; ++p) grow_depths(&abi_, p, kFirstDepths - 1);
}

Recorder::~Recorder() {
  for (uint32_t p = 0; p < phases_; ++p) std::free(abi_.count[p]);
  for (const abi::Log& log : logs_) std::free(log.data);
}

void Recorder::reset() {
  for (uint32_t p = 0; p < phases_; ++p) {
    std::fill_n(abi_.count[p], static_cast<size_t>(abi_.deepest[p] + 1) << block_bits_, 0u);
    abi_.deepest[p] = 0;
  }
  for (abi::Log& log : logs_) log.used = 0;
  chunks_used_ = 0;
  abi_.arena = abi_.arena_end = nullptr;
}

void Recorder::grow_depths(abi::Recorder* r, uint32_t phase, uint32_t depth) {
  Recorder* self = owner(r);
  const uint64_t most = uint64_t{abi::kBucketMask} >> self->block_bits_;
  if (depth >= most) fault(r, abi::kTooManyLevels, 0, depth, static_cast<int64_t>(most));
  const uint64_t old = r->depths[phase];
  const uint64_t depths = std::min(std::max(old * 2, uint64_t{depth} + 1), most);
  const uint64_t bytes = (depths << self->block_bits_) * sizeof(uint32_t);
  void* grown = std::realloc(r->count[phase], bytes);
  if (!grown) throw self->no_memory(fmt::format("{} bytes for the counts of {} levels; use instances of less depth", bytes, depths));
  r->count[phase] = static_cast<uint32_t*>(grown);
  std::fill(r->count[phase] + (old << self->block_bits_), r->count[phase] + (depths << self->block_bits_), 0u);
  r->depths[phase] = static_cast<uint32_t>(depths);
}

void Recorder::grow_log(abi::Recorder* r, uint32_t block, uint32_t words) {
  abi::Log& log = r->log[block];
  const uint64_t capacity = std::max({log.capacity * 2, log.used + words, kFirstLogWords});
  void* grown = std::realloc(log.data, capacity * sizeof(uint32_t));
  if (!grown) throw owner(r)->no_memory(fmt::format("{} bytes for its records; run fewer instances at a time", capacity * sizeof(uint32_t)));
  log.data = static_cast<uint32_t*>(grown);
  log.capacity = capacity;
}

void* Recorder::grow_arena(abi::Recorder* r, uint64_t bytes) {
  Recorder* self = owner(r);
  size_t& used = self->chunks_used_;
  if (used == self->chunks_.size() || self->chunk_bytes_[used] < bytes) {
    const size_t last = used ? self->chunk_bytes_[used - 1] : 0;
    const size_t size = std::max({static_cast<size_t>(bytes), kFirstChunk, std::min(last * 2, kLargestChunk)});
    std::unique_ptr<char[]> chunk;
    try {
      chunk = std::make_unique_for_overwrite<char[]>(size);
    } catch (const std::bad_alloc&) {
      throw self->no_memory(fmt::format("{} bytes for one list or value; use shorter lists", bytes));
    }
    self->chunks_.insert(self->chunks_.begin() + static_cast<ptrdiff_t>(used), std::move(chunk));
    self->chunk_bytes_.insert(self->chunk_bytes_.begin() + static_cast<ptrdiff_t>(used), size);
  }
  r->arena = self->chunks_[used].get() + bytes;
  r->arena_end = self->chunks_[used].get() + self->chunk_bytes_[used];
  return self->chunks_[used++].get();
}

Error Recorder::no_memory(const std::string& wanted) const {
  return out_of_memory(fmt::format("while walking instance {} of {}, which asked for {}", instance_, file_, wanted));
}

void Recorder::fault(abi::Recorder* r, abi::Fault fault, int32_t line, int64_t a, int64_t b) {
  const Recorder* self = owner(r);
  const std::string at = line > 0 ? fmt::format("{}:{}", self->file_, line) : self->file_;
  const std::string head = fmt::format("instance {}: {}: ", self->instance_, at);
  switch (fault) {
    case abi::kRowRange:
      throw Error(ErrorKind::Usage, head + fmt::format("row {} of a tensor with {} rows; expected 0 to {}", a, b, b - 1));
    case abi::kListRange:
      throw Error(ErrorKind::Usage,
                  head + (b == 0 ? fmt::format("item {} of an empty list", a)
                                 : fmt::format("item {} of a list of {}; expected 0 to {}", a, b, b - 1)));
    case abi::kDivideByZero: throw Error(ErrorKind::Usage, head + fmt::format("{} divided by zero", a));
    case abi::kTooDeep: throw StackUsedUp{head + "the recursion is too deep for the stack"};
    case abi::kTooManyLevels:
      throw Error(ErrorKind::Usage, head + fmt::format("{} levels of dependent work; the most is {}", a, b));
    case abi::kIntRange:
      throw Error(ErrorKind::Usage,
                  head + fmt::format("the integer {} becomes a tensor element; expected -2147483648 to 2147483647", a));
  }
  throw Error(ErrorKind::Internal, head + fmt::format("unknown fault {}", static_cast<int>(fault)));
}

}  // namespace rondo::batch
