#include "rondo/analysis/flow.h"

namespace rondo::analysis {
namespace {
using ir::Opcode;
using ir::Value;

class Tracer {
 public:
  explicit Tracer(const ir::Program& program) : program_(program) {
    for (size_t f = 0; f < program.functions.size(); ++f) {
      const ir::Function& fn = program.functions[f];
      flow_.layouts.push_back(lay_out(fn));
      flow_.first.emplace_back();
      flow_.count.emplace_back();
      for (size_t v = 0; v < fn.ops.size(); ++v) {
        const int32_t places = places_of(fn.ops[v].type);
        flow_.first[f].push_back(static_cast<int32_t>(flow_.nodes.size()));
        flow_.count[f].push_back(places);
        for (int32_t part = 0; part < places; ++part)
          flow_.nodes.push_back(
              {static_cast<int32_t>(f), static_cast<Value>(v), part, flow_.layouts[f].region_of[v]});
      }
    }
    flow_.out.resize(flow_.nodes.size());
    flow_.in.resize(flow_.nodes.size());
  }

  Flow run() {
    for (size_t f = 0; f < program_.functions.size(); ++f) {
      at_ = static_cast<int32_t>(f);
      const ir::Function& fn = program_.functions[f];
      for_each_op(fn, fn.body, [&](Value v) { operation(fn, v); });
    }
    return std::move(flow_);
  }

 private:
  // Places of a type that hold tensors.
  int32_t places_of(ir::TypeId type) const {
    const Type& t = program_.types[type];
    switch (t.kind) {
      case TypeKind::Tensor:
        return 1;
      case TypeKind::List:
        return places_of(t.args[0]);
      case TypeKind::Adt:
        return program_.types.has_tensor(type) ? 1 : 0;
      case TypeKind::Tuple: {
        int32_t n = 0;
        for (const ir::TypeId element : t.args) n += places_of(element);
        return n;
      }
      default:
        return 0;
    }
  }

  struct Places {
    int32_t first, count;
  };
  Places places(int32_t f, Value v) const {
    return {flow_.first[static_cast<size_t>(f)][static_cast<size_t>(v)],
            flow_.count[static_cast<size_t>(f)][static_cast<size_t>(v)]};
  }
  Places here(Value v) const { return places(at_, v); }

  void edge(int32_t from, int32_t to, bool mark) {
    flow_.out[static_cast<size_t>(from)].push_back({to, mark});
    flow_.in[static_cast<size_t>(to)].push_back(from);
  }
  // Place by place; from or to an algebraic value everything meets in its one place.
  void copy(Places from, Places to, bool mark = false) {
    if (from.count == to.count)
      for (int32_t k = 0; k < from.count; ++k) edge(from.first + k, to.first + k, mark);
    else
      for (int32_t k = 0; k < from.count; ++k)
        for (int32_t m = 0; m < to.count; ++m) edge(from.first + k, to.first + m, mark);
  }

  void operation(const ir::Function& fn, Value v) {
    const ir::Op& op = fn.ops[static_cast<size_t>(v)];
    const Places to = here(v);
    switch (op.code) {
      case Opcode::Tuple:
      case Opcode::Concurrent:
      case Opcode::Zip: {  // elements one after the other
        int32_t at = to.first;
        for (const Value a : op.args) {
          const Places from = here(a);
          copy(from, {at, from.count});
          at += from.count;
        }
        return;
      }
      case Opcode::TupleGet: {
        int32_t at = here(op.args[0]).first;
        const Type& tuple = program_.types[fn.ops[static_cast<size_t>(op.args[0])].type];
        for (int64_t k = 0; k < op.i; ++k) at += places_of(tuple.args[static_cast<size_t>(k)]);
        return copy({at, to.count}, to);
      }
      case Opcode::Call: {
        const ir::Function& callee = program_.functions[static_cast<size_t>(op.i)];
        const auto g = static_cast<int32_t>(op.i);
        for (size_t k = 0; k < op.args.size(); ++k) copy(here(op.args[k]), places(g, callee.body.params[k]));
        return copy(places(g, callee.body.result), to);
      }
      case Opcode::Match:
      case Opcode::MatchList:
      case Opcode::If:
        for (const ir::Region& r : op.regions) {
          for (const Value p : r.params) copy(here(op.args[0]), here(p));
          copy(here(r.result), to);
        }
        return;
      case Opcode::Map:
        copy(here(op.args[0]), here(op.regions[0].params[0]));
        return copy(here(op.regions[0].result), to);
      case Opcode::Fold:
      case Opcode::Scan: {
        const ir::Region& body = op.regions[0];
        copy(here(op.args[1]), here(body.params[0]));
        copy(here(body.result), here(body.params[0]));
        copy(here(op.args[0]), here(body.params[1]));
        copy(here(body.result), to);
        if (op.code == Opcode::Fold) copy(here(op.args[1]), to);  // of an empty list
        return;
      }
      default:  // tensor operations, and structures that hold or give what they are made of
        for (const Value a : op.args) copy(here(a), to, op.code == Opcode::Phase);
    }
  }

  const ir::Program& program_;
  int32_t at_ = 0;
  Flow flow_;
};

}  // namespace

Flow find_flow(const ir::Program& specialised) { return Tracer(specialised).run(); }

}  // namespace rondo::analysis
