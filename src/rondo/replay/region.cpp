// What a call of a region does: the state of its signature decides.
//
//   Plain -> (came again) record -> Timing -> Decided; Refused where it cannot be recorded. A failure on the
//   way is a plain call and a reason. The lock is never held while the caller's work runs.
//
// region_record.cpp makes and drops recordings, region_choose.cpp times and decides, region_report.cpp tells.
#include "rondo/replay/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "rondo/replay_work.h"

namespace rondo::replay::detail {
namespace {

constexpr size_t kMostEntries = 1024;  // signatures that came again, as far as they are kept
constexpr size_t kSeen = 1024;         // signatures that came once; a power of two
constexpr size_t kMostKnown = 16384;   // hashes of entries, those that are gone included

// What is thrown on the way to a replay makes the call a plain one, whatever it is.
template <class Call>
void of_the_work(const Call& run) {
  try {
    run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorKind::Device, e.what());
  }
}

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
      std::memcmp(arguments.data(), fast_.last, arguments.size_bytes()) == 0 && fast_.until_check != 1)
      [[likely]] {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = nullptr;
    if (fast_.is_capturing(stream, &capturing) == CUDA_SUCCESS &&
        capturing == CU_STREAM_CAPTURE_STATUS_NONE && fast_.current_context(&context) == CUDA_SUCCESS &&
        context == fast_.context) [[likely]] {
      --fast_.until_check;
      if (const CUresult code = fast_.exec->try_launch(stream); code != CUDA_SUCCESS) [[unlikely]] {
        settle();
        Entry* const e = current_.get();
        ++calls_, ++e->calls;
        failed(e, driver::describe(driver::driver(), code));
        return plain(&lock, e, stream, arguments, work);
      }
      ++fast_.replays;
      if (work.replayed) *work.replayed = true;
      return;
    }
  }
  other(&lock, stream, arguments, work);
}

bool RegionState::call(CUstream stream, std::span<Argument> arguments, Work& work) {
  bool replayed = false;
  const auto run = [](void* object, CUstream s, const Argument* a) {
    // They are this call's own, or a copy of these.
    static_cast<Work*>(object)->run(s, const_cast<Argument*>(a), false);
  };
  call(stream, arguments, WorkRef{&work, run, &work, &replayed});
  return replayed;
}

void RegionState::provide(std::span<const Argument> arguments, const WorkRef& work) {
  if (!work.own) return;
  const auto missing = [](const Argument& a) { return a.kind == Kind::Made && !a.value && a.bytes; };
  if (std::none_of(arguments.begin(), arguments.end(), missing)) return;
  of_the_work([&] { work.own->make(const_cast<Argument*>(arguments.data())); });  // the caller's: not const
}

