#include "compiler_analysis_support.h"
#include "rondo/error.h"

namespace rondo::testing {
namespace {

std::string text_of(const std::string& text) { return ir::print(specialised(text)); }

std::string message(const std::string& text) {
  try {
    specialised(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

const char* const kN = "type N { Z, S(n: N) }\nweight w: f32[4, 4]; weight u: f32[4, 4]; weight b: f32[4];\n";

TEST(Specialise, RecursiveFunctionIsClonedForEachSetOfWeights) {
  const std::string text =
      text_of(std::string(kN) +
              "fn f(n: N, m: f32[4, 4], x: f32[4]) -> f32[4] { match n { Z => x, S(p) => f(p, m, m @ x) } }\n"
              "fn main(n: N, x: f32[4]) -> f32[4] { f(n, w, x) + f(n, u, x) + f(n, w, x + x) }");
  EXPECT_TRUE(has(text, "fn f(%0: N, %1: f32[4]) -> f32[4]"));
  EXPECT_TRUE(has(text, "fn f_2(%0: N, %1: f32[4]) -> f32[4]"));
  EXPECT_TRUE(lacks(text, "fn f_3"));
}

TEST(Specialise, RecordOfWeightsIsNoParameterAndItsOtherPartsAre) {
  const std::string text = text_of(std::string(kN) +
                                   "type Cell { Cell(m: f32[4, 4], k: int) }\n"
                                   "fn f(n: N, c: Cell, x: f32[4]) -> f32[4] { match n { Z => x * "
                                   "float(c.k), S(p) => f(p, Cell(c.m, c.k + 1), c.m @ x) } }\n"
                                   "fn main(n: N, x: f32[4]) -> f32[4] { f(n, Cell(w, 0), x) }");
  EXPECT_TRUE(has(text, "fn f(%0: N, %1: int, %2: f32[4]) -> f32[4]"));
  EXPECT_TRUE(lacks(text, "construct"));
}

TEST(Specialise, OtherCallsAreInlinedEvenInsideLoops) {
  const std::string text =
      text_of(std::string(kN) +
              "fn g(x: f32[4]) -> f32[4] { w @ x }\nfn f(x: f32[4]) -> f32[4] { tanh(g(x)) }\n"
              "fn main(xs: [f32[4]]) -> [f32[4]] { map(xs, |x| f(x)) }");
  EXPECT_TRUE(lacks(text, "call"));
  EXPECT_EQ(count(text, "fn "), 1u);
  EXPECT_TRUE(has(text, "matmul"));
}

TEST(Specialise, MutualRecursionIsClonedTogether) {
  const std::string text = text_of(
      std::string(kN) +
      "fn even(n: N, m: f32[4, 4], x: f32[4]) -> f32[4] { match n { Z => x, S(p) => odd(p, m, m @ x) } }\n"
      "fn odd(n: N, m: f32[4, 4], x: f32[4]) -> f32[4] { match n { Z => b, S(p) => even(p, m, tanh(x)) } }\n"
      "fn main(n: N, x: f32[4]) -> f32[4] { even(n, w, x) + odd(n, u, x) }");
  for (const char* name : {"fn even(", "fn even_2(", "fn odd(", "fn odd_2("}) EXPECT_TRUE(has(text, name));
}

TEST(Specialise, ParameterThatNobodyReadsIsDropped) {
  const std::string text = text_of(std::string(kN) +
                                   "fn f(n: N, unused: f32[4], x: f32[4]) -> f32[4] { match n { Z => x, S(p) "
                                   "=> f(p, unused + x, tanh(x)) } }\n"
                                   "fn main(n: N, x: f32[4]) -> f32[4] { f(n, x, x) }");
  EXPECT_TRUE(has(text, "fn f(%0: N, %1: f32[4]) -> f32[4]"));
  EXPECT_TRUE(lacks(text, "add"));
}

TEST(Specialise, ParametersOfMainStay) {
  EXPECT_TRUE(
      has(text_of("fn main(i: int, x: f32[4]) -> f32[4] { x }"), "fn main(%0: int, %1: f32[4]) -> f32[4]"));
}

TEST(Specialise, KnownConstructorsConditionsAndNumbersAreResolved) {
  const std::string text = text_of(
      "type Option[T] { None, Some(T) }\n"
      "fn get(o: Option[f32[4]], k: int) -> f32[4] { match o { None => zeros(4), Some(x) => if k * 2 < 7 { "
      "tanh(x) } else { x } } }\n"
      "fn main(x: f32[4]) -> f32[4] { get(Some(x), 3) + float(min(2 + 3, 9)) }");
  for (const char* gone : {"match", "if", "construct", "imul", "zeros", "to_float"})
    EXPECT_TRUE(lacks(text, gone));
  EXPECT_TRUE(has(text, "fill 5 : f32[]"));
  EXPECT_TRUE(has(text, "tanh"));
}

TEST(Specialise, UnknownConstructorsAreNot) {
  EXPECT_TRUE(
      has(text_of("type Option[T] { None, Some(T) }\n"
                  "fn main(o: Option[f32[4]]) -> f32[4] { match o { None => zeros(4), Some(x) => x } }"),
          "match"));
}

TEST(Specialise, RowWithAKnownIndexIsASlice) {
  const std::string text = text_of("weight w: f32[4, 4];\nfn main(x: f32[4]) -> f32[4] { w[2] + x }");
  EXPECT_TRUE(has(text, "slice axis=0 from=2"));
  EXPECT_TRUE(lacks(text, "row"));
}

TEST(Specialise, RowWithAKnownIndexOutOfRangeStaysAFaultOfTheRun) {
  EXPECT_TRUE(has(text_of("weight w: f32[4, 4];\nfn main(n: int, x: f32[4]) -> f32[4] { let k = 7; if n < 0 "
                          "{ w[k] } else { x } }"),
                  "row"));
}

TEST(Specialise, WorkThatIsTheSameInEveryIterationStandsBeforeTheLoop) {
  const std::string text = text_of(std::string(kN) +
                                   "fn main(xs: [f32[4]], y: f32[4]) -> f32[4] { fold(xs, zeros(4), |h, x| "
                                   "fold(xs, h, |g, z| tanh(w @ y + u @ x + g))) }");
  const size_t outer = text.find("fold"), inner = text.find("fold", outer + 1), w = text.find("matmul");
  EXPECT_LT(w, outer) << text;
  EXPECT_LT(text.find("matmul", w + 1), inner) << text;
  EXPECT_LT(inner, text.find("tanh")) << text;
}

TEST(Specialise, WhatCanFailStaysInItsLoop) {
  const std::string text = text_of(
      std::string(kN) + "fn main(xs: [f32[4]], i: int) -> f32[4] { fold(xs, zeros(4), |h, x| h + w[i]) }");
  EXPECT_LT(text.find("fold"), text.find("row")) << text;
}

TEST(Specialise, ConcurrentIsATupleThatIsTakenApart) {
  const std::string text =
      text_of("fn main(x: f32[4]) -> f32[4] { let (a, b) = concurrent(tanh(x), exp(x)); a + b }");
  EXPECT_TRUE(lacks(text, "concurrent"));
  EXPECT_TRUE(lacks(text, "tuple"));
}

TEST(Specialise, MessageWhenCallsAreNestedTooDeep) {
  std::string text = "fn f0(x: f32[4]) -> f32[4] { tanh(x) }\n";
  for (int k = 1; k <= 450; ++k)
    text += "fn f" + std::to_string(k) + "(x: f32[4]) -> f32[4] { f" + std::to_string(k - 1) + "(x) }\n";
  EXPECT_TRUE(has(message(text + "fn main(x: f32[4]) -> f32[4] { f450(x) }"),
                  "error: calls are nested more than 400 functions deep here; write fewer functions that "
                  "only call another one"));
}

TEST(Specialise, MessageWhenInliningGrowsTheProgramTooFar) {
  std::string text = "fn f0(x: f32[4]) -> f32[4] { tanh(x) }\n";
  for (int k = 1; k <= 30; ++k) {
    const std::string f = "f" + std::to_string(k - 1);
    text += "fn f" + std::to_string(k) + "(x: f32[4]) -> f32[4] { " + f + "(" + f + "(x)) }\n";
  }
  EXPECT_TRUE(has(message(text + "fn main(x: f32[4]) -> f32[4] { f30(x) }"),
                  "error: the program grows beyond 200000 operations when its calls are expanded; a function "
                  "that is called "
                  "very often can be made recursive or mapped over a list"));
}

}  // namespace
}  // namespace rondo::testing
