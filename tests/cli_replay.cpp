// `rondo replay-report` from outside: what it prints of a file, and what it says of one that is none.
#include <gtest/gtest.h>

#include "program.h"

using rondo::testing::run_program;
using rondo::testing::scratch;

namespace {

std::string region(const std::string& name, int calls, double plain_us) {
  return "{\"name\":\"" + name + "\",\"policy\":\"auto\",\"calls\":" + std::to_string(calls) +
         ",\"plain_calls\":" + std::to_string(calls) +
         ",\"replays\":0,\"patched_nodes\":0,\"failures\":0,\"dropped\":0,\"fallbacks\":[\"why "
         "not\"],\"recordings\":["
         "{\"signature\":\"in 64 B\",\"state\":\"decided\",\"choice\":\"plain\",\"reason\":\"plain: as "
         "said\",\"nodes\":1,\"kernels\":1,"
         "\"slots\":1,\"patched_nodes\":0,\"copied_bytes_a_call\":0,\"device_bytes\":0,\"record_ms\":1.5,"
         "\"pays_after_calls\":0,"
         "\"remembered\":false,\"plain_calls\":" +
         std::to_string(calls) +
         ",\"replays\":0,\"alternatives\":["
         "{\"name\":\"plain\",\"latency_us\":0,\"period_us\":" +
         std::to_string(plain_us) + ",\"samples\":5}]}]}";
}

std::string file(const std::string& name, const std::string& text) {
  const std::string path = scratch() / name;
  std::ofstream(path) << text;
  return path;
}

std::string report() {
  return file("report.json", "{\"rondo_replay_report\":1,\"regions\":[" + region("first", 10, 1) + "," +
                                 region("many", 300, 1) + "," + region("slow", 20, 1000) + "]}");
}

// Names in the order of their lines.
std::string order(const std::string& text) {
  std::string names;
  for (const char* name : {"first", "many", "slow"}) {
    EXPECT_NE(text.find(std::string(name) + ": "), std::string::npos) << text;
  }
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text[at] != ' ') names += text.substr(at, text.find(':', at) - at) + " ";
  }
  return names;
}

TEST(CliReplay, PrintsTheReportForPeople) {
  const auto finished = run_program({"replay-report", report()});
  EXPECT_EQ(finished.status, 0) << finished.error;
  EXPECT_EQ(finished.output.rfind("first: 10 calls, 0 replayed (0 %), plain\n"
                                  "  in 64 B: decided, plain; 10 plain, 0 replayed\n"
                                  "    plain: as said\n"
                                  "    1 node (1 kernel), 1 slot, nothing copied\n"
                                  "    plain 1.00 us a call\n"
                                  "    recorded in 1.5 ms, which does not pay\n"
                                  "  fallback: why not\n"
                                  "many: 300 calls",
                                  0),
            0u)
      << finished.output;
  EXPECT_EQ(finished.error, "");
}

TEST(CliReplay, SortsByCallsOrTime) {
  EXPECT_EQ(order(run_program({"replay-report", report()}).output), "first many slow ");
  EXPECT_EQ(order(run_program({"replay-report", report(), "--sort", "calls"}).output), "many slow first ");
  EXPECT_EQ(order(run_program({"replay-report", "--sort", "time", report()}).output), "slow many first ");
  const auto wrong = run_program({"replay-report", report(), "--sort", "name"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.error.find("--sort"), std::string::npos) << wrong.error;
}

TEST(CliReplay, JsonIsAReportAgain) {
  const auto json = run_program({"replay-report", report(), "--json", "--sort", "calls"});
  EXPECT_EQ(json.status, 0) << json.error;
  const std::string again = file("again.json", json.output);
  EXPECT_EQ(run_program({"replay-report", again}).output,
            run_program({"replay-report", report(), "--sort", "calls"}).output);
  EXPECT_EQ(run_program({"replay-report", "-"}, "cat '" + again + "' |").output,
            run_program({"replay-report", again}).output);
}

TEST(CliReplay, AFileThatIsMissingOrDamagedIsExitCode2AndNamed) {
  const auto missing = run_program({"replay-report", "/nowhere/report.json"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.output, "");
  EXPECT_NE(missing.error.find("/nowhere/report.json"), std::string::npos) << missing.error;
  EXPECT_NE(missing.error.find("No such file or directory"), std::string::npos) << missing.error;
  const std::string path = file("half.json", "{\"rondo_replay_report\":1,\"regi");
  const auto damaged = run_program({"replay-report", path});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_EQ(damaged.error, "rondo: " + path +
                               ": not a replay report: it is damaged at byte 31 of 30. Expected JSON as "
                               "RONDO_REPLAY_REPORT=FILE makes a program write it at its end\n");
  EXPECT_EQ(run_program({"replay-report"}).status, 2);
}

TEST(CliReplay, AFullDiskUnderStandardOutputIsSaid) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const auto finished = run_program({"replay-report", report()}, "", "/dev/full");
  EXPECT_EQ(finished.status, 2);
  EXPECT_EQ(finished.error.rfind("rondo: cannot write to standard output: ", 0), 0u) << finished.error;
}

}  // namespace
