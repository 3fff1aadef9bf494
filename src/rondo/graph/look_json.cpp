#include <fmt/format.h>

#include <algorithm>

#include "rondo/graph/look.h"

namespace rondo::graph {
namespace {

using look::Field, look::Node, look::Picture;

std::string key(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return look::quoted(name);
}

// "," between the members of an object or an array.
class List {
 public:
  explicit List(std::string* out) : out_(*out) {}
  std::string& next() {
    if (!first_) out_ += ',';
    first_ = false;
    return out_;
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void write_graph(const Picture& p, const LookOptions& options, std::string* out);

void write_parameters(const Node& node, const LookOptions& options, std::string* out) {
  *out += '[';
  List items(out);
  for (const look::Parameter& at : node.parameters) {
    items.next() += fmt::format("{{\"offset\":{},\"bytes\":{}", at.offset, at.bytes);
    if (options.addresses || at.bytes < 8) *out += ",\"value\":" + look::quoted(look::hex(at.value));
    *out += '}';
  }
  *out += ']';
}

void write_node(const Node& node, const LookOptions& options, std::string* out) {
  *out += '{';
  List members(out);
  members.next() += fmt::format("\"number\":{}", node.number);
  members.next() += fmt::format("\"kind\":{}", look::quoted(name(node.kind)));
  if (!node.name.empty()) {
    members.next() += "\"name\":" + look::quoted(node.name);
    members.next() += "\"symbol\":" + look::quoted(node.symbol);
  }
  for (const Field& f : node.fields)
    if (f.shown && (options.addresses || !f.address)) members.next() += key(f.name) + ':' + f.json;
  if (node.kind == NodeKind::Kernel && options.parameters) {
    if (node.unknown.empty()) {
      members.next() += "\"parameters\":";
      write_parameters(node, options, out);
      if (node.packed) members.next() += "\"packed\":true";
    } else {
      members.next() += "\"parameters\":null";
    }
  }
  if (!node.unknown.empty()) members.next() += "\"unknown\":" + look::quoted(node.unknown);
  if (!node.attributes.empty()) {
    members.next() += "\"attributes\":{";
    List attributes(out);
    for (const Field& a : node.attributes) attributes.next() += key(a.name) + ':' + a.json;
    *out += '}';
  }
  if (node.bytes_known)
    members.next() += fmt::format("\"bytes_moved\":{}", node.bytes);
  else if (node.kind == NodeKind::Kernel)
    members.next() += "\"bytes_moved\":null";
  if (!node.inner.empty()) {
    members.next() += "\"graphs\":[";
    List graphs(out);
    for (const look::Inner& inner : node.inner) {
      graphs.next() += fmt::format("{{\"label\":{},", look::quoted(inner.label));
      write_graph(*inner.picture, options, out);
      *out += '}';
    }
    *out += ']';
  }
  *out += '}';
}

struct Totals {
  size_t nodes = 0, kernels = 0;
  uint64_t bytes = 0, bytes_in_bodies = 0;
};
void count(const Picture& p, bool in_body, Totals* t) {
  for (const Node& node : p.nodes) {
    ++t->nodes;
    t->kernels += node.kind == NodeKind::Kernel;
    (in_body ? t->bytes_in_bodies : t->bytes) += node.bytes;
    for (const look::Inner& inner : node.inner)
      count(*inner.picture, in_body || node.kind == NodeKind::Conditional, t);
  }
}

void write_graph(const Picture& p, const LookOptions& options, std::string* out) {
  *out += "\"nodes\":[";
  List nodes(out);
  for (const size_t at : p.order) write_node(p.nodes[at], options, &nodes.next());
  *out += "],\"edges\":[";
  List edges(out);
  for (const size_t at : p.order)
    for (const look::Link& link : p.nodes[at].after) {
      edges.next() += fmt::format("{{\"from\":{},\"to\":{}", p.nodes[link.from].number, p.nodes[at].number);
      if (!link.data.full())
        *out += fmt::format(",\"data\":{},\"from_port\":{},\"to_port\":{},\"type\":{}",
                            look::quoted(name(link.data)), link.data.from_port, link.data.to_port,
                            link.data.type);
      *out += '}';
    }
  Totals t;
  count(p, false, &t);
  *out += fmt::format(
      "],\"totals\":{{\"nodes\":{},\"kernels\":{},\"bytes_moved\":{},\"bytes_moved_each_time_in_bodies\":{}}"
      "}",
      t.nodes, t.kernels, t.bytes, t.bytes_in_bodies);
}

}  // namespace

std::string json(const GraphView& graph, const LookOptions& options) {
  std::string out = "{";
  write_graph(look::read(graph), options, &out);
  return out + "}\n";
}

}  // namespace rondo::graph
