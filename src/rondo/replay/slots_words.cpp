// What a word may mean.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/replay/slots_parts.h"

namespace rondo::replay {

Meanings::Meanings(const Image& first, std::span<const Argument> a, const Image& second,
                   std::span<const Argument> b, std::span<const Own> own)
    : a_(a), b_(b) {
  for (const Own& m : own)
    if (m.first != m.second) allocations_.push_back(m);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].value == b[i].value) continue;
    if (a[i].buffer()) buffers_.push_back(static_cast<int>(i));
    if (a[i].kind == Kind::Live && (a[i].bytes == 4 || a[i].bytes == 8))
      scalars_.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < std::min(first.nodes.size(), second.nodes.size()); ++i)
    if (first.nodes[i].kind == graph::NodeKind::Alloc)
      allocations_.push_back({first.nodes[i].address, second.nodes[i].address, first.nodes[i].address_bytes});
}

Match Meanings::address(uint64_t x, uint64_t y) const {
  Match best;
  const auto offer = [&](int argument, uint64_t at_x, uint64_t at_y, uint64_t size) {
    const uint64_t addend = x - at_x;
    if (addend > size || y - at_y != addend) return;
    const bool end = addend == size;
    // A result lies in memory that the work allocated, where other things may have been before: it all moves
    // with the result (record.cpp sees to it that it can). Memory of the work's own is one thing.
    if (argument < 0 && best.count && best.end == end) return;
    if (best.count && best.end == end) ++best.count;
    if (!best.count || (best.end && !end)) best = {1, argument, addend, end};
  };
  for (int i : buffers_) offer(i, at(a_, i), at(b_, i), bytes(i));
  for (const Own& m : allocations_) offer(-1, m.first, m.second, m.bytes);
  return best;
}

bool Meanings::known(uint64_t x, uint64_t y) const {
  const auto holds = [](uint64_t base, uint64_t bytes, uint64_t at) { return at - base < bytes; };
  for (int i : buffers_)
    if (holds(at(a_, i), bytes(i), x) || holds(at(b_, i), bytes(i), y)) return true;
  for (const Own& m : allocations_)
    if (holds(m.first, m.bytes, x) || holds(m.second, m.bytes, y)) return true;
  return false;
}

size_t Meanings::same_bytes(int scalar) const {
  const uint64_t differ = at(a_, scalar) ^ at(b_, scalar);
  size_t same = 0;
  while (same < 8 && (differ >> (8 * same) & 0xff) == 0) ++same;
  return same;
}

int Meanings::guess(uint64_t x, uint64_t y, std::string* text) const {
  for (int i : buffers_) {
    const uint64_t at_x = x - at(a_, i);
    if (at_x != y - at(b_, i)) continue;
    *text = at_x <= bytes(i)
                ? fmt::format("argument {} at byte {}, in a place that cannot be written", i, at_x)
                : fmt::format("argument {} with {:#x} added, which is outside of it", i, at_x);
    return i;
  }
  for (int i : buffers_) {
    const uint64_t at_x = x - at(a_, i), at_y = y - at(b_, i);
    if (at_x > bytes(i) || at_y > bytes(i)) continue;
    *text = fmt::format("argument {} at byte {} and at byte {}", i, at_x, at_y);
    return i;
  }
  for (int i : buffers_)
    for (int j : buffers_)
      if (i != j && x - y == (at(a_, i) - at(a_, j)) - (at(b_, i) - at(b_, j))) {
        *text = fmt::format("made of the distance from argument {} to argument {}", j, i);
        return i;
      }
  return -1;
}

int Meanings::guess_half(uint32_t x, uint32_t y, std::string* text) const {
  for (int i : buffers_)
    for (int shift : {0, 32})
      if (const auto step = static_cast<uint32_t>((at(a_, i) >> shift) - (at(b_, i) >> shift));
          step && x - y == step) {
        *text = fmt::format("made of half of the address of argument {}", i);
        return i;
      }
  return -1;
}

}  // namespace rondo::replay
