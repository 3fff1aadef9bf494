#include "rondo/replay/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rondo::replay {
namespace {

constexpr unsigned kNull = 9;

const char* word(Kind kind) {
  switch (kind) {
    case Kind::In:
      return "in";
    case Kind::Out:
      return "out";
    case Kind::InOut:
      return "inout";
    case Kind::Live:
      return "live";
    case Kind::Fixed:
      return "fixed";
    case Kind::Made:
      return "made";
  }
  return "?";
}

bool share(const Argument& a, const Argument& b) noexcept {
  return a.bytes && b.bytes && a.value < b.value + b.bytes && b.value < a.value + a.bytes;
}

// What is allocated for a call is aligned, and shares nothing with what was there before.
constexpr unsigned kMadeClass = 8;
unsigned class_of(const Argument& buffer) noexcept {
  return buffer.kind == Kind::Made ? kMadeClass : alignment_class(buffer.value);
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
    for (const uint64_t w : {a.value, a.bytes, a.reserved,
                             static_cast<uint64_t>(a.kind) << 32 | static_cast<uint64_t>(a.element)})
      h = (h ^ w) * 0x100000001b3u, h ^= h >> 29;
  return h;
}

Key key_of(CUcontext context, std::span<const Argument> arguments, const std::vector<bool>& fixed) {
  Key key{context, {arguments.begin(), arguments.end()}};
  for (size_t i = 0; i < key.shape.size(); ++i) {
    Argument& a = key.shape[i];
    if (a.buffer()) a.value = class_of(a);
    if (a.kind != Kind::Live) continue;
    a.reserved = special(a) || (i < fixed.size() && fixed[i]);  // its value counts
    if (!a.reserved) a.value = 0;
  }
  return key;
}

CallHash hash_of(CUcontext context, std::span<const Argument> arguments,
                 const std::vector<bool>& fixed) noexcept {
  const auto mix = [](uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
  };
  CallHash out{mix(1, reinterpret_cast<uint64_t>(context)), 1};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    const bool counts = !a.buffer() && (a.kind != Kind::Live || special(a) || (i < fixed.size() && fixed[i]));
    out.shape = mix(out.shape, counts ? a.value : a.buffer() ? class_of(a) : 0);
    out.shape = mix(out.shape,
                    a.bytes ^ static_cast<uint64_t>(a.kind) << 48 ^ static_cast<uint64_t>(a.element) << 56);
    if (!counts) out.values = mix(out.values, a.value);
  }
  out.shape |= 1;  // 0 is nothing
  return out;
}

bool same_shape(const Argument& a, const Argument& b, bool fixed) noexcept {
  if (a.bytes != b.bytes || a.kind != b.kind || a.element != b.element) return false;
  if (a.buffer()) return class_of(a) == class_of(b);
  if (a.kind == Kind::Live && !fixed && !special(a) && !special(b)) return true;
  return a.value == b.value;
}

std::string describe(std::span<const Argument> shape) {
  std::string out;
  for (const Argument& a : shape) {
    if (!out.empty()) out += ", ";
    if (a.buffer()) {
      out += fmt::format("{} {} B", word(a.kind), a.bytes);
      if (const unsigned c = a.value <= kNull ? static_cast<unsigned>(a.value) : alignment_class(a.value);
          c == kNull)
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
  if (!a.buffer() || a.kind == Kind::Made) return -1;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (i != which && arguments[i].buffer() && arguments[i].kind != Kind::Made &&
        (a.written() || arguments[i].written()) && share(a, arguments[i]))
      return static_cast<int>(i);
  return -1;
}

void check(std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (a.kind > Kind::Made)
      throw Error(ErrorKind::Usage,
                  fmt::format("argument {} is of kind {}, which there is not; use rondo::replay::in, "
                              "out, inout or live",
                              i, static_cast<unsigned>(a.kind)));
    if (a.buffer() && !a.value && a.bytes && a.kind != Kind::Made)
      throw Error(ErrorKind::Usage,
                  describe_argument(arguments, i) + " is a null pointer. Pass the buffer, or 0 elements");
    if (a.buffer() && a.bytes && a.value + (a.bytes - 1) < a.value)
      throw Error(ErrorKind::Usage,
                  fmt::format("{} at {:#x} ends behind the last address there is: a negative count, perhaps. "
                              "Expected the number of its elements",
                              describe_argument(arguments, i), a.value));
    if (!a.buffer() &&
        (a.bytes == 0 || a.bytes > 8 || (a.kind == Kind::Live && a.bytes != 4 && a.bytes != 8)))
      throw Error(
          ErrorKind::Usage,
          fmt::format("argument {} is a scalar of {} bytes; a plain one has 1 to 8, a live one 4 or 8", i,
                      a.bytes));
  }
}

std::string share_memory(std::span<const Argument> arguments, size_t which, int other) {
  return fmt::format("{} and {} share memory: pass it once, as inout", describe_argument(arguments, which),
                     describe_argument(arguments, static_cast<size_t>(other)));
}

bool any_overlapping(std::span<const Argument> arguments, std::span<const uint16_t> changed,
                     std::vector<const Argument*>* scratch) {
  if (changed.size() * arguments.size() <= 256) {
    for (const uint16_t i : changed)
      if (overlapping(arguments, i) >= 0) return true;
    return false;
  }
  scratch->clear();
  for (const Argument& a : arguments)
    if (a.buffer() && a.bytes && a.kind != Kind::Made) scratch->push_back(&a);
  std::sort(scratch->begin(), scratch->end(),
            [](const Argument* a, const Argument* b) { return a->value < b->value; });
  uint64_t read_to = 0, written_to = 0;  // how far the buffers before reach
  for (const Argument* a : *scratch) {
    if (a->value < written_to || (a->written() && a->value < read_to)) return true;
    uint64_t& to = a->written() ? written_to : read_to;
    to = std::max(to, a->value + a->bytes);
  }
  return false;
}

uint64_t nearby(const Argument& live, size_t which) noexcept {
  // Enough for one more of the tiles that a count is often cut into.
  const auto step = [&](uint64_t magnitude) { return 300 + which % 61 + magnitude / 4; };
  const uint64_t sign = uint64_t{1} << (8 * live.bytes - 1), mask = sign | (sign - 1);
  const uint64_t magnitude = live.value & sign ? (~live.value + 1) & mask : live.value;
  return (live.value + step(magnitude)) & mask;
}

uint64_t perturbed(const Argument& live, size_t which) noexcept {
  const auto differs = [&](uint64_t value) {
    for (unsigned byte = 0; byte < live.bytes; ++byte)
      if (((value ^ live.value) >> (8 * byte) & 0xff) == 0) return false;
    return true;
  };
  // Of floating-point numbers one of the same magnitude, so that host code takes no other way.
  for (int tries = 0; tries < 4096; ++tries) {
    const double factor = -(1.0 + (static_cast<double>(which % 512) + 0.37281271828) / 1024) - 1e-5 * tries;
    uint64_t value = 0;
    if (live.element == Element::F32)
      value = std::bit_cast<uint32_t>(static_cast<float>(number(live) * factor));
    else if (live.element == Element::F64)
      value = std::bit_cast<uint64_t>(number(live) * factor);
    else
      break;
    if (differs(value)) return value;
  }
  const uint64_t pattern = 0x0101010101010101u * (which % 127) ^ 0x0000010002000300u;
  uint64_t value = ~live.value ^ (pattern & 0x7f7f7f7f7f7f7f7fu);
  if (live.bytes == 4) value &= 0xffffffffu;
  return value;
}

}  // namespace rondo::replay
