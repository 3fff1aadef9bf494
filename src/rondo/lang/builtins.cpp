// The functions of the language. Each one checks its arguments
// and makes operations; docs/language.md lists them.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/lang/checker.h"

namespace rondo::lang {
namespace {

constexpr size_t kAny = SIZE_MAX;

}  // namespace

const std::map<std::string, Opcode>& Checker::unary_builtins() {
  static const std::map<std::string, Opcode> table = {
      {"exp", Opcode::Exp},         {"log", Opcode::Log},   {"sqrt", Opcode::Sqrt}, {"abs", Opcode::Abs},
      {"sigmoid", Opcode::Sigmoid}, {"tanh", Opcode::Tanh}, {"relu", Opcode::Relu}, {"gelu", Opcode::Gelu},
      {"erf", Opcode::Erf},         {"sin", Opcode::Sin},   {"cos", Opcode::Cos},   {"floor", Opcode::Floor}};
  return table;
}

const std::map<std::string, Opcode>& Checker::binary_builtins() {
  static const std::map<std::string, Opcode> table = {
      {"maximum", Opcode::Max}, {"minimum", Opcode::Min}, {"pow", Opcode::Pow}};
  return table;
}

const std::map<std::string, Checker::Builtin>& Checker::builtins() {
  static const std::map<std::string, Builtin> table = {{"sum", &Checker::sum},
                                                       {"mean", &Checker::mean},
                                                       {"max", &Checker::max},
                                                       {"min", &Checker::min},
                                                       {"softmax", &Checker::softmax},
                                                       {"log_softmax", &Checker::log_softmax},
                                                       {"concat", &Checker::concat},
                                                       {"stack", &Checker::stack},
                                                       {"transpose", &Checker::transpose},
                                                       {"reshape", &Checker::reshape},
                                                       {"zeros", &Checker::zeros},
                                                       {"ones", &Checker::ones},
                                                       {"full", &Checker::full},
                                                       {"broadcast_to", &Checker::broadcast_to},
                                                       {"float", &Checker::to_float},
                                                       {"len", &Checker::len},
                                                       {"range", &Checker::range},
                                                       {"cons", &Checker::cons},
                                                       {"append", &Checker::append},
                                                       {"reverse", &Checker::reverse},
                                                       {"zip", &Checker::zip},
                                                       {"map", &Checker::map},
                                                       {"fold", &Checker::fold_list},
                                                       {"scan", &Checker::scan},
                                                       {"concurrent", &Checker::concurrent},
                                                       {"phase", &Checker::phase}};
  return table;
}

bool Checker::is_builtin(const std::string& name) {
  return builtins().count(name) || unary_builtins().count(name) || binary_builtins().count(name);
}

Value Checker::call_builtin(const Expr& e, const Expect& want) {
  const bool has_axis = e.name == "sum" || e.name == "mean" || e.name == "max" || e.name == "min" ||
                        e.name == "softmax" || e.name == "log_softmax" || e.name == "concat";
  allow_named(e, has_axis ? "axis" : "");
  if (const auto unary = unary_builtins().find(e.name); unary != unary_builtins().end()) {
    arity(e, 1, 1);
    return emit(unary->second, {tensor_argument(e, 0)}, e.loc);
  }
  if (const auto binary = binary_builtins().find(e.name); binary != binary_builtins().end()) {
    arity(e, 2, 2);
    const Value a = tensor_argument(e, 0);
    return emit(binary->second, {a, tensor_argument(e, 1)}, e.loc);
  }
  return (this->*builtins().at(e.name))(e, want);
}

// ---------------------------------------------------------------- arguments

size_t Checker::positional(const Expr& e) const {
  return static_cast<size_t>(std::count(e.arg_names.begin(), e.arg_names.end(), ""));
}

const Expr* Checker::named_argument(const Expr& e, const char* name) const {
  for (size_t k = 0; k < e.parts.size(); ++k)
    if (e.arg_names[k] == name) return e.parts[k].get();
  return nullptr;
}

// Names of arguments: none but `name`, at most once, after all others.
void Checker::allow_named(const Expr& e, const char* name) const {
  for (size_t k = 0; k < e.parts.size(); ++k) {
    if (e.arg_names[k].empty()) continue;
    if (e.arg_names[k] != name)
      fail(e.parts[k]->loc, fmt::format("{} has no argument named {}{}", e.name, e.arg_names[k],
                                        *name ? fmt::format("; it has {}", name) : ""));
    if (k + 1 != e.parts.size())
      fail(e.parts[k]->loc, fmt::format("{}= must be the last argument of {}", name, e.name));
  }
}

// Counts arguments without a name; those with one have been looked at by allow_named.
void Checker::arity(const Expr& e, size_t least, size_t most) const {
  const size_t count = positional(e);
  if (count >= least && count <= most) return;
  const std::string range = least == most  ? std::to_string(least)
                            : most == kAny ? fmt::format("{} or more", least)
                                           : fmt::format("{} to {}", least, most);
  fail(e.loc, fmt::format("{} takes {} argument(s), got {}", e.name, range, count));
}

Value Checker::tensor_argument(const Expr& call, size_t k) {
  const Expr& e = *call.parts[k];
  if (const auto number = constant(e, bindings_))
    return emit_fill(program_.types.tensor({}), number->as_double(), e.loc);
  const Value v = expr(e);
  if (type(v).kind != TypeKind::Tensor)
    fail(e.loc, fmt::format("argument {} of {}: expected a tensor, got {}{}", k + 1, call.name, show(v),
                            type(v).kind == TypeKind::Int ? "; float(i) makes one of an int" : ""));
  return v;
}

Value Checker::int_argument(const Expr& call, size_t k) {
  return expr(*call.parts[k], {program_.types.integer(), fmt::format("argument {} of {}", k + 1, call.name)});
}

Value Checker::list_argument(const Expr& call, size_t k, const Expect& want) {
  const Value v = expr(*call.parts[k], want);
  if (type(v).kind != TypeKind::List)
    fail(call.parts[k]->loc,
         fmt::format("argument {} of {}: expected a list, got {}", k + 1, call.name, show(v)));
  return v;
}

// NumPy: a negative axis counts from the last one.
int64_t Checker::axis(const Expr& call, const Expr& e, size_t rank) const {
  const int64_t k = constant_int(e, bindings_, "an axis"), n = static_cast<int64_t>(rank);
  if (k < -n || k >= n)
    fail(e.loc, fmt::format("{}: axis {} is out of range for a tensor with {} axes", call.name, k, n));
  return k < 0 ? k + n : k;
}

// The numbers from argument `from` on, either as arguments of
// their own or as one list: reshape(x, 2, 3), reshape(x, [2, 3]).
std::vector<int64_t> Checker::numbers(const Expr& call, size_t from, const char* what) const {
  std::vector<int64_t> result;
  const bool list = call.parts.size() == from + 1 && call.parts[from]->kind == Expr::Kind::List;
  const std::vector<ExprPtr>& parts = list ? call.parts[from]->parts : call.parts;
  for (size_t k = list ? 0 : from; k < parts.size(); ++k)
    result.push_back(constant_int(*parts[k], bindings_, what));
  return result;
}

// ---------------------------------------------------------------- reductions

// The axis of sum(x, 1), sum(x, axis=1); none in sum(x).
const Expr* Checker::axis_argument(const Expr& e) const {
  const Expr* named = named_argument(e, "axis");
  arity(e, 1, named ? 1 : 2);
  return named ? named : e.parts.size() == 2 ? e.parts[1].get() : nullptr;
}

Value Checker::reduce(const Expr& e, Opcode code, Value v) {
  const Expr* at = axis_argument(e);
  if (at) return emit(code, {v}, e.loc, axis(e, *at, type(v).dims.size()));
  if (type(v).dims.empty()) return v;
  if (type(v).dims.size() > 1)
    v = reshaped(v, {program_.types.numel(type_of(v))}, e.loc);  // over all elements
  return emit(code, {v}, e.loc, 0);
}

Value Checker::sum(const Expr& e, const Expect&) {
  axis_argument(e);
  return reduce(e, Opcode::ReduceSum, tensor_argument(e, 0));
}
Value Checker::mean(const Expr& e, const Expect&) {
  axis_argument(e);
  return reduce(e, Opcode::ReduceMean, tensor_argument(e, 0));
}

// max(i, j) of two ints; max(x) and max(x, axis) of a
// tensor. The minimum of a tensor is that of its negation.
Value Checker::extreme(const Expr& e, bool largest) {
  const Expr* second = axis_argument(e);
  const Value a = expr(*e.parts[0]);
  if (type(a).kind == TypeKind::Int && second && !named_argument(e, "axis"))
    return emit(largest ? Opcode::IMax : Opcode::IMin, {a, int_argument(e, 1)}, e.loc);
  if (type(a).kind != TypeKind::Tensor)
    fail(e.loc, fmt::format("{0} takes two ints, or a tensor and an axis; got {1}", e.name, show(a)));
  if (second && !constant(*second, bindings_))
    fail(e.loc, fmt::format("{0}(x, axis) reduces a tensor along an axis that is known while compiling; "
                            "{1}(x, y) compares two",
                            e.name, largest ? "maximum" : "minimum"));
  if (largest) return reduce(e, Opcode::ReduceMax, a);
  return emit(Opcode::Neg, {reduce(e, Opcode::ReduceMax, emit(Opcode::Neg, {a}, e.loc))}, e.loc);
}
Value Checker::max(const Expr& e, const Expect&) { return extreme(e, true); }
Value Checker::min(const Expr& e, const Expect&) { return extreme(e, false); }

Value Checker::soft(const Expr& e, Opcode code) {
  const Expr* at = axis_argument(e);
  const Value v = tensor_argument(e, 0);
  const size_t rank = type(v).dims.size();
  if (rank == 0) fail(e.loc, fmt::format("{} needs a tensor with an axis, got {}", e.name, show(v)));
  return emit(code, {v}, e.loc, at ? axis(e, *at, rank) : static_cast<int64_t>(rank) - 1);
}
Value Checker::softmax(const Expr& e, const Expect&) { return soft(e, Opcode::Softmax); }
Value Checker::log_softmax(const Expr& e, const Expect&) { return soft(e, Opcode::LogSoftmax); }

// ---------------------------------------------------------------- structure of tensors

Value Checker::concat(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  std::vector<Value> values;
  for (size_t k = 0; k < positional(e); ++k) values.push_back(tensor_argument(e, k));
  const Expr* at = named_argument(e, "axis");
  return emit(Opcode::Concat, values, e.loc, at ? axis(e, *at, type(values[0]).dims.size()) : 0);
}

Value Checker::stack(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  std::vector<Value> values;
  for (size_t k = 0; k < e.parts.size(); ++k) values.push_back(tensor_argument(e, k));
  return emit(Opcode::Stack, values, e.loc);
}

Value Checker::transpose(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  ir::Op op;
  op.code = Opcode::Transpose;
  op.args = {tensor_argument(e, 0)};
  op.loc = e.loc;
  op.dims = numbers(e, 1, "an axis");
  const auto rank = static_cast<int64_t>(type(op.args[0]).dims.size());
  if (e.parts.size() == 1)
    for (int64_t k = rank; k-- > 0;) op.dims.push_back(k);
  for (int64_t& d : op.dims) d += d < 0 ? rank : 0;
  return emit(std::move(op));
}

Value Checker::reshaped(Value v, const std::vector<int64_t>& dims, Loc loc) {
  ir::Op op;
  op.code = Opcode::Reshape;
  op.args = {v};
  op.type = tensor_type(dims, loc);
  op.loc = loc;
  return emit(std::move(op));
}

// One extent may be -1: what is left.
Value Checker::reshape(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  const Value v = tensor_argument(e, 0);
  std::vector<int64_t> dims = numbers(e, 1, "an extent");
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    int64_t others = 1;
    for (const int64_t d : dims) {
      const bool fits = d == -1 || (d >= 1 && others <= program_.types.numel(type_of(v)) / d);
      if (!fits)
        fail(e.loc, fmt::format("cannot reshape {}: {} does not divide its {} elements", show(v), d,
                                program_.types.numel(type_of(v))));
      others *= d == -1 ? 1 : d;
    }
    *open = program_.types.numel(type_of(v)) / others;
  }
  return reshaped(v, dims, e.loc);
}

