#include "rondo/lang/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "rondo/ir/infer.h"

namespace rondo::lang {
namespace {

constexpr size_t kMaxOperations =
    200'000;  // of one function; wildcard arms are checked once for each constructor they cover

// Where the value of an expression comes from: the end of a block.
const Expr& tail(const Expr& e) { return e.kind == Expr::Kind::Block ? tail(*e.parts[0]) : e; }

bool can_fault(Opcode code) {
  return code == Opcode::Call || code == Opcode::ListGet || code == Opcode::IDiv || code == Opcode::IMod ||
         code == Opcode::Row || ir::has_regions(code);
}

struct Arithmetic {
  const char* verb;
  Opcode tensor, integer;
};
constexpr std::array<Arithmetic, 5> kArithmetic = {{{"add", Opcode::Add, Opcode::IAdd},
                                                    {"subtract", Opcode::Sub, Opcode::ISub},
                                                    {"multiply", Opcode::Mul, Opcode::IMul},
                                                    {"divide", Opcode::Div, Opcode::IDiv},
                                                    {"take the remainder of", Opcode::Div, Opcode::IMod}}};

}  // namespace

Checker::Checker(ir::Program program, const Module& module, const Overrides& overrides)
    : program_(std::move(program)), module_(module) {
  declare_names();
  declare_constants(overrides);
  find_generic_kinds();
  declare_types();
  declare_functions();
}

ir::Program Checker::run() {
  for (size_t k = 0; k < instances_.size(); ++k)
    function(static_cast<int>(k));  // instances_ grows on the way
  return std::move(program_);
}

void Checker::function(int index) {
  const Instance instance = instances_[static_cast<size_t>(index)];
  const FnDecl& decl = *instance.decl;
  bindings_ = instance.bindings;
  context_ = bindings_.empty() ? "" : fmt::format(" (in {} with {})", decl.name, show(bindings_, " = "));
  fn_ = {};
  fn_.name = instance.name;
  fn_.loc = decl.loc;
  fn_.result = instance.signature.result;
  scope_.close(0);
  std::vector<std::string> names;
  for (const Pattern& p : decl.params) check_pattern_names(p, &names);
  fn_.body = region(instance.signature.params, decl.loc, [&](const std::vector<Value>& params) {
    for (size_t k = 0; k < params.size(); ++k)
      if (decl.params[k].kind == Pattern::Kind::Name) scope_.add(decl.params[k].name, params[k]);
    return expr(*decl.body, {fn_.result, fmt::format("the result of fn {}", decl.name)});
  });
  program_.functions.push_back(std::move(fn_));
  context_.clear();
}

// ---------------------------------------------------------------- making operations

Value Checker::add(ir::Op op) {
  if (fn_.ops.size() >= kMaxOperations)
    fail(op.loc, fmt::format("fn {} is too large: more than {} operations", fn_.name, kMaxOperations));
  const Value v = fn_.add(std::move(op));
  body_->push_back(v);
  return v;
}

Value Checker::emit(ir::Op op) {
  std::vector<TypeId> args;
  for (const Value v : op.args) args.push_back(type_of(v));
  const ir::Inferred inferred = ir::infer(program_.types, op, args);
  if (inferred.type < 0) fail(op.loc, inferred.problem);
  op.type = inferred.type;
  return add(std::move(op));
}

Value Checker::emit(Opcode code, std::vector<Value> args, Loc loc, int64_t i) {
  ir::Op op;
  op.code = code;
  op.args = std::move(args);
  op.loc = loc;
  op.i = i;
  return emit(std::move(op));
}

Value Checker::emit_int(int64_t value, Loc loc) { return emit(Opcode::Int, {}, loc, value); }

Value Checker::emit_fill(TypeId type, double value, Loc loc) {
  ir::Op op;
  op.code = Opcode::Fill;
  op.type = type;
  op.f = value;
  op.loc = loc;
  return emit(std::move(op));
}

Value Checker::emit_control(ir::Op op) { return add(std::move(op)); }

Value Checker::parameter(TypeId type, Loc loc) {
  ir::Op op;
  op.type = type;
  op.loc = loc;
  return fn_.add(std::move(op));
}

ir::Region Checker::region(const std::vector<TypeId>& params, Loc loc,
                           const std::function<Value(const std::vector<Value>&)>& body) {
  ir::Region result;
  for (const TypeId type : params) result.params.push_back(parameter(type, loc));
  std::vector<Value>* outer = body_;
  const size_t scope = scope_.size();
  body_ = &result.body;
  result.result = body(result.params);
  body_ = outer;
  scope_.close(scope);
  return result;
}

TypeId Checker::branches(const std::vector<const Expr*>& values, const Expect& want,
                         const std::function<TypeId(size_t, const Expect&)>& build) {
  Expect agreed = want;
  size_t first = values.size();
  if (want.type < 0) {
    first = 0;
    for (size_t k = values.size(); k-- > 0;)
      if (!needs_type(*values[k])) first = k;
    agreed = {build(first, {}), "the branches must agree"};
  }
  for (size_t k = 0; k < values.size(); ++k)
    if (k != first) build(k, agreed);
  return agreed.type;
}

std::optional<Value> Checker::local(const std::string& name) const {
  return scope_.find(name);
}

std::vector<std::string> Checker::callable_names() const {
  std::vector<std::string> names;
  for (const auto& [name, ref] : functions_) names.push_back(name);
  for (const auto& [name, ref] : constructors_) names.push_back(name);
  for (const auto& [name, handler] : builtins()) names.push_back(name);
  for (const auto& [name, code] : unary_builtins()) names.push_back(name);
  for (const auto& [name, code] : binary_builtins()) names.push_back(name);
  return names;
}

std::vector<std::string> Checker::value_names() const {
  std::vector<std::string> names;
  for (size_t k = scope_.size(); k-- > 0;) names.push_back(scope_.name(k));
  for (const auto& [name, value] : constants_) names.push_back(name);
  for (const auto& [name, ref] : weights_) names.push_back(name);
  for (const auto& [name, ref] : constructors_) names.push_back(name);
  for (const Binding& b : bindings_) names.push_back(b.name);
  return names;
}

// ---------------------------------------------------------------- expressions

Value Checker::convert(Value v, const Expr& e, const Expect& want) {
  if (want.type < 0 || type_of(v) == want.type) return v;
  fail(tail(e).loc, fmt::format("{}{}expected {}, got {}", want.role, want.role.empty() ? "" : ": ",
                                program_.types.show(want.type), show(v)));
}

Value Checker::expr(const Expr& e, const Expect& want) {
  if (const auto number = constant(e, bindings_)) {
    const TypeId scalar = program_.types.tensor({});
    if (number->is_float || want.type == scalar)
      return convert(emit_fill(scalar, number->as_double(), e.loc), e, want);
    return convert(emit_int(number->integer, e.loc), e, want);
  }
  switch (e.kind) {
    case Expr::Kind::Int:
    case Expr::Kind::Float: break;  // constants
    case Expr::Kind::Bool: return convert(emit(Opcode::Bool, {}, e.loc, e.integer), e, want);
    case Expr::Kind::Name: return convert(name(e, want), e, want);
    case Expr::Kind::Call: return convert(call(e, want), e, want);
    case Expr::Kind::Field: return convert(field(e), e, want);
    case Expr::Kind::Index: return convert(index(e), e, want);
    case Expr::Kind::Unary: return convert(unary(e), e, want);
    case Expr::Kind::Binary: return convert(binary(e), e, want);
    case Expr::Kind::Tuple: return convert(tuple(e, want), e, want);
    case Expr::Kind::List: return convert(list(e, want), e, want);
    case Expr::Kind::Block: return block(e, want);
    case Expr::Kind::If: return if_else(e, want);
    case Expr::Kind::Match: return match(e, want);
    case Expr::Kind::Lambda: fail(e.loc, "a function |..| can only be given to map, fold and scan");
  }
  fail(e.loc, "expected an expression");
}

Value Checker::name(const Expr& e, const Expect& want) {
  if (const auto found = local(e.name)) return *found;
  if (const auto weight = weights_.find(e.name); weight != weights_.end()) {
    ir::Op op;
    op.code = Opcode::Weight;
    op.i = weight->second;
    op.type = program_.weights[static_cast<size_t>(op.i)].type;
    op.loc = e.loc;
    return add(std::move(op));
  }
  if (const auto constructor = constructors_.find(e.name); constructor != constructors_.end())
    return construct(e, constructor->second, want);
  if (functions_.count(e.name) || is_builtin(e.name))
    fail(e.loc, fmt::format("{} is a function; call it, or give it to map, fold or scan", e.name));
  unknown(e.loc, "name", e.name, value_names());
}

Value Checker::unary(const Expr& e) {
  if (e.op == Operator::Not)
    return emit(Opcode::Not, {expr(*e.parts[0], {program_.types.boolean(), "!"})}, e.loc);
  const Value v = expr(*e.parts[0]);
  if (type(v).kind != TypeKind::Int && type(v).kind != TypeKind::Tensor)
    fail(e.loc, fmt::format("cannot negate {}", show(v)));
  return emit(type(v).kind == TypeKind::Int ? Opcode::INeg : Opcode::Neg, {v}, e.loc);
}

Value Checker::binary(const Expr& e) {
  if (e.op <= Operator::And) return logical(e);
  if (e.op <= Operator::Ne) return compare(e);
  return arithmetic(e);
}

Value Checker::arithmetic(const Expr& e) {
  std::optional<Number> numbers[2];
  Value values[2] = {ir::kNone, ir::kNone};
  bool tensor = false;
  for (size_t k = 0; k < 2; ++k) {
    numbers[k] = constant(*e.parts[k], bindings_);
    if (!numbers[k]) values[k] = expr(*e.parts[k]);
    tensor |= numbers[k] ? numbers[k]->is_float : type(values[k]).kind == TypeKind::Tensor;
  }
  for (size_t k = 0; k < 2; ++k)  // a number beside a tensor is a scalar tensor
    if (numbers[k]) {
      const Loc loc = e.parts[k]->loc;
      values[k] = tensor ? emit_fill(program_.types.tensor({}), numbers[k]->as_double(), loc)
                         : emit_int(numbers[k]->integer, loc);
    }
  const Value a = values[0], b = values[1];
  if (e.op == Operator::MatMul) return emit(Opcode::MatMul, {a, b}, e.loc);
  const Arithmetic& rule = kArithmetic[static_cast<size_t>(e.op) - static_cast<size_t>(Operator::Add)];
  const TypeKind x = type(a).kind, y = type(b).kind;
  if (x == TypeKind::Int && y == TypeKind::Int) return emit(rule.integer, {a, b}, e.loc);
  const bool numeric =
      (x == TypeKind::Int || x == TypeKind::Tensor) && (y == TypeKind::Int || y == TypeKind::Tensor);
  if (e.op == Operator::Mod || !numeric || x != y)
    fail(e.loc, fmt::format(
                    "cannot {} {} and {}{}", rule.verb, show(a), show(b),
                    numeric && x != y && e.op != Operator::Mod ? "; float(i) makes a tensor of an int" : ""));
  return emit(rule.tensor, {a, b}, e.loc);
}

Value Checker::compare(const Expr& e) {
  const Value a = expr(*e.parts[0]), b = expr(*e.parts[1]);
  if (type(a).kind == TypeKind::Tensor || type(b).kind == TypeKind::Tensor)
    fail(e.loc,
         fmt::format("cannot compare {} with {}: control flow depends on structure and ints, not on tensors",
                     show(a), show(b)));
  if (e.op != Operator::Eq && e.op != Operator::Ne &&
      (type(a).kind != TypeKind::Int || type(b).kind != TypeKind::Int))
    fail(e.loc, fmt::format("cannot compare {} with {}: only ints have an order", show(a), show(b)));
  switch (e.op) {
    case Operator::Lt: return emit(Opcode::ILt, {a, b}, e.loc);
    case Operator::Le: return emit(Opcode::ILe, {a, b}, e.loc);
    case Operator::Gt: return emit(Opcode::ILt, {b, a}, e.loc);
    case Operator::Ge: return emit(Opcode::ILe, {b, a}, e.loc);
    default: return emit(e.op == Operator::Eq ? Opcode::IEq : Opcode::INe, {a, b}, e.loc);
  }
}

// The right side counts only where the left one leaves the answer open. What can fail or not end (xs[i], a
// call) is therefore put in an if; the rest is plain data flow, in which order cannot be seen.
Value Checker::logical(const Expr& e) {
  const bool is_and = e.op == Operator::And;
  const Expect want{program_.types.boolean(), is_and ? "&&" : "||"};
  const Value left = expr(*e.parts[0], want);
  ir::Region right = region({}, e.loc, [&](const auto&) { return expr(*e.parts[1], want); });
  const bool plain = std::none_of(right.body.begin(), right.body.end(),
                                  [&](Value v) { return can_fault(fn_.ops[static_cast<size_t>(v)].code); });
  if (plain) {
    body_->insert(body_->end(), right.body.begin(), right.body.end());
    return emit(is_and ? Opcode::And : Opcode::Or, {left, right.result}, e.loc);
  }
  ir::Region decided =
      region({}, e.loc, [&](const auto&) { return emit(Opcode::Bool, {}, e.loc, is_and ? 0 : 1); });
  ir::Op op;
  op.code = Opcode::If;
  op.type = want.type;
  op.args = {left};
  op.loc = e.loc;
  op.regions.push_back(is_and ? std::move(right) : std::move(decided));
  op.regions.push_back(is_and ? std::move(decided) : std::move(right));
  return emit_control(std::move(op));
}

Value Checker::block(const Expr& e, const Expect& want) {
  const size_t scope = scope_.size();
  for (const Let& let : e.lets) {
    Expect type;
    if (let.type) type = {resolve(*let.type, bindings_), "let"};
    std::vector<std::string> names;
    check_pattern_names(let.pattern, &names);
    bind(let.pattern, expr(*let.value, type));
  }
  const Value result = expr(*e.parts[0], want);
  scope_.close(scope);
  return result;
}

Value Checker::if_else(const Expr& e, const Expect& want) {
  ir::Op op;
  op.code = Opcode::If;
  op.loc = e.loc;
  op.args = {expr(*e.parts[0], {program_.types.boolean(), "the condition of an if"})};
  op.regions.resize(2);
  op.type = branches({e.parts[1].get(), e.parts[2].get()}, want, [&](size_t k, const Expect& branch) {
    op.regions[k] = region({}, e.loc, [&](const auto&) { return expr(*e.parts[k + 1], branch); });
    return type_of(op.regions[k].result);
  });
  return emit_control(std::move(op));
}

std::vector<Value> Checker::elements(const Expr& e, const Expect& want) {
  std::vector<TypeId> wanted;
  if (want.type >= 0 && program_.types[want.type].kind == TypeKind::Tuple)
    wanted = program_.types[want.type].args;
  std::vector<Value> values;
  for (size_t k = 0; k < e.parts.size(); ++k)
    values.push_back(
        expr(*e.parts[k], wanted.size() == e.parts.size() ? Expect{wanted[k], want.role} : Expect{}));
  return values;
}

Value Checker::tuple(const Expr& e, const Expect& want) {
  return emit(Opcode::Tuple, elements(e, want), e.loc);
}

Value Checker::list(const Expr& e, const Expect& want) {
  Expect element;
  if (want.type >= 0 && program_.types[want.type].kind == TypeKind::List)
    element = {program_.types[want.type].args[0], want.role};
  if (element.type < 0 && e.parts.empty())
    fail(e.loc, "cannot tell the type of []; give it one: let x: [int] = []");
  ir::Op op;
  op.code = Opcode::List;
  op.loc = e.loc;
  op.args.resize(e.parts.size());
  std::vector<const Expr*> values;
  for (const ExprPtr& part : e.parts) values.push_back(part.get());
  const auto build = [&](size_t k, const Expect& wanted) {
    op.args[k] = expr(*e.parts[k], wanted);
    return type_of(op.args[k]);
  };
  op.type = program_.types.list(branches(values, element.type >= 0 ? element : Expect{}, build));
  return emit(std::move(op));
}

namespace {

const char* take_apart_hint(const Type& type) {
  return type.kind == TypeKind::Tuple ? "; take it apart with a pattern, as in let (a, b) = t" : "";
}

}  // namespace

Value Checker::field(const Expr& e) {
  const Value v = expr(*e.parts[0]);
  if (type(v).kind != TypeKind::Adt)
    fail(e.loc, fmt::format("{} has no fields{}", show(v), take_apart_hint(type(v))));
  const Adt& adt = program_.types.adts[static_cast<size_t>(type(v).adt)];
  if (adt.constructors.size() != 1)
    fail(e.loc, fmt::format("{} has {} constructors, so its fields are reached by match", adt.name,
                            adt.constructors.size()));
  const std::vector<std::string>& names = adt.constructors[0].field_names;
  const auto found = std::find(names.begin(), names.end(), e.name);
  if (found == names.end()) unknown(e.loc, fmt::format("field of {}:", adt.name).c_str(), e.name, names);
  return emit(Opcode::Field, {v}, e.loc, found - names.begin());
}

Value Checker::index(const Expr& e) {
  const Value v = expr(*e.parts[0]);
  if (type(v).kind == TypeKind::Tensor) return index_tensor(e, v);
  if (type(v).kind != TypeKind::List)
    fail(e.loc, fmt::format("cannot index {}{}", show(v), take_apart_hint(type(v))));
  if (e.subscripts.size() != 1 || e.subscripts[0].is_slice)
    fail(e.loc, "a list takes one index and no slices");
  return emit(Opcode::ListGet, {v, expr(*e.subscripts[0].low, {program_.types.integer(), "an index"})},
              e.loc);
}

// Subscripts from left to right; `axis` is where the next one applies. Numbers known while compiling count
// from the end if negative, as in NumPy; an index of the run-time reads a row and must be in 0..n-1.
Value Checker::index_tensor(const Expr& e, Value tensor) {
  size_t axis = 0;
  for (const Subscript& s : e.subscripts) {
    const std::vector<int64_t> dims = type(tensor).dims;
    if (axis >= dims.size())
      fail(s.loc, fmt::format("too many subscripts: {} has no axis left for this one", show(tensor)));
    const int64_t extent = dims[axis];
    const auto position = [&](const ExprPtr& bound, int64_t missing) {
      if (!bound) return missing;
      const int64_t k = constant_int(*bound, bindings_, "the end of a slice");
      return k < 0 && k >= -extent ? k + extent : k;
    };
    if (!s.is_slice && !constant(*s.low, bindings_)) {
      const Value row = expr(*s.low, {program_.types.integer(), "an index"});
      if (axis > 0)
        fail(s.loc, "an index of the run-time works on the first axis only; transpose the tensor first");
      tensor = emit(Opcode::Row, {tensor, row}, e.loc);
      continue;
    }
    const int64_t low = position(s.low, 0), high = s.is_slice ? position(s.high, extent) : low + 1;
    if (!s.is_slice && (low < 0 || low >= extent))
      fail(s.loc, fmt::format("index {} is outside of axis {} of {}", low, axis, show(tensor)));
    if (low < 0 || high > extent || low >= high)
      fail(s.loc,
           fmt::format("slice {}:{} is empty or outside of axis {} of {}", low, high, axis, show(tensor)));
    std::vector<int64_t> result = dims;
    if (low != 0 || high != extent) {
      ir::Op op;
      op.code = Opcode::Slice;
      op.args = {tensor};
      op.i = static_cast<int64_t>(axis);
      op.j = low;
      op.loc = e.loc;
      result[axis] = high - low;
      op.type = program_.types.tensor(result);
      tensor = emit(std::move(op));
    }
    if (s.is_slice) {
      ++axis;
      continue;
    }
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
    ir::Op op;
    op.code = Opcode::Reshape;
    op.args = {tensor};
    op.type = program_.types.tensor(result);
    op.loc = e.loc;
    tensor = emit(std::move(op));
  }
  return tensor;
}

}  // namespace rondo::lang
