// Calls: of functions and constructors, generic ones included.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/lang/checker.h"

namespace rondo::lang {
namespace {

// `kinds` says which parameters are types and which dimensions;
// as the parameters of a new use none of them is bound.
Bindings unbound(Bindings kinds) {
  for (Binding& b : kinds) b.bound = false;
  return kinds;
}

}  // namespace

bool Checker::leaves_open(const Expr& call, const Bindings& kinds, const std::vector<TypeExpr>& types) const {
  std::vector<bool> needs;  // asked once an argument: what it says takes a walk over all of it
  for (const ExprPtr& part : call.parts) needs.push_back(!kinds.empty() && needs_type(*part));
  for (size_t g = 0; g < kinds.size(); ++g) {
    Bindings one = kinds;  // all bound but this one
    one[g].bound = false;
    bool told = false;
    for (size_t k = 0; k < types.size() && k < call.parts.size(); ++k)
      told |= !needs[k] && !is_known(types[k], one);
    if (!told) return true;
  }
  return false;
}

bool Checker::needs_type(const Expr& e) const {
  const auto needs = [&](const ExprPtr& part) { return needs_type(*part); };
  switch (e.kind) {
    case Expr::Kind::List: return std::all_of(e.parts.begin(), e.parts.end(), needs);
    case Expr::Kind::Tuple: return std::any_of(e.parts.begin(), e.parts.end(), needs);
    case Expr::Kind::Block: return needs_type(*e.parts[0]);
    case Expr::Kind::If: return needs_type(*e.parts[1]) && needs_type(*e.parts[2]);
    case Expr::Kind::Match:
      return std::all_of(e.arms.begin(), e.arms.end(),
                         [&](const Arm& arm) { return needs_type(*arm.value); });
    case Expr::Kind::Name:
    case Expr::Kind::Call: {
      if (e.kind == Expr::Kind::Name && local(e.name)) return false;
      if (const auto c = constructors_.find(e.name); c != constructors_.end()) {
        const auto decl = static_cast<size_t>(c->second.type);
        return leaves_open(e, type_kinds_[decl],
                           module_.types[decl].constructors[static_cast<size_t>(c->second.index)].fields);
      }
      const auto f = functions_.find(e.name);
      if (f == functions_.end() || e.kind == Expr::Kind::Name) return false;
      const auto decl = static_cast<size_t>(f->second);
      return leaves_open(e, function_kinds_[decl], module_.functions[decl].param_types);
    }
    default: return false;
  }
}

Value Checker::call(const Expr& e, const Expect& want) {
  const auto constructor = constructors_.find(e.name);
  const auto function = functions_.find(e.name);
  if (constructor == constructors_.end() && function == functions_.end()) {
    if (is_builtin(e.name)) return call_builtin(e, want);
    if (local(e.name) || weights_.count(e.name) || constants_.count(e.name))
      fail(e.loc, fmt::format("{} is a value, not a function", e.name));
    unknown(e.loc, "function", e.name, callable_names());
  }
  for (size_t k = 0; k < e.parts.size(); ++k)
    if (!e.arg_names[k].empty()) fail(e.parts[k]->loc, fmt::format("{} takes no named arguments", e.name));
  if (constructor != constructors_.end()) return construct(e, constructor->second, want);
  return call_function(e, module_.functions[static_cast<size_t>(function->second)], want);
}

std::vector<Value> Checker::arguments(const Expr& e, const std::vector<TypeExpr>& types, Bindings* bindings,
                                      const std::function<void()>& bind_from_result) {
  std::vector<Value> values(types.size(), ir::kNone);
  const auto role = [&](size_t k) { return fmt::format("argument {} of {}", k + 1, e.name); };
  const auto check = [&](size_t k) {
    const Expr& argument = *e.parts[k];
    if (is_known(types[k], *bindings)) {
      values[k] = expr(argument, {resolve(types[k], *bindings), role(k)});
    } else {
      values[k] = expr(argument);
      unify(types[k], type_of(values[k]), bindings);
    }
  };
  // First the arguments that speak for themselves; then what
  // the result is asked to be; then those that need help.
  std::vector<size_t> later;
  for (size_t k = 0; k < types.size(); ++k) {
    if (!is_known(types[k], *bindings) && needs_type(*e.parts[k])) {
      later.push_back(k);
    } else {
      check(k);
    }
  }
  bind_from_result();
  for (const size_t k : later) check(k);
  require_bound(e.name, *bindings, e.loc);
  for (size_t k = 0; k < types.size(); ++k)
    convert(values[k], *e.parts[k], {resolve(types[k], *bindings), role(k)});
  return values;
}

Value Checker::call_function(const Expr& e, const FnDecl& decl, const Expect& want) {
  if (e.parts.size() != decl.params.size())
    fail(e.loc,
         fmt::format("{} takes {} argument(s), got {}", decl.name, decl.params.size(), e.parts.size()));
  Bindings bindings = unbound(function_kinds_[static_cast<size_t>(&decl - module_.functions.data())]);
  ir::Op op;
  op.code = Opcode::Call;
  op.loc = e.loc;
  op.args = arguments(e, decl.param_types, &bindings, [&] {
    if (want.type >= 0) unify(decl.result, want.type, &bindings);
  });
  const int index = instantiate_function(decl, bindings, e.loc);
  op.i = index;
  op.type = instances_[static_cast<size_t>(index)].signature.result;
  return add(std::move(op));
}

Value Checker::construct(const Expr& e, ConstructorRef ref, const Expect& want) {
  const ConstructorDecl& decl = type_decl(ref.type).constructors[static_cast<size_t>(ref.index)];
  if (e.parts.size() != decl.fields.size())
    fail(e.loc, fmt::format("{} has {} field(s), got {}", decl.name, decl.fields.size(), e.parts.size()));
  Bindings bindings = unbound(type_kinds_[static_cast<size_t>(ref.type)]);
  ir::Op op;
  op.code = Opcode::Construct;
  op.loc = e.loc;
  op.i = ref.index;
  op.args = arguments(e, decl.fields, &bindings, [&] {
    if (want.type < 0 || program_.types[want.type].kind != TypeKind::Adt) return;
    const AdtInfo& info = adts_[static_cast<size_t>(program_.types[want.type].adt)];
    if (info.decl != ref.type) return;
    for (size_t k = 0; k < bindings.size(); ++k)
      if (!bindings[k].bound) bindings[k] = info.bindings[k];
    for (Binding& b : bindings) b.bound = true;
  });
  op.type = instantiate_type(ref.type, bindings, e.loc);
  return emit(std::move(op));
}

}  // namespace rondo::lang
