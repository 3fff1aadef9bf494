// Regions: whatever a call does inside, its result is that of a plain run on its own arguments.
#include <atomic>
#include <thread>

#include "replay_folder.h"
#include "replay_support.h"
#include "rondo/base/options.h"

namespace rondo::replay {
namespace {

TEST_F(Regions, EveryCallWorksOnItsOwnBuffers) {
  {
    Region step("two", two_kernels(w_), always());
    for (int call = 0; call < 20; ++call) {
      const Floats x(w_, 8, static_cast<float>(call)), y(w_, 8, 100), z(w_, 8, 7);
      step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(x[i], static_cast<float>(call + i));
        EXPECT_EQ(y[i], 3 * x[i]) << "call " << call;
        EXPECT_EQ(z[i], static_cast<float>(7 + i) + 6 * x[i]) << "call " << call;
      }
    }
    const RegionReport r = step.report();
    EXPECT_EQ(r.calls, 20u);
    EXPECT_EQ(r.plain_calls, 2u);  // the first, and the one that the recording was proved against
    EXPECT_EQ(r.replays, 18u);
    EXPECT_EQ(only(r).nodes, 2u);
    EXPECT_EQ(only(r).slots, 4u);
    EXPECT_EQ(only(r).choice, "graph");
    EXPECT_TRUE(r.fallbacks.empty());
  }
  EXPECT_EQ(w_.close(), "");
}

TEST_F(Regions, WhatDidNotChangeCostsALaunchAndWhatChangedItsNodes) {
  Region step("two", two_kernels(w_), always());
  const Floats x(w_, 8), y(w_, 8), z(w_, 8), other(w_, 8);
  const auto call = [&](const Floats& a) {
    w_.fake.log.clear();
    step(w_.stream, in(a.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
    return w_.fake.log;
  };
  for (int i = 0; i < 4; ++i) call(x);
  EXPECT_EQ(call(x), (std::vector<std::string>{"cuStreamIsCapturing", "cuCtxGetCurrent", "cuGraphLaunch"}));
  EXPECT_EQ(call(other), (std::vector<std::string>{"cuStreamIsCapturing", "cuCtxGetCurrent",
                                                   "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"}));
  EXPECT_EQ(call(other).size(), 3u);
}

TEST_F(Regions, AutoEndsWithADecisionAndStaysRight) {
  Region step("two", two_kernels(w_), quiet_);
  const Floats x(w_, 8), y(w_, 8);
  int calls = 0;
  for (; calls < 2000 && (calls < 3 || only(step.report()).state != "decided"); ++calls) {
    const Floats z(w_, 8, 5);
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
    ASSERT_EQ(z[3], 8 + 6 * x[3]);
  }
  const RecordingReport r = only(step.report());
  EXPECT_EQ(r.state, "decided") << "after " << calls << " calls";
  ASSERT_EQ(r.alternatives.size(), 2u);
  EXPECT_GT(r.alternatives[0].samples, 0u);
  EXPECT_GT(r.alternatives[1].samples, 0u);
  EXPECT_FALSE(r.reason.empty());
}

TEST_F(Regions, NeverIsPlain) {
  Options o = quiet_;
  o.policy = Policy::never;
  Region step("two", two_kernels(w_), o);
  const Floats x(w_, 8), y(w_, 8), z(w_, 8);
  for (int i = 0; i < 5; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), 0u);
  EXPECT_EQ(step.report().plain_calls, 5u);
}

TEST_F(Regions, AShapeRunsPlainlyUntilItComesAgain) {
  Options o = always();
  o.recapture = false;
  Region step("two", two_kernels(w_), o);
  const Floats x(w_, 64), y(w_, 64), z(w_, 64);
  for (int n = 1; n <= 64; ++n) step(w_.stream, in(x.data(), n), out(y.data(), n), inout(z.data(), n), n);
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), 0u);
  step(w_.stream, in(x.data(), 7), out(y.data(), 7), inout(z.data(), 7), 7);
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), 2u);
}

