// Which of several ways to do the same call is the fastest, found by timing live calls.
//
// Comes in: times of blocks of calls. Goes out: what the next call shall do, and at last a choice with its reason.
// Pure: no clock, no device. Others rely on: way 0 is chosen unless another one is faster by more than the margin.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

struct SelectorOptions {
  Goal goal = Goal::both;
  double margin = 0.02;       // another way must be this much faster than way 0, by the median of paired ratios
  double hysteresis = 0.02;   // on top of it, to leave a choice that was made
  unsigned least_pairs = 5, most_pairs = 24;  // of each measure; fewer where the ratios agree
  unsigned block_calls = 8;                   // back to back, in a block of the period measure
  uint64_t drift_calls = 4096;                // after so many decided calls a few pairs check the choice; 0: never
};

// What to do with one call.
struct Step {
  unsigned way = 0;
  bool begins = false;  // wait for the stream, then start the clock, before the call
  bool ends = false;    // after the call: wait for the stream, stop the clock, finish(us)
};

class Selector {
 public:
  Selector(unsigned ways, SelectorOptions options = {});

  // The next call while not decided (or while a check is going on).
  Step next();
  // Of the block that just ended, from its begin to its end.
  void finish(double us);
  // The block that is open is not timed (the call went wrong, another thread or stream came between): it is done
  // again. drop(way): that way cannot be done any more.
  void abandon();
  void drop(unsigned way);

  bool decided() const noexcept { return decided_; }
  unsigned choice() const noexcept { return choice_; }
  std::string reason() const;  // "graph: 0.41 of plain back to back (8.2 against 20.1 us a call, 6 pairs)"
  std::vector<Alternative> alternatives(const std::vector<std::string>& names) const;

  // A choice from an earlier process.
  void assume(unsigned choice, std::string reason);
  // A decided call was made: true when it is time to check, and next() is to be asked again until decided().
  // A decrement and a comparison.
  bool count_call() noexcept {
    if (--until_check_ != 0) [[likely]] return false;
    return start_check();
  }

 private:
  bool start_check() noexcept;
  bool decided_ = false;
  unsigned choice_ = 0;
  uint64_t until_check_ = 0;
  struct State;
  std::vector<State> state_;  // one; a vector so that it can be copied and State stays in selector.cpp
};

}  // namespace rondo::replay
