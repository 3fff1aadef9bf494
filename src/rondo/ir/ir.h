// The program as data. Functions in which every operation has exactly one typed result, so a value IS its
// operation's number. Control flow is structured: match, if, map, fold and scan hold regions.
//
// Comes in from lang/ (one function a source function) and again from plan/specialise (calls inlined except
// recursive ones, weights resolved). verify() states the rules below and is run after every stage.
// Invariants: arguments are defined before they are used, in the same region or an enclosing one; types are
// interned, so equal types have equal numbers; the result type follows from the arguments (verify checks it).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::ir {

using rondo::TypeId;
using Value = int32_t;  // the number of an operation in Function::ops
inline constexpr Value kNone = -1;

struct Loc {
  int line = 0, column = 0;  // both from 1; 0 = made by the compiler
};

struct Weight {
  std::string name;
  TypeId type = -1;  // Tensor
  Loc loc;
};

enum class Opcode {
  // Function and region parameters, constants
  Arg,         // parameter of a function or region
  Int,         // i: the value
  Bool,        // i: 0 or 1
  Fill,        // Tensor with every element f (zeros, ones, literals are f32[])
  Weight,      // i: index into Program::weights
  // Tensor, pointwise; NumPy broadcasting of dims
  Add, Sub, Mul, Div, Max, Min, Pow,
  Neg, Exp, Log, Sqrt, Abs, Sigmoid, Tanh, Relu, Gelu, Erf, Sin, Cos, Floor,
  // Tensor, structure. Axes are >= 0 (lang normalises negative ones).
  MatMul,      // [M,K]@[K,N], [M,K]@[K] -> [M], [K]@[K,N] -> [N], [K]@[K] -> []; batched [..,M,K]@[..,K,N] with equal leading dims
  ReduceSum, ReduceMax, ReduceMean,  // i: axis, removed from the result
  Softmax,     // i: axis
  LogSoftmax,  // i: axis
  Concat,      // i: axis; 1 or more arguments
  Stack,       // new leading axis; 1 or more arguments of one type
  Slice,       // i: axis, j: start; the extent is in the result type
  Row,         // args: tensor, Int; tensor[int] along axis 0. Out of range is a Usage error at run time
  Transpose,   // dims: the permutation
  Reshape,     // to the result type
  Broadcast,   // to the result type, NumPy rules
  ToFloat,     // args: Int -> f32[]
  Phase,       // the user's mark: what consumes the result belongs to a later phase. Any type; result = argument
  // Host scalars
  IAdd, ISub, IMul, IDiv, IMod, INeg, IMin, IMax,     // division rounds toward zero; by zero is a Usage error at run time
  ILt, ILe, IEq, INe,                                 // Int -> Bool (Gt, Ge: arguments swapped); IEq, INe take Bool too
  And, Or, Not,                                       // both sides are pure, so evaluation order cannot be seen
  // Host structure
  Tuple, TupleGet,       // TupleGet i: index
  Construct,             // i: constructor; type: the Adt; args: the fields
  Field,                 // i: field of an Adt with ONE constructor
  List,                  // args: elements
  ListGet,               // args: list, Int. Out of range is a Usage error at run time
  Len,                   // args: list -> Int
  Cons,                  // args: element, list
  Append,                // args: list, list
  Reverse, Range,        // Range args: lo, hi -> [int] lo..hi-1
  Zip,                   // args: 2 or more lists -> list of tuples, as long as the shortest
  // Control
  Call,        // i: function index, args
  Match,       // args: scrutinee (Adt). One region a constructor, in order; region params = fields
  MatchList,   // args: list. Region 0: empty, no params. Region 1: params (first, rest)
  If,          // args: Bool. Regions: then, else
  Map,         // args: list. Region (element) -> element'; iterations are independent
  Fold,        // args: list, init. Region (acc, element) -> acc
  Scan,        // args: list, init. Region (acc, element) -> acc; result: list of every acc after init
  Concurrent,  // args: 2 or more -> tuple; the user's mark that they are independent (pure: always true)
  // Made by plan/lower only: the host form of a program
  Emit,        // i: plan block, args: block operands in order. Result: Int-typed handle, used only by EmitOut
  EmitOut,     // args: Emit; i: output number of the block. Result: Tensor
  Constant,    // i: index into plan constants: a tensor that is the same for every instance. Result: Tensor
};

struct Region {
  std::vector<Value> params;  // Arg operations
  std::vector<Value> body;    // operations in order, without the params
  Value result = kNone;
};

struct Op {
  Opcode code = Opcode::Arg;
  TypeId type = -1;
  std::vector<Value> args;
  std::vector<Region> regions;
  int64_t i = 0, j = 0;
  double f = 0;
  std::vector<int64_t> dims;
  Loc loc;
};

struct Function {
  std::string name;
  std::vector<Op> ops;  // in creation order; which region holds an op is said by Region::body
  Region body;
  TypeId result = -1;
  Loc loc;
  Value add(Op op) {
    ops.push_back(std::move(op));
    return static_cast<Value>(ops.size()) - 1;
  }
};

struct Program {
  std::string file;                    // as shown in messages
  std::vector<std::string> lines;      // source text, for carets
  TypeTable types;
  std::vector<Weight> weights;         // in order of declaration
  std::vector<Function> functions;
  int32_t main = -1;                   // index of fn main
};

const char* name(Opcode code);          // "matmul", "add", ... as printed

// Readable, stable text of a program; `dump --stage ir` and golden tests read it.
//   fn encode(%0: Tree) -> (f32[4], f32[4]) {
//     %1 = match %0 { Leaf(%2: int) => { %3 = weight embed : f32[9,4]; %4 = row %3, %2 : f32[4]; ... yield %7 } ... }
std::string print(const Program& program);
std::string print(const Program& program, const Function& function);

// Throws Error(Internal) that names the function, the value and the broken rule. `stage` is put in the message.
void verify(const Program& program, const char* stage);

// Error(Source) "file:line:col: error: message", then the source line, then a caret under the column.
[[noreturn]] void fail_at(const Program& program, Loc loc, const std::string& message);

}  // namespace rondo::ir
