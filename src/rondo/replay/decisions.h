// Decisions of earlier processes: RONDO_CACHE_DIR/replay/decisions.json.
//
// A damaged file is no decisions and a note in the trace, and is replaced by the next one that is written;
// one that cannot be read is left alone. Read once a process; written at once, by rename, merged with what
// another process wrote meanwhile; concurrent use by threads and processes is fine. The file holds
// kMostDecisions, the oldest go first.
//
// The file: {"rondo_decisions": 1, "decisions": [{"rondo", "region", "signature", "machine", "structure",
// "choice", "reason", "alternatives": [{"name", "latency_us", "period_us", "samples"}]}, ...]}, the oldest
// first.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

constexpr size_t kMostDecisions = 4096;

// What a decision is about: the region's name, its signature in words, Recording::structure(),
// machine_name(), and Rondo's version.
struct DecisionKey {
  std::string region, signature, machine;
  uint64_t structure = 0;
};
struct Decision {
  std::string choice;  // "plain", "graph"
  std::string reason;
  std::vector<Alternative> alternatives;
};

// One file, as one process knows it. Nothing throws but for lack of memory.
class DecisionFile {
 public:
  explicit DecisionFile(std::filesystem::path path);  // "": in memory only
  ~DecisionFile();
  DecisionFile(const DecisionFile&) = delete;
  DecisionFile& operator=(const DecisionFile&) = delete;

  std::optional<Decision> find(const DecisionKey& key) const;
  void put(const DecisionKey& key, const Decision& decision);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of the process's file.
std::optional<Decision> remembered(const DecisionKey& key);
void remember(const DecisionKey& key, const Decision& decision);

}  // namespace rondo::replay
