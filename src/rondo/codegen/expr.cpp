#include "rondo/codegen/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rondo/error.h"

namespace rondo::codegen {

using plan::Expr;
using plan::Load;
using plan::Pointwise;
using plan::Sink;
using plan::Source;

const Dialect kCpu{"v8", true, "", "_v"};
const Dialect kCuda{"float", false, "__device__ ", "_f"};

void Text::line(std::string_view text) {
  if (!text.empty()) out_.append(static_cast<size_t>(depth_) * 2, ' ');
  out_ += text;
  out_ += '\n';
}
void Text::open(std::string_view text) {
  line(fmt::format("{} {{", text));
  ++depth_;
}
void Text::close(std::string_view text) {
  --depth_;
  line(fmt::format("}}{}", text));
}

std::string literal(double value) {
  const float f = static_cast<float>(value);
  if (std::isnan(f)) return "__builtin_nanf(\"\")";
  if (std::isinf(f)) return f > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
  std::string text = fmt::format("{:.9g}", f);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += 'f';
  return f < 0 || std::signbit(f) ? "(" + text + ")" : text;
}

std::string index_text(int64_t offset, const std::vector<int64_t>& strides,
                       const std::vector<std::string>& at) {
  std::string text;
  auto add = [&](const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  if (offset != 0) add(std::to_string(offset));
  for (size_t axis = 0; axis < strides.size() && axis < at.size(); ++axis) {
    if (strides[axis] == 0 || at[axis] == "0") continue;
    add(strides[axis] == 1 ? at[axis] : fmt::format("{} * {}", at[axis], strides[axis]));
  }
  return text.empty() ? "0" : text;
}

namespace {

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorKind::Internal,
              "code generation: " + what + "; this is a fault of Rondo's, please report it");
}

int64_t plain_offset(const plan::Plan& plan, int32_t weight) {
  const plan::Weight& w = plan.weights.at(static_cast<size_t>(weight));
  if (w.plain_offset < 0)
    broken(fmt::format("weight {} is read as given but has only packed copies", w.name));
  return w.plain_offset;
}

bool has_address(Source source) { return source != Source::Acc && source != Source::IntValue; }

// "a0 + 4 + x0 * 256"
std::string address(const std::string& base, const std::string& index) {
  return index == "0" ? base : base + " + " + index;
}

int64_t lane_stride(const std::vector<int64_t>& strides, const Place& place) {
  if (place.lane_axis < 0 || place.lane_axis >= static_cast<int>(strides.size())) return 0;
  return strides[static_cast<size_t>(place.lane_axis)];
}

std::string load_text(const plan::Plan& plan, const Load& load, const Place& place, const Dialect& dialect,
                      int64_t acc_row) {
  if (load.source == Source::IntValue) {
    const std::string value = fmt::format("(float)n{}", load.column);
    return dialect.vectors ? fmt::format("splat({})", value) : value;
  }
  if (load.source == Source::Acc) {
    if (!dialect.vectors) return fmt::format("acc[{}]", load.index);
    if (place.lane_axis == 0) return fmt::format("load<8>(acc + {})", load.index * plan::kUnit);
    return fmt::format("load<{}>(acc + {}, {})", place.lanes, load.index * plan::kUnit, acc_row);
  }
  const std::string from = address(base_text(plan, load), index_text(load.offset, load.strides, place.at));
  if (!dialect.vectors) {
    const bool fixed = load.source == Source::Weight || load.source == Source::WeightRow;
    return fmt::format("{}({})", fixed ? "__ldg" : "*", from);
  }
  const int64_t stride = lane_stride(load.strides, place);
  if (stride == 0) return fmt::format("splat(*({}))", from);
  if (stride == 1) return fmt::format("load<{}>({})", place.lanes, from);
  return fmt::format("load<{}>({}, {})", place.lanes, from, stride);
}

std::string function_name(Pointwise code) {
  switch (code) {
    case Pointwise::Max:
      return "max";
    case Pointwise::Min:
      return "min";
    case Pointwise::Pow:
      return "pow";
    case Pointwise::Exp:
      return "exp";
    case Pointwise::Log:
      return "log";
    case Pointwise::Sqrt:
      return "sqrt";
    case Pointwise::Abs:
      return "abs";
    case Pointwise::Sigmoid:
      return "sigmoid";
    case Pointwise::Tanh:
      return "tanh";
    case Pointwise::Relu:
      return "relu";
    case Pointwise::Gelu:
      return "gelu";
    case Pointwise::Erf:
      return "erf";
    case Pointwise::Sin:
      return "sin";
    case Pointwise::Cos:
      return "cos";
    case Pointwise::Floor:
      return "floor";
    default:
      break;
  }
  broken(fmt::format("pointwise operation {} is not a function", static_cast<int>(code)));
}

std::string value_text(const plan::Plan& plan, const std::vector<Expr>& exprs, const Expr& e,
                       const Place& place, const Dialect& dialect, int64_t acc_row) {
  const auto binary = [&](char op) { return fmt::format("e{} {} e{}", e.a, op, e.b); };
  switch (e.code) {
    case Pointwise::Imm:
      return dialect.vectors ? fmt::format("splat({})", literal(e.imm)) : literal(e.imm);
    case Pointwise::Load:
      return load_text(plan, e.load, place, dialect, acc_row);
    case Pointwise::Add:
      return binary('+');
    case Pointwise::Sub:
      return binary('-');
    case Pointwise::Mul:
      return binary('*');
    case Pointwise::Div:
      return binary('/');
    case Pointwise::Neg:
      return fmt::format("-e{}", e.a);
    case Pointwise::Pow: {
      // Squares are common and need no pow; x * x is also what pow(x, 2) rounds to.
      const Expr& exponent = exprs[static_cast<size_t>(e.b)];
      if (exponent.code == Pointwise::Imm && exponent.imm == 2) return fmt::format("e{0} * e{0}", e.a);
      if (exponent.code == Pointwise::Imm && exponent.imm == 1) return fmt::format("e{}", e.a);
      [[fallthrough]];
    }
    case Pointwise::Max:
    case Pointwise::Min:
      return fmt::format("{}{}(e{}, e{})", function_name(e.code), dialect.suffix, e.a, e.b);
    default:
      return fmt::format("{}{}(e{})", function_name(e.code), dialect.suffix, e.a);
  }
}

bool is_binary(Pointwise code) { return code >= Pointwise::Add && code <= Pointwise::Pow; }

}  // namespace

