// When may equal work wait for each other? Levels alone send the output layers of short and long instances to
// different launches. A phase runs after all levels of the one before, and its levels start again at 1, so
// such work meets.
//
// The rule, from producer to consumer: the phase grows by one
//   - where a value leaves the territory of a recursion that it climbs (an output layer, a second layer);
//   - at a product in the territory whose result never feeds a recursion again (a classifier at every node);
//   - at the user's Phase mark.
// It never grows along a cycle, and never shrinks: a later phase may read any earlier one, never the other
// way round. Correctness does not depend on it beyond that. Found as longest paths over the components of the
// flow graph.
//
// A layer that runs over another layer's outputs could also run beside it, one step behind; it then has half
// the levels, but its input products run step by step. Phases choose the wide products.
#pragma once
#include <vector>

#include "rondo/analysis/hoist.h"

namespace rondo::analysis {

// Phases that blocks may have; the run-time's last one holds the results.
inline constexpr int32_t kMostPhases = 15;

// An entry a node of the flow graph. May have gaps and pass kMostPhases: blocks.cpp numbers the ones in use.
std::vector<int32_t> find_phases(const ir::Program& specialised, const Flow& flow,
                                 const Recursions& recursions);

}  // namespace rondo::analysis
