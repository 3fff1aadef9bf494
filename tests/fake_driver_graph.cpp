// Graphs and nodes: adding, reading, changing, cloning, destroying.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {

// ---------------------------------------------------------------- the model

// Arguments by pointers need the kernel's parameter sizes; packed ones say their own.
bool Model::keep_arguments(const Function& f, const CUDA_KERNEL_NODE_PARAMS& k, Payload* p) {
  if (!k.gridDimX || !k.gridDimY || !k.gridDimZ || !k.blockDimX || !k.blockDimY || !k.blockDimZ ||
      k.blockDimX * k.blockDimY * k.blockDimZ > 1024)
    return false;
  p->kernel = k;
  p->kernel.kernelParams = p->kernel.extra = nullptr;
  p->arguments.clear();
  p->offsets.clear();
  if (k.extra) {
    if (k.extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || k.extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE)
      return false;
    const auto* bytes = static_cast<const unsigned char*>(k.extra[1]);
    p->arguments.assign(bytes, bytes + *static_cast<size_t*>(k.extra[3]));
    return true;
  }
  const auto sizes = face.parameter_bytes.find(f.name);
  if (sizes == face.parameter_bytes.end() || sizes->second.empty()) return true;
  if (!k.kernelParams) return false;
  for (size_t i = 0; i < sizes->second.size(); ++i) {
    const size_t bytes = sizes->second[i];
    const size_t offset = (p->arguments.size() + bytes - 1) / bytes * bytes;
    p->offsets.push_back(offset);
    p->arguments.resize(offset + bytes);
    std::memcpy(p->arguments.data() + offset, k.kernelParams[i], bytes);
  }
  return true;
}

CUgraphNode Model::add_node(CUgraph g, CUgraphNodeType type, Payload p, std::vector<Dep> deps) {
  CUgraphNode handle = nullptr;
  Node* n = make<Node>(&handle);
  n->type = type;
  n->graph = g;
  n->deps = std::move(deps);
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !p.alloc.dptr) {
    // Graph memory lives in a range of its own; its bytes come when a launch allocates them.
    auto memory = std::make_unique<Memory>();
    memory->kind = "node";  // goes with its node
    memory->bytes = p.alloc.bytesize;
    memory->data.reset(new char[p.alloc.bytesize]());
    p.alloc.dptr = reinterpret_cast<CUdeviceptr>(memory->data.get());
    things[p.alloc.dptr] = std::move(memory);
  }
  n->p = std::move(p);
  find<Graph>(g)->nodes.push_back(handle);
  return handle;
}

void Model::destroy_node(CUgraphNode handle) {
  const Node* n = find<Node>(handle);
  if (n->p.child) destroy_graph(n->p.child);
  for (CUgraph body : n->p.bodies) destroy_graph(body);
  if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) erase(reinterpret_cast<void*>(n->p.alloc.dptr));
  auto& nodes = find<Graph>(n->graph)->nodes;
  nodes.erase(std::find(nodes.begin(), nodes.end(), handle));
  for (CUgraphNode other : nodes)
    std::erase_if(find<Node>(other)->deps, [&](const Dep& d) { return d.node == handle; });
  erase(handle);
}

void Model::destroy_graph(CUgraph g) {
  Graph* graph = find<Graph>(g);
  if (!graph) return;
  while (!graph->nodes.empty()) destroy_node(graph->nodes.back());
  auto kept = std::move(graph->kept);
  erase(g);
  release(kept);
}

void Model::release(std::map<CUuserObject, unsigned>& kept) {
  for (const auto& [handle, count] : kept) {
    UserObject* o = find<UserObject>(handle);
    o->references -= count;
    if (o->references) continue;
    const CUhostFn destroy = o->destroy;
    void* object = o->object;
    erase(handle);
    destroy(object);
  }
  kept.clear();
}

CUgraph Model::copy_graph(CUgraph g, CUgraph parent) {
  CUgraph handle = nullptr;
  make<Graph>(&handle)->parent = parent;
  std::map<CUgraphNode, CUgraphNode> copies;
  for (CUgraphNode original : std::vector<CUgraphNode>(find<Graph>(g)->nodes)) {
    Payload p = find<Node>(original)->p;
    if (p.child) p.child = copy_graph(p.child, handle);
    const CUgraphNode copy = add_node(handle, find<Node>(original)->type, std::move(p), {});
    find<Node>(copy)->clone_of = original;
    copies[original] = copy;
  }
  for (const auto& [original, copy] : copies)
    for (Dep d : find<Node>(original)->deps) {
      d.node = copies[d.node];
      find<Node>(copy)->deps.push_back(d);
    }
  Graph *to = find<Graph>(handle), *from = find<Graph>(g);
  to->kept = from->kept;
  for (const auto& [object, count] : to->kept) find<UserObject>(object)->references += count;
  return handle;
}

