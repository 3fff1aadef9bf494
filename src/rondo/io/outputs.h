// Where the values of Outputs lie. Filled by batch/results; read through OutputView.
//
// Words are as types.h says, with two differences: pointers lead into `arenas`, and the word of a tensor is
// base << 32 | row, its elements being tensors[base][row * size ...].
#pragma once
#include <memory>
#include <vector>

#include "rondo/value.h"

namespace rondo {

struct OutputStore {
  std::shared_ptr<const Signature> signature;
  size_t instances = 0;
  std::vector<uint64_t> roots;          // words(result) an instance
  std::vector<Arena> arenas;
  std::vector<const float*> tensors;
  std::vector<std::shared_ptr<const void>> memory;  // that tensors point into
};

}  // namespace rondo
