// Driver calls of longer lives of regions made to fail, one a time or for good: shapes that change and go,
// groups, parts, page-locked arguments, tables. Results are right or the plain run's own error comes out;
// nothing leaks.
#include "replay_support.h"
#include "rondo/replay/playable.h"
#include "rondo/replay_group.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace {

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

// An error is counted; one of another call than the work's own is wrong.
template <class Call>
void tried(const World& w, long* errors, std::string* wrong, const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    ++*errors;
    if (!of_the_work(w.fake.failed())) *wrong += e.what();
  }
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
        tried(w, errors, &wrong, [&] {
          step(w.stream, in(x.data(), n), out(y.data(), n), n, live(a));
          if (y[n - 1] != a * static_cast<float>(n)) wrong += "call " + std::to_string(call) + "; ";
        });
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
      tried(w, errors, &wrong, [&] {
        group.step(w.stream, [&] { first(w.stream, in(x.data(), 8), out(y.data(), 8)); });
        if (y[1] != 6) wrong += "step " + std::to_string(step) + "; ";
      });
      tried(w, errors, &wrong, [&] {
        const float before = y[1];
        second(w.stream, in(x.data(), 8), inout(y.data(), 8));
        if (y[1] != before + 4) wrong += "second " + std::to_string(step) + "; ";
      });
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
      tried(w, errors, &wrong, [&] {
        parts(w.stream, in(x.data(), 8), out(y.data(), 8));
        if (y[1] != 10) wrong += "call " + std::to_string(call) + " got " + std::to_string(y[1]) + "; ";
      });
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

// ---------------------------------------------------------------- checks of a choice

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

}  // namespace
}  // namespace rondo::replay
