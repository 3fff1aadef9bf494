// How a program is lowered.
//
// Kernels: the members of each block (analysis/blocks.h), with what is repeated inside of it, become a
// BlockBody whose parameters are the block's operands; build_stages makes kernels of it.
//
// Host: the same program without tensor operations. A block becomes one Emit, placed where its first output
// is needed; operations that it waits for are moved before it, which is safe because everything is pure and
// blocks form no cycle. Constants stand at the head of their function. Marks of phases are gone: they have
// become phases of blocks.
//
// Results: each pool that main's result can hold has a block that copies a row into the results buffer, in a
// phase of its own after all others. The run-time appends its records while it walks the result.
#include "rondo/plan/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "rondo/error.h"
#include "rondo/plan/stages.h"

namespace rondo::plan {
namespace {
using analysis::BlockFact;
using analysis::Facts;
using analysis::View;
using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

std::string program_name(const std::string& file) {
  const size_t slash = file.find_last_of('/');
  std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  name = name.substr(0, name.find('.'));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "p" + name : name;
}

// Element counts of the tensors that a value of the type can hold.
void collect_sizes(const TypeTable& types, ir::TypeId id, std::set<ir::TypeId>* seen,
                   std::set<int64_t>* sizes) {
  if (!seen->insert(id).second) return;
  const Type& type = types[id];
  if (type.kind == TypeKind::Tensor) sizes->insert(types.numel(id));
  for (const ir::TypeId part : type.args) collect_sizes(types, part, seen, sizes);
  if (type.kind != TypeKind::Adt) return;
  for (const Constructor& c : types.adts[static_cast<size_t>(type.adt)].constructors)
    for (const ir::TypeId field : c.fields) collect_sizes(types, field, seen, sizes);
}

std::set<int64_t> sizes_of(const TypeTable& types, ir::TypeId id) {
  std::set<ir::TypeId> seen;
  std::set<int64_t> sizes;
  collect_sizes(types, id, &seen, &sizes);
  return sizes;
}

int32_t constant_index(const View& view, int64_t size, Plan* plan) {
  int32_t row = 0;
  for (size_t k = 0; k < plan->constants.size(); ++k) {
    const Constant& c = plan->constants[k];
    if (View{c.weight, c.fill, c.offset, c.dims, c.strides} == view) return static_cast<int32_t>(k);
    if (c.size == size) ++row;
  }
  plan->constants.push_back({size, row, view.weight, view.fill, view.offset, view.dims, view.strides});
  return static_cast<int32_t>(plan->constants.size()) - 1;
}

// ---------------------------------------------------------------- kernels
// The straight-line code of one block.
class BodyBuilder {
 public:
  BodyBuilder(const ir::Program& program, const BlockFact& fact, const std::vector<int32_t>& block_of,
              const std::vector<bool>& repeated)
      : program_(program),
        fn_(program.functions[static_cast<size_t>(fact.function)]),
        fact_(fact),
        block_of_(block_of),
        repeated_(repeated),
        to_(fn_.ops.size(), kNone),
        extent_(fn_.ops.size(), 0) {}

  BlockBody run() {
    body_.fn.name = fact_.name;
    body_.fn.loc = fact_.loc;
    body_.fn.result = program_.functions[static_cast<size_t>(fact_.function)].result;
    const auto param = [&](Value v) {
      Op arg;
      arg.type = op(v).type;
      arg.loc = op(v).loc;
      to_[static_cast<size_t>(v)] = body_.fn.add(std::move(arg));
      body_.fn.body.params.push_back(to_[static_cast<size_t>(v)]);
    };
    for (const Value v : fact_.tensors) param(v);
    for (const Value v : fact_.ints) param(v);
    for (const Value v : fact_.members)
      if (!repeated_[static_cast<size_t>(v)]) copy(v);
    for (const Value v : fact_.outputs) body_.outputs.push_back(output(v));
    return std::move(body_);
  }

  int64_t extent(Value index) const { return extent_[static_cast<size_t>(index)]; }  // 0: any value will do

 private:
  const Op& op(Value v) const { return fn_.ops[static_cast<size_t>(v)]; }

