// Blocks become kernels: what is fused, what is a stage of its own, and that the kernels compute what the body says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan_interpreter.h"
#include "rondo/ir/evaluate.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/stages.h"

namespace rondo::plan {
namespace {

struct Built {
  ir::Program program;
  Plan plan;
  const Block& block() const { return plan.blocks[0]; }
  int gemms() const {
    return static_cast<int>(std::count_if(block().kernels.begin(), block().kernels.end(), [](const Kernel& k) { return k.is_gemm; }));
  }
};

// The body of a straight-line main, whose parameters are tensors, then ints, as one block.
Built build(const std::string& text, bool fused = true) {
  Built built;
  built.program = lang::parse_program(text, "t.rondo");
  const ir::Program& p = built.program;
  Plan& plan = built.plan;
  plan.name = "t";
  plan.fused = fused;
  for (const ir::Weight& w : p.weights) plan.weights.push_back({w.name, p.types[w.type].dims, p.types.numel(w.type), -1});
  const ir::Function& main = p.functions[static_cast<size_t>(p.main)];
  BlockBody body{main, {}};
  Block block;
  block.name = "main_1";
  for (const ir::Value v : main.body.params) {
    const Type& type = p.types[main.ops[static_cast<size_t>(v)].type];
    const bool is_int = type.kind == TypeKind::Int;
    block.operands.push_back({is_int, is_int ? 0 : p.types.numel(main.ops[static_cast<size_t>(v)].type)});
    block.tensors += !is_int;
    if (!is_int) block.depth_operand.push_back(true);
  }
  const ir::Op& result = main.ops[static_cast<size_t>(main.body.result)];
  if (result.code == ir::Opcode::Tuple) body.outputs = result.args;
  else body.outputs = {main.body.result};
  std::vector<ir::Value> distinct;
  for (const ir::Value v : body.outputs)
    if (std::find(distinct.begin(), distinct.end(), v) == distinct.end()) distinct.push_back(v);
  body.outputs = distinct;
  build_stages(p, body, &block, &plan);
  plan.blocks.push_back(block);
  finish(&plan);
  return built;
}

// Largest difference between the kernels and the evaluator on random numbers.
double difference(const Built& built, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const ir::Program& p = built.program;
  BlockRun run;
  std::vector<ir::WeightData> weights;
  for (const ir::Weight& w : p.weights) {
    std::vector<double> values(static_cast<size_t>(p.types.numel(w.type)));
    for (double& v : values) v = uniform(random);
    weights.push_back({w.name, p.types[w.type].dims, values});
    run.weights.push_back(values);
  }
  std::vector<ir::EvalValue> arguments;
  const ir::Function& main = p.functions[static_cast<size_t>(p.main)];
  for (const ir::Value v : main.body.params) {
    const TypeId id = main.ops[static_cast<size_t>(v)].type;
    if (p.types[id].kind == TypeKind::Int) {
      run.operands.push_back({static_cast<double>(random() % 3)});
      arguments.push_back(ir::EvalValue::integer(static_cast<int64_t>(run.operands.back()[0])));
      continue;
    }
    std::vector<double> values(static_cast<size_t>(p.types.numel(id)));
    for (double& x : values) x = uniform(random);
    run.operands.push_back(values);
    arguments.push_back(ir::EvalValue::tensor(p.types[id].dims, values));
  }
  run_block(built.block(), run);
  const ir::EvalValue expected = ir::evaluate(p, weights, arguments);
  const ir::Op& result = main.ops[static_cast<size_t>(main.body.result)];
  std::vector<ir::EvalValue> wanted{expected};
  std::vector<ir::Value> values{main.body.result};
  if (result.code == ir::Opcode::Tuple) wanted = expected.parts(), values = result.args;
  std::vector<ir::Value> seen;
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto found = std::find(seen.begin(), seen.end(), values[i]);
    const auto slot = static_cast<size_t>(found - seen.begin());
    if (found == seen.end()) seen.push_back(values[i]);
    const std::vector<double>& want = wanted[i].values();
    for (size_t e = 0; e < want.size(); ++e) {
      const double d = std::fabs(want[e] - run.outputs.at(slot).at(e));
      worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    }
  }
  return worst;
}

const char* kTreeNode = R"(
const H = 8;
weight w1: f32[H,H]; weight w2: f32[H,H]; weight w3: f32[H,H]; weight w4: f32[H,H]; weight w5: f32[H,H]; weight w6: f32[H,H];
weight b1: f32[H]; weight b2: f32[H];
fn main(hl: f32[H], cl: f32[H], hr: f32[H], cr: f32[H]) -> (f32[H], f32[H]) {
  let i = sigmoid(w1 @ hl + w2 @ hr + b1);
  let u = tanh(w3 @ hl + w4 @ hr + b2);
  let f = sigmoid(w5 @ hl + w6 @ hr + b1);
  let c = i * u + f * cl + f * cr;
  (i * tanh(c), c)
})";

