// A loop and a branch inside a graph: kernels set the condition, the GPU decides, the CPU is not asked.
// WHILE needs a driver of CUDA 12.3, IF with ELSE one of 12.8.
#include <rondo/graph.h>

#include "example.h"

namespace graph = rondo::graph;

namespace {

// Newton's step to the square root of a; goes on while it still moves.
__global__ void newton(float* x, float a, int* rounds, cudaGraphConditionalHandle again) {
  const float next = 0.5f * (*x + a / *x);
  const bool moved = fabsf(next - *x) > 1e-6f * next;
  *x = next;
  *rounds += 1;
  cudaGraphSetConditional(again, moved && *rounds < 100);
}
__global__ void is_large(const float* x, cudaGraphConditionalHandle large) {
  cudaGraphSetConditional(large, *x > 10.0f);
}
__global__ void assign(float* to, float v) { *to = v; }
__global__ void copy(float* to, const float* from) { *to = *from; }

struct State {
  float x, verdict;
  int rounds;
};

State read(const State* p, cudaStream_t stream) {
  State s{};
  RONDO_GRAPH_CALL(cudaMemcpyAsync(&s, p, sizeof s, cudaMemcpyDeviceToHost, stream));
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));
  return s;
}

void body() {
  example::use_gpu();
  graph::require(graph::Feature::Conditional);
  const graph::Stream stream = graph::Stream::create();
  State* s = nullptr;
  RONDO_GRAPH_CALL(cudaMalloc(&s, sizeof(State)));
  RONDO_GRAPH_CALL(cudaMemsetAsync(s, 0, sizeof(State), stream));
  // Loads the kernels before the captures below.
  assign<<<1, 1, 0, stream>>>(&s->x, 1.0f);
  copy<<<1, 1, 0, stream>>>(&s->x, &s->x);
  RONDO_GRAPH_CALL(cudaStreamSynchronize(stream));

  // WHILE: the condition is 1 at the start of every launch, then what the body's kernel says.
  graph::Graph g;
  const auto start = g.add(graph::kernel(example::function_of(assign), 1, 1, 0, &s->x, 1.0f));
  const graph::ConditionHandle again = g.condition(1);
  graph::Condition loop = g.while_node(again, start);
  loop.body().add(graph::kernel(example::function_of(newton), 1, 1, 0, &s->x, 2.0f, &s->rounds, again));
  graph::GraphExec root = g.instantiate();

  root.launch(stream);
  const State looped = read(s, stream);
  std::printf("      sqrt(2) = %.7f after %d rounds\n", looped.x, looped.rounds);
  example::check(looped.rounds > 2 && looped.rounds < 20, "the loop stopped by itself");
  example::check(fabsf(looped.x - 1.4142135f) < 1e-5f, "it found the root");

  // IF and ELSE, the bodies captured from existing code: one launch, and the GPU chooses.
  if (!graph::has(graph::Feature::ConditionalElse)) return (void)RONDO_GRAPH_CALL(cudaFree(s));
  graph::Graph branch;
  const graph::ConditionHandle large = branch.condition(0);
  const auto asked = branch.add(graph::kernel(example::function_of(is_large), 1, 1, 0, &s->x, large));
  graph::Condition choice = branch.if_else_node(large, asked);
  graph::capture_into(choice.body(0), stream, {}, [&] { assign<<<1, 1, 0, stream>>>(&s->verdict, -1.0f); });
  graph::capture_into(choice.body(1), stream, {}, [&] { copy<<<1, 1, 0, stream>>>(&s->verdict, &s->x); });
  graph::GraphExec decide = branch.instantiate();

  for (const float x : {3.0f, 30.0f}) {
    assign<<<1, 1, 0, stream>>>(&s->x, x);
    decide.launch(stream);
    const float expected = x > 10.0f ? -1.0f : x;
    example::check(read(s, stream).verdict == expected, x > 10.0f ? "30 took the branch" : "3 took the else");
  }
  RONDO_GRAPH_CALL(cudaFree(s));
}

}  // namespace

int main() { return example::run(body); }
