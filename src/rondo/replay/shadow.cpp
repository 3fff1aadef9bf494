#include "rondo/replay/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "rondo/driver/driver.h"
#include "rondo/graph/state.h"
#include "rondo/replay/signature.h"
#include "rondo/replay_work.h"

namespace rondo::replay {
namespace {

constexpr uint64_t kGuard = 256;
constexpr uint8_t kPoison =
    0xfd;  // as float16, bfloat16, float and double a large negative number; as an index far out
constexpr size_t kChunk = size_t{8} << 20;

// Host memory to compare in.
std::vector<uint8_t> read(const driver::Driver& d, uint64_t address, Memory memory, uint64_t bytes,
                          CUstream stream) {
  std::vector<uint8_t> out(bytes);
  if (memory == Memory::Device) {
    RONDO_CU_WITH(d, cuMemcpyDtoHAsync(out.data(), address, bytes, stream), fmt::format("{} bytes", bytes));
    RONDO_CU(d, cuStreamSynchronize(stream));
  } else if (bytes) {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), bytes);
  }
  return out;
}

size_t width(Element element) {
  switch (element) {
    case Element::F16:
    case Element::BF16:
      return 2;
    case Element::F32:
      return 4;
    case Element::F64:
      return 8;
    case Element::Bytes:
      break;
  }
  return 1;
}

double value(const uint8_t* p, Element element) {
  if (element == Element::F32) {
    float v;
    std::memcpy(&v, p, 4);
    return v;
  }
  if (element == Element::F64) {
    double v;
    std::memcpy(&v, p, 8);
    return v;
  }
  uint16_t h;
  std::memcpy(&h, p, 2);
  if (element == Element::BF16) return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
  const int sign = h >> 15, exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 31  ? (mantissa ? std::nan("") : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return sign ? -magnitude : magnitude;
}

void fill_bytes(const driver::Driver& d, uint64_t at, Memory memory, uint64_t bytes, CUstream stream) {
  if (!bytes) return;
  if (memory == Memory::Device)
    RONDO_CU_WITH(d, cuMemsetD8Async(at, kPoison, bytes, stream), fmt::format("{} bytes", bytes));
  else
    std::memset(reinterpret_cast<void*>(at), kPoison, bytes);
}

std::string all_poison(const driver::Driver& d, uint64_t at, Memory memory, uint64_t bytes, CUstream stream) {
  for (uint64_t done = 0; done < bytes; done += kChunk) {
    const std::vector<uint8_t> part =
        read(d, at + done, memory, std::min<uint64_t>(kChunk, bytes - done), stream);
    const auto wrong = std::find_if(part.begin(), part.end(), [](uint8_t b) { return b != kPoison; });
    if (wrong != part.end())
      return fmt::format("written at byte {}", done + static_cast<uint64_t>(wrong - part.begin()));
  }
  return "";
}

// What a buffer may be written up to.
uint64_t room(const Argument& a) {
  return a.kind == Kind::Made ? (a.bytes + kMadeGranularity - 1) / kMadeGranularity * kMadeGranularity
                              : a.bytes;
}

}  // namespace

