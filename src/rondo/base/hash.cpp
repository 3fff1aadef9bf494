#include "rondo/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rondo {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5, kC2 = 0x4cf5ad432745937f;

uint64_t load(const unsigned char* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}
uint64_t mix_a(uint64_t x) { return std::rotl(x * kC1, 31) * kC2; }
uint64_t mix_b(uint64_t x) { return std::rotl(x * kC2, 33) * kC1; }
uint64_t avalanche(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

}  // namespace

std::string Hash128::hex() const {
  static const char digits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[static_cast<size_t>(15 - i)] = digits[high >> 4 * i & 15];
    out[static_cast<size_t>(31 - i)] = digits[low >> 4 * i & 15];
  }
  return out;
}

void Hasher::block(const unsigned char* data) {
  a_ = (std::rotl(a_ ^ mix_a(load(data)), 27) + b_) * 5 + 0x52dce729;
  b_ = (std::rotl(b_ ^ mix_b(load(data + 8)), 31) + a_) * 5 + 0x38495ab5;
}

Hasher& Hasher::bytes(const void* data, size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  const size_t held = size_ % 16;
  size_ += size;
  if (held) {
    const size_t take = std::min(size, 16 - held);
    std::memcpy(rest_ + held, p, take);
    if (held + take < 16) return *this;
    block(rest_);
    p += take;
    size -= take;
  }
  for (; size >= 16; p += 16, size -= 16) block(p);
  if (size) std::memcpy(rest_, p, size);
  return *this;
}

Hasher& Hasher::text(std::string_view text) { return number(text.size()).bytes(text.data(), text.size()); }

Hasher& Hasher::number(uint64_t value) {
  unsigned char little[8];
  for (int i = 0; i < 8; ++i) little[i] = static_cast<unsigned char>(value >> 8 * i);
  return bytes(little, sizeof little);
}

Hash128 Hasher::finish() const {
  uint64_t a = a_, b = b_;
  if (size_ % 16) {
    unsigned char tail[16] = {};
    std::memcpy(tail, rest_, size_ % 16);
    b ^= mix_b(load(tail + 8));
    a ^= mix_a(load(tail));
  }
  a ^= size_;
  b ^= size_;
  a += b;
  b += a;
  a = avalanche(a);
  b = avalanche(b);
  a += b;
  b += a;
  return {a, b};
}

Hash128 hash(std::string_view bytes) { return Hasher().bytes(bytes.data(), bytes.size()).finish(); }

}  // namespace rondo
