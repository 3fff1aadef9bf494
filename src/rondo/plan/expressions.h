// Expressions of tasks: a value at an index, affine in the axes of the task's index space, as loads and elementwise
// operations. In a Gemm task sums of products become accumulators. Private to plan/stages.cpp.
#pragma once
#include <bit>
#include <unordered_map>

#include "rondo/base/hash.h"
#include "rondo/plan/tasks.h"

namespace rondo::plan::stages {

// Expressions of one kernel or step, each distinct one once.
class ExprList {
 public:
  int32_t add(const Expr& e) {
    std::vector<int32_t>& alike = alike_[hash_of(e)];
    for (const int32_t i : alike) {
      const Expr& have = list[static_cast<size_t>(i)];
      if (have.code == e.code && have.a == e.a && have.b == e.b && have.imm == e.imm && have.load == e.load) return i;
    }
    alike.push_back(static_cast<int32_t>(list.size()));
    list.push_back(e);
    return alike.back();
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

 private:
  // Of what tells most expressions apart.
  static uint64_t hash_of(const Expr& e) {
    Hasher h;
    h.number(static_cast<uint64_t>(e.code)).number(static_cast<uint32_t>(e.a)).number(static_cast<uint32_t>(e.b));
    h.number(std::bit_cast<uint64_t>(e.imm)).number(static_cast<uint32_t>(e.load.index)).number(static_cast<uint64_t>(e.load.offset));
    return h.finish().low;
  }
  std::unordered_map<uint64_t, std::vector<int32_t>> alike_;  // expressions of one hash
};

class Expressions : public Tasks {
 protected:
  using Tasks::Tasks;

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
    if (v == current_) throw Error(ErrorKind::Internal, std::string("block ") + name_ + ": no expression for " + ir::name(o.code));
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
    // Along this axis of the task, and along no other.
    const auto along = [&](const Index& index, size_t axis) {
      return (index.coef[axis] == 1 || (index.coef[axis] == 0 && axes_[axis] == 1)) &&
             (index.coef[1 - axis] == 0 || axes_[1 - axis] == 1);
    };
    Product p{v, 0, 0};
    const std::pair<int, int64_t*> sides[] = {{g->out_n, &p.n_offset}, {g->out_f, &p.f_offset}};
    for (size_t axis = 0; axis < 2; ++axis) {
      const auto& [dimension, offset] = sides[axis];
      if (dimension < 0 ? axes_[axis] != 1 : !along(map[static_cast<size_t>(dimension)], axis)) return std::nullopt;
      if (dimension >= 0) *offset = map[static_cast<size_t>(dimension)].offset;
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
      if (o.code == Opcode::Concat && o.i == g.a_k && !loads_task(a) && !kept_values_.count(a)) {
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
};

}  // namespace rondo::plan::stages
