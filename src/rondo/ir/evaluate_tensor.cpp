#include "rondo/ir/evaluate_tensor.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "rondo/error.h"
#include "rondo/ir/infer.h"

namespace rondo::ir {
namespace {

using Dims = std::vector<int64_t>;

int64_t elements(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

// Calls visit(position) for every position of `dims` in row-major order.
void for_each(const Dims& dims, const std::function<void(const Dims&)>& visit) {
  Dims at(dims.size(), 0);
  for (int64_t n = elements(dims); n > 0; --n) {
    visit(at);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}

// The element at a position. Positions may have more axes than the tensor
// (leading ones are dropped) and axes of extent 1 stretch: NumPy broadcasting.
double element(const EvalValue& t, const Dims& at) {
  const Dims& dims = t.dims();
  int64_t offset = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t p = at[at.size() - dims.size() + k];
    offset = offset * dims[k] + (dims[k] == 1 ? 0 : p);
  }
  return t.values()[static_cast<size_t>(offset)];
}

EvalValue build(const Dims& dims, const std::function<double(const Dims&)>& at) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(elements(dims)));
  for_each(dims, [&](const Dims& position) { values.push_back(at(position)); });
  return EvalValue::tensor(dims, std::move(values));
}

double unary(Opcode code, double x) {
  switch (code) {
    case Opcode::Neg: return -x;
    case Opcode::Exp: return std::exp(x);
    case Opcode::Log: return std::log(x);
    case Opcode::Sqrt: return std::sqrt(x);
    case Opcode::Abs: return std::fabs(x);
    case Opcode::Sigmoid: return 1 / (1 + std::exp(-x));
    case Opcode::Tanh: return std::tanh(x);
    case Opcode::Relu: return x > 0 ? x : 0;
    case Opcode::Gelu: return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Opcode::Erf: return std::erf(x);
    case Opcode::Sin: return std::sin(x);
    case Opcode::Cos: return std::cos(x);
    default: return std::floor(x);
  }
}

double binary(Opcode code, double a, double b) {
  switch (code) {
    case Opcode::Add: return a + b;
    case Opcode::Sub: return a - b;
    case Opcode::Mul: return a * b;
    case Opcode::Div: return a / b;
    case Opcode::Max: return std::max(a, b);
    case Opcode::Min: return std::min(a, b);
    default: return std::pow(a, b);
  }
}

// Vectors become matrices of one row (left) or one column
// (right); the axis is dropped again by the shape of the result.
EvalValue matmul(const EvalValue& a, const EvalValue& b, const Dims& result) {
  const bool left_vector = a.dims().size() == 1, right_vector = b.dims().size() == 1;
  const int64_t inner = a.dims().back();
  const int64_t rows = left_vector ? 1 : a.dims()[a.dims().size() - 2],
                columns = right_vector ? 1 : b.dims().back();
  const int64_t batch = elements(a.dims()) / (rows * inner);
  const double *x = a.values().data(), *y = b.values().data();
  std::vector<double> values;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += x[(n * rows + r) * inner + k] * y[(n * inner + k) * columns + c];
        values.push_back(sum);
      }
  return EvalValue::tensor(result, std::move(values));
}

// The elements along `axis` that share all other coordinates
// with `at`, which may lack the axis (a reduction's result).
std::vector<double> line(const EvalValue& t, size_t axis, Dims at) {
  if (at.size() < t.dims().size()) at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  std::vector<double> values;
  for (at[axis] = 0; at[axis] < t.dims()[axis]; ++at[axis]) values.push_back(element(t, at));
  return values;
}

double reduce(Opcode code, const std::vector<double>& values) {
  if (code == Opcode::ReduceMax) return *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double v : values) sum += v;
  return code == Opcode::ReduceMean ? sum / static_cast<double>(values.size()) : sum;
}

double log_sum_exp(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());  // keeps exp in range
  double sum = 0;
  for (const double v : values) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

EvalValue concat(const std::vector<EvalValue>& args, size_t axis, const Dims& result) {
  return build(result, [&](Dims at) {
    size_t k = 0;
    while (at[axis] >= args[k].dims()[axis]) at[axis] -= args[k++].dims()[axis];
    return element(args[k], at);
  });
}

}  // namespace

EvalValue evaluate_tensor(const Op& op, const Type& type, const std::vector<EvalValue>& args) {
  const Dims& result = type.dims;
  const auto axis = static_cast<size_t>(op.i);
  if (is_unary_pointwise(op.code))
    return build(result, [&](const Dims& at) { return unary(op.code, element(args[0], at)); });
  if (is_binary_pointwise(op.code))
    return build(result,
                 [&](const Dims& at) { return binary(op.code, element(args[0], at), element(args[1], at)); });
  switch (op.code) {
    case Opcode::Fill: return build(result, [&](const Dims&) { return op.f; });
    case Opcode::ToFloat: return EvalValue::tensor({}, {static_cast<double>(args[0].integer())});
    case Opcode::MatMul: return matmul(args[0], args[1], result);
    case Opcode::ReduceSum:
    case Opcode::ReduceMax:
    case Opcode::ReduceMean:
      return build(result, [&](const Dims& at) { return reduce(op.code, line(args[0], axis, at)); });
    case Opcode::Softmax:
      return build(result, [&](const Dims& at) {
        return std::exp(element(args[0], at) - log_sum_exp(line(args[0], axis, at)));
      });
    case Opcode::LogSoftmax:
      return build(result, [&](const Dims& at) {
        return element(args[0], at) - log_sum_exp(line(args[0], axis, at));
      });
    case Opcode::Concat: return concat(args, axis, result);
    case Opcode::Stack:
      return build(result, [&](const Dims& at) {
        return element(args[static_cast<size_t>(at[0])], {at.begin() + 1, at.end()});
      });
    case Opcode::Slice:
      return build(result, [&](Dims at) {
        at[axis] += op.j;
        return element(args[0], at);
      });
    case Opcode::Row:
      return build(result, [&](Dims at) {
        at.insert(at.begin(), args[1].integer());
        return element(args[0], at);
      });
    case Opcode::Transpose:
      return build(result, [&](const Dims& at) {
        Dims from(at.size());
        for (size_t k = 0; k < at.size(); ++k) from[static_cast<size_t>(op.dims[k])] = at[k];
        return element(args[0], from);
      });
    case Opcode::Reshape: return EvalValue::tensor(result, args[0].values());
    case Opcode::Broadcast: return build(result, [&](const Dims& at) { return element(args[0], at); });
    default:
      throw Error(ErrorKind::Internal, std::string("the evaluator has no tensor operation ") + name(op.code));
  }
}

}  // namespace rondo::ir
