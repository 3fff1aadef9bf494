#include "rondo/replay/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "rondo/base/trace.h"
#include "rondo/base/words.h"
#include "rondo/replay/files.h"

namespace rondo::replay {
namespace {

using json_t = nlohmann::ordered_json;
constexpr int kFormat = 1;

// ---------------------------------------------------------------- words and figures

std::string plural(uint64_t n, const char* one) {
  return fmt::format("{} {}{}", with_commas(n), one, n == 1 ? "" : "s");
}

std::string us(double value) {
  return value < 9.95     ? fmt::format("{:.2f} us", value)
         : value < 9999.5 ? fmt::format("{:.1f} us", value)
                          : fmt::format("{:.2f} ms", value / 1e3);
}

std::string ms(double value) {
  return value < 1        ? fmt::format("{:.3f} ms", value)
         : value < 9999.5 ? fmt::format("{:.1f} ms", value)
                          : fmt::format("{:.1f} s", value / 1e3);
}

// On one line, whatever a name or a driver's words hold.
std::string line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

// Plain and the way that replays, where both were timed by the same measure; us a call.
struct Times {
  double plain_us, replay_us;
};
std::optional<Times> times(const RecordingReport& r) {
  const Alternative *plain = nullptr, *other = nullptr;
  for (const Alternative& a : r.alternatives) {
    if (a.name == "plain")
      plain = &a;
    else if (!other || a.name == r.choice)
      other = &a;
  }
  if (!plain || !other) return std::nullopt;
  if (plain->period_us > 0 && other->period_us > 0) return Times{plain->period_us, other->period_us};
  if (plain->latency_us > 0 && other->latency_us > 0) return Times{plain->latency_us, other->latency_us};
  return std::nullopt;
}

// What the calls of the timed recordings took, and what they would have taken plainly.
std::optional<Times> totals(const RegionReport& region) {
  std::optional<Times> sum;
  for (const RecordingReport& r : region.recordings) {
    const auto t = times(r);
    if (!t || r.replays == 0) continue;
    const auto plain_calls = static_cast<double>(r.plain_calls), replays = static_cast<double>(r.replays);
    if (!sum) sum = Times{0, 0};
    sum->plain_us += (plain_calls + replays) * t->plain_us;
    sum->replay_us += plain_calls * t->plain_us + replays * t->replay_us;
  }
  return sum;
}

std::string choice_of(const RegionReport& region) {
  std::set<std::string> choices;
  size_t graphs = 0, decided = 0;
  for (const RecordingReport& r : region.recordings) {
    if (r.choice.empty()) continue;
    ++decided;
    graphs += r.choice != "plain";
    choices.insert(r.choice);
  }
  if (choices.empty()) return "nothing decided yet";
  if (choices.size() == 1) return *choices.begin();
  return fmt::format("{} of {} recordings replayed", graphs, decided);
}

std::string region_line(const RegionReport& region) {
  std::string out = fmt::format("{}: {}", line(region.name), plural(region.calls, "call"));
  if (region.calls > 0)
    out += fmt::format(", {} replayed ({:.0f} %)", with_commas(region.replays),
                       100 * static_cast<double>(region.replays) / static_cast<double>(region.calls));
  out += ", " + choice_of(region);
  if (const auto t = totals(region); t && t->replay_us > 0) {
    const double saved_ms = (t->plain_us - t->replay_us) / 1e3;
    out += fmt::format("; {:.2f} times as fast as plain, {} {}", t->plain_us / t->replay_us,
                       ms(std::abs(saved_ms)), saved_ms >= 0 ? "saved" : "lost");
  }
  if (!region.policy.empty() && region.policy != "auto")
    out += fmt::format(" (policy {})", line(region.policy));
  if (region.failures > 0) out += ", " + plural(region.failures, "failure");
  if (region.dropped > 0) out += fmt::format(", {} dropped", plural(region.dropped, "recording"));
  return out + "\n";
}

std::string recording_lines(const RecordingReport& r) {
  std::string out =
      fmt::format("  {}: {}", r.signature.empty() ? "no arguments" : line(r.signature), line(r.state));
  if (!r.choice.empty()) out += ", " + line(r.choice);
  out += fmt::format("; {} plain, {} replayed\n", with_commas(r.plain_calls), with_commas(r.replays));
  if (!r.reason.empty()) {
    out += "    " + line(r.reason);
    if (r.remembered) out += " (decided by an earlier process)";
    out += "\n";
  }
  if (r.nodes > 0) {
    out += fmt::format("    {} ({}), {}", plural(r.nodes, "node"), plural(r.kernels, "kernel"),
                       plural(r.slots, "slot"));
    if (r.replays > 0)
      out += fmt::format("; {:.1f} nodes patched a replay",
                         static_cast<double>(r.patched_nodes) / static_cast<double>(r.replays));
    out += r.copied_bytes_a_call > 0
               ? fmt::format(", {} copied a call", bytes_in_words(r.copied_bytes_a_call))
               : ", nothing copied";
    if (r.device_bytes > 0) out += fmt::format("; {} on the device", bytes_in_words(r.device_bytes));
    out += "\n";
  }
  std::string timed;
  for (const Alternative& a : r.alternatives) {
    if (a.period_us <= 0 && a.latency_us <= 0) continue;
    timed += (timed.empty() ? "    " : "; ") + line(a.name);
    if (a.period_us > 0) timed += fmt::format(" {} a call", us(a.period_us));
    if (a.latency_us > 0)
      timed += fmt::format("{} {} alone with a wait", a.period_us > 0 ? "," : "", us(a.latency_us));
  }
  if (!timed.empty()) out += timed + "\n";
  if (r.record_ms > 0) {
    out += fmt::format("    recorded in {}", ms(r.record_ms));
    const double calls = std::ceil(r.pays_after_calls);
    if (timed.empty()) {
      // Nobody knows whether that pays.
    } else if (r.choice == "plain" || r.pays_after_calls <= 0) {
      out += r.choice.empty() ? "" : ", which does not pay";
    } else if (static_cast<double>(r.replays) >= calls) {
      out += fmt::format(", paid after {}", plural(static_cast<uint64_t>(std::min(calls, 1e18)), "call"));
    } else {
      out += fmt::format(", pays after {}", plural(static_cast<uint64_t>(std::min(calls, 1e18)), "call"));
    }
    out += "\n";
  }
  return out;
}

// ---------------------------------------------------------------- JSON

double finite(double value) { return std::isfinite(value) ? value : 0; }

json_t to_json(const RecordingReport& r) {
  json_t alternatives = json_t::array();
  for (const Alternative& a : r.alternatives)
    alternatives.push_back({{"name", a.name},
                            {"latency_us", finite(a.latency_us)},
                            {"period_us", finite(a.period_us)},
                            {"samples", a.samples}});
  return {{"signature", r.signature},
          {"state", r.state},
          {"choice", r.choice},
          {"reason", r.reason},
          {"nodes", r.nodes},
          {"kernels", r.kernels},
          {"slots", r.slots},
          {"patched_nodes", r.patched_nodes},
          {"copied_bytes_a_call", r.copied_bytes_a_call},
          {"device_bytes", r.device_bytes},
          {"record_ms", finite(r.record_ms)},
          {"pays_after_calls", finite(r.pays_after_calls)},
          {"remembered", r.remembered},
          {"plain_calls", r.plain_calls},
          {"replays", r.replays},
          {"alternatives", alternatives}};
}

json_t to_json(const RegionReport& region) {
  json_t recordings = json_t::array();
  for (const RecordingReport& r : region.recordings) recordings.push_back(to_json(r));
  return {{"name", region.name},
          {"policy", region.policy},
          {"calls", region.calls},
          {"plain_calls", region.plain_calls},
          {"replays", region.replays},
          {"patched_nodes", region.patched_nodes},
          {"failures", region.failures},
          {"dropped", region.dropped},
          {"recaptures", region.recaptures},
          {"recapture", region.recapture},
          {"fallbacks", region.fallbacks},
          {"recordings", recordings}};
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorKind::Usage,
              fmt::format("not a replay report: {}. Expected JSON as RONDO_REPLAY_REPORT=FILE makes a "
                          "program write it at its end",
                          what));
}

// Reads members of one object; says where it is when one is missing or of another type.
class Reader {
 public:
  Reader(const json_t& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) damaged(where_ + " is no object");
  }
  void read(const char* name, std::string* to) const {
    *to = member(name, &json_t::is_string, "a text").get<std::string>();
  }
  void read(const char* name, bool* to) const {
    *to = member(name, &json_t::is_boolean, "true or false").get<bool>();
  }
  void read(const char* name, double* to) const {
    *to = member(name, &json_t::is_number, "a number").get<double>();
  }
  template <class T>
  requires std::is_unsigned_v<T>
  void read(const char* name, T* to) const {
    *to = member(name, &json_t::is_number_unsigned, "a whole number").get<T>();
  }
  void read(const char* name, std::vector<std::string>* to) const {
    const json_t& all = list(name);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].is_string()) damaged(fmt::format("{}.{}[{}] is no text", where_, name, i));
      to->push_back(all[i].get<std::string>());
    }
  }
  const json_t& list(const char* name) const { return member(name, &json_t::is_array, "a list"); }
  std::string place(const char* name, size_t i) const {
    return fmt::format("{}{}{}[{}]", where_, where_.empty() ? "" : ".", name, i);
  }

 private:
  const json_t& member(const char* name, bool (json_t::*is)() const noexcept, const char* what) const {
    const auto at = object_.find(name);
    if (at == object_.end()) damaged(fmt::format("{} has no \"{}\"", where_, name));
    if (!((*at).*is)()) damaged(fmt::format("\"{}\" of {} is not {}", name, where_, what));
    return *at;
  }
  const json_t& object_;
  std::string where_;
};

