// Updates of executable graphs, as a whole and by node.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {
namespace {

constexpr int kConditional = 13, kDeviceUpdatable = 13;

// ---------------------------------------------------------------- whole-graph update

struct Verdict {
  int result = 0;
  CUgraphNode node = nullptr, from = nullptr;
};

bool updatable(const ExecNode& n) { return n.p.attributes.count(kDeviceUpdatable) != 0; }

Verdict compare_node(const Exec& e, const ExecNode& was, const ExecNode& is);

bool any_updatable(const ExecGraph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const ExecNode& n) {
    return updatable(n) || std::any_of(n.inner.begin(), n.inner.end(), any_updatable);
  });
}

std::vector<size_t> exits(const ExecGraph& g) {
  std::vector<bool> waited(g.nodes.size());
  for (const ExecNode& n : g.nodes)
    for (const auto& [index, d] : n.deps) waited[index] = true;
  std::vector<size_t> out;
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (!waited[i]) out.push_back(i);
  return out;
}

// Which node of `was` each of `is` stands for: exits in their order, then dependencies in the order of edges,
// as <cuda.h> says at cuGraphExecUpdate; not the order in which nodes were added.
Verdict pair_nodes(const ExecGraph& was, const ExecGraph& is, std::vector<size_t>* partner) {
  constexpr size_t kNone = SIZE_MAX;
  const size_t count = is.nodes.size();
  if (was.nodes.size() != count) return {2};
  const std::vector<size_t> old_exits = exits(was), new_exits = exits(is);
  if (new_exits.size() != old_exits.size()) return {2, is.nodes[new_exits.back()].origin};
  partner->assign(count, kNone);
  std::vector<bool> taken(count);
  std::vector<size_t> open;
  const auto join = [&](size_t old_one, size_t new_one) {
    (*partner)[new_one] = old_one, taken[old_one] = true;
    open.push_back(new_one);
  };
  for (size_t i = 0; i < new_exits.size(); ++i) join(old_exits[i], new_exits[i]);
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    const ExecNode &a = was.nodes[(*partner)[at]], &b = is.nodes[at];
    if (a.type != b.type) return {3, b.origin};
    if (a.deps.size() != b.deps.size()) return {2, b.origin};
    for (size_t k = 0; k < b.deps.size(); ++k) {
      const auto& [old_dep, old_edge] = a.deps[k];
      const auto& [new_dep, new_edge] = b.deps[k];
      const bool both_open = (*partner)[new_dep] == kNone && !taken[old_dep];
      if ((!both_open && (*partner)[new_dep] != old_dep) || old_edge.from_port != new_edge.from_port ||
          old_edge.type != new_edge.type)
        return {2, b.origin, is.nodes[new_dep].origin};
      if (both_open) join(old_dep, new_dep);
    }
  }
  return {};
}

Verdict compare(const Exec& e, const ExecGraph& was, const ExecGraph& is) {
  std::vector<size_t> partner;
  if (const Verdict v = pair_nodes(was, is, &partner); v.result) return v;
  for (size_t i = 0; i < is.nodes.size(); ++i)
    if (const Verdict v = compare_node(e, was.nodes[partner[i]], is.nodes[i]); v.result) return v;
  return {};
}

int attribute(const Payload& p, int id) {
  const auto at = p.attributes.find(id);
  return at == p.attributes.end() ? 0 : at->second.cooperative;  // all asked for are ints
}

Verdict compare_node(const Exec& e, const ExecNode& was, const ExecNode& is) {
  const Payload &a = was.p, &b = is.p;
  switch (static_cast<int>(was.type)) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      if (attribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE) != attribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
        return {8, is.origin};
      if ((e.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) &&
          attribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY) != attribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY))
        return {8, is.origin};
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (a.copy.srcMemoryType != b.copy.srcMemoryType || a.copy.dstMemoryType != b.copy.dstMemoryType)
        return {5, is.origin};
      if ((a.copy.Height > 1 || a.copy.Depth > 1 || b.copy.Height > 1 || b.copy.Depth > 1) &&
          std::memcmp(&a.copy, &b.copy, sizeof a.copy) != 0)
        return {5, is.origin};
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      if ((a.fill.height > 1 || b.fill.height > 1) &&
          (a.fill.height != b.fill.height || a.fill.width != b.fill.width))
        return {5, is.origin};
      break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      if (a.semaphores.size() != b.semaphores.size()) return {5, is.origin};
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      if (a.alloc.bytesize != b.alloc.bytesize) return {5, is.origin};
      break;
    case kConditional:
      if (a.condition_type != b.condition_type || was.inner.size() != is.inner.size()) return {5, is.origin};
      break;
    default:
      break;
  }
  for (size_t i = 0; i < is.inner.size(); ++i)
    if (const Verdict v = compare(e, was.inner[i], is.inner[i]); v.result) return v;
  return {};
}

