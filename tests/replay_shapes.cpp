// Regions with many signatures: bounded, sharing executables, captured one by one.
#include "replay_folder.h"
#include "replay_support.h"

namespace rondo::replay {
namespace {

TEST_F(Regions, RecordingsThatDifferAreBoundedAndDoNotThrash) {
  Options o = always();
  o.most_recordings = 4;
  // Another number of kernels for each shape, so that no two graphs are alike.
  Region step(
      "many",
      [&](CUstream s, float* x, int n) {
        for (int i = 0; i < n; ++i) w_.do_twice(s, x, n);
      },
      o);
  const int shapes = 8, rounds = 60;
  for (int call = 0; call < shapes * rounds; ++call) {
    const int n = call % shapes + 1;
    const Floats x(w_, 8, 1);
    step(w_.stream, inout(x.data(), 8), n);
    ASSERT_EQ(x[0], static_cast<float>(1 << n));
  }
  const RegionReport r = step.report();
  size_t alive = 0;
  for (const RecordingReport& one : r.recordings) alive += one.nodes != 0;
  EXPECT_LE(alive, 4u);
  EXPECT_GT(r.dropped, 0u);
  EXPECT_LT(r.dropped, 40u) << "recorded again and again";
}

TEST_F(Regions, RecordingsThatAreAlikeShareExecutables) {
  Options o = always();
  o.most_recordings = 2;
  Region step("two", two_kernels(w_), o);
  const Floats x(w_, 64), y(w_, 64);
  const int shapes = 8;
  for (int call = 0; call < shapes * 20; ++call) {
    const int n = 8 * (call * 5 % shapes + 1);
    const Floats z(w_, n, 0);
    for (int again = 0; again < 1 + call % 2; ++again)
      step(w_.stream, in(x.data(), n), out(y.data(), n), inout(z.data(), n), n);
    ASSERT_EQ(z[n - 1], static_cast<float>(n - 1) + (call % 2 ? 12 : 6) * x[n - 1]) << "call " << call;
  }
  EXPECT_EQ(w_.fake.count("cuGraphInstantiateWithParams") - w_.fake.count("cuGraphExecDestroy"), 2u);
  const RegionReport r = step.report();
  EXPECT_EQ(r.dropped, 0u);
  EXPECT_GT(r.replays, 200u);
  size_t shared = 0;
  for (const RecordingReport& one : r.recordings)
    shared += one.reason.find("shares the executable") != std::string::npos;
  EXPECT_EQ(shared, 6u);
}

// The smallest that hung on an H200 (driver 580): the third recording moves into the executable of another,
// and the graph that it is updated by was captured on page-locked memory that is gone.
TEST_F(Regions, AThirdSignatureAlikeNamesNoFreedPageLockedMemory) {
  for (const Proof proof : {Proof::exact, Proof::off}) {
    Options o = always();
    o.most_recordings = 2, o.proof = proof;
    Region step(
        "copy",
        [&](CUstream s, const float* x, float* y, int n) {
          RONDO_CU(w_.d,
                   cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, 4 * static_cast<size_t>(n), s));
        },
        o);
    void* host = nullptr;
    RONDO_CU(w_.d, cuMemHostAlloc(&host, 64, 0));
    auto* x = static_cast<float*>(host);
    const Floats y(w_, 16);
    for (int call = 0; call < 12; ++call) {
      const int n = 4 * (call / 2 % 3 + 1);
      x[n - 1] = static_cast<float>(call);
      step(w_.stream, in(x, n), out(y.data(), n), n);
      EXPECT_EQ(y[n - 1], static_cast<float>(call));
    }
    EXPECT_GT(w_.fake.count("cuGraphExecUpdate"), 0u) << "nothing was shared";
    EXPECT_GT(step.report().replays, 5u);
    EXPECT_EQ(w_.fake.given_freed(), 0);
    (void)w_.d.cuMemFreeHost(host);
    w_.fake.log.clear();
  }
}

// Copies of every direction and fills, with buffers that the caller frees after each call; recordings that
// come into an executable, take turns in it, and are dropped from it, with tables and staged buffers of their
// own.
TEST_F(Regions, NoSharedExecutableIsUpdatedToOrFromFreedMemory) {
  static const float kTable[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (const Staging staging : {Staging::never, Staging::always}) {
    for (const unsigned room : {1u, 2u}) {
      Options o = always();
      o.most_recordings = room, o.staging = staging, o.recapture = false;
      Region step(
          "copies",
          [&](CUstream s, const float* x, float* device, float* to, float* back, int n) {
            const auto bytes = 4 * static_cast<size_t>(n);
            const auto y = reinterpret_cast<CUdeviceptr>(device), z = reinterpret_cast<CUdeviceptr>(to);
            RONDO_CU(w_.d, cuMemsetD8Async(y, 0, 2 * bytes, s));
            RONDO_CU(w_.d, cuMemcpyHtoDAsync(y, x, bytes, s));
            RONDO_CU(w_.d, cuMemcpyHtoDAsync(y + bytes, kTable, bytes, s));
            RONDO_CU(w_.d, cuMemcpyDtoDAsync(z, y, 2 * bytes, s));
            RONDO_CU(w_.d, cuMemcpyDtoHAsync(back, z, bytes, s));
          },
          o);
      const int shapes = 12;
      for (int call = 0; call < shapes * 20; ++call) {
        const int n = call * 5 / 2 % shapes + 1;
        void *host = nullptr, *back = nullptr;
        RONDO_CU(w_.d, cuMemHostAlloc(&host, 64, 0));
        RONDO_CU(w_.d, cuMemHostAlloc(&back, 64, 0));
        auto *x = static_cast<float*>(host), *seen = static_cast<float*>(back);
        for (int i = 0; i < n; ++i) x[i] = static_cast<float>(call + i);
        {
          const Floats y(w_, 2 * n), z(w_, 2 * n);
          step(w_.stream, in(x, n), out(y.data(), 2 * n), out(z.data(), 2 * n), out(seen, n), n);
          ASSERT_EQ(seen[n - 1], static_cast<float>(call + n - 1)) << "call " << call;
          ASSERT_EQ(z[2 * n - 1], static_cast<float>(n)) << "call " << call;
        }
        (void)w_.d.cuMemFreeHost(host);
        (void)w_.d.cuMemFreeHost(back);
        ASSERT_EQ(w_.fake.given_freed(), 0) << "call " << call;
      }
      const RegionReport r = step.report();
      EXPECT_GT(r.replays, 10u) << (r.fallbacks.empty() ? "" : r.fallbacks[0]);
      EXPECT_TRUE(staging == Staging::always || w_.fake.count("cuGraphExecUpdate") > 20);
      EXPECT_TRUE(room > 1 || r.dropped > 0);
      w_.fake.log.clear();
    }
  }
}

// New signatures go through one executable: it may hold what the caller has freed since.
TEST_F(Regions, NoNewSignatureIsPutInPlaceOfFreedMemory) {
  Region step(
      "new",
      [&](CUstream s, const float* x, float* y, int n) {
        const auto bytes = 4 * static_cast<size_t>(n);
        RONDO_CU(w_.d, cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(y), 0, bytes, s));
        RONDO_CU(w_.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, bytes, s));
      },
      always());
  for (int call = 0; call < 60; ++call) {
    const int n = call < 4 ? 1 : call;  // the first is recorded, which makes the others worth it
    void* host = nullptr;
    RONDO_CU(w_.d, cuMemHostAlloc(&host, 4 * static_cast<size_t>(n), 0));
    auto* x = static_cast<float*>(host);
    x[n - 1] = static_cast<float>(call);
    {
      const Floats y(w_, n);
      step(w_.stream, in(x, n), out(y.data(), n), n);
      ASSERT_EQ(y[n - 1], static_cast<float>(call));
    }
    (void)w_.d.cuMemFreeHost(host);
  }
  EXPECT_GT(step.report().recaptures, 20u);
  EXPECT_EQ(w_.fake.given_freed(), 0);
}

