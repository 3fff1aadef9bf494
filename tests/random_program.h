// Random programs and instances for property tests: trees, lists, folds, scans, maps, recursion with weights
// that travel through parameters, tuples, branches, marks. One seed, one program: print it when a test fails.
// Every program: weights and a Cell type as below, fn main(t: Tree, words: [int], x: f32[4]) -> (f32[4],
// [f32[4]]). Values stay small (functions and loop bodies end in tanh), so that results can be compared with
// a plain tolerance.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "rondo/ir/evaluate.h"

namespace rondo::testing {

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  std::string text() {
    std::string out =
        "type Tree { Leaf(word: int), Node(left: Tree, right: Tree) }\n"
        "type Cell { Cell(w: f32[4, 4], u: f32[4, 4], b: f32[4]) }\n"
        "weight embed: f32[10, 4];\nweight wa: f32[4, 4];\nweight wb: f32[4, 4];\nweight wc: f32[4, 8];\n"
        "weight ba: f32[4];\nweight bb: f32[4];\n";
    functions_ = pick(4);
    for (int f = 0; f < functions_; ++f) out += function(f);
    Scope scope{{"x"}, {"t"}, {}, {"words"}, {}, {"Cell(wa, wb, ba)", "Cell(wb, wa, bb)"}, functions_, -1};
    const std::string first = tensor(scope, 4),
                      second = "map(" + list(scope, 2) + ", |y| tanh(" + with(scope, "y", 2) + "))";
    return out + "fn main(t: Tree, words: [int], x: f32[4]) -> (f32[4], [f32[4]]) {\n  (" + first + ",\n   " +
           second + ")\n}\n";
  }

  std::vector<ir::EvalValue> instance() {
    std::vector<ir::EvalValue> words;
    for (int n = pick(5); n > 0; --n) words.push_back(ir::EvalValue::integer(pick(10)));
    return {tree(pick(5)), ir::EvalValue::list(std::move(words)), ir::EvalValue::tensor({4}, numbers(4))};
  }

  std::vector<ir::WeightData> weights() {
    return {{"embed", {10, 4}, numbers(40)}, {"wa", {4, 4}, numbers(16)}, {"wb", {4, 4}, numbers(16)},
            {"wc", {4, 8}, numbers(32)},     {"ba", {4}, numbers(4)},     {"bb", {4}, numbers(4)}};
  }

 private:
  struct Scope {
    std::vector<std::string> tensors, trees, subtrees;  // subtrees: what a recursive call may take
    std::vector<std::string> words, ints, cells;
    int functions = 0;  // f0 .. may be called
    int self = -1;      // the function being written, or -1
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  const std::string& pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }
  std::string name() { return "v" + std::to_string(names_++); }
  std::vector<double> numbers(size_t n) {
    std::vector<double> values(n);
    for (double& v : values) v = static_cast<double>(random_() % 2001) / 1000 - 1;
    return values;
  }
  ir::EvalValue tree(int depth) {
    if (depth == 0) return ir::EvalValue::adt(0, {ir::EvalValue::integer(pick(10))});
    ir::EvalValue left = tree(pick(depth)), right = tree(pick(depth));
    return ir::EvalValue::adt(1, {left, right});
  }

  // A function over a tree that calls itself on subtrees, sometimes with the cells swapped.
  std::string function(int f) {
    const std::string n = std::to_string(f);
    Scope leaf{{"x"}, {}, {}, {}, {"word"}, {"cell", "other"}, f, -1};
    Scope node{{"x"}, {"l", "r"}, {"l", "r"}, {}, {}, {"cell", "other"}, f, f};
    return "fn f" + n +
           "(t: Tree, cell: Cell, other: Cell, x: f32[4]) -> f32[4] {\n  match t {\n    Leaf(word) => tanh(" +
           tensor(leaf, 3) + "),\n    Node(l, r) => tanh(" + tensor(node, 4) + ")\n  }\n}\n";
  }

  std::string with(const Scope& scope, const std::string& variable, int depth) {
    Scope inner = scope;
    for (int k = 0; k < 3; ++k) inner.tensors.push_back(variable);  // likely to be used
    return tensor(inner, depth);
  }

  std::string number(const Scope& s) {
    if (!s.ints.empty() && pick(3) > 0) return pick(s.ints);
    if (!s.words.empty() && pick(2) == 0) return "min(len(" + pick(s.words) + "), 9)";
    return std::to_string(pick(10));
  }

  std::string matrix(const Scope& s) {
    if (!s.cells.empty() && s.self >= 0 && pick(2) == 0) return pick(s.cells) + (pick(2) ? ".w" : ".u");
    return pick({"wa", "wb", "transpose(wa)", "wc[:, 2:6]"});
  }

