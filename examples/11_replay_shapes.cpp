// A loop whose shapes vary: sizes that come again have a recording each, sizes that do not are captured one
// by one and launched through one executable graph, and buckets make few sizes of many.
#include <rondo/graph.h>
#include <rondo/replay.h>
#include <rondo/replay_buckets.h>

#include <algorithm>
#include <vector>

#include "gpu.h"

namespace graph = rondo::graph;
namespace replay = rondo::replay;

namespace {

constexpr uint32_t kMost = 4096;

// Lengths as they come: none is known before, some come again.
class Lengths {
 public:
  uint32_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    return 100 + (state_ >> 8) % 900;
  }

 private:
  uint32_t state_ = 1;
};

void body() {
  example::Gpu gpu;
  const graph::Stream stream = graph::Stream::create();
  const CUdeviceptr x = gpu.floats(std::vector<float>(kMost, 1.0f), stream);
  stream.synchronize();

  // x = 2 (x + 1) / 4, on n elements of x.
  const auto work = [&](CUstream s, CUdeviceptr p, uint32_t n) {
    gpu.launch(s, gpu.add, p, n, 1.0f);
    gpu.launch(s, gpu.scale, p, n, 2.0f);
    gpu.launch(s, gpu.scale, p, n, 0.25f);
  };
  const auto reference = [](std::vector<float>* values, size_t n) {
    std::for_each(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(n),
                  [](float& v) { v = (v + 1.0f) * 2.0f * 0.25f; });
  };
  // Whatever is faster, the graph: so this example does the same on every machine.
  replay::Options options;
  options.policy = replay::Policy::always;
  options.most_recordings = 32;

  // The size is a plain argument: another one is another signature. 300 calls of some 250 lengths; the grids
  // follow them.
  replay::Region step("step", work, options);
  std::vector<float> expected(kMost, 1.0f);
  Lengths lengths;
  for (int call = 0; call < 300; ++call) {
    const uint32_t n = lengths.next();
    step(stream, replay::inout(x, n * sizeof(float)), n);
    reference(&expected, n);
  }
  example::check(gpu.read(x, kMost, stream) == expected, "every length is right");
  const replay::RegionReport sizes = step.report();
  std::printf("      %zu signatures; of %llu calls %llu replayed, %llu captured and launched, %llu plain\n",
              sizes.recordings.size(), static_cast<unsigned long long>(sizes.calls),
              static_cast<unsigned long long>(sizes.replays),
              static_cast<unsigned long long>(sizes.recaptures),
              static_cast<unsigned long long>(sizes.plain_calls));
  example::check(sizes.replays < sizes.calls / 4, "hardly a length comes again, so hardly one is recorded");
  example::check(sizes.recaptures > sizes.calls / 2, "those that come once are captured and launched");

  // The same lengths in buckets: the tail up to the bucket's size is computed and never looked at, so the
  // buffer must have it. Few sizes come often.
  replay::Region rounded("step, rounded", work, options);
  replay::Buckets buckets;
  lengths = Lengths();
  for (int call = 0; call < 300; ++call) {
    const auto n = static_cast<uint32_t>(buckets.choose(lengths.next()));
    rounded(stream, replay::inout(x, n * sizeof(float)), n);
    reference(&expected, n);
  }
  example::check(gpu.read(x, kMost, stream) == expected, "every bucket is right");
  const replay::RegionReport report = rounded.report();
  std::printf("      %s\n", buckets.text().c_str());
  std::printf("%s\n", replay::text(std::vector{report}).c_str());
  example::check(report.replays > report.calls / 2, "most calls are replayed");
}

}  // namespace

int main() { return example::run(body); }
