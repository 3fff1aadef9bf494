#include "rondo/analysis/phases.h"

#include <algorithm>

namespace rondo::analysis {

std::vector<int32_t> find_phases(const ir::Program& specialised, const Flow& flow,
                                 const Recursions& recursions) {
  const size_t n = flow.nodes.size();
  enum Growth { kNone, kLeaves, kHead };
  const auto growth = [&](int32_t from, const FlowEdge& e) {
    if (recursions.component[static_cast<size_t>(from)] == recursions.component[static_cast<size_t>(e.to)])
      return kNone;
    if (e.mark) return kLeaves;
    const std::vector<int32_t>& climbs = recursions.climbs[static_cast<size_t>(from)];
    if (climbs.empty()) return kNone;
    const FlowNode& to = flow.nodes[static_cast<size_t>(e.to)];
    for (const int32_t r : climbs)
      if (!recursions.in_territory(r, flow, to.function, to.region)) return kLeaves;
    const ir::Op& op =
        specialised.functions[static_cast<size_t>(to.function)].ops[static_cast<size_t>(to.value)];
    return op.code == ir::Opcode::MatMul && !recursions.feeds[static_cast<size_t>(e.to)] ? kHead : kNone;
  };

  // Components count successors first, so walking them downwards meets every producer before its consumers.
  std::vector<int32_t> order(n);
  for (size_t v = 0; v < n; ++v) order[v] = static_cast<int32_t>(v);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return recursions.component[static_cast<size_t>(a)] > recursions.component[static_cast<size_t>(b)];
  });
  std::vector<int32_t> of_component(n, 0);
  std::vector<bool> in_head(
      n, false);  // a component: already after its recursion, where a second product is no new head
  for (const int32_t v : order) {
    const auto c = static_cast<size_t>(recursions.component[static_cast<size_t>(v)]);
    for (const FlowEdge& e : flow.out[static_cast<size_t>(v)]) {
      const auto t = static_cast<size_t>(recursions.component[static_cast<size_t>(e.to)]);
      const Growth g = growth(v, e);
      const bool grows = g == kLeaves || (g == kHead && !in_head[c]);
      of_component[t] = std::max(of_component[t], of_component[c] + (grows ? 1 : 0));
      if (g == kHead || (g == kNone && in_head[c])) in_head[t] = true;
    }
  }
  std::vector<int32_t> phase(n);
  for (size_t v = 0; v < n; ++v) phase[v] = of_component[static_cast<size_t>(recursions.component[v])];
  return phase;
}

}  // namespace rondo::analysis
