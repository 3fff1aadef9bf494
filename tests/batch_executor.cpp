#include "batch_fake_gpu.h"
#include "batch_support.h"
#include "rondo/base/trace.h"

namespace rondo {
namespace {

using batch::Replay;
using test::error_of;
using test::FakeGpu;
using test::TreeMaker;

batch::RuntimeOptions graphs() {
  batch::RuntimeOptions options;
  options.replay = Replay::Graph;
  return options;
}

struct Model {
  explicit Model(batch::RuntimeOptions options = graphs(), size_t memory = SIZE_MAX, bool copies = true)
      : gpu(std::make_shared<FakeGpu>(memory)),
        runtime(
            test::tree_runtime(gpu, options, test::tree_weights(), copies ? gpu->copy_table() : nullptr)) {}

  // A comb of `depth` nodes; checks the result.
  void run_comb(int depth) {
    Batch batch(runtime->signature());
    TreeMaker maker{&batch, 1};
    const Value leaf = batch.make(maker.leaf, {Value::integer(9)});
    Value tree = leaf;
    float want = 6;
    for (int i = 0; i < depth; ++i) {
      tree = batch.make(maker.node, {tree, leaf});
      want = want * 0.5f + 6;
    }
    const std::vector<float> x(4, 2.0f);
    batch.add({tree, batch.tensor(batch.signature().params()[1], x)});
    const Outputs outputs = runtime->run(batch);
    EXPECT_EQ(outputs[0][0].tensor()[0], want);
    EXPECT_EQ(outputs[0][1][0].tensor()[3], 2.0f);
    EXPECT_EQ(outputs[0][1][1].tensor()[3], 1.0f);
  }
  void run_many(unsigned instances, unsigned leaves = 8) {
    Batch batch(runtime->signature());
    TreeMaker maker{&batch, 5};
    std::vector<std::vector<float>> sums;
    for (unsigned i = 0; i < instances; ++i) sums.push_back(maker.add(leaves));
    const Outputs outputs = runtime->run(batch);
    for (size_t i = 0; i < sums.size(); ++i)
      for (size_t k = 0; k < 4; ++k) ASSERT_EQ(outputs[i][0].tensor()[k], sums[i][k]);
  }
  Report report() const {
    Report r;
    runtime->describe(&r);
    return r;
  }
  std::shared_ptr<FakeGpu> gpu;
  std::unique_ptr<batch::Runtime> runtime;
};

TEST(Executor, AutoRecordsWhatComesAgainAndEndsWithAChoice) {
  Model m(batch::RuntimeOptions{});
  m.run_comb(5);
  EXPECT_EQ(m.report().last.replay, "stream");
  EXPECT_EQ(m.report().last.reason, "these numbers of levels are new");
  EXPECT_EQ(m.gpu->log.recorded, 0);
  m.run_comb(5);
  EXPECT_EQ(m.report().last.replay, "graph");
  EXPECT_TRUE(m.report().last.recorded);
  bool graph = false, stream = false, chosen = false;
  for (int run = 0; run < 2000 && !chosen; ++run) {
    m.run_comb(5);
    const RunReport last = m.report().last;
    (last.replay == "graph" ? graph : stream) = true;
    chosen = last.reason.find(" of graph") != std::string::npos || last.reason.find("of stream") != std::string::npos ||
             last.reason.find("graph:") != std::string::npos || last.reason.find("stream:") != std::string::npos;
  }
  EXPECT_TRUE(graph);
  EXPECT_TRUE(stream);
  EXPECT_TRUE(chosen) << m.report().last.reason;
  EXPECT_EQ(m.gpu->log.recorded, 1);
}

TEST(Executor, OneGraphServesAllBatchesOfItsLevels) {
  Model m;
  m.run_comb(5);
  EXPECT_TRUE(m.report().last.recorded);
  EXPECT_EQ(m.report().last.reason, "these numbers of levels are new: recorded");
  m.run_comb(5);
  EXPECT_EQ(m.report().last.reason, "these numbers of levels are recorded");
  m.run_comb(6);
  m.run_comb(5);
  EXPECT_EQ(m.gpu->log.recorded, 2);
  EXPECT_EQ(m.gpu->log.replayed, 4);
  EXPECT_EQ(m.gpu->log.run, 0);
  EXPECT_EQ(m.report().last.replay, "graph");
  EXPECT_EQ(m.report().last.launches, 7u);  // leaf, 5 nodes, result
  EXPECT_EQ(m.report().graphs, 2u);
}

TEST(Executor, GraphsSurviveTheGrowthOfPools) {
  Model m;
  m.run_comb(5);
  m.run_many(2000, 1);  // other levels, and pools far larger
  m.run_comb(5);
  EXPECT_EQ(m.gpu->log.recorded, 2);
}

TEST(Executor, DepthsBeyond32AreRoundedSoThatGraphsAreFew) {
  Model m;
  for (int depth = 100; depth < 120; ++depth) m.run_comb(depth);
  EXPECT_LE(m.gpu->log.recorded, 6);
  for (int depth = 10; depth < 20; ++depth) m.run_comb(depth);
  EXPECT_EQ(m.report().last.launches, 1u + 19 + 1);
}

TEST(Executor, LeastRecentlyUsedRecordingIsDropped) {
  Model m;
  m.run_comb(0);
  for (int depth = 1; depth < 31; ++depth) m.run_comb(depth);
  for (int depth = 36; depth < 1000; depth += 16) m.run_comb(depth);
  const Report report = m.report();
  EXPECT_EQ(report.graphs, batch::Executor::kMostRecordings);
  EXPECT_GT(report.graphs_dropped, 0u);
  EXPECT_EQ(report.notes.back(), "more than 64 numbers of levels; the least recently used recording is dropped");
  const int recorded = m.gpu->log.recorded;
  m.run_comb(980);
  EXPECT_EQ(m.gpu->log.recorded, recorded);
  m.run_comb(0);
  EXPECT_EQ(m.gpu->log.recorded, recorded + 1);
}

TEST(Executor, VeryManyLevelsAreLaunchedPlainlyWithTheReason) {
  Model m;
  m.run_comb(1500);
  EXPECT_EQ(m.gpu->log.recorded, 0);
  EXPECT_EQ(m.report().last.replay, "stream");
  EXPECT_EQ(m.report().last.reason, "1505 levels; graphs are made of up to 1024");
  EXPECT_EQ(m.report().last.launches, 1502u);  // no launch for empty levels
}

TEST(Executor, DeviceThatRefusesToRecordGetsPlainLaunchesAndIsNotAskedForever) {
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  Model m;
  m.gpu->refuse_to_record = true;
  for (int i = 0; i < 5; ++i) m.run_comb(3);
  EXPECT_EQ(m.report().last.replay, "stream");
  EXPECT_EQ(m.report().last.reason, "the device does not record: cuStreamEndCapture failed: fake");
  m.gpu->refuse_to_record = false;
  m.run_comb(3);
  EXPECT_EQ(m.gpu->log.recorded, 0);
  ASSERT_EQ(sink->events("batch.not_recorded").size(), 1u);
  EXPECT_EQ(sink->events("batch.not_recorded")[0].text,
            "plain launches, as the device does not record them: cuStreamEndCapture failed: fake");
}

TEST(Executor, PlainLaunchesWhenAskedFor) {
  batch::RuntimeOptions options;
  options.replay = Replay::Stream;
  Model m(options);
  m.run_comb(4);
  EXPECT_EQ(m.report().last.replay, "stream");
  EXPECT_EQ(m.report().last.reason, "asked for");
  EXPECT_EQ(m.report().last.launches, 6u);
}

TEST(Executor, AGraphBringsTheTableSoThatOnlyInputsAreUploadedAndSmallResultsNeedNoDownload) {
  Model m;
  m.run_many(10);
  const FakeGpu::Log before = m.gpu->log;
  m.run_many(10);
  EXPECT_EQ(m.gpu->log.uploads - before.uploads, 1u);
  EXPECT_EQ(m.gpu->log.downloads, before.downloads);
  EXPECT_EQ(m.gpu->log.last[0].kernel, m.gpu->copy_table());
  EXPECT_EQ(m.gpu->log.last.size(), m.report().last.launches + 1);
  EXPECT_TRUE(m.report().last.table_in_graph);
  EXPECT_NE(m.report().text().find(" ms (in it the schedule's upload), download "), std::string::npos)
      << m.report().text();
}

TEST(Executor, PlainLaunchesAndDevicesWithoutACopyKernelGetAnUploadOfTheTable) {
  batch::RuntimeOptions stream;
  stream.replay = Replay::Stream;
  for (Model* m : {new Model(stream), new Model({}, SIZE_MAX, false)}) {
    const std::unique_ptr<Model> owned(m);
    m->run_many(10);
    const FakeGpu::Log before = m->gpu->log;
    m->run_many(10);
    EXPECT_EQ(m->gpu->log.uploads - before.uploads, 2u);
    EXPECT_EQ(m->gpu->log.copied_bytes, 0u);
    EXPECT_FALSE(m->report().last.table_in_graph);
  }
}

TEST(Executor, ARecordingBringsTablesOfAllSizesWhicheverWasFirst) {
  for (const bool small_first : {true, false}) {
    Model m;
    for (const bool small : {small_first, !small_first, small_first}) m.run_many(small ? 1 : 10000, 1);
    EXPECT_EQ(m.gpu->log.recorded, 1);
    EXPECT_EQ(m.gpu->log.last[0].grid, small_first ? 8u : 32u);
  }
}

TEST(Executor, ATableOfMoreThanAMebibyteIsUploadedBeforeAGraphOfItsOwn) {
  Model m;
  m.run_many(70000, 1);
  EXPECT_GT(m.report().last.table_bytes, batch::Executor::kMostCopiedBytes);
  EXPECT_EQ(m.report().last.replay, "graph");
  EXPECT_FALSE(m.report().last.table_in_graph);
  EXPECT_EQ(m.gpu->log.copied_bytes, 0u);
  m.run_many(10, 1);
  EXPECT_TRUE(m.report().last.table_in_graph);
  EXPECT_EQ(m.gpu->log.recorded, 2);
  m.run_many(70000, 1);
  EXPECT_EQ(m.gpu->log.recorded, 2);
}

TEST(Executor, ResultsOfMoreThanAMebibyteComeDownInOneCopy) {
  Model m;
  m.run_many(30000, 1);
  EXPECT_EQ(m.gpu->log.downloads, 1u);
}

TEST(Executor, OnlyTheFirstLevelWaitsForAllBeforeIt) {
  for (const bool copies : {true, false}) {
    Model m(graphs(), SIZE_MAX, copies);
    m.run_comb(3);
    const size_t first = copies;
    for (size_t i = 0; i <= first; ++i) EXPECT_FALSE(m.gpu->log.last[i].dependent);
    ASSERT_GT(m.gpu->log.last.size(), first + 1);
    for (size_t i = first + 1; i < m.gpu->log.last.size(); ++i) EXPECT_TRUE(m.gpu->log.last[i].dependent);
  }
}

TEST(Executor, ProfilingMeasuresUploadRunAndDownload) {
  batch::RuntimeOptions options;
  options.profile = true;
  Model m(options);
  m.run_many(50);
  EXPECT_GT(m.report().last.run_ms, 0);
  EXPECT_GT(m.report().last.download_ms, 0);
}

TEST(Executor, OutOfMemorySaysWhatWasNeededAndASmallerBatchWorks) {
  Model m(graphs(), size_t{2} << 20);
  m.run_many(100);
  const std::string error = error_of([&] { m.run_many(20000); });
  EXPECT_EQ(error.substr(0, error.find(':', 10)),
            "device: the batch needs 4.9 MiB for its values and 1.9 MiB for its schedule")
      << error;
  EXPECT_NE(error.find("fake gpu is out of memory"), std::string::npos);
  EXPECT_NE(error.find("Run fewer instances at a time"), std::string::npos);
  m.run_many(100);
  EXPECT_NE(error_of([&] { m.run_many(20000); }), "");
  m.run_many(1000);
}

}  // namespace
}  // namespace rondo
