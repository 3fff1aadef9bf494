#include "rondo/plan/simplify.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "rondo/analysis/layout.h"

namespace rondo::plan {
using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

// ---------------------------------------------------------------- Builder
Value Builder::place(Op op) {
  const Value v = fn().add(std::move(op));
  body->push_back(v);
  return v;
}

Value Builder::param(ir::TypeId type, ir::Loc loc) {
  Op op;
  op.type = type;
  op.loc = loc;
  return fn().add(std::move(op));
}

Value Builder::add(Op op) {
  const Value v = known(op);
  return v != kNone ? v : place(std::move(op));
}

Value Builder::number(int64_t value, const Op& like) {
  Op op;
  op.code = Opcode::Int;
  op.type = program_->types.integer();
  op.i = value;
  op.loc = like.loc;
  return place(std::move(op));
}

Value Builder::truth(bool value, const Op& like) {
  Op op;
  op.code = Opcode::Bool;
  op.type = program_->types.boolean();
  op.i = value ? 1 : 0;
  op.loc = like.loc;
  return place(std::move(op));
}

Value Builder::known(const Op& op) {
  switch (op.code) {
    case Opcode::Concurrent: {
      Op tuple = op;
      tuple.code = Opcode::Tuple;
      return place(std::move(tuple));
    }
    case Opcode::Tuple: {  // (x.0, x.1) is x
      if (op.args.empty() || !is(op.args[0], Opcode::TupleGet)) return kNone;
      const Value whole = this->op(op.args[0]).args[0];
      if (this->op(whole).type != op.type) return kNone;
      for (size_t k = 0; k < op.args.size(); ++k) {
        const Op& part = this->op(op.args[k]);
        if (part.code != Opcode::TupleGet || part.args[0] != whole || part.i != static_cast<int64_t>(k))
          return kNone;
      }
      return whole;
    }
    case Opcode::TupleGet:
      return is(op.args[0], Opcode::Tuple) ? this->op(op.args[0]).args[static_cast<size_t>(op.i)] : kNone;
    case Opcode::Field:
      return is(op.args[0], Opcode::Construct) ? this->op(op.args[0]).args[static_cast<size_t>(op.i)] : kNone;
    case Opcode::Len:
      return is(op.args[0], Opcode::List) ? number(static_cast<int64_t>(this->op(op.args[0]).args.size()), op)
                                          : kNone;
    case Opcode::ListGet: {
      const Op& list = this->op(op.args[0]);
      const Op& index = this->op(op.args[1]);
      const bool fits = list.code == Opcode::List && index.code == Opcode::Int && index.i >= 0 &&
                        index.i < static_cast<int64_t>(list.args.size());
      return fits ? list.args[static_cast<size_t>(index.i)] : kNone;
    }
    case Opcode::Phase:
      return phase(op);
    default:
      break;
  }
  return analysis::is_tensor_op(op.code) ? tensor(op) : scalar(op);
}

Value Builder::tensor(const Op& op) {
  if (op.args.empty()) return kNone;
  const Op& first = this->op(op.args[0]);
  switch (op.code) {
    case Opcode::Slice:
    case Opcode::Reshape:
    case Opcode::Broadcast:
      return first.type == op.type ? op.args[0] : kNone;
    case Opcode::Concat:
      return op.args.size() == 1 ? op.args[0] : kNone;
    case Opcode::Transpose: {
      std::vector<int64_t> same(op.dims.size());
      std::iota(same.begin(), same.end(), 0);
      return op.dims == same ? op.args[0] : kNone;
    }
    case Opcode::ToFloat: {
      if (first.code != Opcode::Int) return kNone;
      Op fill;
      fill.code = Opcode::Fill;
      fill.type = op.type;
      fill.f = static_cast<double>(first.i);
      fill.loc = op.loc;
      return place(std::move(fill));
    }
    case Opcode::Row: {  // a row with a known index is a slice: a view, not a lookup
      const Op& index = this->op(op.args[1]);
      std::vector<int64_t> dims = program_->types[first.type].dims;
      if (index.code != Opcode::Int || index.i < 0 || index.i >= dims[0]) return kNone;
      const int64_t at = index.i;
      const Value from = op.args[0];
      dims[0] = 1;
      Op slice, reshape;
      slice.code = Opcode::Slice;
      slice.type = program_->types.tensor(dims);
      slice.args = {from};
      slice.j = at;
      slice.loc = reshape.loc = op.loc;
      reshape.code = Opcode::Reshape;
      reshape.type = op.type;
      reshape.args = {add(std::move(slice))};
      return add(std::move(reshape));
    }
    default:
      return kNone;
  }
}

Value Builder::scalar(const Op& op) {
  if (op.args.empty() || op.code < Opcode::IAdd || op.code > Opcode::Not) return kNone;
  const Op& a = this->op(op.args[0]);
  const Op& b = this->op(op.args.back());
  if (op.code == Opcode::And || op.code == Opcode::Or) {
    const int64_t decides = op.code == Opcode::Or ? 1 : 0;
    if (a.code == Opcode::Bool) return a.i == decides ? op.args[0] : op.args[1];
    if (b.code == Opcode::Bool) return b.i == decides ? op.args[1] : op.args[0];
    return kNone;
  }
  if (op.code == Opcode::Not) return a.code == Opcode::Bool ? truth(a.i == 0, op) : kNone;
  const bool bools = a.code == Opcode::Bool && b.code == Opcode::Bool;
  if (!bools && (a.code != Opcode::Int || b.code != Opcode::Int)) return kNone;
  const int64_t x = a.i, y = b.i;
  const auto wrap = [](uint64_t u) {
    return static_cast<int64_t>(u);
  };  // as the generated host code: modulo 2^64
  const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  switch (op.code) {
    case Opcode::IAdd:
      return number(wrap(ux + uy), op);
    case Opcode::ISub:
      return number(wrap(ux - uy), op);
    case Opcode::IMul:
      return number(wrap(ux * uy), op);
    case Opcode::IDiv:
      return y == 0 ? kNone : number(y == -1 ? wrap(0 - ux) : x / y, op);
    case Opcode::IMod:
      return y == 0 ? kNone : number(y == -1 ? 0 : x % y, op);
    case Opcode::INeg:
      return number(wrap(0 - ux), op);
    case Opcode::IMin:
      return number(std::min(x, y), op);
    case Opcode::IMax:
      return number(std::max(x, y), op);
    case Opcode::ILt:
      return truth(x < y, op);
    case Opcode::ILe:
      return truth(x <= y, op);
    case Opcode::IEq:
      return truth(x == y, op);
    case Opcode::INe:
      return truth(x != y, op);
    default:
      return kNone;
  }
}

// A mark concerns tensors that are made while instances run: it is spread over a tuple's parts and dropped
// elsewhere.
Value Builder::phase(const Op& op) {
  const Value arg = op.args[0];
  if (!program_->types.has_tensor(op.type) || is(arg, Opcode::Weight) || is(arg, Opcode::Fill)) return arg;
  if (!is(arg, Opcode::Tuple)) return kNone;
  Op tuple = this->op(arg);
  tuple.loc = op.loc;
  for (Value& part : tuple.args) {
    Op mark = op;
    mark.args = {part};
    mark.type = this->op(part).type;
    part = add(std::move(mark));
  }
  return place(std::move(tuple));
}

// ---------------------------------------------------------------- loop invariants
namespace {

class InvariantHoister {
 public:
  InvariantHoister(ir::Function* fn) : fn_(*fn), inside_(fn->ops.size(), 0) {}

