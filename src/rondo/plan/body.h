// A block's body, seen by the planner of its stages: what is a strided view of memory, what is a product with a shared
// weight, and which values reach one through operations that can be fused. Private to plan/stages.cpp.
//
// In: the body. Out: answers; nothing is planned here. expand() rewrites softmax, log-softmax and mean first.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "rondo/plan/stages.h"

namespace rondo::plan::stages {

using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

// Index of one dimension of a value, affine in the axes of the index space that an expression is built for.
struct Index {
  int64_t offset = 0;
  std::vector<int64_t> coef;
};
using Map = std::vector<Index>;

inline std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

inline Map identity(size_t rank, size_t axes) {
  Map map(rank);
  for (size_t d = 0; d < rank; ++d) {
    map[d].coef.assign(axes, 0);
    map[d].coef[d] = 1;
  }
  return map;
}

inline bool is_pointwise(Opcode code) { return code >= Opcode::Add && code <= Opcode::Floor; }
inline bool is_binary(Opcode code) { return code >= Opcode::Add && code <= Opcode::Pow; }

inline Pointwise pointwise(Opcode code) {
  switch (code) {
    case Opcode::Add: return Pointwise::Add;
    case Opcode::Sub: return Pointwise::Sub;
    case Opcode::Mul: return Pointwise::Mul;
    case Opcode::Div: return Pointwise::Div;
    case Opcode::Max: return Pointwise::Max;
    case Opcode::Min: return Pointwise::Min;
    case Opcode::Pow: return Pointwise::Pow;
    case Opcode::Neg: return Pointwise::Neg;
    case Opcode::Exp: return Pointwise::Exp;
    case Opcode::Log: return Pointwise::Log;
    case Opcode::Sqrt: return Pointwise::Sqrt;
    case Opcode::Abs: return Pointwise::Abs;
    case Opcode::Sigmoid: return Pointwise::Sigmoid;
    case Opcode::Tanh: return Pointwise::Tanh;
    case Opcode::Relu: return Pointwise::Relu;
    case Opcode::Gelu: return Pointwise::Gelu;
    case Opcode::Erf: return Pointwise::Erf;
    case Opcode::Sin: return Pointwise::Sin;
    case Opcode::Cos: return Pointwise::Cos;
    case Opcode::Floor: return Pointwise::Floor;
    default: throw Error(ErrorKind::Internal, std::string("not a pointwise operation: ") + ir::name(code));
  }
}

// Longer chains than a person writes; short enough for 8 MB of stack under the sanitizers.
inline constexpr int kMaxChain = 256, kMaxSharedChain = 32;

class Body {
 protected:
  Body(const ir::Program& program, const BlockBody& body, const std::string& name)
      : types_(program.types), fn_(body.fn), outputs_(body.outputs), name_(name) {}

  const Op& op(Value v) const { return fn_.ops[static_cast<size_t>(v)]; }
  const std::vector<int64_t>& dims(Value v) const { return types_[op(v).type].dims; }
  int64_t numel(Value v) const { return types_.numel(op(v).type); }

  Value add(Opcode code, std::vector<int64_t> result, std::vector<Value> args, int64_t i = 0, double f = 0) {
    Op made;
    made.code = code;
    made.type = types_.tensor(std::move(result));
    made.args = std::move(args);
    made.i = i;
    made.f = f;
    return fn_.add(std::move(made));
  }

