#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "rondo/device/cpu_device.h"
#include "rondo/device/thread_pool.h"
#include "rondo/error.h"

namespace rondo::device {
namespace {

TEST(ThreadPool, RunsEveryTileOnceWhateverTheNumbers) {
  for (uint32_t workers : {1u, 2u, 5u}) {
    ThreadPool pool(workers);
    EXPECT_EQ(pool.workers(), workers);
    for (uint32_t tiles : {0u, 1u, 2u, 3u, 64u, 1000u}) {
      std::vector<std::atomic<int>> done(tiles);
      pool.run(tiles, [&](uint32_t tile, uint32_t worker) {
        EXPECT_LT(worker, workers);
        ++done[tile];
      });
      for (auto& d : done) EXPECT_EQ(d, 1);
    }
  }
}

TEST(ThreadPool, ALoopSeesWhatTheLoopBeforeItWrote) {
  ThreadPool pool(4);
  std::vector<int> values(64, 0);
  for (int round = 0; round < 2000; ++round)
    pool.run(64, [&](uint32_t tile, uint32_t) {
      // The neighbour's value of the round before, or of this round.
      values[tile] += 1;
    });
  EXPECT_EQ(values, std::vector<int>(64, 2000));
}

TEST(ThreadPool, SleepingThreadsWakeUp) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<uint32_t> entered{0};
    // Every tile waits for all three: it ends only when each worker takes one.
    pool.run(3, [&](uint32_t, uint32_t) {
      ++entered;
      while (entered < 3) std::this_thread::yield();
    });
    EXPECT_EQ(entered, 3u);
  }
}

TEST(ThreadPool, OneTileRunsOnTheCaller) {
  ThreadPool pool(4);
  const auto caller = std::this_thread::get_id();
  pool.run(1, [&](uint32_t, uint32_t worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0u);
  });
}

// Two kernels of one launch, that note what they were called with.
struct Call {
  uint32_t level, tile;
  bool operator==(const Call&) const = default;
};
std::array<std::array<std::atomic<int>, 64>, 2> called;  // [kernel][tile]
std::atomic<int> bad_scratch;

template <int kernel>
void note(const uint32_t*, const float* weights, uint32_t level, uint32_t tile, float* scratch) {
  if (weights[0] == 5 && level == 2) ++called[kernel][tile];
  if (!scratch || reinterpret_cast<uint64_t>(scratch) % 64) ++bad_scratch;
  for (int i = 0; i < 1000; ++i) scratch[i] = static_cast<float>(kernel);
  for (int i = 0; i < 1000; ++i)
    if (scratch[i] != kernel) ++bad_scratch;
}
const abi::CpuKernel kFirst{"first", 0, 0, 1000, [](uint32_t count) { return count; }, note<0>};
const abi::CpuKernel kSecond{"second", 1, 0, 1000, [](uint32_t count) { return 2 * count; }, note<1>};

TEST(Cpu, TheTilesOfAllKernelsOfALaunchRunEachWithItsOwnScratch) {
  const auto device = open_cpu(3);
  EXPECT_EQ(device->description(), "cpu, 3 threads");
  const CpuTable layout{4, 2, 3};
  const auto kernel = device->cpu_kernel("both", {&kFirst, &kSecond}, layout);
  std::vector<uint32_t> table(4 + 3 * 2 * 5, 0);
  table[4 + (2 * 2 + 0) * 5] = 7;
  table[4 + (2 * 2 + 1) * 5] = 20;
  const float weight = 5;
  Launch launch;
  launch.kernel = kernel.get();
  set_params(&launch, reinterpret_cast<uint64_t>(table.data()), reinterpret_cast<uint64_t>(&weight), 2);
  device->run({launch});
  for (int kernel_index = 0; kernel_index < 2; ++kernel_index)
    for (int tile = 0; tile < 64; ++tile)
      EXPECT_EQ(called[kernel_index][tile], tile < (kernel_index ? 40 : 7) ? 1 : 0)
          << kernel_index << " " << tile;
  EXPECT_EQ(bad_scratch, 0);
}

TEST(Cpu, ALaunchWithoutItsParametersIsRefused) {
  const auto device = open_cpu(1);
  EXPECT_EQ(device->description(), "cpu, 1 thread");
  const auto kernel = device->cpu_kernel("both", {&kFirst}, {});
  Launch launch;
  launch.kernel = kernel.get();
  try {
    device->run({launch});
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "launch of both has 0 bytes of parameters, expected 20");
  }
}

TEST(Cpu, AKernelMayOutliveItsDevice) {
  auto device = open_cpu(2);
  auto kernel = device->cpu_kernel("first", {&kFirst}, {0, 1, 1});
  auto recording = device->record({});
  device.reset();
  recording->launch();
  EXPECT_EQ(kernel->name(), "first");
}

TEST(Cpu, ACubinCannotBeLoaded) {
  try {
    open_cpu(1)->load({});
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a cubin cannot be loaded on the cpu device");
  }
}

}  // namespace
}  // namespace rondo::device
