#include "fake_driver.h"

#include <cstring>

#include "fake_driver_model.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) static_cast<void>(0)
#endif

namespace rondo::fake {

Model* fake = nullptr;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult Model::enter(const char* function) {
  ++calls;
  face.log.push_back(function);
  if (calls != fail_at && fail_name != function) return CUDA_SUCCESS;
  failed = function;
  return fail_code;
}

bool Model::inside(CUdeviceptr p, size_t bytes) {
  const auto at = things.upper_bound(p);
  if (at == things.begin()) return false;
  const auto& [start, thing] = *std::prev(at);
  const auto* memory = dynamic_cast<const Memory*>(thing.get());
  return memory && p - start <= memory->bytes && bytes <= memory->bytes - (p - start);
}

bool Model::whole(CUdeviceptr p, CUdeviceptr* start, size_t* bytes, bool* host) {
  const auto at = things.upper_bound(p);
  if (at == things.begin()) return false;
  const auto& [from, thing] = *std::prev(at);
  const auto* memory = dynamic_cast<const Memory*>(thing.get());
  const auto* locked = dynamic_cast<const HostMemory*>(thing.get());
  if (!memory && !locked) return false;
  *start = from, *host = locked != nullptr;
  *bytes = memory ? memory->bytes : locked->bytes;
  return p - from < *bytes;
}

constexpr size_t kMostFreedBytes = size_t{1} << 20;  // of one piece that is kept

Freed::Freed(size_t b, std::shared_ptr<char[]> d) : bytes(b), data(std::move(d)) {
  std::memset(data.get(), 0xdd, bytes);
  ASAN_POISON_MEMORY_REGION(data.get(), bytes);
}
Freed::~Freed() { ASAN_UNPOISON_MEMORY_REGION(data.get(), bytes); }

void Model::free_memory(CUdeviceptr p) {
  void* const handle = reinterpret_cast<void*>(p);
  const Memory* memory = find<Memory>(handle);
  const HostMemory* locked = find<HostMemory>(handle);
  if (memory) used -= memory->bytes;
  const size_t bytes = memory ? memory->bytes : locked->bytes;
  const std::shared_ptr<char[]>& data = memory ? memory->data : locked->data;
  if (data && bytes <= kMostFreedBytes) freed.try_emplace(p, bytes, data);
  erase(handle);
}

bool Model::names_freed(const Payload& p, CUgraphNodeType type) const {
  const auto gone = [&](CUdeviceptr at) {
    const auto next = freed.upper_bound(at);
    return next != freed.begin() && at - std::prev(next)->first < std::prev(next)->second.bytes;
  };
  if (type != CU_GRAPH_NODE_TYPE_MEMCPY) return false;
  const auto end = [&](CUmemorytype kind, const void* host) {
    return kind == CU_MEMORYTYPE_HOST && gone(reinterpret_cast<CUdeviceptr>(host));
  };
  return end(p.copy.srcMemoryType, p.copy.srcHost) || end(p.copy.dstMemoryType, p.copy.dstHost);
}

bool Model::names_freed(const ExecGraph& graph) const {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ExecNode& n) {
    return names_freed(n.p, n.type) ||
           std::any_of(n.inner.begin(), n.inner.end(), [&](const ExecGraph& g) { return names_freed(g); });
  });
}

