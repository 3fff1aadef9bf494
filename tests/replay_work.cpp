// Work that captures and allocates by itself: results of its own, intermediates in shared memory, state.
#include "rondo/replay_work.h"

#include "replay_support.h"

namespace rondo::replay {
namespace {

// y = 3 (2 x), with an intermediate. What is allocated in a capture comes from a list of blocks that are used
// again, as a caching allocator does it.
struct Model : Work {
  Model(World& w, int n) : world(w), count(n) {}
  ~Model() override {
    for (const CUdeviceptr p : all) (void)world.d.cuMemFree(p);
  }
  CUdeviceptr allocate(uint64_t bytes) {
    CUdeviceptr p = 0;
    RONDO_CU(world.d, cuMemAlloc(&p, (bytes + 511) / 512 * 512));
    all.push_back(p);
    return p;
  }
  void launches(CUstream s, const Argument* a, CUdeviceptr middle, CUdeviceptr result) {
    const auto f = [](CUdeviceptr p) { return reinterpret_cast<float*>(p); };
    world.do_scale(s, f(a[0].value), f(middle), count, 2 * factor);
    world.do_scale(s, f(middle), f(result), count, 3);
  }
  void run(CUstream s, Argument* a, bool prove) override {
    ++runs;
    if (fails) throw std::runtime_error("the work's own error");
    factor = state++;
    last = allocate(bytes());
    launches(s, a, allocate(bytes()), last);
    if (prove) a[1].value = last;
  }
  CapturedWork capture(Argument* a) override {
    ++captures;
    if (cannot) throw std::runtime_error("cannot be captured");
    CapturedWork out;
    const uint64_t large = over ? 2 * 512 + bytes() : bytes();
    const CUdeviceptr before = allocate(large + bytes());
    // The intermediate, freed by the time the result is allocated; or beside it.
    const CUdeviceptr middle = before, result = apart ? before + large : before;
    const CUdeviceptr second = allocate(bytes());
    factor = 1;
    graph::Capture running;
    if (apart) {
      launches(running.stream(), a, middle, result);
    } else {
      launches(running.stream(), a, middle, second);
      launches(running.stream(), a, middle, second);
      world.do_scale(running.stream(), reinterpret_cast<float*>(second), reinterpret_cast<float*>(result),
                     count, 1);
      out.allocations = {{middle, large}, {second, bytes()}, {result, bytes()}};
    }
    if (apart) out.allocations = {{middle, large}, {result, bytes()}};
    if (a[1].kind == Kind::Out) {
      ++copied;
      RONDO_CU(world.d, cuMemcpyDtoDAsync(a[1].value, result, bytes(), running.stream()));
    } else {
      a[1].value = result;
    }
    auto graph = std::make_shared<graph::Graph>(running.end());
    out.graph = graph->get();
    out.owner = std::shared_ptr<const void>(graph, graph.get());
    out.stateful = stateful;
    out.arena = 1;
    return out;
  }
  void make(Argument* a) override {
    ++makes;
    if (no_memory) throw std::runtime_error("no memory for a result");
    if (!a[1].value) a[1].value = allocate(bytes());
  }
  void before_launch(CUstream, bool again) override { ++(again ? agains : launches_before); }
  uint64_t bytes() const { return static_cast<uint64_t>(count) * 4; }

