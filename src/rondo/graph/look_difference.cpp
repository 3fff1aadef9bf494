// Two graphs compared in words, with the verdict of cuGraphExecUpdate's documented rules.
//
// With equal numbers of nodes the n-th is paired with the n-th. Otherwise no update is possible, and nodes
// are paired to be read: by the longest common run of kinds and kernels, so that one node more is one change.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rondo/graph/look.h"

namespace rondo::graph {
namespace {

using look::Change, look::Field, look::Node, look::Picture;

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr size_t kWordsShown = 3;          // of one parameter
constexpr size_t kChangesShown = 20;       // in text()
constexpr size_t kLongestTable = 1 << 22;  // pairing of unequal graphs: beyond it by place only

class Comparison {
 public:
  explicit Comparison(Difference* out) : out_(*out) {}

  void graphs(const Picture& a, const Picture& b, const std::string& prefix);

 private:
  void nodes(const Node& a, const Node& b, const std::string& prefix);
  void fields(const Node& a, const Node& b, std::vector<std::string>* words);
  void parameters(const Node& a, const Node& b, std::vector<std::string>* words);
  void attributes(const Node& a, const Node& b, std::vector<std::string>* words);
  void edges(const Picture& a, const Picture& b, const std::vector<size_t>& pair, const std::string& prefix);
  void order(const Picture& a, const std::vector<look::Link>& is, const std::vector<look::Link>& becomes,
             const std::string& to);
  void refuse(const std::string& why) {
    out_.in_place = false;
    if (out_.because.empty()) out_.because = why;
  }
  void depends(const std::string& why) { once(&out_.conditions, why); }
  void note(const std::string& what) { once(&out_.notes, what); }
  static void once(std::vector<std::string>* list, const std::string& text) {
    if (std::find(list->begin(), list->end(), text) == list->end()) list->push_back(text);
  }
  void judge(const Field& f) {
    if (f.change == Change::Never) refuse(f.why);
    if (f.change == Change::Depends) depends(f.why);
  }

  Difference& out_;
};

bool alike(const Node& a, const Node& b) { return a.kind == b.kind && a.symbol == b.symbol; }

// For every node of `a` its partner in `b`, or kNone.
std::vector<size_t> pair_nodes(const std::vector<Node>& a, const std::vector<Node>& b) {
  std::vector<size_t> pair(a.size(), kNone);
  size_t head = 0, tail = 0;
  const size_t least = std::min(a.size(), b.size());
  if (a.size() == b.size())
    head = a.size();
  else
    while (head < least && alike(a[head], b[head])) ++head;
  for (size_t i = 0; i < head; ++i) pair[i] = i;
  while (tail < least - std::min(head, least) && alike(a[a.size() - 1 - tail], b[b.size() - 1 - tail])) {
    pair[a.size() - 1 - tail] = b.size() - 1 - tail;
    ++tail;
  }
  const size_t rows = a.size() - head - tail, columns = b.size() - head - tail;
  if (rows * columns == 0 || rows > kLongestTable / columns) return pair;
  // Longest common subsequence of what is left, from its end.
  std::vector<uint32_t> best((rows + 1) * (columns + 1));
  const auto at = [&](size_t i, size_t j) -> uint32_t& { return best[i * (columns + 1) + j]; };
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;)
      at(i, j) =
          alike(a[head + i], b[head + j]) ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    if (alike(a[head + i], b[head + j]))
      pair[head + i++] = head + j++;
    else if (at(i + 1, j) >= at(i, j + 1))
      ++i;
    else
      ++j;
  }
  return pair;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  return fmt::format("{}", fmt::join(parts, between));
}

// "node 7 (memset)", "node 3 (kernel encode)"
std::string short_name(const Node& node, const std::string& prefix) {
  return fmt::format("node {}{} ({}{}{})", prefix, node.number, name(node.kind), node.name.empty() ? "" : " ",
                     node.name);
}

const Field* find(const std::vector<Field>& fields, const std::string& name) {
  for (const Field& f : fields)
    if (f.name == name) return &f;
  return nullptr;
}

void Comparison::fields(const Node& a, const Node& b, std::vector<std::string>* words) {
  for (const Field& is : a.fields) {
    const Field* becomes = find(b.fields, is.name);
    if (!becomes) {
      if (!is.shown) continue;  // the driver tells it of one of them only
      words->push_back(fmt::format("{} {} -> none", is.name, is.text));
      judge(is);
      continue;
    }
    if (is.json == becomes->json) continue;
    if (a.kind == NodeKind::Kernel && is.name == "function")
      words->push_back(a.symbol.empty() || b.symbol.empty() ? "another kernel"
                       : a.symbol == b.symbol               ? "a kernel of the same name from another module"
                                                            : fmt::format("kernel {} -> {}", a.name, b.name));
    else if (is.shown)
      words->push_back(fmt::format("{} {} -> {}", is.name, is.text, becomes->text));
    else
      words->push_back(fmt::format("another {}", is.name));
    // Whichever side is stricter: one row becoming many is no change of one row.
    judge(is.change == Change::Never ? is : *becomes);
  }
  for (const Field& f : b.fields) {
    if (!f.shown || find(a.fields, f.name)) continue;
    words->push_back(fmt::format("{} none -> {}", f.name, f.text));
    judge(f);
  }
}

