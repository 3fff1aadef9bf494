// Every form of a call comes to the same call with the same arguments, whichever headers compile it. Built
// twice: on the headers of the machine, and on declarations of CUDA 12 (tests/compat_12). The run-time and
// the driver are functions of this file that write down how they are called, so neither library is needed.
#include <gtest/gtest.h>

#if !__has_include(<cuda_runtime.h>) || !(__has_include(<crt/host_defines.h>) || defined(COMPAT_12))

TEST(Compat, OnTheHeadersOfThisMachine) {
  GTEST_SKIP() << "no cuda_runtime.h with crt/ beside cuda.h: the forms are compiled on tests/compat_12 only";
}

#else

#include <cstring>
#include <sstream>
#include <string>

#include "compat_forms.h"

namespace {

// ---------------------------------------------------------------- what is called
std::string called;     // "connect(data, 2)"
int answer = 0;         // what it returns
int result_answer = 0;  // the detailed result
cudaGraphNode_t at_fault = nullptr;

template <class... A>
int note(const char* name, A... args) {
  std::ostringstream out;
  [[maybe_unused]] const char* between = "";
  out << name << '(';
  ((out << between << args, between = ", "), ...);
  out << ')';
  called = out.str();
  return answer;
}
const char* given(const void* p) { return p ? "given" : "none"; }

}  // namespace

#if CUDART_VERSION < 13000
#define COMPAT_OLD_HEADERS 1
#endif
#ifndef CUDARTAPI
#define RUNTIME cudaError_t
#else
#define RUNTIME cudaError_t CUDARTAPI
#endif
#define RETURN return (cudaError_t)
#define ANSWER return (CUresult)
#undef cudaGraphInstantiate  // what is defined below is the run-time's