RecordingReport recording_of(const json_t& object, const std::string& where) {
  const Reader in(object, where);
  RecordingReport r;
  in.read("signature", &r.signature);
  in.read("state", &r.state);
  in.read("choice", &r.choice);
  in.read("reason", &r.reason);
  in.read("nodes", &r.nodes);
  in.read("kernels", &r.kernels);
  in.read("slots", &r.slots);
  in.read("patched_nodes", &r.patched_nodes);
  in.read("copied_bytes_a_call", &r.copied_bytes_a_call);
  in.read("device_bytes", &r.device_bytes);
  in.read("record_ms", &r.record_ms);
  in.read("pays_after_calls", &r.pays_after_calls);
  in.read("remembered", &r.remembered);
  in.read("plain_calls", &r.plain_calls);
  in.read("replays", &r.replays);
  const json_t& alternatives = in.list("alternatives");
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const Reader one(alternatives[i], in.place("alternatives", i));
    Alternative& a = r.alternatives.emplace_back();
    one.read("name", &a.name);
    one.read("latency_us", &a.latency_us);
    one.read("period_us", &a.period_us);
    one.read("samples", &a.samples);
  }
  return r;
}

RegionReport region_of(const json_t& object, const std::string& where) {
  const Reader in(object, where);
  RegionReport region;
  in.read("name", &region.name);
  in.read("policy", &region.policy);
  in.read("calls", &region.calls);
  in.read("plain_calls", &region.plain_calls);
  in.read("replays", &region.replays);
  in.read("patched_nodes", &region.patched_nodes);
  in.read("failures", &region.failures);
  in.read("dropped", &region.dropped);
  // Reports of before these were there do without.
  if (object.contains("recaptures")) in.read("recaptures", &region.recaptures);
  if (object.contains("recapture")) in.read("recapture", &region.recapture);
  in.read("fallbacks", &region.fallbacks);
  const json_t& recordings = in.list("recordings");
  for (size_t i = 0; i < recordings.size(); ++i)
    region.recordings.push_back(recording_of(recordings[i], in.place("recordings", i)));
  return region;
}

}  // namespace

