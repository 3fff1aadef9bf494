// Strided views of what every instance shares: element (i0,i1,..) = weight[offset + sum i*stride], or one
// number everywhere. Slices, transposes, reshapes, broadcasts and rows with a known index of a weight stay
// views, so two spellings of the same numbers compare equal. plan::Constant has the same form.
#pragma once
#include <optional>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::analysis {

struct View {
  int32_t weight = -1;  // -1: every element is `fill`
  double fill = 0;
  int64_t offset = 0;
  std::vector<int64_t> dims, strides;
  bool operator==(const View&) const = default;
};

// The view that `op` makes of the views of its tensor arguments (nullptr: not a view). `index`: the value of
// Row's index where it is known. Nothing: the operation computes, or its result has no strides (a reshaped
// transpose).
std::optional<View> view_of(const ir::Program& program, const ir::Op& op,
                            const std::vector<const View*>& args, std::optional<int64_t> index);

}  // namespace rondo::analysis