// "0x.. -> 0x..", for long ones the words that differ.
std::string change_of(const look::Parameter& a, const look::Parameter& b) {
  if (a.bytes <= 8) return fmt::format("{} -> {}", look::hex(a.value), look::hex(b.value));
  std::vector<std::string> parts;
  size_t more = 0;
  for (size_t at = 0; at < a.bytes; at += 8) {
    const auto count = static_cast<std::ptrdiff_t>(std::min<size_t>(8, a.bytes - at));
    const auto from = a.value.begin() + static_cast<std::ptrdiff_t>(at),
               to = b.value.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::equal(from, from + count, to)) continue;
    if (parts.size() == kWordsShown)
      ++more;
    else
      parts.push_back(fmt::format("at byte {} {} -> {}", at, look::hex({from, from + count}),
                                  look::hex({to, to + count})));
  }
  if (more) parts.push_back(fmt::format("and {} more words", more));
  return joined(parts, ", ");
}

void Comparison::parameters(const Node& a, const Node& b, std::vector<std::string>* words) {
  const std::string& unknown = a.unknown.empty() ? b.unknown : a.unknown;
  if (!unknown.empty()) return note(fmt::format("parameters of kernels were not compared: {}", unknown));
  const auto same_layout = [](const look::Parameter& x, const look::Parameter& y) {
    return x.offset == y.offset && x.bytes == y.bytes;
  };
  if (!std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                  same_layout)) {
    words->push_back(fmt::format("{} parameters -> {}", a.parameters.size(), b.parameters.size()));
    return;
  }
  for (size_t i = 0; i < a.parameters.size(); ++i)
    if (a.parameters[i].value != b.parameters[i].value)
      words->push_back(fmt::format("parameter {} ({} bytes) {}", i, a.parameters[i].bytes,
                                   change_of(a.parameters[i], b.parameters[i])));
}

void Comparison::attributes(const Node& a, const Node& b, std::vector<std::string>* words) {
  const auto differs = [&](const Field& f, const std::string& from, const std::string& to) {
    words->push_back(fmt::format("{} {} -> {}", f.name, from, to));
    judge(f);
  };
  for (const Field& is : a.attributes) {
    const Field* becomes = find(b.attributes, is.name);
    const std::string to = becomes ? becomes->text : "default";
    if (is.text != to) differs(is, is.text, to);
  }
  for (const Field& f : b.attributes)
    if (!find(a.attributes, f.name)) differs(f, "default", f.text);
  if (a.device_updatable || b.device_updatable)
    refuse("device-updatable kernel nodes take no update of the whole graph");
}

void Comparison::nodes(const Node& a, const Node& b, const std::string& prefix) {
  const std::string path = fmt::format("{}{}", prefix, a.number);
  if (a.kind != b.kind) {
    out_.changes.push_back(fmt::format("node {} is a {} node in the first and a {} node in the second", path,
                                       name(a.kind), name(b.kind)));
    return refuse("the kinds of nodes differ");
  }
  std::vector<std::string> words;
  fields(a, b, &words);
  if (a.kind == NodeKind::Kernel) {
    parameters(a, b, &words);
    attributes(a, b, &words);
  } else if (const std::string& why = a.unknown.empty() ? b.unknown : a.unknown; !why.empty()) {
    note(fmt::format("node {} was not compared: {}", path, why));
  }
  if (!words.empty())
    out_.changes.push_back(fmt::format(
        "{}{}: {}", look::describe(a, prefix),
        a.number == b.number ? "" : fmt::format(", {} in the second", b.number), joined(words, ", ")));
  for (size_t i = 0; i < std::min(a.inner.size(), b.inner.size()); ++i)
    graphs(*a.inner[i].picture, *b.inner[i].picture,
           a.kind == NodeKind::Child ? path + "." : fmt::format("{}.{}.", path, a.inner[i].label));
}