  // After what it is made of: members come in order, but a chain of views that blocks repeat may be of any length.
  Value copy(Value v) {
    std::vector<Value> open{analysis::behind_marks(fn_, v)};
    while (!open.empty()) {
      const Value next = open.back();
      const size_t before = open.size();
      if (to_[static_cast<size_t>(next)] == kNone)
        for (const Value a : op(next).args)
          if (const Value made_of = analysis::behind_marks(fn_, a); to_[static_cast<size_t>(made_of)] == kNone) {
            open.push_back(made_of);
            break;
          }
      if (open.size() > before) continue;
      copy_alone(next);
      open.pop_back();
    }
    return to_[static_cast<size_t>(analysis::behind_marks(fn_, v))];
  }

  void copy_alone(Value v) {
    const auto at = static_cast<size_t>(v);
    if (to_[at] != kNone) return;
    if (!repeated_[at] && block_of_[at] != block_of_[static_cast<size_t>(fact_.members[0])])
      throw Error(ErrorKind::Internal,
                  fmt::format("lower: block {} uses %{}, which is no operand", fact_.name, v));
    Op made = op(v);
    for (Value& a : made.args) a = to_[static_cast<size_t>(analysis::behind_marks(fn_, a))];
    if (made.code == Opcode::Row) {
      int64_t& extent = extent_[static_cast<size_t>(analysis::behind_marks(fn_, op(v).args[1]))];
      const int64_t rows = program_.types[op(op(v).args[0]).type].dims[0];
      extent = extent == 0 ? rows : std::min(extent, rows);
    }
    to_[at] = body_.fn.add(std::move(made));
    body_.fn.body.body.push_back(to_[at]);
  }

  // A view or a row that leaves the block is a copy of its own: what computes with it inside still reads the
  // weight or operand behind it, and need not wait for the copy.
  Value output(Value v) {
    const bool used = to_[static_cast<size_t>(v)] != kNone;
    const Value made = copy(v);
    const Opcode code = op(v).code;
    const bool cheap = analysis::is_view(code) || code == Opcode::Row || code == Opcode::ToFloat;
    if (!used || !cheap) return made;
    Op again = body_.fn.ops[static_cast<size_t>(made)];
    const Value second = body_.fn.add(std::move(again));
    body_.fn.body.body.push_back(second);
    return second;
  }

  const ir::Program& program_;
  const ir::Function& fn_;
  const BlockFact& fact_;
  const std::vector<int32_t>& block_of_;
  const std::vector<bool>& repeated_;
  std::vector<Value> to_;
  std::vector<int64_t> extent_;
  BlockBody body_;
};

void add_block(const ir::Program& program, const Facts& facts, const BlockFact& fact, Plan* plan) {
  const auto f = static_cast<size_t>(fact.function);
  const ir::Function& fn = program.functions[f];
  BodyBuilder builder(program, fact, facts.blocks.block_of[f], facts.blocks.repeated[f]);
  BlockBody body = builder.run();
  body.fn.body.result = body.outputs.empty() ? kNone : body.outputs[0];
  Block block;
  block.name = fact.name;
  block.source = fmt::format("{}:{}", program.file, fact.loc.line);
  block.phase = fact.phase;
  block.first_level = fact.first_level;
  block.fixed_level = fact.first_level == fact.last_level;
  block.depth_operand = fact.look_up;
  for (const Value v : fact.tensors)
    block.operands.push_back({false, program.types.numel(fn.ops[static_cast<size_t>(v)].type)});
  for (const Value v : fact.ints) block.operands.push_back({true, builder.extent(v)});
  block.tensors = static_cast<int32_t>(fact.tensors.size());
  build_stages(program, body, &block, plan);
  plan->blocks.push_back(std::move(block));
}

void add_result_block(int64_t size, int32_t phase, Plan* plan) {
  Block block;
  block.name = fmt::format("result_{}", size);
  block.source = "result";
  block.phase = phase;
  block.fixed_level = true;
  block.depth_operand = {false};
  block.operands = {{false, size}};
  block.tensors = 1;
  block.result_pool = static_cast<int32_t>(size);
  Step copy;
  copy.dims = {size};
  Expr load;
  load.code = Pointwise::Load;
  load.load.strides = {1};
  copy.exprs = {load};
  copy.store.value = 0;
  copy.store.sink = Sink::Result;
  copy.store.strides = {1};
  Kernel kernel;
  kernel.name = block.name;
  kernel.steps = {copy};
  block.kernels = {kernel};
  block.stages = 1;
  plan->blocks.push_back(std::move(block));
}

// ---------------------------------------------------------------- host form
class HostForm {
 public:
  HostForm(const ir::Program& program, const Facts& facts, int32_t function, Plan* plan)
      : program_(program),
        facts_(facts),
        f_(static_cast<size_t>(function)),
        fn_(program.functions[f_]),
        layout_(facts.flow.layouts[f_]),
        plan_(*plan),
        to_(fn_.ops.size(), kNone),
        started_(fn_.ops.size(), false),
        emits_(facts.blocks.list.size(), kNone) {
    TypeTable types = program.types;
    int_type_ = types.integer();
  }