Value Checker::zeros(const Expr& e, const Expect&) {
  return emit_fill(tensor_type(numbers(e, 0, "an extent"), e.loc), 0, e.loc);
}
Value Checker::ones(const Expr& e, const Expect&) {
  return emit_fill(tensor_type(numbers(e, 0, "an extent"), e.loc), 1, e.loc);
}

Value Checker::full(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  const TypeId to = tensor_type(numbers(e, 1, "an extent"), e.loc);
  if (const auto number = constant(*e.parts[0], bindings_)) return emit_fill(to, number->as_double(), e.loc);
  return broadcast(tensor_argument(e, 0), to, e.loc);
}

Value Checker::broadcast(Value v, TypeId to, Loc loc) {
  ir::Op op;
  op.code = Opcode::Broadcast;
  op.args = {v};
  op.type = to;
  op.loc = loc;
  return emit(std::move(op));
}

Value Checker::broadcast_to(const Expr& e, const Expect&) {
  arity(e, 1, kAny);
  const Value v = tensor_argument(e, 0);
  return broadcast(v, tensor_type(numbers(e, 1, "an extent"), e.loc), e.loc);
}

Value Checker::to_float(const Expr& e, const Expect&) {
  arity(e, 1, 1);
  return emit(Opcode::ToFloat, {int_argument(e, 0)}, e.loc);
}

