// What a call of a region does: the state of its signature decides.
//
//   Plain -> (came again) record -> Timing -> Decided; Refused where it cannot be recorded. A failure on the way is a
//   plain call and a reason. The lock is never held while the caller's work runs.
#include "rondo/replay/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rondo/base/trace.h"
#include "rondo/replay/costs.h"
#include "rondo/replay/decisions.h"

namespace rondo::replay::detail {
namespace {

constexpr size_t kMostEntries = 1024;   // signatures that are remembered at all
constexpr size_t kSeen = 1024;          // signatures that came once; a power of two
constexpr size_t kMostKnown = 16384;    // hashes of entries, those that are gone included
constexpr size_t kMostFallbacks = 16;
constexpr unsigned kMostSharers = 8;    // recordings in one exec, on average
constexpr uint64_t kFirstFreshCalls = 8;  // of new signatures are plain
constexpr unsigned kMostForeign = 64;   // then a block that is not ended is given up
constexpr uint64_t kLeastCallsAgain = 8;  // before a dropped recording is made again; doubled each time


// Breaks no capture of somebody else.
void wait(CUstream stream) {
  const graph::RelaxedScope relaxed;
  graph::Stream::borrow(stream).synchronize();
}

double since_us(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

const char* word(Policy policy) {
  switch (policy) {
    case Policy::auto_: return "auto";
    case Policy::always: return "always";
    case Policy::never: return "never";
  }
  return "?";
}

// What a call gains by replay, by the measure that was taken; 0 when none was.
double gain_us(const std::vector<Alternative>& all) {
  if (all.size() < 2) return 0;
  if (all[0].period_us > 0 && all[1].period_us > 0) return all[0].period_us - all[1].period_us;
  if (all[0].latency_us > 0 && all[1].latency_us > 0) return all[0].latency_us - all[1].latency_us;
  return 0;
}

const std::vector<std::string> kWays = {"plain", "graph"};

}  // namespace

SelectorOptions selector_options(const Options& options) {
  SelectorOptions out;
  out.goal = options.goal;
  return out;
}

int Entry::match(std::span<const Argument> arguments) noexcept {
  if (arguments.size() != last.size()) return -1;
  which_changed.clear();
  if (arguments.empty() || std::memcmp(arguments.data(), last.data(), arguments.size_bytes()) == 0) return 0;
  for (size_t i = 0; i < last.size(); ++i) {
    if (arguments[i] == last[i]) continue;
    if (!same_shape(arguments[i], last[i], i < fixed.size() && fixed[i])) return -1;
    which_changed.push_back(static_cast<uint16_t>(i));
  }
  return any_overlapping(arguments, which_changed, &scratch) ? -1 : 1;
}

// ---------------------------------------------------------------- a call

void RegionState::call(CUstream stream, std::span<const Argument> arguments, const WorkRef& work) {
  Lock lock(fast_.lock);
  if (fast_.ready && arguments.size() == fast_.count &&
      std::memcmp(arguments.data(), fast_.last, arguments.size_bytes()) == 0 && fast_.until_check != 1) [[likely]] {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = nullptr;
    if (fast_.is_capturing(stream, &capturing) == CUDA_SUCCESS && capturing == CU_STREAM_CAPTURE_STATUS_NONE &&
        fast_.current_context(&context) == CUDA_SUCCESS && context == fast_.context) [[likely]] {
      --fast_.until_check;
      if (const CUresult code = fast_.exec->try_launch(stream); code != CUDA_SUCCESS) [[unlikely]] {
        settle();
        Entry* const e = current_.get();
        ++calls_, ++e->calls;
        failed(e, driver::describe(driver::driver(), code));
        return plain(&lock, e, stream, arguments, work);
      }
      ++fast_.replays;
      return;
    }
  }
  other(&lock, stream, arguments, work);
}

void RegionState::arm(Entry* e) noexcept {
  if (!e->in_place || !e->replays_now || check_ || options_.before_replay || current_.get() != e) return;
  fast_.exec = e->play->exec();
  if (!fast_.exec) return;
  fast_.count = static_cast<uint32_t>(e->last.size());
  fast_.last = e->last.data();
  fast_.context = e->key.context;
  fast_.until_check = checks() ? e->selector.calls_until_check() : 0;
  fast_.replays = 0;
  fast_.ready = true;
}

void RegionState::settle() noexcept {
  if (!fast_.ready) return;
  fast_.ready = false;
  Entry* const e = current_.get();
  const uint64_t n = std::exchange(fast_.replays, 0);
  calls_ += n, e->calls += n, e->replays += n, replays_ += n;
  if (checks()) e->selector.counted(n);
  if (n) e->used = ++clock_;
}

// The lock again, after the caller's work: other calls may have come in between.
void RegionState::again(Lock* lock) noexcept {
  lock->lock();
  settle();
}

// Not the arguments of the last call, or no graph.
void RegionState::other(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work) {
  settle();
  ++calls_;
  Entry* const e = current_.get();
  if (e && (e->replays_now || e->plain_now) && !check_) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = nullptr;
    const int fits = e->match(arguments);
    const bool checked = checks() && e->play;
    if (fits >= 0 && fast_.is_capturing(stream, &capturing) == CUDA_SUCCESS && capturing == CU_STREAM_CAPTURE_STATUS_NONE &&
        fast_.current_context(&context) == CUDA_SUCCESS && context == e->key.context &&
        (!checked || !e->selector.count_call())) [[likely]] {
      ++e->calls;
      e->used = ++clock_;
      if (e->plain_now) {
        for (const uint16_t i : e->which_changed) e->last[i] = arguments[i], e->in_place = false;
        return plain(lock, e, stream, arguments, work);
      }
      if (options_.before_replay) {
        const EntryPtr kept = current_;
        before_replay(lock, stream);
        if (e->play && replay(e, stream, arguments)) return;
        return plain(lock, e, stream, arguments, work);
      }
      try {
        const bool in_place = std::exchange(e->in_place, false);
        for (const uint16_t i : e->which_changed) e->last[i] = arguments[i];
        const unsigned patched =
            in_place ? e->play->play(arguments, e->which_changed, stream) : e->play->play(arguments, stream);
        e->patched += patched, patched_ += patched;
        e->in_place = true;
        ++e->replays, ++replays_;
        return arm(e);
      } catch (const PartlyDone& error) {
        failed(e, error.what());
        throw;
      } catch (const OtherMemory& error) {
        fall_back(fmt::format("{} ({}): {}", name, e->signature, error.what()));
      } catch (const Error& error) {
        failed(e, error.what());
      }
      return plain(lock, e, stream, arguments, work);
    }
  }
  slow(lock, stream, arguments, work);
}

void RegionState::slow(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work) {
  if (policy_ == Policy::never) return plain(lock, nullptr, stream, arguments, work);
  check(arguments);
  if (check_) check_memory(arguments);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (fast_.is_capturing(stream, &capturing) != CUDA_SUCCESS || capturing != CU_STREAM_CAPTURE_STATUS_NONE)
    return plain(lock, nullptr, stream, arguments, work);  // into the capture, or to the error that the driver has for it

  CUcontext context = nullptr;
  (void)fast_.current_context(&context);
  bool changed = false;
  if (options_.plain_calls > 0 && !(current_ && current_->key.context == context && current_->match(arguments) >= 0)) {
    const auto fixed = fixed_.find(arguments.size());
    static const std::vector<bool> kNone;
    const CallHash call = hash_of(context, arguments, fixed == fixed_.end() ? kNone : fixed->second);
    if (!known_.contains(call.shape) && !(fixed != fixed_.end() && recorded_unfixed(context, arguments))) {
      if (!came_before(call, &changed)) return fresh(lock, nullptr, stream, arguments, work);
      known_.insert(call.shape);
    }
  }
  const EntryPtr entry = find(stream, arguments);
  Entry* const e = entry.get();
  if (e->calls == 0 && options_.plain_calls > 0) {  // the first call is known by its hash only
    e->calls = 1;
    for (size_t i = 0; i < arguments.size(); ++i) e->changes[i] = changed && arguments[i].buffer();
  } else {
    for (size_t i = 0; i < arguments.size() && e->calls > 0; ++i)
      e->changes[i] = arguments[i].buffer() && arguments[i].value != e->last[i].value;
  }
  std::copy(arguments.begin(), arguments.end(), e->last.begin());
  e->in_place = false;
  ++e->calls;
  e->used = ++clock_;
  current_ = entry;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const int other = overlapping(arguments, i); other >= 0) {
      current_ = nullptr;
      if (e->reason.empty())
        e->reason = fmt::format("{} and {} share memory: pass it once, as inout", describe_argument(arguments, i),
                                describe_argument(arguments, static_cast<size_t>(other)));
      return plain(lock, e, stream, arguments, work);
    }
  if (e->busy) return plain(lock, e, stream, arguments, work);
  switch (e->state) {
    case Entry::State::Refused: return plain(lock, e, stream, arguments, work);
    case Entry::State::Plain:
      if (options_.most_recordings == 0 || options_.most_bytes == 0) {
        if (e->reason.empty()) e->reason = "no recording may be kept: most_recordings or most_bytes is 0";
        return plain(lock, e, stream, arguments, work);
      }
      if (e->calls <= options_.plain_calls || e->calls < e->record_at) return fresh(lock, entry, stream, arguments, work);
      return record_now(lock, entry, stream, arguments, work);
    case Entry::State::Timing:
      if (checks()) return time(lock, entry, stream, arguments, work);
      e->block.open = false;
      e->state = Entry::State::Decided;
      direct(e);
      [[fallthrough]];
    case Entry::State::Decided:
      if (checks() && e->play && (!e->selector.decided() || e->selector.count_call())) {
        e->state = Entry::State::Timing;
        e->replays_now = e->plain_now = false;
        return time(lock, entry, stream, arguments, work);
      }
      if (e->play && e->replays_now) {
        before_replay(lock, stream);
        if (e->play && replay(e, stream, arguments)) return;
      }
      return plain(lock, e, stream, arguments, work);
  }
}

