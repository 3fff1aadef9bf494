#include "rondo/lang/suggest.h"

#include <algorithm>
#include <numeric>

namespace rondo::lang {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that lead from a to b.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = name.size() <= 2 ? 2 : 3;  // a third of the letters of a usual name
  if (name.size() > 64) return best;  // not a slip of the finger, and the cost grows with the square
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64) continue;
    if (lower(candidate) == lower(name)) return candidate;
    const size_t d = distance(name, candidate);
    if (d < best_distance && d < name.size()) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

}  // namespace rondo::lang