// ---------------------------------------------------------------- lists

Value Checker::len(const Expr& e, const Expect&) {
  arity(e, 1, 1);
  return emit(Opcode::Len, {list_argument(e, 0)}, e.loc);
}

Value Checker::range(const Expr& e, const Expect&) {
  arity(e, 1, 2);
  const Value low = e.parts.size() == 2 ? int_argument(e, 0) : emit_int(0, e.loc);
  return emit(Opcode::Range, {low, int_argument(e, e.parts.size() - 1)}, e.loc);
}

Value Checker::cons(const Expr& e, const Expect& want) {
  arity(e, 2, 2);
  Expect list = want;
  Expect element;
  if (want.type >= 0 && program_.types[want.type].kind == TypeKind::List)
    element = {program_.types[want.type].args[0], want.role};
  if (list.type < 0 && needs_type(*e.parts[0])) {  // cons(None, xs)
    list.type = type_of(list_argument(e, 1));
    element = {program_.types[list.type].args[0], "argument 1 of cons"};
  }
  const Value first = expr(*e.parts[0], element);
  if (list.type < 0) list = {program_.types.list(type_of(first)), "argument 2 of cons"};
  return emit(Opcode::Cons, {first, list_argument(e, 1, list)}, e.loc);
}

Value Checker::append(const Expr& e, const Expect& want) {
  arity(e, 2, 2);
  Value values[2] = {ir::kNone, ir::kNone};
  const size_t first = needs_type(*e.parts[0]) ? 1 : 0;
  values[first] = list_argument(e, first, want);
  values[1 - first] =
      list_argument(e, 1 - first, {type_of(values[first]), fmt::format("argument {} of append", 2 - first)});
  return emit(Opcode::Append, {values[0], values[1]}, e.loc);
}

