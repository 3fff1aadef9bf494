// A graph to look at: as a drawing, as data, compared with another one in words, and what it costs in memory.
//
//     std::cout << difference(yesterday, today);
//     // Same 3 nodes. Kernel node 1 (encode): grid 4x1x1 -> 8x1x1; edge 0 -> 1 became programmatic.
//     // This needs a new instantiation, because the edges differ.
//
// Nodes are numbered in topological order, ties in the order in which they were added; a node inside a child
// or a body is 4.2 or 4.then.2. No handle stands in the text, so the same graph gives the same text in every
// run, but for the addresses that it works on (LookOptions::addresses). Nothing is changed by looking, not
// even what Rondo knows about the graph. What a driver cannot tell is said, not guessed: kernel names need
// CUDA 12.3, parameters 12.4. Errors of every call here: Device.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rondo/graph_build.h"
#include "rondo/graph_exec.h"

namespace rondo::graph {

struct LookOptions {
  bool parameters = true;  // of kernels
  // Without them the text is the same in every run: addresses, and parameters of 8 bytes or more, which may
  // be or hold some, are left out.
  bool addresses = true;
};

// For Graphviz: `dot -Tsvg`. Children and bodies of conditions are clusters; an edge that carries data is
// dashed and says what.
std::string dot(const GraphView& graph, const LookOptions& options = {});

// One object: {"nodes": [...], "edges": [...], "totals": {...}}. Every node has "number" and "kind"; the rest
// is by kind: names, sizes, addresses (strings of hexadecimal digits), "bytes_moved" (null: nobody knows, as
// with kernels), "attributes" that are not the default, "graphs" (children and bodies, each such an object
// with a "label").
std::string json(const GraphView& graph, const LookOptions& options = {});

// What an update of an exec of the first graph to the second would meet. Nodes are paired as the driver does:
// by their place in the order of adding.
struct Difference {
  bool same = false;
  // By the driver's documented rules (cuGraphExecUpdate) and Rondo's for attributes; the driver has the last
  // word.
  bool in_place = false;
  std::vector<std::string> changes;     // "kernel node 1 (encode): grid 4x1x1 -> 8x1x1"
  std::string because;                  // when not in place: the first reason
  std::vector<std::string> conditions;  // when in place: that the driver checks and nobody else can
  std::vector<std::string> notes;       // what could not be compared
  size_t nodes = 0, other_nodes = 0;    // directly in the first, in the second
  std::string text() const;
};
Difference compare(const GraphView& first, const GraphView& second);
// compare(first, second).text()
std::string difference(const GraphView& first, const GraphView& second);

// ---------------------------------------------------------------- memory
// What execs of a graph take on the device: free memory before and after `execs` of them are made and
// uploaded. An estimate: the driver takes memory in blocks of up to some MiB and keeps some in hand, and what
// other threads and processes allocate meanwhile counts too. More execs give a better figure for one.
struct ExecMemory {
  size_t execs = 0;          // that were made; 1 for a graph that can have one exec at a time
  size_t nodes = 0;          // of the graph, those of children and bodies included
  int64_t device_bytes = 0;  // of all of them
  double bytes_per_exec() const noexcept {
    return execs ? static_cast<double>(device_bytes) / static_cast<double>(execs) : 0;
  }
};
// They are destroyed again. `graph` must have no exec if it can have one at a time only. Not in a capture.
ExecMemory measure_memory(const Graph& graph, size_t execs = 16);
// "16 execs of 100 nodes take 2.0 MiB on the device: about 128.0 KiB an exec, 1.3 KiB a node ..."
std::string describe(const ExecMemory& memory);
// "graphs use 1.0 MiB of memory that they allocate (at most 2.0 MiB so far) and hold 32.0 MiB ..."
std::string describe(const GraphMemory& memory);

}  // namespace rondo::graph
