#include <cmath>
#include <thread>

#include "batch_support.h"
#include "rondo/device/cpu_device.h"

namespace rondo {
namespace {

using test::error_of;
using test::TreeMaker;

void expect_row(const OutputView& view, const std::vector<float>& want) {
  const std::span<const float> got = view.tensor();
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(got[k], want[k]) << k;
}

TEST(Runtime, EmptyBatchGivesNoOutputs) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  EXPECT_EQ(model->run(Batch(model->signature())).size(), 0u);
}

TEST(Runtime, OneInstanceGivesSumInputConstantAndStructure) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  Batch batch(model->signature());
  const std::vector<float> sum = TreeMaker{&batch, 1}.add(5);
  const Outputs outputs = model->run(batch);
  ASSERT_EQ(outputs.size(), 1u);
  expect_row(outputs[0][0], sum);
  ASSERT_EQ(outputs[0][1].size(), 2u);
  expect_row(outputs[0][1][0], {0, 0.25f, 0.5f, 0.75f});
  expect_row(outputs[0][1][1], {1, 1, 1, 1});
  EXPECT_EQ(outputs[0][2].constructor().name, "Node");
}

TEST(Runtime, EveryInstanceOfALargeBatchGetsItsOwnResultWhateverTheThreads) {
  for (const unsigned threads : {1u, 3u}) {
    batch::RuntimeOptions options;
    options.threads = threads;
    const auto model = test::tree_runtime(device::open_cpu(2), options);
    Batch batch(model->signature());
    TreeMaker maker{&batch, 7};
    std::vector<std::vector<float>> sums;
    for (unsigned i = 0; i < 10000; ++i) sums.push_back(maker.add(1 + i % 13));
    const Outputs outputs = model->run(batch);
    Report report;
    model->describe(&report);
    EXPECT_EQ(report.last.walkers, threads);
    ASSERT_EQ(outputs.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      expect_row(outputs[i][0], sums[i]);
      EXPECT_EQ(outputs[i][1][0].tensor()[0], static_cast<float>(i));
    }
  }
}

TEST(Runtime, BatchesOfAllSizesInTurnReuseWhatHasGrown) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  for (const unsigned size : {1u, 300u, 2u, 1000u, 0u, 5u}) {
    Batch batch(model->signature());
    TreeMaker maker{&batch, size};
    std::vector<std::vector<float>> sums;
    for (unsigned i = 0; i < size; ++i) sums.push_back(maker.add(1 + i % 40));
    const Outputs outputs = model->run(batch);
    for (size_t i = 0; i < sums.size(); ++i) expect_row(outputs[i][0], sums[i]);
  }
}

TEST(Runtime, OutputsOutliveModelBatchAndLaterRuns) {
  auto model = test::tree_runtime(device::open_cpu(2));
  Outputs first, second;
  std::vector<float> sum;
  {
    Batch batch(model->signature());
    TreeMaker maker{&batch, 3};
    sum = maker.add(9);
    first = model->run(batch);
    batch.clear();
    TreeMaker(maker).add(3);
    second = model->run(batch);
  }
  model.reset();
  expect_row(first[0][0], sum);
  OutputView tree = first[0][2];
  int nodes = 1;
  for (; tree.tag() == 1; tree = tree[0]) ++nodes;
  EXPECT_GT(nodes, 1);
}

TEST(Runtime, SharedNodesOfAResultStayShared) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  Batch batch(model->signature());
  const ConstructorId leaf = batch.constructor("Leaf"), node = batch.constructor("Node");
  Value tree = batch.make(leaf, {Value::integer(1)});
  for (int i = 0; i < 12; ++i) tree = batch.make(node, {tree, tree});
  const std::vector<float> x(4, 0.0f);
  batch.add({tree, batch.tensor(batch.signature().params()[1], x)});
  const Outputs outputs = model->run(batch);
  OutputView view = outputs[0][2];
  for (int i = 0; i < 12; ++i) view = view[static_cast<size_t>(i % 2)];
  EXPECT_EQ(view[0].integer(), 1);
}

TEST(Runtime, TreesDeeperThanTheCallersStackAreWalkedOnALargerOne) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer keeps a call stack of its own of 65,536 frames";
#endif
  const auto model = test::tree_runtime(device::open_cpu(2));
  Batch batch(model->signature());
  const ConstructorId leaf = batch.constructor("Leaf"), node = batch.constructor("Node");
  const Value one = batch.make(leaf, {Value::integer(9)});
  Value tree = one;
  constexpr uint32_t kDepth = 200000;
  for (uint32_t i = 0; i < kDepth; ++i) tree = batch.make(node, {tree, one});
  const std::vector<float> x(4, 0.0f);
  batch.add({tree, batch.tensor(batch.signature().params()[1], x)});
  const Outputs outputs = model->run(batch);
  EXPECT_EQ(outputs[0][0].tensor()[0], 12.0f);  // 6 * (1 + 1/2 + 1/4 ..)
  Report report;
  model->describe(&report);
  EXPECT_EQ(report.last.levels, kDepth + 2);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_EQ(report.notes[0], "instances are walked by threads with large stacks, as some are very deep");
  EXPECT_EQ(model->run(batch)[0][0].tensor()[0], 12.0f);
}

