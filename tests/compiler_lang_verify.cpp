// verify() names the function, the value and the rule. Each
// case breaks one rule of a program that holds them all.
#include <gtest/gtest.h>

#include <functional>

#include "rondo/error.h"
#include "rondo/lang/lang.h"

namespace rondo::ir {
namespace {

constexpr const char* kSource =
    "type T { A(int), B }\n"
    "weight w: f32[4];\n"
    "fn f(x: f32[4]) -> f32[4] { x + w }\n"
    "fn main(x: f32[4], n: int, xs: [int], t: T) -> (f32[4], int, int, [int]) {\n"
    "  (f(x), if n > 0 { n } else { 1 }, match t { A(k) => k, B => 0 }, scan(xs, n, |a, b| a + b))\n"
    "}\n";

// The first operation of main (or f) with this code.
Op& find(Program& p, Opcode code, const char* function = "main") {
  for (Function& fn : p.functions)
    if (fn.name == function)
      for (Op& op : fn.ops)
        if (op.code == code) return op;
  throw std::logic_error("no such operation");
}
std::string broken(const std::function<void(Program&)>& edit) {
  Program p = lang::parse_program(kSource, "t.rondo");
  edit(p);
  try {
    verify(p, "test");
  } catch (const Error& e) {
    return std::string(name(e.kind())) + ": " + e.what();
  }
  return "accepted";
}

TEST(Verify, AcceptsWhatLangMakes) {
  EXPECT_EQ(broken([](Program&) {}), "accepted");
}

TEST(Verify, NamesFunctionValueAndRule) {
  EXPECT_EQ(broken([](Program& p) { p.main = 7; }), "internal: after test: the program has no main");
  EXPECT_EQ(broken([](Program& p) { find(p, Opcode::Add, "f").args[1] = 2; }),
            "internal: after test: fn f, %2 (add): its argument %2 is not defined before it");
  EXPECT_EQ(broken([](Program& p) { find(p, Opcode::Add, "f").type = p.types.integer(); }),
            "internal: after test: fn f, %2 (add): its type is int, its arguments say f32[4]");
  EXPECT_EQ(broken([](Program& p) { find(p, Opcode::Add, "f").type = -1; }),
            "internal: after test: fn f, %2 (add): has no type");
  EXPECT_EQ(broken([](Program& p) { find(p, Opcode::Add, "f").args.pop_back(); }),
            "internal: after test: fn f, %2 (add): cannot add one value");
  EXPECT_EQ(broken([](Program& p) { p.functions[0].result = p.types.integer(); }),
            "internal: after test: fn f: yields f32[4], not int");
  EXPECT_EQ(broken([](Program& p) { p.functions[0].body.params[0] = 9; }),
            "internal: after test: fn f: its parameter %9 does not exist");
  EXPECT_EQ(broken([](Program& p) { p.functions[0].body.result = 9; }),
            "internal: after test: fn f: a region yields %9, which is not defined there");
  EXPECT_EQ(broken([](Program& p) { p.functions[0].body.body.push_back(17); }),
            "internal: after test: fn f, %2 (add): a region holds %17, which does not exist");
  EXPECT_EQ(broken([](Program& p) { p.functions[0].body.body.push_back(1); }),
            "internal: after test: fn f, %1 (weight): is held by two regions");
}

// Without the number of the operation, which these tests do not care about.
std::string rule(const std::function<void(Program&)>& edit) {
  const std::string what = broken(edit);
  return what.substr(what.find(')') == std::string::npos ? 0 : what.find(')') + 3);
}

TEST(Verify, RulesOfReferences) {
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Weight, "f").i = 3; }), "no such weight");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Weight, "f").type = p.types.tensor({5}); }),
            "its type is not the weight's");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Call).i = 3; }), "no such function");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Call).args = {}; }), "has the wrong number of arguments");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Call).args = {1}; }), "an argument has the wrong type");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Call).type = p.types.integer(); }),
            "its type is not the function's result");
}

TEST(Verify, RulesOfRegions) {
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::If).regions.pop_back(); }),
            "has the wrong number of regions");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::If).args = {1}; }), "needs a bool");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::If).regions[0].result = 0; }),
            "a region yields the wrong type");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Match).args = {1}; }),
            "needs one value of an algebraic type");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Match).regions[0].params.clear(); }),
            "a region has the wrong number of parameters");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Scan).args[0] = 1; }), "needs a list");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Scan).type = p.types.integer(); }),
            "must have a list as its result");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Scan).args[1] = 0; }),
            "its result must have the type of its accumulator");
  EXPECT_EQ(rule([](Program& p) { find(p, Opcode::Add, "f").regions.resize(1); }), "must not hold regions");
  EXPECT_EQ(rule([](Program& p) {
              Function& fn = p.functions[0];
              Op arg;
              arg.type = p.types.integer();
              fn.body.body.push_back(fn.add(arg));
            }),
            "an arg must be a parameter");
  EXPECT_EQ(rule([](Program& p) { p.functions[0].body.params.push_back(1); }), "a parameter must be an arg");
}

// A value of a branch is gone after it.
TEST(Verify, AValueIsSeenOnlyInItsRegion) {
  const std::string what = rule([](Program& p) {
    Op& branch = find(p, Opcode::If);
    find(p, Opcode::Tuple).args[1] = branch.regions[1].result;
  });
  EXPECT_NE(what.find("is not defined before it"), std::string::npos) << what;
}

TEST(Verify, RulesOfTheHostForm) {
  const auto with = [](Opcode code, TypeKind kind, std::vector<Value> args) {
    return rule([&](Program& p) {
      Function& fn = p.functions[0];
      Op op;
      op.code = code;
      op.args = std::move(args);
      op.type = kind == TypeKind::Int ? p.types.integer() : p.types.tensor({4});
      fn.body.body.push_back(fn.add(op));
    });
  };
  EXPECT_EQ(with(Opcode::Emit, TypeKind::Int, {0}), "accepted");
  EXPECT_EQ(with(Opcode::Emit, TypeKind::Tensor, {0}), "must have the type int");
  EXPECT_EQ(with(Opcode::EmitOut, TypeKind::Tensor, {0}), "needs an emit");
  EXPECT_EQ(with(Opcode::Constant, TypeKind::Tensor, {}), "accepted");
  EXPECT_EQ(with(Opcode::Constant, TypeKind::Int, {}), "must be a tensor");
}

}  // namespace
}  // namespace rondo::ir
