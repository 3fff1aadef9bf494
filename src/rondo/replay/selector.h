// Which of several ways to do the same call is the fastest, found by timing live calls.
//
// Comes in: times of blocks of calls. Goes out: what the next call shall do, and at last a choice with its
// reason. Pure: no clock, no device. Others rely on: way 0 is chosen unless another one is faster by more
// than the margin.
//
// Two measures: the period is the time of a call among many back to back, whatever the caller does between
// them included; the latency is that of one call with a wait before and after. duel.h says how two ways are
// compared. Every way is compared with way 0; if several beat it, the two with the best ratios are compared
// directly, and of these the one of the higher number must beat the other. With Goal::both the period decides
// where its ratio is outside [1 - margin, 1 + margin], the latency where it is inside.
//
// What choosing costs: at most most_calls(ways, options) calls are asked for by next(). With the defaults and
// two ways that is 672, of which 192 only when blocks are abandoned; where one way is clearly faster it is 5
// pairs, 96 calls. A check asks for less.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

struct SelectorOptions {
  Goal goal = Goal::both;
  double margin = 0.02;  // another way must be this much faster than way 0, by the median of paired ratios
  double hysteresis = 0.02;                   // on top of it, to leave a choice that was made
  unsigned least_pairs = 5, most_pairs = 24;  // of blocks; as few as make it clear
  unsigned block_calls = 8;                   // back to back, at least 2
  // After so many decided calls a few pairs check the choice; 0: never. A check that confirms doubles the
  // distance to the next one, up to 16 times this; one that changes the choice sets it back.
  uint64_t drift_calls = 4096;
};

// What to do with one call.
struct Step {
  unsigned way = 0;
  bool begins = false;  // wait for the stream, then start the clock, before the call
  bool ends = false;    // after the call: wait for the stream, stop the clock, finish(us)
};

class Selector {
 public:
  // At least one way.
  explicit Selector(unsigned ways, SelectorOptions options = {});
  Selector(const Selector&);
  Selector(Selector&&) noexcept;
  Selector& operator=(const Selector&);
  Selector& operator=(Selector&&) noexcept;
  ~Selector();

  // The next call while not decided (or while a check is going on).
  Step next();
  // Of the block that just ended, from its begin to its end.
  void finish(double us);
  // The block that is open is not timed (the call went wrong, another thread or stream came between): it is
  // done again. drop(way): that way cannot be done any more; way 0 always can (Error(Internal)).
  void abandon();
  void drop(unsigned way);

  // False while choosing, and while a check is going on: choice() is then still the one that was made.
  bool decided() const noexcept { return decided_; }
  unsigned choice() const noexcept { return choice_; }
  // "graph: 0.41 of plain back to back (8.2 against 20.1 us a call, median of 6 pairs)". Names of the ways;
  // those that are missing are "plain", "graph", "way 2", ...
  std::string reason(const std::vector<std::string>& names = {}) const;
  // A line a way, medians of the last comparison that it was in.
  std::vector<Alternative> alternatives(const std::vector<std::string>& names = {}) const;

  // A choice from an earlier process. It is checked as one that was made here.
  void assume(unsigned choice, std::string reason);
  // A decided call was made: true when it is time to check, and next() is to be asked again until decided().
  // A decrement and a comparison.
  bool count_call() noexcept {
    if (--until_check_ != 0) [[likely]]
      return false;
    return start_check();
  }

  // For callers that count themselves: how many calls until count_call() is true, 0: never; and that so many,
  // fewer than that, were made.
  uint64_t calls_until_check() const noexcept { return until_check_; }
  void counted(uint64_t calls) noexcept { until_check_ -= calls; }

  static uint64_t most_calls(unsigned ways, const SelectorOptions& options = {});

 private:
  bool start_check() noexcept;
  void go_on();
  void advance();
  void end_check();
  void choose(unsigned way);
  void wait_for_check() noexcept;
  bool decided_ = false;
  unsigned choice_ = 0;
  uint64_t until_check_ = 0;
  struct State;
  std::vector<State> state_;  // one; a vector so that it can be copied and State stays in selector.cpp
};

// ---- shared with the joint choice (joint.h)
struct DuelOptions;
DuelOptions choosing(const SelectorOptions& options);
// Of `names`; those that are missing are "plain", "graph", "way 2", ...
std::string way_name(unsigned way, const std::vector<std::string>& names);

}  // namespace rondo::replay
