// Who owns what, and who may call what from where: an exec that outlives its graph, memory kept alive by a
// graph, one exec launched by two threads, and two execs that may overlap.
#include <rondo/graph.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;

namespace {

constexpr uint32_t kCount = 1000, kBlocks = (kCount + 255) / 256;
constexpr size_t kBytes = kCount * sizeof(float);

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  const CUdeviceptr x = gpu.floats(std::vector<float>(kCount), stream);
  const CUdeviceptr y = gpu.floats(std::vector<float>(kCount), stream);
  stream.synchronize();
  const auto step = [&](CUdeviceptr p, float v) {
    return graph::kernel(gpu.add, kBlocks, 256, 0, p, kCount, v);
  };

  // The graph goes, the exec stays, and its nodes can still be changed: it keeps its graph alive.
  std::optional<graph::GraphExec> exec;
  {
    graph::Graph g;
    g.add(step(x, 1.0f));
    exec = g.instantiate();
  }
  exec->set(exec->source().nodes()[0], step(x, 3.0f));
  exec->launch(stream);
  example::check(gpu.read(x, kCount, stream)[0] == 3.0f, "an exec keeps its graph alive");

  // Host memory that a copy node reads belongs to the graph as long as the graph or an exec needs it.
  std::weak_ptr<const void> watch;
  {
    auto table = std::make_shared<const std::vector<float>>(kCount, 10.0f);
    watch = table;
    graph::Graph g;
    g.copy(x, table->data(), kBytes);
    g.keep(table);
    exec = g.instantiate();
  }
  exec->launch(stream);
  example::check(gpu.read(x, kCount, stream)[0] == 10.0f && !watch.expired(),
                 "kept memory is there at launch");

  // Two threads, each with its stream, launch one exec. The driver runs one launch of an exec at a time.
  graph::Graph counting;
  counting.add(step(y, 1.0f));
  graph::GraphExec shared = counting.instantiate();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      gpu.make_current();
      const graph::Stream own = graph::Stream::create();
      for (int i = 0; i < 50; ++i) shared.launch(own);
      own.synchronize();
    });
  for (std::thread& t : threads) t.join();
  example::check(gpu.read(y, kCount, stream)[0] == 100.0f, "no launch was lost, none overlapped another");

  // Work that shall overlap needs an exec each.
  graph::Graph on_x, on_y;
  on_x.add(step(x, 1.0f));
  on_y.add(step(y, 1.0f));
  const graph::GraphExec left = on_x.instantiate(), right = on_y.instantiate();
  const graph::Stream side = graph::Stream::create();
  left.launch(stream);
  right.launch(side);
  side.synchronize();
  example::check(gpu.read(x, kCount, stream)[0] == 11.0f && gpu.read(y, kCount, stream)[0] == 101.0f,
                 "two execs in two streams");
}

}  // namespace

int main() { return example::run(body); }
