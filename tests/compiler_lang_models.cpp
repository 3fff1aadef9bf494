// The four models against checksums of an implementation that shares nothing with Rondo: plain loops, run on
// the same weights and instances (shared/models/reference.cc; hidden size and batch as in its table). The
// random numbers, weights and instances are made here by the rules of that specification.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>

#include "rondo/ir/evaluate.h"
#include "rondo/lang/lang.h"

namespace rondo::ir {
namespace {

constexpr uint64_t kGold = 0x9E3779B97F4A7C15ull;
constexpr int kWords = 1000;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

struct Random {
  uint64_t state;
  Random(uint64_t family, uint64_t instance) : state(family * 1000003 + instance) {}
  int64_t below(uint64_t n) {
    state += kGold;
    return static_cast<int64_t>(mix(state) % n);
  }
};

// The numbers of weight `id`, in single precision as specified.
WeightData weight(const std::string& name, std::vector<int64_t> dims, uint64_t id, float scale) {
  WeightData w{name, dims, {}};
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  for (int64_t k = 0; k < count; ++k) {
    const uint64_t bits = mix(((id << 32) + static_cast<uint64_t>(k) + 1) * kGold) >> 40;
    w.values.push_back(scale * (2.0f * (static_cast<float>(bits) * (1.0f / 16777216.0f)) - 1.0f));
  }
  return w;
}

float scale_of(const std::string& name, const std::vector<int64_t>& dims, int64_t hidden) {
  if (name == "embed") return 1.0f;
  if (name == "matrices") return static_cast<float>(std::sqrt(3.0 / static_cast<double>(hidden)));
  if (name == "w212") return static_cast<float>(std::sqrt(3.0 / static_cast<double>(2 * hidden)));
  if (dims.size() == 1) return 0.1f;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(dims.back())));
}

struct Model {
  const char* name;
  int64_t hidden;
  uint64_t embedding_id;
  bool trees;
  double sum, l2;
};

std::vector<WeightData> weights(const Program& program, const Model& model) {
  std::vector<WeightData> result;
  for (const Weight& w : program.weights) {
    const std::vector<int64_t>& dims = program.types[w.type].dims;
    const uint64_t id = w.name == "embed"      ? model.embedding_id
                        : w.name == "matrices" ? 202
                                               : std::stoull(w.name.substr(1));
    result.push_back(weight(w.name, dims, id, scale_of(w.name, dims, model.hidden)));
  }
  return result;
}

EvalValue tree(uint64_t instance) {
  Random random(1, instance);
  const int64_t a = random.below(31), b = random.below(31), leaves = 10 + std::min(a, b);
  std::vector<int64_t> words;
  for (int64_t k = 0; k < leaves; ++k) words.push_back(random.below(kWords));
  const std::function<EvalValue(int64_t, int64_t)> split = [&](int64_t low, int64_t high) {
    if (high - low == 1) return EvalValue::adt(0, {EvalValue::integer(words[static_cast<size_t>(low)])});
    const int64_t middle = low + 1 + random.below(static_cast<uint64_t>(high - low - 1));
    const EvalValue left = split(low, middle);
    return EvalValue::adt(1, {left, split(middle, high)});
  };
  return split(0, leaves);
}

EvalValue sentence(uint64_t instance) {
  Random random(2, instance);
  const int64_t length = 10 + random.below(31);
  std::vector<EvalValue> words;
  for (int64_t k = 0; k < length; ++k) words.push_back(EvalValue::integer(random.below(kWords)));
  return EvalValue::list(words);
}

void add_up(const EvalValue& v, double* sum, double* squares) {
  for (const double x : v.values()) {
    *sum += x;
    *squares += x * x;
  }
  for (const EvalValue& part : v.parts()) add_up(part, sum, squares);
}

class Models : public testing::TestWithParam<Model> {};

TEST_P(Models, GiveTheNumbersOfTheReference) {
  const Model& model = GetParam();
  std::ifstream in(std::string(RONDO_SOURCE_DIR) + "/examples/models/" + model.name + ".rondo");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const Program program = lang::parse_program(text, model.name, {{"H", model.hidden}});
  const std::vector<WeightData> given = weights(program, model);
  double sum = 0, squares = 0;
  for (uint64_t instance = 0; instance < 8; ++instance)
    add_up(evaluate(program, given, {model.trees ? tree(instance) : sentence(instance)}), &sum, &squares);
  // The reference rounds every intermediate result to single precision.
  EXPECT_NEAR(std::sqrt(squares) / model.l2, 1, 2e-6);
  EXPECT_NEAR(sum, model.sum, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Specification, Models,
                         testing::Values(Model{"treelstm", 256, 1, true, 0.038079, 2.851529},
                                         Model{"bilstm", 256, 101, false, 54.429660, 4.494769},
                                         Model{"birnn", 256, 101, false, 41.794703, 10.579901},
                                         Model{"mvrnn", 64, 201, true, 10.431959, 2.554463}),
                         [](const testing::TestParamInfo<Model>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace rondo::ir
