// A GPU for the examples that g++ compiles: the driver's API, found at run time, so that they build and start
// on a machine without a GPU, and say there why they do not run. A program that links libcuda calls it
// directly instead; Rondo takes the same handles from either.
#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "example.h"

namespace example {

// The kernels of the examples, in the driver's own text form. As CUDA C++:
//     __global__ void add(float* x, unsigned n, float v)   { unsigned i = ...; if (i < n) x[i] += v; }
//     __global__ void scale(float* x, unsigned n, float v) { unsigned i = ...; if (i < n) x[i] *= v; }
//     __global__ void add_each(float** table, unsigned count, unsigned n, float v) {
//       unsigned i = ...; if (i < count * n) table[i / n][i % n] += v;
//     }
inline constexpr char kKernels[] = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 n, .param .f32 v) {
  .reg .pred %out; .reg .b32 %r<5>; .reg .b64 %a<3>; .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n]; setp.ge.u32 %out, %r1, %r4; @%out ret;
  ld.param.u64 %a1, [x]; cvta.to.global.u64 %a1, %a1; mul.wide.u32 %a2, %r1, 4; add.u64 %a1, %a1, %a2;
  ld.param.f32 %f1, [v]; ld.global.f32 %f2, [%a1]; add.f32 %f3, %f2, %f1; st.global.f32 [%a1], %f3; ret;
}
.visible .entry scale(.param .u64 x, .param .u32 n, .param .f32 v) {
  .reg .pred %out; .reg .b32 %r<5>; .reg .b64 %a<3>; .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n]; setp.ge.u32 %out, %r1, %r4; @%out ret;
  ld.param.u64 %a1, [x]; cvta.to.global.u64 %a1, %a1; mul.wide.u32 %a2, %r1, 4; add.u64 %a1, %a1, %a2;
  ld.param.f32 %f1, [v]; ld.global.f32 %f2, [%a1]; mul.f32 %f3, %f2, %f1; st.global.f32 [%a1], %f3; ret;
}
.visible .entry add_each(.param .u64 table, .param .u32 count, .param .u32 n, .param .f32 v) {
  .reg .pred %out; .reg .b32 %r<7>; .reg .b64 %a<4>; .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n]; ld.param.u32 %r5, [count]; mul.lo.u32 %r5, %r5, %r4;
  setp.ge.u32 %out, %r1, %r5; @%out ret;
  div.u32 %r5, %r1, %r4; rem.u32 %r6, %r1, %r4;
  ld.param.u64 %a1, [table]; cvta.to.global.u64 %a1, %a1; mul.wide.u32 %a2, %r5, 8; add.u64 %a1, %a1, %a2;
  ld.global.u64 %a3, [%a1]; cvta.to.global.u64 %a3, %a3; mul.wide.u32 %a2, %r6, 4; add.u64 %a3, %a3, %a2;
  ld.param.f32 %f1, [v]; ld.global.f32 %f2, [%a3]; add.f32 %f3, %f2, %f1; st.global.f32 [%a3], %f3; ret;
}
)";

