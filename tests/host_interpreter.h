// Runs a lowered program for one instance, plainly: the host form operation by operation, each Emit by
// running its block's kernels (plan_interpreter.h). What the compiler's output means, before any code is
// generated. On the way it checks what the run-time relies on: a block reads no later phase, and the level
// that the host program will compute (first_level, looked-up operands) is the exact one, 1 + the highest
// level among all operands of its phase.
#pragma once
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan_interpreter.h"
#include "rondo/ir/evaluate.h"
#include "rondo/plan/lower.h"

namespace rondo::testing {

class HostInterpreter {
 public:
  HostInterpreter(const plan::Lowered& lowered, const std::vector<ir::WeightData>& weights) : l_(lowered) {
    for (const plan::Weight& w : l_.plan.weights)
      for (const ir::WeightData& data : weights)
        if (data.name == w.name) weights_.push_back(data.values);
  }

  ir::EvalValue run(const std::vector<ir::EvalValue>& arguments) {
    const ir::Function& main = fn(l_.host.main);
    std::vector<Val> args;
    for (size_t k = 0; k < arguments.size(); ++k) args.push_back(given(arguments[k]));
    return back(call(l_.host.main, args), main.result);
  }

  std::vector<size_t> records;  // an entry a block: how often it ran

 private:
  struct Row {
    std::vector<double> values;
    int32_t phase = 0, level = 0;
  };
  struct Val {
    int64_t number = 0;              // Int, Bool; Adt: constructor
    std::shared_ptr<const Row> row;  // Tensor
    std::vector<Val> parts;          // Tuple, List, Adt; Emit: outputs
  };

  const ir::Function& fn(int64_t f) const { return l_.host.functions[static_cast<size_t>(f)]; }

  static Val given(const ir::EvalValue& v) {
    Val val;
    if (v.kind() == ir::EvalValue::Kind::Tensor)
      val.row = std::make_shared<Row>(Row{v.values(), 0, 0});
    else if (v.kind() == ir::EvalValue::Kind::Int)
      val.number = v.integer();
    else {
      if (v.kind() == ir::EvalValue::Kind::Adt) val.number = v.constructor();
      for (const ir::EvalValue& part : v.parts()) val.parts.push_back(given(part));
    }
    return val;
  }

  ir::EvalValue back(const Val& v, TypeId id) const {
    const Type& t = l_.host.types[id];
    std::vector<ir::EvalValue> parts;
    for (size_t k = 0; k < v.parts.size(); ++k) {
      const TypeId part = t.kind == TypeKind::List    ? t.args[0]
                          : t.kind == TypeKind::Tuple ? t.args[k]
                                                      : l_.host.types.adts[static_cast<size_t>(t.adt)]
                                                            .constructors[static_cast<size_t>(v.number)]
                                                            .fields[k];
      parts.push_back(back(v.parts[k], part));
    }
    switch (t.kind) {
      case TypeKind::Tensor:
        return ir::EvalValue::tensor(t.dims, v.row->values);
      case TypeKind::Tuple:
        return ir::EvalValue::tuple(std::move(parts));
      case TypeKind::List:
        return ir::EvalValue::list(std::move(parts));
      case TypeKind::Adt:
        return ir::EvalValue::adt(v.number, std::move(parts));
      default:
        return ir::EvalValue::integer(v.number);
    }
  }

  Val call(int64_t f, const std::vector<Val>& args) {
    const ir::Function& function = fn(f);
    std::vector<Val> env(function.ops.size());
    return region(function, env, function.body, args);
  }

  Val region(const ir::Function& f, std::vector<Val>& env, const ir::Region& r,
             const std::vector<Val>& args) {
    for (size_t k = 0; k < args.size(); ++k) env[static_cast<size_t>(r.params[k])] = args[k];
    for (const ir::Value v : r.body) {
      Val made = operation(f, env, f.ops[static_cast<size_t>(v)]);
      env[static_cast<size_t>(v)] = std::move(made);
    }
    return env[static_cast<size_t>(r.result)];
  }

  static Val number(int64_t n) {
    Val v;
    v.number = n;
    return v;
  }

