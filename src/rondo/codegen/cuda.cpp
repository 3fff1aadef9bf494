// CUDA kernels: one __global__ function a launch. Its blocks of 256 threads go round the tiles of all its items: tiles of
// gathered rows for a product (prelude/cuda.h), a few records for row steps.
//
// Row steps: a record belongs to a warp when it has little to compute, else to the whole block. Neighbouring threads take
// neighbouring elements; a reduction with few results gives each result a warp, whose lanes go along the reduced axis.
// Temps lie in shared memory. A barrier (of the warp or block) ends each step.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "rondo/batch/abi.h"
#include "rondo/codegen/codegen.h"
#include "rondo/codegen/expr.h"
#include "rondo/codegen/prelude.h"

namespace rondo::codegen {
namespace {

using plan::Reduce;
using plan::Source;

constexpr int kThreads = 256, kWarp = 32;
// A record with at most this many multiply-adds is left to one warp, so that a level's rows spread over the machine.
constexpr int64_t kWarpWork = 16384;

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

// ---------------------------------------------------------------- products

// Rows of the segment start at multiples of 16 bytes and are contiguous along k, in whole pieces of 16 bytes.
bool aligned(const plan::Plan& plan, const plan::Block& block, const plan::Gemm& gemm, const plan::Segment& s) {
  int64_t row = 0;
  switch (s.a.source) {
    case Source::Operand: row = block.operands.at(static_cast<size_t>(s.a.index)).size; break;
    case Source::Output: row = block.outputs.at(static_cast<size_t>(s.a.index)).size; break;
    case Source::Weight:
    case Source::WeightRow: row = plan.weights.at(static_cast<size_t>(s.a.index)).plain_offset; break;
    default: return false;
  }
  const bool free_fits = gemm.free == 1 || s.a.strides.at(1) % 4 == 0;
  return s.a.strides.at(0) == 1 && s.k % 4 == 0 && row % 4 == 0 && s.a.offset % 4 == 0 && s.a.row_scale % 4 == 0 && free_fits;
}

// What an epilogue reads from memory can be fetched while the product still runs.
struct Early {
  std::vector<int32_t> roots, loads;  // expressions: stored; read early, in order
  std::vector<bool> need;
  std::vector<std::string> given;     // an entry an expression: its text if it is read early, else ""
};
Early early_of(const plan::Gemm& gemm) {
  Early early;
  for (const plan::Store& store : gemm.stores) early.roots.push_back(store.value);
  early.need = needed(gemm.exprs, early.roots);
  early.given.resize(gemm.exprs.size());
  for (size_t e = 0; e < gemm.exprs.size(); ++e) {
    const plan::Expr& expr = gemm.exprs[e];
    if (!early.need[e] || expr.code != plan::Pointwise::Load) continue;
    if (expr.load.source == Source::Acc || expr.load.source == Source::IntValue) continue;
    early.given[e] = fmt::format("early[{}]", early.loads.size());
    early.loads.push_back(static_cast<int32_t>(e));
  }
  return early;
}

void emit_product(Text* text, const plan::Plan& plan, int32_t number, const plan::Kernel& kernel, const std::string& name) {
  const plan::Gemm& gemm = kernel.gemm;
  const plan::Block& block = plan.blocks[static_cast<size_t>(number)];
  const Uses all = uses_of(kernel);
  const Early early = early_of(gemm);
  std::vector<std::string> k, uses, vec, stride, pack;
  size_t most = 0;
  int64_t longest = 0;
  bool uniform = true;
  for (const plan::Segment& s : gemm.segments) {
    k.push_back(std::to_string(s.k));
    uses.push_back(std::to_string(s.uses.size()));
    vec.push_back(aligned(plan, block, gemm, s) ? "4" : "1");
    stride.push_back(std::to_string(s.a.strides.at(0)));
    pack.push_back(std::to_string(s.pack_offset));
    most = std::max(most, s.uses.size());
    longest = std::max(longest, s.k);
    uniform = uniform && static_cast<int32_t>(s.uses.size()) == gemm.accs;
    for (size_t u = 0; u < s.uses.size(); ++u) uniform = uniform && s.uses[u].acc == static_cast<int32_t>(u);
  }
  text->line("");
  text->line(fmt::format("// {} ({}), stage {}", block.name, block.source, kernel.stage));
  text->open(fmt::format("struct {}", name));
  text->line(fmt::format("static constexpr bool UNIFORM = {};", uniform));
  text->line(fmt::format("static constexpr int N = {}, FREE = {}, ACCS = {}, SEGMENTS = {}, MAX_USES = {}, MAX_K = {}, EARLY = {};", gemm.n,
                         gemm.free, gemm.accs, gemm.segments.size(), most, longest, std::max<size_t>(early.loads.size(), 1)));
  text->line(fmt::format("static constexpr int K[] = {{{}}}, USES[] = {{{}}}, VEC[] = {{{}}}, STRIDE_K[] = {{{}}};", join(k), join(uses),
                         join(vec), join(stride)));
  text->line(fmt::format("static constexpr long long PACK[] = {{{}}};", join(pack)));
  text->line("const float* weights;");
  text->line("const uint32_t* d;");
  text->line("uint32_t count;");
  text->line("const uint32_t* index;");
  std::set<int32_t> pools;
  for (const int32_t c : all.operands) pools.insert(pool_of(plan, block.operands.at(static_cast<size_t>(c)).size));
  for (const int32_t o : all.outputs) pools.insert(block.outputs.at(static_cast<size_t>(o)).pool);
  std::string init;
  for (const int32_t p : pools) {
    text->line(fmt::format("float* p{};", p));
    init += fmt::format(", p{0}(pool_at(table, {0}))", p);
  }
  text->line(fmt::format("__device__ {}(const uint32_t* table, const float* w, uint32_t level) : weights(w), "
                         "d(table + {} + ((uint64_t)level * {} + {}) * {}), count(d[0]), index(table + d[1]){} {{}}",
                         name, table_header(plan), plan.blocks.size(), number, descriptor_words(plan), init));

  text->open("template <int S> __device__ static constexpr int acc_of(int g)");
  for (size_t s = 0; s < gemm.segments.size(); ++s) {
    std::vector<std::string> accs;
    for (const plan::SegmentUse& u : gemm.segments[s].uses) accs.push_back(std::to_string(u.acc));
    text->line(fmt::format("if constexpr (S == {}) {{ constexpr int table[] = {{{}}}; return table[g]; }}", s, join(accs)));
  }
  text->line("return 0;");
  text->close();

  text->open("template <int S> __device__ const float* a_row(uint32_t i, uint32_t f) const");
  for (size_t s = 0; s < gemm.segments.size(); ++s) {
    const plan::Segment& segment = gemm.segments[s];
    text->open(fmt::format("if constexpr (S == {})", s));
    Uses used;
    used.add(segment.a);
    emit_row(text, plan, block, used);
    const int64_t f_stride = gemm.free > 1 ? segment.a.strides.at(1) : 0;
    const std::string at = index_text(segment.a.offset, {f_stride}, {"f"});
    text->line(fmt::format("return {}{};", base_text(plan, segment.a), at == "0" ? "" : " + " + at));
    text->close();
  }
  text->line("return nullptr;");
  text->close();

  Place place;
  place.at = {"n", "f"};
  text->open(fmt::format("__device__ void load(uint32_t i, uint32_t f, uint32_t n, float (&early)[{}]) const", std::max<size_t>(early.loads.size(), 1)));
  Uses read;
  for (const int32_t e : early.loads) read.add(gemm.exprs[static_cast<size_t>(e)].load);
  emit_row(text, plan, block, read);
  emit_exprs(text, plan, gemm.exprs, early.loads, place, kCuda);
  for (size_t j = 0; j < early.loads.size(); ++j) text->line(fmt::format("early[{}] = e{};", j, early.loads[j]));
  text->close();

  text->open(fmt::format("__device__ void epilogue(uint32_t i, uint32_t f, uint32_t n, const float (&acc)[{}], const float (&early)[{}]) const",
                         gemm.accs, std::max<size_t>(early.loads.size(), 1)));
  Uses used;
  for (const plan::Store& store : gemm.stores) used.add(store);
  for (size_t e = 0; e < gemm.exprs.size(); ++e)
    if (early.need[e] && early.given[e].empty() && gemm.exprs[e].code == plan::Pointwise::Load) used.add(gemm.exprs[e].load);
  emit_row(text, plan, block, used);
  emit_exprs(text, plan, gemm.exprs, early.roots, place, kCuda, 0, &early.given);
  for (const plan::Store& store : gemm.stores) emit_store(text, store, place, kCuda);
  text->close();
  text->close(";");
}

// ---------------------------------------------------------------- row steps

struct RowShape {
  int threads = kThreads;  // that share a record
  int64_t temp_floats = 0;
  int records() const { return kThreads / threads; }
  uint32_t shared_bytes() const { return static_cast<uint32_t>(temp_floats * records() * 4); }
};

RowShape shape_of(const plan::Kernel& kernel) {
  RowShape shape;
  int64_t work = 0;
  for (const plan::Step& step : kernel.steps) {
    int64_t points = std::max<int64_t>(step.reduce, 1);
    for (const int64_t d : step.dims) points *= d;
    work += points * codegen::cost_of(step.exprs, {step.store.value});
  }
  for (const int64_t t : kernel.temps) shape.temp_floats += (t + 3) / 4 * 4;
  if (work <= kWarpWork && shape.temp_floats * (kThreads / kWarp) <= plan::kTempFloats) shape.threads = kWarp;
  return shape;
}

// Coordinates x0, x1, .. of point p, which runs through `dims` in row-major order.
void emit_coordinates(Text* text, const std::vector<int64_t>& dims) {
  int64_t inner = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    std::string x = inner == 1 ? "p" : fmt::format("p / {}", inner);
    if (axis > 0) x = fmt::format("({}) % {}", x, dims[axis]);
    text->line(fmt::format("const uint32_t x{} = {};", axis, x));
    inner *= dims[axis];
  }
}

void emit_step(Text* text, const plan::Plan& plan, const plan::Step& given, const RowShape& shape) {
  const plan::Step step = simplified(given);
  int64_t points = 1;
  Place place;
  for (size_t axis = 0; axis < step.dims.size(); ++axis) {
    points *= step.dims[axis];
    place.at.push_back(fmt::format("x{}", axis));
  }
  const bool reduces = step.op != Reduce::None;
  if (reduces) place.at.push_back("k");
  const std::string first = step.op == Reduce::Max ? "-__builtin_inff()" : "0.0f";
  const auto combine = [&](const std::string& other) {
    return step.op == Reduce::Sum ? fmt::format("total += {};", other) : fmt::format("total = max_f(total, {});", other);
  };
  // Warps of a record, and whether each result gets one.
  const int warps = shape.threads / kWarp;
  const bool warp_a_result = reduces && step.reduce >= kWarp / 2 && points < shape.threads;
  if (warp_a_result)
    text->open(fmt::format("for (uint32_t p = lane / {0}; p < {1}; p += {2})", kWarp, points, warps));
  else
    text->open(fmt::format("for (uint32_t p = lane; p < {}; p += {})", points, shape.threads));
  emit_coordinates(text, step.dims);
  if (!reduces) {
    emit_exprs(text, plan, step.exprs, {step.store.value}, place, kCuda);
    emit_store(text, step.store, place, kCuda);
  } else {
    text->line(fmt::format("float total = {};", first));
    text->open(warp_a_result ? fmt::format("for (uint32_t k = lane % {0}; k < {1}; k += {0})", kWarp, step.reduce)
                             : fmt::format("for (uint32_t k = 0; k < {}; ++k)", step.reduce));
    emit_exprs(text, plan, step.exprs, {step.store.value}, place, kCuda);
    text->line(combine(fmt::format("e{}", step.store.value)));
    text->close();
    if (warp_a_result) {
      text->open("for (int o = 16; o > 0; o /= 2)");
      text->line(combine("__shfl_xor_sync(0xffffffffu, total, o)"));
      text->close();
    }
    const std::string to = address_text(step.store, place.at);
    text->line(fmt::format("{}*({}) = total;", warp_a_result ? fmt::format("if (lane % {} == 0) ", kWarp) : "", to));
  }
  text->close();
  text->line(shape.threads == kWarp ? "__syncwarp();" : "__syncthreads();");
}

void emit_rows(Text* text, const plan::Plan& plan, int32_t number, const plan::Kernel& kernel, const std::string& name) {
  const plan::Block& block = plan.blocks[static_cast<size_t>(number)];
  const RowShape shape = shape_of(kernel);
  const Uses uses = uses_of(kernel);
  text->line("");
  text->line(fmt::format("// {} ({}), stage {}", block.name, block.source, kernel.stage));
  text->open(fmt::format("__device__ uint32_t {}(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float* shared)",
                         name));
  emit_bucket(text, plan, number, uses);
  text->line(fmt::format("const uint32_t tiles = (count + {0}) / {1};", shape.records() - 1, shape.records()));
  text->open("for (; tile < tiles; tile += gridDim.x)");
  text->line("wait_previous();");
  text->line("__syncthreads();");  // the tile before this one has left shared memory
  text->line(fmt::format("const uint32_t lane = threadIdx.x % {}, slot = threadIdx.x / {};", shape.threads, shape.threads));
  text->line(fmt::format("const uint32_t i = tile * {} + slot;", shape.records()));
  text->line("if (i >= count) continue;");  // whole warps leave, and steps of shared records have no block barriers
  int64_t at = 0;
  for (size_t t = 0; t < kernel.temps.size(); ++t) {
    text->line(fmt::format("float* const t{} = shared + slot * {} + {};", t, shape.temp_floats, at));
    at += (kernel.temps[t] + 3) / 4 * 4;
  }
  emit_row(text, plan, block, uses);
  for (const plan::Step& step : kernel.steps) emit_step(text, plan, step, shape);
  text->close();
  text->line("return tile - tiles;");
  text->close();
}

}  // namespace

