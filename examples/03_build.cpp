// A graph made node by node - copies, kernels, a child graph - whose nodes get other parameters, or are
// switched off, between launches; and a node made by hand in the middle of a capture.
#include <rondo/graph.h>

#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;

namespace {

constexpr uint32_t kCount = 1000, kBlocks = (kCount + 255) / 256;
constexpr size_t kBytes = kCount * sizeof(float);

bool all_are(const std::vector<float>& values, float v) {
  for (const float x : values)
    if (x != v) return false;
  return true;
}

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  std::vector<float> in(kCount, 1.0f), out(kCount), elsewhere(kCount);
  const CUdeviceptr x = gpu.floats(out, stream);

  // Each call adds a node; its last argument is what the node waits for.
  graph::Graph g;
  const auto upload = g.copy(x, in.data(), kBytes);
  const auto add = g.add(graph::kernel(gpu.add, kBlocks, 256, 0, x, kCount, 2.0f), upload);
  const auto scale = g.add(graph::kernel(gpu.scale, kBlocks, 256, 0, x, kCount, 10.0f), add);
  const auto download = g.copy(out.data(), x, kBytes, scale);
  graph::GraphExec exec = g.instantiate();

  exec.launch(stream);
  stream.synchronize();
  example::check(all_are(out, 30.0f), "(1 + 2) * 10 = 30");
  for (const graph::NodeView node : g.nodes()) std::printf("      %s\n", node.describe().c_str());

  // Another parameter for one node. Launches that were made keep the old one.
  exec.set(add, graph::kernel(gpu.add, kBlocks, 256, 0, x, kCount, 4.0f));
  exec.launch(stream);
  stream.synchronize();
  example::check(all_are(out, 50.0f), "(1 + 4) * 10 = 50 after set");

  // A disabled node does nothing, and what waits for it goes on.
  exec.enable(scale, false);
  exec.launch(stream);
  stream.synchronize();
  example::check(all_are(out, 5.0f), "1 + 4 = 5 with one node disabled");
  exec.enable(scale);

  // Parameters that were read, changed in one field, and set again: the result goes elsewhere.
  CUDA_MEMCPY3D copy = download.memcpy();
  copy.dstHost = elsewhere.data();
  exec.set(download, copy);
  exec.launch(stream);
  stream.synchronize();
  example::check(all_are(elsewhere, 50.0f) && all_are(out, 5.0f), "a copy got another target");

  // A graph as one node of another: a copy of it. In a capture, graft() puts a node made by hand between what
  // is captured; here it is the way to use a graph where an exec cannot be launched.
  graph::Graph twice;
  twice.add(graph::kernel(gpu.scale, kBlocks, 256, 0, x, kCount, 2.0f));
  graph::Graph mixed = graph::capture(stream, [&](graph::Capture& c) {
    gpu.launch(c.stream(), gpu.add, x, kCount, 1.0f);
    c.graft([&](graph::GraphView so_far, graph::After tip) { return so_far.child(twice, tip); });
    gpu.launch(c.stream(), gpu.add, x, kCount, 3.0f);
  });
  mixed.instantiate().launch(stream);
  example::check(gpu.read(x, kCount, stream)[0] == 105.0f, "(50 + 1) * 2 + 3 = 105");
}

}  // namespace

int main() { return example::run(body); }
