// Where tensors go: a graph over the specialised program with a node for each place that holds tensors and an
// edge from each place to those that it is copied to or computed into, through calls, loops and regions.
// Hoisting, phases and depth are questions about its paths.
//
// Tuples are followed element by element, lists as one element that stands for all, an algebraic value as one
// place. A function has one set of nodes for all its callers, so the graph says what may happen, never what
// must.
#pragma once
#include <vector>

#include "rondo/analysis/layout.h"
#include "rondo/ir/ir.h"

namespace rondo::analysis {

struct FlowNode {
  int32_t function = 0;
  ir::Value value = ir::kNone;
  int32_t part = 0;     // which of the value's places
  int32_t region = -1;  // that defines the value
};
struct FlowEdge {
  int32_t to = 0;
  bool mark = false;  // through a Phase operation
};

struct Flow {
  std::vector<Layout> layouts;  // an entry a function
  std::vector<FlowNode> nodes;
  std::vector<std::vector<int32_t>> first;  // [function][value]: its first node
  std::vector<std::vector<int32_t>> count;  // [function][value]: how many it has
  std::vector<std::vector<FlowEdge>> out;   // an entry a node
  std::vector<std::vector<int32_t>> in;

  int32_t node(int32_t function, ir::Value v) const {  // of a tensor
    return first[static_cast<size_t>(function)][static_cast<size_t>(v)];
  }
};
Flow find_flow(const ir::Program& specialised);

}  // namespace rondo::analysis
