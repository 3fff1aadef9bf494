// Calls as code for CUDA 11, 12 and 13 writes them, to be compiled on any headers: the subject of
// compat_test.cpp, compat_forms_11.cpp (C++11) and compat_forms.cu (nvcc). Every function is one form of one
// call; what it must come to is in compat_test.cpp. Nothing here looks at a version but for what headers do
// not declare.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "rondo/cuda_compat.h"

#if CUDART_VERSION >= 12030
#define COMPAT_EDGE_DATA 1
#endif
#if CUDART_VERSION >= 12080
#define COMPAT_BATCH 1
#endif

namespace forms {

struct Args {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t nodes[2], more[2];
  unsigned long long id;
  const cudaGraphNode_t* dependencies;
  size_t count;
  cudaStreamCaptureStatus status;
  cudaGraphNode_t error_node;
  char log[100];
  cudaGraphExecUpdateResult result;
#ifdef COMPAT_EDGE_DATA
  cudaGraphEdgeData edges[2];
  const cudaGraphEdgeData* edges_out;
#endif
};

// ---------------------------------------------------------------- CUDA 11
inline cudaError_t instantiate_11(Args& a) {
  return cudaGraphInstantiate(&a.exec, a.graph, &a.error_node, a.log, sizeof a.log);
}
inline cudaError_t instantiate_11_without_log(Args& a) {
  return ::cudaGraphInstantiate(&a.exec, a.graph, nullptr, nullptr, 0);
}
inline cudaError_t update_11(Args& a) {
  return cudaGraphExecUpdate(a.exec, a.graph, &a.error_node, &a.result);
}
inline cudaError_t capture_info_11(Args& a) { return cudaStreamGetCaptureInfo(a.stream, &a.status, &a.id); }
inline cudaError_t capture_info_v2(Args& a) {
  return cudaStreamGetCaptureInfo_v2(a.stream, &a.status, &a.id, &a.graph, &a.dependencies, &a.count);
}
inline cudaError_t capture_info_v2_without_count(Args& a) {
  return cudaStreamGetCaptureInfo_v2(a.stream, &a.status, &a.id, &a.graph);
}

// ---------------------------------------------------------------- CUDA 12
inline cudaError_t instantiate_12(Args& a) { return cudaGraphInstantiate(&a.exec, a.graph, 8ull); }
inline cudaError_t instantiate_12_by_default(Args& a) { return cudaGraphInstantiate(&a.exec, a.graph); }
inline cudaError_t instantiate_12_by_zero(Args& a) { return cudaGraphInstantiate(&a.exec, a.graph, 0); }
inline cudaError_t update_12(Args& a) {
  cudaGraphExecUpdateResultInfo info = {};
  return cudaGraphExecUpdate(a.exec, a.graph, &info);
}
inline cudaError_t capture_info_12(Args& a) {
  return cudaStreamGetCaptureInfo(a.stream, &a.status, &a.id, &a.graph, &a.dependencies, &a.count);
}
inline cudaError_t capture_info_12_without_count(Args& a) {
  return cudaStreamGetCaptureInfo(a.stream, &a.status, &a.id, &a.graph, nullptr, nullptr);
}
inline cudaError_t capture_dependencies_12(Args& a) {
  return cudaStreamUpdateCaptureDependencies(a.stream, a.nodes, 2, cudaStreamSetCaptureDependencies);
}
inline cudaError_t capture_dependencies_12_by_default(Args& a) {
  return cudaStreamUpdateCaptureDependencies(a.stream, a.nodes, 2);
}
inline cudaError_t no_capture_dependencies_12(Args& a) {
  return cudaStreamUpdateCaptureDependencies(a.stream, nullptr, 0, cudaStreamSetCaptureDependencies);
}
inline cudaError_t connect_12(Args& a) { return cudaGraphAddDependencies(a.graph, a.nodes, a.more, 2); }
inline cudaError_t disconnect_12(Args& a) { return cudaGraphRemoveDependencies(a.graph, a.nodes, a.more, 2); }
inline cudaError_t edges_12(Args& a) { return cudaGraphGetEdges(a.graph, a.nodes, a.more, &a.count); }
inline cudaError_t edge_count_12(Args& a) { return cudaGraphGetEdges(a.graph, nullptr, nullptr, &a.count); }
inline cudaError_t dependencies_12(Args& a) {
  return cudaGraphNodeGetDependencies(a.nodes[0], a.more, &a.count);
}
inline cudaError_t dependents_12(Args& a) {
  return cudaGraphNodeGetDependentNodes(a.nodes[0], a.more, &a.count);
}
#if CUDART_VERSION >= 12020
inline cudaError_t add_node_12(Args& a) {
  cudaGraphNodeParams params = {};
  return cudaGraphAddNode(a.nodes, a.graph, a.more, 2, &params);
}
#endif
#ifdef COMPAT_BATCH
inline cudaError_t batch_12(Args& a) {
  void *to[2] = {}, *from[2] = {};
  size_t bytes[2] = {}, index = 0, fail = 7;
  cudaMemcpyAttributes attributes = {};
  return cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &index, 1, &fail, a.stream);
}
inline cudaError_t batch_3d_12(Args& a) {
  cudaMemcpy3DBatchOp op = {};
  size_t fail = 7;
  return cudaMemcpy3DBatchAsync(1, &op, &fail, 0, a.stream);
}
#endif

