// The rules of ir.h, checked one after the other. Types are checked by the same infer() that gave them.
#include <fmt/format.h>

#include "rondo/error.h"
#include "rondo/ir/infer.h"
#include "rondo/ir/ir.h"

namespace rondo::ir {
namespace {

struct Verifier {
  const Program& program;
  const Function& fn;
  const char* stage;
  TypeTable& types;  // a copy of the program's: infer may intern; what is new to the program is a fault
  std::vector<char> in_scope = {};
  std::vector<char> placed = {};  // held by a region
  Value at = kNone;

  [[noreturn]] void fail(const std::string& rule) const {
    throw Error(ErrorKind::Internal, at == kNone
                                         ? fmt::format("after {}: fn {}: {}", stage, fn.name, rule)
                                         : fmt::format("after {}: fn {}, %{} ({}): {}", stage, fn.name, at,
                                                       name(fn.ops[static_cast<size_t>(at)].code), rule));
  }
  void require(bool holds, const char* rule) const {
    if (!holds) fail(rule);
  }
  const Op& op(Value v) const { return fn.ops[static_cast<size_t>(v)]; }
  bool is(TypeId type, TypeKind kind) const { return types[type].kind == kind; }
  const Adt& adt(TypeId type) const { return types.adts[static_cast<size_t>(types[type].adt)]; }
  void known(TypeId type) const {
    if (type < 0 || static_cast<size_t>(type) >= program.types.types.size()) fail("has no type");
  }

  void place(Value v) {
    if (v < 0 || static_cast<size_t>(v) >= fn.ops.size())
      fail(fmt::format("a region holds %{}, which does not exist", v));
    at = v;
    if (placed[static_cast<size_t>(v)]) fail("is held by two regions");
    placed[static_cast<size_t>(v)] = 1;
    known(op(v).type);
  }

  // Checks a region and returns the type of its result.
  TypeId region(const Region& r) {
    const Value outer = at;
    std::vector<Value> defined;
    const auto define = [&](Value v) {
      in_scope[static_cast<size_t>(v)] = 1;
      defined.push_back(v);
    };
    for (const Value v : r.params) {
      place(v);
      require(op(v).code == Opcode::Arg, "a parameter must be an arg");
      define(v);
    }
    for (const Value v : r.body) {
      place(v);
      require(op(v).code != Opcode::Arg, "an arg must be a parameter");
      operation(op(v));
      at = v;
      define(v);
    }
    at = outer;
    if (r.result < 0 || static_cast<size_t>(r.result) >= fn.ops.size() ||
        !in_scope[static_cast<size_t>(r.result)])
      fail(fmt::format("a region yields %{}, which is not defined there", r.result));
    for (const Value v : defined) in_scope[static_cast<size_t>(v)] = 0;
    return op(r.result).type;
  }
  void region(const Region& r, const std::vector<TypeId>& params, TypeId result, const char* rule) {
    require(r.params.size() == params.size(), "a region has the wrong number of parameters");
    const Value here = at;
    const TypeId type = region(r);
    at = here;
    for (size_t k = 0; k < params.size(); ++k)
      require(op(r.params[k]).type == params[k], "a region's parameter has the wrong type");
    require(type == result, rule);
  }

