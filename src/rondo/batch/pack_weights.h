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
// Checks first.
PackedWeights pack_weights(const plan::Plan& plan, const Weights& weights);

}  // namespace rondo::batch
