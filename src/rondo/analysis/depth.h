// At which levels does a block run, and whose level must be looked at to know? A record's level is 1 + the
// highest level among its operands in its own phase (data depth, exact). ACRoBat counts operations in program
// order, so sibling subtrees follow one another unless the user says otherwise; data depth needs no marks.
//
// The host program computes level = max(first_level, 1 + levels of the operands marked look_up). Left out are
// operands whose level can never exceed first_level - 1, and all but one of those that always come from one
// record (h and c of a cell): most blocks look at one operand a child, and at none where the level is known.
// Bounds come from the flow graph; a level that passes the number of blocks has gone round a cycle and has
// no bound.
#pragma once
#include "rondo/analysis/blocks.h"

namespace rondo::analysis {

// Fills in first_level, last_level and look_up.
void find_depths(const ir::Program& specialised, const Flow& flow, Blocks* blocks);

}  // namespace rondo::analysis
