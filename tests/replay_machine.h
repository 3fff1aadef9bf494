// A machine that exists in numbers only: a host that puts calls into a stream, a GPU that takes them one
// after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "rondo/replay/selector.h"

namespace rondo::replay {

// How a way does the call: time of the host, then of the GPU.
struct WayTimes {
  double host_us = 0, gpu_us = 0;
};

class MachineOfNumbers {
 public:
  explicit MachineOfNumbers(std::vector<WayTimes> ways, uint64_t seed = 1)
      : ways(std::move(ways)), random_(seed) {}

  std::vector<WayTimes> ways;
  double between_us = 0;                                   // of the caller's own work, after each call
  double noise = 0;                                        // of each time, relative
  double outliers = 0;                                     // how many of the timed blocks ...
  double outlier_factor = 10;                              // ... take so much longer
  double slower_a_call = 0;                                // drift of everything, relative
  std::function<bool()> disturbed = [] { return false; };  // another call came in between
  uint64_t calls = 0;
  std::vector<uint64_t> calls_of = std::vector<uint64_t>(16);

  double period_us(size_t way) const { return std::max(ways[way].host_us + between_us, ways[way].gpu_us); }
  double latency_us(size_t way) const { return ways[way].host_us + ways[way].gpu_us; }

  // One call as the selector wants it.
  template <class S>
  void call(S* selector) {
    const auto step = selector->next();
    if (step.begins) host_ = gpu_ = start_ = std::max(host_, gpu_);
    do_way(step.way);
    if (step.ends) {
      host_ = std::max(host_, gpu_);
      const bool off = std::bernoulli_distribution(outliers)(random_);
      selector->finish((host_ - start_) * (off ? outlier_factor : 1));
    }
    host_ += between_us * jitter();
    if (disturbed()) selector->abandon();
  }
  // Until it is decided; how many calls that took.
  template <class S>
  uint64_t decide(S* selector, uint64_t at_most = 100000) {
    const uint64_t before = calls;
    while (!selector->decided() && calls - before < at_most) call(selector);
    return calls - before;
  }
  // Calls that are decided, and what checks come up; how many were calls of checks.
  uint64_t go_on(Selector* selector, uint64_t decided_calls) {
    uint64_t in_checks = 0;
    for (uint64_t i = 0; i < decided_calls; ++i) {
      do_way(selector->choice());
      if (selector->count_call()) in_checks += decide(selector);
    }
    return in_checks;
  }

 private:
  double jitter() {
    return noise == 0 ? 1 : std::max(0.2, 1 + std::normal_distribution<double>(0, noise)(random_));
  }
  void do_way(unsigned way) {
    ++calls;
    ++calls_of[way];
    const double slow = 1 + slower_a_call * static_cast<double>(calls);
    host_ += ways[way].host_us * slow * jitter();
    gpu_ = std::max(gpu_, host_) + ways[way].gpu_us * slow * jitter();
  }
  std::mt19937_64 random_;
  double host_ = 0, gpu_ = 0, start_ = 0;
};

}  // namespace rondo::replay
