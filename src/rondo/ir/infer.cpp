#include "rondo/ir/infer.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo::ir {
namespace {

using Dims = std::vector<int64_t>;

Inferred ok(TypeId type) { return {type, {}}; }
Inferred bad(std::string problem) { return {-1, std::move(problem)}; }

// One operation under examination.
struct Rules {
  TypeTable& types;
  const Op& op;
  const std::vector<TypeId>& args;

  std::string show(size_t k) const { return types.show(args[k]); }
  TypeKind kind(size_t k) const { return types[args[k]].kind; }
  Dims dims(size_t k) const { return types[args[k]].dims; }
  int64_t rank(size_t k) const { return static_cast<int64_t>(types[args[k]].dims.size()); }
  TypeId element(size_t k) const { return types[args[k]].args[0]; }
  bool proposed(TypeKind kind) const { return op.type >= 0 && types[op.type].kind == kind; }

  Inferred tensor(Dims dims) {
    int64_t elements = 1;
    for (const int64_t d : dims) {
      if (d < 1) return bad(fmt::format("a tensor needs extents of at least 1, got {}", d));
      if (elements > kMaxElements / d)
        return bad(fmt::format("the result has more than {} elements", kMaxElements));
      elements *= d;
    }
    return ok(types.tensor(std::move(dims)));
  }
  // "" if there are `count` arguments of a kind; count -1: at least one.
  std::string want(int count, TypeKind wanted, const char* what) const {
    if (count < 0 ? args.empty() : args.size() != static_cast<size_t>(count))
      return fmt::format("{} takes {} argument(s), got {}", name(op.code),
                         count < 0 ? "at least 1" : std::to_string(count), args.size());
    for (size_t k = 0; k < args.size(); ++k)
      if (kind(k) != wanted) return fmt::format("{} needs {}, got {}", name(op.code), what, show(k));
    return {};
  }
  std::string axis_of(int64_t rank) const {
    if (op.i >= 0 && op.i < rank) return {};
    return fmt::format("{}: axis {} is out of range for {}", name(op.code), op.i, show(0));
  }

  Inferred pointwise(const char* verb, const char* joint) {
    if (args.size() != 2 || kind(0) != TypeKind::Tensor || kind(1) != TypeKind::Tensor)
      return bad(
          fmt::format("cannot {} {}", verb,
                      args.size() == 2 ? fmt::format("{} {} {}", show(0), joint, show(1)) : "one value"));
    Dims result;
    if (broadcast_dims(dims(0), dims(1), &result)) return tensor(result);
    const Dims a = dims(0), b = dims(1);
    for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
      const int64_t x = a[a.size() - k], y = b[b.size() - k];
      if (x != y && x != 1 && y != 1)
        return bad(
            fmt::format("cannot {} {} {} {}: sizes {} and {} differ", verb, show(0), joint, show(1), x, y));
    }
    return bad("cannot broadcast");
  }

