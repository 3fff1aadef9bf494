// The host side of a program as C++: walks one instance and appends records; no tensor is touched.
//
// How values stand in the text. A value is its components: int64_t, bool, Ref (a tensor), List, or const
// Word* (a node of an algebraic type); a tuple has the components of its elements, so tuples cost nothing. In
// memory (list elements, fields of nodes, arguments, results) components become words as rondo/types.h says.
// A function takes components and returns them in a struct of its own; a recursive one looks at the stack
// pointer first. What is built while walking lies in the recorder's arena; constructors without fields are
// shared constants. A block becomes an inline function that checks its indices, takes the depth from its
// operands and appends a record.
#include "rondo/codegen/host_module.h"

namespace rondo::codegen {
namespace host {

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

}  // namespace host

std::string emit_host_program(const plan::Plan& plan, const ir::Program& program) {
  return host::Module(plan, program).write();
}

}  // namespace rondo::codegen

