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

#include "rondo/error.h"

namespace rondo::driver {

// X(name, version, need): a line a function. version: the PFN_<name>_v<version> of cudaTypedefs.h whose
// signature is the one that <cuda.h> gives the name. need: required or optional.
#define RONDO_DRIVER_FUNCTIONS(X)                                \
  X(cuInit, 2000, required)                                      \
  X(cuDriverGetVersion, 2020, required)                          \
  X(cuGetErrorName, 6000, required)                              \
  X(cuGetErrorString, 6000, required)                            \
  X(cuDeviceGet, 2000, required)                                 \
  X(cuDeviceGetCount, 2000, required)                            \
  X(cuDeviceGetName, 2000, required)                             \
  X(cuDeviceGetAttribute, 2000, required)                        \
  X(cuDevicePrimaryCtxRetain, 7000, required)                    \
  X(cuDevicePrimaryCtxRelease, 11000, required)                  \
  X(cuCtxPushCurrent, 4000, required)                            \
  X(cuCtxPopCurrent, 4000, required)                             \
  X(cuModuleLoadDataEx, 2010, required)                          \
  X(cuModuleUnload, 2000, required)                              \
  X(cuModuleGetFunction, 2000, required)                         \
  X(cuFuncGetAttribute, 2020, required)                          \
  X(cuFuncSetAttribute, 9000, required)                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, required) \
  X(cuMemAlloc, 3020, required)                                  \
  X(cuMemFree, 3020, required)                                   \
  X(cuMemGetInfo, 3020, required)                                \
  X(cuMemHostAlloc, 2020, required)                              \
  X(cuMemFreeHost, 2000, required)                               \
  X(cuMemcpyHtoDAsync, 3020, required)                           \
  X(cuMemcpyDtoHAsync, 3020, required)                           \
  X(cuMemsetD8Async, 3020, required)                             \
  X(cuStreamCreate, 2000, required)                              \
  X(cuStreamDestroy, 4000, required)                             \
  X(cuStreamSynchronize, 2000, required)                         \
  X(cuEventCreate, 2000, required)                               \
  X(cuEventDestroy, 4000, required)                              \
  X(cuEventRecord, 2000, required)                               \
  X(cuEventSynchronize, 2000, required)                          \
  X(cuEventElapsedTime, 2000, required)                          \
  X(cuLaunchKernelEx, 11060, required)                           \
  X(cuStreamBeginCapture, 10010, required)                       \
  X(cuStreamEndCapture, 10000, required)                         \
  X(cuGraphDestroy, 10000, required)                             \
  X(cuGraphGetNodes, 10000, required)                            \
  X(cuGraphNodeGetType, 10000, required)                         \
  X(cuGraphKernelNodeGetParams, 12000, required)                 \
  X(cuGraphInstantiateWithParams, 12000, required)               \
  X(cuGraphExecDestroy, 10000, required)                         \
  X(cuGraphExecUpdate, 12000, required)                          \
  X(cuGraphLaunch, 10000, required)                              \
  X(cuGraphUpload, 11010, required)                              \
  RONDO_DRIVER_FUNCTIONS_12_3(X)

// Functions that older headers do not declare.
#if CUDA_VERSION >= 12030
#define RONDO_DRIVER_FUNCTIONS_12_3(X) X(cuFuncGetName, 12030, optional)
#else
#define RONDO_DRIVER_FUNCTIONS_12_3(X)
#endif

// Throws Error(Unavailable): "<function> needs driver ..., this is ...".
[[noreturn]] void fail_missing(const char* function, int needs_version, int has_version);

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
