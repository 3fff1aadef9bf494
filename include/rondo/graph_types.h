// What the graph headers share: features by driver version, streams and events, kinds of nodes, edges, kernel
// calls.
//
// Every handle is the driver's own (CUstream, CUevent, CUgraph ...), and those are the run-time API's too
// (cudaStream_t and CUstream are one type), so code of both APIs and Rondo's pass handles to each other as
// they are. Owners convert to their handle where a function asks for one. Headers of CUDA 12.0 or newer
// compile this file; what a driver lacks answers with Error(Unavailable) at the call. Destructors never throw
// and never fail, also while a capture is going on.
#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rondo/error.h"

namespace rondo::driver {
struct Driver;
}

namespace rondo::graph {

// ---------------------------------------------------------------- features
// What came after CUDA 12.0, which is the oldest driver that Rondo runs on.
enum class Feature {
  EdgeData,           // 12.3: programmatic and launch-order edges
  CaptureToGraph,     // 12.3
  Conditional,        // 12.3: IF and WHILE
  DeviceUpdatable,    // 12.4: kernel nodes whose parameters a kernel changes
  ConditionalElse,    // 12.8
  ConditionalSwitch,  // 12.8
  ChildMove,          // 12.9
};

// "a conditional node"
const char* name(Feature feature) noexcept;
// Of the driver and of the headers that Rondo was built with. Throws Error(Unavailable) when there is no
// driver.
bool has(Feature feature);
// Throws Error(Unavailable): "a conditional node needs driver R545 (CUDA 12.3), this is R535 (CUDA 12.2).
// Update ...".
void require(Feature feature);

// ---------------------------------------------------------------- streams and events
// A stream: made and owned here, or someone else's. A function that takes a CUstream takes a Stream. One that
// was moved from or released is null, which the driver reads as the legacy stream.
class Stream {
 public:
  // A new non-blocking stream of the current context: the kind to capture on, because it ignores the legacy
  // stream (a blocking one makes every default-stream call of the process fail with 906 while it captures).
  // Lower numbers are more urgent; 0 is the default priority. Errors: Device.
  static Stream create(int priority = 0);
  // Destroyed by the result.
  static Stream adopt(CUstream stream);
  // Not destroyed. Must outlive the result.
  static Stream borrow(CUstream stream) noexcept { return Stream(nullptr, stream); }

  Stream(Stream&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();

  operator CUstream() const noexcept { return stream_; }
  CUstream get() const noexcept { return stream_; }
  bool owned() const noexcept { return owner_ != nullptr; }
  CUstream release() noexcept {
    owner_ = nullptr;
    return std::exchange(stream_, nullptr);
  }
  // Waits for the work in it. Errors: Device, with the cause when a capture forbids it (900).
  void synchronize() const;
  // Whether it takes part in a capture now, also a broken one.
  bool capturing() const;

 private:
  Stream(const driver::Driver* owner, CUstream stream) noexcept : owner_(owner), stream_(stream) {}
  const driver::Driver* owner_;  // null: borrowed
  CUstream stream_;
};

// An event, as Stream is a stream.
class Event {
 public:
  // Without times, which makes record and wait cheapest. Errors: Device.
  static Event create(unsigned flags = CU_EVENT_DISABLE_TIMING);
  static Event adopt(CUevent event);
  static Event borrow(CUevent event) noexcept { return Event(nullptr, event); }