extern "C" {
RUNTIME cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags) {
  RETURN note("instantiate", flags);
}
RUNTIME cudaGraphInstantiateWithParams(cudaGraphExec_t*, cudaGraph_t, cudaGraphInstantiateParams* p) {
  p->errNode_out = at_fault;
  p->result_out = static_cast<cudaGraphInstantiateResult>(result_answer);
  RETURN note("instantiate with params", p->flags);
}
RUNTIME cudaGraphExecUpdate(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo* info) {
  info->errorNode = at_fault;
  info->result = static_cast<cudaGraphExecUpdateResult>(result_answer);
  RETURN note("update");
}
#define CAPTURE_INFO note("capture info", given(graph), given(deps), given(edges), given(count))
#define CAPTURE_DEPENDENCIES note("capture dependencies", given(deps), given(edges), n, flags)
#define CONNECT note("connect", given(edges), n)
#define DISCONNECT note("disconnect", given(edges), n)
#define EDGES note("edges", given(from), given(to), given(edges), given(n))
#define DEPENDENCIES note("dependencies", given(deps), given(edges), given(n))
#define DEPENDENTS note("dependents", given(deps), given(edges), given(n))
#define ADD_NODE note("add node", given(deps), given(edges), n, given(p))
#ifdef COMPAT_OLD_HEADERS
#define EDGELESS const void* edges = nullptr
RUNTIME cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                    cudaGraph_t* graph, const cudaGraphNode_t** deps, size_t* count) {
  EDGELESS;
  RETURN CAPTURE_INFO;
}
RUNTIME cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t* deps, size_t n,
                                            unsigned int flags) {
  EDGELESS;
  RETURN CAPTURE_DEPENDENCIES;
}
RUNTIME cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*, size_t n) {
  EDGELESS;
  RETURN CONNECT;
}
RUNTIME cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*, size_t n) {
  EDGELESS;
  RETURN DISCONNECT;
}
RUNTIME cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* n) {
  EDGELESS;
  RETURN EDGES;
}
RUNTIME cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t* deps, size_t* n) {
  EDGELESS;
  RETURN DEPENDENCIES;
}
RUNTIME cudaGraphNodeGetDependentNodes(cudaGraphNode_t, cudaGraphNode_t* deps, size_t* n) {
  EDGELESS;
  RETURN DEPENDENTS;
}
RUNTIME cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* deps, size_t n,
                         cudaGraphNodeParams* p) {
  EDGELESS;
  RETURN ADD_NODE;
}
CUresult cuGraphInstantiate(CUgraphExec*, CUgraph, unsigned long long flags) {
  ANSWER note("instantiate", flags);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  p->hErrNode_out = at_fault;
  p->result_out = static_cast<CUgraphInstantiateResult>(result_answer);
  ANSWER note("instantiate with params", p->flags);
}
CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph* graph,
                                const CUgraphNode** deps, size_t* count) {
  EDGELESS;
  ANSWER CAPTURE_INFO;
}
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode* deps, size_t n, unsigned int flags) {
  EDGELESS;
  ANSWER CAPTURE_DEPENDENCIES;
}
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t n) {
  EDGELESS;
  ANSWER CONNECT;
}
CUresult cuGraphRemoveDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t n) {
  EDGELESS;
  ANSWER DISCONNECT;
}
CUresult cuGraphGetEdges(CUgraph, CUgraphNode* from, CUgraphNode* to, size_t* n) {
  EDGELESS;
  ANSWER EDGES;
}
CUresult cuGraphNodeGetDependencies(CUgraphNode, CUgraphNode* deps, size_t* n) {
  EDGELESS;
  ANSWER DEPENDENCIES;
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode, CUgraphNode* deps, size_t* n) {
  EDGELESS;
  ANSWER DEPENDENTS;
}
CUresult cuGraphAddNode(CUgraphNode*, CUgraph, const CUgraphNode* deps, size_t n, CUgraphNodeParams* p) {
  EDGELESS;
  ANSWER ADD_NODE;
}
CUresult cuCtxCreate(CUcontext*, unsigned int flags, CUdevice device) {
  ANSWER note("context", "none", flags, device);
}
// The names with edge data that 12.3 to 12.9 have.
#define NEWER(name) name##_v2
#define NEWEST(name) name##_v3
#else
#define NEWER(name) name
#define NEWEST(name) name
CUresult CUDAAPI cuCtxCreate(CUcontext*, CUctxCreateParams* params, unsigned int flags, CUdevice device) {
  ANSWER note("context", given(params), flags, device);
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec*, CUgraph, unsigned long long flags) {
  ANSWER note("instantiate", flags);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  p->hErrNode_out = at_fault;
  p->result_out = static_cast<CUgraphInstantiateResult>(result_answer);
  ANSWER note("instantiate with params", p->flags);
}
#endif
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo* info) {
  info->errorNode = at_fault;
  info->result = static_cast<CUgraphExecUpdateResult>(result_answer);
  ANSWER note("update");
}
#ifdef COMPAT_EDGE_DATA
RUNTIME NEWEST(cudaStreamGetCaptureInfo)(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                         cudaGraph_t* graph, const cudaGraphNode_t** deps,
                                         const cudaGraphEdgeData** edges, size_t* count) {
  RETURN CAPTURE_INFO;
}
RUNTIME NEWER(cudaStreamUpdateCaptureDependencies)(cudaStream_t, cudaGraphNode_t* deps,
                                                   const cudaGraphEdgeData* edges, size_t n,
                                                   unsigned int flags) {
  RETURN CAPTURE_DEPENDENCIES;
}
RUNTIME NEWER(cudaGraphAddDependencies)(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*,
                                        const cudaGraphEdgeData* edges, size_t n) {
  RETURN CONNECT;
}
RUNTIME NEWER(cudaGraphRemoveDependencies)(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*,
                                           const cudaGraphEdgeData* edges, size_t n) {
  RETURN DISCONNECT;
}
RUNTIME NEWER(cudaGraphGetEdges)(cudaGraph_t, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                 cudaGraphEdgeData* edges, size_t* n) {
  RETURN EDGES;
}
RUNTIME NEWER(cudaGraphNodeGetDependencies)(cudaGraphNode_t, cudaGraphNode_t* deps, cudaGraphEdgeData* edges,
                                            size_t* n) {
  RETURN DEPENDENCIES;
}
RUNTIME NEWER(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t, cudaGraphNode_t* deps,
                                              cudaGraphEdgeData* edges, size_t* n) {
  RETURN DEPENDENTS;
}
RUNTIME NEWER(cudaGraphAddNode)(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* deps,
                                const cudaGraphEdgeData* edges, size_t n, cudaGraphNodeParams* p) {
  RETURN ADD_NODE;
}
#ifdef COMPAT_OLD_HEADERS
CUresult cuStreamGetCaptureInfo_v3(
#else
CUresult cuStreamGetCaptureInfo(
#endif
    CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph* graph, const CUgraphNode** deps,
    const CUgraphEdgeData** edges, size_t* count) {
  ANSWER CAPTURE_INFO;
}
CUresult NEWER(cuStreamUpdateCaptureDependencies)(CUstream, CUgraphNode* deps, const CUgraphEdgeData* edges,
                                                  size_t n, unsigned int flags) {
  ANSWER CAPTURE_DEPENDENCIES;
}
CUresult NEWER(cuGraphAddDependencies)(CUgraph, const CUgraphNode*, const CUgraphNode*,
                                       const CUgraphEdgeData* edges, size_t n) {
  ANSWER CONNECT;
}
CUresult NEWER(cuGraphRemoveDependencies)(CUgraph, const CUgraphNode*, const CUgraphNode*,
                                          const CUgraphEdgeData* edges, size_t n) {
  ANSWER DISCONNECT;
}
CUresult NEWER(cuGraphGetEdges)(CUgraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                                size_t* n) {
  ANSWER EDGES;
}
CUresult NEWER(cuGraphNodeGetDependencies)(CUgraphNode, CUgraphNode* deps, CUgraphEdgeData* edges,
                                           size_t* n) {
  ANSWER DEPENDENCIES;
}
CUresult NEWER(cuGraphNodeGetDependentNodes)(CUgraphNode, CUgraphNode* deps, CUgraphEdgeData* edges,
                                             size_t* n) {
  ANSWER DEPENDENTS;
}
CUresult NEWER(cuGraphAddNode)(CUgraphNode*, CUgraph, const CUgraphNode* deps, const CUgraphEdgeData* edges,
                               size_t n, CUgraphNodeParams* p) {
  ANSWER ADD_NODE;
}
#endif
#ifdef COMPAT_BATCH
#ifdef COMPAT_OLD_HEADERS
RUNTIME cudaMemcpyBatchAsync(void**, void**, size_t*, size_t count, cudaMemcpyAttributes*, size_t*,
                             size_t kinds, size_t* fail, cudaStream_t) {
  EXPECT_NE(fail, nullptr);
  RETURN note("batch", count, kinds);
}
RUNTIME cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp*, size_t* fail, unsigned long long flags,
                               cudaStream_t) {
  EXPECT_NE(fail, nullptr);
  RETURN note("batch 3d", count, flags);
}
#else
RUNTIME cudaMemcpyBatchAsync(void* const*, const void* const*, const size_t*, size_t count,
                             cudaMemcpyAttributes*, size_t*, size_t kinds, cudaStream_t) {
  RETURN note("batch", count, kinds);
}
RUNTIME cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp*, unsigned long long flags, cudaStream_t) {
  RETURN note("batch 3d", count, flags);
}
#endif
#endif
}

