// How a block's body becomes kernels.
//
// Some values are *tasks*: they are written to memory. Those are the block's outputs, and what cannot be part of a
// consumer's expression: reductions, products of two per-instance operands, gathered operands of a GEMM that are computed.
// A task is a Gemm task if its expression reaches a product with a shared weight through elementwise operations and
// views; else a row task. Everything else is inlined into the tasks that use it (elementwise fusion).
//
//   stage(row task)  = max over the tasks it loads: row ? stage : stage + 1      (steps of one kernel run in order)
//   stage(Gemm task) = max over the tasks it loads: stage + 1                    (a row of A must be complete)
//
// Tasks of one stage and one (n, free) extent share a Gemm kernel, so all gates of a cell are one pass over its operands;
// products that are added become segments of one accumulator. An elementwise task is recomputed inside a Gemm task of the
// same stage (the accumulators are at hand) and loaded by later ones. A product needed at two stages becomes a task.
#include "rondo/plan/stages.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "rondo/error.h"

namespace rondo::plan {
namespace {

using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

constexpr size_t kMaxAccs = 8;  // accumulators a Gemm kernel is filled up to: 8 rows x 8 sums fit a thread's registers

// Index of one dimension of a value, affine in the axes of the index space that an expression is built for.
struct Index {
  int64_t offset = 0;
  std::vector<int64_t> coef;
};
using Map = std::vector<Index>;

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

Map identity(size_t rank, size_t axes) {
  Map map(rank);
  for (size_t d = 0; d < rank; ++d) {
    map[d].coef.assign(axes, 0);
    map[d].coef[d] = 1;
  }
  return map;
}

bool is_pointwise(Opcode code) { return code >= Opcode::Add && code <= Opcode::Floor; }
bool is_binary(Opcode code) { return code >= Opcode::Add && code <= Opcode::Pow; }

Pointwise pointwise(Opcode code) {
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

// An accumulator: products (with the offset of this use along n and f) that are summed.
struct Product {
  Value value;
  int64_t n_offset, f_offset;
  auto operator<=>(const Product&) const = default;
};
using AccKey = std::vector<Product>;

struct Task {
  Value value = kNone;
  bool gemm = false;
  int n_axis = -1, f_axis = -1;  // dimensions of the value that are n and f of a Gemm
  int stage = 0;
  std::set<Value> loads;         // tasks whose memory it reads
  std::set<Value> products;      // products inlined into it
  bool temp = false;
  int32_t slot = -1;             // output number, or temp number in its kernel
};

// Expressions of one kernel or step, each distinct one once.
class ExprList {
 public:
  int32_t add(const Expr& e) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].code == e.code && list[i].a == e.a && list[i].b == e.b && list[i].imm == e.imm && list[i].load == e.load)
        return static_cast<int32_t>(i);
    list.push_back(e);
    return static_cast<int32_t>(list.size()) - 1;
  }
  int32_t immediate(double value) { return add({Pointwise::Imm, -1, -1, value, {}}); }
  int32_t load(const Load& load) { return add({Pointwise::Load, -1, -1, 0, load}); }
  std::vector<Expr> list;
  // Values already built, by what they were built for: a value that is used twice is walked once.
  struct Key {
    Value task, value;
    std::vector<int64_t> map;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, int32_t> built;
};

class Builder {
 public:
  Builder(const ir::Program& program, const BlockBody& body, Block* block, Plan* plan)
      : types_(program.types), fn_(body.fn), outputs_(body.outputs), block_(*block), plan_(*plan) {}

  void run() {
    expand();
    uses_.assign(fn_.ops.size(), 0);
    for (const Op& o : fn_.ops)
      for (const Value a : o.args) ++uses_[static_cast<size_t>(a)];
    for (const Value v : outputs_) ++uses_[static_cast<size_t>(v)];
    if (!plan_.fused)
      for (const Value v : fn_.body.body)
        if (gemm_form(v)) kept_values_.insert(v);
    for (const Value v : outputs_) require(v);
    for (bool again = true; again;) {
      settle();
      again = split_shared_products();
    }
    place();
    emit_gemms();
    emit_rows();
    block_.stages = 0;
    for (const Kernel& k : block_.kernels) block_.stages = std::max(block_.stages, k.stage + 1);
  }