  Inferred matmul() {
    if (args.size() != 2 || kind(0) != TypeKind::Tensor || kind(1) != TypeKind::Tensor)
      return bad(args.size() == 2
                     ? fmt::format("cannot multiply {} by {}: @ needs two tensors", show(0), show(1))
                     : "matmul takes 2 arguments");
    const Dims a = dims(0), b = dims(1);
    const std::string what = fmt::format("cannot multiply {} by {}", show(0), show(1));
    if (a.empty() || b.empty()) return bad(what + ": @ needs vectors or matrices; use * to scale");
    const int64_t inner_a = a.back(), inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
    if (inner_a != inner_b)
      return bad(fmt::format("{}: inner sizes {} and {} differ", what, inner_a, inner_b));
    if (a.size() <= 2 && b.size() <= 2) {
      Dims result;
      if (a.size() == 2) result.push_back(a[0]);
      if (b.size() == 2) result.push_back(b[1]);
      return tensor(result);
    }
    if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin()))
      return bad(what + ": the leading sizes must be equal");
    Dims result(a.begin(), a.end() - 1);
    result.push_back(b.back());
    return tensor(result);
  }

  Inferred concat() {
    if (const std::string p = want(-1, TypeKind::Tensor, "tensors"); !p.empty()) return bad(p);
    if (const std::string p = axis_of(rank(0)); !p.empty()) return bad(p);
    Dims result = dims(0);
    const size_t axis = static_cast<size_t>(op.i);
    for (size_t k = 1; k < args.size(); ++k) {
      Dims next = dims(k), base = dims(0);
      const int64_t extent = axis < next.size() ? next[axis] : 0;
      if (axis < next.size()) next[axis] = base[axis];
      if (next != base)
        return bad(fmt::format("cannot concat {} and {} along axis {}: their other sizes differ", show(0),
                               show(k), axis));
      result[axis] += extent;
    }
    return tensor(result);
  }

  Inferred slice() {
    if (const std::string p = want(1, TypeKind::Tensor, "a tensor"); !p.empty()) return bad(p);
    if (const std::string p = axis_of(rank(0)); !p.empty()) return bad(p);
    if (!proposed(TypeKind::Tensor) || types[op.type].dims.size() != dims(0).size())
      return bad("slice needs a result type of the same rank");
    Dims result = dims(0);
    const size_t axis = static_cast<size_t>(op.i);
    const int64_t extent = types[op.type].dims[axis];
    if (op.j < 0 || extent < 1 || op.j > result[axis] - extent)
      return bad(fmt::format("slice {}:{} is outside of axis {} of {}", op.j, op.j + extent, axis, show(0)));
    result[axis] = extent;
    return tensor(result);
  }

  Inferred transpose() {
    if (const std::string p = want(1, TypeKind::Tensor, "a tensor"); !p.empty()) return bad(p);
    const Dims from = dims(0);
    Dims sorted = op.dims, result;
    std::sort(sorted.begin(), sorted.end());
    for (size_t k = 0; k < sorted.size(); ++k)
      if (sorted[k] != static_cast<int64_t>(k)) sorted.clear();
    if (sorted.size() != from.size())
      return bad(fmt::format("transpose of {} needs a permutation of its {} axes, got [{}]", show(0),
                             from.size(), fmt::join(op.dims, ",")));
    for (const int64_t d : op.dims) result.push_back(from[static_cast<size_t>(d)]);
    return tensor(result);
  }

  Inferred reshape() {
    if (const std::string p = want(1, TypeKind::Tensor, "a tensor"); !p.empty()) return bad(p);
    if (!proposed(TypeKind::Tensor)) return bad("reshape needs a tensor type as its result");
    if (types.numel(op.type) != types.numel(args[0]))
      return bad(fmt::format("cannot reshape {} to {}: {} elements are not {}", show(0), types.show(op.type),
                             types.numel(args[0]), types.numel(op.type)));
    return ok(op.type);
  }

  Inferred broadcast() {
    if (const std::string p = want(1, TypeKind::Tensor, "a tensor"); !p.empty()) return bad(p);
    if (!proposed(TypeKind::Tensor)) return bad("broadcast needs a tensor type as its result");
    Dims result;
    const Dims to = types[op.type].dims;
    if (!broadcast_dims(dims(0), to, &result) || result != to)
      return bad(fmt::format("cannot broadcast {} to {}", show(0), types.show(op.type)));
    return ok(op.type);
  }

  Inferred reduce(bool keep) {
    if (const std::string p = want(1, TypeKind::Tensor, "a tensor"); !p.empty()) return bad(p);
    if (const std::string p = axis_of(rank(0)); !p.empty()) return bad(p);
    if (keep) return ok(args[0]);
    Dims result = dims(0);
    result.erase(result.begin() + op.i);
    return tensor(result);
  }

  Inferred ints(int count, TypeId result) {
    const std::string p = want(count, TypeKind::Int, count == 1 ? "an int" : "two ints");
    return p.empty() ? ok(result) : bad(p);
  }
  Inferred bools(int count) {
    const std::string p = want(count, TypeKind::Bool, count == 1 ? "a bool" : "two bools");
    return p.empty() ? ok(types.boolean()) : bad(p);
  }
  Inferred lists(int count, TypeId result) {
    const std::string p = want(count, TypeKind::List, "a list");
    return p.empty() ? ok(result) : bad(p);
  }

  Inferred same() {
    if (args.size() != 2 || args[0] != args[1] || (kind(0) != TypeKind::Int && kind(0) != TypeKind::Bool))
      return bad(args.size() == 2
                     ? fmt::format("cannot compare {} with {}: only ints and bools can be compared", show(0),
                                   show(1))
                     : "a comparison takes 2 arguments");
    return ok(types.boolean());
  }

  Inferred construct() {
    if (!proposed(TypeKind::Adt)) return bad("construct needs an algebraic type as its result");
    const Adt& adt = types.adts[static_cast<size_t>(types[op.type].adt)];
    if (op.i < 0 || op.i >= static_cast<int64_t>(adt.constructors.size())) return bad("no such constructor");
    const Constructor& c = adt.constructors[static_cast<size_t>(op.i)];
    if (c.fields.size() != args.size())
      return bad(fmt::format("{} takes {} field(s), got {}", c.name, c.fields.size(), args.size()));
    for (size_t k = 0; k < args.size(); ++k)
      if (c.fields[k] != args[k])
        return bad(
            fmt::format("field {} of {} is {}, got {}", k + 1, c.name, types.show(c.fields[k]), show(k)));
    return ok(op.type);
  }

  Inferred list_like();
  Inferred run();
};

