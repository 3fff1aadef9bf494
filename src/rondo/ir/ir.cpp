#include "rondo/ir/ir.h"

#include <fmt/format.h>

#include "rondo/error.h"

namespace rondo::ir {

const char* name(Opcode code) {
  switch (code) {  // no default: the compiler names an opcode that is missing here
    case Opcode::Arg: return "arg";
    case Opcode::Int: return "int";
    case Opcode::Bool: return "bool";
    case Opcode::Fill: return "fill";
    case Opcode::Weight: return "weight";
    case Opcode::Add: return "add";
    case Opcode::Sub: return "sub";
    case Opcode::Mul: return "mul";
    case Opcode::Div: return "div";
    case Opcode::Max: return "max";
    case Opcode::Min: return "min";
    case Opcode::Pow: return "pow";
    case Opcode::Neg: return "neg";
    case Opcode::Exp: return "exp";
    case Opcode::Log: return "log";
    case Opcode::Sqrt: return "sqrt";
    case Opcode::Abs: return "abs";
    case Opcode::Sigmoid: return "sigmoid";
    case Opcode::Tanh: return "tanh";
    case Opcode::Relu: return "relu";
    case Opcode::Gelu: return "gelu";
    case Opcode::Erf: return "erf";
    case Opcode::Sin: return "sin";
    case Opcode::Cos: return "cos";
    case Opcode::Floor: return "floor";
    case Opcode::MatMul: return "matmul";
    case Opcode::ReduceSum: return "reduce_sum";
    case Opcode::ReduceMax: return "reduce_max";
    case Opcode::ReduceMean: return "reduce_mean";
    case Opcode::Softmax: return "softmax";
    case Opcode::LogSoftmax: return "log_softmax";
    case Opcode::Concat: return "concat";
    case Opcode::Stack: return "stack";
    case Opcode::Slice: return "slice";
    case Opcode::Row: return "row";
    case Opcode::Transpose: return "transpose";
    case Opcode::Reshape: return "reshape";
    case Opcode::Broadcast: return "broadcast";
    case Opcode::ToFloat: return "to_float";
    case Opcode::Phase: return "phase";
    case Opcode::IAdd: return "iadd";
    case Opcode::ISub: return "isub";
    case Opcode::IMul: return "imul";
    case Opcode::IDiv: return "idiv";
    case Opcode::IMod: return "imod";
    case Opcode::INeg: return "ineg";
    case Opcode::IMin: return "imin";
    case Opcode::IMax: return "imax";
    case Opcode::ILt: return "ilt";
    case Opcode::ILe: return "ile";
    case Opcode::IEq: return "ieq";
    case Opcode::INe: return "ine";
    case Opcode::And: return "and";
    case Opcode::Or: return "or";
    case Opcode::Not: return "not";
    case Opcode::Tuple: return "tuple";
    case Opcode::TupleGet: return "get";
    case Opcode::Construct: return "construct";
    case Opcode::Field: return "field";
    case Opcode::List: return "list";
    case Opcode::ListGet: return "list_get";
    case Opcode::Len: return "len";
    case Opcode::Cons: return "cons";
    case Opcode::Append: return "append";
    case Opcode::Reverse: return "reverse";
    case Opcode::Range: return "range";
    case Opcode::Zip: return "zip";
    case Opcode::Call: return "call";
    case Opcode::Match: return "match";
    case Opcode::MatchList: return "match_list";
    case Opcode::If: return "if";
    case Opcode::Map: return "map";
    case Opcode::Fold: return "fold";
    case Opcode::Scan: return "scan";
    case Opcode::Concurrent: return "concurrent";
    case Opcode::Emit: return "emit";
    case Opcode::EmitOut: return "emit_out";
    case Opcode::Constant: return "constant";
  }
  return "?";
}

void fail_at(const Program& program, Loc loc, const std::string& message) {
  if (loc.line <= 0) throw Error(ErrorKind::Source, fmt::format("{}: error: {}", program.file, message));
  std::string text = fmt::format("{}:{}:{}: error: {}", program.file, loc.line, loc.column, message);
  if (static_cast<size_t>(loc.line) <= program.lines.size()) {
    const std::string& line = program.lines[static_cast<size_t>(loc.line) - 1];
    std::string under;  // tabs are kept so that the caret stands right whatever their width
    for (int k = 1; k < loc.column; ++k)
      under += static_cast<size_t>(k) <= line.size() && line[static_cast<size_t>(k) - 1] == '\t' ? '\t' : ' ';
    text += "\n" + line + "\n" + under + "^";
  }
  throw Error(ErrorKind::Source, text);
}

}  // namespace rondo::ir
