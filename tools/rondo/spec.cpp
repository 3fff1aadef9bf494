#include "spec.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "rondo/error.h"

namespace rondo::tool::spec {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr int64_t kWords = 1000, kTags = 16;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Draw {
 public:
  Draw(uint64_t family, uint64_t instance) : state_(family * 1000003 + instance) {}
  uint64_t below(uint64_t n) { return mix(state_ += kGolden) % n; }

 private:
  uint64_t state_;
};

float inverse_root(int64_t columns) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(columns))); }

Weight matrix(uint64_t id, int64_t rows, int64_t columns) {
  return {fmt::format("w{}", id), {rows, columns}, id, inverse_root(columns)};
}
Weight bias(uint64_t id, int64_t rows) { return {fmt::format("b{}", id), {rows}, id, 0.1f}; }
Weight embedding(uint64_t id, int64_t hidden) { return {"embed", {kWords, hidden}, id, 1.0f}; }

std::vector<Weight> treelstm(int64_t h) {
  std::vector<Weight> all = {embedding(1, h)};
  for (uint64_t id : {10, 11, 12, 13, 14, 15, 16, 17, 18, 30, 31, 32, 33}) all.push_back(matrix(id, h, h));
  for (uint64_t id : {20, 21, 22, 23, 24, 25, 26}) all.push_back(bias(id, h));
  return all;
}

std::vector<Weight> bilstm(int64_t h) {
  std::vector<Weight> all = {embedding(101, h)};
  for (uint64_t id : {110, 120}) {
    all.push_back(matrix(id, 4 * h, h));
    all.push_back(matrix(id + 1, 4 * h, h));
    all.push_back(bias(id + 2, 4 * h));
  }
  all.push_back(matrix(130, kTags, 2 * h));
  all.push_back(bias(131, kTags));
  return all;
}

std::vector<Weight> birnn(int64_t h) {
  std::vector<Weight> all = {embedding(101, h)};
  for (uint64_t id : {140, 150}) {
    all.push_back(matrix(id, h, h));
    all.push_back(matrix(id + 1, h, h));
    all.push_back(bias(id + 2, h));
  }
  all.push_back(matrix(130, kTags, 2 * h));
  all.push_back(bias(131, kTags));
  return all;
}

std::vector<Weight> mvrnn(int64_t d) {
  const auto root3 = [](int64_t n) { return static_cast<float>(std::sqrt(3.0 / static_cast<double>(n))); };
  std::vector<Weight> all = {embedding(201, d), matrix(210, d, 2 * d), bias(211, d), matrix(212, d, 2 * d)};
  all.back().scale = root3(2 * d);
  all.push_back({"matrices", {kWords, d, d}, 202, root3(d)});
  return all;
}

struct Model {
  const char* name;
  uint64_t family;
  std::vector<Weight> (*weights)(int64_t);
};
constexpr Model kModels[] = {{"treelstm", 1, treelstm}, {"bilstm", 2, bilstm}, {"birnn", 2, birnn}, {"mvrnn", 1, mvrnn}};

const Model& model_named(const std::string& name) {
  for (const Model& m : kModels) {
    if (name == m.name) return m;
  }
  throw Error(ErrorKind::Usage,
              fmt::format("--model {}: there is no such benchmark model; expected {}", name, fmt::join(models(), ", ")));
}

std::string tree(uint64_t index) {
  Draw draw(1, index);
  const uint64_t a = draw.below(31), b = draw.below(31), leaves = 10 + std::min(a, b);
  std::vector<uint64_t> words(leaves);
  for (uint64_t& word : words) word = draw.below(kWords);
  std::string text;
  // At most 40 leaves, so at most 39 deep.
  const std::function<void(uint64_t, uint64_t)> split = [&](uint64_t from, uint64_t to) {
    if (to - from == 1) {
      text += fmt::format("{{\"Leaf\":[{}]}}", words[from]);
      return;
    }
    const uint64_t middle = from + 1 + draw.below(to - from - 1);
    text += "{\"Node\":[";
    split(from, middle);
    text += ",";
    split(middle, to);
    text += "]}";
  };
  split(0, leaves);
  return text;
}

std::string sequence(uint64_t index) {
  Draw draw(2, index);
  std::vector<uint64_t> words(10 + draw.below(31));
  for (uint64_t& word : words) word = draw.below(kWords);
  return fmt::format("[{}]", fmt::join(words, ","));
}

}  // namespace

int64_t Weight::numel() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

std::vector<float> Weight::values() const {
  std::vector<float> all(static_cast<size_t>(numel()));
  for (size_t k = 0; k < all.size(); ++k) {
    const float u = static_cast<float>(mix(((id << 32) + k + 1) * kGolden) >> 40) * (1.0f / 16777216.0f);
    all[k] = scale * (2.0f * u - 1.0f);
  }
  return all;
}

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const Model& m : kModels) names.push_back(m.name);
  return names;
}

std::vector<Weight> weights(const std::string& model, int64_t hidden) { return model_named(model).weights(hidden); }

std::string instance(const std::string& model, uint64_t index) {
  return model_named(model).family == 1 ? tree(index) : sequence(index);
}

}  // namespace rondo::tool::spec
