// Who broke a capture when nobody looked at the status: the sources that WatchCalls chooses from, behind one
// face.
//
// CUPTI tells the call and its caller (call_trace.h), the driver's log the call and often why (driver_log.h).
// Checked calls and checkpoints are the Capture's own. What is found becomes one sentence.
#pragma once
#include <cuda.h>

#include <memory>
#include <optional>
#include <string>

#include "rondo/driver/driver.h"
#include "rondo/graph.h"
#include "rondo/graph/call_trace.h"
#include "rondo/graph/driver_log.h"

namespace rondo::graph::detail {

struct Culprit {
  std::string call;  // "cudaMalloc"
  CUresult code = CUDA_SUCCESS;
  std::string where;          // " called from ..", ", on another thread", ", as the driver's log says"
  bool caller_known = false;  // whose code it was
};

class CallWatch {
 public:
  // Null when there is nothing to watch with: Off, or a driver without a log.
  static std::unique_ptr<CallWatch> make(const driver::Driver& d, CUstream stream, WatchCalls how);
  CallWatch(const driver::Driver& d, CUstream stream, WatchCalls how);

  // Right after the begin of the capture; right before its end.
  void start() noexcept;
  void stop() noexcept;

  WatchCalls how() const noexcept { return how_; }
  std::optional<Culprit> culprit() const;
  // The driver's words, the first call that failed without breaking the capture, and why callers are not
  // known.
  std::string remarks(bool caller_known) const;

 private:
  WatchCalls how_;
  DriverLog log_;
  std::unique_ptr<CallTrace> trace_;
};

// "cudaMalloc (CUDA_ERROR_... (900): ...) called from rmm::alloc (librmm.so)"
std::string describe(const driver::Driver& d, const Culprit& culprit);

// What is known of a capture whose end answered an error.
struct BrokenCapture {
  CUstream stream = nullptr;
  std::string checked_call;  // "cudaMalloc(&p, n) (file.cpp:12)": the first that a check saw fail
  CUresult checked_code = CUDA_SUCCESS;
  std::string stretch;    // "a call between checkpoint .. and ..", when a checkpoint found it broken
  std::string last_good;  // checkpoint
  const CallWatch* watch = nullptr;
};
// Throws Error(Device): what broke it, in whose code, why, and what to do.
[[noreturn]] void fail_end(const driver::Driver& d, CUresult code, const BrokenCapture& capture);

}  // namespace rondo::graph::detail
