// Every call of the run-time and driver APIs of this process while a capture is open, in libraries that
// swallow the status too, through CUPTI: to name the one that broke the capture, and its caller.
//
// CUPTI has one subscriber a process; all captures that are traced share it, and it is given back after the
// last. A call that succeeds costs two callbacks; one that fails is asked about: the capture is broken after
// the call that broke it, and not before.
#pragma once
#include <cuda.h>

#include <memory>
#include <optional>
#include <string>

#include "rondo/driver/driver.h"

namespace rondo::graph::detail {

struct TracedCall {
  std::string call;     // "cudaMalloc": of the run-time API when it was called through that
  CUresult code;        // the two APIs share numbers
  std::string callers;  // describe_callers()
  bool elsewhere;       // on another thread than the one that captures
};

class CallTrace {
 public:
  // Subscribes. Never fails: unavailable() says why nothing will be seen. Before the capture begins and, for
  // the end of the subscription, after it has ended: CUPTI may make calls of its own.
  CallTrace(const driver::Driver& d, CUstream stream);
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  const std::string& unavailable() const noexcept { return unavailable_; }
  // Between these, calls count.
  void start() noexcept;
  void stop() noexcept;
  // After it the capture was broken.
  std::optional<TracedCall> breaker() const;
  // The first that failed at all on the thread that captures.
  std::optional<TracedCall> first_failure() const;

  struct Traced;

 private:
  std::shared_ptr<Traced> traced_;
  std::string unavailable_;
};

}  // namespace rondo::graph::detail