  void region(ir::Region& r) {
    std::vector<Value> body;
    for (const Value v : r.body) {
      const bool loop = op(v).code == Opcode::Map || analysis::is_loop(op(v).code);
      for (ir::Region& inner : op(v).regions) {
        region(inner);
        if (loop) move_out(inner, &body);
      }
      body.push_back(v);
    }
    r.body = std::move(body);
  }

 private:
  Op& op(Value v) { return fn_.ops[static_cast<size_t>(v)]; }

  void move_out(ir::Region& loop, std::vector<Value>* before) {
    std::vector<Value> defined = loop.params;
    for (const Value v : loop.body) defined.push_back(v);
    for (const Value v : defined) inside_[static_cast<size_t>(v)] = 1;
    std::vector<Value> stays;
    for (const Value v : loop.body) {
      const Op& o = op(v);
      if (analysis::is_tensor_op(o.code) && o.args.empty()) {
        inside_[static_cast<size_t>(v)] = 0;
        before->push_back(v);  // a weight or a number is no work, and what needs it may go too
        continue;
      }
      const bool movable = analysis::is_tensor_op(o.code) && o.code != Opcode::Row &&
                           o.code != Opcode::ToFloat &&
                           std::none_of(o.args.begin(), o.args.end(),
                                        [&](Value a) { return inside_[static_cast<size_t>(a)] != 0; });
      if (movable) {
        inside_[static_cast<size_t>(v)] = 0;
        before->push_back(v);
      } else {
        stays.push_back(v);
      }
    }
    for (const Value v : defined) inside_[static_cast<size_t>(v)] = 0;
    loop.body = std::move(stays);
  }

  ir::Function& fn_;
  std::vector<char> inside_;  // defined in the loop at hand
};

// ---------------------------------------------------------------- dead code
class Liveness {
 public:
  explicit Liveness(const ir::Program& program) : program_(program), callers_(program.functions.size()) {
    for (const ir::Function& fn : program.functions) live_.emplace_back(fn.ops.size(), 0);
    mark(program.main, program.functions[static_cast<size_t>(program.main)].body.result);
    // main's parameters are the instance: they stay, read or not
    for (const Value p : program.functions[static_cast<size_t>(program.main)].body.params)
      mark(program.main, p);
    while (!work_.empty()) {
      const auto [f, v] = work_.back();
      work_.pop_back();
      spread(f, v);
    }
  }

