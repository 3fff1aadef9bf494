// A good 128-bit hash of bytes, not cryptographic: MurmurHash3 x64_128 (Austin Appleby's public-domain
// algorithm), as a stream. Keys of caches and checksums of files; the value of a text is the same on every
// machine and in every version.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rondo {

struct Hash128 {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;  // 32 digits
};

class Hasher {
 public:
  Hasher& bytes(const void* data, size_t size);
  // With its length, so that a sequence of texts has one reading only.
  Hasher& text(std::string_view text);
  Hasher& number(uint64_t value);
  Hash128 finish() const;  // of everything so far; the stream may go on

 private:
  void block(const unsigned char* data);
  uint64_t a_ = 0, b_ = 0, size_ = 0;
  unsigned char rest_[16];
};

// Of the bytes alone.
Hash128 hash(std::string_view bytes);

}  // namespace rondo

template <>
struct std::hash<rondo::Hash128> {
  size_t operator()(const rondo::Hash128& h) const noexcept { return static_cast<size_t>(h.low); }
};
