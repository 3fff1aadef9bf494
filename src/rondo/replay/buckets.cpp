#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rondo/error.h"
#include "rondo/replay_buckets.h"

namespace rondo::replay {
namespace {
constexpr size_t kMostSizes = 65536;
}

Buckets::Buckets(BucketOptions options) : options_(std::move(options)) {
  const std::vector<size_t>& s = options_.sizes;
  if (std::adjacent_find(s.begin(), s.end(), std::greater_equal<>()) != s.end())
    throw Error(ErrorKind::Usage, "the sizes of buckets must rise, each one larger than the one before");
  if (s.empty() && options_.steps == 0)
    throw Error(ErrorKind::Usage, "buckets need sizes, or 1 step between powers of two at least");
}

size_t Buckets::bucket_of(size_t n) const noexcept {
  if (!options_.sizes.empty()) {
    const auto at = std::lower_bound(options_.sizes.begin(), options_.sizes.end(), n);
    return at == options_.sizes.end() ? n : *at;
  }
  if (n <= options_.steps) return n;
  const size_t floor = std::bit_floor(n), step = std::max<size_t>(floor / options_.steps, 1);
  return (n + step - 1) / step * step;
}

size_t Buckets::choose(size_t n) {
  ++report_.calls;
  report_.elements += n;
  unsigned times = 0;
  if (const auto at = seen_.find(n); at != seen_.end())
    times = ++at->second;
  else if (seen_.size() < kMostSizes)
    times = seen_[n] = 1;
  size_t m = bucket_of(n);
  const bool own = options_.own_after && times > options_.own_after;
  if (own || m < n || static_cast<double>(m - n) > options_.most_waste * static_cast<double>(m)) m = n;
  if (m != n) ++report_.padded;
  report_.wasted += m - n;
  if (run_.size() < kMostSizes || run_.count(m)) ++run_[m];
  return m;
}

Buckets::Report Buckets::report() const {
  Report out = report_;
  out.different_sizes = seen_.size();
  out.different_buckets = run_.size();
  return out;
}

std::string Buckets::text() const {
  const Report r = report();
  return fmt::format("{} calls of {} sizes in {} buckets, {} padded, {:.1f} % of the work is padding",
                     r.calls, r.different_sizes, r.different_buckets, r.padded, 100 * r.waste());
}

}  // namespace rondo::replay
