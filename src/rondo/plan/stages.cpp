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

#include "rondo/plan/expressions.h"

namespace rondo::plan {
namespace stages {
namespace {

constexpr size_t kMaxAccs = 8;    // accumulators a Gemm kernel is filled up to: 8 rows x 8 sums fit a thread's registers
// A task with more of either is cut: its products become tasks, which are added from memory. A thread of a GPU keeps 4 rows x
// 16 sums in registers, and a block the addresses of 16 operands' rows in shared memory (codegen/prelude/cuda.h).
constexpr size_t kMostSums = 16, kMostOperands = 16;
constexpr size_t kLookAhead = 64;  // tasks that do not fit a kernel before it is closed: of tens of thousands all would be tried

class Builder : public Expressions {
 public:
  Builder(const ir::Program& program, const BlockBody& body, Block* block, Plan* plan)
      : Expressions(program, body, block->name, plan), block_(*block) {}

  void run() {
    expand();
    count_uses();
    cut_chains();
    if (!plan_.fused)
      for (const Value v : fn_.body.body)
        if (gemm_form(v)) kept_values_.insert(v);
    for (const Value v : outputs_) require(v);
    for (bool again = true; again;) {
      settle();
      again = split_shared_products() || split_wide_tasks();
    }
    place();
    emit_gemms();
    emit_rows();
    block_.stages = 0;
    for (const Kernel& k : block_.kernels) block_.stages = std::max(block_.stages, k.stage + 1);
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
    if (task.gemm) {
      AccTable accs;
      accs_ = &accs;
      choose_axes(v);
      if (task.gemm) {
        ExprList scratch;
        gemm_expr(v, scratch);
        std::vector<Load> operands;
        for (const AccKey& key : accs.keys)
          for (const Product& p : key) {
            task.products.insert(p.value);
            for (const ASegment& segment : segments_of(p))
              if (std::find(operands.begin(), operands.end(), segment.a) == operands.end()) operands.push_back(segment.a);
          }
        task.sums = accs.keys.size();
        task.operands = operands.size();
        task.gemm = !accs.keys.empty();  // else every product is loaded from an earlier stage
      }
      accs_ = nullptr;
    }
    if (!task.gemm) {
      task.loads.clear();
      task.products.clear();
      row_steps(v);
    }
  }

  bool split_wide_tasks() {
    bool any = false;
    for (size_t n = 0; n < order_.size(); ++n) {
      const Task& task = tasks_.at(order_[n]);
      if (!task.gemm || (task.sums <= kMostSums && task.operands <= kMostOperands)) continue;
      const std::set<Value> products = task.products;
      for (const Value p : products)
        if (p != order_[n] && kept_values_.insert(p).second) require(p), any = true;
    }
    return any;
  }

  // n and f of the task's index space are dimensions of its value: the first assignment that fits its first product.
  void choose_axes(Value v) {
    const auto rank = static_cast<int>(dims(v).size());
    std::vector<std::pair<int, int>> tries;
    if (rank == 0) tries = {{-1, -1}};
    if (rank == 1) tries = {{0, -1}, {-1, 0}};
    if (rank == 2) tries = {{0, 1}, {1, 0}};
    Task& task = tasks_.at(v);
    bool any = false;
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
      any = any || !first;
    }
    // A product that does not fit as it stands (more than two dimensions, or reshaped) becomes a task, this a row task; so
    // does one whose products are all loaded from an earlier stage.
    task.gemm = false;
    task.n_axis = task.f_axis = -1;
    if (!any) return;
    std::set<Value> seen;
    force_products(v, &seen);
    reaches_.clear();
  }

  void compute_stages() {
    for (const Value v : after_loads([](Value, Value) { return true; })) {
      Task& task = tasks_.at(v);
      task.stage = 0;
      for (const Value l : task.loads) {
        const Task& load = tasks_.at(l);
        task.stage = std::max(task.stage, task.gemm || load.gemm ? load.stage + 1 : load.stage);
      }
    }
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
    std::set<Value> handed_on;  // read by another kernel than the one that writes it
    for (const auto& [u, reader] : tasks_)
      for (const Value v : reader.loads)
        if (reader.gemm || reader.stage != tasks_.at(v).stage) handed_on.insert(v);
    for (const Value v : order_) {
      Task& task = tasks_.at(v);
      if (task.slot >= 0) continue;
      const bool local = !task.gemm && !handed_on.count(v);
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

  // Those that v's expression needs.
  std::set<AccKey> accumulators(Value v) {
    AccTable accs;
    accs_ = &accs;
    current_ = v;
    ExprList scratch;
    gemm_expr(v, scratch);
    return {accs.keys.begin(), accs.keys.end()};
  }

  void emit_gemms() {
    std::map<Value, std::set<AccKey>> needs;
    std::map<std::tuple<int, int64_t, int64_t>, std::vector<Value>> groups;
    for (const Value v : order_) {
      const Task& task = tasks_.at(v);
      if (!task.gemm) continue;
      set_gemm_axes(task);
      groups[{task.stage, axes_[0], axes_[1]}].push_back(v);
      needs[v] = accumulators(v);
    }
    for (const auto& [key, values] : groups) {
      std::vector<Value> rest = values;
      while (!rest.empty()) {  // as many tasks a kernel as its accumulators allow
        std::vector<Value> taken, left;
        std::set<AccKey> accs;
        size_t at = 0;
        for (size_t misses = 0; at < rest.size() && misses < kLookAhead; ++at) {
          std::set<AccKey> trial = accs;
          trial.insert(needs.at(rest[at]).begin(), needs.at(rest[at]).end());
          const size_t most = plan_.fused ? std::max(kMaxAccs, accs.size()) : 1;
          if (taken.empty() || trial.size() <= most) {
            accs = std::move(trial);
            taken.push_back(rest[at]);
          } else {
            left.push_back(rest[at]);
            ++misses;
          }
        }
        left.insert(left.end(), rest.begin() + static_cast<ptrdiff_t>(at), rest.end());
        emit_gemm(std::get<0>(key), std::get<1>(key), std::get<2>(key), taken);
        rest = std::move(left);
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
    for (const Value v : after_loads([&](Value task, Value load) { return tasks_.at(task).stage == tasks_.at(load).stage; })) {
      const Task& task = tasks_.at(v);
      if (task.gemm) continue;
      current_ = v;
      Kernel& kernel = kernels[task.stage];
      for (Step& step : row_steps(v)) {
        const Store target = store_of(task, step.store.value);
        step.store.sink = target.sink;
        step.store.index = target.index;
        kernel.steps.push_back(std::move(step));
      }
    }
    for (auto& [stage, kernel] : kernels) {
      kernel.stage = stage;
      kernel.temps = temps_[stage];
      kernel.name = block_.name + "_k" + std::to_string(block_.kernels.size());
      block_.kernels.push_back(std::move(kernel));
    }
  }

  Block& block_;
  std::map<int, std::vector<int64_t>> temps_;  // by stage
};

}  // namespace
}  // namespace stages

void build_stages(const ir::Program& program, const BlockBody& body, Block* block, Plan* plan) {
  stages::Builder(program, body, block, plan).run();
}

}  // namespace rondo::plan
