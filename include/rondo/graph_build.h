// A graph as it is built, looked at and changed: NodeView and GraphView borrow, Graph owns.
//
// A graph made node by node and one made by capture are the same type. Nodes come from a graph and die with
// it. Graph objects are not thread-safe: one thread at a time works on a graph (the driver's rule). Errors of
// every call: Device with the driver's words, the node, the cause and the remedy; Unavailable where the
// driver is too old for the feature.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "rondo/graph_types.h"

namespace rondo::graph {

namespace detail {
struct GraphState;  // of an owned graph: the handle, what is known about its nodes. Execs share it
class Dependencies;

// A share of a GraphState, which counts its shares itself and goes with the last: so a share can be made of
// any view's pointer, and costs one. Shares of one state may be used by several threads.
class StateShare {
 public:
  StateShare() noexcept = default;
  // A new state, of a graph that is owned; null: to be set.
  static StateShare make(const driver::Driver& driver, CUgraph graph);
  explicit StateShare(GraphState* state) noexcept : state_(state) {
    if (state_) add(state_);
  }
  StateShare(const StateShare& other) noexcept : StateShare(other.state_) {}
  StateShare(StateShare&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  StateShare& operator=(StateShare other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~StateShare() {
    if (state_) drop(state_);
  }
  GraphState* get() const noexcept { return state_; }
  GraphState* operator->() const noexcept { return state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  bool only() const noexcept;  // of a share that is one: there is no other

 private:
  static void add(GraphState* state) noexcept;
  static void drop(GraphState* state) noexcept;
  GraphState* state_ = nullptr;
};
}  // namespace detail
class GraphView;
class GraphExec;
struct InstantiateOptions;
struct Condition;

// A node, borrowed: two pointers, copied freely. Valid while its graph lives and the node is in it.
class NodeView {
 public:
  NodeView() noexcept = default;
  NodeView(CUgraphNode node) noexcept : node_(node) {}
  NodeView(CUgraphNode node, detail::GraphState* state) noexcept : node_(node), state_(state) {}

  // For raw calls. An attribute that they change is not seen by the next update of an exec unless
  // GraphView::get() of the graph is called too.
  CUgraphNode get() const noexcept { return node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }
  bool operator==(const NodeView& other) const noexcept { return node_ == other.node_; }

  NodeKind kind() const;
  // "kernel node encode", "memset node": for messages.
  std::string describe() const;
  std::vector<NodeView> dependencies() const;
  std::vector<NodeView> dependents() const;

  // Parameters in the graph. Each asks for its kind: another one is Error(Usage) that names both. Pointers in
  // what a getter returns belong to the node; changing what they point to is undefined.
  CUDA_KERNEL_NODE_PARAMS kernel() const;
  CUDA_MEMCPY3D memcpy() const;
  CUDA_MEMSET_NODE_PARAMS memset() const;
  CUDA_HOST_NODE_PARAMS host() const;
  GraphView child() const;  // the clone that the node holds; lives as long as the node
  CUevent event() const;    // of an event record or an event wait
  CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signal() const;
  CUDA_EXT_SEM_WAIT_NODE_PARAMS wait() const;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc() const;
  CUdeviceptr freed() const;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch() const;
  // What was given when the node was added through Rondo; nothing for a node that came another way: the
  // driver tells a conditional node's parameters from CUDA 13.2 on only.
  std::optional<Condition> condition() const;

  // Change the graph, not its execs (GraphExec::set changes an exec). Attributes of `params` are set too.
  void set(const KernelParams& params) const;
  template <class... Args>
  void set(const KernelCall<Args...>& call) const {
    set(static_cast<KernelParams>(call));
  }
  void set(const CUDA_MEMCPY3D& params) const;  // within the current context
  void set(const CUDA_MEMSET_NODE_PARAMS& params) const;
  void set(const CUDA_HOST_NODE_PARAMS& params) const;
  void set(CUevent event) const;
  void set(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params) const;
  void set(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params) const;
  void set(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) const;

  // Attributes of a kernel node. A value that was never set is the default of its id; nothing when the driver
  // cannot read this id back.
  std::optional<CUlaunchAttributeValue> attribute(CUlaunchAttributeID id) const;
  void set(const CUlaunchAttribute& attribute) const;
  void copy_attributes_from(NodeView other) const;

 private:
  friend class GraphView;
  friend class GraphExec;
  friend class detail::Dependencies;
  const driver::Driver& driver() const;
  void expect(NodeKind kind, const char* what) const;
  CUgraphNode node_ = nullptr;
  detail::GraphState* state_ = nullptr;  // of the owned graph it belongs to, or null
};

// What a new node waits for: a node, by a full edge unless said otherwise.
//     graph.add(call, {a, {b, kProgrammatic}});
struct Dependency {
  Dependency(NodeView n, EdgeData d = kFull) noexcept : node(n), data(d) {}
  Dependency(CUgraphNode n, EdgeData d = kFull) noexcept : node(n), data(d) {}
  NodeView node;
  EdgeData data;
};
// Dependencies as an argument: a node, a list in braces, or a vector. Lives no longer than what it was made
// of.
class After {
 public:
  After() noexcept = default;
  After(NodeView one, EdgeData data = kFull) noexcept : one_(one, data) {}
  After(std::initializer_list<Dependency> list) noexcept
      : many_(list.begin()), count_(list.size()), form_(Form::List) {}
  After(const std::vector<Dependency>& list) noexcept : After(std::span<const Dependency>(list)) {}
  After(std::span<const Dependency> list) noexcept
      : many_(list.data()), count_(list.size()), form_(Form::List) {}
  // Nodes, by full edges.
  After(const std::vector<NodeView>& nodes) noexcept : After(std::span<const NodeView>(nodes)) {}
  After(std::span<const NodeView> nodes) noexcept
      : many_(nodes.data()), count_(nodes.size()), form_(Form::Nodes) {}
  // The driver's handles, by full edges: passed on as they lie there, without a copy. They must be valid:
  // that their graph was lost (Capture::finish) is seen in a NodeView only.
  After(const std::vector<CUgraphNode>& handles) noexcept : After(std::span<const CUgraphNode>(handles)) {}
  After(std::span<const CUgraphNode> handles) noexcept
      : many_(handles.data()), count_(handles.size()), form_(Form::Handles) {}

  // One of the three has the dependencies, the others are empty.
  std::span<const Dependency> list() const noexcept {
    return one_.node ? std::span<const Dependency>(&one_, 1) : as<Dependency>(Form::List);
  }
  std::span<const NodeView> nodes() const noexcept { return as<NodeView>(Form::Nodes); }
  std::span<const CUgraphNode> handles() const noexcept { return as<CUgraphNode>(Form::Handles); }

 private:
  enum class Form : uint8_t { List, Nodes, Handles };
  template <class T>
  std::span<const T> as(Form form) const noexcept {
    return form_ == form ? std::span<const T>(static_cast<const T*>(many_), count_) : std::span<const T>();
  }
  Dependency one_{NodeView()};
  const void* many_ = nullptr;
  size_t count_ = 0;
  Form form_ = Form::Handles;
};

struct Edge {
  NodeView from, to;
  EdgeData data;
};

// A value that a kernel sets (cudaGraphSetConditional) and that conditional nodes of the same graph read.
using ConditionHandle = cuuint64_t;
enum class ConditionKind { If, IfElse, While, Switch };

struct Allocation {
  NodeView node;
  CUdeviceptr address = 0;  // fixed for the life of the graph
};

// A graph, borrowed: a CUgraph, or a part of a Graph (the body of a conditional node, a child, a running
// capture).
class GraphView {
 public:
  GraphView(CUgraph graph);

  // The handle for raw calls. What they do is not seen by Rondo, so attributes of kernel nodes are read from
  // the driver at the next update of an exec (three calls a kernel node) instead of being known. Null
  // when the graph was lost (Capture::finish).
  CUgraph get() const noexcept;
  bool operator==(const GraphView& other) const noexcept { return graph_ == other.graph_; }

  // ---- nodes, in the order in which they were added
  size_t node_count() const;
  std::vector<NodeView> nodes() const;
  std::vector<NodeView> roots() const;
  std::vector<Edge> edges() const;

  // ---- adding nodes
  NodeView add(const KernelParams& params, const After& after = {});
  template <class... Args>
  NodeView add(const KernelCall<Args...>& call, const After& after = {}) {
    return add(static_cast<KernelParams>(call), after);
  }
  // Copies of bytes; the pointers say the direction: device addresses are CUdeviceptr, host addresses void*.
  NodeView copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, const After& after = {});
  NodeView copy(CUdeviceptr to, const void* from, size_t bytes, const After& after = {});
  NodeView copy(void* to, CUdeviceptr from, size_t bytes, const After& after = {});
  NodeView copy(void* to, const void* from, size_t bytes, const After& after = {});
  // Any copy, 1-D to 3-D, arrays too.
  NodeView add(const CUDA_MEMCPY3D& params, const After& after = {});
  // `count` elements of 1, 2 or 4 bytes.
  NodeView fill(CUdeviceptr to, unsigned value, size_t count, unsigned element_bytes = 1,
                const After& after = {});
  NodeView add(const CUDA_MEMSET_NODE_PARAMS& params, const After& after = {});
  NodeView add(const CUDA_HOST_NODE_PARAMS& params, const After& after = {});
  // The function is kept as long as the graph and its execs need it. It runs on a thread of the driver and
  // may not call CUDA; what it throws becomes a "graph.host" note of the trace.
  NodeView host(std::function<void()> work, const After& after = {});
  // A copy of `child` as one node. A child may not hold alloc, free or conditional nodes. Errors: Usage when
  // it is this graph or a part of the same owned graph (add child.clone()), because the driver does not
  // survive that.
  NodeView child(const GraphView& child, const After& after = {});
  // Moves it in: no copy, alloc and free nodes allowed (CUDA 12.9). Its nodes' handles stay valid. Errors:
  // Usage when an exec was made from it (with keep_source) that is still there.
  NodeView child(class Graph&& child, const After& after = {});
  // Joins and forks without work.
  NodeView empty(const After& after = {});
  NodeView record(CUevent event, const After& after = {});
  NodeView wait(CUevent event, const After& after = {});
  NodeView add(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params, const After& after = {});
  NodeView add(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params, const After& after = {});
  // Memory of the current context's device, from the node's execution to a free node (or a launch with
  // auto_free). A graph with alloc or free nodes has one exec at a time and cannot be cloned.
  Allocation alloc(size_t bytes, const After& after = {});
  // dptr of `params` is set.
  NodeView add(CUDA_MEM_ALLOC_NODE_PARAMS* params, const After& after = {});
  NodeView free(CUdeviceptr address, const After& after = {});
  NodeView batch(std::span<const CUstreamBatchMemOpParams> operations, unsigned flags = 0,
                 const After& after = {});

  // ---- conditions (CUDA 12.3; else and switch 12.8). A graph that has them cannot be cloned or be a child,
  // and has one exec at a time. Bodies may hold kernels, copies, fills, empty nodes, children and conditions,
  // of one context. With a default, the value is set to it at the start of every launch.
  ConditionHandle condition(std::optional<unsigned> default_value = std::nullopt);
  Condition if_node(ConditionHandle handle, const After& after = {});
  Condition if_else_node(ConditionHandle handle, const After& after = {});
  Condition while_node(ConditionHandle handle, const After& after = {});
  Condition switch_node(ConditionHandle handle, unsigned cases, const After& after = {});

  // ---- structure
  void connect(NodeView from, NodeView to, EdgeData data = kFull);
  void disconnect(NodeView from, NodeView to, EdgeData data = kFull);
  void remove(NodeView node);
  // Of a node of the graph that `this` was cloned from.
  NodeView find_in_clone(NodeView original) const;

  // Keeps `object` alive as long as this graph, its clones and its execs. Its deleter may not call CUDA.
  void keep(std::shared_ptr<const void> object);

  class Graph clone() const;

 protected:
  friend class NodeView;
  friend class Graph;
  friend class Capture;
  friend class GraphExec;
  GraphView(CUgraph graph, detail::GraphState* state) noexcept : graph_(graph), state_(state) {}
  const driver::Driver& driver() const;
  NodeView view(CUgraphNode node) const noexcept { return NodeView(node, state_); }
  Condition add_condition(ConditionHandle handle, ConditionKind kind, unsigned bodies, const After& after);
  CUgraph graph_ = nullptr;
  detail::GraphState* state_ = nullptr;
};

// A conditional node with its bodies, which are filled after the node is added.
struct Condition {
  NodeView node;
  ConditionKind kind = ConditionKind::If;
  ConditionHandle handle = 0;
  std::vector<GraphView> bodies;  // If, While: one; IfElse: then, else; Switch: one a case
  GraphView& body(size_t which = 0) { return bodies.at(which); }
};

// A graph, owned. Execs made from it keep it alive as long as they need its nodes, so it may go first.
class Graph : public GraphView {
 public:
  Graph();  // empty
  // Views that another Graph gave of it change it unseen: take views from this one.
  static Graph adopt(CUgraph graph);
  Graph(Graph&& other) noexcept
      : GraphView(std::exchange(other.graph_, nullptr), std::exchange(other.state_, nullptr)),
        share_(std::move(other.share_)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(state_, other.state_);
    std::swap(share_, other.share_);
    return *this;
  }

  // The handle, from now on the caller's to destroy: after the last exec made from it here. Views stay good
  // until then. Errors: Device; the graph is then still owned.
  CUgraph release();

  // Makes it executable; also while this thread captures, which is not disturbed. Errors: Device, with the
  // driver's result, the node at fault, the cause and the remedy; Usage for options that exclude each other.
  GraphExec instantiate() const;
  GraphExec instantiate(const InstantiateOptions& options) const;

 private:
  friend class GraphView;
  friend class GraphExec;
  friend class Capture;
  explicit Graph(detail::StateShare share) noexcept;
  detail::StateShare share_;
};

// ---------------------------------------------------------------- memory of graphs
// Of the alloc nodes of all graphs of a device, in bytes.
struct GraphMemory {
  uint64_t used_bytes = 0, used_high_bytes = 0, reserved_bytes = 0, reserved_high_bytes = 0;
};
GraphMemory graph_memory(CUdevice device);
void reset_graph_memory_high(CUdevice device);
// Gives memory that no launch uses back to the system.
void trim_graph_memory(CUdevice device);

}  // namespace rondo::graph
