// Threads that walk instances, with stacks for very deep recursion, and the caller's own stack where that is enough.
//
// Walking on the caller costs no thread switch, which is what a small batch of ordinary trees wants. Generated code
// looks at the address of its frames (abi::Recorder::stack_limit), so running out is a clean exception.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <pthread.h>

namespace rondo::batch {

class Walkers {
 public:
  // stack_bytes: of a thread; address space, committed as it is touched. Smaller ones are tried when it is refused.
  explicit Walkers(unsigned most, size_t stack_bytes = size_t{512} << 20);
  ~Walkers();
  Walkers(const Walkers&) = delete;
  Walkers& operator=(const Walkers&) = delete;

  unsigned most() const { return most_; }
  // Lowest address that the calling thread's frames may use; null when its stack is unknown or nearly used up.
  static const char* caller_limit();
  // Runs work(i, stack limit) for i of 0 .. count-1, 0 on the calling thread when `caller` is its limit and not null.
  // Waits for all; throws what the lowest i threw.
  using Work = std::function<void(unsigned, const char*)>;
  void run(unsigned count, const char* caller, const Work& work);

 private:
  struct Thread {
    Walkers* owner;
    unsigned number;
    pthread_t handle;
  };
  static void* start(void* thread);
  void serve(unsigned number, const char* limit);
  void add_thread();

  unsigned most_;
  size_t stack_bytes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  uint64_t round_ = 0;         // of work
  unsigned first_ = 0, count_ = 0, running_ = 0;
  bool stop_ = false;
  const Work* work_ = nullptr;
  std::vector<std::exception_ptr> failures_;
};

}  // namespace rondo::batch
