// Compiled as C++11, with every warning an error: the header may be included more than once, inside
// extern "C", and before the other API's header, when it is included again after that.
#if defined(COMPAT_12) || __has_include(<crt/host_defines.h>)
#ifdef COMPAT_12  // whose version macros are there before its headers
#include <cuda.h>
#include <cuda_runtime.h>
#else
#include <cuda_runtime_api.h>
#endif
extern "C" {
#include "rondo/cuda_compat.h"
}
// In this order.
#include <cuda.h>
#include <cuda_runtime.h>

#include "rondo/cuda_compat.h"

cudaError_t compat_includes_runtime(cudaGraphExec_t* exec, cudaGraph_t graph) {
  return cudaGraphInstantiate(exec, graph, nullptr, nullptr, 0);
}
CUresult compat_includes_driver(CUgraph graph, const CUgraphNode* nodes) {
  return cuGraphAddDependencies(graph, nodes, nodes, 1);
}
#endif
