// Regions in the hands of a hostile and unlucky user: whatever is done with the public interface, results are
// those of plain calls, counters are true, and what cannot be is said.
#include <cmath>
#include <limits>

#include "replay_support.h"
#include "rondo/replay/playable.h"

namespace rondo::replay {
namespace {

// ---------------------------------------------------------------- arguments that are not what they should be

TEST_F(Regions, AnAddressPassedAsAPlainValueIsNoReasonToDoWorkTwice) {
  // A CUdeviceptr is an integer, so nothing stops it from being passed as a plain argument.
  Region step(
      "twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); },
      always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, address(x), 8);
  EXPECT_EQ(x[0], 64);
  EXPECT_NE(only(step.report()).reason.find("argument 0"), std::string::npos) << only(step.report()).reason;
}

TEST_F(Regions, AnAddressInAStructIsNoReasonToDoWorkTwice) {
  struct Tensor {
    float* data;
    int n;
  };
  Region step(
      "twice", [&](CUstream s, Tensor t) { w_.do_twice(s, t.data, t.n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, Tensor{x.data(), 8});
  EXPECT_EQ(x[0], 64);
}

TEST_F(Regions, AnAddressPassedAsALiveScalarIsNoReasonToDoWorkTwice) {
  Region step(
      "twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); },
      always());
  const Floats x(w_, 8), y(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, live(address(i % 2 ? x : y)), 8);
  EXPECT_EQ(x[0], 8);
  EXPECT_EQ(y[0], 8);
}

TEST_F(Regions, AnInThatIsWrittenIsFound) {
  for (const Staging staging : {Staging::auto_, Staging::always}) {
    Options o = always();
    o.staging = staging;
    Region step(
        "twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); },
        o);
    const Floats x(w_, 8);
    for (int i = 0; i < 6; ++i) step(w_.stream, in(address(x), 32), 8);
    EXPECT_EQ(x[0], 64) << only(step.report()).reason;
  }
}

TEST_F(Regions, MoreBytesThanThereAreAddressesAreRefused) {
  Region step(
      "twice", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, always());
  const Floats x(w_, 8);
  std::string message;
  for (int i = 0; i < 3; ++i)
    message =
        message_of([&] { step(w_.stream, inout(x.data(), static_cast<size_t>(-1) / 4)); }, ErrorKind::Usage);
  EXPECT_NE(message.find("argument 0"), std::string::npos) << message;
}

TEST_F(Regions, AnEmptyBufferWithAnAddressMayBePassedOn) {
  Region step(
      "scale",
      [&](CUstream s, const float* mask, const float* x, float* y, int n) {
        w_.do_axpy(s, mask, y, 0, 1);
        w_.do_scale(s, x, y, n, 3);
      },
      always());
  const Floats x(w_, 8), y(w_, 8), mask(w_, 8), other(w_, 8);
  for (int i = 0; i < 8; ++i)
    step(w_.stream, in((i % 2 ? mask : other).data(), 0), in(x.data(), 8), out(y.data(), 8), 8);
  EXPECT_EQ(y[1], 6);
  EXPECT_EQ(step.report().replays, 6u) << only(step.report()).reason;
}

TEST_F(Regions, WhatLiesBetweenTheMembersOfAStructIsNoSignature) {
  struct Shape {
    char kind;
    double a;
  };
  Region step(
      "scale",
      [&](CUstream s, const float* x, float* y, Shape shape) {
        w_.do_scale(s, x, y, 8, static_cast<float>(shape.a));
      },
      always());
  const Floats x(w_, 8), y(w_, 8);
  for (int i = 0; i < 8; ++i) {
    alignas(Shape) unsigned char raw[sizeof(Shape)];
    std::memset(raw, i + 1, sizeof raw);
    auto* shape = new (raw) Shape;
    shape->kind = 'a', shape->a = 3;
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), *shape);
    EXPECT_EQ(y[1], 6);
  }
  EXPECT_EQ(step.report().recordings.size(), 1u);
  EXPECT_EQ(step.report().replays, 6u);
}

TEST_F(Regions, KindsThatChangeFromCallToCall) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  const Floats x(w_, 8, 1);
  float expected = 1;
  for (int i = 0; i < 12; ++i) {
    if (i % 3 == 1)
      EXPECT_NO_THROW(step(w_.stream, out(x.data(), 8), 8));  // not true, and found
    else
      step(w_.stream, inout(x.data(), 8), 8);
    expected *= 2;
    ASSERT_EQ(x[0], expected) << i;
  }
  EXPECT_EQ(step.report().recordings.size(), 2u);
}

TEST_F(Regions, ManyArgumentsAndNone) {
  std::vector<std::unique_ptr<Floats>> all;
  for (int i = 0; i < 300; ++i) all.push_back(std::make_unique<Floats>(w_, 4, static_cast<float>(i)));
  RegionBase many("many", always());
  const auto work = [&](CUstream s, const Argument* a) {
    for (size_t i = 0; i < 300; ++i) w_.do_twice(s, reinterpret_cast<float*>(a[i].value), 4);
  };
  const detail::WorkRef ref{
      const_cast<void*>(static_cast<const void*>(&work)),
      [](void* w, CUstream s, const Argument* a) { (*static_cast<decltype(work)*>(w))(s, a); }};
  for (int call = 0; call < 6; ++call) {
    std::rotate(all.begin(), all.begin() + 7, all.end());
    std::vector<Argument> arguments;
    for (const auto& f : all) arguments.push_back({address(*f), 16, Kind::InOut, Element::F32, 0});
    for (const auto& f : all) (*f)[0] = 1;
    many.call(w_.stream, arguments, ref);
    for (const auto& f : all) ASSERT_EQ((*f)[0], 2);
  }
  EXPECT_EQ(many.report().replays, 4u);
  const Floats x(w_, 4);
  Region none(
      "none", [&](CUstream s) { w_.do_twice(s, x.data(), 4); }, quiet_);
  for (int call = 0; call < 4; ++call) none(w_.stream);
}

TEST_F(Regions, EdgesOfLiveScalars) {
  Region step(
      "axpy", [&](CUstream s, const float* x, float* y, float a) { w_.do_scale(s, x, y, 4, a); }, always());
  const Floats x(w_, 4), y(w_, 4);
  const float values[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          1e-45f,
                          -0.0f,
                          0.0f,
                          1.0f,
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::lowest(),
                          2.5f,
                          1e-38f,
                          3.0f};
  for (int round = 0; round < 5; ++round)
    for (const float a : values) {
      step(w_.stream, in(x.data(), 4), out(y.data(), 4), live(a));
      for (int i = 0; i < 4; ++i) {
        const float want = a * x[i], is = y[i];
        EXPECT_EQ(std::memcmp(&want, &is, 4), 0) << a << " round " << round;
      }
    }
  EXPECT_GT(step.report().replays, 30u);
}

TEST_F(Regions, LiveIntegersAtTheEdges) {
  w_.fake.kernels.push_back("store");
  w_.fake.parameter_bytes["store"] = {8, 8, 4, 4};
  w_.fake.bodies["store"] = [](const fake::Launched& l) {
    auto* to = reinterpret_cast<uint64_t*>(World::number<uint64_t>(l, 0));
    to[0] = World::number<uint64_t>(l, 8), to[1] = World::number<uint32_t>(l, 16),
    to[2] = World::number<uint32_t>(l, 20);
  };
  CUfunction store = nullptr;
  RONDO_CU(w_.d, cuModuleGetFunction(&store, w_.module, "store"));
  Region step(
      "store",
      [&](CUstream s, uint64_t* to, uint64_t a, int b, int c) {
        w_.launch(s, store, {&to, &a, &b, &c});
      },
      always());
  const Floats y(w_, 8);
  auto* to = reinterpret_cast<uint64_t*>(y.data());
  const uint64_t wide[] = {~uint64_t{0}, uint64_t{1} << 63, 42, 0xffffffffu, 0x100000000u};
  const int narrow[] = {INT32_MIN, INT32_MAX, 7, 7, 1000};
  for (int call = 0; call < 100; ++call) {
    const uint64_t a = wide[call % 5];
    const int b = narrow[call / 5 % 5], c = narrow[(call / 3) % 5];
    step(w_.stream, out(to, 3), live(a), live(b), live(c));
    ASSERT_EQ(to[0], a);
    ASSERT_EQ(to[1], static_cast<uint32_t>(b));
    ASSERT_EQ(to[2], static_cast<uint32_t>(c));
  }
}

TEST_F(Regions, ALiveCountOfLaunchesEnds) {
  // A count that is said to be live is found to decide what is launched, without billions of launches.
  Region step(
      "layers",
      [&](CUstream s, float* x, size_t layers) {
        for (size_t l = 0; l < layers; ++l) {
          if (l > 100000) throw std::runtime_error("far too many");
          w_.do_twice(s, x, 8);
        }
      },
      always());
  const Floats x(w_, 8);
  for (int call = 0; call < 6; ++call) step(w_.stream, inout(x.data(), 8), live(size_t{3}));
  EXPECT_EQ(x[0], std::ldexp(1.0f, 18));
  EXPECT_GT(step.report().replays, 2u) << text(std::vector{step.report()});
}

// ---------------------------------------------------------------- counters

TEST_F(Regions, CountersAreTrueAfterAReset) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 8; ++i) step(w_.stream, inout(x.data(), 8), 8);
  step.reset();
  for (int i = 0; i < 8; ++i) step(w_.stream, inout(x.data(), 8), 8);
  const RegionReport r = step.report();
  EXPECT_EQ(r.calls, 16u);
  EXPECT_EQ(sum_of_ways(r), r.calls);
  EXPECT_EQ(r.replays, 12u);
}