// A recording that is larger than all may be together (a library may load its kernels while one is made)
// leaves no room, however often executables are shared: the search for room ends.
TEST_F(Regions, OneRecordingThatIsTooLargeEndsTheSearchForRoom) {
  Options o = always();
  o.most_bytes = 1000;
  Region step("two", two_kernels(w_), o);
  const Floats x(w_, 64), y(w_, 64);
  for (const size_t bytes : {size_t{300}, size_t{5000}, size_t{300}}) {
    w_.fake.exec_bytes = bytes;
    for (int call = 0; call < 60; ++call) {
      const int n = static_cast<int>(bytes / 100) + call % 6 + 1;
      const Floats z(w_, n, 0);
      step(w_.stream, in(x.data(), n), out(y.data(), n), inout(z.data(), n), n);
      ASSERT_EQ(z[n - 1], static_cast<float>(n - 1) + 6 * x[n - 1]);
    }
  }
  EXPECT_GT(step.report().replays, 20u);
  EXPECT_GT(step.report().dropped, 0u);
}

TEST_F(Regions, ADecisionIsRememberedByTheNextProcess) {
  const test::Folder folder;
  const test::CacheDir cache(folder.path.string());
  const Floats x(w_, 8), y(w_, 8), z(w_, 8);
  const auto run = [&](int calls) {
    auto step = std::make_unique<Region<decltype(two_kernels(w_))>>("two", two_kernels(w_));
    for (int i = 0; i < calls; ++i)
      (*step)(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
    return step->report();
  };
  const RegionReport first = run(1500);
  ASSERT_EQ(only(first).state, "decided") << only(first).reason;
  EXPECT_FALSE(only(first).remembered);
  const RegionReport second = run(2);
  EXPECT_EQ(only(second).state, "decided");
  EXPECT_TRUE(only(second).remembered);
  EXPECT_EQ(only(second).choice, only(first).choice);
}

// Sizes that never come again, and grids that follow them.
TEST_F(Regions, NewSignaturesAreCapturedAndLaunchedThroughOneExecutable) {
  Region step(
      "sizes",
      [&](CUstream s, const float* x, float* y, int n, float a) {
        void* args[] = {&x, &y, &n, &a};
        RONDO_CU(w_.d, cuLaunchKernel(w_.scale, static_cast<unsigned>(n + 31) / 32, 1, 1, 32, 1, 1, 0, s,
                                      args, nullptr));
        w_.do_axpy(s, x, y, n, 2);
      },
      always());
  const Floats x(w_, 600);
  for (int n = 1; n <= 500; ++n) {
    const Floats y(w_, n, 0);
    step(w_.stream, in(x.data(), n), out(y.data(), n), n, live(static_cast<float>(n)));
    ASSERT_EQ(y[n - 1], static_cast<float>(n + 2) * x[n - 1]);
    EXPECT_EQ(w_.fake.launches[w_.fake.launches.size() - 2].grid, static_cast<uint32_t>(n + 31) / 32);
  }
  const RegionReport r = step.report();
  EXPECT_GT(r.recaptures, 480u);
  EXPECT_EQ(w_.fake.count("cuGraphInstantiateWithParams"),
            2u);  // the one that is proved first, and the one for all
  EXPECT_NE(text(std::vector{r}).find("new signatures"), std::string::npos);
}

// What never comes again is not kept, however much of it there is.
TEST_F(Regions, ASignatureThatCameOnceCostsNoEntry) {
  Options o = always();
  o.recapture = false;
  Region step(
      "sizes", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, o);
  const Floats x(w_, 5200), y(w_, 5200);
  for (int n = 1; n < 5000; ++n) step(w_.stream, in(x.data(), n), out(y.data(), n), n);
  EXPECT_TRUE(step.report().recordings.empty());
  EXPECT_EQ(step.report().plain_calls, 4999u);
  // And what comes again is found among it.
  for (int n = 5100; n < 5200; ++n)
    for (int times = 0; times < 3; ++times) step(w_.stream, in(x.data(), n), out(y.data(), n), n);
  EXPECT_EQ(step.report().replays, 100u);
}

TEST_F(Regions, NewSignaturesEndWithAChoiceToo) {
  Region step(
      "sizes", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, quiet_);
  const Floats x(w_, 3000), y(w_, 3000);
  int n = 1;
  for (; n < 3000 && (n < 20 || step.report().recapture == "timing"); ++n) {
    step(w_.stream, in(x.data(), n), out(y.data(), n), n);
    ASSERT_EQ(y[n - 1], 3 * x[n - 1]);
  }
  EXPECT_LT(n, 2900);
  EXPECT_NE(step.report().recapture.find("plain"), std::string::npos) << step.report().recapture;
}

TEST_F(Regions, WhatALaunchWouldReadTooLateIsNotRecaptured) {
  std::vector<float> host(3000);
  Region step(
      "upload",
      [&](CUstream s, float* y, int n) {
        RONDO_CU(w_.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), host.data(),
                                         4 * static_cast<size_t>(n), s));
      },
      always());
  const Floats y(w_, 3000);
  for (int n = 1; n < 40; ++n) {
    host[static_cast<size_t>(n - 1)] = static_cast<float>(n);
    step(w_.stream, inout(y.data(), 3000), n);
    ASSERT_EQ(y[n - 1], static_cast<float>(n));
  }
  EXPECT_EQ(step.report().recaptures, 0u);
  EXPECT_NE(step.report().recapture.find("pageable host memory"), std::string::npos)
      << step.report().recapture;
}

TEST_F(Regions, ResetForgets) {
  Region step("two", two_kernels(w_), always());
  const Floats x(w_, 8), y(w_, 8), z(w_, 8);
  for (int i = 0; i < 4; ++i) step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  step.reset();
  EXPECT_TRUE(step.report().recordings.empty());
  const size_t captures = w_.fake.count("cuStreamBeginCapture");
  step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  EXPECT_TRUE(step.report().recordings.empty());  // it came once
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), captures);
  step(w_.stream, in(x.data(), 8), out(y.data(), 8), inout(z.data(), 8), 8);
  EXPECT_EQ(w_.fake.count("cuStreamBeginCapture"), captures + 2);
}

}  // namespace
}  // namespace rondo::replay
