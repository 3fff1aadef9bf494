#include <chrono>

#include "rondo/base/trace.h"
#include "rondo/replay/joint.h"
#include "rondo/replay/region.h"
#include "rondo/replay_group.h"

namespace rondo::replay {
namespace detail {
namespace {
// Steps until each region has its recording; then those that have none are taken as plain.
constexpr unsigned kMostWarmSteps = 64;

// Then the step is only the caller's calls.
bool captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver::driver().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// False: what went wrong is for the caller's own calls to say, and the block is timed another time.
bool waited(CUstream stream) {
  try {
    const graph::RelaxedScope relaxed;
    graph::Stream::borrow(stream).synchronize();
    return true;
  } catch (const Error&) {
    return false;
  }
}

SelectorOptions options_of(Goal goal) {
  SelectorOptions out;
  out.goal = goal;
  return out;
}
}  // namespace

class GroupState {
 public:
  GroupState(std::string n, std::vector<RegionState*> all, Goal goal)
      : name(std::move(n)),
        regions(std::move(all)),
        selector(static_cast<unsigned>(regions.size()), 2, options_of(goal)) {}

  // Each has a recording for what it is called with, or never will.
  bool warm() {
    if (is_warm) return true;
    bool all = ++warm_steps > 1;
    for (size_t i = 0; i < regions.size(); ++i) {
      const RegionState::Readiness r = regions[i]->ready();
      all = all && r != RegionState::Readiness::NotYet;
    }
    if (!all && warm_steps < kMostWarmSteps) return false;
    for (size_t i = 0; i < regions.size(); ++i)
      if (regions[i]->ready() != RegionState::Readiness::Ready) selector.drop(static_cast<unsigned>(i), 1);
    return is_warm = true;
  }
  uint64_t made() const {
    uint64_t sum = 0;
    for (const RegionState* r : regions) sum += r->made();
    return sum;
  }
  void apply(std::span<const unsigned> ways) {
    for (size_t i = 0; i < regions.size(); ++i) regions[i]->steer(static_cast<int>(ways[i]));
  }
  std::string reason() const {
    std::vector<std::string> names;
    for (const RegionState* r : regions) names.push_back(r->name);
    return selector.reason(names, {"plain", "graph"});
  }

  const std::string name;
  const std::vector<RegionState*> regions;
  JointSelector selector;
  unsigned warm_steps = 0;
  bool is_warm = false, settled = false;
  JointStep step;
  bool timing = false, open = false;
  uint64_t made_before = 0;
  std::chrono::steady_clock::time_point start;
};

}  // namespace detail

Group::Group(std::string name, std::vector<RegionBase*> regions, Goal goal) {
  if (regions.empty()) throw Error(ErrorKind::Usage, "group " + name + " has no regions");
  std::vector<detail::RegionState*> all;
  for (RegionBase* r : regions)
    if (!r) throw Error(ErrorKind::Usage, "group " + name + " was given a null pointer. Expected regions");
  for (RegionBase* r : regions) {
    if (!r->state_->join()) {
      for (detail::RegionState* joined : all) joined->leave(), joined->steer(-1);
      throw Error(ErrorKind::Usage,
                  "region " + r->name() + " is in a group already: a region is in one at most");
    }
    all.push_back(r->state_.get());
  }
  state_ = std::make_unique<detail::GroupState>(std::move(name), std::move(all), goal);
}

Group::~Group() {
  for (detail::RegionState* r : state_->regions) {
    r->leave();
    if (!state_->settled) r->steer(-1);  // nothing was chosen: each decides by itself
  }
}

void Group::begin(CUstream stream) {
  detail::GroupState& s = *state_;
  s.timing = false;
  if (s.settled || detail::captured(stream) || !s.warm()) return;
  s.step = s.selector.next();
  s.apply(s.step.ways);
  s.timing = true;
  s.made_before = s.made();
  if (!s.step.begins) return;
  if (!detail::waited(stream)) return abandon();
  s.open = true;
  s.start = std::chrono::steady_clock::now();
}

void Group::end(CUstream stream) {
  detail::GroupState& s = *state_;
  if (!s.timing) return;
  if (s.made() != s.made_before) return abandon();  // something was recorded or failed meanwhile
  if (s.step.ends && s.open) {
    if (!detail::waited(stream)) return abandon();
    s.open = false;
    s.selector.finish(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - s.start).count());
  }
  if (!s.selector.decided()) return;
  s.settled = true;
  s.apply(s.selector.assignment());
  trace::note(trace::Level::Info, "replay.decided", s.name + ": " + s.reason());
}

void Group::abandon() noexcept {
  detail::GroupState& s = *state_;
  if (s.open || s.timing) s.selector.abandon();
  s.open = s.timing = false;
}

bool Group::decided() const { return state_->settled; }
std::string Group::reason() const { return state_->reason(); }

}  // namespace rondo::replay
