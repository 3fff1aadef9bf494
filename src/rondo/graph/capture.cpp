#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "rondo/graph/call_watch.h"
#include "rondo/graph/state.h"

namespace rondo::graph {

using detail::describe_stream;
using detail::GraphState;

// ---------------------------------------------------------------- the run-time API's last error

namespace {

using GetLastError = int (*)();
std::atomic<GetLastError> last_error_of_caller{nullptr};

}  // namespace

// The captures of a thread, innermost last. Shared, because a capture may end on another thread: wrongly in
// most modes, rightly in the relaxed one.
struct detail::CaptureStack {
  std::mutex mutex;
  std::vector<Capture*> open;
};

namespace {

const std::shared_ptr<detail::CaptureStack>& own_stack() {
  thread_local const auto stack = std::make_shared<detail::CaptureStack>();
  return stack;
}

}  // namespace

void use_runtime_last_error(int (*get_last_error)()) noexcept { last_error_of_caller.store(get_last_error); }

bool clear_runtime_last_error() noexcept {
  GetLastError get = last_error_of_caller.load();
  // Looked for each time: a failed capture is rare, and a libcudart may have been loaded since.
  if (!get) get = reinterpret_cast<GetLastError>(dlsym(RTLD_DEFAULT, "cudaGetLastError"));
  if (get) (void)get();
  return get != nullptr;
}

// ---------------------------------------------------------------- RelaxedScope

// The scopes of a thread, innermost last. Shared, because one may wrongly end on another thread.
struct detail::RelaxedStack {
  std::thread::id thread = std::this_thread::get_id();
  std::mutex mutex;
  std::vector<RelaxedScope*> open;
};

RelaxedScope::RelaxedScope() : driver_(&driver::driver()) {
  thread_local const auto own = std::make_shared<detail::RelaxedStack>();
  stack_ = own;
  const std::lock_guard lock(own->mutex);
  own->open.reserve(own->open.size() + 1);  // nothing may fail once the mode is exchanged
  RONDO_GRAPH_CHECK(*driver_, Capture, cuThreadExchangeStreamCaptureMode(&before_), "");
  own->open.push_back(this);
}

// The mode comes back with the last scope that is left: one that ends early hands what it found to the next.
RelaxedScope::~RelaxedScope() {
  const std::lock_guard lock(stack_->mutex);
  const auto at = std::find(stack_->open.begin(), stack_->open.end(), this);
  if (at + 1 != stack_->open.end())
    (*(at + 1))->before_ = before_;
  else if (stack_->thread == std::this_thread::get_id())
    detail::restore_mode(*driver_, before_);
  stack_->open.erase(at);
}

// ---------------------------------------------------------------- begin

struct Capture::Info {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  std::vector<Dependency> tip;
};

Capture::Info Capture::info(CUstream stream) const {
  const driver::Driver& d = *driver_;
  Info out;
  cuuint64_t id = 0;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
#if CUDA_VERSION >= 12030
  if (d.cuStreamGetCaptureInfo_v3) {
    const CUgraphEdgeData* data = nullptr;
    RONDO_GRAPH_CHECK(d, Capture,
                      cuStreamGetCaptureInfo_v3(stream, &out.status, &id, &out.graph, &nodes, &data, &count),
                      describe_stream(stream));
    if (out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return out;
    for (size_t i = 0; i < count; ++i)
      out.tip.push_back({NodeView(nodes[i], state_.get()),
                         data ? EdgeData{data[i].from_port, data[i].to_port, data[i].type} : kFull});
    out.id = id;
    return out;
  }
#endif
  RONDO_GRAPH_CHECK(d, Capture,
                    cuStreamGetCaptureInfo_v2(stream, &out.status, &id, &out.graph, &nodes, &count),
                    describe_stream(stream));
  if (out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return out;
  for (size_t i = 0; i < count; ++i) out.tip.push_back(NodeView(nodes[i], state_.get()));
  out.id = id;
  return out;
}

Capture::Capture(CaptureOptions&& options, std::optional<Stream> own, CUstream stream,
                 std::optional<GraphView> into, const After& after)
    : driver_(&driver::driver()),
      options_(std::move(options)),
      own_(std::move(own)),
      stream_(own_ ? own_->get() : stream),
      into_(into),
      stack_(own_stack()) {
  const driver::Driver& d = *driver_;
  if (!stream_ || stream_ == CU_STREAM_LEGACY)
    throw Error(
        ErrorKind::Usage,
        "the legacy (NULL) stream cannot be captured. Capture on a stream of your own: Stream::create() or "
        "cudaStreamCreateWithFlags(.., cudaStreamNonBlocking)");
  watch_ = detail::CallWatch::make(d, stream_, options_.watch_calls);
  // Before the begin, as nothing may fail once the capture has begun.
  struct Entry {
    detail::CaptureStack& stack;
    Capture* capture;
    bool keep = false;
    Entry(detail::CaptureStack& s, Capture* c) : stack(s), capture(c) {
      const std::lock_guard lock(stack.mutex);
      stack.open.push_back(capture);
    }
    ~Entry() {
      if (keep) return;
      const std::lock_guard lock(stack.mutex);
      std::erase(stack.open, capture);
    }
  } entry(*stack_, this);
  if (into_) {
    require(Feature::CaptureToGraph);
    CUgraphNode room[detail::kFewDependencies];
    const detail::Dependencies deps(after, room);
    if (into_->state_) {
      detail::expect_not_lost(into_->state_);
      state_ = detail::StateShare(into_->state_);
      into_->state_->own = into_->state_->plain = false;
      into_->state_->changed();
    }
#if CUDA_VERSION >= 12030
    RONDO_GRAPH_CHECK(d, Capture,
                      cuStreamBeginCaptureToGraph(stream_, into_->graph_, deps.nodes(), deps.data(),
                                                  deps.count(), options_.mode),
                      describe_stream(stream_));
#endif
  } else {
    state_ = detail::StateShare::make(d, nullptr);
    RONDO_GRAPH_CHECK(d, Capture, cuStreamBeginCapture(stream_, options_.mode), describe_stream(stream_));
  }
  active_ = true;
  if (watch_) watch_->start();
  entry.keep = true;
}

Capture::Capture(CaptureOptions options)
    : Capture(std::move(options), Stream::create(), nullptr, std::nullopt, {}) {}
Capture::Capture(CUstream stream, CaptureOptions options)
    : Capture(std::move(options), std::nullopt, stream, std::nullopt, {}) {}
Capture::Capture(CUstream stream, GraphView into, const After& after, CaptureOptions options)
    : Capture(std::move(options), std::nullopt, stream, into, after) {}

Capture* Capture::current() noexcept {
  detail::CaptureStack& stack = *own_stack();
  const std::lock_guard lock(stack.mutex);
  return stack.open.empty() ? nullptr : stack.open.back();
}

unsigned long long Capture::id() const { return info(stream_).id; }

// ---------------------------------------------------------------- end

namespace {

[[noreturn]] void throw_ended() {
  throw Error(ErrorKind::Usage, "the capture has ended already. Call end() or finish() once, and last");
}

}  // namespace

// The driver's end, once. What it gives out is destroyed unless it is taken.
CUresult Capture::stop(CUgraph* graph) noexcept {
  active_ = false;
  if (watch_) watch_->stop();
  {
    const std::lock_guard lock(stack_->mutex);
    std::erase(stack_->open, this);
  }
  const CUresult code = driver_->cuStreamEndCapture(stream_, graph);
  if (into_ && code != CUDA_SUCCESS) {
    lost_ = true;
    if (state_) state_->lose();
  }
  return code;
}

Capture::~Capture() {
  if (!active_) return;
  CUgraph graph = nullptr;
  const CUresult code = stop(&graph);
  if (code != CUDA_SUCCESS || first_code_ != 0) (void)clear_runtime_last_error();
  if (graph && !into_) detail::let_through(*driver_, [&] { (void)driver_->cuGraphDestroy(graph); });
}

std::vector<CUstream> Capture::not_joined() const {
  // A stream that join() joined is believed: looking for its end in the graph takes a call a node.
  std::vector<CUstream> watched = options_.watch;
  for (const Fork& f : forked_)
    if (!f.joined) watched.push_back(f.stream);
  std::vector<CUstream> out;
  if (watched.empty()) return out;
  const Info own = info(stream_);
  if (own.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return out;
  // Everything that the end of the capture waits for.
  std::unordered_set<CUgraphNode> reached;
  std::vector<NodeView> open;
  const auto reach = [&](NodeView node) {
    if (reached.insert(node.get()).second) open.push_back(node);
  };
  for (const Dependency& t : own.tip) reach(t.node);
  for (CUstream stream : watched) {
    const Info theirs = info(stream);
    if (stream == stream_ || theirs.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || theirs.id != own.id)
      continue;
    const auto joined = [&] {
      return std::all_of(theirs.tip.begin(), theirs.tip.end(),
                         [&](const Dependency& t) { return reached.count(t.node.get()) != 0; });
    };
    while (!joined() && !open.empty()) {
      const NodeView node = open.back();
      open.pop_back();
      for (const NodeView& before : node.dependencies()) reach(before);
    }
    if (!joined() && std::find(out.begin(), out.end(), stream) == out.end()) out.push_back(stream);
  }
  return out;
}

// Ends it; the graph, or an Error that says what broke the capture. The stream is usable after either.
CUgraph Capture::finish_raw() {
  if (!active_) throw_ended();
  const std::vector<CUstream> open = not_joined();  // throws: the destructor ends the capture
  CUgraph graph = nullptr;
  const CUresult code = stop(&graph);
  if (code == CUDA_SUCCESS) return graph;
  (void)clear_runtime_last_error();
  if (graph && !into_) detail::let_through(*driver_, [&] { (void)driver_->cuGraphDestroy(graph); });
  std::string streams;
  for (CUstream s : open) streams += (streams.empty() ? "" : ", ") + describe_stream(s);
  if (code == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && open.empty() && !forked_.empty()) {
    for (const Fork& f : forked_) streams += (streams.empty() ? "" : ", ") + describe_stream(f.stream);
    throw Error(ErrorKind::Usage, fmt::format("the capture of {} ended while a stream that had been joined "
                                              "had work after that: one of {}, or one that "
                                              "user code forked. Join it after its last work (name streams "
                                              "in CaptureOptions::watch to be told which)",
                                              describe_stream(stream_), streams));
  }
  if (code == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && !open.empty()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "the capture of {} ended while {} had not been joined to it. Call Capture::join for it, or "
            "record an event in it and let {} wait for the event, before the end",
            describe_stream(stream_), streams, describe_stream(stream_)));
  }
  detail::fail_end(
      *driver_, code,
      {stream_, first_failure_, static_cast<CUresult>(first_code_), stretch_, last_good_, watch_.get()});
}

Graph Capture::end() {
  if (into_)
    throw Error(ErrorKind::Usage,
                "a capture into an existing graph is ended by finish(); the nodes are in that graph");
  state_->graph = finish_raw();
  Graph graph(std::move(state_));
  if (options_.refuse_empty && graph.node_count() == 0)
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "the capture of {} recorded nothing. Put the work into that stream (or one forked from it), "
            "or leave refuse_empty off",
            describe_stream(stream_)));
  return graph;
}

