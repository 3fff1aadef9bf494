// Recordings of a region: made, given room, shared, dropped.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rondo/base/trace.h"
#include "rondo/replay/costs.h"
#include "rondo/replay/decisions.h"
#include "rondo/replay/region.h"

namespace rondo::replay::detail {
namespace {

constexpr unsigned kMostSharers = 8;      // recordings in one exec, on average
constexpr uint64_t kLeastCallsAgain = 8;  // before a dropped recording is made again; doubled each time

double since_us(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void RegionState::record_now(Lock* lock, const EntryPtr& entry, CUstream stream,
                             std::span<const Argument> arguments, const WorkRef& work) {
  Entry* const e = entry.get();
  e->busy = true;
  RecordOptions how{options_.proof,       options_.tolerance, options_.staging,
                    options_.host_tables, e->fixed,           e->changes};
  const auto start = std::chrono::steady_clock::now();
  lock->unlock();
  Recorded made;
  std::optional<Decision> before;
  try {
    const trace::Span span("replay.record",
                           trace::wants(trace::Level::Debug) ? name + ": " + e->signature : "");
    made = record(work, arguments, stream, how);
    if (made.playable && options_.remember)
      before = remembered({name, e->signature, machine_name(), made.playable->recording().structure()});
  } catch (...) {
    again(lock);
    e->busy = false;
    ++plain_calls_, ++e->plain_calls;
    throw;
  }
  again(lock);
  e->busy = false;
  e->record_us = since_us(start);
  if (made.called) ++plain_calls_, ++e->plain_calls;
  if (!made.playable) {
    ++failures_;
    ++e->failures;
    e->reason = made.reason;
    ++made_;
    const bool again = made.for_now && e->failures < options_.most_failures;
    if (again)
      e->record_at = e->calls + (kLeastCallsAgain << e->failures);
    else
      e->state = Entry::State::Refused, e->plain_now = true;
    fall_back(
        fmt::format("{} ({}) stays plain{}: {}", name, e->signature, again ? " for now" : "", made.reason));
    if (!made.called) plain(lock, e, stream, arguments, work);
    return;
  }
  if (made.fixed != e->fixed) {
    std::vector<bool>& all = fixed_[arguments.size()];
    all.resize(arguments.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || made.fixed[i];
  }
  fresh_.trusted = true;
  e->play = std::move(made.playable);
  e->note = made.note;
  e->device_bytes = made.device_bytes;
  if (made.fixed != e->fixed) {
    // Live scalars that turned out to be computed with: from now on every value has a recording of its own.
    e->fixed = made.fixed;
    if (const auto at = entries_.find(e->key); at != entries_.end() && at->second == entry)
      entries_.erase(at);
    e->key = key_of(e->key.context, arguments, e->fixed);
    e->signature = describe(e->key.shape);
    entries_[e->key] = entry;
  }
  make_room(e);
  ++made_;
  if (steered_ >= 0) {
    e->state = Entry::State::Decided;
    e->reason = "decided with its group";
    direct(e);
  } else if (policy_ == Policy::always) {
    e->reason = "asked for";
    decided(e, nullptr);
  } else if (before) {
    e->remembered = true;
    e->selector.assume(before->choice == "graph" ? 1 : 0, "remembered: " + before->reason);
    decided(e, nullptr);
  } else {
    e->state = Entry::State::Timing;
  }
  if (made.called) return;
  before_replay(lock, stream);
  if (!e->play || !replay(e, stream, arguments, work)) plain(lock, e, stream, arguments, work);
}

// Too many execs: the newest takes the place of the one that was used longest ago, in its exec where the
// graphs are alike (then both stay, and each switch costs an update), else instead of it.
void RegionState::make_room(Entry* newest) {
  for (;;) {
    uint64_t bytes = 0;
    std::unordered_map<uint64_t, uint64_t> execs;
    size_t recordings = 0;
    Entry* victim = nullptr;
    const auto rank = [](const Entry* e) {
      return std::pair(e->replays_now || e->state == Entry::State::Timing, e->used);
    };
    for (const auto& [key, entry] : entries_) {
      if (!entry->play) continue;
      ++recordings;
      uint64_t& of = execs[entry->play->recording().exec_number()];
      of = std::max(of, entry->device_bytes);
      if (entry.get() == newest || entry->block.open) continue;
      if (!victim || rank(entry.get()) < rank(victim)) victim = entry.get();
    }
    for (const auto& [exec, of] : execs) bytes += of;
    const bool too_large = bytes > options_.most_bytes, too_many = execs.size() > options_.most_recordings;
    if (!victim || (!too_large && !too_many && recordings <= size_t{kMostSharers} * options_.most_recordings))
      return;
    if ((too_large || too_many) &&
        newest->play->recording().exec_number() != victim->play->recording().exec_number() &&
        !newest->play->copies() && shared(newest, victim))
      continue;
    drop(victim, too_large
                     ? fmt::format("recordings take {} bytes of at most {}", bytes, options_.most_bytes)
                     : fmt::format("{} recordings of at most {}", execs.size(), options_.most_recordings));
  }
}

bool RegionState::shared(Entry* newest, Entry* with) {
  try {
    if (!newest->play->share(*with->play)) return false;
  } catch (const Error&) {
    return false;
  }
  newest->in_place = with->in_place = false;
  newest->note +=
      std::string(newest->note.empty() ? "" : "; ") + "shares the executable graph of " + with->signature;
  return true;
}

void RegionState::drop(Entry* e, const std::string& why) {
  e->play.reset();
  e->state = Entry::State::Plain;
  e->replays_now = e->plain_now = false;
  e->device_bytes = 0;
  ++e->drops, ++dropped_;
  // Only a signature that comes often enough for a recording to pay is recorded again.
  const double gain = gain_us(e->selector.alternatives(kWays));
  const double needed = gain > 0 ? std::ceil(e->record_us / gain) : 0;
  const auto least =
      std::max<uint64_t>(kLeastCallsAgain, needed < 1e6 ? static_cast<uint64_t>(needed) : 1000000);
  e->record_at = e->calls + (least << std::min(e->drops, 16u));
  e->selector = Selector(2, selector_options(options_));
  e->reason = "dropped: " + why;
}

}  // namespace rondo::replay::detail