void take(ExecGraph* to, const ExecGraph& from) {
  std::vector<size_t> partner;
  (void)pair_nodes(*to, from, &partner);
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    ExecNode& n = to->nodes[partner[i]];
    const auto attributes = n.p.attributes;
    n.p = from.nodes[i].p;
    // The trap: success is said and these stay as they were.
    for (int id : fake->face.kept_attributes) {
      n.p.attributes.erase(id);
      if (const auto at = attributes.find(id); at != attributes.end()) n.p.attributes[id] = at->second;
    }
    for (size_t k = 0; k < n.inner.size(); ++k) take(&n.inner[k], from.nodes[i].inner[k]);
  }
}

CUresult GraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo* info) {
  ENTER_RELEASE("cuGraphExecUpdate");
  Exec* e = fake->find<Exec>(x);
  REQUIRE(e && fake->find<Graph>(g) && info);
  *info = {};
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  if (entered != CUDA_SUCCESS) return entered;
  const ExecGraph is = snapshot(g);
  fake->given_freed += fake->names_freed(is);
  if (any_updatable(e->graph) || any_updatable(is)) {
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const Verdict v = compare(*e, e->graph, is);
  info->result = static_cast<CUgraphExecUpdateResult>(v.result);
  info->errorNode = v.node;
  info->errorFromNode = v.from;
  if (v.result) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  take(&e->graph, is);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- by node

ExecNode* find_node(ExecGraph* g, CUgraphNode n) {
  for (ExecNode& node : g->nodes) {
    if (node.origin == n) return &node;
    for (ExecGraph& inner : node.inner)
      if (ExecNode* found = find_node(&inner, n)) return found;
  }
  return nullptr;
}
// The node's handle must be alive: the driver finds the exec's node by it.
ExecNode* exec_node(CUgraphExec x, CUgraphNode n, int type) {
  Exec* e = fake->find<Exec>(x);
  if (!e || !fake->find<Node>(n)) return nullptr;
  ExecNode* node = find_node(&e->graph, n);
  return node && (type < 0 || static_cast<int>(node->type) == type) ? node : nullptr;
}
#define EXEC_NODE(name, type)             \
  ENTER(name);                            \
  ExecNode* node = exec_node(x, n, type); \
  REQUIRE(node)

CUresult ExecKernel(CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* k) {
  EXEC_NODE("cuGraphExecKernelNodeSetParams", CU_GRAPH_NODE_TYPE_KERNEL);
  const Function* f = fake->function_of(*k);
  Payload p = node->p;
  REQUIRE(f && fake->keep_arguments(*f, *k, &p));
  node->p = std::move(p);
  return CUDA_SUCCESS;
}
// "if the memory operands' mappings changed" (cuda.h): pageable memory has none.
bool same_mapping(CUmemorytype type, const void* was, const void* is) {
  CUdeviceptr start = 0;
  size_t bytes = 0;
  bool host = false;
  const auto known = [&](const void* p) {
    return fake->whole(reinterpret_cast<CUdeviceptr>(p), &start, &bytes, &host);
  };
  // What was there may be freed by now; the real driver has looked when the node was made.
  return type != CU_MEMORYTYPE_HOST || known(is) || !known(was);
}
CUresult ExecMemcpy(CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D* c, CUcontext) {
  EXEC_NODE("cuGraphExecMemcpyNodeSetParams", CU_GRAPH_NODE_TYPE_MEMCPY);
  REQUIRE(c->WidthInBytes && c->Height == 1 && c->Depth == 1);
  REQUIRE(c->srcMemoryType == node->p.copy.srcMemoryType && c->dstMemoryType == node->p.copy.dstMemoryType);
  REQUIRE(same_mapping(c->srcMemoryType, node->p.copy.srcHost, c->srcHost));
  REQUIRE(same_mapping(c->dstMemoryType, node->p.copy.dstHost, c->dstHost));
  node->p.copy = *c;
  fake->given_freed += fake->names_freed(node->p, node->type);
  return CUDA_SUCCESS;
}
CUresult ExecMemset(CUgraphExec x, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* m, CUcontext) {
  EXEC_NODE("cuGraphExecMemsetNodeSetParams", CU_GRAPH_NODE_TYPE_MEMSET);
  REQUIRE(m->dst && m->width && m->height == node->p.fill.height);
  node->p.fill = *m;
  fake->given_freed += fake->names_freed(node->p, node->type);
  return CUDA_SUCCESS;
}
CUresult ExecHost(CUgraphExec x, CUgraphNode n, const CUDA_HOST_NODE_PARAMS* h) {
  EXEC_NODE("cuGraphExecHostNodeSetParams", CU_GRAPH_NODE_TYPE_HOST);
  REQUIRE(h->fn);
  return node->p.host = *h, CUDA_SUCCESS;
}
CUresult ExecChild(CUgraphExec x, CUgraphNode n, CUgraph child) {
  EXEC_NODE("cuGraphExecChildGraphNodeSetParams", CU_GRAPH_NODE_TYPE_GRAPH);
  REQUIRE(fake->find<Graph>(child));
  const ExecGraph is = snapshot(child);
  fake->given_freed += fake->names_freed(is);
  REQUIRE(compare(*fake->find<Exec>(x), node->inner.at(0), is).result == 0);
  take(&node->inner[0], is);
  return CUDA_SUCCESS;
}
CUresult ExecRecord(CUgraphExec x, CUgraphNode n, CUevent e) {
  EXEC_NODE("cuGraphExecEventRecordNodeSetEvent", CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  REQUIRE(fake->find<Event>(e));
  return node->p.event = e, CUDA_SUCCESS;
}
CUresult ExecWaitEvent(CUgraphExec x, CUgraphNode n, CUevent e) {
  EXEC_NODE("cuGraphExecEventWaitNodeSetEvent", CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  REQUIRE(fake->find<Event>(e));
  return node->p.event = e, CUDA_SUCCESS;
}
CUresult ExecSignal(CUgraphExec x, CUgraphNode n, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* s) {
  EXEC_NODE("cuGraphExecExternalSemaphoresSignalNodeSetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
  REQUIRE(s->numExtSems == node->p.semaphores.size());
  node->p.semaphores.assign(s->extSemArray, s->extSemArray + s->numExtSems);
  return CUDA_SUCCESS;
}
CUresult ExecWait(CUgraphExec x, CUgraphNode n, const CUDA_EXT_SEM_WAIT_NODE_PARAMS* s) {
  EXEC_NODE("cuGraphExecExternalSemaphoresWaitNodeSetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
  REQUIRE(s->numExtSems == node->p.semaphores.size());
  node->p.semaphores.assign(s->extSemArray, s->extSemArray + s->numExtSems);
  return CUDA_SUCCESS;
}
CUresult ExecBatch(CUgraphExec x, CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS* b) {
  EXEC_NODE("cuGraphExecBatchMemOpNodeSetParams", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  REQUIRE(b->count == node->p.operations.size());
  node->p.operations.assign(b->paramArray, b->paramArray + b->count);
  return CUDA_SUCCESS;
}
bool switchable(const ExecNode& n) {
  return n.type == CU_GRAPH_NODE_TYPE_KERNEL || n.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         n.type == CU_GRAPH_NODE_TYPE_MEMSET;
}
CUresult NodeSetEnabled(CUgraphExec x, CUgraphNode n, unsigned on) {
  EXEC_NODE("cuGraphNodeSetEnabled", -1);
  REQUIRE(switchable(*node));
  return node->enabled = on != 0, CUDA_SUCCESS;
}
CUresult NodeGetEnabled(CUgraphExec x, CUgraphNode n, unsigned* on) {
  EXEC_NODE("cuGraphNodeGetEnabled", -1);
  REQUIRE(switchable(*node));
  return *on = node->enabled, CUDA_SUCCESS;
}

}  // namespace

void set_update(driver::Driver& table) {
  SET(cuGraphExecUpdate, GraphExecUpdate);
  SET(cuGraphExecKernelNodeSetParams, ExecKernel);
  SET(cuGraphExecMemcpyNodeSetParams, ExecMemcpy);
  SET(cuGraphExecMemsetNodeSetParams, ExecMemset);
  SET(cuGraphExecHostNodeSetParams, ExecHost);
  SET(cuGraphExecChildGraphNodeSetParams, ExecChild);
  SET(cuGraphExecEventRecordNodeSetEvent, ExecRecord);
  SET(cuGraphExecEventWaitNodeSetEvent, ExecWaitEvent);
  SET(cuGraphExecExternalSemaphoresSignalNodeSetParams, ExecSignal);
  SET(cuGraphExecExternalSemaphoresWaitNodeSetParams, ExecWait);
  SET(cuGraphExecBatchMemOpNodeSetParams, ExecBatch);
  SET(cuGraphNodeSetEnabled, NodeSetEnabled);
  SET(cuGraphNodeGetEnabled, NodeGetEnabled);
}

}  // namespace rondo::fake
