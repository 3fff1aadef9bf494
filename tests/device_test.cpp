// One suite for every device: cpu always, cuda where there is one (a test is skipped with the reason where
// there is not).
#include "message_of.h"
#include "rondo/device/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "rondo/base/trace.h"
#include "rondo/error.h"
#include "rondo/kernel/nvrtc.h"

namespace rondo::device {
namespace {

using test::message_of;

// The same small kernel for each device: it reads the count of its bucket at `level` from the table and adds
// weights[0] to each of the `count` floats that the table's first word pair points to.
constexpr uint32_t kHeader = 2, kBlocks = 2, kBases = 1;

void cpu_add(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float* scratch) {
  uint64_t rows;
  std::memcpy(&rows, table, 8);
  const uint32_t count = table[kHeader + (level * kBlocks + 1) * (2 + kBases)];
  for (uint32_t i = tile * 16; i < std::min(count, tile * 16 + 16); ++i) {
    scratch[i % 16] = weights[0];
    reinterpret_cast<float*>(rows)[i] += scratch[i % 16];
  }
}
const abi::CpuKernel kCpuAdd{"add", 1, 0, 16, [](uint32_t count) { return (count + 15) / 16; }, cpu_add};

const char kCudaAdd[] = R"(
extern "C" __global__ void add(const unsigned* table, const float* weights, unsigned level) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  float* rows = *(float* const*)table;
  const unsigned count = table[2 + (level * 2 + 1) * 3];
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    rows[i] += weights[0];
})";

class Devices : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_ = Device::open(GetParam());
      if (device_->kind() == Kind::Cuda) {
        cubin_ = kernel::compile_cuda("add", kCudaAdd, device_->architecture());
        module_ = device_->load(cubin_->bytes);
        kernel_ = module_->kernel("add");
      } else {
        own_ = device_->cpu_kernel("add", {&kCpuAdd}, {kHeader, kBlocks, kBases});
        kernel_ = own_.get();
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::Unavailable) throw;
      GTEST_SKIP() << e.what();
    }
  }
  // Rows of zeros, a table whose levels 0.. have these counts, and weights {1}.
  void prepare(const std::vector<uint32_t>& counts, size_t rows) {
    rows_ = device_->allocate(rows * 4);
    device_->fill_zero(rows_, 0, rows * 4);
    std::vector<uint32_t> table(kHeader + counts.size() * kBlocks * (2 + kBases));
    const uint64_t address = rows_.address();
    std::memcpy(table.data(), &address, 8);
    for (size_t level = 0; level < counts.size(); ++level)
      table[kHeader + (level * kBlocks + 1) * 3] = counts[level];
    table_ = device_->allocate(table.size() * 4);
    device_->upload(table_, 0, table.data(), table.size() * 4);
    const float one = 1;
    weights_ = device_->allocate(4);
    device_->upload(weights_, 0, &one, 4);
    device_->synchronize();
  }
  Launch launch(uint32_t level) const {
    Launch l;
    l.kernel = kernel_;
    l.grid = 2;
    l.block = 64;
    l.dependent = true;
    set_params(&l, table_.address(), weights_.address(), level);
    return l;
  }
  std::vector<float> rows() {
    std::vector<float> out(rows_.bytes() / 4);
    device_->download(out.data(), rows_, 0, rows_.bytes());
    device_->synchronize();
    return out;
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<const kernel::Artifact> cubin_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Kernel> own_;
  const Kernel* kernel_ = nullptr;
  Buffer rows_, table_, weights_;
};

TEST_P(Devices, BytesComeBackAsTheyWere) {
  std::vector<int> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 7);
  Buffer buffer = device_->allocate(4000), pinned = device_->allocate_pinned(4000);
  EXPECT_EQ(buffer.bytes(), 4000u);
  EXPECT_EQ(buffer.address() % 256, 0u);
  std::memcpy(pinned.as<int>(), in.data(), 4000);
  device_->upload(buffer, 0, pinned.as<int>(), 4000);
  device_->fill_zero(buffer, 400, 40);
  device_->download(out.data(), buffer, 0, 4000);
  device_->synchronize();
  std::fill(in.begin() + 100, in.begin() + 110, 0);
  EXPECT_EQ(in, out);
}

TEST_P(Devices, ALaunchReadsItsCountFromTheTable) {
  prepare({0, 100, 40}, 200);
  device_->run({launch(0)});
  EXPECT_EQ(rows(), std::vector<float>(200, 0));
  device_->run({launch(1), launch(2), launch(2)});
  std::vector<float> expected(200, 0);
  for (int i = 0; i < 100; ++i) expected[static_cast<size_t>(i)] = i < 40 ? 3 : 1;
  EXPECT_EQ(rows(), expected);
}

