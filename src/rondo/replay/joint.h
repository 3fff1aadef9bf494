// Which way each of several regions goes, where they feed each other: the time of a whole step, all regions
// once, is what counts. A region alone may be slower as a graph (its inputs are copied, because the one
// before runs plainly) and all of them together faster; regions that decide by themselves never find that.
//
// Comes in: times of blocks of steps. Goes out: which way each region goes in the next step, and at last an
// assignment with its reason. Pure: no clock, no device. Others rely on: all regions go way 0 unless an
// assignment beats that by more than the margin; every assignment that is taken has beaten the one before it,
// measured in pairs (duel.h).
//
// The search: all regions by way 0 against all by way 1 (then 2, ...); from the better one each region in its
// turn by each of its other ways, kept where the whole step gets faster by the margin. That is (ways - 1) *
// (1 + regions) comparisons, of 96 steps where one side is clearly faster; at most most_steps() in all (a
// drop may cause one comparison more). What it cannot find: two regions that must change together to gain
// anything, where all together do not.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rondo/replay/selector.h"

namespace rondo::replay {

struct JointStep {
  std::span<const unsigned> ways;  // of each region; valid until the next call of the selector
  bool begins = false;             // as in Step, of the whole step
  bool ends = false;
};

class JointSelector {
 public:
  // drift_calls and hysteresis of the options are not used.
  JointSelector(unsigned regions, unsigned ways, SelectorOptions options = {});
  JointSelector(const JointSelector&);
  JointSelector(JointSelector&&) noexcept;
  JointSelector& operator=(const JointSelector&);
  JointSelector& operator=(JointSelector&&) noexcept;
  ~JointSelector();

  JointStep next();
  void finish(double us);
  // As Selector's. A region always has way 0 (Error(Internal)).
  void abandon();
  void drop(unsigned region, unsigned way);

  bool decided() const noexcept;
  // The best one so far; once decided, the choice.
  std::span<const unsigned> assignment() const noexcept;
  // "a graph, b plain: all graph 0.70 of all plain back to back (...); b plain 0.90 of that back to back
  // (...)"
  std::string reason(const std::vector<std::string>& regions = {},
                     const std::vector<std::string>& ways = {}) const;

  static uint64_t most_steps(unsigned regions, unsigned ways, const SelectorOptions& options = {});

 private:
  void go_on();
  void advance();
  struct State;
  std::vector<State> state_;  // one
};

}  // namespace rondo::replay
