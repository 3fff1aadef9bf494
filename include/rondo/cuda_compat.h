// Code written for the graph calls of CUDA 11 and 12 compiles on the headers of CUDA 12 and 13, and the other
// way round: include this after <cuda_runtime.h> and, for the driver API's calls, after <cuda.h>.
//
//     #include <cuda_runtime.h>
//     #include "rondo/cuda_compat.h"
//
// What is there, in the global namespace, as overloads of the names that the headers declare (a call that the
// headers take themselves is not touched):
//
//     call                                  forms that compile
//     cudaGraphInstantiate                  5 arguments (11) with the failing node and a log, 2 or 3 (12)
//     cudaGraphExecUpdate                   4 arguments (11), also in a .cpp; 3 (12)
//     cudaStreamGetCaptureInfo              3, 6 (11.3, 12), 7 with edge data (13); _v2, _v3
//     cudaStreamUpdateCaptureDependencies   4 (12), 5 with edge data (13); _v2
//     cudaGraph{Add,Remove}Dependencies     4 (12), 5 (13); _v2
//     cudaGraphGetEdges                     4 (12), 5 (13); _v2
//     cudaGraphNodeGet{Dependencies,DependentNodes}   3 (12), 4 (13); _v2
//     cudaGraphAddNode                      5 (12.2), 6 (13); _v2
//     cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync    with failIdx (12.8), without (13)
//     cuGraphInstantiate, cuGraphExecUpdate, cuStreamGetCaptureInfo, cuStreamUpdateCaptureDependencies,
//     cuGraph{Add,Remove}Dependencies, cuGraphGetEdges, cuGraphNodeGet{Dependencies,DependentNodes},
//     cuGraphAddNode                        the same; also cuStreamGetCaptureInfo_v2
//     cuCtxCreate                           3 arguments (12), also on 13
//
// Forms with edge data need headers of CUDA 12.3, those of batches 12.8. A form without edge data asks for
// none, so the driver answers 402 (lossy query) where an edge carries some.
//
// CUDA's own C++ overload of the 5-argument cudaGraphInstantiate drops the node and the log. It cannot be
// replaced by an overload, so the name is a macro here, which a call by name meets and an address-of does
// not; RONDO_CUDA_COMPAT_NO_MACRO leaves it out. The log, a text of the run-time up to CUDA 11, is written
// here from the result that the driver gives.
//
// Not mended:
// - cudaGraphKernelNodeCopyAttributes. Headers before 13 name its arguments (source, destination), those
//   of 13 (destination, source), and the driver's twin (destination, source) throughout. Only the names
//   changed, as far as is known; NodeView::copy_attributes_from calls the driver and says which is which.
// - NULL or 0 as the count of the 6-argument cudaStreamGetCaptureInfo on 13: it fits two forms, so the
//   compiler refuses it as ambiguous. Pass nullptr.
// - cuCtxCreate with 4 arguments on 12, whose headers do not have its parameters in every version.
//
// C++11. Defines no symbol unless it is called; links to what the calls link to.
#ifndef __cplusplus
#error "rondo/cuda_compat.h gives overloads, which C does not have: compile this file as C++"
#endif
#if !defined(CUDART_VERSION) && !defined(CUDA_VERSION)
#error "rondo/cuda_compat.h is included after <cuda_runtime.h> or <cuda.h>: put that include before it"
#endif

// Also where someone includes it between extern "C" {}, as the headers of C that call CUDA are.
extern "C++" {

#ifndef RONDO_CUDA_COMPAT_H
#define RONDO_CUDA_COMPAT_H

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace rondo {
namespace cuda_compat {

// Of cudaGraphInstantiateResult and its twin of the driver, which have the same numbers.
inline const char* describe_result(int result) {
  switch (result) {
    case 0:
      return "no error";
    case 2:
      return "invalid structure, such as a cycle";
    case 3:
      return "a node does what a device-launched graph cannot do";
    case 4:
      return "the nodes of a device-launched graph are of several devices or contexts";
    case 5:
      return "a conditional handle belongs to no conditional node";
    default:
      return "see the returned code";
  }
}

// As the run-time of CUDA 11 did: ends with a zero, cut where the buffer ends, empty when nothing failed.
inline void write_log(char* log, std::size_t bytes, int code, int result, bool has_node) {
  if (!log || bytes == 0) return;
  char text[256] = "";
  if (code != 0)
    std::snprintf(text, sizeof text, "graph instantiation failed with %d: %s (result %d)%s", code,
                  describe_result(result), result, has_node ? "; the error node is given" : "");
  const std::size_t length = std::min(std::strlen(text), bytes - 1);
  std::memcpy(log, text, length);
  log[length] = '\0';
}

}  // namespace cuda_compat
}  // namespace rondo

#endif  // RONDO_CUDA_COMPAT_H

// Each API has a guard of its own: the other one's header may come later, and this file again after it.

// ---------------------------------------------------------------- the run-time API
#if defined(CUDART_VERSION) && !defined(RONDO_CUDA_COMPAT_RUNTIME)
#define RONDO_CUDA_COMPAT_RUNTIME
#if CUDART_VERSION < 12000
#error "rondo/cuda_compat.h needs the headers of CUDA 12.0 or newer (code may be older, headers not)"
#endif

// After <cuda_runtime_api.h> alone: the macro below may not meet the overload in it.
#ifndef __CUDA_RUNTIME_H__
#include <cuda_runtime.h>
#endif

// As of CUDA 11. *node and *log are written as they were then: the node when one is at fault, the log always.
inline cudaError_t rondo_cuda_compat_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 cudaGraphNode_t* node, char* log, std::size_t log_bytes) {
  cudaGraphInstantiateParams params = {};
  const cudaError_t code = cudaGraphInstantiateWithParams(exec, graph, &params);
  if (code != cudaSuccess && node) *node = params.errNode_out;
  rondo::cuda_compat::write_log(log, log_bytes, static_cast<int>(code), static_cast<int>(params.result_out),
                                params.errNode_out != nullptr);
  return code;
}
inline cudaError_t rondo_cuda_compat_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long flags = 0) {
  return cudaGraphInstantiate(exec, graph, flags);
}
#ifndef RONDO_CUDA_COMPAT_NO_MACRO
#define cudaGraphInstantiate(...) rondo_cuda_compat_instantiate(__VA_ARGS__)
#endif

