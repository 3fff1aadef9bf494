#include "rondo/replay/recapture.h"

#include <fmt/format.h>

#include "rondo/driver/driver.h"
#include "rondo/replay/memory.h"

namespace rondo::replay {
namespace {

bool pageable(const driver::Driver& d, CUmemorytype type, uint64_t device, const void* host) {
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_UNIFIED) return false;
  const uint64_t address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
  return memory_at(d, address) == Memory::Pageable;
}

// What a launch after the call would do otherwise than the call itself.
std::string unsafe(const graph::GraphView& graph) {
  const driver::Driver& d = driver::driver();
  for (const graph::NodeView& node : graph.nodes()) {
    switch (node.kind()) {
      case graph::NodeKind::Memcpy: {
        const CUDA_MEMCPY3D c = node.memcpy();
        if (pageable(d, c.srcMemoryType, c.srcDevice, c.srcHost) ||
            pageable(d, c.dstMemoryType, c.dstDevice, c.dstHost))
          return "it copies from or to ordinary host memory, which a launch would do later than the call";
        break;
      }
      case graph::NodeKind::Alloc:
      case graph::NodeKind::Free:
        return "it allocates memory, which graphs cannot be updated with";
      case graph::NodeKind::Conditional:
        return "it has conditions of its own";
      default:
        break;
    }
  }
  return "";
}

}  // namespace

bool Recapture::capture(const detail::WorkRef& work, std::span<const Argument> arguments) {
  graph_.reset();
  why_not_.clear();
  try {
    if (!stream_) stream_.emplace(graph::Stream::create());
    graph_.emplace(graph::capture(*stream_, [&](CUstream s) { work(s, arguments.data()); }));
    if (graph_->node_count() == 0)
      why_not_ = "it puts nothing into the stream that it is given";
    else
      why_not_ = unsafe(*graph_);
  } catch (const std::exception& e) {
    why_not_ = e.what();
  } catch (...) {
    why_not_ = "it throws something that is no std::exception while it is captured";
  }
  if (!why_not_.empty()) graph_.reset();
  return graph_.has_value();
}

bool Recapture::launch(CUstream stream) {
  try {
    if (!exec_) {
      exec_.emplace(graph_->instantiate());
      ++instantiated_;
    } else if (exec_->update_or_reinstantiate(*graph_).how == graph::UpdateHow::Reinstantiated) {
      ++instantiated_;
    }
    exec_->launch(stream);
    return true;
  } catch (const std::exception& e) {
    why_not_ = e.what();
    exec_.reset();
    return false;
  }
}

}  // namespace rondo::replay
