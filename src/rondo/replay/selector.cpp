#include "rondo/replay/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "rondo/replay/duel.h"

namespace rondo::replay {

DuelOptions choosing(const SelectorOptions& o) {
  DuelOptions d;
  d.goal = o.goal;
  d.faster = 1 - o.margin;
  d.slower = 1 + o.margin;
  d.least_pairs = d.least_slower = o.least_pairs;
  d.most_pairs = o.most_pairs;
  d.block_calls = o.block_calls;
  return d;
}

std::string way_name(unsigned way, const std::vector<std::string>& names) {
  if (way < names.size()) return names[way];
  if (way == 0) return "plain";
  return way == 1 ? "graph" : fmt::format("way {}", way);
}

namespace {

constexpr uint64_t kMostDoubled = 16;
constexpr unsigned kLeastPairsToConfirm = 3;

// The second way against the first.
struct Comparison : Outcome {
  unsigned first = 0, second = 0;
};

// Less is better: by the period, where that decided, then by the latency.
std::pair<double, double> score(const Comparison& c) {
  return {c.by == Measure::Period ? c.of(Measure::Period).ratio : 1.0, c.of(Measure::Latency).ratio};
}

struct Timed {
  double us[2] = {};
  unsigned samples = 0;
};

// A check is a burden on calls that are decided: it is short where it confirms, and it changes the choice
// only when it is certain.
DuelOptions checking(const SelectorOptions& o) {
  DuelOptions d = choosing(o);
  d.faster -= o.hysteresis;
  d.least_slower = std::min(kLeastPairsToConfirm, o.least_pairs);
  d.most_pairs = std::min(o.most_pairs, 2 * o.least_pairs);
  d.certain = true;
  return d;
}

}  // namespace

struct Selector::State {
  enum class Phase { Choosing, Final, Idle, Check };

  SelectorOptions options;
  Phase phase = Phase::Choosing;
  std::vector<bool> alive;
  std::vector<std::optional<Comparison>> with_plain;  // by way
  std::vector<Timed> timed;
  unsigned first = 0, second = 0;  // of the duel
  std::optional<Duel> duel;

  // Why the choice is what it is.
  std::optional<Comparison> why, final;
  std::string said;  // instead, when not empty
  bool only = false;
  int dropped = -1;
  uint64_t confirmed = 0, changed = 0;

  uint64_t distance = 0;  // of checks
  unsigned challenger = 0;

