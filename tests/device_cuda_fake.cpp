// The cuda device on a driver that fails to order.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "fake_driver.h"
#include "message_of.h"
#include "rondo/base/trace.h"
#include "rondo/device/cuda_device.h"
#include "rondo/error.h"

namespace rondo::device {
namespace {

using fake::FakeDriver;
using fake::Launched;

using test::message_of;

const std::string kCubin = "a cubin";

Launch make_launch(const Kernel* kernel, uint32_t level, bool dependent = false) {
  Launch l;
  l.kernel = kernel;
  l.grid = 3;
  l.block = 128;
  l.shared_bytes = 100000;
  l.dependent = dependent;
  set_params(&l, 0x1122334455667788, 0x99, level);
  return l;
}

// Everything that batch does with a device.
void whole_life() {
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  const Kernel *first = module->kernel("first"), *second = module->kernel("second");
  first->resident_blocks(128, 0);
  Buffer buffer = device->allocate(1024), pinned = device->allocate_pinned(1024);
  device->memory();
  std::memset(pinned.as<char>(), 1, 1024);
  device->upload(buffer, 0, pinned.as<char>(), 1024);
  device->fill_zero(buffer, 0, 16);
  const LaunchList list = {make_launch(first, 0), make_launch(second, 1, true)};
  device->run(list);
  const auto from = device->mark();
  const auto recording = device->record(list);
  recording->launch();
  const auto to = device->mark();
  device->elapsed_ms(*from, *to);
  device->download(pinned.as<char>(), buffer, 0, 1024);
  device->synchronize();
}

TEST(CudaFaults, TheWholeLifeOfADeviceLeavesNothingBehind) {
  FakeDriver fake;
  whole_life();
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.launches.size(), 4u);
}

TEST(CudaFaults, WhicheverCallFailsNothingLeaksAndTheCallIsNamed) {
  long calls = 0;
  {
    FakeDriver fake;
    whole_life();
    calls = fake.calls();
  }
  ASSERT_GT(calls, 50);
  int thrown = 0;
  for (long k = 1; k <= calls; ++k) {
    FakeDriver fake;
    fake.fail(k, k % 2 ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
    try {
      whole_life();
    } catch (const Error& e) {
      ++thrown;
      EXPECT_TRUE(e.kind() == ErrorKind::Device ||
                  (e.kind() == ErrorKind::Unavailable && fake.failed() == "cuInit"))
          << k << ": " << e.what();
      const std::string text = e.what();
      EXPECT_TRUE(text.find(fake.failed() + " failed: ") != text.npos ||
                  text.find("is out of memory: 1024 bytes asked for") != text.npos)
          << k << " " << fake.failed() << ": " << text;
    }
    EXPECT_EQ(fake.leaks(), "") << "call " << k << ", " << fake.failed();
  }
  // All but releases and context pops are looked at.
  EXPECT_GT(thrown, calls / 2);
}

TEST(CudaFaults, AfterAFailedCallTheDeviceGoesOn) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  const LaunchList list = {make_launch(module->kernel("first"), 0), make_launch(module->kernel("second"), 1)};
  for (const char* function : {"cuStreamBeginCapture", "cuLaunchKernelEx", "cuStreamEndCapture",
                               "cuGraphInstantiateWithParams", "cuGraphUpload"}) {
    fake.fail_function(function, CUDA_ERROR_UNKNOWN);
    const std::string message = message_of([&] { device->record(list); }, ErrorKind::Device);
    EXPECT_EQ(message.rfind(std::string(function) + " failed: CUDA_ERROR_UNKNOWN (999): as the fake says", 0),
              0u)
        << message;
    fake.no_faults();
    fake.launches.clear();
    device->run(list);
    EXPECT_EQ(fake.launches.size(), 2u) << "run after a failed " << function;
    device->record(list)->launch();
    EXPECT_EQ(fake.launches.size(), 4u) << "record after a failed " << function;
  }
}

TEST(CudaFaults, AFailedLaunchNamesTheKernelAndItsShape) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  Launch launch = make_launch(module->kernel("k"), 0);
  launch.block = 2000;
  EXPECT_EQ(
      message_of([&] { device->run({launch}); }, ErrorKind::Device),
      "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [kernel k, grid 3x1x1, block "
      "2000x1x1, shared 100000]");
}

TEST(CudaFaults, OutOfMemorySaysWhatWasAskedForAndWhatIsFree) {
  FakeDriver fake;
  fake.total_bytes = 1000;
  const auto device = open_cuda(0);
  const Buffer some = device->allocate(600);
  EXPECT_EQ(message_of([&] { device->allocate(500); }, ErrorKind::Device),
            "cuda:0 is out of memory: 500 bytes asked for, 400 of 1000 bytes free. Use smaller batches, or a "
            "device with "
            "more memory");
  EXPECT_EQ(device->allocate(400).bytes(), 400u);
}

TEST(CudaFaults, AMissingKernelIsNamed) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  EXPECT_EQ(message_of([&] { module->kernel("other"); }, ErrorKind::Internal),
            "the compiled module has no kernel other");
}

TEST(CudaFaults, AKernelIsLookedUpOnce) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  EXPECT_EQ(module->kernel("k"), module->kernel("k"));
  EXPECT_EQ(fake.count("cuModuleGetFunction"), 1u);
}

