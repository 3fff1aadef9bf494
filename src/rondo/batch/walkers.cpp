#include "rondo/batch/walkers.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "rondo/error.h"

namespace rondo::batch {
namespace {

// Left for what is below a frame of generated code: growing a log, throwing, a signal handler.
constexpr size_t kReserveBytes = size_t{128} << 10;
constexpr size_t kSmallestStack = size_t{8} << 20;

}  // namespace

Walkers::Walkers(unsigned most, size_t stack_bytes) : most_(most < 1 ? 1 : most), stack_bytes_(stack_bytes) {}

Walkers::~Walkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (const auto& thread : threads_) pthread_join(thread->handle, nullptr);
}

const char* Walkers::caller_limit() {
  struct Stack {
    const char* low = nullptr;
    const char* high = nullptr;
    Stack() {
      pthread_attr_t attributes;
      if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
      void* address = nullptr;
      size_t bytes = 0;
      if (pthread_attr_getstack(&attributes, &address, &bytes) == 0) {
        low = static_cast<const char*>(address);
        high = low + bytes;
      }
      pthread_attr_destroy(&attributes);
    }
  };
  static thread_local const Stack stack;
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  // A coroutine has a stack of its own, which this knows nothing about.
  if (!stack.low || here <= stack.low || here >= stack.high) return nullptr;
  return here - stack.low > static_cast<ptrdiff_t>(2 * kReserveBytes) ? stack.low + kReserveBytes : nullptr;
}

void Walkers::add_thread() {
  auto thread = std::make_unique<Thread>();
  thread->owner = this;
  thread->number = static_cast<unsigned>(threads_.size());
  int error = 0;
  for (; stack_bytes_ >= kSmallestStack; stack_bytes_ /= 4) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    error = pthread_attr_setstacksize(&attributes, stack_bytes_);
    if (error == 0) error = pthread_create(&thread->handle, &attributes, start, thread.get());
    pthread_attr_destroy(&attributes);
    if (error == 0) {
      threads_.push_back(std::move(thread));
      return;
    }
  }
  stack_bytes_ = kSmallestStack;
  throw Error(ErrorKind::Unavailable, fmt::format("cannot start a thread to walk instances: {}", std::strerror(error)));
}

void* Walkers::start(void* argument) {
  const Thread* thread = static_cast<Thread*>(argument);
  thread->owner->serve(thread->number, caller_limit());
  return nullptr;
}

void Walkers::serve(unsigned number, const char* limit) {
  std::unique_lock lock(mutex_);
  uint64_t seen = 0;
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || (round_ != seen && first_ + number < count_); });
    if (stop_) return;
    seen = round_;
    const unsigned index = first_ + number;
    const Work& work = *work_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work(index, limit);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failures_[index] = failure;
    if (--running_ == 0) done_.notify_all();
  }
}

void Walkers::run(unsigned count, const char* caller, const Work& work) {
  const unsigned first = caller ? 1 : 0;
  if (count <= first) {  // nothing for threads
    if (count == 1) work(0, caller);
    return;
  }
  while (threads_.size() < count - first) add_thread();
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    first_ = first;
    count_ = count;
    running_ = count - first;
    failures_.assign(count, nullptr);
    ++round_;
  }
  wake_.notify_all();
  std::exception_ptr own;
  if (caller) {
    try {
      work(0, caller);
    } catch (...) {
      own = std::current_exception();
    }
  }
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return running_ == 0; });
    if (caller) failures_[0] = own;
    count_ = 0;
  }
  for (const std::exception_ptr& failure : failures_)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace rondo::batch
