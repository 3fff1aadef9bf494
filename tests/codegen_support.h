// For tests of generated kernels: weights as the run-time packs them, and one bucket of records in a table,
// run by the compiled CPU kernels and compared with plan_interpreter.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plan_interpreter.h"
#include "rondo/batch/abi.h"
#include "rondo/codegen/codegen.h"
#include "rondo/error.h"
#include "rondo/kernel/host_compiler.h"
#include "rondo/plan/stages.h"

namespace rondo::testing {

using Rng = std::mt19937;

inline float number(Rng& rng) { return static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 1000.0f; }

// The weight arena; values are random, and kept as doubles for the interpreter.
struct Arena {
  std::vector<float> floats;
  std::vector<std::vector<double>> weights;

  Arena(const plan::Plan& plan, Rng& rng) : floats(static_cast<size_t>(plan.weight_floats) + 8, 0.0f) {
    for (const plan::Weight& w : plan.weights) {
      std::vector<double> values(static_cast<size_t>(w.numel));
      for (double& v : values) v = number(rng);
      if (w.plain_offset >= 0)
        std::copy(values.begin(), values.end(), floats.begin() + static_cast<std::ptrdiff_t>(w.plain_offset));
      weights.push_back(std::move(values));
    }
    pack(plan);
  }

  void pack(const plan::Plan& plan) {
    for (const plan::Block& b : plan.blocks)
      for (const plan::Kernel& k : b.kernels)
        for (const plan::Segment& s : k.gemm.segments) {
          const auto uses = static_cast<int64_t>(s.uses.size());
          for (int64_t n = 0; n < k.gemm.n; ++n)
            for (int64_t kk = 0; kk < s.k; ++kk)
              for (int64_t u = 0; u < uses; ++u) {
                const plan::SegmentUse& use = s.uses[static_cast<size_t>(u)];
                floats[static_cast<size_t>(s.pack_offset + ((n / 8 * s.k + kk) * uses + u) * 8 + n % 8)] =
                    static_cast<float>(weights[static_cast<size_t>(use.weight)].at(
                        static_cast<size_t>(use.offset + n * use.stride_n + kk * use.stride_k)));
              }
        }
  }
};

// `count` records of one block at one level, and everything that they refer to.
class Bucket {
 public:
  Bucket(const plan::Plan& plan, int32_t block, uint32_t count, Rng& rng)
      : plan_(plan), number_(block), count_(count), block_(plan.blocks[static_cast<size_t>(block)]) {
    for (size_t p = 0; p < plan.pools.size(); ++p) {
      const size_t own = count * static_cast<size_t>(block_.pool_rows[p]);
      given_.push_back(static_cast<uint32_t>(own + 3));
      pools_.emplace_back((own + 3 + kGiven) * static_cast<size_t>(plan.pools[p]), std::nanf(""));
      for (size_t e = (own + 3) * static_cast<size_t>(plan.pools[p]); e < pools_[p].size(); ++e)
        pools_[p][e] = number(rng);
      results_.emplace_back(count * static_cast<size_t>(plan.pools[p]), std::nanf(""));
    }
    const size_t words = static_cast<size_t>(2 + plan.bases), header = 4 * plan.pools.size();
    table_.assign(header + (kLevel + 1) * plan.blocks.size() * words, 0);
    for (size_t p = 0; p < plan.pools.size(); ++p) {
      point(p, pools_[p].data());
      point(plan.pools.size() + p, results_[p].data());
    }
    const size_t d = header + (kLevel * plan.blocks.size() + static_cast<size_t>(block)) * words;
    table_[d] = count;
    table_[d + 1] = static_cast<uint32_t>(table_.size());
    for (size_t j = 0; j < block_.base_pools.size(); ++j) table_[d + 2 + j] = 3;
    for (const plan::Operand& o : block_.operands)
      for (uint32_t i = 0; i < count; ++i)
        table_.push_back(o.is_int ? rng() % static_cast<uint32_t>(o.size > 0 ? o.size : 100)
                                  : given_[pool_of(o.size)] + rng() % kGiven);
  }