TEST_F(Regions, CountersAreTrueAfterThousandsOfSignatures) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n % 8); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 10; ++i) step(w_.stream, inout(x.data(), 8), 0);
  for (int n = 1; n < 3000; ++n) step(w_.stream, inout(x.data(), 8), n);
  const RegionReport r = step.report();
  EXPECT_EQ(sum_of_ways(r), r.calls);
  EXPECT_EQ(r.replays, 8u);
  EXPECT_LE(r.recordings.size(), 1024u);
}

TEST_F(Regions, NoRecordingsAtAllMeansNone) {
  for (const bool by_bytes : {false, true}) {
    Options o = always();
    if (by_bytes)
      o.most_bytes = 0;
    else
      o.most_recordings = 0;
    o.staging = Staging::always;  // so that a recording has bytes
    Region step(
        "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
    const Floats x(w_, 8);
    for (int i = 0; i < 8; ++i) step(w_.stream, inout(x.data(), 8), 8);
    EXPECT_EQ(x[0], 256);
    EXPECT_EQ(only(step.report()).device_bytes, 0u);
    EXPECT_EQ(only(step.report()).nodes, 0u);
  }
}

TEST_F(Regions, OptionsOutOfRange) {
  Options o = always();
  o.plain_calls = 0, o.most_failures = 0, o.tolerance = std::nan(""), o.proof = Proof::tolerance;
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
  const Floats x(w_, 8);
  for (int i = 0; i < 8; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 256);
  o = always();
  o.plain_calls = UINT_MAX, o.most_recordings = UINT_MAX, o.most_bytes = UINT64_MAX, o.tolerance = -1;
  Region late(
      "late", [&](CUstream s, float* y, int n) { w_.do_twice(s, y, n); }, o);
  for (int i = 0; i < 8; ++i) late(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(late.report().plain_calls, 8u);
}

// ---------------------------------------------------------------- what goes wrong for a moment must not stay

TEST_F(Regions, OneFailureOfTheSecondCaptureTellsNothingOfLiveScalars) {
  long without = 0;
  for (long k = 1;; ++k) {
    World w;
    std::string failed;
    uint64_t replays = 0, refused = 0;
    {
      Region step(
          "axpy", [&](CUstream s, const float* x, float* y, float a) { w.do_scale(s, x, y, 4, a); },
          always());
      const Floats x(w, 4), y(w, 4);
      step(w.stream, in(x.data(), 4), out(y.data(), 4), live(1.5f));
      w.fake.fail(k);
      try {
        step(w.stream, in(x.data(), 4), out(y.data(), 4), live(1.5f));
      } catch (const Error&) {
      }
      failed = w.fake.failed();
      w.fake.no_faults();
      for (int i = 0; i < 40; ++i) {
        step(w.stream, in(x.data(), 4), out(y.data(), 4), live(2.5f + static_cast<float>(i)));
        ASSERT_EQ(y[1], 2 * (2.5f + static_cast<float>(i)));
      }
      replays = step.report().replays;
      for (const RecordingReport& r : step.report().recordings) refused += r.state == "refused";
    }
    if (failed.empty()) break;
    if (!refused && replays < 10)
      ++without, std::printf("[   NOTE   ] a failure of %s (%ld) leaves %ld replays\n", failed.c_str(), k,
                             static_cast<long>(replays));
  }
  EXPECT_EQ(without, 0);
}

TEST_F(Regions, OneSignaturesScalarsSayNothingOfAnothers) {
  // Only small ones use the scalar.
  Region step(
      "axpy",
      [&](CUstream s, const float* x, float* y, int n, float a) {
        w_.do_scale(s, x, y, n, n > 8 ? 2.0f : a);
      },
      always());
  const Floats x(w_, 16), y(w_, 16);
  const auto call = [&](int n, float a) {
    step(w_.stream, in(x.data(), n), out(y.data(), n), n, live(a));
    ASSERT_EQ(y[1], 2 * (n > 8 ? 2.0f : a));
  };
  for (int i = 0; i < 10; ++i) call(8, 2.5f + static_cast<float>(i));
  const uint64_t before = step.report().replays;
  EXPECT_EQ(before, 8u);
  for (int i = 0; i < 3; ++i) call(16, 2.5f);
  const uint64_t between = step.report().replays;
  for (int i = 0; i < 40; ++i) call(8, 2.5f + static_cast<float>(i)), call(16, 2.5f);
  EXPECT_GT(step.report().replays, between + 70);
}

TEST_F(Regions, AShortageOfMemoryPasses) {
  // At each step of recording, for a moment.
  long stuck = 0;
  for (long k = 1;; ++k) {
    World w;
    std::string failed;
    uint64_t replays = 0;
    std::string state;
    {
      Region step(
          "twice", [&](CUstream s, float* x, int n) { w.do_twice(s, x, n); }, always());
      const Floats x(w, 8);
      step(w.stream, inout(x.data(), 8), 8);
      w.fake.fail(k, CUDA_ERROR_OUT_OF_MEMORY);
      try {
        step(w.stream, inout(x.data(), 8), 8);
      } catch (const Error&) {
      }
      failed = w.fake.failed();
      w.fake.no_faults();
      for (int i = 0; i < 40; ++i) step(w.stream, inout(x.data(), 8), 8);
      replays = step.report().replays, state = text(std::vector{step.report()});
    }
    EXPECT_EQ(w.close(), "");
    if (failed.empty()) break;
    if (replays < 10)
      ++stuck, std::printf("[   NOTE   ] OUT_OF_MEMORY of %s (%ld): %s\n", failed.c_str(), k, state.c_str());
  }
  EXPECT_EQ(stuck, 0);
}

TEST_F(Regions, NoMemoryToRecordWith) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  const Floats x(w_, 1 << 20);
  for (const size_t extra : {size_t{0}, size_t{4} << 20, size_t{5} << 20, size_t{8} << 20}) {
    w_.fake.total_bytes = w_.fake.used_bytes() + extra;
    for (int i = 0; i < 5; ++i) {
      x[0] = 1;
      step(w_.stream, inout(x.data(), 1 << 20), 8);
      ASSERT_EQ(x[0], 2);
    }
  }
  w_.fake.total_bytes = size_t{1} << 30;
  for (int i = 0; i < 60; ++i) step(w_.stream, inout(x.data(), 1 << 20), 8);
  EXPECT_NE(only(step.report()).reason, "");
}

// ---------------------------------------------------------------- new signatures, captured one by one

TEST_F(Regions, WorkThatGoesPartlyElsewhereIsNotReordered) {
  // The second kernel goes to the legacy stream by mistake, which a plain call on a blocking stream puts in
  // order.
  CUstream blocking = nullptr;
  RONDO_CU(w_.d, cuStreamCreate(&blocking, 0));
  Region step(
      "elsewhere",
      [&](CUstream s, const float* x, float* y, int n) {
        w_.do_scale(s, x, y, n, 3);
        w_.do_twice(nullptr, y, n);
      },
      always());
  const Floats x(w_, 64), y(w_, 64, 100);
  for (int n = 1; n < 40; ++n) {
    step(blocking, in(x.data(), n), out(y.data(), n), n);
    ASSERT_EQ(y[0], 6) << n;
  }
  (void)w_.d.cuStreamDestroy(blocking);
}

TEST_F(Regions, WhatCannotBeCapturedIsDoneOnceInEachCall) {
  // It waits: each new signature is plain, and what it does at once is done once.
  int counted = 0;
  Region step(
      "waits",
      [&](CUstream s, float* x, int n) {
        w_.do_twice(s, x, n);
        RONDO_CU(w_.d, cuStreamSynchronize(s));
        ++counted;
      },
      quiet_);
  const Floats x(w_, 64);
  for (int n = 1; n < 40; ++n) {
    x[0] = 1;
    step(w_.stream, inout(x.data(), n), n);
    ASSERT_EQ(x[0], 2);
  }
  EXPECT_EQ(counted, 39);
  EXPECT_NE(step.report().recapture.find("cuStreamSynchronize"), std::string::npos)
      << step.report().recapture;
}

// ---------------------------------------------------------------- memory of another kind under the same

// signature

// Page-locked and device memory, interchangeable for the work.
TEST_F(Regions, BuffersThatChangeTheirKindOfMemory) {
  for (const Staging staging : {Staging::auto_, Staging::always}) {
    Options o = always();
    o.staging = staging;
    Region step(
        "scale", [&](CUstream s, const float* x, float* y) { w_.do_scale(s, x, y, 8, 3); }, o);
    void* host[2];
    for (void*& h : host) RONDO_CU(w_.d, cuMemHostAlloc(&h, 64, 0));
    {
      const Floats x(w_, 8), y(w_, 8);
      auto *hx = static_cast<float*>(host[0]), *hy = static_cast<float*>(host[1]);
      for (int i = 0; i < 8; ++i) hx[i] = static_cast<float>(10 + i);
      for (int call = 0; call < 24; ++call) {
        const float* from = call / 3 % 2 ? hx : x.data();
        float* to = call / 5 % 2 ? hy : y.data();
        to[2] = 0;
        step(w_.stream, in(from, 8), out(to, 8));
        ASSERT_EQ(to[2], 3 * from[2]) << call;
      }
    }
    for (void* h : host) (void)w_.d.cuMemFreeHost(h);
  }
}

TEST_F(Regions, OrdinaryMemoryInPlaceOfPageLockedIsNotReadLater) {
  for (const Staging staging : {Staging::auto_, Staging::always}) {
    Options o = always();
    o.staging = staging;
    Region step(
        "copy",
        [&](CUstream s, const float* x, float* y) {
          RONDO_CU(w_.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, 32, s));
        },
        o);
    void* host = nullptr;
    RONDO_CU(w_.d, cuMemHostAlloc(&host, 64, 0));
    {
      const Floats y(w_, 8);
      auto* locked = static_cast<float*>(host);
      for (int call = 0; call < 6; ++call) {
        locked[0] = static_cast<float>(call);
        step(w_.stream, in(locked, 8), out(y.data(), 8));
        EXPECT_EQ(y[0], static_cast<float>(call));
      }
      const uint64_t before = step.report().replays;
      EXPECT_EQ(before, 4u) << only(step.report()).reason;
      alignas(512) static float plain[16];
      std::vector<float> heap(1024);
      float* aligned = heap.data();
      while (reinterpret_cast<uint64_t>(aligned) % 256) ++aligned;
      for (float* p : {aligned, plain, aligned}) {
        p[0] = 99;
        step(w_.stream, in(p, 8), out(y.data(), 8));
        EXPECT_EQ(y[0], 99);
      }
      EXPECT_EQ(step.report().replays, before);
      for (int call = 0; call < 6; ++call) step(w_.stream, in(locked, 8), out(y.data(), 8));
      EXPECT_EQ(y[0], 5);
    }
    (void)w_.d.cuMemFreeHost(host);
  }
}

