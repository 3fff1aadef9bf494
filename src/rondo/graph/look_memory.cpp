// What execs and graph allocations take on the device.
#include <fmt/format.h>

#include "rondo/graph/look.h"
#include "rondo/graph/state.h"

namespace rondo::graph {
namespace {

std::string human(double bytes) {
  const double size = bytes < 0 ? -bytes : bytes;
  if (size < 1024) return fmt::format("{:.0f} bytes", bytes);
  if (size < 1024 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (size < 1024.0 * 1024 * 1024) return fmt::format("{:.1f} MiB", bytes / 1024 / 1024);
  return fmt::format("{:.1f} GiB", bytes / 1024 / 1024 / 1024);
}
std::string human(uint64_t bytes) { return human(static_cast<double>(bytes)); }

// Nodes of it and of what is in it; `single`: it can have one exec at a time.
size_t count(const look::Picture& p, bool* single) {
  size_t nodes = p.nodes.size();
  for (const look::Node& node : p.nodes) {
    *single |= node.device_updatable || node.kind == NodeKind::Alloc || node.kind == NodeKind::Free ||
               node.kind == NodeKind::Conditional;
    for (const look::Inner& inner : node.inner) nodes += count(*inner.picture, single);
  }
  return nodes;
}

size_t free_bytes(const driver::Driver& d) {
  size_t free = 0, total = 0;
  RONDO_GRAPH_CHECK(d, Build, cuMemGetInfo(&free, &total), "");
  return free;
}

}  // namespace

ExecMemory measure_memory(const Graph& graph, size_t execs) {
  if (execs == 0)
    throw Error(ErrorKind::Usage,
                "memory of 0 execs cannot be measured: expected 1 or more. Give how many to make");
  const driver::Driver& d = driver::driver();
  ExecMemory m;
  bool single = false;
  m.nodes = count(look::read(graph), &single);
  m.execs = single ? 1 : execs;
  const Stream stream = Stream::create();
  std::vector<GraphExec> made;
  const auto make = [&] {
    made.push_back(graph.instantiate());
    made.back().upload(stream);
  };
  // The first of a context brings what all share; where only one can be, it is in the figure.
  if (!single) make();
  stream.synchronize();
  const size_t before = free_bytes(d);
  for (size_t i = 0; i < m.execs; ++i) make();
  stream.synchronize();
  m.device_bytes = static_cast<int64_t>(before) - static_cast<int64_t>(free_bytes(d));
  return m;
}

std::string describe(const ExecMemory& m) {
  const double each = m.bytes_per_exec();
  return fmt::format(
      "{} exec{} of {} node{} take{} {} on the device: about {} an exec, {} a node (an estimate: free memory "
      "before and after; the driver takes it in blocks)",
      m.execs, m.execs == 1 ? "" : "s", m.nodes, m.nodes == 1 ? "" : "s", m.execs == 1 ? "s" : "",
      human(static_cast<double>(m.device_bytes)), human(each),
      human(m.nodes ? each / static_cast<double>(m.nodes) : 0.0));
}

std::string describe(const GraphMemory& m) {
  const uint64_t idle = m.reserved_bytes > m.used_bytes ? m.reserved_bytes - m.used_bytes : 0;
  return fmt::format(
      "alloc nodes use {} (at most {} so far) of {} that the device holds for them (at most {}); "
      "trim_graph_memory gives back up to {}",
      human(m.used_bytes), human(m.used_high_bytes), human(m.reserved_bytes), human(m.reserved_high_bytes),
      human(idle));
}

}  // namespace rondo::graph
