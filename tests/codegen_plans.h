// Random and typical blocks for tests of generated kernels, on the CPU and as CUDA text.
#pragma once
#include "codegen_support.h"

namespace rondo::testing {

// A product of random shape: several segments that feed random accumulators, columns of matrices or plain
// rows, packed from weights of any orientation, and an epilogue that also reads an operand and a bias and
// stores twice.
inline void add_random_gemm(plan::Plan* plan, Rng& rng) {
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint32_t>(hi - lo + 1));
  };
  plan::Gemm g;
  g.n = pick(1, 45);
  g.free = rng() % 3 == 0 ? pick(2, 90) : 1;
  g.accs = static_cast<int32_t>(pick(1, rng() % 4 == 0 ? 13 : 6));
  std::vector<plan::Operand> operands;
  const int64_t segments = pick(1, 3);
  for (int64_t s = 0; s < segments; ++s) {
    plan::Segment seg;
    seg.k = rng() % 4 == 0 ? pick(100, 400) : pick(1, 70);
    const bool along_k = g.free == 1 || rng() % 2 == 0;
    seg.a.index = static_cast<int32_t>(operands.size());
    seg.a.offset = pick(0, 3);
    const int64_t gap = rng() % 4 == 0 ? 2 : 1;
    seg.a.strides =
        along_k ? std::vector<int64_t>{gap, g.free == 1 ? 0 : seg.k * gap} : std::vector<int64_t>{g.free, 1};
    operands.push_back({false, seg.k * g.free * gap + 3});
    for (int32_t acc = 0; acc < g.accs; ++acc) {
      if (s > 0 && rng() % 3 == 0) continue;  // the first segment feeds all
      const bool flipped = rng() % 2 == 0;
      const int32_t w =
          add_weight(plan, flipped ? std::vector<int64_t>{seg.k, g.n + 2} : std::vector<int64_t>{g.n, seg.k});
      if (flipped)
        seg.uses.push_back({acc, w, 2, 1, g.n + 2});
      else
        seg.uses.push_back({acc, w, 0, seg.k, 1});
    }
    if (seg.uses.empty()) continue;
    std::shuffle(seg.uses.begin(), seg.uses.end(), rng);
    g.segments.push_back(seg);
  }
  const auto extra = static_cast<int32_t>(operands.size());
  operands.push_back({false, g.n * g.free});
  plan::Block* block = add_block(plan, operands);
  const int32_t bias = add_weight(plan, {g.n}, true);
  const int32_t out = add_output(block, g.n * g.free), second = add_output(block, g.n * g.free);
  int32_t sum = load(&g.exprs, plan::Source::Weight, bias, {1, 0});
  for (int32_t acc = 0; acc < g.accs; ++acc) {
    const int32_t a = load(&g.exprs, plan::Source::Acc, acc, {});
    sum = apply(&g.exprs, plan::Pointwise::Add, sum, acc % 2 ? apply(&g.exprs, plan::Pointwise::Tanh, a) : a);
  }
  const int32_t x = load(&g.exprs, plan::Source::Operand, extra, {g.free, 1});
  g.stores.push_back(
      {apply(&g.exprs, plan::Pointwise::Mul, sum, x), plan::Sink::Output, out, 0, {g.free, 1}});
  // The second output is transposed half of the time.
  const bool turned = rng() % 2 == 0;
  g.stores.push_back({apply(&g.exprs, plan::Pointwise::Sigmoid, sum), plan::Sink::Output, second, 0,
                      turned ? std::vector<int64_t>{1, g.n} : std::vector<int64_t>{g.free, 1}});
  add_kernel(block, 0, true)->gemm = g;
}

