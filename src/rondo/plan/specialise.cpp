#include "rondo/plan/specialise.h"

#include <fmt/format.h>

#include <map>

#include "rondo/analysis/layout.h"
#include "rondo/plan/simplify.h"

namespace rondo::plan {
namespace {
using analysis::Context;
using analysis::Sharing;
using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

// Inlining can double a program at every call. Both limits are far above what a person writes.
constexpr size_t kMostOperations = 200'000;
constexpr int kDeepestInlining = 400;

class Specialiser {
 public:
  Specialiser(const ir::Program& program, const analysis::Reuse& reuse)
      : in_(program), reuse_(reuse), calls_(analysis::call_graph(program)), out_(program) {
    out_.functions.clear();
  }

  ir::Program run() {
    out_.main = clone_of(0);
    for (size_t k = 0; k < pending_.size(); ++k) build(pending_[k]);
    hoist_invariants(&out_);
    remove_dead(&out_);
    ir::verify(out_, "specialise");
    return std::move(out_);
  }

 private:
  // Where a piece of the source program is being copied to.
  struct Frame {
    const ir::Function& fn;
    const Context& context;
    std::vector<Value> to;  // source value -> new value
    int depth = 0;          // of inlining
  };

  const Context& context(int32_t id) const { return reuse_.contexts[static_cast<size_t>(id)]; }

  int32_t clone_of(int32_t id) {
    const auto [found, fresh] = clones_.try_emplace(id, static_cast<int32_t>(out_.functions.size()));
    if (!fresh) return found->second;
    const ir::Function& source = in_.functions[static_cast<size_t>(context(id).function)];
    const int count = ++names_[context(id).function];
    ir::Function fn;
    fn.name = count == 1 ? source.name : fmt::format("{}_{}", source.name, count);
    fn.result = source.result;
    fn.loc = source.loc;
    out_.functions.push_back(std::move(fn));
    pending_.push_back(id);
    return found->second;
  }

  void build(int32_t id) {
    const Context& c = context(id);
    const ir::Function& source = in_.functions[static_cast<size_t>(c.function)];
    const int32_t number = clones_.at(id);
    Builder builder(&out_, number);
    builder_ = &builder;
    std::vector<Value> body, params;
    builder.body = &body;
    Frame frame{source, c, std::vector<Value>(source.ops.size(), kNone)};
    for (size_t k = 0; k < source.body.params.size(); ++k) {
      const Op& param = source.ops[static_cast<size_t>(source.body.params[k])];
      frame.to[static_cast<size_t>(source.body.params[k])] =
          rebuild(c.args[k], param.type, param.loc, &params);
    }
    const Value result = region(frame, source.body);
    ir::Function& fn = builder.fn();
    fn.body = {std::move(params), std::move(body), result};
  }

  // ---------------------------------------------------------------- parameters, part by part
  std::vector<ir::TypeId> parts(ir::TypeId type) const {
    const Type& t = in_.types[type];
    return t.kind == TypeKind::Adt ? in_.types.adts[static_cast<size_t>(t.adt)].constructors[0].fields
                                   : t.args;
  }

  // Inside a clone: a parameter from what is passed of it (new parameters) and what is shared (made here).
  Value rebuild(const Sharing& s, ir::TypeId type, ir::Loc loc, std::vector<Value>* params) {
    if (s.kind == Sharing::Shared) return follow(s.recipe, loc);
    if (s.kind == Sharing::Instance) {
      params->push_back(builder_->param(type, loc));
      return params->back();
    }
    Op op;
    op.code = in_.types[type].kind == TypeKind::Adt ? Opcode::Construct : Opcode::Tuple;
    op.type = type;
    op.loc = loc;
    const std::vector<ir::TypeId> types = parts(type);
    for (size_t k = 0; k < types.size(); ++k) op.args.push_back(rebuild(s.fields[k], types[k], loc, params));
    return builder_->add(std::move(op));
  }

  Value follow(const std::vector<Op>& recipe, ir::Loc loc) {
    Value last = kNone;
    for (Op op : recipe) {
      op.args.clear();
      if (last != kNone) op.args.push_back(last);
      if (op.code == Opcode::Row) {
        Op index;
        index.code = Opcode::Int;
        index.type = out_.types.integer();
        index.i = op.j;
        index.loc = loc;
        op.args.push_back(builder_->add(std::move(index)));
        op.j = 0;
      }
      last = builder_->add(std::move(op));
    }
    return last;
  }

  // At a call: the same parts of an argument, in the same order.
  void pass(const Sharing& s, Value arg, std::vector<Value>* args) {
    if (s.kind == Sharing::Shared) return;
    if (s.kind == Sharing::Instance) return args->push_back(arg);
    const ir::TypeId type = builder_->op(arg).type;
    const std::vector<ir::TypeId> types = parts(type);
    for (size_t k = 0; k < types.size(); ++k) {
      Op get;
      get.code = in_.types[type].kind == TypeKind::Adt ? Opcode::Field : Opcode::TupleGet;
      get.type = types[k];
      get.args = {arg};
      get.i = static_cast<int64_t>(k);
      get.loc = builder_->op(arg).loc;
      pass(s.fields[k], builder_->add(std::move(get)), args);
    }
  }