std::string base_text(const plan::Plan& plan, const Load& load) {
  std::string text;
  switch (load.source) {
    case Source::Operand:
      text = fmt::format("a{}", load.index);
      break;
    case Source::Output:
      text = fmt::format("o{}", load.index);
      break;
    case Source::Temp:
      text = fmt::format("t{}", load.index);
      break;
    case Source::Weight:
    case Source::WeightRow:
      text = address("weights", std::to_string(plain_offset(plan, load.index)));
      break;
    default:
      broken("a value that has no address is used as one");
  }
  if (load.column >= 0) text += fmt::format(" + (int64_t)n{} * {}", load.column, load.row_scale);
  return text;
}

void Uses::add(const Load& load) {
  if (load.source == Source::Operand) operands.insert(load.index);
  if (load.source == Source::Output) outputs.insert(load.index);
  if (load.column >= 0) ints.insert(load.column);
}
void Uses::add(const plan::Store& store) {
  if (store.sink == Sink::Output) outputs.insert(store.index);
  if (store.sink == Sink::Result) result = true;
}
void Uses::add(const std::vector<Expr>& exprs, const std::vector<int32_t>& roots) {
  const std::vector<bool> need = needed(exprs, roots);
  for (size_t i = 0; i < exprs.size(); ++i)
    if (need[i] && exprs[i].code == Pointwise::Load) add(exprs[i].load);
}

