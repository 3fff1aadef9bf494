// Regions in the hands of a hostile and unlucky user: whatever is done with the public interface, results are
// those of plain calls, counters are true, and what cannot be is said.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <thread>

#include "replay_folder.h"
#include "replay_support.h"
#include "rondo/base/options.h"
#include "rondo/replay/playable.h"
#include "rondo/replay_buckets.h"
#include "rondo/replay_group.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace {

uint64_t sum_of_ways(const RegionReport& r) { return r.plain_calls + r.replays + r.recaptures; }

CUdeviceptr address(const Floats& f) { return reinterpret_cast<CUdeviceptr>(f.data()); }

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

// ---------------------------------------------------------------- threads

TEST_F(Regions, ThreadsThatCallResetAndAsk) {
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    Options o = quiet_;
    o.policy = policy, o.most_recordings = 2, o.before_replay = [](CUstream) { std::this_thread::yield(); };
    Region step(
        "twice",
        [&](CUstream s, float* x, int n, float a) {
          w_.do_scale(s, x, x, 0, a);
          w_.do_twice(s, x, n);
        },
        o);
    std::atomic<int> wrong = 0;
    std::atomic<bool> over = false;
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&, t] {
        RONDO_CU(w_.d, cuCtxPushCurrent(w_.context));
        {
          const graph::Stream mine = graph::Stream::create();
          for (int call = 0; call < 400; ++call) {
            const int n = 8 + 8 * ((call / 7 + t) % 4);
            const Floats x(w_, n);
            try {
              step(mine, inout(x.data(), n), n, live(1.5f + static_cast<float>(call)));
            } catch (const std::exception& e) {
              ++wrong, std::printf("%s\n", e.what());
            }
            if (x[n - 1] != 2 * static_cast<float>(n)) ++wrong;
          }
        }
        CUcontext ignored = nullptr;
        (void)w_.d.cuCtxPopCurrent(&ignored);
      });
    std::thread resets([&] {
      while (!over) step.reset(), std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
    std::thread asks([&] {
      while (!over) {
        const RegionReport r = step.report();
        if (sum_of_ways(r) > r.calls) ++wrong;
        (void)report();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    for (std::thread& t : callers) t.join();
    over = true;
    resets.join(), asks.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(sum_of_ways(step.report()), step.report().calls);
    EXPECT_EQ(w_.fake.overlaps(), 0);
  }
}

TEST_F(Regions, TwoStreamsInTurn) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const graph::Stream other = graph::Stream::create();
  int calls = 0;
  for (; calls < 20000 && (calls < 4 || only(step.report()).state != "decided"); ++calls) {
    const Floats x(w_, 8);
    step(calls % 2 ? other.get() : w_.stream, inout(x.data(), 8), 8);
    ASSERT_EQ(x[0], 2);
  }
  EXPECT_EQ(only(step.report()).state, "decided");
}

TEST_F(Regions, AThreadForEachCall) {
  Region step(
      "twice", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  const Floats x(w_, 8);
  int calls = 0;
  for (; calls < 6000 && (calls < 4 || only(step.report()).state != "decided"); ++calls) {
    x[0] = 1;
    std::thread([&] {
      RONDO_CU(w_.d, cuCtxPushCurrent(w_.context));
      step(w_.stream, inout(x.data(), 8), 8);
      CUcontext ignored = nullptr;
      (void)w_.d.cuCtxPopCurrent(&ignored);
    }).join();
    ASSERT_EQ(x[0], 2);
  }
  EXPECT_EQ(only(step.report()).state, "decided");
  std::printf("[   NOTE   ] a thread a call: decided after %d calls: %s\n", calls,
              only(step.report()).reason.c_str());
}

// ---------------------------------------------------------------- the disk

TEST_F(Regions, WhereverDecisionsAreKept) {
  const test::Folder folder;
  test::write(folder.path / "file", "x");
  test::write(folder.path / "old/replay/decisions.json",
              "{\"rondo_decisions\":99,\"decisions\":[{\"x\":1}]}");
  test::write(folder.path / "torn/replay/decisions.json",
              "{\"rondo_decisions\":1,\"decisions\":[{\"rondo\":\"0.1.0\",\"reg");
  test::write(folder.path / "list/replay/decisions.json", "[1,2,3]");
  std::filesystem::create_directories(folder.path / "folder/replay/decisions.json");
  for (const std::string where : {"off", "/proc/none", "file", "old", "torn", "list", "folder", "new"}) {
    const test::CacheDir cache(where[0] == '/' || where == "off" ? where : (folder.path / where).string());
    for (int process = 0; process < 3; ++process) {
      Region step("kept \xff \n name", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); });
      for (int call = 0; call < 900; ++call) {
        const Floats x(w_, 8);
        step(w_.stream, inout(x.data(), 8), 8);
        ASSERT_EQ(x[0], 2);
      }
      EXPECT_EQ(only(step.report()).state, "decided") << where;
      EXPECT_NO_THROW((void)parse_reports(json(std::vector{step.report()})));
    }
  }
}

TEST_F(Regions, WhatWasRememberedMayBeRefusedNow) {
  const test::Folder folder;
  const test::CacheDir cache(folder.path.string());
  for (int process = 0; process < 2; ++process) {
    int called = 0;
    Region step("same name", [&](CUstream s, float* x, int n) {
      w_.do_twice(s, x, process && ++called > 3 ? n / 2 : n);  // the second process has a state of its own
    });
    for (int call = 0; call < 900; ++call) {
      const Floats x(w_, 8);
      step(w_.stream, inout(x.data(), 8), 8);
      ASSERT_EQ(x[0], 2);
      ASSERT_EQ(x[7], process && call > 0 ? 8 : 16) << call;
    }
    EXPECT_EQ(only(step.report()).state, process ? "refused" : "decided");
  }
}

// ---------------------------------------------------------------- faults

struct Swept {
  long faults = 0, errors = 0;
};

// Fails driver call k, for every k, of what `life` does. It returns what was wrong.
template <class Life>
Swept sweep(const Life& life, CUresult code = CUDA_ERROR_UNKNOWN, long step = 1) {
  Swept out;
  for (long k = 1;; k += step) {
    World w;
    std::string wrong = life(w, k, code, &out.errors);
    const std::string failed = w.fake.failed();
    w.fake.no_faults();
    if (failed.empty()) break;
    ++out.faults;
    EXPECT_EQ(wrong, "") << "fault " << k << " in " << failed;
    EXPECT_EQ(w.close(), "") << "fault " << k << " in " << failed;
  }
  return out;
}

bool of_the_work(const std::string& function) {
  return function == "cuLaunchKernel" || function == "cuMemcpyHtoDAsync" || function == "cuMemcpyDtoHAsync";
}

TEST_F(Regions, FaultsWithShapesThatChangeAndGo) {
  for (const Policy policy : {Policy::always, Policy::auto_}) {
    const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
      Options o = quiet_;
      o.policy = policy, o.most_recordings = 1;
      Region step(
          "twice", [&](CUstream st, const float* x, float* y, int n, float a) { w.do_scale(st, x, y, n, a); },
          o);
      const Floats x(w, 32), y(w, 32);
      w.fake.fail(k, code);
      std::string wrong;
      for (int call = 0; call < 24; ++call) {
        const int n = 8 * (call % 3 + 1);
        const float a = 2.5f + static_cast<float>(call / 6);
        y[n - 1] = 0;
        try {
          step(w.stream, in(x.data(), n), out(y.data(), n), n, live(a));
          if (y[n - 1] != a * static_cast<float>(n)) wrong += "call " + std::to_string(call) + "; ";
        } catch (const Error& e) {
          ++*errors;
          if (!of_the_work(w.fake.failed())) wrong += e.what();
        }
        if (call == 15) step.reset();
        if (call % 7 == 3) (void)step.report();
      }
      const RegionReport r = step.report();
      if (sum_of_ways(r) != r.calls) wrong += "counts";
      w.fake.no_faults();
      return wrong;
    });
    EXPECT_GT(s.faults, 100);
    std::printf("[   SWEEP  ] shapes: %ld faults, %ld errors of the work\n", s.faults, s.errors);
  }
}

