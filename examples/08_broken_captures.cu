// What a broken capture tells - which call broke it, why, and how to mend it - and that the program, its
// stream and its last error are fine afterwards.
#include <rondo/graph.h>

#include <string>
#include <vector>

#include "example.h"

namespace graph = rondo::graph;

namespace {

__global__ void bump(int* x) { *x += 1; }

// What capturing `work` says; and then the same stream does plain work, as if nothing had been.
template <class Capturing>
std::string broken(const char* what, cudaStream_t stream, int* x, const Capturing& capturing) {
  std::string message;
  try {
    capturing();
  } catch (const rondo::Error& e) {
    message = e.what();
  }
  std::printf("\n%s:\n      %s\n", what, message.c_str());
  example::check(cudaPeekAtLastError() == cudaSuccess, "the last error is clear");
  int before = 0, after = 0;
  RONDO_GRAPH_CALL(cudaMemcpyAsync(&before, x, sizeof before, cudaMemcpyDeviceToHost, stream));
  bump<<<1, 1, 0, stream>>>(x);
  RONDO_GRAPH_CALL(cudaMemcpyAsync(&after, x, sizeof after, cudaMemcpyDeviceToHost, stream));
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));
  example::check(after == before + 1, "the stream works");
  return message;
}

bool says(const std::string& message, const char* part) { return message.find(part) != message.npos; }

void body() {
  example::use_gpu();
  // nvcc links libcudart statically, so Rondo is told how to clear its last error.
  graph::use_runtime_last_error([] { return static_cast<int>(cudaGetLastError()); });
  const graph::Stream stream = graph::Stream::create(), side = graph::Stream::create();
  int* x = nullptr;
  RONDO_GRAPH_CALL(cudaMalloc(&x, sizeof *x));
  RONDO_GRAPH_CALL(cudaMemsetAsync(x, 0, sizeof *x, stream));
  bump<<<1, 1, 0, stream>>>(x);
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));

  // An allocation, its status looked at: the message names the call and its line.
  int* p = nullptr;
  std::string message = broken("cudaMalloc in a capture", stream, x, [&] {
    graph::capture(stream, [&](cudaStream_t s) {
      bump<<<1, 1, 0, s>>>(x);
      RONDO_GRAPH_CALL(cudaMalloc(&p, 1024));
      bump<<<1, 1, 0, s>>>(x);
    });
  });
  example::check(says(message, "cudaMalloc") && says(message, "RelaxedScope"),
                 "it names the call and a remedy");

  // The remedy for memory that the captured work does not own: the call is let through.
  graph::Graph mended = graph::capture(stream, [&](cudaStream_t s) {
    bump<<<1, 1, 0, s>>>(x);
    const graph::RelaxedScope relaxed;
    RONDO_GRAPH_CALL(cudaMalloc(&p, 1024));
  });
  example::check(mended.node_count() == 1, "in a RelaxedScope it is allowed, and is not captured");
  RONDO_GRAPH_CALL(cudaFree(p));

  // A call whose status nobody looked at: checkpoints find the stretch.
  message = broken("cudaStreamSynchronize that nobody checked", stream, x, [&] {
    graph::capture(stream, [&](cudaStream_t s) {
      bump<<<1, 1, 0, s>>>(x);
      RONDO_GRAPH_CHECKPOINT("after the first kernel");
      (void)cudaStreamSynchronize(s);
      RONDO_GRAPH_CHECKPOINT("after the library call");
      bump<<<1, 1, 0, s>>>(x);
    });
  });
  example::check(says(message, "after the first kernel") && says(message, "after the library call"),
                 "it says between which checkpoints");

  // A stream that took part and did not come back.
  message = broken("a stream that was not joined", stream, x, [&] {
    graph::capture(stream, [&](graph::Capture& c) {
      c.fork(side);
      bump<<<1, 1, 0, side>>>(x);
    });
  });
  example::check(says(message, "join"), "it names the stream and what to call");

  // The legacy stream cannot be captured ...
  message = broken("a capture of the legacy stream", stream, x, [&] {
    graph::capture(cudaStreamLegacy, [&](cudaStream_t s) { bump<<<1, 1, 0, s>>>(x); });
  });
  example::check(says(message, "legacy"), "it says so");

  // ... and using it breaks the capture of a stream that is not non-blocking. Plain cudaMemset does.
  cudaStream_t blocking = nullptr;
  RONDO_GRAPH_CALL(cudaStreamCreate(&blocking));
  message = broken("cudaMemset while a blocking stream is captured", stream, x, [&] {
    graph::capture(blocking, [&](cudaStream_t s) {
      bump<<<1, 1, 0, s>>>(x);
      RONDO_GRAPH_CALL(cudaMemset(x, 0, sizeof *x));
    });
  });
  example::check(says(message, "cudaMemset"), "it names the call");
  RONDO_GRAPH_CALL(cudaStreamDestroy(blocking));

  // And a capture that is in order still works.
  graph::Graph good = graph::capture(stream, [&](cudaStream_t s) { bump<<<1, 1, 0, s>>>(x); });
  message = broken("a capture in order", stream, x, [&] { good.instantiate().launch(stream); });
  example::check(message.empty(), "it says nothing");
  RONDO_GRAPH_CALL(cudaFree(x));
}

}  // namespace

int main() { return example::run(body); }
