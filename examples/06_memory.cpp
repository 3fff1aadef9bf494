// Memory that a graph allocates and frees itself, by hand or captured, and what the device keeps for it.
#include <rondo/graph.h>

#include <string>
#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;

namespace {

constexpr uint32_t kCount = 1 << 16, kBlocks = kCount / 256;
constexpr size_t kBytes = kCount * sizeof(float);

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  const CUdeviceptr out = gpu.floats(std::vector<float>(kCount), stream);
  stream.synchronize();

  // Scratch memory that exists only while the graph runs. Its address is known at once, and fixed.
  graph::Graph g;
  const graph::Allocation scratch = g.alloc(kBytes);
  const auto zeroed = g.fill(scratch.address, 0, kBytes, 1, scratch.node);
  const auto added = g.add(graph::kernel(gpu.add, kBlocks, 256, 0, scratch.address, kCount, 5.0f), zeroed);
  const auto copied = g.copy(out, scratch.address, kBytes, added);
  g.free(scratch.address, copied);
  {
    graph::GraphExec exec = g.instantiate();
    for (int i = 0; i < 3; ++i) exec.launch(stream);
    example::check(gpu.read(out, kCount, stream)[kCount - 1] == 5.0f, "the result went through graph memory");
  }
  const graph::GraphMemory before = graph::graph_memory(0);
  graph::trim_graph_memory(0);
  const graph::GraphMemory after = graph::graph_memory(0);
  std::printf("      graph memory: %llu bytes reserved, %llu after trim\n",
              static_cast<unsigned long long>(before.reserved_bytes),
              static_cast<unsigned long long>(after.reserved_bytes));
  example::check(before.used_high_bytes >= kBytes, "the device counts what graphs used at most");
  example::check(after.reserved_bytes <= before.reserved_bytes, "trim gives unused memory back");

  // Captured, a stream-ordered allocation becomes an alloc node, its free a free node.
  graph::Graph captured = graph::capture(stream, [&](CUstream s) {
    const CUdeviceptr p = gpu.allocate_in_order(kBytes, s);
    gpu.launch(s, gpu.add, p, kCount, 1.0f);
    gpu.free_in_order(p, s);
  });
  std::vector<graph::NodeKind> kinds;
  for (const graph::NodeView node : captured.nodes()) kinds.push_back(node.kind());
  using Kind = graph::NodeKind;
  example::check(kinds == std::vector{Kind::Alloc, Kind::Kernel, Kind::Free}, "alloc, kernel, free");

  // Memory that the graph does not free is the launcher's. It must be freed before the next launch ...
  graph::Graph keeps;
  const graph::Allocation result = keeps.alloc(kBytes);
  const auto cleared = keeps.fill(result.address, 0, kBytes, 1, result.node);
  keeps.add(graph::kernel(gpu.add, kBlocks, 256, 0, result.address, kCount, 7.0f), cleared);
  {
    graph::GraphExec exec = keeps.instantiate();
    exec.launch(stream);
    std::string message;
    try {
      exec.launch(stream);
    } catch (const rondo::Error& e) {
      message = e.what();
    }
    std::printf("      %s\n", message.c_str());
    example::check(message.find("not freed") != message.npos, "a second launch says what is not freed");
    gpu.free_in_order(result.address, stream);
    exec.launch(stream);
    gpu.free_in_order(result.address, stream);
    stream.synchronize();
  }
  // ... or by the next launch itself.
  graph::InstantiateOptions options;
  options.auto_free = true;
  graph::GraphExec exec = keeps.instantiate(options);
  exec.launch(stream);
  exec.launch(stream);
  example::check(gpu.read(result.address, kCount, stream)[0] == 7.0f,
                 "with auto_free a launch frees what the last one left, and its own memory stays");
  gpu.free_in_order(result.address, stream);
  stream.synchronize();
}

}  // namespace

int main() { return example::run(body); }