TEST_F(Regions, FaultsInGroups) {
  const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
    Region first(
        "first", [&](CUstream st, const float* x, float* y) { w.do_scale(st, x, y, 8, 3); }, quiet_);
    Region second(
        "second", [&](CUstream st, const float* y, float* z) { w.do_axpy(st, y, z, 8, 2); }, quiet_);
    Group group("both", {&first, &second});
    const Floats x(w, 8), y(w, 8);
    std::string wrong;
    w.fake.fail(k, code);
    for (int step = 0; step < 40; ++step) {
      y[1] = 0;
      float z_data = 0;
      try {
        CUdeviceptr p = 0;
        (void)p;
        group.step(w.stream, [&] { first(w.stream, in(x.data(), 8), out(y.data(), 8)); });
        z_data = y[1];
        if (z_data != 6) wrong += "step " + std::to_string(step) + "; ";
      } catch (const Error& e) {
        ++*errors;
        if (!of_the_work(w.fake.failed())) wrong += e.what();
      }
      try {
        const float before = y[1];
        second(w.stream, in(x.data(), 8), inout(y.data(), 8));
        if (y[1] != before + 4) wrong += "second " + std::to_string(step) + "; ";
      } catch (const Error& e) {
        ++*errors;
        if (!of_the_work(w.fake.failed())) wrong += e.what();
      }
    }
    w.fake.no_faults();
    return wrong;
  });
  EXPECT_GT(s.faults, 100);
  std::printf("[   SWEEP  ] groups: %ld faults, %ld errors of the work\n", s.faults, s.errors);
}