TEST(Stages, CellIsOneKernelAndSumsOfProductsAreOneAccumulator) {
  const Built b = build(kTreeNode);
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  const Gemm& g = b.block().kernels[0].gemm;
  EXPECT_EQ(g.accs, 3);
  ASSERT_EQ(g.segments.size(), 2u);
  EXPECT_EQ(g.segments[0].uses.size(), 3u);
  EXPECT_EQ(b.block().outputs.size(), 2u);
  EXPECT_LT(difference(b, 1), 1e-12);
}

TEST(Stages, SlicesOfAWideProductBecomeAccumulatorsOfTheSliceExtent) {
  const Built b = build(R"(
const H = 8;
weight wx: f32[4*H,H]; weight wh: f32[4*H,H]; weight b: f32[4*H];
fn main(x: f32[H], h: f32[H], c: f32[H]) -> (f32[H], f32[H]) {
  let a = wx @ x + wh @ h + b;
  let c2 = sigmoid(a[H:2*H] + 1.0) * c + sigmoid(a[0:H]) * tanh(a[3*H:4*H]);
  (sigmoid(a[2*H:3*H]) * tanh(c2), c2)
})");
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().kernels[0].gemm.n, 8);
  EXPECT_EQ(b.block().kernels[0].gemm.accs, 4);
  EXPECT_LT(difference(b, 2), 1e-12);
}

TEST(Stages, ConcatenatedOperandIsTwoSegmentsWithoutACopy) {
  const Built b = build(R"(
weight w: f32[5,12];
fn main(x: f32[8], y: f32[4]) -> f32[5] { w @ concat(x, y) })");
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().kernels[0].gemm.segments.size(), 2u);
  EXPECT_LT(difference(b, 3), 1e-12);
}

TEST(Stages, ProductOfAComputedVectorIsALaterStage) {
  const Built b = build(R"(
weight w: f32[8,8]; weight u: f32[8,8]; weight z: f32[8,8];
fn main(g: f32[8], h: f32[8]) -> f32[8] {
  let r = sigmoid(w @ g);
  tanh(u @ (r * h) + z @ g)
})");
  EXPECT_EQ(b.block().stages, 2) << print(b.plan);
  EXPECT_EQ(b.gemms(), 2);
  EXPECT_LT(difference(b, 4), 1e-12);
}

TEST(Stages, EmbeddingRowIsGatheredFromTheTable) {
  const Built b = build(R"(
weight e: f32[3,8]; weight w: f32[4,8];
fn main(i: int) -> f32[4] { w @ e[i] })");
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().kernels[0].gemm.segments[0].a.source, Source::WeightRow);
  EXPECT_GE(b.plan.weights[0].plain_offset, 0);
  EXPECT_EQ(b.plan.weights[1].plain_offset, -1) << "a weight of products alone is kept packed only";
  EXPECT_LT(difference(b, 5), 1e-12);
}

TEST(Stages, ColumnsOfAnInstanceMatrixRideAsRows) {
  const Built b = build(R"(
weight w: f32[4,16];
fn main(a: f32[8,6], b: f32[8,6]) -> f32[4,6] { w @ concat(a, b, axis=0) })");
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().kernels[0].gemm.free, 6);
  EXPECT_LT(difference(b, 6), 1e-12);
}

TEST(Stages, SoftmaxOfAProductIsAGemmAndOneRowKernel) {
  const Built b = build("weight w: f32[5,8]; fn main(x: f32[8]) -> f32[5] { softmax(w @ x) }");
  EXPECT_EQ(b.block().kernels.size(), 2u) << print(b.plan);
  EXPECT_EQ(b.block().stages, 2);
  EXPECT_LT(difference(b, 7), 1e-12);
}

TEST(Stages, ElementwiseChainWithoutProductsIsOneStep) {
  const Built b = build("fn main(x: f32[8], y: f32[8]) -> f32[8] { tanh(x * y + 1.0) / (1.0 + exp(-x)) }");
  ASSERT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().kernels[0].steps.size(), 1u);
  EXPECT_LT(difference(b, 8), 1e-12);
}

TEST(Stages, TwoOperandsOfTheInstanceAreContractedRowByRow) {
  const Built b = build(R"(
weight w: f32[6,12]; weight c: f32[6];
fn main(a: f32[6], am: f32[6,6], b: f32[6], bm: f32[6,6]) -> f32[6] { tanh(w @ concat(bm @ a, am @ b) + c) })");
  EXPECT_EQ(b.block().stages, 2) << print(b.plan);
  EXPECT_LT(difference(b, 9), 1e-12);
}

