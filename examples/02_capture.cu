// Existing <<<>>> code becomes a CUDA graph by three calls around it - capture, instantiate, launch - and is
// replayed on new data.
#include <rondo/graph.h>

#include <vector>

#include "example.h"

namespace graph = rondo::graph;

namespace {

constexpr int kCount = 4096, kSteps = 20;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void step(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 0.5f * x[i] + 1.0f;
}

// The existing code: it takes a stream and knows nothing of graphs.
void relax(float* x, int n, cudaStream_t stream) {
  for (int i = 0; i < kSteps; ++i) step<<<(n + 255) / 256, 256, 0, stream>>>(x, n);
}

std::vector<float> read(const float* x, cudaStream_t stream) {
  std::vector<float> values(kCount);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(values.data(), x, kBytes, cudaMemcpyDeviceToHost, stream));
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));
  return values;
}

void body() {
  example::use_gpu();
  const graph::Stream stream = graph::Stream::create();
  float* x = nullptr;
  RONDO_GRAPH_CALL(cudaMalloc(&x, kBytes));

  // As it was: one launch after the other. It also loads the kernels, which a capture should not have to do.
  RONDO_GRAPH_CALL(cudaMemsetAsync(x, 0, kBytes, stream));
  relax(x, kCount, stream);
  const std::vector<float> plain = read(x, stream);

  // Inside capture() the code runs once on the CPU, and its stream takes notes instead of working.
  RONDO_GRAPH_CALL(cudaMemsetAsync(x, 0, kBytes, stream));
  graph::Graph g = graph::capture([&](cudaStream_t s) { relax(x, kCount, s); });
  graph::GraphExec exec = g.instantiate();
  exec.launch(stream);

  example::check(g.node_count() == kSteps, "the graph has a node for each launch");
  example::check(read(x, stream) == plain, "the replay computes what the launches did");

  // The graph holds the address x, not the data: new data goes where the old was.
  const std::vector<float> other(kCount, 100.0f);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(x, other.data(), kBytes, cudaMemcpyHostToDevice, stream));
  relax(x, kCount, stream);
  const std::vector<float> expected = read(x, stream);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(x, other.data(), kBytes, cudaMemcpyHostToDevice, stream));
  exec.launch(stream);
  example::check(read(x, stream) == expected, "the same graph serves new data in the same memory");

  // Handles are those of the run-time API: each API goes on with the other's objects.
  RONDO_GRAPH_CALL(cudaMemsetAsync(x, 0, kBytes, stream));
  RONDO_GRAPH_CALL(cudaGraphLaunch(exec.get(), stream));
  example::check(read(x, stream) == plain, "the run-time API launches what Rondo made");
  RONDO_GRAPH_CALL(cudaFree(x));
}

}  // namespace

int main() { return example::run(body); }
