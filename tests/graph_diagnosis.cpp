// The table from codes to causes and remedies, as data.
#include <gtest/gtest.h>

#include "rondo/graph/diagnosis.h"

namespace rondo::graph {
namespace {

const char* row(CUresult code, Phase phase, const char* call, int result = -1) {
  const Finding* f = diagnose(code, phase, call, result);
  return f ? f->row : "none";
}

TEST(GraphDiagnosis, TheSpecialRowComesBeforeTheGeneralOne) {
  constexpr CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  EXPECT_STREQ(row(unsupported, Phase::Capture, "cuStreamBeginCapture"), "1");
  EXPECT_STREQ(row(unsupported, Phase::Capture, "cudaStreamSynchronize(s)"), "2");
  EXPECT_STREQ(row(unsupported, Phase::Capture, "cudaDeviceSynchronize()"), "2");
  EXPECT_STREQ(row(unsupported, Phase::Capture, "cudaMalloc(&p, n)"), "3");
  EXPECT_STREQ(row(unsupported, Phase::Capture, "cublasCreate(&handle)"), "3");
  EXPECT_STREQ(row(unsupported, Phase::Launch, "cuGraphLaunch"), "17");
  EXPECT_STREQ(row(unsupported, Phase::Build, "cudaMalloc(&p, n)"), "4");
  EXPECT_STREQ(row(CUDA_ERROR_NOT_SUPPORTED, Phase::Instantiate, "cuGraphInstantiateWithParams", 1), "24");
  EXPECT_STREQ(row(CUDA_ERROR_NOT_SUPPORTED, Phase::Build, "cuGraphClone"), "24");
  EXPECT_STREQ(row(CUDA_ERROR_NOT_SUPPORTED, Phase::Build, "cuGraphAddEventRecordNode"), "34");
}

TEST(GraphDiagnosis, ResultsOfInstantiateAndUpdateAreToldApart) {
  EXPECT_STREQ(row(CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, "cuGraphInstantiateWithParams", 2), "20");
  EXPECT_STREQ(row(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, "cuGraphExecUpdate", 2), "27");
  EXPECT_STREQ(row(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, "cuGraphExecUpdate", 5), "28");
  // The code that goes with a result is the driver's affair.
  EXPECT_STREQ(row(CUDA_ERROR_UNKNOWN, Phase::Instantiate, "cuGraphInstantiateWithParams", 4), "22");
}

TEST(GraphDiagnosis, WhatIsNotKnownIsNotExplained) {
  EXPECT_STREQ(row(CUDA_ERROR_UNKNOWN, Phase::Build, "cuGraphCreate"), "none");
  EXPECT_EQ(explain(CUDA_ERROR_UNKNOWN, Phase::Build, "cuGraphCreate"), "");
}

// The call's arguments do not choose the row: cudaMemcpyAsync(MallocResult, ...) is no allocation.
TEST(GraphDiagnosis, OnlyTheNameOfTheCallCounts) {
  EXPECT_STREQ(row(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, "cudaFoo(cudaMalloc)"), "4");
}

TEST(GraphDiagnosis, ResultsHaveWords) {
  EXPECT_STREQ(describe(static_cast<CUgraphInstantiateResult>(5)), "a condition that no node uses");
  EXPECT_STREQ(describe(static_cast<CUgraphExecUpdateResult>(7)),
               "a kernel's function cannot be changed to this");
  EXPECT_STREQ(describe(static_cast<CUgraphExecUpdateResult>(99)), "a reason newer than this build");
}

}  // namespace
}  // namespace rondo::graph
