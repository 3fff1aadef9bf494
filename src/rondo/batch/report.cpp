#include "rondo/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rondo/base/words.h"

namespace rondo {
namespace {

std::string plural(uint64_t n, const char* one, const char* many) { return fmt::format("{} {}", n, n == 1 ? one : many); }

}  // namespace

std::string Report::text() const {
  std::string out = fmt::format("{} on {}\n", program, device);
  if (!stages.empty()) {
    out += fmt::format("  compiled in {:.1f} ms\n", load_ms);
    for (const StageReport& s : stages)
      out += fmt::format("    {:<16} {:>9.2f} ms{}\n", s.name, s.ms, s.from.empty() ? "" : "   " + s.from);
  }
  out += fmt::format("  weights {} on the device\n", bytes_in_words(weight_bytes));
  if (runs > 0) {
    const RunReport& r = last;
    out += fmt::format("  run {}: {}, {}, {}\n", runs, plural(r.instances, "instance", "instances"),
                       plural(r.records, "block reached", "blocks reached"), plural(r.levels, "level", "levels"));
    if (r.records > 0)
      out += fmt::format("    batched   {} in {}; one by one they would be {}", plural(r.launches, "launch", "launches"),
                         plural(r.levels, "level", "levels"), r.unbatched_launches);
    if (r.launches > 0)
      out += fmt::format(", {:.0f} times as many", static_cast<double>(r.unbatched_launches) / static_cast<double>(r.launches));
    if (r.records > 0) out += "\n";
    out += fmt::format("    replay    {}{}: {}\n", r.replay, r.recorded ? ", recorded now" : "", r.reason);
    out += fmt::format("    host      walk {:.3f} ms ({}), pack {:.3f} ms, schedule {}\n", r.walk_ms,
                       plural(r.walkers, "thread", "threads"), r.pack_ms, bytes_in_words(r.table_bytes));
    out += fmt::format("    device    upload {:.3f} ms, run {:.3f} ms{}, download {:.3f} ms, values {}\n",
                       r.upload_ms, r.run_ms, r.table_in_graph ? " (in it the schedule's upload)" : "",
                       r.download_ms, bytes_in_words(r.pool_bytes));
    out += fmt::format("    total     {:.3f} ms\n", r.total_ms);
  }
  if (graphs_recorded > 0)
    out += fmt::format("  graphs    {} kept, {} recorded, {} dropped\n", graphs, graphs_recorded, graphs_dropped);
  for (const std::string& note : notes) out += fmt::format("  note: {}\n", note);
  return out;
}

std::string Report::json() const {
  using json = nlohmann::ordered_json;
  json list = json::array();
  for (const StageReport& s : stages) list.push_back({{"name", s.name}, {"ms", s.ms}, {"from", s.from}});
  const RunReport& r = last;
  const json doc = {
      {"program", program},
      {"device", device},
      {"load_ms", load_ms},
      {"stages", list},
      {"weight_bytes", weight_bytes},
      {"runs", runs},
      {"instances", instances},
      {"graphs", {{"kept", graphs}, {"recorded", graphs_recorded}, {"dropped", graphs_dropped}}},
      {"notes", notes},
      {"last",
       {{"instances", r.instances},
        {"records", r.records},
        {"buckets", r.buckets},
        {"levels", r.levels},
        {"launches", r.launches},
        {"unbatched_launches", r.unbatched_launches},
        {"table_bytes", r.table_bytes},
        {"table_in_graph", r.table_in_graph},
        {"pool_bytes", r.pool_bytes},
        {"walkers", r.walkers},
        {"walk_ms", r.walk_ms},
        {"pack_ms", r.pack_ms},
        {"upload_ms", r.upload_ms},
        {"run_ms", r.run_ms},
        {"download_ms", r.download_ms},
        {"total_ms", r.total_ms},
        {"replay", r.replay},
        {"recorded", r.recorded},
        {"reason", r.reason}}},
  };
  return doc.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace rondo
