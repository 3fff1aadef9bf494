// A small compiled model by hand, so that the run-time is tested without a compiler:
//
//   weight embed: f32[10, 4];
//   fn sum(t: Tree) -> f32[4] { match t { Leaf(word) => embed[word], Node(l, r) => sum(l) * 0.5 + sum(r) } }
//   fn main(t: Tree, x: f32[4]) -> (f32[4], [f32[4]], Tree) { let s = sum(t); (s, [x, ones(4)], t) }
//
// Blocks: 0 leaf (phase 0, depth 1), 1 node (phase 0, depth 2 on), 2 result_4 (phase 1). One pool of 4 floats; constant
// row 0 holds ones.
#pragma once
#include <vector>

#include "io_support.h"
#include "rondo/batch/runtime.h"

namespace rondo::test {

inline constexpr uint32_t kBits = 2;

inline plan::Plan tree_plan() {
  plan::Plan p;
  p.name = "trees";
  const TypeId integer = p.types.integer();
  p.types.adts.push_back({"Tree", {}});
  const TypeId tree = p.types.intern({TypeKind::Adt, {}, {}, 0});
  p.types.adts[0].constructors = {{"Leaf", {integer}, {"word"}}, {"Node", {tree, tree}, {"left", "right"}}};
  const TypeId row = p.types.tensor({4});
  p.main_params = {tree, row};
  p.main_result = p.types.tuple({row, p.types.list(row), tree});
  p.weights = {{"embed", {10, 4}, 40, 0}};
  p.constants = {{4, 0, -1, 1.0, 0, {4}, {1}}};
  p.weight_floats = 64;
  p.pools = {4};
  p.pool_constants = {1};
  p.phases = 2;
  p.block_bits = kBits;
  p.bases = 1;
  const auto block = [&](const char* name, int32_t phase, int32_t first, bool fixed, int32_t tensors, int32_t ints,
                         bool output) {
    plan::Block b;
    b.name = name;
    b.phase = phase;
    b.first_level = first;
    b.fixed_level = fixed;
    b.tensors = tensors;
    for (int32_t i = 0; i < tensors; ++i) b.operands.push_back({false, 4});
    for (int32_t i = 0; i < ints; ++i) b.operands.push_back({true, 0});
    b.pool_rows = {output ? 1 : 0};
    if (output) {
      b.outputs = {{4, 0, 0, false}};
      b.base_pools = {0};
    } else {
      b.result_pool = 0;
    }
    b.stages = 1;
    b.kernels.resize(1);
    b.kernels[0].name = name;
    p.blocks.push_back(b);
  };
  block("leaf", 0, 1, true, 0, 1, true);
  block("node", 0, 2, false, 2, 0, true);
  block("result_4", 1, 1, true, 1, 0, false);
  p.launches = {{"p0_d1", 0, 0, 1, 1, {{0, 0}}}, {"p0_d2", 0, 0, 2, -1, {{1, 0}}}, {"p1_d1", 1, 0, 1, 1, {{2, 0}}}};
  return p;
}

// What a launch may look at, found as abi.h says.
struct Table {
  const uint32_t* words;
  uint32_t level;
  float* pool() const { return reinterpret_cast<float*>(word64(0)); }
  float* results() const { return reinterpret_cast<float*>(word64(2)); }
  uint64_t word64(size_t at) const { return words[at] | static_cast<uint64_t>(words[at + 1]) << 32; }
  const uint32_t* descriptor(uint32_t block) const { return words + 4 + (level * 3 + block) * 3; }
  uint32_t count(uint32_t block) const { return descriptor(block)[0]; }
  uint32_t operand(uint32_t block, uint32_t column, uint32_t i) const {
    return words[descriptor(block)[1] + column * count(block) + i];
  }
};

// A tile is 3 records.
template <class F>
void each_record(uint32_t count, uint32_t tile, F&& f) {
  for (uint32_t i = 3 * tile; i < std::min(count, 3 * tile + 3); ++i) f(i);
}
inline uint32_t tree_tiles(uint32_t count) { return (count + 2) / 3; }

inline const abi::CpuModule* tree_kernels() {
  static const abi::CpuKernel kernels[] = {
      {"leaf", 0, 0, 0, tree_tiles,
       [](const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float*) {
         const Table t{table, level};
         each_record(t.count(0), tile, [&](uint32_t i) {
           float* out = t.pool() + (t.descriptor(0)[2] + i) * 4;
           for (int k = 0; k < 4; ++k) out[k] = weights[t.operand(0, 0, i) * 4 + static_cast<uint32_t>(k)];
         });
       }},
      {"node", 1, 0, 0, tree_tiles,
       [](const uint32_t* table, const float*, uint32_t level, uint32_t tile, float*) {
         const Table t{table, level};
         each_record(t.count(1), tile, [&](uint32_t i) {
           float* out = t.pool() + (t.descriptor(1)[2] + i) * 4;
           const float *l = t.pool() + t.operand(1, 0, i) * 4, *r = t.pool() + t.operand(1, 1, i) * 4;
           for (int k = 0; k < 4; ++k) out[k] = l[k] * 0.5f + r[k];
         });
       }},
      {"result_4", 2, 0, 0, tree_tiles,
       [](const uint32_t* table, const float*, uint32_t level, uint32_t tile, float*) {
         const Table t{table, level};
         each_record(t.count(2), tile, [&](uint32_t i) {
           for (uint32_t k = 0; k < 4; ++k) t.results()[i * 4 + k] = t.pool()[t.operand(2, 0, i) * 4 + k];
         });
       }},
  };
  static const abi::CpuModule module{abi::kVersion, 3, kernels};
  return &module;
}

// As codegen/host would write it.
struct TreeHost {
  static uint64_t sum(abi::Recorder* r, uint64_t tree) {
    if (static_cast<const char*>(__builtin_frame_address(0)) < r->stack_limit) r->fault(r, abi::kTooDeep, 3, 0, 0);
    const auto* node = reinterpret_cast<const uint64_t*>(tree);
    uint32_t row = 0, bucket = 0;
    if (node[0] == 0) {
      if (node[1] >= 10) r->fault(r, abi::kRowRange, 3, static_cast<int64_t>(node[1]), 10);
      uint32_t* record = abi::append(r, 0, 0, 1, kBits, 2, &row, &bucket);
      record[1] = static_cast<uint32_t>(node[1]);
      return abi::word_of({bucket, row});
    }
    const abi::Ref left = abi::ref_of(sum(r, node[1])), right = abi::ref_of(sum(r, node[2]));
    const uint32_t depth = std::max(left.bucket >> kBits, right.bucket >> kBits) + 1;
    uint32_t* record = abi::append(r, 0, 1, depth, kBits, 5, &row, &bucket);
    record[1] = left.bucket;
    record[2] = left.slot;
    record[3] = right.bucket;
    record[4] = right.slot;
    return abi::word_of({bucket, row});
  }
  static void run(abi::Recorder* r, const abi::Word* arguments, abi::Word* result) {
    auto* list = static_cast<uint64_t*>(abi::allocate(r, 16));
    list[0] = arguments[1];
    list[1] = abi::word_of({0, 0});
    result[0] = sum(r, arguments[0]);
    result[1] = reinterpret_cast<uint64_t>(list);
    result[2] = 2;
    result[3] = arguments[0];
  }
};
inline const abi::Program* tree_program() {
  static const abi::Program program{abi::kVersion, 3, TreeHost::run};
  return &program;
}

inline Weights tree_weights() {
  std::vector<float> numbers(40);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) * 0.25f - 3;
  Weights w;
  w.set("embed", {10, 4}, numbers);
  return w;
}