TEST(CudaFaults, AKernelOfTheCpuIsRefused) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  EXPECT_EQ(message_of([&] { device->cpu_kernel("k", {}, {}); }, ErrorKind::Internal),
            "k is a kernel of the cpu device, this is cuda:0 Fake GPU, sm_90, driver R580 (CUDA 13.0)");
}

TEST(CudaOpen, NoGpuIsUnavailableAndSaysWhatToCheck) {
  FakeDriver fake;
  fake.gpus = 0;
  EXPECT_EQ(
      message_of([] { open_cuda(0); }, ErrorKind::Unavailable),
      "CUDA is not available: cuInit failed: CUDA_ERROR_NO_DEVICE (100): as the fake says [driver R580 (CUDA "
      "13.0)]. Check the GPU with nvidia-smi, or use --device cpu.");
  EXPECT_EQ(Device::open("auto")->kind(), Kind::Cpu);
}

TEST(CudaOpen, AGpuThatIsNotThereIsNamedWithThoseThatAre) {
  FakeDriver fake;
  EXPECT_EQ(message_of([] { Device::open("cuda:1"); }, ErrorKind::Unavailable),
            "there is no cuda:1: expected cuda:0. Check CUDA_VISIBLE_DEVICES");
  fake.gpus = 3;
  EXPECT_EQ(message_of([] { Device::open("cuda:3"); }, ErrorKind::Unavailable),
            "there is no cuda:3: expected cuda:0 to cuda:2. Check CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(Device::open("cuda:2")->description(), "cuda:2 Fake GPU, sm_90, driver R580 (CUDA 13.0)");
  EXPECT_EQ(fake.leaks(), "");
}

TEST(CudaLaunches, ARecordingLaunchesWhatRunLaunches) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  const LaunchList list = {make_launch(module->kernel("first"), 4),
                           make_launch(module->kernel("second"), 5, true)};
  device->run(list);
  auto plain = std::exchange(fake.launches, {});
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[0].kernel, "first");
  EXPECT_EQ(plain[0].shared_bytes, 100000u);
  EXPECT_FALSE(plain[0].dependent);
  EXPECT_TRUE(plain[1].dependent);
  ASSERT_EQ(plain[1].params.size(), 20u);
  EXPECT_EQ(plain[1].params[0], 0x88);
  EXPECT_EQ(plain[1].params[16], 5);

  const auto recording = device->record(list);
  EXPECT_TRUE(fake.launches.empty());
  recording->launch();
  for (Launched& l : plain) l.in_graph = true;
  EXPECT_EQ(fake.launches, plain);
}

TEST(CudaLaunches, TheCopyOfATableTakesTwoAddresses) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  const Buffer from = device->allocate_pinned(4096), to = device->allocate(4096);
  Launch copy;
  copy.kernel = module->kernel("k");
  copy.grid = 2;
  copy.block = 64;
  set_copy_params(&copy, from.address(), to.address());
  device
      ->record(
          {copy, make_launch(module->kernel("first"), 0), make_launch(module->kernel("second"), 1, true)})
      ->launch();
  ASSERT_EQ(fake.launches.size(), 3u);
  ASSERT_EQ(fake.launches[0].params.size(), 16u);
  uint64_t addresses[2];
  std::memcpy(addresses, fake.launches[0].params.data(), 16);
  EXPECT_EQ(addresses[0], from.address());
  EXPECT_EQ(addresses[1], to.address());
  EXPECT_FALSE(fake.launches[1].dependent);
  EXPECT_TRUE(fake.launches[2].dependent);
}

TEST(CudaLaunches, DependentLaunchesAreLeftOutWhereTheMachineIsTooOldForThem) {
  {
    FakeDriver fake(12020);  // graphs know programmatic edges from 12.3 on
    const auto device = open_cuda(0);
    const auto module = device->load(kCubin);
    const LaunchList list = {make_launch(module->kernel("k"), 0, true)};
    device->run(list);
    device->record(list)->launch();
    ASSERT_EQ(fake.launches.size(), 2u);
    EXPECT_TRUE(fake.launches[0].dependent);
    EXPECT_FALSE(fake.launches[1].dependent);
  }
  FakeDriver fake;
  fake.major = 8;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  device->run({make_launch(module->kernel("k"), 0, true)});
  EXPECT_FALSE(fake.launches.at(0).dependent);
}

TEST(CudaLaunches, TheGpuHoldsUnitsTimesBlocks) {
  FakeDriver fake;
  const auto device = open_cuda(0);
  const auto module = device->load(kCubin);
  EXPECT_EQ(module->kernel("k")->resident_blocks(512, 0), 16u);
}

TEST(CudaLaunches, MemoryAndRecordingsMayOutliveTheDevice) {
  FakeDriver fake;
  {
    Buffer buffer, pinned;
    std::unique_ptr<Recording> recording;
    std::unique_ptr<Module> module;
    {
      const auto device = open_cuda(0);
      buffer = device->allocate(64);
      pinned = device->allocate_pinned(64);
      module = device->load(kCubin);
      recording = device->record({make_launch(module->kernel("k"), 0)});
    }
    recording->launch();
    EXPECT_EQ(fake.launches.size(), 1u);
  }
  EXPECT_EQ(fake.leaks(), "");
}

}  // namespace
}  // namespace rondo::device
