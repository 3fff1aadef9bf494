// Adding nodes of every kind. Full edges go through the call of the kind, which every driver has and which
// costs least; edges with data through cuGraphAddNode.
#include <fmt/format.h>

#include "rondo/base/trace.h"
#include "rondo/graph/state.h"

namespace rondo::graph {

using detail::Dependencies;

namespace {

CUcontext current_context(const driver::Driver& d) {
  CUcontext context = nullptr;
  RONDO_GRAPH_CHECK(d, Build, cuCtxGetCurrent(&context), "");
  return context;
}

std::string describe_kernel([[maybe_unused]] const driver::Driver& d, const CUDA_KERNEL_NODE_PARAMS& p) {
  const char* name = nullptr;
#if CUDA_VERSION >= 12030
  if (p.func && d.cuFuncGetName && d.cuFuncGetName(&name, p.func) != CUDA_SUCCESS) name = nullptr;
  if (!p.func && p.kern && d.cuKernelGetName && d.cuKernelGetName(&name, p.kern) != CUDA_SUCCESS)
    name = nullptr;
#endif
  return fmt::format("kernel {}, grid {}x{}x{}, block {}x{}x{}, shared {}", name ? name : "of unknown name",
                     p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
                     p.sharedMemBytes);
}

// The generic call, for edges that carry data.
template <class Fill>
CUgraphNode add_generic(const driver::Driver& d, CUgraph graph, const Dependencies& after,
                        CUgraphNodeType type, const std::string& context, const Fill& fill) {
#if CUDA_VERSION >= 12030
  CUgraphNodeParams params{};
  params.type = type;
  fill(params);
  CUgraphNode node = nullptr;
  RONDO_GRAPH_CHECK(d, Build,
                    cuGraphAddNode_v2(&node, graph, after.nodes(), after.data(), after.count(), &params),
                    context);
  return node;
#else
  (void)d, (void)graph, (void)after, (void)type, (void)fill;
  throw Error(ErrorKind::Internal, "an edge with data passed require(): " + context);
#endif
}

CUDA_MEMCPY3D line(size_t bytes) {
  CUDA_MEMCPY3D p{};
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  return p;
}

std::string describe_copy(const CUDA_MEMCPY3D& p) {
  return fmt::format("copy of {} bytes, {} rows, {} layers", p.WidthInBytes, p.Height, p.Depth);
}

// A graph with itself as a child has no end: cuGraphAddChildGraphNode of driver 580 ends the process
// (docs/graph_facts.md). The same would be a graph as a child of one of its own parts, so parts of one graph
// are no children of each other.
void check_child(CUgraph graph, const detail::GraphState* state, CUgraph child,
                 const detail::GraphState* of_child) {
  detail::expect_not_lost(of_child);
  const detail::GraphState* root = detail::root_of(state);
  if (graph == child)
    throw Error(ErrorKind::Usage,
                "a graph cannot be a child of itself. Clone it, and make the clone a child: Graph copy = "
                "graph.clone(); graph.child(copy)");
  if (root && root == detail::root_of(of_child))
    throw Error(ErrorKind::Usage,
                "a graph and its parts (bodies, children) cannot be children of each other. Clone the part, "
                "and make the clone a child: Graph copy = part.clone(); graph.child(copy)");
}

void call_host(void* work) {
  try {
    (*static_cast<std::function<void()>*>(work))();
  } catch (const std::exception& e) {
    trace::note(trace::Level::Error, "graph.host", fmt::format("a host node threw: {}", e.what()));
  } catch (...) {
    trace::note(trace::Level::Error, "graph.host", "a host node threw something that is no std::exception");
  }
}

}  // namespace

// Adds by the typed call `typed`, or generically with the member of CUgraphNodeParams filled in by the block
// that follows it.
#define RONDO_ADD(type, context, typed, ...)                                                               \
  const driver::Driver& d = driver();                                                                      \
  CUgraphNode node = nullptr;                                                                              \
  detail::with_dependencies(after, [&](const Dependencies& deps) {                                         \
    if (state_) state_->changed();                                                                         \
    if (deps.full())                                                                                       \
      RONDO_GRAPH_CHECK(d, Build, typed, context);                                                         \
    else                                                                                                   \
      node =                                                                                               \
          add_generic(d, graph_, deps, type, context, [&]([[maybe_unused]] auto& params_out) __VA_ARGS__); \
  })

NodeView GraphView::add(const KernelParams& params, const After& after) {
  const CUDA_KERNEL_NODE_PARAMS& p = *params.raw;
  // The usual node, without what the general way has to look after.
  const std::span<const Dependency> list = after.list();
  if (params.attributes.empty() && list.size() <= 1 && after.nodes().empty() &&
      (list.empty() || list[0].data.full())) [[likely]] {
    const driver::Driver& known = state_ && !state_->lost ? state_->driver : driver();
    CUgraphNode one = nullptr;
    std::span<const CUgraphNode> before = after.handles();
    if (!list.empty()) {
      detail::expect_not_lost(list[0].node.state_);
      one = list[0].node.get();
      before = {&one, 1};
    }
    CUgraphNode node = nullptr;
    if (state_) state_->changed();
    if (const CUresult code = known.cuGraphAddKernelNode(&node, graph_, before.data(), before.size(), &p);
        code != CUDA_SUCCESS) [[unlikely]]
      fail(known, code, Phase::Build, "cuGraphAddKernelNode(", describe_kernel(known, p));
    return view(node);
  }
  RONDO_ADD(CU_GRAPH_NODE_TYPE_KERNEL, describe_kernel(d, p),
            cuGraphAddKernelNode(&node, graph_, deps.nodes(), deps.count(), &p), {
              auto& k = params_out.kernel;
              k.func = p.func;
              k.gridDimX = p.gridDimX, k.gridDimY = p.gridDimY, k.gridDimZ = p.gridDimZ;
              k.blockDimX = p.blockDimX, k.blockDimY = p.blockDimY, k.blockDimZ = p.blockDimZ;
              k.sharedMemBytes = p.sharedMemBytes;
              k.kernelParams = p.kernelParams;
              k.extra = p.extra;
              k.kern = p.kern;
              k.ctx = p.ctx;
            });
  if (params.attributes.empty()) return view(node);
  // Device-updatable last: such a node cannot be taken out again.
  for (const bool updatable : {false, true})
    for (const CUlaunchAttribute& a : params.attributes) {
      if ((static_cast<int>(a.id) == 13) != updatable) continue;
      try {
        view(node).set(a);
      } catch (...) {
        (void)d.cuGraphDestroyNode(node);
        throw;
      }
    }
  return view(node);
}

NodeView GraphView::copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, const After& after) {
  CUDA_MEMCPY3D p = line(bytes);
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = from, p.dstDevice = to;
  return add(p, after);
}
NodeView GraphView::copy(CUdeviceptr to, const void* from, size_t bytes, const After& after) {
  CUDA_MEMCPY3D p = line(bytes);
  p.srcMemoryType = CU_MEMORYTYPE_HOST, p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcHost = from, p.dstDevice = to;
  return add(p, after);
}
NodeView GraphView::copy(void* to, CUdeviceptr from, size_t bytes, const After& after) {
  CUDA_MEMCPY3D p = line(bytes);
  p.srcMemoryType = CU_MEMORYTYPE_DEVICE, p.dstMemoryType = CU_MEMORYTYPE_HOST;
  p.srcDevice = from, p.dstHost = to;
  return add(p, after);
}
NodeView GraphView::copy(void* to, const void* from, size_t bytes, const After& after) {
  CUDA_MEMCPY3D p = line(bytes);
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_HOST;
  p.srcHost = from, p.dstHost = to;
  return add(p, after);
}

