// The one table of libcuda functions: found at run time, nothing linked, types from the real <cuda.h>.
//
// Looked for in RONDO_LIBCUDA if set; else the libcuda that is in the process already (under PyTorch it must
// be the same one); else libcuda.so.1. Each function comes from cuGetProcAddress by name AND version. One
// binary runs on drivers of CUDA 12.0 to 13.x: a required function that is missing means "CUDA is not
// available", an optional one answers "needs driver R550 (CUDA 12.4), this is R535 (CUDA 12.2)" at the call.
// Tests put their own table in place.
#pragma once
#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "rondo/error.h"

namespace rondo::driver {

// X(name, version, need): a line a function. version: the PFN_<name>_v<version> of cudaTypedefs.h whose
// signature is the one that <cuda.h> gives the name. need: required or optional. A suffix _v2 or _v3 is
// <cuda.h>'s name of a signature; the driver is asked for the name without it.
#define RONDO_DRIVER_FUNCTIONS(X)                                      \
  X(cuInit, 2000, required)                                            \
  X(cuDriverGetVersion, 2020, required)                                \
  X(cuGetErrorName, 6000, required)                                    \
  X(cuGetErrorString, 6000, required)                                  \
  X(cuDeviceGet, 2000, required)                                       \
  X(cuDeviceGetCount, 2000, required)                                  \
  X(cuDeviceGetName, 2000, required)                                   \
  X(cuDeviceGetAttribute, 2000, required)                              \
  X(cuDevicePrimaryCtxRetain, 7000, required)                          \
  X(cuDevicePrimaryCtxRelease, 11000, required)                        \
  X(cuDeviceGetGraphMemAttribute, 11040, required)                     \
  X(cuDeviceSetGraphMemAttribute, 11040, required)                     \
  X(cuDeviceGraphMemTrim, 11040, required)                             \
  X(cuCtxPushCurrent, 4000, required)                                  \
  X(cuCtxPopCurrent, 4000, required)                                   \
  X(cuCtxGetCurrent, 4000, required)                                   \
  X(cuCtxGetDevice, 2000, required)                                    \
  X(cuCtxSynchronize, 2000, required)                                  \
  X(cuModuleLoadDataEx, 2010, required)                                \
  X(cuModuleUnload, 2000, required)                                    \
  X(cuModuleGetFunction, 2000, required)                               \
  X(cuFuncGetAttribute, 2020, required)                                \
  X(cuFuncSetAttribute, 9000, required)                                \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, required)       \
  X(cuMemAlloc, 3020, required)                                        \
  X(cuMemFree, 3020, required)                                         \
  X(cuMemGetInfo, 3020, required)                                      \
  X(cuMemHostAlloc, 2020, required)                                    \
  X(cuMemFreeHost, 2000, required)                                     \
  X(cuPointerGetAttribute, 4000, required)                             \
  X(cuMemAllocAsync, 11020, required)                                  \
  X(cuMemFreeAsync, 11020, required)                                   \
  X(cuMemcpyHtoDAsync, 3020, required)                                 \
  X(cuMemcpyDtoHAsync, 3020, required)                                 \
  X(cuMemcpyDtoDAsync, 3020, required)                                 \
  X(cuMemsetD8Async, 3020, required)                                   \
  X(cuStreamCreate, 2000, required)                                    \
  X(cuStreamCreateWithPriority, 5050, required)                        \
  X(cuStreamDestroy, 4000, required)                                   \
  X(cuStreamSynchronize, 2000, required)                               \
  X(cuStreamQuery, 2000, required)                                     \
  X(cuStreamWaitEvent, 3020, required)                                 \
  X(cuEventCreate, 2000, required)                                     \
  X(cuEventDestroy, 4000, required)                                    \
  X(cuEventRecord, 2000, required)                                     \
  X(cuEventRecordWithFlags, 11010, required)                           \
  X(cuEventQuery, 2000, required)                                      \
  X(cuEventSynchronize, 2000, required)                                \
  X(cuEventElapsedTime, 2000, required)                                \
  X(cuLaunchKernel, 4000, required)                                    \
  X(cuLaunchKernelEx, 11060, required)                                 \
  X(cuLaunchHostFunc, 10000, required)                                 \
  X(cuStreamBeginCapture, 10010, required)                             \
  X(cuStreamEndCapture, 10000, required)                               \
  X(cuStreamIsCapturing, 10000, required)                              \
  X(cuThreadExchangeStreamCaptureMode, 10010, required)                \
  X(cuGraphCreate, 10000, required)                                    \
  X(cuGraphDestroy, 10000, required)                                   \
  X(cuGraphClone, 10000, required)                                     \
  X(cuGraphNodeFindInClone, 10000, required)                           \
  X(cuGraphGetNodes, 10000, required)                                  \
  X(cuGraphGetRootNodes, 10000, required)                              \
  X(cuGraphNodeGetType, 10000, required)                               \
  X(cuGraphDestroyNode, 10000, required)                               \
  X(cuGraphAddKernelNode, 12000, required)                             \
  X(cuGraphKernelNodeGetParams, 12000, required)                       \
  X(cuGraphKernelNodeSetParams, 12000, required)                       \
  X(cuGraphKernelNodeGetAttribute, 11000, required)                    \
  X(cuGraphKernelNodeSetAttribute, 11000, required)                    \
  X(cuGraphKernelNodeCopyAttributes, 11000, required)                  \
  X(cuGraphAddMemcpyNode, 10000, required)                             \
  X(cuGraphMemcpyNodeGetParams, 10000, required)                       \
  X(cuGraphMemcpyNodeSetParams, 10000, required)                       \
  X(cuGraphAddMemsetNode, 10000, required)                             \
  X(cuGraphMemsetNodeGetParams, 10000, required)                       \
  X(cuGraphMemsetNodeSetParams, 10000, required)                       \
  X(cuGraphAddHostNode, 10000, required)                               \
  X(cuGraphHostNodeGetParams, 10000, required)                         \
  X(cuGraphHostNodeSetParams, 10000, required)                         \
  X(cuGraphAddChildGraphNode, 10000, required)                         \
  X(cuGraphChildGraphNodeGetGraph, 10000, required)                    \
  X(cuGraphAddEmptyNode, 10000, required)                              \
  X(cuGraphAddEventRecordNode, 11010, required)                        \
  X(cuGraphEventRecordNodeGetEvent, 11010, required)                   \
  X(cuGraphEventRecordNodeSetEvent, 11010, required)                   \
  X(cuGraphAddEventWaitNode, 11010, required)                          \
  X(cuGraphEventWaitNodeGetEvent, 11010, required)                     \
  X(cuGraphEventWaitNodeSetEvent, 11010, required)                     \
  X(cuGraphAddExternalSemaphoresSignalNode, 11020, required)           \
  X(cuGraphExternalSemaphoresSignalNodeGetParams, 11020, required)     \
  X(cuGraphExternalSemaphoresSignalNodeSetParams, 11020, required)     \
  X(cuGraphAddExternalSemaphoresWaitNode, 11020, required)             \
  X(cuGraphExternalSemaphoresWaitNodeGetParams, 11020, required)       \
  X(cuGraphExternalSemaphoresWaitNodeSetParams, 11020, required)       \
  X(cuGraphAddMemAllocNode, 11040, required)                           \
  X(cuGraphMemAllocNodeGetParams, 11040, required)                     \
  X(cuGraphAddMemFreeNode, 11040, required)                            \
  X(cuGraphMemFreeNodeGetParams, 11040, required)                      \
  X(cuGraphAddBatchMemOpNode, 11070, required)                         \
  X(cuGraphBatchMemOpNodeGetParams, 11070, required)                   \
  X(cuGraphBatchMemOpNodeSetParams, 11070, required)                   \
  X(cuGraphInstantiateWithParams, 12000, required)                     \
  X(cuGraphExecDestroy, 10000, required)                               \
  X(cuGraphExecGetFlags, 12000, required)                              \
  X(cuGraphExecUpdate, 12000, required)                                \
  X(cuGraphExecKernelNodeSetParams, 12000, required)                   \
  X(cuGraphExecMemcpyNodeSetParams, 10020, required)                   \
  X(cuGraphExecMemsetNodeSetParams, 10020, required)                   \
  X(cuGraphExecHostNodeSetParams, 10020, required)                     \
  X(cuGraphExecChildGraphNodeSetParams, 11010, required)               \
  X(cuGraphExecEventRecordNodeSetEvent, 11010, required)               \
  X(cuGraphExecEventWaitNodeSetEvent, 11010, required)                 \
  X(cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, required) \
  X(cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, required)   \
  X(cuGraphExecBatchMemOpNodeSetParams, 11070, required)               \
  X(cuGraphNodeSetEnabled, 11060, required)                            \
  X(cuGraphNodeGetEnabled, 11060, required)                            \
  X(cuGraphLaunch, 10000, required)                                    \
  X(cuGraphUpload, 11010, required)                                    \
  X(cuUserObjectCreate, 11030, required)                               \
  X(cuUserObjectRelease, 11030, required)                              \
  X(cuGraphRetainUserObject, 11030, required)                          \
  RONDO_DRIVER_FUNCTIONS_12_3(X)                                       \
  RONDO_DRIVER_FUNCTIONS_12_4(X)                                       \
  RONDO_DRIVER_FUNCTIONS_12_9(X)

