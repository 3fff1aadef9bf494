// Text of a program: an operation a line, `%result = name details arguments : type`, regions indented by two.
#include <fmt/format.h>

#include <iterator>

#include "rondo/ir/infer.h"
#include "rondo/ir/ir.h"

namespace rondo::ir {
namespace {

struct Printer {
  const Program& program;
  const Function& fn;
  std::string out;

  std::string show(TypeId type) const { return program.types.show(type); }
  const Op& op(Value v) const { return fn.ops[static_cast<size_t>(v)]; }

  std::string params(const std::vector<Value>& values) const {
    std::string text;
    for (const Value v : values)
      text += fmt::format("{}%{}: {}", text.empty() ? "" : ", ", v, show(op(v).type));
    return text;
  }
  std::string values(const std::vector<Value>& args) const {
    std::string text;
    for (const Value v : args) text += fmt::format("{}%{}", text.empty() ? "" : ", ", v);
    return text;
  }

  // What stands between the name and the arguments.
  std::string details(const Op& o) const {
    const auto function = [&](int64_t i) { return program.functions[static_cast<size_t>(i)].name; };
    switch (o.code) {
      case Opcode::Int: return std::to_string(o.i);
      case Opcode::Bool: return o.i ? "true" : "false";
      case Opcode::Fill: return fmt::format("{}", o.f);
      case Opcode::Weight: return program.weights[static_cast<size_t>(o.i)].name;
      case Opcode::ReduceSum:
      case Opcode::ReduceMax:
      case Opcode::ReduceMean:
      case Opcode::Softmax:
      case Opcode::LogSoftmax:
      case Opcode::Concat: return fmt::format("axis={}", o.i);
      case Opcode::Slice: return fmt::format("axis={} from={}", o.i, o.j);
      case Opcode::Transpose: return fmt::format("[{}]", fmt::join(o.dims, ","));
      case Opcode::Construct: {
        const Adt& adt = program.types.adts[static_cast<size_t>(program.types[o.type].adt)];
        return adt.constructors[static_cast<size_t>(o.i)].name;
      }
      case Opcode::Field: {
        const Adt& adt = program.types.adts[static_cast<size_t>(program.types[op(o.args[0]).type].adt)];
        const std::string& field = adt.constructors[0].field_names[static_cast<size_t>(o.i)];
        return field.empty() ? std::to_string(o.i) : field;
      }
      case Opcode::TupleGet:
      case Opcode::EmitOut: return std::to_string(o.i);
      case Opcode::Call: return function(o.i);
      case Opcode::Emit:
      case Opcode::Constant: return fmt::format("#{}", o.i);
      default: return {};
    }
  }

  std::string head(const Op& o, size_t region) const {
    const std::string list = params(o.regions[region].params);
    switch (o.code) {
      case Opcode::Match: {
        const Adt& adt = program.types.adts[static_cast<size_t>(program.types[op(o.args[0]).type].adt)];
        const std::string& constructor = adt.constructors[region].name;
        return list.empty() ? constructor : fmt::format("{}({})", constructor, list);
      }
      case Opcode::MatchList: return region == 0 ? "empty" : fmt::format("first({})", list);
      case Opcode::If: return region == 0 ? "then" : "else";
      default: return fmt::format("each({})", list);
    }
  }

  void line(int indent, const std::string& text) {
    fmt::format_to(std::back_inserter(out), "{:{}}{}\n", "", indent, text);
  }

  void region(const Region& r, int indent) {
    for (const Value v : r.body) {
      const Op& o = op(v);
      std::string text = fmt::format("%{} = {}", v, name(o.code));
      if (const std::string d = details(o); !d.empty()) text += " " + d;
      if (!o.args.empty()) {
        // After a word the arguments of a call or a constructor read best in brackets.
        const bool brackets = o.code == Opcode::Call || o.code == Opcode::Construct || o.code == Opcode::Emit;
        const bool detail = !details(o).empty() && !brackets;
        text += brackets ? "(" + values(o.args) + ")" : (detail ? ", " : " ") + values(o.args);
      }
      text += " : " + show(o.type);
      if (o.regions.empty()) {
        line(indent, text);
        continue;
      }
      line(indent, text + " {");
      for (size_t k = 0; k < o.regions.size(); ++k) {
        line(indent + 2, head(o, k) + " => {");
        region(o.regions[k], indent + 4);
        line(indent + 2, "}");
      }
      line(indent, "}");
    }
    line(indent, fmt::format("yield %{}", r.result));
  }
};

std::string print_adt(const TypeTable& types, const Adt& adt) {
  std::string text;
  for (const Constructor& c : adt.constructors) {
    std::string fields;
    for (size_t k = 0; k < c.fields.size(); ++k) {
      fields += fields.empty() ? "" : ", ";
      if (!c.field_names[k].empty()) fields += c.field_names[k] + ": ";
      fields += types.show(c.fields[k]);
    }
    text += (text.empty() ? "" : ", ") + c.name + (fields.empty() ? "" : "(" + fields + ")");
  }
  return fmt::format("type {} {{ {} }}\n", adt.name, text);
}

}  // namespace

std::string print(const Program& program, const Function& function) {
  Printer printer{program, function, {}};
  printer.line(0, fmt::format("fn {}({}) -> {} {{", function.name, printer.params(function.body.params),
                              program.types.show(function.result)));
  printer.region(function.body, 2);
  printer.line(0, "}");
  return printer.out;
}

std::string print(const Program& program) {
  std::string text;
  for (const Adt& adt : program.types.adts) text += print_adt(program.types, adt);
  for (const Weight& w : program.weights)
    text += fmt::format("weight {}: {}\n", w.name, program.types.show(w.type));
  for (const Function& fn : program.functions) text += print(program, fn);
  return text;
}

}  // namespace rondo::ir