TEST_F(Regions, FaultsInParts) {
  const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
    Parts parts("work", always(),
                part([&](CUstream st, const float* x, float* y) { w.do_scale(st, x, y, 8, 3); }),
                part([&](CUstream st, const float*, float*) { (void)w.d.cuStreamSynchronize(st); }),
                part([&](CUstream st, const float* x, float* y) { w.do_axpy(st, x, y, 8, 2); }));
    const Floats x(w, 8), y(w, 8);
    std::string wrong;
    w.fake.fail(k, code);
    for (int call = 0; call < 16; ++call) {
      y[1] = 0;
      try {
        parts(w.stream, in(x.data(), 8), out(y.data(), 8));
        if (y[1] != 10) wrong += "call " + std::to_string(call) + " got " + std::to_string(y[1]) + "; ";
      } catch (const Error& e) {
        ++*errors;
        if (!of_the_work(w.fake.failed())) wrong += e.what();
      }
    }
    w.fake.no_faults();
    return wrong;
  });
  EXPECT_GT(s.faults, 100);
  std::printf("[   SWEEP  ] parts: %ld faults, %ld errors of the work\n", s.faults, s.errors);
}

TEST_F(Regions, FaultsWithPageLockedArguments) {
  for (const Staging staging : {Staging::auto_, Staging::always}) {
    const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
      Options o = always();
      o.staging = staging;
      Region step(
          "through",
          [&](CUstream st, const float* x, float* y, float* back) {
            RONDO_CU(w.d, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(y), x, 32, st));
            w.do_twice(st, y, 8);
            RONDO_CU(w.d, cuMemcpyDtoHAsync(back, reinterpret_cast<CUdeviceptr>(y), 32, st));
          },
          o);
      void* host[4];
      for (void*& h : host) RONDO_CU(w.d, cuMemHostAlloc(&h, 64, 0));
      std::string wrong;
      {
        const Floats y(w, 8);
        w.fake.fail(k, code);
        for (int call = 0; call < 12; ++call) {
          auto *x = static_cast<float*>(host[call % 2]), *back = static_cast<float*>(host[2 + call / 2 % 2]);
          x[3] = static_cast<float>(call), back[3] = -1;
          try {
            step(w.stream, in(x, 8), out(y.data(), 8), out(back, 8));
            if (back[3] != 2 * x[3]) wrong += "call " + std::to_string(call) + "; ";
          } catch (const PartlyDone&) {
            ++*errors;
          } catch (const Error& e) {
            ++*errors;
            if (!of_the_work(w.fake.failed())) wrong += e.what();
          }
        }
        w.fake.no_faults();
      }
      for (void* h : host) (void)w.d.cuMemFreeHost(h);
      return wrong;
    });
    EXPECT_GT(s.faults, 50);
    std::printf("[   SWEEP  ] page-locked: %ld faults, %ld errors\n", s.faults, s.errors);
  }
}