void RegionState::advance(const Entry& e, CUstream stream, const WorkRef& work) {
  if (e.play->stateful() && work.own) of_the_work([&] { work.own->before_launch(stream, false); });
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
void RegionState::other(Lock* lock, CUstream stream, std::span<const Argument> arguments,
                        const WorkRef& work) {
  settle();
  ++calls_;
  Entry* const e = current_.get();
  if (e && (e->replays_now || e->plain_now) && !check_) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = nullptr;
    if (work.own && e->replays_now) {
      try {
        provide(arguments, work);
      } catch (const std::exception& error) {
        failed(e, error.what());
        return plain(lock, e, stream, arguments, work);
      }
    }
    const int fits = e->match(arguments);
    const bool checked = checks() && e->play;
    if (fits >= 0 && fast_.is_capturing(stream, &capturing) == CUDA_SUCCESS &&
        capturing == CU_STREAM_CAPTURE_STATUS_NONE && fast_.current_context(&context) == CUDA_SUCCESS &&
        context == e->key.context && (!checked || !e->selector.count_call())) [[likely]] {
      ++e->calls;
      e->used = ++clock_;
      if (e->plain_now) {
        for (const uint16_t i : e->which_changed) e->last[i] = arguments[i], e->in_place = false;
        return plain(lock, e, stream, arguments, work);
      }
      if (options_.before_replay) {
        const EntryPtr kept = current_;
        before_replay(lock, stream);
        if (e->play && replay(e, stream, arguments, work)) return;
        return plain(lock, e, stream, arguments, work);
      }
      try {
        advance(*e, stream, work);
        const bool in_place = std::exchange(e->in_place, false);
        for (const uint16_t i : e->which_changed) e->last[i] = arguments[i];
        const unsigned patched =
            in_place ? e->play->play(arguments, e->which_changed, stream) : e->play->play(arguments, stream);
        e->patched += patched, patched_ += patched;
        e->in_place = true;
        ++e->replays, ++replays_;
        if (work.replayed) *work.replayed = true;
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

void RegionState::slow(Lock* lock, CUstream stream, std::span<const Argument> arguments,
                       const WorkRef& work) {
  if (policy_ == Policy::never) return plain(lock, nullptr, stream, arguments, work);
  check(arguments);
  if (check_) check_memory(arguments);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (fast_.is_capturing(stream, &capturing) != CUDA_SUCCESS || capturing != CU_STREAM_CAPTURE_STATUS_NONE)
    return plain(lock, nullptr, stream, arguments,
                 work);  // into the capture, or to the error that the driver has for it

  CUcontext context = nullptr;
  (void)fast_.current_context(&context);
  const auto fits = [&](const EntryPtr& e) {
    return e && e->key.context == context && e->match(arguments) >= 0;
  };
  EntryPtr entry = fits(current_) ? current_ : nullptr;
  bool changed = false;
  if (!entry) {
    const auto fixed = fixed_.find(arguments.size());
    static const std::vector<bool> kNone;
    const CallHash call = hash_of(context, arguments, fixed == fixed_.end() ? kNone : fixed->second);
    const auto known = known_.find(call.shape);
    if (known != known_.end()) {
      if (fits(known->second)) entry = known->second;
    } else if ((options_.plain_calls > 0 || fixed != fixed_.end()) &&
               !(fixed != fixed_.end() && recorded_unfixed(context, arguments))) {
      if (!came_before(call, &changed)) return fresh(lock, nullptr, stream, arguments, work);
    }
    if (!entry) {
      if (known_.size() >= kMostKnown) known_.clear();  // they are found again at their second call from now
      known_[call.shape] = entry = find(context, arguments);
    }
  }
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
  e->which_changed.resize(arguments.size());
  std::iota(e->which_changed.begin(), e->which_changed.end(), uint16_t{0});
  if (any_overlapping(arguments, e->which_changed, &e->scratch)) {
    current_ = nullptr;
    for (size_t i = 0; i < arguments.size() && e->reason.empty(); ++i)
      if (const int other = overlapping(arguments, i); other >= 0)
        e->reason = share_memory(arguments, i, other);
    return plain(lock, e, stream, arguments, work);
  }
  if (e->busy) return plain(lock, e, stream, arguments, work);
  switch (e->state) {
    case Entry::State::Refused:
      return plain(lock, e, stream, arguments, work);
    case Entry::State::Plain:
      if (options_.most_recordings == 0 || options_.most_bytes == 0) {
        if (e->reason.empty()) e->reason = "no recording may be kept: most_recordings or most_bytes is 0";
        return plain(lock, e, stream, arguments, work);
      }
      if (e->calls <= options_.plain_calls || e->calls < e->record_at)
        return fresh(lock, entry, stream, arguments, work);
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
        if (e->play && replay(e, stream, arguments, work)) return;
      }
      return plain(lock, e, stream, arguments, work);
  }
}

void RegionState::plain(Lock* lock, Entry* entry, CUstream stream, std::span<const Argument> arguments,
                        const WorkRef& work) {
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

bool RegionState::replay(Entry* e, CUstream stream, std::span<const Argument> arguments,
                         const WorkRef& work) {
  try {
    provide(arguments, work);
    advance(*e, stream, work);
    const unsigned patched = e->play->play(arguments, stream);
    e->patched += patched, patched_ += patched;
    e->in_place =
        e->last.size() == arguments.size() && std::equal(arguments.begin(), arguments.end(), e->last.begin());
    ++e->replays, ++replays_;
    if (work.replayed) *work.replayed = true;
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

RegionState::EntryPtr RegionState::find(CUcontext context, std::span<const Argument> arguments) {
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
      const auto oldest =
          std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
            return std::pair(a.second->busy || a.second->block.open, a.second->used) <
                   std::pair(b.second->busy || b.second->block.open, b.second->used);
          });
      for (auto& [shape, known] : known_)
        if (known == oldest->second) known = nullptr;
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

void RegionState::check_memory(std::span<const Argument> arguments) const {
  const driver::Driver& d = driver::driver();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (!a.buffer() || !a.value || !a.bytes) continue;
    unsigned type = 0;
    for (const uint64_t at : {a.value, a.value + a.bytes - 1})
      if (d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS)
        throw Error(
            ErrorKind::Usage,
            fmt::format(
                "region {}: {} at {:#x} is no memory that the driver knows, or not all of it: it was freed, "
                "is smaller, or is ordinary host memory",
                name, describe_argument(arguments, i), a.value));
  }
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