TEST_F(Regions, FreedAndAllocatedAgainAtTheSamePlace) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
  for (int call = 0; call < 60; ++call) {
    const int n = call % 3 ? 8 : 64;
    const Floats x(w_, n);
    step(w_.stream, inout(x.data(), n), n);
    ASSERT_EQ(x[n - 1], 2 * static_cast<float>(n));
  }
}

TEST_F(Regions, BuffersThatComeToOverlapAfterTheRecording) {
  Region step(
      "scale", [&](CUstream s, const float* x, float* y, int n) { w_.do_scale(s, x, y, n, 3); }, always());
  const Floats pool(w_, 1024);
  for (int call = 0; call < 200; ++call) {
    const int a = 64 * (call * 7 % 9), b = 64 * (call * 5 % 11);
    for (int i = 0; i < 1024; ++i) pool[i] = static_cast<float>(i % 50);
    std::vector<float> expected(pool.data(), pool.data() + 1024);
    for (int i = 0; i < 100; ++i)
      expected[static_cast<size_t>(b + i)] = 3 * expected[static_cast<size_t>(a + i)];
    step(w_.stream, in(pool.data() + a, 100), out(pool.data() + b, 100), 100);
    for (int i = 0; i < 1024; ++i)
      ASSERT_EQ(pool[i], expected[static_cast<size_t>(i)]) << call << " " << a << " " << b << " " << i;
  }
  EXPECT_GT(step.report().replays, 50u);
}

