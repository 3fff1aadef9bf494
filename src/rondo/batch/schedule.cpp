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
  throw Error(ErrorKind::Usage, fmt::format("the batch needs {} {}; the most is {}. Run fewer instances at a time", count,
                                            what, kMost));
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
  start_.resize(phases);
  rows_.resize(pools_);
  result_rows_.resize(pools_);
  for (const plan::Block& b : plan.blocks) {
    std::vector<int32_t>& columns = operand_pool_.emplace_back();
    for (int32_t o = 0; o < b.tensors; ++o) {
      const auto found = std::find(plan.pools.begin(), plan.pools.end(), b.operands[static_cast<size_t>(o)].size);
      columns.push_back(static_cast<int32_t>(found - plan.pools.begin()));
    }
    block_kernels_.push_back(static_cast<uint32_t>(b.kernels.size()));
  }
}

void Schedule::layout(std::span<Recorder* const> recorders, std::span<const uint32_t> input_rows,
                      uint32_t (*round_depths)(uint32_t)) {
  const size_t phases = depths_.size();
  size_t buckets = 0;
  levels_ = used_levels_ = records_ = used_buckets_ = unbatched_launches_ = 0;
  for (size_t p = 0; p < phases; ++p) {
    uint32_t deepest = 0;
    for (const Recorder* r : recorders) deepest = std::max(deepest, r->deepest(static_cast<uint32_t>(p)));
    used_depths_[p] = deepest;
    depths_[p] = round_depths(deepest);
    first_level_[p] = static_cast<uint32_t>(levels_);
    levels_ += depths_[p];
    used_levels_ += deepest;
    start_[p] = buckets;
    buckets += (static_cast<size_t>(deepest) + 1) << block_bits_;
  }
  buckets_.assign(buckets, Bucket{});
  bases_.resize(pools_ * buckets);
  own_bases_.resize(std::max(own_bases_.size(), recorders.size()));
  cursors_.resize(std::max(cursors_.size(), recorders.size()));
  first_result_.assign(recorders.size() * pools_, 0);
  for (size_t t = 0; t < recorders.size(); ++t) {
    own_bases_[t].resize(pools_ * buckets);
    cursors_[t].resize(buckets);
  }
  for (size_t pool = 0; pool < pools_; ++pool) {
    const auto constants = static_cast<uint32_t>(plan_.pool_constants[pool]);
    rows_[pool] = uint64_t{constants} + input_rows[pool];
    result_rows_[pool] = 0;
    for (size_t t = 0; t < recorders.size(); ++t) {
      own_bases_[t][pool * buckets + 0] = 0;          // constants
      own_bases_[t][pool * buckets + 1] = constants;  // tensors of the instances
    }
  }

  uint64_t word = header_words_ + levels_ * blocks_ * descriptor_words_;
  for (size_t p = 0; p < phases; ++p) {
    for (uint32_t depth = 1; depth <= used_depths_[p]; ++depth) {
      for (size_t block = 0; block < blocks_; ++block) {
        const plan::Block& b = plan_.blocks[block];
        const size_t local = static_cast<size_t>(depth) << block_bits_ | block, at = start_[p] + local;
        uint64_t count = 0;
        for (size_t t = 0; t < recorders.size(); ++t) {
          const uint32_t own = depth <= recorders[t]->deepest(static_cast<uint32_t>(p))
                                   ? recorders[t]->counts(static_cast<uint32_t>(p))[local]
                                   : 0;
          if (!own) continue;
          for (const int32_t pool : b.base_pools)
            own_bases_[t][static_cast<size_t>(pool) * buckets + at] = static_cast<uint32_t>(
                rows_[static_cast<size_t>(pool)] + count * static_cast<uint64_t>(b.pool_rows[static_cast<size_t>(pool)]));
          if (b.result_pool >= 0)
            first_result_[t * pools_ + static_cast<size_t>(b.result_pool)] = static_cast<uint32_t>(count);
          cursors_[t][at] = {static_cast<uint32_t>(word + count), 0};
          count += own;
        }
        if (!count) continue;
        if (count > kMost) too_large("records of " + b.name + " at one level", count);
        buckets_[at] = {static_cast<uint32_t>(count), static_cast<uint32_t>(word)};
        for (size_t t = 0; t < recorders.size(); ++t) cursors_[t][at].count = static_cast<uint32_t>(count);
        for (const int32_t pool : b.base_pools) {
          bases_[static_cast<size_t>(pool) * buckets + at] = static_cast<uint32_t>(rows_[static_cast<size_t>(pool)]);
          rows_[static_cast<size_t>(pool)] += count * static_cast<uint64_t>(b.pool_rows[static_cast<size_t>(pool)]);
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
  return buckets_[start_[phase] + (static_cast<size_t>(depth) << block_bits_ | block)].count;
}

void Schedule::write_head(uint32_t* table, std::span<const uint64_t> pools, std::span<const uint64_t> results) const {
  std::memcpy(table, pools.data(), pools_ * 8);
  std::memcpy(table + 2 * pools_, results.data(), pools_ * 8);
  uint32_t* d = table + header_words_;
  const size_t buckets = buckets_.size();
  for (size_t p = 0; p < depths_.size(); ++p) {
    for (uint32_t depth = 1; depth <= depths_[p]; ++depth) {
      for (size_t block = 0; block < blocks_; ++block, d += descriptor_words_) {
        std::fill_n(d, descriptor_words_, 0u);
        if (depth > used_depths_[p]) continue;
        const size_t at = start_[p] + (static_cast<size_t>(depth) << block_bits_ | block);
        if (!buckets_[at].count) continue;
        d[0] = buckets_[at].count;
        d[1] = buckets_[at].index;
        const std::vector<int32_t>& own = plan_.blocks[block].base_pools;
        for (size_t k = 0; k < own.size(); ++k) d[2 + k] = bases_[static_cast<size_t>(own[k]) * buckets + at];
      }
    }
  }
}

void Schedule::write_records(uint32_t* table, size_t number, const Recorder& recorder) {
  const size_t buckets = buckets_.size();
  Cursor* cursors = cursors_[number].data();
  for (size_t block = 0; block < blocks_; ++block) {
    const plan::Block& b = plan_.blocks[block];
    const abi::Log& log = recorder.log(block);
    const auto tensors = static_cast<size_t>(b.tensors), ints = b.operands.size() - tensors;
    const size_t words = 1 + 2 * tensors + ints;
    const int32_t* pool_of = operand_pool_[block].data();
    const uint32_t* bases = own_bases_[number].data();
    for (const uint32_t *record = log.data, *end = log.data + log.used; record != end; record += words) {
      Cursor& cursor = cursors[flat(record[0])];
      uint32_t* out = table + cursor.next++;
      const uint32_t* ref = record + 1;
      for (size_t o = 0; o < tensors; ++o, ref += 2, out += cursor.count)
        *out = bases[static_cast<size_t>(pool_of[o]) * buckets + flat(ref[0])] + ref[1];
      for (size_t o = 0; o < ints; ++o, ++ref, out += cursor.count) *out = *ref;
    }
  }
}

}  // namespace rondo::batch