Inferred Rules::list_like() {
  switch (op.code) {
    case Opcode::List:
      if (!proposed(TypeKind::List)) return bad("list needs a list type as its result");
      for (size_t k = 0; k < args.size(); ++k)
        if (args[k] != types[op.type].args[0])
          return bad(fmt::format("element {} is {}, the list holds {}", k + 1, show(k),
                                 types.show(types[op.type].args[0])));
      return ok(op.type);
    case Opcode::ListGet:
      if (args.size() != 2 || kind(0) != TypeKind::List || kind(1) != TypeKind::Int)
        return bad("indexing needs a list and an int");
      return ok(element(0));
    case Opcode::Cons:
      if (args.size() != 2 || kind(1) != TypeKind::List || element(1) != args[0])
        return bad(args.size() == 2 ? fmt::format("cannot put {} in front of {}", show(0), show(1))
                                    : "cons takes 2 arguments");
      return ok(args[1]);
    case Opcode::Append:
      if (args.size() != 2 || args[0] != args[1] || kind(0) != TypeKind::List)
        return bad(args.size() == 2 ? fmt::format("cannot append {} to {}", show(1), show(0))
                                    : "append takes 2 arguments");
      return ok(args[0]);
    case Opcode::Zip: {
      if (args.size() < 2) return bad("zip takes 2 or more lists");
      std::vector<TypeId> elements;
      for (size_t k = 0; k < args.size(); ++k) {
        if (kind(k) != TypeKind::List) return bad(fmt::format("zip needs lists, got {}", show(k)));
        elements.push_back(element(k));
      }
      return ok(types.list(types.tuple(elements)));
    }
    default: return bad("not a list operation");
  }
}