  // The same pools with record i only.
  Bucket alone(uint32_t i) const {
    Bucket b(*this);
    b.count_ = 1;
    for (size_t p = 0; p < pools_.size(); ++p) b.point(p, b.pools_[p].data());
    const size_t d = 4 * plan_.pools.size() + (kLevel * plan_.blocks.size() + static_cast<size_t>(number_)) *
                                                  static_cast<size_t>(2 + plan_.bases);
    b.table_[d] = 1;
    b.table_.resize(b.table_[d + 1]);
    for (size_t c = 0; c < block_.operands.size(); ++c)
      b.table_.push_back(table_[table_[d + 1] + c * count_ + i]);
    return b;
  }

  // Stage by stage; tiles in order, or shuffled.
  void run(const abi::CpuModule& module, const Arena& arena, Rng* shuffle = nullptr) {
    for (int32_t stage = 0; stage < block_.stages; ++stage)
      for (uint32_t k = 0; k < module.count; ++k) {
        const abi::CpuKernel& kernel = module.kernels[k];
        if (kernel.block != static_cast<uint32_t>(number_) || kernel.stage != static_cast<uint32_t>(stage))
          continue;
        tiles_.resize(kernel.tiles(count_));
        for (uint32_t t = 0; t < tiles_.size(); ++t) tiles_[t] = t;
        if (shuffle) std::shuffle(tiles_.begin(), tiles_.end(), *shuffle);
        if (scratch_.size() != kernel.scratch_floats + 16)
          scratch_.assign(kernel.scratch_floats + 16, std::nanf(""));
        for (const uint32_t t : tiles_)
          kernel.run(table_.data(), arena.floats.data(), kLevel, t, scratch_.data());
        for (size_t s = scratch_.size() - 16; s < scratch_.size(); ++s)
          if (!std::isnan(scratch_[s])) overrun_ = true;
      }
  }

  // The largest difference to the interpreter, relative to 1 + |value|; infinite when a NaN stands on one
  // side only.
  double difference(const Arena& arena) const {
    double worst = overrun_ ? INFINITY : 0;
    for (uint32_t i = 0; i < count_; ++i) {
      plan::BlockRun run;
      run.weights = arena.weights;
      for (size_t c = 0; c < block_.operands.size(); ++c) run.operands.push_back(operand(c, i));
      plan::run_block(block_, run);
      for (size_t o = 0; o < block_.outputs.size(); ++o) {
        const float* got = output(o, i);
        for (size_t e = 0; e < run.outputs[o].size(); ++e) {
          const double want = run.outputs[o][e], x = got[e];
          if (std::isnan(want) && std::isnan(x)) continue;
          const double off = std::fabs(want - x) / (1 + std::fabs(want));
          worst = std::isnan(off) ? INFINITY : std::max(worst, off);
        }
      }
    }
    return worst;
  }

  const float* output(size_t o, uint32_t i) const {
    const plan::Output& out = block_.outputs[o];
    const size_t row = 3 + i * static_cast<size_t>(block_.pool_rows[static_cast<size_t>(out.pool)]) +
                       static_cast<size_t>(out.sub);
    return pools_[static_cast<size_t>(out.pool)].data() + row * static_cast<size_t>(out.size);
  }
  std::vector<double> operand(size_t column, uint32_t i) const {
    const size_t words = static_cast<size_t>(2 + plan_.bases), header = 4 * plan_.pools.size();
    const size_t d = header + (kLevel * plan_.blocks.size() + static_cast<size_t>(number_)) * words;
    const uint32_t value = table_[table_[d + 1] + column * count_ + i];
    const plan::Operand& o = block_.operands[column];
    if (o.is_int) return {static_cast<double>(static_cast<int32_t>(value))};
    const float* row = pools_[pool_of(o.size)].data() + value * static_cast<size_t>(o.size);
    return std::vector<double>(row, row + o.size);
  }
  const std::vector<float>& results(size_t pool) const { return results_[pool]; }

