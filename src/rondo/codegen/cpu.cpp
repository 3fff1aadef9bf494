// CPU kernels: a function a kernel, run tile by tile by the pool's threads. Products go through the prelude's
// register kernel, row steps are loops over rows with eight neighbouring elements a value.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rondo/codegen/codegen.h"
#include "rondo/codegen/expr.h"
#include "rondo/codegen/prelude.h"

namespace rondo::codegen {

namespace {

using plan::Reduce;

constexpr int kLanes = 8;
// As in prelude/cpu.h; the generated text asserts it.
constexpr int64_t kTileRows = 128, kSliceFloats = 5120;
// Sums of a tile at most; half of a usual L2 cache.
constexpr int64_t kSumFloats = 32768;

// ---------------------------------------------------------------- row steps

bool reads_memory(const plan::Expr& e) {
  return e.code == plan::Pointwise::Load && e.load.source != plan::Source::IntValue &&
         e.load.source != plan::Source::Acc;
}

// How badly the elements of a step lie along an axis: wasted lanes, and loads that have to be picked one by
// one.
double lane_cost(const plan::Step& step, size_t axis) {
  const bool reduced = axis == step.dims.size();
  const int64_t extent = reduced ? step.reduce : step.dims[axis];
  double cost = 1;
  const std::vector<bool> need = needed(step.exprs, {step.store.value});
  const auto price = [](int64_t stride) { return stride == 0 || stride == 1 ? 0.0 : 4.0; };
  for (size_t i = 0; i < step.exprs.size(); ++i)
    if (need[i] && reads_memory(step.exprs[i])) cost += price(step.exprs[i].load.strides[axis]);
  if (!reduced) cost += price(step.store.strides[axis]);
  const int64_t vectors = (extent + kLanes - 1) / kLanes;
  return cost * static_cast<double>(vectors * kLanes) / static_cast<double>(extent);
}

class StepWriter {
 public:
  StepWriter(Text* text, const plan::Plan& plan, const plan::Step& step)
      : text_(*text), plan_(plan), step_(simplified(step)), axes_(step_.dims.size()) {
    const bool reduces = step_.op != Reduce::None;
    double best = 0;
    for (size_t axis = 0; axis < axes_ + (reduces ? 1 : 0); ++axis) {
      const double cost = lane_cost(step_, axis);
      if (lane_ < 0 || cost <= best) lane_ = static_cast<int>(axis), best = cost;
    }
    for (size_t axis = 0; axis < axes_; ++axis) place_.at.push_back(fmt::format("x{}", axis));
    if (reduces) place_.at.push_back("k");
    place_.lane_axis = lane_;
  }

  void write() { loop(0); }

 private:
  void loop(size_t axis) {
    if (axis == axes_) return point();
    if (static_cast<int>(axis) == lane_) return loop(axis + 1);  // innermost, in point()
    text_.open(fmt::format("for (int64_t x{0} = 0; x{0} < {1}; ++x{0})", axis, step_.dims[axis]));
    loop(axis + 1);
    text_.close();
  }

  // Whole vectors in a loop, then what is left.
  template <class Body>
  void along(const std::string& name, int64_t extent, Body body) {
    const int64_t whole = extent / kLanes * kLanes;
    if (whole > 0) {
      text_.open(fmt::format("for (int64_t {0} = 0; {0} < {1}; {0} += {2})", name, whole, kLanes));
      body(kLanes);
      text_.close();
    }
    if (extent > whole) {
      text_.open("");
      text_.line(fmt::format("const int64_t {} = {};", name, whole));
      body(static_cast<int>(extent - whole));
      text_.close();
    }
  }

  void value(int lanes) {
    place_.lanes = lanes;
    emit_exprs(&text_, plan_, step_.exprs, {step_.store.value}, place_, kCpu);
  }
  void accumulate(int lanes, bool lanes_are_terms) {
    value(lanes);
    const std::string rest = step_.op == Reduce::Sum ? "0.0f" : "-__builtin_inff()";
    std::string term = fmt::format("e{}", step_.store.value);
    if (lanes_are_terms && lanes < kLanes) term = fmt::format("keep<{}>({}, {})", lanes, term, rest);
    text_.line(step_.op == Reduce::Sum ? fmt::format("total += {};", term)
                                       : fmt::format("total = max_v(total, {});", term));
  }

