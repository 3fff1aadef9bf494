// Finding slots. A byte that differs between two captures must belong to a word that is explained: an address
// in the same argument at the same place, the bits of a live scalar, or memory that the graph allocates.
// Words are looked for aligned first and then at every offset, as structs passed by value may be packed; what
// one word has explained is no part of another.
#include "rondo/replay/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "rondo/replay/slots_parts.h"

namespace rondo::replay {
namespace {

using graph::NodeKind;

uint64_t word_at(const uint8_t* p, size_t bytes = 8) {
  uint64_t word = 0;
  std::memcpy(&word, p, bytes);
  return word;
}

// The addresses among the bytes of a copy or a fill: an executable graph takes other ones, and no other
// sizes.
constexpr size_t kCopyAddresses[] = {offsetof(CUDA_MEMCPY3D, srcHost), offsetof(CUDA_MEMCPY3D, srcDevice),
                                     offsetof(CUDA_MEMCPY3D, dstHost), offsetof(CUDA_MEMCPY3D, dstDevice)};
constexpr size_t kFillAddress = offsetof(CUDA_MEMSET_NODE_PARAMS, dst);
constexpr size_t kFillValue = offsetof(CUDA_MEMSET_NODE_PARAMS, value);

CUDA_MEMCPY3D copy_of(const NodeImage& n) {
  CUDA_MEMCPY3D copy;
  std::memcpy(&copy, n.bytes.data(), sizeof copy);
  return copy;
}

class Search {
 public:
  Search(const Image& first, std::span<const Argument> a, const Image& second, std::span<const Argument> b,
         std::span<const Span64> elsewhere, std::span<const Own> own, bool (*no_memory)(uint64_t))
      : first_(first),
        second_(second),
        words_(first, a, second, b, own),
        no_memory_(no_memory),
        found_(a.size()) {
    for (const Span64& span : elsewhere) forbidden_.push_back({span, -1});
    for (int i : words_.buffers())
      for (const Argument& argument : {a[static_cast<size_t>(i)], b[static_cast<size_t>(i)]})
        forbidden_.push_back({{argument.value, argument.bytes}, i});
  }

  Discovery run() {
    if (same_graph())
      for (uint32_t i = 0; i < first_.nodes.size(); ++i) compare_node(i);
    finish();
    return std::move(out_);
  }

 private:
  // What is compared: the bytes of a node or its table.
  struct Place {
    uint32_t node;
    bool table;
    const std::vector<uint8_t>& x;
    const std::vector<uint8_t>& y;
  };
  struct Forbidden {
    Span64 span;
    int argument;
  };

  // ---- problems
  std::string describe(uint32_t node) const {
    const NodeImage& n = first_.nodes[node];
    return fmt::format("{} ({})", n.node ? n.node.describe() : std::string(graph::name(n.kind)) + " node",
                       node);
  }
  // One for each node and argument: more of them say nothing new.
  void problem(uint32_t node, int argument, const std::string& what, bool differ = false) {
    if (said_.emplace(node, argument, differ).second)
      out_.problems.push_back({node, argument, describe(node) + ": " + what});
  }
  // The captures differ there, which a live scalar may have caused.
  void difference(uint32_t node, int argument, const std::string& what) {
    differ_ = true;
    problem(node, argument, what, true);
  }

  // ---- nodes
  bool same_graph() {
    uint32_t node = 0;
    const std::string other = other_graph(first_, second_, &node);
    if (!other.empty()) difference(node, -1, other);
    return other.empty();
  }

  void compare_node(uint32_t i) {
    const NodeImage &x = first_.nodes[i], &y = second_.nodes[i];
    if (!x.why_not.empty() || !y.why_not.empty()) {
      unread_ = true;
      return problem(i, -1, x.why_not.empty() ? y.why_not : x.why_not);
    }
    if (const std::string other = other_node(x, y); !other.empty()) return difference(i, -1, other);
    remembered(i, x.rest_words, y.rest_words);
    compare_bytes({i, false, x.bytes, y.bytes});
    compare_bytes({i, true, x.table, y.table});
  }

  // ---- bytes
  void compare_bytes(const Place& p) {
    const NodeImage& n = first_.nodes[p.node];
    const bool differ = p.x != p.y;
    if (p.table) {
      if (n.table.empty()) return;
      // Page-locked memory elsewhere in each capture with one content: nobody can tell what it will hold
      // next.
      if (!n.pageable && !differ && source_of(n) != source_of(second_.nodes[p.node]))
        return difference(
            p.node, -1,
            "it copies from page-locked memory at another address in each capture. Make it an argument, "
            "or keep it at one place");
      if (differ && !one_row(copy_of(n)))
        return difference(
            p.node, -1,
            "what it copies from the host differs between captures, and it is a copy of rows, which "
            "cannot be given another place");
    }
    size_t from = 0;  // what lies before is explained
    for (size_t d = 0; differ && d < p.x.size();) {
      if (p.x[d] == p.y[d]) {
        ++d;
        continue;
      }
      const size_t to = explain(p, from, d);
      if (to > d) {
        d = from = to;
      } else {
        unexplained(p, from, d);
        d = (d | 7) + 1;
        from = std::max(from, d);
      }
    }
    for (size_t o = 0; o + 8 <= p.x.size(); o += 8) remembered(p.node, word_at(&p.x[o]), word_at(&p.y[o]));
  }

