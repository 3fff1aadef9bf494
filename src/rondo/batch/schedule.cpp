#include "rondo/batch/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "rondo/error.h"

namespace rondo::batch {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();

[[noreturn]] void too_large(const std::string& what, uint64_t count) {
  throw Error(ErrorKind::Usage,
              fmt::format("the batch needs {} {}; the most is {}. Run fewer instances at a time", count, what,
                          kMost));
}

}  // namespace

Schedule::Schedule(const plan::Plan& plan)
    : plan_(plan),
      pools_(plan.pools.size()),
      blocks_(plan.blocks.size()),
      block_bits_(static_cast<uint32_t>(plan.block_bits)),
      descriptor_words_(2 + static_cast<uint32_t>(plan.bases)),
      header_words_(4 * static_cast<uint32_t>(plan.pools.size())) {
  const auto phases = static_cast<size_t>(plan.phases);
  used_depths_.resize(phases);
  depths_.resize(phases);
  first_level_.resize(phases);
  rows_.resize(pools_);
  result_rows_.resize(pools_);
  for (const plan::Block& b : plan.blocks) {
    std::vector<int32_t>& columns = operand_pool_.emplace_back();
    for (int32_t o = 0; o < b.tensors; ++o) {
      const auto found =
          std::find(plan.pools.begin(), plan.pools.end(), b.operands[static_cast<size_t>(o)].size);
      columns.push_back(static_cast<int32_t>(found - plan.pools.begin()));
    }
    block_kernels_.push_back(static_cast<uint32_t>(b.kernels.size()));
  }
}

void Schedule::layout(std::span<Recorder* const> recorders, std::span<const uint32_t> input_rows,
                      uint32_t (*round_depths)(uint32_t)) {
  const size_t phases = depths_.size();
  buckets_ = levels_ = used_levels_ = records_ = used_buckets_ = unbatched_launches_ = 0;
  for (size_t p = 0; p < phases; ++p) {
    uint32_t deepest = 0;
    for (const Recorder* r : recorders) deepest = std::max(deepest, r->deepest(static_cast<uint32_t>(p)));
    used_depths_[p] = deepest;
    depths_[p] = round_depths(deepest);
    first_level_[p] = static_cast<uint32_t>(levels_);
    levels_ += depths_[p];
    used_levels_ += deepest;
    flat_.bias[p] = static_cast<uint32_t>(buckets_) - (static_cast<uint32_t>(p) << abi::kPhaseShift);
    buckets_ += (uint64_t{deepest} + 1) << block_bits_;
  }
  if (buckets_ > kMost) too_large("buckets of schedule", buckets_);
  const uint64_t head = header_words_ + levels_ * blocks_ * descriptor_words_;
  if (head > kMost) too_large("words of schedule", head);
  descriptors_.assign(head - header_words_, 0);
  own_.resize(std::max(own_.size(), recorders.size()));
  first_result_.assign(recorders.size() * pools_, 0);
  for (size_t t = 0; t < recorders.size(); ++t) {
    Own& own = own_[t];
    // They only grow: what an earlier minibatch left is not read, as every bucket that is named has its
    // entries written.
    if (own.bases.size() < pools_ * buckets_) own.bases.resize(pools_ * buckets_);
    if (own.cursors.size() < buckets_) own.cursors.resize(buckets_);
    own.buckets_of.assign(blocks_, 0);
  }
  for (size_t pool = 0; pool < pools_; ++pool) {
    const auto constants = static_cast<uint32_t>(plan_.pool_constants[pool]);
    rows_[pool] = uint64_t{constants} + input_rows[pool];
    result_rows_[pool] = 0;
    for (size_t t = 0; t < recorders.size(); ++t) {
      own_[t].bases[pool * buckets_ + 0] = 0;          // constants
      own_[t].bases[pool * buckets_ + 1] = constants;  // tensors of the instances
    }
  }

  uint64_t word = head;
  for (size_t p = 0; p < phases; ++p) {
    const uint64_t start = static_cast<uint32_t>(flat_[static_cast<uint32_t>(p) << abi::kPhaseShift]);
    uint32_t* d = descriptors_.data() + size_t{first_level_[p]} * blocks_ * descriptor_words_;
    for (uint32_t depth = 1; depth <= used_depths_[p]; ++depth) {
      for (size_t block = 0; block < blocks_; ++block, d += descriptor_words_) {
        const size_t local = static_cast<size_t>(depth) << block_bits_ | block, at = start + local;
        const plan::Block& b = plan_.blocks[block];
        uint64_t count = 0;
        for (size_t t = 0; t < recorders.size(); ++t) {
          const uint32_t own = depth <= recorders[t]->deepest(static_cast<uint32_t>(p))
                                   ? recorders[t]->counts(static_cast<uint32_t>(p))[local]
                                   : 0;
          if (!own) continue;
          for (const int32_t pool : b.base_pools)
            own_[t].bases[static_cast<size_t>(pool) * buckets_ + at] =
                static_cast<uint32_t>(rows_[static_cast<size_t>(pool)] +
                                      count * static_cast<uint64_t>(b.pool_rows[static_cast<size_t>(pool)]));
          if (b.result_pool >= 0)
            first_result_[t * pools_ + static_cast<size_t>(b.result_pool)] = static_cast<uint32_t>(count);
          own_[t].cursors[at].next = static_cast<uint32_t>(word + count);
          ++own_[t].buckets_of[block];
          count += own;
        }
        if (!count) continue;
        if (count > kMost) too_large("records of " + b.name + " at one level", count);
        for (size_t t = 0; t < recorders.size(); ++t)
          own_[t].cursors[at].count = static_cast<uint32_t>(count);
        d[0] = static_cast<uint32_t>(count);
        d[1] = static_cast<uint32_t>(word);
        for (size_t k = 0; k < b.base_pools.size(); ++k) {
          const auto pool = static_cast<size_t>(b.base_pools[k]);
          d[2 + k] = static_cast<uint32_t>(rows_[pool]);
          rows_[pool] += count * static_cast<uint64_t>(b.pool_rows[pool]);
        }
        if (b.result_pool >= 0) result_rows_[static_cast<size_t>(b.result_pool)] += count;
        word += count * b.operands.size();
        records_ += count;
        unbatched_launches_ += count * block_kernels_[block];
        ++used_buckets_;
      }
    }
  }
  if (word > kMost) too_large("words of schedule", word);
  for (size_t pool = 0; pool < pools_; ++pool)
    if (rows_[pool] > kMost) too_large(fmt::format("rows of {} numbers", plan_.pools[pool]), rows_[pool]);
  table_words_ = word;
}

