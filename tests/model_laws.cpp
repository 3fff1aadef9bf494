// The laws of compiled models on random programs and instances, on every device that the machine has: the device = the
// evaluator, batched = one by one, arrival order does not matter, graph = stream, fused = unfused, cuda = cpu, and a
// minibatch gives the same after other minibatches. The seed is printed; RONDO_LAW_PROGRAMS sets how many programs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "model_support.h"
#include "random_program.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using test::EvalValue;
using Floats = std::vector<std::vector<float>>;  // of each instance

class Laws : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      ModelOptions options;
      options.device = GetParam();
      Model::compile("fn main(x: int) -> int { x }", "probe.rondo", {}, options);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::Unavailable) throw;
      GTEST_SKIP() << e.what();
    }
  }
  bool gpu() const { return GetParam() != "cpu"; }
  int programs() const {
    const char* wanted = std::getenv("RONDO_LAW_PROGRAMS");
    return wanted ? std::atoi(wanted) : gpu() ? 12 : 8;
  }
};

// A random program with weights and instances.
struct Case {
  explicit Case(uint32_t seed) {
    testing::RandomProgram random(seed);
    text = random.text();
    weights = random.weights();
    for (int i = 0; i < 10; ++i) instances.push_back(random.instance());
  }
  Model compile(const std::string& device, bool fused = true, const std::string& replay = "auto") const {
    ModelOptions options;
    options.device = device;
    options.fused = fused;
    options.replay = replay;
    return Model::compile(text, "random.rondo", test::to_weights(weights), options);
  }
  std::string text;
  std::vector<ir::WeightData> weights;
  std::vector<std::vector<EvalValue>> instances;
};

Floats run(Model* model, const std::vector<std::vector<EvalValue>>& instances) {
  Batch batch = model->batch();
  for (const auto& arguments : instances) test::add_instance(arguments, &batch);
  const Outputs outputs = model->run(batch);
  Floats all(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) test::floats_of(outputs[i], &all[i]);
  return all;
}

double difference(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return INFINITY;
    for (size_t k = 0; k < a[i].size(); ++k) {
      const double d = std::fabs(static_cast<double>(a[i][k]) - b[i][k]);
      worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    }
  }
  return worst;
}

TEST_P(Laws, RandomProgramsKeepThem) {
  for (int seed = 101; seed < 101 + programs(); ++seed) {
    const Case c(static_cast<uint32_t>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text);
    Model model = c.compile(GetParam());
    const Floats together = run(&model, c.instances);

    // The device is what the evaluator says.
    const ir::Program program = lang::parse_program(c.text, "random.rondo");
    Batch batch = model.batch();
    for (const auto& arguments : c.instances) test::add_instance(arguments, &batch);
    const Outputs outputs = model.run(batch);
    for (size_t i = 0; i < c.instances.size(); ++i)
      ASSERT_LE(ir::largest_difference(test::to_eval(outputs[i]), ir::evaluate(program, c.weights, c.instances[i])), 1e-4);

    // Batched is one by one. On a GPU the tile shape, and with it the order of sums, depends on how many rows meet.
    Floats alone;
    for (const auto& instance : c.instances) alone.push_back(run(&model, {instance})[0]);
    if (gpu()) ASSERT_LE(difference(alone, together), 5e-5);
    else ASSERT_EQ(alone, together);

    // Other minibatches in between, then the same in another order.
    ASSERT_EQ(run(&model, c.instances), together);
    std::vector<std::vector<EvalValue>> reversed(c.instances.rbegin(), c.instances.rend());
    Floats back = run(&model, reversed);
    std::reverse(back.begin(), back.end());
    ASSERT_EQ(back, together);

    if (gpu()) {
      Model stream = c.compile(GetParam(), true, "stream");
      ASSERT_EQ(run(&stream, c.instances), together) << "graph = stream";
      Model cpu = c.compile("cpu");
      ASSERT_LE(difference(run(&cpu, c.instances), together), 1e-4) << "cuda = cpu";
    }
    if (seed % 4 == 0) {
      Model unfused = c.compile(GetParam(), false);
      ASSERT_LE(difference(run(&unfused, c.instances), together), 5e-5) << "unfused = fused";
    }
  }
}

TEST_P(Laws, OneInstanceAndNoInstanceAreBatchesToo) {
  const Case c(7);
  Model model = c.compile(GetParam());
  EXPECT_TRUE(run(&model, {}).empty());
  EXPECT_EQ(run(&model, {c.instances[0]}).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(On, Laws, ::testing::Values("cpu", "cuda"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rondo