bool Model::has(CUgraph g, const std::function<bool(const Node&)>& what) {
  for (CUgraphNode handle : find<Graph>(g)->nodes) {
    const Node& n = *find<Node>(handle);
    if (what(n) || (n.p.child && has(n.p.child, what))) return true;
    for (CUgraph body : n.p.bodies)
      if (has(body, what)) return true;
  }
  return false;
}

namespace {
constexpr int kDeviceUpdatable = 13;
bool fixed(const Node& n) {
  return n.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n.type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         n.p.attributes.count(kDeviceUpdatable);
}
bool conditional(const Node& n) { return static_cast<int>(n.type) == 13; }
}  // namespace

bool Model::single_use(CUgraph g) {
  return has(g, [](const Node& n) { return fixed(n) || conditional(n); });
}

namespace {

// ---------------------------------------------------------------- graphs

CUresult GraphCreate(CUgraph* g, unsigned flags) {
  ENTER("cuGraphCreate");
  REQUIRE(flags == 0);
  fake->make<Graph>(g);
  return CUDA_SUCCESS;
}
CUresult GraphDestroy(CUgraph g) {
  ENTER_RELEASE("cuGraphDestroy");
  const Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && !graph->parent);
  fake->destroy_graph(g);
  return entered;
}
CUresult GraphClone(CUgraph* copy, CUgraph g) {
  ENTER("cuGraphClone");
  REQUIRE(fake->find<Graph>(g));
  if (fake->single_use(g)) return CUDA_ERROR_NOT_SUPPORTED;
  *copy = fake->copy_graph(g, nullptr);
  return CUDA_SUCCESS;
}
CUresult GraphNodeFindInClone(CUgraphNode* n, CUgraphNode original, CUgraph clone) {
  ENTER("cuGraphNodeFindInClone");
  const Graph* graph = fake->find<Graph>(clone);
  REQUIRE(graph);
  for (CUgraphNode candidate : graph->nodes)
    if (fake->find<Node>(candidate)->clone_of == original) return *n = candidate, CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult give(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, size_t* count) {
  if (out)
    for (size_t i = 0; i < std::min(*count, nodes.size()); ++i) out[i] = nodes[i];
  *count = nodes.size();
  return CUDA_SUCCESS;
}
CUresult GraphGetNodes(CUgraph g, CUgraphNode* out, size_t* count) {
  ENTER("cuGraphGetNodes");
  const Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && count);
  return give(graph->nodes, out, count);
}
CUresult GraphGetRootNodes(CUgraph g, CUgraphNode* out, size_t* count) {
  ENTER("cuGraphGetRootNodes");
  const Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && count);
  std::vector<CUgraphNode> roots;
  for (CUgraphNode n : graph->nodes)
    if (fake->find<Node>(n)->deps.empty()) roots.push_back(n);
  return give(roots, out, count);
}
CUresult GraphNodeGetType(CUgraphNode n, CUgraphNodeType* type) {
  ENTER("cuGraphNodeGetType");
  const Node* node = fake->find<Node>(n);
  REQUIRE(node);
  return *type = node->type, CUDA_SUCCESS;
}
CUresult GraphDestroyNode(CUgraphNode n) {
  ENTER("cuGraphDestroyNode");
  const Node* node = fake->find<Node>(n);
  REQUIRE(node);
  if (fixed(*node) || conditional(*node)) return CUDA_ERROR_NOT_SUPPORTED;
  fake->destroy_node(n);
  return CUDA_SUCCESS;
}

struct FullEdge {
  CUgraphNode from, to;
  Dep data;
};
std::vector<FullEdge> edges_of(const Graph& g) {
  std::vector<FullEdge> out;
  for (CUgraphNode to : g.nodes)
    for (const Dep& d : fake->find<Node>(to)->deps) out.push_back({d.node, to, d});
  return out;
}
constexpr CUresult kLossyQuery = static_cast<CUresult>(402);

template <class Keep>
CUresult edges(CUgraph g, size_t* count, size_t room, bool takes_data, const Keep& keep) {
  const Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && count);
  const auto all = edges_of(*graph);
  if (!takes_data && room)
    for (const FullEdge& e : all)
      if (!e.data.plain()) return kLossyQuery;
  for (size_t i = 0; i < std::min(room, all.size()); ++i) keep(i, all[i]);
  *count = all.size();
  return CUDA_SUCCESS;
}
CUresult GraphGetEdges1(CUgraph g, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  ENTER("cuGraphGetEdges");
  return edges(g, count, from ? *count : 0, false,
               [&](size_t i, const FullEdge& e) { from[i] = e.from, to[i] = e.to; });
}
std::vector<Dep> neighbours(CUgraphNode n, bool before) {
  const Node* node = fake->find<Node>(n);
  if (before) return node->deps;
  std::vector<Dep> out;
  for (const FullEdge& e : edges_of(*fake->find<Graph>(node->graph)))
    if (e.from == n) out.push_back({e.to, e.data.from_port, e.data.type});
  return out;
}
CUresult neighbours1(CUgraphNode n, CUgraphNode* out, size_t* count, bool before) {
  REQUIRE(fake->find<Node>(n) && count);
  std::vector<CUgraphNode> nodes;
  for (const Dep& d : neighbours(n, before)) {
    if (out && !d.plain()) return kLossyQuery;
    nodes.push_back(d.node);
  }
  return give(nodes, out, count);
}
CUresult GraphNodeGetDependencies1(CUgraphNode n, CUgraphNode* out, size_t* count) {
  ENTER("cuGraphNodeGetDependencies");
  return neighbours1(n, out, count, true);
}
CUresult GraphNodeGetDependentNodes1(CUgraphNode n, CUgraphNode* out, size_t* count) {
  ENTER("cuGraphNodeGetDependentNodes");
  return neighbours1(n, out, count, false);
}