  static uint64_t source_of(const NodeImage& n) { return word_at(&n.bytes[source_offset(copy_of(n))]); }

  // Whether a word of `width` bytes at `offset` can be written.
  bool writable(const Place& p, size_t offset, size_t width) const {
    const NodeImage& n = first_.nodes[p.node];
    if (p.table || n.kind == NodeKind::Kernel) return true;
    if (n.kind == NodeKind::Memcpy)
      return width == 8 && one_row(copy_of(n)) &&
             std::find(std::begin(kCopyAddresses), std::end(kCopyAddresses), offset) !=
                 std::end(kCopyAddresses);
    // A value of fewer bytes is a conversion of the scalar.
    const bool whole = word_at(&n.bytes[offsetof(CUDA_MEMSET_NODE_PARAMS, elementSize)], 4) == 4;
    return (offset == kFillAddress && width == 8) || (offset == kFillValue && width == 4 && whole);
  }

  // Explains the first byte that differs, at d, with a word that begins at `from` or later. The end of the
  // word; d when there is none.
  size_t explain(const Place& p, size_t from, size_t d) {
    // Where a table lies is looked at with the table.
    if (const NodeImage& n = first_.nodes[p.node]; !p.table && !n.table.empty()) {
      const size_t source = source_offset(copy_of(n));
      if (d >= source && d < source + 8) return source + 8;
    }
    size_t offsets[9];
    const size_t count = windows(p, from, d, offsets);
    for (size_t k = 0; k < count; ++k) {
      const size_t o = offsets[k];
      const Match m = words_.address(word_at(&p.x[o]), word_at(&p.y[o]));
      if (m.count > 1) {
        difference(p.node, m.argument,
                   fmt::format("{} may be the end of one argument or the begin of another", where(p, o, 8)));
        return o + 8;
      }
      if (m.count == 0) continue;
      if (m.argument >= 0 && !writable(p, o, 8)) continue;
      if (m.argument >= 0) add(p, o, m.argument, 8, static_cast<int64_t>(m.addend));
      return o + 8;
    }
    return explain_scalar(p, from, d);
  }

  // Offsets of 8 bytes that hold d: the aligned one, then those of 4 bytes, then all others.
  static size_t windows(const Place& p, size_t from, size_t d, size_t* out) {
    size_t count = 0;
    for (size_t align : {8u, 4u, 1u})
      for (size_t o = d < 7 ? 0 : d - 7; o <= d; ++o) {
        if (o < from || o + 8 > p.x.size() || o % align) continue;
        if (align == 4 && o % 8 == 0) continue;
        if (align == 1 && o % 4 == 0) continue;
        out[count++] = o;
      }
    return count;
  }

  size_t explain_scalar(const Place& p, size_t from, size_t d) {
    std::vector<int> fitting;
    size_t at = 0, end = 0;
    for (int i : words_.scalars()) {
      const size_t bytes = words_.width(i), same = words_.same_bytes(i);
      if (same > d || d - same < from || d - same + bytes > p.x.size()) continue;
      const size_t o = d - same;
      if (!words_.is(i, word_at(&p.x[o], bytes), word_at(&p.y[o], bytes))) continue;
      if (!writable(p, o, bytes) || !in_one_parameter(p, o, bytes)) continue;
      fitting.push_back(i);
      at = o, end = std::max(end, o + bytes);
    }
    if (fitting.empty()) return d;
    // Several with the same bits cannot be told apart.
    if (fitting.size() > 1)
      ambiguous_.insert(fitting.begin(), fitting.end());
    else
      add(p, at, fitting[0], end - at, 0);
    return end;
  }

  // A narrower parameter with zeros behind it looks like the scalar, and is a conversion of it.
  bool in_one_parameter(const Place& p, size_t offset, size_t width) const {
    if (p.table) return true;
    const std::vector<Parameter>& all = first_.nodes[p.node].parameters;
    return all.empty() || std::any_of(all.begin(), all.end(), [&](const Parameter& q) {
             return q.offset <= offset && offset + width <= q.offset + q.size;
           });
  }

  void add(const Place& p, size_t offset, int argument, size_t width, int64_t addend) {
    found_[static_cast<size_t>(argument)] = true;
    out_.slots.push_back({p.node, static_cast<uint32_t>(offset), static_cast<uint16_t>(argument),
                          static_cast<uint8_t>(width), p.table, addend});
  }

