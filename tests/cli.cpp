// The program `rondo` from outside: exit codes, what stands on stdout and stderr, files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "program.h"

using rondo::testing::run_program;

namespace {

TEST(Cli, VersionAndHelpAreOnStdoutAndSucceed) {
  const auto version = run_program({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.output.rfind("rondo ", 0), 0u) << version.output;
  const auto help = run_program({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* verb : {"run", "check", "dump", "bench", "weights", "instances", "doctor", "replay-report"}) {
    EXPECT_NE(help.output.find(std::string("\n  ") + verb + " "), std::string::npos) << "no " << verb << " in:\n" << help.output;
    const auto more = run_program({verb, "--help"});
    EXPECT_EQ(more.status, 0) << verb;
    EXPECT_NE(more.output.find("--help"), std::string::npos) << verb;
  }
  EXPECT_EQ(help.error, "");
}

TEST(Cli, AWrongCallIsExitCode2WithOneSentenceAndWhereToLook) {
  for (const auto& words : std::vector<std::vector<std::string>>{{}, {"fly"}, {"check"}, {"check", "--fly", "x"}}) {
    const auto finished = run_program(words);
    EXPECT_EQ(finished.status, 2) << finished.error;
    EXPECT_EQ(finished.output, "");
    EXPECT_EQ(finished.error.rfind("rondo: ", 0), 0u) << finished.error;
    EXPECT_NE(finished.error.find("Run `rondo --help`"), std::string::npos) << finished.error;
  }
}

const std::string kTree = RONDO_SOURCE_DIR "/examples/models/treelstm.rondo";

// Nothing here reads or fills the user's cache of compiled kernels.
const bool kOwnCache = setenv("RONDO_CACHE_DIR", (rondo::testing::scratch() / "cache").c_str(), 1) == 0;

std::string file(const std::string& name, const std::string& text) {
  const std::string path = rondo::testing::scratch() / name;
  std::ofstream(path) << text;
  return path;
}

TEST(Cli, CheckShowsTheSignatureAndTheWeights) {
  ASSERT_TRUE(kOwnCache);
  const auto finished = run_program({"check", kTree, "-D", "H=8"});
  EXPECT_EQ(finished.status, 0) << finished.error;
  EXPECT_EQ(finished.output, kTree + ": ok\n  main(Tree) -> f32[8]\n  21 weights, 8,888 numbers\n");
}

TEST(Cli, AWrongProgramIsExitCode1WithPlaceLineAndCaret) {
  const std::string path = file("wrong.rondo", "fn main(x: int) -> f32[4] {\n  zeros(5)\n}\n");
  const auto finished = run_program({"check", path});
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_EQ(finished.error.rfind(path + ":2:3: error: ", 0), 0u) << finished.error;
  EXPECT_NE(finished.error.find("\n  zeros(5)\n  ^"), std::string::npos) << finished.error;
}

TEST(Cli, AFileThatIsNotThereIsExitCode2AndNamed) {
  const auto finished = run_program({"check", "/nowhere/tree.rondo"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.error.find("/nowhere/tree.rondo"), std::string::npos) << finished.error;
  EXPECT_NE(finished.error.find("No such file or directory"), std::string::npos) << finished.error;
}

TEST(Cli, AnUnknownConstantIsNamed) {
  const auto finished = run_program({"check", kTree, "-D", "HIDDEN=8"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.error.find("HIDDEN"), std::string::npos) << finished.error;
}

TEST(Cli, AnUnknownVerbNamesThoseThatAre) {
  const auto finished = run_program({"train", kTree});
  EXPECT_EQ(finished.status, 2);
  EXPECT_EQ(finished.error, "rondo: there is no verb 'train': expected one of run, check, dump, bench, weights, instances, doctor, replay-report\n"
                            "Run `rondo --help`, or `rondo VERB --help`.\n");
}

TEST(Cli, DumpShowsEveryStage) {
  for (const char* stage : {"ir", "reuse", "specialised", "facts", "host", "plan", "cpp", "cpu", "cuda"}) {
    const auto finished = run_program({"dump", "--stage", stage, kTree});
    EXPECT_EQ(finished.status, 0) << stage << ": " << finished.error;
    EXPECT_GT(finished.output.size(), 100u) << stage;
    EXPECT_EQ(finished.error, "") << stage;
  }
}

TEST(Cli, AnUnknownStageNamesThoseThatAre) {
  const auto finished = run_program({"dump", "--stage", "ast", kTree});
  EXPECT_EQ(finished.status, 2);
  EXPECT_EQ(finished.error,
            "rondo: there is no stage 'ast': expected one of ir, reuse, specialised, facts, host, plan, cpp, cpu, cuda\n");
}

TEST(Cli, DoctorTriesThingsAndSaysWhatModelsRunOn) {
  const auto well = run_program({"doctor"});
  EXPECT_EQ(well.status, 0) << well.output << well.error;
  EXPECT_NE(well.output.find("ok       host compiler"), std::string::npos) << well.output;
  EXPECT_NE(well.output.find("Models run on: cpu"), std::string::npos) << well.output;
  const auto ill = run_program({"doctor"}, "env PATH=/nowhere RONDO_CXX=/nowhere/g++");
  EXPECT_EQ(ill.status, 3);
  EXPECT_NE(ill.output.find("missing  host compiler"), std::string::npos) << ill.output;
  EXPECT_NE(ill.output.find("Models run on: nothing."), std::string::npos) << ill.output;
  EXPECT_EQ(ill.error, "rondo: models need a host compiler: see above\n");
  EXPECT_EQ(run_program({"doctor", "--device", "tpu"}).error, "rondo: --device tpu: expected cpu or cuda\n");
}

TEST(Cli, DoctorWithoutAGpuFailsOnlyWhenAskedForOne) {
  const auto finished = run_program({"doctor", "--device", "cuda"}, "env RONDO_LIBCUDA=/nowhere/libcuda.so");
  EXPECT_EQ(finished.status, 3);
  EXPECT_NE(finished.output.find("missing  gpu"), std::string::npos) << finished.output;
  EXPECT_EQ(finished.error, "rondo: cuda was asked for: see above for what it lacks\n");
}

// A model small enough to compile in a moment, with weights and two instances.
struct Small {
  std::string program = file("small.rondo", "weight w: f32[3]; fn main(i: int) -> f32[3] { tanh(w * float(i)) }\n");
  std::string instances = file("small.jsonl", "1\n2\n");
  std::string weights = rondo::testing::scratch() / "small.safetensors";
  Small() { EXPECT_EQ(run_program({"weights", "random", "-p", program, "--seed", "3", "-o", weights}).status, 0); }
  std::vector<std::string> run(const std::string& output) const {
    return {"run", program, "--weights", weights, "--instances", instances, "--device", "cpu", "--report", "none", "--output", output};
  }
};

TEST(Cli, ColdAndWarmCacheGiveTheSameBytes) {
  const Small small;
  const std::string cache = "env RONDO_CACHE_DIR=" + (rondo::testing::scratch() / "fresh").string();
  const auto cold = run_program(small.run("-"), cache), warm = run_program(small.run("-"), cache);
  EXPECT_EQ(cold.status, 0) << cold.error;
  EXPECT_EQ(cold.output, warm.output);
  EXPECT_EQ(std::count(cold.output.begin(), cold.output.end(), '\n'), 2) << cold.output;
}

TEST(Cli, AWarmCacheNeedsNoCompiler) {
  const Small small;
  const std::string cache = "env RONDO_CACHE_DIR=" + (rondo::testing::scratch() / "carried").string();
  const auto cold = run_program(small.run("-"), cache), without = run_program(small.run("-"), cache + " PATH=/nowhere");
  EXPECT_EQ(without.status, 0) << without.error;
  EXPECT_EQ(without.output, cold.output);
  std::vector<std::string> other = small.run("-");
  other[1] = file("other.rondo", "weight w: f32[3]; fn main(i: int) -> f32[3] { exp(w * float(i)) }\n");
  const auto missing = run_program(other, cache + " PATH=/nowhere");
  EXPECT_EQ(missing.status, 3);
  EXPECT_EQ(missing.error.rfind("rondo: no C++ compiler is on the PATH", 0), 0u) << missing.error;
}

TEST(Cli, ResultsDoNotReplaceWhatTheyAreMadeFrom) {
  const Small small;
  const std::string before = rondo::testing::read_file(small.weights);
  const auto finished = run_program(small.run(small.weights));
  EXPECT_EQ(finished.status, 2);
  EXPECT_EQ(finished.error, "rondo: --output " + small.weights + " is the input " + small.weights + ": expected another file\n");
  EXPECT_EQ(rondo::testing::read_file(small.weights), before);
  EXPECT_EQ(run_program(small.run("")).status, 2);
}

TEST(Cli, AFullDiskUnderStandardOutputIsSaidByEveryVerb) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const Small small;
  std::vector<std::string> report = small.run(rondo::testing::scratch() / "full.jsonl"), bench = small.run("");
  report[report.size() - 3] = "json";
  bench.resize(6);
  bench[0] = "bench";
  bench.insert(bench.end(), {"--batch", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "--rounds", "1"});  // more than a buffer holds
  for (const auto& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                 {"--version"},
                                                                 {"run", "--help"},
                                                                 {"check", kTree},
                                                                 {"dump", "--stage", "ir", kTree},
                                                                 {"instances", "spec", "--model", "birnn"},
                                                                 {"doctor"},
                                                                 report,
                                                                 small.run("-"),
                                                                 bench}) {
    const auto finished = run_program(words, "", "/dev/full");
    EXPECT_EQ(finished.status, 2) << words[0];
    EXPECT_EQ(finished.error.rfind("rondo: cannot write to standard output: ", 0), 0u) << words[0] << ": " << finished.error;
  }
}

TEST(Cli, AFullDiskUnderAFileIsSaid) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const Small small;
  std::vector<std::string> traced = small.run("-");
  traced.insert(traced.end(), {"--trace", "/dev/full"});
  EXPECT_EQ(run_program(traced).error, "rondo: cannot write the trace to /dev/full (No space left on device): expected room for it\n");
  const auto finished = run_program({"dump", "--stage", "ir", kTree, "-o", "/dev/full"});
  EXPECT_EQ(finished.error, "rondo: cannot write /dev/full: No space left on device\n");
  EXPECT_EQ(finished.status, 2);
}

// Names in a folder that end so.
std::vector<std::string> names(const std::filesystem::path& folder, const std::string& tail) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.size() >= tail.size() && name.compare(name.size() - tail.size(), tail.size(), tail) == 0) found.push_back(name);
  }
  return found;
}

