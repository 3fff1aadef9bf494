// Local rules that make a program smaller without changing what it computes. plan/specialise builds through a
// Builder, and so sees a tuple's parts, a known constructor or a known condition the moment it arises.
//
// Invariant: a simplified operation is either an existing value or appended to the current region's body.
#pragma once
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::plan {

class Builder {
 public:
  Builder(ir::Program* program, int32_t function) : program_(program), function_(function) {}

  // The value of `op`, simplified; its args are values of this function. Appends to `body` what is new.
  ir::Value add(ir::Op op);
  // As add, without rules: parameters, operations with regions.
  ir::Value place(ir::Op op);
  ir::Value param(ir::TypeId type, ir::Loc loc);

  const ir::Op& op(ir::Value v) const { return fn().ops[static_cast<size_t>(v)]; }
  ir::Function& fn() const { return program_->functions[static_cast<size_t>(function_)]; }
  std::vector<ir::Value>* body = nullptr;

 private:
  ir::Value known(const ir::Op& op);  // kNone: no rule applies
  ir::Value tensor(const ir::Op& op);
  ir::Value scalar(const ir::Op& op);
  ir::Value phase(const ir::Op& op);
  ir::Value number(int64_t value, const ir::Op& like);
  ir::Value truth(bool value, const ir::Op& like);
  bool is(ir::Value v, ir::Opcode code) const { return op(v).code == code; }

  ir::Program* program_;
  int32_t function_;
};

// Moves tensor work that uses nothing of a loop's iteration (map, fold or scan) before the loop, innermost
// loops first. Operations that can fail (Row with an index of the run) stay: a loop over an empty list never
// reaches them.
void hoist_invariants(ir::Program* program);

// Removes what does not reach main's result: operations, parameters that nobody reads, functions that nobody
// calls. Renumbers operations in program order.
void remove_dead(ir::Program* program);

}  // namespace rondo::plan
