// A captured graph read as data: what each node does, as bytes that can be compared, searched and written back.
//
// Comes in: a graph. Goes out: an Image; an exec whose nodes are set from an Image's bytes. Others rely on: nodes
// in the order of adding, so that two captures of the same work pair by position; `bytes` hold everything of a
// node that an update in place may change.
#pragma once
#include <string>
#include <vector>

#include "rondo/graph.h"

namespace rondo::replay {

// The parameter block of a kernel: one parameter after the other where the driver says they lie.
struct Parameter {
  uint32_t offset = 0, size = 0;
};

struct NodeImage {
  graph::NodeView node;
  graph::NodeKind kind = graph::NodeKind::Unknown;
  // Kernel: the parameter block. Memcpy: a CUDA_MEMCPY3D. Memset: a CUDA_MEMSET_NODE_PARAMS. Else empty.
  std::vector<uint8_t> bytes;
  // Kernel: function, grid, block and shared bytes; its pointers are null.
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<Parameter> parameters;  // of a kernel
  bool packed = false;                // the parameters came as one block through `extra`
  // Alloc: what the graph allocates for itself (address and bytes), which lies elsewhere in every capture.
  uint64_t address = 0, address_bytes = 0;
  // A copy from host memory that is no argument: what lay there when the graph was read (at most kMostTableBytes).
  std::vector<uint8_t> table;
  // Everything else that must be equal in both captures: host function, events, child graphs (as text), ...
  std::string rest;
  std::string why_not;  // not empty: this node cannot be read, or not be replayed soundly, and why
};

constexpr size_t kMostTableBytes = size_t{1} << 20;

struct Image {
  std::vector<NodeImage> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // by position in nodes, in the driver's order
  std::vector<graph::EdgeData> edge_data;
  size_t kernels = 0;
};

// Where host memory of the caller's is that a copy may use: arguments.
struct Span64 {
  uint64_t base = 0, bytes = 0;
  bool holds(uint64_t address) const noexcept { return address - base < bytes; }
};

// `arguments`: buffers that the work was captured with. Errors: Device.
Image read_image(const graph::GraphView& graph, const std::vector<Span64>& arguments);

// Writes the bytes of `image` into the node of `exec`. Costs one call of the driver. Errors: Device.
void set_node(graph::GraphExec* exec, const NodeImage& image);

}  // namespace rondo::replay
