// The plan as text, and the rules that a plan keeps.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "rondo/error.h"
#include "rondo/plan/plan.h"

namespace rondo::plan {
namespace {

const char* name(Pointwise code) {
  static constexpr const char* kNames[] = {"imm", "load", "add", "sub", "mul", "div", "max", "min", "pow", "neg", "exp", "log",
                                           "sqrt", "abs", "sigmoid", "tanh", "relu", "gelu", "erf", "sin", "cos", "floor"};
  return kNames[static_cast<size_t>(code)];
}

std::string show(const Plan& plan, const Load& load) {
  std::string base;
  switch (load.source) {
    case Source::Operand: base = fmt::format("operand{}", load.index); break;
    case Source::Weight:
    case Source::WeightRow: base = plan.weights[static_cast<size_t>(load.index)].name; break;
    case Source::Output: base = fmt::format("out{}", load.index); break;
    case Source::Temp: base = fmt::format("temp{}", load.index); break;
    case Source::Acc: return fmt::format("acc{}", load.index);
    case Source::IntValue: return fmt::format("int{}", load.column);
  }
  std::string at = fmt::format("{}", load.offset);
  if (load.column >= 0) at += fmt::format(" + int{}*{}", load.column, load.row_scale);
  return fmt::format("{}[{}; {}]", base, at, fmt::join(load.strides, ","));
}

// Expressions of one list: nested, but what is used more than once has a line of its own.
class Shown {
 public:
  Shown(const Plan& plan, const std::vector<Expr>& exprs) : plan_(plan), exprs_(exprs), uses_(exprs.size()), lines_(exprs.size()) {
    for (const Expr& e : exprs)
      for (const int32_t s : {e.a, e.b})
        if (s >= 0) ++uses_[static_cast<size_t>(s)];
  }
  // The expression; lines of what it shares are appended to *before.
  std::string text(int32_t e, std::string* before) {
    const auto i = static_cast<size_t>(e);
    const Expr& x = exprs_[i];
    if (x.code == Pointwise::Imm) return fmt::format("{}", x.imm);
    if (x.code == Pointwise::Load) return show(plan_, x.load);
    if (uses_[i] <= 1) return call(x, before);
    if (!lines_[i]) {
      const std::string own = call(x, before);
      lines_[i] = true;
      *before += fmt::format("      e{} = {}\n", e, own);
    }
    return fmt::format("e{}", e);
  }

 private:
  std::string call(const Expr& x, std::string* before) {
    const std::string a = text(x.a, before);
    return x.b < 0 ? fmt::format("{}({})", name(x.code), a) : fmt::format("{}({}, {})", name(x.code), a, text(x.b, before));
  }
  const Plan& plan_;
  const std::vector<Expr>& exprs_;
  std::vector<int> uses_;
  std::vector<bool> lines_;
};

std::string show(const Store& store) {
  const char* sink = store.sink == Sink::Output ? "out" : store.sink == Sink::Temp ? "temp" : "result";
  return fmt::format("{}{}[{}; {}]", sink, store.index, store.offset, fmt::join(store.strides, ","));
}

std::string show(const Plan& plan, const Kernel& kernel) {
  std::string text;
  if (kernel.is_gemm) {
    const Gemm& g = kernel.gemm;
    text += fmt::format("    stage {} gemm {}: n {} free {} accs {}\n", kernel.stage, kernel.name, g.n, g.free, g.accs);
    for (const Segment& s : g.segments) {
      text += fmt::format("      k {} of {}:", s.k, show(plan, s.a));
      for (const SegmentUse& u : s.uses)
        text += fmt::format(" acc{}+={}[{};{},{}]", u.acc, plan.weights[static_cast<size_t>(u.weight)].name, u.offset, u.stride_n, u.stride_k);
      text += "\n";
    }
    Shown shown(plan, g.exprs);
    for (const Store& s : g.stores) {
      const std::string value = shown.text(s.value, &text);
      text += fmt::format("      {} = {}\n", show(s), value);
    }
    return text;
  }
  text += fmt::format("    stage {} rows {}: temps [{}]\n", kernel.stage, kernel.name, fmt::join(kernel.temps, ","));
  for (const Step& s : kernel.steps) {
    const std::string how = s.op == Reduce::None ? "" : fmt::format("{} over {} of ", s.op == Reduce::Sum ? "sum" : "max", s.reduce);
    Shown shown(plan, s.exprs);
    const std::string value = shown.text(s.store.value, &text);
    text += fmt::format("      [{}] {} = {}{}\n", fmt::join(s.dims, ","), show(s.store), how, value);
  }
  return text;
}

void check_exprs(const Plan& plan, const Block& b, const Kernel& k, const std::vector<Expr>& exprs, size_t axes, int32_t accs) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::Internal, fmt::format("plan: block {}, kernel {}: {}", b.name, k.name, what));
  };
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Expr& e = exprs[i];
    if (e.a >= static_cast<int32_t>(i) || e.b >= static_cast<int32_t>(i)) fail("an expression uses a later one");
    if (e.code != Pointwise::Load) continue;
    const Load& l = e.load;
    if (l.column >= 0 && (l.column >= static_cast<int32_t>(b.operands.size()) || !b.operands[static_cast<size_t>(l.column)].is_int))
      fail(fmt::format("column {} is no int operand", l.column));
    if (l.source == Source::Acc ? l.index >= accs
        : l.source == Source::IntValue ? l.column < 0
        : l.strides.size() != axes)
      fail("a load does not fit its index space: " + show(plan, l));
    if (l.source == Source::Operand && (l.index >= b.tensors || l.index < 0)) fail("no such tensor operand");
    if (l.source == Source::Output && l.index >= static_cast<int32_t>(b.outputs.size())) fail("no such output");
    if (l.source == Source::Temp && l.index >= static_cast<int32_t>(k.temps.size())) fail("no such temp");
  }
}

}  // namespace

