// Graphviz text. A node with graphs inside stands in a cluster with them; dashed lines without a head lead
// from it to their roots.
#include <fmt/format.h>

#include "rondo/graph/look.h"

namespace rondo::graph {
namespace {

using look::Field, look::Node, look::Picture;

constexpr size_t kShownBytes = 64;  // of one parameter; JSON has all

// Left-aligned lines of a label.
std::string line(const std::string& text) {
  std::string out;
  for (const char c : look::utf8(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (const unsigned code = static_cast<unsigned char>(c); code < 0x20 || code == 0x7f)
      out += fmt::format("\\\\x{:02x}", code);  // seen as \x0a: it has no place in a picture
    else
      out += c;
  }
  return out + "\\l";
}

std::string shown(const look::Parameter& at, const LookOptions& options) {
  if (!options.addresses && at.bytes >= 8) return fmt::format("{} bytes", at.bytes);
  if (at.bytes <= kShownBytes) return look::hex(at.value);
  return fmt::format("{} ... ({} bytes)", look::hex({at.value.begin(), at.value.begin() + kShownBytes}),
                     at.bytes);
}

std::string label(const Node& node, const std::string& prefix, const LookOptions& options) {
  std::string out = line(fmt::format("{}{} {}{}", prefix, node.number, name(node.kind),
                                     node.name.empty() ? "" : " " + node.name));
  for (const Field& f : node.fields)
    if (f.shown && (options.addresses || !f.address)) out += line(f.name + " " + f.text);
  if (options.parameters)
    for (size_t i = 0; i < node.parameters.size(); ++i)
      out += line(fmt::format("{} {}", node.packed ? "packed parameter" : "parameter", i) + " " +
                  shown(node.parameters[i], options));
  for (const Field& a : node.attributes) out += line(a.name + " " + a.text);
  if (!node.unknown.empty() && options.parameters) out += line("unknown: " + node.unknown);
  return out;
}

const char* fill(NodeKind kind) {
  switch (kind) {
    case NodeKind::Kernel:
      return "#dcebff";
    case NodeKind::Memcpy:
    case NodeKind::Memset:
      return "#e3f5dc";
    case NodeKind::Alloc:
    case NodeKind::Free:
      return "#fdf3cf";
    case NodeKind::Child:
    case NodeKind::Conditional:
      return "#eee6fa";
    default:
      return "#f2f2f2";
  }
}

void write(const Picture& p, const std::string& id, const std::string& prefix, const std::string& indent,
           const LookOptions& options, std::string* out) {
  for (const size_t at : p.order) {
    const Node& node = p.nodes[at];
    const std::string me = fmt::format("{}{}", id, node.number);
    const bool holds = !node.inner.empty();
    if (holds) *out += fmt::format("{}subgraph \"cluster_{}\" {{\n", indent, me);
    const std::string in = holds ? indent + "  " : indent;
    *out += fmt::format("{}{} [label=\"{}\", fillcolor=\"{}\"];\n", in, me, label(node, prefix, options),
                        fill(node.kind));
    for (size_t i = 0; i < node.inner.size(); ++i) {
      const look::Inner& inner = node.inner[i];
      const std::string inner_id = fmt::format("{}_{}_", me, i);
      const std::string path = node.kind == NodeKind::Child ? "" : inner.label + ".";
      *out += fmt::format("{}subgraph \"cluster_{}\" {{\n{}  label=\"{}\";\n", in, inner_id, in, inner.label);
      // An empty body is drawn too.
      if (inner.picture->nodes.empty())
        *out += fmt::format("{}  {}none [label=\"nothing\", style=\"\", color=\"#999999\"];\n", in, inner_id);
      write(*inner.picture, inner_id, fmt::format("{}{}.{}", prefix, node.number, path), in + "  ", options,
            out);
      *out += in + "}\n";
      for (const Node& first : inner.picture->nodes)
        if (first.after.empty())
          *out +=
              fmt::format("{}{} -> {}{} [style=dashed, arrowhead=none];\n", in, me, inner_id, first.number);
    }
    if (holds) *out += indent + "}\n";
  }
  for (const size_t at : p.order)
    for (const look::Link& link : p.nodes[at].after) {
      *out += fmt::format("{}{}{} -> {}{}", indent, id, p.nodes[link.from].number, id, p.nodes[at].number);
      if (!link.data.full()) *out += fmt::format(" [label=\"{}\", style=dashed]", name(link.data));
      *out += ";\n";
    }
}

}  // namespace

std::string dot(const GraphView& graph, const LookOptions& options) {
  std::string out =
      "digraph rondo {\n"
      "  node [shape=box, style=filled, fontname=\"monospace\"];\n";
  write(look::read(graph), "n", "", "  ", options, &out);
  return out + "}\n";
}

}  // namespace rondo::graph