NodeView GraphView::add(const CUDA_MEMCPY3D& p, const After& after) {
  const CUcontext context = current_context(driver());
  RONDO_ADD(CU_GRAPH_NODE_TYPE_MEMCPY, describe_copy(p),
            cuGraphAddMemcpyNode(&node, graph_, deps.nodes(), deps.count(), &p, context), {
              params_out.memcpy.copyCtx = context;
              params_out.memcpy.copyParams = p;
            });
  return view(node);
}

NodeView GraphView::fill(CUdeviceptr to, unsigned value, size_t count, unsigned element_bytes,
                         const After& after) {
  CUDA_MEMSET_NODE_PARAMS p{};
  p.dst = to;
  p.value = value;
  p.elementSize = element_bytes;
  p.width = count;
  p.height = 1;
  return add(p, after);
}

NodeView GraphView::add(const CUDA_MEMSET_NODE_PARAMS& p, const After& after) {
  const CUcontext context = current_context(driver());
  RONDO_ADD(CU_GRAPH_NODE_TYPE_MEMSET,
            fmt::format("fill of {} elements of {} bytes, {} rows", p.width, p.elementSize, p.height),
            cuGraphAddMemsetNode(&node, graph_, deps.nodes(), deps.count(), &p, context), {
              auto& m = params_out.memset;
              m.dst = p.dst, m.pitch = p.pitch, m.value = p.value;
              m.elementSize = p.elementSize, m.width = p.width, m.height = p.height;
              m.ctx = context;
            });
  return view(node);
}

