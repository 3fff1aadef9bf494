// `rondo run` and `bench` from outside, on the cpu: checksums of the benchmark models, results, reports, and what is said
// when something is missing.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

using rondo::testing::Finished;
using rondo::testing::read_file;
using rondo::testing::run_program;
using rondo::testing::scratch;

namespace {

const std::string kModels = RONDO_SOURCE_DIR "/examples/models/";
const std::string kTrees = RONDO_SOURCE_DIR "/examples/data/trees.txt";

// Makes weights and instances of a benchmark model once; the arguments that name them.
std::vector<std::string> inputs(const std::string& model, int hidden, int count) {
  const std::string size = std::to_string(hidden);
  const std::string weights = scratch() / (model + "." + size + ".safetensors");
  const std::string instances = scratch() / (model + "." + std::to_string(count) + ".jsonl");
  if (!std::filesystem::exists(weights)) {
    EXPECT_EQ(run_program({"weights", "spec", "--model", model, "-D", "H=" + size, "-o", weights}).status, 0);
  }
  if (!std::filesystem::exists(instances)) {
    EXPECT_EQ(run_program({"instances", "spec", "--model", model, "--count", std::to_string(count), "-o", instances}).status, 0);
  }
  return {kModels + model + ".rondo", "--weights", weights, "--instances", instances, "-D", "H=" + size, "--device", "cpu"};
}

Finished run_with(std::vector<std::string> words, const std::vector<std::string>& more, const std::string& verb = "run") {
  words.insert(words.begin(), verb);
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

// ---------------------------------------------------------------- checksums

class Checksum : public testing::TestWithParam<std::string> {};

std::vector<std::string> checksum_rows() {
  std::vector<std::string> rows;
  std::istringstream in(read_file(RONDO_SOURCE_DIR "/tests/checksums.txt"));
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(line);
  }
  return rows;
}

TEST_P(Checksum, IsThatOfTheDefinition) {
  std::istringstream row(GetParam());
  std::string model;
  int hidden = 0, batch = 0;
  long elements = 0;
  double sum = 0, l2 = 0;
  row >> model >> hidden >> batch >> elements >> sum >> l2;
  const auto finished = run_with(inputs(model, hidden, batch), {"--batch", std::to_string(batch), "--report", "none", "--checksum"});
  ASSERT_EQ(finished.status, 0) << finished.error;
  long got_elements = 0;
  double got_sum = 0, got_l2 = 0;
  ASSERT_EQ(std::sscanf(finished.output.c_str(), "checksum: %ld elements, sum %lf, l2 %lf", &got_elements, &got_sum, &got_l2), 3)
      << finished.output;
  EXPECT_EQ(got_elements, elements);
  // l2 within 1e-6 (its last printed digit comes on top); a sum of n numbers of either sign is less sharp.
  EXPECT_NEAR(got_l2, l2, 1e-6 * l2 + 1e-6);
  EXPECT_NEAR(got_sum, sum, 2e-6 * l2 * std::sqrt(static_cast<double>(elements)) + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Models, Checksum, testing::ValuesIn(checksum_rows()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.find(' ', info.param.find(' ', info.param.find(' ') + 1) + 1));
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

// ---------------------------------------------------------------- results

TEST(CliRun, BatchedIsOneByOneBitForBit) {
  for (const std::string model : {"treelstm", "birnn"}) {
    std::vector<std::string> lines;
    for (const char* batch : {"1", "5", "64"}) {
      const auto finished = run_with(inputs(model, 16, 12), {"--batch", batch, "--output", "-"});
      ASSERT_EQ(finished.status, 0) << finished.error;
      lines.push_back(finished.output);
    }
    EXPECT_EQ(lines[0], lines[1]) << model;
    EXPECT_EQ(lines[0], lines[2]) << model;
    EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), '\n'), 12) << model;
  }
}

TEST(CliRun, ResultsOnStandardOutputStandAloneThere) {
  const auto finished = run_with(inputs("birnn", 8, 3), {"--output", "-", "--report", "text", "--checksum"});
  ASSERT_EQ(finished.status, 0) << finished.error;
  std::istringstream in(finished.output);
  for (std::string line; std::getline(in, line);) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_NE(finished.error.find("all 3 instances in 1 batch:"), std::string::npos) << finished.error;
  EXPECT_NE(finished.error.find("checksum: "), std::string::npos);
}

