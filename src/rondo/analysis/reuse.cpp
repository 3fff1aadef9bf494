#include "rondo/analysis/reuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "rondo/analysis/layout.h"

namespace rondo::analysis {
namespace {

// A function that is called with ever new combinations of weights (permuting them, say) is taken to be per
// instance after this many, which keeps the number of contexts, and of clones, finite.
constexpr size_t kContextsOfAFunction = 64;
// Parts of an argument of a recursive function are followed this deep: a value that grows a field a call must
// not make a context a call.
constexpr int kArgumentDepth = 4;

Sharing join(const Sharing& a, const Sharing& b) {
  if (a == b) return a;
  if (a.kind != Sharing::Fields || b.kind != Sharing::Fields || a.constructor != b.constructor ||
      a.fields.size() != b.fields.size())
    return {};
  Sharing result = a;
  for (size_t k = 0; k < a.fields.size(); ++k) result.fields[k] = join(a.fields[k], b.fields[k]);
  return result;
}

class Interpreter {
 public:
  explicit Interpreter(const ir::Program& program)
      : program_(program), calls_(call_graph(program)), made_(program.functions.size(), 0) {}

  Reuse run() {
    const ir::Function& main = program_.functions[static_cast<size_t>(program_.main)];
    context(program_.main, std::vector<Sharing>(main.body.params.size()));
    for (size_t k = 0; k < reuse_.contexts.size(); ++k) finish(static_cast<int32_t>(k));
    return reachable();
  }

 private:
  struct Walk {
    const ir::Function& fn;
    std::vector<Sharing> values;
    std::vector<int32_t> callees;
    const ir::Op& op(ir::Value v) const { return fn.ops[static_cast<size_t>(v)]; }
    Sharing& at(ir::Value v) { return values[static_cast<size_t>(v)]; }
  };

  // What a recursive function may rely on: weights, alone or inside tuples and one-constructor types.
  // Everything else becomes per instance, so that a first call with zeros and the inner calls share a
  // context.
  Sharing normalise(const Sharing& s, ir::TypeId type, int depth) const {
    if (s.of_weight()) return s;
    if (s.kind != Sharing::Fields || depth == kArgumentDepth) return {};
    const Type& t = program_.types[type];
    const Adt* adt = t.kind == TypeKind::Adt ? &program_.types.adts[static_cast<size_t>(t.adt)] : nullptr;
    if (adt != nullptr && adt->constructors.size() != 1) return {};
    const std::vector<ir::TypeId>& types = adt != nullptr ? adt->constructors[0].fields : t.args;
    Sharing result = s;
    bool any = false;
    for (size_t k = 0; k < result.fields.size(); ++k) {
      result.fields[k] = normalise(s.fields[k], types[k], depth + 1);
      any = any || result.fields[k].kind != Sharing::Instance;
    }
    return any ? result : Sharing{};
  }

  int32_t context(int64_t function, std::vector<Sharing> args) {
    const auto f = static_cast<size_t>(function);
    const ir::Function& fn = program_.functions[f];
    const auto find = [&] {
      return std::find_if(reuse_.contexts.begin(), reuse_.contexts.end(),
                          [&](const Context& c) { return c.function == function && c.args == args; });
    };
    if (calls_.recursive[f])
      for (size_t k = 0; k < args.size(); ++k)
        args[k] = normalise(args[k], fn.ops[static_cast<size_t>(fn.body.params[k])].type, 0);
    auto found = find();
    if (found == reuse_.contexts.end() && made_[f] >= kContextsOfAFunction) {
      args.assign(args.size(), {});
      found = find();
    }
    if (found != reuse_.contexts.end()) return static_cast<int32_t>(found - reuse_.contexts.begin());
    ++made_[f];
    Context c;
    c.function = static_cast<int32_t>(function);
    c.args = std::move(args);
    reuse_.contexts.push_back(std::move(c));
    const auto id = static_cast<int32_t>(reuse_.contexts.size()) - 1;
    // Other functions cannot call themselves, so this ends; recursive ones wait for run() and their result is
    // Instance.
    if (!calls_.recursive[f]) finish(id);
    return id;
  }

