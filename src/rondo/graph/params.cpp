// What a node is: its kind, its neighbours, its parameters and attributes in the graph.
#include <fmt/format.h>

#include "rondo/graph/state.h"

namespace rondo::graph {

const driver::Driver& NodeView::driver() const {
  if (!node_) [[unlikely]]
    throw Error(ErrorKind::Usage, "this NodeView is of no node. Use one that a graph gave");
  detail::expect_not_lost(state_);
  return state_ ? state_->driver : driver::driver();
}

NodeKind NodeView::kind() const {
  CUgraphNodeType type{};
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphNodeGetType(node_, &type), "");
  const int number = static_cast<int>(type);
  return number >= 0 && number <= static_cast<int>(NodeKind::Conditional) ? static_cast<NodeKind>(number)
                                                                          : NodeKind::Unknown;
}

std::string NodeView::describe() const { return node_ ? detail::describe_node(driver(), node_) : "no node"; }

void NodeView::expect(NodeKind wanted, const char* what) const {
  const NodeKind is = kind();
  if (is != wanted)
    throw Error(ErrorKind::Usage,
                fmt::format("{} of a node of kind {}: expected kind {}. Ask NodeView::kind() first", what,
                            name(is), name(wanted)));
}

namespace {

// Both directions: `newer` and `older` are the driver's calls with and without edge data.
template <class Newer, class Older>
std::vector<CUgraphNode> neighbours(bool has_newer, const Newer& newer, const Older& older) {
  size_t count = 0;
  std::vector<CUgraphNode> nodes;
  has_newer ? newer(nullptr, &count) : older(nullptr, &count);
  nodes.resize(count);
  if (count) has_newer ? newer(nodes.data(), &count) : older(nodes.data(), &count);
  return nodes;
}

}  // namespace

std::vector<NodeView> NodeView::dependencies() const {
  const driver::Driver& d = driver();
  bool newer = false;
#if CUDA_VERSION >= 12030
  newer = static_cast<bool>(d.cuGraphNodeGetDependencies_v2);
#endif
  const std::vector<CUgraphNode> found = neighbours(
      newer,
      [&]([[maybe_unused]] CUgraphNode* out, [[maybe_unused]] size_t* n) {
#if CUDA_VERSION >= 12030
        std::vector<CUgraphEdgeData> data(*n);
        RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v2(node_, out, out ? data.data() : nullptr, n),
                          "");
#endif
      },
      [&](CUgraphNode* out, size_t* n) {
        RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v1(node_, out, n), "");
      });
  std::vector<NodeView> out;
  for (CUgraphNode node : found) out.emplace_back(node, state_);
  return out;
}

std::vector<NodeView> NodeView::dependents() const {
  const driver::Driver& d = driver();
  bool newer = false;
#if CUDA_VERSION >= 12030
  newer = static_cast<bool>(d.cuGraphNodeGetDependentNodes_v2);
#endif
  const std::vector<CUgraphNode> found = neighbours(
      newer,
      [&]([[maybe_unused]] CUgraphNode* out, [[maybe_unused]] size_t* n) {
#if CUDA_VERSION >= 12030
        std::vector<CUgraphEdgeData> data(*n);
        RONDO_GRAPH_CHECK(d, Build,
                          cuGraphNodeGetDependentNodes_v2(node_, out, out ? data.data() : nullptr, n), "");
#endif
      },
      [&](CUgraphNode* out, size_t* n) {
        RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependentNodes_v1(node_, out, n), "");
      });
  std::vector<NodeView> out;
  for (CUgraphNode node : found) out.emplace_back(node, state_);
  return out;
}

// ---------------------------------------------------------------- parameters

#define RONDO_GET(kind_, what, type, call)                 \
  expect(NodeKind::kind_, what);                           \
  type p{};                                                \
  RONDO_GRAPH_CHECK(driver(), Build, call(node_, &p), ""); \
  return p

CUDA_KERNEL_NODE_PARAMS NodeView::kernel() const {
  RONDO_GET(Kernel, "kernel parameters", CUDA_KERNEL_NODE_PARAMS, cuGraphKernelNodeGetParams);
}
CUDA_MEMCPY3D NodeView::memcpy() const {
  RONDO_GET(Memcpy, "copy parameters", CUDA_MEMCPY3D, cuGraphMemcpyNodeGetParams);
}
CUDA_MEMSET_NODE_PARAMS NodeView::memset() const {
  RONDO_GET(Memset, "fill parameters", CUDA_MEMSET_NODE_PARAMS, cuGraphMemsetNodeGetParams);
}
CUDA_HOST_NODE_PARAMS NodeView::host() const {
  RONDO_GET(Host, "the host function", CUDA_HOST_NODE_PARAMS, cuGraphHostNodeGetParams);
}
CUDA_EXT_SEM_SIGNAL_NODE_PARAMS NodeView::signal() const {
  RONDO_GET(SemaphoreSignal, "semaphores", CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
            cuGraphExternalSemaphoresSignalNodeGetParams);
}
CUDA_EXT_SEM_WAIT_NODE_PARAMS NodeView::wait() const {
  RONDO_GET(SemaphoreWait, "semaphores", CUDA_EXT_SEM_WAIT_NODE_PARAMS,
            cuGraphExternalSemaphoresWaitNodeGetParams);
}
CUDA_MEM_ALLOC_NODE_PARAMS NodeView::alloc() const {
  RONDO_GET(Alloc, "the allocation", CUDA_MEM_ALLOC_NODE_PARAMS, cuGraphMemAllocNodeGetParams);
}
CUdeviceptr NodeView::freed() const {
  RONDO_GET(Free, "the freed address", CUdeviceptr, cuGraphMemFreeNodeGetParams);
}
CUDA_BATCH_MEM_OP_NODE_PARAMS NodeView::batch() const {
  RONDO_GET(BatchMemOp, "memory operations", CUDA_BATCH_MEM_OP_NODE_PARAMS, cuGraphBatchMemOpNodeGetParams);
}