// ---------------------------------------------------------------- CUDA 12.3 by suffix, CUDA 13
#ifdef COMPAT_EDGE_DATA
inline cudaError_t capture_info_v3(Args& a) {
  return cudaStreamGetCaptureInfo_v3(a.stream, &a.status, &a.id, &a.graph, &a.dependencies, &a.edges_out,
                                     &a.count);
}
inline cudaError_t capture_info_13(Args& a) {
  return cudaStreamGetCaptureInfo(a.stream, &a.status, &a.id, &a.graph, &a.dependencies, &a.edges_out,
                                  &a.count);
}
inline cudaError_t capture_dependencies_v2(Args& a) {
  return cudaStreamUpdateCaptureDependencies_v2(a.stream, a.nodes, a.edges, 2,
                                                cudaStreamSetCaptureDependencies);
}
inline cudaError_t capture_dependencies_13(Args& a) {
  return cudaStreamUpdateCaptureDependencies(a.stream, a.nodes, a.edges, 2, cudaStreamSetCaptureDependencies);
}
inline cudaError_t capture_dependencies_13_by_default(Args& a) {
  return cudaStreamUpdateCaptureDependencies(a.stream, a.nodes, nullptr, a.count);
}
inline cudaError_t connect_v2(Args& a) {
  return cudaGraphAddDependencies_v2(a.graph, a.nodes, a.more, a.edges, 2);
}
inline cudaError_t connect_13(Args& a) {
  return cudaGraphAddDependencies(a.graph, a.nodes, a.more, a.edges, 2);
}
inline cudaError_t connect_13_without_data(Args& a) {
  return cudaGraphAddDependencies(a.graph, a.nodes, a.more, nullptr, 2);
}
inline cudaError_t disconnect_v2(Args& a) {
  return cudaGraphRemoveDependencies_v2(a.graph, a.nodes, a.more, a.edges, 2);
}
inline cudaError_t disconnect_13(Args& a) {
  return cudaGraphRemoveDependencies(a.graph, a.nodes, a.more, a.edges, 2);
}
inline cudaError_t edges_v2(Args& a) {
  return cudaGraphGetEdges_v2(a.graph, a.nodes, a.more, a.edges, &a.count);
}
inline cudaError_t edges_13(Args& a) {
  return cudaGraphGetEdges(a.graph, a.nodes, a.more, a.edges, &a.count);
}
inline cudaError_t dependencies_v2(Args& a) {
  return cudaGraphNodeGetDependencies_v2(a.nodes[0], a.more, a.edges, &a.count);
}
inline cudaError_t dependencies_13(Args& a) {
  return cudaGraphNodeGetDependencies(a.nodes[0], a.more, a.edges, &a.count);
}
inline cudaError_t dependents_v2(Args& a) {
  return cudaGraphNodeGetDependentNodes_v2(a.nodes[0], a.more, a.edges, &a.count);
}
inline cudaError_t dependents_13(Args& a) {
  return cudaGraphNodeGetDependentNodes(a.nodes[0], a.more, a.edges, &a.count);
}
inline cudaError_t add_node_v2(Args& a) {
  cudaGraphNodeParams params = {};
  return cudaGraphAddNode_v2(a.nodes, a.graph, a.more, a.edges, 2, &params);
}
inline cudaError_t add_node_13(Args& a) {
  cudaGraphNodeParams params = {};
  return cudaGraphAddNode(a.nodes, a.graph, a.more, a.edges, 2, &params);
}
#endif
#ifdef COMPAT_BATCH
inline cudaError_t batch_13(Args& a) {
  void *to[2] = {}, *from[2] = {};
  size_t bytes[2] = {}, index = 0;
  cudaMemcpyAttributes attributes = {};
  return cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &index, 1, a.stream);
}
inline cudaError_t batch_3d_13(Args& a) {
  cudaMemcpy3DBatchOp op = {};
  return cudaMemcpy3DBatchAsync(1, &op, 0, a.stream);
}
#endif

