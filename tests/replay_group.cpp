// Regions in a group, parts and buckets.
#include "rondo/replay_group.h"

#include "replay_support.h"
#include "rondo/replay_buckets.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace {

TEST_F(Regions, AGroupDecidesTogetherAndStaysRight) {
  Region first(
      "first", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, quiet_);
  Region second(
      "second", [&](CUstream s, const float* y, float* z, int n) { w_.do_axpy(s, y, z, n, 2); }, quiet_);
  Group group("both", {&first, &second});
  const Floats x(w_, 8);
  int steps = 0;
  for (; steps < 5000 && !group.decided(); ++steps) {
    const Floats y(w_, 8), z(w_, 8, 1);
    group.step(w_.stream, [&] {
      first(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
      second(w_.stream, in(y.data(), 8), inout(z.data(), 8), 8);
    });
    ASSERT_EQ(z[2], 3 + 6 * x[2]) << "step " << steps;
  }
  EXPECT_TRUE(group.decided()) << "after " << steps;
  EXPECT_NE(group.reason().find("pairs"), std::string::npos) << group.reason();
  EXPECT_EQ(only(first.report()).state, "decided");
  EXPECT_GT(first.report().replays, 10u);
  EXPECT_GT(first.report().plain_calls, 10u);
}

TEST_F(Regions, ARefusedRegionIsPlainInItsGroup) {
  Region waits(
      "waits",
      [&](CUstream s, float* x, int n) {
        w_.do_twice(s, x, n);
        RONDO_CU(w_.d, cuStreamSynchronize(s));
      },
      quiet_);
  Region other(
      "other", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Group group("both", {&waits, &other});
  int steps = 0;
  for (; steps < 5000 && !group.decided(); ++steps) {
    const Floats x(w_, 8);
    group.step(w_.stream,
               [&] { waits(w_.stream, inout(x.data(), 8), 8), other(w_.stream, inout(x.data(), 8), 8); });
    ASSERT_EQ(x[1], 8);
  }
  EXPECT_TRUE(group.decided());
  EXPECT_EQ(waits.report().replays, 0u);
  EXPECT_GT(other.report().replays, 0u);
}

TEST_F(Regions, WhatAStepThrowsComesOutAndTheGroupGoesOn) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Group group("one", {&one});
  int steps = 0;
  for (; steps < 5000 && !group.decided(); ++steps) {
    const Floats x(w_, 8);
    const auto step = [&] {
      group.step(w_.stream, [&] {
        one(w_.stream, inout(x.data(), 8), 8);
        if (steps % 7 == 3) throw std::runtime_error("mine");
      });
    };
    if (steps % 7 == 3) {
      EXPECT_THROW(step(), std::runtime_error);
    } else {
      step();
    }
    ASSERT_EQ(x[1], 4);
  }
  EXPECT_TRUE(group.decided());
}

TEST_F(Regions, ARegionIsInOneGroup) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Region two(
      "two", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const Group group("first", {&one});
  EXPECT_NE(message_of(
                [&] {
                  Group again("again", {&two, &one});
                },
                ErrorKind::Usage)
                .find("one is in a group"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Group none("none", {}); }, ErrorKind::Usage), "");
  const Group later("later", {&two});
}

// ---------------------------------------------------------------- parts

TEST_F(Regions, PartsAroundOneThatWaitsAreGraphs) {
  float seen = 0;
  int waited = 0;
  Parts parts("work", always(), part([&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }),
              part([&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }),
              part([&](CUstream s, float* x, int) {
                RONDO_CU(w_.d, cuStreamSynchronize(s));
                ++waited, seen = x[0];
              }),
              part([&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }));
  for (int call = 0; call < 20; ++call) {
    const Floats x(w_, 8, 1);
    parts(w_.stream, inout(x.data(), 8), 8);
    EXPECT_EQ(x[0], 8) << call;
    EXPECT_EQ(seen, 4) << call;
  }
  EXPECT_EQ(parts.describe(), "[0..2) graph, [2..3) plain, [3..4) graph");
  ASSERT_EQ(parts.report().size(), 2u);
  for (const RegionReport& r : parts.report()) EXPECT_GT(r.replays, 10u) << r.name;
}