  void finish(int32_t id) {
    const auto k = static_cast<size_t>(id);
    if (!reuse_.contexts[k].values.empty()) return;
    const auto f = static_cast<size_t>(reuse_.contexts[k].function);
    const ir::Function& fn = program_.functions[f];
    Walk walk{fn, std::vector<Sharing>(fn.ops.size()), std::vector<int32_t>(fn.ops.size(), -1)};
    for (size_t p = 0; p < fn.body.params.size(); ++p)
      walk.at(fn.body.params[p]) = reuse_.contexts[k].args[p];
    Sharing result = region(walk, fn.body);
    Context& c = reuse_.contexts[k];
    if (!calls_.recursive[f]) c.result = std::move(result);
    c.values = std::move(walk.values);
    c.callees = std::move(walk.callees);
  }

  Sharing region(Walk& walk, const ir::Region& r) {
    for (const ir::Value v : r.body) {
      Sharing s = operation(walk, v);
      walk.at(v) = std::move(s);
    }
    return walk.at(r.result);
  }

  Sharing operation(Walk& walk, ir::Value v) {
    const ir::Op& op = walk.op(v);
    const auto arg = [&](size_t k) -> Sharing& { return walk.at(op.args[k]); };
    switch (op.code) {
      case ir::Opcode::Tuple:
      case ir::Opcode::Concurrent:
      case ir::Opcode::Construct: {
        Sharing s;
        s.kind = Sharing::Fields;
        s.constructor = op.code == ir::Opcode::Construct ? static_cast<int32_t>(op.i) : 0;
        for (size_t k = 0; k < op.args.size(); ++k) s.fields.push_back(arg(k));
        return s;
      }
      case ir::Opcode::TupleGet:
      case ir::Opcode::Field:
        return arg(0).kind == Sharing::Fields ? arg(0).fields[static_cast<size_t>(op.i)] : Sharing{};
      case ir::Opcode::Phase:
        return arg(0);
      case ir::Opcode::Call: {
        std::vector<Sharing> args;
        for (size_t k = 0; k < op.args.size(); ++k) args.push_back(arg(k));
        const int32_t callee = context(op.i, std::move(args));
        walk.callees[static_cast<size_t>(v)] = callee;
        return reuse_.contexts[static_cast<size_t>(callee)].result;
      }
      case ir::Opcode::Match: {
        // Every arm is walked, because specialise may not know the constructor; a known one alone gives the
        // result.
        const Sharing scrutinee = arg(0);
        Sharing result;
        for (size_t k = 0; k < op.regions.size(); ++k) {
          const bool known = scrutinee.kind == Sharing::Fields;
          const bool taken = known && scrutinee.constructor == static_cast<int32_t>(k);
          for (size_t p = 0; p < op.regions[k].params.size(); ++p)
            walk.at(op.regions[k].params[p]) = taken ? scrutinee.fields[p] : Sharing{};
          Sharing arm = region(walk, op.regions[k]);
          if (taken || (!known && k == 0))
            result = std::move(arm);
          else if (!known)
            result = join(result, arm);
        }
        return result;
      }
      case ir::Opcode::MatchList:
      case ir::Opcode::If: {
        Sharing first = region(walk, op.regions[0]);
        return join(first, region(walk, op.regions[1]));
      }
      case ir::Opcode::Map:
        region(walk, op.regions[0]);
        return {};
      case ir::Opcode::Fold:
      case ir::Opcode::Scan: {
        const ir::Region& body = op.regions[0];
        Sharing acc = arg(1);
        for (;;) {  // joins only lose knowledge, so this settles
          walk.at(body.params[0]) = acc;
          Sharing next = join(acc, region(walk, body));
          if (next == acc) break;
          acc = std::move(next);
        }
        return op.code == ir::Opcode::Fold ? acc : Sharing{};
      }
      default:
        return is_tensor_op(op.code) ? tensor(walk, op) : Sharing{};
    }
  }

  Sharing tensor(Walk& walk, const ir::Op& op) {
    std::vector<const View*> views;
    std::optional<int64_t> index;
    for (const ir::Value a : op.args) {
      const ir::Op& from = walk.op(a);
      if (program_.types[from.type].kind == TypeKind::Tensor) {
        if (walk.at(a).kind != Sharing::Shared) return {};
        views.push_back(walk.at(a).is_view ? &walk.at(a).view : nullptr);
      } else if (from.code == ir::Opcode::Int) {
        index = from.i;
      } else {
        return {};
      }
    }
    Sharing s;
    s.kind = Sharing::Shared;
    const std::optional<View> view = view_of(program_, op, views, index);
    if (!view) return s;
    s.is_view = true;
    s.view = *view;
    if (view->weight < 0 || op.code == ir::Opcode::ToFloat) return s;
    if (!op.args.empty()) s.recipe = walk.at(op.args[0]).recipe;
    s.recipe.push_back(op);
    if (index) s.recipe.back().j = *index;  // Row: the recipe cannot refer to the Int operation
    return s;
  }

