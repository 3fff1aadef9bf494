#include "rondo/device/cpu_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "rondo/base/options.h"
#include "rondo/device/checks.h"
#include "rondo/device/thread_pool.h"
#include "rondo/error.h"

namespace rondo::device {
namespace {

constexpr size_t kAlignment = 256;

struct HostBytes final : Buffer::Owner {
  explicit HostBytes(size_t bytes)
      : data(bytes > SIZE_MAX - kAlignment
                 ? nullptr
                 : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)) {}
  ~HostBytes() override { std::free(data); }
  void* data;
};

// What the kernels of one device share; kernels and recordings keep it alive.
struct Workers {
  explicit Workers(uint32_t count) : pool(count), scratch(pool.workers()) {}

  // Each worker's own, on its own cache lines.
  void need_scratch(uint32_t floats) {
    if (floats <= scratch_floats) return;
    for (auto& s : scratch) {
      s = std::make_unique<HostBytes>(floats * sizeof(float));
      if (!s->data)
        throw Error(ErrorKind::Device,
                    fmt::format("the cpu is out of memory: {} bytes of scratch asked for", floats * 4));
    }
    scratch_floats = floats;
  }

  ThreadPool pool;
  std::vector<std::unique_ptr<HostBytes>> scratch;
  uint32_t scratch_floats = 0;
};

class CpuLaunch final : public Kernel {
 public:
  CpuLaunch(std::string name, std::vector<const abi::CpuKernel*> items, CpuTable table,
            std::shared_ptr<Workers> workers)
      : Kernel(std::move(name)), items_(std::move(items)), table_(table), workers_(std::move(workers)) {
    for (const abi::CpuKernel* item : items_) workers_->need_scratch(item->scratch_floats);
    ends_.resize(items_.size());
  }
  uint32_t resident_blocks(uint32_t, uint32_t) const override { return 1; }

  void run(const Launch& launch) const {
    if (launch.param_bytes != kParamBytes)
      throw Error(ErrorKind::Internal, fmt::format("launch of {} has {} bytes of parameters, expected {}",
                                                   name(), launch.param_bytes, kParamBytes));
    uint64_t table_address, weights_address;
    uint32_t level;
    std::memcpy(&table_address, launch.params, 8);
    std::memcpy(&weights_address, launch.params + 8, 8);
    std::memcpy(&level, launch.params + 16, 4);
    const auto* table = reinterpret_cast<const uint32_t*>(table_address);
    const auto* weights = reinterpret_cast<const float*>(weights_address);

    // Tiles of all items lie one after the other; ends_[i] is where those of item i end.
    uint32_t tiles = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      const size_t descriptor =
          table_.header_words + (size_t{level} * table_.blocks + items_[i]->block) * (2 + table_.bases);
      if (const uint32_t count = table[descriptor]) tiles += items_[i]->tiles(count);
      ends_[i] = tiles;
    }
    workers_->pool.run(tiles, [&](uint32_t tile, uint32_t worker) {
      const auto at = std::upper_bound(ends_.begin(), ends_.end(), tile) - ends_.begin();
      const uint32_t start = at == 0 ? 0 : ends_[static_cast<size_t>(at - 1)];
      const auto& scratch = workers_->scratch[worker];
      items_[static_cast<size_t>(at)]->run(table, weights, level, tile - start,
                                           scratch ? static_cast<float*>(scratch->data) : nullptr);
    });
  }

 private:
  std::vector<const abi::CpuKernel*> items_;
  CpuTable table_;
  std::shared_ptr<Workers> workers_;
  mutable std::vector<uint32_t> ends_;  // of one run; a Device is used by one thread at a time
};

void run_list(const LaunchList& list) {
  for (const Launch& launch : list) static_cast<const CpuLaunch*>(launch.kernel)->run(launch);
}

struct CpuRecording final : Recording {
  explicit CpuRecording(LaunchList l) : list(std::move(l)) {}
  void launch() override { run_list(list); }
  LaunchList list;
};

struct CpuMark final : Mark {
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(uint32_t threads) : workers_(std::make_shared<Workers>(threads)) {}

  Kind kind() const override { return Kind::Cpu; }
  std::string description() const override {
    return fmt::format("cpu, {} thread{}", units(), units() == 1 ? "" : "s");
  }
  std::string architecture() const override { return ""; }
  uint32_t units() const override { return workers_->pool.workers(); }
  Memory memory() const override {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return {static_cast<size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page,
            static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * page};
  }

  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    // Linux promises more than there is and ends the process when it is used.
    const Memory m = memory();
    if (bytes > m.total_bytes) fail_allocation("the cpu", bytes, m);
    auto owner = std::make_unique<HostBytes>(bytes);
    if (!owner->data) fail_allocation("the cpu", bytes, m);
    const auto address = reinterpret_cast<uint64_t>(owner->data);
    return Buffer(std::move(owner), address, bytes);
  }
  Buffer allocate_pinned(size_t bytes) override { return allocate(bytes); }

  void upload(const Buffer& to, size_t offset, const void* from, size_t bytes) override {
    check_range("upload", to, offset, bytes);
    if (bytes) std::memcpy(to.as<char>() + offset, from, bytes);
  }
  void download(void* to, const Buffer& from, size_t offset, size_t bytes) override {
    check_range("download", from, offset, bytes);
    if (bytes) std::memcpy(to, from.as<char>() + offset, bytes);
  }
  void fill_zero(const Buffer& buffer, size_t offset, size_t bytes) override {
    check_range("fill", buffer, offset, bytes);
    if (bytes) std::memset(buffer.as<char>() + offset, 0, bytes);
  }
  void synchronize() override {}

  void run(const LaunchList& list) override { run_list(list); }
  std::unique_ptr<Recording> record(const LaunchList& list) override {
    return std::make_unique<CpuRecording>(list);
  }

  std::unique_ptr<Mark> mark() override { return std::make_unique<CpuMark>(); }
  double elapsed_ms(const Mark& from, const Mark& to) override {
    return std::chrono::duration<double, std::milli>(static_cast<const CpuMark&>(to).at -
                                                     static_cast<const CpuMark&>(from).at)
        .count();
  }

  std::unique_ptr<Module> load(std::span<const char>) override {
    throw Error(ErrorKind::Internal, "a cubin cannot be loaded on the cpu device");
  }
  std::unique_ptr<Kernel> cpu_kernel(std::string name, std::vector<const abi::CpuKernel*> items,
                                     CpuTable table) override {
    return std::make_unique<CpuLaunch>(std::move(name), std::move(items), table, workers_);
  }

 private:
  std::shared_ptr<Workers> workers_;
};

}  // namespace

std::unique_ptr<Device> open_cpu(uint32_t threads) {
  if (threads == 0) threads = static_cast<uint32_t>(options().threads);
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace rondo::device
