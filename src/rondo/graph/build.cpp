// Graphs, borrowed and owned: their structure. Nodes are added in nodes.cpp.
#include <fmt/format.h>

#include "rondo/graph/state.h"

namespace rondo::graph {
namespace detail {

Dependencies::Dependencies(const After& after, std::span<CUgraphNode> room) {
  const std::span<const Dependency> list = after.list();
  const std::span<const NodeView> nodes = after.nodes();
  nodes_ = after.handles().data();
  count_ = after.handles().size();
  const size_t copied = list.size() + nodes.size();  // one of the three is not empty
  if (copied == 0) return;
  CUgraphNode* to = room.data();
  if (copied > room.size()) {
    many_ = std::make_unique_for_overwrite<CUgraphNode[]>(copied);
    to = many_.get();
  }
  nodes_ = to;
  count_ = copied;
  const GraphState* looked_at = nullptr;  // most are of one graph
  const auto take = [&](NodeView node) {
    if (node.state_ != looked_at) expect_not_lost(looked_at = node.state_);
    *to++ = node.get();
  };
  for (const NodeView node : nodes) take(node);
  for (const Dependency& dependency : list) {
    take(dependency.node);
    full_ &= dependency.data.full();
  }
  if (full_) return;
  require(Feature::EdgeData);
#if CUDA_VERSION >= 12030
  data_ = std::make_unique<CUgraphEdgeData[]>(count_);
  for (size_t i = 0; i < count_; ++i) {
    data_[i].from_port = list[i].data.from_port;
    data_[i].to_port = list[i].data.to_port;
    data_[i].type = list[i].data.type;
  }
#endif
}

void with_many_dependencies(const After& after, const void* use,
                            void (*call)(const void* use, const Dependencies& deps)) {
  CUgraphNode many[kManyDependencies];
  call(use, Dependencies(after, many));
}

}  // namespace detail

using detail::GraphState;
using detail::StateShare;

namespace {

std::vector<NodeView> views(const std::vector<CUgraphNode>& nodes, GraphState* state) {
  std::vector<NodeView> out;
  out.reserve(nodes.size());
  for (CUgraphNode node : nodes) out.emplace_back(node, state);
  return out;
}

std::string describe_edge(const driver::Driver& d, NodeView from, NodeView to) {
  return fmt::format("from {} to {}", detail::describe_node(d, from.get()),
                     detail::describe_node(d, to.get()));
}

}  // namespace

// ---------------------------------------------------------------- GraphView

GraphView::GraphView(CUgraph graph) : graph_(graph) {}

const driver::Driver& GraphView::driver() const {
  detail::expect_not_lost(state_);
  if (!graph_) [[unlikely]]
    throw Error(
        ErrorKind::Usage,
        "this graph holds nothing: it was moved from, released, or made of a null handle. Use the one "
        "that it was moved to");
  return state_ ? state_->driver : driver::driver();
}

CUgraph GraphView::get() const noexcept {
  if (state_) {
    state_->plain = state_->own = false;
    state_->changed();
    if (state_->lost) return nullptr;
  }
  return graph_;
}

size_t GraphView::node_count() const {
  size_t count = 0;
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphGetNodes(graph_, nullptr, &count), "");
  return count;
}

std::vector<NodeView> GraphView::nodes() const {
  std::vector<CUgraphNode> nodes(node_count());
  size_t count = nodes.size();
  if (count) RONDO_GRAPH_CHECK(driver(), Build, cuGraphGetNodes(graph_, nodes.data(), &count), "");
  nodes.resize(count);
  return views(nodes, state_);
}

std::vector<NodeView> GraphView::roots() const {
  size_t count = 0;
  RONDO_GRAPH_CHECK(driver(), Build, cuGraphGetRootNodes(graph_, nullptr, &count), "");
  std::vector<CUgraphNode> nodes(count);
  if (count) RONDO_GRAPH_CHECK(driver(), Build, cuGraphGetRootNodes(graph_, nodes.data(), &count), "");
  return views(nodes, state_);
}

std::vector<Edge> GraphView::edges() const {
  const driver::Driver& d = driver();
  size_t count = 0;
  std::vector<Edge> edges;
  std::vector<CUgraphNode> from, to;
#if CUDA_VERSION >= 12030
  if (d.cuGraphGetEdges_v2) {
    RONDO_GRAPH_CHECK(d, Build, cuGraphGetEdges_v2(graph_, nullptr, nullptr, nullptr, &count), "");
    from.resize(count), to.resize(count);
    std::vector<CUgraphEdgeData> data(count);
    if (count)
      RONDO_GRAPH_CHECK(d, Build, cuGraphGetEdges_v2(graph_, from.data(), to.data(), data.data(), &count),
                        "");
    for (size_t i = 0; i < count; ++i)
      edges.push_back({view(from[i]), view(to[i]), {data[i].from_port, data[i].to_port, data[i].type}});
    return edges;
  }
#endif
  RONDO_GRAPH_CHECK(d, Build, cuGraphGetEdges_v1(graph_, nullptr, nullptr, &count), "");
  from.resize(count), to.resize(count);
  if (count) RONDO_GRAPH_CHECK(d, Build, cuGraphGetEdges_v1(graph_, from.data(), to.data(), &count), "");
  for (size_t i = 0; i < count; ++i) edges.push_back({view(from[i]), view(to[i]), kFull});
  return edges;
}

