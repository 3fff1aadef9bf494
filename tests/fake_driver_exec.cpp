// Executable graphs: instantiate, update as a whole and by node, launch.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {
namespace {

constexpr int kConditional = 13, kDeviceUpdatable = 13;

ExecGraph snapshot(CUgraph g) {
  ExecGraph out;
  std::map<CUgraphNode, size_t> index;
  const auto& nodes = fake->find<Graph>(g)->nodes;
  for (size_t i = 0; i < nodes.size(); ++i) index[nodes[i]] = i;
  for (CUgraphNode handle : nodes) {
    const Node& n = *fake->find<Node>(handle);
    ExecNode e;
    e.origin = handle;
    e.type = n.type;
    e.p = n.p;
    for (const Dep& d : n.deps) e.deps.emplace_back(index[d.node], d);
    if (n.p.child) e.inner.push_back(snapshot(n.p.child));
    for (CUgraph body : n.p.bodies) e.inner.push_back(snapshot(body));
    out.nodes.push_back(std::move(e));
  }
  return out;
}

// The order of a run, or a node of a cycle.
std::vector<size_t> order_of(const ExecGraph& g, size_t* in_cycle) {
  std::vector<size_t> order;
  std::vector<bool> done(g.nodes.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      if (done[i]) continue;
      const auto& deps = g.nodes[i].deps;
      if (!std::all_of(deps.begin(), deps.end(), [&](const auto& d) { return done[d.first]; })) continue;
      done[i] = progress = true;
      order.push_back(i);
    }
  }
  for (size_t i = 0; i < done.size(); ++i)
    if (!done[i]) *in_cycle = i;
  return order;
}

bool usable(const Exec* e, CUstream s) { return e && (legacy(s) || fake->find<Stream>(s)); }

void collect(CUgraph g, Exec* e) {
  const Graph* graph = fake->find<Graph>(g);
  for (const auto& [object, count] : graph->kept) {
    fake->find<UserObject>(object)->references += count;
    e->kept[object] += count;
  }
  for (const auto& [handle, value] : graph->conditions) e->conditions[handle] = value;
  for (CUgraphNode n : graph->nodes) {
    const Node* node = fake->find<Node>(n);
    if (node->p.child) collect(node->p.child, e);
    for (CUgraph body : node->p.bodies) collect(body, e);
  }
}

const Node* culprit(CUgraph g, const std::function<bool(const Node&)>& what, CUgraphNode* n) {
  for (CUgraphNode handle : fake->find<Graph>(g)->nodes)
    if (const Node* node = fake->find<Node>(handle); what(*node)) return *n = handle, node;
  return nullptr;
}
// A node of a kind that the host must start, in a body.
const Node* culprit_in_bodies(CUgraph g, CUgraphNode* n) {
  const auto of_the_host = [](const Node& x) {
    return x.type != CU_GRAPH_NODE_TYPE_KERNEL && x.type != CU_GRAPH_NODE_TYPE_MEMCPY &&
           x.type != CU_GRAPH_NODE_TYPE_MEMSET && x.type != CU_GRAPH_NODE_TYPE_GRAPH &&
           x.type != CU_GRAPH_NODE_TYPE_EMPTY && !conditional(x);
  };
  for (CUgraphNode handle : fake->find<Graph>(g)->nodes)
    for (CUgraph body : fake->find<Node>(handle)->p.bodies) {
      if (const Node* found = culprit(body, of_the_host, n)) return found;
      if (const Node* found = culprit_in_bodies(body, n)) return found;
    }
  return nullptr;
}

