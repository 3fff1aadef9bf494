// Generated CPU kernels against plain loops in double.
#include <gtest/gtest.h>

#include "codegen_plans.h"

namespace rondo {
namespace {

using testing::Arena;
using testing::Bucket;
using testing::Rng;

// All blocks of a plan with several record counts; few blocks a plan keep a failure readable.
void check(const plan::Plan& plan, uint32_t seed, const std::vector<uint32_t>& counts, double tolerance) {
  const testing::CompiledKernels compiled = testing::compile_kernels(plan);
  Rng rng(seed);
  const Arena arena(plan, rng);
  for (size_t b = 0; b < plan.blocks.size(); ++b)
    for (const uint32_t count : counts) {
      Bucket bucket(plan, static_cast<int32_t>(b), count, rng);
      bucket.run(*compiled.module, arena, &rng);
      EXPECT_LE(bucket.difference(arena), tolerance)
          << "seed " << seed << ", " << count << " records of " << plan.blocks[b].name << "\n"
          << plan::print(plan);
    }
}

TEST(CpuKernels, ProductsOfAnyShapeMatchPlainLoops) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    Rng rng(seed);
    plan::Plan plan;
    plan.name = "gemm";
    for (int k = 0; k < 7; ++k) testing::add_random_gemm(&plan, rng);
    plan::finish(&plan);
    check(plan, seed, {1, 2, 7, 66}, 2e-5);
  }
}

TEST(CpuKernels, StepsOverAnyIndexSpaceMatchPlainLoops) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    Rng rng(seed);
    plan::Plan plan;
    plan.name = "steps";
    for (int k = 0; k < 40; ++k) testing::add_random_step(&plan, rng);
    plan::finish(&plan);
    check(plan, seed, {1, 5}, 1e-5);
  }
}

TEST(CpuKernels, SoftmaxGoesThroughTempsAndEarlierOutputs) {
  plan::Plan plan;
  plan.name = "softmax";
  for (const int64_t n : {1, 5, 8, 19, 256}) testing::add_softmax(&plan, n);
  plan::finish(&plan);
  check(plan, 1, {1, 3, 200}, 1e-5);
}

TEST(CpuKernels, TreeLstmNodeMatchesPlainLoops) {
  plan::Plan plan;
  plan.name = "treelstm";
  testing::add_treelstm_node(&plan, 96);
  plan::finish(&plan);
  check(plan, 1, {1, 3, 64, 150}, 1e-5);
}

TEST(CpuKernels, ResultBlocksCopyRowsInOrder) {
  plan::Plan plan;
  plan.name = "results";
  testing::add_result(&plan, 13);
  plan::finish(&plan);
  const testing::CompiledKernels compiled = testing::compile_kernels(plan);
  Rng rng(1);
  const Arena arena(plan, rng);
  Bucket bucket(plan, 0, 9, rng);
  bucket.run(*compiled.module, arena, &rng);
  for (uint32_t i = 0; i < 9; ++i) {
    const std::vector<double> row = bucket.operand(0, i);
    for (size_t e = 0; e < 13; ++e) EXPECT_EQ(bucket.results(0)[i * 13 + e], static_cast<float>(row[e]));
  }
}

// What batching must not change: a record gives the same bits alone and among many.
TEST(CpuKernels, ARecordGivesTheSameBitsInAnyBatch) {
  plan::Plan plan;
  plan.name = "bits";
  testing::add_treelstm_node(&plan, 40);
  Rng make(5);
  for (int k = 0; k < 4; ++k) testing::add_random_gemm(&plan, make);
  testing::add_softmax(&plan, 21);
  plan::finish(&plan);
  const testing::CompiledKernels compiled = testing::compile_kernels(plan);
  Rng rng(1);
  const Arena arena(plan, rng);
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const auto number = static_cast<int32_t>(b);
    Bucket many(plan, number, 131, rng);
    many.run(*compiled.module, arena, &rng);
    for (const uint32_t i : {0u, 1u, 63u, 64u, 130u}) {
      Bucket one = many.alone(i);
      one.run(*compiled.module, arena, &rng);
      for (size_t o = 0; o < plan.blocks[b].outputs.size(); ++o)
        EXPECT_EQ(0, std::memcmp(one.output(o, 0), many.output(o, i),
                                 sizeof(float) * static_cast<size_t>(plan.blocks[b].outputs[o].size)))
            << plan.blocks[b].name << " record " << i << " output " << o;
    }
  }
}

TEST(CpuKernels, AnEmptyBucketHasNoTiles) {
  plan::Plan plan;
  plan.name = "empty";
  testing::add_treelstm_node(&plan, 16);
  testing::add_softmax(&plan, 16);
  plan::finish(&plan);
  const testing::CompiledKernels compiled = testing::compile_kernels(plan);
  ASSERT_EQ(compiled.module->count, 2u);
  EXPECT_EQ(compiled.module->version, abi::kVersion);
  for (uint32_t k = 0; k < 2; ++k) {
    EXPECT_EQ(compiled.module->kernels[k].tiles(0), 0u);
    EXPECT_EQ(compiled.module->kernels[k].block, k);
    EXPECT_EQ(compiled.module->kernels[k].name, plan.blocks[k].kernels[0].name);
  }
}

TEST(CpuKernels, AWeightWithoutPlainCopyIsRefused) {
  plan::Plan plan;
  plan.name = "missing";
  testing::add_softmax(&plan, 4);
  plan::finish(&plan);
  plan.weights[0].plain_offset = -1;
  try {
    codegen::emit_cpu_kernels(plan);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "code generation: weight w0 is read as given but has only packed copies; this is a fault of "
                 "Rondo's, please report it");
  }
}

}  // namespace
}  // namespace rondo
