// What a region tells: its report, its events.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rondo/base/trace.h"
#include "rondo/replay/region.h"

namespace rondo::replay::detail {
namespace {

constexpr size_t kMostFallbacks = 16;

const char* word(Policy policy) {
  switch (policy) {
    case Policy::auto_:
      return "auto";
    case Policy::always:
      return "always";
    case Policy::never:
      return "never";
  }
  return "?";
}

}  // namespace

double gain_us(const std::vector<Alternative>& all) {
  if (all.size() < 2) return 0;
  if (all[0].period_us > 0 && all[1].period_us > 0) return all[0].period_us - all[1].period_us;
  if (all[0].latency_us > 0 && all[1].latency_us > 0) return all[0].latency_us - all[1].latency_us;
  return 0;
}

void RegionState::tell(const Entry& e) {
  if (!trace::wants(trace::Level::Info)) return;
  const RegionReport now = summary();
  trace_decision(now, report_of(e));
  told_.tell(now);
}

void RegionState::fall_back(const std::string& text) {
  trace_fallback(name, text);
  fallbacks_.push_back(text);
  if (fallbacks_.size() > kMostFallbacks) fallbacks_.pop_front();
}

RegionReport RegionState::report() {
  const Lock lock(fast_.lock);
  settle();
  return summary();
}

RegionReport RegionState::summary() const {
  RegionReport out;
  out.name = name;
  out.policy = word(policy_);
  out.calls = calls_, out.plain_calls = plain_calls_, out.failures = failures_, out.dropped = dropped_;
  out.replays = replays_, out.patched_nodes = patched_;
  out.recaptures = fresh_.done;
  if (fresh_.calls > kFirstFreshCalls) {
    if (fresh_.failures >= options_.most_failures)
      out.recapture = "plain: " + fresh_.why_not;
    else if (policy_ == Policy::always)
      out.recapture = "recaptured: asked for";
    else if (fresh_.selector.decided())
      out.recapture = fresh_.selector.reason({"plain", "recaptured"});
    else
      out.recapture = "timing";
  }
  out.fallbacks.assign(fallbacks_.begin(), fallbacks_.end());
  std::vector<const Entry*> all;
  for (const auto& [key, entry] : entries_) all.push_back(entry.get());
  std::sort(all.begin(), all.end(),
            [](const Entry* a, const Entry* b) { return a->signature < b->signature; });
  for (const Entry* e : all) {
    out.recordings.push_back(report_of(*e));
  }
  return out;
}

RecordingReport RegionState::report_of(const Entry& e) const {
  RecordingReport r;
  r.signature = e.signature;
  r.alternatives = e.selector.alternatives(kWays);
  switch (e.state) {
    case Entry::State::Plain:
      r.state = e.drops ? "dropped" : "plain so far";
      break;
    case Entry::State::Refused:
      r.state = "refused";
      break;
    case Entry::State::Timing:
      r.state = "timing";
      break;
    case Entry::State::Decided:
      r.state = "decided";
      break;
  }
  r.choice = e.replays_now ? "graph" : "plain";
  r.reason = e.reason + (e.note.empty() ? "" : (e.reason.empty() ? "" : "; ") + e.note);
  if (e.play) {
    r.nodes = e.play->recording().nodes(), r.kernels = e.play->recording().kernels();
    r.slots = e.play->recording().slot_count();
    r.copied_bytes_a_call = e.play->copied_bytes();
  }
  r.patched_nodes = e.patched;
  r.device_bytes = e.device_bytes;
  r.record_ms = e.record_us / 1e3;
  if (const double gain = gain_us(r.alternatives); e.replays_now && gain > 0)
    r.pays_after_calls = std::ceil(e.record_us / gain);
  r.remembered = e.remembered;
  r.plain_calls = e.plain_calls, r.replays = e.replays;
  return r;
}

}  // namespace rondo::replay::detail