void copy(const driver::Driver& d, uint64_t to, Memory to_memory, uint64_t from, Memory from_memory,
          uint64_t bytes, CUstream stream) {
  if (!bytes) return;
  const std::string what = fmt::format("{} bytes", bytes);
  if (to_memory == Memory::Device && from_memory == Memory::Device)
    RONDO_CU_WITH(d, cuMemcpyDtoDAsync(to, from, bytes, stream), what);
  else if (to_memory == Memory::Device)
    RONDO_CU_WITH(d, cuMemcpyHtoDAsync(to, reinterpret_cast<const void*>(from), bytes, stream), what);
  else if (from_memory == Memory::Device)
    RONDO_CU_WITH(d, cuMemcpyDtoHAsync(reinterpret_cast<void*>(to), from, bytes, stream), what);
  else {
    const graph::RelaxedScope relaxed;
    RONDO_CU(d, cuStreamSynchronize(stream));
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
}

Shadow::Shadow(std::span<const Argument> like, const std::vector<Memory>& memory)
    : driver_(&driver::driver()), arguments_(like.begin(), like.end()), blocks_(like.size()) {
  const graph::RelaxedScope relaxed;
  RONDO_CU(*driver_, cuCtxGetCurrent(&context_));
  try {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      Argument& a = arguments_[i];
      if (!a.buffer() || !a.value) continue;
      Block& b = blocks_[i];
      b.bytes = room(a) + 3 * kGuard;
      // An empty buffer's address may be compared or passed on, so it moves too.
      if (memory[i] == Memory::PageLocked) {
        void* p = nullptr;
        RONDO_CU_WITH(*driver_, cuMemHostAlloc(&p, b.bytes, 0),
                      fmt::format("{} bytes to record with", b.bytes));
        b.base = reinterpret_cast<uint64_t>(p);
        b.memory = Memory::PageLocked;
      } else {
        CUdeviceptr p = 0;
        RONDO_CU_WITH(*driver_, cuMemAlloc(&p, b.bytes), fmt::format("{} bytes to record with", b.bytes));
        b.base = p;
        b.memory = Memory::Device;
      }
      const unsigned c = alignment_class(a.value);
      const uint64_t aligned = (b.base + 2 * kGuard - 1) / kGuard * kGuard;
      a.value = c >= 8 ? aligned : aligned + (uint64_t{1} << c);
    }
  } catch (...) {
    for (Block& b : blocks_) release(&b);
    throw;
  }
}

Shadow::Shadow(Shadow&& other) noexcept
    : driver_(other.driver_),
      context_(other.context_),
      arguments_(std::move(other.arguments_)),
      blocks_(std::move(other.blocks_)) {
  other.blocks_.clear();
}

void Shadow::release(Block* block) noexcept {
  if (!block->base) return;
  if (block->memory == Memory::PageLocked)
    (void)driver_->cuMemFreeHost(reinterpret_cast<void*>(block->base));
  else
    (void)driver_->cuMemFree(block->base);
  *block = {};
}

Shadow::~Shadow() {
  if (std::none_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.base != 0; })) return;
  CUcontext current = nullptr;
  const bool here = driver_->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_;
  const bool pushed = !here && driver_->cuCtxPushCurrent(context_) == CUDA_SUCCESS;
  graph::detail::let_through(*driver_, [&] {
    for (Block& b : blocks_) release(&b);
  });
  if (pushed) (void)driver_->cuCtxPopCurrent(&current);
}

uint64_t Shadow::bytes() const noexcept {
  uint64_t sum = 0;
  for (const Block& b : blocks_)
    if (b.memory == Memory::Device) sum += b.bytes;
  return sum;
}

void Shadow::keep_only(const std::vector<bool>& which) {
  graph::detail::let_through(*driver_, [&] {
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (!which[i]) release(&blocks_[i]);
  });
}

void Shadow::fill(size_t i, const Argument& real, CUstream stream) const {
  const Memory memory = blocks_[i].memory;
  copy(*driver_, arguments_[i].value, memory, real.value, memory, real.bytes, stream);
}

void Shadow::poison(size_t i, const Argument& real, CUstream stream) const {
  const Block& b = blocks_[i];
  const Argument& mine = arguments_[i];
  fill_bytes(*driver_, b.base, b.memory, b.bytes, stream);
  if (mine.kind == Kind::Out || mine.kind == Kind::Made || mine.element != Element::Bytes || mine.bytes < 32)
    return;
  // Turned by half of it, so that elements of up to 16 bytes stay elements.
  const uint64_t half = mine.bytes / 32 * 16;
  copy(*driver_, mine.value, b.memory, real.value + half, b.memory, mine.bytes - half, stream);
  copy(*driver_, mine.value + mine.bytes - half, b.memory, real.value, b.memory, half, stream);
}

