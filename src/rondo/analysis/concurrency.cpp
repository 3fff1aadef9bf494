#include "rondo/analysis/concurrency.h"

#include <map>
#include <set>
#include <vector>

#include "rondo/analysis/layout.h"

namespace rondo::analysis {
namespace {
using ir::Op;
using ir::Opcode;
using ir::Value;

void find_meetings(const Blocks& blocks, Concurrency* result) {
  for (int32_t phase = 0; phase < blocks.phases; ++phase) {
    struct Cut {
      std::vector<int32_t> begin, over;  // blocks
    };
    std::map<int32_t, Cut> cuts;  // levels at which a block begins, or is over
    for (size_t b = 0; b < blocks.list.size(); ++b) {
      const BlockFact& fact = blocks.list[b];
      if (fact.phase != phase) continue;
      cuts[fact.first_level].begin.push_back(static_cast<int32_t>(b));
      if (fact.last_level >= 0) cuts[fact.last_level + 1].over.push_back(static_cast<int32_t>(b));
    }
    std::set<int32_t> alive;
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      for (const int32_t b : cut->second.over) alive.erase(b);
      alive.insert(cut->second.begin.begin(), cut->second.begin.end());
      const auto next = std::next(cut);
      if (!alive.empty())
        result->meetings.push_back(
            {phase, cut->first, next == cuts.end() ? -1 : next->first - 1, {alive.begin(), alive.end()}});
    }
  }
}

// The list of independent calls is for people; longer regions would have millions of pairs.
constexpr size_t kMostCalls = 1000;

// Which calls of one region each of its values is made from, directly or not.
class Sources {
 public:
  Sources(const ir::Function& fn, const Layout& layout) : fn_(fn), layout_(layout), sources_(fn.ops.size()) {}

  void region(const ir::Region& r, int32_t function, Concurrency* result) {
    std::vector<Value> calls;
    for (const Value v : r.body)
      if (is_call(op(v).code)) calls.push_back(v);
    if (calls.size() > 1 && calls.size() <= kMostCalls) compare(r, calls, function, result);
    for (const Value v : r.body)
      for (const ir::Region& inner : op(v).regions) region(inner, function, result);
  }

 private:
  using Set = std::vector<bool>;  // of the region's calls, in order

  static bool is_call(Opcode code) { return code == Opcode::Call || code == Opcode::Map || is_loop(code); }
  const Op& op(Value v) const { return fn_.ops[static_cast<size_t>(v)]; }

  void compare(const ir::Region& r, const std::vector<Value>& calls, int32_t function, Concurrency* result) {
    size_t number = 0;  // of the next call
    for (const Value v : r.body) {
      Set made_from(calls.size(), false);
      collect(v, layout_.region_of[static_cast<size_t>(v)], &made_from);
      if (is_call(op(v).code)) {
        for (size_t c = 0; c < number; ++c)
          if (!made_from[c]) result->calls.push_back({function, calls[c], v});
        made_from[number++] = true;
      }
      sources_[static_cast<size_t>(v)] = std::move(made_from);
    }
  }

  // What v uses of its region stands before it there.
  void collect(Value v, int32_t region, Set* made_from) const {
    const auto use = [&](Value a) {
      if (layout_.region_of[static_cast<size_t>(a)] != region) return;
      const Set& more = sources_[static_cast<size_t>(a)];  // none of a parameter
      for (size_t c = 0; c < more.size(); ++c)
        if (more[c]) (*made_from)[c] = true;
    };
    const Op& o = op(v);
    for (const Value a : o.args) use(a);
    for (const ir::Region& inner : o.regions) {
      use(inner.result);
      for_each_op(fn_, inner, [&](Value w) {
        for (const Value a : op(w).args) use(a);
        for (const ir::Region& deeper : op(w).regions) use(deeper.result);
      });
    }
  }

  const ir::Function& fn_;
  const Layout& layout_;
  std::vector<Set> sources_;  // of values of regions that were compared
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
