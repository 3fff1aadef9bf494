// CUDA run-time code (<<<>>>, cudaGraph_t ...) and Rondo's handles mix: compiled everywhere where there is
// nvcc, run where there is a GPU. The work is in mix_cuda.cu.
#include <gtest/gtest.h>

#include <iostream>

#include "mix_cuda.h"

namespace {

class Mix : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = mix::no_device(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Mix, KernelLaunchesAreCaptured) { EXPECT_EQ(mix::launches_in_a_capture(), ""); }
TEST_F(Mix, AStreamOfTheRuntimeIsCapturedAndLaunchedInto) { EXPECT_EQ(mix::a_stream_of_the_runtime(), ""); }
TEST_F(Mix, AGraphOfTheRuntimeIsAdopted) { EXPECT_EQ(mix::a_graph_of_the_runtime_goes_in(), ""); }
TEST_F(Mix, AGraphIsHandedToTheRuntime) { EXPECT_EQ(mix::a_graph_goes_out(), ""); }
TEST_F(Mix, ExecsGoBothWays) { EXPECT_EQ(mix::execs_go_both_ways(), ""); }
TEST_F(Mix, AKernelOfACudaFileBecomesANode) { EXPECT_EQ(mix::a_kernel_of_this_file_as_a_node(), ""); }
TEST_F(Mix, EventsOfTheRuntimeForkAndJoin) { EXPECT_EQ(mix::events_of_the_runtime(), ""); }
TEST_F(Mix, ABrokenCaptureNamesTheCallAndLeavesNothingBehind) { EXPECT_EQ(mix::a_broken_capture(), ""); }

// Looking, on the real driver.
TEST_F(Mix, AKernelOfACudaFileIsShownWithItsNameAndParameters) { EXPECT_EQ(mix::kernels_are_shown(), ""); }
TEST_F(Mix, TheVerdictOfADifferenceIsThatOfTheDriver) {
  std::string seen;
  EXPECT_EQ(mix::verdicts_hold(&seen), "");
  std::cout << seen;
}
TEST_F(Mix, TheMemoryOfExecsIsMeasured) {
  std::string seen;
  EXPECT_EQ(mix::memory_of_execs(&seen), "");
  std::cout << seen << "\n";
}

}  // namespace
