// The specialised program and what the analyses found -> the plan (blocks with kernels) and the host form of the program,
// in which tensor operations are replaced by Emit (append a record) and EmitOut (refer to an output).
#pragma once
#include "rondo/analysis/facts.h"
#include "rondo/ir/ir.h"
#include "rondo/plan/plan.h"

namespace rondo::plan {

struct Lowered {
  Plan plan;
  ir::Program host;  // Emit's i indexes Plan::blocks; Constant's i indexes Plan::constants
};
// fused: see Plan::fused.
Lowered lower(const ir::Program& specialised, const analysis::Facts& facts, bool fused = true);

}  // namespace rondo::plan