  // Softmax, log-softmax and mean in terms of reductions and elementwise operations.
  void expand() {
    const size_t given = fn_.ops.size();
    for (size_t n = 0; n < given; ++n) {
      const Op o = fn_.ops[n];
      if (o.code != Opcode::Softmax && o.code != Opcode::LogSoftmax && o.code != Opcode::ReduceMean) continue;
      const Value x = o.args[0];
      const auto axis = static_cast<size_t>(o.i);
      const std::vector<int64_t> full = dims(x);
      std::vector<int64_t> reduced = full, kept = full;
      reduced.erase(reduced.begin() + static_cast<ptrdiff_t>(axis));
      kept[axis] = 1;
      Op replacement;
      if (o.code == Opcode::ReduceMean) {
        const Value sum = add(Opcode::ReduceSum, reduced, {x}, o.i);
        const Value scale = add(Opcode::Fill, {}, {}, 0, 1.0 / static_cast<double>(full[axis]));
        replacement.code = Opcode::Mul;
        replacement.args = {sum, scale};
      } else {
        const Value top = add(Opcode::Reshape, kept, {add(Opcode::ReduceMax, reduced, {x}, o.i)});
        const Value shifted = add(Opcode::Sub, full, {x, top});
        const Value exps = add(Opcode::Exp, full, {shifted});
        const Value sum = add(Opcode::Reshape, kept, {add(Opcode::ReduceSum, reduced, {exps}, o.i)});
        if (o.code == Opcode::Softmax) {
          kept_values_.insert(exps);  // used twice, and an exponential is dear
          replacement.code = Opcode::Div;
          replacement.args = {exps, sum};
        } else {
          replacement.code = Opcode::Sub;
          replacement.args = {shifted, add(Opcode::Log, kept, {sum})};
        }
      }
      replacement.type = o.type;
      replacement.loc = o.loc;
      fn_.ops[n] = replacement;
    }
  }

  // Values of the body, each after what it is made of; expand() puts some of that at the end of fn_.ops.
  std::vector<Value> in_order() const {
    std::vector<Value> done;
    std::vector<bool> seen(fn_.ops.size(), false);
    std::vector<std::pair<Value, size_t>> open;  // a value, and how many of its arguments are done
    for (size_t n = 0; n < fn_.ops.size(); ++n) {
      if (!seen[n]) open.emplace_back(static_cast<Value>(n), 0);
      seen[n] = true;
      while (!open.empty()) {
        auto& [v, next] = open.back();
        if (next == op(v).args.size()) {
          done.push_back(v);
          open.pop_back();
          continue;
        }
        const Value a = op(v).args[next++];
        if (!seen[static_cast<size_t>(a)]) open.emplace_back(a, 0);
        seen[static_cast<size_t>(a)] = true;
      }
    }
    return done;
  }

  // A chain of operations that are computed inside of each other is cut every kMaxChain: what stands there is written to
  // memory. All that follows walks such chains by recursion, and a kernel is compiled as one expression a task. What is
  // used more than once is cut earlier, as each user would compute the chain again - unless a Gemm task may have the sum at
  // hand. Views need no memory of their own. In order, each answer about a value is found from those before. After
  // count_uses().
  void cut_chains() {
    std::vector<int> depth(fn_.ops.size(), 0);
    for (const Value v : in_order()) {
      const Op& o = op(v);
      const bool inlined = is_pointwise(o.code) || is_structural(o.code) || o.code == Opcode::Row || o.code == Opcode::Concat ||
                           o.code == Opcode::Stack;
      if (!inlined || view(v)) continue;
      int& deep = depth[static_cast<size_t>(v)];
      for (const Value a : o.args) deep = std::max(deep, depth[static_cast<size_t>(a)] + 1);
      const bool again = uses_[static_cast<size_t>(v)] > 1 && !reaches_product(v);
      if (deep < (again ? kMaxSharedChain : kMaxChain)) continue;
      kept_values_.insert(v);
      deep = 0;
    }
  }

  // Where the elements of v lie in memory, if they do without any task: strides an entry a dimension of v.
  std::optional<Load> view(Value v) const {
    const auto found = views_.find(v);
    if (found != views_.end()) return found->second;
    const std::optional<Load> made = make_view(v);
    views_[v] = made;
    return made;
  }

