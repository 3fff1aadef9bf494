#include "compiler_analysis_support.h"

namespace rondo::testing {
namespace {

TEST(Reuse, WeightUsedByAllInstancesIsShared) {
  const std::string text =
      reuse_text("weight w: f32[4, 4]; weight b: f32[4];\nfn main(x: f32[4]) -> f32[4] { w @ x + b }");
  EXPECT_TRUE(has(text, "matmul shared w, per instance"));
  EXPECT_TRUE(has(text, "add per instance, shared b"));
}

TEST(Reuse, WhatIsMadeFromWeightsAloneIsShared) {
  const std::string text =
      reuse_text("weight w: f32[4, 4];\nfn main(x: f32[4]) -> f32[4] { (w @ transpose(w) + 1.0) @ x }");
  EXPECT_TRUE(has(text, "matmul shared w, shared view of w"));
  EXPECT_TRUE(has(text, "add shared, shared 1"));
  EXPECT_TRUE(has(text, "matmul shared, per instance"));
}

TEST(Reuse, FunctionUsedWithTwoSetsOfWeightsHasTwoContexts) {
  const std::string text = reuse_text(
      "weight w: f32[4, 4]; weight u: f32[4, 4];\n"
      "fn rnn(m: f32[4, 4], xs: [f32[4]]) -> f32[4] { fold(xs, zeros(4), |h, x| tanh(m @ h + x)) }\n"
      "fn main(xs: [f32[4]]) -> f32[4] { rnn(w, xs) + rnn(u, reverse(xs)) }");
  EXPECT_TRUE(has(text, "rnn(shared w, per instance)"));
  EXPECT_TRUE(has(text, "rnn(shared u, per instance)"));
  EXPECT_TRUE(has(text, "matmul shared u, per instance"));
}

TEST(Reuse, CallsWithTheSameWeightsShareAContext) {
  const std::string text = reuse_text(
      "weight w: f32[4, 4];\n"
      "fn f(m: f32[4, 4], x: f32[4]) -> f32[4] { m @ x }\n"
      "fn main(x: f32[4]) -> f32[4] { f(w, x) + f(transpose(transpose(w)), x + x) }");
  EXPECT_EQ(count(text, "context 1: "), 1u) << text;
  EXPECT_TRUE(lacks(text, "context 2: "));
}

TEST(Reuse, WeightsInsideARecordAreFollowedFieldByField) {
  const std::string text = reuse_text(
      "type Cell { Cell(w: f32[4, 4], x: f32[4]) }\nweight w: f32[4, 4];\n"
      "fn f(c: Cell) -> f32[4] { c.w @ c.x }\n"
      "fn main(x: f32[4]) -> f32[4] { f(Cell(w, x)) }");
  EXPECT_TRUE(has(text, "f(Cell(shared w, per instance))"));
  EXPECT_TRUE(has(text, "matmul shared w, per instance"));
}

TEST(Reuse, RecursionThatSwapsItsWeightsHasTwoContexts) {
  const std::string text = reuse_text(
      "type N { Z, S(n: N) }\nweight w: f32[4, 4]; weight u: f32[4, 4];\n"
      "fn f(n: N, a: f32[4, 4], b: f32[4, 4], x: f32[4]) -> f32[4] { match n { Z => x, S(m) => f(m, b, a, a "
      "@ x) } }\n"
      "fn main(n: N, x: f32[4]) -> f32[4] { f(n, w, u, x) }");
  EXPECT_TRUE(has(text, "f(per instance, shared w, shared u, per instance)"));
  EXPECT_TRUE(has(text, "f(per instance, shared u, shared w, per instance)"));
  EXPECT_TRUE(lacks(text, "context 3"));
}

TEST(Reuse, FirstCallWithZerosAndInnerCallsShareAContext) {
  const std::string text = reuse_text(
      "fn f(xs: [f32[4]], h: f32[4]) -> f32[4] { match xs { [] => h, [x, ..rest] => f(rest, h + x) } }\n"
      "fn main(xs: [f32[4]]) -> f32[4] { f(xs, zeros(4)) }");
  EXPECT_EQ(count(text, "context 1: f(per instance, per instance)"), 1u) << text;
  EXPECT_TRUE(lacks(text, "context 2: "));
}

TEST(Reuse, WeightOutOfAListIsPerInstance) {
  const std::string text = reuse_text(
      "weight w: f32[4, 4]; weight u: f32[4, 4];\n"
      "fn main(i: int, x: f32[4]) -> f32[4] { [w, u][i] @ x }");
  EXPECT_TRUE(has(text, "matmul per instance, per instance"));
}

TEST(Reuse, WeightChosenByAnInstanceIsPerInstance) {
  const std::string text = reuse_text(
      "weight w: f32[4, 4]; weight u: f32[4, 4];\n"
      "fn main(i: int, x: f32[4]) -> f32[4] { (if i < 3 { w } else { u }) @ x + (if i < 3 { w } else { w }) "
      "@ x }");
  EXPECT_TRUE(has(text, "matmul per instance, per instance"));
  EXPECT_TRUE(has(text, "matmul shared w, per instance"));
}

TEST(Reuse, AccumulatorThatStartsAsAWeightIsPerInstance) {
  const std::string text = reuse_text(
      "weight b: f32[4];\n"
      "fn main(xs: [f32[4]]) -> f32[4] { fold(xs, b, |h, x| h + x) * b }");
  EXPECT_TRUE(has(text, "add per instance, per instance"));
  EXPECT_TRUE(has(text, "mul per instance, shared b"));
}

// 120 orders of five weights: more than a function may have contexts, so the rest is taken to be per
// instance.
TEST(Reuse, ContextsOfAFunctionAreBounded) {
  const std::string text =
      "type N { Z, S(n: N) }\n"
      "weight a: f32[2, 2]; weight b: f32[2, 2]; weight c: f32[2, 2]; weight d: f32[2, 2]; weight e: f32[2, "
      "2];\n"
      "fn f(n: N, a: f32[2, 2], b: f32[2, 2], c: f32[2, 2], d: f32[2, 2], e: f32[2, 2], x: f32[2]) -> f32[2] "
      "{\n"
      "  match n { Z => a @ x, S(m) => f(m, b, a, c, d, e, x) + f(m, b, c, d, e, a, x) }\n"
      "}\n"
      "fn main(n: N, x: f32[2]) -> f32[2] { f(n, a, b, c, d, e, x) }";
  const std::string reuse = reuse_text(text);
  EXPECT_TRUE(has(reuse, "context 64: "));
  EXPECT_TRUE(lacks(reuse, "context 66: "));
  EXPECT_TRUE(has(
      reuse,
      "f(per instance, per instance, per instance, per instance, per instance, per instance, per instance)"));
  EXPECT_EQ(specialised(text).functions.size(), 66u);
}

}  // namespace
}  // namespace rondo::testing
