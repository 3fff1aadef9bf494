// What can run at the same time? Blocks that can meet at one level of one phase share a launch; calls and
// loops of one region are independent unless data flows from one to the other. The language is pure, so data
// flow is all there is: the user's `concurrent` marks say what this already knows.
#pragma once
#include <vector>

#include "rondo/analysis/blocks.h"

namespace rondo::analysis {

struct Meeting {  // blocks that can meet at these levels of a phase
  int32_t phase = 0;
  int32_t from_level = 1, to_level = -1;  // -1: all further ones
  std::vector<int32_t> blocks;
};

struct IndependentCalls {
  int32_t function = 0;
  ir::Value first = ir::kNone, second = ir::kNone;  // calls, maps, folds or scans of one region
};

struct Concurrency {
  std::vector<Meeting> meetings;  // in order of (phase, level); no two neighbours with the same blocks
  std::vector<IndependentCalls> calls;
};
Concurrency find_concurrency(const ir::Program& specialised, const Blocks& blocks);

}  // namespace rondo::analysis