void Comparison::order(const Picture& a, const std::vector<look::Link>& is,
                       const std::vector<look::Link>& becomes, const std::string& to) {
  const auto list = [&](const std::vector<look::Link>& links) {
    std::vector<std::string> numbers;
    for (const look::Link& link : links) numbers.push_back(fmt::format("{}", a.nodes[link.from].number));
    return joined(numbers, ", ");
  };
  out_.changes.push_back(
      fmt::format("node {} waits for {} in the first and for {} in the second", to, list(is), list(becomes)));
  refuse("the driver pairs nodes by the order of their edges, which differs");
}

void Comparison::edges(const Picture& a, const Picture& b, const std::vector<size_t>& pair,
                       const std::string& prefix) {
  std::vector<size_t> back(b.nodes.size(), kNone);
  for (size_t i = 0; i < pair.size(); ++i)
    if (pair[i] != kNone) back[pair[i]] = i;
  for (const size_t at : a.order) {
    if (pair[at] == kNone) continue;
    // Edges of nodes that only one graph has are told by the node.
    std::vector<look::Link> is, becomes;
    for (const look::Link& link : a.nodes[at].after)
      if (pair[link.from] != kNone) is.push_back(link);
    for (const look::Link& link : b.nodes[pair[at]].after)
      if (back[link.from] != kNone) becomes.push_back({back[link.from], link.data});
    if (is == becomes) continue;
    const std::string to = fmt::format("{}{}", prefix, a.nodes[at].number);
    if (std::is_permutation(is.begin(), is.end(), becomes.begin(), becomes.end())) {
      order(a, is, becomes, to);
      continue;
    }
    refuse("the edges differ");
    const auto edge = [&](const look::Link& link) {
      return fmt::format("edge {}{} -> {}", prefix, a.nodes[link.from].number, to);
    };
    for (const look::Link& link : is) {
      if (std::find(becomes.begin(), becomes.end(), link) != becomes.end()) continue;
      const auto other = std::find_if(becomes.begin(), becomes.end(), [&](const look::Link& l) {
        return l.from == link.from && std::find(is.begin(), is.end(), l) == is.end();
      });
      out_.changes.push_back(other == becomes.end()
                                 ? edge(link) + " is only in the first"
                                 : fmt::format("{} became {}", edge(link), name(other->data)));
    }
    for (const look::Link& link : becomes)
      if (std::none_of(is.begin(), is.end(), [&](const look::Link& l) { return l.from == link.from; }))
        out_.changes.push_back(edge(link) + (link.data.full() ? "" : fmt::format(" ({})", name(link.data))) +
                               " is only in the second");
  }
}

void Comparison::graphs(const Picture& a, const Picture& b, const std::string& prefix) {
  const std::vector<size_t> pair = pair_nodes(a.nodes, b.nodes);
  std::vector<bool> paired(b.nodes.size());
  for (const size_t at : a.order) {
    if (pair[at] == kNone) {
      out_.changes.push_back(short_name(a.nodes[at], prefix) + " is only in the first");
      continue;
    }
    paired[pair[at]] = true;
    nodes(a.nodes[at], b.nodes[pair[at]], prefix);
  }
  for (const size_t at : b.order)
    if (!paired[at]) out_.changes.push_back(short_name(b.nodes[at], prefix) + " is only in the second");
  if (a.nodes.size() != b.nodes.size()) refuse("the numbers of nodes differ");
  edges(a, b, pair, prefix);
}

std::string count(size_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

Difference compare(const GraphView& first, const GraphView& second) {
  Difference d;
  d.in_place = true;
  const Picture a = look::read(first), b = look::read(second);
  d.nodes = a.nodes.size();
  d.other_nodes = b.nodes.size();
  Comparison(&d).graphs(a, b, "");
  d.same = d.changes.empty();
  return d;
}

std::string Difference::text() const {
  std::string out;
  if (same) {
    out =
        fmt::format("{}: {}.", notes.empty() ? "The graphs are the same" : "Nothing that can be seen differs",
                    count(nodes, "node"));
    if (!in_place) out += fmt::format(" An update is refused all the same, because {}.", because);
  } else {
    out = nodes == other_nodes
              ? fmt::format("Same {}", count(nodes, "node"))
              : fmt::format("{} in the first, {} in the second", count(nodes, "node"), other_nodes);
    for (size_t i = 0; i < std::min(changes.size(), kChangesShown); ++i) out += "; " + changes[i];
    if (changes.size() > kChangesShown)
      out += fmt::format("; and {} more", count(changes.size() - kChangesShown, "change"));
    out += in_place ? ". The driver updates this in place"
                    : ". This needs a new instantiation, because " + because;
    if (in_place && !conditions.empty()) out += ", if " + joined(conditions, " and ");
    out += '.';
  }
  for (const std::string& n : notes) out += fmt::format(" Note: {}.", n);
  return out;
}

std::string difference(const GraphView& first, const GraphView& second) {
  return compare(first, second).text();
}

}  // namespace rondo::graph