TEST_F(Regions, FaultsWithTablesAndSeveralStreams) {
  const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
    static uint64_t table[2];
    w.fake.kernels.push_back("by_table");
    w.fake.parameter_bytes["by_table"] = {8};
    w.fake.bodies["by_table"] = [](const fake::Launched& l) {
      const auto* t = reinterpret_cast<const uint64_t*>(World::number<uint64_t>(l, 0));
      const auto* from = reinterpret_cast<const float*>(t[0]);
      auto* to = reinterpret_cast<float*>(t[1]);
      for (int i = 0; i < 8; ++i) to[i] = 3 * from[i];
    };
    CUfunction by_table = nullptr;
    RONDO_CU(w.d, cuModuleGetFunction(&by_table, w.module, "by_table"));
    std::string wrong;
    {
      const Floats on_device(w, 8), x(w, 8), x2(w, 8, 50);
      auto device_table = address(on_device);
      Options o = always();
      o.host_tables = true;
      Region step(
          "table",
          [&](CUstream st, const float* from, float* to) {
            table[0] = reinterpret_cast<uint64_t>(from), table[1] = reinterpret_cast<uint64_t>(to);
            RONDO_CU(w.d, cuMemcpyHtoDAsync(device_table, table, 16, st));
            w.launch(st, by_table, {&device_table});
          },
          o);
      const graph::Stream other = graph::Stream::create();
      w.fake.fail(k, code);
      for (int call = 0; call < 14; ++call) {
        const Floats& from = call % 3 ? x : x2;
        bool made = false;
        try {
          const Floats y(w, 8);
          made = true;
          step(call % 2 ? other.get() : w.stream, in(from.data(), 8), out(y.data(), 8));
          if (y[2] != 3 * from[2]) wrong += "call " + std::to_string(call) + "; ";
        } catch (const Error& e) {
          ++*errors;
          if (made && !of_the_work(w.fake.failed())) wrong += e.what();
        }
      }
      w.fake.no_faults();
    }
    return wrong;
  });
  EXPECT_GT(s.faults, 100);
  std::printf("[   SWEEP  ] tables: %ld faults, %ld errors\n", s.faults, s.errors);
}

