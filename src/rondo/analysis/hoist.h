// What depends on the results of the recursion that it stands in? The rest can be hoisted: it runs for all
// iterations and all instances at once, at a level that does not grow (W_x @ embed[w] in a loop over words).
//
// A *recursion* is a cycle of the flow graph that computes: an accumulator of a fold or scan, a recursive
// function whose results (trees, bottom up) or parameters (generation, top down) feed themselves. Its
// *territory* is the code it runs in: the bodies of those loops, the functions of that recursion. A place
// *climbs* a recursion if it lies in the territory and is reached from the cycle, so its level grows with the
// depth of the data. ACRoBat finds this by counting depth up to 16 and calls what gets there dynamic; cycles
// are exact, for chains of any length.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rondo/analysis/flow.h"

namespace rondo::analysis {

struct Recursion {
  std::string name;                                  // "encode", "fold at 12:3"
  std::vector<int32_t> functions;                    // territory: whole functions
  std::vector<std::pair<int32_t, int32_t>> regions;  // territory: (function, body of a loop)
};

struct Recursions {
  std::vector<Recursion> list;
  std::vector<int32_t> cycle;  // an entry a node: the recursion whose cycle it lies on; -1 = none
  std::vector<std::vector<int32_t>> climbs;  // an entry a node: the recursions that it climbs, ascending
  std::vector<int32_t> component;  // an entry a node: of the flow graph; edges never lead to a larger number
  std::vector<bool> feeds;         // an entry a node: a cycle of some recursion can be reached from it

  bool in_territory(int32_t recursion, const Flow& flow, int32_t function, int32_t region) const;
};
Recursions find_recursions(const ir::Program& specialised, const Flow& flow);

}  // namespace rondo::analysis
