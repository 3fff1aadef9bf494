// CUDA kernels at the edges of what the GEMM's tiles are made for, on older and newer GPUs than the H200: shared memory
// that differs, many sums, many operands. NVRTC needs no GPU.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "rondo/analysis/facts.h"
#include "rondo/analysis/reuse.h"
#include "rondo/codegen/codegen.h"
#include "rondo/error.h"
#include "rondo/kernel/nvrtc.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/lower.h"
#include "rondo/plan/specialise.h"

namespace rondo {
namespace {

plan::Plan plan_of(const std::string& text) {
  const ir::Program program = lang::parse_program(text, "extreme.rondo");
  const ir::Program specialised = plan::specialise(program, analysis::find_reuse(program));
  return plan::lower(specialised, analysis::find_facts(specialised)).plan;
}

// sum of f(w<i> @ x<i>), the operands all different or all the same.
std::string sum_of(int products, bool activated, bool same_operand) {
  std::string text, sum;
  for (int i = 0; i < products; ++i) {
    text += fmt::format("weight w{}: f32[40, 300];\n", i);
    const std::string product = fmt::format("w{} @ {}", i, same_operand ? "x[0]" : fmt::format("x[{}]", i));
    sum += (i ? " + " : "") + (activated ? "tanh(" + product + ")" : product);
  }
  return text + fmt::format("fn main(x: f32[{}, 300]) -> f32[40] {{\n  sigmoid({})\n}}\n", products, sum);
}

std::string compiled(const std::string& program, const char* architecture) {
  const plan::Plan plan = plan_of(program);
  const codegen::CudaSource source = codegen::emit_cuda_kernels(plan, codegen::gemm_shared_bytes(architecture));
  try {
    return kernel::compile_cuda("extreme", source.text, architecture)->bytes.empty() ? "an empty cubin" : "";
  } catch (const Error& e) {
    // An NVRTC older than the GPU.
    if (e.kind() == ErrorKind::Unavailable) return "";
    return e.what();
  }
}

TEST(CudaKernelsAtTheEdges, SixteenSumsOfOneOperandOrOfSixteen) {
  for (const char* architecture : {"sm_80", "sm_90"})
    for (const bool same : {true, false}) EXPECT_EQ(compiled(sum_of(16, true, same), architecture), "") << architecture << ' ' << same;
}

TEST(CudaKernelsAtTheEdges, OneSumOfSixteenOperands) { EXPECT_EQ(compiled(sum_of(16, false, false), "sm_86"), ""); }

TEST(CudaKernelsAtTheEdges, MoreSumsThanAThreadHoldsAreSeveralKernels) {
  const plan::Plan plan = plan_of(sum_of(40, true, true));
  size_t products = 0;
  for (const plan::Block& block : plan.blocks)
    for (const plan::Kernel& kernel : block.kernels) {
      products += kernel.is_gemm;
      EXPECT_LE(kernel.gemm.accs, 16);
    }
  EXPECT_GE(products, 40u / 8);
}

TEST(CudaKernelsAtTheEdges, MoreOperandsThanABlockHoldsAddressesOfAreSeveralKernels) {
  const plan::Plan plan = plan_of(sum_of(40, false, false));
  for (const plan::Block& block : plan.blocks)
    for (const plan::Kernel& kernel : block.kernels) EXPECT_LE(kernel.gemm.segments.size(), 16u);
}

TEST(CudaKernelsAtTheEdges, SharedMemoryOfEveryGpuIsWhatTwoBlocksOrOneMayHave) {
  EXPECT_EQ(codegen::gemm_shared_bytes("sm_75"), 64u * 1024 - 1280);
  EXPECT_EQ(codegen::gemm_shared_bytes("sm_80"), 82u * 1024 - 1280);
  EXPECT_EQ(codegen::gemm_shared_bytes("sm_89"), 100u * 1024 - 1280);
  EXPECT_EQ(codegen::gemm_shared_bytes("sm_90"), 114u * 1024 - 1280);
  EXPECT_EQ(codegen::gemm_shared_bytes("sm_120"), 100u * 1024 - 1280);
}

}  // namespace
}  // namespace rondo
