#include "fake_driver.h"

#include <algorithm>
#include <cstring>

namespace rondo::fake {
namespace {

FakeDriver* fake = nullptr;

}  // namespace

CUresult FakeDriver::enter(const char* function) {
  ++calls_;
  log.push_back(function);
  if (calls_ != fail_at_ && fail_name_ != function) return CUDA_SUCCESS;
  failed_ = function;
  return fail_code_;
}

FakeDriver::Thing* FakeDriver::find(const void* handle, const char* kind) {
  const auto at = things_.find(reinterpret_cast<uint64_t>(handle));
  return at != things_.end() && at->second.kind == kind ? &at->second : nullptr;
}

void* FakeDriver::make(const char* kind) {
  things_[next_].kind = kind;
  const uint64_t handle = next_;
  next_ += 16;
  return reinterpret_cast<void*>(handle);
}

bool FakeDriver::erase(const void* handle, const char* kind) {
  Thing* thing = find(handle, kind);
  if (!thing) return false;
  if (thing->kind == "memory") used_ -= thing->bytes;
  for (const auto& [name, function] : thing->functions) things_.erase(function);
  things_.erase(reinterpret_cast<uint64_t>(handle));
  return true;
}

CUresult FakeDriver::forbidden_in_capture() {
  CUresult code = CUDA_SUCCESS;
  for (auto& [handle, thing] : things_)
    if (thing.kind == "stream" && thing.capturing) {
      code = thing.broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      thing.broken = true;
    }
  return code;
}

size_t FakeDriver::count(const std::string& function) const {
  return static_cast<size_t>(std::count(log.begin(), log.end(), function));
}

std::string FakeDriver::leaks() const {
  std::map<std::string, int> alive;
  for (const auto& [handle, thing] : things_) ++alive[thing.kind];
  if (context_references_) alive["context reference"] = context_references_;
  if (context_depth_) alive["pushed context"] = context_depth_;
  std::string out;
  for (const auto& [kind, n] : alive) out += std::to_string(n) + " " + kind + " ";
  return out;
}

#define ENTER(function) \
  if (const CUresult code_ = fake->enter(function); code_ != CUDA_SUCCESS) return code_
#define REQUIRE(condition) \
  if (!(condition)) return CUDA_ERROR_INVALID_VALUE
#define NOT_IN_CAPTURE() \
  if (const CUresult code_ = fake->forbidden_in_capture(); code_ != CUDA_SUCCESS) return code_

// The functions of the table, named as in <cuda.h> without the prefix.
struct Calls {
  using Thing = FakeDriver::Thing;

  // A release takes place even when it reports a failure (of earlier work).
  static CUresult release(const char* function, const void* handle, const char* kind) {
    const CUresult code = fake->enter(function);
    if (!fake->erase(handle, kind)) return CUDA_ERROR_INVALID_VALUE;
    return code;
  }

  static CUresult Init(unsigned) {
    ENTER("cuInit");
    return fake->gpus ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
  }
  static CUresult DriverGetVersion(int* v) {
    ENTER("cuDriverGetVersion");
    return *v = fake->version_, CUDA_SUCCESS;
  }
  // Never made to fail and not counted: it is what messages are made with.
  static CUresult GetErrorName(CUresult code, const char** text) {
    switch (code) {
      case CUDA_ERROR_INVALID_VALUE:
        *text = "CUDA_ERROR_INVALID_VALUE";
        break;
      case CUDA_ERROR_OUT_OF_MEMORY:
        *text = "CUDA_ERROR_OUT_OF_MEMORY";
        break;
      case CUDA_ERROR_NO_DEVICE:
        *text = "CUDA_ERROR_NO_DEVICE";
        break;
      case CUDA_ERROR_NOT_FOUND:
        *text = "CUDA_ERROR_NOT_FOUND";
        break;
      case CUDA_ERROR_UNKNOWN:
        *text = "CUDA_ERROR_UNKNOWN";
        break;
      case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
        *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
        break;
      case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
        *text = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
        break;
      default:
        *text = "CUDA_ERROR_OTHER";
        break;
    }
    return CUDA_SUCCESS;
  }
  static CUresult GetErrorString(CUresult, const char** text) {
    return *text = "as the fake says", CUDA_SUCCESS;
  }

