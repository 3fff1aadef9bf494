#include "rondo/analysis/depth.h"

#include <algorithm>
#include <array>
#include <limits>

#include "rondo/analysis/lockstep.h"
#include "rondo/analysis/phases.h"

namespace rondo::analysis {
namespace {
using ir::Op;
using ir::Opcode;
using ir::Value;

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

// Levels that tensors in one place may have, phase by phase; what is given has level 0 of phase 0.
struct Levels {
  std::array<int32_t, kMostPhases> low, high;  // low = kNever: none of that phase
  Levels() {
    low.fill(kNever);
    high.fill(-1);
  }
  bool add(int32_t phase, int32_t from, int32_t to) {
    const auto p = static_cast<size_t>(phase);
    if (from >= low[p] && to <= high[p]) return false;
    low[p] = std::min(low[p], from);
    high[p] = std::max(high[p], to);
    return true;
  }
  bool add(const Levels& other) {
    bool grown = false;
    for (size_t p = 0; p < low.size(); ++p)
      if (other.low[p] != kNever) grown = add(static_cast<int32_t>(p), other.low[p], other.high[p]) || grown;
    return grown;
  }
  // As an operand of a block of `phase`: earlier phases count as level 0.
  int32_t lowest(int32_t phase) const {
    for (int32_t p = 0; p < phase; ++p)
      if (low[static_cast<size_t>(p)] != kNever) return 0;
    return low[static_cast<size_t>(phase)];
  }
  int32_t highest(int32_t phase) const { return std::max(0, high[static_cast<size_t>(phase)]); }
};

class Depths {
 public:
  Depths(const ir::Program& program, const Flow& flow, Blocks* blocks)
      : program_(program), flow_(flow), blocks_(*blocks), levels_(flow.nodes.size()) {}

  void run() {
    for (size_t n = 0; n < flow_.nodes.size(); ++n)
      if (is_given(flow_.nodes[n])) levels_[n].add(0, 0, 0);
    first_.assign(blocks_.list.size(), kNever);
    last_.assign(blocks_.list.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 0; b < blocks_.list.size(); ++b) changed = block(b) || changed;
      for (size_t n = 0; n < flow_.nodes.size(); ++n) changed = copy(n) || changed;
    }
    const int32_t most = static_cast<int32_t>(blocks_.list.size());
    Lockstep lockstep(program_, flow_, blocks_);
    for (size_t b = 0; b < blocks_.list.size(); ++b) {
      BlockFact& fact = blocks_.list[b];
      fact.first_level = first_[b] == kNever ? 1 : first_[b];  // kNever: a recursion without an end
      fact.last_level = first_[b] == kNever || last_[b] > most ? -1 : last_[b];
      look_up(&fact, &lockstep);
    }
  }

 private:
  const Op& op(int32_t f, Value v) const {
    return program_.functions[static_cast<size_t>(f)].ops[static_cast<size_t>(v)];
  }

  bool is_given(const FlowNode& n) const {
    if (n.region < 0) return false;
    const Op& o = op(n.function, n.value);
    if (o.code == Opcode::Arg) return n.function == program_.main && n.region == 0;
    return is_tensor_op(o.code) &&
           blocks_.repeated[static_cast<size_t>(n.function)][static_cast<size_t>(n.value)] &&
           blocks_.block_of[static_cast<size_t>(n.function)][static_cast<size_t>(n.value)] < 0;
  }

  int32_t operand(const BlockFact& fact, size_t k) const {
    return flow_.node(fact.function, fact.tensors[k]);
  }

  bool block(size_t b) {
    const BlockFact& fact = blocks_.list[b];
    int32_t low = 1, high = 1;
    for (size_t k = 0; k < fact.tensors.size(); ++k) {
      const Levels& from = levels_[static_cast<size_t>(operand(fact, k))];
      const int32_t lowest = from.lowest(fact.phase);
      if (lowest == kNever) return false;  // nothing known to reach it yet
      low = std::max(low, lowest + 1);
      high = std::max(high, from.highest(fact.phase) + 1);
    }
    high = std::min(high, static_cast<int32_t>(blocks_.list.size()) + 1);
    bool changed = low < first_[b] || high > last_[b];
    first_[b] = std::min(first_[b], low);
    last_[b] = std::max(last_[b], high);
    for (const Value v : fact.outputs)
      changed =
          levels_[static_cast<size_t>(flow_.node(fact.function, v))].add(fact.phase, first_[b], last_[b]) ||
          changed;
    return changed;
  }

  // Everything that is not computed is copied from its sources.
  bool copy(size_t n) {
    const FlowNode& node = flow_.nodes[n];
    if (node.region < 0 || is_tensor_op(op(node.function, node.value).code)) return false;
    bool grown = false;
    for (const int32_t from : flow_.in[n])
      grown = levels_[n].add(levels_[static_cast<size_t>(from)]) || grown;
    return grown;
  }

  void look_up(BlockFact* fact, Lockstep* lockstep) const {
    fact->look_up.assign(fact->tensors.size(), false);
    if (fact->first_level == fact->last_level) return;
    for (size_t k = 0; k < fact->tensors.size(); ++k) {
      const int32_t node = operand(*fact, k);
      if (levels_[static_cast<size_t>(node)].highest(fact->phase) < fact->first_level) continue;
      bool covered = false;
      for (size_t m = 0; m < k && !covered; ++m)
        covered = fact->look_up[m] && lockstep->equal(operand(*fact, m), node);
      fact->look_up[k] = !covered;
    }
  }

  const ir::Program& program_;
  const Flow& flow_;
  Blocks& blocks_;
  std::vector<Levels> levels_;
  std::vector<int32_t> first_, last_;
};

}  // namespace

void find_depths(const ir::Program& specialised, const Flow& flow, Blocks* blocks) {
  Depths(specialised, flow, blocks).run();
}

}  // namespace rondo::analysis