TEST(Runtime, FaultsNameInstanceAndLineAndLeaveTheModelUsable) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  Batch batch(model->signature());
  TreeMaker maker{&batch, 3};
  maker.add(4);
  const std::vector<float> x(4, 0.0f);
  batch.add({batch.make(maker.leaf, {Value::integer(10)}), batch.tensor(batch.signature().params()[1], x)});
  EXPECT_EQ(error_of([&] { model->run(batch); }),
            "usage: instance 1: tree.rondo:3: row 10 of a tensor with 10 rows; expected 0 to 9");
  batch.clear();
  const std::vector<float> sum = maker.add(4);
  expect_row(model->run(batch)[0][0], sum);
}

TEST(Runtime, BatchOfAnotherModelIsRefused) {
  const auto one = test::tree_runtime(device::open_cpu(1)), two = test::tree_runtime(device::open_cpu(1));
  EXPECT_EQ(error_of([&] { two->run(Batch(one->signature())); }),
            "usage: this batch was made for another model; make it from this one's batch()");
}

TEST(Runtime, SeveralThreadsMayRunOneModel) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        Batch batch(model->signature());
        TreeMaker maker{&batch, t * 100u + static_cast<unsigned>(round)};
        std::vector<std::vector<float>> sums;
        for (int i = 0; i < 10; ++i) sums.push_back(maker.add(7));
        const Outputs outputs = model->run(batch);
        for (size_t i = 0; i < sums.size(); ++i) expect_row(outputs[i][0], sums[i]);
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(Runtime, ReportCountsWhatHappened) {
  const auto model = test::tree_runtime(device::open_cpu(2));
  Batch batch(model->signature());
  TreeMaker maker{&batch, 1};
  for (int i = 0; i < 10; ++i) maker.add(2);  // 2 leaves, 1 node, 3 results each
  model->run(batch);
  Report report;
  model->describe(&report);
  report.program = "trees";
  EXPECT_EQ(report.last.records, 60u);
  EXPECT_EQ(report.last.buckets, 3u);
  EXPECT_EQ(report.last.levels, 3u);
  EXPECT_EQ(report.last.launches, 3u);
  EXPECT_EQ(report.last.unbatched_launches, 60u);
  EXPECT_EQ(report.last.replay, "cpu");
  EXPECT_EQ(report.instances, 10u);
  const std::string text = report.text();
  EXPECT_NE(text.find("3 launches in 3 levels; one by one they would be 60, 20 times as many"), std::string::npos) << text;
  EXPECT_NE(report.json().find("\"unbatched_launches\": 60"), std::string::npos);
}

TEST(Runtime, PartsThatDoNotFitTogetherAreRefused) {
  const auto with = [](auto change) {
    batch::RuntimeParts parts;
    parts.plan = test::tree_plan();
    parts.program = test::tree_program();
    parts.device = device::open_cpu(1);
    parts.launches = batch::cpu_launches(parts.plan, *test::tree_kernels(), parts.device.get(), &parts.keep);
    change(&parts);
    return error_of([&] { batch::Runtime(std::move(parts), test::tree_weights(), {}); });
  };
  static const abi::Program old{0, 3, nullptr}, other{abi::kVersion, 4, nullptr};
  EXPECT_EQ(with([](batch::RuntimeParts* p) { p->program = &old; }), "internal: host program of version 0, expected 1");
  EXPECT_EQ(with([](batch::RuntimeParts* p) { p->program = &other; }),
            "internal: host program of 4 blocks, the plan has 3");
  EXPECT_EQ(with([](batch::RuntimeParts* p) { p->launches.pop_back(); }), "internal: 2 kernels for 3 launches");
  EXPECT_EQ(with([](batch::RuntimeParts* p) { p->plan.blocks[2].result_pool = -1; }),
            "internal: the plan of trees has no result block for f32[4]");
  abi::CpuModule fewer = *test::tree_kernels();
  fewer.count = 2;
  const auto cpu = device::open_cpu(1);
  std::vector<std::shared_ptr<const void>> keep;
  EXPECT_EQ(error_of([&] { batch::cpu_launches(test::tree_plan(), fewer, cpu.get(), &keep); }),
            "internal: cpu module of version 1 with 2 kernels, expected version 1 with 3");
}

}  // namespace
}  // namespace rondo
