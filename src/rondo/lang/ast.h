// A program as its author wrote it: names unresolved, types unknown. Made by
// the parser, read by the checker. Every node knows its place in the source.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::lang {

using ir::Loc;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct TypeExpr {
  enum class Kind { Int, Bool, Tensor, Tuple, List, Named, Dim };
  Kind kind = Kind::Int;
  Loc loc;
  std::string name;            // Named; it may turn out to be a dimension where a generic type takes one
  std::vector<ExprPtr> dims;   // Tensor: extents; Dim: one expression
  std::vector<TypeExpr> args;  // Tuple, List: elements; Named: arguments
};

struct Pattern {
  enum class Kind { Wild, Name, Tuple, Constructor, EmptyList, Cons };
  Kind kind = Kind::Wild;
  Loc loc;
  std::string name;            // Name, Constructor
  std::vector<Pattern> parts;  // Tuple, Constructor; Cons: first, rest
};

enum class Operator { Or, And, Lt, Le, Gt, Ge, Eq, Ne, Add, Sub, Mul, Div, Mod, MatMul, Neg, Not };

struct Subscript {
  bool is_slice = false;
  ExprPtr low, high;  // index: low alone; slice: either may be missing
  Loc loc;
};
struct Let {
  Pattern pattern;
  std::unique_ptr<TypeExpr> type;  // may be missing
  ExprPtr value;
};
struct Arm {
  Pattern pattern;
  ExprPtr value;
};

struct Expr {
  enum class Kind {
    Int,
    Float,
    Bool,
    Name,
    Call,
    Field,
    Index,
    Unary,
    Binary,
    Tuple,
    List,
    Block,
    If,
    Match,
    Lambda
  };
  Kind kind = Kind::Int;
  Loc loc;
  int depth = 1;                // of the tree below; bounds every recursion over it
  int64_t integer = 0;          // Int, Bool
  double real = 0;              // Float
  std::string name;             // Name, Call (the function), Field
  Operator op = Operator::Add;  // Unary, Binary
  std::vector<ExprPtr> parts;   // operands, arguments, elements; If: condition, then, else; Match: scrutinee;
                                // Block: its result; Lambda: its body
  std::vector<std::string> arg_names;  // Call: "" or the name in `axis=1`; as long as parts
  std::vector<Subscript> subscripts;   // Index
  std::vector<Let> lets;               // Block
  std::vector<Arm> arms;               // Match
  std::vector<Pattern> params;         // Lambda
};

struct Generic {
  std::string name;
  Loc loc;
};
struct ConstDecl {
  std::string name;
  Loc loc;
  ExprPtr value;
};
struct WeightDecl {
  std::string name;
  Loc loc;
  TypeExpr type;
};
struct ConstructorDecl {
  std::string name;
  Loc loc;
  std::vector<std::string> field_names;
  std::vector<TypeExpr> fields;
};
struct TypeDecl {
  std::string name;
  Loc loc;
  std::vector<Generic> generics;
  std::vector<ConstructorDecl> constructors;
};
struct FnDecl {
  std::string name;
  Loc loc;
  std::vector<Generic> generics;
  std::vector<Pattern> params;  // Name or Wild
  std::vector<TypeExpr> param_types;
  TypeExpr result;
  ExprPtr body;
};

struct Module {
  std::vector<ConstDecl> consts;
  std::vector<TypeDecl> types;
  std::vector<WeightDecl> weights;
  std::vector<FnDecl> functions;
};

}  // namespace rondo::lang