  Val operation(const ir::Function& f, std::vector<Val>& env, const ir::Op& op) {
    using ir::Opcode;
    std::vector<Val> a;
    for (const ir::Value v : op.args) a.push_back(env[static_cast<size_t>(v)]);
    Val out;
    switch (op.code) {
      case Opcode::Int:
      case Opcode::Bool:
        return number(op.i);
      case Opcode::IAdd:
        return number(a[0].number + a[1].number);
      case Opcode::ISub:
        return number(a[0].number - a[1].number);
      case Opcode::IMul:
        return number(a[0].number * a[1].number);
      case Opcode::IMin:
        return number(std::min(a[0].number, a[1].number));
      case Opcode::IMax:
        return number(std::max(a[0].number, a[1].number));
      case Opcode::ILt:
        return number(a[0].number < a[1].number);
      case Opcode::ILe:
        return number(a[0].number <= a[1].number);
      case Opcode::IEq:
        return number(a[0].number == a[1].number);
      case Opcode::And:
        return number(a[0].number && a[1].number);
      case Opcode::Or:
        return number(a[0].number || a[1].number);
      case Opcode::Not:
        return number(!a[0].number);
      case Opcode::List:
      case Opcode::Tuple:
        out.parts = a;
        return out;
      case Opcode::Construct:
        out.parts = a;
        out.number = op.i;
        return out;
      case Opcode::TupleGet:
      case Opcode::Field:
        return a[0].parts.at(static_cast<size_t>(op.i));
      case Opcode::ListGet:
        return a[0].parts.at(static_cast<size_t>(a[1].number));
      case Opcode::Len:
        return number(static_cast<int64_t>(a[0].parts.size()));
      case Opcode::Cons:
        out.parts = a[1].parts;
        out.parts.insert(out.parts.begin(), a[0]);
        return out;
      case Opcode::Append:
        out.parts = a[0].parts;
        out.parts.insert(out.parts.end(), a[1].parts.begin(), a[1].parts.end());
        return out;
      case Opcode::Reverse:
        out.parts.assign(a[0].parts.rbegin(), a[0].parts.rend());
        return out;
      case Opcode::Range:
        for (int64_t n = a[0].number; n < a[1].number; ++n) out.parts.push_back(number(n));
        return out;
      case Opcode::Zip: {
        size_t length = a[0].parts.size();
        for (const Val& list : a) length = std::min(length, list.parts.size());
        for (size_t k = 0; k < length; ++k) {
          Val row;
          for (const Val& list : a) row.parts.push_back(list.parts[k]);
          out.parts.push_back(std::move(row));
        }
        return out;
      }
      case Opcode::Call:
        return call(op.i, a);
      case Opcode::Match:
        return region(f, env, op.regions.at(static_cast<size_t>(a[0].number)), a[0].parts);
      case Opcode::MatchList: {
        if (a[0].parts.empty()) return region(f, env, op.regions[0], {});
        Val rest;
        rest.parts.assign(a[0].parts.begin() + 1, a[0].parts.end());
        return region(f, env, op.regions[1], {a[0].parts[0], rest});
      }
      case Opcode::If:
        return region(f, env, op.regions[a[0].number ? 0 : 1], {});
      case Opcode::Map:
        for (const Val& element : a[0].parts) out.parts.push_back(region(f, env, op.regions[0], {element}));
        return out;
      case Opcode::Fold:
      case Opcode::Scan: {
        Val acc = a[1];
        for (const Val& element : a[0].parts) {
          acc = region(f, env, op.regions[0], {acc, element});
          out.parts.push_back(acc);
        }
        return op.code == Opcode::Fold ? acc : out;
      }
      case Opcode::Constant:
        return constant(op.i);
      case Opcode::EmitOut:
        return a[0].parts.at(static_cast<size_t>(op.i));
      case Opcode::Emit:
        return emit(op.i, a);
      default:
        throw std::logic_error(std::string("host form holds ") + ir::name(op.code));
    }
  }

  Val constant(int64_t index) const {
    const plan::Constant& c = l_.plan.constants.at(static_cast<size_t>(index));
    Row row;
    plan::each(c.dims, [&](const std::vector<int64_t>& at) {
      int64_t offset = c.offset;
      for (size_t k = 0; k < at.size(); ++k) offset += at[k] * c.strides[k];
      row.values.push_back(
          c.weight < 0 ? c.fill : weights_.at(static_cast<size_t>(c.weight)).at(static_cast<size_t>(offset)));
    });
    Val v;
    v.row = std::make_shared<Row>(std::move(row));
    return v;
  }

  static void require(bool holds, const plan::Block& block, const char* rule) {
    if (!holds) throw std::logic_error("block " + block.name + ": " + rule);
  }

  Val emit(int64_t number, const std::vector<Val>& args) {
    const plan::Block& block = l_.plan.blocks.at(static_cast<size_t>(number));
    records.resize(l_.plan.blocks.size());
    ++records[static_cast<size_t>(number)];
    require(args.size() == block.operands.size(), block, "wrong number of operands");
    plan::BlockRun run;
    run.weights = weights_;
    int32_t exact = 1, computed = block.first_level;
    for (size_t k = 0; k < args.size(); ++k) {
      if (block.operands[k].is_int) {
        const int64_t n = args[k].number;
        require(block.operands[k].size == 0 || (n >= 0 && n < block.operands[k].size), block,
                "an int is out of range");
        run.operands.push_back({static_cast<double>(n)});
        continue;
      }
      const Row& row = *args[k].row;
      require(static_cast<int64_t>(row.values.size()) == block.operands[k].size, block,
              "a tensor of another size");
      require(row.phase <= block.phase, block, "reads a later phase");
      const int32_t level = row.phase == block.phase ? row.level : 0;
      exact = std::max(exact, level + 1);
      if (!block.fixed_level && block.depth_operand.at(k)) computed = std::max(computed, level + 1);
      run.operands.push_back(row.values);
    }
    require(exact == computed, block, "its level is not 1 + the highest of its operands");
    plan::run_block(block, run);
    Val out;
    for (size_t o = 0; o < block.outputs.size(); ++o) {
      if (block.outputs[o].internal) continue;
      Val v;
      v.row = std::make_shared<Row>(Row{run.outputs[o], block.phase, exact});
      out.parts.push_back(std::move(v));
    }
    return out;
  }

  const plan::Lowered& l_;
  std::vector<std::vector<double>> weights_;
};

}  // namespace rondo::testing
