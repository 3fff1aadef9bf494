// What an update may keep silently: attributes of kernel nodes, read and compared.
//
// Reading costs a call an attribute and node, so it is done for those only whose old value, kept, could
// change what a launch computes, and that the driver does not refuse by itself (docs/graph_facts.md):
//   cluster dimension    the update says success; until a run has shown that the new one counts it is
//   compared memory sync domain   the update says success, and nothing shows which domain a kernel runs in
//   and its map          likewise
//   preferred cluster    cannot be read back (driver 580), so an update cannot carry it over either; it needs
//   a
//                        cluster dimension, and whoever has one in a graph that others built may have it
// Not read: cooperative launch, and priority in an exec with node_priority, which the driver compares (result
// 8); priority in any other, where it means nothing; access policy window and cluster scheduling policy,
// which change how fast a kernel runs and not what it does; device-updatable, which refuses every update.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rondo/graph/state.h"

namespace rondo::graph::detail {
namespace {

using Row = AttributeRecord::Row;

struct Id {
  int id;
  size_t bytes;  // of its value, at the start of the union
  const char* name;
};
constexpr size_t kCluster = 0, kPreferred = 3;
constexpr Id kIds[] = {{4, 12, "cluster dimension"},
                       {10, 4, "memory sync domain"},
                       {9, 2, "memory sync domain map"},
                       {11, 12, "preferred cluster dimension"}};
static_assert(std::size(kIds) == AttributeRecord::kCompared);
constexpr int kPreferredSince = 12080;

class Reader {
 public:
  Reader(const driver::Driver& d, const AttributeRecord* like) : d_(d), like_(like) {}

  void read(CUgraph graph, GraphState* state) {
    size_t count = 0;
    RONDO_GRAPH_CHECK(d_, Update, cuGraphGetNodes(graph, nullptr, &count), "");
    std::vector<CUgraphNode> nodes(count);
    if (count) RONDO_GRAPH_CHECK(d_, Update, cuGraphGetNodes(graph, nodes.data(), &count), "");
    record_.rows.reserve(record_.rows.size() + count);
    for (CUgraphNode node : nodes) read_node(node, state);
  }

  AttributeRecord finish() {
    for (const Row& row : record_.rows) {
      if (row.kind != NodeKind::Kernel) continue;
      if (!record_.kernel) record_.kernel = &row;
      record_.uniform &= row.same(*record_.kernel);
    }
    if (!record_.uniform) read_order();
    return std::move(record_);  // the rows stay where they are
  }

 private:
  bool get(CUgraphNode node, size_t which, Row* row) {
    CUlaunchAttributeValue value{};
    if (d_.cuGraphKernelNodeGetAttribute(node, static_cast<CUlaunchAttributeID>(kIds[which].id), &value) !=
        CUDA_SUCCESS)
      return false;
    std::memcpy(row->values[which].data(), &value, kIds[which].bytes);
    return true;
  }

  // False when it is no kernel.
  bool read_kernel(CUgraphNode node, const GraphState* state, Row* row) {
    if (!get(node, kCluster, row)) return false;
    for (size_t which = kCluster + 1; which < kPreferred; ++which) (void)get(node, which, row);
    row->kind = NodeKind::Kernel;
    auto& cluster = row->values[kCluster];
    if (cluster[0] * cluster[1] * cluster[2] <= 1)
      cluster = {};  // a cluster of one block is none
    else if (d_.version >= kPreferredSince && !(state && state->own))
      row->unreadable = !get(node, kPreferred, row);
    return true;
  }

