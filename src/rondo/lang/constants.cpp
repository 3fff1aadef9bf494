// Numbers known while compiling: consts, extents, axes, bounds of slices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rondo/error.h"
#include "rondo/lang/checker.h"

namespace rondo::lang {
namespace {

// The first name in an expression that is not known.
const Expr* first_name(const Expr& e, const std::function<bool(const std::string&)>& known) {
  if (e.kind == Expr::Kind::Name) return known(e.name) ? nullptr : &e;
  for (const ExprPtr& part : e.parts)
    if (const Expr* found = first_name(*part, known)) return found;
  return nullptr;
}

}  // namespace

// The value of an expression of numbers, constants and dimensions; nothing if it has other parts.
std::optional<Number> Checker::constant(const Expr& e, const Bindings& bindings) const {
  switch (e.kind) {
    case Expr::Kind::Int: return Number{false, e.integer, 0};
    case Expr::Kind::Float: return Number{true, 0, e.real};
    case Expr::Kind::Name: {
      if (local(e.name)) return std::nullopt;
      if (const Binding* b = find_binding(bindings, e.name)) {
        if (!b->is_dim || !b->bound) return std::nullopt;
        return Number{false, b->dim, 0};
      }
      const auto found = constants_.find(e.name);
      if (found == constants_.end()) return std::nullopt;
      return found->second;
    }
    case Expr::Kind::Unary: {
      if (e.op != Operator::Neg) return std::nullopt;
      const auto a = constant(*e.parts[0], bindings);
      if (!a) return std::nullopt;
      return a->is_float ? Number{true, 0, -a->real} : fold(e, {false, 0, 0}, *a);
    }
    case Expr::Kind::Binary: {
      if (e.op < Operator::Add || e.op > Operator::Mod) return std::nullopt;
      const auto a = constant(*e.parts[0], bindings);
      if (!a) return std::nullopt;
      const auto b = constant(*e.parts[1], bindings);
      if (!b || (e.op == Operator::Mod && (a->is_float || b->is_float))) return std::nullopt;
      return fold(e, *a, *b);
    }
    default: return std::nullopt;
  }
}

Number Checker::fold(const Expr& e, Number a, Number b) const {
  const Operator op = e.op == Operator::Neg ? Operator::Sub : e.op;
  if (a.is_float || b.is_float) {
    const double x = a.as_double(), y = b.as_double();
    const double result = op == Operator::Add   ? x + y
                          : op == Operator::Sub ? x - y
                          : op == Operator::Mul ? x * y
                                                : x / y;
    if (!std::isfinite(result)) fail(e.loc, "the value of this constant is not a finite number");
    return {true, 0, result};
  }
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::Add: overflow = __builtin_add_overflow(a.integer, b.integer, &result); break;
    case Operator::Sub: overflow = __builtin_sub_overflow(a.integer, b.integer, &result); break;
    case Operator::Mul: overflow = __builtin_mul_overflow(a.integer, b.integer, &result); break;
    default:
      if (b.integer == 0) fail(e.loc, "division by zero in a constant");
      if (b.integer == -1) {  // INT64_MIN / -1 traps
        overflow = op == Operator::Div && __builtin_sub_overflow(int64_t{0}, a.integer, &result);
      } else {
        result = op == Operator::Div ? a.integer / b.integer : a.integer % b.integer;
      }
  }
  if (overflow) fail(e.loc, "the value of this constant does not fit in 64 bits");
  return {false, result, 0};
}

int64_t Checker::constant_int(const Expr& e, const Bindings& bindings, const char* what) const {
  const auto number = constant(e, bindings);
  if (number && !number->is_float) return number->integer;
  if (!number) {
    const auto known = [&](const std::string& n) {
      return constants_.count(n) || find_binding(bindings, n) || local(n) || weights_.count(n);
    };
    if (const Expr* name = first_name(e, known)) {
      std::vector<std::string> names;
      for (const auto& [constant_name, value] : constants_) names.push_back(constant_name);
      for (const Binding& b : bindings) names.push_back(b.name);
      unknown(name->loc, "constant", name->name, names);
    }
  }
  fail(e.loc, fmt::format("{} must be an int that is known while compiling", what));
}

void Checker::declare_constants(const Overrides& overrides) {
  std::vector<std::string> names;
  for (const ConstDecl& decl : module_.consts) names.push_back(decl.name);
  for (const auto& [name, value] : overrides)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(ErrorKind::Usage,
                  fmt::format("{} has no const {} to override; it has {}", program_.file, name,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  for (const ConstDecl& decl : module_.consts) {
    const auto number = constant(*decl.value, {});
    if (!number) {
      const auto known = [&](const std::string& n) { return constants_.count(n) != 0; };
      if (const Expr* name = first_name(*decl.value, known)) {
        if (std::find(names.begin(), names.end(), name->name) != names.end())
          fail(name->loc, fmt::format("{} is used before its declaration", name->name));
        std::vector<std::string> earlier;
        for (const auto& [n, v] : constants_) earlier.push_back(n);
        unknown(name->loc, "constant", name->name, earlier);
      }
      fail(decl.value->loc, "a const is made of numbers and other consts");
    }
    Number value = *number;
    for (const auto& [name, replacement] : overrides)
      if (name == decl.name)
        value = value.is_float ? Number{true, 0, static_cast<double>(replacement)}
                               : Number{false, replacement, 0};
    constants_[decl.name] = value;
  }
}

}  // namespace rondo::lang