// ---------------------------------------------------------------- public

std::string text(std::span<const RegionReport> regions) {
  if (regions.empty()) return "no regions\n";
  std::string out;
  for (const RegionReport& region : regions) {
    out += region_line(region);
    for (const RecordingReport& r : region.recordings) out += recording_lines(r);
    if (!region.recapture.empty())
      out += fmt::format("  new signatures: {} captured and launched; {}\n",
                         plural(region.recaptures, "call"), region.recapture);
    for (const std::string& fallback : region.fallbacks)
      out += fmt::format("  fallback: {}\n", line(fallback));
  }
  return out;
}

std::string json(std::span<const RegionReport> regions) {
  json_t list = json_t::array();
  for (const RegionReport& region : regions) list.push_back(to_json(region));
  const json_t all = {{"rondo_replay_report", kFormat}, {"regions", list}};
  return all.dump(2, ' ', false, json_t::error_handler_t::replace) + "\n";
}

std::vector<RegionReport> parse_reports(const std::string& text) {
  json_t all;
  try {
    all = json_t::parse(text);
  } catch (const json_t::parse_error& e) {
    damaged(fmt::format("it is damaged at byte {} of {}", e.byte, text.size()));
  }
  if (!all.is_object() || !all.contains("rondo_replay_report"))
    damaged("there is no \"rondo_replay_report\" in it");
  if (const json_t& format = all["rondo_replay_report"]; format != kFormat)
    throw Error(
        ErrorKind::Usage,
        fmt::format("a replay report of format {}: this program reads format {}. Use the program that "
                    "belongs to the library which wrote it",
                    format.dump(), kFormat));
  const Reader in(all, "the report");
  const json_t& list = in.list("regions");
  std::vector<RegionReport> regions;
  for (size_t i = 0; i < list.size(); ++i)
    regions.push_back(region_of(list[i], fmt::format("regions[{}]", i)));
  return regions;
}