Uses uses_of(const plan::Kernel& kernel) {
  Uses uses;
  if (kernel.is_gemm) {
    for (const plan::Segment& segment : kernel.gemm.segments) uses.add(segment.a);
    for (const plan::Store& store : kernel.gemm.stores) {
      uses.add(kernel.gemm.exprs, {store.value});
      uses.add(store);
    }
  }
  for (const plan::Step& step : kernel.steps) {
    uses.add(step.exprs, {step.store.value});
    uses.add(step.store);
  }
  return uses;
}

int64_t table_header(const plan::Plan& plan) { return 4 * static_cast<int64_t>(plan.pools.size()); }
int64_t descriptor_words(const plan::Plan& plan) { return 2 + plan.bases; }
int32_t pool_of(const plan::Plan& plan, int64_t size) {
  const auto at = std::lower_bound(plan.pools.begin(), plan.pools.end(), size);
  if (at == plan.pools.end() || *at != size) broken(fmt::format("no pool holds rows of {} elements", size));
  return static_cast<int32_t>(at - plan.pools.begin());
}

void emit_bucket(Text* text, const plan::Plan& plan, int32_t number, const Uses& uses) {
  const plan::Block& block = plan.blocks.at(static_cast<size_t>(number));
  text->line(fmt::format("const uint32_t* const d = table + {} + ((uint64_t)level * {} + {}) * {};",
                         table_header(plan), plan.blocks.size(), number, descriptor_words(plan)));
  text->line("const uint32_t count = d[0];");
  text->line("const uint32_t* const index = table + d[1];");
  std::set<int32_t> pools;
  for (int32_t c : uses.operands) pools.insert(pool_of(plan, block.operands.at(static_cast<size_t>(c)).size));
  for (int32_t o : uses.outputs) pools.insert(block.outputs.at(static_cast<size_t>(o)).pool);
  for (int32_t p : pools) text->line(fmt::format("float* const p{0} = pool_at(table, {0});", p));
  if (uses.result)
    text->line(fmt::format("float* const results = pool_at(table, {});",
                           plan.pools.size() + static_cast<size_t>(block.result_pool)));
}

void emit_row(Text* text, const plan::Plan& plan, const plan::Block& block, const Uses& uses) {
  const auto column = [](int32_t c) {
    return c == 0 ? std::string("i") : fmt::format("(uint64_t){} * count + i", c);
  };
  for (int32_t c : uses.operands) {
    const int64_t size = block.operands.at(static_cast<size_t>(c)).size;
    text->line(fmt::format("const float* const a{} = p{} + (uint64_t)index[{}] * {};", c, pool_of(plan, size),
                           column(c), size));
  }
  for (int32_t c : uses.ints)
    text->line(fmt::format("const int32_t n{} = (int32_t)index[{}];", c, column(c)));
  for (int32_t o : uses.outputs) {
    const plan::Output& out = block.outputs.at(static_cast<size_t>(o));
    const auto base = std::find(block.base_pools.begin(), block.base_pools.end(), out.pool);
    if (base == block.base_pools.end())
      broken(fmt::format("output {} of block {} has no pool base", o, block.name));
    text->line(fmt::format("float* const o{} = p{} + ((uint64_t)d[{}] + (uint64_t)i * {} + {}) * {};", o,
                           out.pool, 2 + (base - block.base_pools.begin()),
                           block.pool_rows.at(static_cast<size_t>(out.pool)), out.sub, out.size));
  }
  if (uses.result)
    text->line(fmt::format("float* const out = results + (uint64_t)i * {};",
                           plan.pools.at(static_cast<size_t>(block.result_pool))));
}