  void point() {
    const char* first =
        step_.op == Reduce::Max ? "v8 total = splat(-__builtin_inff());" : "v8 total = splat(0.0f);";
    if (step_.op == Reduce::None) {
      if (lane_ < 0) {
        text_.open("");
        value(1);
        emit_store(&text_, step_.store, place_, kCpu);
        text_.close();
      } else {
        along(fmt::format("x{}", lane_), step_.dims[static_cast<size_t>(lane_)], [&](int lanes) {
          value(lanes);
          emit_store(&text_, step_.store, place_, kCpu);
        });
      }
    } else if (lane_ == static_cast<int>(axes_)) {
      text_.open("");
      text_.line(first);
      along("k", step_.reduce, [&](int lanes) { accumulate(lanes, true); });
      text_.line(fmt::format("*({}) = {}_of_lanes(total);", address_text(step_.store, place_.at),
                             step_.op == Reduce::Sum ? "sum" : "max"));
      text_.close();
    } else {
      along(fmt::format("x{}", lane_), step_.dims[static_cast<size_t>(lane_)], [&](int lanes) {
        text_.line(first);
        text_.open(fmt::format("for (int64_t k = 0; k < {}; ++k)", step_.reduce));
        accumulate(lanes, false);
        text_.close();
        plan::Store store = step_.store;
        text_.line(fmt::format("const v8 e{} = total;", store.value));
        place_.lanes = lanes;
        emit_store(&text_, store, place_, kCpu);
      });
    }
  }

  Text& text_;
  const plan::Plan& plan_;
  plan::Step step_;
  size_t axes_;
  int lane_ = -1;
  Place place_;
};

int64_t cost_of(const plan::Kernel& kernel) {
  int64_t cost = 1;
  for (const plan::Step& step : kernel.steps) {
    int64_t points = std::max<int64_t>(step.reduce, 1);
    for (int64_t d : step.dims) points *= d;
    cost += points * codegen::cost_of(step.exprs, {step.store.value});
  }
  return cost;
}

int64_t emit_steps(Text* text, const plan::Plan& plan, int32_t number, const plan::Kernel& kernel, int id) {
  const int64_t cost = cost_of(kernel);
  text->open(fmt::format("static uint32_t {}_{}_tiles(uint32_t count)", kernel.name, id));
  text->line(fmt::format("return step_tiles(count, {}u);", cost));
  text->close();
  text->open(fmt::format(
      "static void {}_{}(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, "
      "float* scratch)",
      kernel.name, id));
  const Uses uses = uses_of(kernel);
  emit_bucket(text, plan, number, uses);
  int64_t temp_floats = 0;
  for (size_t t = 0; t < kernel.temps.size(); ++t) {
    text->line(fmt::format("float* const t{} = scratch + {};", t, temp_floats));
    temp_floats += (kernel.temps[t] + kLanes - 1) / kLanes * kLanes;
  }
  text->line(fmt::format("const uint32_t each = records_per_tile(count, {}u);", cost));
  text->line("const uint32_t first = tile * each, last = first + each < count ? first + each : count;");
  text->open("for (uint32_t i = first; i < last; ++i)");
  emit_row(text, plan, plan.blocks[static_cast<size_t>(number)], uses);
  for (const plan::Step& step : kernel.steps) StepWriter(text, plan, step).write();
  text->close();
  text->close();
  return temp_floats;
}

// ---------------------------------------------------------------- products

// A product by one segment with at most as many accumulators as fit the registers beside each other.
constexpr size_t kUsesAtOnce = 6;

// FC x RT rows a tile; the cut itself is computed by prelude/cpu.h from these.
int64_t depth_of(const plan::Gemm& gemm) {
  int64_t depth = 0;
  for (const plan::Segment& s : gemm.segments) depth += s.k * static_cast<int64_t>(s.uses.size());
  return std::max<int64_t>(depth, 1);
}
int64_t slice_of(const plan::Segment& segment) {
  const auto uses = static_cast<int64_t>(segment.uses.size());
  const int64_t k = kSliceFloats / (uses * plan::kUnit * (uses == 1 ? 2 : 1));
  return std::min(std::max<int64_t>(k / 8 * 8, 32), segment.k);
}
// Columns of A that lie apart are copied slice by slice.
bool gathers(const plan::Segment& segment) { return segment.a.strides.at(0) != 1 && segment.k > 1; }

// What multiply() knows of a segment: which accumulators it feeds. Segments that agree share the type, and
// with it the register kernels, which are most of what the host compiler has to do.
class SegmentTypes {
 public:
  std::string name(Text* text, const plan::Gemm& gemm, const plan::Segment& segment, size_t first,
                   size_t count) {
    std::string accs;
    for (size_t u = first; u < first + count; ++u)
      accs += fmt::format("{}{}", u == first ? "" : ", ", segment.uses[u].acc);
    const std::string key = fmt::format("{} of {}: {}", segment.uses.size(), gemm.accs, accs);
    const auto [at, added] = names_.emplace(key, fmt::format("Segment{}", names_.size()));
    if (added) {
      text->open(fmt::format("struct {}", at->second));
      text->line(fmt::format("static constexpr int U = {}, ACCS = {}, STRIDE = {};", count, gemm.accs,
                             static_cast<int64_t>(segment.uses.size()) * plan::kUnit));
      text->open("static constexpr int acc(int use)");
      text->line(fmt::format("constexpr int table[] = {{{}}};", accs));
      text->line("return table[use];");
      text->close();
      text->close(";");
    }
    return at->second;
  }