bool valid_edge(CUgraph g, CUgraphNode from, CUgraphNode to, const Dep& d) {
  const Node *f = fake->find<Node>(from), *t = fake->find<Node>(to);
  if (!f || !t || f->graph != g || t->graph != g || from == to) return false;
  if (d.from_port > 2 || d.type > 1 || (d.type == 1 && d.from_port == 0) || (d.from_port == 1 && d.type == 0))
    return false;
  if (d.from_port && f->type != CU_GRAPH_NODE_TYPE_KERNEL) return false;
  return d.type == 0 || t->type == CU_GRAPH_NODE_TYPE_KERNEL;
}
CUresult add_edge(CUgraph g, CUgraphNode from, CUgraphNode to, Dep d) {
  REQUIRE(fake->find<Graph>(g) && valid_edge(g, from, to, d));
  auto& deps = fake->find<Node>(to)->deps;
  for (const Dep& have : deps) REQUIRE(have.node != from);
  deps.push_back(d);
  return CUDA_SUCCESS;
}
CUresult remove_edge(CUgraph g, CUgraphNode from, CUgraphNode to, Dep d) {
  REQUIRE(fake->find<Graph>(g) && valid_edge(g, from, to, d));
  if (fixed(*fake->find<Node>(from)) || fixed(*fake->find<Node>(to))) return CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE(std::erase(fake->find<Node>(to)->deps, d) == 1);
  return CUDA_SUCCESS;
}
CUresult GraphAddDependencies1(CUgraph g, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  ENTER("cuGraphAddDependencies");
  for (size_t i = 0; i < count; ++i)
    if (const CUresult code = add_edge(g, from[i], to[i], {from[i]}); code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}
CUresult GraphRemoveDependencies1(CUgraph g, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  ENTER("cuGraphRemoveDependencies");
  for (size_t i = 0; i < count; ++i)
    if (const CUresult code = remove_edge(g, from[i], to[i], {from[i]}); code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- nodes

CUresult add(CUgraphNode* n, CUgraph g, const std::vector<Dep>& deps, CUgraphNodeType type, Payload p) {
  REQUIRE(n && fake->find<Graph>(g));
  if (fake->find<Graph>(g)->body && type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMCPY &&
      type != CU_GRAPH_NODE_TYPE_MEMSET && type != CU_GRAPH_NODE_TYPE_GRAPH &&
      type != CU_GRAPH_NODE_TYPE_EMPTY && static_cast<int>(type) != 13)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (const Dep& d : deps) {
    const Node* before = fake->find<Node>(d.node);
    REQUIRE(before && before->graph == g);
    REQUIRE(d.from_port == 0 || before->type == CU_GRAPH_NODE_TYPE_KERNEL);
    REQUIRE(d.type == 0 || (d.from_port != 0 && type == CU_GRAPH_NODE_TYPE_KERNEL));
  }
  *n = fake->add_node(g, type, std::move(p), deps);
  return CUDA_SUCCESS;
}
std::vector<Dep> plain(const CUgraphNode* nodes, size_t count) {
  std::vector<Dep> out;
  for (size_t i = 0; i < count; ++i) out.push_back({nodes[i]});
  return out;
}

bool good_copy(const CUDA_MEMCPY3D& c) { return c.WidthInBytes && c.Height && c.Depth; }
bool good_fill(const CUDA_MEMSET_NODE_PARAMS& m) {
  return m.dst && m.width && m.height && (m.elementSize == 1 || m.elementSize == 2 || m.elementSize == 4);
}

template <class Params>
void keep_signals(const Params& s, Payload* p) {
  p->semaphores.assign(s.extSemArray, s.extSemArray + s.numExtSems);
  p->signals.assign(s.paramsArray, s.paramsArray + s.numExtSems);
}
template <class Params>
void keep_waits(const Params& s, Payload* p) {
  p->semaphores.assign(s.extSemArray, s.extSemArray + s.numExtSems);
  p->waits.assign(s.paramsArray, s.paramsArray + s.numExtSems);
}

CUresult GraphAddKernelNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                            const CUDA_KERNEL_NODE_PARAMS* k) {
  ENTER("cuGraphAddKernelNode");
  const Function* f = fake->find<Function>(k->func ? k->func : reinterpret_cast<CUfunction>(k->kern));
  Payload p;
  REQUIRE(f && fake->keep_arguments(*f, *k, &p));
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_KERNEL, std::move(p));
}
CUresult GraphAddMemcpyNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                            const CUDA_MEMCPY3D* c, CUcontext context) {
  ENTER("cuGraphAddMemcpyNode");
  REQUIRE(good_copy(*c) && context);
  Payload p;
  p.copy = *c, p.context = context;
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_MEMCPY, std::move(p));
}
CUresult GraphAddMemsetNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                            const CUDA_MEMSET_NODE_PARAMS* m, CUcontext context) {
  ENTER("cuGraphAddMemsetNode");
  REQUIRE(good_fill(*m) && context);
  Payload p;
  p.fill = *m, p.context = context;
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_MEMSET, std::move(p));
}
CUresult GraphAddHostNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                          const CUDA_HOST_NODE_PARAMS* h) {
  ENTER("cuGraphAddHostNode");
  REQUIRE(h->fn);
  Payload p;
  p.host = *h;
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_HOST, std::move(p));
}
CUresult add_child(CUgraphNode* n, CUgraph g, std::vector<Dep> deps, CUgraph child, bool move) {
  REQUIRE(fake->find<Graph>(g) && fake->find<Graph>(child) && child != g &&
          !fake->find<Graph>(child)->parent);
  if (fake->has(child, conditional) || (!move && fake->has(child, fixed))) return CUDA_ERROR_NOT_SUPPORTED;
  for (const Dep& d : deps) REQUIRE(fake->find<Node>(d.node) && fake->find<Node>(d.node)->graph == g);
  Payload p;
  p.child = move ? child : fake->copy_graph(child, g);
  fake->find<Graph>(p.child)->parent = g;
  return add(n, g, deps, CU_GRAPH_NODE_TYPE_GRAPH, std::move(p));
}
CUresult GraphAddChildGraphNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                                CUgraph child) {
  ENTER("cuGraphAddChildGraphNode");
  return add_child(n, g, plain(deps, count), child, false);
}
CUresult GraphAddEmptyNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count) {
  ENTER("cuGraphAddEmptyNode");
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_EMPTY, {});
}
CUresult add_event(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count, CUevent e,
                   CUgraphNodeType type) {
  REQUIRE(fake->find<Event>(e));
  Payload p;
  p.event = e;
  return add(n, g, plain(deps, count), type, std::move(p));
}
CUresult GraphAddEventRecordNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                                 CUevent e) {
  ENTER("cuGraphAddEventRecordNode");
  return add_event(n, g, deps, count, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}
CUresult GraphAddEventWaitNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count, CUevent e) {
  ENTER("cuGraphAddEventWaitNode");
  return add_event(n, g, deps, count, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}
CUresult GraphAddSignalNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                            const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* s) {
  ENTER("cuGraphAddExternalSemaphoresSignalNode");
  Payload p;
  keep_signals(*s, &p);
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, std::move(p));
}
CUresult GraphAddWaitNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                          const CUDA_EXT_SEM_WAIT_NODE_PARAMS* s) {
  ENTER("cuGraphAddExternalSemaphoresWaitNode");
  Payload p;
  keep_waits(*s, &p);
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, std::move(p));
}
CUresult GraphAddMemAllocNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                              CUDA_MEM_ALLOC_NODE_PARAMS* a) {
  ENTER("cuGraphAddMemAllocNode");
  REQUIRE(a->bytesize > 0);
  if (a->bytesize > fake->face.total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Payload p;
  p.alloc = *a, p.alloc.dptr = 0;
  if (const CUresult code = add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(p));
      code != CUDA_SUCCESS)
    return code;
  a->dptr = fake->find<Node>(*n)->p.alloc.dptr;
  return CUDA_SUCCESS;
}
CUresult GraphAddMemFreeNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                             CUdeviceptr address) {
  ENTER("cuGraphAddMemFreeNode");
  REQUIRE(address);
  Payload p;
  p.freed = address;
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_MEM_FREE, std::move(p));
}
CUresult GraphAddBatchMemOpNode(CUgraphNode* n, CUgraph g, const CUgraphNode* deps, size_t count,
                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* b) {
  ENTER("cuGraphAddBatchMemOpNode");
  REQUIRE(b->count > 0 && b->ctx);
  Payload p;
  p.context = b->ctx;
  p.operations.assign(b->paramArray, b->paramArray + b->count);
  p.operation_flags = b->flags;
  return add(n, g, plain(deps, count), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, std::move(p));
}

