#include "rondo/device/cuda_device.h"

#include <cuda.h>
#include <fmt/format.h>

#include <map>

#include "rondo/base/trace.h"
#include "rondo/device/checks.h"
#include "rondo/driver/driver.h"
#include "rondo/error.h"
#include "rondo/graph.h"

namespace rondo::device {
namespace {

using driver::Driver;

// Programmatic dependent launches become graph edges from CUDA 12.3 on; a capture by an older driver refuses
// them.
constexpr int kDependentInGraphs = 12030;
// Compute capability that has griddepcontrol.
constexpr int kDependentMajor = 9;

// A GPU, its context and the stream. Everything that the device hands out keeps it alive.
struct Context {
  explicit Context(const Driver& driver) : d(driver) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int attribute(CUdevice_attribute which) const {
    int value = 0;
    RONDO_CU(d, cuDeviceGetAttribute(&value, which, device));
    return value;
  }

  const Driver& d;
  int ordinal = 0;
  CUdevice device = 0;
  CUcontext handle = nullptr;
  CUstream stream = nullptr;
  int major = 0, minor = 0, units = 0, shared_limit = 0;
  std::string name;
};
using ContextPtr = std::shared_ptr<Context>;

// Makes the context current for a scope and leaves the thread's stack of contexts as it was.
class Current {
 public:
  explicit Current(const Context& c) : d_(c.d) { RONDO_CU(d_, cuCtxPushCurrent(c.handle)); }
  ~Current() {
    CUcontext ignored = nullptr;
    (void)d_.cuCtxPopCurrent(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& d_;
};

// For destructors: what cannot be released (the process is ending, the context is lost) is left to the
// driver.
template <class Release>
void quietly(const Context& c, const Release& release) noexcept {
  CUcontext ignored = nullptr;
  const bool pushed = c.d.cuCtxPushCurrent(c.handle) == CUDA_SUCCESS;
  release();
  if (pushed) (void)c.d.cuCtxPopCurrent(&ignored);
}

Context::~Context() {
  if (stream) quietly(*this, [&] { (void)d.cuStreamDestroy(stream); });
  if (handle) (void)d.cuDevicePrimaryCtxRelease(device);
}

ContextPtr open_context(int ordinal) {
  const Driver& d = driver::driver();
  if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
    throw Error(
        ErrorKind::Unavailable,
        fmt::format(
            "CUDA is not available: cuInit failed: {} [driver {}]. Check the GPU with nvidia-smi, or use "
            "--device cpu.",
            driver::describe(d, code), d.name()));
  int count = 0;
  RONDO_CU(d, cuDeviceGetCount(&count));
  if (ordinal >= count)
    throw Error(
        ErrorKind::Unavailable,
        count == 0
            ? "CUDA is not available: the driver sees no GPU. Check CUDA_VISIBLE_DEVICES, or use --device "
              "cpu."
            : fmt::format("there is no cuda:{}: expected cuda:0{}. Check CUDA_VISIBLE_DEVICES", ordinal,
                          count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
  auto c = std::make_shared<Context>(d);
  c->ordinal = ordinal;
  RONDO_CU(d, cuDeviceGet(&c->device, ordinal));
  char name[256] = "";
  RONDO_CU(d, cuDeviceGetName(name, sizeof name, c->device));
  c->name = name;
  c->major = c->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  c->minor = c->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  c->units = c->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  c->shared_limit = c->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  RONDO_CU_WITH(d, cuDevicePrimaryCtxRetain(&c->handle, c->device),
                fmt::format("cuda:{} {}", ordinal, c->name));
  const Current current(*c);
  RONDO_CU(d, cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
  return c;
}

// ---------------------------------------------------------------- what a device hands out

struct DeviceBytes final : Buffer::Owner {
  explicit DeviceBytes(ContextPtr c) : context(std::move(c)) {}
  ~DeviceBytes() override {
    if (address) quietly(*context, [&] { (void)context->d.cuMemFree(address); });
  }
  ContextPtr context;
  CUdeviceptr address = 0;
};

struct PinnedBytes final : Buffer::Owner {
  explicit PinnedBytes(ContextPtr c) : context(std::move(c)) {}
  // A copy from or to it may still be under way.
  ~PinnedBytes() override {
    if (!data) return;
    quietly(*context, [&] {
      (void)context->d.cuStreamSynchronize(context->stream);
      (void)context->d.cuMemFreeHost(data);
    });
  }
  ContextPtr context;
  void* data = nullptr;
};

class CudaKernel final : public Kernel {
 public:
  CudaKernel(std::string name, const Context& c, CUfunction function)
      : Kernel(std::move(name)), context_(c), function_(function) {
    int fixed = 0;
    RONDO_CU_WITH(c.d, cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
                  this->name());
    // 48 KiB of dynamic shared memory unless asked for more; asked for once, here, since it may not be in a
    // capture.
    RONDO_CU_WITH(
        c.d,
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, c.shared_limit - fixed),
        this->name());
  }

  uint32_t resident_blocks(uint32_t threads, uint32_t shared_bytes) const override {
    const Current current(context_);
    int blocks = 0;
    RONDO_CU_WITH(context_.d,
                  cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_, static_cast<int>(threads),
                                                              shared_bytes),
                  fmt::format("kernel {}, block {}, shared {}", name(), threads, shared_bytes));
    return static_cast<uint32_t>(blocks * context_.units);
  }

  void launch(const Launch& l, bool dependent) const {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = l.grid;
    config.blockDimX = l.block;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = l.shared_bytes;
    config.hStream = context_.stream;
    config.attrs = &attribute;
    config.numAttrs = dependent ? 1 : 0;
    size_t bytes = l.param_bytes;
    void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t*>(l.params),
                      CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    RONDO_CU_WITH(context_.d, cuLaunchKernelEx(&config, function_, nullptr, packed),
                  fmt::format("kernel {}, grid {}x1x1, block {}x1x1, shared {}", name(), l.grid, l.block,
                              l.shared_bytes));
  }

 private:
  const Context& context_;  // the module's
  CUfunction function_;
};

class CudaModule final : public Module {
 public:
  CudaModule(ContextPtr c, std::span<const char> cubin) : context_(std::move(c)) {
    const Current current(*context_);
    RONDO_CU_WITH(context_->d, cuModuleLoadDataEx(&module_, cubin.data(), 0, nullptr, nullptr),
                  fmt::format("cubin of {} bytes, for cuda:{} sm_{}{}", cubin.size(), context_->ordinal,
                              context_->major, context_->minor));
  }
  ~CudaModule() override {
    kernels_.clear();
    quietly(*context_, [&] { (void)context_->d.cuModuleUnload(module_); });
  }
  const Kernel* kernel(const std::string& name) override {
    std::unique_ptr<CudaKernel>& slot = kernels_[name];
    if (slot) return slot.get();
    const Current current(*context_);
    CUfunction function = nullptr;
    const CUresult code = context_->d.cuModuleGetFunction(&function, module_, name.c_str());
    if (code == CUDA_ERROR_NOT_FOUND)
      throw Error(ErrorKind::Internal, fmt::format("the compiled module has no kernel {}", name));
    if (code != CUDA_SUCCESS) driver::fail(context_->d, code, "cuModuleGetFunction(", "kernel " + name);
    slot = std::make_unique<CudaKernel>(name, *context_, function);
    return slot.get();
  }

 private:
  ContextPtr context_;
  CUmodule module_ = nullptr;
  std::map<std::string, std::unique_ptr<CudaKernel>> kernels_;
};

class CudaRecording final : public Recording {
 public:
  CudaRecording(ContextPtr c, graph::GraphExec exec) : context_(std::move(c)), exec_(std::move(exec)) {}
  ~CudaRecording() override {
    quietly(*context_, [&] { graph::GraphExec gone(std::move(exec_)); });
  }
  void launch() override {
    const Current current(*context_);
    exec_.launch(context_->stream);
  }

 private:
  ContextPtr context_;
  graph::GraphExec exec_;
};

struct CudaMark final : Mark {
  explicit CudaMark(ContextPtr c) : context(std::move(c)) {}
  ~CudaMark() override {
    if (event) quietly(*context, [&] { (void)context->d.cuEventDestroy(event); });
  }
  ContextPtr context;
  CUevent event = nullptr;
};

// ---------------------------------------------------------------- the device

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(ContextPtr c) : context_(std::move(c)), d_(context_->d) {}
  ~CudaDevice() override {
    // Buffers that outlive the device must not be written by work that is still under way.
    quietly(*context_, [&] { (void)d_.cuStreamSynchronize(context_->stream); });
  }

  Kind kind() const override { return Kind::Cuda; }
  std::string description() const override {
    return fmt::format("cuda:{} {}, {}, driver {}", context_->ordinal, context_->name, architecture(),
                       d_.name());
  }
  std::string architecture() const override {
    return fmt::format("sm_{}{}", context_->major, context_->minor);
  }
  uint32_t units() const override { return static_cast<uint32_t>(context_->units); }
  Memory memory() const override {
    const Current current(*context_);
    Memory m;
    RONDO_CU(d_, cuMemGetInfo(&m.free_bytes, &m.total_bytes));
    return m;
  }

  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    const Current current(*context_);
    auto owner = std::make_unique<DeviceBytes>(context_);
    check_allocated(d_.cuMemAlloc(&owner->address, bytes), "cuMemAlloc(", bytes);
    const uint64_t address = owner->address;
    return Buffer(std::move(owner), address, bytes);
  }
  Buffer allocate_pinned(size_t bytes) override {
    if (bytes == 0) return {};
    const Current current(*context_);
    auto owner = std::make_unique<PinnedBytes>(context_);
    if (const CUresult code = d_.cuMemHostAlloc(&owner->data, bytes, 0); code != CUDA_SUCCESS)
      driver::fail(d_, code, "cuMemHostAlloc(", fmt::format("{} bytes of host memory", bytes));
    const auto address = reinterpret_cast<uint64_t>(owner->data);
    return Buffer(std::move(owner), address, bytes);
  }

  void upload(const Buffer& to, size_t offset, const void* from, size_t bytes) override {
    check_range("upload", to, offset, bytes);
    if (bytes == 0) return;
    const Current current(*context_);
    RONDO_CU_WITH(d_, cuMemcpyHtoDAsync(to.address() + offset, from, bytes, context_->stream),
                  fmt::format("{} bytes", bytes));
  }
  void download(void* to, const Buffer& from, size_t offset, size_t bytes) override {
    check_range("download", from, offset, bytes);
    if (bytes == 0) return;
    const Current current(*context_);
    RONDO_CU_WITH(d_, cuMemcpyDtoHAsync(to, from.address() + offset, bytes, context_->stream),
                  fmt::format("{} bytes", bytes));
  }
  void fill_zero(const Buffer& buffer, size_t offset, size_t bytes) override {
    check_range("fill", buffer, offset, bytes);
    if (bytes == 0) return;
    const Current current(*context_);
    RONDO_CU_WITH(d_, cuMemsetD8Async(buffer.address() + offset, 0, bytes, context_->stream),
                  fmt::format("{} bytes", bytes));
  }
  void synchronize() override {
    const Current current(*context_);
    RONDO_CU_WITH(d_, cuStreamSynchronize(context_->stream),
                  "the fault may be of any work since the last synchronize");
  }

  void run(const LaunchList& list) override {
    const Current current(*context_);
    launch_all(list, context_->major >= kDependentMajor);
  }

  std::unique_ptr<Recording> record(const LaunchList& list) override {
    const trace::Span span("device.record",
                           trace::wants(trace::Level::Debug) ? fmt::format("{} launches", list.size()) : "");
    const Current current(*context_);
    const bool dependent = context_->major >= kDependentMajor && d_.version >= kDependentInGraphs;
    const graph::Graph graph = graph::capture(context_->stream, [&] { launch_all(list, dependent); });
    graph::GraphExec exec = graph.instantiate({.keep_source = false});  // it is never updated
    exec.upload(context_->stream);                                      // else the first launch pays for it
    return std::make_unique<CudaRecording>(context_, std::move(exec));
  }

  std::unique_ptr<Mark> mark() override {
    const Current current(*context_);
    auto mark = std::make_unique<CudaMark>(context_);
    RONDO_CU(d_, cuEventCreate(&mark->event, CU_EVENT_DEFAULT));
    RONDO_CU(d_, cuEventRecord(mark->event, context_->stream));
    return mark;
  }
  double elapsed_ms(const Mark& from, const Mark& to) override {
    const Current current(*context_);
    const CUevent start = static_cast<const CudaMark&>(from).event,
                  end = static_cast<const CudaMark&>(to).event;
    RONDO_CU(d_, cuEventSynchronize(end));
    float ms = 0;
    RONDO_CU(d_, cuEventElapsedTime(&ms, start, end));
    return ms;
  }

  std::unique_ptr<Module> load(std::span<const char> cubin) override {
    return std::make_unique<CudaModule>(context_, cubin);
  }
  std::unique_ptr<Kernel> cpu_kernel(std::string name, std::vector<const abi::CpuKernel*>,
                                     CpuTable) override {
    throw Error(ErrorKind::Internal,
                fmt::format("{} is a kernel of the cpu device, this is {}", name, description()));
  }

 private:
  void launch_all(const LaunchList& list, bool dependent) {
    for (const Launch& l : list)
      static_cast<const CudaKernel*>(l.kernel)->launch(l, dependent && l.dependent);
  }
  void check_allocated(CUresult code, const char* call, size_t bytes) const {
    if (code == CUDA_SUCCESS) return;
    Memory m;
    if (code == CUDA_ERROR_OUT_OF_MEMORY && d_.cuMemGetInfo(&m.free_bytes, &m.total_bytes) == CUDA_SUCCESS)
      fail_allocation(fmt::format("cuda:{}", context_->ordinal), bytes, m);
    driver::fail(d_, code, call, fmt::format("{} bytes", bytes));
  }

  ContextPtr context_;
  const Driver& d_;
};

}  // namespace

std::unique_ptr<Device> open_cuda(int ordinal) { return std::make_unique<CudaDevice>(open_context(ordinal)); }

}  // namespace rondo::device
