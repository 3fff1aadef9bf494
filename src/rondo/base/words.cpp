#include "rondo/base/words.h"

#include <fmt/format.h>

namespace rondo {

std::string with_commas(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string bytes_in_words(uint64_t bytes) {
  const auto x = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < (1u << 20)) return fmt::format("{:.1f} KiB", x / 1024);
  if (bytes < (1u << 30)) return fmt::format("{:.1f} MiB", x / (1 << 20));
  return fmt::format("{:.2f} GiB", x / (1 << 30));
}

}  // namespace rondo