  std::optional<Load> make_view(Value v) const {
    const Op& o = op(v);
    Load load;
    switch (o.code) {
      case Opcode::Arg:
        for (size_t p = 0; p < fn_.body.params.size(); ++p)
          if (fn_.body.params[p] == v) load.index = static_cast<int32_t>(p);
        load.source = Source::Operand;
        load.strides = row_major(dims(v));
        return load;
      case Opcode::Weight:
        load.source = Source::Weight;
        load.index = static_cast<int32_t>(o.i);
        load.strides = row_major(dims(v));
        return load;
      case Opcode::Row:
      case Opcode::Slice:
      case Opcode::Transpose:
      case Opcode::Reshape:
      case Opcode::Broadcast:
      case Opcode::Phase: {
        const std::optional<Load> base = view(o.args[0]);
        return base ? view_through(v, *base) : std::nullopt;
      }
      default: return std::nullopt;
    }
  }

  // The view of v, a structural operation, when its argument lies at `load`.
  std::optional<Load> view_through(Value v, Load load) const {
    const Op& o = op(v);
    const std::vector<int64_t>& from = dims(o.args[0]);
    const std::vector<int64_t>& to = dims(v);
    switch (o.code) {
      case Opcode::Phase: return load;
      case Opcode::Slice:
        load.offset += o.j * load.strides[static_cast<size_t>(o.i)];
        return load;
      case Opcode::Row: {
        const Op& index = op(o.args[1]);
        const int64_t stride = load.strides[0];
        load.strides.erase(load.strides.begin());
        if (index.code == Opcode::Int) {
          load.offset += index.i * stride;
          return load;
        }
        if (load.column >= 0) return std::nullopt;  // a second index needs a copy in between
        load.column = int_column(o.args[1]);
        load.row_scale = stride;
        if (load.source == Source::Weight) load.source = Source::WeightRow;
        return load;
      }
      case Opcode::Transpose: {
        std::vector<int64_t> strides;
        for (const int64_t d : o.dims) strides.push_back(load.strides[static_cast<size_t>(d)]);
        load.strides = strides;
        return load;
      }
      case Opcode::Broadcast: {
        std::vector<int64_t> strides(to.size(), 0);
        const size_t lead = to.size() - from.size();
        for (size_t d = 0; d < from.size(); ++d) strides[lead + d] = from[d] == 1 ? 0 : load.strides[d];
        load.strides = strides;
        return load;
      }
      case Opcode::Reshape: {
        // Dimensions of extent 1 come and go freely; else the elements must lie in row-major order.
        std::vector<int64_t> a, b, a_strides;
        for (size_t d = 0; d < from.size(); ++d)
          if (from[d] != 1) a.push_back(from[d]), a_strides.push_back(load.strides[d]);
        for (const int64_t d : to)
          if (d != 1) b.push_back(d);
        std::vector<int64_t> strides;
        if (a == b) {
          size_t k = 0;
          for (const int64_t d : to) strides.push_back(d == 1 ? 0 : a_strides[k++]);
        } else {
          if (a_strides != row_major(a)) return std::nullopt;
          strides = row_major(to);
        }
        load.strides = strides;
        return load;
      }
      default: return std::nullopt;
    }
  }

  int32_t int_column(Value v) const {
    for (size_t p = 0; p < fn_.body.params.size(); ++p)
      if (fn_.body.params[p] == v) return static_cast<int32_t>(p);
    throw Error(ErrorKind::Internal, "block " + name_ + ": an index is neither an operand nor a constant");
  }

  // ------------------------------------------------------------ products with a shared weight
  struct GemmForm {
    Load weight;                       // strides as the weight side's dimensions
    Value a = kNone;
    int64_t k = 0;
    int64_t stride_n = 0, stride_k = 0;
    int a_k = 0, a_f = -1;             // dimensions of a
    int out_n = -1, out_f = -1;        // dimensions of the product
  };

