// The outside of a generated host program: its helpers, how values are laid out in words, a function a block that appends
// a record, the entry point. The inside of functions is host.cpp's. Private to codegen/host.cpp.
#pragma once
#include <fmt/format.h>

#include <cctype>
#include <string>
#include <vector>

#include "rondo/codegen/codegen.h"
#include "rondo/codegen/expr.h"
#include "rondo/codegen/prelude.h"
#include "rondo/error.h"

namespace rondo::codegen::host {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

inline constexpr const char* kHelpers = R"(
using namespace rondo::abi;

namespace {

// One store.
inline void put_ref(uint32_t* to, Ref ref) { memcpy(to, &ref, sizeof ref); }
// Integers wrap around; the compiler may not assume otherwise.
inline int64_t add_ints(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
inline int64_t sub_ints(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
inline int64_t mul_ints(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
inline int64_t div_ints(Recorder* r, int32_t line, int64_t a, int64_t b) {
  if (b == 0) r->fault(r, kDivideByZero, line, a, b);
  return b == -1 ? sub_ints(0, a) : a / b;
}
inline int64_t mod_ints(Recorder* r, int32_t line, int64_t a, int64_t b) {
  if (b == 0) r->fault(r, kDivideByZero, line, a, b);
  return b == -1 ? 0 : a % b;
}
// More words than an address can count (a range may have 2^64 - 1 items) are as many as nobody has.
inline Word* words_for(Recorder* r, uint64_t count) {
  return (Word*)allocate(r, count <= UINT64_MAX / 16 ? count * sizeof(Word) : UINT64_MAX / 4);
}
inline List append_lists(Recorder* r, List a, List b, uint64_t words) {
  if (a.length == 0) return b;
  if (b.length == 0) return a;
  Word* to = words_for(r, (a.length + b.length) * words);
  memcpy(to, a.data, a.length * words * sizeof(Word));
  memcpy(to + a.length * words, b.data, b.length * words * sizeof(Word));
  return List{to, a.length + b.length};
}
inline List reverse_list(Recorder* r, List a, uint64_t words) {
  Word* to = words_for(r, a.length * words);
  for (uint64_t i = 0; i < a.length; ++i)
    for (uint64_t w = 0; w < words; ++w) to[i * words + w] = a.data[(a.length - 1 - i) * words + w];
  return List{to, a.length};
}
inline List range_list(Recorder* r, int64_t lo, int64_t hi) {
  const uint64_t length = hi > lo ? (uint64_t)hi - (uint64_t)lo : 0;
  Word* to = words_for(r, length);
  for (uint64_t i = 0; i < length; ++i) to[i] = (Word)lo + i;
  return List{to, length};
}
)";

enum class Part { Int, Bool, Ref, List, Node };

inline const char* cpp_type(Part part) {
  switch (part) {
    case Part::Int:
      return "int64_t";
    case Part::Bool:
      return "bool";
    case Part::Ref:
      return "Ref";
    case Part::List:
      return "List";
    case Part::Node:
      return "const Word*";
  }
  return "";
}
inline int words_of(Part part) { return part == Part::List ? 2 : 1; }

inline void append_parts(const TypeTable& types, TypeId id, std::vector<Part>* parts) {
  const Type& type = types[id];
  switch (type.kind) {
    case TypeKind::Int:
      parts->push_back(Part::Int);
      break;
    case TypeKind::Bool:
      parts->push_back(Part::Bool);
      break;
    case TypeKind::Tensor:
      parts->push_back(Part::Ref);
      break;
    case TypeKind::List:
      parts->push_back(Part::List);
      break;
    case TypeKind::Adt:
      parts->push_back(Part::Node);
      break;
    case TypeKind::Tuple:
      for (const TypeId element : type.args) append_parts(types, element, parts);
      break;
  }
}
inline std::vector<Part> parts_of(const TypeTable& types, TypeId id) {
  std::vector<Part> parts;
  append_parts(types, id, &parts);
  return parts;
}

inline std::string load_part(Part part, const std::string& from, int64_t at) {
  const std::string word = at == 0 ? fmt::format("*({})", from) : fmt::format("({})[{}]", from, at);
  switch (part) {
    case Part::Int:
      return "(int64_t)" + word;
    case Part::Bool:
      return word + " != 0";
    case Part::Ref:
      return "ref_of(" + word + ")";
    case Part::List:
      return fmt::format("List{{(const Word*){}, ({})[{}]}}", word, from, at + 1);
    case Part::Node:
      return "(const Word*)" + word;
  }
  return "";
}

using Parts = std::vector<std::string>;  // the text of each component of a value

class Module {
 public:
  Module(const plan::Plan& plan, const ir::Program& host) : plan_(plan), host_(host) {
    for (size_t f = 0; f < host.functions.size(); ++f) recursive_.push_back(reaches(static_cast<int32_t>(f)));
  }

  std::string write() {
    text_.line(fmt::format("// The host side of {}, made by Rondo.", plan_.name));
    // Records are a few words from as many registers: to gather them into vectors first takes longer than to
    // store them.
    text_.line("#pragma GCC optimize(\"no-tree-slp-vectorize\")");
    text_.raw(kAbiText);
    text_.raw(kHelpers);
    write_empty_nodes();
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      if (plan_.blocks[b].result_pool < 0) write_block(static_cast<int32_t>(b));
    for (size_t f = 0; f < host_.functions.size(); ++f)
      text_.line(declaration(static_cast<int32_t>(f), true) + ";");
    for (size_t f = 0; f < host_.functions.size(); ++f) write_function(static_cast<int32_t>(f));
    write_run();
    return text_.str();
  }

  const plan::Plan& plan() const { return plan_; }
  const ir::Program& host() const { return host_; }
  Text& text() { return text_; }
  std::vector<Part> parts(TypeId type) const { return parts_of(host_.types, type); }
  int64_t words(TypeId type) const { return host_.types.words(type); }
  std::string function_name(int32_t f) const {
    std::string name = fmt::format("f{}_", f);
    for (const char c : host_.functions[static_cast<size_t>(f)].name)
      name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return name;
  }
  bool recursive(int32_t f) const { return recursive_[static_cast<size_t>(f)]; }

  // Words at `from` -> components; and back.
  Parts load(TypeId type, const std::string& from, int64_t at = 0) const {
    Parts loaded;
    for (const Part part : parts(type)) {
      loaded.push_back(load_part(part, from, at));
      at += words_of(part);
    }
    return loaded;
  }
  void store(TypeId type, const Parts& values, const std::string& to, int64_t at = 0) {
    const std::vector<Part> kinds = parts(type);
    for (size_t k = 0; k < kinds.size(); ++k) {
      const std::string& v = values[k];
      switch (kinds[k]) {
        case Part::Ref:
          text_.line(fmt::format("{}[{}] = word_of({});", to, at, v));
          break;
        case Part::List:
          text_.line(fmt::format("{}[{}] = (Word)({}).data;", to, at, v));
          text_.line(fmt::format("{}[{}] = ({}).length;", to, at + 1, v));
          break;
        default:
          text_.line(fmt::format("{}[{}] = (Word){};", to, at, v));
          break;
      }
      at += words_of(kinds[k]);
    }
  }

 private:
  bool reaches(int32_t target) const {
    std::vector<bool> seen(host_.functions.size(), false);
    std::vector<int32_t> open{target};
    while (!open.empty()) {
      const int32_t f = open.back();
      open.pop_back();
      for (const Op& op : host_.functions[static_cast<size_t>(f)].ops) {
        if (op.code != Opcode::Call) continue;
        const auto callee = static_cast<int32_t>(op.i);
        if (callee == target) return true;
        if (seen[static_cast<size_t>(callee)]) continue;
        seen[static_cast<size_t>(callee)] = true;
        open.push_back(callee);
      }
    }
    return false;
  }

  // A constructor without fields is its tag alone.
  void write_empty_nodes() {
    size_t most = 1;
    for (const Adt& adt : host_.types.adts) most = std::max(most, adt.constructors.size());
    std::string tags;
    for (size_t t = 0; t < most; ++t) tags += fmt::format("{}{}", t == 0 ? "" : ", ", t);
    text_.line(fmt::format("const Word empty_nodes[] = {{{}}};", tags));
  }

  void write_block(int32_t number) {
    const plan::Block& block = plan_.blocks[static_cast<size_t>(number)];
    const std::string line = block.source.substr(block.source.find_last_of(':') + 1);
    const bool has_line = !line.empty() && line.find_first_not_of("0123456789") == std::string::npos;
    std::string params = "Recorder* r";
    for (size_t c = 0; c < block.operands.size(); ++c)
      params += block.operands[c].is_int ? fmt::format(", int64_t n{}", c) : fmt::format(", Ref a{}", c);
    text_.line("");
    text_.line(fmt::format("// {} ({})", block.name, block.source));
    text_.open(fmt::format("inline Ref emit_{}({})", number, params));
    for (size_t c = 0; c < block.operands.size(); ++c) {
      const plan::Operand& operand = block.operands[c];
      if (!operand.is_int) continue;
      // An int that is not an index becomes a float on the device, where it has 32 bits.
      if (operand.size > 0)
        text_.line(fmt::format("if ((uint64_t)n{0} >= {1}u) r->fault(r, kRowRange, {2}, n{0}, {1});", c,
                               operand.size, has_line ? line : "0"));
      else
        text_.line(fmt::format("if (n{0} != (int32_t)n{0}) r->fault(r, kIntRange, {1}, n{0}, 0);", c,
                               has_line ? line : "0"));
    }
    const uint32_t base = static_cast<uint32_t>(block.phase) << (28 - plan_.block_bits);
    text_.line(fmt::format("uint32_t level = {}u;", base + static_cast<uint32_t>(block.first_level) - 1));
    if (!block.fixed_level)
      for (int32_t c = 0; c < block.tensors; ++c)
        if (block.depth_operand.at(static_cast<size_t>(c)))
          text_.line(fmt::format("level = a{0}.bucket >> {1} > level ? a{0}.bucket >> {1} : level;", c,
                                 plan_.block_bits));
    text_.line("uint32_t row, bucket;");
    const auto words = 1 + 2 * static_cast<size_t>(block.tensors) +
                       (block.operands.size() - static_cast<size_t>(block.tensors));
    text_.line(fmt::format("uint32_t* const w = append(r, {}, {}, level + 1 - {}u, {}, {}, &row, &bucket);",
                           block.phase, number, base, plan_.block_bits, words));
    size_t at = 1;
    for (size_t c = 0; c < block.operands.size(); ++c) {
      if (block.operands[c].is_int) {
        text_.line(fmt::format("w[{}] = (uint32_t)n{};", at++, c));
      } else {
        text_.line(fmt::format("put_ref(w + {}, a{});", at, c));
        at += 2;
      }
    }
    text_.line("return Ref{bucket, row};");
    text_.close();
  }

  // "struct R3 {..}; static R3 f3_name(Recorder* r, ...)"; parameters are named as the values that they are.
  std::string declaration(int32_t f, bool with_struct) const {
    const Function& fn = host_.functions[static_cast<size_t>(f)];
    std::string text;
    if (with_struct) {
      text = fmt::format("struct R{} {{", f);
      const std::vector<Part> result = parts(fn.result);
      for (size_t k = 0; k < result.size(); ++k) text += fmt::format(" {} p{};", cpp_type(result[k]), k);
      text += " };\n";
    }
    // A recursion that the compiler may unroll finds its leaves without a call.
    text += fmt::format("{}R{} {}(Recorder* r", recursive(f) ? "inline " : "", f, function_name(f));
    for (const Value param : fn.body.params) {
      const std::vector<Part> kinds = parts(fn.ops[static_cast<size_t>(param)].type);
      for (size_t k = 0; k < kinds.size(); ++k)
        text += fmt::format(", {} v{}_{}", cpp_type(kinds[k]), param, k);
    }
    return text + ")";
  }

  void write_function(int32_t f);

  void write_run() {
    const Function& main = host_.functions.at(static_cast<size_t>(host_.main));
    text_.line("");
    text_.open("void run(Recorder* r, const Word* arguments, Word* result)");
    std::string call = "r";
    int64_t at = 0;
    for (const Value param : main.body.params) {
      const TypeId type = main.ops[static_cast<size_t>(param)].type;
      for (const std::string& part : load(type, "arguments", at)) call += ", " + part;
      at += words(type);
    }
    text_.line(fmt::format("const R{} x = {}({});", host_.main, function_name(host_.main), call));
    Parts results;
    for (size_t k = 0; k < parts(main.result).size(); ++k) results.push_back(fmt::format("x.p{}", k));
    store(main.result, results, "result");
    text_.close();
    text_.line("");
    text_.line(fmt::format("const Program program = {{kVersion, {}, run}};", plan_.blocks.size()));
    text_.line("}  // namespace");
    text_.line("extern \"C\" const rondo::abi::Program* rondo_program() { return &program; }");
  }

  const plan::Plan& plan_;
  const ir::Program& host_;
  std::vector<bool> recursive_;
  Text text_;
};

}  // namespace rondo::codegen::host
