// The program `rondo` from outside: exit codes, what stands on stdout and stderr, files.
#include <gtest/gtest.h>

#include "program.h"

using rondo::testing::run_program;

namespace {

TEST(Cli, VersionAndHelpAreOnStdoutAndSucceed) {
  const auto version = run_program({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.output.rfind("rondo ", 0), 0u) << version.output;
  const auto help = run_program({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* verb : {"run", "check", "dump", "bench", "weights", "instances", "doctor"}) {
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

}  // namespace
