#include <fmt/format.h>

#include "rondo/graph/state.h"

namespace rondo::graph {
namespace {

struct FeatureRow {
  const char* name;
  int cuda;
};
// In the order of Feature.
constexpr FeatureRow kFeatures[] = {
    {"a programmatic or launch-order edge", 12030},
    {"capture into an existing graph", 12030},
    {"a conditional node", 12030},
    {"a device-updatable kernel node", 12040},
    {"an if/else conditional node", 12080},
    {"a switch conditional node", 12080},
    {"moving a graph in as a child", 12090},
};
const FeatureRow& row(Feature feature) { return kFeatures[static_cast<int>(feature)]; }

}  // namespace

const char* name(Feature feature) noexcept { return row(feature).name; }

bool has(Feature feature) {
  return CUDA_VERSION >= row(feature).cuda && driver::driver().version >= row(feature).cuda;
}

void require(Feature feature) {
  const FeatureRow& f = row(feature);
  const int version = driver::driver().version;
  if (version < f.cuda)
    throw Error(ErrorKind::Unavailable,
                fmt::format("{} needs driver {}, this is {}. Update the driver, or ask has(Feature) before",
                            f.name, driver::driver_name(f.cuda), driver::driver_name(version)));
  if (CUDA_VERSION < f.cuda)
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("{} needs CUDA {}.{} headers, Rondo was built with {}.{}. Build it with newer ones",
                    f.name, f.cuda / 1000, f.cuda % 1000 / 10, CUDA_VERSION / 1000,
                    CUDA_VERSION % 1000 / 10));
}

// ---------------------------------------------------------------- streams and events

Stream Stream::create(int priority) {
  const driver::Driver& d = driver::driver();
  CUstream stream = nullptr;
  RONDO_GRAPH_CHECK(d, Build, cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority),
                    fmt::format("priority {}", priority));
  return Stream(&d, stream);
}

Stream Stream::adopt(CUstream stream) { return Stream(&driver::driver(), stream); }

Stream::~Stream() {
  if (owner_ && stream_) detail::let_through(*owner_, [&] { (void)owner_->cuStreamDestroy(stream_); });
}

void Stream::synchronize() const {
  RONDO_GRAPH_CHECK(driver::driver(), Capture, cuStreamSynchronize(stream_),
                    detail::describe_stream(stream_));
}

bool Stream::capturing() const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  RONDO_GRAPH_CHECK(driver::driver(), Capture, cuStreamIsCapturing(stream_, &status),
                    detail::describe_stream(stream_));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Event Event::create(unsigned flags) {
  const driver::Driver& d = driver::driver();
  CUevent event = nullptr;
  RONDO_GRAPH_CHECK(d, Build, cuEventCreate(&event, flags), fmt::format("flags {}", flags));
  return Event(&d, event);
}

Event Event::adopt(CUevent event) { return Event(&driver::driver(), event); }

Event::~Event() {
  if (owner_ && event_) detail::let_through(*owner_, [&] { (void)owner_->cuEventDestroy(event_); });
}

void Event::record(CUstream stream) const {
  RONDO_GRAPH_CHECK(driver::driver(), Capture, cuEventRecord(event_, stream),
                    detail::describe_stream(stream));
}
void Event::record_external(CUstream stream) const {
  RONDO_GRAPH_CHECK(driver::driver(), Capture,
                    cuEventRecordWithFlags(event_, stream, CU_EVENT_RECORD_EXTERNAL),
                    detail::describe_stream(stream));
}
void Event::wait_in(CUstream stream) const {
  RONDO_GRAPH_CHECK(driver::driver(), Capture, cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT),
                    detail::describe_stream(stream));
}
void Event::wait_external_in(CUstream stream) const {
  RONDO_GRAPH_CHECK(driver::driver(), Capture, cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_EXTERNAL),
                    detail::describe_stream(stream));
}

// ---------------------------------------------------------------- names

