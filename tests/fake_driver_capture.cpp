// Streams, events, work for streams, and the rules of capture: section 1.5 of the reference on CUDA graphs,
// as corrected by what a real driver answered (tests/graph_conformance.cpp).
#include <cstring>

#include "fake_driver_model.h"

namespace rondo::fake {

// ---------------------------------------------------------------- the rules

CaptureState* Model::live(uint64_t id) {
  const auto at = captures.find(id);
  return at == captures.end() ? nullptr : &at->second;
}

CaptureState* Model::capture_of(const Stream& s) { return live(s.capture); }

CUresult Model::unsafe_call() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (auto& [id, c] : captures) {
    const bool own = c.thread == std::this_thread::get_id() && c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool global =
        thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !global) continue;
    c.broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

namespace {

CaptureState* blocking_capture() {
  for (auto& [id, c] : fake->captures)
    for (CUstream s : c.streams)
      if (const Stream* stream = fake->find<Stream>(s); stream && stream->blocking) return &c;
  return nullptr;
}

}  // namespace

CUresult Model::implicit() {
  CaptureState* c = blocking_capture();
  if (!c) return CUDA_SUCCESS;
  c->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult Model::enqueue(CUstream s, CUgraphNodeType type, Payload p, CUgraphNode* made) {
  if (legacy(s)) {
    if (const CUresult code = implicit(); code != CUDA_SUCCESS) return code;
    return perform(type, p, false, nullptr);
  }
  Stream* stream = find<Stream>(s);
  REQUIRE(stream);
  CaptureState* c = capture_of(*stream);
  if (!c) return perform(type, p, false, nullptr);
  if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<Dep> deps = stream->tip;
  if (p.dependent) {
    if (version < 12030) {
      c->broken = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    for (Dep& d : deps)
      if (find<Node>(d.node)->type == CU_GRAPH_NODE_TYPE_KERNEL) d.from_port = d.type = 1;
  }
  const CUgraphNode node = add_node(c->graph, type, std::move(p), std::move(deps));
  stream->tip = {Dep{node}};
  if (made) *made = node;
  return CUDA_SUCCESS;
}

// Streams and events forget it; unless it is kept its graph goes, also one that was there before.
void Model::over(uint64_t id, bool drop_graph) {
  CaptureState c = std::move(captures[id]);
  captures.erase(id);
  for (CUstream s : c.streams)
    if (Stream* stream = find<Stream>(s)) stream->capture = 0, stream->tip.clear();
  if (!drop_graph) return;
  // What a real driver leaves of a node whose body or child goes is not known; here the node loses it.
  for (auto& [handle, thing] : things)
    if (auto* node = dynamic_cast<Node*>(thing.get())) {
      std::erase(node->p.bodies, c.graph);
      if (node->p.child == c.graph) node->p.child = nullptr;
    }
  destroy_graph(c.graph);
}

namespace {

// ---------------------------------------------------------------- streams

CUresult create_stream(const char* function, CUstream* s, unsigned flags) {
  ENTER(function);
  REQUIRE((flags & ~CU_STREAM_NON_BLOCKING) == 0 && fake->context_depth > 0);
  fake->make<Stream>(s)->blocking = !(flags & CU_STREAM_NON_BLOCKING);
  return CUDA_SUCCESS;
}
CUresult StreamCreate(CUstream* s, unsigned flags) { return create_stream("cuStreamCreate", s, flags); }
CUresult StreamCreateWithPriority(CUstream* s, unsigned flags, int) {
  return create_stream("cuStreamCreateWithPriority", s, flags);
}
CUresult StreamDestroy(CUstream s) {
  ENTER_RELEASE("cuStreamDestroy");
  const Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  if (CaptureState* c = fake->capture_of(*stream)) {
    c->broken = true;
    c->streams.erase(s);
    // Nobody can end it any more.
    if (c->origin == s) fake->over(c->id, true);
  }
  fake->erase(s);
  return entered;
}

CUresult on_captured(Stream* stream) {
  CaptureState* c = fake->capture_of(*stream);
  if (!c) return CUDA_SUCCESS;
  if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  c->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult StreamSynchronize(CUstream s) {
  ENTER("cuStreamSynchronize");
  if (legacy(s)) return fake->implicit();
  Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  if (const CUresult code = on_captured(stream); code != CUDA_SUCCESS) return code;
  return fake->unsafe_call();
}
CUresult StreamQuery(CUstream s) {
  ENTER("cuStreamQuery");
  if (legacy(s)) return fake->implicit();
  Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  if (const CUresult code = on_captured(stream); code != CUDA_SUCCESS) return code;
  return fake->unsafe_call();
}
CUresult CtxSynchronize() {
  ENTER("cuCtxSynchronize");
  CUresult code = CUDA_SUCCESS;
  for (auto& [id, c] : fake->captures) c.broken = true, code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return code;
}

// ---------------------------------------------------------------- events

CUresult EventCreate(CUevent* e, unsigned) {
  ENTER("cuEventCreate");
  fake->make<Event>(e);
  return CUDA_SUCCESS;
}
CUresult EventDestroy(CUevent e) {
  ENTER_RELEASE("cuEventDestroy");
  REQUIRE(fake->find<Event>(e));
  fake->erase(e);
  return entered;
}

CUresult record(CUevent e, CUstream s, bool external) {
  Event* event = fake->find<Event>(e);
  REQUIRE(event);
  if (legacy(s)) {
    if (const CUresult code = fake->implicit(); code != CUDA_SUCCESS) return code;
  } else {
    Stream* stream = fake->find<Stream>(s);
    REQUIRE(stream);
    if (CaptureState* c = fake->capture_of(*stream)) {
      if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if (external) {
        Payload p;
        p.event = e;
        return fake->enqueue(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, std::move(p));
      }
      event->recorded = true;
      event->capture = c->id;
      event->tip = stream->tip;
      return CUDA_SUCCESS;
    }
  }
  event->recorded = true;
  event->capture = 0;
  event->time = fake->clock_ms;
  return CUDA_SUCCESS;
}
CUresult EventRecord(CUevent e, CUstream s) {
  ENTER("cuEventRecord");
  return record(e, s, false);
}
CUresult EventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
  ENTER("cuEventRecordWithFlags");
  REQUIRE((flags & ~CU_EVENT_RECORD_EXTERNAL) == 0);
  return record(e, s, flags & CU_EVENT_RECORD_EXTERNAL);
}
CUresult look_at(CUevent e) {
  const Event* event = fake->find<Event>(e);
  REQUIRE(event);
  if (CaptureState* c = fake->live(event->capture)) {
    c->broken = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  REQUIRE(!event->capture);  // recorded in a capture that is over
  return fake->unsafe_call();
}
CUresult EventSynchronize(CUevent e) {
  ENTER("cuEventSynchronize");
  return look_at(e);
}
CUresult EventQuery(CUevent e) {
  ENTER("cuEventQuery");
  return look_at(e);
}
CUresult EventElapsedTime(float* ms, CUevent a, CUevent b) {
  ENTER("cuEventElapsedTime");
  REQUIRE(fake->find<Event>(a) && fake->find<Event>(b));
  *ms = static_cast<float>(fake->find<Event>(b)->time - fake->find<Event>(a)->time);
  return CUDA_SUCCESS;
}
CUresult StreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  ENTER("cuStreamWaitEvent");
  const Event* event = fake->find<Event>(e);
  REQUIRE(event && (flags & ~CU_EVENT_WAIT_EXTERNAL) == 0);
  if (legacy(s)) return fake->implicit();
  Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  CaptureState *mine = fake->capture_of(*stream), *theirs = fake->live(event->capture);
  if (mine && mine->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    if (!mine) return CUDA_SUCCESS;
    Payload p;
    p.event = e;
    return fake->enqueue(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, std::move(p));
  }
  if (!theirs) {
    const bool of_a_past_capture = event->capture != 0;
    if (!of_a_past_capture && (!mine || !event->recorded)) return CUDA_SUCCESS;
    if (mine) mine->broken = true;
    return of_a_past_capture ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (theirs->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (mine && mine != theirs) {
    mine->broken = theirs->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!mine) {
    stream->capture = theirs->id;
    stream->tip.clear();
    theirs->streams.insert(s);
  }
  for (const Dep& d : event->tip)
    if (std::find(stream->tip.begin(), stream->tip.end(), d) == stream->tip.end()) stream->tip.push_back(d);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- work

CUresult MemcpyAsync(const char* function, CUDA_MEMCPY3D p, size_t bytes, CUstream s) {
  ENTER(function);
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  Payload payload;
  payload.copy = p;
  return fake->enqueue(s, CU_GRAPH_NODE_TYPE_MEMCPY, std::move(payload));
}
CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = CU_MEMORYTYPE_HOST, p.srcHost = from;
  p.dstMemoryType = CU_MEMORYTYPE_DEVICE, p.dstDevice = to;
  return MemcpyAsync("cuMemcpyHtoDAsync", p, bytes, s);
}
CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = CU_MEMORYTYPE_DEVICE, p.srcDevice = from;
  p.dstMemoryType = CU_MEMORYTYPE_HOST, p.dstHost = to;
  return MemcpyAsync("cuMemcpyDtoHAsync", p, bytes, s);
}
CUresult MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = from, p.dstDevice = to;
  return MemcpyAsync("cuMemcpyDtoDAsync", p, bytes, s);
}
CUresult MemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream s) {
  ENTER("cuMemsetD8Async");
  Payload payload;
  payload.fill.dst = p, payload.fill.value = value, payload.fill.elementSize = 1;
  payload.fill.width = bytes, payload.fill.height = 1;
  return fake->enqueue(s, CU_GRAPH_NODE_TYPE_MEMSET, std::move(payload));
}
CUresult LaunchHostFunc(CUstream s, CUhostFn fn, void* data) {
  ENTER("cuLaunchHostFunc");
  REQUIRE(fn);
  Payload payload;
  payload.host.fn = fn, payload.host.userData = data;
  return fake->enqueue(s, CU_GRAPH_NODE_TYPE_HOST, std::move(payload));
}
CUresult MemAllocAsync(CUdeviceptr* p, size_t bytes, CUstream s) {
  ENTER("cuMemAllocAsync");
  REQUIRE(bytes > 0);
  Stream* stream = legacy(s) ? nullptr : fake->find<Stream>(s);
  if (stream && fake->capture_of(*stream)) {
    Payload payload;
    payload.alloc.bytesize = bytes;
    CUgraphNode node = nullptr;
    if (const CUresult code = fake->enqueue(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(payload), &node);
        code != CUDA_SUCCESS)
      return code;
    *p = fake->find<Node>(node)->p.alloc.dptr;
    return CUDA_SUCCESS;
  }
  auto memory = std::make_unique<Memory>();
  memory->bytes = bytes;
  memory->data.reset(Aligned::make(bytes), Aligned{});
  *p = reinterpret_cast<CUdeviceptr>(memory->data.get());
  fake->things[*p] = std::move(memory);
  fake->used += bytes;
  return CUDA_SUCCESS;
}
CUresult MemFreeAsync(CUdeviceptr p, CUstream s) {
  ENTER("cuMemFreeAsync");
  Payload payload;
  payload.freed = p;
  return fake->enqueue(s, CU_GRAPH_NODE_TYPE_MEM_FREE, std::move(payload));
}

CUresult launch(const CUlaunchConfig& c, CUfunction f, void** params, void** extra) {
  const Function* function = fake->find<Function>(f);
  REQUIRE(function && fake->context_depth > 0);
  REQUIRE(static_cast<int>(c.sharedMemBytes) <= function->dynamic_limit);
  Payload p;
  CUDA_KERNEL_NODE_PARAMS k{};
  k.func = f;
  k.gridDimX = c.gridDimX, k.gridDimY = c.gridDimY, k.gridDimZ = c.gridDimZ;
  k.blockDimX = c.blockDimX, k.blockDimY = c.blockDimY, k.blockDimZ = c.blockDimZ;
  k.sharedMemBytes = c.sharedMemBytes;
  k.kernelParams = params, k.extra = extra;
  REQUIRE(fake->keep_arguments(*function, k, &p));
  for (unsigned i = 0; i < c.numAttrs; ++i) {
    if (c.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      p.dependent = c.attrs[i].value.programmaticStreamSerializationAllowed != 0;
    else
      p.attributes[static_cast<int>(c.attrs[i].id)] = c.attrs[i].value;
  }
  return fake->enqueue(c.hStream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(p));
}
CUresult LaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
  ENTER("cuLaunchKernelEx");
  return launch(*c, f, params, extra);
}
CUresult LaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, CUstream s, void** params, void** extra) {
  ENTER("cuLaunchKernel");
  CUlaunchConfig c{};
  c.gridDimX = gx, c.gridDimY = gy, c.gridDimZ = gz;
  c.blockDimX = bx, c.blockDimY = by, c.blockDimZ = bz;
  c.sharedMemBytes = shared;
  c.hStream = s;
  return launch(c, f, params, extra);
}

// ---------------------------------------------------------------- capture

CUresult begin(CUstream s, CUstreamCaptureMode mode, CUgraph into, std::vector<Dep> tip) {
  if (legacy(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  if (fake->capture_of(*stream)) return CUDA_ERROR_ILLEGAL_STATE;
  CaptureState c;
  c.id = fake->next_id++;
  c.origin = s;
  c.mode = mode;
  c.thread = std::this_thread::get_id();
  c.streams = {s};
  c.graph = into;
  if (into)
    for (CUgraphNode n : fake->find<Graph>(into)->nodes) c.before.insert(n);
  else
    fake->make<Graph>(&c.graph);
  stream->capture = c.id;
  stream->tip = std::move(tip);
  fake->captures[c.id] = std::move(c);
  return CUDA_SUCCESS;
}
CUresult StreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
  ENTER("cuStreamBeginCapture");
  return begin(s, mode, nullptr, {});
}

// Ends the capture even when it reports a failure; the graph is then null. Who asks for no graph gets none.
CUresult StreamEndCapture(CUstream s, CUgraph* g) {
  ENTER_RELEASE("cuStreamEndCapture");
  CUgraph dropped = nullptr;
  const bool drop = !g;
  if (drop) g = &dropped;
  *g = nullptr;
  if (legacy(s)) return CUDA_ERROR_ILLEGAL_STATE;
  const Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  CaptureState* c = fake->capture_of(*stream);
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  if (c->origin != s) {
    c->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult code = entered;
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != std::this_thread::get_id())
    code = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;  // and it is over: seen on a real driver
  else if (c->broken)
    code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (code == CUDA_SUCCESS) {
    std::set<CUgraphNode> reached;
    std::vector<Dep> open = stream->tip;
    while (!open.empty()) {
      const CUgraphNode n = open.back().node;
      open.pop_back();
      if (!reached.insert(n).second) continue;
      for (const Dep& d : fake->find<Node>(n)->deps) open.push_back(d);
    }
    for (CUgraphNode n : fake->find<Graph>(c->graph)->nodes)
      if (!c->before.count(n) && !reached.count(n)) code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (code == CUDA_SUCCESS) *g = c->graph;
  fake->over(c->id, code != CUDA_SUCCESS || (drop && c->before.empty()));
  return code;
}
CUresult status_of(CUstream s, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The capture goes on.
  if (legacy(s)) return blocking_capture() ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  const Stream* stream = fake->find<Stream>(s);
  REQUIRE(stream);
  if (const CaptureState* c = fake->capture_of(*stream))
    *status = c->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
CUresult StreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  ENTER("cuStreamIsCapturing");
  return status_of(s, status);
}
CUresult ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

// What GetCaptureInfo points to: of the stream asked last.
std::vector<CUgraphNode> info_nodes;

CUresult info(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** nodes, size_t* count, bool* carries_data) {
  if (const CUresult code = status_of(s, status); code != CUDA_SUCCESS) return code;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  const Stream* stream = fake->find<Stream>(s);
  const CaptureState* c = fake->capture_of(*stream);
  info_nodes.clear();
  for (const Dep& d : stream->tip) {
    info_nodes.push_back(d.node);
    *carries_data |= !d.plain();
  }
  if (id) *id = c->id;
  if (graph) *graph = c->graph;
  if (nodes) *nodes = info_nodes.data();
  if (count) *count = info_nodes.size();
  return CUDA_SUCCESS;
}
CUresult StreamGetCaptureInfo2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                               const CUgraphNode** nodes, size_t* count) {
  ENTER("cuStreamGetCaptureInfo");
  bool carries_data = false;
  const CUresult code = info(s, status, id, graph, nodes, count, &carries_data);
  return code == CUDA_SUCCESS && carries_data ? static_cast<CUresult>(402) : code;
}

CUresult set_tip(CUstream s, std::vector<Dep> tip, unsigned flags) {
  Stream* stream = legacy(s) ? nullptr : fake->find<Stream>(s);
  const CaptureState* c = stream ? fake->capture_of(*stream) : nullptr;
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  if (c->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  REQUIRE(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  for (const Dep& d : tip) {
    const Node* n = fake->find<Node>(d.node);
    REQUIRE(n && n->graph == c->graph);
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    stream->tip = std::move(tip);
  else
    stream->tip.insert(stream->tip.end(), tip.begin(), tip.end());
  return CUDA_SUCCESS;
}
CUresult StreamUpdateCaptureDependencies1(CUstream s, CUgraphNode* nodes, size_t count, unsigned flags) {
  ENTER("cuStreamUpdateCaptureDependencies");
  std::vector<Dep> tip;
  for (size_t i = 0; i < count; ++i) tip.push_back({nodes[i]});
  return set_tip(s, std::move(tip), flags);
}

#if CUDA_VERSION >= 12030
std::vector<CUgraphEdgeData> info_data;
CUresult StreamGetCaptureInfo3(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                               const CUgraphNode** nodes, const CUgraphEdgeData** data, size_t* count) {
  ENTER("cuStreamGetCaptureInfo");
  bool carries_data = false;
  const CUresult code = info(s, status, id, graph, nodes, count, &carries_data);
  if (code != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return code;
  info_data.clear();
  for (const Dep& d : fake->find<Stream>(s)->tip) {
    CUgraphEdgeData e{};
    e.from_port = d.from_port, e.type = d.type;
    info_data.push_back(e);
  }
  if (data) *data = info_data.data();
  return CUDA_SUCCESS;
}
CUresult StreamUpdateCaptureDependencies2(CUstream s, CUgraphNode* nodes, const CUgraphEdgeData* data,
                                          size_t count, unsigned flags) {
  ENTER("cuStreamUpdateCaptureDependencies");
  return set_tip(s, deps_of(nodes, data, count), flags);
}
CUresult StreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode* nodes,
                                   const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  ENTER("cuStreamBeginCaptureToGraph");
  REQUIRE(fake->find<Graph>(g));
  std::vector<Dep> tip = deps_of(nodes, data, count);
  for (const Dep& d : tip) REQUIRE(fake->find<Node>(d.node) && fake->find<Node>(d.node)->graph == g);
  return begin(s, mode, g, std::move(tip));
}
#endif

}  // namespace

void set_capture(driver::Driver& table) {
  SET(cuCtxSynchronize, CtxSynchronize);
  SET(cuStreamCreate, StreamCreate);
  SET(cuStreamCreateWithPriority, StreamCreateWithPriority);
  SET(cuStreamDestroy, StreamDestroy);
  SET(cuStreamSynchronize, StreamSynchronize);
  SET(cuStreamQuery, StreamQuery);
  SET(cuStreamWaitEvent, StreamWaitEvent);
  SET(cuEventCreate, EventCreate);
  SET(cuEventDestroy, EventDestroy);
  SET(cuEventRecord, EventRecord);
  SET(cuEventRecordWithFlags, EventRecordWithFlags);
  SET(cuEventQuery, EventQuery);
  SET(cuEventSynchronize, EventSynchronize);
  SET(cuEventElapsedTime, EventElapsedTime);
  SET(cuMemcpyHtoDAsync, MemcpyHtoDAsync);
  SET(cuMemcpyDtoHAsync, MemcpyDtoHAsync);
  SET(cuMemcpyDtoDAsync, MemcpyDtoDAsync);
  SET(cuMemsetD8Async, MemsetD8Async);
  SET(cuMemAllocAsync, MemAllocAsync);
  SET(cuMemFreeAsync, MemFreeAsync);
  SET(cuLaunchKernel, LaunchKernel);
  SET(cuLaunchKernelEx, LaunchKernelEx);
  SET(cuLaunchHostFunc, LaunchHostFunc);
  SET(cuStreamBeginCapture, StreamBeginCapture);
  SET(cuStreamEndCapture, StreamEndCapture);
  SET(cuStreamIsCapturing, StreamIsCapturing);
  SET(cuThreadExchangeStreamCaptureMode, ThreadExchangeStreamCaptureMode);
  SET(cuStreamGetCaptureInfo_v2, StreamGetCaptureInfo2);
  SET(cuStreamUpdateCaptureDependencies_v1, StreamUpdateCaptureDependencies1);
#if CUDA_VERSION >= 12030
  SET(cuStreamGetCaptureInfo_v3, StreamGetCaptureInfo3);
  SET(cuStreamUpdateCaptureDependencies_v2, StreamUpdateCaptureDependencies2);
  SET(cuStreamBeginCaptureToGraph, StreamBeginCaptureToGraph);
#endif
}

}  // namespace rondo::fake
