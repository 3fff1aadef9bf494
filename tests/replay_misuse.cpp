// Regions in the hands of a hostile and unlucky user: whatever is done with the public interface, results are those of
// plain calls, counters are true, and what cannot be is said.
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "replay_folder.h"
#include "replay_support.h"
#include "rondo/replay_buckets.h"
#include "rondo/replay_group.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace {

uint64_t sum_of_ways(const RegionReport& r) { return r.plain_calls + r.replays; }

CUdeviceptr address(const Floats& f) { return reinterpret_cast<CUdeviceptr>(f.data()); }

// ---------------------------------------------------------------- arguments that are not what they should be

TEST_F(Regions, AnAddressPassedAsAPlainValueIsNoReasonToDoWorkTwice) {
  // A CUdeviceptr is an integer, so nothing stops it from being passed as a plain argument.
  Region step("twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); }, always());
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
  Region step("twice", [&](CUstream s, Tensor t) { w_.do_twice(s, t.data, t.n); }, always());
  const Floats x(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, Tensor{x.data(), 8});
  EXPECT_EQ(x[0], 64);
}

TEST_F(Regions, AnAddressPassedAsALiveScalarIsNoReasonToDoWorkTwice) {
  Region step("twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); }, always());
  const Floats x(w_, 8), y(w_, 8);
  for (int i = 0; i < 6; ++i) step(w_.stream, live(address(i % 2 ? x : y)), 8);
  EXPECT_EQ(x[0], 8);
  EXPECT_EQ(y[0], 8);
}

TEST_F(Regions, AnInThatIsWrittenIsFound) {
  for (const Staging staging : {Staging::auto_, Staging::always}) {
    Options o = always();
    o.staging = staging;
    Region step("twice", [&](CUstream s, CUdeviceptr x, int n) { w_.do_twice(s, reinterpret_cast<float*>(x), n); }, o);
    const Floats x(w_, 8);
    for (int i = 0; i < 6; ++i) step(w_.stream, in(address(x), 32), 8);
    EXPECT_EQ(x[0], 64) << only(step.report()).reason;
  }
}

TEST_F(Regions, MoreBytesThanThereAreAddressesAreRefused) {
  Region step("twice", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, always());
  const Floats x(w_, 8);
  std::string message;
  for (int i = 0; i < 3; ++i)
    message = message_of([&] { step(w_.stream, inout(x.data(), static_cast<size_t>(-1) / 4)); }, ErrorKind::Usage);
  EXPECT_NE(message.find("argument 0"), std::string::npos) << message;
}

TEST_F(Regions, AnEmptyBufferWithAnAddressMayBePassedOn) {
  Region step("scale", [&](CUstream s, const float* mask, const float* x, float* y, int n) {
    w_.do_axpy(s, mask, y, 0, 1);
    w_.do_scale(s, x, y, n, 3);
  }, always());
  const Floats x(w_, 8), y(w_, 8), mask(w_, 8), other(w_, 8);
  for (int i = 0; i < 8; ++i) step(w_.stream, in((i % 2 ? mask : other).data(), 0), in(x.data(), 8), out(y.data(), 8), 8);
  EXPECT_EQ(y[1], 6);
  EXPECT_EQ(step.report().replays, 6u) << only(step.report()).reason;
}

TEST_F(Regions, WhatLiesBetweenTheMembersOfAStructIsNoSignature) {
  struct Shape {
    char kind;
    double a;
  };
  Region step("scale", [&](CUstream s, const float* x, float* y, Shape shape) { w_.do_scale(s, x, y, 8, static_cast<float>(shape.a)); },
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
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
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
  const detail::WorkRef ref{const_cast<void*>(static_cast<const void*>(&work)), [](void* w, CUstream s, const Argument* a) {
                              (*static_cast<decltype(work)*>(w))(s, a);
                            }};
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
  Region none("none", [&](CUstream s) { w_.do_twice(s, x.data(), 4); }, quiet_);
  for (int call = 0; call < 4; ++call) none(w_.stream);
}

// Memory that the work captured is written by it, although the contract wants an argument for it.
TEST_F(Regions, EdgesOfLiveScalars) {
  Region step("axpy", [&](CUstream s, const float* x, float* y, float a) { w_.do_scale(s, x, y, 4, a); }, always());
  const Floats x(w_, 4), y(w_, 4);
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e-45f, -0.0f, 0.0f, 1.0f,
                          std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 2.5f, 1e-38f, 3.0f};
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
    to[0] = World::number<uint64_t>(l, 8), to[1] = World::number<uint32_t>(l, 16), to[2] = World::number<uint32_t>(l, 20);
  };
  CUfunction store = nullptr;
  RONDO_CU(w_.d, cuModuleGetFunction(&store, w_.module, "store"));
  Region step("store", [&](CUstream s, uint64_t* to, uint64_t a, int b, int c) { w_.launch(s, store, {&to, &a, &b, &c}); }, always());
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
  Region step("layers", [&](CUstream s, float* x, size_t layers) {
    for (size_t l = 0; l < layers; ++l) {
      if (l > 100000) throw std::runtime_error("far too many");
      w_.do_twice(s, x, 8);
    }
  }, always());
  const Floats x(w_, 8);
  for (int call = 0; call < 6; ++call) step(w_.stream, inout(x.data(), 8), live(size_t{3}));
  EXPECT_EQ(x[0], std::ldexp(1.0f, 18));
  EXPECT_GT(step.report().replays, 2u) << text(std::vector{step.report()});
}

// ---------------------------------------------------------------- counters

TEST_F(Regions, CountersAreTrueAfterAReset) {
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
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
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n % 8); }, always());
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
    Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
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
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
  const Floats x(w_, 8);
  for (int i = 0; i < 8; ++i) step(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], 256);
  o = always();
  o.plain_calls = UINT_MAX, o.most_recordings = UINT_MAX, o.most_bytes = UINT64_MAX, o.tolerance = -1;
  Region late("late", [&](CUstream s, float* y, int n) { w_.do_twice(s, y, n); }, o);
  for (int i = 0; i < 8; ++i) late(w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(late.report().plain_calls, 8u);
}

