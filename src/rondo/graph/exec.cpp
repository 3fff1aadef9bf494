#include <fmt/format.h>

#include <mutex>

#include "rondo/base/trace.h"
#include "rondo/graph/state.h"

namespace rondo::graph {
namespace detail {

ExecState::ExecState() = default;

ExecState::~ExecState() {
  if (exec) let_through(*driver, [&] { (void)driver->cuGraphExecDestroy(exec); });
}

void launch_failed(const ExecState& state, CUresult code, CUstream stream) {
  fail(*state.driver, code, Phase::Launch, "cuGraphLaunch(", describe_stream(stream));
}

}  // namespace detail

using detail::ExecState;

namespace {

std::unique_ptr<ExecState> make_state(const driver::Driver& d, CUgraphExec exec) {
  auto state = std::make_unique<ExecState>();
  state->driver = &d;
  state->launch = d.cuGraphLaunch.raw();
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

std::unique_ptr<ExecState> make_exec(const driver::Driver& d, CUgraph graph,
                                     const std::shared_ptr<detail::GraphState>& source,
                                     const InstantiateOptions& options) {
  if (options.auto_free && options.device_launch)
    throw Error(
        ErrorKind::Usage,
        "instantiate with auto_free and device_launch: the driver has only one of them at a time. Free the "
        "memory in the graph, or launch it from the host");
  std::unique_ptr<ExecState> state = make_state(d, nullptr);
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = flags_of(options);
  params.hUploadStream = options.upload_to.value_or(nullptr);
  const CUresult code = d.cuGraphInstantiateWithParams(&state->exec, graph, &params);
  if (code != CUDA_SUCCESS || params.result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    std::string context = describe(params.result_out);
    if (params.hErrNode_out) context += "; " + detail::describe_node(d, params.hErrNode_out);
    fail(d, code, Phase::Instantiate, "cuGraphInstantiateWithParams(", context,
         static_cast<int>(params.result_out));
  }
  if (options.keep_source) state->shared->source = source;
  state->shared->options = options;
  if (source) {
    state->shared->plain = source->plain;
    state->shared->version = source->version;
    state->shared->record = source->record;
  }
  return state;
}

std::string update_reason(const driver::Driver& d, CUresult code, const CUgraphExecUpdateResultInfo& info) {
  std::string reason = fmt::format("{}: {}", driver::describe(d, code), describe(info.result));
  if (info.errorNode) reason += fmt::format(" [{}]", detail::describe_node(d, info.errorNode));
  return reason + explain(code, Phase::Update, "cuGraphExecUpdate", static_cast<int>(info.result));
}

}  // namespace

GraphExec Graph::instantiate(const InstantiateOptions& options) const {
  const driver::Driver& d = driver();
  return GraphExec(make_exec(d, graph_, shared_, options));
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

void GraphExec::upload(CUstream stream) const {
  const std::lock_guard lock(state_->lock);
  RONDO_GRAPH_CHECK(*state_->driver, Launch, cuGraphUpload(state_->exec, stream),
                    detail::describe_stream(stream));
}

// ---------------------------------------------------------------- the whole graph

Updated GraphExec::update(const GraphView& graph, AttributeCheck check) {
  const std::lock_guard lock(state_->lock);
  const driver::Driver& d = *state_->driver;
  detail::ExecShared& known = *state_->shared;
  Updated out;
  const bool new_plain = graph.state_ && graph.state_->plain;
  std::shared_ptr<const detail::AttributeRecord> record;
  if (check == AttributeCheck::Compare && !(known.plain && new_plain)) {
    detail::GraphState* source = known.source.get();
    if (!known.record && source && source->version == known.version)
      known.record = detail::read_attributes(d, source->graph, source);
    record = detail::read_attributes(d, graph.graph_, graph.state_);
    CUgraphNode node = nullptr;
    std::string differs;
    if (known.record)
      differs = detail::compare_attributes(d, *known.record, *record, &node);
    else
      differs =
          "the attributes that the executable graph was made with are not known (it was adopted, or its "
          "graph "
          "has changed since)";
    if (!differs.empty()) {
      out.attributes_differ = true;
      out.result = static_cast<CUgraphExecUpdateResult>(8);  // ATTRIBUTES_CHANGED
      out.node = graph.view(node);
      out.reason =
          differs +
          ": the driver may say success and keep the old value, so the update was not made. Instantiate anew "
          "(update_or_reinstantiate), or update with AttributeCheck::Skip if it does not matter";
      return out;
    }
  }
  CUgraphExecUpdateResultInfo info{};
  out.code = d.cuGraphExecUpdate(state_->exec, graph.graph_, &info);
  out.result = info.result;
  if (out.code == CUDA_SUCCESS && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    out.ok = true;
    return out;
  }
  if (out.code != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    fail(d, out.code, Phase::Update, "cuGraphExecUpdate(",
         info.errorNode ? detail::describe_node(d, info.errorNode) : "", static_cast<int>(info.result));
  out.node = graph.view(info.errorNode);
  out.from_node = graph.view(info.errorFromNode);
  out.reason = update_reason(d, out.code, info);
  return out;
}

UpdateOutcome GraphExec::update_or_reinstantiate(const Graph& graph, AttributeCheck check) {
  Updated updated = update(graph, check);
  if (updated.ok) return {};
  std::unique_ptr<ExecState> fresh =
      make_exec(*state_->driver, graph.graph_, graph.shared_, state_->shared->options);
  trace::note(trace::Level::Info, "graph.reinstantiated", updated.reason);
  {
    // The lock stays where other threads wait for it; what it protects changes hands.
    const std::lock_guard lock(state_->lock);
    std::swap(state_->exec, fresh->exec);
    std::swap(state_->shared, fresh->shared);
  }
  return {UpdateHow::Reinstantiated, std::move(updated.reason)};
}

// ---------------------------------------------------------------- node by node

#define RONDO_EXEC(call, node)              \
  const std::lock_guard lock(state_->lock); \
  RONDO_GRAPH_CHECK(*state_->driver, Update, call, detail::describe_node(*state_->driver, (node).get()))

namespace {
CUcontext current(const driver::Driver& d) {
  CUcontext context = nullptr;
  RONDO_GRAPH_CHECK(d, Update, cuCtxGetCurrent(&context), "");
  return context;
}
}  // namespace

void GraphExec::set(NodeView node, const KernelParams& params) {
  RONDO_EXEC(cuGraphExecKernelNodeSetParams(state_->exec, node.get(), &params.raw), node);
}
void GraphExec::set(NodeView node, const CUDA_MEMCPY3D& params) {
  const CUcontext context = current(*state_->driver);
  RONDO_EXEC(cuGraphExecMemcpyNodeSetParams(state_->exec, node.get(), &params, context), node);
}
void GraphExec::set(NodeView node, const CUDA_MEMSET_NODE_PARAMS& params) {
  const CUcontext context = current(*state_->driver);
  RONDO_EXEC(cuGraphExecMemsetNodeSetParams(state_->exec, node.get(), &params, context), node);
}
void GraphExec::set(NodeView node, const CUDA_HOST_NODE_PARAMS& params) {
  RONDO_EXEC(cuGraphExecHostNodeSetParams(state_->exec, node.get(), &params), node);
}
void GraphExec::set(NodeView node, const GraphView& child) {
  RONDO_EXEC(cuGraphExecChildGraphNodeSetParams(state_->exec, node.get(), child.graph_), node);
}
void GraphExec::set(NodeView node, CUevent event) {
  if (node.kind() == NodeKind::EventRecord) {
    RONDO_EXEC(cuGraphExecEventRecordNodeSetEvent(state_->exec, node.get(), event), node);
    return;
  }
  node.expect(NodeKind::EventWait, "the event");
  RONDO_EXEC(cuGraphExecEventWaitNodeSetEvent(state_->exec, node.get(), event), node);
}
void GraphExec::set(NodeView node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params) {
  RONDO_EXEC(cuGraphExecExternalSemaphoresSignalNodeSetParams(state_->exec, node.get(), &params), node);
}
void GraphExec::set(NodeView node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params) {
  RONDO_EXEC(cuGraphExecExternalSemaphoresWaitNodeSetParams(state_->exec, node.get(), &params), node);
}
void GraphExec::set(NodeView node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  RONDO_EXEC(cuGraphExecBatchMemOpNodeSetParams(state_->exec, node.get(), &params), node);
}
void GraphExec::enable(NodeView node, bool on) {
  RONDO_EXEC(cuGraphNodeSetEnabled(state_->exec, node.get(), on), node);
}
bool GraphExec::enabled(NodeView node) const {
  unsigned on = 0;
  RONDO_EXEC(cuGraphNodeGetEnabled(state_->exec, node.get(), &on), node);
  return on != 0;
}

uint64_t GraphExec::flags() const {
  cuuint64_t flags = 0;
  RONDO_GRAPH_CHECK(*state_->driver, Update, cuGraphExecGetFlags(state_->exec, &flags), "");
  return flags;
}

GraphView GraphExec::source() const {
  detail::GraphState* source = state_->shared->source.get();
  if (!source)
    throw Error(ErrorKind::Usage,
                "the graph of this executable graph is not known: it was adopted, or made without "
                "keep_source. Keep the graph that it was made from");
  return GraphView(source->graph, source);
}

}  // namespace rondo::graph
