// Everything at once, in an order that a seed draws.
#include <random>

#include "replay_support.h"
#include "rondo/replay/playable.h"
#include "rondo/replay_group.h"

namespace rondo::replay {
namespace {

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

}  // namespace
}  // namespace rondo::replay