namespace {

template <class Code>
std::string form(Code (*call)(forms::Args&)) {
  forms::Args args;
  std::memset(static_cast<void*>(&args), 0, sizeof args);
  called = "";
  answer = 0;
  EXPECT_EQ(static_cast<int>(call(args)), 0);
  answer = 2;  // the code comes back as it is
  EXPECT_EQ(static_cast<int>(call(args)), 2);
  answer = 0;
  return called;
}

cudaGraphNode_t node(uintptr_t n) { return reinterpret_cast<cudaGraphNode_t>(n); }

TEST(Compat, FormsOfCuda11ComeToTheSameCalls) {
  using namespace forms;
  EXPECT_EQ(form(instantiate_11), "instantiate with params(0)");
  EXPECT_EQ(form(instantiate_11_without_log), "instantiate with params(0)");
  EXPECT_EQ(form(update_11), "update()");
  EXPECT_EQ(form(capture_info_11), "capture info(none, none, none, none)");
  EXPECT_EQ(form(capture_info_v2), "capture info(given, given, none, given)");
  EXPECT_EQ(form(capture_info_v2_without_count), "capture info(given, none, none, none)");
}

TEST(Compat, FormsOfCuda12ComeToTheSameCalls) {
  using namespace forms;
  EXPECT_EQ(form(instantiate_12), "instantiate(8)");
  EXPECT_EQ(form(instantiate_12_by_default), "instantiate(0)");
  EXPECT_EQ(form(instantiate_12_by_zero), "instantiate(0)");
  EXPECT_EQ(form(update_12), "update()");
  EXPECT_EQ(form(capture_info_12), "capture info(given, given, none, given)");
  EXPECT_EQ(form(capture_info_12_without_count), "capture info(given, none, none, none)");
  EXPECT_EQ(form(capture_dependencies_12), "capture dependencies(given, none, 2, 1)");
  EXPECT_EQ(form(capture_dependencies_12_by_default), "capture dependencies(given, none, 2, 0)");
  EXPECT_EQ(form(no_capture_dependencies_12), "capture dependencies(none, none, 0, 1)");
  EXPECT_EQ(form(connect_12), "connect(none, 2)");
  EXPECT_EQ(form(disconnect_12), "disconnect(none, 2)");
  EXPECT_EQ(form(edges_12), "edges(given, given, none, given)");
  EXPECT_EQ(form(edge_count_12), "edges(none, none, none, given)");
  EXPECT_EQ(form(dependencies_12), "dependencies(given, none, given)");
  EXPECT_EQ(form(dependents_12), "dependents(given, none, given)");
#if CUDART_VERSION >= 12020
  EXPECT_EQ(form(add_node_12), "add node(given, none, 2, given)");
#endif
#ifdef COMPAT_BATCH
  EXPECT_EQ(form(batch_12), "batch(2, 1)");
  EXPECT_EQ(form(batch_3d_12), "batch 3d(1, 0)");
#endif
}

TEST(Compat, FormsOfCuda13ComeToTheSameCalls) {
#ifndef COMPAT_EDGE_DATA
  GTEST_SKIP() << "headers before CUDA 12.3 have no edge data";
#else
  using namespace forms;
  for (auto* call : {capture_info_v3, capture_info_13})
    EXPECT_EQ(form(call), "capture info(given, given, given, given)");
  for (auto* call : {capture_dependencies_v2, capture_dependencies_13})
    EXPECT_EQ(form(call), "capture dependencies(given, given, 2, 1)");
  EXPECT_EQ(form(capture_dependencies_13_by_default), "capture dependencies(given, none, 0, 0)");
  for (auto* call : {connect_v2, connect_13}) EXPECT_EQ(form(call), "connect(given, 2)");
  EXPECT_EQ(form(connect_13_without_data), "connect(none, 2)");
  for (auto* call : {disconnect_v2, disconnect_13}) EXPECT_EQ(form(call), "disconnect(given, 2)");
  for (auto* call : {edges_v2, edges_13}) EXPECT_EQ(form(call), "edges(given, given, given, given)");
  for (auto* call : {dependencies_v2, dependencies_13})
    EXPECT_EQ(form(call), "dependencies(given, given, given)");
  for (auto* call : {dependents_v2, dependents_13}) EXPECT_EQ(form(call), "dependents(given, given, given)");
  for (auto* call : {add_node_v2, add_node_13}) EXPECT_EQ(form(call), "add node(given, given, 2, given)");
#ifdef COMPAT_BATCH
  EXPECT_EQ(form(batch_13), "batch(2, 1)");
  EXPECT_EQ(form(batch_3d_13), "batch 3d(1, 0)");
#endif
#endif
}

TEST(Compat, FormsOfTheDriverComeToTheSameCalls) {
  using namespace forms;
  EXPECT_EQ(form(driver_instantiate_11), "instantiate with params(0)");
  EXPECT_EQ(form(driver_instantiate_12), "instantiate(8)");
  EXPECT_EQ(form(driver_update_11), "update()");
  EXPECT_EQ(form(driver_capture_info_11), "capture info(none, none, none, none)");
  for (auto* call : {driver_capture_info_12, driver_capture_info_v2})
    EXPECT_EQ(form(call), "capture info(given, given, none, given)");
  EXPECT_EQ(form(driver_capture_dependencies_12), "capture dependencies(given, none, 2, 1)");
  EXPECT_EQ(form(driver_connect_12), "connect(none, 2)");
  EXPECT_EQ(form(driver_disconnect_12), "disconnect(none, 2)");
  EXPECT_EQ(form(driver_edges_12), "edges(given, given, none, given)");
  EXPECT_EQ(form(driver_dependencies_12), "dependencies(given, none, given)");
  EXPECT_EQ(form(driver_dependents_12), "dependents(given, none, given)");
  EXPECT_EQ(form(driver_context_12), "context(none, 4, 1)");
#if CUDART_VERSION >= 12020
  EXPECT_EQ(form(driver_add_node_12), "add node(given, none, 2, given)");
#endif
#ifdef COMPAT_EDGE_DATA
  EXPECT_EQ(form(driver_capture_info_13), "capture info(given, given, given, given)");
  EXPECT_EQ(form(driver_capture_dependencies_13), "capture dependencies(given, given, 2, 1)");
  EXPECT_EQ(form(driver_connect_13), "connect(given, 2)");
  EXPECT_EQ(form(driver_disconnect_13), "disconnect(given, 2)");
  EXPECT_EQ(form(driver_edges_13), "edges(given, given, given, given)");
  EXPECT_EQ(form(driver_dependencies_13), "dependencies(given, given, given)");
  EXPECT_EQ(form(driver_dependents_13), "dependents(given, given, given)");
  EXPECT_EQ(form(driver_add_node_13), "add node(given, given, 2, given)");
#endif
}

// What CUDA's own overload drops.
TEST(Compat, TheInstantiationOfCuda11KeepsTheNodeAndTheLog) {
  for (const bool of_driver : {false, true}) {
    forms::Args args;
    std::memset(static_cast<void*>(&args), 0, sizeof args);
    std::strcpy(args.log, "old");
    const auto instantiate = [&] {
      return of_driver ? static_cast<int>(forms::driver_instantiate_11(args))
                       : static_cast<int>(forms::instantiate_11(args));
    };
    answer = 0, at_fault = nullptr, result_answer = 0;
    args.error_node = node(3);
    EXPECT_EQ(instantiate(), 0);
    EXPECT_EQ(args.error_node, node(3)) << "written only on failure";
    EXPECT_STREQ(args.log, "");
    answer = 1, at_fault = node(7), result_answer = 2;
    EXPECT_EQ(instantiate(), 1);
    EXPECT_EQ(args.error_node, node(7));
    EXPECT_STREQ(args.log,
                 "graph instantiation failed with 1: invalid structure, such as a cycle (result 2); the "
                 "error node is");
    EXPECT_EQ(std::strlen(args.log), sizeof args.log - 1) << "cut where the buffer ends";
  }
  answer = 0, at_fault = nullptr, result_answer = 0;
}

TEST(Compat, TheLogSaysWhyInWords) {
  char log[200];
  rondo::cuda_compat::write_log(log, sizeof log, 801, 5, false);
  EXPECT_STREQ(
      log,
      "graph instantiation failed with 801: a conditional handle belongs to no conditional node (result 5)");
  rondo::cuda_compat::write_log(log, sizeof log, 2, 1, true);
  EXPECT_STREQ(
      log, "graph instantiation failed with 2: see the returned code (result 1); the error node is given");
  rondo::cuda_compat::write_log(nullptr, 10, 1, 1, true);
  rondo::cuda_compat::write_log(log, 0, 1, 1, true);
}

TEST(Compat, TheUpdateOfCuda11GivesNodeAndResult) {
  forms::Args args;
  for (const bool of_driver : {false, true}) {
    std::memset(static_cast<void*>(&args), 0, sizeof args);
    answer = 910, at_fault = node(9), result_answer = 5;
    EXPECT_EQ(of_driver ? static_cast<int>(forms::driver_update_11(args))
                        : static_cast<int>(forms::update_11(args)),
              910);
    EXPECT_EQ(args.error_node, node(9));
    EXPECT_EQ(static_cast<int>(args.result), 5);
  }
  EXPECT_EQ(static_cast<int>(::cudaGraphExecUpdate(args.exec, args.graph, nullptr, nullptr)), 910)
      << "both may be left out";
  answer = 0, at_fault = nullptr, result_answer = 0;
}

TEST(Compat, WhichCopyOfABatchFailedIsNotTold) {
#if !defined(COMPAT_BATCH) || defined(COMPAT_OLD_HEADERS)
  GTEST_SKIP() << "CUDA 12's own call tells it";
#else
  void *to[1] = {}, *from[1] = {};
  size_t bytes[1] = {}, index = 0, fail = 7;
  cudaMemcpyAttributes attributes{};
  (void)cudaMemcpyBatchAsync(to, from, bytes, 1, &attributes, &index, 1, &fail, cudaStream_t{});
  EXPECT_EQ(fail, SIZE_MAX);
#endif
}

}  // namespace

#endif
