// Regions called, reset and asked for their report by several threads, and what waits for the disk.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "replay_folder.h"
#include "replay_support.h"
#include "rondo/replay_group.h"

namespace rondo::replay {
namespace {

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

// ---------------------------------------------------------------- the end

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
