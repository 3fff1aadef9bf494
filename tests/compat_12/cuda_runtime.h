// Graph calls as the run-time headers of CUDA 12.x declare them, as far as rondo/cuda_compat.h meets them:
// names, arguments and macros, written down from section 1.3 of our reference on CUDA graphs, not NVIDIA's
// headers. The version is 12.8, or what -DCUDART_VERSION says.
#pragma once
#include <stddef.h>

#ifndef CUDART_VERSION
#define CUDART_VERSION 12080
#endif

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorLossyQuery = 402, cudaErrorGraphExecUpdateFailure = 910 };
typedef struct CUstream_st* cudaStream_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamUpdateCaptureDependenciesFlags {
  cudaStreamAddCaptureDependencies,
  cudaStreamSetCaptureDependencies
};
enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess = 0,
  cudaGraphExecUpdateErrorParametersChanged = 5
};
typedef struct cudaGraphExecUpdateResultInfo_st {
  enum cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
} cudaGraphExecUpdateResultInfo;
typedef enum cudaGraphInstantiateResult {
  cudaGraphInstantiateSuccess = 0,
  cudaGraphInstantiateInvalidStructure = 2
} cudaGraphInstantiateResult;
typedef struct cudaGraphInstantiateParams_st {
  unsigned long long flags;
  cudaStream_t uploadStream;
  cudaGraphNode_t errNode_out;
  cudaGraphInstantiateResult result_out;
} cudaGraphInstantiateParams;
struct cudaGraphNodeParams {
  int type;
};

#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v2

extern "C" {
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, enum cudaStreamCaptureStatus*, unsigned long long* = 0,
                                        cudaGraph_t* = 0, const cudaGraphNode_t** = 0, size_t* = 0);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t*, size_t, unsigned int = 0);
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*, size_t);
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*, size_t);
cudaError_t cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t*, cudaGraphNode_t*, size_t*);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, size_t*);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t, cudaGraphNode_t*, size_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long = 0);
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t*, cudaGraph_t, cudaGraphInstantiateParams*);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo*);
#if CUDART_VERSION >= 12020
cudaError_t cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                             struct cudaGraphNodeParams*);
#endif
#if CUDART_VERSION >= 12030
typedef struct cudaGraphEdgeData_st {
  unsigned char from_port, to_port, type, reserved[5];
} cudaGraphEdgeData;
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t, enum cudaStreamCaptureStatus*, unsigned long long* = 0,
                                        cudaGraph_t* = 0, const cudaGraphNode_t** = 0,
                                        const cudaGraphEdgeData** = 0, size_t* = 0);
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t, cudaGraphNode_t*, const cudaGraphEdgeData*,
                                                   size_t, unsigned int = 0);
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*,
                                        const cudaGraphEdgeData*, size_t);
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*,
                                           const cudaGraphEdgeData*, size_t);
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t, cudaGraphNode_t*, cudaGraphNode_t*, cudaGraphEdgeData*,
                                 size_t*);
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, size_t*);
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, size_t*);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
                                const cudaGraphEdgeData*, size_t, struct cudaGraphNodeParams*);
#endif
#if CUDART_VERSION >= 12080
struct cudaMemcpyAttributes {
  int srcAccessOrder;
};
struct cudaMemcpy3DBatchOp {
  int flags;
};
cudaError_t cudaMemcpyBatchAsync(void**, void**, size_t*, size_t, struct cudaMemcpyAttributes*, size_t*,
                                 size_t, size_t*, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync(size_t, struct cudaMemcpy3DBatchOp*, size_t*, unsigned long long,
                                   cudaStream_t);
#endif
}

// As cuda_runtime.h of 12.x has it: source of CUDA 11 compiles, the node and the log are dropped.
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*,
                                               char*, size_t) {
  return ::cudaGraphInstantiate(exec, graph, 0ull);
}
