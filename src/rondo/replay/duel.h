// Which of two ways to do the same call is the faster one, by blocks of live calls.
//
// Comes in: times of blocks. Goes out: what the next call does, and at last a winner with its figures. Pure:
// no clock, no device. Others rely on: the first way wins unless the second is clearly below `faster`; the
// number of calls is bounded by most_calls().
//
// How it measures. In a round a way does one call between two waits for the stream (the latency), then a
// block of several back to back that waits at its ends only. A pair is a round of each way, and pairs take
// turns of order (AB BA AB ..), so that drift of the machine hits both alike. The period, the time of a call
// in an endless row of them, is (block - single call) / (calls of the block - 1): the block alone has a
// latency in it, to fill the queue and to drain it, and would favour the way of the shorter latency. Each
// pair gives a ratio of periods and one of latencies; their medians count, as one sample in ten may be off by
// any factor. From `least_pairs` on the median's interval (between the k-th smallest and the k-th largest
// ratio, which holds it with a probability of 15/16 and more) is looked at after each pair, and the
// comparison ends as soon as it lies on one side of what is asked.
//
// When the way changes, one call of the new way comes first that is not timed. Later, when the choice is
// made, a call follows others of its own way, so that is what must be timed: host caches and branch
// predictors are warm, a graph has been uploaded, a kernel loaded. In turns of order that is one call a pair.
//
// Calls that take long shorten all this (kLongBlockUs). A block that is abandoned is done again, and blocks
// that are abandoned again and again (other calls come in between) get shorter, then only single calls are
// timed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

enum class Measure : uint8_t { Period, Latency };

struct DuelOptions {
  Goal goal = Goal::both;
  // The second way wins below `faster`. With Goal::both the period decides outside of [faster, slower], the
  // latency where it is inside.
  double faster = 0.98, slower = 1.02;
  unsigned least_pairs = 5, most_pairs = 24;
  unsigned least_slower = 5;  // so many pairs are enough to see that the second way does not win
  unsigned block_calls = 8;   // at least 2
  bool certain = false;       // the second way wins by the interval only, never by the median at most_pairs
};

// A block that takes longer is too long: later ones have fewer calls, and there are fewer pairs.
constexpr double kLongBlockUs = 200e3;
constexpr unsigned kPairsOfLongBlocks = 8;
constexpr unsigned kLeastPairsOfLongCalls = 3, kMostPairsOfLongCalls = 5;  // one call takes longer than that
// So often a block is begun again before it is made shorter, or given up.
constexpr unsigned kMostAbandoned = 8;

// Of one measure, medians.
struct Figures {
  unsigned pairs = 0;
  double ratio = 0;  // second / first
  double first_us = 0, second_us = 0;
};

// How a duel ended.
struct Outcome {
  bool second_won = false;
  // Blocks were abandoned so often that nothing is known: the first way won.
  bool untimed = false;
  Measure by = Measure::Period;
  Figures figures[2];
  const Figures& of(Measure m) const noexcept { return figures[static_cast<int>(m)]; }
};
// Of the second against the first: "0.41 of plain back to back (8.2 against 20.1 us a call, median of 6
// pairs)".
std::string in_words(const Outcome& outcome, const std::string& first, const char* unit = "call");

class Duel {
 public:
  explicit Duel(const DuelOptions& options);

  struct Turn {
    bool second, begins, ends;  // as in Step (selector.h)
  };
  Turn next();
  void finish(double us);
  void abandon();

  bool over() const noexcept { return over_; }
  const Outcome& outcome() const noexcept { return outcome_; }

  // That next() is asked for, whatever finish() and abandon() tell.
  static uint64_t most_calls(const DuelOptions& options) noexcept;

 private:
  enum class Verdict { Open, Faster, Same, Slower };
  struct Pair {
    double single_us[2] = {}, block_us[2] = {};
    unsigned calls = 0;  // of the block; 0: there was none
  };
  bool side() const noexcept { return (pairs_.size() % 2 != 0) != (rounds_ != 0); }
  unsigned block() const noexcept { return in_block_ ? block_ : 1; }
  double single_us(int side) const;
  Verdict judge(Measure measure, bool last);
  void settle(bool last);
  void end(Measure by, bool second_wins);
  void restart_pair();
  void end_pair();

  DuelOptions options_;
  bool over_ = false;
  Outcome outcome_;

  std::vector<Pair> pairs_;
  bool with_blocks_ = true;  // the period is still being measured
  unsigned least_ = 0, least_slower_ = 0, most_ = 0, block_ = 2, abandoned_[2] = {};
  // Of the pair that is going on.
  Pair pair_;
  unsigned rounds_ = 0;    // that are done
  bool in_block_ = false;  // the single call of this round is done
  unsigned calls_ = 0;     // of the block, asked for; 0: not begun
  int last_ = -1;          // the way of the last call; -1: not known
  bool asked_ = false;     // since the last block ended
};

}  // namespace rondo::replay