// ---------------------------------------------------------------- before_replay

TEST_F(Regions, BeforeReplayMayAskForTheReport) {
  Region<std::function<void(CUstream, float*, int)>>* self = nullptr;
  int asked = 0;
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    Options o = quiet_;
    o.policy = policy;
    o.before_replay = [&](CUstream) { asked += self->report().calls > 0; };
    Region<std::function<void(CUstream, float*, int)>> step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
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
      Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
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
    Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, o);
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
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
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
  Region one("one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Group group("one", {&one});
  const Floats x(w_, 8);
  for (int i = 0; i < 30; ++i) {
    x[0] = 1;
    group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8), 8); });
    EXPECT_EQ(x[0], 2);
    const graph::Graph g = graph::capture(w_.stream, [&] { group.step(w_.stream, [&] { one(w_.stream, inout(x.data(), 8), 8); }); });
    EXPECT_EQ(g.node_count(), 1u);
  }
}

TEST_F(Regions, TheLegacyStream) {
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const Floats x(w_, 8);
  for (int i = 0; i < 20; ++i) step(i % 2 ? nullptr : w_.stream, inout(x.data(), 8), 8);
  EXPECT_EQ(x[0], std::ldexp(1.0f, 20));
}

// ---------------------------------------------------------------- groups

TEST_F(Regions, AGroupThatGoesUndecidedLetsItsRegionsDecide) {
  Region one("one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
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
  Region one("one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
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
  Parts parts("tree", always(), part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }), plain_part([&](CUstream s, float*, int depth) {
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
  Parts parts("tree", always(), part([&](CUstream s, float* x, int) { w_.do_twice(s, x, 8); }), part([&](CUstream s, float*, int depth) {
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
  Parts parts("throws", always(), part([&](CUstream s, float* x) { w_.do_twice(s, x, 8); }), plain_part([&](CUstream, float*) {
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
  Region inner("inner", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); }, quiet_);
  Group group("group", {&inner});
  Parts parts("parts", quiet_, part([&](CUstream s, float* x) { group.step(s, [&] { inner(s, inout(x, 8)); }); }),
              part([&](CUstream s, float* x) { inner(s, inout(x, 8)); }));
  Region outer("outer", [&](CUstream s, float* x) { parts(s, inout(x, 8)); }, quiet_);
  for (int call = 0; call < 400; ++call) {
    const Floats x(w_, 8);
    outer(w_.stream, inout(x.data(), 8));
    ASSERT_EQ(x[0], 4) << call;
  }
}

// ---------------------------------------------------------------- recursion

TEST_F(Regions, WorkThatCallsItsOwnRegion) {
  std::function<void(CUstream, float*, int)> again;
  Region<std::function<void(CUstream, float*, int)>> step("self", [&](CUstream s, float* x, int depth) {
    w_.do_twice(s, x, 8);
    if (depth > 0) again(s, x, depth - 1);
  }, quiet_);
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

// ---------------------------------------------------------------- what goes wrong for a moment must not stay

TEST_F(Regions, OneFailureOfTheSecondCaptureTellsNothingOfLiveScalars) {
  long without = 0;
  for (long k = 1;; ++k) {
    World w;
    std::string failed;
    uint64_t replays = 0, refused = 0;
    {
      Region step("axpy", [&](CUstream s, const float* x, float* y, float a) { w.do_scale(s, x, y, 4, a); }, always());
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
    if (!refused && replays < 10) ++without, std::printf("[   NOTE   ] a failure of %s (%ld) leaves %ld replays\n", failed.c_str(), k, static_cast<long>(replays));
  }
  EXPECT_EQ(without, 0);
}

TEST_F(Regions, OneSignaturesScalarsSayNothingOfAnothers) {
  // Only small ones use the scalar.
  Region step("axpy", [&](CUstream s, const float* x, float* y, int n, float a) { w_.do_scale(s, x, y, n, n > 8 ? 2.0f : a); }, always());
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
      Region step("twice", [&](CUstream s, float* x, int n) { w.do_twice(s, x, n); }, always());
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
      replays = step.report().replays, state = only(step.report()).reason;
    }
    EXPECT_EQ(w.close(), "");
    if (failed.empty()) break;
    if (replays < 10) ++stuck, std::printf("[   NOTE   ] OUT_OF_MEMORY of %s (%ld): %s\n", failed.c_str(), k, state.c_str());
  }
  EXPECT_EQ(stuck, 0);
}

TEST_F(Regions, NoMemoryToRecordWith) {
  Region step("twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, always());
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

}  // namespace
}  // namespace rondo::replay