// ---------------------------------------------------------------- file and trace

void write_report(const std::string& path, std::span<const RegionReport> regions) noexcept {
  try {
    if (const std::string why = write_whole(path, json(regions)); !why.empty())
      trace::note(trace::Level::Warn, "replay.report",
                  why + ". Set RONDO_REPLAY_REPORT to a file in a folder that can be written");
  } catch (...) {  // no memory for it: the process is ending anyway
  }
}

void trace_decision(const RegionReport& region, const RecordingReport& recording) {
  if (!trace::wants(trace::Level::Info)) return;
  const bool refused = recording.state == "refused";
  trace::note(trace::Level::Info, refused ? "replay.refused" : "replay.decision",
              fmt::format("{} ({}): {}", region.name, recording.signature, recording.reason));
}

void trace_fallback(const std::string& region, const std::string& why) {
  if (trace::wants(trace::Level::Info))
    trace::note(trace::Level::Info, "replay.fallback", fmt::format("{}: {}", region, why));
}

void TraceCounts::tell(const RegionReport& now) {
  if (!trace::wants(trace::Level::Debug)) return;
  uint64_t copied = 0;
  for (const RecordingReport& r : now.recordings) copied += r.copied_bytes_a_call * r.replays;
  const std::pair<const char*, uint64_t> counts[] = {{"replay.calls", now.calls},
                                                     {"replay.replays", now.replays},
                                                     {"replay.plain_calls", now.plain_calls},
                                                     {"replay.patched_nodes", now.patched_nodes},
                                                     {"replay.copied_bytes", copied},
                                                     {"replay.failures", now.failures}};
  static_assert(std::size(counts) == std::extent_v<decltype(told_)>);
  for (size_t i = 0; i < std::size(counts); ++i) {
    const auto& [name, count] = counts[i];
    // A recording that was dropped takes its copies with it: less than was told is nothing new.
    if (count > told_[i]) trace::counter(name, static_cast<double>(count - told_[i]));
    told_[i] = std::max(told_[i], count);
  }
}

}  // namespace rondo::replay
