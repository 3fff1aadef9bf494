#include "rondo/replay/duel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rondo::replay {
namespace {

double median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double sort_to_median(std::vector<double>* values) {
  std::sort(values->begin(), values->end());
  return median(*values);
}

// The k of the interval [k-th smallest, k-th largest] of n values: the largest with 2 P(Bin(n, 1/2) < k) <=
// 1/16, and at least 1. With five values it is 1: all of them on one side are enough.
size_t interval_rank(size_t n) {
  double term = std::ldexp(1.0, -static_cast<int>(n)), below = term;
  size_t k = 1;
  while (2 * k < n) {
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += term;
    if (2 * below > 1.0 / 16) break;
    ++k;
  }
  return k;
}

std::string us(double value) {
  return value < 9.95    ? fmt::format("{:.2f}", value)
         : value < 999.5 ? fmt::format("{:.1f}", value)
                         : fmt::format("{:.0f}", value);
}

std::string pairs(unsigned n) { return n == 1 ? "1 pair" : fmt::format("median of {} pairs", n); }

}  // namespace

std::string in_words(const Outcome& outcome, const std::string& first, const char* unit) {
  const Figures &period = outcome.of(Measure::Period), &latency = outcome.of(Measure::Latency);
  if (outcome.by == Measure::Period)
    return fmt::format("{:.2f} of {} back to back ({} against {} us a {}, {})", period.ratio, first,
                       us(period.second_us), us(period.first_us), unit, pairs(period.pairs));
  std::string text =
      fmt::format("{:.2f} of {} for one {} with a wait ({} against {} us, {})", latency.ratio, first, unit,
                  us(latency.second_us), us(latency.first_us), pairs(latency.pairs));
  if (period.pairs > 0) text += fmt::format(", {:.2f} back to back ({})", period.ratio, pairs(period.pairs));
  return text;
}

Duel::Duel(const DuelOptions& options) : options_(options) {
  most_ = std::max(1u, options.most_pairs);
  least_ = std::clamp(options.least_pairs, 1u, most_);
  least_slower_ = std::clamp(options.least_slower, 1u, least_);
  block_ = std::max(2u, options.block_calls);
  with_blocks_ = options.goal != Goal::latency;
  if (!with_blocks_) outcome_.by = Measure::Latency;
}

Duel::Turn Duel::next() {
  if (calls_ > 0 && calls_ == block()) abandon();  // nobody said how long the last block took
  if (over_) return {outcome_.second_won, false, false};
  const bool second = side();
  asked_ = true;
  if (calls_ == 0 && last_ != static_cast<int>(second)) {
    last_ = second;
    return {second, false, false};
  }
  ++calls_;
  return {second, calls_ == 1, calls_ == block()};
}

void Duel::finish(double us) {
  if (over_ || calls_ == 0) return;
  // A clock that stood still or was set, or a block that is not whole.
  if (!(us > 0) || !std::isfinite(us) || calls_ != block()) return abandon();
  calls_ = 0;
  asked_ = false;
  (in_block_ ? pair_.block_us : pair_.single_us)[side()] = us;
  if (!in_block_ && with_blocks_) {
    in_block_ = true;
    return;
  }
  if (in_block_) pair_.calls = block_;
  in_block_ = false;
  if (++rounds_ == 2) end_pair();
}

void Duel::restart_pair() {
  pair_ = {};
  rounds_ = 0;
  in_block_ = false;
}

void Duel::end_pair() {
  pairs_.push_back(pair_);
  // The shorter ones of both ways: what was long by accident changes nothing.
  const double single = std::min(pair_.single_us[0], pair_.single_us[1]);
  const double block = std::min(pair_.block_us[0], pair_.block_us[1]);
  restart_pair();
  if (std::max(single, block) > kLongBlockUs) {
    most_ = std::min(most_, kPairsOfLongBlocks);
    if (single > kLongBlockUs) {
      most_ = std::min(most_, kMostPairsOfLongCalls);
      least_ = std::min(least_, kLeastPairsOfLongCalls);
    }
    least_ = std::min(least_, most_);
    least_slower_ = std::min(least_slower_, least_);
    if (block > kLongBlockUs) block_ = std::max(2u, static_cast<unsigned>(kLongBlockUs / block * block_));
  }
  settle(pairs_.size() >= most_);
}