  static CUresult DeviceGetCount(int* n) {
    ENTER("cuDeviceGetCount");
    return *n = fake->gpus, CUDA_SUCCESS;
  }
  static CUresult DeviceGet(CUdevice* d, int ordinal) {
    ENTER("cuDeviceGet");
    REQUIRE(ordinal < fake->gpus);
    return *d = ordinal, CUDA_SUCCESS;
  }
  static CUresult DeviceGetName(char* name, int size, CUdevice) {
    ENTER("cuDeviceGetName");
    std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
    return CUDA_SUCCESS;
  }
  static CUresult DeviceGetAttribute(int* v, CUdevice_attribute which, CUdevice) {
    ENTER("cuDeviceGetAttribute");
    switch (which) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *v = fake->major;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *v = fake->minor;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *v = 4;
        break;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *v = 232448;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }
  static CUresult DevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
    ENTER("cuDevicePrimaryCtxRetain");
    ++fake->context_references_;
    *c = reinterpret_cast<CUcontext>(static_cast<uint64_t>(d) + 1);
    return CUDA_SUCCESS;
  }
  static CUresult DevicePrimaryCtxRelease(CUdevice) {
    const CUresult code = fake->enter("cuDevicePrimaryCtxRelease");
    REQUIRE(fake->context_references_ > 0);
    --fake->context_references_;
    return code;
  }
  static CUresult CtxPushCurrent(CUcontext) {
    ENTER("cuCtxPushCurrent");
    ++fake->context_depth_;
    return CUDA_SUCCESS;
  }
  static CUresult CtxPopCurrent(CUcontext*) {
    const CUresult code = fake->enter("cuCtxPopCurrent");
    REQUIRE(fake->context_depth_ > 0);
    --fake->context_depth_;
    return code;
  }

