// The reference evaluator: every opcode against numbers worked out by hand, faults, depth, arguments.
#include <gtest/gtest.h>

#include <cmath>

#include "rondo/error.h"
#include "rondo/ir/evaluate.h"
#include "rondo/lang/lang.h"

namespace rondo::ir {
namespace {

using V = EvalValue;

V vec(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return V::tensor({n}, std::move(values));
}
V scalar(double value) { return V::tensor({}, {value}); }
V ints(const std::vector<int64_t>& values) {
  std::vector<V> list;
  for (const int64_t v : values) list.push_back(V::integer(v));
  return V::list(list);
}

V run(const std::string& program, const std::vector<V>& arguments,
      const std::vector<WeightData>& weights = {}) {
  return evaluate(lang::parse_program(program, "t.rondo"), weights, arguments);
}
// main(x: f32[3], m: f32[2, 3], n: int, xs: [int]) -> result { body
// } at x = (1, -2, 0.5), m = ((1,2,3),(4,5,6)), n = 7, xs = [3,1,2]
V at(const std::string& result, const std::string& body) {
  return run("fn main(x: f32[3], m: f32[2, 3], n: int, xs: [int]) -> " + result + " {\n" + body + "\n}",
             {vec({1, -2, 0.5}), V::tensor({2, 3}, {1, 2, 3, 4, 5, 6}), V::integer(7), ints({3, 1, 2})});
}
::testing::AssertionResult same(const V& got, const V& want) {
  const double d = largest_difference(got, want);
  return d <= 1e-12 ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "they differ by " << d;
}
std::string error(const std::string& result, const std::string& body) {
  try {
    at(result, body);
  } catch (const Error& e) {
    return std::string(name(e.kind())) + ": " + e.what();
  }
  return "no error";
}

TEST(Evaluate, Pointwise) {
  EXPECT_TRUE(same(at("f32[3]", "x + 2 * x - x / 4"), vec({2.75, -5.5, 1.375})));
  EXPECT_TRUE(same(at("f32[3]", "-x"), vec({-1, 2, -0.5})));
  EXPECT_TRUE(same(at("f32[3]", "maximum(x, 0)"), vec({1, 0, 0.5})));
  EXPECT_TRUE(same(at("f32[3]", "minimum(x, 0)"), vec({0, -2, 0})));
  EXPECT_TRUE(same(at("f32[3]", "pow(x, 2)"), vec({1, 4, 0.25})));
  EXPECT_TRUE(same(at("f32[3]", "relu(x)"), vec({1, 0, 0.5})));
  EXPECT_TRUE(same(at("f32[3]", "abs(x)"), vec({1, 2, 0.5})));
  EXPECT_TRUE(same(at("f32[3]", "floor(x)"), vec({1, -2, 0})));
  EXPECT_TRUE(same(at("f32[3]", "sqrt(x * x)"), vec({1, 2, 0.5})));
  EXPECT_TRUE(same(at("f32[3]", "log(exp(x))"), vec({1, -2, 0.5})));
  EXPECT_TRUE(
      same(at("f32[3]", "sin(x)"), vec({0.84147098480789650, -0.90929742682568170, 0.47942553860420300})));
  EXPECT_TRUE(
      same(at("f32[3]", "cos(x)"), vec({0.54030230586813972, -0.41614683654714239, 0.87758256189037272})));
  EXPECT_TRUE(
      same(at("f32[3]", "tanh(x)"), vec({0.76159415595576489, -0.96402758007581688, 0.46211715726000975})));
  EXPECT_TRUE(
      same(at("f32[3]", "sigmoid(x)"), vec({0.73105857863000488, 0.11920292202211756, 0.62245933120185457})));
  EXPECT_TRUE(
      same(at("f32[3]", "erf(x)"), vec({0.84270079294971487, -0.99532226501895273, 0.52049987781304654})));
  EXPECT_TRUE(
      same(at("f32[3]", "gelu(x)"), vec({0.84134474606854295, -0.04550026389635842, 0.34573123063700659})));
}

TEST(Evaluate, Broadcasting) {
  EXPECT_TRUE(same(at("f32[2,3]", "m + x"), V::tensor({2, 3}, {2, 0, 3.5, 5, 3, 6.5})));
  EXPECT_TRUE(same(at("f32[2,3]", "m[:, 0:1] * ones(1, 3)"), V::tensor({2, 3}, {1, 1, 1, 4, 4, 4})));
  EXPECT_TRUE(same(at("f32[2,3]", "broadcast_to(x, 2, 3)"), V::tensor({2, 3}, {1, -2, 0.5, 1, -2, 0.5})));
  EXPECT_TRUE(same(at("f32[2]", "full(x[2], 2)"), vec({0.5, 0.5})));
}

TEST(Evaluate, Products) {
  EXPECT_TRUE(same(at("f32[2]", "m @ x"), vec({-1.5, -3})));
  EXPECT_TRUE(same(at("f32[3]", "zeros(2) @ m + [1.0, 2.0][1]"), vec({2, 2, 2})));
  EXPECT_TRUE(same(at("f32[]", "x @ x"), scalar(5.25)));
  EXPECT_TRUE(same(at("f32[2,2]", "m @ transpose(m)"), V::tensor({2, 2}, {14, 32, 32, 77})));
  EXPECT_TRUE(same(at("f32[2,1,1]", "reshape(m, 2, 1, 3) @ stack(reshape(x, 3, 1), reshape(x, 3, 1))"),
                   V::tensor({2, 1, 1}, {-1.5, -3})));
}

TEST(Evaluate, Reductions) {
  EXPECT_TRUE(same(at("f32[3]", "sum(m, axis=0)"), vec({5, 7, 9})));
  EXPECT_TRUE(same(at("f32[2]", "sum(m, -1)"), vec({6, 15})));
  EXPECT_TRUE(same(at("f32[]", "sum(m)"), scalar(21)));
  EXPECT_TRUE(same(at("f32[]", "mean(m)"), scalar(3.5)));
  EXPECT_TRUE(same(at("f32[2]", "max(m, axis=1)"), vec({3, 6})));
  EXPECT_TRUE(same(at("f32[]", "min(x)"), scalar(-2)));
  EXPECT_TRUE(same(at("f32[]", "sum(x[0])"), scalar(1))) << "a scalar is its own sum";
  const double z = std::exp(1.0) + std::exp(-2.0) + std::exp(0.5);
  EXPECT_TRUE(
      same(at("f32[3]", "softmax(x)"), vec({std::exp(1.0) / z, std::exp(-2.0) / z, std::exp(0.5) / z})));
  EXPECT_TRUE(same(at("f32[3]", "log_softmax(x + 1000)"),
                   vec({1 - std::log(z), -2 - std::log(z), 0.5 - std::log(z)})));
  EXPECT_TRUE(same(at("f32[2,3]", "softmax(m * 0, axis=0)"), V::tensor({2, 3}, {.5, .5, .5, .5, .5, .5})));
}

TEST(Evaluate, StructureOfTensors) {
  EXPECT_TRUE(same(at("f32[5]", "concat(x, x[:-1])"), vec({1, -2, 0.5, 1, -2})));
  EXPECT_TRUE(
      same(at("f32[2,4]", "concat(m, m[:, 1:2], axis=-1)"), V::tensor({2, 4}, {1, 2, 3, 2, 4, 5, 6, 5})));
  EXPECT_TRUE(same(at("f32[2,3]", "stack(x, -x)"), V::tensor({2, 3}, {1, -2, 0.5, -1, 2, -0.5})));
  EXPECT_TRUE(same(at("f32[3,2]", "transpose(m)"), V::tensor({3, 2}, {1, 4, 2, 5, 3, 6})));
  EXPECT_TRUE(same(at("f32[3,1,2]", "transpose(reshape(m, 1, 2, 3), [2, 0, 1])"),
                   V::tensor({3, 1, 2}, {1, 4, 2, 5, 3, 6})));
  EXPECT_TRUE(same(at("f32[3,2]", "reshape(m, -1, 2)"), V::tensor({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_TRUE(same(at("f32[3]", "m[n - 6]"), vec({4, 5, 6})));
  EXPECT_TRUE(same(at("f32[]", "m[n - 6, 1]"), scalar(5)));
  EXPECT_TRUE(same(at("f32[]", "m[-1, -1]"), scalar(6)));
  EXPECT_TRUE(same(at("f32[]", "float(n) / 2"), scalar(3.5)));
  EXPECT_TRUE(same(at("f32[3]", "phase(x)"), vec({1, -2, 0.5})));
}

TEST(Evaluate, Ints) {
  EXPECT_TRUE(same(at("int", "n * 3 - 2 + -n"), V::integer(12)));
  EXPECT_TRUE(same(at("(int, int)", "(n / 2, n % 4)"), V::tuple({V::integer(3), V::integer(3)})));
  EXPECT_TRUE(same(at("(int, int)", "(-n / 2, -n % 4)"), V::tuple({V::integer(-3), V::integer(-3)})))
      << "toward zero";
  EXPECT_TRUE(same(at("(int, int)", "(min(n, 3), max(n, 9))"), V::tuple({V::integer(3), V::integer(9)})));
  EXPECT_TRUE(same(at("[bool]", "[n < 7, n <= 7, n > 7, n >= 7, n == 7, n != 7, true == false]"),
                   ints({0, 1, 0, 1, 1, 0, 0})));
  EXPECT_TRUE(same(at("[bool]", "[!(n == 7), n > 1 && n > 9, n > 1 || n > 9]"), ints({0, 0, 1})));
  const V least = V::integer(std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(
      same(run("fn main(a: int, b: int) -> [int] { [a / b, a % b, -a, a - 1 + 1] }", {least, V::integer(-1)}),
           V::list({least, V::integer(0), least, least})))
      << "ints wrap";
}

TEST(Evaluate, Lists) {
  EXPECT_TRUE(same(at("[int]", "cons(n, append(reverse(xs), [xs[0]]))"), ints({7, 2, 1, 3, 3})));
  EXPECT_TRUE(same(at("[int]", "range(2, 5)"), ints({2, 3, 4})));
  EXPECT_TRUE(same(at("[int]", "range(5, 2)"), ints({})));
  EXPECT_TRUE(same(at("int", "len(zip(xs, range(2)))"), V::integer(2)));
  EXPECT_TRUE(same(at("[int]", "map(zip(xs, range(9)), |(a, b)| a * b)"), ints({0, 1, 4})));
  EXPECT_TRUE(same(at("int", "fold(xs, n, |acc, v| acc * 2 + v)"), V::integer(72)));
  EXPECT_TRUE(same(at("[int]", "scan(xs, n, |acc, v| acc + v)"), ints({10, 11, 13})));
  EXPECT_TRUE(same(at("[int]", "match xs { [] => [], [a, ..rest] => rest }"), ints({1, 2})));
  EXPECT_TRUE(same(at("int", "match range(0, 0) { [] => 1, _ => 2 }"), V::integer(1)));
  EXPECT_TRUE(same(at("([int], int)", "concurrent(map(xs, |v| v + n), if n > 3 { 1 } else { 0 })"),
                   V::tuple({ints({10, 8, 9}), V::integer(1)})));
}

TEST(Evaluate, AlgebraicTypes) {
  const std::string types =
      "type T { A(int), B(x: int, y: f32[2]), C } type P { P(left: int, right: int) }\n";
  const std::string program = types +
                              "fn main(t: T) -> (int, T) { let p = P(3, 4); let P(_, r) = p; (match t { A(k) "
                              "=> k, B(k, _) => k + p.left, whole => r }, "
                              "match t { A(k) => B(k, ones(2)), other => other }) }";
  EXPECT_TRUE(same(run(program, {V::adt(0, {V::integer(5)})}),
                   V::tuple({V::integer(5), V::adt(1, {V::integer(5), vec({1, 1})})})));
  const V b = V::adt(1, {V::integer(5), vec({2, 3})});
  EXPECT_TRUE(same(run(program, {b}), V::tuple({V::integer(8), b})));
  EXPECT_TRUE(same(run(program, {V::adt(2, {})}), V::tuple({V::integer(4), V::adt(2, {})})));
}

TEST(Evaluate, ShortCircuitProtectsTheRightSide) {
  EXPECT_TRUE(same(at("bool", "n < len(xs) && xs[n] == 0"), V::integer(0)));
  EXPECT_TRUE(same(at("bool", "n >= len(xs) || 1 / (n - 7) == 0"), V::integer(1)));
}

TEST(Evaluate, FaultsNameTheLine) {
  EXPECT_EQ(error("int", "xs[n]"), "usage: t.rondo:2: index 7 is out of range: the list's length is 3");
  EXPECT_EQ(error("int", "xs[-n]"), "usage: t.rondo:2: index -7 is out of range: the list's length is 3");
  EXPECT_EQ(error("f32[3]", "m[n]"), "usage: t.rondo:2: index 7 is out of range: the first axis has 2");
  EXPECT_EQ(error("int", "1 / (n - 7)"), "usage: t.rondo:2: division by zero");
  EXPECT_EQ(error("int", "1 % (n - 7)"), "usage: t.rondo:2: division by zero");
  EXPECT_EQ(error("int", "len(range(0, n * 10000000))"),
            "usage: t.rondo:2: range(0, 70000000) is longer than 16777216");
}

TEST(Evaluate, EndlessRecursionIsAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer loses track of an exception that unwinds 256 MB of stack (its issue 189)";
#endif
  try {
    run("fn f(n: int) -> int { f(n + 1) } fn main(n: int) -> int { f(n) }", {V::integer(0)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Usage);
    EXPECT_STREQ(e.what(), "t.rondo:1: fn f recurses too deeply for the evaluator (256 MB of stack)");
  }
}

TEST(Evaluate, ATreeOfFiveThousandLevels) {
  V tree = V::adt(0, {scalar(1)});
  for (int k = 0; k < 5000; ++k) tree = V::adt(1, {tree, V::adt(0, {scalar(2)})});
  const std::string program =
      "type Tree { Leaf(f32[]), Node(Tree, Tree) }\n"
      "fn total(t: Tree) -> f32[] { match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) } }\n"
      "fn main(t: Tree) -> f32[] { total(t) }";
  EXPECT_TRUE(same(run(program, {tree}), scalar(10001)));
}

TEST(Evaluate, WeightsAreFoundByName) {
  const std::string program = "weight a: f32[2]; weight b: f32[2]; fn main() -> f32[2] { a - b }";
  EXPECT_TRUE(same(run(program, {}, {{"b", {2}, {1, 2}}, {"a", {2}, {5, 5}}}), vec({4, 3})));
  const auto refused = [&](const std::vector<WeightData>& weights) -> std::string {
    try {
      run(program, {}, weights);
    } catch (const Error& e) {
      return std::string(name(e.kind())) + ": " + e.what();
    }
    return "no error";
  };
  EXPECT_EQ(refused({{"b", {2}, {1, 2}}}), "usage: weight a: f32[2] is not given");
  EXPECT_EQ(refused({{"a", {1, 2}, {1, 2}}}), "usage: weight a: expected f32[2], got f32[1,2] with 2 values");
}

TEST(Evaluate, ArgumentsMustFitMain) {
  const auto refused = [](const std::string& type, const std::vector<V>& arguments) -> std::string {
    try {
      run("type T { A, B(int, f32[2]) } fn main(x: " + type + ") -> int { 1 }", arguments);
    } catch (const Error& e) {
      return std::string(name(e.kind())) + ": " + e.what();
    }
    return "no error";
  };
  EXPECT_EQ(refused("int", {}), "usage: main takes 1 argument(s), got 0");
  EXPECT_EQ(refused("int", {scalar(1)}), "usage: argument 1 of main: expected int");
  EXPECT_EQ(refused("f32[2]", {vec({1, 2, 3})}), "usage: argument 1 of main: expected f32[2]");
  EXPECT_EQ(refused("[int]", {V::list({V::integer(1), scalar(1)})}),
            "usage: argument 1 of main: expected int");
  EXPECT_EQ(refused("T", {V::adt(2, {})}), "usage: argument 1 of main: expected T");
  EXPECT_EQ(refused("T", {V::adt(1, {V::integer(1)})}), "usage: argument 1 of main: expected 2 parts, got 1");
  EXPECT_EQ(refused("(T, int)", {V::tuple({V::adt(1, {V::integer(1), vec({1, 2})}), V::integer(3)})}),
            "no error");
}

TEST(Evaluate, DifferenceSeesStructureAndNumbers) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(largest_difference(vec({1, 2}), vec({1, 2.5})), 0.5);
  EXPECT_EQ(largest_difference(vec({1, 2}), V::tensor({2, 1}, {1, 2})), inf);
  EXPECT_EQ(largest_difference(V::integer(1), V::integer(2)), inf);
  EXPECT_EQ(largest_difference(V::adt(0, {}), V::adt(1, {})), inf);
  EXPECT_EQ(largest_difference(scalar(nan), scalar(nan)), 0);
  EXPECT_EQ(largest_difference(scalar(nan), scalar(1)), inf);
  EXPECT_EQ(largest_difference(V::list({scalar(1), scalar(2)}), V::list({scalar(1), scalar(4)})), 2);
}

}  // namespace
}  // namespace rondo::ir
