// What is fixed once every block is known: pools and the rows that a record owns in them, where weights and their packed
// copies lie, and which blocks share a launch at which depths.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "rondo/error.h"
#include "rondo/plan/stages.h"

namespace rondo::plan {
namespace {

constexpr int64_t kAlign = 32;  // floats: 128 bytes, so that 16-byte copies and whole cache lines line up

int32_t pool_of(const Plan& plan, int64_t size) {
  const auto found = std::lower_bound(plan.pools.begin(), plan.pools.end(), size);
  return static_cast<int32_t>(found - plan.pools.begin());
}

void place_pools(Plan* plan) {
  std::set<int64_t> sizes;
  for (const Constant& c : plan->constants) sizes.insert(c.size);
  for (const Block& b : plan->blocks) {
    for (const Operand& o : b.operands)
      if (!o.is_int) sizes.insert(o.size);
    for (const Output& o : b.outputs) sizes.insert(o.size);
  }
  for (const int64_t size : plan->pools) sizes.insert(size);  // input tensors, noted by lower()
  plan->pools.assign(sizes.begin(), sizes.end());
  plan->pool_constants.assign(plan->pools.size(), 0);
  for (const Constant& c : plan->constants) {
    int32_t& rows = plan->pool_constants[static_cast<size_t>(pool_of(*plan, c.size))];
    rows = std::max(rows, c.row + 1);
  }
  plan->bases = 1;
  for (Block& b : plan->blocks) {
    b.pool_rows.assign(plan->pools.size(), 0);
    for (Output& o : b.outputs) {
      o.pool = pool_of(*plan, o.size);
      o.sub = b.pool_rows[static_cast<size_t>(o.pool)]++;
    }
    b.base_pools.clear();
    for (size_t p = 0; p < plan->pools.size(); ++p)
      if (b.pool_rows[p] > 0) b.base_pools.push_back(static_cast<int32_t>(p));
    plan->bases = std::max(plan->bases, static_cast<int32_t>(b.base_pools.size()));
    if (b.result_pool >= 0) b.result_pool = pool_of(*plan, b.operands.at(0).size);
  }
}

void place_weights(Plan* plan) {
  int64_t end = 0;
  const auto take = [&](int64_t floats) {
    const int64_t at = end;
    end += (floats + kAlign - 1) / kAlign * kAlign;
    return at;
  };
  for (Weight& w : plan->weights) {
    w.numel = 1;
    for (const int64_t d : w.dims) w.numel *= d;
    if (w.plain_offset >= 0) w.plain_offset = take(w.numel);
  }
  for (Block& b : plan->blocks)
    for (Kernel& k : b.kernels)
      for (Segment& s : k.gemm.segments)
        s.pack_offset = take(packed_floats(k.gemm, s));
  plan->weight_floats = end;
}

// Depths at which the set of blocks changes cut a phase into ranges; a range has a launch for each stage.
void group_launches(Plan* plan) {
  plan->launches.clear();
  plan->phases = 1;
  for (const Block& b : plan->blocks) plan->phases = std::max(plan->phases, b.phase + 1);
  for (int32_t phase = 0; phase < plan->phases; ++phase) {
    struct Cut {
      std::vector<int32_t> begin, over;  // blocks
    };
    std::map<int32_t, Cut> cuts;
    for (size_t i = 0; i < plan->blocks.size(); ++i) {
      const Block& b = plan->blocks[i];
      if (b.phase != phase) continue;
      cuts[b.first_level].begin.push_back(static_cast<int32_t>(i));
      if (b.fixed_level) cuts[b.first_level + 1].over.push_back(static_cast<int32_t>(i));
    }
    std::set<int32_t> alive;
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const int32_t from = cut->first, to = std::next(cut) == cuts.end() ? -1 : std::next(cut)->first - 1;
      for (const int32_t i : cut->second.over) alive.erase(i);
      alive.insert(cut->second.begin.begin(), cut->second.begin.end());
      std::vector<std::vector<Launch::Item>> items;  // of each stage
      for (const int32_t i : alive) {
        const Block& b = plan->blocks[static_cast<size_t>(i)];
        if (items.size() < static_cast<size_t>(b.stages)) items.resize(static_cast<size_t>(b.stages));
        for (size_t k = 0; k < b.kernels.size(); ++k)
          items[static_cast<size_t>(b.kernels[k].stage)].push_back({i, static_cast<int32_t>(k)});
      }
      for (int32_t stage = 0; stage < static_cast<int32_t>(items.size()); ++stage) {
        Launch launch;
        launch.name = fmt::format("{}_p{}_d{}_s{}", plan->name, phase, from, stage);
        launch.phase = phase;
        launch.stage = stage;
        launch.from_level = from;
        launch.to_level = to;
        launch.items = std::move(items[static_cast<size_t>(stage)]);
        if (plan->fused || launch.items.size() == 1) {
          plan->launches.push_back(std::move(launch));
          continue;
        }
        for (size_t item = 0; item < launch.items.size(); ++item) {
          Launch one = launch;
          one.name += fmt::format("_{}", item);
          one.items = {launch.items[item]};
          plan->launches.push_back(std::move(one));
        }
      }
    }
  }
}

}  // namespace

void finish(Plan* plan) {
  place_pools(plan);
  place_weights(plan);
  plan->block_bits = 1;
  while ((size_t{1} << plan->block_bits) < plan->blocks.size()) ++plan->block_bits;
  group_launches(plan);
  verify(*plan);
}

}  // namespace rondo::plan
