// Regions and what is around them: hooks, captures of others, groups, parts and buckets, the environment, the
// end.
#include <cmath>
#include <limits>
#include <optional>

#include "replay_folder.h"
#include "replay_support.h"
#include "rondo/base/options.h"
#include "rondo/replay_buckets.h"
#include "rondo/replay_group.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace {

// ---------------------------------------------------------------- before_replay

TEST_F(Regions, BeforeReplayMayAskForTheReport) {
  Region<std::function<void(CUstream, float*, int)>>* self = nullptr;
  int asked = 0;
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    Options o = quiet_;
    o.policy = policy;
    o.before_replay = [&](CUstream) { asked += self->report().calls > 0; };
    Region<std::function<void(CUstream, float*, int)>> step(
        "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
    self = &step;
    for (int i = 0; i < 40; ++i) {
      const Floats x(w_, 8);
      step(w_.stream, inout(x.data(), 8), 8);
      ASSERT_EQ(x[0], 2);
    }
  }
  EXPECT_GT(asked, 40);
}

TEST_F(Regions, WhatBeforeReplayThrowsComesOutAndTheRegionGoesOn) {
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    for (const Proof proof : {Proof::exact, Proof::off}) {
      bool broken = false;
      Options o = quiet_;
      o.policy = policy, o.proof = proof;
      o.before_replay = [&](CUstream) {
        if (broken) throw std::runtime_error("mine");
      };
      Region step(
          "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
      uint64_t thrown = 0;
      for (int i = 0; i < 60; ++i) {
        const Floats x(w_, 8);
        broken = i % 3 == 1;
        bool threw = false;
        try {
          step(w_.stream, inout(x.data(), 8), 8);
        } catch (const std::runtime_error& e) {
          EXPECT_STREQ(e.what(), "mine");
          threw = true, ++thrown;
        }
        ASSERT_EQ(x[0], threw ? 1 : 2);
      }
      EXPECT_GT(thrown, 0u);
      EXPECT_EQ(sum_of_ways(step.report()) + thrown, step.report().calls);
      EXPECT_GT(step.report().replays, 10u) << text(std::vector{step.report()});
    }
  }
}

// ---------------------------------------------------------------- captures of others

TEST_F(Regions, ACallOnAnotherStreamBreaksNoCaptureOfThisThread) {
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    Options o = quiet_;
    o.policy = policy;
    Region step(
        "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
    const Floats x(w_, 8), y(w_, 8);
    const graph::Stream other = graph::Stream::create();
    for (int i = 0; i < 20; ++i) {
      x[0] = 1;
      graph::Graph g = graph::capture(other.get(), [&] {
        w_.do_twice(other, y.data(), 8);
        step(w_.stream, inout(x.data(), 8), 8);
      });
      EXPECT_EQ(g.node_count(), 1u);
      EXPECT_EQ(x[0], 2) << i;
    }
    EXPECT_GT(step.report().replays, 3u) << text(std::vector{step.report()});
  }
}

TEST_F(Regions, ABrokenCaptureIsTheCallersOwn) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) {
    step(w_.stream, inout(x.data(), 8), 8);
    RONDO_CU(w_.d, cuStreamBeginCapture(w_.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    (void)w_.d.cuStreamSynchronize(w_.stream);  // breaks it
    EXPECT_THROW(step(w_.stream, inout(x.data(), 8), 8), Error);
    CUgraph none = nullptr;
    (void)w_.d.cuStreamEndCapture(w_.stream, &none);
  }
  EXPECT_EQ(x[0], 64);
}

TEST_F(Regions, AGroupsStepInACapture) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Group group("one", {&one});
  const Floats x(w_, 8);
  for (int i = 0; i < 30; ++i) {
    x[0] = 1;
    group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8), 8); });
    EXPECT_EQ(x[0], 2);
    const graph::Graph g = graph::capture(
        w_.stream, [&] { group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8), 8); }); });
    EXPECT_EQ(g.node_count(), 1u);
  }
}

TEST_F(Regions, TheLegacyStream) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const Floats x(w_, 8);
  for (int i = 0; i < 20; ++i) step(i % 2 ? nullptr : w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], std::ldexp(1.0f, 20));
}

// ---------------------------------------------------------------- groups

TEST_F(Regions, AGroupThatGoesUndecidedLetsItsRegionsDecide) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const Floats x(w_, 8);
  for (int steps = 0; steps < 20; ++steps) {
    Group group("one", {&one});
    for (int i = 0; i < 7; ++i) group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8), 8); });
  }
  for (int i = 0; i < 2000; ++i) one(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(only(one.report()).state, "decided");
  EXPECT_NE(only(one.report()).reason.find("pairs"), std::string::npos) << only(one.report()).reason;
}