  World& world;
  int count;
  float factor = 1, state = 1;  // counts up in plain runs; a test that compares sets it back
  bool fails = false, cannot = false, over = false, apart = true, stateful = false, no_memory = false;
  int runs = 0, captures = 0, makes = 0, copied = 0, agains = 0, launches_before = 0;
  CUdeviceptr last = 0;
  std::vector<CUdeviceptr> all;
};

struct ReplayWork : ::testing::Test {
  void TearDown() override {
    region.reset();
    model.reset();
    for (CUdeviceptr p : inputs) (void)world.d.cuMemFree(p);
    EXPECT_EQ(world.close(), "");
  }
  static Options always() {
    Options o;
    o.policy = Policy::always;
    o.plain_calls = 0;
    o.remember = false;
    return o;
  }
  // The result's address; *replayed says how.
  CUdeviceptr call(float x, bool* replayed, uint64_t given = 0, CUstream stream = nullptr) {
    CUdeviceptr in = 0;
    RONDO_CU(world.d, cuMemAlloc(&in, 512));
    inputs.push_back(in);
    for (int i = 0; i < model->count; ++i) reinterpret_cast<float*>(in)[i] = x + static_cast<float>(i);
    Argument a[] = {{in, model->bytes(), Kind::In}, {given, model->bytes(), Kind::Made}};
    model->state = 1;
    *replayed = region->call(stream ? stream : world.stream, a, *model);
    RONDO_CU(world.d, cuStreamSynchronize(stream ? stream : world.stream));
    return *replayed ? a[1].value : model->last;
  }
  static float at(CUdeviceptr p, int i) { return reinterpret_cast<const float*>(p)[i]; }

  World world;
  std::unique_ptr<Model> model = std::make_unique<Model>(world, 8);
  std::unique_ptr<RegionBase> region = std::make_unique<RegionBase>("work", always());
  std::vector<CUdeviceptr> inputs;
};

TEST_F(ReplayWork, EachCallHasResultsOfItsOwn) {
  std::vector<CUdeviceptr> results;
  for (int k = 0; k < 6; ++k) {
    bool replayed = false;
    results.push_back(call(static_cast<float>(10 * k), &replayed));
    EXPECT_EQ(replayed, k > 0) << region->report().recordings[0].reason;
  }
  for (int k = 0; k < 6; ++k)
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(at(results[static_cast<size_t>(k)], i), 6.0f * static_cast<float>(10 * k + i));
  EXPECT_EQ(model->captures, 2);
  EXPECT_EQ(model->makes, 5);
  EXPECT_EQ(model->runs, 1);
  EXPECT_EQ(region->report().recordings[0].signature, "in 32 B, made 32 B");
}

TEST_F(ReplayWork, ProofAutoComparesResultsOfTheWorksOwn) {
  Options o = always();
  o.proof = Proof::auto_;
  region = std::make_unique<RegionBase>("work", o);
  bool replayed = false;
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(at(call(static_cast<float>(10 * k), &replayed), 1), 6.0f * static_cast<float>(10 * k + 1));
    EXPECT_EQ(replayed, k > 0) << region->report().recordings[0].reason;
  }
}

TEST_F(ReplayWork, AResultGoesWhereTheCallerSays) {
  bool replayed = false;
  call(0, &replayed);
  const CUdeviceptr mine = model->allocate(512);
  EXPECT_EQ(call(5, &replayed, mine), mine);
  EXPECT_TRUE(replayed);
  EXPECT_EQ(at(mine, 1), 36);
  EXPECT_EQ(model->makes, 0);
}

TEST_F(ReplayWork, AnIntermediateThatFitsMovesWithTheResult) {
  model->apart = false;
  bool replayed = false;
  call(0, &replayed);
  const CUdeviceptr result = call(2, &replayed);
  EXPECT_TRUE(replayed) << region->report().recordings[0].reason;
  EXPECT_EQ(at(result, 3), 30);
  EXPECT_EQ(model->copied, 0);
  EXPECT_EQ(region->report().recordings[0].nodes, 5u);
}

TEST_F(ReplayWork, AResultUnderALargerIntermediateIsCopied) {
  model->apart = false;
  model->over = true;
  bool replayed = false;
  call(0, &replayed);
  const CUdeviceptr first = call(2, &replayed), second = call(3, &replayed);
  EXPECT_TRUE(replayed) << region->report().recordings[0].reason;
  EXPECT_EQ(at(first, 3), 30);
  EXPECT_EQ(at(second, 3), 36);
  EXPECT_EQ(model->copied, 2);
  EXPECT_EQ(region->report().recordings[0].nodes, 6u);
}

TEST_F(ReplayWork, StateIsAdvancedBeforeEachLaunch) {
  model->stateful = true;
  bool replayed = false;
  for (int k = 0; k < 5; ++k) call(1, &replayed);
  EXPECT_EQ(model->agains, 1);
  EXPECT_EQ(model->launches_before, 4);
}

TEST_F(ReplayWork, AnErrorOfThePlainRunIsTheCallers) {
  model->fails = true;
  bool replayed = false;
  EXPECT_THROW(call(1, &replayed), std::runtime_error);
  model->fails = false;
  const CUdeviceptr result = call(1, &replayed);
  EXPECT_EQ(at(result, 0), 6);
}

TEST_F(ReplayWork, WhatCannotBeCapturedIsPlainWithTheReason) {
  model->cannot = true;
  bool replayed = true;
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(at(call(static_cast<float>(k), &replayed), 0), 6.0f * static_cast<float>(k));
    EXPECT_FALSE(replayed);
  }
  EXPECT_EQ(region->report().recordings[0].reason, "cannot be captured");
  EXPECT_EQ(model->runs, 4);
}

