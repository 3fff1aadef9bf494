#include "rondo/analysis/view.h"

namespace rondo::analysis {
namespace {

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    strides[k] = step;
    step *= dims[k];
  }
  return strides;
}

// Dimensions of extent 1 come and go freely; else the elements must lie in row-major order.
bool reshaped(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
              std::vector<int64_t>* strides) {
  std::vector<int64_t> a, b, a_strides;
  for (size_t k = 0; k < from.size(); ++k)
    if (from[k] != 1) a.push_back(from[k]), a_strides.push_back((*strides)[k]);
  for (const int64_t d : to)
    if (d != 1) b.push_back(d);
  if (a != b) {
    if (a_strides != row_major(a)) return false;
    a_strides = row_major(b);
  }
  strides->assign(to.size(), 0);
  for (size_t k = 0, next = 0; k < to.size(); ++k)
    if (to[k] != 1) (*strides)[k] = a_strides[next++];
  return true;
}

}  // namespace

std::optional<View> view_of(const ir::Program& program, const ir::Op& op,
                            const std::vector<const View*>& args, std::optional<int64_t> index) {
  const std::vector<int64_t>& dims = program.types[op.type].dims;
  if (op.code == ir::Opcode::Weight) return View{static_cast<int32_t>(op.i), 0, 0, dims, row_major(dims)};
  if (op.code == ir::Opcode::Fill) return View{-1, op.f, 0, dims, std::vector<int64_t>(dims.size(), 0)};
  if (args.empty() || args[0] == nullptr) return std::nullopt;
  View view = *args[0];
  const bool uniform = view.weight < 0;
  const auto axis = static_cast<size_t>(op.i);
  switch (op.code) {
    case ir::Opcode::Slice:
      view.offset += op.j * view.strides[axis];
      break;
    case ir::Opcode::Row:
      if (uniform) index = 0;
      if (!index) return std::nullopt;
      if (*index < 0 || *index >= view.dims[0]) return std::nullopt;
      view.offset += *index * view.strides[0];
      view.strides.erase(view.strides.begin());
      break;
    case ir::Opcode::Transpose:
      for (size_t k = 0; k < op.dims.size(); ++k)
        view.strides[k] = args[0]->strides[static_cast<size_t>(op.dims[k])];
      break;
    case ir::Opcode::Reshape:
      if (!uniform && !reshaped(view.dims, dims, &view.strides)) return std::nullopt;
      break;
    case ir::Opcode::Broadcast: {
      std::vector<int64_t> strides(dims.size(), 0);
      for (size_t k = 0; k < view.dims.size(); ++k)
        if (view.dims[k] != 1) strides[dims.size() - view.dims.size() + k] = view.strides[k];
      view.strides = std::move(strides);
      break;
    }
    default:
      return std::nullopt;
  }
  if (uniform) view.strides.assign(dims.size(), 0);
  view.dims = dims;
  return view;
}

}  // namespace rondo::analysis
