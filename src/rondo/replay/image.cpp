// Reading a graph: its nodes and edges. Kernels are in image_kernels.cpp, copies in image_copies.cpp.
#include "rondo/replay/image.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "rondo/driver/driver.h"
#include "rondo/replay/image_parts.h"

namespace rondo::replay {
namespace {

using graph::NodeKind;

// ---------------------------------------------------------------- text of what is only compared

void add_words(const std::vector<uint8_t>& bytes, std::vector<uint64_t>* to) {
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    to->push_back(word);
  }
}

// ---------------------------------------------------------------- other nodes

void read_operations(NodeImage* to) {
  const CUDA_BATCH_MEM_OP_NODE_PARAMS p = to->node.batch();
  to->rest = fmt::format("flags {}\n", p.flags);
  for (unsigned i = 0; i < p.count; ++i) {
    const CUstreamBatchMemOpParams& o = p.paramArray[i];
    const int operation = static_cast<int>(o.operation);
    // The members that count: `alias` is the driver's, and unions have padding.
    switch (operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
        const bool wide =
            operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        to->rest += fmt::format("operation {} address {:#x} value {:#x} flags {}\n", operation,
                                static_cast<uint64_t>(o.waitValue.address),
                                wide ? static_cast<uint64_t>(o.waitValue.value64) : o.waitValue.value,
                                o.waitValue.flags);
        to->rest_words.push_back(o.waitValue.address);
        break;
      }
      default:
        to->rest += fmt::format("operation {} flags {}\n", operation, o.flushRemoteWrites.flags);
    }
  }
}

void read_alloc(NodeImage* to) {
  const CUDA_MEM_ALLOC_NODE_PARAMS p = to->node.alloc();
  to->address = p.dptr;
  to->address_bytes = p.bytesize;
  to->rest = fmt::format("type {} handles {} at {} {}\n", static_cast<int>(p.poolProps.allocType),
                         static_cast<int>(p.poolProps.handleTypes),
                         static_cast<int>(p.poolProps.location.type), p.poolProps.location.id);
  for (size_t i = 0; i < p.accessDescCount; ++i)
    to->rest += fmt::format("access {} {} {}\n", static_cast<int>(p.accessDescs[i].location.type),
                            p.accessDescs[i].location.id, static_cast<int>(p.accessDescs[i].flags));
}

// A child as text: nothing in it is patched, so all of it must be the same.
void read_child(const std::vector<Span64>& arguments, Pageable pageable, NodeImage* to) {
  const Image inner = read_image(to->node.child(), arguments, pageable);
  for (size_t i = 0; i < inner.nodes.size(); ++i) {
    const NodeImage& n = inner.nodes[i];
    const auto& k = n.kernel;
    to->rest += fmt::format("{} {} {} {}x{}x{} {}x{}x{} {} {} {:#x} {} [{}] [{}] {}\n", i,
                            graph::name(n.kind), k.func ? static_cast<const void*>(k.func) : k.kern,
                            k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ,
                            k.sharedMemBytes, n.packed, n.address, n.address_bytes,
                            hex(n.bytes.data(), n.bytes.size()), hex(n.table.data(), n.table.size()), n.rest);
    add_words(n.bytes, &to->rest_words);
    add_words(n.table, &to->rest_words);
    to->rest_words.insert(to->rest_words.end(), n.rest_words.begin(), n.rest_words.end());
    if (!to->why_not.empty()) continue;
    if (!n.why_not.empty())
      to->why_not = fmt::format("inside a child graph, {}: {}", n.node.describe(), n.why_not);
    else if (n.pageable)
      to->why_not = fmt::format(
          "inside a child graph, {} copies from pageable memory, which may be gone at a replay. Page-lock it",
          n.node.describe());
  }
  for (size_t i = 0; i < inner.edges.size(); ++i)
    to->rest += fmt::format("{} -> {} {}\n", inner.edges[i].first, inner.edges[i].second,
                            graph::name(inner.edge_data[i]));
}

