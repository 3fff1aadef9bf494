// Work on a stream becomes a graph, without ever leaving the stream or the thread in a broken state.
//
//     Graph g = capture([&](Capture& c) { step<<<1, 32, 0, c.stream()>>>(p); });
//
// Whatever happens inside, the capture is ended on the stream where it began, the stream takes work again,
// and the last error of the run-time API (where a libcudart is loaded) is clear. When the capture broke, the
// Error says which call did it - a call checked by Capture::check or RONDO_GRAPH_CALL, a call that the
// driver's log or CUPTI saw fail in a library that swallowed the status (WatchCalls), or the stretch between
// two checkpoints - why, and how to mend it. What the caller's code throws comes out after the clean-up.
#pragma once
#include <exception>

#include "rondo/graph_build.h"

namespace rondo::graph {

namespace detail {
struct CaptureStack;
struct RelaxedStack;
class CallWatch;
}  // namespace detail

// How a capture that breaks finds out which call did it when nobody looked at its status. What is recorded is
// the same. docs/graph_diagnosis.md says what each tells.
enum class WatchCalls {
  Default,  // what RONDO_GRAPH_WATCH says (off, log, retry, calls); Log when it is not set
  Off,      // only checked calls and checkpoints
  Log,      // the driver's error log (CUDA 12.9): one short call at the begin, nothing more until it breaks
  // Log; and when capture(work) was broken by a caller that is not known, `work` is called a second time,
  // under Calls. If that goes well, its graph is the result. Not for capture_into, whose graph holds the
  // first try.
  Retry,
  // Every call of both APIs in this process is seen, through CUPTI: names the call and its caller, library
  // and symbol. Makes calls slower, and needs libcupti and no profiler beside it; else it says so and is as
  // Log.
  Calls,
};

struct CaptureOptions {
  // Thread-local: calls of other threads neither disturb nor are disturbed. Global makes innocent calls of
  // other threads fail, Relaxed allows calls that are unsafe in a capture (allocations) on this thread too.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  // Streams that the work may fork to by events of its own: those that are not joined at the end are named.
  // Streams forked by Capture::fork are known anyway.
  std::vector<CUstream> watch;
  // A graph without a node is an Error(Usage): the work went to another stream, or there was none.
  bool refuse_empty = false;
  WatchCalls watch_calls = WatchCalls::Default;
};

// The scope of a capture. Not movable: the stream is captured as long as this lives.
class Capture {
 public:
  // On a stream of its own (non-blocking). Errors: Device, with cause and remedy; Usage for the legacy
  // stream.
  explicit Capture(CaptureOptions options = {});
  // On `stream`, which must not be the legacy stream nor capture already.
  explicit Capture(CUstream stream, CaptureOptions options = {});
  // Into a graph that exists (CUDA 12.3); the first captured nodes wait for `after`. Ended by finish(). A
  // capture that breaks takes the graph with it, see there.
  Capture(CUstream stream, GraphView into, const After& after, CaptureOptions options = {});
  // Ends the capture and drops what it has when end() was not reached. Like end(), on the thread that began
  // it, unless the mode is Relaxed (the driver's rule, 908).
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  CUstream stream() const noexcept { return stream_; }
  // The driver's number of this capture.
  unsigned long long id() const;

  // Ends it: the graph. Errors: Device when the capture was broken; Usage for a forked stream that was not
  // joined (by its handle) and for an empty graph, if refused. Once only.
  Graph end();
  // The same for a capture into a graph that exists, whose nodes are then there. When the capture was broken,
  // that graph is lost, because the driver destroys it: its Graph and views know, and each use of them, of
  // its nodes too, is an Error(Usage) from then on; get() is null; execs made from it before can be launched.
  // With a body or a child, the whole owned graph is lost, and its memory is not given back. A CUgraph of
  // someone else's must then be neither used nor destroyed. When nothing but the caller's own code failed,
  // the graph is well and has what was captured by then.
  void finish();

  // ---- several streams
  // `other` takes part from here on: its work waits for what is captured in stream() by now.
  void fork(CUstream other);
  // stream() waits for what is captured in `other` by now. Every forked stream is joined before the end.
  void join(CUstream other);

  // ---- nodes made by hand, between captured work
  // The graph so far: nodes may be added, not removed.
  GraphView graph() const;
  // What the next captured call will wait for.
  std::vector<Dependency> tip() const;
  // The next captured call waits for these instead.
  void set_tip(const After& after);
  // make(graph, tip) adds a node after the tip, and captured work goes on after that node:
  //     c.graft([&](GraphView g, After tip) { return g.child(exec_graph, tip); });
  template <class Make>
  NodeView graft(Make&& make) {
    const std::vector<Dependency> before = tip();
    const NodeView node = std::forward<Make>(make)(graph(), After(before));
    set_tip(node);
    return node;
  }

  // ---- which call broke it
  // The status of any call of either API, with its text: not 0 throws Error(Device) that names it, with cause
  // and remedy.
  void check(int status, const char* call, const char* file, int line);
  // Throws when the capture is broken by now, and says since which checkpoint.
  void checkpoint(const char* name, const char* file = "", int line = 0);
  bool broken() const;

  // The innermost of this thread, or null.
  static Capture* current() noexcept;