TEST_F(Regions, TheWorkIsCalledTwiceMoreForARecording) {
  int called = 0;
  Region step(
      "counts", [&](CUstream s, float* x, int n) { ++called, w_.do_twice(s, x, n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 10; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(called, 4);  // the first call; two captures and the plain run of the second
  EXPECT_EQ(x[0], 1024);
}

// ---------------------------------------------------------------- scalars

TEST_F(Regions, ALiveScalarIsPatched) {
  Region step(
      "axpy", [&](CUstream s, const float* x, float* y, int n, float a) { w_.do_axpy(s, x, y, n, a); },
      always());
  const Floats x(w_, 4);
  for (int call = 0; call < 12; ++call) {
    const Floats y(w_, 4, 0);
    const float a = 1.5f + static_cast<float>(call);
    step(w_.stream, in(x.data(), 4), inout(y.data(), 4), 4, live(a));
    EXPECT_EQ(y[2], 2 + a * x[2]);
  }
  EXPECT_EQ(step.report().recordings.size(), 1u);
  EXPECT_EQ(step.report().replays, 10u);
}

TEST_F(Regions, SpecialValuesOfALiveScalarHaveTheirOwnRecording) {
  // As libraries do: nothing is launched for 0.
  Region step(
      "axpy",
      [&](CUstream s, const float* x, float* y, int n, float a) {
        if (a != 0) w_.do_axpy(s, x, y, n, a);
        w_.do_twice(s, y, n);
      },
      always());
  const Floats x(w_, 4);
  for (int call = 0; call < 20; ++call) {
    const Floats y(w_, 4, 0);
    const float a = call % 3 == 0 ? 0 : 1.5f + static_cast<float>(call);
    step(w_.stream, in(x.data(), 4), inout(y.data(), 4), 4, live(a));
    EXPECT_EQ(y[2], 2 * (2 + a * x[2]));
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
}

TEST_F(Regions, ALiveScalarThatIsComputedWithBelongsToTheSignature) {
  Region step(
      "axpy", [&](CUstream s, const float* x, float* y, int n, float a) { w_.do_axpy(s, x, y, n, a * a); },
      always());
  const Floats x(w_, 4);
  for (int call = 0; call < 24; ++call) {
    const Floats y(w_, 4, 0);
    const float a = 2.5f + static_cast<float>(call % 2);
    step(w_.stream, in(x.data(), 4), inout(y.data(), 4), 4, live(a));
    EXPECT_EQ(y[2], 2 + a * a * x[2]);
  }
  EXPECT_GT(step.report().replays, 10u);
  EXPECT_GE(step.report().recordings.size(), 2u);
}

TEST_F(Regions, APlainScalarIsPartOfTheSignature) {
  Region step(
      "axpy", [&](CUstream s, const float* x, float* y, int n, float a) { w_.do_axpy(s, x, y, n, a); },
      always());
  const Floats x(w_, 4);
  for (int call = 0; call < 12; ++call) {
    const Floats y(w_, 4, 0);
    const float a = static_cast<float>(call % 2 + 2);
    step(w_.stream, in(x.data(), 4), inout(y.data(), 4), 4, a);
    EXPECT_EQ(y[2], 2 + a * x[2]);
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
}

TEST_F(Regions, AStructIsAScalar) {
  struct Shape {
    int n, m;
    float a;
  };
  Region step(
      "axpy",
      [&](CUstream s, const float* x, float* y, Shape shape) { w_.do_axpy(s, x, y, shape.n, shape.a); },
      always());
  const Floats x(w_, 4);
  for (int call = 0; call < 12; ++call) {
    const Floats y(w_, 4, 0);
    step(w_.stream, in(x.data(), 4), inout(y.data(), 4), Shape{4, 1, static_cast<float>(call % 2)});
    EXPECT_EQ(y[3], 3 + static_cast<float>(call % 2) * x[3]);
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
}

// ---------------------------------------------------------------- buffers that are out of the usual

TEST_F(Regions, AlignmentBelongsToTheSignature) {
  Region step(
      "scale", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, always());
  for (int call = 0; call < 20; ++call) {
    const Floats x(w_, 8, 1, call % 2), y(w_, 8, 0);
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
    EXPECT_EQ(y[7], 24);
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
  EXPECT_EQ(step.report().replays, 16u);
}

TEST_F(Regions, BuffersThatShareMemoryArePlain) {
  Region step(
      "scale", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, always());
  const Floats x(w_, 16);
  for (int call = 0; call < 4; ++call) {
    for (int i = 0; i < 16; ++i) x[i] = 1;
    step(w_.stream, in(x.data(), 8), out(x.data() + 4, 8), 8);
  }
  EXPECT_EQ(step.report().replays, 0u);
  EXPECT_NE(only(step.report()).reason.find("share memory"), std::string::npos) << only(step.report()).reason;
  // Once recorded with other buffers, such a call is still plain.
  for (int call = 0; call < 4; ++call) {
    const Floats a(w_, 8), b(w_, 8);
    step(w_.stream, in(a.data(), 8), out(b.data(), 8), 8);
  }
  const uint64_t before = step.report().replays;
  EXPECT_GT(before, 0u);
  for (int i = 0; i < 16; ++i) x[i] = 1;
  step(w_.stream, in(x.data(), 8), out(x.data() + 4, 8), 8);
  EXPECT_EQ(step.report().replays, before);
  EXPECT_EQ(x[4], 3);
}

TEST_F(Regions, NullAndEmptyBuffers) {
  Region step(
      "scale",
      [&](CUstream s, const float* x, const float* bias, float* y, int n) {
        w_.do_scale(s, x, y, n, 3);
        if (bias) w_.do_axpy(s, bias, y, n, 1);
      },
      always());
  const Floats x(w_, 8), bias(w_, 8, 100), y(w_, 8);
  for (int call = 0; call < 12; ++call) {
    const float* b = call % 2 ? bias.data() : nullptr;
    step(w_.stream, in(x.data(), 8), in(b, b ? 8 : 0), out(y.data(), 8), 8);
    EXPECT_EQ(y[1], 6 + (b ? 101 : 0));
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
  EXPECT_GT(step.report().replays, 4u);
  const float* null = nullptr;
  EXPECT_NE(
      message_of([&] { step(w_.stream, in(null, 8), in(null, 0), out(y.data(), 8), 8); }, ErrorKind::Usage)
          .find("argument 0"),
      std::string::npos);
}

TEST_F(Regions, OrdinaryHostMemoryIsRefused) {
  Region step(
      "copy",
      [&](CUstream s, const float* x, float* y) {
        RONDO_CU(w_.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, 16, s));
      },
      always());
  const Floats y(w_, 4);
  std::vector<float> x = {1, 2, 3, 4};
  for (int call = 0; call < 4; ++call) {
    x[0] = static_cast<float>(call);
    step(w_.stream, in(x.data(), 4), out(y.data(), 4));
    EXPECT_EQ(y[0], static_cast<float>(call));
  }
  EXPECT_EQ(only(step.report()).state, "refused");
  EXPECT_NE(only(step.report()).reason.find("page-locked"), std::string::npos) << only(step.report()).reason;
}

TEST_F(Regions, PageLockedHostMemoryIsAnArgumentLikeOthers) {
  Region step(
      "copy",
      [&](CUstream s, const float* x, float* y) {
        RONDO_CU(w_.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, 16, s));
      },
      always());
  void* host[2];
  for (void*& h : host) RONDO_CU(w_.d, cuMemHostAlloc(&h, 16, 0));
  {
    const Floats y(w_, 4);
    for (int call = 0; call < 8; ++call) {
      auto* x = static_cast<float*>(host[call % 2]);
      x[0] = static_cast<float>(call);
      step(w_.stream, in(x, 4), out(y.data(), 4));
      EXPECT_EQ(y[0], static_cast<float>(call));
    }
  }
  EXPECT_EQ(step.report().replays, 6u) << only(step.report()).reason;
  for (void* h : host) (void)w_.d.cuMemFreeHost(h);
}

// ---------------------------------------------------------------- what cannot be recorded

TEST_F(Regions, WorkThatWaitsIsRefusedAndSaysWhy) {
  Region step(
      "waits",
      [&](CUstream s, float* x, int n) {
        w_.do_twice(s, x, n);
        RONDO_CU(w_.d, cuStreamSynchronize(s));
      },
      always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 64);
  const RegionReport r = step.report();
  EXPECT_EQ(only(r).state, "refused");
  EXPECT_NE(only(r).reason.find("cuStreamSynchronize"), std::string::npos) << only(r).reason;
  EXPECT_EQ(r.fallbacks.size(), 1u);
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), 1u);
}

TEST_F(Regions, WorkThatUsesAnotherStreamIsRefused) {
  Region step(
      "elsewhere", [&](CUstream, float* x, int n) { w_.do_twice(w_.stream, x, n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 64);
  EXPECT_NE(only(step.report()).reason.find("stream that it is given"), std::string::npos)
      << only(step.report()).reason;
}

TEST_F(Regions, WorkThatIsNotTheSameEachTimeIsRefused) {
  int called = 0;
  Region step(
      "changes",
      [&](CUstream s, float* x, int n) {
        w_.do_twice(s, x, n);
        if (++called % 2) w_.do_twice(s, x, n);
      },
      always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(only(step.report()).state, "refused");
}

TEST_F(Regions, HiddenInputIsFoundByTheProof) {
  // The factor is no argument, and another one when it is replayed.
  float factor = 2;
  Region step(
      "hidden", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, factor); },
      always());
  const Floats x(w_, 8), y(w_, 8);
  step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
  // Both captures see 2, the plain run that proves sees 3.
  int times = 0;
  Region sneaky(
      "sneaky",
      [&](CUstream s, const float* a, float* b, int n) {
        w_.do_scale(s, a, b, n, ++times > 3 ? 3.0f : 2.0f);
      },
      always());
  for (int i = 0; i < 4; ++i) sneaky(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
  EXPECT_EQ(only(sneaky.report()).state, "refused");
  EXPECT_NE(only(sneaky.report()).reason.find("does not do what the plain run does"), std::string::npos);
  EXPECT_EQ(y[0], 3);
}

TEST_F(Regions, AnOutThatIsWrittenInPartIsFound) {
  Region step(
      "half", [&](CUstream s, const float* x, float* y, int n) { w_.do_half(s, x, y, n); }, always());
  const Floats x(w_, 8), y(w_, 8, 50);
  for (int i = 0; i < 4; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
  EXPECT_NE(only(step.report()).reason.find("only a part of an 'out'"), std::string::npos)
      << only(step.report()).reason;
  Region right(
      "half", [&](CUstream s, const float* a, float* b, int n) { w_.do_half(s, a, b, n); }, always());
  for (int i = 0; i < 4; ++i) right(w_.stream, in(x.data(), 8), inout(y.data(), 8), 8);
  EXPECT_EQ(right.report().replays, 2u);
}

TEST_F(Regions, WritingBehindTheEndIsFound) {
  Region step(
      "long", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n + 2, 3); }, always());
  const Floats x(w_, 16), y(w_, 16);
  for (int i = 0; i < 4; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
  EXPECT_NE(only(step.report()).reason.find("behind its last byte"), std::string::npos)
      << only(step.report()).reason;
}

TEST_F(Regions, WhatTheWorkThrowsComesOut) {
  bool broken = false;
  Region step(
      "throws",
      [&](CUstream s, float* x, int n) {
        if (broken) throw std::runtime_error("my own");
        w_.do_twice(s, x, n);
      },
      quiet_);
  const Floats x(w_, 8);
  for (int round = 0; round < 8; ++round) {
    step(w_.stream, inout(x.data(), 8), 8);
    broken = true;
    EXPECT_THROW(step(w_.stream, inout(x.data(), 8), 8), std::runtime_error) << round;
    broken = false;
  }
  EXPECT_EQ(x[0], 256);
}

// ---------------------------------------------------------------- the world around

TEST_F(Regions, InACaptureItRunsPlainlyIntoIt) {
  Region step("two", two_kernels(w_), always());
  const Floats x(w_, 8), y(w_, 8), z(w_, 8, 0);
  for (int i = 0; i < 4; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  const float before = z[0];
  const graph::Graph g = graph::capture(
      w_.stream, [&] { step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8); });
  EXPECT_EQ(g.node_count(), 2u);
  EXPECT_EQ(z[0], before);
  g.instantiate().launch(w_.stream);
  EXPECT_EQ(z[0], before + 6);
}

TEST_F(Regions, ARegionInARegion) {
  Region inner(
      "inner", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  Region outer(
      "outer", [&](CUstream s, float* x, int n) { inner(s, inout(x, 8), n), inner(s, inout(x, 8), n); },
      always());
  const Floats x(w_, 8);
  for (int i = 0; i < 5; ++i) outer(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 1024);
  EXPECT_EQ(outer.report().replays, 3u) << only(outer.report()).reason;
}

TEST_F(Regions, SeveralThreadsOnSeveralStreams) {
  Region step("two", two_kernels(w_), quiet_);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      RONDO_CU(w_.d, cuCtxPushCurrent(w_.context));
      {
        const graph::Stream mine = graph::Stream::create();
        const Floats x(w_, 8, static_cast<float>(t)), y(w_, 8);
        for (int call = 0; call < 200; ++call) {
          const Floats z(w_, 8, 1);
          step(mine, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
          if (z[3] != 4 + 6 * x[3]) ++wrong;
        }
      }
      CUcontext ignored = nullptr;
      (void)w_.d.cuCtxPopCurrent(&ignored);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(step.report().calls, 800u);
  EXPECT_EQ(w_.fake.overlaps(), 0);
}

TEST_F(Regions, EventsInAndOutAreNodes) {
  const graph::Event made = graph::Event::create(), done = graph::Event::create();
  Region step(
      "events",
      [&](CUstream s, float* x, int n) {
        wait(made, s);
        w_.do_twice(s, x, n);
        record(done, s);
      },
      always());
  const Floats x(w_, 8);
  made.record(w_.stream);
  for (int i = 0; i < 10; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 1024);
  EXPECT_EQ(only(step.report()).nodes, 3u) << only(step.report()).reason;
  EXPECT_EQ(step.report().replays, 8u);
}

TEST_F(Regions, StateIsAdvancedBeforeEachReplay) {
  int advanced = 0;
  Options o = always();
  o.before_replay = [&](CUstream) { ++advanced; };
  Region step("two", two_kernels(w_), o);
  const Floats x(w_, 8), y(w_, 8), z(w_, 8);
  for (int i = 0; i < 10; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  EXPECT_EQ(advanced, 8);
}

TEST_F(Regions, FreedBuffersAreFoundWhenAskedFor) {
  Options o = always();
  o.check_arguments = true;
  Region step(
      "scale", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, o);
  const Floats y(w_, 8);
  auto x = std::make_unique<Floats>(w_, 8);
  const float* gone = x->data();
  for (int i = 0; i < 4; ++i) step(w_.stream, in(gone, 8), out(y.data(), 8), 8);
  EXPECT_EQ(step.report().replays, 2u);
  x.reset();
  EXPECT_NE(
      message_of([&] { step(w_.stream, in(gone, 8), out(y.data(), 8), 8); }, ErrorKind::Usage).find("freed"),
      std::string::npos);
}

TEST_F(Regions, StagingCopiesInsteadOfPatching) {
  Options o = always();
  o.staging = Staging::always;
  Region step("two", two_kernels(w_), o);
  for (int call = 0; call < 8; ++call) {
    const Floats x(w_, 8, static_cast<float>(call)), y(w_, 8, 0), z(w_, 8, 7);
    w_.fake.log.clear();
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
    EXPECT_EQ(y[2], 3 * x[2]);
    EXPECT_EQ(z[2], 9 + 6 * x[2]);
    if (call > 2) {
      EXPECT_EQ(w_.fake.count("cuGraphExecKernelNodeSetParams"), 0u);
    }
  }
  EXPECT_EQ(only(step.report()).copied_bytes_a_call, 32u * 4);
  EXPECT_EQ(step.report().replays, 6u);
}

// ---------------------------------------------------------------- faults

// Every driver call of a region's life made to fail, one a time: the results stay right, nothing leaks, the
// region goes on.
TEST_F(Regions, WhicheverCallFailsTheResultsAreRight) {
  long faults = 0, errors = 0;
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    for (const Staging staging : {Staging::auto_, Staging::always}) {
      for (long k = 1;; ++k) {
        World w;
        Options o;
        o.policy = policy, o.staging = staging, o.remember = false;
        bool hit = false;
        {
          // The caller's own launches are not what is tried: their failure is the caller's error.
          Region step("two", two_kernels(w), o);
          const Floats x(w, 8), y(w, 8), other(w, 8, 50);
          const Floats z(w, 8, 0);
          w.fake.fail(k);
          for (int call = 0; call < 12; ++call) {
            for (int i = 0; i < 8; ++i) z[i] = static_cast<float>(call);
            const Floats& from = call % 2 ? other : x;
            bool threw = false;
            const std::string before = w.fake.failed();
            try {
              step(w.stream, in(from.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
            } catch (const Error&) {
              threw = true;
              ++errors;
              // Only the plain run's own calls may come out.
              EXPECT_EQ(w.fake.failed(), "cuLaunchKernel") << "fault " << k;
            }
            if (!threw) {
              EXPECT_EQ(y[3], 3 * from[3]) << "fault " << k << " in " << w.fake.failed() << ", call " << call;
              EXPECT_EQ(z[3], static_cast<float>(call) + 6 * from[3])
                  << "fault " << k << " in " << w.fake.failed() << ", call " << call;
            }
          }
          hit = !w.fake.failed().empty();
          w.fake.no_faults();
        }
        if (!hit) break;
        ++faults;
        EXPECT_EQ(w.close(), "") << "fault " << k << " in " << w.fake.failed();
      }
    }
  }
  EXPECT_GT(faults, 200);
  std::printf("[   SWEEP  ] %ld faults, %ld of them came out as the plain run's own error\n", faults, errors);
}

TEST_F(Regions, WhicheverCallFailsNewSignaturesAreRight) {
  long faults = 0;
  for (long k = 1;; ++k) {
    World w;
    Options o;
    o.policy = Policy::always, o.remember = false;
    bool hit = false;
    {
      Region step("two", two_kernels(w), o);
      const Floats x(w, 64), y(w, 64), z(w, 64, 0);
      w.fake.fail(k);
      for (int n = 1; n < 24; ++n) {
        for (int i = 0; i < n; ++i) z[i] = 0;
        bool threw = false;
        try {
          step(w.stream, in(x.data(), n), out(y.data(), n), inout(z.data(), n), n);
        } catch (const Error&) {
          threw = true;
          EXPECT_EQ(w.fake.failed(), "cuLaunchKernel") << "fault " << k;
        }
        if (!threw) {
          EXPECT_EQ(z[n - 1], 6 * x[n - 1]) << "fault " << k << " in " << w.fake.failed() << ", size " << n;
        }
      }
      hit = !w.fake.failed().empty();
      w.fake.no_faults();
    }
    if (!hit) break;
    ++faults;
    EXPECT_EQ(w.close(), "") << "fault " << k << " in " << w.fake.failed();
  }
  EXPECT_GT(faults, 100);
  std::printf("[   SWEEP  ] %ld faults in calls of new signatures\n", faults);
}

// Without plain calls, too: a scalar that is computed with, and is another one at each call, would else be
// recorded each time.
TEST_F(Regions, AValueOfAScalarThatIsComputedWithIsRecordedWhenItComesAgain) {
  Options o = always();
  o.plain_calls = 0, o.recapture = false;
  Region step(
      "computed",
      [&](CUstream s, const float* x, float* y, int n, float a) { w_.do_scale(s, x, y, n, 2 * a); }, o);
  const Floats x(w_, 8), y(w_, 8);
  for (int call = 0; call < 30; ++call) {
    const float a = call < 20 ? static_cast<float>(call + 2) : 7.0f;
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8, live(a));
    EXPECT_EQ(y[1], 4 * a) << call;
  }
  const RegionReport r = step.report();
  EXPECT_LE(r.recordings.size(), 3u);
  EXPECT_GT(r.replays, 7u);
}

// ---------------------------------------------------------------- work that does not repeat itself

// scale, by a factor that differs from launch to launch.
void make_noisy(World* w, double by) {
  w->fake.bodies["scale"] = [by, launch = 0](const fake::Launched& l) mutable {
    const auto factor = static_cast<float>(World::number<float>(l, 20) * (1 + by * ++launch));
    for (int i = 0; i < World::number<int>(l, 16); ++i) World::at(l, 8)[i] = factor * World::at(l, 0)[i];
  };
}

TEST_F(Regions, ProofAutoTakesWorkThatDiffersFromRunToRunByLittle) {
  for (const auto& [proof, by, replays] :
       {std::tuple{Proof::exact, 1e-6, false}, std::tuple{Proof::auto_, 1e-6, true},
        std::tuple{Proof::auto_, 1e-2, false}}) {
    make_noisy(&w_, by);
    Options o = always();
    o.proof = proof;
    Region step(
        "noisy", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, o);
    const Floats x(w_, 64), y(w_, 64);
    for (int call = 0; call < 6; ++call) step(w_.stream, in(x.data(), 64), out(y.data(), 64), 64);
    const RegionReport r = step.report();
    EXPECT_EQ(r.replays > 0, replays) << only(r).reason;
    EXPECT_EQ(only(r).reason.find("not the same from run to run") != std::string::npos, true)
        << only(r).reason;
  }
}

TEST_F(Regions, ProofAutoIsExactForWorkThatRepeatsItself) {
  Options o = always();
  o.proof = Proof::auto_;
  int calls = 0;
  Region step(
      "counts",
      [&](CUstream s, const float* x, float* y, int n) {
        w_.do_scale(s, x, y, n, 3 + (++calls > 3 ? 1e-6f : 0.0f));  // other work in the plain run that proves
      },
      o);
  const Floats x(w_, 64), y(w_, 64);
  for (int call = 0; call < 6; ++call) step(w_.stream, in(x.data(), 64), out(y.data(), 64), 64);
  EXPECT_EQ(step.report().replays, 0u);
  EXPECT_NE(only(step.report()).reason.find("bytes differ"), std::string::npos) << only(step.report()).reason;
}

}  // namespace
}  // namespace rondo::replay