  ir::Function run() {
    out_ = {fn_.name, {}, {}, fn_.result, fn_.loc};
    out_.body = region(fn_.body);
    out_.body.body.insert(out_.body.body.begin(), head_.begin(), head_.end());
    return std::move(out_);
  }

 private:
  static size_t at(Value v) { return static_cast<size_t>(v); }
  const Op& op(Value v) const { return fn_.ops[at(v)]; }

  ir::Region region(const ir::Region& r) {
    ir::Region made;
    std::vector<Value>* const outer = body_;
    body_ = &made.body;
    for (const Value p : r.params) {
      to_[at(p)] = out_.add(op(p));
      made.params.push_back(to_[at(p)]);
    }
    for (const Value v : r.body)
      if (!analysis::is_tensor_op(op(v).code) && op(v).code != Opcode::Phase) need(v);
    made.result = refer(r.result);
    body_ = outer;
    return made;
  }

  Value append(Op made) {
    const Value v = out_.add(std::move(made));
    body_->push_back(v);
    return v;
  }

  // The host value for v: what it is bound to, a block's output, or a constant.
  Value refer(Value v) {
    v = analysis::behind_marks(fn_, v);
    if (!analysis::is_tensor_op(op(v).code)) return need(v);
    if (to_[at(v)] != kNone) return to_[at(v)];
    const int32_t block = facts_.blocks.block_of[f_][at(v)];
    if (block < 0) return constant(v);
    const std::vector<Value>& outputs = facts_.blocks.list[static_cast<size_t>(block)].outputs;
    Op out;
    out.code = Opcode::EmitOut;
    out.type = op(v).type;
    out.args = {emit(block)};
    out.i = std::find(outputs.begin(), outputs.end(), v) - outputs.begin();
    out.loc = op(v).loc;
    return to_[at(v)] = append(std::move(out));
  }

  Value constant(Value v) {
    const std::optional<View> view = analysis::constant_view(program_, fn_, v);
    if (!view) fail(v, "is neither computed by a block nor a constant");
    Op made;
    made.code = Opcode::Constant;
    made.type = op(v).type;
    made.i = constant_index(*view, program_.types.numel(op(v).type), &plan_);
    made.loc = op(v).loc;
    const auto [found, fresh] = constants_.try_emplace(made.i, kNone);
    if (fresh) {
      found->second = out_.add(std::move(made));
      head_.push_back(found->second);
    }
    return to_[at(v)] = found->second;
  }

  Value emit(int32_t number) {
    Value& made = emits_[static_cast<size_t>(number)];
    if (made != kNone) return made;
    if (deep_ >= kMostDeep) emit_operands(number);
    const Deeper deeper(&deep_);
    const BlockFact& fact = facts_.blocks.list[static_cast<size_t>(number)];
    if (started_[at(fact.members[0])]) fail(fact.members[0], "is in a block that waits for itself");
    started_[at(fact.members[0])] = true;
    Op record;
    record.code = Opcode::Emit;
    record.type = int_type_;
    record.i = number;
    record.loc = fact.loc;
    for (const Value v : fact.tensors) record.args.push_back(refer(v));
    for (const Value v : fact.ints) record.args.push_back(need(v));
    return made = append(std::move(record));
  }

  // The blocks that a block waits for, however many in a row, each after those that it waits for itself.
  void emit_operands(int32_t number) {
    std::vector<int32_t> open{number};
    while (!open.empty()) {
      const int32_t last = open.back();
      int32_t first = -1;
      for (const Value a : facts_.blocks.list[static_cast<size_t>(last)].tensors) {
        const Value v = analysis::behind_marks(fn_, a);
        if (to_[at(v)] != kNone || !analysis::is_tensor_op(op(v).code)) continue;
        const int32_t block = facts_.blocks.block_of[f_][at(v)];
        if (block >= 0 && emits_[static_cast<size_t>(block)] == kNone) {
          first = block;
          break;
        }
      }
      if (first >= 0 && open.size() <= facts_.blocks.list.size()) {
        open.push_back(first);
        continue;
      }
      open.pop_back();
      if (last != number) emit(last);
    }
  }