 private:
  struct Info;
  Capture(CaptureOptions&& options, std::optional<Stream> own, CUstream stream, std::optional<GraphView> into,
          const After& after);
  Info info(CUstream stream) const;
  std::vector<CUstream> not_joined() const;
  CUresult stop(CUgraph* graph) noexcept;
  CUgraph finish_raw();
  const driver::Driver* driver_;
  CaptureOptions options_;
  std::optional<Stream> own_;
  CUstream stream_ = nullptr;
  std::optional<GraphView> into_;
  detail::StateShare state_;  // of the graph to come, or of the one that is captured into
  bool active_ = false;
  bool lost_ = false;  // the graph that was captured into
  struct Fork {
    CUstream stream;
    bool joined;  // by join(), since it was forked last
  };
  std::vector<Fork> forked_;
  std::optional<Event> event_;  // of fork and join, which record it and wait for it at once
  void order(CUstream first, CUstream then);
  std::string first_failure_;  // the first call that check() saw fail
  int first_code_ = 0;
  std::string stretch_;  // between two checkpoints, where it was found broken
  std::unique_ptr<detail::CallWatch> watch_;
  std::string last_good_;                        // the last checkpoint that was fine
  std::shared_ptr<detail::CaptureStack> stack_;  // of the thread that began it
};

// The work of `work` as a graph. `work` is called with the Capture, with its CUstream, or with nothing.
template <class Work>
Graph capture(CUstream stream, Work&& work, CaptureOptions options = {});
template <class Work>
Graph capture(Work&& work, CaptureOptions options = {});
// Adds it to `into`, after `after` (CUDA 12.3).
template <class Work>
void capture_into(GraphView into, CUstream stream, const After& after, Work&& work,
                  CaptureOptions options = {});

// In this scope, this thread may make calls that are unsafe in a capture (cudaMalloc, first use of a
// library), as far as they concern no captured stream. For code that may run inside someone else's capture;
// they are not captured. Scopes of a thread may end in any order; one that is ended on another thread changes
// neither thread's mode, so the thread that made it stays relaxed.
class RelaxedScope {
 public:
  RelaxedScope();
  ~RelaxedScope();
  RelaxedScope(const RelaxedScope&) = delete;
  RelaxedScope& operator=(const RelaxedScope&) = delete;

 private:
  const driver::Driver* driver_;
  CUstreamCaptureMode before_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  std::shared_ptr<detail::RelaxedStack> stack_;  // of the thread that made it
};

// Clears the run-time API's last error on this thread; false when no libcudart is known. A program that links
// libcudart statically tells it once: use_runtime_last_error([] { return
// static_cast<int>(cudaGetLastError()); }).
bool clear_runtime_last_error() noexcept;
void use_runtime_last_error(int (*get_last_error)()) noexcept;

// ---------------------------------------------------------------- below: how
namespace detail {
template <class Work>
void run(Capture& capture, Work& work) {
  if constexpr (std::is_invocable_v<Work&, Capture&>)
    work(capture);
  else if constexpr (std::is_invocable_v<Work&, CUstream>)
    work(capture.stream());
  else
    work();
}

bool retries(WatchCalls how);
// How many captures of this thread ended broken by a caller that is not known, and might be on a second try.
unsigned long unexplained_captures() noexcept;
void note_retry(const Error& first);

template <class Once>
Graph recorded(CaptureOptions options, const Once& once) {
  if (!retries(options.watch_calls)) return once(std::move(options));
  const unsigned long before = unexplained_captures();
  try {
    return once(CaptureOptions(options));
  } catch (const Error& first) {
    if (unexplained_captures() == before) throw;
    note_retry(first);
  }
  options.watch_calls = WatchCalls::Calls;
  return once(std::move(options));
}
}  // namespace detail

template <class Work>
Graph capture(CUstream stream, Work&& work, CaptureOptions options) {
  return detail::recorded(std::move(options), [&](CaptureOptions&& chosen) {
    Capture c(stream, std::move(chosen));
    detail::run(c, work);
    return c.end();
  });
}
template <class Work>
Graph capture(Work&& work, CaptureOptions options) {
  return detail::recorded(std::move(options), [&](CaptureOptions&& chosen) {
    Capture c(std::move(chosen));
    detail::run(c, work);
    return c.end();
  });
}
template <class Work>
void capture_into(GraphView into, CUstream stream, const After& after, Work&& work, CaptureOptions options) {
  Capture c(stream, into, after, std::move(options));
  detail::run(c, work);
  c.finish();
}

}  // namespace rondo::graph

// A call of the driver's or of the run-time API, looked at: RONDO_GRAPH_CALL(cudaMallocAsync(&p, n, stream)).
// A failure throws; in a capture it is named as what broke it.
#define RONDO_GRAPH_CALL(call) ::rondo::graph::check_call(static_cast<int>(call), #call, __FILE__, __LINE__)
// Marks a point of code that may run in a capture, to find the stretch that breaks it. Outside of one it does
// nothing.
#define RONDO_GRAPH_CHECKPOINT(name)                                                  \
  do {                                                                                \
    if (::rondo::graph::Capture* rondo_capture_ = ::rondo::graph::Capture::current()) \
      rondo_capture_->checkpoint((name), __FILE__, __LINE__);                         \
  } while (0)

namespace rondo::graph {
void check_call(int status, const char* call, const char* file, int line);
}
