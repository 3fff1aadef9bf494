// An inference loop of cuBLAS products and own kernels, with other buffers at each call, wrapped in a region:
// a graph that is patched with the call's addresses, kept only where it is faster than plain calls.
#include <cublas_v2.h>
#include <rondo/graph.h>
#include <rondo/replay.h>

#include <vector>

#include "example.h"

namespace graph = rondo::graph;
namespace replay = rondo::replay;

namespace {

constexpr int kRows = 16, kWidth = 256, kLayers = 4, kInputs = 5, kOutputs = 7, kCalls = 2000;
constexpr size_t kCount = static_cast<size_t>(kRows) * kWidth, kBytes = kCount * sizeof(float);
constexpr size_t kWorkspace = size_t{32} << 20;

__global__ void fill(float* x, int n, float factor, int seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = factor * static_cast<float>((i * 7919 + seed * 104729) % 2001 - 1000);
}
__global__ void bias_relu(float* y, const float* bias, int n, int width) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(y[i] + bias[i % width], 0.0f);
}

void must(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw rondo::Error(rondo::ErrorKind::Device, "cuBLAS answers " + std::to_string(status));
}
float* floats(size_t count, float factor, int seed) {
  float* p = nullptr;
  RONDO_GRAPH_CALL(cudaMalloc(&p, count * sizeof(float)));
  fill<<<static_cast<unsigned>((count + 255) / 256), 256>>>(p, static_cast<int>(count), factor, seed);
  RONDO_GRAPH_CALL(cudaDeviceSynchronize());
  return p;
}

// The existing code. What it owns stays where it is: weights, what is between the layers, cuBLAS' workspace.
class Model {
 public:
  Model() {
    must(cublasCreate(&blas_));
    RONDO_GRAPH_CALL(cudaMalloc(&workspace_, kWorkspace));
    for (int i = 0; i < kLayers; ++i) {
      weights_.push_back(floats(kWidth * kWidth, 1e-4f, i));
      biases_.push_back(floats(kWidth, 1e-3f, i + 100));
      between_.push_back(floats(kCount, 0, 0));
    }
  }
  ~Model() {
    (void)cublasDestroy(blas_);
    (void)cudaFree(workspace_);
    for (const auto& all : {weights_, biases_, between_})
      for (float* p : all) (void)cudaFree(p);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void infer(cudaStream_t stream, const float* x, float* y) {
    must(cublasSetStream(blas_, stream));
    must(cublasSetWorkspace(blas_, workspace_, kWorkspace));  // setting the stream took it away
    const float one = 1.0f, zero = 0.0f;
    for (int i = 0; i < kLayers; ++i) {
      const float* from = i == 0 ? x : between_[i - 1];
      float* to = i == kLayers - 1 ? y : between_[i];
      must(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, kWidth, kRows, kWidth, &one, weights_[i], kWidth,
                       from, kWidth, &zero, to, kWidth));
      bias_relu<<<(kCount + 255) / 256, 256, 0, stream>>>(to, biases_[i], kCount, kWidth);
    }
  }

 private:
  cublasHandle_t blas_ = nullptr;
  void* workspace_ = nullptr;
  std::vector<float*> weights_, biases_, between_;
};

std::vector<float> read(const float* p, cudaStream_t stream) {
  std::vector<float> values(kCount);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(values.data(), p, kBytes, cudaMemcpyDeviceToHost, stream));
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));
  return values;
}

void body() {
  example::use_gpu();
  // nvcc links libcudart statically, so Rondo is told how to clear its last error.
  graph::use_runtime_last_error([] { return static_cast<int>(cudaGetLastError()); });
  const graph::Stream stream = graph::Stream::create();
  Model model;
  std::vector<float*> inputs, outputs;
  for (int i = 0; i < kInputs; ++i) inputs.push_back(floats(kCount, 1e-3f, i + 200));
  for (int i = 0; i < kOutputs; ++i) outputs.push_back(floats(kCount, 0, 0));

  // What plain calls give.
  std::vector<std::vector<float>> expected;
  for (const float* x : inputs) {
    model.infer(stream, x, outputs[0]);
    expected.push_back(read(outputs[0], stream));
  }
  example::check(expected[0] != expected[1], "different inputs give different results");

  // The work as a function of its arguments: what changes from call to call, and what it writes.
  replay::Region infer("infer", [&](cudaStream_t s, const float* x, float* y) { model.infer(s, x, y); });

  // The loop calls the region in place of the model. Each call has another pair of buffers.
  bool right = true;
  for (int call = 0; call < kCalls; ++call) {
    const float* x = inputs[call % kInputs];
    float* y = outputs[call % kOutputs];
    if (call % 50 == 0) RONDO_GRAPH_CALL(cudaMemsetAsync(y, 0xff, kBytes, stream));
    infer(stream, replay::in(x, kCount), replay::out(y, kCount));
    if (call % 50 == 0) right &= read(y, stream) == expected[call % kInputs];
  }
  example::check(right, "every result that was looked at is that of a plain call, bit for bit");

  // What became of it: the times of both ways, the choice, and why.
  const replay::RegionReport report = infer.report();
  std::printf("\n%s\n", replay::text(std::vector{report}).c_str());
  example::check(report.calls == kCalls, "the report counts every call");
  example::check(report.recordings.size() == 1 && report.recordings[0].nodes >= 2 * kLayers,
                 "one recording serves all pairs of buffers");
  example::check(report.recordings[0].state == "decided", "plain or graph is decided");
  for (float* p : inputs) (void)cudaFree(p);
  for (float* p : outputs) (void)cudaFree(p);
}

}  // namespace

int main() { return example::run(body); }