  Event(Event&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  operator CUevent() const noexcept { return event_; }
  CUevent get() const noexcept { return event_; }
  CUevent release() noexcept {
    owner_ = nullptr;
    return std::exchange(event_, nullptr);
  }
  // In a capture: marks the point in the captured work; only streams of that capture may wait for it.
  void record(CUstream stream) const;
  // In a capture: becomes an event-record node, which records a real event at every launch.
  void record_external(CUstream stream) const;
  void wait_in(CUstream stream) const;
  // In a capture: becomes an event-wait node.
  void wait_external_in(CUstream stream) const;

 private:
  Event(const driver::Driver* owner, CUevent event) noexcept : owner_(owner), event_(event) {}
  const driver::Driver* owner_;
  CUevent event_;
};

// ---------------------------------------------------------------- nodes and edges
// As CUgraphNodeType counts; Unknown is a kind newer than this build.
enum class NodeKind {
  Unknown = -1,
  Kernel = 0,
  Memcpy,
  Memset,
  Host,
  Child,
  Empty,
  EventWait,
  EventRecord,
  SemaphoreSignal,
  SemaphoreWait,
  Alloc,
  Free,
  BatchMemOp,
  Conditional,
};
// "kernel", "event wait" ...
const char* name(NodeKind kind) noexcept;

// When an edge lets its target go on; the fields are those of CUgraphEdgeData. Anything but a full edge needs
// a driver of CUDA 12.3, and comes from a kernel node.
struct EdgeData {
  uint8_t from_port = 0;  // 0 the end of the node, 1 its trigger, 2 the start of its last block
  uint8_t to_port = 0;
  uint8_t type =
      0;  // 0 ordinary, 1 programmatic: the target, a kernel, waits by itself (griddepcontrol.wait)
  bool full() const noexcept { return from_port == 0 && to_port == 0 && type == 0; }
  bool operator==(const EdgeData&) const = default;
};
// The target starts when the source has ended, and sees its memory.
inline constexpr EdgeData kFull{0, 0, 0};
// Kernel to kernel: the target may start once every block of the source has triggered
// (griddepcontrol.launch_dependents), and waits for the source's memory with griddepcontrol.wait.
inline constexpr EdgeData kProgrammatic{1, 0, 1};
// The target starts when every block of the source has begun; nothing is said about memory.
inline constexpr EdgeData kLaunchOrder{2, 0, 0};
// Both: starts at the begin of the source's blocks, and may wait for its memory.
inline constexpr EdgeData kProgrammaticLaunchOrder{2, 0, 1};

// "full", "programmatic", "launch order", "programmatic launch order" or the numbers.
std::string name(const EdgeData& data);

// ---------------------------------------------------------------- kernels
struct Dim3 {
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) noexcept : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
  bool operator==(const Dim3&) const = default;
};

// The attributes of a kernel node, by what they mean. Each is a CUlaunchAttribute with its id and value.
namespace attribute {
CUlaunchAttribute priority(int value) noexcept;
CUlaunchAttribute cluster(Dim3 blocks) noexcept;
CUlaunchAttribute cooperative(bool on = true) noexcept;
CUlaunchAttribute access_policy(const CUaccessPolicyWindow& window) noexcept;
CUlaunchAttribute memory_sync_domain(CUlaunchMemSyncDomain domain) noexcept;
// Marks the node as changeable from the device. NodeView::attribute() of
// CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE then gives the device's handle of the node; the exec must
// be uploaded before a kernel changes it. The graph can be instantiated once, not cloned, and its execs take
// no whole-graph update. Throws Error(Unavailable) before CUDA 12.4.
CUlaunchAttribute device_updatable();
}  // namespace attribute

// A kernel node's parameters, as a view: what it points to must live until the call that takes it returns
// (the driver copies arguments and attributes).
struct KernelParams {
  KernelParams(const CUDA_KERNEL_NODE_PARAMS& params, std::span<const CUlaunchAttribute> a = {}) noexcept
      : raw(&params), attributes(a) {}
  const CUDA_KERNEL_NODE_PARAMS* raw;
  std::span<const CUlaunchAttribute> attributes;
};

namespace detail {
inline void set_function(CUDA_KERNEL_NODE_PARAMS* p, CUfunction function) noexcept { p->func = function; }
inline void set_function(CUDA_KERNEL_NODE_PARAMS* p, CUkernel kernel) noexcept { p->kern = kernel; }
inline void set_shape(CUDA_KERNEL_NODE_PARAMS* p, Dim3 grid, Dim3 block, unsigned shared_bytes) noexcept {
  p->gridDimX = grid.x, p->gridDimY = grid.y, p->gridDimZ = grid.z;
  p->blockDimX = block.x, p->blockDimY = block.y, p->blockDimZ = block.z;
  p->sharedMemBytes = shared_bytes;
}
}  // namespace detail

// A kernel with its arguments, each kept by value in the type that is given here: it must be the type of the
// kernel's parameter (a float for a double is not converted).
//
//     graph.add(kernel(function, {blocks}, {256}, 0, pointer, count, 1.5f));
template <class... Args>
class KernelCall {
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernel arguments are copied byte by byte");

 public:
  // Written member by member, in place: copies of what was just written cost more than the driver's own
  // bookkeeping.
  template <class Function>
  KernelCall(Function function, Dim3 grid, Dim3 block, unsigned shared_bytes, const Args&... args)
      : args_(args...) {
    detail::set_function(&params_, function);
    detail::set_shape(&params_, grid, block, shared_bytes);
  }
  // Adds an attribute: kernel(...).with(attribute::priority(-1)).
  KernelCall& with(const CUlaunchAttribute& attribute) & {
    attributes_.push_back(attribute);
    return *this;
  }
  KernelCall&& with(const CUlaunchAttribute& attribute) && {
    attributes_.push_back(attribute);
    return std::move(*this);
  }
  template <size_t I>
  auto& arg() noexcept {
    return std::get<I>(args_);
  }
  // Valid as long as this object lives and is not moved; by one thread at a time, because it points into
  // here.
  operator KernelParams() const noexcept {
    std::apply(
        [&](auto&... a) {
          size_t i = 0;
          ((pointers_[i++] = const_cast<void*>(static_cast<const void*>(&a))), ...);
        },
        args_);
    params_.kernelParams = sizeof...(Args) ? pointers_.data() : nullptr;
    return KernelParams(params_, attributes_);
  }

 private:
  mutable CUDA_KERNEL_NODE_PARAMS params_{};
  std::tuple<Args...> args_;
  mutable std::array<void*, sizeof...(Args) + 1> pointers_;
  std::vector<CUlaunchAttribute> attributes_;
};

inline CUDA_KERNEL_NODE_PARAMS kernel_shape(CUfunction function, Dim3 grid, Dim3 block,
                                            unsigned shared_bytes) noexcept {
  CUDA_KERNEL_NODE_PARAMS p{};
  detail::set_function(&p, function);
  detail::set_shape(&p, grid, block, shared_bytes);
  return p;
}

// Function is a CUfunction (cudaFunction_t) or a CUkernel (cudaKernel_t).
template <class Function, class... Args>
KernelCall<std::decay_t<Args>...> kernel(Function function, Dim3 grid, Dim3 block, unsigned shared_bytes,
                                         const Args&... args) {
  return KernelCall<std::decay_t<Args>...>(function, grid, block, shared_bytes, args...);
}

}  // namespace rondo::graph
