// The program as it will run: main, and one clone of each recursive function for each set of weights that it is
// used with.
//
// In: a program and its reuse contexts. Out: a verified program in which
//   - every call of a non-recursive function is inlined, wherever it stands;
//   - a weight is a Weight operation where it is used and never a parameter: shared parameters are gone, tuples
//     and one-constructor types that hold some are passed part by part, and what nobody reads is dropped;
//   - tuples, fields, matches, ifs and int arithmetic are resolved where their parts are known, and Concurrent
//     is a Tuple;
//   - work inside a loop that is the same in every iteration stands before the loop;
//   - no dead operation is left, and operations are numbered in program order.
// It runs before the analyses because they then need no contexts of their own: one operation has one answer.
#pragma once
#include "rondo/analysis/reuse.h"
#include "rondo/ir/ir.h"

namespace rondo::plan {

ir::Program specialise(const ir::Program& program, const analysis::Reuse& reuse);

}  // namespace rondo::plan
