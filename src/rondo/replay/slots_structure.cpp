// Whether two captures of the same work launch the same.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "rondo/replay/slots_parts.h"

namespace rondo::replay {
namespace {

// The driver promises no order among edges.
auto edges_of(const Image& image) {
  std::vector<std::tuple<uint32_t, uint32_t, uint8_t, uint8_t, uint8_t>> edges;
  for (size_t i = 0; i < image.edges.size(); ++i) {
    const graph::EdgeData data = i < image.edge_data.size() ? image.edge_data[i] : graph::kFull;
    edges.emplace_back(image.edges[i].first, image.edges[i].second, data.from_port, data.to_port, data.type);
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

std::string other_launch(const CUDA_KERNEL_NODE_PARAMS& x, const CUDA_KERNEL_NODE_PARAMS& y) {
  using graph::Dim3;
  const auto differ = [](const char* what, Dim3 p, Dim3 q) {
    return fmt::format("{} {}x{}x{} in one capture and {}x{}x{} in another", what, p.x, p.y, p.z, q.x, q.y,
                       q.z);
  };
  const Dim3 grid(x.gridDimX, x.gridDimY, x.gridDimZ), other_grid(y.gridDimX, y.gridDimY, y.gridDimZ);
  const Dim3 block(x.blockDimX, x.blockDimY, x.blockDimZ), other_block(y.blockDimX, y.blockDimY, y.blockDimZ);
  if (x.func != y.func || x.kern != y.kern || x.ctx != y.ctx)
    return "another kernel in another capture of the work, which chooses it by an address or by what is no "
           "argument";
  if (!(grid == other_grid)) return differ("grid", grid, other_grid);
  if (!(block == other_block)) return differ("block", block, other_block);
  if (x.sharedMemBytes != y.sharedMemBytes)
    return fmt::format("{} bytes of shared memory in one capture and {} in another", x.sharedMemBytes,
                       y.sharedMemBytes);
  return "";
}

std::string other_rest(const NodeImage& x, const NodeImage& y) {
  if (x.kind == graph::NodeKind::Child)
    return "two captures differ inside a child graph, where nothing is patched";
  const auto [p, q] = std::mismatch(x.rest.begin(), x.rest.end(), y.rest.begin(), y.rest.end());
  const auto line = [](const std::string& s, std::string::const_iterator at) {
    const auto begin = std::find(std::make_reverse_iterator(at), s.rend(), '\n').base();
    return std::string(begin, std::find(at, s.end(), '\n'));
  };
  return fmt::format("\"{}\" in one capture and \"{}\" in another, and that is not patched", line(x.rest, p),
                     line(y.rest, q));
}

}  // namespace

std::string other_graph(const Image& first, const Image& second, uint32_t* node) {
  *node = 0;
  const size_t count = first.nodes.size();
  if (second.nodes.size() != count)
    return fmt::format(
        "two captures of the work have {} and {} nodes: what it launches depends on more than its "
        "signature",
        count, second.nodes.size());
  for (uint32_t i = 0; i < count; ++i)
    if (first.nodes[i].kind != second.nodes[i].kind) {
      *node = i;
      return fmt::format("it is a {} node in another capture of the work", graph::name(second.nodes[i].kind));
    }
  if (edges_of(first) != edges_of(second))
    return "two captures of the work have the same nodes and other edges: it orders them differently";
  return "";
}

std::string other_node(const NodeImage& x, const NodeImage& y) {
  if (x.kind == graph::NodeKind::Kernel)
    if (std::string other = other_launch(x.kernel, y.kernel); !other.empty()) return other;
  if (x.packed != y.packed) return "its parameters are packed in one capture only";
  if (x.rest != y.rest) return other_rest(x, y);
  if (x.address_bytes != y.address_bytes)
    return fmt::format("it allocates {} bytes in one capture and {} in another", x.address_bytes,
                       y.address_bytes);
  if (x.bytes.size() != y.bytes.size())
    return fmt::format("{} bytes of parameters in one capture and {} in another", x.bytes.size(),
                       y.bytes.size());
  if (x.table.size() != y.table.size() || x.pageable != y.pageable)
    return "it copies from host memory of another kind in another capture";
  return "";
}

}  // namespace rondo::replay