TEST_F(Regions, AFunctionThatNeverWorks) {
  for (const char* function : {"cuStreamBeginCapture",
                               "cuStreamEndCapture",
                               "cuGraphInstantiateWithParams",
                               "cuGraphLaunch",
                               "cuGraphExecKernelNodeSetParams",
                               "cuMemAlloc",
                               "cuPointerGetAttribute",
                               "cuStreamSynchronize",
                               "cuThreadExchangeStreamCaptureMode",
                               "cuFuncGetParamInfo",
                               "cuGraphGetNodes",
                               "cuGraphGetEdges",
                               "cuCtxGetCurrent",
                               "cuStreamIsCapturing",
                               "cuMemGetInfo",
                               "cuGraphUpload",
                               "cuEventRecord",
                               "cuMemcpyDtoDAsync",
                               "cuMemcpyDtoHAsync",
                               "cuMemsetD8Async",
                               "cuStreamCreate",
                               "cuStreamCreateWithPriority",
                               "cuGraphExecUpdate",
                               "cuGraphExecDestroy",
                               "cuGraphDestroy",
                               "cuStreamDestroy",
                               "cuEventCreate",
                               "cuStreamWaitEvent"})
    for (const Policy policy : {Policy::always, Policy::auto_})
      for (const Staging staging : {Staging::auto_, Staging::always}) {
        World w;
        {
          Options o = quiet_;
          o.policy = policy, o.staging = staging, o.most_recordings = 2;
          Region step(
              "twice", [&](CUstream s, float* x, int n) { w.do_twice(s, x, n); }, o);
          const Floats x(w, 64), y(w, 64);
          for (const bool from_the_start : {false, true}) {
            if (from_the_start) step.reset();
            for (int call = 0; call < 60; ++call) {
              if (from_the_start || call == 20) w.fake.fail_function(function, CUDA_ERROR_UNKNOWN);
              const Floats& b = call % 2 ? x : y;
              const int n = 8 * (1 + call / 3 % 3);
              b[0] = 1;
              EXPECT_NO_THROW(step(w.stream, inout(b.data(), n), n)) << function;
              ASSERT_EQ(b[0], 2) << function << " call " << call;
            }
            w.fake.no_faults();
          }
          const RegionReport r = step.report();
          EXPECT_EQ(sum_of_ways(r), r.calls) << function;
        }
        EXPECT_EQ(w.close(), "") << function;
      }
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

// ---------------------------------------------------------------- some buffers copied, some patched

TEST_F(Regions, FaultsWhereOneBufferIsCopiedAndAnotherPatched) {
  const Swept s = sweep([&](World& w, long k, CUresult code, long* errors) -> std::string {
    // y is given to the kernel by an address in front of it, which is not found, so that y is copied.
    Region step(
        "mixed",
        [&](CUstream st, float* x, float* y) {
          w.do_twice(st, x, 8);
          w.do_scale(st, x, y - 64, 64 + 8, 0);
        },
        always());
    w.fake.bodies["scale"] = [](const fake::Launched& l) {
      for (int i = 64; i < World::number<int>(l, 16); ++i) World::at(l, 8)[i] = World::at(l, 0)[i - 64];
    };
    const Floats x(w, 8), x2(w, 8), y(w, 8), y2(w, 8);
    std::string wrong;
    w.fake.fail(k, code);
    for (int call = 0; call < 12; ++call) {
      const Floats &a = call % 2 ? x : x2, &b = call % 2 ? y : y2;
      a[1] = 1, b[1] = 0;
      try {
        step(w.stream, inout(a.data(), 8), out(b.data(), 8));
        if (a[1] != 2 || b[1] != 2)
          wrong +=
              "call " + std::to_string(call) + " " + std::to_string(a[1]) + " " + std::to_string(b[1]) + "; ";
      } catch (const PartlyDone&) {
        ++*errors;
      } catch (const Error& e) {
        ++*errors;
        if (!of_the_work(w.fake.failed())) wrong += e.what();
      }
    }
    w.fake.no_faults();
    if (w.fake.failed().empty() && only(step.report()).copied_bytes_a_call != 32)
      wrong += "not copied: " + only(step.report()).reason;
    return wrong;
  });
  EXPECT_GT(s.faults, 100);
  std::printf("[   SWEEP  ] mixed: %ld faults, %ld errors\n", s.faults, s.errors);
}

// The second of two copies back fails for good, and the first one: where something is written already, the
// call can neither be taken as done nor be done again.
TEST_F(Regions, ACopyBackThatFailsForGoodIsNoSecondRun) {
  Region step(
      "mixed",
      [&](CUstream st, float* x, float* y) {
        w_.do_twice(st, x, 8);
        w_.do_scale(st, x, y - 64, 64 + 8, 0);
      },
      always());
  w_.fake.bodies["scale"] = [](const fake::Launched& l) {
    for (int i = 64; i < World::number<int>(l, 16); ++i) World::at(l, 8)[i] = World::at(l, 0)[i - 64];
  };
  const Floats x(w_, 8), y(w_, 8);
  for (int call = 0; call < 5; ++call) step(w_.stream, inout(x.data(), 8), out(y.data(), 8));
  ASSERT_EQ(only(step.report()).copied_bytes_a_call, 32u);
  x[0] = 1;
  w_.fake.fail_function("cuMemcpyDtoDAsync", CUDA_ERROR_UNKNOWN);
  EXPECT_THROW(step(w_.stream, inout(x.data(), 8), out(y.data(), 8)), Error);
  w_.fake.no_faults();
  EXPECT_EQ(x[0], 2);
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

// While a decision waits for the disk, other calls of the region go on.
TEST_F(Regions, TheDiskIsWaitedForByNobodyElse) {
  const test::Folder folder;
  const test::CacheDir cache(folder.path.string());
  std::filesystem::create_directories(folder.path / "replay");
  const int lock =
      ::open((folder.path / "replay/decisions.json.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  Region step("twice", [&](CUstream s, float* x) { w_.do_twice(s, x, 8); });
  std::atomic<bool> inside = false, over = false, seen = false;
  std::thread asks([&] {
    while (!over) {
      bool decided = false;
      for (const RecordingReport& r : step.report().recordings) decided = decided || r.state == "decided";
      if (decided && inside) seen = true, ::flock(lock, LOCK_UN);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const Floats x(w_, 8);
  for (int i = 0; i < 900 && !seen; ++i) {
    inside = true;
    step(w_.stream, inout(x.data(), 8));
    inside = false;
    if (i > 1 && only(step.report()).state == "decided") break;
  }
  over = true;
  asks.join();
  ::close(lock);
  EXPECT_TRUE(seen);
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

TEST_F(Regions, GraphsThatStopWorkingDuringAnything) {
  // From call k on no launch of a graph goes well: results stay right, the region ends plain.
  for (const Policy policy : {Policy::always, Policy::auto_})
    for (int k = 0; k < 120; k += 3) {
      World w;
      {
        Options o = quiet_;
        o.policy = policy;
        Region step(
            "twice", [&](CUstream s, float* x) { w.do_twice(s, x, 8); }, o);
        for (int call = 0; call < 200; ++call) {
          if (call == k) w.fake.fail_function("cuGraphLaunch", CUDA_ERROR_UNKNOWN);
          const Floats x(w, 8);
          EXPECT_NO_THROW(step(w.stream, inout(x.data(), 8)));
          ASSERT_EQ(x[0], 2);
        }
        w.fake.no_faults();
        EXPECT_EQ(only(step.report()).choice, "plain") << k;
        EXPECT_EQ(sum_of_ways(step.report()), step.report().calls);
      }
      EXPECT_EQ(w.close(), "");
    }
}

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

// ---------------------------------------------------------------- everything at once

// Whatever comes in whatever order: shapes, addresses, kinds of memory, streams, captures, faults, throwing
// work, groups, resets, with any options. The seed is in the message.
TEST_F(Regions, WhateverComesInWhateverOrder) {
  long calls = 0, replays = 0, recaptures = 0, thrown = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    World w;
    {
      Options o = quiet_;
      o.policy = pick(3) ? Policy::always : Policy::auto_;
      o.proof = pick(4) ? Proof::exact : Proof::off;
      o.staging = pick(3) ? Staging::auto_ : Staging::always;
      o.most_recordings = static_cast<unsigned>(1 + pick(4));
      o.plain_calls = static_cast<unsigned>(pick(3));
      o.recapture = pick(2);
      o.check_arguments = pick(5) == 0;
      bool throws = false, advance_throws = false;
      if (pick(3) == 0)
        o.before_replay = [&](CUstream) {
          if (advance_throws) throw std::runtime_error("advance");
        };
      // x is read, y written, z both: y = a x over n, z += 2 y; every fourth n in two streams.
      const graph::Stream side = graph::Stream::create(), other = graph::Stream::create();
      const graph::Event fork = graph::Event::create(), join = graph::Event::create();
      Region step(
          "monkey",
          [&](CUstream s, const float* x, float* y, float* z, int n, float a) {
            if (throws) throw std::runtime_error("mine");
            if (n % 4 == 0) {
              RONDO_CU(w.d, cuEventRecord(fork.get(), s));
              RONDO_CU(w.d, cuStreamWaitEvent(side.get(), fork.get(), 0));
              w.do_scale(side, x, y, n, a);
              RONDO_CU(w.d, cuEventRecord(join.get(), side.get()));
              RONDO_CU(w.d, cuStreamWaitEvent(s, join.get(), 0));
            } else {
              w.do_scale(s, x, y, n, a);
            }
            w.do_axpy(s, y, z, n, 2);
            if (n % 3 == 0) w.do_twice(s, z, n);
          },
          o);
      std::optional<Group> group;
      std::vector<std::unique_ptr<Floats>> device;
      for (int i = 0; i < 9; ++i) device.push_back(std::make_unique<Floats>(w, 64, 1, i % 3 == 2));
      void* locked[3];
      for (void*& p : locked) RONDO_CU(w.d, cuMemHostAlloc(&p, 512, 0));
      uint64_t undone = 0;
      for (int call = 0; call < 150; ++call) {
        if (pick(60) == 0) step.reset();
        if (pick(40) == 0) (void)text(std::vector{step.report()});
        if (pick(40) == 0) {
          group.reset();
          if (pick(2)) group.emplace("group", std::vector<RegionBase*>{&step});
        }
        const int n = pick(3) ? 8 : pick(2) ? 1 + pick(4) : 1 + pick(60);
        const float a = pick(4) ? 2.5f : static_cast<float>(pick(5));
        const int shift = pick(3);
        const auto buffer = [&](int i) -> float* {
          if (pick(8) == 0) return static_cast<float*>(locked[i]);
          return device[static_cast<size_t>(3 * i + (shift + pick(2)) % 3)]->data();
        };
        float *x = buffer(0), *y = buffer(1), *z = buffer(2);
        for (int i = 0; i < n; ++i)
          x[i] = static_cast<float>(call % 50 + i), y[i] = -1, z[i] = static_cast<float>(i);
        const CUstream stream = pick(4) ? w.stream : other.get();
        throws = pick(25) == 0, advance_throws = pick(25) == 0;
        const bool captured = pick(20) == 0, fails = pick(12) == 0;
        if (fails) w.fake.fail(1 + pick(120), pick(2) ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
        const auto run = [&] {
          const auto one = [&] {
            step(stream, in(x, static_cast<size_t>(n)), out(y, static_cast<size_t>(n)),
                 inout(z, static_cast<size_t>(n)), n, live(a));
          };
          group ? group->step(stream, one) : one();
        };
        bool done = true, partly = false;
        ++calls;
        try {
          if (captured)
            graph::capture(stream, run).instantiate().launch(stream);
          else
            run();
        } catch (const PartlyDone&) {
          partly = true;
        } catch (const Error& e) {
          done = false;
          EXPECT_TRUE(captured || fails) << e.what();
        } catch (const std::runtime_error&) {
          done = false;
        }
        w.fake.no_faults();
        if (!done) {
          ++thrown;
          // The plain run may have failed at its second launch, but nothing is done twice.
          for (int i = 0; i < n; ++i)
            ASSERT_TRUE(z[i] == static_cast<float>(i) || (fails && y[i] == a * x[i])) << "call " << call;
        } else if (!partly) {
          for (int i = 0; i < n; ++i) {
            ASSERT_EQ(y[i], a * x[i]) << "call " << call << " " << i;
            ASSERT_EQ(z[i], (static_cast<float>(i) + 2 * a * x[i]) * (n % 3 ? 1.0f : 2.0f))
                << "call " << call << " " << i;
          }
        }
        const RegionReport r = step.report();
        // Only a call that throws before it is done is neither plain nor replayed.
        const uint64_t none = r.calls - sum_of_ways(r);
        if (done && !partly) {
          ASSERT_EQ(none, undone) << "call " << call;
        }
        undone = none;
      }
      replays += static_cast<long>(step.report().replays),
          recaptures += static_cast<long>(step.report().recaptures);
      for (void* p : locked) (void)w.d.cuMemFreeHost(p);
    }
    ASSERT_EQ(w.close(), "");
  }
  std::printf("[   NOTE   ] %ld calls, %ld replayed, %ld recaptured, %ld thrown\n", calls, replays,
              recaptures, thrown);
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

TEST_F(Regions, OneStepManySignaturesAndThreads) {
  Region one(
      "one", [&](CUstream s, float* x, int n) { w_.do_twice(s, x, n); }, quiet_);
  Group group("group", {&one});
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::thread beside([&] {  // not of the group's steps, and not to be disturbed by them
    RONDO_CU(w_.d, cuCtxPushCurrent(w_.context));
    {
      const graph::Stream mine = graph::Stream::create();
      while (!over) {
        const Floats x(w_, 8);
        one(mine, inout(x.data(), 8), 8);
        if (x[0] != 2) ++wrong;
      }
    }
    CUcontext ignored = nullptr;
    (void)w_.d.cuCtxPopCurrent(&ignored);
  });
  int steps = 0;
  for (; steps < 3000 && !group.decided(); ++steps) {
    const Floats x(w_, 32);
    group.step(w_.stream, [&] {
      for (const int n : {8, 16, 32}) one(w_.stream, inout(x.data(), static_cast<size_t>(n)), n);
    });
    if (x[0] != 8 || x[15] != 64 || x[31] != 64) ++wrong;
  }
  over = true;
  beside.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(group.decided()) << steps;
}

}  // namespace
}  // namespace rondo::replay
