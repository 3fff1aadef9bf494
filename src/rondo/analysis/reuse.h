// Which values do all instances share? Weights and what is made from weights alone; everything else is per
// instance. The answer decides which operand of a product is packed once and which is gathered row by row.
//
// In: a verified program as parsed. Out: contexts. A context is a function together with what its arguments
// share, so that one function used with two sets of weights has two (forward and backward RNN), and a weight
// that travels inside a tuple or a one-constructor type is followed field by field. Unlike 1-call-site
// analyses, a context is keyed by the shared values themselves: two calls with the same weights share a
// context (and later their kernels), and recursion of any depth, mutual recursion included, is followed
// exactly. plan/specialise follows the contexts: a clone of each recursive function for each of them.
#pragma once
#include <string>
#include <vector>

#include "rondo/analysis/view.h"
#include "rondo/ir/ir.h"

namespace rondo::analysis {

struct Sharing {
  enum Kind {
    Instance,  // may differ between instances, or is not a tensor
    Shared,    // a tensor that is the same for every instance
    Fields,    // a tuple, or a value with a known constructor: shared part by part
  };
  Kind kind = Instance;
  bool is_view = false;  // Shared: `view` says which numbers; else they are computed from weights
  View view;
  std::vector<ir::Op> recipe;  // Shared views of a weight: operations that make it, each from the one before
  int32_t constructor = 0;     // Fields of an algebraic type
  std::vector<Sharing> fields;

  bool of_weight() const { return kind == Shared && is_view && view.weight >= 0; }
  bool operator==(const Sharing& other) const;  // two recipes for the same view are equal
};

struct Context {
  int32_t function = -1;
  std::vector<Sharing> args;    // an entry a parameter
  Sharing result;               // Instance for recursive functions
  std::vector<Sharing> values;  // an entry an operation
  std::vector<int32_t>
      callees;  // an entry an operation: the context that a Call runs in; -1 for other operations
};

struct Reuse {
  std::vector<Context> contexts;  // contexts[0] is main's
};
Reuse find_reuse(const ir::Program& program);

// `dump --stage reuse`: the contexts, and for each tensor operation which operands are shared.
std::string print(const Reuse& reuse, const ir::Program& program);

}  // namespace rondo::analysis