  static CUresult ModuleLoadDataEx(CUmodule* m, const void* image, unsigned, CUjit_option*, void**) {
    ENTER("cuModuleLoadDataEx");
    NOT_IN_CAPTURE();
    REQUIRE(image && fake->context_depth_ > 0);
    *m = static_cast<CUmodule>(fake->make("module"));
    return CUDA_SUCCESS;
  }
  static CUresult ModuleUnload(CUmodule m) { return release("cuModuleUnload", m, "module"); }
  static CUresult ModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
    ENTER("cuModuleGetFunction");
    REQUIRE(fake->find(m, "module"));
    if (std::find(fake->kernels.begin(), fake->kernels.end(), name) == fake->kernels.end())
      return CUDA_ERROR_NOT_FOUND;
    *f = static_cast<CUfunction>(fake->make("function"));
    fake->find(*f, "function")->name = name;
    fake->find(m, "module")->functions[name] = reinterpret_cast<uint64_t>(*f);
    return CUDA_SUCCESS;
  }
  static CUresult FuncGetAttribute(int* v, CUfunction_attribute, CUfunction f) {
    ENTER("cuFuncGetAttribute");
    REQUIRE(fake->find(f, "function"));
    return *v = 1024, CUDA_SUCCESS;
  }
  static CUresult FuncSetAttribute(CUfunction f, CUfunction_attribute, int value) {
    ENTER("cuFuncSetAttribute");
    Thing* function = fake->find(f, "function");
    REQUIRE(function && value + 1024 <= 232448);
    function->dynamic_limit = value;
    return CUDA_SUCCESS;
  }
  static CUresult FuncGetName(const char** name, CUfunction f) {
    ENTER("cuFuncGetName");
    Thing* function = fake->find(f, "function");
    REQUIRE(function);
    return *name = function->name.c_str(), CUDA_SUCCESS;
  }
  static CUresult Occupancy(int* blocks, CUfunction f, int threads, size_t) {
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    REQUIRE(fake->find(f, "function") && threads > 0);
    return *blocks = 2048 / threads, CUDA_SUCCESS;
  }

  static CUresult MemAlloc(CUdeviceptr* p, size_t bytes) {
    ENTER("cuMemAlloc");
    NOT_IN_CAPTURE();
    REQUIRE(bytes > 0 && fake->context_depth_ > 0);
    if (bytes > fake->total_bytes - fake->used_) return CUDA_ERROR_OUT_OF_MEMORY;
    std::shared_ptr<char[]> memory(new char[bytes]);
    *p = reinterpret_cast<CUdeviceptr>(memory.get());
    fake->things_[*p] = Thing{.kind = "memory", .bytes = bytes, .memory = memory};
    fake->used_ += bytes;
    return CUDA_SUCCESS;
  }
  static CUresult MemFree(CUdeviceptr p) {
    return release("cuMemFree", reinterpret_cast<void*>(p), "memory");
  }
  static CUresult MemGetInfo(size_t* free, size_t* total) {
    ENTER("cuMemGetInfo");
    *free = fake->total_bytes - fake->used_;
    *total = fake->total_bytes;
    return CUDA_SUCCESS;
  }
  static CUresult MemHostAlloc(void** p, size_t bytes, unsigned) {
    ENTER("cuMemHostAlloc");
    NOT_IN_CAPTURE();
    std::shared_ptr<char[]> memory(new char[bytes]);
    *p = memory.get();
    fake->things_[reinterpret_cast<uint64_t>(*p)] =
        Thing{.kind = "host memory", .bytes = bytes, .memory = memory};
    return CUDA_SUCCESS;
  }
  static CUresult MemFreeHost(void* p) { return release("cuMemFreeHost", p, "host memory"); }
  static bool inside(CUdeviceptr p, size_t bytes) {
    const auto at = fake->things_.upper_bound(p);
    if (at == fake->things_.begin()) return false;
    const auto& [start, thing] = *std::prev(at);
    return thing.kind == "memory" && p - start <= thing.bytes && bytes <= thing.bytes - (p - start);
  }
  static CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
    ENTER("cuMemcpyHtoDAsync");
    REQUIRE(inside(to, bytes) && fake->find(s, "stream"));
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CUDA_SUCCESS;
  }
  static CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
    ENTER("cuMemcpyDtoHAsync");
    REQUIRE(inside(from, bytes) && fake->find(s, "stream"));
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return CUDA_SUCCESS;
  }
  static CUresult MemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream s) {
    ENTER("cuMemsetD8Async");
    REQUIRE(inside(p, bytes) && fake->find(s, "stream"));
    std::memset(reinterpret_cast<void*>(p), value, bytes);
    return CUDA_SUCCESS;
  }

  static CUresult StreamCreate(CUstream* s, unsigned flags) {
    ENTER("cuStreamCreate");
    REQUIRE(flags == CU_STREAM_NON_BLOCKING && fake->context_depth_ > 0);
    *s = static_cast<CUstream>(fake->make("stream"));
    return CUDA_SUCCESS;
  }
  static CUresult StreamDestroy(CUstream s) { return release("cuStreamDestroy", s, "stream"); }
  static CUresult StreamSynchronize(CUstream s) {
    ENTER("cuStreamSynchronize");
    NOT_IN_CAPTURE();
    REQUIRE(fake->find(s, "stream"));
    return CUDA_SUCCESS;
  }
  static CUresult EventCreate(CUevent* e, unsigned) {
    ENTER("cuEventCreate");
    *e = static_cast<CUevent>(fake->make("event"));
    return CUDA_SUCCESS;
  }
  static CUresult EventDestroy(CUevent e) { return release("cuEventDestroy", e, "event"); }
  static CUresult EventRecord(CUevent e, CUstream s) {
    ENTER("cuEventRecord");
    REQUIRE(fake->find(e, "event") && fake->find(s, "stream"));
    fake->find(e, "event")->time = fake->clock_ms_;
    return CUDA_SUCCESS;
  }
  static CUresult EventSynchronize(CUevent e) {
    ENTER("cuEventSynchronize");
    REQUIRE(fake->find(e, "event"));
    return CUDA_SUCCESS;
  }
  static CUresult EventElapsedTime(float* ms, CUevent a, CUevent b) {
    ENTER("cuEventElapsedTime");
    REQUIRE(fake->find(a, "event") && fake->find(b, "event"));
    *ms = static_cast<float>(fake->find(b, "event")->time - fake->find(a, "event")->time);
    return CUDA_SUCCESS;
  }

  static void perform(const Launched& launch) {
    fake->launches.push_back(launch);
    fake->clock_ms_ += 1;
    if (const auto body = fake->bodies.find(launch.kernel); body != fake->bodies.end()) body->second(launch);
  }
  static CUresult LaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
    ENTER("cuLaunchKernelEx");
    Thing *stream = fake->find(c->hStream, "stream"), *function = fake->find(f, "function");
    REQUIRE(stream && function && fake->context_depth_ > 0);
    REQUIRE(c->gridDimX && c->blockDimX && c->blockDimX <= 1024);
    REQUIRE(static_cast<int>(c->sharedMemBytes) <= function->dynamic_limit);
    REQUIRE(!params && extra && extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER &&
            extra[2] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[4] == CU_LAUNCH_PARAM_END);
    const auto* bytes = static_cast<const unsigned char*>(extra[1]);
    Launched launch{.kernel = function->name,
                    .grid = c->gridDimX,
                    .block = c->blockDimX,
                    .shared_bytes = c->sharedMemBytes,
                    .params = {bytes, bytes + *static_cast<size_t*>(extra[3])}};
    for (unsigned i = 0; i < c->numAttrs; ++i)
      if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) launch.dependent = true;
    if (!stream->capturing) return perform(launch), CUDA_SUCCESS;
    if (stream->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (launch.dependent && fake->version_ < 12030) {
      stream->broken = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    launch.in_graph = true;
    stream->nodes.push_back(launch);
    return CUDA_SUCCESS;
  }

  static CUresult StreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
    ENTER("cuStreamBeginCapture");
    Thing* stream = fake->find(s, "stream");
    REQUIRE(stream && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (stream->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capturing = true, stream->broken = false;
    stream->nodes.clear();
    return CUDA_SUCCESS;
  }
  // Ends the capture even when it reports a failure; the graph is then null.
  static CUresult StreamEndCapture(CUstream s, CUgraph* g) {
    const CUresult code = fake->enter("cuStreamEndCapture");
    *g = nullptr;
    Thing* stream = fake->find(s, "stream");
    REQUIRE(stream);
    if (!stream->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capturing = false;
    if (stream->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (code != CUDA_SUCCESS) return code;
    const auto nodes = stream->nodes;
    *g = static_cast<CUgraph>(fake->make("graph"));
    fake->find(*g, "graph")->nodes = nodes;
    return CUDA_SUCCESS;
  }
  static CUresult GraphDestroy(CUgraph g) { return release("cuGraphDestroy", g, "graph"); }
  static CUresult GraphGetNodes(CUgraph g, CUgraphNode*, size_t* n) {
    ENTER("cuGraphGetNodes");
    REQUIRE(fake->find(g, "graph"));
    return *n = fake->find(g, "graph")->nodes.size(), CUDA_SUCCESS;
  }
  static CUresult GraphNodeGetType(CUgraphNode, CUgraphNodeType* type) {
    ENTER("cuGraphNodeGetType");
    return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
  }
  // A node's handle is its function's: enough for messages.
  static CUresult GraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
    ENTER("cuGraphKernelNodeGetParams");
    p->func = reinterpret_cast<CUfunction>(node);
    return CUDA_SUCCESS;
  }
  static CUresult GraphInstantiate(CUgraphExec* e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
    const CUresult code = fake->enter("cuGraphInstantiateWithParams");
    if (code != CUDA_SUCCESS) {
      p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
      for (auto& [handle, thing] : fake->things_)
        if (thing.kind == "function") p->hErrNode_out = reinterpret_cast<CUgraphNode>(handle);
      return code;
    }
    Thing* graph = fake->find(g, "graph");
    REQUIRE(graph);
    const auto nodes = graph->nodes;
    *e = static_cast<CUgraphExec>(fake->make("exec"));
    fake->find(*e, "exec")->nodes = nodes;
    p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
  }
  static CUresult GraphExecDestroy(CUgraphExec e) { return release("cuGraphExecDestroy", e, "exec"); }
  static CUresult GraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
    ENTER("cuGraphExecUpdate");
    Thing *exec = fake->find(e, "exec"), *graph = fake->find(g, "graph");
    REQUIRE(exec && graph);
    if (exec->nodes.size() != graph->nodes.size()) {
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec->nodes = graph->nodes;
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
  }
  static CUresult GraphUpload(CUgraphExec e, CUstream s) {
    ENTER("cuGraphUpload");
    REQUIRE(fake->find(e, "exec") && fake->find(s, "stream"));
    return CUDA_SUCCESS;
  }
  static CUresult GraphLaunch(CUgraphExec e, CUstream s) {
    ENTER("cuGraphLaunch");
    Thing* exec = fake->find(e, "exec");
    REQUIRE(exec && fake->find(s, "stream"));
    const auto nodes = exec->nodes;
    for (const Launched& node : nodes) perform(node);
    return CUDA_SUCCESS;
  }
};

FakeDriver::FakeDriver(int version) : version_(version) {
  fake = this;
  table_.version = version;
  table_.where = "fake";
#define SET(field, function) table_.field.set(Calls::function, version)
  SET(cuInit, Init);
  SET(cuDriverGetVersion, DriverGetVersion);
  SET(cuGetErrorName, GetErrorName);
  SET(cuGetErrorString, GetErrorString);
  SET(cuDeviceGet, DeviceGet);
  SET(cuDeviceGetCount, DeviceGetCount);
  SET(cuDeviceGetName, DeviceGetName);
  SET(cuDeviceGetAttribute, DeviceGetAttribute);
  SET(cuDevicePrimaryCtxRetain, DevicePrimaryCtxRetain);
  SET(cuDevicePrimaryCtxRelease, DevicePrimaryCtxRelease);
  SET(cuCtxPushCurrent, CtxPushCurrent);
  SET(cuCtxPopCurrent, CtxPopCurrent);
  SET(cuModuleLoadDataEx, ModuleLoadDataEx);
  SET(cuModuleUnload, ModuleUnload);
  SET(cuModuleGetFunction, ModuleGetFunction);
  SET(cuFuncGetAttribute, FuncGetAttribute);
  SET(cuFuncSetAttribute, FuncSetAttribute);
  SET(cuOccupancyMaxActiveBlocksPerMultiprocessor, Occupancy);
  SET(cuMemAlloc, MemAlloc);
  SET(cuMemFree, MemFree);
  SET(cuMemGetInfo, MemGetInfo);
  SET(cuMemHostAlloc, MemHostAlloc);
  SET(cuMemFreeHost, MemFreeHost);
  SET(cuMemcpyHtoDAsync, MemcpyHtoDAsync);
  SET(cuMemcpyDtoHAsync, MemcpyDtoHAsync);
  SET(cuMemsetD8Async, MemsetD8Async);
  SET(cuStreamCreate, StreamCreate);
  SET(cuStreamDestroy, StreamDestroy);
  SET(cuStreamSynchronize, StreamSynchronize);
  SET(cuEventCreate, EventCreate);
  SET(cuEventDestroy, EventDestroy);
  SET(cuEventRecord, EventRecord);
  SET(cuEventSynchronize, EventSynchronize);
  SET(cuEventElapsedTime, EventElapsedTime);
  SET(cuLaunchKernelEx, LaunchKernelEx);
  SET(cuStreamBeginCapture, StreamBeginCapture);
  SET(cuStreamEndCapture, StreamEndCapture);
  SET(cuGraphDestroy, GraphDestroy);
  SET(cuGraphGetNodes, GraphGetNodes);
  SET(cuGraphNodeGetType, GraphNodeGetType);
  SET(cuGraphKernelNodeGetParams, GraphKernelNodeGetParams);
  SET(cuGraphInstantiateWithParams, GraphInstantiate);
  SET(cuGraphExecDestroy, GraphExecDestroy);
  SET(cuGraphExecUpdate, GraphExecUpdate);
  SET(cuGraphUpload, GraphUpload);
  SET(cuGraphLaunch, GraphLaunch);
#if CUDA_VERSION >= 12030
  if (version >= 12030) SET(cuFuncGetName, FuncGetName);
#endif
  before_ = driver::set_driver_for_tests(&table_);
}

FakeDriver::~FakeDriver() {
  driver::set_driver_for_tests(before_);
  fake = nullptr;
}

}  // namespace rondo::fake
