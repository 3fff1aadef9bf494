// The tasks of a block: which values are written to memory, and when one task reads another's memory instead of computing
// the value again. Private to plan/stages.cpp, where the rules stand.
#pragma once
#include "rondo/plan/body.h"

namespace rondo::plan::stages {

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
  size_t sums = 0, operands = 0; // of a Gemm task: accumulators, distinct operands of its products
  bool temp = false;
  int32_t slot = -1;             // output number, or temp number in its kernel
};

struct AccTable {
  std::vector<AccKey> keys;
  int32_t find(const AccKey& key) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found != keys.end()) return static_cast<int32_t>(found - keys.begin());
    keys.push_back(key);
    return static_cast<int32_t>(keys.size()) - 1;
  }
};

class Tasks : public Body {
 protected:
  Tasks(const ir::Program& program, const BlockBody& body, const std::string& name, Plan* plan)
      : Body(program, body, name), plan_(*plan) {}

  Task& require(Value v) {
    const auto found = tasks_.find(v);
    if (found != tasks_.end()) return found->second;
    order_.push_back(v);
    Task& task = tasks_[v];
    task.value = v;
    return task;
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
    if (v != current_ && kept_values_.count(v)) return memory(v);
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

  void force_products(Value v, std::set<Value>* seen) {
    if (!seen->insert(v).second) return;
    const Op& o = op(v);
    if (gemm_form(v)) {
      if (v == current_) throw Error(ErrorKind::Internal, "block " + name_ + ": a product does not fit its own index space");
      kept_values_.insert(v);
      require(v);
      return;
    }
    if (is_pointwise(o.code) || is_structural(o.code))
      for (const Value a : o.args)
        if (types_[op(a).type].kind == TypeKind::Tensor && reaches_product(a)) force_products(a, seen);
  }

  // All tasks, each after those of its loads that `follow` lets through.
  template <class Follow>
  std::vector<Value> after_loads(const Follow& follow) const {
    enum class Mark { New, Open, Done };
    std::map<Value, Mark> marks;
    std::vector<Value> done;
    struct Open {
      Value task;
      std::set<Value>::const_iterator next;
    };
    std::vector<Open> open;
    const auto visit = [&](Value v) {
      Mark& mark = marks[v];
      if (mark == Mark::Open) throw Error(ErrorKind::Internal, "block " + name_ + ": its tasks form a cycle");
      if (mark == Mark::Done) return;
      mark = Mark::Open;
      open.push_back({v, tasks_.at(v).loads.begin()});
    };
    for (const Value v : order_) {
      visit(v);
      while (!open.empty()) {
        Open& top = open.back();
        if (top.next == tasks_.at(top.task).loads.end()) {
          marks[top.task] = Mark::Done;
          done.push_back(top.task);
          open.pop_back();
        } else if (const Value load = *top.next++; follow(top.task, load)) {
          visit(load);
        }
      }
    }
    return done;
  }

  Plan& plan_;
  std::map<Value, Task> tasks_;
  std::vector<Value> order_;
  bool stages_known_ = false;

  Value current_ = kNone;        // the task whose expression is being built
  AccTable* accs_ = nullptr;     // set while that is a Gemm task
  std::vector<int64_t> axes_;    // extents of its index space
};

}  // namespace rondo::plan::stages
