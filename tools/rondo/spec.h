// The benchmark models, exactly: weights and instances of treelstm, bilstm, birnn and mvrnn from a splitmix64 generator,
// so that every implementation in every framework computes the same numbers and can compare checksums.
//
// Weight `id`, element k (row-major): u = mix((id << 32) + k + 1 times the golden ratio) >> 40, times 2^-24, in [0,1);
// value = scale * (2u - 1) in fp32. Scales: matrices 1/sqrt(columns); biases 0.1; embeddings 1; the word matrices of
// mvrnn sqrt(3/H) and its W212 sqrt(3/(2H)). Instance i of family f (1 trees, 2 sequences) draws from the
// state f * 1000003 + i: 10 to 40 words of a vocabulary of 1000, and for trees uniform splits.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::tool::spec {

struct Weight {
  std::string name;  // as in examples/models/<model>.rondo
  std::vector<int64_t> dims;
  uint64_t id = 0;
  float scale = 1;
  int64_t numel() const;
  std::vector<float> values() const;
};

std::vector<std::string> models();
// Throws Error(Usage) for an unknown model.
std::vector<Weight> weights(const std::string& model, int64_t hidden);
// One line of instance JSON, as `rondo run --instances` reads it.
std::string instance(const std::string& model, uint64_t index);

}  // namespace rondo::tool::spec