  // ---------------------------------------------------------------- copying
  Value region(Frame& frame, const ir::Region& r) {
    for (const Value v : r.body) {
      const Value made = operation(frame, v);
      frame.to[static_cast<size_t>(v)] = made;
    }
    return frame.to[static_cast<size_t>(r.result)];
  }

  Value operation(Frame& frame, Value v) {
    const Op& source = frame.fn.ops[static_cast<size_t>(v)];
    check_size(source.loc);
    std::vector<Value> args;
    for (const Value a : source.args) args.push_back(frame.to[static_cast<size_t>(a)]);
    if (source.code == Opcode::Call) return call(frame, v, args);
    if (source.regions.empty()) {
      Op op = source;
      op.args = std::move(args);
      return builder_->add(std::move(op));
    }
    if (const ir::Region* known = taken(frame, source, args)) return region(frame, *known);
    return control(frame, source, std::move(args));
  }

  Value call(Frame& frame, Value v, const std::vector<Value>& args) {
    const Op& source = frame.fn.ops[static_cast<size_t>(v)];
    const int32_t callee = frame.context.callees[static_cast<size_t>(v)];
    const Context& c = context(callee);
    const ir::Function& fn = in_.functions[static_cast<size_t>(c.function)];
    if (calls_.recursive[static_cast<size_t>(c.function)]) {
      Op op;
      op.code = Opcode::Call;
      op.type = source.type;
      op.loc = source.loc;
      op.i = clone_of(callee);
      for (size_t k = 0; k < args.size(); ++k) pass(c.args[k], args[k], &op.args);
      return builder_->place(std::move(op));
    }
    if (frame.depth >= kDeepestInlining)
      ir::fail_at(
          in_, source.loc,
          fmt::format(
              "calls are nested more than {} functions deep here; write fewer functions that only call "
              "another one",
              kDeepestInlining));
    Frame inner{fn, c, std::vector<Value>(fn.ops.size(), kNone), frame.depth + 1};
    for (size_t k = 0; k < args.size(); ++k) inner.to[static_cast<size_t>(fn.body.params[k])] = args[k];
    return region(inner, fn.body);
  }

  // The region that runs, with its parameters bound, where that is known.
  const ir::Region* taken(Frame& frame, const Op& source, const std::vector<Value>& args) {
    const auto bind = [&](const ir::Region& r, const std::vector<Value>& values) {
      for (size_t k = 0; k < values.size(); ++k) frame.to[static_cast<size_t>(r.params[k])] = values[k];
      return &r;
    };
    const Op on = builder_->op(args[0]);
    switch (source.code) {
      case Opcode::Match:
        if (on.code != Opcode::Construct) return nullptr;
        return bind(source.regions[static_cast<size_t>(on.i)], on.args);
      case Opcode::If:
        if (on.code != Opcode::Bool) return nullptr;
        return bind(source.regions[on.i != 0 ? 0 : 1], {});
      case Opcode::MatchList: {
        if (on.code == Opcode::Cons) return bind(source.regions[1], on.args);
        if (on.code != Opcode::List) return nullptr;
        if (on.args.empty()) return bind(source.regions[0], {});
        Op rest = on;
        rest.args.erase(rest.args.begin());
        return bind(source.regions[1], {on.args[0], builder_->add(std::move(rest))});
      }
      default:
        return nullptr;
    }
  }

  Value control(Frame& frame, const Op& source, std::vector<Value> args) {
    Op op = source;
    op.args = std::move(args);
    op.regions.clear();
    std::vector<Value>* outer = builder_->body;
    for (const ir::Region& r : source.regions) {
      ir::Region made;
      for (const Value p : r.params) {
        const Op& param = frame.fn.ops[static_cast<size_t>(p)];
        made.params.push_back(builder_->param(param.type, param.loc));
        frame.to[static_cast<size_t>(p)] = made.params.back();
      }
      builder_->body = &made.body;
      made.result = region(frame, r);
      builder_->body = outer;
      op.regions.push_back(std::move(made));
    }
    return builder_->place(std::move(op));
  }

  void check_size(ir::Loc loc) {
    if (++operations_ > kMostOperations)
      ir::fail_at(
          in_, loc,
          fmt::format(
              "the program grows beyond {} operations when its calls are expanded; a function that is "
              "called very often can be made recursive or mapped over a list",
              kMostOperations));
  }

  const ir::Program& in_;
  const analysis::Reuse& reuse_;
  const analysis::CallGraph calls_;
  ir::Program out_;
  std::map<int32_t, int32_t> clones_;  // context -> function of out_
  std::map<int32_t, int> names_;       // clones made of a source function
  std::vector<int32_t> pending_;
  Builder* builder_ = nullptr;
  size_t operations_ = 0;
};

}  // namespace

ir::Program specialise(const ir::Program& program, const analysis::Reuse& reuse) {
  return Specialiser(program, reuse).run();
}

}  // namespace rondo::plan