TEST_P(Devices, ARecordingDoesWhatRunDoesEachTimeItIsLaunched) {
  prepare({100, 40}, 128);
  const LaunchList list = {launch(0), launch(1), launch(1)};
  const auto recording = device_->record(list);
  EXPECT_EQ(rows(), std::vector<float>(128, 0)) << "recording runs nothing";
  recording->launch();
  recording->launch();
  const auto replayed = rows();
  device_->fill_zero(rows_, 0, rows_.bytes());
  device_->run(list);
  device_->run(list);
  EXPECT_EQ(rows(), replayed);
  EXPECT_EQ(replayed[0], 6);
}

TEST_P(Devices, ARecordingReadsTheTableOfTheDay) {
  prepare({10}, 64);
  const auto recording = device_->record({launch(0)});
  const uint32_t count = 30;
  device_->upload(table_, (kHeader + 3) * 4, &count, 4);
  recording->launch();
  const auto out = rows();
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0.f), 30);
}

TEST_P(Devices, AChainOfManyDependentLaunchesIsOrdered) {
  prepare({64}, 64);
  const LaunchList list(500, launch(0));
  device_->record(list)->launch();
  device_->run(list);
  EXPECT_EQ(rows(), std::vector<float>(64, 1000));
}

TEST_P(Devices, BuffersAndRecordingsMayOutliveTheDevice) {
  prepare({10}, 64);
  auto recording = device_->record({launch(0)});
  device_.reset();
  rows_ = {};
  recording.reset();
  EXPECT_EQ(rows_.bytes(), 0u);
}

TEST_P(Devices, MarksMeasureTheWorkBetweenThem) {
  prepare({64}, 64);
  const auto from = device_->mark();
  device_->run(LaunchList(100, launch(0)));
  const auto to = device_->mark();
  EXPECT_GT(device_->elapsed_ms(*from, *to), 0);
}

TEST_P(Devices, TooMuchMemoryIsRefusedWithTheNumbersAndTheDeviceGoesOn) {
  const std::string message = message_of([&] { device_->allocate(size_t{1} << 60); }, ErrorKind::Device);
  EXPECT_NE(message.find(" is out of memory: 1152921504606846976 bytes asked for, "), message.npos)
      << message;
  EXPECT_NE(message.find(" bytes free. Use smaller batches, or a device with more memory"), message.npos)
      << message;
  EXPECT_EQ(device_->allocate(16).bytes(), 16u);
}

TEST_P(Devices, NothingIsAllocatedForZeroBytes) {
  EXPECT_FALSE(device_->allocate(0));
  EXPECT_FALSE(device_->allocate_pinned(0));
}

TEST_P(Devices, ARangeOutsideTheBufferIsRefused) {
  Buffer buffer = device_->allocate(16);
  char bytes[32] = {};
  EXPECT_EQ(message_of([&] { device_->upload(buffer, 8, bytes, 9); }, ErrorKind::Internal),
            "upload of 9 bytes at offset 8 of a buffer of 16 bytes");
  EXPECT_EQ(message_of([&] { device_->download(bytes, buffer, 17, 0); }, ErrorKind::Internal),
            "download of 0 bytes at offset 17 of a buffer of 16 bytes");
  EXPECT_EQ(message_of([&] { device_->fill_zero(buffer, 0, SIZE_MAX); }, ErrorKind::Internal),
            "fill of 18446744073709551615 bytes at offset 0 of a buffer of 16 bytes");
}

TEST_P(Devices, MemoryAndUnitsAreKnown) {
  EXPECT_GT(device_->units(), 0u);
  EXPECT_GT(device_->memory().total_bytes, size_t{1} << 20);
  EXPECT_LE(device_->memory().free_bytes, device_->memory().total_bytes);
  EXPECT_GE(kernel_->resident_blocks(64, 0), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, Devices, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

// ---------------------------------------------------------------- opening

TEST(Open, AnUnknownDeviceIsAUsageError) {
  for (const char* bad : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""})
    EXPECT_EQ(message_of([&] { Device::open(bad); }, ErrorKind::Usage),
              std::string("there is no device '") + bad + "': expected auto, cpu, cuda or cuda:N");
}

TEST(Open, AutoAlwaysOpensAndSaysWhyItIsTheCpu) {
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  const auto device = Device::open("auto");
  const auto notes = sink->events("device.auto");
  ASSERT_EQ(notes.size(), device->kind() == Kind::Cpu ? 1u : 0u);
  for (const auto& note : notes)
    EXPECT_EQ(note.text.rfind("the cpu is used: CUDA is not available: ", 0), 0u) << note.text;
}

}  // namespace
}  // namespace rondo::device
