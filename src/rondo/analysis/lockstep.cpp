#include "rondo/analysis/lockstep.h"

#include <algorithm>

namespace rondo::analysis {
using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

Lockstep::Lockstep(const ir::Program& specialised, const Flow& flow, const Blocks& blocks)
    : program_(specialised), flow_(flow), blocks_(blocks), callers_(specialised.functions.size()) {
  for (size_t f = 0; f < specialised.functions.size(); ++f) {
    const ir::Function& fn = specialised.functions[f];
    for_each_op(fn, fn.body, [&](Value v) {
      const Op& op = fn.ops[static_cast<size_t>(v)];
      if (op.code == Opcode::Call)
        callers_[static_cast<size_t>(op.i)].emplace_back(static_cast<int32_t>(f), v);
    });
  }
}

// Looks through copies: marks, tuples and their parts.
int32_t Lockstep::origin(int32_t node) const {
  for (;;) {
    const FlowNode& n = flow_.nodes[static_cast<size_t>(node)];
    const ir::Function& fn = program_.functions[static_cast<size_t>(n.function)];
    const Op& op = fn.ops[static_cast<size_t>(n.value)];
    if (op.code != Opcode::Phase && op.code != Opcode::Tuple && op.code != Opcode::TupleGet) return node;
    node = flow_.in[static_cast<size_t>(node)][0];  // a copy has one source
  }
}

bool Lockstep::equal(int32_t a, int32_t b) {
  if (!assume(a, b)) return false;
  for (bool changed = true; changed;) {
    changed = false;
    const std::map<Pair, bool> before = pairs_;  // holds() adds pairs
    for (const auto& [pair, held] : before) {
      if (!held || holds(pair.first, pair.second)) continue;
      pairs_[pair] = false;
      changed = true;
    }
    changed = changed || before.size() != pairs_.size();
  }
  return assume(a, b);
}

// The state of a pair; a new one is taken to hold until a round of equal() says otherwise.
bool Lockstep::assume(int32_t a, int32_t b) {
  a = origin(a), b = origin(b);
  if (a == b) return true;
  return pairs_.try_emplace({std::min(a, b), std::max(a, b)}, true).first->second;
}

bool Lockstep::holds(int32_t a, int32_t b) {
  const FlowNode& x = flow_.nodes[static_cast<size_t>(a)];
  const FlowNode& y = flow_.nodes[static_cast<size_t>(b)];
  if (x.function != y.function) return false;
  const auto f = static_cast<size_t>(x.function);
  const ir::Function& fn = program_.functions[f];
  if (x.value == y.value) return parts_hold(x.function, x.value, x.part, y.part);
  const Op& p = fn.ops[static_cast<size_t>(x.value)];
  const Op& q = fn.ops[static_cast<size_t>(y.value)];
  if (is_tensor_op(p.code) && is_tensor_op(q.code)) {
    // Members of one block, or two constants: no block, level 0.
    return blocks_.block_of[f][static_cast<size_t>(x.value)] ==
           blocks_.block_of[f][static_cast<size_t>(y.value)];
  }
  const bool parameters = p.code == Opcode::Arg && q.code == Opcode::Arg && x.region == 0 && y.region == 0;
  return parameters && parameters_hold(a, b);
}

// Two parameters of a function: so are the arguments of every call. Those of main are given, at level 0.
bool Lockstep::parameters_hold(int32_t a, int32_t b) {
  const FlowNode& x = flow_.nodes[static_cast<size_t>(a)];
  const FlowNode& y = flow_.nodes[static_cast<size_t>(b)];
  const auto f = static_cast<size_t>(x.function);
  const std::vector<Value>& params = program_.functions[f].body.params;
  const auto index = [&](Value v) {
    return static_cast<size_t>(std::find(params.begin(), params.end(), v) - params.begin());
  };
  return std::all_of(callers_[f].begin(), callers_[f].end(), [&](const auto& caller) {
    const Op& call =
        program_.functions[static_cast<size_t>(caller.first)].ops[static_cast<size_t>(caller.second)];
    return assume(node(caller.first, call.args[index(x.value)], x.part),
                  node(caller.first, call.args[index(y.value)], y.part));
  });
}

// Parts i and j of one value: what is said of every source of it.
bool Lockstep::parts_hold(int32_t f, Value v, int32_t i, int32_t j) {
  const ir::Function& fn = program_.functions[static_cast<size_t>(f)];
  const Op& op = fn.ops[static_cast<size_t>(v)];
  const auto same = [&](Value w) { return assume(node(f, w, i), node(f, w, j)); };
  const auto all = [&](const std::vector<Value>& values) {
    return std::all_of(values.begin(), values.end(), same);
  };
  switch (op.code) {
    case Opcode::Call: {
      const Value result = program_.functions[static_cast<size_t>(op.i)].body.result;
      const auto g = static_cast<int32_t>(op.i);
      return assume(node(g, result, i), node(g, result, j));
    }
    case Opcode::Match:
    case Opcode::MatchList:
    case Opcode::If:
      return std::all_of(op.regions.begin(), op.regions.end(),
                         [&](const ir::Region& r) { return same(r.result); });
    case Opcode::Map:
    case Opcode::Scan:
      return same(op.regions[0].result);
    case Opcode::Fold:
      return same(op.regions[0].result) && same(op.args[1]);
    case Opcode::List:
    case Opcode::Cons:
    case Opcode::Append:
    case Opcode::Reverse:
      return all(op.args);
    case Opcode::ListGet:
      return same(op.args[0]);
    case Opcode::Zip: {
      int32_t first = 0;
      for (const Value a : op.args) {
        const int32_t count = flow_.count[static_cast<size_t>(f)][static_cast<size_t>(a)];
        const bool has_i = i >= first && i < first + count, has_j = j >= first && j < first + count;
        if (has_i && has_j) return assume(node(f, a, i - first), node(f, a, j - first));
        first += count;
      }
      return false;
    }
    case Opcode::Arg:
      break;
    default:
      return false;
  }
  const Layout& layout = flow_.layouts[static_cast<size_t>(f)];
  const RegionInfo& region = layout.regions[static_cast<size_t>(layout.region_of[static_cast<size_t>(v)])];
  if (region.owner == kNone) {  // parts of one parameter
    return parameters_hold(node(f, v, i), node(f, v, j));
  }
  const Op& owner = fn.ops[static_cast<size_t>(region.owner)];
  if (is_loop(owner.code) && v == region.region->params[0])
    return same(owner.args[1]) && same(region.region->result);
  // A list's element, or the rest of a list. Fields of an algebraic value come from anywhere.
  return owner.code != Opcode::Match && same(owner.args[0]);
}

}  // namespace rondo::analysis