// ---------------------------------------------------------------- nodes of other kinds

TEST_F(Regions, AllocationsAndHostFunctionsInside) {
  static int host_calls = 0;
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    host_calls = 0;
    Options o = quiet_;
    o.policy = policy;
    Region step(
        "allocates",
        [&](CUstream s, const float* x, float* y, int n) {
          CUdeviceptr scratch = 0;
          RONDO_CU(w_.d, cuMemAllocAsync(&scratch, 4 * static_cast<size_t>(n), s));
          w_.do_scale(s, x, reinterpret_cast<float*>(scratch), n, 3);
          w_.do_scale(s, reinterpret_cast<float*>(scratch), y, n, 2);
          RONDO_CU(w_.d, cuLaunchHostFunc(
                             s, [](void*) { ++host_calls; }, nullptr));
          RONDO_CU(w_.d, cuMemFreeAsync(scratch, s));
        },
        o);
    for (int call = 0; call < 100; ++call) {
      const Floats x(w_, 8, static_cast<float>(call)), y(w_, 8);
      step(w_.stream, in(x.data(), 8), out(y.data(), 8), 8);
      ASSERT_EQ(y[3], 6 * x[3]);
    }
    EXPECT_EQ(host_calls, 101);  // once more for the proof
    EXPECT_GT(step.report().replays, 20u) << text(std::vector{step.report()});
  }
}