  std::optional<GemmForm> gemm_form(Value v) const {
    const Op& o = op(v);
    if (o.code != Opcode::MatMul) return std::nullopt;
    const Value l = o.args[0], r = o.args[1];
    const size_t lr = dims(l).size(), rr = dims(r).size();
    if (lr > 2 || rr > 2) return std::nullopt;
    const auto shared = [&](Value x) {
      const std::optional<Load> w = view(x);
      return w && w->source == Source::Weight && w->column < 0 ? w : std::nullopt;
    };
    const std::optional<Load> wl = shared(l), wr = shared(r);
    if (wl.has_value() == wr.has_value()) return std::nullopt;
    GemmForm g;
    g.weight = wl ? *wl : *wr;
    g.a = wl ? r : l;
    const std::vector<int64_t>& s = g.weight.strides;
    if (wl) {  // W[N,K] @ a[K] or a[K,F]; a vector w[K] is W[1,K]
      g.k = dims(l).back();
      g.stride_k = s.back();
      if (lr == 2) g.stride_n = s[0], g.out_n = 0;
      g.a_k = 0;
      if (rr == 2) g.a_f = 1, g.out_f = lr == 2 ? 1 : 0;
    } else {  // a[K] or a[F,K] @ W[K,N]
      g.k = dims(r)[0];
      g.stride_k = s[0];
      g.a_k = lr == 2 ? 1 : 0;
      if (lr == 2) g.a_f = 0, g.out_f = 0;
      if (rr == 2) g.stride_n = s[1], g.out_n = lr == 2 ? 1 : 0;
    }
    return g;
  }

  // Does the expression of v, inlined as far as possible, contain such a product?
  bool reaches_product(Value v) const {
    const auto found = reaches_.find(v);
    if (found != reaches_.end()) return found->second;
    const Op& o = op(v);
    bool reaches = gemm_form(v).has_value();
    if (!reaches && !kept_values_.count(v) && (is_pointwise(o.code) || is_structural(o.code)))
      for (const Value a : o.args) reaches = reaches || (types_[op(a).type].kind == TypeKind::Tensor && reaches_product(a));
    reaches_[v] = reaches;
    return reaches;
  }
  // Can one Gemm task write v: products, and beside them only what lies in memory from the start?
  bool fits_epilogue(Value v) const {
    std::map<Value, bool> known;
    std::function<bool(Value)> is_closed;
    const std::function<bool(Value)> closed = [&](Value u) {
      const auto found = known.find(u);
      if (found != known.end()) return found->second;
      return known[u] = is_closed(u);
    };
    is_closed = [&](Value u) {
      if (types_[op(u).type].kind != TypeKind::Tensor || view(u) || gemm_form(u)) return true;
      const Opcode code = op(u).code;
      if (code == Opcode::Fill || code == Opcode::ToFloat) return true;
      if (kept_values_.count(u) || !(is_pointwise(code) || is_structural(code))) return false;
      return std::all_of(op(u).args.begin(), op(u).args.end(), closed);
    };
    return reaches_product(v) && closed(v);
  }

  // Structural operations that an expression can look through whatever lies beneath.
  bool is_structural(Opcode code) const {
    return code == Opcode::Slice || code == Opcode::Transpose || code == Opcode::Broadcast || code == Opcode::Phase ||
           code == Opcode::Reshape;
  }


  // How often each value is used. After expand().
  void count_uses() {
    uses_.assign(fn_.ops.size(), 0);
    for (const Op& o : fn_.ops)
      for (const Value a : o.args) ++uses_[static_cast<size_t>(a)];
    for (const Value v : outputs_) ++uses_[static_cast<size_t>(v)];
  }

  TypeTable types_;  // a copy: expansion makes new types
  ir::Function fn_;
  std::vector<Value> outputs_;
  std::string name_;             // of the block, for messages
  std::vector<int> uses_;        // of each value
  std::set<Value> kept_values_;  // never inlined
  mutable std::map<Value, std::optional<Load>> views_;
  mutable std::map<Value, bool> reaches_;
};

}  // namespace rondo::plan::stages