 private:
  // ------------------------------------------------------------ values
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
    throw Error(ErrorKind::Internal, "block " + block_.name + ": an index is neither an operand nor a constant");
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
    if (!reaches && (is_pointwise(o.code) || is_structural(o.code)))
      for (const Value a : o.args) reaches = reaches || (types_[op(a).type].kind == TypeKind::Tensor && reaches_product(a));
    if (kept_values_.count(v) && !gemm_form(v)) reaches = false;
    reaches_[v] = reaches;
    return reaches;
  }
  // Can one Gemm task write v: products, and beside them only what lies in memory from the start?
  bool fits_epilogue(Value v) const {
    std::map<Value, bool> known;
    std::function<bool(Value)> is_closed;
    const std::function<bool(Value)> closed = [&](Value u) {
      const auto found = known.find(u);
      return found != known.end() ? found->second : known[u] = is_closed(u);
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

  // ------------------------------------------------------------ tasks
  Task& require(Value v) {
    const auto found = tasks_.find(v);
    if (found != tasks_.end()) return found->second;
    order_.push_back(v);
    Task& task = tasks_[v];
    task.value = v;
    return task;
  }

  // Kinds, loads and stages of all tasks; new tasks may appear on the way.
  void settle() {
    stages_known_ = false;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t n = 0; n < order_.size(); ++n) discover(order_[n]);
      compute_stages();
      stages_known_ = true;  // second pass: tasks of earlier stages are loaded instead of computed again
    }
    for (size_t n = 0; n < order_.size(); ++n) discover(order_[n]);
    compute_stages();
  }

  void discover(Value v) {
    Task& task = require(v);
    task.loads.clear();
    task.products.clear();
    task.gemm = reaches_product(v);
    current_ = v;
    accs_ = nullptr;
    ExprList scratch;
    if (task.gemm) {
      choose_axes(v);
      AccTable accs;
      accs_ = &accs;
      gemm_expr(v, scratch);
      for (const AccKey& key : accs.keys)
        for (const Product& p : key) tasks_.at(v).products.insert(p.value), segments_of(p);
      accs_ = nullptr;
      if (accs.keys.empty() && tasks_.at(v).gemm) {  // every product is loaded from an earlier stage
        tasks_.at(v).gemm = false;
        tasks_.at(v).loads.clear();
        row_steps(v);
      }
    } else {
      row_steps(v);
    }
  }

  void compute_stages() {
    std::map<Value, int> done;
    const std::function<int(Value)> visit = [&](Value v) -> int {
      const auto found = done.find(v);
      if (found != done.end()) {
        if (found->second < 0) throw Error(ErrorKind::Internal, "block " + block_.name + ": its tasks form a cycle");
        return found->second;
      }
      done[v] = -1;
      const Task& task = tasks_.at(v);
      int stage = 0;
      for (const Value l : task.loads) {
        const int s = visit(l);
        stage = std::max(stage, task.gemm || tasks_.at(l).gemm ? s + 1 : s);
      }
      return done[v] = stage;
    };
    for (const Value v : order_) visit(v);
    for (const auto& [v, s] : done) tasks_.at(v).stage = s;
  }

  // A product that kernels of two stages would compute twice is written to memory once.
  bool split_shared_products() {
    std::map<Value, std::set<int>> stages;
    for (const auto& [v, task] : tasks_)
      for (const Value p : task.products) stages[p].insert(task.stage);
    bool changed = false;
    for (const auto& [p, at] : stages)
      if (at.size() > 1 && !tasks_.count(p)) require(p), changed = true;
    return changed;
  }

  // Memory of another task that the current one may read instead of computing the value itself.
  bool loads_task(Value v) const {
    const auto found = tasks_.find(v);
    if (found == tasks_.end() || v == current_) return false;
    if (!accs_) return true;  // row tasks run in order, or come later
    const Opcode code = op(v).code;
    const bool inlinable = is_pointwise(code) || is_structural(code) || gemm_form(v).has_value();
    if (!inlinable || kept_values_.count(v)) return true;
    return stages_known_ && found->second.stage < tasks_.at(current_).stage;
  }

