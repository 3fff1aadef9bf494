// The report of regions: text, JSON and back, files, and what goes into the trace.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "message_of.h"
#include "replay_folder.h"
#include "rondo/base/trace.h"
#include "rondo/replay/report.h"

namespace rondo::replay {
namespace {

using test::message_of;

RegionReport sample() {
  RegionReport region;
  region.name = "step";
  region.policy = "auto";
  region.calls = 1100, region.plain_calls = 100, region.replays = 1000, region.patched_nodes = 2000,
  region.failures = 1;
  region.fallbacks = {"2048: cuGraphInstantiate failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"};
  RecordingReport r;
  r.signature = "in 4096 B, out 4096 B, 1024";
  r.state = "decided";
  r.choice = "graph";
  r.reason = "graph: 0.41 of plain back to back (8.2 against 20.1 us a call, median of 6 pairs)";
  r.nodes = 12, r.kernels = 11, r.slots = 24, r.patched_nodes = 2000, r.device_bytes = 65536;
  r.record_ms = 0.32, r.pays_after_calls = 26.9;
  r.plain_calls = 80, r.replays = 1000;
  r.alternatives = {{"plain", 25.3, 20, 6}, {"graph", 10.1, 8, 6}};
  region.recordings.push_back(r);
  RecordingReport refused;
  refused.signature = "in 64 B, 16";
  refused.state = "refused";
  refused.choice = "plain";
  refused.reason = "the work allocates memory: node 3 (alloc of 64 B)";
  refused.plain_calls = 20;
  region.recordings.push_back(refused);
  return region;
}

TEST(Report, ReadsAsLinesForPeople) {
  EXPECT_EQ(
      text(std::vector{sample()}),
      "step: 1,100 calls, 1,000 replayed (91 %), 1 of 2 recordings replayed; 2.25 times as fast as plain, "
      "12.0 ms saved, 1 failure\n"
      "  in 4096 B, out 4096 B, 1024: decided, graph; 80 plain, 1,000 replayed\n"
      "    graph: 0.41 of plain back to back (8.2 against 20.1 us a call, median of 6 pairs)\n"
      "    12 nodes (11 kernels), 24 slots; 2.0 nodes patched a replay, nothing copied; 64.0 KiB on the "
      "device\n"
      "    plain 20.0 us a call, 25.3 us alone with a wait; graph 8.00 us a call, 10.1 us alone with a wait\n"
      "    recorded in 0.320 ms, paid after 27 calls\n"
      "  in 64 B, 16: refused, plain; 20 plain, 0 replayed\n"
      "    the work allocates memory: node 3 (alloc of 64 B)\n"
      "  fallback: 2048: cuGraphInstantiate failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory\n");
  EXPECT_EQ(text({}), "no regions\n");
}

TEST(Report, SaysWhatHasNotPaidYetAndWhatNeverWill) {
  RegionReport region = sample();
  region.policy = "always";
  region.dropped = 1;
  region.recordings.resize(1);
  RecordingReport& r = region.recordings[0];
  r.replays = 20;
  r.remembered = true;
  r.copied_bytes_a_call = 3 << 20;
  std::string shown = text(std::vector{region});
  EXPECT_NE(shown.find(", pays after 27 calls\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("6 pairs) (decided by an earlier process)\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(", 3.0 MiB copied a call;"), std::string::npos) << shown;
  EXPECT_NE(shown.find(" (policy always), 1 failure, 1 recording dropped\n"), std::string::npos) << shown;
  r.choice = "plain";
  shown = text(std::vector{region});
  EXPECT_NE(shown.find("recorded in 0.320 ms, which does not pay\n"), std::string::npos) << shown;
  // Replays that were slower are a loss, and said to be one.
  r.alternatives[1].period_us = 40;
  EXPECT_NE(text(std::vector{region}).find("; 0.83 times as fast as plain, 0.400 ms lost"), std::string::npos)
      << text(std::vector{region});
}

TEST(Report, ANameOfSeveralLinesStaysOnOne) {
  RegionReport region;
  region.name = "a\nb\x1b[31m";
  EXPECT_EQ(text(std::vector{region}), "a b [31m: 0 calls, nothing decided yet\n");
}

// ---------------------------------------------------------------- JSON

TEST(Report, JsonComesBackAsItWas) {
  RegionReport other;
  other.name = "empty \"region\"\n";
  other.policy = "never";
  other.dropped = ~uint64_t{0};
  const std::vector<RegionReport> all = {sample(), other};
  const std::string written = json(all);
  const std::vector<RegionReport> read = parse_reports(written);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(json(read), written);
  EXPECT_EQ(text(read), text(all));
  EXPECT_EQ(read[1].dropped, ~uint64_t{0});
  EXPECT_EQ(read[0].recordings[0].alternatives[1].period_us, 8);
  EXPECT_EQ(parse_reports(json({})).size(), 0u);
}

TEST(Report, JsonIsWrittenWhateverIsInIt) {
  RegionReport region = sample();
  region.name = "caf\xe9";  // no UTF-8
  region.recordings[0].pays_after_calls = std::numeric_limits<double>::infinity();
  region.recordings[0].alternatives[0].latency_us = std::numeric_limits<double>::quiet_NaN();
  const auto read = parse_reports(json(std::vector{region}));
  EXPECT_EQ(read[0].name, "caf\xef\xbf\xbd");
  EXPECT_EQ(read[0].recordings[0].pays_after_calls, 0);
}

TEST(Report, WhatIsNoReportIsRefusedWithThePlace) {
  const auto why = [](const std::string& text) {
    return message_of([&] { parse_reports(text); }, ErrorKind::Usage);
  };
  const std::string tail = ". Expected JSON as RONDO_REPLAY_REPORT=FILE makes a program write it at its end";
  EXPECT_EQ(why(""), "not a replay report: it is damaged at byte 1 of 0" + tail);
  EXPECT_EQ(why("{}"), "not a replay report: there is no \"rondo_replay_report\" in it" + tail);
  EXPECT_EQ(why("[1]"), "not a replay report: there is no \"rondo_replay_report\" in it" + tail);
  EXPECT_EQ(why(R"({"rondo_replay_report":2})"),
            "a replay report of format 2: this program reads format 1. Use the program that belongs to the "
            "library which wrote it");
  EXPECT_EQ(why(R"({"rondo_replay_report":1})"), "not a replay report: the report has no \"regions\"" + tail);
  EXPECT_EQ(why(R"({"rondo_replay_report":1,"regions":[1]})"),
            "not a replay report: regions[0] is no object" + tail);
  auto whole = nlohmann::json::parse(json(std::vector{sample()}));
  auto& recording = whole["regions"][0]["recordings"][1];
  recording["replays"] = -1;
  EXPECT_EQ(why(whole.dump()),
            "not a replay report: \"replays\" of regions[0].recordings[1] is not a whole number" + tail);
  recording.erase("state");
  EXPECT_EQ(why(whole.dump()), "not a replay report: regions[0].recordings[1] has no \"state\"" + tail);
  whole["regions"][0]["fallbacks"][0] = 1;
  EXPECT_EQ(why(whole.dump()), "not a replay report: regions[0].fallbacks[0] is no text" + tail);
}

// Every single byte that is lost or changed: an Error(Usage), or a report all the same (a letter of a name),
// never anything else.
TEST(Report, ADamagedFileIsAnErrorOrAReport) {
  const std::string good = json(std::vector{sample()});
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const std::string& bad : {good.substr(0, at), good.substr(0, at) + '\x01' + good.substr(at + 1),
                                   good.substr(0, at) + good.substr(at + 1)}) {
      try {
        (void)text(parse_reports(bad));
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::Usage);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

// ---------------------------------------------------------------- file and trace

TEST(Report, IsWrittenWholeOrANoteSaysWhyNot) {
  const test::Folder folder;
  const std::string path = folder.path / "deep" / "report.json";
  write_report(path, std::vector{sample()});
  EXPECT_EQ(test::read(path), json(std::vector{sample()}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path / "deep"), {}), 1);
  const auto sink = std::make_shared<trace::MemorySink>();
  const trace::Attached attached = trace::attach(sink);
  write_report("/proc/none/report.json", std::vector{sample()});
  ASSERT_EQ(sink->events("replay.report").size(), 1u);
  const std::string said = sink->events("replay.report")[0].text;
  EXPECT_EQ(said.rfind("cannot write /proc/none/report.json (", 0), 0u) << said;
  EXPECT_NE(said.find("Set RONDO_REPLAY_REPORT to a file in a folder that can be written"), std::string::npos)
      << said;
}

TEST(Report, DecisionsAndFallbacksAreNotesOfTheTrace) {
  const auto sink = std::make_shared<trace::MemorySink>();
  const trace::Attached attached = trace::attach(sink);
  const RegionReport region = sample();
  trace_decision(region, region.recordings[0]);
  trace_decision(region, region.recordings[1]);
  trace_fallback("step", "cuGraphLaunch failed");
  ASSERT_EQ(sink->events().size(), 3u);
  EXPECT_EQ(sink->events("replay.decision").at(0).text,
            "step (in 4096 B, out 4096 B, 1024): graph: 0.41 of plain back to back (8.2 against 20.1 us a "
            "call, median of 6 pairs)");
  EXPECT_EQ(sink->events("replay.refused").at(0).text,
            "step (in 64 B, 16): the work allocates memory: node 3 (alloc of 64 B)");
  EXPECT_EQ(sink->events("replay.fallback").at(0).text, "step: cuGraphLaunch failed");
}

TEST(Report, CountsAreToldAsDifferences) {
  const auto sink = std::make_shared<trace::MemorySink>();
  const trace::Attached attached = trace::attach(sink);
  TraceCounts counts;
  RegionReport region = sample();
  region.recordings[0].copied_bytes_a_call = 8;
  counts.tell(region);
  counts.tell(region);
  region.replays += 5;
  counts.tell(region);
  EXPECT_EQ(sink->total("replay.replays"), 1005);
  EXPECT_EQ(sink->events("replay.replays").size(), 2u);
  EXPECT_EQ(sink->total("replay.patched_nodes"), 2000);
  EXPECT_EQ(sink->total("replay.copied_bytes"), 8000);
  EXPECT_EQ(sink->total("replay.calls"), 1100);
  EXPECT_EQ(sink->total("replay.failures"), 1);
}

// As `rondo run --trace` shows it.
TEST(Report, CountsAndDecisionsStandInAPerfettoFile) {
  const test::Folder folder;
  const std::string path = folder.path / "trace.json";
  {
    const auto sink = std::make_shared<trace::ChromeSink>(path);
    const trace::Attached attached = trace::attach(sink);
    TraceCounts counts;
    counts.tell(sample());
    trace_decision(sample(), sample().recordings[0]);
  }
  const auto all = nlohmann::json::parse(test::read(path));
  bool counter = false, note = false;
  for (const auto& event : all["traceEvents"]) {
    counter |= event["name"] == "replay.replays" && event["ph"] == "C" && event["args"]["value"] == 1000;
    note |= event["name"] == "replay.decision" && event["ph"] == "i";
  }
  EXPECT_TRUE(counter && note) << all.dump(1);
}

}  // namespace
}  // namespace rondo::replay