#ifndef __CUDACC__  // cuda_runtime.h has it there
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t* error_node,
                                       cudaGraphExecUpdateResult* result) {
  cudaGraphExecUpdateResultInfo info = {};
  const cudaError_t code = cudaGraphExecUpdate(exec, graph, &info);
  if (error_node) *error_node = info.errorNode;
  if (result) *result = info.result;
  return code;
}
#endif

#if CUDART_VERSION >= 13000

// ---- forms of CUDA 11 and 12
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** dependencies, std::size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** dependencies, decltype(nullptr)) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, nullptr);
}
inline cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id = nullptr, cudaGraph_t* graph = nullptr,
                                               const cudaGraphNode_t** dependencies = nullptr,
                                               std::size_t* count = nullptr) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
inline cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id = nullptr, cudaGraph_t* graph = nullptr,
                                               const cudaGraphNode_t** dependencies = nullptr,
                                               const cudaGraphEdgeData** edges = nullptr,
                                               std::size_t* count = nullptr) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}

// A literal 0 as the count is an integer here, though it could be no edge data too.
template <class Count>
inline typename std::enable_if<std::is_integral<Count>::value, cudaError_t>::type
cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies, Count count,
                                    unsigned int flags = 0) {
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, static_cast<std::size_t>(count),
                                             flags);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                          const cudaGraphEdgeData* edges, std::size_t count,
                                                          unsigned int flags = 0) {
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, edges, count, flags);
}

inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                            const cudaGraphNode_t* to, std::size_t count) {
  return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                               std::size_t count) {
  return cudaGraphAddDependencies(graph, from, to, edges, count);
}

inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, std::size_t count) {
  return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                                  std::size_t count) {
  return cudaGraphRemoveDependencies(graph, from, to, edges, count);
}

inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                     std::size_t* count) {
  return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphGetEdges(graph, from, to, edges, count);
}

inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                std::size_t* count) {
  return cudaGraphNodeGetDependencies(node, dependencies, nullptr, count);
}
inline cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                   cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphNodeGetDependencies(node, dependencies, edges, count);
}

inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                  std::size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, dependents, nullptr, count);
}
inline cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                     cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, dependents, edges, count);
}

inline cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* dependencies, std::size_t count,
                                    cudaGraphNodeParams* params) {
  return cudaGraphAddNode(node, graph, dependencies, nullptr, count, params);
}
inline cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                       std::size_t count, cudaGraphNodeParams* params) {
  return cudaGraphAddNode(node, graph, dependencies, edges, count, params);
}

// Which copy failed is not told any more: *fail is SIZE_MAX, as it was when the fault was of no copy.
inline cudaError_t cudaMemcpyBatchAsync(void** to, void** from, std::size_t* bytes, std::size_t count,
                                        cudaMemcpyAttributes* attributes, std::size_t* attribute_of,
                                        std::size_t attribute_count, std::size_t* fail, cudaStream_t stream) {
  if (fail) *fail = static_cast<std::size_t>(-1);
  return cudaMemcpyBatchAsync(static_cast<void* const*>(to), const_cast<const void* const*>(from),
                              static_cast<const std::size_t*>(bytes), count, attributes, attribute_of,
                              attribute_count, stream);
}
inline cudaError_t cudaMemcpy3DBatchAsync(std::size_t count, cudaMemcpy3DBatchOp* operations,
                                          std::size_t* fail, unsigned long long flags, cudaStream_t stream) {
  if (fail) *fail = static_cast<std::size_t>(-1);
  return cudaMemcpy3DBatchAsync(count, operations, flags, stream);
}

#elif CUDART_VERSION >= 12030

