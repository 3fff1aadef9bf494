// Executable graphs: instantiate, launch. Updates are in fake_driver_update.cpp.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {

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

namespace {

constexpr int kConditional = 13;

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
  fake->given_freed += fake->names_freed(copy);
  Exec* e = fake->make<Exec>(x);
  e->source = g;
  e->graph = std::move(copy);
  e->flags = p->flags;
  e->single = single;
  e->device_bytes = fake->face.exec_bytes;
  fake->used += e->device_bytes;
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
  fake->used -= e->device_bytes;
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
      l.kernel = function_of(p.kernel)->name;
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
          free_memory(p.freed);
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
  SET(cuGraphUpload, GraphUpload);
  SET(cuGraphLaunch, GraphLaunch);
}

}  // namespace rondo::fake