  bool live(int32_t f, Value v) const { return live_[static_cast<size_t>(f)][static_cast<size_t>(v)] != 0; }
  bool called(int32_t f) const { return f == program_.main || !callers_[static_cast<size_t>(f)].empty(); }

 private:
  const ir::Function& fn(int32_t f) const { return program_.functions[static_cast<size_t>(f)]; }
  void mark(int32_t f, Value v) {
    char& flag = live_[static_cast<size_t>(f)][static_cast<size_t>(v)];
    if (!flag) work_.emplace_back(f, v);
    flag = 1;
  }

  void spread(int32_t f, Value v) {
    const Op& op = fn(f).ops[static_cast<size_t>(v)];
    if (op.code == Opcode::Arg) return parameter(f, v);
    if (op.code == Opcode::Call) {
      const auto g = static_cast<int32_t>(op.i);
      callers_[static_cast<size_t>(g)].emplace_back(f, v);
      mark(g, fn(g).body.result);
      const std::vector<Value>& params = fn(g).body.params;
      for (size_t k = 0; k < params.size(); ++k)
        if (live(g, params[k])) mark(f, op.args[k]);
      return;
    }
    for (const Value a : op.args) mark(f, a);
    for (const ir::Region& r : op.regions) mark(f, r.result);
  }

  // A parameter of a function became live: so do the arguments of the calls seen so far.
  void parameter(int32_t f, Value v) {
    const std::vector<Value>& params = fn(f).body.params;
    const auto found = std::find(params.begin(), params.end(), v);
    if (found == params.end()) return;  // a region's: its operation is live, since something inside is
    const auto k = static_cast<size_t>(found - params.begin());
    const auto callers = callers_[static_cast<size_t>(f)];
    for (const auto& [g, call] : callers) mark(g, fn(g).ops[static_cast<size_t>(call)].args[k]);
  }

  const ir::Program& program_;
  std::vector<std::vector<char>> live_;
  std::vector<std::vector<std::pair<int32_t, Value>>> callers_;
  std::vector<std::pair<int32_t, Value>> work_;
};

// Copies what is live, numbered in program order.
class Sweeper {
 public:
  Sweeper(const ir::Program& program, const Liveness& liveness) : program_(program), liveness_(liveness) {
    for (size_t f = 0; f < program.functions.size(); ++f)
      number_.push_back(liveness.called(static_cast<int32_t>(f)) ? next_++ : -1);
  }

  void run(ir::Program* out) {
    std::vector<ir::Function> functions;
    for (size_t f = 0; f < program_.functions.size(); ++f)
      if (number_[f] >= 0) functions.push_back(function(static_cast<int32_t>(f)));
    const int32_t main = number_[static_cast<size_t>(program_.main)];
    out->functions = std::move(functions);
    out->main = main;
  }

 private:
  ir::Function function(int32_t f) {
    from_ = &program_.functions[static_cast<size_t>(f)];
    at_ = f;
    to_ = {from_->name, {}, {}, from_->result, from_->loc};
    map_.assign(from_->ops.size(), kNone);
    to_.body = region(from_->body, true);
    return std::move(to_);
  }

  Value copy(Value v) {
    const Op& from = from_->ops[static_cast<size_t>(v)];
    Op op = from;
    op.args.clear();
    op.regions.clear();
    for (size_t k = 0; k < from.args.size(); ++k) {
      if (from.code == Opcode::Call) {
        const ir::Function& callee = program_.functions[static_cast<size_t>(from.i)];
        if (!liveness_.live(static_cast<int32_t>(from.i), callee.body.params[k])) continue;
      }
      op.args.push_back(map_[static_cast<size_t>(from.args[k])]);
    }
    if (from.code == Opcode::Call) op.i = number_[static_cast<size_t>(from.i)];
    const Value to = to_.add(std::move(op));
    map_[static_cast<size_t>(v)] = to;
    for (const ir::Region& r : from.regions) {
      ir::Region inner = region(r, false);
      to_.ops[static_cast<size_t>(to)].regions.push_back(std::move(inner));
    }
    return to;
  }

  ir::Region region(const ir::Region& r, bool of_function) {
    ir::Region result;
    for (const Value p : r.params)
      if (!of_function || liveness_.live(at_, p)) result.params.push_back(copy(p));
    for (const Value v : r.body)
      if (liveness_.live(at_, v)) result.body.push_back(copy(v));
    result.result = map_[static_cast<size_t>(r.result)];
    return result;
  }

  const ir::Program& program_;
  const Liveness& liveness_;
  int32_t next_ = 0;
  std::vector<int32_t> number_;
  const ir::Function* from_ = nullptr;
  int32_t at_ = 0;
  ir::Function to_;
  std::vector<Value> map_;
};

}  // namespace

void hoist_invariants(ir::Program* program) {
  for (ir::Function& fn : program->functions) InvariantHoister(&fn).region(fn.body);
}

void remove_dead(ir::Program* program) {
  const Liveness liveness(*program);
  Sweeper(*program, liveness).run(program);
}

}  // namespace rondo::plan