uint32_t gemm_shared_bytes(std::string_view architecture) {
  constexpr uint32_t kReserved = 1024, kStatic = 256;  // of every block: the driver's, and our barriers
  const int number = architecture.starts_with("sm_") ? std::atoi(std::string(architecture.substr(3)).c_str()) : 0;
  uint32_t sm = 228;
  if (number < 80) sm = 64;
  else if (number == 80 || number == 87) sm = 164;
  else if (number < 90 || number >= 120) sm = 100;
  return (sm >= 160 ? sm / 2 : sm) * 1024 - kReserved - kStatic;
}

CudaSource emit_cuda_kernels(const plan::Plan& plan, uint32_t gemm_bytes) {
  Text text;
  text.line(fmt::format("// CUDA kernels of {}, made by Rondo.", plan.name));
  text.line(fmt::format("constexpr int kGemmSharedBytes = {};", gemm_bytes));
  text.line(fmt::format("constexpr unsigned kCopyThreads = {}, kCopyHeadPieces = {};", abi::kCopyThreads,
                        abi::kCopyHeadBytes / abi::kCopyPieceBytes));
  text.raw(kCudaPreludeText);
  std::vector<std::vector<std::string>> names;
  int id = 0;
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    names.emplace_back();
    for (const plan::Kernel& kernel : plan.blocks[b].kernels) {
      names.back().push_back(fmt::format("{}_{}", kernel.name, id++));
      if (kernel.is_gemm) emit_product(&text, plan, static_cast<int32_t>(b), kernel, names.back().back());
      else emit_rows(&text, plan, static_cast<int32_t>(b), kernel, names.back().back());
    }
  }
  CudaSource source;
  source.copy_table = {"rondo_copy_table", abi::kCopyThreads, 0};
  for (const plan::Launch& launch : plan.launches) {
    uint32_t shared = 0;
    text.line("");
    text.line(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 2)", kThreads));
    text.open(fmt::format("{}(const uint32_t* __restrict__ table, const float* __restrict__ weights, uint32_t level)", launch.name));
    text.line("extern __shared__ float4 shared_memory[];");
    text.line("float* const shared = reinterpret_cast<float*>(shared_memory);");
    text.line("start_next();");
    text.line("uint32_t tile = blockIdx.x;");
    for (const plan::Launch::Item& item : launch.items) {
      const auto block = static_cast<size_t>(item.block), number = static_cast<size_t>(item.kernel);
      const plan::Kernel& kernel = plan.blocks[block].kernels[number];
      const std::string& name = names[block][number];
      if (kernel.is_gemm) {
        text.line(fmt::format("tile = gemm<{}>(table, weights, level, tile, shared);", name));
        shared = std::max(shared, gemm_bytes);
      } else {
        text.line(fmt::format("tile = {}(table, weights, level, tile, shared);", name));
        shared = std::max(shared, shape_of(kernel).shared_bytes());
      }
    }
    text.line("end_of_kernel();");
    text.close();
    source.launches.push_back({launch.name, kThreads, shared});
  }
  source.text = text.str();
  return source;
}

}  // namespace rondo::codegen
