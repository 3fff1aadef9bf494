#include "rondo/analysis/concurrency.h"

#include <algorithm>
#include <set>

#include "rondo/analysis/layout.h"

namespace rondo::analysis {
namespace {
using ir::Op;
using ir::Opcode;
using ir::Value;

void find_meetings(const Blocks& blocks, Concurrency* result) {
  for (int32_t phase = 0; phase < blocks.phases; ++phase) {
    std::set<int32_t> cuts;  // levels at which a block begins, or is over
    for (const BlockFact& b : blocks.list) {
      if (b.phase != phase) continue;
      cuts.insert(b.first_level);
      if (b.last_level >= 0) cuts.insert(b.last_level + 1);
    }
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const auto next = std::next(cut);
      Meeting m{phase, *cut, next == cuts.end() ? -1 : *next - 1, {}};
      for (size_t b = 0; b < blocks.list.size(); ++b) {
        const BlockFact& fact = blocks.list[b];
        if (fact.phase == phase && fact.first_level <= *cut &&
            (fact.last_level < 0 || fact.last_level >= *cut))
          m.blocks.push_back(static_cast<int32_t>(b));
      }
      if (!m.blocks.empty()) result->meetings.push_back(std::move(m));
    }
  }
}

// Everything of one region that v is made from, directly or not.
class Sources {
 public:
  Sources(const ir::Function& fn, const Layout& layout) : fn_(fn), layout_(layout) {}

  void region(const ir::Region& r, int32_t function, Concurrency* result) {
    const auto op = [&](Value v) -> const Op& { return fn_.ops[static_cast<size_t>(v)]; };
    std::vector<Value> calls;
    for (const Value v : r.body) {
      const Opcode code = op(v).code;
      if (code != Opcode::Call && code != Opcode::Map && !is_loop(code)) continue;
      std::set<Value> before;
      collect(v, layout_.region_of[static_cast<size_t>(v)], &before);
      for (const Value c : calls)
        if (before.count(c) == 0) result->calls.push_back({function, c, v});
      calls.push_back(v);
    }
    for (const Value v : r.body)
      for (const ir::Region& inner : op(v).regions) region(inner, function, result);
  }

 private:
  void collect(Value v, int32_t region, std::set<Value>* seen) const {
    const Op& o = fn_.ops[static_cast<size_t>(v)];
    const auto use = [&](Value a) {
      if (layout_.region_of[static_cast<size_t>(a)] == region && seen->insert(a).second)
        collect(a, region, seen);
    };
    for (const Value a : o.args) use(a);
    for (const ir::Region& inner : o.regions) {
      use(inner.result);
      for_each_op(fn_, inner, [&](Value w) {
        for (const Value a : fn_.ops[static_cast<size_t>(w)].args) use(a);
        for (const ir::Region& deeper : fn_.ops[static_cast<size_t>(w)].regions) use(deeper.result);
      });
    }
  }

  const ir::Function& fn_;
  const Layout& layout_;
};

}  // namespace

Concurrency find_concurrency(const ir::Program& specialised, const Blocks& blocks) {
  Concurrency result;
  find_meetings(blocks, &result);
  for (size_t f = 0; f < specialised.functions.size(); ++f) {
    const ir::Function& fn = specialised.functions[f];
    const Layout layout = lay_out(fn);
    Sources(fn, layout).region(fn.body, static_cast<int32_t>(f), &result);
  }
  return result;
}

}  // namespace rondo::analysis
