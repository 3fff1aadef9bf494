// A place that kernels run on: memory, an ordered stream of work, launches. One interface, two devices: cpu,
// cuda.
//
// In: kernels (a loaded cubin; generated CPU kernels) and LaunchLists, which are data: run one now, or record
// it and launch the recording many times. All work of a Device happens in the order of the calls; upload,
// download, run and launch may return before it is done, synchronize() waits. A Device is used by one thread
// at a time. Everything a Device hands out may outlive it. Failures: Error(Device); no such device:
// Error(Unavailable).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/batch/abi.h"

namespace rondo::device {

enum class Kind { Cpu, Cuda };

// Owned bytes: device memory, or host memory that the device can copy from and to at full speed. 256-byte
// aligned.
class Buffer {
 public:
  struct Owner {
    virtual ~Owner() = default;
  };
  Buffer() = default;
  Buffer(std::unique_ptr<Owner> owner, uint64_t address, size_t bytes)
      : owner_(std::move(owner)), address_(address), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  uint64_t address() const { return address_; }  // as the device sees it
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return bytes_ != 0; }
  // Of memory from allocate_pinned, and of any memory of the cpu device.
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  std::unique_ptr<Owner> owner_;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
};

// A kernel that is ready to run. Must outlive launches and recordings that name it.
class Kernel {
 public:
  virtual ~Kernel() = default;
  const std::string& name() const { return name_; }
  // CUDA: how many blocks of `threads` threads and `shared_bytes` dynamic bytes are on the whole GPU at a
  // time. CPU: 1.
  virtual uint32_t resident_blocks(uint32_t threads, uint32_t shared_bytes) const = 0;

 protected:
  explicit Kernel(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

// A loaded cubin. Its kernels live as long as it does.
class Module {
 public:
  virtual ~Module() = default;
  // Throws Error(Internal) when there is none of that name.
  virtual const Kernel* kernel(const std::string& name) = 0;
};

struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t grid = 1, block = 1, shared_bytes = 0;
  // May start while the launch before it drains; the kernel itself waits (griddepcontrol.wait).
  bool dependent = false;
  alignas(8) uint8_t params[32] = {};
  uint32_t param_bytes = 0;
};
using LaunchList = std::vector<Launch>;

// The parameters of every batched kernel: (const uint32_t* table, const float* weights, uint32_t level).
void set_params(Launch* launch, uint64_t table, uint64_t weights, uint32_t level);
// Those of the kernel that brings the table (batch/abi.h): (const uint4* from, uint4* to).
void set_copy_params(Launch* launch, uint64_t from, uint64_t to);

// A LaunchList made ready to be launched as one.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void launch() = 0;
};

// A point of the stream, for timing.
class Mark {
 public:
  virtual ~Mark() = default;
};

// How the cpu device finds the count of a bucket: word header_words + (level * blocks + block) * (2 + bases)
// of the table (batch/abi.h).
struct CpuTable {
  uint32_t header_words = 0, blocks = 0, bases = 1;
};

struct Memory {
  size_t free_bytes = 0, total_bytes = 0;
};

class Device {
 public:
  // "cpu", "cuda" (the first GPU), "cuda:N", or "auto": cuda when there is one, else cpu with a note that
  // says why.
  static std::unique_ptr<Device> open(const std::string& which = "auto");
  virtual ~Device() = default;

  virtual Kind kind() const = 0;
  virtual std::string description()
      const = 0;  // "cuda:0 NVIDIA H200, sm_90, driver R580 (CUDA 13.0)", "cpu, 16 threads"
  virtual std::string architecture() const = 0;  // "sm_90"; cpu: ""
  virtual uint32_t units() const = 0;            // multiprocessors; worker threads
  virtual Memory memory() const = 0;

  // Uninitialised. Throws Error(Device) with the bytes asked for and the bytes free; the device stays usable.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual Buffer allocate_pinned(size_t bytes) = 0;

  // From/to host memory (pinned: in the background; else as if copied before the call returns). Ranges must
  // lie inside the buffer: Error(Internal) otherwise.
  virtual void upload(const Buffer& to, size_t offset, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const Buffer& from, size_t offset, size_t bytes) = 0;
  virtual void fill_zero(const Buffer& buffer, size_t offset, size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual void run(const LaunchList& list) = 0;
  // Never null; on the cpu, launch() is run(). Throws what the driver says when the list cannot become a
  // graph; the device stays usable and run() of the same list still works.
  virtual std::unique_ptr<Recording> record(const LaunchList& list) = 0;

  virtual std::unique_ptr<Mark> mark() = 0;                         // here
  virtual double elapsed_ms(const Mark& from, const Mark& to) = 0;  // waits for `to`

  // cuda only, else Error(Internal). shared_bytes of later launches may be anything up to the device's limit.
  virtual std::unique_ptr<Module> load(std::span<const char> cubin) = 0;
  // cpu only, else Error(Internal): the kernels of one plan::Launch; they are independent of each other, so
  // that all their tiles go into one parallel loop.
  virtual std::unique_ptr<Kernel> cpu_kernel(std::string name, std::vector<const abi::CpuKernel*> items,
                                             CpuTable table) = 0;
};

}  // namespace rondo::device
