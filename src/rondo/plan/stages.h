// A block's tensor operations -> the kernels that compute them, stage by stage: products with a shared weight become
// GEMMs with gathered rows (all products of one stage and one extent share a kernel), elementwise chains are fused into
// their consumers, everything else becomes row steps.
//
// In: the body of a block. Out: Block::outputs (the body's outputs first, then internal ones), kernels, stages; weights
// that are used plain or packed are noted in Plan::weights and Segment::pack_offset.
#pragma once
#include <vector>

#include "rondo/ir/ir.h"
#include "rondo/plan/plan.h"

namespace rondo::plan {

// Straight-line tensor code. fn.body.params: the block's operands in order, tensors first, then Ints. fn.body.body: only
// tensor opcodes (Fill, Weight, pointwise, structure, Row, ToFloat); every tensor op of types.numel > 0.
struct BlockBody {
  ir::Function fn;
  std::vector<ir::Value> outputs;
};

void build_stages(const ir::Program& program, const BlockBody& body, Block* block, Plan* plan);

// After all blocks are built: pools, rows, bases, weight offsets, launches (Plan::launches from each block's phase,
// first_level and fixed_level). Needs Block::{name,phase,first_level,fixed_level,operands,outputs,kernels,result_pool as the
// element count of its operand}. Leaves a plan that verify() accepts.
void finish(Plan* plan);

}  // namespace rondo::plan
