// A whole executable graph takes over the parameters of a newer recording, says why when it cannot, and is
// then instantiated again.
#include <rondo/graph.h>

#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;

namespace {

constexpr uint32_t kCount = 1000, kBlocks = (kCount + 255) / 256;

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  const CUdeviceptr x = gpu.floats(std::vector<float>(kCount), stream);
  stream.synchronize();

  const auto record = [&](int steps, float v) {
    return graph::capture(stream, [&](CUstream s) {
      for (int i = 0; i < steps; ++i) gpu.launch(s, gpu.add, x, kCount, v);
    });
  };
  // What a launch adds to every element.
  const auto added_by = [&](const graph::GraphExec& exec) {
    const float before = gpu.read(x, kCount, stream)[7];
    exec.launch(stream);
    return gpu.read(x, kCount, stream)[7] - before;
  };

  graph::GraphExec exec = record(3, 1.0f).instantiate();
  example::check(added_by(exec) == 3.0f, "three steps of 1 add 3");

  // The same work with other numbers: an update, much cheaper than an instantiation.
  const graph::Updated updated = exec.update(record(3, 2.0f));
  example::check(updated.ok && added_by(exec) == 6.0f, "updated: three steps of 2 add 6");

  // Other work: the update is refused, with a reason, and the exec is as it was.
  const graph::Updated refused = exec.update(record(5, 1.0f));
  std::printf("      %s\n", refused.reason.c_str());
  example::check(!refused.ok && added_by(exec) == 6.0f, "refused: the old exec goes on");

  // For a loop: update where that is possible, else a new exec in place of the old one.
  const graph::UpdateOutcome outcome = exec.update_or_reinstantiate(record(5, 1.0f));
  example::check(outcome.how == graph::UpdateHow::Reinstantiated && added_by(exec) == 5.0f,
                 "instantiated again: five steps of 1 add 5");

  // An attribute that differs refuses the update before the driver is asked: to another size of clusters, for
  // one, an H200's driver answers success and keeps the old one.
  graph::Graph plain, clustered;
  auto step = graph::kernel(gpu.add, kBlocks, 256, 0, x, kCount, 1.0f);
  plain.add(step);
  try {
    clustered.add(step.with(graph::attribute::cluster({2})));
  } catch (const rondo::Error& e) {
    std::printf("      this GPU has no clusters: %s\n", e.what());
    return;
  }
  graph::GraphExec one = plain.instantiate();
  const graph::Updated differs = one.update(clustered);
  std::printf("      %s\n", differs.reason.c_str());
  example::check(!differs.ok && differs.attributes_differ,
                 "another size of clusters is not updated silently");
}

}  // namespace

int main() { return example::run(body); }
