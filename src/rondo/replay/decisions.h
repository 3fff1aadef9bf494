// Decisions of earlier processes: RONDO_CACHE_DIR/replay/decisions.json.
//
// A damaged or unreadable file is no decisions and a note in the trace. Written at once, by rename, merged with what
// another process wrote meanwhile; concurrent use by threads and processes is fine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

// What a decision is about: the region's name, its signature in words, Recording::structure(), machine_name(), and
// Rondo's version.
struct DecisionKey {
  std::string region, signature, machine;
  uint64_t structure = 0;
};
struct Decision {
  std::string choice;  // "plain", "graph"
  std::string reason;
  std::vector<Alternative> alternatives;
};

std::optional<Decision> remembered(const DecisionKey& key);
void remember(const DecisionKey& key, const Decision& decision);

}  // namespace rondo::replay
