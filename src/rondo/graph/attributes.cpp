// What an update may keep silently: the attributes of kernel nodes, read and compared.
#include <fmt/format.h>

#include <cstring>

#include "rondo/graph/state.h"

namespace rondo::graph::detail {
namespace {

struct Id {
  int id;
  int since;  // the driver that knows it
  const char* name;
};
constexpr int kCluster = 4, kPreferredCluster = 11;
// Those that <cuda.h> marks valid for graph nodes, but for 13 (device-updatable), which refuses updates by
// itself.
constexpr Id kIds[] = {{1, 12000, "access policy window"},
                       {2, 12000, "cooperative"},
                       {kCluster, 12000, "cluster dimension"},
                       {5, 12000, "cluster scheduling policy"},
                       {8, 12000, "priority"},
                       {9, 12000, "memory sync domain map"},
                       {10, 12000, "memory sync domain"},
                       {kPreferredCluster, 12080, "preferred cluster dimension"}};

const char* name_of(int id) {
  for (const Id& known : kIds)
    if (known.id == id) return known.name;
  return "unknown";
}

void read(const driver::Driver& d, CUgraph graph, GraphState* state, AttributeRecord* record);

void read_node(const driver::Driver& d, CUgraphNode node, GraphState* state, AttributeRecord* record) {
  CUgraphNodeType type{};
  RONDO_GRAPH_CHECK(d, Update, cuGraphNodeGetType(node, &type), "");
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    RONDO_GRAPH_CHECK(d, Update, cuGraphChildGraphNodeGetGraph(node, &child), "");
    return read(d, child, state, record);
  }
  if (static_cast<NodeKind>(type) == NodeKind::Conditional && state) {
    const auto at = state->conditions.find(node);
    if (at == state->conditions.end()) return;
    // A copy: get() marks the graph as touched from outside, which it is not.
    for (const GraphView& body : at->second.bodies)
      for (const NodeView& n : body.nodes()) read_node(d, n.get(), state, record);
    return;
  }
  if (type != CU_GRAPH_NODE_TYPE_KERNEL) return;
  AttributeRecord::Of& of = record->nodes.emplace_back();
  of.node = node;
  bool in_cluster = false, preferred_read = false;
  for (const Id& id : kIds) {
    if (d.version < id.since) continue;
    CUlaunchAttribute a{};
    a.id = static_cast<CUlaunchAttributeID>(id.id);
    if (d.cuGraphKernelNodeGetAttribute(node, a.id, &a.value) != CUDA_SUCCESS) continue;
    in_cluster |= id.id == kCluster && a.value.clusterDim.x * a.value.clusterDim.y * a.value.clusterDim.z > 1;
    preferred_read |= id.id == kPreferredCluster;
    of.values.push_back(a);
  }
  // A preferred cluster goes with a cluster dimension only; where the driver does not tell it, nobody knows.
  of.unreadable = in_cluster && d.version >= 12080 && !preferred_read;
}

void read(const driver::Driver& d, CUgraph graph, GraphState* state, AttributeRecord* record) {
  size_t count = 0;
  RONDO_GRAPH_CHECK(d, Update, cuGraphGetNodes(graph, nullptr, &count), "");
  std::vector<CUgraphNode> nodes(count);
  if (count) RONDO_GRAPH_CHECK(d, Update, cuGraphGetNodes(graph, nodes.data(), &count), "");
  for (CUgraphNode node : nodes) read_node(d, node, state, record);
}

}  // namespace

std::shared_ptr<const AttributeRecord> read_attributes(const driver::Driver& d, CUgraph graph,
                                                       GraphState* state) {
  std::unique_lock<std::mutex> lock;
  if (state) lock = std::unique_lock(state->reading);
  if (state && state->record && state->graph == graph) return state->record;
  auto record = std::make_shared<AttributeRecord>();
  read(d, graph, state, record.get());
  if (state && state->graph == graph) state->record = record;
  return record;
}

std::string compare_attributes(const driver::Driver& d, const AttributeRecord& was, const AttributeRecord& is,
                               CUgraphNode* node) {
  // Another number of kernels is another topology: the driver says so.
  if (was.nodes.size() != is.nodes.size()) return "";
  for (size_t i = 0; i < is.nodes.size(); ++i) {
    const AttributeRecord::Of &old_one = was.nodes[i], &new_one = is.nodes[i];
    *node = new_one.node;
    if (old_one.unreadable || new_one.unreadable)
      return fmt::format("{} is in a cluster, and the driver does not tell its preferred cluster dimension",
                         describe_node(d, new_one.node));
    for (const CUlaunchAttribute& a : new_one.values)
      for (const CUlaunchAttribute& b : old_one.values)
        if (a.id == b.id && std::memcmp(&a.value, &b.value, sizeof a.value) != 0)
          return fmt::format("the {} of {} differs", name_of(static_cast<int>(a.id)),
                             describe_node(d, new_one.node));
  }
  *node = nullptr;
  return "";
}

}  // namespace rondo::graph::detail