uint32_t Schedule::count(size_t phase, uint32_t depth, size_t block) const {
  if (depth > used_depths_[phase]) return 0;
  return descriptors_[((size_t{first_level_[phase]} + depth - 1) * blocks_ + block) * descriptor_words_];
}

void Schedule::write_head(uint32_t* table, std::span<const uint64_t> pools,
                          std::span<const uint64_t> results) const {
  std::memcpy(table, pools.data(), pools_ * 8);
  std::memcpy(table + 2 * pools_, results.data(), pools_ * 8);
  std::memcpy(table + header_words_, descriptors_.data(), descriptors_.size() * sizeof(uint32_t));
}

// kTensors: of the block, as a constant for the usual numbers; 0: any.
template <size_t kTensors>
void Schedule::write_block(uint32_t* table, size_t block, const abi::Log& log, Own* own) const {
  const plan::Block& b = plan_.blocks[block];
  const size_t tensors = kTensors ? kTensors : static_cast<size_t>(b.tensors),
               ints = b.operands.size() - static_cast<size_t>(b.tensors);
  const size_t words = 1 + 2 * tensors + ints;
  const Flat flat = flat_;
  const auto bases_of = [&, of = operand_pool_[block].data(), all = own->bases.data()](size_t o) {
    return all + static_cast<size_t>(of[o]) * buckets_;
  };
  const uint32_t *const begin = log.data, *const end = log.data + log.used;
  if (own->buckets_of[block] == 1) {
    // As many blocks are: columns one after the other, without looking where each record goes.
    const Cursor& cursor = own->cursors[flat[*begin]];
    uint32_t* column = table + cursor.next;
    const uint32_t* from = begin + 1;
    for (size_t o = 0; o < tensors; ++o, from += 2, column += cursor.count) {
      const uint32_t* const bases = bases_of(o);
      uint32_t* out = column;
      for (const uint32_t* ref = from; ref < end; ref += words) *out++ = bases[flat[ref[0]]] + ref[1];
    }
    for (size_t o = 0; o < ints; ++o, ++from, column += cursor.count) {
      uint32_t* out = column;
      for (const uint32_t* value = from; value < end; value += words) *out++ = *value;
    }
    return;
  }
  Cursor* const cursors = own->cursors.data();
  const uint32_t* bases[kTensors ? kTensors : 1];
  if constexpr (kTensors > 0)
    for (size_t o = 0; o < kTensors; ++o) bases[o] = bases_of(o);
  for (const uint32_t* record = begin; record != end; record += words) {
    Cursor& cursor = cursors[flat[record[0]]];
    const size_t count = cursor.count;
    uint32_t* out = table + cursor.next++;
    const uint32_t* from = record + 1;
    for (size_t o = 0; o < tensors; ++o, from += 2, out += count) {
      if constexpr (kTensors > 0)
        *out = bases[o][flat[from[0]]] + from[1];
      else
        *out = bases_of(o)[flat[from[0]]] + from[1];
    }
    for (size_t o = 0; o < ints; ++o, ++from, out += count) *out = *from;
  }
}

void Schedule::write_records(uint32_t* table, size_t number, const Recorder& recorder) {
  for (size_t block = 0; block < blocks_; ++block) {
    const abi::Log& log = recorder.log(block);
    if (log.used == 0) continue;
    switch (plan_.blocks[block].tensors) {
      case 1:
        write_block<1>(table, block, log, &own_[number]);
        break;
      case 2:
        write_block<2>(table, block, log, &own_[number]);
        break;
      case 3:
        write_block<3>(table, block, log, &own_[number]);
        break;
      case 4:
        write_block<4>(table, block, log, &own_[number]);
        break;
      default:
        write_block<0>(table, block, log, &own_[number]);
        break;
    }
  }
}

}  // namespace rondo::batch