Value Checker::reverse(const Expr& e, const Expect& want) {
  arity(e, 1, 1);
  return emit(Opcode::Reverse, {list_argument(e, 0, want)}, e.loc);
}

Value Checker::zip(const Expr& e, const Expect&) {
  arity(e, 2, kAny);
  std::vector<Value> lists;
  for (size_t k = 0; k < e.parts.size(); ++k) lists.push_back(list_argument(e, k));
  return emit(Opcode::Zip, lists, e.loc);
}

// A lambda, or the name of a function f, which stands for |a, b| f(a, b).
ir::Region Checker::apply(const Expr& call, size_t k, const std::vector<TypeId>& params, const Expect& want) {
  const Expr& e = *call.parts[k];
  if (e.kind == Expr::Kind::Name && !local(e.name)) {
    return region(params, e.loc, [&](const std::vector<Value>& values) {
      Expr through;
      through.kind = Expr::Kind::Call;
      through.loc = e.loc;
      through.name = e.name;
      for (const Value v : values) {
        auto argument = std::make_unique<Expr>();
        argument->kind = Expr::Kind::Name;
        argument->loc = e.loc;
        argument->name = fmt::format("${}", v);  // no name of the source has a $
        scope_.add(argument->name, v);
        through.parts.push_back(std::move(argument));
        through.arg_names.emplace_back();
      }
      return expr(through, want);
    });
  }
  if (e.kind != Expr::Kind::Lambda)
    fail(e.loc,
         fmt::format("argument {} of {}: expected a function, |x| .. or the name of one", k + 1, call.name));
  if (e.params.size() != params.size())
    fail(e.loc, fmt::format("{} calls its function with {} argument(s), this one takes {}{}", call.name,
                            params.size(), e.params.size(),
                            e.params.size() > params.size() ? "; a tuple is taken apart with |(a, b)|" : ""));
  std::vector<std::string> names;
  for (const Pattern& p : e.params) check_pattern_names(p, &names);
  return region(params, e.loc, [&](const std::vector<Value>& values) {
    for (size_t p = 0; p < values.size(); ++p) bind(e.params[p], values[p]);
    return expr(*e.parts[0], want);
  });
}