void verify(const Plan& plan) {
  const auto fail = [&](const Block& b, const std::string& what) {
    throw Error(ErrorKind::Internal, fmt::format("plan: block {}: {}", b.name, what));
  };
  std::set<std::string> names;
  for (const Block& b : plan.blocks) {
    if (!names.insert(b.name).second) fail(b, "its name is not unique");
    if (b.phase < 0 || b.phase >= plan.phases || plan.phases > 16) fail(b, fmt::format("phase {} of {}", b.phase, plan.phases));
    if (b.first_level < 1) fail(b, "depths count from 1");
    int32_t tensors = 0;
    for (size_t i = 0; i < b.operands.size(); ++i)
      if (!b.operands[i].is_int && static_cast<int32_t>(i) != tensors++) fail(b, "tensor operands come before ints");
    if (tensors != b.tensors || b.depth_operand.size() != static_cast<size_t>(tensors)) fail(b, "its tensor operands are miscounted");
    if (b.result_pool < 0 && b.kernels.empty()) fail(b, "it has no kernel");
    for (const Kernel& k : b.kernels) {
      if (k.stage < 0 || k.stage >= b.stages) fail(b, "a kernel's stage is out of range");
      int64_t floats = 0;
      for (const int64_t t : k.temps) floats += t;
      if (floats > kTempFloats) fail(b, "its temps do not fit");
      if (k.is_gemm) {
        check_exprs(plan, b, k, k.gemm.exprs, 2, k.gemm.accs);
        std::vector<bool> fed(static_cast<size_t>(k.gemm.accs));
        for (const Segment& s : k.gemm.segments)
          for (const SegmentUse& u : s.uses) fed.at(static_cast<size_t>(u.acc)) = true;
        for (const bool f : fed)
          if (!f) fail(b, "an accumulator has no product");
      }
      for (const Step& s : k.steps) check_exprs(plan, b, k, s.exprs, s.dims.size() + (s.op == Reduce::None ? 0 : 1), 0);
    }
  }
  for (const Launch& l : plan.launches)
    for (const Launch::Item& item : l.items)
      if (plan.blocks.at(static_cast<size_t>(item.block)).kernels.at(static_cast<size_t>(item.kernel)).stage != l.stage)
        throw Error(ErrorKind::Internal, "plan: launch " + l.name + " holds a kernel of another stage");
}

std::string print(const Plan& plan) {
  std::string text = fmt::format("plan {}: {} blocks, {} phases, pools [{}], constants [{}], weights {} floats\n", plan.name, plan.blocks.size(),
                                 plan.phases, fmt::join(plan.pools, ","), fmt::join(plan.pool_constants, ","), plan.weight_floats);
  for (const Constant& c : plan.constants)
    text += c.weight < 0 ? fmt::format("constant f32[{}] row {} = {}\n", c.size, c.row, c.fill)
                         : fmt::format("constant f32[{}] row {} = {}[{}; {}]\n", c.size, c.row,
                                       plan.weights[static_cast<size_t>(c.weight)].name, c.offset, fmt::join(c.strides, ","));
  for (const Block& b : plan.blocks) {
    text += fmt::format("block {} ({}): phase {}, depth {}{}, {} stages\n", b.name, b.source, b.phase, b.first_level,
                        b.fixed_level ? "" : "..", b.stages);
    std::vector<std::string> in, out;
    for (size_t i = 0; i < b.operands.size(); ++i) {
      const Operand& o = b.operands[i];
      in.push_back(o.is_int ? "int" : fmt::format("f32[{}]{}", o.size, b.depth_operand[i] ? "" : " (depth known)"));
    }
    for (const Output& o : b.outputs) out.push_back(fmt::format("f32[{}]{}", o.size, o.internal ? " internal" : ""));
    text += fmt::format("  operands ({}) -> ({})\n", fmt::join(in, ", "), fmt::join(out, ", "));
    for (const Kernel& k : b.kernels) text += show(plan, k);
  }
  for (const Launch& l : plan.launches) {
    std::vector<std::string> items;
    for (const Launch::Item& i : l.items)
      items.push_back(plan.blocks[static_cast<size_t>(i.block)].kernels[static_cast<size_t>(i.kernel)].name);
    text += fmt::format("launch {}: depth {}{}, stage {}: {}\n", l.name, l.from_level,
                        l.to_level < 0 ? ".." : l.to_level == l.from_level ? "" : fmt::format("-{}", l.to_level), l.stage, fmt::join(items, " + "));
  }
  return text;
}

}  // namespace rondo::plan