void RegionState::plain(Lock* lock, Entry* entry, CUstream stream, std::span<const Argument> arguments, const WorkRef& work) {
  ++plain_calls_;
  if (entry) ++entry->plain_calls;
  lock->unlock();
  work(stream, arguments.data());
}

void RegionState::before_replay(Lock* lock, CUstream stream) {
  if (!options_.before_replay) return;
  lock->unlock();
  options_.before_replay(stream);
  again(lock);
}

bool RegionState::replay(Entry* e, CUstream stream, std::span<const Argument> arguments) {
  try {
    const unsigned patched = e->play->play(arguments, stream);
    e->patched += patched, patched_ += patched;
    e->in_place = e->last.size() == arguments.size() && std::equal(arguments.begin(), arguments.end(), e->last.begin());
    ++e->replays, ++replays_;
    arm(e);
    return true;
  } catch (const PartlyDone& error) {
    failed(e, error.what());
    throw;
  } catch (const OtherMemory& error) {
    fall_back(fmt::format("{} ({}): {}", name, e->signature, error.what()));
    return false;
  } catch (const Error& error) {
    failed(e, error.what());
    return false;
  }
}

// Scalars that some recording found to belong to the signature need not do so in another one.
bool RegionState::recorded_unfixed(CUcontext context, std::span<const Argument> arguments) const {
  const auto at = entries_.find(key_of(context, arguments, {}));
  return at != entries_.end() && at->second->play;
}

