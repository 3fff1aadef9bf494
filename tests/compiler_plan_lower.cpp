#include <fmt/format.h>

#include "compiler_analysis_support.h"
#include "host_interpreter.h"
#include "rondo/plan/lower.h"

namespace rondo::testing {
namespace {

plan::Lowered lowered(const std::string& text, const std::string& file = "t.rondo") {
  const ir::Program program = lang::parse_program(text, file);
  const ir::Program specialised = plan::specialise(program, analysis::find_reuse(program));
  return plan::lower(specialised, analysis::find_facts(specialised));
}
std::string host_text(const std::string& text) { return ir::print(lowered(text).host); }
const plan::Block& block(const plan::Lowered& l, const std::string& name) {
  for (const plan::Block& b : l.plan.blocks)
    if (b.name == name) return b;
  throw std::logic_error("no block " + name);
}
ir::EvalValue tensor(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return ir::EvalValue::tensor({n}, std::move(values));
}

TEST(Lower, TreeBecomesARecordANode) {
  const plan::Lowered l =
      lowered(std::string(kTree) + kSmallTree + "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  const std::string host = ir::print(l.host);
  EXPECT_EQ(count(host, "emit #"), 2u) << host;
  EXPECT_TRUE(lacks(host, "matmul"));
  EXPECT_TRUE(lacks(host, "weight w :"));
  const plan::Block& node = block(l, "encode_Node_1");
  EXPECT_EQ(node.source, "t.rondo:8");
  EXPECT_EQ(node.tensors, 4);
  EXPECT_EQ(node.depth_operand, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(node.first_level, 2);
  EXPECT_FALSE(node.fixed_level);
  EXPECT_TRUE(block(l, "encode_Leaf_1").fixed_level);
}

TEST(Lower, IndexOfARowCarriesTheNumberOfRows) {
  const plan::Lowered l = lowered(
      "weight a: f32[10, 4]; weight b: f32[7, 4];\nfn main(i: int, j: int) -> f32[4] { a[i] + b[i] * "
      "float(j) }");
  const plan::Block& b = block(l, "main_1");
  ASSERT_EQ(b.operands.size(), 2u);
  EXPECT_EQ(b.operands[0].size, 7);  // the smaller of the two
  EXPECT_EQ(b.operands[1].size, 0);  // a float of any int
}

TEST(Lower, EachSizeOfAResultHasABlockInTheLastPhase) {
  const plan::Lowered l = lowered(
      "type Out { Out(a: f32[2, 3], b: [f32[4]], rest: [Out]) }\n"
      "fn main(x: f32[2, 3], y: f32[4], z: f32[5]) -> Out { Out(tanh(x), [y], []) }");
  EXPECT_EQ(block(l, "result_6").phase, 1);
  EXPECT_EQ(block(l, "result_4").phase, 1);
  EXPECT_EQ(l.plan.pools, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(l.plan.pools[static_cast<size_t>(block(l, "result_6").result_pool)], 6);
  EXPECT_EQ(l.plan.phases, 2);
  EXPECT_EQ(l.plan.blocks.size(), 3u);
  EXPECT_EQ(l.plan.main_params.size(), 3u);
}

TEST(Lower, InputThatIsTheResultNeedsNoBlock) {
  const plan::Lowered l = lowered("fn main(x: f32[4]) -> f32[4] { x }");
  EXPECT_EQ(l.plan.blocks.size(), 1u);
  EXPECT_EQ(l.plan.blocks[0].name, "result_4");
  HostInterpreter run(l, {});
  EXPECT_EQ(run.run({tensor({1, 2, 3, 4})}).values(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(Lower, WeightsThatAreReferredToAreConstantsOnce) {
  const plan::Lowered l = lowered(
      "weight w: f32[3, 2];\n"
      "fn main(i: int) -> [f32[2]] { [w[1], transpose(w)[0][1:3], zeros(2), w[1], ones(2), zeros(2)] }");
  ASSERT_EQ(l.plan.constants.size(), 4u);
  EXPECT_EQ(l.plan.constants[0].offset, 2);
  EXPECT_EQ(l.plan.constants[1].strides, (std::vector<int64_t>{2}));
  EXPECT_EQ(l.plan.constants[1].offset, 2);
  EXPECT_EQ(l.plan.constants[2].weight, -1);
  EXPECT_EQ(l.plan.constants[3].row, 3);
  HostInterpreter run(l, {{"w", {3, 2}, {1, 2, 3, 4, 5, 6}}});
  const ir::EvalValue result = run.run({ir::EvalValue::integer(0)});
  EXPECT_EQ(result.parts()[0].values(), (std::vector<double>{3, 4}));
  EXPECT_EQ(result.parts()[1].values(), (std::vector<double>{3, 5}));
  EXPECT_EQ(result.parts()[5].values(), (std::vector<double>{0, 0}));
}

TEST(Lower, WhatIsComputedFromWeightsAloneRunsAsABlockWithoutOperands) {
  const plan::Lowered l = lowered("weight w: f32[2, 2];\nfn main(i: int) -> [f32[2, 2]] { [w @ w] }");
  EXPECT_TRUE(block(l, "main_1").operands.empty());
  HostInterpreter run(l, {{"w", {2, 2}, {1, 2, 3, 4}}});
  EXPECT_EQ(run.run({ir::EvalValue::integer(0)}).parts()[0].values(), (std::vector<double>{7, 10, 15, 22}));
}

// The sum needs f's result and a; f needs a: the product is one record before the call, the sum one after it.
TEST(Lower, OperationsMoveBeforeTheBlockThatWaitsForThem) {
  const plan::Lowered l = lowered(
      "type N { Z, S(n: N) }\nweight w: f32[2, 2];\n"
      "fn f(n: N, x: f32[2]) -> f32[2] { match n { Z => x, S(m) => f(m, x + 1.0) } }\n"
      "fn main(n: N, m: N, x: f32[2]) -> (f32[2], f32[2]) { let a = w @ x; let c = f(n, a); let d = f(m, x); "
      "(a + d, c) }");
  HostInterpreter run(l, {{"w", {2, 2}, {1, 0, 0, 2}}});
  const ir::EvalValue z = ir::EvalValue::adt(0, {}), s = ir::EvalValue::adt(1, {z});
  const ir::EvalValue result = run.run({s, z, tensor({3, 4})});
  EXPECT_EQ(result.parts()[0].values(), (std::vector<double>{6, 12}));
  EXPECT_EQ(result.parts()[1].values(), (std::vector<double>{4, 9}));
}

// The list holds the row, the product reads it from the weight: neither waits for the other.
TEST(Lower, RowThatLeavesItsBlockIsNotWaitedForInside) {
  const plan::Lowered l = lowered(
      "weight e: f32[10, 4]; weight w: f32[4, 4];\n"
      "fn main(i: int) -> [f32[4]] { let x = e[i]; [x, w @ x] }");
  EXPECT_EQ(l.plan.blocks.size(), 2u);
  EXPECT_EQ(block(l, "main_1").outputs.size(), 2u);
  EXPECT_EQ(block(l, "main_1").stages, 1);
}

TEST(Lower, MarksOfPhasesAreGone) {
  const std::string host =
      host_text("fn main(xs: [f32[4]]) -> [f32[4]] { map(phase(map(xs, |x| tanh(x))), |x| exp(phase(x))) }");
  EXPECT_TRUE(lacks(host, "phase"));
}

// Chains between blocks and around them; by recursion they would need more than the stack.
TEST(Lower, ThirtyThousandLetsAreLowered) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kLets = 3'000;  // its frames are larger
#else
  constexpr int kLets = 30'000;
#endif
  const auto blocks = [](const std::string& more, const char* params, const char* first, const char* next, const char* last) {
    std::string text = more + "fn main(" + params + ") -> f32[2,2] {\n  let a0 = " + first + ";\n";
    for (int i = 1; i < kLets; ++i) text += fmt::format("  let a{} = ", i) + fmt::format(fmt::runtime(next), fmt::format("a{}", i - 1)) + ";\n";
    return lowered(text + fmt::format(fmt::runtime(last), fmt::format("a{}", kLets - 1)) + "\n}").plan.blocks.size();
  };
  EXPECT_EQ(blocks("", "x: f32[2,2]", "x", "transpose({})", "{} * 2.0"), 2u);       // views that the block repeats
  EXPECT_EQ(blocks("", "x: f32[2,2]", "x", "phase({} + 1.0)", "{}"), size_t{kLets});  // as many blocks
  const std::string loop = "fn f(n: int, x: f32[2,2]) -> f32[2,2] { if n == 0 { x } else { f(n - 1, tanh(x)) } }\n";
  EXPECT_EQ(blocks(loop, "n: int, x: f32[2,2]", "x", "tanh({} + x)", "f(n, {})"), 3u);  // what a call depends on
}

TEST(Lower, NameOfTheProgramIsAnIdentifier) {
  const std::string text = "fn main(x: f32[4]) -> f32[4] { x }";
  EXPECT_EQ(lowered(text, "/models/09_my-tree.v2.rondo").plan.name, "p09_my_tree");
  EXPECT_EQ(lowered(text, "tree.rondo").plan.name, "tree");
  EXPECT_EQ(lowered(text, "").plan.name, "p");
}

TEST(Lower, NamesOfBlocksAreIdentifiersAndDistinct) {
  const plan::Lowered l = lowered(
      "type N { Z, S(n: N) }\n"
      "fn result[K](n: N, x: f32[K]) -> f32[K] { match n { Z => tanh(x), S(m) => result(m, exp(x)) } }\n"
      "fn main(n: N, x: f32[4], y: f32[8]) -> (f32[4], f32[8]) { (result(n, x), result(n, y)) }");
  std::set<std::string> names;
  for (const plan::Block& b : l.plan.blocks) {
    EXPECT_TRUE(names.insert(b.name).second) << b.name;
    for (const char c : b.name)
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '_') << b.name;
  }
  EXPECT_EQ(names.size(), 6u);
}

TEST(Lower, DeepTreesRunAtTheLevelOfTheirDepth) {
  const plan::Lowered l =
      lowered(std::string(kTree) + kSmallTree + "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  const std::vector<double> four(4, 0.1);
  const std::vector<double> sixteen(16, 0.1), forty(40, 0.1);
  HostInterpreter run(
      l, {{"embed", {10, 4}, forty}, {"w", {4, 4}, sixteen}, {"u", {4, 4}, sixteen}, {"b", {4}, four}});
  ir::EvalValue t = ir::EvalValue::adt(0, {ir::EvalValue::integer(3)});
  for (int k = 0; k < 50; ++k)
    t = ir::EvalValue::adt(1, {t, ir::EvalValue::adt(0, {ir::EvalValue::integer(k % 10)})});
  run.run({t});
  EXPECT_EQ(run.records[0], 51u);
  EXPECT_EQ(run.records[1], 50u);
}

}  // namespace
}  // namespace rondo::testing