// ---------------------------------------------------------------- parameters

Node* node_of(CUgraphNode n, CUgraphNodeType type) {
  Node* node = fake->find<Node>(n);
  return node && node->type == type ? node : nullptr;
}
#define NODE(name, type)         \
  ENTER(name);                   \
  Node* node = node_of(n, type); \
  REQUIRE(node)

CUresult GraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS* k) {
  NODE("cuGraphKernelNodeGetParams", CU_GRAPH_NODE_TYPE_KERNEL);
  *k = node->p.kernel;
  if (!node->p.offsets.empty()) {
    node->pointers.clear();
    for (size_t offset : node->p.offsets) node->pointers.push_back(node->p.arguments.data() + offset);
    k->kernelParams = node->pointers.data();
  } else if (!node->p.arguments.empty()) {
    node->extra_bytes = node->p.arguments.size();
    node->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER, node->extra[1] = node->p.arguments.data();
    node->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE, node->extra[3] = &node->extra_bytes;
    node->extra[4] = CU_LAUNCH_PARAM_END;
    k->extra = node->extra;
  }
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* k) {
  NODE("cuGraphKernelNodeSetParams", CU_GRAPH_NODE_TYPE_KERNEL);
  const Function* f = fake->find<Function>(k->func);
  Payload p = node->p;
  REQUIRE(f && fake->keep_arguments(*f, *k, &p));
  node->p = std::move(p);
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  NODE("cuGraphKernelNodeGetAttribute", CU_GRAPH_NODE_TYPE_KERNEL);
  const auto at = node->p.attributes.find(static_cast<int>(id));
  std::memset(value, 0, sizeof *value);
  if (at != node->p.attributes.end()) *value = at->second;
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id,
                                     const CUkernelNodeAttrValue* value) {
  NODE("cuGraphKernelNodeSetAttribute", CU_GRAPH_NODE_TYPE_KERNEL);
  REQUIRE(static_cast<int>(id) > 0 && static_cast<int>(id) < 17);
  node->p.attributes[static_cast<int>(id)] = *value;
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeCopyAttributes(CUgraphNode n, CUgraphNode from) {
  NODE("cuGraphKernelNodeCopyAttributes", CU_GRAPH_NODE_TYPE_KERNEL);
  const Node* source = node_of(from, CU_GRAPH_NODE_TYPE_KERNEL);
  REQUIRE(source);
  if (fixed(*node) || fixed(*source)) return CUDA_ERROR_NOT_SUPPORTED;
  node->p.attributes = source->p.attributes;
  return CUDA_SUCCESS;
}

CUresult GraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D* c) {
  NODE("cuGraphMemcpyNodeGetParams", CU_GRAPH_NODE_TYPE_MEMCPY);
  return *c = node->p.copy, CUDA_SUCCESS;
}
CUresult GraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D* c) {
  NODE("cuGraphMemcpyNodeSetParams", CU_GRAPH_NODE_TYPE_MEMCPY);
  REQUIRE(good_copy(*c));
  return node->p.copy = *c, CUDA_SUCCESS;
}
CUresult GraphMemsetNodeGetParams(CUgraphNode n, CUDA_MEMSET_NODE_PARAMS* m) {
  NODE("cuGraphMemsetNodeGetParams", CU_GRAPH_NODE_TYPE_MEMSET);
  return *m = node->p.fill, CUDA_SUCCESS;
}
CUresult GraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* m) {
  NODE("cuGraphMemsetNodeSetParams", CU_GRAPH_NODE_TYPE_MEMSET);
  REQUIRE(good_fill(*m));
  return node->p.fill = *m, CUDA_SUCCESS;
}
CUresult GraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS* h) {
  NODE("cuGraphHostNodeGetParams", CU_GRAPH_NODE_TYPE_HOST);
  return *h = node->p.host, CUDA_SUCCESS;
}
CUresult GraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS* h) {
  NODE("cuGraphHostNodeSetParams", CU_GRAPH_NODE_TYPE_HOST);
  REQUIRE(h->fn);
  return node->p.host = *h, CUDA_SUCCESS;
}
CUresult GraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph* g) {
  NODE("cuGraphChildGraphNodeGetGraph", CU_GRAPH_NODE_TYPE_GRAPH);
  return *g = node->p.child, CUDA_SUCCESS;
}
CUresult GraphEventRecordNodeGetEvent(CUgraphNode n, CUevent* e) {
  NODE("cuGraphEventRecordNodeGetEvent", CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  return *e = node->p.event, CUDA_SUCCESS;
}
CUresult GraphEventRecordNodeSetEvent(CUgraphNode n, CUevent e) {
  NODE("cuGraphEventRecordNodeSetEvent", CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  REQUIRE(fake->find<Event>(e));
  return node->p.event = e, CUDA_SUCCESS;
}
CUresult GraphEventWaitNodeGetEvent(CUgraphNode n, CUevent* e) {
  NODE("cuGraphEventWaitNodeGetEvent", CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  return *e = node->p.event, CUDA_SUCCESS;
}
CUresult GraphEventWaitNodeSetEvent(CUgraphNode n, CUevent e) {
  NODE("cuGraphEventWaitNodeSetEvent", CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  REQUIRE(fake->find<Event>(e));
  return node->p.event = e, CUDA_SUCCESS;
}
CUresult GraphSignalGet(CUgraphNode n, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* s) {
  NODE("cuGraphExternalSemaphoresSignalNodeGetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
  s->extSemArray = node->p.semaphores.data(), s->paramsArray = node->p.signals.data();
  s->numExtSems = static_cast<unsigned>(node->p.semaphores.size());
  return CUDA_SUCCESS;
}
CUresult GraphSignalSet(CUgraphNode n, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* s) {
  NODE("cuGraphExternalSemaphoresSignalNodeSetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
  keep_signals(*s, &node->p);
  return CUDA_SUCCESS;
}
CUresult GraphWaitGet(CUgraphNode n, CUDA_EXT_SEM_WAIT_NODE_PARAMS* s) {
  NODE("cuGraphExternalSemaphoresWaitNodeGetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
  s->extSemArray = node->p.semaphores.data(), s->paramsArray = node->p.waits.data();
  s->numExtSems = static_cast<unsigned>(node->p.semaphores.size());
  return CUDA_SUCCESS;
}
CUresult GraphWaitSet(CUgraphNode n, const CUDA_EXT_SEM_WAIT_NODE_PARAMS* s) {
  NODE("cuGraphExternalSemaphoresWaitNodeSetParams", CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
  keep_waits(*s, &node->p);
  return CUDA_SUCCESS;
}
CUresult GraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS* a) {
  NODE("cuGraphMemAllocNodeGetParams", CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  return *a = node->p.alloc, CUDA_SUCCESS;
}
CUresult GraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr* address) {
  NODE("cuGraphMemFreeNodeGetParams", CU_GRAPH_NODE_TYPE_MEM_FREE);
  return *address = node->p.freed, CUDA_SUCCESS;
}
CUresult GraphBatchGet(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS* b) {
  NODE("cuGraphBatchMemOpNodeGetParams", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  b->ctx = node->p.context, b->flags = node->p.operation_flags;
  b->count = static_cast<unsigned>(node->p.operations.size()), b->paramArray = node->p.operations.data();
  return CUDA_SUCCESS;
}
CUresult GraphBatchSet(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS* b) {
  NODE("cuGraphBatchMemOpNodeSetParams", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  REQUIRE(b->count > 0);
  node->p.operations.assign(b->paramArray, b->paramArray + b->count);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- user objects

CUresult UserObjectCreate(CUuserObject* o, void* object, CUhostFn destroy, unsigned references,
                          unsigned flags) {
  ENTER("cuUserObjectCreate");
  REQUIRE(destroy && references && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  UserObject* made = fake->make<UserObject>(o);
  made->object = object, made->destroy = destroy, made->references = references;
  return CUDA_SUCCESS;
}
CUresult UserObjectRelease(CUuserObject o, unsigned count) {
  ENTER_RELEASE("cuUserObjectRelease");
  const UserObject* object = fake->find<UserObject>(o);
  REQUIRE(object && object->references >= count);
  std::map<CUuserObject, unsigned> kept = {{o, count}};
  fake->release(kept);
  return entered;
}
CUresult GraphRetainUserObject(CUgraph g, CUuserObject o, unsigned count, unsigned flags) {
  ENTER("cuGraphRetainUserObject");
  Graph* graph = fake->find<Graph>(g);
  UserObject* object = fake->find<UserObject>(o);
  REQUIRE(graph && object && count && flags <= CU_GRAPH_USER_OBJECT_MOVE);
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references += count;
  graph->kept[o] += count;
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- with edge data, conditions

#if CUDA_VERSION >= 12030
std::vector<Dep> deps_of(const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count) {
  std::vector<Dep> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(data ? Dep{nodes[i], data[i].from_port, data[i].type} : Dep{nodes[i]});
  return out;
}
void put(const Dep& d, CUgraphEdgeData* to) {
  *to = {};
  to->from_port = d.from_port, to->type = d.type;
}
CUresult GraphGetEdges2(CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  ENTER("cuGraphGetEdges");
  return edges(g, count, from ? *count : 0, data != nullptr, [&](size_t i, const FullEdge& e) {
    from[i] = e.from, to[i] = e.to;
    if (data) put(e.data, &data[i]);
  });
}
CUresult neighbours2(CUgraphNode n, CUgraphNode* out, CUgraphEdgeData* data, size_t* count, bool before) {
  REQUIRE(fake->find<Node>(n) && count);
  const std::vector<Dep> deps = neighbours(n, before);
  std::vector<CUgraphNode> nodes;
  for (size_t i = 0; i < deps.size(); ++i) {
    if (out && !data && !deps[i].plain()) return kLossyQuery;
    if (data && i < *count) put(deps[i], &data[i]);
    nodes.push_back(deps[i].node);
  }
  return give(nodes, out, count);
}
CUresult GraphNodeGetDependencies2(CUgraphNode n, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  ENTER("cuGraphNodeGetDependencies");
  return neighbours2(n, out, data, count, true);
}
CUresult GraphNodeGetDependentNodes2(CUgraphNode n, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  ENTER("cuGraphNodeGetDependentNodes");
  return neighbours2(n, out, data, count, false);
}
CUresult GraphAddDependencies2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                               const CUgraphEdgeData* data, size_t count) {
  ENTER("cuGraphAddDependencies");
  const std::vector<Dep> deps = deps_of(from, data, count);
  for (size_t i = 0; i < count; ++i)
    if (const CUresult code = add_edge(g, from[i], to[i], deps[i]); code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}
CUresult GraphRemoveDependencies2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                  const CUgraphEdgeData* data, size_t count) {
  ENTER("cuGraphRemoveDependencies");
  const std::vector<Dep> deps = deps_of(from, data, count);
  for (size_t i = 0; i < count; ++i)
    if (const CUresult code = remove_edge(g, from[i], to[i], deps[i]); code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}
CUresult GraphConditionalHandleCreate(CUgraphConditionalHandle* h, CUgraph g, CUcontext context,
                                      unsigned value, unsigned flags) {
  ENTER("cuGraphConditionalHandleCreate");
  Graph* graph = fake->find<Graph>(g);
  REQUIRE(graph && context && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
  *h = fake->next_id++;
  graph->conditions[*h] = {flags == CU_GRAPH_COND_ASSIGN_DEFAULT, value};
  fake->condition_values[*h] = 0;
  return CUDA_SUCCESS;
}

CUresult add_conditional(CUgraphNode* n, CUgraph g, const std::vector<Dep>& deps, CUgraphNodeParams* params) {
  auto& c = params->conditional;
  const int type = static_cast<int>(c.type);  // 0 if, 1 while, 2 switch
  REQUIRE(fake->find<Graph>(g) && c.ctx && c.size >= 1 && type <= 2);
  CUgraph root = g;
  while (fake->find<Graph>(root)->parent) root = fake->find<Graph>(root)->parent;
  REQUIRE(fake->find<Graph>(root)->conditions.count(c.handle) ||
          fake->find<Graph>(g)->conditions.count(c.handle));
  const bool newer = type == 2 || (type == 0 && c.size == 2);
  REQUIRE(!newer || fake->version >= 12080);
  REQUIRE(type == 2 || c.size <= (type == 0 ? 2u : 1u));
  Payload p;
  p.condition = c.handle, p.condition_type = type;
  if (const CUresult code = add(n, g, deps, CU_GRAPH_NODE_TYPE_CONDITIONAL, std::move(p));
      code != CUDA_SUCCESS)
    return code;
  std::vector<CUgraph> bodies(c.size);
  for (CUgraph& body : bodies) {
    Graph* made = fake->make<Graph>(&body);
    made->parent = g;
    made->body = true;
  }
  Node* node = fake->find<Node>(*n);
  node->p.bodies = std::move(bodies);
  c.phGraph_out = node->p.bodies.data();
  return CUDA_SUCCESS;
}
CUresult GraphAddNode2(CUgraphNode* n, CUgraph g, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                       size_t count, CUgraphNodeParams* params) {
  ENTER("cuGraphAddNode");
  const std::vector<Dep> deps = deps_of(nodes, data, count);
  Payload p;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = params->kernel;
      CUDA_KERNEL_NODE_PARAMS v2{};
      v2.func = k.func, v2.kern = k.kern, v2.ctx = k.ctx;
      v2.gridDimX = k.gridDimX, v2.gridDimY = k.gridDimY, v2.gridDimZ = k.gridDimZ;
      v2.blockDimX = k.blockDimX, v2.blockDimY = k.blockDimY, v2.blockDimZ = k.blockDimZ;
      v2.sharedMemBytes = k.sharedMemBytes, v2.kernelParams = k.kernelParams, v2.extra = k.extra;
      const Function* f = fake->find<Function>(k.func);
      REQUIRE(f && fake->keep_arguments(*f, v2, &p));
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      p.copy = params->memcpy.copyParams, p.context = params->memcpy.copyCtx;
      REQUIRE(good_copy(p.copy));
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& m = params->memset;
      p.fill.dst = m.dst, p.fill.pitch = m.pitch, p.fill.value = m.value, p.fill.elementSize = m.elementSize;
      p.fill.width = m.width, p.fill.height = m.height, p.context = m.ctx;
      REQUIRE(good_fill(p.fill));
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      p.host.fn = params->host.fn, p.host.userData = params->host.userData;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      bool move = false;
#if CUDA_VERSION >= 12090
      move = params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
#endif
      return add_child(n, g, deps, params->graph.graph, move);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      p.event = params->eventWait.event;
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      p.event = params->eventRecord.event;
      break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      keep_signals(params->extSemSignal, &p);
      break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      keep_waits(params->extSemWait, &p);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      p.freed = params->free.dptr;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      p.context = params->memOp.ctx;
      p.operations.assign(params->memOp.paramArray, params->memOp.paramArray + params->memOp.count);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return add_conditional(n, g, deps, params);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return add(n, g, deps, params->type, std::move(p));
}
#endif

}  // namespace

void set_graph(driver::Driver& table) {
  SET(cuGraphCreate, GraphCreate);
  SET(cuGraphDestroy, GraphDestroy);
  SET(cuGraphClone, GraphClone);
  SET(cuGraphNodeFindInClone, GraphNodeFindInClone);
  SET(cuGraphGetNodes, GraphGetNodes);
  SET(cuGraphGetRootNodes, GraphGetRootNodes);
  SET(cuGraphNodeGetType, GraphNodeGetType);
  SET(cuGraphDestroyNode, GraphDestroyNode);
  SET(cuGraphGetEdges_v1, GraphGetEdges1);
  SET(cuGraphNodeGetDependencies_v1, GraphNodeGetDependencies1);
  SET(cuGraphNodeGetDependentNodes_v1, GraphNodeGetDependentNodes1);
  SET(cuGraphAddDependencies_v1, GraphAddDependencies1);
  SET(cuGraphRemoveDependencies_v1, GraphRemoveDependencies1);
  SET(cuGraphAddKernelNode, GraphAddKernelNode);
  SET(cuGraphAddMemcpyNode, GraphAddMemcpyNode);
  SET(cuGraphAddMemsetNode, GraphAddMemsetNode);
  SET(cuGraphAddHostNode, GraphAddHostNode);
  SET(cuGraphAddChildGraphNode, GraphAddChildGraphNode);
  SET(cuGraphAddEmptyNode, GraphAddEmptyNode);
  SET(cuGraphAddEventRecordNode, GraphAddEventRecordNode);
  SET(cuGraphAddEventWaitNode, GraphAddEventWaitNode);
  SET(cuGraphAddExternalSemaphoresSignalNode, GraphAddSignalNode);
  SET(cuGraphAddExternalSemaphoresWaitNode, GraphAddWaitNode);
  SET(cuGraphAddMemAllocNode, GraphAddMemAllocNode);
  SET(cuGraphAddMemFreeNode, GraphAddMemFreeNode);
  SET(cuGraphAddBatchMemOpNode, GraphAddBatchMemOpNode);
  SET(cuGraphKernelNodeGetParams, GraphKernelNodeGetParams);
  SET(cuGraphKernelNodeSetParams, GraphKernelNodeSetParams);
  SET(cuGraphKernelNodeGetAttribute, GraphKernelNodeGetAttribute);
  SET(cuGraphKernelNodeSetAttribute, GraphKernelNodeSetAttribute);
  SET(cuGraphKernelNodeCopyAttributes, GraphKernelNodeCopyAttributes);
  SET(cuGraphMemcpyNodeGetParams, GraphMemcpyNodeGetParams);
  SET(cuGraphMemcpyNodeSetParams, GraphMemcpyNodeSetParams);
  SET(cuGraphMemsetNodeGetParams, GraphMemsetNodeGetParams);
  SET(cuGraphMemsetNodeSetParams, GraphMemsetNodeSetParams);
  SET(cuGraphHostNodeGetParams, GraphHostNodeGetParams);
  SET(cuGraphHostNodeSetParams, GraphHostNodeSetParams);
  SET(cuGraphChildGraphNodeGetGraph, GraphChildGraphNodeGetGraph);
  SET(cuGraphEventRecordNodeGetEvent, GraphEventRecordNodeGetEvent);
  SET(cuGraphEventRecordNodeSetEvent, GraphEventRecordNodeSetEvent);
  SET(cuGraphEventWaitNodeGetEvent, GraphEventWaitNodeGetEvent);
  SET(cuGraphEventWaitNodeSetEvent, GraphEventWaitNodeSetEvent);
  SET(cuGraphExternalSemaphoresSignalNodeGetParams, GraphSignalGet);
  SET(cuGraphExternalSemaphoresSignalNodeSetParams, GraphSignalSet);
  SET(cuGraphExternalSemaphoresWaitNodeGetParams, GraphWaitGet);
  SET(cuGraphExternalSemaphoresWaitNodeSetParams, GraphWaitSet);
  SET(cuGraphMemAllocNodeGetParams, GraphMemAllocNodeGetParams);
  SET(cuGraphMemFreeNodeGetParams, GraphMemFreeNodeGetParams);
  SET(cuGraphBatchMemOpNodeGetParams, GraphBatchGet);
  SET(cuGraphBatchMemOpNodeSetParams, GraphBatchSet);
  SET(cuUserObjectCreate, UserObjectCreate);
  SET(cuUserObjectRelease, UserObjectRelease);
  SET(cuGraphRetainUserObject, GraphRetainUserObject);
#if CUDA_VERSION >= 12030
  SET(cuGraphGetEdges_v2, GraphGetEdges2);
  SET(cuGraphNodeGetDependencies_v2, GraphNodeGetDependencies2);
  SET(cuGraphNodeGetDependentNodes_v2, GraphNodeGetDependentNodes2);
  SET(cuGraphAddDependencies_v2, GraphAddDependencies2);
  SET(cuGraphRemoveDependencies_v2, GraphRemoveDependencies2);
  SET(cuGraphConditionalHandleCreate, GraphConditionalHandleCreate);
  SET(cuGraphAddNode_v2, GraphAddNode2);
#endif
}

}  // namespace rondo::fake