void Capture::finish() {
  if (!into_) {
    (void)end();
    return;
  }
  try {
    (void)finish_raw();
  } catch (const Error& e) {
    if (!lost_) throw;
    throw Error(e.kind(),
                std::string(e.what()) +
                    ". The graph that it was captured into is lost with it, and so is a graph that holds "
                    "that one: the driver destroys it. Build it anew; a graph that must outlive a broken "
                    "capture takes the work as a child: Graph work = capture(...); graph.child(work)");
  }
}

// ---------------------------------------------------------------- several streams

void Capture::order(CUstream first, CUstream then) {
  if (!event_) event_ = Event::create();
  event_->record(first);
  event_->wait_in(then);
}

void Capture::fork(CUstream other) {
  if (!active_) throw_ended();
  order(stream_, other);
  const auto known =
      std::find_if(forked_.begin(), forked_.end(), [&](const Fork& f) { return f.stream == other; });
  if (known == forked_.end())
    forked_.push_back({other, false});
  else
    known->joined = false;
}

void Capture::join(CUstream other) {
  if (!active_) throw_ended();
  order(other, stream_);
  for (Fork& f : forked_)
    if (f.stream == other) f.joined = true;
}

// ---------------------------------------------------------------- nodes made by hand

GraphView Capture::graph() const {
  if (!active_) throw_ended();
  if (into_) return *into_;
  const Info now = info(stream_);
  if (now.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    fail(*driver_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Phase::Capture, "cuStreamGetCaptureInfo(",
         describe_stream(stream_));
  return GraphView(now.graph, state_.get());
}

std::vector<Dependency> Capture::tip() const {
  if (!active_) throw_ended();
  Info now = info(stream_);
  if (now.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    fail(*driver_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Phase::Capture, "cuStreamGetCaptureInfo(",
         describe_stream(stream_));
  return std::move(now.tip);
}

void Capture::set_tip(const After& after) {
  if (!active_) throw_ended();
  const driver::Driver& d = *driver_;
  CUgraphNode room[detail::kFewDependencies];
  const detail::Dependencies deps(after, room);
  const auto nodes = const_cast<CUgraphNode*>(deps.nodes());  // the driver reads them
#if CUDA_VERSION >= 12030
  if (d.cuStreamUpdateCaptureDependencies_v2) {
    RONDO_GRAPH_CHECK(d, Capture,
                      cuStreamUpdateCaptureDependencies_v2(stream_, nodes, deps.data(), deps.count(),
                                                           CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                      describe_stream(stream_));
    return;
  }
#endif
  RONDO_GRAPH_CHECK(
      d, Capture,
      cuStreamUpdateCaptureDependencies_v1(stream_, nodes, deps.count(), CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      describe_stream(stream_));
}

// ---------------------------------------------------------------- which call broke it

void Capture::check(int status, const char* call, const char* file, int line) {
  if (status == 0) return;
  const auto code = static_cast<CUresult>(status);
  const std::string where = fmt::format("{} ({}:{})", call, file, line);
  // It may have come too late: then the first one counts.
  std::string culprit, why = explain(code, Phase::Capture, call);
  if (!first_failure_.empty()) {
    culprit = fmt::format("; broken by {}, which answered {}", first_failure_,
                          driver::describe(*driver_, static_cast<CUresult>(first_code_)));
    why = explain(static_cast<CUresult>(first_code_), Phase::Capture, first_failure_);
  } else {
    first_failure_ = where;
    first_code_ = status;
    const auto found =
        watch_ && code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ? watch_->culprit() : std::nullopt;
    if (found) {
      culprit = "; broken by " + detail::describe(*driver_, *found);
      why = explain(found->code, Phase::Capture, found->call);
    }
  }
  throw Error(ErrorKind::Device,
              fmt::format("{} failed: {} [in the capture of {}{}]{}", where, driver::describe(*driver_, code),
                          describe_stream(stream_), culprit, why));
}

bool Capture::broken() const {
  if (!active_) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  RONDO_GRAPH_CHECK(*driver_, Capture, cuStreamIsCapturing(stream_, &status), describe_stream(stream_));
  return status != CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void Capture::checkpoint(const char* name, const char* file, int line) {
  if (!active_) return;
  const std::string here =
      *file ? fmt::format("\"{}\" ({}:{})", name, file, line) : fmt::format("\"{}\"", name);
  if (!broken()) {
    last_good_ = here;
    return;
  }
  const std::string since = last_good_.empty() ? "its begin" : "checkpoint " + last_good_;
  const std::string broken = fmt::format("the capture of {} was broken between {} and checkpoint {}",
                                         describe_stream(stream_), since, here);
  if (!first_failure_.empty()) {
    const auto code = static_cast<CUresult>(first_code_);
    throw Error(ErrorKind::Device,
                fmt::format("{}, by {}, which answered {}{}", broken, first_failure_,
                            driver::describe(*driver_, code), explain(code, Phase::Capture, first_failure_)));
  }
  if (stretch_.empty()) stretch_ = fmt::format("a call between {} and checkpoint {}", since, here);
  const auto found = watch_ ? watch_->culprit() : std::nullopt;
  if (found)
    throw Error(ErrorKind::Device, fmt::format("{}, by {}{}{}", broken, detail::describe(*driver_, *found),
                                               explain(found->code, Phase::Capture, found->call),
                                               watch_->remarks(found->caller_known)));
  throw Error(
      ErrorKind::Device,
      fmt::format("{}. Check the calls in between with RONDO_GRAPH_CALL, or set more checkpoints there{}",
                  broken, watch_ ? watch_->remarks(false) : ""));
}

void check_call(int status, const char* call, const char* file, int line) {
  if (status == 0) return;
  if (Capture* capture = Capture::current()) capture->check(status, call, file, line);
  const driver::Driver& d = driver::driver();
  const auto code = static_cast<CUresult>(status);
  throw Error(ErrorKind::Device, fmt::format("{} ({}:{}) failed: {}{}", call, file, line,
                                             driver::describe(d, code), explain(code, Phase::Build, call)));
}

}  // namespace rondo::graph
