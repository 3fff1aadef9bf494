// What one level of a TreeLSTM costs on a GPU, by the number of its rows: bench_gpu_levels [HIDDEN] [ROWS ..]
//
// Chains of levels with the same number of rows each (bench/levels.rondo) run at two lengths, in turn; the difference of
// their medians over the difference of their lengths is a level in the steady chain, free of uploads and of the ends. With
// it the rate in TFLOP/s. From these figures come the costs in prelude/cuda.h (docs/decisions.md, 14 and 22).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "rondo/model.h"

namespace {

constexpr int64_t kShort = 4, kLong = 28;
constexpr int kRounds = 15, kWarmUp = 3;

// Small numbers of a linear congruential generator: zeros run faster than real data.
std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> out(count);
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = (static_cast<float>(seed >> 8) / 16777216.0f - 0.5f) * 0.2f;
  }
  return out;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t hidden = argc > 1 ? std::atoll(argv[1]) : 256;
  std::vector<int64_t> rows;
  for (int i = 2; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 2048};
  try {
    rondo::Weights weights;
    uint32_t seed = 1;
    const auto set = [&](const std::string& name, std::vector<int64_t> dims) {
      weights.set(name, dims, numbers(static_cast<size_t>(dims[0] * dims[1]), seed++));
    };
    set("x", {8, hidden});
    set("b", {5, hidden});
    for (int g = 0; g < 5; ++g) {
      set("wl" + std::to_string(g), {hidden, hidden});
      set("wr" + std::to_string(g), {hidden, hidden});
    }
    rondo::ModelOptions options;
    options.device = "cuda";
    options.profile = true;
    options.defines = {{"H", hidden}};
    rondo::Model model = rondo::Model::load(RONDO_LEVELS_PROGRAM, weights, options);
    std::printf("%s, hidden %lld, us a level\n%6s %10s %10s %10s\n", model.report().device.c_str(),
                static_cast<long long>(hidden), "rows", "level", "TFLOP/s", "base");
    for (const int64_t r : rows) {
      rondo::Batch batches[2] = {model.batch(), model.batch()};
      for (int b = 0; b < 2; ++b)
        for (int64_t i = 0; i < r; ++i)
          batches[b].add({rondo::Value::integer(i % 8), rondo::Value::integer(b ? kLong : kShort)});
      std::vector<double> us[2];
      for (int round = 0; round < kRounds + kWarmUp; ++round)
        for (int b = 0; b < 2; ++b) {
          if (model.run(batches[b]).size() != static_cast<size_t>(r)) return 1;
          if (round >= kWarmUp) us[b].push_back(model.report().last.run_ms * 1000);
        }
      const double shorter = median(us[0]), level = (median(us[1]) - shorter) / (kLong - kShort);
      std::printf("%6lld %10.2f %10.1f %10.2f\n", static_cast<long long>(r), level,
                  2e-6 * static_cast<double>(r * hidden * hidden * 10) / level, shorter - kShort * level);
    }
  } catch (const rondo::Error& e) {
    std::fprintf(stderr, "bench_gpu_levels: %s\n", e.what());
    return 3;
  }
}