  unsigned ways() const { return static_cast<unsigned>(alive.size()); }
  bool alone() const { return std::count(alive.begin(), alive.end(), true) == 1; }
  void start(unsigned a, unsigned b, const DuelOptions& o) {
    first = a, second = b;
    duel.emplace(o);
  }
  // What the duel that is over says.
  Comparison take() {
    Comparison c;
    static_cast<Outcome&>(c) = duel->outcome();
    c.first = first, c.second = second;
    for (const Measure m : {Measure::Period, Measure::Latency}) {
      if (c.of(m).pairs == 0) continue;
      timed[first].us[static_cast<int>(m)] = c.of(m).first_us;
      timed[second].us[static_cast<int>(m)] = c.of(m).second_us;
    }
    for (const unsigned w : {first, second})
      timed[w].samples += std::max(c.figures[0].pairs, c.figures[1].pairs);
    duel.reset();
    return c;
  }
  // Ways that beat way 0, the best first.
  std::vector<unsigned> winners() const {
    std::vector<unsigned> found;
    for (unsigned w = 1; w < ways(); ++w)
      if (alive[w] && with_plain[w] && with_plain[w]->second_won) found.push_back(w);
    std::stable_sort(found.begin(), found.end(),
                     [&](unsigned a, unsigned b) { return score(*with_plain[a]) < score(*with_plain[b]); });
    return found;
  }
};

Selector::Selector(unsigned ways, SelectorOptions options) : state_(1) {
  if (ways == 0) throw Error(ErrorKind::Internal, "a selector of no ways: expected at least one");
  State& s = state_[0];
  s.options = options;
  s.alive.assign(ways, true);
  s.with_plain.resize(ways);
  s.timed.resize(ways);
  s.distance = options.drift_calls;
  advance();
}
Selector::Selector(const Selector&) = default;
Selector::Selector(Selector&&) noexcept = default;
Selector& Selector::operator=(const Selector&) = default;
Selector& Selector::operator=(Selector&&) noexcept = default;
Selector::~Selector() = default;

uint64_t Selector::most_calls(unsigned ways, const SelectorOptions& options) {
  if (ways < 2) return 0;
  const uint64_t duels = ways == 2 ? 1 : ways;  // each with way 0, and the best two
  return duels * Duel::most_calls(choosing(options));
}

Step Selector::next() {
  State& s = state_[0];
  if (!s.duel) return {choice_, false, false};
  const Duel::Turn turn = s.duel->next();
  if (s.duel->over()) {  // by a block that nobody finished
    go_on();
    return next();
  }
  return {turn.second ? s.second : s.first, turn.begins, turn.ends};
}

void Selector::finish(double us) {
  State& s = state_[0];
  if (!s.duel) return;
  s.duel->finish(us);
  go_on();
}

void Selector::abandon() {
  State& s = state_[0];
  if (!s.duel) return;
  s.duel->abandon();
  go_on();
}

void Selector::go_on() {
  if (!state_[0].duel->over()) return;
  if (state_[0].phase == State::Phase::Check)
    end_check();
  else
    advance();
}

// Choosing: takes what the duel found, then goes on to the next one or to a choice.
void Selector::advance() {
  State& s = state_[0];
  if (s.duel && s.duel->over()) {
    const Comparison c = s.take();
    if (s.phase == State::Phase::Final) {
      s.final = c;
      return choose(c.second_won ? c.second : c.first);
    }
    s.with_plain[c.second] = c;
  }
  if (s.duel) return;
  for (unsigned w = 1; w < s.ways(); ++w) {
    if (!s.alive[w] || s.with_plain[w]) continue;
    s.phase = State::Phase::Choosing;
    return s.start(0, w, choosing(s.options));
  }
  const std::vector<unsigned> best = s.winners();
  if (best.size() < 2) return choose(best.empty() ? 0 : best[0]);
  s.phase = State::Phase::Final;
  s.start(std::min(best[0], best[1]), std::max(best[0], best[1]), choosing(s.options));
}

void Selector::choose(unsigned way) {
  State& s = state_[0];
  choice_ = way;
  decided_ = true;
  s.phase = State::Phase::Idle;
  s.only = s.alone();
  s.why.reset();
  s.said.clear();
  if (way != 0) {
    s.why = s.with_plain[way];
  } else {  // the one that came nearest
    for (unsigned w = 1; w < s.ways(); ++w) {
      if (!s.alive[w] || !s.with_plain[w]) continue;
      if (!s.why || s.why->untimed || score(*s.with_plain[w]) < score(*s.why)) s.why = s.with_plain[w];
    }
  }
  wait_for_check();
}

void Selector::wait_for_check() noexcept {
  // A count of 0 wraps around and never comes back.
  until_check_ = state_[0].alone() ? 0 : state_[0].distance;
}

bool Selector::start_check() noexcept {
  State& s = state_[0];
  if (!decided_ || s.alone()) return false;
  do s.challenger = (s.challenger + 1) % s.ways();
  while (s.challenger == choice_ || !s.alive[s.challenger]);
  try {
    s.start(choice_, s.challenger, checking(s.options));
  } catch (...) {  // no memory for it now
    wait_for_check();
    return false;
  }
  s.phase = State::Phase::Check;
  decided_ = false;
  return true;
}

void Selector::end_check() {
  State& s = state_[0];
  const Comparison c = s.take();
  s.phase = State::Phase::Idle;
  decided_ = true;
  if (c.second_won) {
    choice_ = c.second;
    s.why = c;
    s.final.reset();
    s.said.clear();
    s.dropped = -1;
    s.confirmed = 0;
    ++s.changed;
    s.distance = s.options.drift_calls;
  } else if (!c.untimed) {
    ++s.confirmed;
    s.distance = std::min(2 * s.distance, kMostDoubled * s.options.drift_calls);
  }
  wait_for_check();
}

void Selector::drop(unsigned way) {
  State& s = state_[0];
  if (way == 0 || way >= s.ways())
    throw Error(ErrorKind::Internal,
                fmt::format("way {} of {} is dropped: expected one from 1 on", way, s.ways()));
  if (!s.alive[way]) return;
  s.alive[way] = false;
  const bool was_choice = (decided_ || s.phase == State::Phase::Check) && choice_ == way;
  if (s.duel && (s.first == way || s.second == way)) s.duel.reset();
  if (s.phase == State::Phase::Choosing || s.phase == State::Phase::Final) {
    if (!s.duel) s.dropped = static_cast<int>(way);
    return advance();
  }
  if (s.duel) return;  // a check of two others
  s.phase = State::Phase::Idle;
  decided_ = true;
  if (was_choice) {
    const std::vector<unsigned> best = s.winners();
    s.final.reset();
    s.confirmed = 0;
    choose(best.empty() ? 0 : best[0]);
    s.dropped = static_cast<int>(way);
    return;
  }
  wait_for_check();
}

void Selector::assume(unsigned choice, std::string reason) {
  State& s = state_[0];
  if (choice >= s.ways() || !s.alive[choice])
    throw Error(ErrorKind::Internal, fmt::format("way {} of {} is assumed: there is none", choice, s.ways()));
  s.duel.reset();
  s.phase = State::Phase::Idle;
  s.why.reset();
  s.final.reset();
  s.said = std::move(reason);
  s.dropped = -1;
  s.confirmed = 0;
  choice_ = choice;
  decided_ = true;
  wait_for_check();
}

std::string Selector::reason(const std::vector<std::string>& names) const {
  const State& s = state_[0];
  const std::string chosen = way_name(choice_, names);
  std::string text;
  if (s.phase == State::Phase::Choosing || s.phase == State::Phase::Final) {
    text = fmt::format("{} so far: it is being timed against {}", chosen, way_name(s.second, names));
  } else if (!s.said.empty()) {
    text = s.said;
  } else if (s.dropped >= 0 && (s.only || choice_ == 0)) {
    text = fmt::format("{}: {} cannot be done any more", chosen,
                       way_name(static_cast<unsigned>(s.dropped), names));
  } else if (s.only || !s.why) {
    text = fmt::format("{}: there is no other way", chosen);
  } else if (s.why->untimed) {
    text = fmt::format("{}: {} could not be timed, because other calls came in between again and again",
                       chosen, way_name(s.why->second, names));
  } else if (s.why->second == choice_ && s.why->second_won) {
    text = fmt::format("{}: {}", chosen, in_words(*s.why, way_name(s.why->first, names)));
  } else {
    const double ratio = s.why->of(s.why->by).ratio;
    text = fmt::format("{}: {} takes {}", chosen, way_name(s.why->second, names),
                       in_words(*s.why, way_name(s.why->first, names)));
    if (ratio <= 1 + s.options.margin)
      text += fmt::format("; expected less than {:.2f} to leave {}", 1 - s.options.margin, chosen);
  }
  if (s.final && s.phase != State::Phase::Final) {
    const unsigned other = s.final->second_won ? s.final->first : s.final->second;
    if (s.final->second_won)
      text += "; " + in_words(*s.final, way_name(s.final->first, names));
    else
      text += fmt::format("; {} takes {}", way_name(other, names),
                          in_words(*s.final, way_name(s.final->first, names)));
  }
  if (s.confirmed > 0)
    text +=
        fmt::format("; confirmed {} since", s.confirmed == 1 ? "once" : fmt::format("{} times", s.confirmed));
  if (s.changed > 0)
    text +=
        fmt::format("; changed {} by a check", s.changed == 1 ? "once" : fmt::format("{} times", s.changed));
  return text;
}

std::vector<Alternative> Selector::alternatives(const std::vector<std::string>& names) const {
  const State& s = state_[0];
  std::vector<Alternative> all;
  for (unsigned w = 0; w < s.ways(); ++w) {
    const Timed& t = s.timed[w];
    all.push_back({way_name(w, names), t.us[static_cast<int>(Measure::Latency)],
                   t.us[static_cast<int>(Measure::Period)], t.samples});
  }
  return all;
}

}  // namespace rondo::replay
