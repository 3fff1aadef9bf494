// For each analysis: where it matters, and where it must not fire.
#include "compiler_analysis_support.h"

namespace rondo::testing {
namespace {

const char* const kWords =
    "weight embed: f32[10, 4]; weight w: f32[4, 4]; weight u: f32[4, 4]; weight b: f32[4];\n";

// ---------------------------------------------------------------- blocks
TEST(Blocks, AllGatesOfACellAreOneBlock) {
  const std::string text = facts_text(std::string(kTree) + kSmallTree +
                                      "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  EXPECT_TRUE(has(text, "encode_Node_1 at 8:25: (f32[4], f32[4], f32[4], f32[4]) -> (f32[4], f32[4])"));
  EXPECT_TRUE(has(text, "matmul matmul add sigmoid add mul tanh"));
  EXPECT_TRUE(lacks(text, "encode_Node_2"));
}

TEST(Blocks, ACallThatUsesABlockSplitsWhatFollows) {
  const std::string rec =
      "type N { Z, S(n: N) }\nweight w: f32[4, 4];\n"
      "fn f(n: N, x: f32[4]) -> f32[4] { match n { Z => x, S(m) => f(m, tanh(x)) } }\n";
  const std::string split =
      facts_text(rec + "fn main(n: N, x: f32[4]) -> f32[4] { let a = w @ x; a + f(n, a) }");
  EXPECT_TRUE(has(split, "main_1 at 4:48: (f32[4]) -> (f32[4])"));
  EXPECT_TRUE(has(split, "main_2 at 4:55: (f32[4], f32[4]) -> (f32[4])"));
}

// The product waits for the sum that needs it, because nothing else does.
TEST(Blocks, AProductThatOnlyALaterSumUsesJoinsIt) {
  const std::string text = facts_text(
      std::string(kWords) +
      "fn main(xs: [f32[4]], x: f32[4]) -> f32[4] {\n"
      "  fold(xs, x, |h, x| { let g = fold([x, x], tanh(h), |g, y| tanh(g + y)); tanh(w @ g + u @ h) })\n"
      "}");
  EXPECT_TRUE(has(text, "(f32[4], f32[4]) -> (f32[4])\n    matmul matmul add tanh"));
}

TEST(Blocks, ArmsOfABranchAreNotJoined) {
  const std::string text = facts_text(
      "fn main(i: int, x: f32[4]) -> f32[4] { let a = tanh(x); if i < 3 { exp(a) } else { sin(a) } }");
  EXPECT_TRUE(has(text, "main_1"));
  EXPECT_TRUE(has(text, "main_3"));
}

TEST(Blocks, UnconnectedWorkIsNotJoined) {
  const std::string text =
      facts_text("fn main(x: f32[4], y: f32[4]) -> (f32[4], f32[4]) { (tanh(x), tanh(y)) }");
  EXPECT_TRUE(has(text, "main_2"));
  EXPECT_TRUE(lacks(facts_text("fn main(x: f32[4]) -> (f32[4], f32[4]) { (tanh(x), exp(x)) }"), "main_2"));
}

TEST(Blocks, RowsAndViewsAreRepeatedWhereTheyAreUsed) {
  const std::string text = facts_text(std::string(kWords) +
                                      "fn main(i: int, x: f32[8]) -> f32[4] { let r = embed[i]; let v = "
                                      "x[2:6]; if i < 3 { tanh(r + v) } else { w @ r } }");
  EXPECT_TRUE(has(text, "main_1 at 2:92: (f32[8], int) -> (f32[4])\n    add tanh"));
  EXPECT_TRUE(has(text, "main_2 at 2:108: (int) -> (f32[4])\n    matmul"));
  EXPECT_TRUE(lacks(text, "main_3"));
}

TEST(Blocks, ARowThatAListHoldsIsComputed) {
  const std::string text = facts_text(std::string(kWords) + "fn main(i: int) -> [f32[4]] { [embed[i]] }");
  EXPECT_TRUE(has(text, "main_1 at 2:37: (int) -> (f32[4])\n    row"));
}

TEST(Blocks, ANumberThatAListHoldsIsAConstantInstead) {
  EXPECT_TRUE(
      lacks(facts_text(std::string(kWords) + "fn main(i: int) -> [f32[4]] { [zeros(4), w[2], embed[3]] }"),
            "main_1"));
}

// ---------------------------------------------------------------- hoist
TEST(Hoist, InputProductOfALoopDoesNotDependOnTheLoop) {
  const std::string text = facts_text(
      std::string(kWords) +
      "fn main(words: [int]) -> f32[4] { fold(words, zeros(4), |h, i| tanh(w @ embed[i] + u @ h + b)) }");
  EXPECT_TRUE(has(text, "main_1 does not depend on fold at 2:35: hoisted"));
  EXPECT_TRUE(has(text, "main_2 depends on fold at 2:35"));
  EXPECT_TRUE(has(text, "main_1: level 1"));
}

TEST(Hoist, ProductOfTheAccumulatorIsNotHoisted) {
  const std::string text = facts_text(
      std::string(kWords) +
      "fn main(words: [int]) -> f32[4] { fold(words, zeros(4), |h, i| tanh(w @ (embed[i] * h))) }");
  EXPECT_TRUE(lacks(text, "hoisted"));
}

TEST(Hoist, ARowAloneIsReadWhereItIsUsed) {
  const std::string text =
      facts_text(std::string(kWords) +
                 "fn main(words: [int]) -> f32[4] { fold(words, zeros(4), |h, i| tanh(embed[i] + u @ h)) }");
  EXPECT_TRUE(lacks(text, "main_2"));
}

TEST(Hoist, LeavesOfATreeDoNotDependOnTheRecursionAndNodesDo) {
  const std::string text = facts_text(std::string(kTree) + kSmallTree +
                                      "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  EXPECT_TRUE(has(text, "encode_Leaf_1 does not depend on encode: hoisted"));
  EXPECT_TRUE(has(text, "encode_Node_1 depends on encode"));
}

TEST(Hoist, TopDownRecursionDependsOnItsParameter) {
  const std::string text = facts_text(
      std::string(kTree) +
      "fn go(t: Tree, h: f32[4]) -> [f32[4]] {\n"
      "  match t { Leaf(i) => [h], Node(l, r) => { let n = tanh(w @ h); append(go(l, n), go(r, n)) } }\n}\n"
      "fn main(t: Tree, x: f32[4]) -> [f32[4]] { go(t, x) }");
  EXPECT_TRUE(has(text, "go_Node_1 depends on go"));
}

// The list grows with the recursion, but what is in it does not.
TEST(Hoist, AListThatGrowsIsNotARecursion) {
  const std::string text = facts_text(std::string(kWords) +
                                      "fn main(words: [int]) -> [f32[4]] { let e: [f32[4]] = []; fold(words, "
                                      "e, |ys, i| cons(tanh(w @ embed[i]), ys)) }");
  EXPECT_TRUE(has(text, "recursions\nblocks"));
  EXPECT_TRUE(has(text, "main_1: level 1"));
}

// ---------------------------------------------------------------- phases
TEST(Phases, OutputLayerAfterALoopIsAPhaseOfItsOwn) {
  const std::string text = facts_text(std::string(kWords) +
                                      "fn main(words: [int]) -> [f32[4]] {\n"
                                      "  let hs = scan(words, zeros(4), |h, i| tanh(w @ embed[i] + u @ h));\n"
                                      "  map(hs, |h| w @ h + b)\n}");
  EXPECT_TRUE(has(text, "0: main_1 main_2\n  1: main_3"));
  EXPECT_TRUE(has(text, "main_3: level 1"));
}

TEST(Phases, SecondLayerWaitsForTheFirst) {
  const std::string text = facts_text(std::string(kWords) +
                                      "fn main(words: [int]) -> [f32[4]] {\n"
                                      "  let hs = scan(words, zeros(4), |h, i| tanh(w @ embed[i] + u @ h));\n"
                                      "  scan(hs, zeros(4), |g, h| tanh(w @ h + u @ g))\n}");
  EXPECT_TRUE(has(text, "0: main_1 main_2\n  1: main_3 main_4"));
  EXPECT_TRUE(has(text, "main_3: level 1"));
  EXPECT_TRUE(has(text, "main_4: levels 2.."));
}

TEST(Phases, LeavesAndNodesOfATreeAreOnePhase) {
  const std::string text = facts_text(std::string(kTree) + kSmallTree +
                                      "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  EXPECT_TRUE(has(text, "phases\n  0: encode_Leaf_1 encode_Node_1\ndepth"));
}

TEST(Phases, InnerLoopInsideAnOuterCycleIsOnePhase) {
  const std::string text = facts_text(std::string(kWords) +
                                      "fn main(words: [int]) -> f32[4] {\n"
                                      "  fold(words, zeros(4), |h, i| { let g = fold(range(0, i), h, |g, _| "
                                      "tanh(w @ g)); tanh(u @ g + h) })\n}");
  EXPECT_TRUE(has(text, "phases\n  0: main_1 main_2\ndepth"));
}

TEST(Phases, ClassifierAtEveryNodeWaitsForTheTree) {
  const std::string text = facts_text(std::string(kTree) +
                                      "fn go(t: Tree) -> (f32[4], [f32[4]]) {\n"
                                      "  match t {\n"
                                      "    Leaf(i) => { let h = tanh(w @ embed[i]); (h, [u @ h]) },\n"
                                      "    Node(l, r) => {\n"
                                      "      let ((a, xs), (c, ys)) = (go(l), go(r));\n"
                                      "      let h = tanh(w @ (a + c));\n"
                                      "      (h, cons(u @ tanh(u @ h + b), append(xs, ys)))\n"
                                      "    }\n  }\n}\n"
                                      "fn main(t: Tree) -> [f32[4]] { let (_, ys) = go(t); ys }");
  EXPECT_TRUE(has(text, "1: go_Node_2"));
  EXPECT_TRUE(has(text, "go_Node_2 uses what go made in an earlier phase"));
  EXPECT_TRUE(has(text, "go_Node_2: level 1"));
  EXPECT_TRUE(lacks(text, "go_Node_3"));
}

TEST(Phases, TheUsersMarkStartsAPhase) {
  EXPECT_TRUE(
      has(facts_text("fn main(x: f32[4]) -> f32[4] { exp(phase(tanh(x))) }"), "0: main_1\n  1: main_2"));
  EXPECT_TRUE(has(facts_text("fn main(x: f32[4]) -> f32[4] { exp(tanh(x)) }"), "phases\n  0: main_1\ndepth"));
}

TEST(Phases, MarksInsideATupleReachItsTensors) {
  EXPECT_TRUE(
      has(facts_text("fn main(x: f32[4]) -> f32[4] { let (a, n) = phase((tanh(x), 3)); exp(a) * float(n) }"),
          "0: main_1\n  1: main_2"));
}

TEST(Phases, MarkInsideACycleHasNoEffect) {
  const std::string text =
      facts_text("fn main(xs: [f32[4]]) -> f32[4] { fold(xs, zeros(4), |h, x| phase(tanh(h + x))) }");
  EXPECT_TRUE(has(text, "phases\n  0: main_1\ndepth"));
}

TEST(Phases, AreNeverMoreThanFifteen) {
  std::string e = "x";
  for (int k = 0; k < 40; ++k) e = "phase(tanh(" + e + "))";
  const std::string text = facts_text("fn main(x: f32[4]) -> f32[4] { " + e + " }");
  EXPECT_TRUE(has(text, "13: main_14\n  14: main_15 main_16"));
  EXPECT_TRUE(lacks(text, "\n  15:"));
  EXPECT_TRUE(has(text, "main_15: level 1\n  main_16: level 2"));
}

// ---------------------------------------------------------------- depth
TEST(Depth, OneOperandOfEachChildIsLookedAt) {
  const std::string text = facts_text(std::string(kTree) + kSmallTree +
                                      "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }");
  EXPECT_TRUE(has(text, "encode_Leaf_1: level 1"));
  EXPECT_TRUE(has(text, "encode_Node_1: levels 2.., looks at operand 0, 1 of 4"));
}

TEST(Depth, OperandsThatNeedNotComeFromOneRecordAreAllLookedAt) {
  const std::string text = facts_text(
      std::string(kTree) +
      "fn go(t: Tree) -> (f32[4], f32[4]) {\n"
      "  match t {\n"
      "    Leaf(i) => (tanh(embed[i]), b),\n"
      "    Node(l, r) => { let ((a, c), (d, e)) = (go(l), go(r)); (tanh(w @ a + c), tanh(u @ d + e)) }\n"
      "  }\n}\n"
      "fn main(t: Tree) -> f32[4] { let (x, y) = go(t); x + y }");
  EXPECT_TRUE(has(text, "go_Node_1: levels 2.., looks at operand 0, 1 of 2"));
}

TEST(Depth, StraightLineProgramsHaveKnownLevels) {
  const std::string text = facts_text(
      "type N { Z, S(n: N) }\n"
      "fn main(n: N, x: f32[4]) -> f32[4] { let a = tanh(x); let c = match n { Z => exp(a), S(m) => a }; "
      "sin(c) }");
  EXPECT_TRUE(has(text, "main_1: level 1"));
  EXPECT_TRUE(has(text, "main_Z_1: level 2"));
  EXPECT_TRUE(has(text, "main_2: levels 2..3, looks at operand 0 of 1"));
}

TEST(Depth, AccumulatorsOfALoopThatStartTogetherStayTogether) {
  const std::string loop =
      "fn main(xs: [f32[4]], x: f32[4]) -> f32[4] {\n  let (h, c) = fold(xs, START, |(h, c), x| {\n"
      "    let d = tanh(c + h + x); (exp(d), d) });\n  h\n}";
  const auto with = [&](const std::string& start) {
    std::string t = loop;
    return facts_text(t.replace(t.find("START"), 5, start));
  };
  EXPECT_TRUE(has(with("(zeros(4), ones(4))"), "looks at operand 0 of 3"));
  EXPECT_TRUE(has(with("(zeros(4), tanh(x))"), "looks at operand 0, 1 of 3"));
}

// ---------------------------------------------------------------- concurrency
TEST(Concurrency, BothDirectionsShareLevels) {
  const std::string text =
      facts_text(std::string(kWords) +
                 "fn main(words: [int]) -> [f32[4]] {\n"
                 "  let f = scan(words, zeros(4), |h, i| tanh(w @ embed[i] + u @ h));\n"
                 "  let g = scan(reverse(words), zeros(4), |h, i| tanh(u @ embed[i] + w @ h));\n"
                 "  map(zip(f, g), |(x, y)| w @ x + u @ y)\n}");
  EXPECT_TRUE(has(text, "phase 0 level 1: main_1 main_3"));
  EXPECT_TRUE(has(text, "phase 0 levels 2..: main_2 main_4"));
  EXPECT_TRUE(has(text, "phase 1 level 1: main_5"));
  EXPECT_TRUE(has(text, "scan at 3:11 and scan at 4:11 are independent"));
}

TEST(Concurrency, CallsOnSubtreesAreIndependentWithAndWithoutTheMark) {
  const std::string plain =
      std::string(kTree) + kSmallTree + "fn main(t: Tree) -> f32[4] { let (h, _) = encode(t); h }";
  EXPECT_TRUE(has(facts_text(plain), "encode at 7:35 and encode at 7:46 are independent"));
  std::string marked = plain;
  marked.replace(marked.find("= (encode"), 9, "= concurrent(encode");
  EXPECT_TRUE(has(facts_text(marked), "encode at 7:45 and encode at 7:56 are independent"));
}

TEST(Concurrency, ALoopOverAnotherLoopsResultIsNotIndependent) {
  const std::string text = facts_text(
      std::string(kWords) +
      "fn main(words: [int]) -> f32[4] { fold(map(words, |i| embed[i]), zeros(4), |h, x| h + x) }");
  EXPECT_TRUE(lacks(text, "independent"));
}

}  // namespace
}  // namespace rondo::testing