GraphView NodeView::child() const {
  expect(NodeKind::Child, "the child graph");
  CUgraph graph = nullptr;
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphChildGraphNodeGetGraph(node_, &graph), "");
  return GraphView(graph, state_);
}

CUevent NodeView::event() const {
  CUevent event = nullptr;
  if (kind() == NodeKind::EventRecord) {
    RONDO_GRAPH_CHECK(driver(), Build, cuGraphEventRecordNodeGetEvent(node_, &event), "");
    return event;
  }
  expect(NodeKind::EventWait, "the event");
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphEventWaitNodeGetEvent(node_, &event), "");
  return event;
}

std::optional<Condition> NodeView::condition() const {
  expect(NodeKind::Conditional, "the condition");
  if (!state_) return std::nullopt;
  const Condition* known = state_->condition(node_);
  return known ? std::optional<Condition>(*known) : std::nullopt;
}

#define RONDO_SET(kind_, what, call) \
  expect(NodeKind::kind_, what);     \
  RONDO_GRAPH_CHECK(driver(), Build, call(node_, &params), describe())

void NodeView::set(const KernelParams& given) const {
  const CUDA_KERNEL_NODE_PARAMS& params = *given.raw;
  RONDO_SET(Kernel, "kernel parameters", cuGraphKernelNodeSetParams);
  for (const CUlaunchAttribute& a : given.attributes) set(a);
}
void NodeView::set(const CUDA_MEMCPY3D& params) const {
  RONDO_SET(Memcpy, "copy parameters", cuGraphMemcpyNodeSetParams);
}
void NodeView::set(const CUDA_MEMSET_NODE_PARAMS& params) const {
  RONDO_SET(Memset, "fill parameters", cuGraphMemsetNodeSetParams);
}
void NodeView::set(const CUDA_HOST_NODE_PARAMS& params) const {
  RONDO_SET(Host, "the host function", cuGraphHostNodeSetParams);
}
void NodeView::set(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params) const {
  RONDO_SET(SemaphoreSignal, "semaphores", cuGraphExternalSemaphoresSignalNodeSetParams);
}
void NodeView::set(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params) const {
  RONDO_SET(SemaphoreWait, "semaphores", cuGraphExternalSemaphoresWaitNodeSetParams);
}
void NodeView::set(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) const {
  RONDO_SET(BatchMemOp, "memory operations", cuGraphBatchMemOpNodeSetParams);
}
void NodeView::set(CUevent event) const {
  if (kind() == NodeKind::EventRecord) {
    RONDO_GRAPH_CHECK(driver(), Build, cuGraphEventRecordNodeSetEvent(node_, event), "");
    return;
  }
  expect(NodeKind::EventWait, "the event");
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphEventWaitNodeSetEvent(node_, event), "");
}

// ---------------------------------------------------------------- attributes

std::optional<CUlaunchAttributeValue> NodeView::attribute(CUlaunchAttributeID id) const {
  CUlaunchAttributeValue value{};
  if (driver().cuGraphKernelNodeGetAttribute(node_, id, &value) == CUDA_SUCCESS) return value;
  expect(NodeKind::Kernel, "an attribute");
  return std::nullopt;
}

void NodeView::set(const CUlaunchAttribute& a) const {
  constexpr int kPreferredCluster = 11;  // not to be read back
  if (state_) {
    state_->plain = false;
    state_->own &= static_cast<int>(a.id) != kPreferredCluster;
    state_->changed();
  }
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphKernelNodeSetAttribute(node_, a.id, &a.value),
                    fmt::format("attribute {} of {}", static_cast<int>(a.id), describe()));
}

void NodeView::copy_attributes_from(NodeView other) const {
  detail::expect_not_lost(other.state_);
  if (state_) {
    state_->plain = false;
    state_->own &= other.state_ && other.state_->own;
    state_->changed();
  }
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphKernelNodeCopyAttributes(node_, other.get()),
                    fmt::format("to {} from {}", describe(), other.describe()));
}

}  // namespace rondo::graph
