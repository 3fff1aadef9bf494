// Gives a Module its meaning: resolves names, checks types and shapes, makes one ir::Function for each
// function (and for each use of a generic one with other parameters). Types flow both ways: an expression may
// be asked for a type, which is what gives `None`, `[]` and number literals theirs.
//
// One class in six sources, one a subject: constants, declare (types, signatures, generic parameters), checker
// (expressions), call, match, builtins (the functions of the language). Throws Error(Source) at the first fault.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rondo/ir/ir.h"
#include "rondo/lang/ast.h"
#include "rondo/lang/scope.h"
#include "rondo/lang/lang.h"

namespace rondo::lang {

using ir::Opcode;
using ir::Value;

// A number known while compiling.
struct Number {
  bool is_float = false;
  int64_t integer = 0;
  double real = 0;
  double as_double() const { return is_float ? real : static_cast<double>(integer); }
};

// Parameters of one use of a generic function or type.
struct Binding {
  std::string name;
  bool is_dim = false;
  bool bound = false;
  TypeId type = -1;
  int64_t dim = 0;
};
using Bindings = std::vector<Binding>;
// nullptr: no parameter has this name.
inline const Binding* find_binding(const Bindings& bindings, const std::string& name) {
  for (const Binding& b : bindings)
    if (b.name == name) return &b;
  return nullptr;
}
inline Binding* find_binding(Bindings* bindings, const std::string& name) {
  return const_cast<Binding*>(find_binding(*bindings, name));
}

// What an expression is asked to be; `role` opens the message when it is something else.
struct Expect {
  TypeId type = -1;  // -1: anything
  std::string role;
};

class Checker {
 public:
  Checker(ir::Program program, const Module& module, const Overrides& overrides);
  ir::Program run();

 private:
  struct ConstructorRef {
    int type = 0, index = 0;
  };
  struct AdtInfo {  // how an Adt came about
    int decl = 0;
    Bindings bindings;
  };
  struct Signature {
    std::vector<TypeId> params;
    TypeId result = -1;
  };
  struct Instance {  // one function of the program
    const FnDecl* decl = nullptr;
    Bindings bindings;
    Signature signature;
    std::string name;
  };

  // ---------------------------------------------------------------- constants.cpp, declare.cpp
  void declare_constants(const Overrides& overrides);
  void declare_names();
  void find_generic_kinds();
  bool find_kinds(const TypeExpr& type, Bindings* params) const;
  bool find_kinds(const Expr& dim, Bindings* params) const;
  bool set_kind(const std::string& name, bool is_dim, Loc loc, Bindings* params) const;
  void declare_types();
  void declare_functions();
  const TypeDecl& type_decl(int index) const { return module_.types[static_cast<size_t>(index)]; }

  TypeId resolve(const TypeExpr& type, const Bindings& bindings);
  TypeId resolve_named(const TypeExpr& type, const Bindings& bindings);
  TypeId tensor_type(const std::vector<int64_t>& dims, Loc loc);
  TypeId instantiate_type(int decl, const Bindings& bindings, Loc loc);
  int instantiate_function(const FnDecl& decl, const Bindings& bindings, Loc loc);
  // All parameters that the type mentions are bound.
  bool is_known(const TypeExpr& type, const Bindings& bindings) const;
  bool is_known(const Expr& dim, const Bindings& bindings) const;
  // Binds parameters by laying the written type over the actual
  // one; what does not fit is left for the check after it.
  void unify(const TypeExpr& type, TypeId actual, Bindings* bindings) const;
  void require_bound(const std::string& what, const Bindings& bindings, Loc loc) const;
  std::string show(const Bindings& bindings, const char* equals) const;

  std::optional<Number> constant(const Expr& e, const Bindings& bindings) const;
  Number fold(const Expr& e, Number a, Number b) const;
  int64_t constant_int(const Expr& e, const Bindings& bindings, const char* what) const;

  // ---------------------------------------------------------------- checker.cpp, call.cpp, match.cpp
  void function(int index);
  Value expr(const Expr& e, const Expect& want = {});
  Value convert(Value v, const Expr& e, const Expect& want);
  Value name(const Expr& e, const Expect& want);
  Value unary(const Expr& e);
  Value binary(const Expr& e);
  Value arithmetic(const Expr& e);
  Value compare(const Expr& e);
  Value logical(const Expr& e);
  Value block(const Expr& e, const Expect& want);
  Value if_else(const Expr& e, const Expect& want);
  Value match(const Expr& e, const Expect& want);
  Value match_list(const Expr& e, Value list, const Expect& want);
  Value match_adt(const Expr& e, Value scrutinee, const Expect& want);
  Value index(const Expr& e);
  Value index_tensor(const Expr& e, Value tensor);
  Value field(const Expr& e);
  std::vector<Value> elements(const Expr& e, const Expect& want);  // of a tuple that is asked for
  Value tuple(const Expr& e, const Expect& want);
  Value list(const Expr& e, const Expect& want);
  Value call(const Expr& e, const Expect& want);
  Value call_function(const Expr& e, const FnDecl& decl, const Expect& want);
  Value construct(const Expr& e, ConstructorRef constructor, const Expect& want);
  // Arguments against declared types, binding generic parameters on the way.
  std::vector<Value> arguments(const Expr& e, const std::vector<TypeExpr>& types, Bindings* bindings,
                               const std::function<void()>& bind_from_result);
  void bind(const Pattern& pattern, Value value);
  void check_pattern_names(const Pattern& pattern, std::vector<std::string>* names) const;
  // Cannot be given a type without being asked for one: [], None, and what consists of them.
  bool needs_type(const Expr& e) const;
  bool leaves_open(const Expr& call, const Bindings& kinds, const std::vector<TypeExpr>& types) const;