// ---------------------------------------------------------------- the driver API, as the same handles
inline CUresult driver_instantiate_11(Args& a) {
  return cuGraphInstantiate(&a.exec, a.graph, &a.error_node, a.log, sizeof a.log);
}
inline CUresult driver_instantiate_12(Args& a) { return cuGraphInstantiate(&a.exec, a.graph, 8); }
inline CUresult driver_update_11(Args& a) {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  const CUresult code = cuGraphExecUpdate(a.exec, a.graph, &a.error_node, &result);
  a.result = static_cast<cudaGraphExecUpdateResult>(result);
  return code;
}
inline CUresult driver_capture_info_11(Args& a) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  return cuStreamGetCaptureInfo(a.stream, &status, &id);
}
inline CUresult driver_capture_info_12(Args& a) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  return cuStreamGetCaptureInfo(a.stream, &status, &id, &a.graph, &a.dependencies, &a.count);
}
inline CUresult driver_capture_info_v2(Args& a) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  return cuStreamGetCaptureInfo_v2(a.stream, &status, &id, &a.graph, &a.dependencies, &a.count);
}
inline CUresult driver_capture_dependencies_12(Args& a) {
  return cuStreamUpdateCaptureDependencies(a.stream, a.nodes, 2, 1);
}
inline CUresult driver_connect_12(Args& a) { return cuGraphAddDependencies(a.graph, a.nodes, a.more, 2); }
inline CUresult driver_disconnect_12(Args& a) {
  return cuGraphRemoveDependencies(a.graph, a.nodes, a.more, 2);
}
inline CUresult driver_edges_12(Args& a) { return cuGraphGetEdges(a.graph, a.nodes, a.more, &a.count); }
inline CUresult driver_dependencies_12(Args& a) {
  return cuGraphNodeGetDependencies(a.nodes[0], a.more, &a.count);
}
inline CUresult driver_dependents_12(Args& a) {
  return cuGraphNodeGetDependentNodes(a.nodes[0], a.more, &a.count);
}
inline CUresult driver_context_12(Args&) {
  CUcontext context = nullptr;
  return cuCtxCreate(&context, 4, 1);
}
#if CUDART_VERSION >= 12020
inline CUresult driver_add_node_12(Args& a) {
  CUgraphNodeParams params = {};
  return cuGraphAddNode(a.nodes, a.graph, a.more, 2, &params);
}
#endif
#ifdef COMPAT_EDGE_DATA
inline CUresult driver_capture_info_13(Args& a) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUgraphEdgeData* edges = nullptr;
  return cuStreamGetCaptureInfo(a.stream, &status, &id, &a.graph, &a.dependencies, &edges, &a.count);
}
inline CUresult driver_capture_dependencies_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuStreamUpdateCaptureDependencies(a.stream, a.nodes, edges, 2, 1);
}
inline CUresult driver_connect_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuGraphAddDependencies(a.graph, a.nodes, a.more, edges, 2);
}
inline CUresult driver_disconnect_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuGraphRemoveDependencies(a.graph, a.nodes, a.more, edges, 2);
}
inline CUresult driver_edges_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuGraphGetEdges(a.graph, a.nodes, a.more, edges, &a.count);
}
inline CUresult driver_dependencies_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuGraphNodeGetDependencies(a.nodes[0], a.more, edges, &a.count);
}
inline CUresult driver_dependents_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  return cuGraphNodeGetDependentNodes(a.nodes[0], a.more, edges, &a.count);
}
inline CUresult driver_add_node_13(Args& a) {
  CUgraphEdgeData edges[2] = {};
  CUgraphNodeParams params = {};
  return cuGraphAddNode(a.nodes, a.graph, a.more, edges, 2, &params);
}
#endif

}  // namespace forms
