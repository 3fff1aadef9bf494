#include "rondo/device/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "rondo/base/trace.h"

namespace rondo::device {
namespace {

// About 50 us on current x86 cores (a pause is 10 to 40 ns): longer than what lies between two loops of one
// minibatch.
constexpr uint32_t kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(uint32_t workers) {
  // More workers than processors: spinning would take time from those that work.
  spins_ = workers <= std::thread::hardware_concurrency() ? kSpins : 0;
  threads_.reserve(workers);
  for (uint32_t worker = 1; worker < workers; ++worker) {
    try {
      threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error& e) {
      trace::note(trace::Level::Warn, "device.threads",
                  fmt::format("{} threads instead of {}: {}", worker, workers, e.what()));
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  { const std::lock_guard lock(mutex_); }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::work(Loop* loop, uint32_t worker) {
  for (;;) {
    const uint32_t tile = loop->next.fetch_add(1, std::memory_order_relaxed);
    if (tile >= loop->tiles) return;
    loop->call(loop->body, tile, worker);
  }
}

void ThreadPool::run_shared(Loop* loop) {
  current_.store(loop);
  epoch_.fetch_add(1);
  if (const uint32_t asleep = sleepers_.load()) {
    // Under the lock a worker is either before its last look at the epoch, or waiting.
    { const std::lock_guard lock(mutex_); }
    if (loop->tiles > asleep)
      wake_.notify_all();
    else
      for (uint32_t i = 1; i < loop->tiles; ++i) wake_.notify_one();
  }
  work(loop, 0);
  current_.store(nullptr);
  for (uint32_t spin = 0; active_.load() != 0; ++spin) spin < kSpins ? pause() : std::this_thread::yield();
}

void ThreadPool::serve(uint32_t worker) {
  uint32_t seen = 0;
  for (;;) {
    for (uint32_t spin = 0; spin < spins_ && epoch_.load() == seen; ++spin) pause();
    if (epoch_.load() == seen) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return epoch_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    if (stop_.load()) return;
    seen = epoch_.load();
    active_.fetch_add(1);
    if (Loop* loop = current_.load()) work(loop, worker);
    active_.fetch_sub(1);
  }
}

}  // namespace rondo::device