TEST_F(Regions, ForkedAndJoinedStreams) {
  const graph::Stream side = graph::Stream::create();
  const graph::Event fork = graph::Event::create(), join = graph::Event::create();
  Region step(
      "forks",
      [&](CUstream s, const float* x, float* y, float* z) {
        RONDO_CU(w_.d, cuEventRecord(fork.get(), s));
        RONDO_CU(w_.d, cuStreamWaitEvent(side.get(), fork.get(), 0));
        w_.do_scale(side, x, y, 8, 3);
        w_.do_scale(s, x, z, 8, 5);
        RONDO_CU(w_.d, cuEventRecord(join.get(), side.get()));
        RONDO_CU(w_.d, cuStreamWaitEvent(s, join.get(), 0));
        w_.do_axpy(s, y, z, 8, 1);
      },
      quiet_);
  for (int call = 0; call < 300; ++call) {
    const Floats x(w_, 8, static_cast<float>(call)), y(w_, 8), z(w_, 8);
    step(w_.stream, in(x.data(), 8), out(y.data(), 8), out(z.data(), 8));
    ASSERT_EQ(z[3], 8 * x[3]);
  }
  EXPECT_GT(step.report().replays, 20u);
}

// ---------------------------------------------------------------- throwing at each call

TEST_F(Regions, WorkThatThrowsAtEachOfItsCalls) {
  for (const Policy policy : {Policy::always, Policy::auto_})
    for (const Proof proof : {Proof::exact, Proof::off})
      for (int at = 1; at < 40; ++at) {
        int called = 0;
        Options o = quiet_;
        o.policy = policy, o.proof = proof;
        Region step(
            "throws",
            [&](CUstream s, float* x, float a) {
              if (++called == at) throw std::runtime_error("mine");
              w_.do_axpy(s, x, x, 0, a);
              w_.do_twice(s, x, 8);
            },
            o);
        for (int call = 0; call < 60; ++call) {
          const Floats x(w_, 8);
          const int before = called;
          bool threw = false;
          try {
            step(w_.stream, inout(x.data(), 8), live(2.5f + static_cast<float>(call % 3)));
          } catch (const std::runtime_error& e) {
            threw = true;
            EXPECT_STREQ(e.what(), "mine");
            EXPECT_LT(before, at);
          }
          ASSERT_EQ(x[0], threw ? 1 : 2) << "throws at " << at << ", call " << call;
        }
        const RegionReport r = step.report();
        EXPECT_EQ(sum_of_ways(r), r.calls) << "throws at " << at;
      }
}