TEST_F(Regions, MarkedPartsAreNeverRecorded) {
  int calls = 0;
  Parts parts("work", always(), part([&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }),
              plain_part([&](CUstream, float*, int) { ++calls; }),
              part([&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }));
  for (int call = 0; call < 10; ++call) {
    const Floats x(w_, 8, 1);
    parts(w_.stream, inout(x.data(), 8), 8);
    EXPECT_EQ(x[0], 4);
  }
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(parts.describe(), "[0..1) graph, [1..2) plain, [2..3) graph");
}

TEST_F(Regions, PartsOfOnlyGoodWorkAreOneGraph) {
  Parts parts("work", always(), part([&](CUstream s, float* x, float*, int n) { w_.do_twice(s, x, n); }),
              part([&](CUstream s, float* x, float* y, int n) { w_.do_scale(s, x, y, n, 5); }));
  for (int call = 0; call < 10; ++call) {
    const Floats x(w_, 8, 1), y(w_, 8);
    parts(w_.stream, inout(x.data(), 8), out(y.data(), 8), 8);
    EXPECT_EQ(y[0], 10);
  }
  EXPECT_EQ(parts.describe(), "[0..2) graph");
}

// ---------------------------------------------------------------- buckets

TEST(Bucket, SizesAreRoundedUpAndTheWasteIsCounted) {
  Buckets b({.sizes = {64, 128, 256}, .most_waste = 0.5, .own_after = 0});
  EXPECT_EQ(b.choose(64), 64u);
  EXPECT_EQ(b.choose(65), 128u);
  EXPECT_EQ(b.choose(20), 20u);  // 44 of 64 would be waste
  EXPECT_EQ(b.choose(300), 300u);
  const Buckets::Report r = b.report();
  EXPECT_EQ(r.calls, 4u);
  EXPECT_EQ(r.padded, 1u);
  EXPECT_EQ(r.wasted, 63u);
  EXPECT_NE(b.text().find("1 padded"), std::string::npos) << b.text();
}

TEST(Bucket, AWellKnownSizeHasItsOwn) {
  Buckets b({.steps = 1, .most_waste = 0.5, .own_after = 3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(b.choose(100), 128u);
  EXPECT_EQ(b.choose(100), 100u);
}

TEST(Bucket, NeverSmallerNeverWastingMoreThanSaid) {
  Buckets b;
  for (size_t n = 0; n < 5000; ++n) {
    const size_t m = b.choose(n);
    ASSERT_GE(m, n);
    ASSERT_LE(static_cast<double>(m - n), 0.25 * static_cast<double>(m));
  }
  EXPECT_LT(b.report().different_buckets, 60u);
}

TEST(Bucket, WrongOptionsAreRefused) {
  EXPECT_THROW(Buckets({.sizes = {8, 8}}), Error);
  EXPECT_THROW(Buckets({.sizes = {}, .steps = 0}), Error);
}

TEST_F(Regions, VaryingSizesMeetRecordings) {
  Region step(
      "scale", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, always());
  Buckets buckets({.own_after = 0});
  const Floats x(w_, 256), y(w_, 256);
  for (int call = 0; call < 200; ++call) {
    const int n = 100 + call * 37 % 100;
    bool padded = false, cut = false;
    buckets.run(
        static_cast<size_t>(n), [&](size_t m) { padded = m > static_cast<size_t>(n); },
        [&](size_t m) { step(w_.stream, in(x.data(), m), out(y.data(), m), static_cast<int>(m)); },
        [&](size_t) { cut = true; });
    EXPECT_EQ(padded, cut);
    ASSERT_EQ(y[n - 1], 3 * x[n - 1]);
  }
  EXPECT_LE(step.report().recordings.size(), 5u);
  EXPECT_GT(step.report().replays, 180u);
}

}  // namespace
}  // namespace rondo::replay
