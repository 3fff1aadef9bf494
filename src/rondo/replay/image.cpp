// Reading a graph: its nodes and edges, and kernels. Copies are in image_copies.cpp.
#include "rondo/replay/image.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "rondo/base/hash.h"
#include "rondo/driver/driver.h"
#include "rondo/replay/image_parts.h"

namespace rondo::replay {
namespace {

using driver::Driver;
using graph::NodeKind;

// ---------------------------------------------------------------- text of what is only compared

std::string hex(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  std::string text;
  text.reserve(2 * bytes);
  for (size_t i = 0; i < bytes; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", p[i]);
  return text;
}
void add_words(const std::vector<uint8_t>& bytes, std::vector<uint64_t>* to) {
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    to->push_back(word);
  }
}

// ---------------------------------------------------------------- kernels

// Where the parameters of a kernel lie, or why that is not known.
struct Layout {
  std::vector<Parameter> parameters;
  std::string unknown;
};

Layout read_layout([[maybe_unused]] const Driver& d, [[maybe_unused]] const CUDA_KERNEL_NODE_PARAMS& p) {
  Layout out;
#if CUDA_VERSION >= 12040
  const bool by_function = p.func && d.cuFuncGetParamInfo;
  if (!by_function && !(p.kern && d.cuKernelGetParamInfo)) {
    out.unknown =
        fmt::format("where its parameters lie is told by driver {} and newer, this is {}. Update the driver",
                    driver::driver_name(12040), driver::driver_name(d.version));
    return out;
  }
  for (size_t i = 0;; ++i) {
    size_t offset = 0, bytes = 0;
    const CUresult code = by_function ? d.cuFuncGetParamInfo(p.func, i, &offset, &bytes)
                                      : d.cuKernelGetParamInfo(p.kern, i, &offset, &bytes);
    if (code == CUDA_ERROR_INVALID_VALUE) return out;  // there is no i-th
    if (code != CUDA_SUCCESS) {
      out.unknown =
          fmt::format("the driver does not tell where its parameters lie: {}", driver::describe(d, code));
      return out;
    }
    out.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
  }
#else
  out.unknown =
      "where its parameters lie is not known to a Rondo that was built with CUDA headers before 12.4. Build "
      "it "
      "with newer ones";
  return out;
#endif
}

// The block that `extra` holds: {POINTER, p, SIZE, &n, END}, the pairs in any order.
bool packed_block(void* const* extra, const uint8_t** block, size_t* bytes) {
  *block = nullptr, *bytes = 0;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *block = static_cast<const uint8_t*>(extra[i + 1]);
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    else
      return false;  // a form from the future
  }
  return *block || *bytes == 0;
}

size_t end_of(const std::vector<Parameter>& parameters) {
  size_t end = 0;
  for (const Parameter& p : parameters) end = std::max<size_t>(end, p.offset + p.size);
  return end;
}

// What lies between parameters is whatever lay on the caller's stack, and no kernel reads it.
void clear_gaps(const std::vector<Parameter>& parameters, std::vector<uint8_t>* bytes) {
  std::vector<uint8_t> clean(bytes->size());
  const size_t end = end_of(parameters);
  const auto keep = [&](size_t at, size_t count) {
    std::memcpy(clean.data() + at, bytes->data() + at, count);
  };
  for (const Parameter& p : parameters) keep(p.offset, p.size);
  if (end < bytes->size()) keep(end, bytes->size() - end);
  bytes->swap(clean);
}

// Attributes by their ids, with how much of the value counts: they are not patched, and a launch
// configuration that depends on an address shows here.
constexpr struct {
  int id;
  size_t bytes;
} kAttributes[] = {{1, 28} /* access policy window */,
                   {2, 4} /* cooperative */,
                   {4, 12} /* cluster */,
                   {8, 4} /* priority */,
                   {9, 2} /* domain map */,
                   {10, 4} /* domain */};

void read_attributes([[maybe_unused]] const Driver& d, NodeImage* to) {
  for (const auto& [id, bytes] : kAttributes) {
    const std::optional<CUlaunchAttributeValue> value =
        to->node.attribute(static_cast<CUlaunchAttributeID>(id));
    static constexpr CUlaunchAttributeValue kNone{};
    if (!value || std::memcmp(&*value, &kNone, bytes) == 0) continue;
    to->rest += fmt::format("attribute {} {}\n", id, hex(&*value, bytes));
    if (id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
      to->rest_words.push_back(reinterpret_cast<uint64_t>(value->accessPolicyWindow.base_ptr));
  }
#if CUDA_VERSION >= 12040
  if (d.version < 12040) return;
  const auto updatable = to->node.attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
  if (updatable && updatable->deviceUpdatableKernelNode.deviceUpdatable)
    to->why_not =
        "a kernel may change it on the device, and what it is then nobody knows here. Launch this graph as "
        "it is";
#endif
}

using Layouts = std::unordered_map<const void*, Layout>;

void read_kernel(const Driver& d, Layouts* layouts, NodeImage* to) {
  const CUDA_KERNEL_NODE_PARAMS p = to->node.kernel();
  to->kernel = p;
  to->kernel.kernelParams = to->kernel.extra = nullptr;
  read_attributes(d, to);
  const void* function = p.func ? static_cast<const void*>(p.func) : p.kern;
  auto known = layouts->find(function);
  if (known == layouts->end()) known = layouts->emplace(function, read_layout(d, p)).first;
  const Layout& layout = known->second;
  if (p.extra) {
    const uint8_t* block = nullptr;
    size_t bytes = 0;
    if (!packed_block(p.extra, &block, &bytes)) {
      to->why_not = "its parameters are packed in a form that this build of Rondo does not know";
      return;
    }
    to->packed = true;
    to->bytes.assign(block, block + bytes);
    if (!layout.parameters.empty() && end_of(layout.parameters) <= bytes) {
      to->parameters = layout.parameters;
      clear_gaps(to->parameters, &to->bytes);
    } else if (bytes) {
      to->parameters = {{0, static_cast<uint32_t>(bytes)}};
    }
    return;
  }
  if (!p.kernelParams) {
    if (!layout.parameters.empty()) to->why_not = "the driver does not tell its parameters";
    return;
  }
  if (!layout.unknown.empty()) {
    to->why_not = layout.unknown;
    return;
  }
  to->parameters = layout.parameters;
  to->bytes.resize(end_of(to->parameters));
  for (size_t i = 0; i < to->parameters.size(); ++i)
    std::memcpy(to->bytes.data() + to->parameters[i].offset, p.kernelParams[i], to->parameters[i].size);
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
  const Driver& d = driver::driver();
  Image image;
  Layouts layouts;
  CopyReader copies(d, arguments, pageable);
  std::unordered_map<CUgraphNode, uint32_t> position;
  for (const graph::NodeView& node : graph.nodes()) {
    position[node.get()] = static_cast<uint32_t>(image.nodes.size());
    NodeImage& to = image.nodes.emplace_back();
    to.node = node;
    to.kind = node.kind();
    switch (to.kind) {
      case NodeKind::Kernel:
        read_kernel(d, &layouts, &to);
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

void point_at(const NodeImage& image, uint8_t* bytes, void** pointers, PackedParameters* packed,
              CUDA_KERNEL_NODE_PARAMS* to) noexcept {
  *to = image.kernel;
  if (image.packed) {
    packed->bytes = image.bytes.size();
    void** e = packed->extra;
    e[0] = CU_LAUNCH_PARAM_BUFFER_POINTER, e[1] = bytes;
    e[2] = CU_LAUNCH_PARAM_BUFFER_SIZE, e[3] = &packed->bytes;
    e[4] = CU_LAUNCH_PARAM_END;
    to->extra = e;
  } else if (!image.parameters.empty()) {
    for (size_t i = 0; i < image.parameters.size(); ++i) pointers[i] = bytes + image.parameters[i].offset;
    to->kernelParams = pointers;
  }
}

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

// ---------------------------------------------------------------- structure

namespace {

std::string kernel_name([[maybe_unused]] const Driver& d, [[maybe_unused]] const CUDA_KERNEL_NODE_PARAMS& p) {
#if CUDA_VERSION >= 12030
  const char* name = nullptr;
  if (p.func && d.cuFuncGetName && d.cuFuncGetName(&name, p.func) == CUDA_SUCCESS && name) return name;
  if (p.kern && d.cuKernelGetName && d.cuKernelGetName(&name, p.kern) == CUDA_SUCCESS && name) return name;
#endif
  return "";
}

void hash_structure(const Driver& d, const Image& image, Hasher* h) {
  h->number(image.nodes.size());
  for (const NodeImage& n : image.nodes) {
    h->number(static_cast<uint64_t>(n.kind)).number(n.bytes.size()).number(n.table.size());
    switch (n.kind) {
      case NodeKind::Kernel: {
        const auto& k = n.kernel;
        h->text(kernel_name(d, k)).number(n.packed);
        for (unsigned size : {k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ})
          h->number(size);
        h->number(k.sharedMemBytes).number(n.parameters.size());
        for (const Parameter& p : n.parameters) h->number(p.offset).number(p.size);
        break;
      }
      case NodeKind::Memcpy: {
        CUDA_MEMCPY3D c;
        std::memcpy(&c, n.bytes.data(), sizeof c);
        h->number(c.srcMemoryType).number(c.dstMemoryType);
        h->number(c.WidthInBytes).number(c.Height).number(c.Depth);
        break;
      }
      case NodeKind::Memset: {
        CUDA_MEMSET_NODE_PARAMS m;
        std::memcpy(&m, n.bytes.data(), sizeof m);
        h->number(m.elementSize).number(m.width).number(m.height);
        break;
      }
      case NodeKind::Alloc:
        h->number(n.address_bytes);
        break;
      case NodeKind::Child:
        hash_structure(d, read_image(n.node.child(), {}), h);
        break;
      default:
        break;
    }
  }
  h->number(image.edges.size());
  for (size_t i = 0; i < image.edges.size(); ++i) {
    const graph::EdgeData& e = image.edge_data[i];
    h->number(image.edges[i].first).number(image.edges[i].second);
    h->number(e.from_port).number(e.to_port).number(e.type);
  }
}

}  // namespace

uint64_t structure_of(const Image& image) {
  Hasher h;
  hash_structure(driver::driver(), image, &h);
  return h.finish().low;
}

}  // namespace rondo::replay
