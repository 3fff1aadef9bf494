// What will run, as data: the blocks of a compiled program, the kernels of each block, the pools that rows live in,
// and which blocks share a launch. Made by plan/lower and plan/stages, read by codegen (text) and batch (execution).
// It is where the two towers meet: no IR in it, no device in it.
//
// Vocabulary. A *block* is the schedulable unit: a straight-line group of tensor operations of the source. Each time an
// instance reaches it, one *record* is appended: the block's operands (references to rows, and ints). All records of a
// block at the same level of the same phase run together. A *level* is 1 + the highest level among the operands.
// A *pool* holds every tensor of one element count: rows of `size` floats. A block with k outputs of that size owns k
// consecutive rows a record, so the outputs of a (level, block) bucket are contiguous.
// A block runs as *stages*, one after the other; the kernels of one stage are independent of each other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::plan {

// ---------------------------------------------------------------- weights and constants
struct Weight {
  std::string name;
  std::vector<int64_t> dims;
  int64_t numel = 0;
  int64_t plain_offset = -1;  // in floats into the weight arena, row-major as given; -1: only packed copies are used
};

// A row that is the same for every instance, placed in the first rows of its pool when weights are loaded.
struct Constant {
  int64_t size = 0;      // elements = the pool
  int32_t row = 0;       // in that pool
  int32_t weight = -1;   // -1: every element is `fill`
  double fill = 0;
  int64_t offset = 0;    // else element (i0,i1,..) of dims = weight[offset + sum i*stride]
  std::vector<int64_t> dims, strides;
};

// ---------------------------------------------------------------- expressions over an index space
enum class Source {
  Operand,    // index: tensor operand column; the row that the record names
  Weight,     // index: weight, plain
  WeightRow,  // as Weight, with column >= 0
  Output,     // index: output of this block (written by an earlier stage, or an earlier step of this kernel)
  Temp,       // index: temp of this kernel (row-local)
  Acc,        // index: accumulator of this Gemm at the current element; no offset, no strides
  IntValue,   // column: int operand (its column in Block::operands), as float; no offset, no strides
};
// column >= 0, with any source but Acc and IntValue: the int operand `column` times row_scale is added to the offset.
struct Load {
  Source source = Source::Operand;
  int32_t index = 0;
  int32_t column = -1;
  int64_t row_scale = 0;
  int64_t offset = 0;             // elements
  std::vector<int64_t> strides;   // an entry an axis of the index space (0 = broadcast)
  bool operator==(const Load&) const = default;
};
enum class Pointwise {
  Imm, Load,
  Add, Sub, Mul, Div, Max, Min, Pow,
  Neg, Exp, Log, Sqrt, Abs, Sigmoid, Tanh, Relu, Gelu, Erf, Sin, Cos, Floor,
};
struct Expr {
  Pointwise code = Pointwise::Imm;
  int32_t a = -1, b = -1;  // earlier expressions of the same list
  double imm = 0;
  rondo::plan::Load load;
};

enum class Sink {
  Output,  // index: output of this block
  Temp,    // index: temp of this kernel
  Result,  // the results buffer of the block's pool: element row*size + ..., row = position in the bucket
};
struct Store {
  int32_t value = -1;            // an Expr of the same list
  Sink sink = Sink::Output;
  int32_t index = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // an entry an axis of the index space
};

// ---------------------------------------------------------------- kernels
// For each record and each point of `dims`: value = reduce over the last, extra axis (if reduce > 0) of exprs[store.value].
// Steps of a kernel run in order for one record; a barrier lies between steps.
enum class Reduce { None, Sum, Max };
struct Step {
  std::vector<int64_t> dims;
  Reduce op = Reduce::None;
  int64_t reduce = 0;       // extent of the extra last axis; load strides then have dims.size() + 1 entries
  std::vector<Expr> exprs;
  Store store;
};

