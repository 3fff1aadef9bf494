#include "rondo/replay/signature.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>


namespace rondo::replay {
namespace {

constexpr unsigned kNull = 9;

const char* word(Kind kind) {
  switch (kind) {
    case Kind::In: return "in";
    case Kind::Out: return "out";
    case Kind::InOut: return "inout";
    case Kind::Live: return "live";
    case Kind::Fixed: return "fixed";
  }
  return "?";
}

bool share(const Argument& a, const Argument& b) noexcept {
  return a.bytes && b.bytes && a.value < b.value + b.bytes && b.value < a.value + a.bytes;
}

double number(const Argument& live) noexcept {
  if (live.element == Element::F32) return std::bit_cast<float>(static_cast<uint32_t>(live.value));
  if (live.element == Element::F64) return std::bit_cast<double>(live.value);
  return live.bytes == 4 ? static_cast<double>(static_cast<int32_t>(live.value))
                         : static_cast<double>(static_cast<int64_t>(live.value));
}

}  // namespace

unsigned alignment_class(uint64_t address) noexcept {
  if (!address) return kNull;
  const int zeros = std::countr_zero(address);
  return zeros < 8 ? static_cast<unsigned>(zeros) : 8;
}

bool special(const Argument& live) noexcept {
  const double v = number(live);
  return v == 0 || v == 1 || v == -1 || !std::isfinite(v);
}

size_t KeyHash::operator()(const Key& key) const noexcept {
  uint64_t h = reinterpret_cast<uint64_t>(key.context) ^ 0x9e3779b97f4a7c15u;
  for (const Argument& a : key.shape)
    for (const uint64_t w : {a.value, a.bytes, a.reserved, static_cast<uint64_t>(a.kind) << 32 | static_cast<uint64_t>(a.element)})
      h = (h ^ w) * 0x100000001b3u, h ^= h >> 29;
  return h;
}

Key key_of(CUcontext context, std::span<const Argument> arguments, const std::vector<bool>& fixed) {
  Key key{context, {arguments.begin(), arguments.end()}};
  for (size_t i = 0; i < key.shape.size(); ++i) {
    Argument& a = key.shape[i];
    if (a.buffer()) a.value = alignment_class(a.value);
    if (a.kind != Kind::Live) continue;
    a.reserved = special(a) || (i < fixed.size() && fixed[i]);  // its value counts
    if (!a.reserved) a.value = 0;
  }
  return key;
}

bool same_shape(const Argument& a, const Argument& b, bool fixed) noexcept {
  if (a.bytes != b.bytes || a.kind != b.kind || a.element != b.element) return false;
  if (a.buffer()) return alignment_class(a.value) == alignment_class(b.value);
  if (a.kind == Kind::Live && !fixed && !special(a) && !special(b)) return true;
  return a.value == b.value;
}

std::string describe(std::span<const Argument> shape) {
  std::string out;
  for (const Argument& a : shape) {
    if (!out.empty()) out += ", ";
    if (a.buffer()) {
      out += fmt::format("{} {} B", word(a.kind), a.bytes);
      if (const unsigned c = a.value <= kNull ? static_cast<unsigned>(a.value) : alignment_class(a.value); c == kNull)
        out += " null";
      else if (c < 8)
        out += fmt::format(" aligned {}", 1u << c);
    } else if (a.kind == Kind::Live) {
      out += a.reserved ? fmt::format("live {:g}", number(a)) : fmt::format("live {} B", a.bytes);
    } else {
      out += fmt::format("{}", a.value);
    }
  }
  return out.empty() ? "no arguments" : out;
}

std::string describe_argument(std::span<const Argument> arguments, size_t which) {
  const Argument& a = arguments[which];
  return fmt::format("argument {} ({}, {} bytes)", which, word(a.kind), a.bytes);
}

int overlapping(std::span<const Argument> arguments, size_t which) noexcept {
  const Argument& a = arguments[which];
  if (!a.buffer()) return -1;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (i != which && arguments[i].buffer() && (a.written() || arguments[i].written()) && share(a, arguments[i]))
      return static_cast<int>(i);
  return -1;
}

void check(std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (a.kind > Kind::Fixed)
      throw Error(ErrorKind::Usage, fmt::format("argument {} is of kind {}, which there is not; use rondo::replay::in, "
                                                "out, inout or live",
                                                i, static_cast<unsigned>(a.kind)));
    if (a.buffer() && !a.value && a.bytes)
      throw Error(ErrorKind::Usage, describe_argument(arguments, i) + " is a null pointer. Pass the buffer, or 0 elements");
    if (!a.buffer() && (a.bytes == 0 || a.bytes > 8 || (a.kind == Kind::Live && a.bytes != 4 && a.bytes != 8)))
      throw Error(ErrorKind::Usage,
                  fmt::format("argument {} is a scalar of {} bytes; a plain one has 1 to 8, a live one 4 or 8", i, a.bytes));
  }
}

uint64_t perturbed(const Argument& live) noexcept {
  if (live.element == Element::F32) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(live.value));
    const float w = std::abs(v) < 1e30f ? v * 1.3728127f : v * 0.62718f;
    return std::bit_cast<uint32_t>(w);
  }
  if (live.element == Element::F64) {
    const double v = std::bit_cast<double>(live.value);
    return std::bit_cast<uint64_t>(std::abs(v) < 1e300 ? v * 1.37281271828 : v * 0.62718);
  }
  // Smaller, so that nothing that is sized by it grows.
  const uint64_t mask = live.bytes == 4 ? 0xffffffffu : ~uint64_t{0};
  const double v = number(live);
  return (v > 2 ? live.value - 1 : live.value + 1) & mask;
}

}  // namespace rondo::replay