  // Contexts that a fold's early rounds made and nobody calls are left out; the rest is numbered as first
  // reached.
  Reuse reachable() {
    std::vector<int32_t> number(reuse_.contexts.size(), -1), order;
    const auto reach = [&](int32_t id) {
      if (number[static_cast<size_t>(id)] >= 0) return;
      number[static_cast<size_t>(id)] = static_cast<int32_t>(order.size());
      order.push_back(id);
    };
    reach(0);
    for (size_t k = 0; k < order.size(); ++k)
      for (const int32_t callee : reuse_.contexts[static_cast<size_t>(order[k])].callees)
        if (callee >= 0) reach(callee);
    Reuse result;
    for (const int32_t id : order) {
      result.contexts.push_back(std::move(reuse_.contexts[static_cast<size_t>(id)]));
      for (int32_t& callee : result.contexts.back().callees)
        if (callee >= 0) callee = number[static_cast<size_t>(callee)];
    }
    return result;
  }

  const ir::Program& program_;
  const CallGraph calls_;
  std::vector<size_t> made_;
  Reuse reuse_;
};

std::string show(const Sharing& s, const ir::Program& program, ir::TypeId type) {
  if (s.kind == Sharing::Instance) return "per instance";
  if (s.kind == Sharing::Shared) {
    if (!s.is_view) return "shared";
    if (s.view.weight < 0) return fmt::format("shared {}", s.view.fill);
    const ir::Weight& w = program.weights[static_cast<size_t>(s.view.weight)];
    return s.recipe.size() == 1 ? "shared " + w.name : fmt::format("shared view of {}", w.name);
  }
  const Type& t = program.types[type];
  const Constructor* constructor =
      t.kind == TypeKind::Adt
          ? &program.types.adts[static_cast<size_t>(t.adt)].constructors[static_cast<size_t>(s.constructor)]
          : nullptr;
  std::string text;
  for (size_t k = 0; k < s.fields.size(); ++k)
    text +=
        (k == 0 ? "" : ", ") + show(s.fields[k], program, constructor ? constructor->fields[k] : t.args[k]);
  return (constructor ? constructor->name : "") + "(" + text + ")";
}

}  // namespace

bool Sharing::operator==(const Sharing& other) const {
  return kind == other.kind && is_view == other.is_view && view == other.view &&
         constructor == other.constructor && fields == other.fields;
}

Reuse find_reuse(const ir::Program& program) { return Interpreter(program).run(); }

std::string print(const Reuse& reuse, const ir::Program& program) {
  std::string text;
  for (size_t k = 0; k < reuse.contexts.size(); ++k) {
    const Context& c = reuse.contexts[k];
    const ir::Function& fn = program.functions[static_cast<size_t>(c.function)];
    const auto type = [&](ir::Value v) { return fn.ops[static_cast<size_t>(v)].type; };
    text += fmt::format("context {}: {}(", k, fn.name);
    for (size_t p = 0; p < c.args.size(); ++p)
      text += (p == 0 ? "" : ", ") + show(c.args[p], program, type(fn.body.params[p]));
    text += ")\n";
    for_each_op(fn, fn.body, [&](ir::Value v) {
      const ir::Op& op = fn.ops[static_cast<size_t>(v)];
      const int32_t callee = c.callees[static_cast<size_t>(v)];
      if (callee >= 0) {
        const Context& to = reuse.contexts[static_cast<size_t>(callee)];
        text += fmt::format("  {}:{} call {} -> context {}\n", op.loc.line, op.loc.column,
                            program.functions[static_cast<size_t>(to.function)].name, callee);
      }
      if (!is_tensor_op(op.code) || op.args.empty()) return;
      text += fmt::format("  {}:{} {}", op.loc.line, op.loc.column, ir::name(op.code));
      for (size_t a = 0; a < op.args.size(); ++a)
        text += (a == 0 ? " " : ", ") +
                show(c.values[static_cast<size_t>(op.args[a])], program, type(op.args[a]));
      text += "\n";
    });
  }
  return text;
}

}  // namespace rondo::analysis
