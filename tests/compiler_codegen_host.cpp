// Generated host programs: what they compute on ints, lists and nodes is what the evaluator says; the records
// they append, their levels and rows; what they refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>

#include "rondo/analysis/facts.h"
#include "rondo/analysis/reuse.h"
#include "rondo/batch/abi.h"
#include "rondo/codegen/codegen.h"
#include "rondo/error.h"
#include "rondo/ir/evaluate.h"
#include "rondo/kernel/host_compiler.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/lower.h"
#include "rondo/plan/specialise.h"

namespace rondo {
namespace {

using abi::Word;
using ir::EvalValue;

struct Faulted {
  abi::Fault fault;
  int32_t line;
  int64_t a, b;
};

// The smallest recorder: everything is large enough from the start, except what a test wants to see grow.
class Recorder {
 public:
  explicit Recorder(const plan::Plan& plan, uint32_t depths = 64, uint32_t log_words = 1 << 16)
      : bits_(static_cast<uint32_t>(plan.block_bits)),
        logs_(plan.blocks.size()),
        abi_logs_(plan.blocks.size()) {
    for (uint32_t p = 0; p < abi::kMaxPhases; ++p) grow_depths(&recorder, p, depths - 1, this);
    for (size_t b = 0; b < logs_.size(); ++b) {
      logs_[b].resize(log_words);
      abi_logs_[b] = {logs_[b].data(), 0, log_words};
    }
    recorder.log = abi_logs_.data();
    recorder.owner = this;
    recorder.grow_depths = [](abi::Recorder* r, uint32_t phase, uint32_t depth) {
      grow_depths(r, phase, 2 * depth, static_cast<Recorder*>(r->owner));
    };
    recorder.grow_log = [](abi::Recorder* r, uint32_t block, uint32_t words) {
      auto* self = static_cast<Recorder*>(r->owner);
      self->logs_[block].resize(self->logs_[block].size() + words);
      r->log[block].data = self->logs_[block].data();
      r->log[block].capacity = self->logs_[block].size();
    };
    recorder.grow_arena = [](abi::Recorder* r, uint64_t bytes) {
      auto* self = static_cast<Recorder*>(r->owner);
      self->chunks_.push_back(std::make_unique<Word[]>(bytes / 8 + 1));
      return static_cast<void*>(self->chunks_.back().get());
    };
    recorder.fault = [](abi::Recorder*, abi::Fault fault, int32_t line, int64_t a, int64_t b) {
      throw Faulted{fault, line, a, b};
    };
  }
  // Words of one record of a block, the bucket first.
  std::vector<uint32_t> record(size_t block, size_t number, size_t words) const {
    const uint32_t* from = abi_logs_[block].data + number * words;
    return {from, from + words};
  }
  size_t words(size_t block) const { return abi_logs_[block].used; }

  abi::Recorder recorder{};

 private:
  static void grow_depths(abi::Recorder* r, uint32_t phase, uint32_t depth, Recorder* self) {
    self->counts_[phase].resize(static_cast<size_t>(depth + 1) << self->bits_);
    r->count[phase] = self->counts_[phase].data();
    r->depths[phase] = depth + 1;
  }
  uint32_t bits_;
  std::vector<uint32_t> counts_[abi::kMaxPhases];
  std::vector<std::vector<uint32_t>> logs_;
  std::vector<abi::Log> abi_logs_;
  std::deque<std::unique_ptr<Word[]>> chunks_;
};

class Compiled {
 public:
  explicit Compiled(const std::string& text) : program(lang::parse_program(text, "host.rondo")) {
    const ir::Program specialised = plan::specialise(program, analysis::find_reuse(program));
    lowered = plan::lower(specialised, analysis::find_facts(specialised));
    source = codegen::emit_host_program(lowered.plan, lowered.host);
    library = kernel::compile_host(lowered.plan.name, source);
    run = library->function<const abi::Program*()>("rondo_program")()->run;
  }