 private:
  std::map<std::string, std::string> names_;
};

// The uses of a segment in parts that fit the registers: (first, count).
std::vector<std::pair<size_t, size_t>> parts_of(const plan::Segment& segment) {
  std::vector<std::pair<size_t, size_t>> parts;
  const size_t uses = segment.uses.size(), count = (uses + kUsesAtOnce - 1) / kUsesAtOnce;
  for (size_t part = 0, done = 0; part < count; ++part) {
    const size_t each = (uses - done + count - part - 1) / (count - part);
    parts.emplace_back(done, each);
    done += each;
  }
  return parts;
}

void emit_segment(Text* text, const plan::Plan& plan, const plan::Block& block, const plan::Gemm& gemm,
                  const plan::Segment& segment, const std::vector<std::string>& types) {
  const int64_t slice = slice_of(segment), free_stride = gemm.free > 1 ? segment.a.strides.at(1) : 0;
  text->open("");
  text->open("for (int q = 0; q < rows; ++q)");
  text->line("const uint32_t i = r0 + (uint32_t)q / fn;");
  Uses uses;
  uses.add(segment.a);
  emit_row(text, plan, block, uses);
  std::string from = base_text(plan, segment.a);
  if (segment.a.offset != 0) from += fmt::format(" + {}", segment.a.offset);
  if (free_stride != 0) from += fmt::format(" + (int64_t)(f0 + (uint32_t)q % fn) * {}", free_stride);
  text->line(fmt::format("at[q] = {};", from));
  text->close();
  text->open(fmt::format("for (int64_t k0 = 0; k0 < {0}; k0 += {1})", segment.k, slice));
  text->line(fmt::format("const int64_t kn = k0 + {0} < {1} ? {0} : {1} - k0;", slice, segment.k));
  const bool gather = gathers(segment);
  if (gather) {
    text->line(
        fmt::format("gather_rows<{}, {}>(at, rows, k0, kn, gathered, picked);", slice, segment.a.strides[0]));
  }
  const auto uses_count = static_cast<int64_t>(segment.uses.size());
  const int64_t group_stride = segment.k * uses_count * plan::kUnit;
  text->line(fmt::format("const float* const w = weights + {} + (int64_t)g0 * {} + k0 * {};",
                         segment.pack_offset, group_stride, uses_count * plan::kUnit));
  const auto parts = parts_of(segment);
  for (size_t part = 0; part < parts.size(); ++part)
    text->line(fmt::format("multiply_groups<{}>({}, rows, {}, kn, w + {}, {}, gn, sums, sums_group);",
                           types[part], gather ? "picked" : "at", gather ? "0" : "k0",
                           static_cast<int64_t>(parts[part].first) * plan::kUnit, group_stride));
  text->close();
  text->close();
}

void emit_epilogue(Text* text, const plan::Plan& plan, const plan::Block& block, const plan::Gemm& gemm) {
  Uses uses;
  std::vector<int32_t> roots;
  bool f_contiguous = gemm.free > 1;
  for (const plan::Store& store : gemm.stores) {
    roots.push_back(store.value);
    uses.add(gemm.exprs, {store.value});
    uses.add(store);
    f_contiguous = f_contiguous && store.strides.at(1) == 1 && store.strides.at(0) != 1;
  }
  Place place;
  place.at = {"n", "f"};
  place.lane_axis = f_contiguous ? 1 : 0;
  const auto body = [&](int lanes) {
    place.lanes = lanes;
    emit_exprs(text, plan, gemm.exprs, roots, place, kCpu, gemm.accs * plan::kUnit);
    for (const plan::Store& store : gemm.stores) emit_store(text, store, place, kCpu);
  };
  text->open("for (uint32_t r = 0; r < rn; ++r)");
  text->line("const uint32_t i = r0 + r;");
  emit_row(text, plan, block, uses);
  text->open("for (int g = 0; g < gn; ++g)");
  text->line(fmt::format("const float* const sum = sums + g * sums_group + (int64_t)r * fn * {};",
                         gemm.accs * plan::kUnit));
  const int64_t tail = gemm.n % kLanes;
  if (f_contiguous) {
    text->line(
        fmt::format("const int64_t n0 = (int64_t)(g0 + g) * 8, n1 = n0 + 8 < {0} ? n0 + 8 : {0};", gemm.n));
    text->open("for (int64_t n = n0; n < n1; ++n)");
    text->line("uint32_t q = 0;");
    for (int lanes : {kLanes, 1}) {
      text->open(fmt::format("for (; q + {0} <= fn; q += {0})", lanes));
      text->line("const int64_t f = f0 + q;");
      text->line(
          fmt::format("const float* const acc = sum + (int64_t)q * {} + (n - n0);", gemm.accs * plan::kUnit));
      body(lanes);
      text->close();
    }
    text->close();
  } else {
    text->line("const int64_t n = (int64_t)(g0 + g) * 8;");
    text->open("for (uint32_t q = 0; q < fn; ++q)");
    text->line("const int64_t f = f0 + q;");
    text->line(fmt::format("const float* const acc = sum + (int64_t)q * {};", gemm.accs * plan::kUnit));
    if (tail == 0) {
      body(kLanes);
    } else {
      text->open(fmt::format("if (n + {} <= {})", kLanes, gemm.n));
      body(kLanes);
      text->close();
      text->open("else");
      body(static_cast<int>(tail));
      text->close();
    }
    text->close();
  }
  text->close();
  text->close();
}

int64_t emit_gemm(Text* text, SegmentTypes* types, const plan::Plan& plan, int32_t number,
                  const plan::Kernel& kernel, int id) {
  const plan::Gemm& gemm = kernel.gemm;
  const plan::Block& block = plan.blocks[static_cast<size_t>(number)];
  const std::string name = fmt::format("{}_{}", kernel.name, id);
  const int64_t acc_floats = gemm.accs * plan::kUnit;
  const int64_t sum_floats = std::max(kSumFloats, kTileRows * acc_floats);
  int64_t gather_floats = 0;
  std::vector<std::vector<std::string>> names;
  for (const plan::Segment& segment : gemm.segments) {
    names.emplace_back();
    for (const auto& [first, count] : parts_of(segment))
      names.back().push_back(types->name(text, gemm, segment, first, count));
    if (gathers(segment)) gather_floats = std::max(gather_floats, kTileRows * slice_of(segment));
  }
  const std::string cut =
      fmt::format("Cut<{}, {}, {}, {}>", gemm.n, gemm.free, depth_of(gemm), sum_floats / acc_floats);
  text->open(fmt::format("static uint32_t {}_tiles(uint32_t count)", name));
  text->line(fmt::format("return count == 0 ? 0 : {}::of(count).tiles();", cut));
  text->close();
  text->open(fmt::format(
      "static void {}(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, "
      "float* scratch)",
      name));
  emit_bucket(text, plan, number, uses_of(kernel));
  text->line(fmt::format("using C = {};", cut));
  text->line("const C cut = C::of(count);");
  text->line("const uint32_t g0 = tile % cut.g_tiles * cut.g_each, rest = tile / cut.g_tiles;");
  text->line("const uint32_t f0 = rest % C::f_tiles * C::f_each, r0 = rest / C::f_tiles * cut.r_each;");
  text->line("const int gn = (int)(g0 + cut.g_each < C::groups ? cut.g_each : C::groups - g0);");
  text->line(fmt::format("const uint32_t fn = f0 + C::f_each < {0} ? C::f_each : {0} - f0;", gemm.free));
  text->line("const uint32_t rn = r0 + cut.r_each < count ? cut.r_each : count - r0;");
  text->line("const int rows = (int)(rn * fn);");
  text->line("float* const sums = scratch;");
  text->line(fmt::format("const int64_t sums_group = (int64_t)rows * {};", acc_floats));
  text->line("memset(sums, 0, sizeof(float) * gn * sums_group);");
  text->line("const float* at[kTileRows];");
  if (gather_floats > 0) {
    text->line(fmt::format("float* const gathered = scratch + {};", sum_floats));
    text->line("const float* picked[kTileRows];");
  }
  for (size_t s = 0; s < gemm.segments.size(); ++s)
    emit_segment(text, plan, block, gemm, gemm.segments[s], names[s]);
  emit_epilogue(text, plan, block, gemm);
  text->close();
  return sum_floats + gather_floats;
}

}  // namespace

std::string emit_cpu_kernels(const plan::Plan& plan) {
  Text text, rows(1);
  text.line(fmt::format("// CPU kernels of {}, made by Rondo.", plan.name));
  text.raw(kAbiText);
  text.raw(kCpuPreludeText);
  text.line("");
  text.line(fmt::format("static_assert(kTileRows == {} && kSliceFloats == {}, \"as scratch is sized\");",
                        kTileRows, kSliceFloats));
  text.line("namespace {");
  SegmentTypes types;
  int id = 0;
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const auto number = static_cast<int32_t>(b);
    for (const plan::Kernel& kernel : plan.blocks[b].kernels) {
      text.line("");
      text.line(
          fmt::format("// {} ({}), stage {}", plan.blocks[b].name, plan.blocks[b].source, kernel.stage));
      const int64_t scratch = kernel.is_gemm ? emit_gemm(&text, &types, plan, number, kernel, id)
                                             : emit_steps(&text, plan, number, kernel, id);
      rows.line(fmt::format("{{\"{0}\", {1}, {2}, {3}, {0}_{4}_tiles, {0}_{4}}},", kernel.name, number,
                            kernel.stage, scratch, id));
      ++id;
    }
  }
  text.line("");
  if (id > 0) {
    text.line("const rondo::abi::CpuKernel kernels[] = {");
    text.raw(rows.str());
    text.line("};");
  }
  text.line(fmt::format("const rondo::abi::CpuModule module = {{rondo::abi::kVersion, {}, {}}};", id,
                        id > 0 ? "kernels" : "nullptr"));
  text.line("}  // namespace");
  text.line("extern \"C\" const rondo::abi::CpuModule* rondo_cpu_module() { return &module; }");
  return text.str();
}

}  // namespace rondo::codegen
