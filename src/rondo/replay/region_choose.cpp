// Which way a region's calls go: timed on live calls, decided by itself or with its group.
#include <fmt/format.h>

#include "rondo/replay/costs.h"
#include "rondo/replay/decisions.h"
#include "rondo/replay/region.h"

namespace rondo::replay::detail {
namespace {

constexpr unsigned kMostForeign = 64;  // then a block that is not ended is given up

// Breaks no capture of somebody else.
void wait(CUstream stream) {
  const graph::RelaxedScope relaxed;
  graph::Stream::borrow(stream).synchronize();
}

}  // namespace

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

void RegionState::time(Lock* lock, const EntryPtr& entry, CUstream stream,
                       std::span<const Argument> arguments, const WorkRef& work) {
  Entry* const e = entry.get();
  timed(lock, &e->block, &e->selector, stream, [&](unsigned way) {
    if (way == 1 && e->play) {
      before_replay(lock, stream);
      if (e->play && replay(e, stream, arguments, work)) return true;
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
  const bool usable = options_.recapture && !fresh_.busy && fresh_.failures < options_.most_failures &&
                      steered_ < 0 && !options_.before_replay && !work.own;
  if (!usable || ++fresh_.calls <= kFirstFreshCalls) return plain(lock, e, stream, arguments, work);
  // Nothing proves these calls: work that goes partly elsewhere would be done in another order. So one is
  // proved first.
  if (!fresh_.trusted && options_.proof != Proof::off) {
    if (!entry) {
      CUcontext context = nullptr;
      (void)fast_.current_context(&context);
      entry = find(context, arguments);
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

bool RegionState::recapture(Lock* lock, CUstream stream, std::span<const Argument> arguments,
                            const WorkRef& work) {
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

}  // namespace rondo::replay::detail