  // Copies a host operation after what it uses, regions included.
  Value need(Value v) {
    if (to_[at(v)] != kNone) return to_[at(v)];
    const Op& source = op(v);
    if (started_[at(v)]) fail(v, "waits for itself");
    started_[at(v)] = true;
    Op made = source;
    made.regions.clear();
    for (Value& a : made.args) a = refer(a);
    for (const ir::Region& r : source.regions) prepare(r, layout_.region_of[at(v)]);
    for (const ir::Region& r : source.regions) {
      ir::Region inner = region(r);
      made.regions.push_back(std::move(inner));
    }
    return to_[at(v)] = append(std::move(made));
  }

  // What the inside of r uses of region `here` has to stand before the operation that holds r.
  void prepare(const ir::Region& r, int32_t here) {
    const auto use = [&](Value v) {
      v = analysis::behind_marks(fn_, v);
      if (layout_.region_of[at(v)] == here) refer(v);
    };
    use(r.result);
    analysis::for_each_op(fn_, r, [&](Value v) {
      const Op& o = op(v);
      for (const ir::Region& inner : o.regions) use(inner.result);
      if (o.code == Opcode::Phase) return;
      if (!analysis::is_tensor_op(o.code)) {
        for (const Value a : o.args) use(a);
        return;
      }
      const int32_t block = facts_.blocks.block_of[f_][at(v)];
      if (block < 0) return;
      const BlockFact& fact = facts_.blocks.list[static_cast<size_t>(block)];
      if (fact.members[0] != v) return;  // once a block
      for (const Value a : fact.tensors) use(a);
      for (const Value a : fact.ints) use(a);
    });
  }

  // As long as it lives, emit() stands one deeper in itself.
  class Deeper {
   public:
    explicit Deeper(int* deep) : deep_(deep) { ++*deep_; }
    ~Deeper() { --*deep_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int* deep_;
  };
  static constexpr int kMostDeep = 100;  // regions and shorter chains of blocks go by recursion, in the order of use

  [[noreturn]] void fail(Value v, const char* rule) const {
    throw Error(ErrorKind::Internal,
                fmt::format("lower: fn {}, %{} ({}): {}", fn_.name, v, ir::name(op(v).code), rule));
  }

  const ir::Program& program_;
  const Facts& facts_;
  const size_t f_;
  const ir::Function& fn_;
  const analysis::Layout& layout_;
  Plan& plan_;
  ir::TypeId int_type_ = -1;
  std::vector<Value> to_;
  std::vector<bool> started_;
  std::vector<Value> emits_;            // an entry a block
  std::map<int64_t, Value> constants_;  // a number -> its operation
  std::vector<Value> head_;             // the same, in order
  std::vector<Value>* body_ = nullptr;
  int deep_ = 0;  // in emit()
  ir::Function out_;
};

}  // namespace

Lowered lower(const ir::Program& specialised, const Facts& facts, bool fused) {
  Lowered result;
  Plan& plan = result.plan;
  ir::Program& host = result.host;
  const ir::Function& main = specialised.functions[static_cast<size_t>(specialised.main)];

  host.file = specialised.file;
  host.lines = specialised.lines;
  host.types = specialised.types;
  host.types.integer();  // Emit's type
  host.weights = specialised.weights;
  host.main = specialised.main;

  plan.name = program_name(specialised.file);
  plan.fused = fused;
  plan.types = host.types;
  for (const Value p : main.body.params) plan.main_params.push_back(main.ops[static_cast<size_t>(p)].type);
  plan.main_result = main.result;
  for (const ir::Weight& w : specialised.weights) {
    Weight weight;
    weight.name = w.name;
    weight.dims = specialised.types[w.type].dims;
    plan.weights.push_back(std::move(weight));
  }
  for (const ir::TypeId type : plan.main_params)
    for (const int64_t size : sizes_of(plan.types, type))
      plan.pools.push_back(size);  // finish() adds the others

  for (const BlockFact& fact : facts.blocks.list) add_block(specialised, facts, fact, &plan);
  for (size_t f = 0; f < specialised.functions.size(); ++f)
    host.functions.push_back(HostForm(specialised, facts, static_cast<int32_t>(f), &plan).run());
  for (const int64_t size : sizes_of(plan.types, plan.main_result))
    add_result_block(size, facts.blocks.phases, &plan);

  ir::verify(host, "lower");
  finish(&plan);
  return result;
}

}  // namespace rondo::plan