TEST(CliRun, FilesAppearWholeOrNotAtAll) {
  const std::string lines = scratch() / "out.jsonl", tensors = scratch() / "out.safetensors";
  ASSERT_EQ(run_with(inputs("treelstm", 8, 3), {"--output", lines}).status, 0);
  const std::string text = read_file(lines);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  ASSERT_EQ(run_with(inputs("treelstm", 8, 3), {"--output", tensors}).status, 0);
  EXPECT_NE(read_file(tensors).find("\"output\""), std::string::npos);
  const auto strange = run_with(inputs("treelstm", 8, 3), {"--output", scratch() / "out.txt"});
  EXPECT_EQ(strange.status, 2);
  EXPECT_NE(strange.error.find("expected a name that ends in .jsonl or .safetensors, or -"), std::string::npos) << strange.error;
  const auto nowhere = run_with(inputs("treelstm", 8, 3), {"--output", "/nowhere/out.jsonl"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_NE(nowhere.error.find("/nowhere/out.jsonl"), std::string::npos) << nowhere.error;
}

TEST(CliRun, TreesInBracketsBecomeInstances) {
  const std::string weights = scratch() / "random.safetensors";
  const std::string program = kModels + "treelstm.rondo";
  ASSERT_EQ(run_program({"weights", "random", "-p", program, "-D", "H=8", "-o", weights}).status, 0);
  const auto finished = run_program({"run", program, "--weights", weights, "-D", "H=8", "--trees", kTrees, "--hash-words",
                                     "1000", "--device", "cpu", "--output", "-"});
  ASSERT_EQ(finished.status, 0) << finished.error;
  const std::string trees = read_file(kTrees);
  EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), std::count(trees.begin(), trees.end(), '\n'));
}

TEST(CliRun, InstancesComeThroughStandardInputToo) {
  auto lines = inputs("birnn", 8, 3), trees = inputs("treelstm", 8, 3);
  const std::string bracketed = scratch() / "two.txt";
  std::ofstream(bracketed) << "(2 (1 17) (1 4))\n(1 5)\n";
  trees[3] = "--trees";
  trees[4] = bracketed;
  for (auto& words : {lines, trees}) {
    auto piped = words;
    piped[4] = "-";
    piped.insert(piped.begin(), "run");
    const auto read = run_with(words, {"--output", "-"});
    piped.insert(piped.end(), {"--output", "-"});
    const auto finished = run_program(piped, "cat '" + words[4] + "' |");
    EXPECT_EQ(finished.status, 0) << finished.error;
    EXPECT_EQ(finished.output, read.output);
    EXPECT_NE(finished.output, "");
    piped.front() = "bench";
    piped.resize(8);
    EXPECT_EQ(run_program(piped).error,
              "rondo: " + words[3] + " -: bench reads its instances several times; expected a file\n");
  }
}

TEST(CliRun, AByteOrderMarkMakesNoDifferenceToAnyText) {
  const std::string mark = "\xef\xbb\xbf";
  const auto marked = [&](const std::string& from) {
    const std::string path = scratch() / ("marked" + std::filesystem::path(from).extension().string());
    std::ofstream(path) << mark << read_file(from);
    return path;
  };
  const auto plain = inputs("treelstm", 8, 3);
  auto words = plain;
  words[0] = marked(words[0]);
  words[4] = marked(words[4]);
  const auto wanted = run_with(plain, {"--output", "-"}), finished = run_with(words, {"--output", "-"});
  EXPECT_EQ(finished.status, 0) << finished.error;
  EXPECT_EQ(finished.output, wanted.output);
  words[3] = "--trees";
  words[4] = marked(kTrees);
  const auto trees = run_with(words, {"--hash-words", "1000", "--output", "-"});
  EXPECT_EQ(trees.status, 0) << trees.error;
  EXPECT_NE(trees.output, "");
}

TEST(CliRun, NoInstancesAreNoResults) {
  auto words = inputs("birnn", 8, 3);
  const std::string empty = scratch() / "empty.jsonl";
  std::ofstream(empty).flush();
  words[4] = empty;
  const auto finished = run_with(words, {"--output", "-"});
  EXPECT_EQ(finished.status, 0) << finished.error;
  EXPECT_EQ(finished.output, "");
}