TEST(Cli, AnInterruptedRunLeavesNoHalfFile) {
  Small small;
  small.instances = rondo::testing::scratch() / "pipe.jsonl";
  std::filesystem::remove(small.instances);
  ASSERT_EQ(mkfifo(small.instances.c_str(), 0600), 0);
  const std::filesystem::path folder = rondo::testing::scratch() / "interrupted";
  std::filesystem::create_directory(folder);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    rondo::testing::Started run(small.run(folder / "out.jsonl"));
    std::ofstream instances(small.instances);  // stays open: the program waits for more
    ASSERT_TRUE(rondo::testing::wait_until([&] { return names(folder, ".tmp").size() == 1; }));
    EXPECT_EQ(run.finish(signal), signal);
    EXPECT_EQ(names(folder, ""), std::vector<std::string>());
  }
}

TEST(Cli, AnInterruptedCompilerLeavesNoFolder) {
  const Small small;
  const std::filesystem::path folder = rondo::testing::scratch() / "compiling", started = rondo::testing::scratch() / "started";
  std::filesystem::create_directory(folder);
  std::filesystem::remove(started);
  const std::string slow = file("slow", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\ntouch " + started.string() + "\nexec sleep 60\n");
  std::filesystem::permissions(slow, std::filesystem::perms::owner_all);
  rondo::testing::Started run(small.run("-"), {"RONDO_CXX=" + slow, "TMPDIR=" + folder.string()});
  ASSERT_TRUE(rondo::testing::wait_until([&] { return std::filesystem::exists(started); }));
  EXPECT_GE(names(folder, "").size(), 1u);
  EXPECT_EQ(run.finish(SIGINT), SIGINT);
  EXPECT_EQ(names(folder, ""), std::vector<std::string>());
}

TEST(Cli, StandardOutputLeadingToAFileStaysWhatItIs) {
  const auto finished = run_program({"dump", "--stage", "plan", kTree, "-D", "H=8"});  // stdout is a file here
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.output.find("plan treelstm: "), std::string::npos);
  if (std::filesystem::exists("/dev/stdout")) {
    EXPECT_TRUE(std::filesystem::is_symlink("/dev/stdout"));
  }
}

}  // namespace