Value Checker::map(const Expr& e, const Expect& want) {
  arity(e, 2, 2);
  const Value list = list_argument(e, 0);
  Expect element;
  if (want.type >= 0 && program_.types[want.type].kind == TypeKind::List)
    element = {program_.types[want.type].args[0], want.role};
  ir::Op op;
  op.code = Opcode::Map;
  op.args = {list};
  op.loc = e.loc;
  op.regions.push_back(apply(e, 1, {type(list).args[0]}, element));
  op.type = program_.types.list(type_of(op.regions[0].result));
  return emit_control(std::move(op));
}

Value Checker::accumulate(const Expr& e, Opcode code, const Expect& init) {
  arity(e, 3, 3);
  const Value list = list_argument(e, 0);
  const Value start = expr(*e.parts[1], init);
  const TypeId acc = type_of(start);
  ir::Op op;
  op.code = code;
  op.args = {list, start};
  op.loc = e.loc;
  op.regions.push_back(
      apply(e, 2, {acc, type(list).args[0]},
            {acc, fmt::format("the function of {} must keep the type of its start", e.name)}));
  op.type = code == Opcode::Scan ? program_.types.list(acc) : acc;
  return emit_control(std::move(op));
}

Value Checker::fold_list(const Expr& e, const Expect& want) { return accumulate(e, Opcode::Fold, want); }

Value Checker::scan(const Expr& e, const Expect& want) {
  const bool list = want.type >= 0 && program_.types[want.type].kind == TypeKind::List;
  return accumulate(e, Opcode::Scan, list ? Expect{program_.types[want.type].args[0], want.role} : Expect{});
}

// ---------------------------------------------------------------- marks

Value Checker::concurrent(const Expr& e, const Expect& want) {
  arity(e, 2, kAny);
  return emit(Opcode::Concurrent, elements(e, want), e.loc);
}

Value Checker::phase(const Expr& e, const Expect& want) {
  arity(e, 1, 1);
  return emit(Opcode::Phase, {expr(*e.parts[0], want)}, e.loc);
}

}  // namespace rondo::lang