TEST_F(ReplayWork, WithoutMemoryForAResultTheCallIsPlain) {
  bool replayed = false;
  call(0, &replayed);
  model->no_memory = true;
  EXPECT_EQ(at(call(1, &replayed), 0), 6);
  EXPECT_FALSE(replayed);
  EXPECT_NE(region->report().fallbacks.back().find("no memory for a result"), std::string::npos);
  model->no_memory = false;
  EXPECT_EQ(at(call(2, &replayed), 0), 12);
  EXPECT_TRUE(replayed);
}

TEST_F(ReplayWork, WhatThePlainRunDoesElseIsFoundOut) {
  model->state = 1;
  bool replayed = false;
  // The plain run that proves multiplies by another number than the capture.
  CUdeviceptr in = 0;
  RONDO_CU(world.d, cuMemAlloc(&in, 512));
  inputs.push_back(in);
  reinterpret_cast<float*>(in)[0] = 1;
  Argument a[] = {{in, model->bytes(), Kind::In}, {0, model->bytes(), Kind::Made}};
  model->state = 5;
  replayed = region->call(world.stream, a, *model);
  EXPECT_FALSE(replayed);
  EXPECT_NE(region->report().recordings[0].reason.find(
                "the replay does not do what the plain run does: argument 1 (made"),
            std::string::npos)
      << region->report().recordings[0].reason;
}

TEST_F(ReplayWork, LaunchesInOneArenaAreOrderedAcrossStreams) {
  CUstream other = nullptr;
  RONDO_CU(world.d, cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  bool replayed = false;
  call(0, &replayed);
  call(1, &replayed);
  const auto events = [&] { return world.fake.count("cuStreamWaitEvent"); };
  const auto before = events();
  EXPECT_EQ(at(call(2, &replayed), 0), 12);
  EXPECT_EQ(events(), before);
  EXPECT_EQ(at(call(3, &replayed, 0, other), 0), 18);
  EXPECT_TRUE(replayed);
  EXPECT_EQ(events(), before + 1);
  (void)world.d.cuStreamDestroy(other);
}

TEST_F(ReplayWork, ChosenByTimeLikeAnyOther) {
  Options o = always();
  o.policy = Policy::auto_;
  region = std::make_unique<RegionBase>("work", o);
  bool replayed = false;
  for (int k = 0; k < 400; ++k)
    ASSERT_EQ(at(call(static_cast<float>(k), &replayed), 1), 6.0f * static_cast<float>(k + 1)) << k;
  EXPECT_GT(region->report().replays, 0u);
  EXPECT_GT(region->report().plain_calls, 0u);
}

}  // namespace
}  // namespace rondo::replay
