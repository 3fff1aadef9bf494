// The host side of a program as C++: walks one instance and appends records; no tensor is touched.
//
// How values stand in the text. A value is its components: int64_t, bool, Ref (a tensor), List, or const
// Word* (a node of an algebraic type); a tuple has the components of its elements, so tuples cost nothing. In
// memory (list elements, fields of nodes, arguments, results) components become words as rondo/types.h says.
// A function takes components and returns them in a struct of its own; a recursive one looks at the stack
// pointer first. What is built while walking lies in the recorder's arena; constructors without fields are
// shared constants. A block becomes an inline function that checks its indices, takes the depth from its
// operands and appends a record.
#include <fmt/format.h>

#include <cctype>

#include "rondo/codegen/codegen.h"
#include "rondo/codegen/expr.h"
#include "rondo/codegen/prelude.h"
#include "rondo/error.h"

namespace rondo::codegen {

namespace {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Region;
using ir::Value;

constexpr const char* kHelpers = R"(
using namespace rondo::abi;

namespace {

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
inline Word* words_for(Recorder* r, uint64_t count) { return (Word*)allocate(r, count * sizeof(Word)); }
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

const char* cpp_type(Part part) {
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
int words_of(Part part) { return part == Part::List ? 2 : 1; }

void append_parts(const TypeTable& types, TypeId id, std::vector<Part>* parts) {
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
std::vector<Part> parts_of(const TypeTable& types, TypeId id) {
  std::vector<Part> parts;
  append_parts(types, id, &parts);
  return parts;
}

std::string load_part(Part part, const std::string& from, int64_t at) {
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
        text_.line(fmt::format("w[{}] = a{}.bucket;", at++, c));
        text_.line(fmt::format("w[{}] = a{}.slot;", at++, c));
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
    text += fmt::format("R{} {}(Recorder* r", f, function_name(f));
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

class FunctionWriter {
 public:
  FunctionWriter(Module* module, int32_t f)
      : m_(*module),
        text_(module->text()),
        number_(f),
        fn_(m_.host().functions[static_cast<size_t>(f)]),
        values_(fn_.ops.size()) {}

  void write() {
    for (const Value param : fn_.body.params) name(param);
    if (m_.recursive(number_))
      text_.line(
          fmt::format("if ((const char*)__builtin_frame_address(0) < r->stack_limit) "
                      "r->fault(r, kTooDeep, {}, 0, 0);",
                      fn_.loc.line));
    body(fn_.body);
    std::string list;
    for (const std::string& part : value(fn_.body.result)) list += (list.empty() ? "" : ", ") + part;
    text_.line(fmt::format("return R{}{{{}}};", number_, list));
  }

 private:
  const Op& op(Value v) const { return fn_.ops[static_cast<size_t>(v)]; }
  const Parts& value(Value v) const { return values_[static_cast<size_t>(v)]; }
  const std::string& one(Value v) const { return values_[static_cast<size_t>(v)].at(0); }
  std::string joined(const std::vector<Value>& args) const {
    std::string text;
    for (const Value a : args)
      for (const std::string& part : value(a)) text += ", " + part;
    return text;
  }
  TypeId element(Value list) const { return m_.host().types[op(list).type].args.at(0); }

  // v<number>_<component>, the names of a value that is a variable.
  const Parts& name(Value v) {
    Parts& parts = values_[static_cast<size_t>(v)];
    parts.clear();
    const size_t count = m_.parts(op(v).type).size();
    for (size_t k = 0; k < count; ++k) parts.push_back(fmt::format("v{}_{}", v, k));
    return parts;
  }
  // Defines variables for v with these values.
  void define(Value v, const Parts& as) {
    const std::vector<Part> kinds = m_.parts(op(v).type);
    const Parts& parts = name(v);
    for (size_t k = 0; k < kinds.size(); ++k)
      text_.line(fmt::format("{} const {} = {};", cpp_type(kinds[k]), parts[k], as.at(k)));
  }
  void declare(Value v) {
    const std::vector<Part> kinds = m_.parts(op(v).type);
    const Parts& parts = name(v);
    for (size_t k = 0; k < kinds.size(); ++k) text_.line(fmt::format("{} {};", cpp_type(kinds[k]), parts[k]));
  }
  void assign(Value v, Value from) {
    const Parts& to = value(v);
    for (size_t k = 0; k < to.size(); ++k) text_.line(fmt::format("{} = {};", to[k], value(from)[k]));
  }

  void body(const Region& region) {
    for (const Value v : region.body) write(v);
  }
  // A region whose result becomes v's.
  void branch(const Region& region, Value v) {
    body(region);
    assign(v, region.result);
  }

  void write(Value v);
  void write_match(Value v);
  void write_loop(Value v);
  void write_zip(Value v);

  Module& m_;
  Text& text_;
  int32_t number_;
  const Function& fn_;
  std::vector<Parts> values_;
};

void Module::write_function(int32_t f) {
  text_.line("");
  text_.open(declaration(f, false));
  FunctionWriter(this, f).write();
  text_.close();
}

void FunctionWriter::write(Value v) {
  const Op& o = op(v);
  const auto a = [&](size_t k) -> const std::string& { return one(o.args[k]); };
  const auto simple = [&](const std::string& text) { define(v, {text}); };
  const auto binary = [&](const char* sign) { simple(fmt::format("{} {} {}", a(0), sign, a(1))); };
  const auto call = [&](const char* function) { simple(fmt::format("{}({}, {})", function, a(0), a(1))); };
  switch (o.code) {
    case Opcode::Arg:
      break;
    // INT64_MIN has no literal of its own.
    case Opcode::Int:
      values_[static_cast<size_t>(v)] = {fmt::format("(int64_t){}u", static_cast<uint64_t>(o.i))};
      break;
    case Opcode::Bool:
      values_[static_cast<size_t>(v)] = {o.i != 0 ? "true" : "false"};
      break;
    case Opcode::IAdd:
      call("add_ints");
      break;
    case Opcode::ISub:
      call("sub_ints");
      break;
    case Opcode::IMul:
      call("mul_ints");
      break;
    case Opcode::IDiv:
      simple(fmt::format("div_ints(r, {}, {}, {})", o.loc.line, a(0), a(1)));
      break;
    case Opcode::IMod:
      simple(fmt::format("mod_ints(r, {}, {}, {})", o.loc.line, a(0), a(1)));
      break;
    case Opcode::INeg:
      simple(fmt::format("sub_ints(0, {})", a(0)));
      break;
    case Opcode::IMin:
      simple(fmt::format("{0} < {1} ? {0} : {1}", a(0), a(1)));
      break;
    case Opcode::IMax:
      simple(fmt::format("{0} > {1} ? {0} : {1}", a(0), a(1)));
      break;
    case Opcode::ILt:
      binary("<");
      break;
    case Opcode::ILe:
      binary("<=");
      break;
    case Opcode::IEq:
      binary("==");
      break;
    case Opcode::INe:
      binary("!=");
      break;
    case Opcode::And:
      binary("&&");
      break;
    case Opcode::Or:
      binary("||");
      break;
    case Opcode::Not:
      simple("!" + a(0));
      break;
    case Opcode::Tuple:
    case Opcode::Concurrent: {
      Parts parts;
      for (const Value arg : o.args) parts.insert(parts.end(), value(arg).begin(), value(arg).end());
      values_[static_cast<size_t>(v)] = parts;
      break;
    }
    case Opcode::Phase:
      values_[static_cast<size_t>(v)] = value(o.args[0]);
      break;
    case Opcode::TupleGet: {
      const Type& tuple = m_.host().types[op(o.args[0]).type];
      size_t first = 0;
      for (int64_t k = 0; k < o.i; ++k) first += m_.parts(tuple.args[static_cast<size_t>(k)]).size();
      const Parts& all = value(o.args[0]);
      const size_t count = m_.parts(o.type).size();
      values_[static_cast<size_t>(v)] = Parts(all.begin() + static_cast<std::ptrdiff_t>(first),
                                              all.begin() + static_cast<std::ptrdiff_t>(first + count));
      break;
    }
    case Opcode::Construct: {
      if (o.args.empty()) {
        values_[static_cast<size_t>(v)] = {fmt::format("(empty_nodes + {})", o.i)};
        break;
      }
      int64_t words = 1;
      for (const Value arg : o.args) words += m_.words(op(arg).type);
      text_.line(fmt::format("Word* const w{} = words_for(r, {});", v, words));
      text_.line(fmt::format("w{}[0] = {};", v, o.i));
      words = 1;
      for (const Value arg : o.args) {
        m_.store(op(arg).type, value(arg), fmt::format("w{}", v), words);
        words += m_.words(op(arg).type);
      }
      define(v, {fmt::format("w{}", v)});
      break;
    }
    case Opcode::Field: {
      const Type& adt = m_.host().types[op(o.args[0]).type];
      const Constructor& c = m_.host().types.adts[static_cast<size_t>(adt.adt)].constructors.at(0);
      int64_t at = 1;
      for (int64_t k = 0; k < o.i; ++k) at += m_.words(c.fields[static_cast<size_t>(k)]);
      define(v, m_.load(o.type, a(0), at));
      break;
    }
    case Opcode::List: {
      if (o.args.empty()) {
        values_[static_cast<size_t>(v)] = {"List{nullptr, 0}"};
        break;
      }
      const int64_t words = m_.words(op(o.args[0]).type);
      text_.line(
          fmt::format("Word* const w{} = words_for(r, {});", v, words * static_cast<int64_t>(o.args.size())));
      for (size_t k = 0; k < o.args.size(); ++k)
        m_.store(op(o.args[k]).type, value(o.args[k]), fmt::format("w{}", v),
                 words * static_cast<int64_t>(k));
      define(v, {fmt::format("List{{w{}, {}}}", v, o.args.size())});
      break;
    }
    case Opcode::ListGet:
      text_.line(fmt::format(
          "if ((uint64_t){0} >= ({1}).length) r->fault(r, kListRange, {2}, {0}, (int64_t)({1}).length);",
          a(1), a(0), o.loc.line));
      define(v, m_.load(o.type, fmt::format("({}).data + {} * {}", a(0), a(1), m_.words(o.type))));
      break;
    case Opcode::Len:
      simple(fmt::format("(int64_t)({}).length", a(0)));
      break;
    case Opcode::Cons: {
      const TypeId type = op(o.args[0]).type;
      const int64_t words = m_.words(type);
      text_.line(fmt::format("Word* const w{} = words_for(r, (({}).length + 1) * {});", v, a(1), words));
      m_.store(type, value(o.args[0]), fmt::format("w{}", v));
      text_.line(fmt::format(
          "if (({0}).length != 0) memcpy(w{1} + {2}, ({0}).data, ({0}).length * {2} * sizeof(Word));", a(1),
          v, words));
      define(v, {fmt::format("List{{w{}, ({}).length + 1}}", v, a(1))});
      break;
    }
    case Opcode::Append:
      simple(fmt::format("append_lists(r, {}, {}, {})", a(0), a(1), m_.words(element(v))));
      break;
    case Opcode::Reverse:
      simple(fmt::format("reverse_list(r, {}, {})", a(0), m_.words(element(v))));
      break;
    case Opcode::Range:
      simple(fmt::format("range_list(r, {}, {})", a(0), a(1)));
      break;
    case Opcode::Zip:
      write_zip(v);
      break;
    case Opcode::Call: {
      text_.line(fmt::format("const R{} c{} = {}(r{});", o.i, v, m_.function_name(static_cast<int32_t>(o.i)),
                             joined(o.args)));
      Parts parts;
      for (size_t k = 0; k < m_.parts(o.type).size(); ++k) parts.push_back(fmt::format("c{}.p{}", v, k));
      values_[static_cast<size_t>(v)] = parts;
      break;
    }
    case Opcode::Match:
    case Opcode::MatchList:
    case Opcode::If:
      write_match(v);
      break;
    case Opcode::Map:
    case Opcode::Fold:
    case Opcode::Scan:
      write_loop(v);
      break;
    case Opcode::Emit:
      // The handle is {bucket, row of the bucket}.
      text_.line(fmt::format("const Ref h{} = emit_{}(r{});", v, o.i, joined(o.args)));
      break;
    case Opcode::EmitOut: {
      const plan::Block& block = m_.plan().blocks.at(static_cast<size_t>(op(o.args[0]).i));
      const plan::Output& out = block.outputs.at(static_cast<size_t>(o.i));
      const int32_t rows = block.pool_rows.at(static_cast<size_t>(out.pool));
      define(v, {fmt::format("Ref{{h{0}.bucket, h{0}.slot * {1} + {2}}}", o.args[0], rows, out.sub)});
      break;
    }
    case Opcode::Constant:
      values_[static_cast<size_t>(v)] = {
          fmt::format("Ref{{0, {}}}", m_.plan().constants.at(static_cast<size_t>(o.i)).row)};
      break;
    default:
      throw Error(ErrorKind::Internal,
                  fmt::format("host program: function {} still holds the tensor operation {} (%{}); "
                              "only blocks compute tensors",
                              fn_.name, ir::name(o.code), v));
  }
}

void FunctionWriter::write_match(Value v) {
  const Op& o = op(v);
  declare(v);
  const std::string& on = one(o.args[0]);
  if (o.code == Opcode::If) {
    text_.open(fmt::format("if ({})", on));
    branch(o.regions[0], v);
    text_.close();
    text_.open("else");
    branch(o.regions[1], v);
    text_.close();
    return;
  }
  if (o.code == Opcode::MatchList) {
    text_.open(fmt::format("if (({}).length == 0)", on));
    branch(o.regions[0], v);
    text_.close();
    text_.open("else");
    const TypeId type = element(o.args[0]);
    define(o.regions[1].params[0], m_.load(type, fmt::format("({}).data", on)));
    define(o.regions[1].params[1],
           {fmt::format("List{{({0}).data + {1}, ({0}).length - 1}}", on, m_.words(type))});
    branch(o.regions[1], v);
    text_.close();
    return;
  }
  text_.open(fmt::format("switch (({})[0])", on));
  for (size_t c = 0; c < o.regions.size(); ++c) {
    text_.open(fmt::format("case {}:", c));
    int64_t at = 1;
    for (const Value param : o.regions[c].params) {
      define(param, m_.load(op(param).type, on, at));
      at += m_.words(op(param).type);
    }
    branch(o.regions[c], v);
    text_.line("break;");
    text_.close();
  }
  text_.line("default: __builtin_unreachable();");
  text_.close();
}

// map, fold and scan: a loop over the list; the accumulator is a variable, results go to an array.
void FunctionWriter::write_loop(Value v) {
  const Op& o = op(v);
  const std::string& list = one(o.args[0]);
  const TypeId item = element(o.args[0]);
  const Region& region = o.regions[0];
  const bool folds = o.code != Opcode::Map, builds = o.code != Opcode::Fold;
  const TypeId made = builds ? element(v) : o.type;
  if (builds)
    text_.line(fmt::format("Word* const w{} = words_for(r, ({}).length * {});", v, list, m_.words(made)));
  if (folds) {
    const std::vector<Part> kinds = m_.parts(op(region.params[0]).type);
    const Parts init = value(o.args[1]);
    const Parts& acc = name(region.params[0]);
    for (size_t k = 0; k < kinds.size(); ++k)
      text_.line(fmt::format("{} {} = {};", cpp_type(kinds[k]), acc[k], init[k]));
  }
  text_.open(fmt::format("for (uint64_t i{0} = 0; i{0} < ({1}).length; ++i{0})", v, list));
  define(region.params[folds ? 1 : 0],
         m_.load(item, fmt::format("({}).data + i{} * {}", list, v, m_.words(item))));
  body(region);
  if (folds) {
    // All components of the next accumulator are read before one is overwritten: the result may swap them.
    const std::vector<Part> kinds = m_.parts(op(region.params[0]).type);
    for (size_t k = 0; k < kinds.size(); ++k)
      text_.line(fmt::format("{} const n{}_{} = {};", cpp_type(kinds[k]), v, k, value(region.result)[k]));
    for (size_t k = 0; k < kinds.size(); ++k)
      text_.line(fmt::format("{} = n{}_{};", value(region.params[0])[k], v, k));
  }
  if (builds) {
    text_.line(fmt::format("Word* const x{0} = w{0} + i{0} * {1};", v, m_.words(made)));
    m_.store(made, value(folds ? region.params[0] : region.result), fmt::format("x{}", v));
  }
  text_.close();
  if (builds)
    define(v, {fmt::format("List{{w{}, ({}).length}}", v, list)});
  else
    values_[static_cast<size_t>(v)] = value(region.params[0]);
}

void FunctionWriter::write_zip(Value v) {
  const Op& o = op(v);
  text_.line(fmt::format("uint64_t z{} = ({}).length;", v, one(o.args[0])));
  for (size_t k = 1; k < o.args.size(); ++k)
    text_.line(fmt::format("z{0} = ({1}).length < z{0} ? ({1}).length : z{0};", v, one(o.args[k])));
  const int64_t words = m_.words(element(v));
  text_.line(fmt::format("Word* const w{0} = words_for(r, z{0} * {1});", v, words));
  text_.open(fmt::format("for (uint64_t i = 0; i < z{}; ++i)", v));
  int64_t at = 0;
  for (const Value list : o.args) {
    const int64_t each = m_.words(element(list));
    for (int64_t w = 0; w < each; ++w)
      text_.line(
          fmt::format("w{}[i * {} + {}] = ({}).data[i * {} + {}];", v, words, at++, one(list), each, w));
  }
  text_.close();
  define(v, {fmt::format("List{{w{0}, z{0}}}", v)});
}

}  // namespace

std::string emit_host_program(const plan::Plan& plan, const ir::Program& host) {
  return Module(plan, host).write();
}

}  // namespace rondo::codegen