TEST_F(Regions, AGroupOfNothingIsRefused) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  EXPECT_NE(message_of([&] { Group g("g", {&one, nullptr}); }, ErrorKind::Usage), "");
  EXPECT_NE(message_of([&] { Group g("g", {&one, &one}); }, ErrorKind::Usage), "");
  const Group right("right", {&one});
}

// ---------------------------------------------------------------- parts

TEST_F(Regions, PartsThatCallThemselves) {
  // As over a tree: each level does the first part, its child, the last part.
  std::function<void(CUstream, float*, int)> go;
  std::vector<std::unique_ptr<Floats>> levels;
  for (int i = 0; i < 4; ++i) levels.push_back(std::make_unique<Floats>(w_, 8));
  Parts parts("tree", always(), part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }),
              plain_part([&](CUstream s, float*, int depth) {
                if (depth < 3) go(s, levels[static_cast<size_t>(depth + 1)]->data(), depth + 1);
              }),
              part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }));
  go = [&](CUstream s, float* x, int depth) { parts(s, inout(x, 8), depth); };
  for (int call = 0; call < 8; ++call) {
    for (auto& l : levels) (*l)[0] = 1;
    go(w_.stream, levels[0]->data(), 0);
    for (auto& l : levels) ASSERT_EQ((*l)[0], 4) << call;
  }
}

TEST_F(Regions, PartsThatCallThemselvesWhileTheyAreCut) {
  std::function<void(CUstream, float*, int)> go;
  std::vector<std::unique_ptr<Floats>> levels;
  for (int i = 0; i < 4; ++i) levels.push_back(std::make_unique<Floats>(w_, 8));
  Parts parts("tree", always(), part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }),
              part([&](CUstream s, float*, int depth) {
                RONDO_CU(w_.d, cuStreamSynchronize(s));
                if (depth < 3) go(s, levels[static_cast<size_t>(depth + 1)]->data(), depth + 1);
              }),
              part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }));
  go = [&](CUstream s, float* x, int depth) { parts(s, inout(x, 8), depth); };
  for (int call = 0; call < 12; ++call) {
    for (auto& l : levels) (*l)[0] = 1;
    go(w_.stream, levels[0]->data(), 0);
    for (auto& l : levels) ASSERT_EQ((*l)[0], 4) << call;
  }
  EXPECT_EQ(parts.describe(), "[0..1) graph, [1..2) plain, [2..3) graph");
}

TEST_F(Regions, PartsThatThrow) {
  bool broken = false;
  Parts parts("throws", always(), part([&](CUstream s, float* x) { w_.do_twice(s, x, 8); }),
              plain_part([&](CUstream, float*) {
                if (broken) throw std::runtime_error("mine");
              }),
              part([&](CUstream s, float* x) {
                if (broken) throw std::runtime_error("mine");
                w_.do_twice(s, x, 8);
              }));
  for (int call = 0; call < 20; ++call) {
    const Floats x(w_, 8);
    broken = call % 4 == 1;
    if (broken) {
      EXPECT_THROW(parts(w_.stream, inout(x.data(), 8)), std::runtime_error);
    } else {
      parts(w_.stream, inout(x.data(), 8));
      ASSERT_EQ(x[0], 4);
    }
  }
}

TEST_F(Regions, GroupsInPartsInRegions) {
  Region inner(
      "inner", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, quiet_);
  Group group("group", {&inner});
  Parts parts("parts", quiet_,
              part([&](CUstream s, float* x) { group.step(s, [&] { inner(s, inout(x, 8)); }); }),
              part([&](CUstream s, float* x) { inner(s, inout(x, 8)); }));
  Region outer(
      "outer", [&](CUstream s, float* x) { parts(s, inout(x, 8)); }, quiet_);
  for (int call = 0; call < 400; ++call) {
    const Floats x(w_, 8);
    outer(w_.stream, inout(x.data(), 8));
    ASSERT_EQ(x[0], 4) << call;
  }
}

// ---------------------------------------------------------------- recursion

TEST_F(Regions, WorkThatCallsItsOwnRegion) {
  std::function<void(CUstream, float*, int)> again;
  Region<std::function<void(CUstream, float*, int)>> step(
      "self",
      [&](CUstream s, float* x, int depth) {
        w_.do_twice(s, x, 8);
        if (depth > 0) again(s, x, depth - 1);
      },
      quiet_);
  again = [&](CUstream s, float* x, int depth) { step(s, inout(x, 8), depth); };
  for (int call = 0; call < 300; ++call) {
    const Floats x(w_, 8);
    step(w_.stream, inout(x.data(), 8), 3);
    ASSERT_EQ(x[0], 16);
  }
  // The inner calls of the second captures count as calls, too.
  const RegionReport r = step.report();
  EXPECT_EQ(sum_of_ways(r), r.calls);
}

// ---------------------------------------------------------------- buckets

