// What a graph launches whatever its arguments, as a number.
#include <cstring>

#include "rondo/base/hash.h"
#include "rondo/driver/driver.h"
#include "rondo/replay/image.h"

namespace rondo::replay {
namespace {

using driver::Driver;
using graph::NodeKind;

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
