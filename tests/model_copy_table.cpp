// The kernel that brings the table, by itself, where there is a GPU: every piece arrives, and nothing is
// written beyond what it may write, whatever the count and the grid.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "rondo/batch/abi.h"
#include "rondo/codegen/codegen.h"
#include "rondo/device/device.h"
#include "rondo/error.h"
#include "rondo/kernel/nvrtc.h"

namespace rondo {
namespace {

constexpr uint32_t kPieceWords = abi::kCopyPieceBytes / 4, kHeadWords = abi::kCopyHeadBytes / 4,
                   kUntouched = 0xdddddddd;

TEST(CopyTable, EveryPieceArrivesAndNothingElseIsWritten) {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Module> module;
  const device::Kernel* kernel = nullptr;
  try {
    device = device::Device::open("cuda");
    plan::Plan plan;
    plan.name = "nothing";
    const codegen::CudaSource source =
        codegen::emit_cuda_kernels(plan, codegen::gemm_shared_bytes(device->architecture()));
    module = device->load(kernel::compile_cuda(plan.name, source.text, device->architecture())->bytes);
    kernel = module->kernel(source.copy_table.name);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::Unavailable) throw;
    GTEST_SKIP() << e.what();
  }
  constexpr uint32_t kRoom = 70'000;  // pieces
  const device::Buffer from = device->allocate_pinned(abi::kCopyHeadBytes + kRoom * abi::kCopyPieceBytes);
  const device::Buffer to = device->allocate(kRoom * abi::kCopyPieceBytes);
  std::vector<uint32_t> blank(kRoom * kPieceWords, kUntouched), got(blank.size());
  uint32_t* const host = from.as<uint32_t>();
  for (const uint32_t grid : {1u, 8u, 32u}) {
    device::Launch launch;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = abi::kCopyThreads;
    device::set_copy_params(&launch, from.address(), to.address());
    const auto recording = device->record({launch});
    const uint32_t first = grid * abi::kCopyThreads;
    for (const uint32_t count : {0u, 1u, first - 1, first, first + 1, 3 * first + 7, 4 * first, 5 * first + 1,
                                 9 * first + 255, 65'536u}) {
      if (count > kRoom) continue;
      host[0] = count;
      std::iota(host + kHeadWords, host + kHeadWords + kRoom * kPieceWords,
                count * 7919 + grid);  // other words each time
      device->upload(to, 0, blank.data(), to.bytes());
      recording->launch();
      device->download(got.data(), to, 0, to.bytes());
      device->synchronize();
      const size_t words = size_t{std::max(count, first)} * kPieceWords;
      ASSERT_EQ(std::memcmp(got.data(), host + kHeadWords, words * 4), 0)
          << count << " pieces, grid " << grid;
      ASSERT_EQ(std::memcmp(got.data() + words, blank.data(), got.size() * 4 - words * 4), 0)
          << count << " pieces, grid " << grid;
    }
  }
}

}  // namespace
}  // namespace rondo
