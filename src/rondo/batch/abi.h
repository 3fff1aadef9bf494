// What generated C++ and the run-time agree on. This file is also the head of every generated host program, so it
// includes nothing of Rondo and nothing heavy.
//
// A generated program walks one instance and appends records. A record of block b in log[b] is
//   { bucket, tensors x {bucket, slot}, ints }   as uint32 words
// and gets the row count[phase][bucket & kBucketMask] at the time of appending. bucket = phase<<28 | depth<<S | block,
// depth from 1. A Ref to output o of it is {bucket, row * rows_of_its_pool + sub}: it can be resolved once all counts
// are known, to pool row = base[pool][bucket] + slot. Depth 0 of phase 0 holds what is given: bucket 0 = constants
// (slot = constant row), bucket 1 = tensors of the instances (slot = number of the tensor in the batch).
#pragma once
#include <stdint.h>
#include <string.h>

namespace rondo::abi {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxPhases = 16;
constexpr uint32_t kPhaseShift = 28;
constexpr uint32_t kBucketMask = (1u << kPhaseShift) - 1;

typedef uint64_t Word;

struct Ref {
  uint32_t bucket, slot;
};
inline Word word_of(Ref r) { return (Word)r.slot << 32 | r.bucket; }
inline Ref ref_of(Word w) { return Ref{(uint32_t)w, (uint32_t)(w >> 32)}; }

struct List {  // words of a list value
  const Word* data;
  uint64_t length;
};

struct Log {  // records of one block, fixed size; grows by grow_log
  uint32_t* data;
  uint64_t used, capacity;  // in words
};

// What goes wrong while an instance is walked. The texts are made by the run-time.
enum Fault { kRowRange = 1, kListRange = 2, kDivideByZero = 3, kTooDeep = 4, kTooManyLevels = 5, kIntRange = 6 };

struct Recorder {  // one a thread
  uint32_t* count[kMaxPhases];      // records of each bucket, [depth << S | block]
  uint32_t depths[kMaxPhases];      // depths that count[] has room for
  uint32_t deepest[kMaxPhases];     // highest depth used
  Log* log;                         // one a block
  char* arena;                      // values made while walking: bump allocation
  char* arena_end;
  const char* stack_limit;          // recursion below this address is kTooDeep
  void (*grow_depths)(Recorder*, uint32_t phase, uint32_t depth);
  void (*grow_log)(Recorder*, uint32_t block, uint32_t words);
  void* (*grow_arena)(Recorder*, uint64_t bytes);  // returns the allocation itself
  // Throws; does not return. line: of the source; a, b: the values (index and extent).
  __attribute__((noreturn)) void (*fault)(Recorder*, Fault fault, int32_t line, int64_t a, int64_t b);
  void* owner;
};

inline void* allocate(Recorder* r, uint64_t bytes) {
  if ((uint64_t)(r->arena_end - r->arena) < bytes) return r->grow_arena(r, bytes);
  char* p = r->arena;
  r->arena += bytes;
  return p;
}

// Appends a record's words (bucket is filled in here) and returns its row in the bucket.
// level: depth that the block gets, already the maximum over its operands.
inline uint32_t* append(Recorder* r, uint32_t phase, uint32_t block, uint32_t depth, uint32_t block_bits, uint32_t words,
                        uint32_t* row, uint32_t* bucket) {
  if (depth > r->deepest[phase]) {
    if (depth >= r->depths[phase]) r->grow_depths(r, phase, depth);
    r->deepest[phase] = depth;
  }
  const uint32_t local = depth << block_bits | block;
  *row = r->count[phase][local]++;
  *bucket = phase << kPhaseShift | local;
  Log* log = &r->log[block];
  if (log->used + words > log->capacity) r->grow_log(r, block, words);
  uint32_t* record = log->data + log->used;
  log->used += words;
  record[0] = *bucket;
  return record;
}

// ---------------------------------------------------------------- the table of a minibatch (host and device)
// uint32 words: pool pointers (8 bytes each), results pointers (8 bytes each), then descriptors
//   D(level, block) = header + (level * blocks + block) * (2 + bases): { count, index, base of each base_pool }
// level counts through all phases: a phase's depth d is level first[phase] + d - 1. Operand column o of record i is
// table[index + o * count + i]: a pool row for a tensor, the value for an int.

// ---------------------------------------------------------------- what a generated host program exports
typedef void (*RunFn)(Recorder*, const Word* arguments, Word* result);
struct Program {
  uint32_t version;
  uint32_t blocks;
  RunFn run;  // walks one instance: words of main's parameters in, words of its result out (tensors as Refs)
};
// extern "C" const rondo::abi::Program* rondo_program();

// ---------------------------------------------------------------- what generated CPU kernels export
struct CpuKernel {
  const char* name;
  uint32_t block, stage;
  uint32_t scratch_floats;                 // of one worker
  uint32_t (*tiles)(uint32_t count);       // independent pieces of work for `count` records
  void (*run)(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float* scratch);
};
struct CpuModule {
  uint32_t version;
  uint32_t count;
  const CpuKernel* kernels;  // ordered as Plan::blocks, then Block::kernels
};
// extern "C" const rondo::abi::CpuModule* rondo_cpu_module();

// CUDA kernels: extern "C" __global__ void <launch name>(const uint32_t* table, const float* weights, uint32_t level)

// And one that brings the table: extern "C" __global__ void rondo_copy_table(const uint4* from, uint4* to),
// blocks of kCopyThreads, any grid. `from` is a head of kCopyHeadBytes, whose first word is the number of
// 16-byte pieces that follow it. Each thread copies the piece of its number whatever that count is, so both
// sides have room for one a thread.
constexpr uint32_t kCopyThreads = 256, kCopyPieceBytes = 16, kCopyHeadBytes = 256;

}  // namespace rondo::abi
