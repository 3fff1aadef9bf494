// A captured graph read as data: what each node does, as bytes that can be compared, searched and written
// back.
//
// Comes in: a graph. Goes out: an Image; an exec whose nodes are set from an Image's bytes. Others rely on:
// nodes in the order of adding, so that two captures of the same work pair by position; `bytes` hold
// everything of a node that an update in place may change.
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
  // Free: the address.
  uint64_t address = 0, address_bytes = 0;
  // A copy from host memory that is no argument: what lay there when the graph was read (at most
  // kMostTableBytes).
  std::vector<uint8_t> table;
  bool pageable = false;  // `table` lay in pageable memory: the recording needs a copy of its own
  // Everything else that must be equal in both captures: attributes, host function, events, child graphs (as
  // text), ...; and the words of it that may be addresses.
  std::string rest;
  std::vector<uint64_t> rest_words;
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

// What is believed of pageable memory that the work copied from. A plain copy has read it when its call
// returns, so the work may have freed it by the time the graph is read, and nothing can tell: pointers made
// of what lies there then would end the context. Static memory of the program stays, and is always read.
enum class Pageable { MayBeGone, Kept };

// `arguments`: buffers that the work was captured with. Errors: Device.
Image read_image(const graph::GraphView& graph, const std::vector<Span64>& arguments,
                 Pageable pageable = Pageable::MayBeGone);

// A kernel's parameters in the form in which the driver takes them: `to` points into `bytes`, and into
// `pointers` or `packed`, which must all stay where they are. `pointers`: as many as `parameters`.
struct PackedParameters {
  void* extra[5] = {};
  size_t bytes = 0;
};
void point_at(const NodeImage& image, uint8_t* bytes, void** pointers, PackedParameters* packed,
              CUDA_KERNEL_NODE_PARAMS* to) noexcept;

// Writes the bytes of `image` into the node of `exec`; of a node without bytes there is nothing to write.
// Errors: Device.
void set_node(graph::GraphExec* exec, const NodeImage& image);

// Of what is launched whatever the arguments: kinds, names of kernels, shapes, edges, sizes. No address and
// no handle is in it, so that it is the same in every process of the same program on the same driver. Errors:
// Device.
uint64_t structure_of(const Image& image);

// A copy of one row between linear memory: the only kind that an executable graph takes new addresses for.
bool one_row(const CUDA_MEMCPY3D& copy) noexcept;
// Where in a CUDA_MEMCPY3D the address of its source stands.
uint32_t source_offset(const CUDA_MEMCPY3D& copy) noexcept;

}  // namespace rondo::replay
