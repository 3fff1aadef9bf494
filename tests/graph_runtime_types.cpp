// The run-time API's handles are the driver's, so code of both passes them to Rondo and back as they are.
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "graph_support.h"

namespace rondo::graph {
namespace {

static_assert(std::is_same_v<cudaStream_t, CUstream>);
static_assert(std::is_same_v<cudaEvent_t, CUevent>);
static_assert(std::is_same_v<cudaGraph_t, CUgraph>);
static_assert(std::is_same_v<cudaGraphNode_t, CUgraphNode>);
static_assert(std::is_same_v<cudaGraphExec_t, CUgraphExec>);
static_assert(std::is_same_v<cudaFunction_t, CUfunction>);
static_assert(std::is_convertible_v<Stream, cudaStream_t> && std::is_convertible_v<Event, cudaEvent_t>);
static_assert(std::is_convertible_v<cudaGraph_t, GraphView> &&
              std::is_convertible_v<cudaGraphNode_t, NodeView>);

TEST_F(Graphs, StatusOfTheRuntimeApiIsCheckedLikeTheDrivers) {
  EXPECT_NO_THROW(RONDO_GRAPH_CALL(cudaSuccess));
  const std::string text =
      message_of([] { RONDO_GRAPH_CALL(cudaErrorStreamCaptureInvalidated); }, ErrorKind::Device);
  EXPECT_EQ(text.find("cudaErrorStreamCaptureInvalidated ("), 0u) << text;
  EXPECT_NE(text.find("An earlier call has broken the capture"), std::string::npos) << text;
}

TEST_F(Graphs, ARuntimeStreamIsCaptured) {
  const cudaStream_t stream = m_.stream;
  const Graph g = capture(stream, [&] { launch(stream, m_.store, m_.word(0), 1); });
  const cudaGraphExec_t exec = g.instantiate().release();
  GraphExec::adopt(exec).launch(stream);
  EXPECT_EQ(word(0), 1u);
}

}  // namespace
}  // namespace rondo::graph
#endif
