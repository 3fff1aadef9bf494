#include "rondo/replay/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "rondo/replay/duel.h"

namespace rondo::replay {
namespace {

using Assignment = std::vector<unsigned>;

// One region by another way, or all of them.
struct Change {
  int region = -1;  // -1: all
  unsigned way = 0;
};
struct Tried {
  Change change;
  Outcome outcome;
};

std::string region_name(int region, const std::vector<std::string>& names) {
  if (region < 0) return "all";
  const auto r = static_cast<size_t>(region);
  return r < names.size() ? names[r] : fmt::format("region {}", r);
}

}  // namespace

struct JointSelector::State {
  SelectorOptions options;
  std::vector<std::vector<bool>> alive;  // by region, by way
  Assignment best, candidate;
  std::vector<Change> to_try;  // the next one last
  Change change;
  std::optional<Duel> duel;
  bool decided = false;
  std::vector<Tried> taken;      // that made `best` what it is
  std::optional<Tried> refused;  // the first one that lost: against all plain
  std::vector<Change> dropped;   // from an assignment that was the choice

  Assignment with(const Change& c) const {
    Assignment a = best;
    for (size_t r = 0; r < a.size(); ++r)
      if ((c.region < 0 || c.region == static_cast<int>(r)) && alive[r][c.way]) a[r] = c.way;
    return a;
  }
};

JointSelector::JointSelector(unsigned regions, unsigned ways, SelectorOptions options) : state_(1) {
  if (regions == 0 || ways == 0)
    throw Error(ErrorKind::Internal,
                fmt::format("{} regions by {} ways: expected at least one of each", regions, ways));
  State& s = state_[0];
  s.options = options;
  s.alive.assign(regions, std::vector<bool>(ways, true));
  s.best.assign(regions, 0);
  // Taken from the end. Way 0 is a change for regions that a step before moved away from it.
  for (unsigned r = regions; r-- > 0 && regions > 1;)
    for (unsigned w = ways; w-- > 0;) s.to_try.push_back({static_cast<int>(r), w});
  for (unsigned w = ways; w-- > 1;) s.to_try.push_back({-1, w});
  advance();
}
JointSelector::JointSelector(const JointSelector&) = default;
JointSelector::JointSelector(JointSelector&&) noexcept = default;
JointSelector& JointSelector::operator=(const JointSelector&) = default;
JointSelector& JointSelector::operator=(JointSelector&&) noexcept = default;
JointSelector::~JointSelector() = default;

uint64_t JointSelector::most_steps(unsigned regions, unsigned ways, const SelectorOptions& options) {
  if (ways < 2) return 0;
  const uint64_t duels = uint64_t{ways - 1} * (1 + (regions > 1 ? regions : 0));
  return duels * Duel::most_calls(choosing(options));
}

bool JointSelector::decided() const noexcept { return state_[0].decided; }
std::span<const unsigned> JointSelector::assignment() const noexcept { return state_[0].best; }

JointStep JointSelector::next() {
  State& s = state_[0];
  if (!s.duel) return {s.best, false, false};
  const Duel::Turn turn = s.duel->next();
  if (s.duel->over()) {  // by a block that nobody finished
    go_on();
    return next();
  }
  return {turn.second ? s.candidate : s.best, turn.begins, turn.ends};
}

void JointSelector::finish(double us) {
  if (!state_[0].duel) return;
  state_[0].duel->finish(us);
  go_on();
}

void JointSelector::abandon() {
  if (!state_[0].duel) return;
  state_[0].duel->abandon();
  go_on();
}

void JointSelector::go_on() {
  State& s = state_[0];
  if (!s.duel->over()) return;
  const Tried tried{s.change, s.duel->outcome()};
  s.duel.reset();
  if (tried.outcome.second_won) {
    // The way that the region leaves has lost: it is not tried again.
    const int region = tried.change.region;
    if (region >= 0) {
      const unsigned left = s.best[static_cast<size_t>(region)];
      std::erase_if(s.to_try, [&](const Change& c) { return c.region == region && c.way == left; });
    }
    s.best = s.candidate;
    s.taken.push_back(tried);
  } else if (!s.refused) {
    s.refused = tried;
  }
  advance();
}

void JointSelector::advance() {
  State& s = state_[0];
  while (!s.to_try.empty()) {
    s.change = s.to_try.back();
    s.to_try.pop_back();
    s.candidate = s.with(s.change);
    if (s.candidate == s.best) continue;
    s.duel.emplace(choosing(s.options));
    return;
  }
  s.decided = true;
}

void JointSelector::drop(unsigned region, unsigned way) {
  State& s = state_[0];
  if (region >= s.best.size() || way == 0 || way >= s.alive[region].size())
    throw Error(ErrorKind::Internal,
                fmt::format("way {} of region {} is dropped: expected one of {} regions by way 1 to {}", way,
                            region, s.best.size(), s.alive[0].size() - 1));
  if (!s.alive[region][way]) return;
  s.alive[region][way] = false;
  const bool was_best = s.best[region] == way;
  if (was_best) {
    s.best[region] = 0;
    s.dropped.push_back({static_cast<int>(region), way});
  }
  if (!s.duel || (!was_best && s.candidate[region] != way)) return;
  // What is compared is no longer what it was: the same change again, from where it stands now.
  s.duel.reset();
  s.to_try.push_back(s.change);
  advance();
}

std::string JointSelector::reason(const std::vector<std::string>& regions,
                                  const std::vector<std::string>& ways) const {
  const State& s = state_[0];
  const auto named = [&](const Change& c) {
    return region_name(c.region, regions) + " " + way_name(c.way, ways);
  };
  std::string text;
  if (std::all_of(s.best.begin(), s.best.end(), [&](unsigned w) { return w == s.best[0]; })) {
    text = "all " + way_name(s.best[0], ways);
  } else {
    for (size_t r = 0; r < s.best.size(); ++r)
      text += (r ? ", " : "") + region_name(static_cast<int>(r), regions) + " " + way_name(s.best[r], ways);
  }
  if (!s.decided) text += fmt::format(" so far, {} is being timed", named(s.change));
  std::string why;
  for (const Tried& t : s.taken) {
    const bool first = &t == &s.taken.front();
    why += fmt::format("{}{} {}", first ? "" : "; ", named(t.change),
                       in_words(t.outcome, first ? "all " + way_name(0, ways) : "that", "step"));
  }
  if (s.taken.empty() && s.refused) {
    why = s.refused->outcome.untimed
              ? fmt::format("{} could not be timed, because other calls came in between again and again",
                            named(s.refused->change))
              : fmt::format("{} takes {}", named(s.refused->change),
                            in_words(s.refused->outcome, "all " + way_name(0, ways), "step"));
    if (s.decided && s.best.size() > 1) why += ", and no single region makes it faster";
  }
  if (why.empty() && s.decided && s.dropped.empty()) why = "there is no other way";
  for (const Change& c : s.dropped)
    why += fmt::format("{}{} cannot be done any more", why.empty() ? "" : "; ", named(c));
  return why.empty() ? text : text + ": " + why;
}

}  // namespace rondo::replay
