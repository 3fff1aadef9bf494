// The laws of compiled models, on the cpu: compiled = what the evaluator says, batched = one by one, arrival order and
// threads do not matter, warm = cold.
#include <algorithm>

#include "model_support.h"
#include "random_program.h"
#include "rondo/io/file.h"

namespace rondo {
namespace {

using test::Both;
using test::EvalValue;

std::string example(const std::string& name) {
  return io::read_file(std::string(RONDO_SOURCE_DIR) + "/examples/models/" + name + ".rondo");
}

std::vector<std::vector<EvalValue>> trees(int count, uint32_t seed, int words = 50) {
  std::mt19937 random(seed);
  std::vector<std::vector<EvalValue>> out;
  for (int i = 0; i < count; ++i) out.push_back({test::random_tree(&random, 1 + static_cast<int>(random() % 20), words)});
  return out;
}

std::vector<std::vector<EvalValue>> sentences(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<EvalValue>> out;
  for (int i = 0; i < count; ++i) out.push_back({test::random_words(&random, static_cast<int>(random() % 15), 50)});
  return out;
}

TEST(Models, TreeLstmIsWhatTheEvaluatorSays) {
  Both both(example("treelstm"), "treelstm.rondo", {{"H", 24}, {"V", 50}});
  both.expect_equal(trees(40, 1));
  const Report report = both.model.report();
  EXPECT_LT(report.last.launches * 10, report.last.unbatched_launches);
}

TEST(Models, MvRnnIsWhatTheEvaluatorSays) {
  Both both(example("mvrnn"), "mvrnn.rondo", {{"H", 12}, {"V", 50}});
  both.expect_equal(trees(20, 2));
}

TEST(Models, BiRnnIsWhatTheEvaluatorSays) {
  Both both(example("birnn"), "birnn.rondo", {{"H", 20}, {"V", 50}});
  both.expect_equal(sentences(20, 3));
}

TEST(Models, BiLstmIsWhatTheEvaluatorSays) {
  Both both(example("bilstm"), "bilstm.rondo", {{"H", 20}, {"V", 50}});
  both.expect_equal(sentences(20, 4));
}

TEST(Models, RandomProgramsAreWhatTheEvaluatorSays) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::RandomProgram random(seed);
    const std::string text = random.text();
    const ir::Program program = lang::parse_program(text, "random.rondo");
    const auto weights = random.weights();
    Model model = Model::compile(text, "random.rondo", test::to_weights(weights), Both::options({}, "cpu"));
    std::vector<std::vector<EvalValue>> instances;
    for (int i = 0; i < 8; ++i) instances.push_back(random.instance());
    Batch batch = model.batch();
    for (const auto& arguments : instances) test::add_instance(arguments, &batch);
    const Outputs outputs = model.run(batch);
    for (size_t i = 0; i < instances.size(); ++i)
      EXPECT_LE(ir::largest_difference(test::to_eval(outputs[i]), ir::evaluate(program, weights, instances[i])), 5e-5)
          << text;
  }
}

std::vector<std::vector<float>> run(Model* model, const std::vector<std::vector<EvalValue>>& instances) {
  Batch batch = model->batch();
  for (const auto& arguments : instances) test::add_instance(arguments, &batch);
  const Outputs outputs = model->run(batch);
  std::vector<std::vector<float>> out(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) test::floats_of(outputs[i], &out[i]);
  return out;
}

TEST(Models, BatchedIsOneByOneAndOrderAndThreadsDoNotMatter) {
  Both both(example("treelstm"), "treelstm.rondo", {{"H", 20}, {"V", 50}});
  auto instances = trees(60, 9);
  const auto together = run(&both.model, instances);
  for (size_t i = 0; i < instances.size(); ++i) EXPECT_EQ(run(&both.model, {instances[i]})[0], together[i]) << i;
  std::reverse(instances.begin(), instances.end());
  auto reversed = run(&both.model, instances);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(reversed, together);
  ModelOptions options = Both::options({{"H", 20}, {"V", 50}}, "cpu");
  options.threads = 1;
  Model one = Model::compile(example("treelstm"), "treelstm.rondo", test::to_weights(both.weights), options);
  std::reverse(instances.begin(), instances.end());
  EXPECT_EQ(run(&one, instances), together);
  for (const StageReport& stage : one.report().stages)  // the second time
    if (stage.name == "kernels" || stage.name == "host program") {
      EXPECT_EQ(stage.from, "memory");
    }
}

TEST(Models, TenThousandInstances) {
  Both both(example("treelstm"), "treelstm.rondo", {{"H", 8}, {"V", 50}});
  const auto some = trees(50, 11);
  std::vector<std::vector<EvalValue>> many;
  for (int i = 0; i < 10000; ++i) many.push_back(some[static_cast<size_t>(i) % some.size()]);
  const auto all = run(&both.model, many);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], all[i % some.size()]);
  both.expect_equal(some);
}

TEST(Models, TreesOfFiveThousandLevels) {
  Both both(example("treelstm"), "treelstm.rondo", {{"H", 8}, {"V", 50}});
  EvalValue left = EvalValue::adt(0, {EvalValue::integer(3)}), right = left;
  for (int i = 0; i < 5000; ++i) {
    const EvalValue leaf = EvalValue::adt(0, {EvalValue::integer(i % 50)});
    left = EvalValue::adt(1, {left, leaf});
    right = EvalValue::adt(1, {leaf, right});
  }
  both.expect_equal({{left}, {right}});
  EXPECT_EQ(both.model.report().last.levels, 5002u);
}

}  // namespace
}  // namespace rondo
