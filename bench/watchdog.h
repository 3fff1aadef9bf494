// Says where a benchmark stands that does not come to its end: after `patience` seconds in one step the name
// of the step and the calling thread's stack go to stderr, and the process ends with exit code 3. A stack is
// printed as binary(+offset): addr2line -Cfie BINARY OFFSET reads it.
#pragma once
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace bench {

class Watchdog {
 public:
  explicit Watchdog(double patience) : patience_(patience), watched_(pthread_self()) {
    void* frame;
    backtrace(&frame, 1);  // loads what it needs: not from the handler
    struct sigaction act = {};
    act.sa_handler = [](int) {
      void* frames[64];
      backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    };
    sigaction(SIGUSR2, &act, nullptr);
    thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void step(std::string name) {
    const std::lock_guard lock(mutex_);
    step_ = std::move(name);
    since_ = std::chrono::steady_clock::now();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, std::chrono::milliseconds(500));
      if (over_ || std::chrono::steady_clock::now() - since_ < std::chrono::duration<double>(patience_))
        continue;
      std::fprintf(stderr, "no end of '%s' in %g s; it stands at:\n", step_.c_str(), patience_);
      for (int i = 0; i < 3; ++i) {
        pthread_kill(watched_, SIGUSR2);
        std::this_thread::sleep_for(std::chrono::seconds(1));
        std::fprintf(stderr, "--\n");
      }
      std::fflush(nullptr);
      _exit(3);
    }
  }

  const double patience_;
  const pthread_t watched_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::string step_ = "start";
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

}  // namespace bench