void read_rest(NodeImage* to) {
  switch (to->kind) {
    case NodeKind::Host: {
      const CUDA_HOST_NODE_PARAMS p = to->node.host();
      to->rest = fmt::format("function {} data {}\n", reinterpret_cast<const void*>(p.fn), p.userData);
      to->rest_words = {reinterpret_cast<uint64_t>(p.userData)};
      break;
    }
    case NodeKind::EventRecord:
    case NodeKind::EventWait:
      to->rest = fmt::format("event {}\n", static_cast<const void*>(to->node.event()));
      break;
    case NodeKind::SemaphoreSignal: {
      const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS p = to->node.signal();
      for (unsigned i = 0; i < p.numExtSems; ++i)
        to->rest += fmt::format("semaphore {} {}\n", static_cast<const void*>(p.extSemArray[i]),
                                hex(&p.paramsArray[i], sizeof p.paramsArray[i]));
      break;
    }
    case NodeKind::SemaphoreWait: {
      const CUDA_EXT_SEM_WAIT_NODE_PARAMS p = to->node.wait();
      for (unsigned i = 0; i < p.numExtSems; ++i)
        to->rest += fmt::format("semaphore {} {}\n", static_cast<const void*>(p.extSemArray[i]),
                                hex(&p.paramsArray[i], sizeof p.paramsArray[i]));
      break;
    }
    case NodeKind::BatchMemOp:
      read_operations(to);
      break;
    case NodeKind::Alloc:
      read_alloc(to);
      break;
    case NodeKind::Free:
      to->address = to->node.freed();
      break;
    case NodeKind::Conditional:
      to->why_not = "the driver does not tell what a conditional node holds. Launch this graph as it is";
      break;
    case NodeKind::Unknown:
      to->why_not = "its kind is newer than this build of Rondo";
      break;
    default:
      break;
  }
}

// Memory that comes and goes with a launch: each allocation is freed in the graph, and nothing else is.
void match_memory(Image* image) {
  std::unordered_map<uint64_t, size_t> open;  // address -> alloc node
  for (size_t i = 0; i < image->nodes.size(); ++i) {
    NodeImage& n = image->nodes[i];
    if (n.kind == NodeKind::Alloc) {
      open[n.address] = i;
    } else if (n.kind == NodeKind::Free) {
      if (const auto at = open.find(n.address); at != open.end()) {
        n.rest = fmt::format("of node {}\n", at->second);
        open.erase(at);
      } else {
        n.why_not = fmt::format(
            "it frees memory at {:#x} that the work did not allocate, which a second launch cannot. Free it "
            "outside",
            n.address);
      }
    }
  }
  for (const auto& [address, at] : open)
    image->nodes[at].why_not = fmt::format(
        "the work does not free its {} bytes at {:#x}, so that it can be launched once only. Free it in the "
        "work, "
        "or allocate it outside",
        image->nodes[at].address_bytes, address);
}

}  // namespace

Image read_image(const graph::GraphView& graph, const std::vector<Span64>& arguments, Pageable pageable) {
  const driver::Driver& d = driver::driver();
  Image image;
  KernelReader kernels(d);
  CopyReader copies(d, arguments, pageable);
  std::unordered_map<CUgraphNode, uint32_t> position;
  for (const graph::NodeView& node : graph.nodes()) {
    position[node.get()] = static_cast<uint32_t>(image.nodes.size());
    NodeImage& to = image.nodes.emplace_back();
    to.node = node;
    to.kind = node.kind();
    switch (to.kind) {
      case NodeKind::Kernel:
        kernels.read(&to);
        ++image.kernels;
        break;
      case NodeKind::Memcpy:
        copies.read(&to);
        break;
      case NodeKind::Memset:
        copies.read_fill(&to);
        break;
      case NodeKind::Child:
        read_child(arguments, pageable, &to);
        break;
      default:
        read_rest(&to);
    }
  }
  copies.finish(&image);
  match_memory(&image);
  for (const graph::Edge& edge : graph.edges()) {
    image.edges.emplace_back(position.at(edge.from.get()), position.at(edge.to.get()));
    image.edge_data.push_back(edge.data);
  }
  return image;
}

// ---------------------------------------------------------------- writing

void set_node(graph::GraphExec* exec, const NodeImage& image) {
  std::vector<uint8_t> bytes = image.bytes;
  switch (image.kind) {
    case NodeKind::Kernel: {
      std::vector<void*> pointers(image.parameters.size());
      PackedParameters packed;
      CUDA_KERNEL_NODE_PARAMS params{};
      point_at(image, bytes.data(), pointers.data(), &packed, &params);
      exec->set(image.node, graph::KernelParams(params));
      break;
    }
    case NodeKind::Memcpy: {
      CUDA_MEMCPY3D params;
      std::memcpy(&params, bytes.data(), sizeof params);
      exec->set(image.node, params);
      break;
    }
    case NodeKind::Memset: {
      CUDA_MEMSET_NODE_PARAMS params;
      std::memcpy(&params, bytes.data(), sizeof params);
      exec->set(image.node, params);
      break;
    }
    default:
      break;
  }
}

}  // namespace rondo::replay