NodeView GraphView::add(const CUDA_HOST_NODE_PARAMS& p, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_HOST, "host node",
            cuGraphAddHostNode(&node, graph_, deps.nodes(), deps.count(), &p), {
              params_out.host.fn = p.fn;
              params_out.host.userData = p.userData;
            });
  return view(node);
}

NodeView GraphView::host(std::function<void()> work, const After& after) {
  if (!work)
    throw Error(ErrorKind::Usage,
                "a host node without a function: it would throw at every launch, where nobody sees it. Give "
                "one, or add an empty node");
  auto kept = std::make_shared<std::function<void()>>(std::move(work));
  CUDA_HOST_NODE_PARAMS p{};
  p.fn = call_host;
  p.userData = kept.get();
  keep(std::move(kept));
  return add(p, after);
}

NodeView GraphView::child(const GraphView& child, const After& after) {
  (void)child.driver();
  check_child(graph_, state_, child.graph_, child.state_);
  RONDO_ADD(CU_GRAPH_NODE_TYPE_GRAPH, "child graph",
            cuGraphAddChildGraphNode(&node, graph_, deps.nodes(), deps.count(), child.graph_),
            { params_out.graph.graph = child.graph_; });
  if (state_) {
    state_->own &= child.state_ && child.state_->all_own();
    state_->plain &= child.state_ && child.state_->all_plain();
  }
  return view(node);
}

NodeView GraphView::child(Graph&& child, const After& after) {
  require(Feature::ChildMove);
#if CUDA_VERSION >= 12090
  (void)child.driver();
  check_child(graph_, state_, child.graph_, child.state_);
  // Whoever else holds it would be left with the nodes of a graph that its parent destroys.
  if (!child.share_.only())
    throw Error(
        ErrorKind::Usage,
        "the graph that is to be moved in as a child is in use: an executable graph was made from it, "
        "or a capture goes into it. Destroy the executable graph first (or make it without "
        "keep_source), or add a clone");
  const driver::Driver& d = driver();
  CUgraphNode room[detail::kFewDependencies];
  const Dependencies deps(after, room);
  if (state_) state_->changed();
  const CUgraphNode node =
      add_generic(d, graph_, deps, CU_GRAPH_NODE_TYPE_GRAPH, "child graph, moved", [&](CUgraphNodeParams& p) {
        p.graph.graph = child.graph_;
        p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
      });
  // The parent destroys it from now on; views of its nodes stay good as long as the parent does.
  const detail::StateShare moved = std::move(child.share_);
  moved->owned = false;
  child.graph_ = nullptr;
  child.state_ = nullptr;
  if (state_) {
    state_->own &= moved->all_own();
    state_->plain &= moved->all_plain();
    state_->make_rare().moved_in.push_back(moved);
    moved->within = state_;
  } else {
    keep(std::make_shared<const detail::StateShare>(moved));
  }
  return view(node);
#else
  (void)child, (void)after;
  throw Error(ErrorKind::Internal, "a feature that these headers lack passed require()");
#endif
}

