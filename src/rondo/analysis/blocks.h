// Which tensor operations run as one unit? A block is a maximal connected straight-line group: of one region,
// one phase, climbing the same recursions of that phase, and of one *rank*, so that no block waits for a call
// that waits for the block itself. Connected = one uses the other's result, or both use the same operand.
// Rank, phase and the recursions climbed only grow along data flow, so blocks cannot form a cycle.
//
// Not every operation is computed once where it stands:
//   - *free* ones (weights, numbers, views, rows, floats of ints) are other indices into given data; they are
//     repeated in every block that uses them, and so are operations on weights alone;
//   - a free one that something else refers to (a list, a call, a result) is a member of a block as well,
//     unless it is a view of a weight or a number: then it is a constant row.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rondo/analysis/hoist.h"
#include "rondo/analysis/view.h"

namespace rondo::analysis {

struct BlockFact {
  std::string name;  // a C identifier, unique: encode_Node_1
  int32_t function = 0, region = 0;
  ir::Loc loc;
  int32_t rank = 0, phase = 0;
  std::vector<int32_t> climbs;     // recursions whose results it depends on while inside them; none: hoisted
  std::vector<ir::Value> members;  // in program order
  std::vector<ir::Value> tensors, ints;  // operands, as defined outside of the block
  std::vector<ir::Value> outputs;        // members that are referred to from outside
  // Filled in by depth.cpp
  int32_t first_level = 1;
  int32_t last_level = -1;    // -1: grows with the data
  std::vector<bool> look_up;  // an entry a tensor operand: its level has to be looked at
};

struct Blocks {
  std::vector<BlockFact> list;
  std::vector<std::vector<int32_t>> block_of;  // [function][value]; -1: no member
  std::vector<std::vector<bool>> repeated;     // [function][value]: computed inside every block that uses it
  std::vector<std::vector<bool>> referred;     // [function][value]: something other than a block uses it
  int32_t phases = 1;                          // in use, 0 .. phases - 1
};
Blocks find_blocks(const ir::Program& specialised, const Flow& flow, const Recursions& recursions,
                   const std::vector<int32_t>& phases);

// The value that v stands for: marks of phases are looked through.
ir::Value behind_marks(const ir::Function& fn, ir::Value v);

// v as a view of one weight, or as one number: what lower makes a Constant of.
std::optional<View> constant_view(const ir::Program& program, const ir::Function& fn, ir::Value v);

}  // namespace rondo::analysis