CUresult GraphInstantiateWithParams(CUgraphExec* x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  ENTER_RELEASE("cuGraphInstantiateWithParams");
  Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && !graph->parent);
  p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  p->hErrNode_out = nullptr;
  UNSAFE_IN_CAPTURE();
  if (entered != CUDA_SUCCESS) {
    culprit(
        g, [](const Node& n) { return n.type == CU_GRAPH_NODE_TYPE_KERNEL; }, &p->hErrNode_out);
    return entered;
  }
  const auto refuse = [&](int result, CUresult code) {
    p->result_out = static_cast<CUgraphInstantiateResult>(result);
    return code;
  };
  constexpr unsigned long long kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                               kDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if (p->flags > 15 || ((p->flags & kAutoFree) && (p->flags & kDevice))) return CUDA_ERROR_INVALID_VALUE;
  ExecGraph copy = snapshot(g);
  size_t in_cycle = SIZE_MAX;
  order_of(copy, &in_cycle);
  if (in_cycle != SIZE_MAX) {
    p->hErrNode_out = copy.nodes[in_cycle].origin;
    return refuse(2, CUDA_ERROR_INVALID_VALUE);
  }
  if (p->flags & kDevice) {
    const auto host_only = [](const Node& n) {
      return n.type != CU_GRAPH_NODE_TYPE_KERNEL && n.type != CU_GRAPH_NODE_TYPE_MEMCPY &&
             n.type != CU_GRAPH_NODE_TYPE_MEMSET && n.type != CU_GRAPH_NODE_TYPE_GRAPH;
    };
    if (culprit(g, host_only, &p->hErrNode_out)) return refuse(3, CUDA_ERROR_INVALID_VALUE);
  }
  if (culprit_in_bodies(g, &p->hErrNode_out)) return refuse(3, CUDA_ERROR_INVALID_VALUE);
  for (const auto& [handle, value] : graph->conditions)
    if (!fake->has(g, [handle = handle](const Node& n) { return n.p.condition == handle; }))
      return refuse(5, CUDA_ERROR_INVALID_VALUE);
  const bool single = fake->single_use(g);
  if (single && graph->execs > 0) return CUDA_ERROR_NOT_SUPPORTED;
  Exec* e = fake->make<Exec>(x);
  e->source = g;
  e->graph = std::move(copy);
  e->flags = p->flags;
  e->single = single;
  collect(g, e);
  ++graph->execs;
  p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult GraphExecDestroy(CUgraphExec x) {
  ENTER_RELEASE("cuGraphExecDestroy");
  Exec* e = fake->find<Exec>(x);
  REQUIRE(e);
  UNSAFE_IN_CAPTURE();
  if (Graph* g = fake->find<Graph>(e->source)) --g->execs;
  for (CUdeviceptr p : e->allocated)
    if (const Memory* m = fake->find<Memory>(reinterpret_cast<void*>(p))) fake->graph_used -= m->bytes;
  auto kept = std::move(e->kept);
  fake->erase(x);
  fake->release(kept);
  return entered;
}
CUresult GraphExecGetFlags(CUgraphExec x, cuuint64_t* flags) {
  ENTER("cuGraphExecGetFlags");
  const Exec* e = fake->find<Exec>(x);
  REQUIRE(e);
  return *flags = e->flags, CUDA_SUCCESS;
}

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
  const Function* f = fake->find<Function>(k->func);
  Payload p = node->p;
  REQUIRE(f && fake->keep_arguments(*f, *k, &p));
  node->p = std::move(p);
  return CUDA_SUCCESS;
}
CUresult ExecMemcpy(CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D* c, CUcontext) {
  EXEC_NODE("cuGraphExecMemcpyNodeSetParams", CU_GRAPH_NODE_TYPE_MEMCPY);
  REQUIRE(c->WidthInBytes && c->Height == 1 && c->Depth == 1);
  REQUIRE(c->srcMemoryType == node->p.copy.srcMemoryType && c->dstMemoryType == node->p.copy.dstMemoryType);
  return node->p.copy = *c, CUDA_SUCCESS;
}
CUresult ExecMemset(CUgraphExec x, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* m, CUcontext) {
  EXEC_NODE("cuGraphExecMemsetNodeSetParams", CU_GRAPH_NODE_TYPE_MEMSET);
  REQUIRE(m->dst && m->width && m->height == node->p.fill.height);
  return node->p.fill = *m, CUDA_SUCCESS;
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

// ---------------------------------------------------------------- launch

CUresult into_stream(CUstream s) {
  if (legacy(s)) return fake->implicit();
  CaptureState* c = fake->capture_of(*fake->find<Stream>(s));
  if (!c) return CUDA_SUCCESS;
  if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  c->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult GraphUpload(CUgraphExec x, CUstream s) {
  ENTER("cuGraphUpload");
  REQUIRE(usable(fake->find<Exec>(x), s));
  return into_stream(s);
}
CUresult GraphLaunch(CUgraphExec x, CUstream s) {
  {
    ENTER("cuGraphLaunch");
    Exec* e = fake->find<Exec>(x);
    REQUIRE(usable(e, s));
    if (const CUresult code = into_stream(s); code != CUDA_SUCCESS) return code;
    if (++e->inside > 1) ++fake->overlaps;
  }
  std::this_thread::yield();  // a second thread that may be here comes now
  const std::lock_guard<std::recursive_mutex> lock(fake->mutex);
  Exec* e = fake->find<Exec>(x);
  REQUIRE(e);
  --e->inside;
  if (!e->allocated.empty()) {
    REQUIRE(e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (CUdeviceptr p : e->allocated)
      if (const Memory* m = fake->find<Memory>(reinterpret_cast<void*>(p))) fake->graph_used -= m->bytes;
    e->allocated.clear();
  }
  for (const auto& [handle, value] : e->conditions)
    if (value.first) fake->condition_values[handle] = value.second;
  return fake->run(e, e->graph);
}

void copy(const CUDA_MEMCPY3D& c) {
  const char* from = c.srcMemoryType == CU_MEMORYTYPE_HOST ? static_cast<const char*>(c.srcHost)
                                                           : reinterpret_cast<const char*>(c.srcDevice);
  char* to = c.dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<char*>(c.dstHost)
                                                   : reinterpret_cast<char*>(c.dstDevice);
  const size_t from_layer = c.srcPitch * c.srcHeight, to_layer = c.dstPitch * c.dstHeight;
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y)
      std::memcpy(to + c.dstXInBytes + (c.dstY + y) * c.dstPitch + (c.dstZ + z) * to_layer,
                  from + c.srcXInBytes + (c.srcY + y) * c.srcPitch + (c.srcZ + z) * from_layer,
                  c.WidthInBytes);
}

void fill(const CUDA_MEMSET_NODE_PARAMS& m) {
  for (size_t y = 0; y < m.height; ++y)
    for (size_t x = 0; x < m.width; ++x)
      std::memcpy(reinterpret_cast<char*>(m.dst) + y * m.pitch + x * m.elementSize, &m.value, m.elementSize);
}

}  // namespace

CUresult Model::perform(CUgraphNodeType type, const Payload& p, bool in_graph, Exec* e) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      Launched l;
      l.kernel = find<Function>(p.kernel.func)->name;
      l.grid = p.kernel.gridDimX, l.block = p.kernel.blockDimX, l.shared_bytes = p.kernel.sharedMemBytes;
      l.dependent = p.dependent;
      l.params = p.arguments;
      l.in_graph = in_graph;
      if (const auto at = p.attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION); at != p.attributes.end())
        l.cluster = at->second.clusterDim.x;
      face.launches.push_back(l);
      clock_ms += 1;
      if (const auto body = face.bodies.find(l.kernel); body != face.bodies.end()) body->second(l);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const size_t bytes = p.copy.WidthInBytes;
      if (p.copy.srcMemoryType == CU_MEMORYTYPE_DEVICE) REQUIRE(inside(p.copy.srcDevice, bytes));
      if (p.copy.dstMemoryType == CU_MEMORYTYPE_DEVICE) REQUIRE(inside(p.copy.dstDevice, bytes));
      copy(p.copy);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      REQUIRE(inside(p.fill.dst, p.fill.width * p.fill.elementSize));
      fill(p.fill);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      p.host.fn(p.host.userData);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      if (Event* event = find<Event>(p.event)) event->time = clock_ms, event->capture = 0;
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      e->allocated.insert(p.alloc.dptr);
      graph_used += p.alloc.bytesize;
      graph_high = std::max(graph_high, graph_used);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      // Memory of any graph, or of cuMemAllocAsync.
      for (auto& [handle, thing] : things)
        if (auto* exec = dynamic_cast<Exec*>(thing.get())) exec->allocated.erase(p.freed);
      if (const Memory* memory = find<Memory>(reinterpret_cast<void*>(p.freed))) {
        if (memory->kind == "node") {
          graph_used -= std::min<uint64_t>(graph_used, memory->bytes);
        } else {
          used -= memory->bytes;
          erase(reinterpret_cast<void*>(p.freed));
        }
      }
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      for (const CUstreamBatchMemOpParams& o : p.operations) {
        if (o.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
          std::memcpy(reinterpret_cast<void*>(o.writeValue.address), &o.writeValue.value, 4);
        if (o.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
          std::memcpy(reinterpret_cast<void*>(o.writeValue.address), &o.writeValue.value64, 8);
      }
      break;
    default:
      break;
  }
  return CUDA_SUCCESS;
}