TEST(Bucket, SizesAtTheEdge) {
  for (const double waste : {0.0, -1.0, 0.25, 1.0, std::nan(""), HUGE_VAL})
    for (const unsigned steps : {1u, 4u, UINT_MAX}) {
      BucketOptions o;
      o.most_waste = waste, o.steps = steps;
      Buckets b(o);
      for (const size_t n : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX / 2 + 1, size_t{0}, size_t{1},
                             size_t{1} << 63})
        EXPECT_GE(b.choose(n), n);
    }
}

// ---------------------------------------------------------------- the end

TEST_F(Regions, ARegionThatGoesWithoutAContext) {
  for (const bool locked : {false, true}) {
    World w;
    w.fake.free_needs_context = true;
    {
      Options o = always();
      o.staging = Staging::always;
      auto step = std::make_unique<Region<std::function<void(CUstream, float*)>>>(
          "twice", [&](CUstream s, float* x) { w.do_twice(s, x, 8); }, o);
      void* host = nullptr;
      RONDO_CU(w.d, cuMemHostAlloc(&host, 64, 0));
      const Floats x(w, 8);
      for (int i = 0; i < 4; ++i) (*step)(w.stream, inout(locked ? static_cast<float*>(host) : x.data(), 8));
      EXPECT_EQ(step->report().replays, 2u);
      CUcontext context = nullptr;
      RONDO_CU(w.d, cuCtxPopCurrent(&context));
      step.reset();
      RONDO_CU(w.d, cuCtxPushCurrent(w.context));
      (void)w.d.cuMemFreeHost(host);
    }
    EXPECT_EQ(w.close(), "");
  }
}

TEST_F(Regions, NoContextAtAll) {
  Region step(
      "twice", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 4; ++i) step(w_.stream, inout(x.data(), 8));
  CUcontext context = nullptr;
  RONDO_CU(w_.d, cuCtxPopCurrent(&context));
  for (int i = 0; i < 6; ++i)
    EXPECT_THROW(step(w_.stream, inout(x.data(), 8)), Error);  // as the launch itself
  RONDO_CU(w_.d, cuCtxPushCurrent(w_.context));
  x[0] = 1;
  for (int i = 0; i < 4; ++i) step(w_.stream, inout(x.data(), 8));
  EXPECT_EQ(x[0], 16);
  EXPECT_EQ(step.report().replays, 6u);
}

// ---------------------------------------------------------------- checks of a choice

TEST_F(Regions, PartsWithThousandsOfSignaturesLookNoFurtherThanTheyMust) {
  Options o = quiet_;
  o.plain_calls = UINT_MAX;
  Parts parts("many", o, part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }));
  const Floats x(w_, 8);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3000; ++i) parts(w_.stream, inout(x.data(), 8), i % 900);
  std::printf(
      "[   NOTE   ] %.1f us a call of parts with 900 signatures\n",
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 3000);
}

TEST_F(Regions, WorkAndBeforeReplayThatResetTheirRegion) {
  RegionBase* self = nullptr;
  for (const Policy policy : {Policy::always, Policy::auto_})
    for (int every = 1; every < 12; every += 2) {
      Options o = quiet_;
      o.policy = policy;
      int called = 0;
      o.before_replay = [&](CUstream) {
        if (++called % every == 0) self->reset();
      };
      Region step(
          "resets",
          [&](CUstream s, float* x) {
            w_.do_twice(s, x, 8);
            if (++called % every == 0) self->reset();
            (void)self->report();
          },
          o);
      self = &step;
      for (int call = 0; call < 100; ++call) {
        const Floats x(w_, 8);
        step(w_.stream, inout(x.data(), 8));
        ASSERT_EQ(x[0], 2);
      }
      EXPECT_EQ(sum_of_ways(step.report()), step.report().calls);
    }
}

TEST_F(Regions, TheEnvironmentOverridesEverywhere) {
  for (const char* value : {"never", "always", "auto"}) {
    ASSERT_EQ(setenv("RONDO_REPLAY", value, 1), 0);
    reload_options();
    {
      Region one(
          "one", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, quiet_);
      Group group("group", {&one});
      Parts parts("parts", quiet_, part([&](CUstream s, float* x) { w_.do_twice(s, x, 8); }),
                  part([&](CUstream s, float* x) { w_.do_twice(s, x, 8); }));
      for (int call = 0; call < 2000; ++call) {
        const Floats x(w_, 8);
        group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8)); });
        parts(w_.stream, inout(x.data(), 8));
        ASSERT_EQ(x[0], 8);
      }
      EXPECT_TRUE(group.decided()) << value;
      if (std::string(value) == "never") {
        EXPECT_EQ(one.report().replays + parts.report()[0].replays, 0u);
      } else if (std::string(value) == "always") {
        EXPECT_GT(parts.report()[0].replays, 1900u);
      }
    }
    unsetenv("RONDO_REPLAY");
    reload_options();
  }
}

}  // namespace
}  // namespace rondo::replay
