// Weights as given -> the weight arena of a plan (plain copies and packed ones) and the constant rows of its pools.
#pragma once
#include <string>
#include <vector>

#include "rondo/plan/plan.h"
#include "rondo/weights.h"

namespace rondo::batch {

struct PackedWeights {
  std::vector<float> arena;                   // Plan::weight_floats
  std::vector<std::vector<float>> constants;  // an entry a pool: its first rows
  std::vector<std::string> ignored;           // names given that the program has no use for
};

// Error(Usage) that names every weight that is missing, of another shape (both are shown), or of an unusable dtype.
void check_weights(const plan::Plan& plan, const Weights& weights);
// Order of a packed segment; what is past n and k is zero in all of them.
enum class Packing {
  Rows,   // [n / 8][k][use][n % 8]: the cpu goes through k
  Lanes,  // [n / 8][k / 16][k % 4][piece][k / 4 % 4][n % 8][use]: the lanes of a warp share a step of 16 k, and a thread
          // reads its uses in pieces of 4, 2 and 1 (codegen/prelude/cuda.h)
};
// Checks first.
PackedWeights pack_weights(const plan::Plan& plan, const Weights& weights, Packing packing);

}  // namespace rondo::batch
