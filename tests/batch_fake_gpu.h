// A device that says it is a GPU: memory of its own (a host pointer in the table would crash or be noticed),
// launches that are logged, recordings that can be refused, a limit on memory. Kernels are those of the cpu
// device, and one that brings the table as batch/abi.h says.
#pragma once
#include <cstring>
#include <map>

#include "rondo/device/cpu_device.h"
#include "rondo/device/device.h"
#include "rondo/error.h"

namespace rondo::test {

class FakeGpu final : public device::Device {
 public:
  struct Log {
    int recorded = 0, replayed = 0, run = 0;
    size_t launches = 0, uploads = 0, downloads = 0, copied_bytes = 0;
    device::LaunchList last;
  };
  explicit FakeGpu(size_t memory_bytes = SIZE_MAX) : free_(std::make_shared<size_t>(memory_bytes)) {}

  Log log;
  bool refuse_to_record = false;
  const device::Kernel* copy_table() const { return &copy_table_; }

  device::Kind kind() const override { return device::Kind::Cuda; }
  std::string description() const override { return "fake gpu"; }
  std::string architecture() const override { return "sm_90"; }
  uint32_t units() const override { return 4; }
  device::Memory memory() const override { return {*free_, *free_}; }

  device::Buffer allocate(size_t bytes) override {
    if (bytes > *free_)
      throw Error(ErrorKind::Device, "fake gpu is out of memory: " + std::to_string(bytes) + " bytes asked for");
    struct Owner final : device::Buffer::Owner {
      Owner(std::shared_ptr<size_t> f, device::Buffer m) : free(std::move(f)), memory(std::move(m)) {
        *free -= memory.bytes();
      }
      ~Owner() override { *free += memory.bytes(); }
      std::shared_ptr<size_t> free;
      device::Buffer memory;
    };
    auto owner = std::make_unique<Owner>(free_, cpu_->allocate(bytes));
    std::memset(owner->memory.as<char>(), 0xff, bytes);  // NaN
    const uint64_t address = owner->memory.address();
    return device::Buffer(std::move(owner), address, bytes);
  }
  device::Buffer allocate_pinned(size_t bytes) override { return cpu_->allocate(bytes); }
  void upload(const device::Buffer& to, size_t offset, const void* from, size_t bytes) override {
    ++log.uploads;
    cpu_->upload(to, offset, from, bytes);
  }
  void download(void* to, const device::Buffer& from, size_t offset, size_t bytes) override {
    ++log.downloads;
    cpu_->download(to, from, offset, bytes);
  }
  void fill_zero(const device::Buffer& b, size_t offset, size_t bytes) override { cpu_->fill_zero(b, offset, bytes); }
  void synchronize() override {}

  void run(const device::LaunchList& list) override {
    ++log.run;
    execute(list);
  }
  std::unique_ptr<device::Recording> record(const device::LaunchList& list) override {
    if (refuse_to_record) throw Error(ErrorKind::Device, "cuStreamEndCapture failed: fake");
    ++log.recorded;
    struct Replay final : device::Recording {
      FakeGpu* gpu;
      device::LaunchList list;
      void launch() override {
        ++gpu->log.replayed;
        gpu->execute(list);
      }
    };
    auto replay = std::make_unique<Replay>();
    replay->gpu = this;
    replay->list = list;
    return replay;
  }
  std::unique_ptr<device::Mark> mark() override { return cpu_->mark(); }
  double elapsed_ms(const device::Mark& from, const device::Mark& to) override { return cpu_->elapsed_ms(from, to); }
  std::unique_ptr<device::Module> load(std::span<const char>) override { return nullptr; }
  std::unique_ptr<device::Kernel> cpu_kernel(std::string name, std::vector<const abi::CpuKernel*> items,
                                             device::CpuTable table) override {
    return cpu_->cpu_kernel(std::move(name), std::move(items), table);
  }

 private:
  void execute(const device::LaunchList& list) {
    log.launches += list.size();
    log.last = list;
    for (const device::Launch& launch : list)
      if (launch.kernel == &copy_table_)
        copy(launch);
      else
        cpu_->run({launch});
  }
  void copy(const device::Launch& launch) {
    uint64_t from = 0, to = 0;
    std::memcpy(&from, launch.params, 8);
    std::memcpy(&to, launch.params + 8, 8);
    const size_t count =
        std::max<size_t>(*reinterpret_cast<const uint32_t*>(from), size_t{launch.grid} * launch.block);
    log.copied_bytes += count * abi::kCopyPieceBytes;
    std::memcpy(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from) + abi::kCopyHeadBytes,
                count * abi::kCopyPieceBytes);
  }
  struct CopyTable final : device::Kernel {
    CopyTable() : Kernel("rondo_copy_table") {}
    uint32_t resident_blocks(uint32_t, uint32_t) const override { return 1; }
  };
  CopyTable copy_table_;
  std::unique_ptr<device::Device> cpu_ = device::open_cpu(2);
  std::shared_ptr<size_t> free_;
};

}  // namespace rondo::test