CUresult Model::run(Exec* e, const ExecNode& n) {
  if (!n.enabled) return CUDA_SUCCESS;
  if (n.type == CU_GRAPH_NODE_TYPE_GRAPH) return run(e, n.inner.at(0));
  if (static_cast<int>(n.type) != kConditional) {
    Payload p = n.p;
    for (const auto& [index, d] : n.deps) p.dependent |= d.type == 1;
    return perform(n.type, p, true, e);
  }
  const auto value = [&] { return condition_values[n.p.condition]; };
  constexpr int kIf = 0, kWhile = 1;
  if (n.p.condition_type == kWhile) {
    while (value())
      if (const CUresult code = run(e, n.inner.at(0)); code != CUDA_SUCCESS) return code;
    return CUDA_SUCCESS;
  }
  const size_t which = n.p.condition_type == kIf ? (value() ? 0 : 1) : value();
  return which < n.inner.size() ? run(e, n.inner[which]) : CUDA_SUCCESS;
}

CUresult Model::run(Exec* e, const ExecGraph& g) {
  size_t ignored = 0;
  for (size_t i : order_of(g, &ignored))
    if (const CUresult code = run(e, g.nodes[i]); code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}

void set_exec(driver::Driver& table) {
  SET(cuGraphInstantiateWithParams, GraphInstantiateWithParams);
  SET(cuGraphExecDestroy, GraphExecDestroy);
  SET(cuGraphExecGetFlags, GraphExecGetFlags);
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
  SET(cuGraphUpload, GraphUpload);
  SET(cuGraphLaunch, GraphLaunch);
}

}  // namespace rondo::fake