  void read_node(CUgraphNode node, GraphState* state) {
    const size_t at = record_.rows.size();
    Row row;
    row.node = node;
    const bool kernel_there = like_ && at < like_->rows.size() && like_->rows[at].kind == NodeKind::Kernel;
    if (!kernel_there || !read_kernel(node, state, &row)) {
      CUgraphNodeType type{};
      RONDO_GRAPH_CHECK(d_, Update, cuGraphNodeGetType(node, &type), "");
      row.kind = static_cast<NodeKind>(type);
      if (row.kind == NodeKind::Kernel) (void)read_kernel(node, state, &row);
    }
    record_.rows.push_back(row);
    if (row.kind == NodeKind::Child) {
      CUgraph child = nullptr;
      RONDO_GRAPH_CHECK(d_, Update, cuGraphChildGraphNodeGetGraph(node, &child), "");
      return read(child, state);
    }
    if (row.kind != NodeKind::Conditional || !state) return;
    const Condition* condition = state->condition(node);
    if (!condition) return;
    // Through nodes(): get() would mark the graph as touched from outside, which it is not.
    for (const GraphView& body : condition->bodies)
      for (const NodeView& n : body.nodes()) read_node(n.get(), state);
  }

  void read_order() {
    std::unordered_map<CUgraphNode, uint32_t> index;
    for (const Row& row : record_.rows) index.emplace(row.node, static_cast<uint32_t>(index.size()));
    for (const Row& row : record_.rows) {
      const std::vector<NodeView> before = NodeView(row.node).dependencies();
      record_.order.push_back(static_cast<uint32_t>(before.size()));
      for (const NodeView& node : before) record_.order.push_back(index[node.get()]);
    }
  }

  const driver::Driver& d_;
  const AttributeRecord* like_;
  AttributeRecord record_;
};

std::string difference(const driver::Driver& d, const Row& was, const Row& is) {
  if (was.unreadable || is.unreadable)
    return fmt::format("{} is in a cluster, and the driver does not tell its preferred cluster dimension",
                       describe_node(d, is.node));
  for (size_t which = 0; which < std::size(kIds); ++which)
    if (was.values[which] != is.values[which])
      return fmt::format("the {} of {} differs", kIds[which].name, describe_node(d, is.node));
  return "";
}

bool same_kinds(const AttributeRecord& was, const AttributeRecord& is) {
  return std::equal(was.rows.begin(), was.rows.end(), is.rows.begin(), is.rows.end(),
                    [](const Row& a, const Row& b) { return a.kind == b.kind; });
}

}  // namespace

std::shared_ptr<const AttributeRecord> read_attributes(const driver::Driver& d, CUgraph graph,
                                                       GraphState* state, const AttributeRecord* like) {
  std::unique_lock<SpinLock> lock;
  if (state) lock = std::unique_lock(state->reading);
  if (state && state->record && state->graph == graph) return state->record;
  Reader reader(d, like);
  reader.read(graph, state);
  auto record = std::make_shared<const AttributeRecord>(reader.finish());
  if (state && state->graph == graph) state->record = record;
  return record;
}

std::string compare_attributes(const driver::Driver& d, const AttributeRecord& was, const AttributeRecord& is,
                               CUgraphNode* node) {
  *node = nullptr;
  // Other nodes, or none of interest: the driver says what there is to say.
  if (was.rows.size() != is.rows.size() || !was.kernel || !is.kernel) return "";
  const auto compare = [&](const Row& a, const Row& b) {
    std::string differs = difference(d, a, b);
    if (!differs.empty()) *node = b.node;
    return differs;
  };
  // However the driver pairs the nodes.
  if (was.uniform && is.uniform) return compare(*was.kernel, *is.kernel);
  if (!same_kinds(was, is) || (!was.uniform && !is.uniform && was.order != is.order))
    return "kernel nodes have attributes of several kinds, and nodes or edges come in another order than "
           "before, "
           "so it is not known which kernel takes whose place";
  for (size_t i = 0; i < is.rows.size(); ++i)
    if (is.rows[i].kind == NodeKind::Kernel)
      if (std::string differs = compare(was.rows[i], is.rows[i]); !differs.empty()) return differs;
  return "";
}

}  // namespace rondo::graph::detail