// Functions that older headers do not declare.
#if CUDA_VERSION >= 12030
#define RONDO_DRIVER_FUNCTIONS_12_3(X)                \
  X(cuFuncGetName, 12030, optional)                   \
  X(cuKernelGetName, 12030, optional)                 \
  X(cuGraphGetEdges_v2, 12030, optional)              \
  X(cuGraphNodeGetDependencies_v2, 12030, optional)   \
  X(cuGraphNodeGetDependentNodes_v2, 12030, optional) \
  X(cuGraphAddDependencies_v2, 12030, optional)       \
  X(cuGraphRemoveDependencies_v2, 12030, optional)    \
  X(cuGraphAddNode_v2, 12030, optional)               \
  X(cuGraphConditionalHandleCreate, 12030, optional)  \
  X(cuStreamBeginCaptureToGraph, 12030, optional)     \
  X(cuStreamGetCaptureInfo_v3, 12030, optional)       \
  X(cuStreamUpdateCaptureDependencies_v2, 12030, optional)
#else
#define RONDO_DRIVER_FUNCTIONS_12_3(X)
#endif
#if CUDA_VERSION >= 12040
#define RONDO_DRIVER_FUNCTIONS_12_4(X)   \
  X(cuFuncGetParamInfo, 12040, optional) \
  X(cuKernelGetParamInfo, 12040, optional)