 private:
  static constexpr uint32_t kGiven = 37;
  static constexpr uint32_t kLevel = 2;
  size_t pool_of(int64_t size) const {
    return static_cast<size_t>(std::lower_bound(plan_.pools.begin(), plan_.pools.end(), size) -
                               plan_.pools.begin());
  }
  void point(size_t entry, float* to) {
    const auto address = reinterpret_cast<uint64_t>(to);
    std::memcpy(&table_[2 * entry], &address, sizeof address);
  }

  const plan::Plan& plan_;
  int32_t number_;
  uint32_t count_;
  const plan::Block& block_;
  std::vector<std::vector<float>> pools_, results_;
  std::vector<uint32_t> given_;  // first row of each pool that is not written by the block
  std::vector<uint32_t> table_, tiles_;
  std::vector<float> scratch_;
  bool overrun_ = false;
};

struct CompiledKernels {
  std::shared_ptr<kernel::HostLibrary> library;
  const abi::CpuModule* module = nullptr;
};
inline CompiledKernels compile_kernels(const plan::Plan& plan) {
  CompiledKernels c;
  c.library = kernel::compile_host(plan.name, codegen::emit_cpu_kernels(plan));
  c.module = c.library->function<const abi::CpuModule*()>("rondo_cpu_module")();
  return c;
}

// ---------------------------------------------------------------- parts of hand-written plans
inline int32_t imm(std::vector<plan::Expr>* exprs, double value) {
  exprs->push_back({plan::Pointwise::Imm, -1, -1, value, {}});
  return static_cast<int32_t>(exprs->size()) - 1;
}
inline int32_t load(std::vector<plan::Expr>* exprs, plan::Source source, int32_t index,
                    std::vector<int64_t> strides, int64_t offset = 0, int32_t column = -1,
                    int64_t row_scale = 0) {
  plan::Load l{source, index, column, row_scale, offset, std::move(strides)};
  exprs->push_back({plan::Pointwise::Load, -1, -1, 0, l});
  return static_cast<int32_t>(exprs->size()) - 1;
}
inline int32_t apply(std::vector<plan::Expr>* exprs, plan::Pointwise code, int32_t a, int32_t b = -1) {
  exprs->push_back({code, a, b, 0, {}});
  return static_cast<int32_t>(exprs->size()) - 1;
}

inline std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}
inline int64_t product(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

inline plan::Block* add_block(plan::Plan* plan, std::vector<plan::Operand> operands) {
  plan::Block b;
  b.name = "block" + std::to_string(plan->blocks.size());
  b.source = "test.rondo:" + std::to_string(plan->blocks.size() + 1);
  for (const plan::Operand& o : operands) b.tensors += o.is_int ? 0 : 1;
  b.depth_operand.assign(static_cast<size_t>(b.tensors), true);
  b.operands = std::move(operands);
  plan->blocks.push_back(std::move(b));
  return &plan->blocks.back();
}
inline int32_t add_weight(plan::Plan* plan, std::vector<int64_t> dims, bool plain = false) {
  plan->weights.push_back({"w" + std::to_string(plan->weights.size()), std::move(dims), 0, plain ? 0 : -1});
  return static_cast<int32_t>(plan->weights.size()) - 1;
}
inline plan::Kernel* add_kernel(plan::Block* block, int32_t stage, bool is_gemm) {
  plan::Kernel k;
  k.name = block->name + "_k" + std::to_string(block->kernels.size());
  k.stage = stage;
  k.is_gemm = is_gemm;
  block->kernels.push_back(std::move(k));
  block->stages = std::max(block->stages, stage + 1);
  return &block->kernels.back();
}
inline int32_t add_output(plan::Block* block, int64_t size) {
  block->outputs.push_back({size, -1, 0, false});
  return static_cast<int32_t>(block->outputs.size()) - 1;
}

}  // namespace rondo::testing