Inferred Rules::run() {
  if (is_unary_pointwise(op.code)) {
    const std::string p = want(1, TypeKind::Tensor, "a tensor");
    return p.empty() ? ok(args[0]) : bad(p);
  }
  switch (op.code) {
    case Opcode::Int: return args.empty() ? ok(types.integer()) : bad("int takes no arguments");
    case Opcode::Bool: return args.empty() ? ok(types.boolean()) : bad("bool takes no arguments");
    case Opcode::Fill:
      return args.empty() && proposed(TypeKind::Tensor) ? tensor(types[op.type].dims)
                                                        : bad("fill needs a tensor type");
    case Opcode::Add: return pointwise("add", "and");
    case Opcode::Sub: return pointwise("subtract", "and");
    case Opcode::Mul: return pointwise("multiply elementwise", "and");
    case Opcode::Div: return pointwise("divide", "by");
    case Opcode::Max: return pointwise("take the maximum of", "and");
    case Opcode::Min: return pointwise("take the minimum of", "and");
    case Opcode::Pow: return pointwise("raise", "to the power");
    case Opcode::MatMul: return matmul();
    case Opcode::ReduceSum:
    case Opcode::ReduceMax:
    case Opcode::ReduceMean: return reduce(false);
    case Opcode::Softmax:
    case Opcode::LogSoftmax: return reduce(true);
    case Opcode::Concat: return concat();
    case Opcode::Stack: {
      if (const std::string p = want(-1, TypeKind::Tensor, "tensors"); !p.empty()) return bad(p);
      for (size_t k = 1; k < args.size(); ++k)
        if (args[k] != args[0])
          return bad(fmt::format("cannot stack {} and {}: they differ", show(0), show(k)));
      Dims result = dims(0);
      result.insert(result.begin(), static_cast<int64_t>(args.size()));
      return tensor(result);
    }
    case Opcode::Slice: return slice();
    case Opcode::Row: {
      if (args.size() != 2 || kind(0) != TypeKind::Tensor || kind(1) != TypeKind::Int || rank(0) < 1)
        return bad(args.size() == 2 ? fmt::format("cannot index {} by {}", show(0), show(1))
                                    : "row takes 2 arguments");
      Dims result = dims(0);
      result.erase(result.begin());
      return tensor(result);
    }
    case Opcode::Transpose: return transpose();
    case Opcode::Reshape: return reshape();
    case Opcode::Broadcast: return broadcast();
    case Opcode::ToFloat: return ints(1, types.tensor({}));
    case Opcode::Phase: return args.size() == 1 ? ok(args[0]) : bad("phase takes 1 argument");
    case Opcode::IAdd:
    case Opcode::ISub:
    case Opcode::IMul:
    case Opcode::IDiv:
    case Opcode::IMod:
    case Opcode::IMin:
    case Opcode::IMax: return ints(2, types.integer());
    case Opcode::INeg: return ints(1, types.integer());
    case Opcode::ILt:
    case Opcode::ILe: return ints(2, types.boolean());
    case Opcode::IEq:
    case Opcode::INe: return same();
    case Opcode::And:
    case Opcode::Or: return bools(2);
    case Opcode::Not: return bools(1);
    case Opcode::Tuple:
    case Opcode::Concurrent: {
      if (op.code == Opcode::Concurrent && args.size() < 2)
        return bad("concurrent takes 2 or more arguments");
      int64_t words = 0;
      for (const TypeId arg : args) words += types.words(arg);
      if (words > kMaxWords)
        return bad(fmt::format("a tuple of {} values is too large: at most {}", words, kMaxWords));
      return ok(types.tuple(args));
    }
    case Opcode::TupleGet:
      if (args.size() != 1 || kind(0) != TypeKind::Tuple) return bad("get needs a tuple");
      if (op.i < 0 || op.i >= static_cast<int64_t>(types[args[0]].args.size()))
        return bad("get: no such element");
      return ok(types[args[0]].args[static_cast<size_t>(op.i)]);
    case Opcode::Construct: return construct();
    case Opcode::Field: {
      if (args.size() != 1 || kind(0) != TypeKind::Adt)
        return bad("field needs a value of an algebraic type");
      const Adt& adt = types.adts[static_cast<size_t>(types[args[0]].adt)];
      if (adt.constructors.size() != 1)
        return bad(fmt::format("{} has {} constructors; field needs one", adt.name, adt.constructors.size()));
      if (op.i < 0 || op.i >= static_cast<int64_t>(adt.constructors[0].fields.size()))
        return bad("field: no such field");
      return ok(adt.constructors[0].fields[static_cast<size_t>(op.i)]);
    }
    case Opcode::Len: return lists(1, types.integer());
    case Opcode::Reverse: return args.size() == 1 ? lists(1, args[0]) : bad("reverse takes 1 argument");
    case Opcode::Range: return ints(2, types.list(types.integer()));
    case Opcode::List:
    case Opcode::ListGet:
    case Opcode::Cons:
    case Opcode::Append:
    case Opcode::Zip: return list_like();
    default: return bad(fmt::format("{} has no type of its own", name(op.code)));
  }
}

}  // namespace

bool is_unary_pointwise(Opcode code) { return code >= Opcode::Neg && code <= Opcode::Floor; }
bool is_binary_pointwise(Opcode code) { return code >= Opcode::Add && code <= Opcode::Pow; }
bool has_regions(Opcode code) { return code >= Opcode::Match && code <= Opcode::Scan; }

bool broadcast_dims(const Dims& a, const Dims& b, Dims* result) {
  result->assign(std::max(a.size(), b.size()), 1);
  for (size_t k = 1; k <= result->size(); ++k) {
    const int64_t x = k <= a.size() ? a[a.size() - k] : 1, y = k <= b.size() ? b[b.size() - k] : 1;
    if (x != y && x != 1 && y != 1) return false;
    (*result)[result->size() - k] = x == 1 ? y : x;
  }
  return true;
}

Inferred infer(TypeTable& types, const Op& op, const std::vector<TypeId>& args) {
  return Rules{types, op, args}.run();
}

}  // namespace rondo::ir