void GraphView::connect(NodeView from, NodeView to, EdgeData data) {
  const driver::Driver& d = driver();
  const CUgraphNode f = from.get(), t = to.get();
  CUgraphNode room[1];
  const detail::Dependencies edge(After(from, data), room);
  if (state_) state_->changed();
#if CUDA_VERSION >= 12030
  if (d.cuGraphAddDependencies_v2) {
    RONDO_GRAPH_CHECK(d, Build, cuGraphAddDependencies_v2(graph_, &f, &t, edge.data(), 1),
                      describe_edge(d, from, to));
    return;
  }
#endif
  RONDO_GRAPH_CHECK(d, Build, cuGraphAddDependencies_v1(graph_, &f, &t, 1), describe_edge(d, from, to));
}

void GraphView::disconnect(NodeView from, NodeView to, EdgeData data) {
  const driver::Driver& d = driver();
  const CUgraphNode f = from.get(), t = to.get();
  CUgraphNode room[1];
  const detail::Dependencies edge(After(from, data), room);
  if (state_) state_->changed();
#if CUDA_VERSION >= 12030
  if (d.cuGraphRemoveDependencies_v2) {
    RONDO_GRAPH_CHECK(d, Build, cuGraphRemoveDependencies_v2(graph_, &f, &t, edge.data(), 1),
                      describe_edge(d, from, to));
    return;
  }
#endif
  RONDO_GRAPH_CHECK(d, Build, cuGraphRemoveDependencies_v1(graph_, &f, &t, 1), describe_edge(d, from, to));
}

void GraphView::remove(NodeView node) {
  const driver::Driver& d = driver();
  // The driver is not told the graph, and would take the node out of whichever it is in.
  if (node.state_ && detail::root_of(node.state_) != detail::root_of(state_))
    throw Error(ErrorKind::Usage, fmt::format("{} is not a node of this graph. Remove it from its own",
                                              detail::describe_node(d, node.get())));
  if (state_) state_->changed();
  RONDO_GRAPH_CHECK(d, Build, cuGraphDestroyNode(node.get()), detail::describe_node(d, node.get()));
  if (state_ && state_->rare) state_->rare->conditions.erase(node.get());
}

NodeView GraphView::find_in_clone(NodeView original) const {
  const driver::Driver& d = driver();
  detail::expect_not_lost(original.state_);
  CUgraphNode node = nullptr;
  RONDO_GRAPH_CHECK(d, Build, cuGraphNodeFindInClone(&node, original.get(), graph_),
                    detail::describe_node(d, original.get()));
  return view(node);
}

void GraphView::keep(std::shared_ptr<const void> object) {
  using Held = std::shared_ptr<const void>;
  const driver::Driver& d = driver();
  auto held = std::make_unique<Held>(std::move(object));
  CUuserObject user = nullptr;
  RONDO_GRAPH_CHECK(d, Build,
                    cuUserObjectCreate(
                        &user, held.get(), [](void* p) { delete static_cast<Held*>(p); }, 1,
                        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                    "");
  (void)held.release();  // the user object's from here on
  const CUresult code = d.cuGraphRetainUserObject(graph_, user, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (code == CUDA_SUCCESS) return;
  (void)d.cuUserObjectRelease(user, 1);
  fail(d, code, Phase::Build, "cuGraphRetainUserObject(", "");
}

Graph GraphView::clone() const {
  const driver::Driver& d = driver();
  CUgraph copy = nullptr;
  RONDO_GRAPH_CHECK(d, Build, cuGraphClone(&copy, graph_), "");
  StateShare share = StateShare::make(d, copy);
  share->own = state_ && state_->all_own();
  share->plain = state_ && state_->all_plain();
  return Graph(std::move(share));
}

// ---------------------------------------------------------------- Graph

Graph::Graph(StateShare share) noexcept : GraphView(share->graph, share.get()), share_(std::move(share)) {}

namespace {
StateShare make_empty() {
  const driver::Driver& d = driver::driver();
  StateShare share = StateShare::make(d, nullptr);
  RONDO_GRAPH_CHECK(d, Build, cuGraphCreate(&share->graph, 0), "");
  share->own = share->plain = true;
  return share;
}
}  // namespace

Graph::Graph() : Graph(make_empty()) {}

Graph Graph::adopt(CUgraph graph) { return Graph(StateShare::make(driver::driver(), graph)); }

CUgraph Graph::release() {
  const CUgraph graph = get();
  if (share_) {
    // Views that were made of it look at the state, which therefore stays as long as the driver's graph.
    keep(std::make_shared<const StateShare>(share_));
    share_->owned = false;
  }
  graph_ = nullptr;
  state_ = nullptr;
  share_ = StateShare();
  return graph;
}

}  // namespace rondo::graph
