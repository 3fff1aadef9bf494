// Threads that stay: a parallel loop over tiles costs a fraction of a microsecond when they are awake.
//
// In: a loop of independent tiles. Out: all of them done when run() returns. The caller is worker 0 and works
// too; tiles are claimed one at a time, so uneven tiles balance. Threads spin for a moment after a loop, then
// sleep. One caller at a time; the loop body must not throw.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo::device {

class ThreadPool {
 public:
  // workers: the caller included, at least 1. Fewer when the machine does not give as many (a note says so).
  explicit ThreadPool(uint32_t workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t workers() const { return static_cast<uint32_t>(threads_.size()) + 1; }

  // body(tile, worker) for every tile in [0, tiles).
  template <class Body>
  void run(uint32_t tiles, const Body& body) {
    if (tiles < 2 || threads_.empty()) {
      for (uint32_t tile = 0; tile < tiles; ++tile) body(tile, 0u);
      return;
    }
    Loop loop;
    loop.tiles = tiles;
    loop.body = &body;
    loop.call = [](const void* b, uint32_t tile, uint32_t worker) {
      (*static_cast<const Body*>(b))(tile, worker);
    };
    run_shared(&loop);
  }

 private:
  struct Loop {
    std::atomic<uint32_t> next{0};
    uint32_t tiles = 0;
    const void* body = nullptr;
    void (*call)(const void* body, uint32_t tile, uint32_t worker) = nullptr;
  };
  static void work(Loop* loop, uint32_t worker);
  void run_shared(Loop* loop);
  void serve(uint32_t worker);

  // A worker enters by active_ += 1 and then reads current_; the caller withdraws current_ and then waits for
  // active_ to be 0. Both orders are sequentially consistent, so either the worker sees nothing or the caller
  // waits for it: a Loop on the caller's stack is never touched after run() returns.
  alignas(64) std::atomic<Loop*> current_{nullptr};
  alignas(64) std::atomic<uint32_t> active_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // of loops; what idle workers watch
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  uint32_t spins_;
  std::vector<std::thread> threads_;
};

}  // namespace rondo::device