// A model on a device. copy_table: the device's kernel that brings the table, if it has one.
inline std::unique_ptr<batch::Runtime> tree_runtime(std::shared_ptr<device::Device> device,
                                                    const batch::RuntimeOptions& options = {},
                                                    const Weights& weights = tree_weights(),
                                                    const device::Kernel* copy_table = nullptr) {
  batch::RuntimeParts parts;
  parts.plan = tree_plan();
  parts.file = "tree.rondo";
  parts.program = tree_program();
  parts.launches = batch::cpu_launches(parts.plan, *tree_kernels(), device.get(), &parts.keep);
  parts.copy_table = copy_table;
  parts.device = std::move(device);
  return std::make_unique<batch::Runtime>(std::move(parts), weights, options);
}

// A random tree of `leaves` leaves and what sum() gives for it.
struct TreeMaker {
  Batch* batch;
  uint64_t state;
  ConstructorId leaf = batch->constructor("Leaf"), node = batch->constructor("Node");
  uint64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  }
  Value make(unsigned leaves, std::vector<float>* sum) {
    if (leaves == 1) {
      const auto word = static_cast<int64_t>(next() % 10);
      sum->clear();
      for (int k = 0; k < 4; ++k) sum->push_back(static_cast<float>(word * 4 + k) * 0.25f - 3);
      return batch->make(leaf, {Value::integer(word)});
    }
    const auto left = static_cast<unsigned>(1 + next() % (leaves - 1));
    std::vector<float> right_sum;
    const Value l = make(left, sum), r = make(leaves - left, &right_sum);
    for (size_t k = 0; k < 4; ++k) (*sum)[k] = (*sum)[k] * 0.5f + right_sum[k];
    return batch->make(node, {l, r});
  }
  // Adds an instance; x is {number, ...}.
  std::vector<float> add(unsigned leaves) {
    std::vector<float> sum;
    const auto number = static_cast<float>(batch->size());
    const float x[] = {number, number + 0.25f, number + 0.5f, number + 0.75f};
    const Value tree = make(leaves, &sum);
    batch->add({tree, batch->tensor(batch->signature().params()[1], x)});
    return sum;
  }
};

}  // namespace rondo::test
