// Work that cannot be a graph runs plainly, and the report says why. Work that looks at a result in the
// middle is cut into parts: what stands before and behind the look is replayed, and decided together. Work
// that fills a table on the host promises that the table stays.
#include <rondo/graph.h>
#include <rondo/replay.h>
#include <rondo/replay_group.h>
#include <rondo/replay_parts.h>

#include <array>
#include <string>
#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;
namespace replay = rondo::replay;

namespace {

constexpr uint32_t kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr int kCalls = 40, kMostSteps = 5000;
constexpr size_t kBuffers = 7;  // no multiple of three: each set of three comes seven calls later

bool all_are(const std::vector<float>& values, float expected) {
  return values == std::vector<float>(values.size(), expected);
}

// Work that fits into no graph: it waits for the GPU and decides on the host.
void parts_and_group(example::Gpu& gpu, CUstream stream) {
  const CUdeviceptr x = gpu.floats(std::vector<float>(kCount, 1.0f), stream);
  replay::Options options;
  options.policy = replay::Policy::always;

  const auto grow = [&](CUstream s, CUdeviceptr p, uint32_t n) {
    gpu.launch(s, gpu.scale, p, n, 2.0f);
    gpu.launch(s, gpu.add, p, n, 1.0f);
  };
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
  example::check(all_are(gpu.read(x, kCount, stream), expected), "the results are right");
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
  example::check(all_are(gpu.read(x, kCount, stream), expected), "so are those of the parts");
  std::printf("\n      %s\n%s\n", parts.describe().c_str(), replay::text(parts.report()).c_str());
  uint64_t replays = 0;
  for (const replay::RegionReport& r : parts.report()) replays += r.replays;
  example::check(parts.report().size() == 2 && replays > kCalls, "both sides of the look are replayed");

  // As two regions of a group, which are decided together: what counts is the time of a whole step.
  replay::Region before("before", grow), behind("behind", grow);
  replay::Group group("step", {&before, &behind});
  int steps = 0;
  for (; steps < kMostSteps && !group.decided(); ++steps) {
    group.step(stream, [&] {
      before(stream, replay::inout(x, kBytes), kCount);
      limit(stream, x, kCount);
      behind(stream, replay::inout(x, kBytes), kCount);
    });
    expected = reference(expected);
  }
  example::check(all_are(gpu.read(x, kCount, stream), expected), "and those of the group");
  example::check(group.decided(), "it decided");
  std::printf("      after %d steps: %s\n\n", steps, group.reason().c_str());
}

// Work that makes a table of addresses on the host at every call and copies it to the GPU.
void table_on_the_host(example::Gpu& gpu, CUstream stream) {
  std::vector<CUdeviceptr> buffers;
  for (size_t i = 0; i < kBuffers; ++i)
    buffers.push_back(gpu.floats(std::vector<float>(kCount, 0.0f), stream));
  std::vector<CUdeviceptr> table(3);
  const CUdeviceptr on_device = gpu.memory(3 * sizeof(CUdeviceptr));
  const auto add_to_three = [&](CUstream s, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
    table[0] = a, table[1] = b, table[2] = c;
    gpu.upload(on_device, table.data(), 3 * sizeof(CUdeviceptr), s);
    gpu.launch_each(s, on_device, 3, kCount, 1.0f);
  };
  std::array<float, kBuffers> expected{};
  // Three other buffers at each call.
  const auto calls_of = [&](auto& region) {
    for (size_t call = 0; call < kCalls; ++call) {
      const size_t first = call * 3 % kBuffers;
      const auto which = [&](size_t i) { return (first + i) % kBuffers; };
      region(stream, replay::inout(buffers[which(0)], kBytes), replay::inout(buffers[which(1)], kBytes),
             replay::inout(buffers[which(2)], kBytes));
      for (size_t i = 0; i < 3; ++i) expected[which(i)] += 1.0f;
    }
    bool right = true;
    for (size_t i = 0; i < kBuffers; ++i) right &= all_are(gpu.read(buffers[i], kCount, stream), expected[i]);
    return right;
  };
  replay::Options options;
  options.policy = replay::Policy::always;

  // Memory from the heap may be gone when Rondo looks at it.
  replay::Region careful("careful", add_to_three, options);
  example::check(calls_of(careful), "a table on the heap: right ...");
  const replay::RegionReport refused = careful.report();
  example::check(refused.replays == 0, "... and plain, as it might be gone by now");
  std::printf("      %s\n", refused.fallbacks.empty() ? "" : refused.fallbacks[0].c_str());

  // The work knows that it is not.
  options.host_tables = true;
  replay::Region promised("promised", add_to_three, options);
  example::check(calls_of(promised), "with the promise: right ...");
  const replay::RegionReport found = promised.report();
  std::printf("\n%s\n", replay::text(std::vector{found}).c_str());
  example::check(found.replays > kCalls / 2, "... and replayed");
  example::check(
      found.recordings.size() == 1 && found.recordings[0].slots == 3 && found.patched_nodes == found.replays,
      "three addresses changed at each call, and one node was patched for them");
}

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  parts_and_group(gpu, stream);
  table_on_the_host(gpu, stream);
}

}  // namespace

int main() { return example::run(body); }
