// Tensor operations of the reference evaluator, each written out as its definition.
#pragma once
#include <vector>

#include "rondo/ir/evaluate.h"

namespace rondo::ir {

// Every tensor opcode but Weight and Row (Row: with its int
// already checked). `result` is the type of the operation.
EvalValue evaluate_tensor(const Op& op, const Type& result, const std::vector<EvalValue>& args);

}  // namespace rondo::ir
