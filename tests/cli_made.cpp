// Weights and instances made by rule: the numbers are those of the benchmark's definition, on every machine.
#include <gtest/gtest.h>

#include "program.h"
#include "rondo/weights.h"

using rondo::Weights;
using rondo::testing::read_file;
using rondo::testing::run_program;
using rondo::testing::scratch;

namespace {

const std::string kModels = RONDO_SOURCE_DIR "/examples/models/";

Weights made(const std::string& model, const std::string& hidden) {
  const std::string path = scratch() / (model + ".safetensors");
  const auto finished = run_program({"weights", "spec", "--model", model, "-D", "H=" + hidden, "-o", path});
  EXPECT_EQ(finished.status, 0) << finished.error;
  return Weights::load(path);
}

float element(const Weights& weights, const std::string& name, size_t index) {
  const rondo::Tensor* tensor = weights.find(name);
  if (!tensor) {
    ADD_FAILURE() << "no weight " << name;
    return 0;
  }
  return tensor->values()[index];
}

TEST(SpecWeights, NumbersAreThoseOfTheDefinition) {
  const Weights tree = made("treelstm", "4");
  EXPECT_EQ(tree.size(), 21u);
  EXPECT_FLOAT_EQ(element(tree, "w10", 0), -0.360027313f);
  EXPECT_FLOAT_EQ(element(tree, "w10", 5), -0.0227494836f);
  EXPECT_FLOAT_EQ(element(tree, "w10", 15), -0.425197303f);
  EXPECT_FLOAT_EQ(element(tree, "embed", 0), -0.452843189f);
  EXPECT_FLOAT_EQ(element(tree, "embed", 3999), 0.69266665f);
  EXPECT_FLOAT_EQ(element(tree, "b26", 3), 0.0647724271f);
  const Weights matrices = made("mvrnn", "4");
  EXPECT_EQ(matrices.find("w212")->dims, (std::vector<int64_t>{4, 8}));
  EXPECT_FLOAT_EQ(element(matrices, "w212", 31), 0.238891974f);
  EXPECT_FLOAT_EQ(element(matrices, "matrices", 15999), 0.400507927f);
}

TEST(SpecWeights, EveryModelsWeightsAreTheOnesItsProgramDeclares) {
  for (const std::string model : {"treelstm", "bilstm", "birnn", "mvrnn"}) {
    const std::string random = scratch() / "random.safetensors";
    ASSERT_EQ(run_program({"weights", "random", "-p", kModels + model + ".rondo", "-D", "H=8", "-o", random}).status, 0);
    const Weights declared = Weights::load(random), spec = made(model, "8");
    EXPECT_EQ(declared.names(), spec.names()) << model;
    for (const std::string& name : declared.names()) {
      ASSERT_NE(spec.find(name), nullptr) << model << " " << name;
      EXPECT_EQ(declared.find(name)->dims, spec.find(name)->dims) << model << " " << name;
    }
  }
}

TEST(SpecWeights, WrongCallsSayWhatIsThere) {
  const auto unknown = run_program({"weights", "spec", "--model", "gpt", "-o", scratch() / "x.safetensors"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.error,
            "rondo: --model gpt: there is no such benchmark model; expected treelstm, bilstm, birnn, mvrnn\n");
  const auto size = run_program({"weights", "spec", "--model", "birnn", "-D", "K=3", "-o", scratch() / "x.safetensors"});
  EXPECT_EQ(size.status, 2);
  EXPECT_EQ(size.error, "rondo: -D K=3: a benchmark model has one size, H, of at least 1\n");
  EXPECT_FALSE(std::filesystem::exists(scratch() / "x.safetensors"));
}

TEST(RandomWeights, EqualSeedsGiveEqualFilesAndOthersDoNot) {
  const std::string program = kModels + "birnn.rondo";
  std::vector<std::string> files;
  for (const char* seed : {"1", "1", "2"}) {
    const std::string path = scratch() / "seed.safetensors";
    ASSERT_EQ(run_program({"weights", "random", "-p", program, "--seed", seed, "-D", "H=4", "-o", path}).status, 0);
    files.push_back(read_file(path));
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
}

TEST(SpecInstances, AreThoseOfTheDefinition) {
  const auto tree = run_program({"instances", "spec", "--model", "treelstm", "--first", "3", "--count", "1"});
  EXPECT_EQ(tree.status, 0);
  EXPECT_EQ(tree.output,
            "{\"Node\":[{\"Node\":[{\"Node\":[{\"Node\":[{\"Leaf\":[784]},{\"Node\":[{\"Leaf\":[943]},{\"Leaf\":[852]}]}]},"
            "{\"Node\":[{\"Leaf\":[566]},{\"Node\":[{\"Leaf\":[37]},{\"Leaf\":[236]}]}]}]},{\"Node\":[{\"Leaf\":[951]},"
            "{\"Leaf\":[792]}]}]},{\"Node\":[{\"Node\":[{\"Leaf\":[669]},{\"Leaf\":[101]}]},{\"Leaf\":[799]}]}]}\n");
  const auto words = run_program({"instances", "spec", "--model", "birnn", "--first", "7", "--count", "1"});
  EXPECT_EQ(words.output, "[231,146,718,204,829,770,615,113,456,403,637]\n");
}

}  // namespace
