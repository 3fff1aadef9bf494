// rondo replay-report: what a program's regions recorded and chose, from the file that it wrote at its end.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "rondo/io/file.h"
#include "rondo/replay.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct Arguments {
  std::string file, sort;
  bool json = false;
};

// Of all its calls, as far as they were timed: calls times the time of a call.
double time_us(const replay::RegionReport& region) {
  double sum = 0;
  for (const replay::RecordingReport& r : region.recordings) {
    for (const replay::Alternative& a : r.alternatives) {
      const double us = a.period_us > 0 ? a.period_us : a.latency_us;
      if (a.name == "plain")
        sum += static_cast<double>(r.plain_calls) * us;
      else if (r.choice == a.name || r.choice == "plain")
        sum += static_cast<double>(r.replays) * us;
    }
  }
  return sum;
}

void show(const Arguments& a) {
  std::vector<replay::RegionReport> regions;
  const std::string text = io::read_text(a.file, io::From::StreamOrStdin);
  try {
    regions = replay::parse_reports(text);
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("{}: {}", a.file == "-" ? "stdin" : a.file, e.what()));
  }
  const auto by = [&](auto of) {
    std::stable_sort(regions.begin(), regions.end(),
                     [&](const auto& x, const auto& y) { return of(x) > of(y); });
  };
  if (a.sort == "time") by(time_us);
  if (a.sort == "calls") by([](const replay::RegionReport& region) { return region.calls; });
  const std::string out = a.json ? replay::json(regions) : replay::text(regions);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace

void add_replay_report(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("replay-report",
                                      "Show what a program replayed, from the file of RONDO_REPLAY_REPORT");
  auto a = std::make_shared<Arguments>();
  verb->add_option(
          "file", a->file,
          "What the program wrote at its end, run with RONDO_REPLAY_REPORT=FILE; - is the standard input")
      ->required();
  verb->add_flag("--json", a->json, "JSON instead of text");
  verb->add_option("--sort", a->sort,
                   "The largest first: by the time of all calls, as far as they were timed, or by calls")
      ->check(CLI::IsMember({"time", "calls"}));
  verb->callback([a] { show(*a); });
}

}  // namespace rondo::tool
