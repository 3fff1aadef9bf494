#include "rondo/graph/call_watch.h"

#include <fmt/format.h>

#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/cupti.h"
#include "rondo/graph/state.h"

namespace rondo::graph {
namespace detail {
namespace {

WatchCalls chosen(WatchCalls how) {
  if (how != WatchCalls::Default) return how;
  switch (graph_watch()) {
    case GraphWatch::Off:
      return WatchCalls::Off;
    case GraphWatch::Log:
      return WatchCalls::Log;
    case GraphWatch::Retry:
      return WatchCalls::Retry;
    case GraphWatch::Calls:
      return WatchCalls::Calls;
  }
  return WatchCalls::Log;
}

bool has_log([[maybe_unused]] const driver::Driver& d) {
#if CUDA_VERSION >= 12090
  return d.cuLogsCurrent && d.cuLogsDumpToMemory;
#else
  return false;
#endif
}

// "" or why a retry would tell nothing new.
std::string why_no_trace() {
  try {
    (void)driver::cupti();
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Captures of this thread that ended broken by a caller that is not known.
thread_local unsigned long unexplained = 0;

}  // namespace

std::unique_ptr<CallWatch> CallWatch::make(const driver::Driver& d, CUstream stream, WatchCalls how) {
  how = chosen(how);
  if (how == WatchCalls::Off || (how == WatchCalls::Log && !has_log(d))) return nullptr;
  return std::make_unique<CallWatch>(d, stream, how);
}

CallWatch::CallWatch(const driver::Driver& d, CUstream stream, WatchCalls how) : how_(how), log_(d) {
  if (how_ != WatchCalls::Calls) return;
  trace_ = std::make_unique<CallTrace>(d, stream);
  if (!trace_->unavailable().empty())
    trace::note(trace::Level::Warn, "graph.watch", "calls are not watched: " + trace_->unavailable());
}

void CallWatch::start() noexcept {
  if (trace_ && trace_->unavailable().empty()) trace_->start();
}
void CallWatch::stop() noexcept {
  if (trace_ && trace_->unavailable().empty()) trace_->stop();
}

std::optional<Culprit> CallWatch::culprit() const {
  if (trace_) {
    std::optional<TracedCall> call = trace_->breaker();
    if (!call && (call = trace_->first_failure()) && !breaks_capture(call->code)) call.reset();
    if (call)
      return Culprit{call->call, call->code, call->callers + (call->elsewhere ? ", on another thread" : ""),
                     !call->callers.empty()};
  }
  for (const LogLine& line : log_.lines())
    if (const auto failure = failure_of(line); failure && breaks_capture(failure->code))
      return Culprit{failure->call, failure->code, ", as the driver's log says", false};
  return std::nullopt;
}

std::string CallWatch::remarks(bool caller_known) const {
  std::string out = show(log_.lines());
  if (trace_) {
    const std::optional<TracedCall> first = trace_->first_failure();
    if (!trace_->breaker() && first && !breaks_capture(first->code))
      out += fmt::format(". The first call that failed in it was {}, with {}{}", first->call,
                         static_cast<int>(first->code), first->callers);
  }
  if (caller_known) return out;
  std::string reason;
  if (trace_)
    reason = trace_->unavailable();
  else if (how_ == WatchCalls::Retry)
    reason = why_no_trace();
  if (!reason.empty()) out += ". Callers are not known: " + reason;
  return out;
}

std::string describe(const driver::Driver& d, const Culprit& c) {
  return fmt::format("{} ({}){}", c.call, driver::describe(d, c.code), c.where);
}

void fail_end(const driver::Driver& d, CUresult code, const BrokenCapture& b) {
  const std::optional<Culprit> found = b.watch ? b.watch->culprit() : std::nullopt;
  // A checked call that met an error of its own is the one; one that met 901 came later.
  const bool checked = !b.checked_call.empty() && b.checked_code != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const bool caller_known = checked || (found && found->caller_known);
  const std::string remarks = b.watch ? b.watch->remarks(caller_known) : "";
  if (code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !caller_known && b.watch &&
      b.watch->how() == WatchCalls::Retry && why_no_trace().empty())
    ++unexplained;
  if (code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && (checked || found)) {
    std::string who;
    if (checked) {
      who = fmt::format("{}, which answered {}", b.checked_call, driver::describe(d, b.checked_code));
      if (found && found->caller_known && found->code == b.checked_code) who += "," + found->where;
    } else {
      who = describe(d, *found);
    }
    const std::string why = checked ? explain(b.checked_code, Phase::Capture, b.checked_call)
                                    : explain(found->code, Phase::Capture, found->call);
    throw Error(ErrorKind::Device, fmt::format("the capture of {} was broken by {}{}{}",
                                               describe_stream(b.stream), who, why, remarks));
  }
  std::string context = describe_stream(b.stream);
  if (!b.stretch.empty())
    context += "; broken by " + b.stretch;
  else if (!b.checked_call.empty())
    context += "; it was broken already at " + b.checked_call;
  if (!b.last_good.empty() && b.stretch.empty()) context += "; it was fine at checkpoint " + b.last_good;
  throw Error(ErrorKind::Device,
              fmt::format("cuStreamEndCapture failed: {} [{}]{}{}", driver::describe(d, code), context,
                          explain(code, Phase::Capture, "cuStreamEndCapture"), remarks));
}

unsigned long unexplained_captures() noexcept { return unexplained; }

bool retries(WatchCalls how) { return chosen(how) == WatchCalls::Retry; }

void note_retry(const Error& first) {
  trace::note(trace::Level::Info, "graph.retry",
              std::string("recorded once more, to name the caller: ") + first.what());
}

}  // namespace detail
}  // namespace rondo::graph