NodeView GraphView::empty(const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_EMPTY, "empty node",
            cuGraphAddEmptyNode(&node, graph_, deps.nodes(), deps.count()), {});
  return view(node);
}

NodeView GraphView::record(CUevent event, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_EVENT_RECORD, "event record node",
            cuGraphAddEventRecordNode(&node, graph_, deps.nodes(), deps.count(), event),
            { params_out.eventRecord.event = event; });
  return view(node);
}

NodeView GraphView::wait(CUevent event, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_WAIT_EVENT, "event wait node",
            cuGraphAddEventWaitNode(&node, graph_, deps.nodes(), deps.count(), event),
            { params_out.eventWait.event = event; });
  return view(node);
}

NodeView GraphView::add(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& p, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, fmt::format("signal of {} semaphores", p.numExtSems),
            cuGraphAddExternalSemaphoresSignalNode(&node, graph_, deps.nodes(), deps.count(), &p), {
              params_out.extSemSignal.extSemArray = p.extSemArray;
              params_out.extSemSignal.paramsArray = p.paramsArray;
              params_out.extSemSignal.numExtSems = p.numExtSems;
            });
  return view(node);
}

NodeView GraphView::add(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& p, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, fmt::format("wait for {} semaphores", p.numExtSems),
            cuGraphAddExternalSemaphoresWaitNode(&node, graph_, deps.nodes(), deps.count(), &p), {
              params_out.extSemWait.extSemArray = p.extSemArray;
              params_out.extSemWait.paramsArray = p.paramsArray;
              params_out.extSemWait.numExtSems = p.numExtSems;
            });
  return view(node);
}

Allocation GraphView::alloc(size_t bytes, const After& after) {
  CUdevice device = 0;
  RONDO_GRAPH_CHECK(driver(), Build, cuCtxGetDevice(&device), "");
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.poolProps.location.id = device;
  p.bytesize = bytes;
  const NodeView node = add(&p, after);
  return {node, p.dptr};
}

NodeView GraphView::add(CUDA_MEM_ALLOC_NODE_PARAMS* p, const After& after) {
  // An alloc node cannot wait by an edge with data: those end at kernels.
  RONDO_ADD(CU_GRAPH_NODE_TYPE_MEM_ALLOC, fmt::format("{} bytes", p->bytesize),
            cuGraphAddMemAllocNode(&node, graph_, deps.nodes(), deps.count(), p), {
              auto& a = params_out.alloc;
              a.poolProps = p->poolProps;
              a.accessDescs = p->accessDescs, a.accessDescCount = p->accessDescCount;
              a.bytesize = p->bytesize;
              p->dptr = 0;
            });
  if (p->dptr == 0) {
    CUDA_MEM_ALLOC_NODE_PARAMS made{};
    RONDO_GRAPH_CHECK(d, Build, cuGraphMemAllocNodeGetParams(node, &made), "");
    p->dptr = made.dptr;
  }
  return view(node);
}

NodeView GraphView::free(CUdeviceptr address, const After& after) {
  RONDO_ADD(CU_GRAPH_NODE_TYPE_MEM_FREE, fmt::format("address {:#x}", address),
            cuGraphAddMemFreeNode(&node, graph_, deps.nodes(), deps.count(), address),
            { params_out.free.dptr = address; });
  return view(node);
}