// ---------------------------------------------------------------- checks of a choice

TEST_F(Regions, ACheckThatComesInACaptureIsMadeLater) {
  Region step(
      "twice", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, quiet_);
  const Floats x(w_, 8);
  const auto samples = [&] {
    const RecordingReport r = only(step.report());
    return r.alternatives[0].samples + r.alternatives[1].samples;
  };
  int calls = 0;
  for (; calls < 2000 && (calls < 4 || only(step.report()).state != "decided"); ++calls)
    step(w_.stream, inout(x.data(), 8));
  const unsigned before = samples();
  // 4096 calls later a check is due, wherever the captures fall.
  for (int i = 0; i < 4090; ++i) step(w_.stream, inout(x.data(), 8));
  graph::Graph g = graph::capture(w_.stream, [&] {
    for (int i = 0; i < 12; ++i) step(w_.stream, inout(x.data(), 8));
  });
  EXPECT_EQ(g.node_count(), 12u);
  for (int i = 0; i < 600; ++i) step(w_.stream, inout(x.data(), 8));
  EXPECT_GT(samples(), before);
  EXPECT_EQ(only(step.report()).state, "decided");
}

// Recordings that share an executable graph, and new signatures that do: a cluster's shape may not be kept
// from another.
TEST_F(Regions, WhatAnUpdateWouldKeepIsNotKept) {
  Options o = always();
  o.most_recordings = 1;
  Region step(
      "clusters",
      [&](CUstream s, const float* x, float* y, int n) {
        CUlaunchAttribute cluster{};
        cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        cluster.value.clusterDim.x = 1 + static_cast<unsigned>(n) % 4,
        cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
        CUlaunchConfig c{};
        c.gridDimX = 8, c.gridDimY = c.gridDimZ = c.blockDimY = c.blockDimZ = 1, c.blockDimX = 32;
        c.hStream = s, c.attrs = &cluster, c.numAttrs = 1;
        float a = 3;
        void* args[] = {&x, &y, &n, &a};
        RONDO_CU(w_.d, cuLaunchKernelEx(&c, w_.scale, args, nullptr));
      },
      o);
  const Floats x(w_, 512), y(w_, 512);
  for (int call = 0; call < 400; ++call) {
    const int n = call < 200 ? 1 + call / 2 % 6 : call;
    step(w_.stream, in(x.data(), n), out(y.data(), n), n);
    ASSERT_EQ(w_.fake.launches.back().cluster, 1 + static_cast<unsigned>(n) % 4) << call;
    ASSERT_EQ(y[n - 1], 3 * x[n - 1]);
  }
  EXPECT_GT(step.report().replays + step.report().recaptures, 100u);
}

}  // namespace
}  // namespace rondo::replay