bool RegionState::came_before(const CallHash& call, bool* changed) {
  if (known_.size() > kMostKnown) known_.clear();  // they are found again at their second call from now
  if (seen_.empty()) seen_.resize(kSeen);
  Seen* const two = &seen_[call.shape >> 16 & (kSeen - 2)];
  for (Seen* s : {two, two + 1}) {
    if (s->shape != call.shape) continue;
    *changed = s->values != call.values;
    *s = {};
    return true;
  }
  two[1] = two[0];
  two[0] = {call.shape, call.values};
  return false;
}

RegionState::EntryPtr RegionState::find(CUstream, std::span<const Argument> arguments) {
  CUcontext context = nullptr;
  (void)fast_.current_context(&context);
  if (current_ && current_->key.context == context && current_->match(arguments) >= 0) return current_;
  // Scalars that some recording found to belong to the signature do so everywhere.
  std::vector<bool> fixed(arguments.size());
  if (const auto same = fixed_.find(arguments.size()); same != fixed_.end()) fixed = same->second;
  Key key = key_of(context, arguments, {});
  auto at = entries_.find(key);
  if (at != entries_.end() && at->second->play) return at->second;  // ... but where they were found
  key = key_of(context, arguments, fixed);
  at = entries_.find(key);
  if (at == entries_.end()) {
    if (entries_.size() >= kMostEntries) {
      const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second->busy || a.second->block.open, a.second->used) < std::pair(b.second->busy || b.second->block.open, b.second->used);
      });
      entries_.erase(oldest);
    }
    auto entry = std::make_shared<Entry>(key, describe(key.shape), selector_options(options_));
    entry->last.assign(arguments.begin(), arguments.end());
    entry->which_changed.reserve(arguments.size());
    entry->scratch.reserve(arguments.size());
    entry->changes.assign(arguments.size(), false);
    entry->fixed = std::move(fixed);
    at = entries_.emplace(std::move(key), std::move(entry)).first;
  }
  return at->second;
}

