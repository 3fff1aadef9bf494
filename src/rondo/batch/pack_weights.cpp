#include "rondo/batch/pack_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rondo/error.h"

namespace rondo::batch {
namespace {

constexpr size_t kMostProblems = 8;  // in one message

std::string shape(const std::vector<int64_t>& dims) { return fmt::format("f32[{}]", fmt::join(dims, ",")); }

std::vector<const float*> find_all(const plan::Plan& plan, const Weights& weights) {
  std::vector<const float*> found;
  std::vector<std::string> problems;
  bool missing = false;
  for (const plan::Weight& w : plan.weights) {
    const Tensor* t = weights.find(w.name);
    found.push_back(t ? t->data.get() : nullptr);
    if (!t) {
      problems.push_back(fmt::format("weight {}: {} is missing", w.name, shape(w.dims)));
      missing = true;
    } else if (!t->data) {
      problems.push_back(fmt::format("weight {}: {} cannot be used: {}", w.name, shape(w.dims), t->unusable));
    } else if (t->dims != w.dims) {
      problems.push_back(fmt::format("weight {}: {} is given as {}", w.name, shape(w.dims), shape(t->dims)));
    }
  }
  if (problems.empty()) return found;
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) text += (i ? "\n" : "") + problems[i];
  if (problems.size() > kMostProblems) text += fmt::format("\nand {} more", problems.size() - kMostProblems);
  if (missing) {
    std::vector<std::string> names = weights.names();
    const size_t all = names.size();
    if (all > 2 * kMostProblems) names.resize(2 * kMostProblems);
    text += all == 0 ? "\nno weights are given"
                     : fmt::format("\nthe weights given are: {}{}", fmt::join(names, ", "), names.size() < all ? ", .." : "");
  }
  throw Error(ErrorKind::Usage, text);
}

// The piece that a use lies in: its first use, how many.
struct Piece {
  int64_t first, width;
};
Piece piece_of(int64_t use, int64_t uses) {
  Piece piece{0, 0};
  while (true) {
    const int64_t left = uses - piece.first;
    piece.width = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (use < piece.first + piece.width) return piece;
    piece.first += piece.width;
  }
}

void pack_segment(const plan::Gemm& gemm, const plan::Segment& s, const std::vector<const float*>& data, Packing packing, float* out) {
  const auto uses = static_cast<int64_t>(s.uses.size());
  const bool lanes = packing == Packing::Lanes;
  const int64_t group = (lanes ? plan::round_up(s.k, plan::kStep) : s.k) * uses * plan::kUnit;
  for (int64_t u = 0; u < uses; ++u) {
    const plan::SegmentUse& use = s.uses[static_cast<size_t>(u)];
    const Piece piece = piece_of(u, uses);
    const float* w = data[static_cast<size_t>(use.weight)] + use.offset;
    for (int64_t n = 0; n < gemm.n; ++n) {
      const int64_t unit = n % plan::kUnit;
      float* to = out + n / plan::kUnit * group;
      for (int64_t k = 0; k < s.k; ++k) {
        const int64_t at = lanes ? ((k / plan::kStep * 4 + k % 4) * uses + piece.first) * (4 * plan::kUnit) +
                                       (k / 4 % 4 * plan::kUnit + unit) * piece.width + u - piece.first
                                 : (k * uses + u) * plan::kUnit + unit;
        to[at] = w[n * use.stride_n + k * use.stride_k];
      }
    }
  }
}

std::vector<float> constant_row(const plan::Constant& c, const std::vector<const float*>& data) {
  std::vector<float> row(static_cast<size_t>(c.size), static_cast<float>(c.fill));
  if (c.weight < 0) return row;
  std::vector<int64_t> index(c.dims.size(), 0);
  for (float& element : row) {
    int64_t at = c.offset;
    for (size_t a = 0; a < index.size(); ++a) at += index[a] * c.strides[a];
    element = data[static_cast<size_t>(c.weight)][at];
    for (size_t a = index.size(); a-- > 0;) {
      if (++index[a] < c.dims[a]) break;
      index[a] = 0;
    }
  }
  return row;
}

}  // namespace

void check_weights(const plan::Plan& plan, const Weights& weights) { static_cast<void>(find_all(plan, weights)); }

PackedWeights pack_weights(const plan::Plan& plan, const Weights& weights, Packing packing) {
  const std::vector<const float*> data = find_all(plan, weights);
  PackedWeights packed;
  packed.arena.assign(static_cast<size_t>(plan.weight_floats), 0.0f);
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const plan::Weight& w = plan.weights[i];
    if (w.plain_offset >= 0) std::copy_n(data[i], w.numel, packed.arena.data() + w.plain_offset);
  }
  for (const plan::Block& b : plan.blocks)
    for (const plan::Kernel& k : b.kernels)
      for (const plan::Segment& s : k.gemm.segments)
        pack_segment(k.gemm, s, data, packing, packed.arena.data() + s.pack_offset);

  packed.constants.resize(plan.pools.size());
  for (size_t pool = 0; pool < plan.pools.size(); ++pool)
    packed.constants[pool].assign(static_cast<size_t>(plan.pool_constants[pool] * plan.pools[pool]), 0.0f);
  for (const plan::Constant& c : plan.constants) {
    const auto pool = std::find(plan.pools.begin(), plan.pools.end(), c.size) - plan.pools.begin();
    const std::vector<float> row = constant_row(c, data);
    std::copy(row.begin(), row.end(), packed.constants[static_cast<size_t>(pool)].begin() + c.row * c.size);
  }

  std::set<std::string> used;
  for (const plan::Weight& w : plan.weights) used.insert(w.name);
  for (const std::string& name : weights.names())
    if (!used.count(name)) packed.ignored.push_back(name);
  return packed;
}

}  // namespace rondo::batch