// ---- forms of CUDA 13
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** dependencies,
                                            const cudaGraphEdgeData** edges, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                       const cudaGraphEdgeData* edges, std::size_t count,
                                                       unsigned int flags = 0) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, count, flags);
}
// A literal 0 as the count is an integer still, though it could be no edge data too.
template <class Count>
inline typename std::enable_if<std::is_integral<Count>::value, cudaError_t>::type
cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies, Count count,
                                    unsigned int flags = 0) {
  cudaError_t (*const call)(cudaStream_t, cudaGraphNode_t*, std::size_t, unsigned int) =
      cudaStreamUpdateCaptureDependencies;
  return call(stream, dependencies, static_cast<std::size_t>(count), flags);
}
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                            const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                            std::size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, edges, count);
}
inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                               std::size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, edges, count);
}
inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                     cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, edges, count);
}
inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, dependencies, edges, count);
}
inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                  cudaGraphEdgeData* edges, std::size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, dependents, edges, count);
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                    std::size_t count, cudaGraphNodeParams* params) {
  return cudaGraphAddNode_v2(node, graph, dependencies, edges, count, params);
}
#if CUDART_VERSION >= 12080
inline cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes,
                                        std::size_t count, cudaMemcpyAttributes* attributes,
                                        std::size_t* attribute_of, std::size_t attribute_count,
                                        cudaStream_t stream) {
  std::size_t fail = 0;
  return cudaMemcpyBatchAsync(const_cast<void**>(to), const_cast<void**>(from),
                              const_cast<std::size_t*>(bytes), count, attributes, attribute_of,
                              attribute_count, &fail, stream);
}
inline cudaError_t cudaMemcpy3DBatchAsync(std::size_t count, cudaMemcpy3DBatchOp* operations,
                                          unsigned long long flags, cudaStream_t stream) {
  std::size_t fail = 0;
  return cudaMemcpy3DBatchAsync(count, operations, &fail, flags, stream);
}
#endif

#endif
#endif  // CUDART_VERSION

// ---------------------------------------------------------------- the driver API
#if defined(CUDA_VERSION) && !defined(RONDO_CUDA_COMPAT_DRIVER)
#define RONDO_CUDA_COMPAT_DRIVER
#if CUDA_VERSION < 12000
#error "rondo/cuda_compat.h needs the headers of CUDA 12.0 or newer (code may be older, headers not)"
#endif

// <cuda.h> makes most names macros of their newest version; an overload of the name is one of that version.
inline CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log,
                                   std::size_t log_bytes) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  const CUresult code = cuGraphInstantiateWithParams(exec, graph, &params);
  if (code != CUDA_SUCCESS && node) *node = params.hErrNode_out;
  rondo::cuda_compat::write_log(log, log_bytes, static_cast<int>(code), static_cast<int>(params.result_out),
                                params.hErrNode_out != nullptr);
  return code;
}
inline CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                  CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info = {};
  const CUresult code = cuGraphExecUpdate(exec, graph, &info);
  if (error_node) *error_node = info.errorNode;
  if (result) *result = info.result;
  return code;
}

inline CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
#if CUDA_VERSION >= 13000
  return cuStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
#else
  return cuStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr);
#endif
}

#if CUDA_VERSION >= 13000

inline CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate(context, nullptr, flags, device);
}
inline CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count) {
  return cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
#ifndef __CUDA_API_VERSION_INTERNAL  // which declares it
inline CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                          CUgraph* graph, const CUgraphNode** dependencies,
                                          std::size_t* count) {
  return cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
#endif
inline CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies,
                                                  std::size_t count, unsigned int flags) {
  return cuStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
}
inline CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                       std::size_t count) {
  return cuGraphAddDependencies(graph, from, to, nullptr, count);
}
inline CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                          std::size_t count) {
  return cuGraphRemoveDependencies(graph, from, to, nullptr, count);
}
inline CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return cuGraphGetEdges(graph, from, to, nullptr, count);
}
inline CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, std::size_t* count) {
  return cuGraphNodeGetDependencies(node, dependencies, nullptr, count);
}
inline CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents, std::size_t* count) {
  return cuGraphNodeGetDependentNodes(node, dependents, nullptr, count);
}
inline CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               std::size_t count, CUgraphNodeParams* params) {
  return cuGraphAddNode(node, graph, dependencies, nullptr, count, params);
}

#elif CUDA_VERSION >= 12030

inline CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** dependencies,
                                       const CUgraphEdgeData** edges, std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}
inline CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies,
                                                  const CUgraphEdgeData* edges, std::size_t count,
                                                  unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, count, flags);
}
inline CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                       const CUgraphEdgeData* edges, std::size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, edges, count);
}
inline CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                          const CUgraphEdgeData* edges, std::size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, edges, count);
}
inline CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                                std::size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, edges, count);
}
inline CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies,
                                           CUgraphEdgeData* edges, std::size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, dependencies, edges, count);
}
inline CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents,
                                             CUgraphEdgeData* edges, std::size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, dependents, edges, count);
}
inline CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               const CUgraphEdgeData* edges, std::size_t count, CUgraphNodeParams* params) {
  return cuGraphAddNode_v2(node, graph, dependencies, edges, count, params);
}

#endif
#endif  // CUDA_VERSION

}  // extern "C++"
