#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "rondo/base/trace.h"
#include "rondo/graph/state.h"

namespace rondo::graph {
namespace detail {

void SpinLock::wait() noexcept {
  for (int spins = 0; !try_lock();)
    if (++spins > 64) std::this_thread::yield();
}

ExecState::ExecState() = default;

ExecState::~ExecState() {
  if (exec) let_through(*driver, [&] { (void)driver->cuGraphExecDestroy(exec); });
}

namespace {
[[noreturn]] void moved_from() {
  throw Error(ErrorKind::Usage,
              "this GraphExec holds no executable graph: it was moved from or released. Use the one that it "
              "was moved to");
}
}  // namespace

void launch_failed(const ExecState* state, CUresult code, CUstream stream) {
  if (!state) moved_from();
  fail(*state->driver, code, Phase::Launch, "cuGraphLaunch(", describe_stream(stream));
}

}  // namespace detail

using detail::ExecState;

namespace {

std::unique_ptr<ExecState> make_state(const driver::Driver& d, CUgraphExec exec) {
  auto state = std::make_unique<ExecState>();
  state->driver = &d;
  state->launch = d.cuGraphLaunch.raw();
  state->update = d.cuGraphExecUpdate.raw();
  state->shared = std::make_unique<detail::ExecShared>();
  state->exec = exec;
  return state;
}

unsigned long long flags_of(const InstantiateOptions& o) {
  return (o.auto_free ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0) |
         (o.upload_to ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0) |
         (o.device_launch ? CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH : 0) |
         (o.node_priority ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0);
}

std::unique_ptr<ExecState> make_exec(const driver::Driver& d, CUgraph graph, const detail::StateShare& source,
                                     const InstantiateOptions& options) {
  if (options.auto_free && options.device_launch)
    throw Error(
        ErrorKind::Usage,
        "instantiate with auto_free and device_launch: the driver has only one of them at a time. Free the "
        "memory in the graph, or launch it from the host");
  if (options.upload_to && *options.upload_to && Stream::borrow(*options.upload_to).capturing())
    throw Error(ErrorKind::Usage,
                fmt::format("instantiate cannot upload to {}, which is being captured: an upload is no node. "
                            "Leave upload_to out, or give another stream",
                            detail::describe_stream(*options.upload_to)));
  std::unique_ptr<ExecState> state = make_state(d, nullptr);
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = flags_of(options);
  params.hUploadStream = options.upload_to.value_or(nullptr);
  // It concerns no stream, yet a thread that captures would be refused, and its capture broken; a thread that
  // does not would break captures in global mode elsewhere. So it is let through.
  CUresult code = CUDA_SUCCESS;
  detail::let_through(d, [&] { code = d.cuGraphInstantiateWithParams(&state->exec, graph, &params); });
  if (code != CUDA_SUCCESS || params.result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    std::string context;
    if (params.result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) context = describe(params.result_out);
    if (params.hErrNode_out)
      context += (context.empty() ? "" : "; ") + detail::describe_node(d, params.hErrNode_out);
    fail(d, code, Phase::Instantiate, "cuGraphInstantiateWithParams(", context,
         static_cast<int>(params.result_out));
  }
  if (options.keep_source) state->shared->source = source;
  state->shared->options = options;
  // The stream may be gone when this is instantiated anew.
  state->shared->options.upload_to.reset();
  if (source) {
    const std::lock_guard lock(source->reading);
    state->plain = source->all_plain();
    state->shared->version = source->version;
    state->shared->record = source->record;
  }
  return state;
}

// The driver may have taken other attributes, or kept the old ones: nobody knows.
void forget(ExecState* s) noexcept {
  s->plain = false;
  s->shared->version = ~uint64_t{0};
  s->shared->record.reset();
}

std::string update_reason(const driver::Driver& d, CUresult code, const CUgraphExecUpdateResultInfo& info) {
  std::string reason = fmt::format("{}: {}", driver::describe(d, code), describe(info.result));
  if (info.errorNode) reason += fmt::format(" [{}]", detail::describe_node(d, info.errorNode));
  return reason + explain(code, Phase::Update, "cuGraphExecUpdate", static_cast<int>(info.result));
}

}  // namespace

GraphExec Graph::instantiate(const InstantiateOptions& options) const {
  const driver::Driver& d = driver();
  return GraphExec(make_exec(d, graph_, share_, options));
}

GraphExec::GraphExec(std::unique_ptr<ExecState> state) noexcept : state_(std::move(state)) {}
GraphExec::GraphExec(GraphExec&&) noexcept = default;
GraphExec& GraphExec::operator=(GraphExec&&) noexcept = default;
GraphExec::~GraphExec() = default;

GraphExec GraphExec::adopt(CUgraphExec exec) { return GraphExec(make_state(driver::driver(), exec)); }

CUgraphExec GraphExec::release() {
  const CUgraphExec exec = state_ ? std::exchange(state_->exec, nullptr) : nullptr;
  state_.reset();
  return exec;
}

ExecState& GraphExec::state() const {
  if (!state_) detail::moved_from();
  return *state_;
}

void GraphExec::upload(CUstream stream) const {
  ExecState& s = state();
  const std::lock_guard lock(s.lock);
  RONDO_GRAPH_CHECK(*s.driver, Launch, cuGraphUpload(s.exec, stream), detail::describe_stream(stream));
}

// ---------------------------------------------------------------- the whole graph

Updated GraphExec::update(const GraphView& graph, AttributeCheck check) {
  CUresult code = CUDA_SUCCESS;
  CUgraphExecUpdateResultInfo info{};
  bool done = false;
  if (state_ && graph.state_ && !graph.state_->lost && graph.state_->all_plain()) [[likely]] {
    ExecState& s = *state_;
    s.lock.lock();
    if (s.plain) [[likely]] {  // nothing to compare
      code = s.update(s.exec, graph.graph_, &info);
      done = true;
    }
    s.lock.unlock();
  }
  Updated out;
  if (done && code == CUDA_SUCCESS && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) [[likely]]
    out.ok = true;
  else if (done)
    explain(graph, code, info, &out);
  else
    compare_and_update(graph, check, &out);
  return out;
}

void GraphExec::compare_and_update(const GraphView& graph, AttributeCheck check, Updated* to) {
  Updated& out = *to;
  ExecState& s = state();
  const std::lock_guard lock(s.lock);
  const driver::Driver& d = graph.driver();
  detail::ExecShared& known = *s.shared;
  CUgraphExecUpdateResultInfo info{};
  std::shared_ptr<const detail::AttributeRecord> record;
  if (check == AttributeCheck::Compare) {
    detail::GraphState* source = known.source.get();
    if (!known.record && source && source->version == known.version)
      known.record = detail::read_attributes(d, source->graph, source, nullptr);
    record = detail::read_attributes(d, graph.graph_, graph.state_, known.record.get());
    CUgraphNode node = nullptr;
    std::string differs;
    if (known.record)
      differs = detail::compare_attributes(d, *known.record, *record, &node);
    else
      differs =
          "the attributes that the executable graph was made with are not known (it was adopted, made "
          "without "
          "keep_source, was updated with AttributeCheck::Skip, or its graph has changed since)";
    if (!differs.empty()) {
      out.attributes_differ = true;
      out.result = static_cast<CUgraphExecUpdateResult>(8);  // ATTRIBUTES_CHANGED
      out.node = graph.view(node);
      out.reason =
          differs +
          ": the driver may say success and keep the old value, so the update was not made. Instantiate anew "
          "(update_or_reinstantiate), or update with AttributeCheck::Skip if it does not matter";
      return;
    }
  }
  const CUresult code = s.update(s.exec, graph.graph_, &info);
  out.ok = code == CUDA_SUCCESS && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (!out.ok)
    explain(graph, code, info, &out);
  else if (check == AttributeCheck::Skip)
    forget(&s);
}

void GraphExec::explain(const GraphView& graph, CUresult code, CUgraphExecUpdateResultInfo info,
                        Updated* to) {
  Updated& out = *to;
  const driver::Driver& d = graph.driver();
  out.code = code;
  out.result = info.result;
  // Refused by the driver's rules: nothing was changed. Device-updatable nodes are refused by 801 with a
  // result that says success (driver 580).
  if (out.code == CUDA_ERROR_NOT_SUPPORTED)
    info.result = out.result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  else if (out.code != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    fail(d, out.code, Phase::Update, "cuGraphExecUpdate(",
         info.errorNode ? detail::describe_node(d, info.errorNode) : "", static_cast<int>(info.result));
  out.node = graph.view(info.errorNode);
  out.from_node = graph.view(info.errorFromNode);
  out.reason = update_reason(d, out.code, info);
}

UpdateOutcome GraphExec::update_or_reinstantiate(const Graph& graph, AttributeCheck check) {
  Updated updated = update(graph, check);
  if (updated.ok) return {};
  ExecState& s = state();
  InstantiateOptions options;
  {
    const std::lock_guard lock(s.lock);  // another thread may be putting a new exec in place
    options = s.shared->options;
  }
  std::unique_ptr<ExecState> fresh = make_exec(*s.driver, graph.graph_, graph.share_, options);
  trace::note(trace::Level::Info, "graph.reinstantiated", updated.reason);
  {
    // The lock stays where other threads wait for it; what it protects changes hands.
    const std::lock_guard lock(s.lock);
    std::swap(s.exec, fresh->exec);
    std::swap(s.shared, fresh->shared);
    std::swap(s.plain, fresh->plain);
  }
  return {UpdateHow::Reinstantiated, std::move(updated.reason)};
}

// ---------------------------------------------------------------- node by node

namespace {

CUcontext current(const driver::Driver& d) {
  CUcontext context = nullptr;
  RONDO_GRAPH_CHECK(d, Update, cuCtxGetCurrent(&context), "");
  return context;
}

}  // namespace

// One driver call on the exec, alone. `s` is its state, `d` the driver.
#define RONDO_EXEC(node, call)            \
  detail::expect_not_lost((node).state_); \
  ExecState& s = state();                 \
  const driver::Driver& d = *s.driver;    \
  const std::lock_guard lock(s.lock);     \
  RONDO_GRAPH_CHECK(d, Update, call, detail::describe_node(d, (node).get()))

void GraphExec::set(NodeView node, const KernelParams& params) {
  for (const CUlaunchAttribute& a : params.attributes) {
    if (static_cast<int>(a.id) == 13) continue;  // device-updatable: for good, and its value holds a handle
    const driver::Driver& d = node.driver();
    CUlaunchAttributeValue has{};
    RONDO_GRAPH_CHECK(d, Update, cuGraphKernelNodeGetAttribute(node.get(), a.id, &has),
                      fmt::format("attribute {} of {}", static_cast<int>(a.id), node.describe()));
    if (std::memcmp(&has, &a.value, sizeof has) != 0)
      throw Error(
          ErrorKind::Usage,
          fmt::format("attribute {} of {} cannot be changed in an executable graph. Set it in the graph and "
                      "update_or_reinstantiate",
                      static_cast<int>(a.id), node.describe()));
  }
  RONDO_EXEC(node, cuGraphExecKernelNodeSetParams(s.exec, node.get(), params.raw));
}
void GraphExec::set(NodeView node, const CUDA_MEMCPY3D& params) {
  const CUcontext context = current(*state().driver);
  RONDO_EXEC(node, cuGraphExecMemcpyNodeSetParams(s.exec, node.get(), &params, context));
}
void GraphExec::set(NodeView node, const CUDA_MEMSET_NODE_PARAMS& params) {
  const CUcontext context = current(*state().driver);
  RONDO_EXEC(node, cuGraphExecMemsetNodeSetParams(s.exec, node.get(), &params, context));
}
void GraphExec::set(NodeView node, const CUDA_HOST_NODE_PARAMS& params) {
  RONDO_EXEC(node, cuGraphExecHostNodeSetParams(s.exec, node.get(), &params));
}
void GraphExec::set(NodeView node, const GraphView& child) {
  (void)child.driver();
  RONDO_EXEC(node, cuGraphExecChildGraphNodeSetParams(s.exec, node.get(), child.graph_));
  if (!s.plain || !child.state_ || !child.state_->all_plain()) forget(&s);
}
void GraphExec::set(NodeView node, CUevent event) {
  if (node.kind() == NodeKind::EventRecord) {
    RONDO_EXEC(node, cuGraphExecEventRecordNodeSetEvent(s.exec, node.get(), event));
    return;
  }
  node.expect(NodeKind::EventWait, "the event");
  RONDO_EXEC(node, cuGraphExecEventWaitNodeSetEvent(s.exec, node.get(), event));
}
void GraphExec::set(NodeView node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params) {
  RONDO_EXEC(node, cuGraphExecExternalSemaphoresSignalNodeSetParams(s.exec, node.get(), &params));
}
void GraphExec::set(NodeView node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params) {
  RONDO_EXEC(node, cuGraphExecExternalSemaphoresWaitNodeSetParams(s.exec, node.get(), &params));
}
void GraphExec::set(NodeView node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  RONDO_EXEC(node, cuGraphExecBatchMemOpNodeSetParams(s.exec, node.get(), &params));
}
void GraphExec::enable(NodeView node, bool on) {
  RONDO_EXEC(node, cuGraphNodeSetEnabled(s.exec, node.get(), on));
}
bool GraphExec::enabled(NodeView node) const {
  unsigned on = 0;
  RONDO_EXEC(node, cuGraphNodeGetEnabled(s.exec, node.get(), &on));
  return on != 0;
}

uint64_t GraphExec::flags() const {
  cuuint64_t flags = 0;
  ExecState& s = state();
  const std::lock_guard lock(s.lock);
  RONDO_GRAPH_CHECK(*s.driver, Update, cuGraphExecGetFlags(s.exec, &flags), "");
  return flags;
}

GraphView GraphExec::source() const {
  ExecState& s = state();
  const std::lock_guard lock(s.lock);
  detail::GraphState* source = s.shared->source.get();
  if (!source)
    throw Error(ErrorKind::Usage,
                "the graph of this executable graph is not known: it was adopted, or made without "
                "keep_source. Keep the "
                "graph that it was made from");
  return GraphView(source->graph, source);
}

}  // namespace rondo::graph