  void control(const Op& o, const std::vector<TypeId>& args) {
    const char* yields = "a region yields the wrong type";
    const auto shape = [&](size_t count, size_t regions) {
      require(args.size() == count, "has the wrong number of arguments");
      require(o.regions.size() == regions, "has the wrong number of regions");
    };
    const auto list = [&] { require(is(args[0], TypeKind::List), "needs a list"); };
    switch (o.code) {
      case Opcode::Match:
        require(args.size() == 1 && is(args[0], TypeKind::Adt), "needs one value of an algebraic type");
        shape(1, adt(args[0]).constructors.size());
        for (size_t k = 0; k < o.regions.size(); ++k)
          region(o.regions[k], adt(args[0]).constructors[k].fields, o.type, yields);
        break;
      case Opcode::MatchList:
        shape(1, 2);
        list();
        region(o.regions[0], {}, o.type, yields);
        region(o.regions[1], {types[args[0]].args[0], args[0]}, o.type, yields);
        break;
      case Opcode::If:
        shape(1, 2);
        require(is(args[0], TypeKind::Bool), "needs a bool");
        for (const Region& r : o.regions) region(r, {}, o.type, yields);
        break;
      case Opcode::Map:
        shape(1, 1);
        list();
        require(is(o.type, TypeKind::List), "must have a list as its result");
        region(o.regions[0], {types[args[0]].args[0]}, types[o.type].args[0], yields);
        break;
      default: {
        shape(2, 1);
        list();
        const bool scan = o.code == Opcode::Scan;
        require(!scan || is(o.type, TypeKind::List), "must have a list as its result");
        require((scan ? types[o.type].args[0] : o.type) == args[1],
                "its result must have the type of its accumulator");
        region(o.regions[0], {args[1], types[args[0]].args[0]}, args[1], yields);
      }
    }
  }

  void operation(const Op& o) {
    std::vector<TypeId> args;
    for (const Value v : o.args) {
      if (v < 0 || static_cast<size_t>(v) >= fn.ops.size() || !in_scope[static_cast<size_t>(v)])
        fail(fmt::format("its argument %{} is not defined before it", v));
      args.push_back(op(v).type);
    }
    if (has_regions(o.code)) return control(o, args);
    require(o.regions.empty(), "must not hold regions");
    switch (o.code) {
      case Opcode::Weight:
        require(o.i >= 0 && static_cast<size_t>(o.i) < program.weights.size(), "no such weight");
        require(args.empty() && program.weights[static_cast<size_t>(o.i)].type == o.type,
                "its type is not the weight's");
        break;
      case Opcode::Call: {
        require(o.i >= 0 && static_cast<size_t>(o.i) < program.functions.size(), "no such function");
        const Function& callee = program.functions[static_cast<size_t>(o.i)];
        require(callee.result == o.type, "its type is not the function's result");
        require(callee.body.params.size() == args.size(), "has the wrong number of arguments");
        for (size_t k = 0; k < args.size(); ++k)
          require(callee.ops[static_cast<size_t>(callee.body.params[k])].type == args[k],
                  "an argument has the wrong type");
        break;
      }
      case Opcode::Emit:
        for (const TypeId arg : args)
          require(is(arg, TypeKind::Tensor) || is(arg, TypeKind::Int), "operands are tensors and ints");
        require(is(o.type, TypeKind::Int), "must have the type int");
        break;
      case Opcode::EmitOut:
        require(o.args.size() == 1 && op(o.args[0]).code == Opcode::Emit, "needs an emit");
        require(is(o.type, TypeKind::Tensor), "must be a tensor");
        break;
      case Opcode::Constant: require(args.empty() && is(o.type, TypeKind::Tensor), "must be a tensor"); break;
      default: {
        const Inferred found = infer(types, o, args);
        if (found.type < 0) fail(found.problem);
        if (found.type != o.type)
          fail(fmt::format("its type is {}, its arguments say {}", types.show(o.type),
                           types.show(found.type)));
      }
    }
  }

  void signature() {
    known(fn.result);
    for (const Value v : fn.body.params)
      if (v < 0 || static_cast<size_t>(v) >= fn.ops.size())
        fail(fmt::format("its parameter %{} does not exist", v));
  }

  void function() {
    in_scope.assign(fn.ops.size(), 0);
    placed.assign(fn.ops.size(), 0);
    const TypeId result = region(fn.body);
    if (result != fn.result)
      fail(fmt::format("yields {}, not {}", types.show(result), types.show(fn.result)));
  }
};

}  // namespace

void verify(const Program& program, const char* stage) {
  if (program.main < 0 || static_cast<size_t>(program.main) >= program.functions.size())
    throw Error(ErrorKind::Internal, fmt::format("after {}: the program has no main", stage));
  TypeTable types = program.types;
  for (const Function& fn : program.functions)
    Verifier{program, fn, stage, types}.signature();  // calls rely on them
  for (const Function& fn : program.functions) Verifier{program, fn, stage, types}.function();
}

}  // namespace rondo::ir