#else
#define RONDO_DRIVER_FUNCTIONS_12_4(X)
#endif

#if CUDA_VERSION >= 12090
#define RONDO_DRIVER_FUNCTIONS_12_9(X) \
  X(cuLogsCurrent, 12090, optional)    \
  X(cuLogsDumpToMemory, 12090, optional)
#else
#define RONDO_DRIVER_FUNCTIONS_12_9(X)
#endif

// Y(field, name, version, type): signatures from before edges carried data, which newer headers do not
// declare; called where the driver has no newer one.
#define RONDO_DRIVER_FUNCTIONS_OLD(Y)                                                                    \
  Y(cuGraphGetEdges_v1, "cuGraphGetEdges", 10000,                                                        \
    CUresult (*)(CUgraph, CUgraphNode*, CUgraphNode*, size_t*))                                          \
  Y(cuGraphNodeGetDependencies_v1, "cuGraphNodeGetDependencies", 10000,                                  \
    CUresult (*)(CUgraphNode, CUgraphNode*, size_t*))                                                    \
  Y(cuGraphNodeGetDependentNodes_v1, "cuGraphNodeGetDependentNodes", 10000,                              \
    CUresult (*)(CUgraphNode, CUgraphNode*, size_t*))                                                    \
  Y(cuGraphAddDependencies_v1, "cuGraphAddDependencies", 10000,                                          \
    CUresult (*)(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t))                               \
  Y(cuGraphRemoveDependencies_v1, "cuGraphRemoveDependencies", 10000,                                    \
    CUresult (*)(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t))                               \
  Y(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo", 11030,                                          \
    CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*)) \
  Y(cuStreamUpdateCaptureDependencies_v1, "cuStreamUpdateCaptureDependencies", 11030,                    \
    CUresult (*)(CUstream, CUgraphNode*, size_t, unsigned))

// Throws Error(Unavailable): "<function> needs driver ..., this is ...".
[[noreturn]] void fail_missing(const char* function, int needs_version, int has_version);
// "cuGraphGetEdges" of "cuGraphGetEdges_v2": <cuda.h> renames functions to their newest version; people, and
// the driver's own look-up, know them by their plain names.
std::string base_name(std::string_view function);

template <class F>
class Function;
template <class R, class... A>
class Function<R (*)(A...)> {
 public:
  Function(const char* name, int version) : name_(name), version_(version) {}
  R operator()(A... a) const {
    if (!call_) fail_missing(name_, version_, driver_version_);
    return call_(a...);
  }
  explicit operator bool() const { return call_ != nullptr; }
  // For hot paths that look the function up once. Null when the driver does not have it.
  auto raw() const { return call_; }
  void set(R (*call)(A...), int driver_version) { call_ = call, driver_version_ = driver_version; }
  const char* name() const { return name_; }
  int version() const { return version_; }

 private:
  R (*call_)(A...) = nullptr;
  const char* name_;
  int version_;
  int driver_version_ = 0;
};

struct Driver {
#define RONDO_FIELD(name, version, need) Function<decltype(&::name)> name{#name, version};
  RONDO_DRIVER_FUNCTIONS(RONDO_FIELD)
#undef RONDO_FIELD
#define RONDO_FIELD(field, name, version, ...) Function<__VA_ARGS__> field{name, version};
  RONDO_DRIVER_FUNCTIONS_OLD(RONDO_FIELD)
#undef RONDO_FIELD
  int version = 0;    // of the driver, as CUDA counts: 12040 = 12.4
  std::string where;  // the library's path

  // "R550 (CUDA 12.4)"
  std::string name() const;
};

// Throws Error(Unavailable) with the reason and what to do. Found once; a failure is tried again at the next
// call.
const Driver& driver();
// Looks for it anew.
std::unique_ptr<Driver> load_driver();
// nullptr = the real one again. Returns what was set before.
const Driver* set_driver_for_tests(const Driver* table);

// "R550 (CUDA 12.4)" of 12040: the first driver branch that came with that CUDA version.
std::string driver_name(int version);

// ---------------------------------------------------------------- checking
// Throws Error(Device): "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory [context]".
[[noreturn]] void fail(const Driver& d, CUresult code, const char* call, const std::string& context,
                       ErrorKind kind = ErrorKind::Device);
// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
std::string describe(const Driver& d, CUresult code);

// Every driver status is looked at by this: RONDO_CU(d, cuMemAlloc(&p, bytes)); the text of _WITH is made on
// failure.
#define RONDO_CU(d, call) RONDO_CU_WITH(d, call, std::string())
#define RONDO_CU_WITH(d, call, context)                                                  \
  do {                                                                                   \
    if (const CUresult rondo_code_ = (d).call; rondo_code_ != CUDA_SUCCESS) [[unlikely]] \
      ::rondo::driver::fail((d), rondo_code_, #call, (context));                         \
  } while (0)

}  // namespace rondo::driver
