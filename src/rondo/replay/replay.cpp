// The public face: regions, and the list of all of them.
#include "rondo/replay.h"

#include <cstdlib>
#include <mutex>

#include "rondo/base/options.h"
#include "rondo/replay/region.h"
#include "rondo/replay/report.h"

namespace rondo::replay {
namespace detail {
namespace {

constexpr size_t kMostGone = 1024;

struct Registry {
  std::mutex mutex;
  std::vector<RegionState*> regions;  // in the order of their making
  std::vector<RegionReport> gone;     // of regions that were destroyed
};
// Never destroyed: regions may be static too.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

Policy policy_of(const Options& options) {
  const ReplayPolicy asked = rondo::options().replay;
  if (asked == ReplayPolicy::Never) return Policy::never;
  if (asked == ReplayPolicy::Always) return Policy::always;
  return options.policy;
}

void report_at_exit() {
  static const bool once = [] {
    if (!rondo::options().replay_report.empty())
      std::atexit([] { write_report(rondo::options().replay_report); });  // the registry outlives it
    return true;
  }();
  (void)once;
}

}  // namespace

RegionState::RegionState(std::string n, Options options)
    : name(std::move(n)),
      options_(std::move(options)),
      policy_(policy_of(options_)),
      check_(options_.check_arguments || rondo::options().replay_check),
      fresh_(selector_options(options_)) {
  const driver::Driver& d = driver::driver();
  fast_.is_capturing = d.cuStreamIsCapturing.raw();
  fast_.current_context = d.cuCtxGetCurrent.raw();
  report_at_exit();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.regions.push_back(this);
}

RegionState::~RegionState() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase(r.regions, this);
  if (r.gone.size() < kMostGone && calls_) r.gone.push_back(report());
}

std::vector<RegionReport> all_reports() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::vector<RegionReport> out = r.gone;
  for (RegionState* region : r.regions) out.push_back(region->report());
  return out;
}

}  // namespace detail

RegionBase::RegionBase(std::string name, Options options)
    : state_(std::make_unique<detail::RegionState>(std::move(name), std::move(options))) {}
RegionBase::~RegionBase() = default;

void RegionBase::call(CUstream stream, std::span<const Argument> arguments, const detail::WorkRef& work) {
  state_->call(stream, arguments, work);
}
bool RegionBase::call(CUstream stream, std::span<Argument> arguments, Work& work) {
  return state_->call(stream, arguments, work);
}
RegionReport RegionBase::report() const { return state_->report(); }
const std::string& RegionBase::name() const noexcept { return state_->name; }
void RegionBase::reset() { state_->reset(); }

std::vector<RegionReport> report() { return detail::all_reports(); }

void wait(CUevent event, CUstream stream) {
  const graph::Event outside = graph::Event::borrow(event);
  graph::Stream::borrow(stream).capturing() ? outside.wait_external_in(stream) : outside.wait_in(stream);
}
void record(CUevent event, CUstream stream) {
  const graph::Event outside = graph::Event::borrow(event);
  graph::Stream::borrow(stream).capturing() ? outside.record_external(stream) : outside.record(stream);
}

}  // namespace rondo::replay
