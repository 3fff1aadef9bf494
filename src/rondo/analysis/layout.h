// Where operations stand: the regions of a function, numbered in program order, and which region holds which
// value. Also the few questions about single operations that every analysis asks.
//
// In: a verified ir::Function. Out: plain tables; they hold pointers into the function, which must outlive
// them unchanged.
// Region 0 is the body of the function; a region's number is larger than its parent's.
#pragma once
#include <functional>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::analysis {

struct RegionInfo {
  const ir::Region* region = nullptr;
  ir::Value owner = ir::kNone;  // the operation that holds it; kNone for the body
  int32_t index = 0;            // which of the owner's regions
  int32_t parent = -1;          // the region that holds the owner
};

struct Layout {
  std::vector<RegionInfo> regions;
  std::vector<int32_t> region_of;  // an entry a value: the region that holds it; -1 = none does

  bool encloses(int32_t outer, int32_t inner) const;  // a region encloses itself
};
Layout lay_out(const ir::Function& fn);

// Calls visit(op) for every operation of a region and of the regions inside, in program order, without
// parameters.
void for_each_op(const ir::Function& fn, const ir::Region& region,
                 const std::function<void(ir::Value)>& visit);

bool is_tensor_op(ir::Opcode code);  // Fill, Weight, pointwise, structure, Row, ToFloat: what kernels compute
bool is_loop(ir::Opcode code);       // Fold, Scan: an iteration uses the result of the one before
bool is_view(ir::Opcode code);  // Slice, Transpose, Reshape, Broadcast: other indices into the same numbers

// Strongly connected components of a graph given as successor lists. component[v] counts so that an edge
// never leads to a larger number: successors come first.
struct Components {
  std::vector<int32_t> component;
  int32_t count = 0;
};
Components strong_components(const std::vector<std::vector<int32_t>>& successors);

// The components of the call graph, and which functions can call themselves again.
struct CallGraph {
  Components components;
  std::vector<bool> recursive;
  bool same_recursion(int64_t a, int64_t b) const {
    return recursive[static_cast<size_t>(a)] &&
           components.component[static_cast<size_t>(a)] == components.component[static_cast<size_t>(b)];
  }
};
CallGraph call_graph(const ir::Program& program);

}  // namespace rondo::analysis
