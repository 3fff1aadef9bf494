// Nodes of every kind: added, read, changed.
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {

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

namespace {

// ---------------------------------------------------------------- nodes

CUresult add(CUgraphNode* n, CUgraph g, const std::vector<Dep>& deps, CUgraphNodeType type, Payload p) {
  REQUIRE(n && fake->find<Graph>(g));
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
  const Function* f = fake->function_of(*k);
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
  const Function* f = fake->function_of(*k);
  Payload p = node->p;
  REQUIRE(f && fake->keep_arguments(*f, *k, &p));
  node->p = std::move(p);
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  NODE("cuGraphKernelNodeGetAttribute", CU_GRAPH_NODE_TYPE_KERNEL);
  REQUIRE(static_cast<int>(id) != 11);  // a preferred cluster dimension is set, and never told
  const auto at = node->p.attributes.find(static_cast<int>(id));
  std::memset(value, 0, sizeof *value);
  if (at != node->p.attributes.end()) *value = at->second;
  return CUDA_SUCCESS;
}
CUresult GraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id,
                                     const CUkernelNodeAttrValue* value) {
  NODE("cuGraphKernelNodeSetAttribute", CU_GRAPH_NODE_TYPE_KERNEL);
  if (static_cast<int>(id) == 11)
    return CUDA_ERROR_INVALID_VALUE;  // preferred cluster: only a captured launch brings it
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

// ---------------------------------------------------------------- with edge data, conditions

#if CUDA_VERSION >= 12030
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
      const Function* f = fake->function_of(v2);
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

void set_nodes(driver::Driver& table) {
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
#if CUDA_VERSION >= 12030
  SET(cuGraphConditionalHandleCreate, GraphConditionalHandleCreate);
  SET(cuGraphAddNode_v2, GraphAddNode2);
#endif
}

}  // namespace rondo::fake
