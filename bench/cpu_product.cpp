// One thread: the generated TreeLSTM node (five gates of two children, gather and epilogue included) against
// OpenBLAS's sgemm of the same product alone. Interleaved, best of several; prints GFLOP/s and the ratio.
//   bench_cpu_product [hidden]
#include <cblas.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "../tests/codegen_plans.h"

using namespace rondo;

extern "C" void openblas_set_num_threads(int);

namespace {

// Processor time, so that a busy machine disturbs less.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& work) {
  const double start = now();
  work();
  return now() - start;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t h = argc > 1 ? std::atoll(argv[1]) : 256;
  openblas_set_num_threads(1);
  plan::Plan plan;
  plan.name = "bench";
  testing::add_treelstm_node(&plan, h);
  plan::finish(&plan);
  kernel::Outcome outcome;
  const auto library = kernel::compile_host(plan.name, codegen::emit_cpu_kernels(plan), &outcome);
  const abi::CpuModule* module = library->function<const abi::CpuModule*()>("rondo_cpu_module")();
  fmt::print("kernels: {} ms ({})\n", static_cast<int>(outcome.ms), kernel::name(outcome.from));
  testing::Rng rng(1);
  const testing::Arena arena(plan, rng);
  fmt::print("{:>6} {:>6} {:>14} {:>16} {:>7}\n", "rows", "tiles", "rondo GFLOP/s", "OpenBLAS GFLOP/s",
             "ratio");
  for (const uint32_t rows : {1u, 2u, 4u, 8u, 16u, 64u, 512u, 1229u}) {
    testing::Bucket bucket(plan, 0, rows, rng);
    std::vector<float> a(rows * static_cast<size_t>(2 * h), 0.5f), b(static_cast<size_t>(10 * h * h), 0.25f),
        c(rows * static_cast<size_t>(5 * h));
    const double flops = 2.0 * rows * 5 * static_cast<double>(h) * 2 * static_cast<double>(h);
    const int repeats = std::max(1, static_cast<int>(5e7 / flops));
    double ours = 1e9, theirs = 1e9;
    for (int round = 0; round < 60; ++round) {
      ours = std::min(ours, seconds([&] {
                              for (int r = 0; r < repeats; ++r) bucket.run(*module, arena);
                            }) / repeats);
      theirs =
          std::min(theirs, seconds([&] {
                             for (int r = 0; r < repeats; ++r)
                               cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows),
                                           static_cast<int>(5 * h), static_cast<int>(2 * h), 1, a.data(),
                                           static_cast<int>(2 * h), b.data(), static_cast<int>(2 * h), 0,
                                           c.data(), static_cast<int>(5 * h));
                           }) / repeats);
    }
    fmt::print("{:>6} {:>6} {:>14.1f} {:>16.1f} {:>7.2f}\n", rows, module->kernels[0].tiles(rows),
               flops / ours * 1e-9, flops / theirs * 1e-9, theirs / ours);
  }
  return 0;
}