// ---------------------------------------------------------------- reports

TEST(CliRun, ReportsSayWhatBatchingSaved) {
  const auto text = run_with(inputs("treelstm", 16, 12), {});
  ASSERT_EQ(text.status, 0) << text.error;
  EXPECT_NE(text.output.find("all 12 instances in 1 batch:"), std::string::npos) << text.output;
  EXPECT_NE(text.output.find(" one by one ("), std::string::npos) << text.output;
  const auto json = run_with(inputs("treelstm", 16, 12), {"--report", "json", "--batch", "5"});
  ASSERT_EQ(json.status, 0) << json.error;
  const auto report = nlohmann::json::parse(json.output);
  EXPECT_EQ(report["total"]["instances"], 12);
  EXPECT_EQ(report["total"]["batches"], 3);
  EXPECT_GT(report["total"]["unbatched_launches"], report["total"]["launches"]);
}

TEST(CliRun, TraceIsATimeline) {
  const std::string path = scratch() / "trace.json";
  const auto finished = run_with(inputs("birnn", 8, 3), {"--trace", path});
  ASSERT_EQ(finished.status, 0) << finished.error;
  const auto trace = nlohmann::json::parse(read_file(path));
  EXPECT_GT(trace["traceEvents"].size(), 5u);
}

TEST(CliBench, WaysAreComparedInOneTable) {
  const std::string path = scratch() / "bench.json";
  const auto finished = run_with(inputs("treelstm", 8, 4), {"--batch", "1,4", "--rounds", "3", "--json", path}, "bench");
  ASSERT_EQ(finished.status, 0) << finished.error;
  EXPECT_NE(finished.output.find("cpu, batched"), std::string::npos) << finished.output;
  EXPECT_NE(finished.output.find("cpu, one by one"), std::string::npos) << finished.output;
  const auto rows = nlohmann::json::parse(read_file(path))["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2]["batch"], 4);
  EXPECT_TRUE(rows[2].contains("times_faster_than_one_by_one"));
}

TEST(CliBench, CallsInARowGoRoundDifferentMinibatchesAndAllCount) {
  const std::string path = scratch() / "row.json";
  const auto finished = run_with(
      inputs("treelstm", 8, 7),
      {"--batch", "2,9", "--rounds", "2", "--warm-up", "1", "--in-a-row", "5", "--json", path}, "bench");
  ASSERT_EQ(finished.status, 0) << finished.error;
  EXPECT_NE(
      finished.output.find("medians of 2 rounds after 1; every round runs every way 5 times in a row; "),
      std::string::npos)
      << finished.output;
  EXPECT_NE(finished.output.find("5 in a row: 3 different minibatches, in turn\n"), std::string::npos)
      << finished.output;
  EXPECT_NE(finished.output.find("5 in a row: 1 different minibatch, in turn\n"), std::string::npos)
      << finished.output;
  const auto report = nlohmann::json::parse(read_file(path));
  EXPECT_EQ(report["in_a_row"], 5);
  ASSERT_EQ(report["rows"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report["rows"][i]["minibatches"], i < 2 ? 3 : 1);
    EXPECT_EQ(report["rows"][i]["calls"], 10);
  }
}

// ---------------------------------------------------------------- what is said when something is wrong

TEST(CliRun, InstancesComeFromOnePlace) {
  auto words = inputs("birnn", 8, 3);
  const auto both = run_with(words, {"--trees", kTrees});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.error, "rondo: where are the instances? Expected one of --instances FILE.jsonl and --trees FILE.txt\n");
  const auto mixed = run_with(words, {"--hash-words", "10"});
  EXPECT_EQ(mixed.status, 2);
  EXPECT_EQ(mixed.error,
            "rondo: --vocab and --hash-words turn the words of --trees into numbers; --instances has numbers already\n");
}

