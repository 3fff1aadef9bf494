// All that the analyses know about a specialised program, found in the order in which they build on one
// another.
//
// In: the output of plan/specialise, which must stay where it is while the facts are in use. Out: facts; the
// program is not changed. print() is the text of `dump --stage facts`: one section a question.
#pragma once
#include <string>

#include "rondo/analysis/blocks.h"
#include "rondo/analysis/concurrency.h"
#include "rondo/analysis/flow.h"
#include "rondo/analysis/hoist.h"

namespace rondo::analysis {

struct Facts {
  Flow flow;                // where tensors go
  Recursions recursions;    // which of them feed themselves, and what climbs with them
  Blocks blocks;            // units of work with their phases and levels
  Concurrency concurrency;  // what can run at the same time
};

Facts find_facts(const ir::Program& specialised);

std::string print(const Facts& facts, const ir::Program& specialised);

}  // namespace rondo::analysis
