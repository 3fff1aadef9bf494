// A GPU with a kernel that counts, for benchmarks of what calls cost: what the kernels have added says that
// the work was done.
#pragma once
#include <optional>
#include <string>

#include "rondo/driver/driver.h"
#include "rondo/graph.h"

namespace bench {

// count(p, v): *p += v, by one thread of the block.
inline constexpr char kCount[] = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry count(.param .u64 p, .param .u64 v) {
  .reg .pred %other; .reg .b32 %r; .reg .b64 %a, %v;
  mov.u32 %r, %tid.x; setp.ne.u32 %other, %r, 0; @%other ret;
  ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; ld.param.u64 %v, [v];
  red.global.add.u64 [%a], %v; ret;
}
)";

// The first GPU, its context current on this thread. Errors: Unavailable where there is none.
struct Gpu {
  const rondo::driver::Driver& d = rondo::driver::driver();
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction count = nullptr;
  std::optional<rondo::graph::Stream> stream;

  Gpu() {
    if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
      throw rondo::Error(rondo::ErrorKind::Unavailable, "cuInit answers " + rondo::driver::describe(d, code));
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&context, 0));
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module, kCount, 0, nullptr, nullptr));
    RONDO_CU(d, cuModuleGetFunction(&count, module, "count"));
    stream = rondo::graph::Stream::create();
  }
  std::string device() const {
    char name[128] = "";
    RONDO_CU(d, cuDeviceGetName(name, sizeof name, 0));
    return name;
  }
};

// Of a call of the driver through a plain pointer.
inline void must(CUresult code) {
  if (code != CUDA_SUCCESS) [[unlikely]]
    throw rondo::Error(rondo::ErrorKind::Device,
                       "a raw call answers " + rondo::driver::describe(rondo::driver::driver(), code));
}

}  // namespace bench
