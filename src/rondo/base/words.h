// Figures as people read them.
#pragma once
#include <cstdint>
#include <string>

namespace rondo {

// "1,234,567"
std::string with_commas(uint64_t value);
// "512 B", "11.6 KiB", "2.3 MiB", "1.25 GiB"
std::string bytes_in_words(uint64_t bytes);

}  // namespace rondo