const char* name(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::Kernel:
      return "kernel";
    case NodeKind::Memcpy:
      return "memcpy";
    case NodeKind::Memset:
      return "memset";
    case NodeKind::Host:
      return "host";
    case NodeKind::Child:
      return "child graph";
    case NodeKind::Empty:
      return "empty";
    case NodeKind::EventWait:
      return "event wait";
    case NodeKind::EventRecord:
      return "event record";
    case NodeKind::SemaphoreSignal:
      return "semaphore signal";
    case NodeKind::SemaphoreWait:
      return "semaphore wait";
    case NodeKind::Alloc:
      return "alloc";
    case NodeKind::Free:
      return "free";
    case NodeKind::BatchMemOp:
      return "batch mem op";
    case NodeKind::Conditional:
      return "conditional";
    case NodeKind::Unknown:
      break;
  }
  return "unknown";
}

std::string name(const EdgeData& data) {
  if (data == kFull) return "full";
  if (data == kProgrammatic) return "programmatic";
  if (data == kLaunchOrder) return "launch order";
  if (data == kProgrammaticLaunchOrder) return "programmatic launch order";
  return fmt::format("port {} to port {}, type {}", data.from_port, data.to_port, data.type);
}

namespace detail {

std::string describe_node(const driver::Driver& d, CUgraphNode node) {
  CUgraphNodeType type{};
  if (!node || d.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return "unknown node";
#if CUDA_VERSION >= 12030
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && d.cuFuncGetName) {
    CUDA_KERNEL_NODE_PARAMS params{};
    const char* function = nullptr;
    if (d.cuGraphKernelNodeGetParams(node, &params) == CUDA_SUCCESS) {
      if (params.func && d.cuFuncGetName(&function, params.func) == CUDA_SUCCESS && function)
        return fmt::format("kernel node {}", function);
      if (params.kern && d.cuKernelGetName && d.cuKernelGetName(&function, params.kern) == CUDA_SUCCESS &&
          function)
        return fmt::format("kernel node {}", function);
    }
  }
#endif
  const bool known = type >= CU_GRAPH_NODE_TYPE_KERNEL && static_cast<int>(type) <= 13;
  return fmt::format("{} node", name(known ? static_cast<NodeKind>(type) : NodeKind::Unknown));
}

std::string describe_stream(CUstream stream) {
  if (!stream || stream == CU_STREAM_LEGACY) return "the legacy stream";
  if (stream == CU_STREAM_PER_THREAD) return "the per-thread default stream";
  return fmt::format("stream {}", static_cast<const void*>(stream));
}

}  // namespace detail

// ---------------------------------------------------------------- attributes of kernels

namespace attribute {
namespace {
CUlaunchAttribute make(CUlaunchAttributeID id) noexcept {
  CUlaunchAttribute a{};
  a.id = id;
  return a;
}
}  // namespace

CUlaunchAttribute priority(int value) noexcept {
  CUlaunchAttribute a = make(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  a.value.priority = value;
  return a;
}
CUlaunchAttribute cluster(Dim3 blocks) noexcept {
  CUlaunchAttribute a = make(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  a.value.clusterDim.x = blocks.x, a.value.clusterDim.y = blocks.y, a.value.clusterDim.z = blocks.z;
  return a;
}
CUlaunchAttribute cooperative(bool on) noexcept {
  CUlaunchAttribute a = make(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  a.value.cooperative = on;
  return a;
}
CUlaunchAttribute access_policy(const CUaccessPolicyWindow& window) noexcept {
  CUlaunchAttribute a = make(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
  a.value.accessPolicyWindow = window;
  return a;
}
CUlaunchAttribute memory_sync_domain(CUlaunchMemSyncDomain domain) noexcept {
  CUlaunchAttribute a = make(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  a.value.memSyncDomain = domain;
  return a;
}
CUlaunchAttribute device_updatable() {
  require(Feature::DeviceUpdatable);
  CUlaunchAttribute a =
      make(static_cast<CUlaunchAttributeID>(13));  // DEVICE_UPDATABLE_KERNEL_NODE, CUDA 12.4
#if CUDA_VERSION >= 12040
  a.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
#endif
  return a;
}

}  // namespace attribute
}  // namespace rondo::graph