std::vector<bool> needed(const std::vector<Expr>& exprs, const std::vector<int32_t>& roots) {
  std::vector<bool> need(exprs.size(), false);
  for (int32_t root : roots) need.at(static_cast<size_t>(root)) = true;
  for (size_t i = exprs.size(); i-- > 0;) {
    if (!need[i] || exprs[i].code == Pointwise::Imm || exprs[i].code == Pointwise::Load) continue;
    need.at(static_cast<size_t>(exprs[i].a)) = true;
    if (is_binary(exprs[i].code)) need.at(static_cast<size_t>(exprs[i].b)) = true;
  }
  return need;
}

int64_t cost_of(const std::vector<Expr>& exprs, const std::vector<int32_t>& roots) {
  const std::vector<bool> need = needed(exprs, roots);
  int64_t cost = 1;
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (!need[i]) continue;
    const Pointwise code = exprs[i].code;
    if (code == Pointwise::Pow)
      cost += 60;
    else if (code >= Pointwise::Exp && code != Pointwise::Abs && code != Pointwise::Relu &&
             code != Pointwise::Floor)
      cost += 12;
    else
      cost += 1;
  }
  return cost;
}

void emit_exprs(Text* text, const plan::Plan& plan, const std::vector<Expr>& exprs,
                const std::vector<int32_t>& roots, const Place& place, const Dialect& dialect,
                int64_t acc_row, const std::vector<std::string>* given) {
  const std::vector<bool> need = needed(exprs, roots);
  for (size_t i = 0; i < exprs.size(); ++i)
    if (need[i])
      text->line(fmt::format("const {} e{} = {};", dialect.value, i,
                             given && !(*given)[i].empty()
                                 ? (*given)[i]
                                 : value_text(plan, exprs, exprs[i], place, dialect, acc_row)));
}

std::string address_text(const plan::Store& store, const std::vector<std::string>& at) {
  const std::string base = store.sink == Sink::Output ? fmt::format("o{}", store.index)
                           : store.sink == Sink::Temp ? fmt::format("t{}", store.index)
                                                      : std::string("out");
  return address(base, index_text(store.offset, store.strides, at));
}

void emit_store(Text* text, const plan::Store& store, const Place& place, const Dialect& dialect) {
  const std::string to = address_text(store, place.at);
  if (!dialect.vectors) return text->line(fmt::format("*({}) = e{};", to, store.value));
  const int64_t stride = lane_stride(store.strides, place);
  if (place.lane_axis < 0 || stride == 1)
    text->line(fmt::format("store<{}>({}, e{});", place.lanes, to, store.value));
  else
    text->line(fmt::format("store<{}>({}, e{}, {});", place.lanes, to, store.value, stride));
}

plan::Step simplified(const plan::Step& step) {
  plan::Step s = step;
  const std::vector<bool> need = needed(s.exprs, {s.store.value});
  std::vector<std::vector<int64_t>*> all{&s.store.strides};
  for (size_t i = 0; i < s.exprs.size(); ++i)
    if (need[i] && s.exprs[i].code == Pointwise::Load && has_address(s.exprs[i].load.source))
      all.push_back(&s.exprs[i].load.strides);
  for (auto* strides : all)
    strides->resize(s.dims.size() + (s.op == plan::Reduce::None || strides == all[0] ? 0 : 1), 0);
  const auto drop = [&](size_t axis) {
    s.dims.erase(s.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    for (auto* strides : all) strides->erase(strides->begin() + static_cast<std::ptrdiff_t>(axis));
  };
  for (size_t axis = s.dims.size(); axis-- > 0;)
    if (s.dims[axis] == 1) drop(axis);
  for (size_t axis = s.dims.size(); axis-- > 1;) {
    const bool joins = std::all_of(all.begin(), all.end(), [&](const std::vector<int64_t>* strides) {
      return (*strides)[axis - 1] == (*strides)[axis] * s.dims[axis];
    });
    if (!joins) continue;
    s.dims[axis] *= s.dims[axis - 1];
    drop(axis - 1);
  }
  return s;
}

}  // namespace rondo::codegen