TEST(Stages, MoreSumsThanAKernelHoldsAreSplit) {
  std::string text = "fn main(x: f32[8]) -> (f32[8]", body;
  for (int i = 1; i < 12; ++i) text += ", f32[8]";
  std::string weights;
  for (int i = 0; i < 12; ++i) weights += fmt::format("weight w{}: f32[8,8];\n", i), body += fmt::format("{}w{} @ x", i ? ", " : "", i);
  const Built b = build(weights + text + ") { (" + body + ") }");
  EXPECT_EQ(b.gemms(), 2) << print(b.plan);
  EXPECT_LT(difference(b, 10), 1e-12);
}

TEST(Stages, OutputThatIsMadeOfAnotherOutputSharesItsKernel) {
  const Built b = build("weight w: f32[8,8]; fn main(x: f32[8]) -> (f32[8], f32[8]) { let h = tanh(w @ x); (h, h * h) }");
  EXPECT_EQ(b.block().kernels.size(), 1u) << print(b.plan);
  EXPECT_EQ(b.block().outputs.size(), 2u);
  EXPECT_LT(difference(b, 13), 1e-12);
}

TEST(Stages, ReshapeOfATransposeIsCopiedFirst) {
  const Built b = build("fn main(x: f32[4,6]) -> f32[3,8] { reshape(transpose(x), 3, 8) }");
  EXPECT_LT(difference(b, 11), 1e-12);
}

// Walked once each; walked once a use they would be 2^60.
TEST(Stages, ValuesUsedTwiceAreBuiltOnce) {
  std::string text = "weight w: f32[8,8]; fn main(x: f32[8]) -> f32[8] {\n  let a0 = w @ x;\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("  let a{} = a{} {} a{} * 0.5;\n", i + 1, i, i % 2 ? "+" : "-", i);
  const Built b = build(text + "  a60\n}");
  ASSERT_EQ(b.block().kernels.size(), 1u);
  EXPECT_LT(b.block().kernels[0].gemm.exprs.size(), 400u);
  EXPECT_LT(difference(b, 12), 1e-12);
}

// `count` lets of main, made from the name of the last and its number.
std::string straight_line(int count, const std::string& head, const std::string& first, const std::function<std::string(std::string, int)>& next) {
  std::string text = head + " {\n  let a0 = " + first + ";\n";
  for (int i = 1; i < count; ++i) text += fmt::format("  let a{} = {};\n", i, next(fmt::format("a{}", i - 1), i));
  return text + fmt::format("  a{}\n}}", count - 1);
}

const char kVector[] = "weight w: f32[8,8]; fn main(x: f32[8]) -> f32[8]";

// Chains of every kind that the planner walks; by recursion they would need more than the stack.
TEST(Stages, ThirtyThousandLetsArePlanned) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kLets = 10'000;  // its frames are larger
#else
  constexpr int kLets = 30'000;
#endif
  const auto planned = [](const char* head, const char* first, const char* next) {
    return build(straight_line(kLets, head, first, [&](auto a, int) { return fmt::format(fmt::runtime(next), a); }));
  };
  const char* const square = "fn main(x: f32[4,4]) -> f32[4,4]";
  EXPECT_EQ(planned(kVector, "x", "tanh({} + x)").block().kernels.size(), 1u);
  EXPECT_EQ(planned(kVector, "x", "x * sum({})").block().kernels.size(), 1u);
  EXPECT_EQ(planned(kVector, "x", "tanh(w @ {})").gemms(), kLets - 1);
  EXPECT_EQ(planned(square, "x", "transpose({})").block().kernels.size(), 1u);
  EXPECT_EQ(planned(square, "tanh(x)", "transpose({})").block().kernels.size(), 1u);
}

TEST(Stages, AChainThatIsCutComputesTheSame) {
  int seed = 40;
  for (const auto& [first, next] : std::vector<std::pair<std::string, std::string>>{
           {"x", "tanh({} + x * 0.1)"}, {"w @ x", "tanh({} + x * 0.1)"}, {"w @ x", "{} * 0.9 + w @ x"}, {"x", "{0} - sum({0}) * 0.1"}, {"x", "reshape(transpose(reshape({}, 2, 4)), 8) * 0.99"},
           {"x", "concat({0}[1:8], {0}[0:1] * 0.5)"}}) {
    const Built b = build(straight_line(3 * 256 + 5, kVector, first, [&](auto a, int) { return fmt::format(fmt::runtime(next), a); }));
    EXPECT_LT(difference(b, ++seed), 1e-9) << next;
    size_t longest = 0;
    for (const Kernel& kernel : b.block().kernels)
      for (const Step& step : kernel.steps) longest = std::max(longest, step.exprs.size());
    EXPECT_LT(longest, 1200u) << next;
  }
}

