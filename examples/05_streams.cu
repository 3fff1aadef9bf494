// Several streams in one capture become parallel branches of a graph, and kernels that launch early become
// programmatic edges. Needs an sm_90 GPU.
#include <rondo/graph.h>

#include <algorithm>
#include <vector>

#include "example.h"

namespace graph = rondo::graph;

namespace {

constexpr int kCount = 1 << 16, kBlocks = kCount / 256;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void fill(float* x, float v) { x[blockIdx.x * blockDim.x + threadIdx.x] = v; }
__global__ void sum(float* out, const float* a, const float* b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] + b[i];
}
// Lets the next kernel start as soon as every block is here; that one waits before it reads.
__global__ void produce(float* x, float v) {
  cudaTriggerProgrammaticLaunchCompletion();
  x[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
__global__ void consume(float* out, const float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;  // what needs nothing of the kernel before comes first
  cudaGridDependencySynchronize();
  out[i] = x[i] + 1.0f;
}

bool all_are(const float* x, float v, cudaStream_t stream) {
  std::vector<float> values(kCount);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(values.data(), x, kBytes, cudaMemcpyDeviceToHost, stream));
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == v; });
}

size_t programmatic_edges(const graph::Graph& g) {
  size_t count = 0;
  for (const graph::Edge& e : g.edges()) count += e.data == graph::kProgrammatic;
  return count;
}

void body() {
  example::use_gpu();
  int major = 0;
  RONDO_GRAPH_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major < 9) example::skip("dependent launches need an sm_90 GPU");
  const graph::Stream stream = graph::Stream::create(), side = graph::Stream::create();
  float *a = nullptr, *b = nullptr, *out = nullptr;
  for (float** p : {&a, &b, &out}) RONDO_GRAPH_CALL(cudaMalloc(p, kBytes));

  // Fork and join: the two fills do not wait for each other, the sum waits for both.
  graph::Graph forked = graph::capture(stream, [&](graph::Capture& c) {
    c.fork(side);
    fill<<<kBlocks, 256, 0, c.stream()>>>(a, 1.0f);
    fill<<<kBlocks, 256, 0, side>>>(b, 2.0f);
    c.join(side);
    sum<<<kBlocks, 256, 0, c.stream()>>>(out, a, b);
  });
  forked.instantiate().launch(stream);
  example::check(forked.roots().size() == 2 && forked.edges().size() == 2, "two branches meet in the sum");
  example::check(all_are(out, 3.0f, stream), "1 + 2 = 3");

  // A launch with the attribute of dependent launches is captured as a programmatic edge.
  graph::Graph dependent = graph::capture(stream, [&](cudaStream_t s) {
    produce<<<kBlocks, 256, 0, s>>>(a, 4.0f);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = kBlocks, config.blockDim = 256, config.stream = s;
    config.attrs = &early, config.numAttrs = 1;
    RONDO_GRAPH_CALL(cudaLaunchKernelEx(&config, consume, out, static_cast<const float*>(a)));
  });
  dependent.instantiate().launch(stream);
  example::check(programmatic_edges(dependent) == 1, "the captured edge is programmatic");
  example::check(all_are(out, 5.0f, stream), "4 + 1 = 5");

  // The same by hand: the edge is named where the node is added.
  graph::Graph built;
  const auto first = built.add(graph::kernel(example::function_of(produce), kBlocks, 256, 0, a, 7.0f));
  built.add(graph::kernel(example::function_of(consume), kBlocks, 256, 0, out, a),
            {{first, graph::kProgrammatic}});
  built.instantiate().launch(stream);
  example::check(programmatic_edges(built) == 1, "the edge made by hand is programmatic");
  example::check(all_are(out, 8.0f, stream), "7 + 1 = 8");
  for (float* p : {a, b, out}) RONDO_GRAPH_CALL(cudaFree(p));
}

}  // namespace

int main() { return example::run(body); }
