// The driver's error log, which says in words why a call failed (CUDA 12.9): read on failure, marked
// beforehand.
//
// Its lines are "[time][thread][CUDA][E] reason" and then "[...] Returning 900 (CUDA_ERROR_...) from
// cuMemAlloc_v2". Only the second form is relied upon, and where it is not met the line is shown as it is.
#pragma once
#include <cuda.h>

#include <optional>
#include <string>
#include <vector>

#include "rondo/driver/driver.h"

namespace rondo::graph::detail {

struct LogLine {
  unsigned long thread = 0;  // pthread_self() of who failed; 0 = the line does not tell
  std::string text;          // without stamps
};
// "Returning <code> (...) from <call>" of a line.
struct LoggedFailure {
  std::string call;
  CUresult code;
};

std::vector<LogLine> parse_log(std::string_view text);
std::optional<LoggedFailure> failure_of(const LogLine& line);

class DriverLog {
 public:
  // Marks the end of the log as it is now. A driver without a log, or one that does not answer, has no lines.
  explicit DriverLog(const driver::Driver& d) noexcept;
  // What was written since, of the thread that made the mark where lines say whose they are and it has any.
  std::vector<LogLine> lines() const;

 private:
  const driver::Driver* driver_;
  unsigned position_ = 0;
  unsigned long thread_ = 0;
  bool marked_ = false;
};

// What the log says of a call that has just failed: "" or ". The driver's log: <reason>".
std::string log_of_call(const driver::Driver& d, CUresult code, std::string_view call);
// ". The driver's log since the begin of the capture: a; b; and 3 more lines", "" without lines.
std::string show(const std::vector<LogLine>& lines);

// A status that capture answers, other than that it was broken before: 900, 902 to 908.
inline bool breaks_capture(int code) {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
         code != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

}  // namespace rondo::graph::detail
