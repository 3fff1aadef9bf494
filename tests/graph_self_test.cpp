// The proof that `rondo doctor` shows: what it says when all is well, and when a call fails.
#include "graph_watch_support.h"
#include "rondo/graph/self_test.h"

namespace rondo::graph {
namespace {

// A fake with the proof's kernel, and no context of its own.
struct Fake {
  Fake() {
    fake.kernels = {"rondo_self_test"};
    fake.parameter_bytes = {{"rondo_self_test", {8, 4}}};
    fake.bodies["rondo_self_test"] = [this](const fake::Launched& l) {
      if (!broken_kernel) *Machine::target(l) = Machine::value(l);
    };
  }
  fake::FakeDriver fake;
  bool broken_kernel = false;
};

TEST(GraphSelfTest, EveryStepIsOkWhereGraphsWork) {
  Fake f;
  const SelfTest test = self_test(0);
  EXPECT_TRUE(test.ok());
  EXPECT_EQ(
      report(test),
      "ok       graph, GPU 0   open: Fake GPU\n"
      "ok       graph, GPU 0   capture: 5 nodes: a fill, a copy, a kernel, a host function, a copy back\n"
      "ok       graph, GPU 0   instantiate: done\n"
      "ok       graph, GPU 0   replay: done\n"
      "ok       graph, GPU 0   compare: 4 words and the host function are as expected\n"
      "ok       graph, GPU 0   update: every node, in place\n"
      "ok       graph, GPU 0   replay updated: done\n"
      "ok       graph, GPU 0   compare updated: 4 words and the host function are as expected\n");
  EXPECT_EQ(f.fake.leaks(), "");
}

TEST(GraphSelfTest, EachGpuIsTested) {
  Fake f;
  f.fake.gpus = 2;
  const std::vector<SelfTest> tests = self_tests();
  ASSERT_EQ(tests.size(), 2u);
  EXPECT_EQ(tests[1].gpu, 1);
  EXPECT_TRUE(tests[1].ok());
}

TEST(GraphSelfTest, AMachineWithoutAGpuIsSaid) {
  Fake f;
  f.fake.gpus = 0;
  EXPECT_EQ(message_of([] { (void)self_tests(); }, ErrorKind::Device),
            "cuInit failed: CUDA_ERROR_NO_DEVICE (100): as the fake says");
}

TEST(GraphSelfTest, AFailedStepHasItsDiagnosisAndTheRestIsNotTried) {
  Fake f;
  f.fake.fail_function("cuGraphInstantiateWithParams", CUDA_ERROR_OUT_OF_MEMORY);
  const SelfTest test = self_test(0);
  EXPECT_FALSE(test.ok());
  const std::string text = report(test);
  EXPECT_NE(text.find("failed   graph, GPU 0   instantiate: cuGraphInstantiateWithParams failed: "
                      "CUDA_ERROR_OUT_OF_MEMORY (2): as the fake says"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(". There is no memory left on the device. Destroy executable graphs"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("skipped  graph, GPU 0   replay: not tried, because of what failed before\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(f.fake.leaks(), "");
}

TEST(GraphSelfTest, AKernelThatDoesNothingIsFoundByComparing) {
  Fake f;
  f.broken_kernel = true;
  const std::string text = report(self_test(0));
  EXPECT_NE(
      text.find(
          "failed   graph, GPU 0   compare: word 1 is 0x11111111, expected 0xabcd1234 from the kernel: the "
          "graph ran without an error and did not do this"),
      std::string::npos)
      << text;
}

TEST(GraphSelfTest, AnUpdateThatIsRefusedSaysWhy) {
  Fake f;
  f.fake.fail_function("cuGraphExecUpdate", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  const std::string text = report(self_test(0));
  EXPECT_NE(text.find("failed   graph, GPU 0   update: CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)"),
            std::string::npos)
      << text;
}

// Every call failing once: a step says so, nothing is thrown, nothing is left.
TEST(GraphSelfTest, AnyFailedCallIsAFailedStep) {
  long calls = 0;
  {
    Fake f;
    (void)self_test(0);
    calls = f.fake.calls();
  }
  int failed = 0;
  for (long k = 1; k <= calls; ++k) {
    Fake f;
    f.fake.fail(k);
    const SelfTest test = self_test(0);
    f.fake.no_faults();
    if (test.ok()) continue;  // a release, a question that may go unanswered
    ++failed;
    EXPECT_NE(report(test).find("failed   "), std::string::npos);
    EXPECT_NE(report(test).find("(999)"), std::string::npos) << f.fake.failed() << "\n" << report(test);
    EXPECT_EQ(f.fake.leaks(), "") << k << " " << f.fake.failed();
  }
  EXPECT_GT(failed, 20);
}

TEST(GraphSelfTest, OnTheRealDriver) {
  std::vector<SelfTest> tests;
  try {
    tests = self_tests();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  for (const SelfTest& test : tests) EXPECT_TRUE(test.ok()) << report(test);
}

TEST(GraphSelfTest, WhatABrokenCaptureCanTellIsSaid) {
  const fake::FakeDriver old(12080);
  const Environment none("RONDO_LIBCUPTI", "/nowhere/libcupti.so");
  const std::string text = describe_call_watch();
  EXPECT_EQ(
      text.find(
          "the driver has no error log (it came with CUDA 12.9); no callers: CUPTI, which tells who makes a "
          "call, is not available: "),
      0u)
      << text;
#if RONDO_HAS_CUPTI && CUDA_VERSION >= 12090
  FakeCupti cupti;
  const LoggingDriver log(old.table());
  EXPECT_EQ(describe_call_watch(),
            "the driver's error log; callers through CUPTI 0 (fake libcupti), with RONDO_GRAPH_WATCH=calls");
#endif
}

}  // namespace
}  // namespace rondo::graph