  // ---------------------------------------------------------------- builtins.cpp
  using Builtin = Value (Checker::*)(const Expr&, const Expect&);
  static const std::map<std::string, Builtin>& builtins();
  static const std::map<std::string, Opcode>& unary_builtins();
  static const std::map<std::string, Opcode>& binary_builtins();
  static bool is_builtin(const std::string& name);
  Value call_builtin(const Expr& e, const Expect& want);
  Value tensor_argument(const Expr& call, size_t k);
  Value int_argument(const Expr& call, size_t k);
  Value list_argument(const Expr& call, size_t k, const Expect& want = {});
  void arity(const Expr& e, size_t least, size_t most) const;
  const Expr* named_argument(const Expr& e, const char* name) const;
  size_t positional(const Expr& e) const;
  void allow_named(const Expr& e, const char* name) const;
  int64_t axis(const Expr& call, const Expr& e, size_t rank) const;
  std::vector<int64_t> numbers(const Expr& call, size_t from, const char* what) const;
  const Expr* axis_argument(const Expr& e) const;
  Value reduce(const Expr& e, Opcode code, Value v);
  Value extreme(const Expr& e, bool largest);
  Value reshaped(Value v, const std::vector<int64_t>& dims, Loc loc);
  Value broadcast(Value v, TypeId to, Loc loc);
  Value sum(const Expr& e, const Expect&);
  Value mean(const Expr& e, const Expect&);
  Value max(const Expr& e, const Expect&);
  Value min(const Expr& e, const Expect&);
  Value softmax(const Expr& e, const Expect&);
  Value log_softmax(const Expr& e, const Expect&);
  Value soft(const Expr& e, Opcode code);
  Value concat(const Expr& e, const Expect&);
  Value stack(const Expr& e, const Expect&);
  Value transpose(const Expr& e, const Expect&);
  Value reshape(const Expr& e, const Expect&);
  Value zeros(const Expr& e, const Expect&);
  Value ones(const Expr& e, const Expect&);
  Value full(const Expr& e, const Expect&);
  Value broadcast_to(const Expr& e, const Expect&);
  Value to_float(const Expr& e, const Expect&);
  Value len(const Expr& e, const Expect&);
  Value range(const Expr& e, const Expect&);
  Value cons(const Expr& e, const Expect&);
  Value append(const Expr& e, const Expect&);
  Value reverse(const Expr& e, const Expect&);
  Value zip(const Expr& e, const Expect&);
  Value map(const Expr& e, const Expect&);
  Value fold_list(const Expr& e, const Expect&);
  Value scan(const Expr& e, const Expect&);
  Value accumulate(const Expr& e, Opcode code, const Expect& init);
  Value concurrent(const Expr& e, const Expect&);
  Value phase(const Expr& e, const Expect&);
  // The function argument of map, fold or scan as a region: a lambda or the name of a function.
  ir::Region apply(const Expr& call, size_t k, const std::vector<TypeId>& params, const Expect& want);

  // ---------------------------------------------------------------- making operations
  Value emit(ir::Op op);  // the type from infer(); its complaint becomes the message at op.loc
  Value emit(Opcode code, std::vector<Value> args, Loc loc, int64_t i = 0);
  Value emit_int(int64_t value, Loc loc);
  Value emit_fill(TypeId type, double value, Loc loc);
  Value emit_control(ir::Op op);  // has regions; the type is in it
  Value add(ir::Op op);
  Value parameter(TypeId type, Loc loc);
  // Runs `body` with a new current region and a scope of its own.
  ir::Region region(const std::vector<TypeId>& params, Loc loc,
                    const std::function<Value(const std::vector<Value>&)>& body);
  // The branches of an if or a match: the first that needs no help decides the type of all.
  TypeId branches(const std::vector<const Expr*>& values, const Expect& want,
                  const std::function<TypeId(size_t, const Expect&)>& build);

  TypeId type_of(Value v) const { return fn_.ops[static_cast<size_t>(v)].type; }
  const Type& type(Value v) const { return program_.types[type_of(v)]; }
  std::string show(Value v) const { return program_.types.show(type_of(v)); }
  std::optional<Value> local(const std::string& name) const;
  [[noreturn]] void fail(Loc loc, const std::string& message) const;
  [[noreturn]] void unknown(Loc loc, const char* what, const std::string& name,
                            const std::vector<std::string>& candidates) const;
  std::vector<std::string> callable_names() const;
  std::vector<std::string> value_names() const;

  ir::Program program_;
  const Module& module_;
  std::map<std::string, Number> constants_;
  std::map<std::string, int> types_, weights_, functions_;  // name -> number of the declaration
  std::map<std::string, ConstructorRef> constructors_;
  std::vector<Bindings> type_kinds_, function_kinds_;  // a generic parameter: type or dimension
  std::map<std::string, TypeId> adt_types_;            // printed name -> type
  std::vector<AdtInfo> adts_;                          // beside program_.types.adts
  int unfolding_ = 0;                                  // types whose fields are being resolved
  std::map<std::string, int> instance_of_;             // function and its parameters -> index
  std::vector<Instance> instances_;                    // beside program_.functions

  // The function that is being checked
  ir::Function fn_;
  std::vector<Value>* body_ = nullptr;
  Scope scope_;
  Bindings bindings_;
  std::string context_;  // " (in linear[N = 8, K = 4])"
};

}  // namespace rondo::lang
