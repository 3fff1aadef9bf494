#include "rondo/analysis/facts.h"

#include <fmt/format.h>

#include <iterator>

#include "rondo/analysis/depth.h"
#include "rondo/analysis/phases.h"

namespace rondo::analysis {
namespace {
using ir::Opcode;
using ir::Value;

struct Printer {
  const Facts& facts;
  const ir::Program& program;
  std::string out;

  template <class... T>
  void line(fmt::format_string<T...> text, T&&... args) {
    fmt::format_to(std::back_inserter(out), text, std::forward<T>(args)...);
    out += '\n';
  }
  const ir::Op& op(int32_t f, Value v) const {
    return program.functions[static_cast<size_t>(f)].ops[static_cast<size_t>(v)];
  }
  static std::string place(ir::Loc loc) { return fmt::format("{}:{}", loc.line, loc.column); }
  std::string names(const std::vector<int32_t>& recursions) const {
    std::string text;
    for (const int32_t r : recursions)
      text += (text.empty() ? "" : ", ") + facts.recursions.list[static_cast<size_t>(r)].name;
    return text;
  }

  void recursions() {
    out += "recursions\n";
    for (const Recursion& r : facts.recursions.list) line("  {}", r.name);
  }

  // What each operation of a block reads: its own block's results, operands, or what is repeated inside.
  void block(const BlockFact& b) {
    const auto type = [&](Value v) { return program.types.show(op(b.function, v).type); };
    std::string operands;
    for (const Value v : b.tensors) operands += (operands.empty() ? "" : ", ") + type(v);
    for (size_t k = 0; k < b.ints.size(); ++k) operands += operands.empty() ? "int" : ", int";
    std::string outputs;
    for (const Value v : b.outputs) outputs += (outputs.empty() ? "" : ", ") + type(v);
    line("  {} at {}: ({}) -> ({})", b.name, place(b.loc), operands, outputs);
    std::string members;
    for (const Value v : b.members)
      members += (members.empty() ? "" : " ") + std::string(ir::name(op(b.function, v).code));
    line("    {}", members);
  }

  void hoist(const BlockFact& b) {
    if (!b.climbs.empty()) return line("  {} depends on {}", b.name, names(b.climbs));
    const auto& reached =
        facts.recursions.climbs[static_cast<size_t>(facts.flow.node(b.function, b.members.back()))];
    if (!reached.empty()) return line("  {} uses what {} made in an earlier phase", b.name, names(reached));
    std::vector<int32_t> around;
    for (size_t r = 0; r < facts.recursions.list.size(); ++r)
      if (facts.recursions.in_territory(static_cast<int32_t>(r), facts.flow, b.function, b.region))
        around.push_back(static_cast<int32_t>(r));
    if (!around.empty()) line("  {} does not depend on {}: hoisted", b.name, names(around));
  }

  void depth(const BlockFact& b) {
    if (b.first_level == b.last_level) return line("  {}: level {}", b.name, b.first_level);
    std::string looked;
    for (size_t k = 0; k < b.look_up.size(); ++k)
      if (b.look_up[k]) looked += (looked.empty() ? "" : ", ") + std::to_string(k);
    const std::string last = b.last_level < 0 ? "" : std::to_string(b.last_level);
    line("  {}: levels {}..{}, looks at operand {} of {}", b.name, b.first_level, last, looked,
         b.tensors.size());
  }

  std::string call(int32_t f, Value v) const {
    const ir::Op& o = op(f, v);
    const std::string what = o.code == Opcode::Call ? program.functions[static_cast<size_t>(o.i)].name
                                                    : std::string(ir::name(o.code));
    return fmt::format("{} at {}", what, place(o.loc));
  }

  void run() {
    const std::vector<BlockFact>& blocks = facts.blocks.list;
    recursions();
    out += "blocks\n";
    for (const BlockFact& b : blocks) block(b);
    out += "hoist\n";
    for (const BlockFact& b : blocks) hoist(b);
    out += "phases\n";
    for (int32_t p = 0; p < facts.blocks.phases; ++p) {
      std::string text;
      for (const BlockFact& b : blocks)
        if (b.phase == p) text += " " + b.name;
      line("  {}:{}", p, text);
    }
    out += "depth\n";
    for (const BlockFact& b : blocks) depth(b);
    out += "concurrency\n";
    for (const Meeting& m : facts.concurrency.meetings) {
      std::string text;
      for (const int32_t b : m.blocks) text += " " + blocks[static_cast<size_t>(b)].name;
      const std::string range = m.to_level == m.from_level ? fmt::format("level {}", m.from_level)
                                : m.to_level < 0           ? fmt::format("levels {}..", m.from_level)
                                                 : fmt::format("levels {}..{}", m.from_level, m.to_level);
      line("  phase {} {}:{}", m.phase, range, text);
    }
    for (const IndependentCalls& c : facts.concurrency.calls)
      line("  {} and {} are independent", call(c.function, c.first), call(c.function, c.second));
  }
};

}  // namespace

Facts find_facts(const ir::Program& specialised) {
  Facts facts;
  facts.flow = find_flow(specialised);
  facts.recursions = find_recursions(specialised, facts.flow);
  const std::vector<int32_t> phases = find_phases(specialised, facts.flow, facts.recursions);
  facts.blocks = find_blocks(specialised, facts.flow, facts.recursions, phases);
  find_depths(specialised, facts.flow, &facts.blocks);
  facts.concurrency = find_concurrency(specialised, facts.blocks);
  return facts;
}

std::string print(const Facts& facts, const ir::Program& specialised) {
  Printer printer{facts, specialised, {}};
  printer.run();
  return printer.out;
}

}  // namespace rondo::analysis