void Shadow::poison_guards(size_t i, CUstream stream) const {
  const Block& b = blocks_[i];
  const uint64_t begin = arguments_[i].value, end = begin + room(arguments_[i]);
  fill_bytes(*driver_, b.base, b.memory, begin - b.base, stream);
  fill_bytes(*driver_, end, b.memory, b.base + b.bytes - end, stream);
}

uint64_t Shadow::hash(size_t i, CUstream stream) const {
  const Block& b = blocks_[i];
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t done = 0; done < b.bytes; done += kChunk) {
    const std::vector<uint8_t> part =
        read(*driver_, b.base + done, b.memory, std::min<uint64_t>(kChunk, b.bytes - done), stream);
    size_t at = 0;
    for (uint64_t w; at + 8 <= part.size(); at += 8)
      std::memcpy(&w, part.data() + at, 8), h = (h ^ w) * 0x100000001b3u, h ^= h >> 32;
    for (; at < part.size(); ++at) h = (h ^ part[at]) * 0x100000001b3u;
  }
  return h;
}

std::string Shadow::guards_still(size_t i, CUstream stream) const {
  const Block& b = blocks_[i];
  if (!b.base) return "";
  const uint64_t begin = arguments_[i].value, end = begin + room(arguments_[i]);
  std::string wrong = all_poison(*driver_, b.base, b.memory, begin - b.base, stream);
  if (!wrong.empty()) return "written before its first byte";
  wrong = all_poison(*driver_, end, b.memory, b.base + b.bytes - end, stream);
  return wrong.empty() ? "" : "written behind its last byte";
}

std::string Shadow::compare(size_t i, const Argument& real, Proof proof, double tolerance,
                            CUstream stream) const {
  const Argument& mine = arguments_[i];
  const Memory memory = blocks_[i].memory;
  const size_t w = width(mine.element);
  const bool near = proof != Proof::exact && w > 1 && mine.bytes % w == 0;
  double largest = 0;
  for (int pass = near ? 0 : 1; pass < 2; ++pass) {  // the first: the largest magnitude
    uint64_t differ = 0, first = 0;
    uint8_t was = 0, is = 0;
    for (uint64_t done = 0; done < mine.bytes; done += kChunk) {
      const uint64_t bytes = std::min<uint64_t>(kChunk, mine.bytes - done);
      const std::vector<uint8_t> plain = read(*driver_, real.value + done, memory, bytes, stream);
      if (pass == 0) {
        for (uint64_t at = 0; at + w <= bytes; at += w)
          if (const double v = std::abs(value(plain.data() + at, mine.element));
              v > largest && std::isfinite(v))
            largest = v;
        continue;
      }
      const std::vector<uint8_t> graph = read(*driver_, mine.value + done, memory, bytes, stream);
      if (std::memcmp(plain.data(), graph.data(), bytes) == 0) continue;
      for (uint64_t at = 0; at < bytes; at += near ? w : 1) {
        bool same = std::memcmp(plain.data() + at, graph.data() + at, near ? w : 1) == 0;
        if (!same && near)
          same = std::abs(value(plain.data() + at, mine.element) - value(graph.data() + at, mine.element)) <=
                 tolerance * largest;
        if (same) continue;
        if (!differ++) first = done + at, was = plain[at], is = graph[at];
      }
    }
    if (pass == 1 && differ)
      return near ? fmt::format(
                        "{} of {} elements differ by more than {:g} of the largest magnitude {:g}, the first "
                        "is element {}",
                        differ, mine.bytes / w, tolerance, largest, first / w)
                  : fmt::format("{} of {} bytes differ, the first at {}: {:#04x} plain, {:#04x} replayed",
                                differ, mine.bytes, first, was, is);
  }
  return "";
}

}  // namespace rondo::replay