  std::string tensor(const Scope& s, int depth) {
    if (depth == 0) return pick(8) == 0 ? "zeros(4)" : pick(s.tensors);
    const auto sub = [&] { return tensor(s, depth - 1); };
    switch (pick(20)) {
      case 0:
        return "sigmoid(" + sub() + ")";
      case 1:
        return "tanh(" + sub() + ")";
      case 2:
        return "(" + sub() + " + " + sub() + ")";
      case 3:
        return "(" + sub() + " * sigmoid(" + sub() + "))";
      case 4:
      case 5:
        return "(" + matrix(s) + " @ " + sub() + ")";
      case 6:
        return "(embed[" + number(s) + "] + " + sub() + ")";
      case 7: {
        const std::string v = name();
        return "{ let " + v + " = " + sub() + "; " + with(s, v, depth - 1) + " }";
      }
      case 8:
        return "if " + number(s) + " < " + number(s) + " { " + sub() + " } else { " + sub() + " }";
      case 9:
        return match(s, depth);
      case 10:
      case 11:
        return call(s, depth);
      case 12:
      case 13:
        return fold(s, depth);
      case 14:
        return "phase(" + sub() + ")";
      case 15:
        return "concat(" + sub() + ", " + sub() + ")[2:6]";
      case 16:
        return "(wc @ concat(" + sub() + ", " + sub() + "))";
      case 17:
        return "softmax(" + sub() + ") * (float(" + number(s) + ") - 4)";
      case 18: {
        const std::string a = name(), b = name();
        Scope inner = s;
        inner.tensors.push_back(a), inner.tensors.push_back(b);
        return "{ let (" + a + ", " + b + ") = concurrent(" + sub() + ", " + sub() + "); " +
               tensor(inner, depth - 1) + " }";
      }
      default: {
        const std::string a = name();
        return "fold(" + list(s, depth - 1) + ", " + sub() + ", |" + a + ", y| tanh(" + a + " + y * " +
               sub() + "))";
      }
    }
  }

  std::string match(const Scope& s, int depth) {
    if (s.trees.empty()) return tensor(s, depth - 1);
    const std::string word = name(), l = name(), r = name();
    Scope leaf = s, node = s;
    leaf.ints.push_back(word);
    node.trees.push_back(l), node.trees.push_back(r);
    const std::string& t = pick(s.trees);
    if (s.self >= 0) node.subtrees.push_back(l);
    return "match " + t + " { Leaf(" + word + ") => " + tensor(leaf, depth - 1) + ", Node(" + l + ", " + r +
           ") => " + tensor(node, depth - 1) + " }";
  }

  std::string call(const Scope& s, int depth) {
    const bool self = s.self >= 0 && !s.subtrees.empty() && pick(3) > 0;
    if (!self && (s.functions == 0 || s.trees.empty())) return tensor(s, depth - 1);
    const std::string& t = pick(self ? s.subtrees : s.trees);
    // Inside functions every tree is a subtree of the parameter, so even mutual recursion ends.
    const bool other = self && pick(4) == 0;
    return "f" +
           std::to_string(other  ? pick(functions_)
                          : self ? s.self
                                 : pick(s.functions)) +
           "(" + t + ", " + pick(s.cells) + ", " + pick(s.cells) + ", " + tensor(s, depth - 1) + ")";
  }

  std::string fold(const Scope& s, int depth) {
    if (s.words.empty()) return tensor(s, depth - 1);
    const std::string h = name(), c = name(), w = name();
    Scope inner = s;
    inner.ints.push_back(w);
    inner.tensors.push_back(h), inner.tensors.push_back(h);
    if (pick(2) == 0)
      return "fold(" + pick(s.words) + ", " + tensor(s, depth - 1) + ", |" + h + ", " + w + "| tanh(" +
             tensor(inner, depth - 1) + "))";
    inner.tensors.push_back(c);
    const std::string a = name(), b = name();
    return "{ let (" + a + ", " + b + ") = fold(" + pick(s.words) + ", (" + tensor(s, depth - 1) +
           ", zeros(4)), |(" + h + ", " + c + "), " + w + "| (tanh(" + tensor(inner, depth - 1) + "), tanh(" +
           tensor(inner, depth - 1) + "))); " + a + " + " + b + " }";
  }

  // [f32[4]]
  std::string list(const Scope& s, int depth) {
    if (depth <= 0 || s.words.empty()) return "[" + tensor(s, 0) + ", " + tensor(s, 1) + "]";
    const std::string h = name(), w = name();
    Scope inner = s;
    inner.ints.push_back(w);
    switch (pick(4)) {
      case 0:
        return "map(" + pick(s.words) + ", |" + w + "| " + tensor(inner, depth) + ")";
      case 1:
        return "reverse(" + list(s, depth - 1) + ")";
      case 2: {
        inner.ints.clear();
        return "map(zip(" + list(s, depth - 1) + ", " + list(s, depth - 1) + "), |(" + h + ", " + w + ")| " +
               h + " * " + w + ")";
      }
      default:
        inner.tensors.push_back(h), inner.tensors.push_back(h);
        return "scan(" + pick(s.words) + ", " + tensor(s, depth - 1) + ", |" + h + ", " + w + "| tanh(" +
               tensor(inner, depth) + "))";
    }
  }

  std::mt19937 random_;
  int functions_ = 0;
  int names_ = 0;
};

}  // namespace rondo::testing
