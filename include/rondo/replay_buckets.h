// Sizes rounded up to few, so that varying shapes meet recordings: the caller pads, Rondo counts what it
// costs.
//
//     replay::Buckets buckets;                             // powers of two and the steps between
//     buckets.run(n, [&](size_t m) { pad(x, n, m); },      // only when m > n
//                    [&](size_t m) { step(stream, replay::in(x, m), replay::out(y, m), m); },
//                    [&](size_t m) { unpad(y, n, m); });
//
// One thread at a time.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace rondo::replay {

struct BucketOptions {
  // Rising; a size above the last one is its own bucket. Empty: `steps` buckets between two powers of two.
  std::vector<size_t> sizes;
  unsigned steps = 4;
  // A bucket that wastes more than this share of itself is not used: the size stays as it is.
  double most_waste = 0.25;
  // A size that came this often is its own bucket from then on: a recording of its own pays. 0: never.
  unsigned own_after = 32;
};

class Buckets {
 public:
  explicit Buckets(BucketOptions options = {});  // Error(Usage) for sizes that do not rise, or no steps

  // The size to run with instead of `n`. Counts.
  size_t choose(size_t n);

  template <class Pad, class Run, class Unpad>
  void run(size_t n, Pad&& pad, Run&& body, Unpad&& unpad) {
    const size_t m = choose(n);
    if (m != n) pad(m);
    body(m);
    if (m != n) unpad(m);
  }

  struct Report {
    uint64_t calls = 0, padded = 0, elements = 0, wasted = 0;
    size_t different_sizes = 0, different_buckets = 0;
    double waste() const noexcept {
      return elements + wasted ? static_cast<double>(wasted) / static_cast<double>(elements + wasted) : 0;
    }
  };
  Report report() const;
  std::string text()
      const;  // "1,000 calls of 311 sizes in 24 buckets, 912 padded, 9.8 % of the work is padding"

 private:
  size_t bucket_of(size_t n) const noexcept;
  BucketOptions options_;
  Report report_;
  std::unordered_map<size_t, unsigned> seen_;  // how often a size came; at most kMostSizes
  std::unordered_map<size_t, unsigned> run_;   // how often a bucket ran
};

}  // namespace rondo::replay