// ---------------------------------------------------------------- recording

void RegionState::record_now(Lock* lock, const EntryPtr& entry, CUstream stream, std::span<const Argument> arguments,
                             const WorkRef& work) {
  Entry* const e = entry.get();
  e->busy = true;
  RecordOptions how{options_.proof, options_.tolerance, options_.staging, options_.host_tables, e->fixed, e->changes};
  const auto start = std::chrono::steady_clock::now();
  lock->unlock();
  Recorded made;
  std::optional<Decision> before;
  try {
    const trace::Span span("replay.record", trace::wants(trace::Level::Debug) ? name + ": " + e->signature : "");
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
    fall_back(fmt::format("{} ({}) stays plain{}: {}", name, e->signature, again ? " for now" : "", made.reason));
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
    if (const auto at = entries_.find(e->key); at != entries_.end() && at->second == entry) entries_.erase(at);
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
  if (!e->play || !replay(e, stream, arguments)) plain(lock, e, stream, arguments, work);
}

// Too many execs: the newest takes the place of the one that was used longest ago, in its exec where the graphs are alike
// (then both stay, and each switch costs an update), else instead of it.
void RegionState::make_room(Entry* newest) {
  for (;;) {
    uint64_t bytes = 0;
    std::unordered_map<uint64_t, uint64_t> execs;
    size_t recordings = 0;
    Entry* victim = nullptr;
    const auto rank = [](const Entry* e) { return std::pair(e->replays_now || e->state == Entry::State::Timing, e->used); };
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
    if (!victim || (!too_large && !too_many && recordings <= size_t{kMostSharers} * options_.most_recordings)) return;
    if ((too_large || too_many) && newest->play->recording().exec_number() != victim->play->recording().exec_number() &&
        !newest->play->copies() && shared(newest, victim))
      continue;
    drop(victim, too_large ? fmt::format("recordings take {} bytes of at most {}", bytes, options_.most_bytes)
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
  newest->note += std::string(newest->note.empty() ? "" : "; ") + "shares the executable graph of " + with->signature;
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
  const auto least = std::max<uint64_t>(kLeastCallsAgain, needed < 1e6 ? static_cast<uint64_t>(needed) : 1000000);
  e->record_at = e->calls + (least << std::min(e->drops, 16u));
  e->selector = Selector(2, selector_options(options_));
  e->reason = "dropped: " + why;
}

// ---------------------------------------------------------------- choosing

template <class Ways>
void RegionState::timed(Lock* lock, Block* block, Selector* selector, CUstream stream, const Ways& ways) {
  const auto self = std::this_thread::get_id();
  if (block->open && (block->thread != self || block->stream != stream)) {
    if (++block->foreign < kMostForeign) {
      (void)ways(0);
      return;
    }
    block->open = false;
    selector->abandon();
  }
  // Others may have given the block up meanwhile, and begun one of their own.
  const auto mine = [&] { return block->open && block->thread == self && block->stream == stream; };
  const auto give_up = [&] {
    if (!mine()) return;
    selector->abandon();
    block->open = false;
  };
  const auto waited = [&] {
    lock->unlock();
    bool well = true;
    try {
      wait(stream);
    } catch (const Error&) {
      well = false;  // the caller's own wait will say it
    }
    const auto now = std::chrono::steady_clock::now();
    again(lock);
    return std::pair(well, now);
  };
  const Step step = selector->next();
  if (step.begins) {
    block->open = true;
    block->foreign = 0;
    block->thread = self;
    block->stream = stream;
    if (!waited().first) give_up();
    if (mine()) block->start = std::chrono::steady_clock::now();
  }
  try {
    if (!ways(step.way)) give_up();
  } catch (...) {
    if (!lock->owns_lock()) again(lock);
    give_up();
    throw;
  }
  if (!step.ends || !mine()) return;
  const auto [well, now] = waited();
  if (!mine()) return;
  block->open = false;
  if (well)
    selector->finish(std::chrono::duration<double, std::micro>(now - block->start).count());
  else
    selector->abandon();
}

void RegionState::time(Lock* lock, const EntryPtr& entry, CUstream stream, std::span<const Argument> arguments,
                       const WorkRef& work) {
  Entry* const e = entry.get();
  timed(lock, &e->block, &e->selector, stream, [&](unsigned way) {
    if (way == 1 && e->play) {
      before_replay(lock, stream);
      if (e->play && replay(e, stream, arguments)) return true;
    }
    plain(lock, e, stream, arguments, work);
    again(lock);
    return way == 0;
  });
  if (e->selector.decided() && e->state == Entry::State::Timing) decided(e, lock);
}

void RegionState::fresh(Lock* lock, EntryPtr entry, CUstream stream, std::span<const Argument> arguments,
                        const WorkRef& work) {
  Entry* e = entry.get();
  const bool usable = options_.recapture && !fresh_.busy && fresh_.failures < options_.most_failures && steered_ < 0 &&
                      !options_.before_replay;
  if (!usable || ++fresh_.calls <= kFirstFreshCalls) return plain(lock, e, stream, arguments, work);
  // Nothing proves these calls: work that goes partly elsewhere would be done in another order. So one is proved first.
  if (!fresh_.trusted && options_.proof != Proof::off) {
    if (!entry) {
      entry = find(stream, arguments);
      e = entry.get();
      ++e->calls;
      e->used = ++clock_;
    }
    record_now(lock, entry, stream, arguments, work);
    if (!lock->owns_lock()) again(lock);
    if (fresh_.trusted) return;
    fresh_.failures = e->state == Entry::State::Refused ? options_.most_failures : fresh_.failures + 1;
    fresh_.why_not = "work that is not proved is not captured at each call: " + e->reason;
    return;
  }
  const auto ways = [&](unsigned way) {
    if (way == 1 && recapture(lock, stream, arguments, work)) return true;
    plain(lock, e, stream, arguments, work);
    again(lock);
    return way == 0;
  };
  if (policy_ == Policy::always)
    (void)ways(1);
  else if (!fresh_.selector.decided() || fresh_.selector.count_call())
    timed(lock, &fresh_.block, &fresh_.selector, stream, ways);
  else
    (void)ways(fresh_.selector.choice());
}

bool RegionState::recapture(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work) {
  fresh_.busy = true;
  lock->unlock();
  const bool captured = fresh_.recapture.capture(work, arguments);
  again(lock);
  fresh_.busy = false;
  if (captured && fresh_.recapture.launch(stream)) {
    ++fresh_.done;
    return true;
  }
  ++failures_;
  if (++fresh_.failures >= options_.most_failures) fresh_.selector.drop(1);
  fresh_.why_not = fresh_.recapture.why_not();
  fall_back(fmt::format("{}: a call of a new signature is done plainly: {}", name, fresh_.why_not));
  return false;
}

void RegionState::direct(Entry* e) const noexcept {
  if (e->state != Entry::State::Decided || !e->play) return;
  if (checks() && !e->selector.decided()) {  // by nobody any more: its next call begins to time
    e->replays_now = e->plain_now = false;
    return;
  }
  const bool graph = policy_ == Policy::always || (steered_ >= 0 ? steered_ == 1 : e->selector.choice() == 1);
  e->replays_now = graph;
  e->plain_now = !graph;
}

bool RegionState::join() noexcept {
  const Lock lock(fast_.lock);
  settle();
  if (in_group_) return false;
  in_group_ = true;
  steered_ = 1;
  return true;
}

// What the group chose stays.
void RegionState::leave() noexcept {
  const Lock lock(fast_.lock);
  in_group_ = false;
}

void RegionState::steer(int way) noexcept {
  const Lock lock(fast_.lock);
  if (steered_ == way) return;
  settle();
  steered_ = way;
  for (const auto& [key, entry] : entries_) direct(entry.get());
}

RegionState::Readiness RegionState::ready() const noexcept {
  const Lock lock(fast_.lock);
  if (policy_ == Policy::never) return Readiness::Refused;
  if (!current_ || current_->busy) return Readiness::NotYet;
  if (current_->state == Entry::State::Refused) return Readiness::Refused;
  return current_->play ? Readiness::Ready : Readiness::NotYet;
}

uint64_t RegionState::made() const noexcept {
  const Lock lock(fast_.lock);
  return made_ + failures_;
}

// `keep`: for later processes.
void RegionState::decided(Entry* e, Lock* keep) {
  e->state = Entry::State::Decided;
  const bool graph = e->play && (policy_ == Policy::always || e->selector.choice() == 1);
  e->replays_now = graph;
  e->plain_now = !graph;
  if (policy_ != Policy::always) e->reason = e->selector.reason();
  tell(*e);
  if (!keep || !options_.remember || !e->play) return;
  const DecisionKey key{name, e->signature, machine_name(), e->play->recording().structure()};
  const Decision decision{graph ? "graph" : "plain", e->reason, e->selector.alternatives(kWays)};
  keep->unlock();  // the disk may take its time
  remember(key, decision);
}

void RegionState::failed(Entry* e, const std::string& why) {
  ++failures_;
  ++e->failures;
  fall_back(fmt::format("{} ({}) is done plainly this time: {}", name, e->signature, why));
  if (e->failures < options_.most_failures) return;
  e->play.reset();
  e->device_bytes = 0;
  e->replays_now = false;
  e->plain_now = true;
  e->block.open = false;
  e->state = Entry::State::Refused;
  e->reason = fmt::format("it failed {} times, the last time so: {}", e->failures, why);
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

void RegionState::check_memory(std::span<const Argument> arguments) const {
  const driver::Driver& d = driver::driver();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (!a.buffer() || !a.value || !a.bytes) continue;
    unsigned type = 0;
    for (const uint64_t at : {a.value, a.value + a.bytes - 1})
      if (d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS)
        throw Error(ErrorKind::Usage,
                    fmt::format("region {}: {} at {:#x} is no memory that the driver knows, or not all of it: it was freed, "
                                "is smaller, or is ordinary host memory",
                                name, describe_argument(arguments, i), a.value));
  }
}

// ---------------------------------------------------------------- report

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
  std::sort(all.begin(), all.end(), [](const Entry* a, const Entry* b) { return a->signature < b->signature; });
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
    case Entry::State::Plain: r.state = e.drops ? "dropped" : "plain so far"; break;
    case Entry::State::Refused: r.state = "refused"; break;
    case Entry::State::Timing: r.state = "timing"; break;
    case Entry::State::Decided: r.state = "decided"; break;
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
  if (const double gain = gain_us(r.alternatives); e.replays_now && gain > 0) r.pays_after_calls = std::ceil(e.record_us / gain);
  r.remembered = e.remembered;
  r.plain_calls = e.plain_calls, r.replays = e.replays;
  return r;
}

void RegionState::reset() {
  const Lock lock(fast_.lock);
  settle();
  seen_.clear();
  known_.clear();
  entries_.clear();
  current_ = nullptr;
  fixed_.clear();
}

}  // namespace rondo::replay::detail
