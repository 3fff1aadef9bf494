// A plan -> source text. One emitter for the kernels, two dialects; one emitter for the host side of a program.
// Texts depend on nothing but the plan (and the host form), so their hash is their identity in the kernel cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/ir/ir.h"
#include "rondo/plan/plan.h"

namespace rondo::codegen {

// C++ that walks one instance and appends records; exports rondo_program() (batch/abi.h, embedded at its head).
std::string emit_host_program(const plan::Plan& plan, const ir::Program& host);

// C++ for the host compiler; exports rondo_cpu_module(). Needs no include path.
std::string emit_cpu_kernels(const plan::Plan& plan);

struct CudaLaunch {
  std::string name;            // extern "C" kernel name
  uint32_t threads = 0;        // of a block
  uint32_t shared_bytes = 0;   // dynamic shared memory of a block
};
struct CudaSource {
  std::string text;            // for NVRTC, -arch=sm_90 (or the device's); needs no include path
  std::vector<CudaLaunch> launches;  // an entry a Plan::launches
  CudaLaunch copy_table;             // brings the table from the host's memory (batch/abi.h), in every text
};
// Kernels are persistent: any grid size computes everything. Each waits (griddepcontrol.wait) before it touches what an
// earlier kernel wrote, and before it ends, so a chain of programmatic dependent launches is ordered.
// shared_bytes: that a block of a product may use (gemm_shared_bytes).
CudaSource emit_cuda_kernels(const plan::Plan& plan, uint32_t shared_bytes);

// Half of the shared memory of a multiprocessor of "sm_90" and the like, so that two blocks live on it; all of it where half
// would be too little. Source: the table of technical specifications by compute capability in the CUDA C++ Programming Guide.
uint32_t gemm_shared_bytes(std::string_view architecture);

}  // namespace rondo::codegen