  // ---- what is not explained
  std::string where(const Place& p, size_t offset, size_t width) const {
    const NodeImage& n = first_.nodes[p.node];
    std::string of;
    if (p.table)
      of = "what it copies from the host";
    else if (n.kind == NodeKind::Kernel)
      of = "its parameters";
    else
      of = n.kind == NodeKind::Memcpy ? "its CUDA_MEMCPY3D" : "its CUDA_MEMSET_NODE_PARAMS";
    std::string parameter;
    for (size_t k = 0; !p.table && k < n.parameters.size(); ++k)
      if (offset - n.parameters[k].offset < n.parameters[k].size)
        parameter = fmt::format(", parameter {}", k);
    return fmt::format("bytes {} to {} of {}{}", offset, offset + width - 1, of, parameter);
  }

  void unexplained(const Place& p, size_t from, size_t d) {
    size_t offsets[9];
    const size_t count = windows(p, from, d, offsets);
    const size_t o = count ? offsets[0] : d, width = count ? 8 : 1;
    if (no_memory_ && !p.table && first_.nodes[p.node].kind == NodeKind::Kernel) {
      // An address that means something is one in both captures, and of the same thing. (Pointers are aligned
      // in parameters.)
      const size_t looked = count && offsets[0] % 8 == 0 ? 1 : count;
      bool nothing = true;
      for (size_t k = 0; k < looked; ++k) {
        const uint64_t x = word_at(&p.x[offsets[k]]), y = word_at(&p.y[offsets[k]]);
        nothing = nothing && (no_memory_(x) || no_memory_(y) || words_.known(x, y));
      }
      if (nothing) {
        ++out_.meaningless;
        return;
      }
    }
    const std::string values =
        fmt::format("{}: {:#x} in one capture and {:#x} in another, which is ", where(p, o, width),
                    word_at(&p.x[o], width), word_at(&p.y[o], width));
    int argument = -1;
    std::string guess = "neither an address in an argument nor a live scalar";
    for (size_t k = 0; k < count && argument < 0; ++k)
      argument = words_.guess(word_at(&p.x[offsets[k]]), word_at(&p.y[offsets[k]]), &guess);
    if (const size_t half = d & ~size_t{3}; argument < 0 && half + 4 <= p.x.size())
      argument = words_.guess_half(static_cast<uint32_t>(word_at(&p.x[half], 4)),
                                   static_cast<uint32_t>(word_at(&p.y[half], 4)), &guess);
    difference(p.node, argument, values + guess);
  }

  // ---- what must differ
  void remembered(uint32_t node, uint64_t x, uint64_t y) {
    if (x != y) return;
    for (const Forbidden& f : forbidden_)
      if (f.span.holds(x))
        return problem(
            node, f.argument,
            fmt::format("remembers the address {:#x} of an earlier call{}", x,
                        f.argument < 0 ? std::string() : fmt::format(" (argument {})", f.argument)));
  }
  void remembered(uint32_t node, const std::vector<uint64_t>& x, const std::vector<uint64_t>& y) {
    for (size_t k = 0; k < std::min(x.size(), y.size()); ++k) remembered(node, x[k], y[k]);
  }

  void finish() {
    // A scalar of which nothing is seen may have decided what is launched; one that is seen may be in what is
    // not explained, too.
    std::set<int> fixed = ambiguous_;
    const std::vector<int>& scalars = words_.scalars();
    for (int i : scalars)
      if (!found_[static_cast<size_t>(i)]) fixed.insert(i);
    if (unread_)
      fixed.clear();  // what nobody could read says nothing of them
    else if (differ_ && fixed.empty())
      fixed.insert(scalars.begin(), scalars.end());
    out_.fixed.assign(fixed.begin(), fixed.end());
    std::sort(out_.slots.begin(), out_.slots.end(), [](const Slot& s, const Slot& t) {
      return std::tie(s.argument, s.node, s.in_table, s.offset) <
             std::tie(t.argument, t.node, t.in_table, t.offset);
    });
  }

  const Image &first_, &second_;
  Meanings words_;
  bool (*no_memory_)(uint64_t);
  std::vector<Forbidden> forbidden_;
  std::vector<bool> found_;
  std::set<int> ambiguous_;
  std::set<std::tuple<uint32_t, int, bool>> said_;
  bool differ_ = false, unread_ = false;
  Discovery out_;
};

}  // namespace

Discovery discover(const Image& first, std::span<const Argument> a, const Image& second,
                   std::span<const Argument> b, std::span<const Span64> elsewhere, std::span<const Own> own,
                   bool (*no_memory)(uint64_t)) {
  return Search(first, a, second, b, elsewhere, own, no_memory).run();
}

}  // namespace rondo::replay
