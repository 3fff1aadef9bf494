// The type of an operation from the types of its arguments: the one place
// where the rules of shapes are stated. lang uses it to check programs (its
// words become messages to their author), verify() to check every stage.
//
// Covers every opcode that stands alone: not Arg, Weight, Call, Emit, EmitOut and Constant, which refer to
// something outside of the operation, and not those that hold regions. Where arguments leave the type open
// (Fill, Slice, Reshape, Broadcast, Construct, List), op.type is the proposal and is checked.
#pragma once
#include <string>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::ir {

// Elements that one tensor may have: row offsets are 32-bit numbers on the device.
inline constexpr int64_t kMaxElements = (int64_t{1} << 31) - 1;
// Words that one value may have (see types.h); keeps tuples of tuples from growing without bound.
inline constexpr int32_t kMaxWords = 1024;

struct Inferred {
  TypeId type = -1;     // -1: `problem` says why
  std::string problem;  // "cannot multiply f32[8,4] by f32[8,4]: inner sizes 4 and 8 differ"
};
Inferred infer(TypeTable& types, const Op& op, const std::vector<TypeId>& args);

bool is_unary_pointwise(Opcode code);   // Neg ... Floor
bool is_binary_pointwise(Opcode code);  // Add ... Pow
bool has_regions(Opcode code);

// NumPy: aligned from the right, an extent of 1 stretches. False: they do not fit.
bool broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                    std::vector<int64_t>* result);

}  // namespace rondo::ir
