// Where every record of a minibatch goes: counts of all recorders -> rows of the pools and places in the
// table (batch/abi.h), by prefix sums; then the records themselves -> operand columns.
//
// Rows lie level by level, so that the outputs of a (level, block) bucket are contiguous. With several
// recorders, the records of recorder t follow those of t - 1 in every bucket; each can be packed by a thread
// of its own. Nothing here hashes, sorts or, once the vectors have grown, allocates.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rondo/batch/recorder.h"
#include "rondo/plan/plan.h"

namespace rondo::batch {

class Schedule {
 public:
  explicit Schedule(const plan::Plan& plan);

  // input_rows: tensors of the instances, an entry a pool. round_depths: how many depths a phase gets for the
  // number it uses; the further ones are empty. Error(Usage) when the minibatch outgrows 32-bit rows.
  void layout(std::span<Recorder* const> recorders, std::span<const uint32_t> input_rows,
              uint32_t (*round_depths)(uint32_t));

  uint64_t table_words() const { return table_words_; }
  uint64_t rows(size_t pool) const { return rows_[pool]; }  // constants, inputs and outputs
  uint64_t result_rows(size_t pool) const { return result_rows_[pool]; }
  std::span<const uint32_t> depths() const { return depths_; }  // rounded, an entry a phase
  uint32_t first_level(size_t phase) const { return first_level_[phase]; }
  uint64_t levels() const { return levels_; }  // the sum of depths()
  uint64_t used_levels() const { return used_levels_; }
  uint64_t records() const { return records_; }
  uint64_t buckets() const { return used_buckets_; }
  uint64_t unbatched_launches() const { return unbatched_launches_; }
  uint32_t count(size_t phase, uint32_t depth, size_t block) const;  // of all recorders
  // Of the first result of recorder t in the results of a pool.
  uint32_t first_result(size_t recorder, size_t pool) const {
    return first_result_[recorder * pools_ + pool];
  }

  // Header and descriptors. pools, results: addresses, an entry a pool.
  void write_head(uint32_t* table, std::span<const uint64_t> pools, std::span<const uint64_t> results) const;
  // The records of one recorder; several may be packed at a time.
  void write_records(uint32_t* table, size_t recorder_number, const Recorder& recorder);

 private:
  struct Cursor {  // of a bucket in one recorder: the table word of its next record's first column, and the
                   // column length
    uint32_t next, count;
  };
  struct Own {                         // of one recorder
    std::vector<uint32_t> bases;       // pool row of a bucket's first record, [pool][bucket]
    std::vector<Cursor> cursors;       // by bucket
    std::vector<uint32_t> buckets_of;  // by block: in how many buckets it has records
  };
  // Numbers of buckets, phase after phase, as if by flat[bucket] - without the gaps between phases.
  struct Flat {
    uint32_t bias[abi::kMaxPhases];
    uint32_t operator[](uint32_t bucket) const { return bucket + bias[bucket >> abi::kPhaseShift]; }
  };
  template <size_t kTensors>
  void write_block(uint32_t* table, size_t block, const abi::Log& log, Own* own) const;

  const plan::Plan& plan_;
  size_t pools_, blocks_;
  uint32_t block_bits_, descriptor_words_, header_words_;
  std::vector<std::vector<int32_t>> operand_pool_;  // by block: pool of each tensor operand
  std::vector<uint32_t> used_depths_, depths_, first_level_, block_kernels_;
  Flat flat_{};
  uint64_t buckets_ = 0;               // and depth 0 of each phase: the length of what goes by bucket
  std::vector<uint32_t> descriptors_;  // as in the table
  std::vector<Own> own_;               // by recorder
  std::vector<uint64_t> rows_, result_rows_;
  std::vector<uint32_t> first_result_;
  uint64_t table_words_ = 0, levels_ = 0, used_levels_ = 0, records_ = 0, used_buckets_ = 0,
           unbatched_launches_ = 0;
};

}  // namespace rondo::batch