TEST(Stages, WithoutFusionEveryProductIsAKernelAndALaunch) {
  const Built b = build(kTreeNode, false);
  EXPECT_EQ(b.gemms(), 6) << print(b.plan);
  EXPECT_EQ(b.block().kernels.size(), 7u);
  EXPECT_EQ(b.plan.launches.size(), 7u);
  EXPECT_LT(difference(b, 1), 1e-12);
}

// Random straight-line code over a few shapes. The names defined so far, by shape, are drawn from.
std::string random_program(std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  const std::vector<std::vector<int64_t>> shapes = {{}, {4}, {8}, {4, 8}, {8, 4}, {4, 4}, {3, 4, 8}};
  std::vector<std::vector<std::string>> have(shapes.size());
  std::string params, weights, body;
  const auto show = [](const std::vector<int64_t>& d) { return fmt::format("f32[{}]", fmt::join(d, ",")); };
  for (size_t s = 0; s < shapes.size(); ++s) {
    have[s].push_back(fmt::format("p{}", s));
    params += fmt::format("{}p{}: {}", s ? ", " : "", s, show(shapes[s]));
    weights += fmt::format("weight w{}: {};\n", s, show(shapes[s]));
  }
  weights += "weight table: f32[3,8];\n";
  const auto any = [&](size_t s) { return below(5) == 0 ? fmt::format("w{}", s) : have[s][have[s].size() - 1 - below(std::min<size_t>(have[s].size(), 3))]; };
  const char* unary[] = {"tanh", "sigmoid", "relu", "exp", "abs", "gelu", "-"};
  const char* binary[] = {"+", "-", "*"};
  const int count = 3 + static_cast<int>(below(10));
  for (int n = 0; n < count; ++n) {
    size_t s = below(shapes.size());
    std::string e;
    switch (below(12)) {
      case 0: e = fmt::format("{}({})", unary[below(7)], any(s)); break;
      case 1:
      case 2: e = fmt::format("{} {} {}", any(s), binary[below(3)], any(s)); break;
      case 3: s = 1, e = fmt::format("{} @ {} + w1", any(3), any(2)); break;
      case 4: s = 2, e = fmt::format("{} @ {}", any(4), any(1)); break;
      case 5: s = 5, e = fmt::format("{} @ {}", any(3), any(4)); break;
      case 6: s = 1 + below(2), e = fmt::format("softmax({})", any(s)); break;
      case 7: s = 2, e = fmt::format("concat({}, {})", any(1), any(1)); break;
      case 8: s = 1, e = fmt::format("{}[2:6]", any(2)); break;
      case 9: s = 4, e = fmt::format("transpose({})", any(3)); break;
      case 10: {
        const size_t kind = below(4);
        if (kind == 0) s = 2, e = fmt::format("sum({}, axis=0)", any(3));
        else if (kind == 1) s = 1, e = fmt::format("max({}, axis=1)", any(3));
        else if (kind == 2) s = 0, e = fmt::format("mean({})", any(2));
        else s = 2, e = "table[i]";
        break;
      }
      case 11: {
        const size_t kind = below(4);
        if (kind == 0) s = 3, e = fmt::format("{} * {}", any(3), any(2));
        else if (kind == 1) s = 6, e = fmt::format("{} + {}", any(6), any(3));
        else if (kind == 2) s = 4, e = fmt::format("reshape({}, 8, 4)", any(3));
        else s = 1, e = fmt::format("{} @ {}", any(2), any(4));
        break;
      }
    }
    body += fmt::format("  let v{} = {};\n", n, e);
    have[s].push_back(fmt::format("v{}", n));
  }
  std::string result, types;
  for (size_t s = 0; s < shapes.size(); ++s)
    for (size_t k = 0; k < have[s].size(); ++k) {
      if (have[s][k][0] != 'v' || below(3) == 0) continue;
      result += (result.empty() ? "" : ", ") + have[s][k];
      types += (types.empty() ? "" : ", ") + show(shapes[s]);
    }
  if (result.empty()) result = "p1 * 2.0", types = "f32[4]";
  return fmt::format("{}fn main({}, i: int) -> (f32[4], {}) {{\n{}  (p1 * 0.5, {})\n}}\n", weights, params, types, body, result);
}

TEST(Stages, KernelsOfRandomBodiesComputeWhatTheBodySays) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 random(seed);
    const std::string text = random_program(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    for (const bool fused : {true, false}) {
      const Built b = build(text, fused);
      ASSERT_LT(difference(b, seed), 1e-6) << print(b.plan);
    }
  }
}

}  // namespace
}  // namespace rondo::plan
