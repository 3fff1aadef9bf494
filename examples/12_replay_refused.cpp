// Work that cannot be a graph - it looks at a result in the middle - runs plainly, and the report says why.
// Cut into parts, what stands before and behind the look is replayed.
#include <rondo/graph.h>
#include <rondo/replay.h>
#include <rondo/replay_parts.h>

#include <string>
#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;
namespace replay = rondo::replay;

namespace {

constexpr uint32_t kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr int kCalls = 40;

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  const CUdeviceptr x = gpu.floats(std::vector<float>(kCount, 1.0f), stream);
  stream.synchronize();
  replay::Options options;
  options.policy = replay::Policy::always;

  const auto grow = [&](CUstream s, CUdeviceptr p, uint32_t n) {
    gpu.launch(s, gpu.scale, p, n, 2.0f);
    gpu.launch(s, gpu.add, p, n, 1.0f);
  };
  // Waits for the GPU and decides on the host.
  const auto limit = [&](CUstream s, CUdeviceptr p, uint32_t n) {
    if (gpu.read(p, 1, s)[0] > 100.0f) gpu.launch(s, gpu.scale, p, n, 0.125f);
  };
  const auto reference = [](float v) {
    v = v * 2.0f + 1.0f;
    if (v > 100.0f) v *= 0.125f;
    return v * 2.0f + 1.0f;
  };

  // As one region.
  replay::Region whole(
      "whole", [&](CUstream s, CUdeviceptr p, uint32_t n) { grow(s, p, n), limit(s, p, n), grow(s, p, n); },
      options);
  float expected = 1.0f;
  for (int call = 0; call < kCalls; ++call) {
    whole(stream, replay::inout(x, kBytes), kCount);
    expected = reference(expected);
  }
  example::check(gpu.read(x, kCount, stream) == std::vector<float>(kCount, expected),
                 "the results are right");
  const replay::RegionReport refused = whole.report();
  std::printf("\n%s\n", replay::text(std::vector{refused}).c_str());
  example::check(refused.replays == 0 && refused.plain_calls == kCalls, "every call was plain");
  example::check(refused.recordings.size() == 1 && refused.recordings[0].state == "refused",
                 "it is refused ...");
  example::check(!refused.recordings[0].reason.empty() && !refused.fallbacks.empty(), "... with a reason");

  // The same in parts.
  replay::Parts parts("parts", options, replay::part(grow), replay::plain_part(limit), replay::part(grow));
  for (int call = 0; call < kCalls; ++call) {
    parts(stream, replay::inout(x, kBytes), kCount);
    expected = reference(expected);
  }
  example::check(gpu.read(x, kCount, stream) == std::vector<float>(kCount, expected),
                 "so are those of the parts");
  std::printf("\n      %s\n%s\n", parts.describe().c_str(), replay::text(parts.report()).c_str());
  uint64_t replays = 0;
  for (const replay::RegionReport& r : parts.report()) replays += r.replays;
  example::check(parts.report().size() == 2 && replays > kCalls, "both sides of the look are replayed");
}

}  // namespace

int main() { return example::run(body); }