// Loads of a random kind over an index space.
inline int32_t random_load(plan::Plan* plan, std::vector<plan::Operand>* operands,
                           std::vector<plan::Expr>* exprs, const std::vector<int64_t>& dims, Rng& rng) {
  // A random order of the axes in memory, and some broadcast.
  std::vector<size_t> order(dims.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (rng() % 3 == 0) std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t size = 1;
  for (size_t d = order.size(); d-- > 0;) {
    if (rng() % 6 == 0) continue;
    strides[order[d]] = size;
    size *= dims[order[d]];
  }
  if (rng() % 4 == 0) return load(exprs, plan::Source::Weight, add_weight(plan, {size}, true), strides);
  operands->push_back({false, size + 2});
  return load(exprs, plan::Source::Operand, static_cast<int32_t>(operands->size()) - 1, strides, 2);
}

// Pointwise, reduced and broadcast steps over random index spaces.
inline void add_random_step(plan::Plan* plan, Rng& rng) {
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint32_t>(hi - lo + 1));
  };
  plan::Step step;
  for (int64_t d = pick(0, 3); d > 0; --d) step.dims.push_back(rng() % 4 == 0 ? pick(16, 40) : pick(1, 9));
  std::vector<int64_t> space = step.dims;
  if (rng() % 2 == 0) {
    step.op = rng() % 2 == 0 ? plan::Reduce::Sum : plan::Reduce::Max;
    step.reduce = pick(1, 70);
    space.push_back(step.reduce);
  }
  std::vector<plan::Operand> operands;
  int32_t e = random_load(plan, &operands, &step.exprs, space, rng);
  for (int64_t k = pick(0, 3); k > 0; --k) {
    const int32_t other = random_load(plan, &operands, &step.exprs, space, rng);
    const plan::Pointwise binary[] = {plan::Pointwise::Add, plan::Pointwise::Sub, plan::Pointwise::Mul,
                                      plan::Pointwise::Max, plan::Pointwise::Min};
    e = apply(&step.exprs, binary[rng() % 5], e, other);
    const plan::Pointwise unary[] = {plan::Pointwise::Exp,  plan::Pointwise::Neg,  plan::Pointwise::Abs,
                                     plan::Pointwise::Relu, plan::Pointwise::Gelu, plan::Pointwise::Erf,
                                     plan::Pointwise::Sin,  plan::Pointwise::Cos,  plan::Pointwise::Tanh};
    if (rng() % 2 == 0) e = apply(&step.exprs, unary[rng() % 9], e);
  }
  if (operands.empty()) operands.push_back({false, 1});
  plan::Block* block = add_block(plan, operands);
  std::vector<int64_t> strides = row_major(step.dims);
  if (step.dims.size() == 2 && rng() % 2 == 0) strides = {1, step.dims[0]};
  step.store = {e, plan::Sink::Output, add_output(block, product(step.dims)), 0, strides};
  add_kernel(block, 0, false)->steps.push_back(step);
}

// softmax over n as four steps with temps, scaled by an int, plus rows of an embedding.
inline void add_softmax(plan::Plan* plan, int64_t n) {
  plan::Block* block = add_block(plan, {{false, n}, {true, 11}, {true, 0}});
  const int32_t embed = add_weight(plan, {11, n}, true);
  const int32_t out = add_output(block, n), shifted = add_output(block, n);
  plan::Kernel* kernel = add_kernel(block, 0, false);
  kernel->temps = {n, 1, n, 1};
  using plan::Pointwise;
  using plan::Source;
  plan::Step x;
  x.dims = {n};
  x.store = {apply(&x.exprs, Pointwise::Add, load(&x.exprs, Source::Operand, 0, {1}),
                   load(&x.exprs, Source::WeightRow, embed, {1}, 0, 1, n)),
             plan::Sink::Temp,
             0,
             0,
             {1}};
  plan::Step largest;
  largest.op = plan::Reduce::Max;
  largest.reduce = n;
  largest.store = {load(&largest.exprs, Source::Temp, 0, {1}), plan::Sink::Temp, 1, 0, {}};
  plan::Step e;
  e.dims = {n};
  e.store = {apply(&e.exprs, Pointwise::Exp,
                   apply(&e.exprs, Pointwise::Sub, load(&e.exprs, Source::Temp, 0, {1}),
                         load(&e.exprs, Source::Temp, 1, {0}))),
             plan::Sink::Temp,
             2,
             0,
             {1}};
  plan::Step sum;
  sum.op = plan::Reduce::Sum;
  sum.reduce = n;
  sum.store = {load(&sum.exprs, Source::Temp, 2, {1}), plan::Sink::Temp, 3, 0, {}};
  plan::Step result;
  result.dims = {n};
  result.store = {apply(&result.exprs, Pointwise::Div, load(&result.exprs, Source::Temp, 2, {1}),
                        load(&result.exprs, Source::Temp, 3, {0})),
                  plan::Sink::Output,
                  out,
                  0,
                  {1}};
  plan::Step later;  // reads what an earlier step of this kernel stored
  later.dims = {n};
  later.store = {apply(&later.exprs, Pointwise::Add, load(&later.exprs, Source::Output, out, {1}),
                       load(&later.exprs, Source::IntValue, 0, {}, 0, 2)),
                 plan::Sink::Output,
                 shifted,
                 0,
                 {1}};
  kernel->steps = {x, largest, e, sum, result, later};
}

