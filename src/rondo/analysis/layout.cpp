#include "rondo/analysis/layout.h"

#include <algorithm>

namespace rondo::analysis {
namespace {

void lay_out_region(const ir::Function& fn, const ir::Region& region, RegionInfo info, Layout* layout) {
  info.region = &region;
  const auto number = static_cast<int32_t>(layout->regions.size());
  layout->regions.push_back(info);
  for (const ir::Value v : region.params) layout->region_of[static_cast<size_t>(v)] = number;
  for (const ir::Value v : region.body) {
    layout->region_of[static_cast<size_t>(v)] = number;
    const std::vector<ir::Region>& inner = fn.ops[static_cast<size_t>(v)].regions;
    for (size_t k = 0; k < inner.size(); ++k)
      lay_out_region(fn, inner[k], {nullptr, v, static_cast<int32_t>(k), number}, layout);
  }
}

}  // namespace

Layout lay_out(const ir::Function& fn) {
  Layout layout;
  layout.region_of.assign(fn.ops.size(), -1);
  lay_out_region(fn, fn.body, {}, &layout);
  return layout;
}

bool Layout::encloses(int32_t outer, int32_t inner) const {
  while (inner > outer) inner = regions[static_cast<size_t>(inner)].parent;
  return inner == outer;
}

void for_each_op(const ir::Function& fn, const ir::Region& region,
                 const std::function<void(ir::Value)>& visit) {
  for (const ir::Value v : region.body) {
    visit(v);
    for (const ir::Region& inner : fn.ops[static_cast<size_t>(v)].regions) for_each_op(fn, inner, visit);
  }
}

bool is_tensor_op(ir::Opcode code) { return code >= ir::Opcode::Fill && code <= ir::Opcode::ToFloat; }
bool is_loop(ir::Opcode code) { return code == ir::Opcode::Fold || code == ir::Opcode::Scan; }
bool is_view(ir::Opcode code) {
  return code == ir::Opcode::Slice || code == ir::Opcode::Transpose || code == ir::Opcode::Reshape ||
         code == ir::Opcode::Broadcast;
}

// Tarjan's algorithm with its own stack: value graphs can be chains of many thousand nodes.
Components strong_components(const std::vector<std::vector<int32_t>>& successors) {
  const size_t n = successors.size();
  Components result{std::vector<int32_t>(n, -1), 0};
  std::vector<int32_t> order(n, -1), low(n, 0), open;
  struct Frame {
    int32_t node;
    size_t next;
  };
  std::vector<Frame> frames;
  int32_t time = 0;
  for (size_t start = 0; start < n; ++start) {
    if (order[start] >= 0) continue;
    frames.push_back({static_cast<int32_t>(start), 0});
    while (!frames.empty()) {
      const int32_t node = frames.back().node;
      const auto v = static_cast<size_t>(node);
      if (frames.back().next == 0 && order[v] < 0) {
        order[v] = low[v] = time++;
        open.push_back(node);
      }
      if (frames.back().next < successors[v].size()) {
        const auto w = static_cast<size_t>(successors[v][frames.back().next++]);
        if (order[w] < 0)
          frames.push_back({static_cast<int32_t>(w), 0});
        else if (result.component[w] < 0)
          low[v] = std::min(low[v], order[w]);
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) {
        const auto parent = static_cast<size_t>(frames.back().node);
        low[parent] = std::min(low[parent], low[v]);
      }
      if (low[v] != order[v]) continue;
      for (int32_t member = -1; member != node;) {
        member = open.back();
        open.pop_back();
        result.component[static_cast<size_t>(member)] = result.count;
      }
      ++result.count;
    }
  }
  return result;
}

CallGraph call_graph(const ir::Program& program) {
  const size_t n = program.functions.size();
  std::vector<std::vector<int32_t>> callees(n);
  for (size_t f = 0; f < n; ++f) {
    const ir::Function& fn = program.functions[f];
    for_each_op(fn, fn.body, [&](ir::Value v) {
      const ir::Op& op = fn.ops[static_cast<size_t>(v)];
      if (op.code == ir::Opcode::Call) callees[f].push_back(static_cast<int32_t>(op.i));
    });
  }
  CallGraph graph{strong_components(callees), std::vector<bool>(n, false)};
  for (size_t f = 0; f < n; ++f)
    for (const int32_t g : callees[f])
      if (graph.components.component[f] == graph.components.component[static_cast<size_t>(g)])
        graph.recursive[f] = graph.recursive[static_cast<size_t>(g)] = true;
  return graph;
}

}  // namespace rondo::analysis
