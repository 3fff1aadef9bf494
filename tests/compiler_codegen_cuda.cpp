// Generated CUDA text compiles for the GPUs that it is written for; NVRTC needs no GPU. What it computes is
// tested on one.
#include <gtest/gtest.h>

#include "codegen_plans.h"
#include "rondo/batch/abi.h"
#include "rondo/kernel/nvrtc.h"

namespace rondo {
namespace {

TEST(CudaKernels, EveryKindOfKernelCompiles) {
  plan::Plan plan;
  plan.name = "cuda";
  testing::Rng rng(1);
  testing::add_treelstm_node(&plan, 64);
  for (int k = 0; k < 3; ++k) testing::add_random_gemm(&plan, rng);
  for (int k = 0; k < 12; ++k) testing::add_random_step(&plan, rng);
  testing::add_softmax(&plan, 19);
  testing::add_result(&plan, 13);
  plan::finish(&plan);
  const codegen::CudaSource source = codegen::emit_cuda_kernels(plan, codegen::gemm_shared_bytes("sm_90"));
  ASSERT_EQ(source.launches.size(), plan.launches.size());
  for (size_t k = 0; k < source.launches.size(); ++k) {
    EXPECT_EQ(source.launches[k].name, plan.launches[k].name);
    EXPECT_GT(source.launches[k].threads, 0u);
  }
  EXPECT_EQ(source.copy_table.name, "rondo_copy_table");
  EXPECT_EQ(source.copy_table.threads, abi::kCopyThreads);
  try {
    EXPECT_FALSE(kernel::compile_cuda(plan.name, source.text, "sm_90")->bytes.empty());
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::Unavailable) throw;
    GTEST_SKIP() << e.what();
  }
}

}  // namespace
}  // namespace rondo
