#include "rondo/analysis/hoist.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace rondo::analysis {
namespace {

const ir::Op& op_of(const ir::Program& program, const FlowNode& n) {
  return program.functions[static_cast<size_t>(n.function)].ops[static_cast<size_t>(n.value)];
}

// The territory of a cycle: loops whose accumulator lies on it; the whole recursion of a function whose
// parameters or inner calls do. A cycle that closes only because a function has one set of nodes for all
// callers (rnn(rnn(x)) in main) takes no territory in the outer caller.
Recursion territory(const ir::Program& program, const Flow& flow, const CallGraph& calls,
                    const std::vector<int32_t>& members) {
  std::set<int32_t> functions;
  std::set<std::pair<int32_t, int32_t>> regions;
  std::string function_name, loop_name;
  for (const int32_t m : members) {
    const FlowNode& n = flow.nodes[static_cast<size_t>(m)];
    const ir::Op& op = op_of(program, n);
    const Layout& layout = flow.layouts[static_cast<size_t>(n.function)];
    const RegionInfo& region = layout.regions[static_cast<size_t>(n.region)];
    const auto join_function = [&](int64_t f) {
      for (size_t g = 0; g < program.functions.size(); ++g)
        if (calls.same_recursion(f, static_cast<int64_t>(g))) functions.insert(static_cast<int32_t>(g));
      if (function_name.empty()) function_name = program.functions[static_cast<size_t>(f)].name;
    };
    if (op.code == ir::Opcode::Arg && region.owner == ir::kNone &&
        calls.recursive[static_cast<size_t>(n.function)])
      join_function(n.function);
    if (op.code == ir::Opcode::Call && calls.same_recursion(n.function, op.i)) join_function(op.i);
    if (op.code != ir::Opcode::Arg || region.owner == ir::kNone) continue;
    const ir::Op& owner =
        program.functions[static_cast<size_t>(n.function)].ops[static_cast<size_t>(region.owner)];
    if (is_loop(owner.code) && region.region->params[0] == n.value) {
      regions.emplace(n.function, n.region);
      if (loop_name.empty())
        loop_name = fmt::format("{} at {}:{}", ir::name(owner.code), owner.loc.line, owner.loc.column);
    }
  }
  return {function_name.empty() ? loop_name : function_name,
          {functions.begin(), functions.end()},
          {regions.begin(), regions.end()}};
}

}  // namespace

bool Recursions::in_territory(int32_t recursion, const Flow& flow, int32_t function, int32_t region) const {
  const Recursion& r = list[static_cast<size_t>(recursion)];
  if (std::find(r.functions.begin(), r.functions.end(), function) != r.functions.end()) return true;
  return std::any_of(r.regions.begin(), r.regions.end(), [&](const auto& place) {
    return place.first == function &&
           flow.layouts[static_cast<size_t>(function)].encloses(place.second, region);
  });
}

Recursions find_recursions(const ir::Program& specialised, const Flow& flow) {
  const size_t n = flow.nodes.size();
  std::vector<std::vector<int32_t>> successors(n);
  for (size_t v = 0; v < n; ++v)
    for (const FlowEdge& e : flow.out[v]) successors[v].push_back(e.to);
  const Components components = strong_components(successors);
  std::vector<std::vector<int32_t>> members(static_cast<size_t>(components.count));
  for (size_t v = 0; v < n; ++v)
    members[static_cast<size_t>(components.component[v])].push_back(static_cast<int32_t>(v));

  Recursions result;
  result.cycle.assign(n, -1);
  result.climbs.resize(n);
  result.component = components.component;
  result.feeds.assign(n, false);
  const CallGraph calls = call_graph(specialised);
  std::vector<int32_t> work;
  std::map<std::string, int> names;
  std::vector<size_t> order(members.size());  // of the program text, which makes names stable
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return members[a][0] < members[b][0]; });
  for (const size_t c : order) {
    const bool computes = std::any_of(members[c].begin(), members[c].end(), [&](int32_t m) {
      return is_tensor_op(op_of(specialised, flow.nodes[static_cast<size_t>(m)]).code);
    });
    if (members[c].size() < 2 || !computes)
      continue;  // a list that only grows is a cycle too, but costs no level
    for (const int32_t m : members[c]) {
      result.cycle[static_cast<size_t>(m)] = static_cast<int32_t>(result.list.size());
      result.climbs[static_cast<size_t>(m)] = {static_cast<int32_t>(result.list.size())};
      result.feeds[static_cast<size_t>(m)] = true;
      work.push_back(m);
    }
    Recursion r = territory(specialised, flow, calls, members[c]);
    if (const int count = ++names[r.name]; count > 1)
      r.name += fmt::format(" ({})", count);  // inlined more than once
    result.list.push_back(std::move(r));
  }

  std::vector<int32_t> backwards = work;
  while (!backwards.empty()) {
    const int32_t v = backwards.back();
    backwards.pop_back();
    for (const int32_t from : flow.in[static_cast<size_t>(v)]) {
      if (result.feeds[static_cast<size_t>(from)]) continue;
      result.feeds[static_cast<size_t>(from)] = true;
      backwards.push_back(from);
    }
  }
  while (!work.empty()) {
    const int32_t v = work.back();
    work.pop_back();
    for (const FlowEdge& e : flow.out[static_cast<size_t>(v)]) {
      const FlowNode& to = flow.nodes[static_cast<size_t>(e.to)];
      std::vector<int32_t>& climbs = result.climbs[static_cast<size_t>(e.to)];
      bool grown = false;
      const std::vector<int32_t> from = result.climbs[static_cast<size_t>(v)];
      for (const int32_t r : from) {
        const auto at = std::lower_bound(climbs.begin(), climbs.end(), r);
        if ((at != climbs.end() && *at == r) || !result.in_territory(r, flow, to.function, to.region))
          continue;
        climbs.insert(at, r);
        grown = true;
      }
      if (grown) work.push_back(e.to);
    }
  }
  return result;
}

}  // namespace rondo::analysis