  Load memory(Value v) {
    require(v);
    Task& me = tasks_.at(current_);
    me.loads.insert(v);
    const Task& task = tasks_.at(v);
    Load load;
    load.source = task.temp ? Source::Temp : Source::Output;
    load.index = task.slot;
    load.strides = row_major(dims(v));
    return load;
  }

  // The view of v; what cannot be a view is made a task.
  Load memory_view(Value v) {
    if (loads_task(v)) return memory(v);
    if (const std::optional<Load> w = view(v)) return note_use(*w);
    const Op& o = op(v);
    if (is_structural(o.code) || o.code == Opcode::Row) return structural_view(v);
    return memory(v);
  }

  // A structural operation as a view of its argument; of a row-major copy of that, where its strides do not allow one.
  Load structural_view(Value v) {
    const Value argument = op(v).args[0];
    if (const std::optional<Load> seen = view_through(v, memory_view(argument))) return *seen;
    return *view_through(v, memory(argument));
  }

  const Load& note_use(const Load& load) {
    if (load.source == Source::Weight || load.source == Source::WeightRow) {
      Weight& w = plan_.weights[static_cast<size_t>(load.index)];
      if (w.plain_offset < 0) w.plain_offset = 0;  // placed by finish()
    }
    return load;
  }

  // ------------------------------------------------------------ expressions
  static Load at(Load load, const Map& map) {
    Load moved = load;
    const size_t axes = map.empty() ? 0 : map[0].coef.size();
    moved.strides.assign(axes, 0);
    for (size_t d = 0; d < map.size(); ++d) {
      moved.offset += load.strides[d] * map[d].offset;
      for (size_t x = 0; x < axes; ++x) moved.strides[x] += load.strides[d] * map[d].coef[x];
    }
    return moved;
  }
  int32_t load_at(const Load& load, const Map& map, ExprList& out) {
    Load moved = at(load, map);
    moved.strides.resize(axes_.size(), 0);
    return out.load(moved);
  }

