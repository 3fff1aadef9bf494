// Graphs: their structure, clones, user objects. Nodes are in fake_driver_nodes.cpp.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {

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
    memory->data.reset(Aligned::make(p.alloc.bytesize), Aligned{});
    std::memset(memory->data.get(), 0, p.alloc.bytesize);
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
  SET(cuUserObjectCreate, UserObjectCreate);
  SET(cuUserObjectRelease, UserObjectRelease);
  SET(cuGraphRetainUserObject, GraphRetainUserObject);
#if CUDA_VERSION >= 12030
  SET(cuGraphGetEdges_v2, GraphGetEdges2);
  SET(cuGraphNodeGetDependencies_v2, GraphNodeGetDependencies2);
  SET(cuGraphNodeGetDependentNodes_v2, GraphNodeGetDependentNodes2);
  SET(cuGraphAddDependencies_v2, GraphAddDependencies2);
  SET(cuGraphRemoveDependencies_v2, GraphRemoveDependencies2);
#endif
}

}  // namespace rondo::fake
