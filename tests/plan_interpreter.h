// Runs the kernels of one block for one record, plainly and in double: what a plan means, without any code generation.
#pragma once
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "rondo/plan/plan.h"

namespace rondo::plan {

struct BlockRun {
  std::vector<std::vector<double>> weights;   // as Plan::weights
  std::vector<std::vector<double>> operands;  // an entry a column: a tensor, or {int}
  std::vector<std::vector<double>> outputs, temps;
};

inline double read(const Load& load, const BlockRun& run, const std::vector<double>& accs, const std::vector<int64_t>& at) {
  if (load.source == Source::Acc) return accs.at(static_cast<size_t>(load.index));
  if (load.source == Source::IntValue) return run.operands.at(static_cast<size_t>(load.column)).at(0);
  int64_t offset = load.offset;
  if (load.column >= 0) offset += static_cast<int64_t>(run.operands.at(static_cast<size_t>(load.column)).at(0)) * load.row_scale;
  for (size_t d = 0; d < load.strides.size(); ++d) offset += load.strides[d] * at.at(d);
  const auto index = static_cast<size_t>(load.index);
  const auto element = static_cast<size_t>(offset);
  switch (load.source) {
    case Source::Operand: return run.operands.at(index).at(element);
    case Source::Weight:
    case Source::WeightRow: return run.weights.at(index).at(element);
    case Source::Output: return run.outputs.at(index).at(element);
    case Source::Temp: return run.temps.at(index).at(element);
    default: throw std::logic_error("load");
  }
}

inline double one_value(const Expr& x, const std::vector<double>& values, const BlockRun& run, const std::vector<double>& accs,
                    const std::vector<int64_t>& at) {
  const auto sub = [&](int32_t s) { return values.at(static_cast<size_t>(s)); };
  switch (x.code) {
    case Pointwise::Imm: return x.imm;
    case Pointwise::Load: return read(x.load, run, accs, at);
    case Pointwise::Add: return sub(x.a) + sub(x.b);
    case Pointwise::Sub: return sub(x.a) - sub(x.b);
    case Pointwise::Mul: return sub(x.a) * sub(x.b);
    case Pointwise::Div: return sub(x.a) / sub(x.b);
    case Pointwise::Max: return std::max(sub(x.a), sub(x.b));
    case Pointwise::Min: return std::min(sub(x.a), sub(x.b));
    case Pointwise::Pow: return std::pow(sub(x.a), sub(x.b));
    case Pointwise::Neg: return -sub(x.a);
    case Pointwise::Exp: return std::exp(sub(x.a));
    case Pointwise::Log: return std::log(sub(x.a));
    case Pointwise::Sqrt: return std::sqrt(sub(x.a));
    case Pointwise::Abs: return std::fabs(sub(x.a));
    case Pointwise::Sigmoid: return 1 / (1 + std::exp(-sub(x.a)));
    case Pointwise::Tanh: return std::tanh(sub(x.a));
    case Pointwise::Relu: return std::max(0.0, sub(x.a));
    case Pointwise::Gelu: return 0.5 * sub(x.a) * (1 + std::erf(sub(x.a) / std::sqrt(2.0)));
    case Pointwise::Erf: return std::erf(sub(x.a));
    case Pointwise::Sin: return std::sin(sub(x.a));
    case Pointwise::Cos: return std::cos(sub(x.a));
    case Pointwise::Floor: return std::floor(sub(x.a));
  }
  throw std::logic_error("expression");
}

inline double value(const std::vector<Expr>& exprs, int32_t e, const BlockRun& run, const std::vector<double>& accs,
                    const std::vector<int64_t>& at) {
  std::vector<bool> needed(exprs.size());
  needed.at(static_cast<size_t>(e)) = true;
  for (size_t i = exprs.size(); i-- > 0;)
    for (const int32_t s : {exprs[i].a, exprs[i].b})
      if (needed[i] && s >= 0) needed[static_cast<size_t>(s)] = true;
  std::vector<double> values(exprs.size());
  for (size_t i = 0; i <= static_cast<size_t>(e); ++i)
    if (needed[i]) values[i] = one_value(exprs[i], values, run, accs, at);
  return values[static_cast<size_t>(e)];
}

inline void write(const Store& store, double x, BlockRun& run, const std::vector<int64_t>& at) {
  int64_t offset = store.offset;
  for (size_t d = 0; d < store.strides.size(); ++d) offset += store.strides[d] * at.at(d);
  auto& to = store.sink == Sink::Temp ? run.temps : run.outputs;
  to.at(static_cast<size_t>(store.index)).at(static_cast<size_t>(offset)) = x;
}

inline void each(const std::vector<int64_t>& dims, const std::function<void(const std::vector<int64_t>&)>& body) {
  int64_t total = 1;
  for (const int64_t d : dims) total *= d;
  for (int64_t n = 0; n < total; ++n) {
    std::vector<int64_t> at(dims.size());
    int64_t rest = n;
    for (size_t d = dims.size(); d-- > 0;) at[d] = rest % dims[d], rest /= dims[d];
    body(at);
  }
}

inline void run_block(const Block& block, BlockRun& run) {
  run.outputs.clear();
  for (const Output& o : block.outputs) run.outputs.emplace_back(static_cast<size_t>(o.size), std::nan(""));
  for (int32_t stage = 0; stage < block.stages; ++stage)
    for (const Kernel& k : block.kernels) {
      if (k.stage != stage) continue;
      run.temps.clear();
      for (const int64_t t : k.temps) run.temps.emplace_back(static_cast<size_t>(t), std::nan(""));
      if (k.is_gemm) {
        BlockRun before = run;  // kernels of a stage do not see each other's results
        each({k.gemm.n, k.gemm.free}, [&](const std::vector<int64_t>& at) {
          std::vector<double> accs(static_cast<size_t>(k.gemm.accs));
          for (const Segment& s : k.gemm.segments)
            for (const SegmentUse& u : s.uses)
              for (int64_t kk = 0; kk < s.k; ++kk)
                accs.at(static_cast<size_t>(u.acc)) +=
                    read(s.a, before, {}, {kk, at[1]}) *
                    before.weights.at(static_cast<size_t>(u.weight)).at(static_cast<size_t>(u.offset + at[0] * u.stride_n + kk * u.stride_k));
          for (const Store& s : k.gemm.stores) write(s, value(k.gemm.exprs, s.value, before, accs, at), run, at);
        });
      }
      for (const Step& step : k.steps)
        each(step.dims, [&](const std::vector<int64_t>& at) {
          double x = step.op == Reduce::Max ? -INFINITY : 0;
          if (step.op == Reduce::None) x = value(step.exprs, step.store.value, run, {}, at);
          std::vector<int64_t> inner = at;
          inner.push_back(0);
          for (; step.op != Reduce::None && inner.back() < step.reduce; ++inner.back()) {
            const double y = value(step.exprs, step.store.value, run, {}, inner);
            x = step.op == Reduce::Sum ? x + y : std::max(x, y);
          }
          write(step.store, x, run, at);
        });
    }
}

}  // namespace rondo::plan