  // Index of a broadcast operand of extent `from` under the index of the result.
  Map broadcast(const Map& map, const std::vector<int64_t>& from) const {
    Map result(from.size());
    const size_t lead = map.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d) {
      result[d] = map[lead + d];
      if (from[d] == 1) result[d] = {0, std::vector<int64_t>(axes_.size(), 0)};
    }
    return result;
  }

  // The argument's index under the index of a structural operation's result.
  std::optional<Map> through(Value v, const Map& map) const {
    const Op& o = op(v);
    const std::vector<int64_t>& from = dims(o.args[0]);
    switch (o.code) {
      case Opcode::Phase: return map;
      case Opcode::Slice: {
        Map m = map;
        m[static_cast<size_t>(o.i)].offset += o.j;
        return m;
      }
      case Opcode::Transpose: {
        Map m(map.size());
        for (size_t d = 0; d < map.size(); ++d) m[static_cast<size_t>(o.dims[d])] = map[d];
        return m;
      }
      case Opcode::Broadcast: return broadcast(map, from);
      case Opcode::Reshape: {
        std::vector<size_t> a, b;
        for (size_t d = 0; d < from.size(); ++d)
          if (from[d] != 1) a.push_back(d);
        for (size_t d = 0; d < dims(v).size(); ++d)
          if (dims(v)[d] != 1) b.push_back(d);
        if (a.size() != b.size()) return std::nullopt;
        Map m(from.size(), Index{0, std::vector<int64_t>(axes_.size(), 0)});
        for (size_t k = 0; k < a.size(); ++k) {
          if (from[a[k]] != dims(v)[b[k]]) return std::nullopt;
          m[a[k]] = map[b[k]];
        }
        return m;
      }
      default: return std::nullopt;
    }
  }

  int64_t highest(const Index& index) const {
    int64_t top = index.offset;
    for (size_t x = 0; x < axes_.size(); ++x) top += index.coef[x] * (axes_[x] - 1);
    return top;
  }

  // The element of v at `map`, as an expression over axes_.
  int32_t expr(Value v, const Map& map, ExprList& out) {
    ExprList::Key key{current_, v, {}};
    for (const Index& index : map) {
      key.map.push_back(index.offset);
      key.map.insert(key.map.end(), index.coef.begin(), index.coef.end());
    }
    const auto found = out.built.find(key);
    if (found != out.built.end()) return found->second;
    const int32_t made = make_expr(v, map, out);
    out.built.emplace(std::move(key), made);
    return made;
  }

  int32_t make_expr(Value v, const Map& map, ExprList& out) {
    const Op& o = op(v);
    if (v != current_ && loads_task(v)) return load_at(memory(v), map, out);
    if (const std::optional<Load> w = view(v)) return load_at(note_use(*w), map, out);
    if (o.code == Opcode::Fill) return out.immediate(o.f);
    if (o.code == Opcode::ToFloat) {
      const Op& index = op(o.args[0]);
      if (index.code == Opcode::Int) return out.immediate(static_cast<double>(index.i));
      Load load;
      load.source = Source::IntValue;
      load.column = int_column(o.args[0]);
      return out.load(load);
    }
    if (v != current_ && kept_values_.count(v)) return load_at(memory(v), map, out);
    if (!accs_ && v != current_ && fits_epilogue(v)) return load_at(memory(v), map, out);  // a Gemm task writes it
    if (accs_ && (o.code == Opcode::Add || o.code == Opcode::MatMul)) {
      const int32_t sum = sum_expr(v, map, out);
      if (sum >= 0) return sum;
    }
    if (is_pointwise(o.code)) {
      Expr e;
      e.code = pointwise(o.code);
      e.a = expr(o.args[0], broadcast(map, dims(o.args[0])), out);
      if (is_binary(o.code)) e.b = expr(o.args[1], broadcast(map, dims(o.args[1])), out);
      return out.add(e);
    }
    if (is_structural(o.code)) {
      if (const std::optional<Map> m = through(v, map)) return expr(o.args[0], *m, out);
      return load_at(structural_view(v), map, out);
    }
    if (o.code == Opcode::Row) return load_at(structural_view(v), map, out);
    if (o.code == Opcode::Concat || o.code == Opcode::Stack) {
      if (const std::optional<std::pair<Value, Map>> part = part_of(v, map)) return expr(part->first, part->second, out);
    }
    if (v == current_) throw Error(ErrorKind::Internal, std::string("block ") + block_.name + ": no expression for " + ir::name(o.code));
    return load_at(memory(v), map, out);
  }

  // The one part of a concatenation that `map` stays inside of.
  std::optional<std::pair<Value, Map>> part_of(Value v, const Map& map) const {
    const Op& o = op(v);
    const bool stack = o.code == Opcode::Stack;
    const size_t axis = stack ? 0 : static_cast<size_t>(o.i);
    int64_t start = 0;
    for (const Value part : o.args) {
      const int64_t extent = stack ? 1 : dims(part)[axis];
      if (map[axis].offset >= start && highest(map[axis]) < start + extent) {
        Map m = map;
        m[axis].offset -= start;
        if (stack) m.erase(m.begin());
        return std::pair(part, m);
      }
      start += extent;
    }
    return std::nullopt;
  }

  // ------------------------------------------------------------ Gemm tasks
  struct AccTable {
    std::vector<AccKey> keys;
    int32_t find(const AccKey& key) {
      const auto found = std::find(keys.begin(), keys.end(), key);
      if (found != keys.end()) return static_cast<int32_t>(found - keys.begin());
      keys.push_back(key);
      return static_cast<int32_t>(keys.size()) - 1;
    }
  };

  // n and f of the task's index space are dimensions of its value: the first assignment that fits its first product.
  void choose_axes(Value v) {
    const auto rank = static_cast<int>(dims(v).size());
    std::vector<std::pair<int, int>> tries;
    if (rank == 0) tries = {{-1, -1}};
    if (rank == 1) tries = {{0, -1}, {-1, 0}};
    if (rank == 2) tries = {{0, 1}, {1, 0}};
    Task& task = tasks_.at(v);
    for (const auto& [n, f] : tries) {
      task.n_axis = n;
      task.f_axis = f;
      set_gemm_axes(task);
      bool fits = false, first = true;
      const std::function<void(Value, const Map&)> probe = [&](Value u, const Map& map) {
        if (!first || (u != v && loads_task(u))) return;
        if (gemm_form(u)) {
          first = false;
          fits = product_at(u, map).has_value();
          return;
        }
        const Op& o = op(u);
        if (is_pointwise(o.code)) {
          for (const Value a : o.args)
            if (reaches_product(a)) probe(a, broadcast(map, dims(a)));
        } else if (is_structural(o.code) && reaches_product(u)) {
          if (const std::optional<Map> m = through(u, map)) probe(o.args[0], *m);
        }
      };
      probe(v, gemm_map(v));
      if (fits) return;
    }
    // No product fits as it stands (more than two dimensions, or reshaped): the products become tasks, this a row task.
    task.gemm = false;
    task.n_axis = task.f_axis = -1;
    std::set<Value> seen;
    force_products(v, &seen);
    reaches_.clear();
    row_steps(v);
  }

  void force_products(Value v, std::set<Value>* seen) {
    if (!seen->insert(v).second) return;
    const Op& o = op(v);
    if (gemm_form(v)) {
      if (v == current_) throw Error(ErrorKind::Internal, "block " + block_.name + ": a product does not fit its own index space");
      kept_values_.insert(v);
      require(v);
      return;
    }
    if (is_pointwise(o.code) || is_structural(o.code))
      for (const Value a : o.args)
        if (types_[op(a).type].kind == TypeKind::Tensor && reaches_product(a)) force_products(a, seen);
  }

  void set_gemm_axes(const Task& task) {
    const std::vector<int64_t>& d = dims(task.value);
    axes_ = {task.n_axis >= 0 ? d[static_cast<size_t>(task.n_axis)] : 1, task.f_axis >= 0 ? d[static_cast<size_t>(task.f_axis)] : 1};
  }
  Map gemm_map(Value v) const {
    const Task& task = tasks_.at(v);
    Map map(dims(v).size(), Index{0, {0, 0}});
    if (task.n_axis >= 0) map[static_cast<size_t>(task.n_axis)].coef[0] = 1;
    if (task.f_axis >= 0) map[static_cast<size_t>(task.f_axis)].coef[1] = 1;
    return map;
  }

  // The product v at `map`, if its n and f run along the task's.
  std::optional<Product> product_at(Value v, const Map& map) const {
    const std::optional<GemmForm> g = gemm_form(v);
    if (!g) return std::nullopt;
    Product p{v, 0, 0};
    if (g->out_n >= 0) {
      const Index& n = map[static_cast<size_t>(g->out_n)];
      if (n.coef[0] != 1 && !(n.coef[0] == 0 && axes_[0] == 1)) return std::nullopt;
      if (n.coef[1] != 0 && axes_[1] != 1) return std::nullopt;
      p.n_offset = n.offset;
    } else if (axes_[0] != 1) {
      return std::nullopt;
    }
    if (g->out_f >= 0) {
      const Index& f = map[static_cast<size_t>(g->out_f)];
      if (f.coef[1] != 1 && !(f.coef[1] == 0 && axes_[1] == 1)) return std::nullopt;
      if (f.coef[0] != 0 && axes_[0] != 1) return std::nullopt;
      p.f_offset = f.offset;
    } else if (axes_[1] != 1) {
      return std::nullopt;
    }
    return p;
  }

  // A sum (or a single product): its products become one accumulator, the rest is added. -1: no product fits here.
  int32_t sum_expr(Value v, const Map& map, ExprList& out) {
    AccKey key;
    std::vector<std::pair<Value, Map>> rest;
    const std::function<void(Value, const Map&)> flatten = [&](Value u, const Map& m) {
      const bool memory = u != current_ && (loads_task(u) || kept_values_.count(u));
      if (!memory && op(u).code == Opcode::Add && reaches_product(u) && (u == v || uses_[static_cast<size_t>(u)] == 1)) {
        for (const Value a : op(u).args) flatten(a, broadcast(m, dims(a)));
        return;
      }
      if (!memory)
        if (const std::optional<Product> p = product_at(u, m)) {
          key.push_back(*p);
          return;
        }
      if (!memory && is_structural(op(u).code) && reaches_product(u))
        if (const std::optional<Map> under = through(u, m)) {
          flatten(op(u).args[0], *under);
          return;
        }
      rest.emplace_back(u, m);
    };
    flatten(v, map);
    if (key.empty()) return -1;
    std::sort(key.begin(), key.end());
    Load acc;
    acc.source = Source::Acc;
    acc.index = accs_->find(key);
    int32_t sum = out.load(acc);
    for (const auto& [u, m] : rest) {
      const int32_t other = expr(u, m, out);
      sum = out.add({Pointwise::Add, sum, other, 0, {}});
    }
    return sum;
  }

  int32_t gemm_expr(Value v, ExprList& out) {
    set_gemm_axes(tasks_.at(v));
    return expr(v, gemm_map(v), out);
  }

  struct ASegment {
    Load a;          // strides {k, f}
    int64_t k, k_offset;
  };
  // The gathered operand of a product: its parts along k.
  std::vector<ASegment> segments_of(const Product& p) {
    const GemmForm g = *gemm_form(p.value);
    std::vector<ASegment> result;
    const std::function<void(Value, int64_t)> collect = [&](Value a, int64_t k_offset) {
      const Op& o = op(a);
      if (o.code == Opcode::Concat && o.i == g.a_k && !loads_task(a)) {
        for (const Value part : o.args) {
          collect(part, k_offset);
          k_offset += dims(part)[static_cast<size_t>(g.a_k)];
        }
        return;
      }
      Load load = memory_view(a);
      const std::vector<int64_t> strides = load.strides;
      const int64_t f = g.a_f >= 0 ? strides[static_cast<size_t>(g.a_f)] : 0;
      load.strides = {strides[static_cast<size_t>(g.a_k)], f};
      load.offset += p.f_offset * f;
      result.push_back({load, dims(a)[static_cast<size_t>(g.a_k)], k_offset});
    };
    collect(g.a, 0);
    return result;
  }

  // ------------------------------------------------------------ row tasks
  std::vector<Step> row_steps(Value v) {
    const Op& o = op(v);
    const std::vector<int64_t> d = dims(v);
    std::vector<Step> steps;
    accs_ = nullptr;
    if (o.code == Opcode::Concat || o.code == Opcode::Stack) {
      const bool stack = o.code == Opcode::Stack;
      const std::vector<int64_t> strides = row_major(d);
      const size_t axis = stack ? 0 : static_cast<size_t>(o.i);
      int64_t start = 0;
      for (const Value part : o.args) {
        Step step = map_step(part);
        step.store.offset = start * strides[axis];
        step.store.strides = strides;
        if (stack) step.store.strides.erase(step.store.strides.begin());
        start += stack ? 1 : dims(part)[axis];
        steps.push_back(std::move(step));
      }
      return steps;
    }
    if (o.code == Opcode::ReduceSum || o.code == Opcode::ReduceMax) {
      const Value x = o.args[0];
      const auto axis = static_cast<size_t>(o.i);
      Step step = reduction(d, dims(x)[axis], o.code == Opcode::ReduceMax ? Reduce::Max : Reduce::Sum);
      Map map(dims(x).size());
      for (size_t k = 0, out = 0; k < map.size(); ++k) {
        map[k].coef.assign(axes_.size(), 0);
        map[k].coef[k == axis ? d.size() : out] = 1;
        if (k != axis) ++out;
      }
      finish_step(step, [&](ExprList& list) { return expr(x, map, list); });
      steps.push_back(std::move(step));
      return steps;
    }
    if (o.code == Opcode::MatMul) {
      steps.push_back(contraction(v));
      return steps;
    }
    steps.push_back(map_step(v));
    return steps;
  }

  Step reduction(const std::vector<int64_t>& d, int64_t extent, Reduce how) {
    Step step;
    step.dims = d;
    step.op = how;
    step.reduce = extent;
    step.store.strides = row_major(d);
    axes_ = d;
    axes_.push_back(extent);
    return step;
  }
  template <class F>
  void finish_step(Step& step, F build) {
    ExprList list;
    step.store.value = build(list);
    step.exprs = std::move(list.list);
  }

  Step map_step(Value v) {
    Step step;
    step.dims = dims(v);
    step.store.strides = row_major(step.dims);
    axes_ = step.dims;
    finish_step(step, [&](ExprList& list) { return expr(v, identity(axes_.size(), axes_.size()), list); });
    return step;
  }

  // A product of two operands that both belong to the instance, as a sum over k for each element.
  Step contraction(Value v) {
    const Op& o = op(v);
    const Value l = o.args[0], r = o.args[1];
    const std::vector<int64_t>&dl = dims(l), &dr = dims(r);
    const std::vector<int64_t> d = dims(v);
    Step step = reduction(d, dl.back(), Reduce::Sum);
    const size_t k = d.size();  // the axis of the sum
    const auto axis = [&](size_t x) {
      Index index{0, std::vector<int64_t>(axes_.size(), 0)};
      index.coef[x] = 1;
      return index;
    };
    Map ml, mr;
    size_t out = 0;
    for (size_t b = 0; b + 2 < std::max(dl.size(), dr.size()); ++b, ++out) {
      if (b + 2 < dl.size()) ml.push_back(axis(out));
      if (b + 2 < dr.size()) mr.push_back(axis(out));
    }
    if (dl.size() >= 2) ml.push_back(axis(out++));
    ml.push_back(axis(k));
    mr.push_back(axis(k));
    if (dr.size() >= 2) mr.push_back(axis(out++));
    finish_step(step, [&](ExprList& list) {
      const Load ll = memory_view(l), lr = memory_view(r);
      const int32_t a = load_at(ll, ml, list), b = load_at(lr, mr, list);
      return list.add({Pointwise::Mul, a, b, 0, {}});
    });
    return step;
  }

  // ------------------------------------------------------------ emission
  // Outputs of the block first, in their order; then what stages hand on; temps for what one row kernel keeps to itself.
  void place() {
    for (const Value v : outputs_) {
      tasks_.at(v).slot = static_cast<int32_t>(block_.outputs.size());
      block_.outputs.push_back({numel(v), -1, 0, false});
    }
    std::map<int, int64_t> temp_floats;
    std::map<int, int32_t> temp_count;
    for (const Value v : order_) {
      Task& task = tasks_.at(v);
      if (task.slot >= 0) continue;
      bool local = !task.gemm;
      for (const auto& [u, other] : tasks_)
        if (other.loads.count(v) && (other.gemm || other.stage != task.stage)) local = false;
      int64_t& floats = temp_floats[task.stage];
      if (local && floats + numel(v) <= kTempFloats) {
        floats += numel(v);
        task.temp = true;
        task.slot = temp_count[task.stage]++;
        temps_[task.stage].push_back(numel(v));
      } else {
        task.slot = static_cast<int32_t>(block_.outputs.size());
        block_.outputs.push_back({numel(v), -1, 0, true});
      }
    }
  }

  Store store_of(const Task& task, int32_t value) const {
    Store store;
    store.value = value;
    store.sink = task.temp ? Sink::Temp : Sink::Output;
    store.index = task.slot;
    return store;
  }

  void emit_gemms() {
    std::map<std::tuple<int, int64_t, int64_t>, std::vector<Value>> groups;
    for (const Value v : order_) {
      const Task& task = tasks_.at(v);
      if (!task.gemm) continue;
      set_gemm_axes(task);
      groups[{task.stage, axes_[0], axes_[1]}].push_back(v);
    }
    for (const auto& [key, values] : groups) {
      std::vector<Value> rest = values;
      while (!rest.empty()) {  // as many tasks a kernel as its accumulators allow
        std::vector<Value> taken, left;
        AccTable accs;
        for (const Value v : rest) {
          AccTable trial = accs;
          accs_ = &trial;
          current_ = v;
          ExprList scratch;
          gemm_expr(v, scratch);
          const size_t most = plan_.fused ? std::max(kMaxAccs, accs.keys.size()) : 1;
          if (taken.empty() || trial.keys.size() <= most) {
            accs = trial;
            taken.push_back(v);
          } else {
            left.push_back(v);
          }
        }
        emit_gemm(std::get<0>(key), std::get<1>(key), std::get<2>(key), taken);
        rest = left;
      }
    }
    accs_ = nullptr;
  }

  void emit_gemm(int stage, int64_t n, int64_t free, const std::vector<Value>& values) {
    Kernel kernel;
    kernel.stage = stage;
    kernel.is_gemm = true;
    Gemm& g = kernel.gemm;
    g.n = n;
    g.free = free;
    AccTable accs;
    accs_ = &accs;
    ExprList list;
    for (const Value v : values) {
      current_ = v;
      const Task& task = tasks_.at(v);
      Store store = store_of(task, gemm_expr(v, list));
      const std::vector<int64_t> strides = row_major(dims(v));
      store.strides = {task.n_axis >= 0 ? strides[static_cast<size_t>(task.n_axis)] : 0,
                       task.f_axis >= 0 ? strides[static_cast<size_t>(task.f_axis)] : 0};
      g.stores.push_back(store);
    }
    g.exprs = std::move(list.list);
    g.accs = static_cast<int32_t>(accs.keys.size());
    for (int32_t acc = 0; acc < g.accs; ++acc)
      for (const Product& p : accs.keys[static_cast<size_t>(acc)]) {
        const GemmForm form = *gemm_form(p.value);
        current_ = values.front();
        for (const ASegment& s : segments_of(p)) {
          SegmentUse use;
          use.acc = acc;
          use.weight = form.weight.index;
          use.offset = form.weight.offset + p.n_offset * form.stride_n + s.k_offset * form.stride_k;
          use.stride_n = form.stride_n;
          use.stride_k = form.stride_k;
          const auto same = std::find_if(g.segments.begin(), g.segments.end(), [&](const Segment& have) {
            return have.a == s.a && have.k == s.k &&
                   std::none_of(have.uses.begin(), have.uses.end(), [&](const SegmentUse& u) { return u.acc == acc; });
          });
          if (same != g.segments.end())
            same->uses.push_back(use);
          else
            g.segments.push_back({s.a, s.k, {use}, 0});
        }
      }
    kernel.name = block_.name + "_k" + std::to_string(block_.kernels.size());
    block_.kernels.push_back(std::move(kernel));
  }

  void emit_rows() {
    std::map<int, Kernel> kernels;
    std::set<Value> emitted;
    const std::function<void(Value)> emit = [&](Value v) {
      const Task& task = tasks_.at(v);
      if (task.gemm || !emitted.insert(v).second) return;
      for (const Value l : task.loads)
        if (tasks_.at(l).stage == task.stage) emit(l);
      current_ = v;
      Kernel& kernel = kernels[task.stage];
      for (Step& step : row_steps(v)) {
        const Store target = store_of(task, step.store.value);
        step.store.sink = target.sink;
        step.store.index = target.index;
        kernel.steps.push_back(std::move(step));
      }
    };
    for (const Value v : order_) emit(v);
    for (auto& [stage, kernel] : kernels) {
      kernel.stage = stage;
      kernel.temps = temps_[stage];
      kernel.name = block_.name + "_k" + std::to_string(block_.kernels.size());
      block_.kernels.push_back(std::move(kernel));
    }
  }

  TypeTable types_;  // a copy: expansion makes new types
  ir::Function fn_;
  std::vector<Value> outputs_;
  Block& block_;
  Plan& plan_;

  std::map<Value, Task> tasks_;
  std::vector<Value> order_;
  std::vector<int> uses_;        // of each value
  std::set<Value> kept_values_;  // never inlined
  mutable std::map<Value, std::optional<Load>> views_;
  mutable std::map<Value, bool> reaches_;
  std::map<int, std::vector<int64_t>> temps_;  // by stage
  bool stages_known_ = false;

  Value current_ = kNone;        // the task whose expression is being built
  AccTable* accs_ = nullptr;     // set while that is a Gemm task
  std::vector<int64_t> axes_;    // extents of its index space
};

}  // namespace

void build_stages(const ir::Program& program, const BlockBody& body, Block* block, Plan* plan) {
  Builder(program, body, block, plan).run();
}

}  // namespace rondo::plan