TEST(CliRun, NumbersOutOfRangeAreWrongCalls) {
  const auto words = inputs("birnn", 8, 3);
  EXPECT_EQ(run_with(words, {"--batch", "0"}).error, "rondo: --batch 0: expected 1 or more\n");
  EXPECT_EQ(run_with(words, {"--threads", "-1"}).error, "rondo: --threads -1: expected 0 or more\n");
  EXPECT_EQ(run_with(words, {"--report", "html"}).error, "rondo: --report html: expected text, json or none\n");
  EXPECT_EQ(run_with(words, {"-D", "H"}).error, "rondo: -D H: expected NAME=VALUE with a whole number, as in -D H=512\n");
  EXPECT_EQ(run_with(words, {"--rounds", "0"}, "bench").error,
            "rondo: --rounds 0 --warm-up 3: expected 1 or more, and 0 or more\n");
  EXPECT_EQ(run_with(words, {"--in-a-row", "0"}, "bench").error, "rondo: --in-a-row 0: expected 1 or more\n");
}

TEST(CliRun, AListThatDoesNotFitIntoMemoryIsExitCode4AndSaysWhoAskedForHowMuch) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the program where memory does";
#endif
  const std::string program = scratch() / "long.rondo", weights = scratch() / "none.safetensors";
  std::ofstream(program) << "fn main(n: int) -> int { len(range(0 - n, n)) }\n";
  ASSERT_EQ(run_program({"weights", "random", "-p", program, "-o", weights}).status, 0);
  const std::string instances = scratch() / "long.jsonl";
  for (const char* n : {"100000000000000", "4611686018427387904", "9223372036854775807"}) {
    std::ofstream(instances) << n << "\n";
    const auto finished = run_program({"run", program, "--weights", weights, "--instances", instances, "--device", "cpu"});
    EXPECT_EQ(finished.status, 4) << finished.error;
    EXPECT_EQ(finished.error.rfind("rondo: out of host memory while walking instance 0 of " + program + ", which asked for ", 0), 0u)
        << finished.error;
    EXPECT_NE(finished.error.find(" bytes for one list or value; use shorter lists: this process holds "), std::string::npos)
        << finished.error;
  }
}

TEST(CliRun, AnInstanceThatDoesNotFitIntoMemoryIsNamed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the program where memory does";
#endif
  auto words = inputs("birnn", 8, 3);
  const std::string long_line = scratch() / "line.jsonl";
  std::ofstream(long_line) << "[1" << std::string(40'000'000, ' ') << "]\n[" << std::string(40'000'000, '1') << "]\n";
  words[4] = long_line;
  words.insert(words.begin(), "run");
  // Room for the program and the first line, of which little is kept, but not for what is made of a number of 40 MB.
  const auto finished = run_program(words, "ulimit -v 350000; RONDO_THREADS=1");
  EXPECT_EQ(finished.status, 4) << finished.error;
  EXPECT_EQ(finished.error.rfind("rondo: out of host memory while reading ", 0), 0u) << finished.error;
  EXPECT_NE(finished.error.find(", and the process may have 341 MiB (ulimit -v)"), std::string::npos) << finished.error;
}

TEST(CliRun, AMachineWithoutACompilerIsExitCode3) {
  auto words = inputs("birnn", 8, 3);
  words.insert(words.begin(), "run");
  const auto finished = run_program(words, "env PATH=/nowhere RONDO_CXX=/nowhere/g++ RONDO_CACHE_DIR=off");
  EXPECT_EQ(finished.status, 3) << finished.error;
  EXPECT_EQ(finished.error.rfind("rondo: ", 0), 0u) << finished.error;
  EXPECT_NE(finished.error.find("/nowhere/g++"), std::string::npos) << finished.error;
}

TEST(CliRun, AnAbsentGpuIsExitCode3AndSaysWhatToDo) {
  auto words = inputs("birnn", 8, 3);
  words.back() = "cuda";
  words.insert(words.begin(), "run");
  const auto finished = run_program(words, "env RONDO_LIBCUDA=/nowhere/libcuda.so");
  EXPECT_EQ(finished.status, 3) << finished.error;
  EXPECT_NE(finished.error.find("--device cpu"), std::string::npos) << finished.error;
}

TEST(CliRun, ALineThatIsNoInstanceIsNamed) {
  auto words = inputs("birnn", 8, 3);
  const std::string wrong = scratch() / "wrong.jsonl";
  std::ofstream(wrong) << "[1,2]\n[1,\"two\"]\n";
  words[4] = wrong;
  const auto finished = run_with(words, {});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.error.find("wrong.jsonl:2"), std::string::npos) << finished.error;
}

}  // namespace