// acc[g](row, n, f) = sum over the segments that use g, over k: A(row; k, f) * W(n, k).
// Index space of the epilogue: (n, f). `free` is the extent of f: columns of a per-instance matrix ride as further rows.
struct SegmentUse {
  int32_t acc = 0;
  int32_t weight = 0;
  int64_t offset = 0, stride_n = 0, stride_k = 0;  // W(n,k) = weight[offset + n*stride_n + k*stride_k]
};
struct Segment {
  Load a;                           // strides: {k, f}
  int64_t k = 0;
  std::vector<SegmentUse> uses;     // each acc at most once
  int64_t pack_offset = 0;          // floats into the weight arena: packed_floats() of them, in the order that the device's
                                    // kernels read (batch/pack_weights.h)
};
struct Gemm {
  int64_t n = 0, free = 1;
  int32_t accs = 0;
  std::vector<Segment> segments;
  std::vector<Expr> exprs;
  std::vector<Store> stores;
};
// Units of n that lie together in a packed weight. 8: one sector of 32 bytes, one AVX2 register.
inline constexpr int64_t kUnit = 8;
// k is packed in whole steps: what is past it is zero.
inline constexpr int64_t kStep = 16;
constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
inline int64_t packed_floats(const Gemm& gemm, const Segment& s) {
  return round_up(gemm.n, kUnit) * round_up(s.k, kStep) * static_cast<int64_t>(s.uses.size());
}

struct Kernel {
  std::string name;         // a C identifier, leads back to function and block
  int32_t stage = 0;
  bool is_gemm = false;
  Gemm gemm;                // if is_gemm
  std::vector<Step> steps;  // else
  std::vector<int64_t> temps;  // else: elements of each temp; together at most kTempFloats
};
inline constexpr int64_t kTempFloats = 8192;  // 32 KiB of shared memory; what is larger becomes an internal output

// ---------------------------------------------------------------- blocks
struct Operand {
  bool is_int = false;
  int64_t size = 0;  // Tensor: elements = the pool. Int: it must lie in 0 .. size-1, checked by the host program; 0 = any
};
struct Output {
  int64_t size = 0;
  int32_t pool = -1;        // index into Plan::pools
  int32_t sub = 0;          // which of the block's rows in that pool
  bool internal = false;    // handed from stage to stage, never referred to from outside
};
struct Block {
  std::string name;              // unique, a C identifier: encode_Node_1
  std::string source;            // "tree.rondo:17"
  int32_t phase = 0;
  int32_t first_level = 1;       // it never occurs above this depth of its phase (depths count from 1)
  bool fixed_level = false;      // and never below it either
  // A record's depth is max(first_level, 1 + depths of these operands), or first_level alone if fixed.
  std::vector<bool> depth_operand;  // an entry a tensor operand: does its level have to be looked at
  std::vector<Operand> operands; // tensors first, then ints: columns of the table
  int32_t tensors = 0;           // how many are tensors
  std::vector<Output> outputs;
  std::vector<int32_t> pool_rows;   // an entry a pool: rows a record owns there
  std::vector<int32_t> base_pools;  // pools with pool_rows > 0, in order: bases of the descriptor
  std::vector<Kernel> kernels;
  int32_t stages = 0;
  int32_t result_pool = -1;      // >= 0: copies its one operand into the results buffer of that pool
};

// Blocks that can meet at a level run in one launch a stage.
struct Launch {
  std::string name;              // kernel name: <program>_p0_l2_s0
  int32_t phase = 0, stage = 0;
  int32_t from_level = 1, to_level = -1;  // depths of the phase; -1 = all further ones
  struct Item { int32_t block, kernel; };
  std::vector<Item> items;
};

struct Plan {
  std::string name;                  // of the program, a C identifier
  bool fused = true;                 // false: a kernel and a launch a product, for measuring what fusion brings
  TypeTable types;
  std::vector<TypeId> main_params;
  TypeId main_result = -1;
  std::vector<Weight> weights;
  std::vector<Constant> constants;
  int64_t weight_floats = 0;         // size of the weight arena, packed copies included
  std::vector<int64_t> pools;        // element counts, ascending
  std::vector<int32_t> pool_constants;  // rows reserved for constants at the start of each pool
  std::vector<Block> blocks;
  std::vector<Launch> launches;      // in order of (phase, from_level, stage)
  int32_t phases = 1;                // the last phase holds the result blocks
  int32_t block_bits = 1;            // S: bucket = phase << 28 | depth << S | block
  int32_t bases = 1;                 // pool bases in a descriptor: most base_pools of any block, at least 1
};

// Throws Error(Internal) naming the block and the broken rule.
void verify(const Plan& plan);
// Readable, stable text; `dump --stage plan`.
std::string print(const Plan& plan);

}  // namespace rondo::plan