// The node of a binary TreeLSTM: five gates from two children.
inline void add_treelstm_node(plan::Plan* plan, int64_t h) {
  plan::Block* block = add_block(plan, {{false, h}, {false, h}, {false, h}, {false, h}});  // hl hr cl cr
  plan::Gemm g;
  g.n = h;
  g.accs = 5;
  for (int side = 0; side < 2; ++side) {
    plan::Segment s;
    s.a.index = side;
    s.a.strides = {1, 0};
    s.k = h;
    for (int32_t acc = 0; acc < 5; ++acc) s.uses.push_back({acc, add_weight(plan, {h, h}), 0, h, 1});
    g.segments.push_back(s);
  }
  using plan::Pointwise;
  int32_t gate[5];
  for (int32_t acc = 0; acc < 5; ++acc) {
    const int32_t sum = apply(&g.exprs, Pointwise::Add, load(&g.exprs, plan::Source::Acc, acc, {}),
                              load(&g.exprs, plan::Source::Weight, add_weight(plan, {h}, true), {1, 0}));
    gate[acc] = apply(&g.exprs, acc == 2 ? Pointwise::Tanh : Pointwise::Sigmoid, sum);
  }
  const int32_t cl = load(&g.exprs, plan::Source::Operand, 2, {1, 0}),
                cr = load(&g.exprs, plan::Source::Operand, 3, {1, 0});
  const int32_t iu = apply(&g.exprs, Pointwise::Mul, gate[0], gate[2]);
  const int32_t left = apply(&g.exprs, Pointwise::Mul, gate[3], cl),
                right = apply(&g.exprs, Pointwise::Mul, gate[4], cr);
  const int32_t c = apply(&g.exprs, Pointwise::Add, apply(&g.exprs, Pointwise::Add, iu, left), right);
  const int32_t hidden = apply(&g.exprs, Pointwise::Mul, gate[1], apply(&g.exprs, Pointwise::Tanh, c));
  g.stores = {{hidden, plan::Sink::Output, add_output(block, h), 0, {1, 0}},
              {c, plan::Sink::Output, add_output(block, h), 0, {1, 0}}};
  add_kernel(block, 0, true)->gemm = g;
}

// Copies its operand into the results buffer.
inline void add_result(plan::Plan* plan, int64_t size) {
  plan::Block* block = add_block(plan, {{false, size}});
  block->result_pool = static_cast<int32_t>(size);
  plan::Step step;
  step.dims = {size};
  step.store = {load(&step.exprs, plan::Source::Operand, 0, {1}), plan::Sink::Result, 0, 0, {1}};
  add_kernel(block, 0, false)->steps.push_back(step);
}

}  // namespace rondo::testing
