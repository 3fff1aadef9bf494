// An executable graph: launched, uploaded, updated as a whole or node by node.
//
// It is made by Graph::instantiate only, and keeps the graph it was made from (its template) alive, because
// the driver names nodes of an exec by the template's handles. The driver runs one exec at a time with
// itself: a second launch waits for the first, also in another stream; work that shall overlap needs several
// execs. Calls from several threads are serialised here by a lock of a few nanoseconds, as the driver's graph
// objects are not thread-safe.
#pragma once
#include <atomic>

#include "rondo/graph_build.h"

namespace rondo::graph {

struct InstantiateOptions {
  bool auto_free = false;      // memory that a launch left allocated is freed by the next launch
  bool device_launch = false;  // kernels may launch it; not with auto_free
  // Keeps the graph alive for node-wise updates and for comparing attributes. Without it an exec costs less
  // memory and can be launched and updated as a whole only, where both graphs are plain.
  bool keep_source = true;
  bool node_priority = false;         // kernels run with their nodes' priority, not with the launch stream's
  std::optional<CUstream> upload_to;  // uploads at once, in this stream, so that the first launch does not
                                      // pay for it; not again when an update instantiates anew
};

// What became of an update. When not ok the exec is as it was: `code` is then 910, or 801 for graphs with
// device-updatable nodes.
struct [[nodiscard]] Updated {
  bool ok = false;
  CUresult code = CUDA_SUCCESS;
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  bool attributes_differ =
      false;           // the driver would have said success and might have kept the old attributes
  std::string reason;  // when not ok: the driver's words, the node, and what to do
  NodeView node;       // of the new graph, where the driver names one
  NodeView from_node;  // the dependency that differs, where the driver names one
  explicit operator bool() const noexcept { return ok; }
};

// Whether an update first compares the kernel attributes that it might keep silently although they change
// what a launch does: cluster dimension, memory sync domain and its map. (Cooperative launch and, with
// node_priority, priority are refused by the driver; without it priority means nothing; access policy window
// and cluster scheduling policy change speed only.) A preferred cluster dimension cannot be read back: from
// CUDA 12.8 on a kernel in a cluster, in a graph that was captured or touched by raw calls, refuses the
// update. The comparison is free for graphs built node by node here without attributes, and kept for graphs
// that are used again; a captured graph has three attributes of each kernel node read once, which costs three
// calls a node.
enum class AttributeCheck { Compare, Skip };

enum class UpdateHow { Updated, Reinstantiated };
struct UpdateOutcome {
  UpdateHow how = UpdateHow::Updated;
  std::string reason;  // why it was instantiated again
};

namespace detail {
struct ExecShared;  // template graph, flags, what is known of attributes

// A lock for what lasts microseconds: spins, then yields.
class SpinLock {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void wait() noexcept;  // until it is this thread's
  std::atomic<bool> taken_{false};
};

struct ExecState {
  ExecState();
  ~ExecState();
  SpinLock lock;
  bool plain = false;  // no kernel has attributes, nor could an update have kept any
  CUgraphExec exec = nullptr;
  CUresult (*launch)(CUgraphExec, CUstream) = nullptr;
  CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) = nullptr;
  const driver::Driver* driver = nullptr;
  std::unique_ptr<ExecShared> shared;
};
[[noreturn]] void launch_failed(const ExecState* state, CUresult code, CUstream stream);
}  // namespace detail

class GraphExec {
 public:
  // Someone else's exec. Without its graph, node-wise updates need nodes that the caller keeps valid.
  static GraphExec adopt(CUgraphExec exec);
  GraphExec(GraphExec&&) noexcept;
  GraphExec& operator=(GraphExec&&) noexcept;
  ~GraphExec();

  CUgraphExec get() const noexcept { return state_ ? state_->exec : nullptr; }
  // From now on the caller's to destroy.
  CUgraphExec release();

  // Puts one run of the graph into `stream`. Errors: Device, with the cause and the remedy. Costs one
  // uncontended lock over the driver's call.
  void launch(CUstream stream) const {
    if (const CUresult code = try_launch(stream); code != CUDA_SUCCESS) [[unlikely]]
      detail::launch_failed(state_.get(), code, stream);
  }
  // The same; the driver's answer is the result (CUDA_ERROR_INVALID_HANDLE when this was moved from).
  [[nodiscard]] CUresult try_launch(CUstream stream) const noexcept {
    if (!state_) [[unlikely]]
      return CUDA_ERROR_INVALID_HANDLE;
    detail::ExecState& s = *state_;
    s.lock.lock();
    const CUresult code = s.launch(s.exec, stream);
    s.lock.unlock();
    return code;
  }
  // Moves what launches need to the device now rather than in the first launch.
  void upload(CUstream stream) const;

  // ---- the whole graph
  // To the parameters of `graph`, which must have the same nodes and edges in the same order. Kernel
  // attributes that differ from those that the exec was made with refuse the update: the driver may say
  // success and keep the old ones.
  Updated update(const GraphView& graph, AttributeCheck check = AttributeCheck::Compare);
  // The same, and where the update is refused, a new exec takes the old one's place, with the same options:
  // the template is then `graph`, and nodes for set() are its nodes. Errors: Device, when `graph` cannot be
  // instantiated; the exec is then as it was.
  UpdateOutcome update_or_reinstantiate(const Graph& graph, AttributeCheck check = AttributeCheck::Compare);

  // ---- node by node: launches that were made are not changed, later ones are. `node` is of the template
  // graph (source()). Errors: Device, with cause and remedy, when the node is of another graph or kind or the
  // change is not one that the driver makes in place; Usage when `params` has an attribute that the node has
  // not: attributes are not changed.
  void set(NodeView node, const KernelParams& params);
  template <class... Args>
  void set(NodeView node, const KernelCall<Args...>& call) {
    set(node, static_cast<KernelParams>(call));
  }
  void set(NodeView node, const CUDA_MEMCPY3D& params);  // 1-D, same contexts and memory kinds
  void set(NodeView node, const CUDA_MEMSET_NODE_PARAMS& params);
  void set(NodeView node, const CUDA_HOST_NODE_PARAMS& params);
  void set(NodeView node, const GraphView& child);  // same nodes and edges as the child that it holds
  void set(NodeView node, CUevent event);           // of an event record or an event wait
  void set(NodeView node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params);
  void set(NodeView node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params);
  void set(NodeView node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
  // A disabled node is an empty one. Kernel, memcpy and memset nodes only.
  void enable(NodeView node, bool on = true);
  bool enabled(NodeView node) const;

  // CUDA_GRAPH_INSTANTIATE_FLAG_*.
  uint64_t flags() const;
  // The graph that nodes for set() come from, until update_or_reinstantiate puts another in its place.
  GraphView source() const;

 private:
  friend class Graph;
  explicit GraphExec(std::unique_ptr<detail::ExecState> state) noexcept;
  void compare_and_update(const GraphView& graph, AttributeCheck check, Updated* out);
  // Why the update that was answered so was refused. Throws for what is no refusal.
  static void explain(const GraphView& graph, CUresult code, CUgraphExecUpdateResultInfo info, Updated* out);
  detail::ExecState& state() const;  // Error(Usage) when this was moved from
  std::unique_ptr<detail::ExecState> state_;
};

inline GraphExec Graph::instantiate() const { return instantiate(InstantiateOptions{}); }

}  // namespace rondo::graph