// The first GPU, its context current on this thread, and the kernels above.
class Gpu {
 public:
  Gpu() {
    const char* path = std::getenv("RONDO_LIBCUDA");  // Rondo looks there too: both need the same one
    library_ = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!library_) skip(std::string("there is no driver: ") + dlerror());
    get_ = reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library_, "cuGetProcAddress_v2"));
    if (!get_) skip("the driver is older than CUDA 12.0");
    if (const CUresult code = find<decltype(&cuInit)>("cuInit", 2000)(0); code != CUDA_SUCCESS)
      skip("no GPU can be used: cuInit answers " + std::to_string(code));
    must(find<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", 7000)(&context_, 0),
         "cuDevicePrimaryCtxRetain");
    make_current();
    must(find<decltype(&cuModuleLoadDataEx)>("cuModuleLoadDataEx", 2010)(&module_, kKernels, 0, nullptr,
                                                                         nullptr),
         "cuModuleLoadDataEx");
    const auto function = find<decltype(&cuModuleGetFunction)>("cuModuleGetFunction", 2000);
    must(function(&add, module_, "add"), "cuModuleGetFunction");
    must(function(&scale, module_, "scale"), "cuModuleGetFunction");
    must(function(&add_each, module_, "add_each"), "cuModuleGetFunction");
    launch_ = find<decltype(&cuLaunchKernel)>("cuLaunchKernel", 4000);
    allocate_ = find<decltype(&cuMemAlloc)>("cuMemAlloc", 3020);
    allocate_in_order_ = find<decltype(&cuMemAllocAsync)>("cuMemAllocAsync", 11020);
    free_in_order_ = find<decltype(&cuMemFreeAsync)>("cuMemFreeAsync", 11020);
    upload_ = find<decltype(&cuMemcpyHtoDAsync)>("cuMemcpyHtoDAsync", 3020);
    download_ = find<decltype(&cuMemcpyDtoHAsync)>("cuMemcpyDtoHAsync", 3020);
    synchronize_ = find<decltype(&cuStreamSynchronize)>("cuStreamSynchronize", 2000);
  }
  ~Gpu() {
    const auto release = find<decltype(&cuMemFree)>("cuMemFree", 3020);
    for (const CUdeviceptr p : memory_) (void)release(p);
    (void)find<decltype(&cuModuleUnload)>("cuModuleUnload", 2000)(module_);
    CUcontext ignored = nullptr;
    (void)find<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent", 4000)(&ignored);
    (void)find<decltype(&cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease", 11000)(0);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  CUfunction add = nullptr, scale = nullptr, add_each = nullptr;

  // Every thread that calls Rondo needs a current context.
  void make_current() {
    must(find<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent", 4000)(context_), "cuCtxPushCurrent");
  }
  // Device memory with these values, freed with the Gpu.
  CUdeviceptr floats(const std::vector<float>& values, CUstream stream) {
    const CUdeviceptr p = memory(values.size() * sizeof(float));
    upload(p, values.data(), values.size() * sizeof(float), stream);
    return p;
  }
  CUdeviceptr memory(size_t bytes) {
    CUdeviceptr p = 0;
    must(allocate_(&p, bytes), "cuMemAlloc");
    memory_.push_back(p);
    return p;
  }
  void upload(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    must(upload_(to, from, bytes, stream), "cuMemcpyHtoDAsync");
  }
  std::vector<float> read(CUdeviceptr p, size_t count, CUstream stream) {
    std::vector<float> values(count);
    must(download_(values.data(), p, count * sizeof(float), stream), "cuMemcpyDtoHAsync");
    must(synchronize_(stream), "cuStreamSynchronize");
    return values;
  }
  // What existing code does: a kernel into a stream, by the driver's own call.
  void launch(CUstream stream, CUfunction function, CUdeviceptr x, uint32_t n, float v) {
    void* arguments[] = {&x, &n, &v};
    must(launch_(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr),
         "cuLaunchKernel");
  }
  // v is added to n floats at each of the `count` addresses that lie in device memory at `table`.
  void launch_each(CUstream stream, CUdeviceptr table, uint32_t count, uint32_t n, float v) {
    void* arguments[] = {&table, &count, &n, &v};
    must(launch_(add_each, (count * n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr),
         "cuLaunchKernel");
  }
  CUdeviceptr allocate_in_order(size_t bytes, CUstream stream) {
    CUdeviceptr p = 0;
    must(allocate_in_order_(&p, bytes, stream), "cuMemAllocAsync");
    return p;
  }
  void free_in_order(CUdeviceptr p, CUstream stream) { must(free_in_order_(p, stream), "cuMemFreeAsync"); }

 private:
  template <class F>
  F find(const char* name, int version) {
    void* address = nullptr;
    must(get_(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr), name);
    return reinterpret_cast<F>(address);
  }
  static void must(CUresult code, const char* call) {
    if (code != CUDA_SUCCESS)
      throw rondo::Error(rondo::ErrorKind::Device, std::string(call) + " failed: " + std::to_string(code));
  }
  void* library_ = nullptr;
  decltype(&cuGetProcAddress) get_ = nullptr;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  std::vector<CUdeviceptr> memory_;
  decltype(&cuLaunchKernel) launch_ = nullptr;
  decltype(&cuMemAlloc) allocate_ = nullptr;
  decltype(&cuMemAllocAsync) allocate_in_order_ = nullptr;
  decltype(&cuMemFreeAsync) free_in_order_ = nullptr;
  decltype(&cuMemcpyHtoDAsync) upload_ = nullptr;
  decltype(&cuMemcpyDtoHAsync) download_ = nullptr;
  decltype(&cuStreamSynchronize) synchronize_ = nullptr;
};

}  // namespace example