NodeView GraphView::batch(std::span<const CUstreamBatchMemOpParams> operations, unsigned flags,
                          const After& after) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  p.ctx = current_context(driver());
  p.count = static_cast<unsigned>(operations.size());
  p.paramArray = const_cast<CUstreamBatchMemOpParams*>(operations.data());  // read only
  p.flags = flags;
  RONDO_ADD(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, fmt::format("{} memory operations", p.count),
            cuGraphAddBatchMemOpNode(&node, graph_, deps.nodes(), deps.count(), &p), {
              auto& m = params_out.memOp;
              m.ctx = p.ctx, m.count = p.count, m.paramArray = p.paramArray, m.flags = p.flags;
            });
  return view(node);
}

// ---------------------------------------------------------------- conditions

ConditionHandle GraphView::condition([[maybe_unused]] std::optional<unsigned> default_value) {
  require(Feature::Conditional);
  [[maybe_unused]] const driver::Driver& d = driver();
  ConditionHandle handle = 0;
#if CUDA_VERSION >= 12030
  const CUcontext context = current_context(d);
  CUgraphConditionalHandle made = 0;
  RONDO_GRAPH_CHECK(d, Build,
                    cuGraphConditionalHandleCreate(&made, graph_, context, default_value.value_or(0),
                                                   default_value ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0),
                    "");
  handle = made;
#endif
  return handle;
}

Condition GraphView::add_condition(ConditionHandle handle, ConditionKind kind, unsigned bodies,
                                   const After& after) {
  Condition made;
#if CUDA_VERSION >= 12030
  const driver::Driver& d = driver();
  const CUcontext context = current_context(d);
  CUgraphNode room[detail::kFewDependencies];
  const Dependencies deps(after, room);
  if (state_) state_->changed();
  CUgraph* graphs = nullptr;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  // 2 is CU_GRAPH_COND_TYPE_SWITCH, which headers before 12.8 do not name.
  params.conditional.type = kind == ConditionKind::While    ? CU_GRAPH_COND_TYPE_WHILE
                            : kind == ConditionKind::Switch ? static_cast<CUgraphConditionalNodeType>(2)
                                                            : CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = bodies;
  params.conditional.ctx = context;
  CUgraphNode node = nullptr;
  RONDO_GRAPH_CHECK(d, Build,
                    cuGraphAddNode_v2(&node, graph_, deps.nodes(), deps.data(), deps.count(), &params),
                    fmt::format("conditional node with {} bodies", bodies));
  graphs = params.conditional.phGraph_out;
  made.node = view(node);
  made.kind = kind;
  made.handle = handle;
  for (unsigned i = 0; i < bodies; ++i) made.bodies.push_back(GraphView(graphs[i], state_));
  if (state_) state_->make_rare().conditions.emplace(node, made);
#else
  (void)handle, (void)kind, (void)bodies, (void)after;
#endif
  return made;
}

Condition GraphView::if_node(ConditionHandle handle, const After& after) {
  require(Feature::Conditional);
  return add_condition(handle, ConditionKind::If, 1, after);
}
Condition GraphView::if_else_node(ConditionHandle handle, const After& after) {
  require(Feature::ConditionalElse);
  return add_condition(handle, ConditionKind::IfElse, 2, after);
}
Condition GraphView::while_node(ConditionHandle handle, const After& after) {
  require(Feature::Conditional);
  return add_condition(handle, ConditionKind::While, 1, after);
}
Condition GraphView::switch_node(ConditionHandle handle, unsigned cases, const After& after) {
  require(Feature::ConditionalSwitch);
  if (cases == 0)
    throw Error(ErrorKind::Usage,
                "a switch node has no case: expected one or more. Give the number of bodies");
  return add_condition(handle, ConditionKind::Switch, cases, after);
}

}  // namespace rondo::graph