// What a single call takes, to be taken off the blocks: all of them stand on it, so it must not be one that
// was long by accident. One that took longer than the block after it was; and of the others the lower
// quartile is taken.
double Duel::single_us(int side) const {
  std::vector<double> us;
  for (const Pair& p : pairs_)
    if (p.calls > 0 && p.single_us[side] < p.block_us[side]) us.push_back(p.single_us[side]);
  if (us.empty()) return 0;
  std::sort(us.begin(), us.end());
  return us[us.size() / 4];
}

// Of all pairs so far, which are few.
Duel::Verdict Duel::judge(Measure measure, bool last) {
  std::vector<double> us[2], ratios;
  if (measure == Measure::Latency) {
    for (const Pair& p : pairs_) {
      for (const int s : {0, 1}) us[s].push_back(p.single_us[s]);
      ratios.push_back(p.single_us[1] / p.single_us[0]);
    }
  } else {
    const double single[2] = {single_us(0), single_us(1)};
    for (const Pair& p : pairs_) {
      if (p.calls == 0) continue;
      double period[2];
      for (const int s : {0, 1}) {
        // A block that took as little as a single call is off; it is a ratio far from the others.
        period[s] = std::max(p.block_us[s] - single[s], p.block_us[s] / 10) / (p.calls - 1);
        us[s].push_back(period[s]);
      }
      ratios.push_back(period[1] / period[0]);
    }
  }
  const size_t n = ratios.size();
  if (n == 0) return Verdict::Open;
  const double middle = sort_to_median(&ratios);
  outcome_.figures[static_cast<int>(measure)] = {static_cast<unsigned>(n), middle, sort_to_median(&us[0]),
                                                 sort_to_median(&us[1])};

  if (n < least_slower_ && !last) return Verdict::Open;
  const size_t k = interval_rank(n);
  const double low = ratios[k - 1], high = ratios[n - k];
  const bool band = measure == Measure::Period && options_.goal == Goal::both;
  // Without a band it does not matter whether the second way is as fast or slower.
  const double slower = band ? options_.slower : options_.faster;
  if (low > slower) return Verdict::Slower;
  if (n >= least_) {
    if (high < options_.faster) return Verdict::Faster;
    if (low >= options_.faster && high <= slower) return Verdict::Same;
  }
  if (!last) return Verdict::Open;
  if (middle < options_.faster && !options_.certain) return Verdict::Faster;
  return middle > slower ? Verdict::Slower : Verdict::Same;
}

void Duel::settle(bool last) {
  const Verdict latency = judge(Measure::Latency, last);
  if (with_blocks_) {
    const Verdict period = judge(Measure::Period, last);
    if (period == Verdict::Open) return;
    if (period != Verdict::Same || options_.goal == Goal::period)
      return end(Measure::Period, period == Verdict::Faster);
    with_blocks_ = false;  // as fast in a row: from here on single calls only
  }
  if (latency != Verdict::Open) end(Measure::Latency, latency == Verdict::Faster);
}

void Duel::end(Measure by, bool second_wins) {
  over_ = true;
  outcome_.by = by;
  outcome_.second_won = second_wins;
  calls_ = 0;
}

void Duel::abandon() {
  calls_ = 0;
  last_ = -1;
  if (over_ || !asked_) return;
  asked_ = false;
  if (++abandoned_[in_block_] < kMostAbandoned) return;
  abandoned_[in_block_] = 0;
  const bool enough = pairs_.size() >= least_;
  if (in_block_) {
    if (block_ > 2) {
      block_ = std::max(2u, block_ / 2);
      return restart_pair();
    }
    restart_pair();
    if (enough) return settle(true);
    if (options_.goal == Goal::both) {
      with_blocks_ = false;
      return;
    }
  } else if (enough) {
    return settle(true);
  }
  outcome_.untimed = true;
  end(outcome_.by, false);
}

uint64_t Duel::most_calls(const DuelOptions& options) noexcept {
  const uint64_t pairs = std::max(1u, options.most_pairs);
  const bool blocks = options.goal != Goal::latency;
  const uint64_t longest = blocks ? std::max(2u, options.block_calls) : 0;
  // A round: a call that is not timed, the single one, the block.
  uint64_t calls = pairs * 2 * (2 + longest);
  // A block is abandoned at its last call at the latest, and has a call before it the next time; one that
  // gets shorter begins the pair again.
  calls += kMostAbandoned * 2;
  for (uint64_t block = longest; block >= 2; block = block == 2 ? 0 : std::max<uint64_t>(2, block / 2))
    calls += kMostAbandoned * (block + 1) + 2 * (2 + block);
  return calls;
}

}  // namespace rondo::replay
