#include "rondo/replay/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "rondo/base/hash.h"
#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/replay/files.h"

namespace rondo::replay {
namespace {

using json_t = nlohmann::ordered_json;
constexpr int kFormat = 1;
constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr const char* kVersion = RONDO_VERSION;

// A line of the file.
struct Entry {
  Hash128 id;
  json_t object;
};

Hash128 id_of(const std::string& version, const DecisionKey& key) {
  return Hasher()
      .text(version)
      .text(key.region)
      .text(key.signature)
      .text(key.machine)
      .number(key.structure)
      .finish();
}

// As the file holds it: names that are no UTF-8 must be found again.
DecisionKey in_utf8(const DecisionKey& key) {
  return {as_utf8(key.region), as_utf8(key.signature), as_utf8(key.machine), key.structure};
}

double finite(double value) { return std::isfinite(value) ? value : 0; }

Entry entry_of(const DecisionKey& key, const Decision& d) {
  json_t alternatives = json_t::array();
  for (const Alternative& a : d.alternatives)
    alternatives.push_back({{"name", as_utf8(a.name)},
                            {"latency_us", finite(a.latency_us)},
                            {"period_us", finite(a.period_us)},
                            {"samples", a.samples}});
  return {id_of(kVersion, key),
          {{"rondo", kVersion},
           {"region", key.region},
           {"signature", key.signature},
           {"machine", key.machine},
           {"structure", key.structure},
           {"choice", as_utf8(d.choice)},
           {"reason", as_utf8(d.reason)},
           {"alternatives", alternatives}}};
}

// These throw nlohmann::json::exception for what is not as it is written here.
Decision decision_of(const json_t& o) {
  Decision d{o.at("choice").get<std::string>(), o.at("reason").get<std::string>(), {}};
  for (const json_t& a : o.at("alternatives"))
    d.alternatives.push_back({a.at("name").get<std::string>(), a.at("latency_us").get<double>(),
                              a.at("period_us").get<double>(), a.at("samples").get<unsigned>()});
  return d;
}
Entry entry_of(const json_t& o) {
  const DecisionKey key{o.at("region").get<std::string>(), o.at("signature").get<std::string>(),
                        o.at("machine").get<std::string>(), o.at("structure").get<uint64_t>()};
  (void)decision_of(o);
  return {id_of(o.at("rondo").get<std::string>(), key), o};
}

}  // namespace

struct DecisionFile::State {
  const std::filesystem::path path;
  mutable std::mutex mutex;  // of what follows; never held while the disk works
  std::unordered_map<Hash128, Decision> known;
  std::vector<Entry> pending;  // not on disk yet
  bool told = false;
  std::mutex writing;

  explicit State(std::filesystem::path p) : path(std::move(p)) {}

  void tell_once(const std::string& what) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(told, true)) return;
    }
    trace::note(trace::Level::Warn, "replay.decisions",
                what +
                    ": decisions are kept in memory only. Set RONDO_CACHE_DIR to a folder that can be "
                    "written, or to off");
  }

  // Nothing: the file cannot be read, and must not be replaced.
  std::optional<std::vector<Entry>> read() {
    std::vector<Entry> entries;
    const FileText file = read_whole(path, kMostFileBytes);
    if (file.found == FileText::Found::None) return entries;
    if (file.found == FileText::Found::Unreadable) {
      tell_once(file.why);
      return std::nullopt;
    }
    try {
      const json_t all = json_t::parse(file.text);
      if (all.at("rondo_decisions") != kFormat) {
        trace::note(trace::Level::Info, "replay.decisions",
                    fmt::format("{} is of another format: choices are made anew", path.string()));
        return entries;
      }
      for (const json_t& object : all.at("decisions")) entries.push_back(entry_of(object));
    } catch (const nlohmann::json::exception& e) {
      trace::note(trace::Level::Warn, "replay.decisions",
                  fmt::format("{} is damaged ({}): choices are made anew, and the next one replaces the file",
                              path.string(), e.what()));
      entries.clear();
    }
    return entries;
  }

  void write() {
    const std::lock_guard one(writing);
    std::vector<Entry> mine;
    {
      const std::lock_guard lock(mutex);
      mine.swap(pending);
    }
    if (mine.empty()) return;  // another thread wrote them
    const FileLock lock(path);
    if (lock.held_by_another()) {
      trace::note(
          trace::Level::Info, "replay.decisions",
          fmt::format("{} is locked by another process: written with the next decision", path.string()));
      const std::lock_guard again(mutex);
      pending.insert(pending.begin(), std::make_move_iterator(mine.begin()),
                     std::make_move_iterator(mine.end()));
      if (pending.size() > kMostDecisions) pending.erase(pending.begin(), pending.end() - kMostDecisions);
      return;
    }
    auto entries = read();
    if (!entries) return;
    std::unordered_set<Hash128> seen;
    // From the newest to the oldest: of several with one key the newest stays.
    entries->insert(entries->end(), std::make_move_iterator(mine.begin()),
                    std::make_move_iterator(mine.end()));
    std::vector<json_t> kept;
    for (size_t i = entries->size(); i-- > 0 && kept.size() < kMostDecisions;)
      if (seen.insert((*entries)[i].id).second) kept.push_back(std::move((*entries)[i].object));
    std::reverse(kept.begin(), kept.end());
    // A line a decision, so that a person can read it.
    std::string text = fmt::format("{{\"rondo_decisions\":{},\"decisions\":[", kFormat);
    for (size_t i = 0; i < kept.size(); ++i) text += (i ? ",\n" : "\n") + kept[i].dump();
    if (const std::string why = write_whole(path, text + "\n]}\n"); !why.empty()) tell_once(why);
  }
};

DecisionFile::DecisionFile(std::filesystem::path path) : state_(std::make_unique<State>(std::move(path))) {
  if (state_->path.empty()) return;
  const auto entries = state_->read();
  if (!entries) return;
  for (const Entry& entry : *entries) state_->known[entry.id] = decision_of(entry.object);
}
DecisionFile::~DecisionFile() = default;

std::optional<Decision> DecisionFile::find(const DecisionKey& key) const {
  const Hash128 id = id_of(kVersion, in_utf8(key));
  const std::lock_guard lock(state_->mutex);
  const auto at = state_->known.find(id);
  return at == state_->known.end() ? std::nullopt : std::optional(at->second);
}

void DecisionFile::put(const DecisionKey& key, const Decision& decision) {
  Entry entry = entry_of(in_utf8(key), decision);
  {
    const std::lock_guard lock(state_->mutex);
    state_->known[entry.id] = decision;
    if (state_->path.empty()) return;
    state_->pending.push_back(std::move(entry));
  }
  state_->write();
}

namespace {

// The file of the cache folder that the options name now (tests change it).
std::shared_ptr<DecisionFile> file_of_process() {
  static std::mutex* const mutex = new std::mutex;
  static std::string* const folder = new std::string;
  static std::shared_ptr<DecisionFile>* const file = new std::shared_ptr<DecisionFile>;
  const std::string now = options().cache_dir;
  const std::lock_guard lock(*mutex);
  if (!*file || *folder != now) {
    *file = std::make_shared<DecisionFile>(
        now.empty() ? std::filesystem::path() : std::filesystem::path(now) / "replay/decisions.json");
    *folder = now;
  }
  return *file;
}

}  // namespace

std::optional<Decision> remembered(const DecisionKey& key) { return file_of_process()->find(key); }
void remember(const DecisionKey& key, const Decision& decision) { file_of_process()->put(key, decision); }

}  // namespace rondo::replay