namespace {

CUresult Init(unsigned) {
  ENTER("cuInit");
  return fake->face.gpus ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
CUresult DriverGetVersion(int* v) {
  ENTER("cuDriverGetVersion");
  return *v = fake->version, CUDA_SUCCESS;
}

struct Name {
  CUresult code;
  const char* name;
};
constexpr Name kNames[] = {{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                           {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                           {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                           {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
                           {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
                           {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                           {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
                           {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
                           {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                           {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                           {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
                           {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
                           {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                           {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
                           {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
                           {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
                           {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
                           {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}};

// Never made to fail and not counted: it is what messages are made with.
CUresult GetErrorName(CUresult code, const char** text) {
  *text = "CUDA_ERROR_OTHER";
  for (const Name& n : kNames)
    if (n.code == code) *text = n.name;
  return CUDA_SUCCESS;
}
CUresult GetErrorString(CUresult, const char** text) { return *text = "as the fake says", CUDA_SUCCESS; }

CUresult DeviceGetCount(int* n) {
  ENTER("cuDeviceGetCount");
  return *n = fake->face.gpus, CUDA_SUCCESS;
}
CUresult DeviceGet(CUdevice* d, int ordinal) {
  ENTER("cuDeviceGet");
  REQUIRE(ordinal < fake->face.gpus);
  return *d = ordinal, CUDA_SUCCESS;
}
CUresult DeviceGetName(char* name, int size, CUdevice) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}
CUresult DeviceGetAttribute(int* v, CUdevice_attribute which, CUdevice) {
  ENTER("cuDeviceGetAttribute");
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *v = fake->face.major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *v = fake->face.minor;
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
CUresult DevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
  ENTER("cuDevicePrimaryCtxRetain");
  ++fake->context_references;
  *c = reinterpret_cast<CUcontext>(static_cast<uint64_t>(d) + 1);
  return CUDA_SUCCESS;
}
CUresult DevicePrimaryCtxRelease(CUdevice) {
  ENTER_RELEASE("cuDevicePrimaryCtxRelease");
  REQUIRE(fake->context_references > 0);
  --fake->context_references;
  return entered;
}
CUresult CtxPushCurrent(CUcontext) {
  ENTER("cuCtxPushCurrent");
  ++fake->context_depth;
  return CUDA_SUCCESS;
}
CUresult CtxPopCurrent(CUcontext*) {
  ENTER_RELEASE("cuCtxPopCurrent");
  REQUIRE(fake->context_depth > 0);
  --fake->context_depth;
  return entered;
}
CUresult CtxGetCurrent(CUcontext* c) {
  ENTER("cuCtxGetCurrent");
  return *c = reinterpret_cast<CUcontext>(uint64_t{fake->context_depth > 0}), CUDA_SUCCESS;
}
CUresult CtxGetDevice(CUdevice* d) {
  ENTER("cuCtxGetDevice");
  if (fake->context_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return *d = 0, CUDA_SUCCESS;
}

CUresult ModuleLoadDataEx(CUmodule* m, const void* image, unsigned, CUjit_option*, void**) {
  ENTER("cuModuleLoadDataEx");
  REQUIRE(image && fake->context_depth > 0);
  fake->make<Module>(m);
  return CUDA_SUCCESS;
}
CUresult ModuleUnload(CUmodule m) {
  ENTER_RELEASE("cuModuleUnload");
  const Module* module = fake->find<Module>(m);
  REQUIRE(module);
  UNSAFE_IN_CAPTURE();
  for (CUfunction f : std::vector<CUfunction>(module->functions)) fake->erase(f);
  fake->erase(m);
  return entered;
}
CUresult ModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  ENTER("cuModuleGetFunction");
  REQUIRE(fake->find<Module>(m));
  const auto& kernels = fake->face.kernels;
  if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) return CUDA_ERROR_NOT_FOUND;
  fake->make<Function>(f)->name = name;
  fake->find<Module>(m)->functions.push_back(*f);
  return CUDA_SUCCESS;
}
CUresult FuncGetAttribute(int* v, CUfunction_attribute, CUfunction f) {
  ENTER("cuFuncGetAttribute");
  REQUIRE(fake->find<Function>(f));
  return *v = 1024, CUDA_SUCCESS;
}
CUresult FuncSetAttribute(CUfunction f, CUfunction_attribute, int value) {
  ENTER("cuFuncSetAttribute");
  Function* function = fake->find<Function>(f);
  REQUIRE(function && value + 1024 <= 232448);
  function->dynamic_limit = value;
  return CUDA_SUCCESS;
}
CUresult FuncGetName(const char** name, CUfunction f) {
  ENTER("cuFuncGetName");
  const Function* function = fake->find<Function>(f);
  REQUIRE(function);
  return *name = function->name.c_str(), CUDA_SUCCESS;
}
CUresult parameter_info(const Function* function, size_t index, size_t* offset, size_t* bytes) {
  REQUIRE(function);
  const auto known = fake->face.parameter_bytes.find(function->name);
  REQUIRE(known != fake->face.parameter_bytes.end() && index < known->second.size());
  *offset = 0;
  for (size_t i = 0; i < index; ++i) {
    const size_t align = known->second[i + 1];
    *offset = (*offset + known->second[i] + align - 1) / align * align;
  }
  if (bytes) *bytes = known->second[index];
  return CUDA_SUCCESS;
}
CUresult FuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* bytes) {
  ENTER("cuFuncGetParamInfo");
  return parameter_info(fake->find<Function>(f), index, offset, bytes);
}
#if CUDA_VERSION >= 12040
CUresult KernelGetName(const char** name, CUkernel k) {
  ENTER("cuKernelGetName");
  const Function* function = fake->find<Function>(k);
  REQUIRE(function);
  return *name = function->name.c_str(), CUDA_SUCCESS;
}
CUresult KernelGetParamInfo(CUkernel k, size_t index, size_t* offset, size_t* bytes) {
  ENTER("cuKernelGetParamInfo");
  return parameter_info(fake->find<Function>(k), index, offset, bytes);
}
#endif
CUresult Occupancy(int* blocks, CUfunction f, int threads, size_t) {
  ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  REQUIRE(fake->find<Function>(f) && threads > 0);
  return *blocks = 2048 / threads, CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* p, size_t bytes) {
  ENTER("cuMemAlloc");
  UNSAFE_IN_CAPTURE();
  REQUIRE(bytes > 0 && fake->context_depth > 0);
  if (bytes > fake->face.total_bytes - fake->used) return CUDA_ERROR_OUT_OF_MEMORY;
  auto memory = std::make_unique<Memory>();
  memory->bytes = bytes;
  memory->data.reset(Aligned::make(bytes), Aligned{});
  *p = reinterpret_cast<CUdeviceptr>(memory->data.get());
  fake->things[*p] = std::move(memory);
  fake->used += bytes;
  return CUDA_SUCCESS;
}
// A release takes place even when it reports a failure (of earlier work).
CUresult MemFree(CUdeviceptr p) {
  ENTER_RELEASE("cuMemFree");
  if (fake->face.free_needs_context && fake->context_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  UNSAFE_IN_CAPTURE();
  REQUIRE(fake->find<Memory>(reinterpret_cast<void*>(p)));
  fake->free_memory(p);
  return entered;
}
CUresult MemGetInfo(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo");
  *free = fake->face.total_bytes - fake->used;
  *total = fake->face.total_bytes;
  return CUDA_SUCCESS;
}
CUresult MemHostAlloc(void** p, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  UNSAFE_IN_CAPTURE();
  auto memory = std::make_unique<HostMemory>();
  memory->bytes = bytes;
  memory->data.reset(Aligned::make(bytes), Aligned{});
  *p = memory->data.get();
  fake->things[reinterpret_cast<uint64_t>(*p)] = std::move(memory);
  return CUDA_SUCCESS;
}
CUresult MemFreeHost(void* p) {
  if (fake->face.free_needs_context && fake->context_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  ENTER_RELEASE("cuMemFreeHost");
  REQUIRE(fake->find<HostMemory>(p));
  fake->free_memory(reinterpret_cast<CUdeviceptr>(p));
  return entered;
}

// Pageable memory is none that the driver knows.
CUresult PointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr p) {
  ENTER("cuPointerGetAttribute");
  CUdeviceptr start = 0;
  size_t bytes = 0;
  bool host = false;
  REQUIRE(fake->whole(p, &start, &bytes, &host));
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return *static_cast<CUdeviceptr*>(value) = start, CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return *static_cast<size_t*>(value) = bytes, CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult GraphMemGet(CUdevice, CUgraphMem_attribute which, void* value) {
  ENTER("cuDeviceGetGraphMemAttribute");
  const bool high = which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  *static_cast<cuuint64_t*>(value) = high ? fake->graph_high : fake->graph_used;
  return CUDA_SUCCESS;
}
CUresult GraphMemSet(CUdevice, CUgraphMem_attribute which, void* value) {
  ENTER("cuDeviceSetGraphMemAttribute");
  REQUIRE(which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
  REQUIRE(*static_cast<cuuint64_t*>(value) == 0);
  fake->graph_high = fake->graph_used;
  return CUDA_SUCCESS;
}
CUresult GraphMemTrim(CUdevice) {
  ENTER("cuDeviceGraphMemTrim");
  return CUDA_SUCCESS;
}

}  // namespace

void set_machine(driver::Driver& table) {
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
  SET(cuCtxGetCurrent, CtxGetCurrent);
  SET(cuCtxGetDevice, CtxGetDevice);
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
  SET(cuPointerGetAttribute, PointerGetAttribute);
  SET(cuDeviceGetGraphMemAttribute, GraphMemGet);
  SET(cuDeviceSetGraphMemAttribute, GraphMemSet);
  SET(cuDeviceGraphMemTrim, GraphMemTrim);
#if CUDA_VERSION >= 12030
  SET(cuFuncGetName, FuncGetName);
#endif
#if CUDA_VERSION >= 12040
  SET(cuFuncGetParamInfo, FuncGetParamInfo);
  SET(cuKernelGetParamInfo, KernelGetParamInfo);
  SET(cuKernelGetName, KernelGetName);
#endif
}

// ---------------------------------------------------------------- the face

FakeDriver::FakeDriver(int version) : model_(std::make_unique<Model>(*this, version)) {
  fake = model_.get();
  thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  table_.version = version;
  table_.where = "fake";
  set_machine(table_);
  set_capture(table_);
  set_graph(table_);
  set_nodes(table_);
  set_exec(table_);
  set_update(table_);
  before_ = driver::set_driver_for_tests(&table_);
}

FakeDriver::~FakeDriver() {
  driver::set_driver_for_tests(before_);
  fake = nullptr;
}

void FakeDriver::fail(long call, CUresult code) {
  model_->fail_at = model_->calls + call, model_->fail_code = code;
}
void FakeDriver::fail_function(std::string name, CUresult code) {
  model_->fail_name = std::move(name), model_->fail_code = code;
}
void FakeDriver::no_faults() { model_->fail_at = 0, model_->fail_name.clear(); }
long FakeDriver::calls() const { return model_->calls; }
const std::string& FakeDriver::failed() const { return model_->failed; }
size_t FakeDriver::used_bytes() const { return model_->used; }
int FakeDriver::overlaps() const { return model_->overlaps; }
int FakeDriver::given_freed() const { return model_->given_freed; }
void FakeDriver::set_condition(uint64_t handle, unsigned value) { model_->condition_values[handle] = value; }

size_t FakeDriver::count(const std::string& function) const {
  return static_cast<size_t>(std::count(log.begin(), log.end(), function));
}

std::string FakeDriver::leaks() const {
  std::map<std::string, int> alive;
  for (const auto& [handle, thing] : model_->things)
    if (thing->kind != "node") ++alive[thing->kind];
  if (model_->context_references) alive["context reference"] = model_->context_references;
  if (model_->context_depth) alive["pushed context"] = model_->context_depth;
  if (!model_->captures.empty()) alive["capture"] = static_cast<int>(model_->captures.size());
  if (thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL) alive["changed capture mode of the thread"] = 1;
  if (model_->given_freed) alive["graph given with addresses of freed memory"] = model_->given_freed;
  std::string out;
  for (const auto& [kind, n] : alive) out += std::to_string(n) + " " + kind + " ";
  return out;
}

int FakeDriver::exec_attribute_cluster_x(CUgraphExec exec, size_t node) const {
  const Exec* e = model_->find<Exec>(exec);
  const auto& attributes = e->graph.nodes.at(node).p.attributes;
  const auto at = attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  return at == attributes.end() ? 0 : static_cast<int>(at->second.clusterDim.x);
}

}  // namespace rondo::fake