  // Walks one instance without tensors in its arguments and result.
  EvalValue operator()(const std::vector<EvalValue>& arguments, Recorder* recorder) {
    std::vector<Word> in, out(static_cast<size_t>(types().words(lowered.plan.main_result)) + 1);
    for (size_t k = 0; k < arguments.size(); ++k) put(arguments[k], lowered.plan.main_params[k], &in);
    run(&recorder->recorder, in.data(), out.data());
    const Word* at = out.data();
    return get(lowered.plan.main_result, &at);
  }
  EvalValue operator()(const std::vector<EvalValue>& arguments) {
    Recorder recorder(lowered.plan);
    return (*this)(arguments, &recorder);
  }
  Faulted fault(const std::vector<EvalValue>& arguments) {
    try {
      (*this)(arguments);
    } catch (const Faulted& f) {
      return f;
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
  const TypeTable& types() const { return lowered.plan.types; }

  ir::Program program;
  plan::Lowered lowered;
  std::string source;
  std::shared_ptr<kernel::HostLibrary> library;
  abi::RunFn run = nullptr;

 private:
  void put(const EvalValue& v, TypeId id, std::vector<Word>* to) {
    const Type& t = types()[id];
    if (t.kind == TypeKind::Int || t.kind == TypeKind::Bool) {
      to->push_back(static_cast<Word>(v.integer()));
    } else if (t.kind == TypeKind::Tuple) {
      for (size_t k = 0; k < t.args.size(); ++k) put(v.parts()[k], t.args[k], to);
    } else {
      std::vector<Word>& memory = memory_.emplace_back();  // a deque: it stays where it is
      if (t.kind == TypeKind::Adt) {
        memory.push_back(static_cast<Word>(v.constructor()));
        const Constructor& c =
            types().adts[static_cast<size_t>(t.adt)].constructors[static_cast<size_t>(v.constructor())];
        for (size_t k = 0; k < c.fields.size(); ++k) put(v.parts()[k], c.fields[k], &memory);
      } else {
        for (const EvalValue& part : v.parts()) put(part, t.args[0], &memory);
      }
      to->push_back(reinterpret_cast<Word>(memory.data()));
      if (t.kind == TypeKind::List) to->push_back(v.parts().size());
    }
  }
  EvalValue get(TypeId id, const Word** at) const {
    const Type& t = types()[id];
    std::vector<EvalValue> parts;
    switch (t.kind) {
      case TypeKind::Int:
      case TypeKind::Bool:
        return EvalValue::integer(static_cast<int64_t>(*(*at)++));
      case TypeKind::Tensor:
        ++*at;
        return EvalValue::integer(0);
      case TypeKind::Tuple:
        for (const TypeId element : t.args) parts.push_back(get(element, at));
        return EvalValue::tuple(parts);
      case TypeKind::List: {
        const Word* data = reinterpret_cast<const Word*>(*(*at)++);
        for (Word length = *(*at)++; length > 0; --length) parts.push_back(get(t.args[0], &data));
        return EvalValue::list(parts);
      }
      case TypeKind::Adt: {
        const Word* node = reinterpret_cast<const Word*>(*(*at)++);
        const auto tag = static_cast<int64_t>(*node++);
        for (const TypeId field :
             types().adts[static_cast<size_t>(t.adt)].constructors[static_cast<size_t>(tag)].fields)
          parts.push_back(get(field, &node));
        return EvalValue::adt(tag, parts);
      }
    }
    return {};
  }
  std::deque<std::vector<Word>> memory_;
};

EvalValue ints(const std::vector<int64_t>& values) {
  std::vector<EvalValue> list;
  for (const int64_t v : values) list.push_back(EvalValue::integer(v));
  return EvalValue::list(list);
}
EvalValue leaf(int64_t word) { return EvalValue::adt(0, {EvalValue::integer(word)}); }
EvalValue node(const EvalValue& l, const EvalValue& r) { return EvalValue::adt(1, {l, r}); }

void expect_same(const std::string& text, const std::vector<std::vector<EvalValue>>& instances) {
  Compiled compiled(text);
  for (const auto& instance : instances)
    EXPECT_EQ(0, ir::largest_difference(ir::evaluate(compiled.program, {}, instance), compiled(instance)))
        << text << "\n"
        << compiled.source;
}

TEST(HostProgram, IntegersAndBoolsAreTheEvaluators) {
  const EvalValue n = EvalValue::integer(-7), m = EvalValue::integer(3);
  expect_same(
      "fn main(a: int, b: int) -> ((int, int, int), (int, int, int), (int, int), [bool]) {\n"
      "  ((a + b, a - b, a * b), (a / b, a % b, -a), (min(a, b), max(a, b)),\n"
      "   [a < b, a <= b, a == b, a != b, a > b && a >= b, a < b || b < a, !(a == 3)])\n}\n",
      {{n, m},
       {m, n},
       {m, m},
       {EvalValue::integer(std::numeric_limits<int64_t>::min()), EvalValue::integer(-1)}});
}

TEST(HostProgram, ListsAreTheEvaluators) {
  const std::string text =
      "fn main(xs: [int], ys: [int]) -> ([int], [(int, (int, int))], [int], [[int]], (int, int), [int]) {\n"
      "  let more = append(cons(len(xs), xs), reverse(ys));\n"
      "  let pairs = zip(xs, zip(ys, reverse(xs)));\n"
      "  let sums = scan(xs, 5, |acc, x| acc * 2 + x);\n"
      "  let nested = map(ys, |y| map(range(0, y), |k| k * y));\n"
      "  let swapped = fold(xs, (1, 2), |(p, q), x| (q + x, p));\n"
      "  let tail = match xs { [] => ys, [x, ..rest] => if x > 1 { rest } else { append(rest, []) } };\n"
      "  (more, pairs, sums, nested, swapped, tail)\n}\n";
  expect_same(text, {{ints({}), ints({})},
                     {ints({1}), ints({2, 3})},
                     {ints({4, 5, 6}), ints({3, 1})},
                     {ints({}), ints({1})}});
}

TEST(HostProgram, NodesAreTheEvaluators) {
  const std::string text =
      "type Tree { Leaf(word: int), Node(left: Tree, right: Tree) }\n"
      "type Option[T] { None, Some(T) }\n"
      "type Pair { Pair(first: int, second: [int]) }\n"
      "fn mirror(t: Tree) -> Tree { match t { Leaf(w) => Leaf(w + 1), Node(l, r) => Node(mirror(r), "
      "mirror(l)) } }\n"
      "fn words(t: Tree) -> [int] { match t { Leaf(w) => [w], Node(l, r) => append(words(l), words(r)) } }\n"
      "fn even(n: int) -> bool { if n <= 0 { n == 0 } else { odd(n - 1) } }\n"
      "fn odd(n: int) -> bool { if n <= 0 { false } else { even(n - 1) } }\n"
      "fn find(xs: [int]) -> Option[(int, [int])] {\n"
      "  match xs { [] => None, [x, ..rest] => if even(x) { Some((x, rest)) } else { find(rest) } } }\n"
      "fn main(t: Tree) -> (Tree, Option[(int, [int])], int, Pair, Option[Tree]) {\n"
      "  let all = words(t);\n  let p = Pair(len(all), all);\n"
      "  (mirror(t), find(all), p.second[p.first - 1], p, match t { Leaf(w) => None, Node(l, r) => Some(r) "
      "})\n}\n";
  expect_same(text,
              {{leaf(3)}, {node(leaf(1), node(leaf(5), leaf(4)))}, {node(node(leaf(2), leaf(7)), leaf(9))}});
}

const std::string kTrees =
    "type Tree { Leaf(word: int), Node(left: Tree, right: Tree) }\n"
    "weight embed: f32[100, 8];\nweight w: f32[8, 8];\nweight u: f32[8, 8];\n"
    "fn encode(t: Tree) -> (f32[8], f32[8]) {\n"
    "  match t {\n"
    "    Leaf(word) => { let h = tanh(w @ embed[word]); (h, h * h) },\n"
    "    Node(l, r) => {\n"
    "      let ((hl, cl), (hr, cr)) = concurrent(encode(l), encode(r));\n"
    "      let g = sigmoid(w @ hl + u @ hr);\n      (g * cl, g * cr)\n    }\n  }\n}\n"
    "fn main(t: Tree) -> f32[8] { let (h, c) = encode(t); h + c }\n";

TEST(HostProgram, RecordsNameOperandsRowsAndLevels) {
  Compiled compiled(kTrees);
  const plan::Plan& plan = compiled.lowered.plan;
  size_t leaves = plan.blocks.size(), nodes = leaves;
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    if (plan.blocks[b].tensors == 0) leaves = b;
    if (plan.blocks[b].tensors == 4) nodes = b;
  }
  ASSERT_LT(leaves, plan.blocks.size()) << plan::print(plan);
  ASSERT_LT(nodes, plan.blocks.size()) << plan::print(plan);
  Recorder recorder(plan);
  compiled({node(leaf(7), node(leaf(8), leaf(9)))}, &recorder);
  const auto bucket = [&](uint32_t depth, size_t block) {
    return depth << plan.block_bits | static_cast<uint32_t>(block);
  };
  // Leaves in the order of the walk, all of depth 1.
  ASSERT_EQ(recorder.words(leaves), 6u);
  for (uint32_t k = 0; k < 3; ++k)
    EXPECT_EQ(recorder.record(leaves, k, 2), (std::vector<uint32_t>{bucket(1, leaves), 7 + k}));
  EXPECT_EQ(recorder.recorder.count[0][bucket(1, leaves)], 3u);
  // The inner node refers to leaves 1 and 2, the root to leaf 0 and the inner node. Two outputs a record in
  // one pool.
  ASSERT_EQ(recorder.words(nodes), 18u);
  const std::vector<uint32_t> inner = recorder.record(nodes, 0, 9), root = recorder.record(nodes, 1, 9);
  EXPECT_EQ(inner[0], bucket(2, nodes));
  EXPECT_EQ(root[0], bucket(3, nodes));
  std::vector<uint32_t> slots, root_slots;
  for (size_t k = 1; k < 9; k += 2) {
    EXPECT_EQ(inner[k], bucket(1, leaves));
    slots.push_back(inner[k + 1]);
    root_slots.push_back(root[k + 1]);
  }
  std::sort(slots.begin(), slots.end());
  std::sort(root_slots.begin(), root_slots.end());
  EXPECT_EQ(slots, (std::vector<uint32_t>{2, 3, 4, 5}));
  EXPECT_EQ(root_slots, (std::vector<uint32_t>{0, 0, 1, 1}));  // row 0 of leaves, row 0 of nodes
}

TEST(HostProgram, LogsAndLevelsGrowAsNeeded) {
  Compiled compiled(kTrees);
  EvalValue t = leaf(1);
  for (int k = 0; k < 300; ++k) t = node(t, leaf(2));
  Recorder small(compiled.lowered.plan, 2, 0), large(compiled.lowered.plan, 1000);
  compiled({t}, &small);
  compiled({t}, &large);
  EXPECT_EQ(small.recorder.deepest[0], large.recorder.deepest[0]);
  EXPECT_GE(small.recorder.deepest[0], 301u);
  for (size_t b = 0; b < compiled.lowered.plan.blocks.size(); ++b)
    EXPECT_EQ(small.record(b, 0, small.words(b)), large.record(b, 0, large.words(b)));
}

TEST(HostProgram, WhatIsOutOfRangeIsRefusedWithLineAndValues) {
  Compiled rows(kTrees);
  Faulted f = rows.fault({leaf(100)});
  EXPECT_EQ(f.fault, abi::kRowRange);
  EXPECT_EQ(f.line, 7);
  EXPECT_EQ(f.a, 100);
  EXPECT_EQ(f.b, 100);
  EXPECT_EQ(rows.fault({leaf(-1)}).a, -1);

  Compiled lists("fn main(xs: [int], i: int) -> int {\n  xs[i]\n}\n");
  f = lists.fault({ints({1, 2}), EvalValue::integer(2)});
  EXPECT_EQ(f.fault, abi::kListRange);
  EXPECT_EQ(f.line, 2);
  EXPECT_EQ(f.a, 2);
  EXPECT_EQ(f.b, 2);
  EXPECT_EQ(lists.fault({ints({1, 2}), EvalValue::integer(-1)}).a, -1);

  for (const char* op : {"/", "%"}) {
    Compiled division(std::string("fn main(a: int, b: int) -> int {\n\n  a ") + op + " b\n}\n");
    f = division.fault({EvalValue::integer(5), EvalValue::integer(0)});
    EXPECT_EQ(f.fault, abi::kDivideByZero);
    EXPECT_EQ(f.line, 3);
    EXPECT_EQ(f.a, 5);
  }

  Compiled floats("fn main(a: int) -> f32[] {\n  float(a) * 2.0\n}\n");
  f = floats.fault({EvalValue::integer(int64_t{1} << 31)});
  EXPECT_EQ(f.fault, abi::kIntRange);
  EXPECT_EQ(f.line, 2);
  EXPECT_EQ(f.a, int64_t{1} << 31);
  floats({EvalValue::integer(-(int64_t{1} << 31))});
}

TEST(HostProgram, ARecursionThatReachesTheStackLimitIsRefused) {
  Compiled compiled(
      "fn down(n: int) -> int { if n == 0 { 0 } else { 1 + down(n - 1) } }\nfn main(n: int) -> int { down(n) "
      "}\n");
  Recorder recorder(compiled.lowered.plan);
  recorder.recorder.stack_limit = static_cast<const char*>(__builtin_frame_address(0)) - 64 * 1024;
  EXPECT_EQ(compiled({EvalValue::integer(10)}, &recorder).integer(), 10);
  try {
    compiled({EvalValue::integer(100000000)}, &recorder);
    FAIL();
  } catch (const Faulted& f) {
    EXPECT_EQ(f.fault, abi::kTooDeep);
    EXPECT_EQ(f.line, 1);
  }
}

TEST(HostProgram, AnOperationOnTensorsOutsideABlockIsRefused) {
  const ir::Program program = lang::parse_program("fn main(a: f32[4]) -> f32[4] { tanh(a) }\n", "host.rondo");
  plan::Plan plan;
  plan.name = "host";
  try {
    codegen::emit_host_program(plan, program);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "host program: function main still holds the tensor operation tanh (%1); only blocks compute "
        "tensors");
  }
}

}  // namespace
}  // namespace rondo
