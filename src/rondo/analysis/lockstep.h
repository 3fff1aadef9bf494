// Which places always hold tensors of equal level, because both come from one record (h and c of a cell,
// through calls, loops and tuples)? Found as the largest set of pairs that supports itself: a pair holds
// unless one of its sources breaks it.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "rondo/analysis/blocks.h"

namespace rondo::analysis {

class Lockstep {
 public:
  Lockstep(const ir::Program& specialised, const Flow& flow, const Blocks& blocks);

  // a and b: nodes of one function, visible in one region, so that they are asked about at one moment of a
  // run.
  bool equal(int32_t a, int32_t b);

 private:
  using Pair = std::pair<int32_t, int32_t>;
  int32_t origin(int32_t node) const;
  bool assume(int32_t a, int32_t b);
  bool holds(int32_t a, int32_t b);
  bool parts_hold(int32_t function, ir::Value v, int32_t i, int32_t j);
  bool parameters_hold(int32_t a, int32_t b);
  int32_t node(int32_t function, ir::Value v, int32_t part) const { return flow_.node(function, v) + part; }

  const ir::Program& program_;
  const Flow& flow_;
  const Blocks& blocks_;
  std::vector<std::vector<std::pair<int32_t, ir::Value>>> callers_;  // an entry a function
  std::map<Pair, bool> pairs_;
};

}  // namespace rondo::analysis
