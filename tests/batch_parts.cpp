// The parts of the run-time by themselves: recorder, schedule, packed weights, threads.
#include <atomic>

#include "batch_support.h"
#include "rondo/batch/ahead.h"
#include "rondo/batch/pack_weights.h"
#include "rondo/batch/walkers.h"

namespace rondo {
namespace {

using test::error_of;

TEST(Recorder, FaultsAreToldWithTheirValues) {
  const plan::Plan plan = test::tree_plan();
  batch::Recorder recorder(plan, "p.rondo");
  recorder.set_instance(4);
  const auto message = [&](abi::Fault fault, int32_t line, int64_t a, int64_t b) {
    return error_of([&] { recorder.abi()->fault(recorder.abi(), fault, line, a, b); });
  };
  EXPECT_EQ(message(abi::kRowRange, 7, -1, 5), "usage: instance 4: p.rondo:7: row -1 of a tensor with 5 rows; expected 0 to 4");
  EXPECT_EQ(message(abi::kListRange, 7, 3, 3), "usage: instance 4: p.rondo:7: item 3 of a list of 3; expected 0 to 2");
  EXPECT_EQ(message(abi::kListRange, 7, 3, 0), "usage: instance 4: p.rondo:7: item 3 of an empty list");
  EXPECT_EQ(message(abi::kDivideByZero, 0, 3, 0), "usage: instance 4: p.rondo: 3 divided by zero");
  EXPECT_EQ(message(abi::kIntRange, 7, 1LL << 40, 0),
            "usage: instance 4: p.rondo:7: the integer 1099511627776 becomes a tensor element; expected -2147483648 to "
            "2147483647");
  EXPECT_THROW(recorder.abi()->fault(recorder.abi(), abi::kTooDeep, 1, 0, 0), batch::StackUsedUp);
  uint32_t row = 0, bucket = 0;
  EXPECT_EQ(error_of([&] { abi::append(recorder.abi(), 0, 0, 1u << 26, test::kBits, 2, &row, &bucket); }),
            "usage: instance 4: p.rondo: 67108864 levels of dependent work; the most is 67108863");
}

TEST(Recorder, ResetForgetsRecordsAndKeepsMemory) {
  const plan::Plan plan = test::tree_plan();
  batch::Recorder recorder(plan, "p.rondo");
  const auto fill = [&] {
    uint32_t row = 0, bucket = 0;
    for (uint32_t i = 0; i < 5000; ++i) abi::append(recorder.abi(), 0, 1, 1 + i, test::kBits, 5, &row, &bucket);
    EXPECT_EQ(row, 0u);
    abi::append(recorder.abi(), 0, 1, 5000, test::kBits, 5, &row, &bucket);
    EXPECT_EQ(row, 1u);
    EXPECT_EQ(bucket, 5000u << test::kBits | 1);
    return std::pair(abi::allocate(recorder.abi(), 100000), recorder.log(1).data);
  };
  const auto before = fill();
  EXPECT_EQ(recorder.deepest(0), 5000u);
  recorder.reset();
  EXPECT_EQ(recorder.deepest(0), 0u);
  EXPECT_EQ(recorder.log(1).used, 0u);
  EXPECT_EQ(fill(), before);
}

TEST(Ahead, EveryLineOfEveryPieceIsAskedForOnceInOrder) {
  std::vector<char> memory(1000);
  for (const size_t step : {1u, 63u, 64u, 65u, 130u, 5000u}) {
    batch::Ahead ahead(batch::Ahead::For::Writing);
    for (int again = 0; again < 2; ++again) {
      ahead.clear();
      ahead.add(memory.data(), 300);
      ahead.add(nullptr, 0);
      ahead.add(memory.data() + 400, 64);
      ahead.add(memory.data() + 500, 65);
      EXPECT_EQ(ahead.bytes(), 429u);
      std::vector<ptrdiff_t> seen;
      size_t steps = 0;
      for (size_t before = SIZE_MAX; before != seen.size(); ++steps) {
        before = seen.size();
        ahead.step(step, [&](const char* line) { seen.push_back(line - memory.data()); });
      }
      EXPECT_EQ(seen, (std::vector<ptrdiff_t>{0, 64, 128, 192, 256, 400, 500, 564}));
      EXPECT_EQ(steps, 1 + (step <= 64 ? 8u : step <= 130 ? (step == 65 ? 4u : 3u) : 1u)) << step;
    }
  }
  batch::Ahead nothing(batch::Ahead::For::Reading);
  nothing.ask(100);
  nothing.add(memory.data(), 100);
  nothing.skip(100);
  nothing.ask(100);
}

// Both halves of a batch in recorders of their own give the table that one recorder gives, up to the order of records.
TEST(Schedule, RowsOfSeveralRecordersFollowOneAnother) {
  const plan::Plan plan = test::tree_plan();
  batch::Recorder a(plan, "p"), b(plan, "p");
  uint32_t row = 0, bucket = 0;
  const auto leaf = [&](batch::Recorder* r, uint32_t word) {
    abi::append(r->abi(), 0, 0, 1, test::kBits, 2, &row, &bucket)[1] = word;
    return abi::Ref{bucket, row};
  };
  const auto node = [&](batch::Recorder* r, abi::Ref left, abi::Ref right) {
    uint32_t* record = abi::append(r->abi(), 0, 1, 2, test::kBits, 5, &row, &bucket);
    record[1] = left.bucket, record[2] = left.slot, record[3] = right.bucket, record[4] = right.slot;
  };
  leaf(&a, 11);
  node(&a, leaf(&a, 12), abi::Ref{0, 0});
  node(&b, leaf(&b, 21), abi::Ref{1, 3});
  batch::Schedule schedule(plan);
  batch::Recorder* recorders[] = {&a, &b};
  const uint32_t inputs[] = {5};
  schedule.layout(recorders, inputs, [](uint32_t d) { return d + 1; });
  EXPECT_EQ(schedule.rows(0), 1u + 5 + 3 + 2);  // constants, inputs, leaves, nodes
  EXPECT_EQ(schedule.depths()[0], 3u);
  EXPECT_EQ(schedule.levels(), 4u);
  EXPECT_EQ(schedule.used_levels(), 2u);
  EXPECT_EQ(schedule.records(), 5u);
  std::vector<uint32_t> table(schedule.table_words());
  const uint64_t pool[] = {0x123456789a}, result[] = {0};
  schedule.write_head(table.data(), pool, result);
  schedule.write_records(table.data(), 1, b);  // in any order
  schedule.write_records(table.data(), 0, a);
  const test::Table one{table.data(), 0}, two{table.data(), 1}, three{table.data(), 2};
  EXPECT_EQ(one.word64(0), 0x123456789aULL);
  EXPECT_EQ(one.count(0), 3u);
  EXPECT_EQ(one.descriptor(0)[2], 6u);
  EXPECT_EQ(one.operand(0, 0, 0), 11u);
  EXPECT_EQ(one.operand(0, 0, 1), 12u);
  EXPECT_EQ(one.operand(0, 0, 2), 21u);
  EXPECT_EQ(two.count(1), 2u);
  EXPECT_EQ(two.descriptor(1)[2], 9u);
  EXPECT_EQ(two.operand(1, 0, 0), 7u);  // second leaf
  EXPECT_EQ(two.operand(1, 1, 0), 0u);  // constant 0
  EXPECT_EQ(two.operand(1, 0, 1), 8u);  // first leaf of b
  EXPECT_EQ(two.operand(1, 1, 1), 4u);  // input 3
  EXPECT_EQ(two.count(0), 0u);
  EXPECT_EQ(three.count(1), 0u);        // an empty level
}

// Blocks of every number of operands, in one bucket or in many, in two phases, from one or more recorders:
// each column has the rows and ints that its records name.
TEST(Schedule, EveryOperandOfEveryRecordIsInItsColumn) {
  constexpr uint32_t kBlocks = 7, kBits = 3;
  plan::Plan plan = test::tree_plan();
  plan.pools = {4, 6};
  plan.pool_constants = {2, 3};
  plan.block_bits = kBits;
  plan.bases = 2;
  plan.blocks.clear();
  for (uint32_t b = 0; b < kBlocks; ++b) {
    plan::Block block;
    block.name = "b" + std::to_string(b);
    block.phase = b >= 5;
    block.tensors = static_cast<int32_t>(b);  // 0 to 6
    for (uint32_t o = 0; o < b; ++o) block.operands.push_back({false, o % 2 ? 6 : 4});
    for (uint32_t o = 0; o < b % 3; ++o) block.operands.push_back({true, 0});
    block.pool_rows = {1, static_cast<int32_t>(b % 2)};
    block.base_pools = b % 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{0};
    block.kernels.resize(1);
    plan.blocks.push_back(block);
  }
  struct Record {
    size_t recorder;
    uint32_t block, phase, depth, row;
    std::vector<abi::Ref> refs;
    std::vector<uint32_t> ints;
  };
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    uint64_t state = seed;
    const auto random = [&](uint64_t below) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<uint32_t>((state >> 33) % below);
    };
    const size_t recorders = 1 + seed % 3;
    std::vector<std::unique_ptr<batch::Recorder>> owned;
    std::vector<batch::Recorder*> all;
    for (size_t t = 0; t < recorders; ++t) {
      owned.push_back(std::make_unique<batch::Recorder>(plan, "p"));
      all.push_back(owned.back().get());
    }
    const uint32_t deepest = 1 + random(4);  // 1: every block is in one bucket
    std::vector<Record> records;
    for (int i = 0; i < 300; ++i) {
      Record r{random(recorders), random(kBlocks), 0, 1 + random(deepest), 0, {}, {}};
      const plan::Block& block = plan.blocks[r.block];
      r.phase = static_cast<uint32_t>(block.phase);
      uint32_t bucket = 0;
      const size_t tensors = static_cast<size_t>(block.tensors);
      uint32_t* w = abi::append(all[r.recorder]->abi(), r.phase, r.block, r.depth, kBits,
                                static_cast<uint32_t>(1 + tensors + block.operands.size()), &r.row, &bucket) +
                    1;
      for (size_t o = 0; o < tensors; ++o) {
        // A constant, an input, or an earlier record of this recorder.
        abi::Ref ref{random(2), random(2)};
        const size_t earlier = records.empty() ? 0 : random(records.size());
        if (!records.empty() && records[earlier].recorder == r.recorder &&
            plan.blocks[records[earlier].block].pool_rows[o % 2]) {
          const Record& e = records[earlier];
          ref = {e.phase << abi::kPhaseShift | e.depth << kBits | e.block, e.row};
        }
        r.refs.push_back(ref);
        *w++ = ref.bucket;
        *w++ = ref.slot;
      }
      for (size_t o = tensors; o < block.operands.size(); ++o) r.ints.push_back(*w++ = random(1u << 31));
      records.push_back(r);
    }
    const uint32_t inputs[] = {2, 2};
    batch::Schedule schedule(plan);
    for (int again = 0; again < 2; ++again) {  // what the run before left does not matter
      schedule.layout(all, inputs, [](uint32_t d) { return d + 2; });
      std::vector<uint32_t> table(schedule.table_words(), 0xcccccccc);
      const uint64_t addresses[] = {0, 0};
      schedule.write_head(table.data(), addresses, addresses);
      for (size_t t = 0; t < recorders; ++t) schedule.write_records(table.data(), t, *all[t]);
      const auto descriptor = [&](uint32_t phase, uint32_t depth, uint32_t block) {
        return table.data() + 8 + ((schedule.first_level(phase) + depth - 1) * kBlocks + block) * 4;
      };
      // Records of a recorder follow those of the ones before it in each bucket.
      const auto place = [&](const Record& r) {
        uint32_t before = r.row;
        for (const Record& other : records)
          before += other.recorder < r.recorder && other.block == r.block && other.depth == r.depth;
        return before;
      };
      const auto row_of = [&](const Record& r, abi::Ref ref, size_t pool) {
        if (ref.bucket == 0) return ref.slot;
        if (ref.bucket == 1) return static_cast<uint32_t>(plan.pool_constants[pool]) + ref.slot;
        const uint32_t phase = ref.bucket >> abi::kPhaseShift, local = ref.bucket & abi::kBucketMask,
                       block = local & 7;
        for (const Record& e : records)
          if (e.recorder == r.recorder && e.phase == phase && e.depth == local >> kBits && e.block == block &&
              e.row == ref.slot)
            return descriptor(phase, e.depth, block)[2 + pool] + place(e);
        return UINT32_MAX;
      };
      for (const Record& r : records) {
        const uint32_t *d = descriptor(r.phase, r.depth, r.block), *column = table.data() + d[1] + place(r);
        ASSERT_EQ(schedule.count(r.phase, r.depth, r.block), d[0]);
        for (size_t o = 0; o < r.refs.size(); ++o, column += d[0])
          ASSERT_EQ(*column, row_of(r, r.refs[o], o % 2)) << "seed " << seed;
        for (size_t o = 0; o < r.ints.size(); ++o, column += d[0])
          ASSERT_EQ(*column, r.ints[o]) << "seed " << seed;
      }
      const uint32_t* empty = descriptor(1, deepest + 1, 6);
      EXPECT_EQ(std::vector<uint32_t>(empty, empty + 4), std::vector<uint32_t>(4, 0));
    }
  }
}

TEST(PackWeights, SegmentsArePackedByUnitsAndPaddedWithZeros) {
  plan::Plan plan;
  plan.weights = {{"a", {10, 3}, 30, -1}, {"b", {3, 10}, 30, 0}};
  plan.weight_floats = 32 + 16 * 3 * 2;
  plan::Kernel kernel;
  kernel.is_gemm = true;
  kernel.gemm.n = 10;
  kernel.gemm.accs = 2;
  plan::Segment segment;
  segment.k = 3;
  segment.pack_offset = 32;
  segment.uses = {{0, 0, 0, 3, 1}, {1, 1, 0, 1, 10}};  // a as it is, b transposed
  kernel.gemm.segments = {segment};
  plan.blocks.resize(1);
  plan.blocks[0].kernels = {kernel};
  std::vector<float> a(30), b(30);
  for (size_t i = 0; i < 30; ++i) a[i] = static_cast<float>(i), b[i] = 100 + static_cast<float>(i);
  Weights weights;
  weights.set("a", {10, 3}, a);
  weights.set("b", {3, 10}, b);
  weights.set("c", {1}, std::span(a.data(), 1));
  const batch::PackedWeights packed = batch::pack_weights(plan, weights, batch::Packing::Rows);
  EXPECT_EQ(packed.ignored, std::vector<std::string>{"c"});
  EXPECT_EQ(packed.arena[29], 129);
  for (size_t n = 0; n < 16; ++n)
    for (size_t k = 0; k < 3; ++k) {
      const float* at = packed.arena.data() + 32 + ((n / 8 * 3 + k) * 2) * 8 + n % 8;
      EXPECT_EQ(at[0], n < 10 ? static_cast<float>(n * 3 + k) : 0);
      EXPECT_EQ(at[8], n < 10 ? 100 + static_cast<float>(k * 10 + n) : 0);
    }
}

// What codegen/prelude/cuda.h reads: [n / 8][k / 16][k % 4][piece of uses][k / 4 % 4][n % 8][use of the piece].
TEST(PackWeights, LanesOfAWarpFindTheirWeightsSideBySide) {
  constexpr size_t kN = 10, kK = 37, kUses = 7;
  plan::Plan plan;
  plan::Kernel kernel;
  kernel.is_gemm = true;
  kernel.gemm.n = kN;
  kernel.gemm.accs = kUses;
  plan::Segment segment;
  segment.k = kK;
  Weights weights;
  for (size_t u = 0; u < kUses; ++u) {
    const std::string name(1, static_cast<char>('a' + u));
    plan.weights.push_back({name, {kN, kK}, kN * kK, -1});
    std::vector<float> w(kN * kK);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(1000 * u + i + 1);
    weights.set(name, {kN, kK}, w);
    const auto use = static_cast<int32_t>(u);
    segment.uses.push_back({use, use, 0, kK, 1});
  }
  plan.weight_floats = plan::packed_floats(kernel.gemm, segment);
  EXPECT_EQ(plan.weight_floats, 16 * 48 * 7);
  kernel.gemm.segments = {segment};
  plan.blocks.resize(1);
  plan.blocks[0].kernels = {kernel};
  const batch::PackedWeights packed = batch::pack_weights(plan, weights, batch::Packing::Lanes);
  const size_t first[] = {0, 0, 0, 0, 4, 4, 6}, width[] = {4, 4, 4, 4, 2, 2, 1};  // 7 uses: pieces of 4, 2 and 1
  for (size_t n = 0; n < 16; ++n)
    for (size_t k = 0; k < 48; ++k)
      for (size_t u = 0; u < kUses; ++u) {
        const size_t step = (n / 8 * 3 + k / 16) * 4 + k % 4;
        const size_t at = (step * kUses + first[u]) * 32 + (k / 4 % 4 * 8 + n % 8) * width[u] + u - first[u];
        EXPECT_EQ(packed.arena[at], n < kN && k < kK ? static_cast<float>(1000 * u + n * kK + k + 1) : 0) << n << ' ' << k << ' ' << u;
      }
}

TEST(PackWeights, ConstantsAreStridedViewsOrFills) {
  plan::Plan plan;
  plan.weights = {{"a", {3, 4}, 12, -1}};
  plan.pools = {2, 6};
  plan.pool_constants = {2, 1};
  plan.constants = {{2, 1, -1, -0.5, 0, {}, {}}, {6, 0, 0, 0, 1, {2, 3}, {1, 4}}};  // a[:, 1:3] transposed
  std::vector<float> a(12);
  for (size_t i = 0; i < 12; ++i) a[i] = static_cast<float>(i);
  Weights weights;
  weights.set("a", {3, 4}, a);
  const batch::PackedWeights packed = batch::pack_weights(plan, weights, batch::Packing::Rows);
  EXPECT_EQ(packed.constants[0], (std::vector<float>{0, 0, -0.5f, -0.5f}));
  EXPECT_EQ(packed.constants[1], (std::vector<float>{1, 5, 9, 2, 6, 10}));
}

TEST(PackWeights, EveryWeightThatDoesNotFitIsNamed) {
  plan::Plan plan;
  plan.weights = {{"a", {2}, 2, 0}, {"b", {2, 3}, 6, 0}, {"c", {}, 1, 0}};
  Weights weights;
  EXPECT_EQ(error_of([&] { batch::pack_weights(plan, weights, batch::Packing::Rows); }),
            "usage: weight a: f32[2] is missing\nweight b: f32[2,3] is missing\nweight c: f32[] is missing\n"
            "no weights are given");
  const std::vector<float> six(6);
  weights.set("a", {2}, std::span(six.data(), 2));
  weights.set("b", {3, 2}, six);
  weights.set("c", Tensor{{}, nullptr, 1, "its dtype is I64"});
  EXPECT_EQ(error_of([&] { batch::pack_weights(plan, weights, batch::Packing::Rows); }),
            "usage: weight b: f32[2,3] is given as f32[3,2]\nweight c: f32[] cannot be used: its dtype is I64");
}

TEST(Walkers, EveryPartRunsOnceAndTheFirstFailureIsThrown) {
  batch::Walkers walkers(4, size_t{8} << 20);
  for (int round = 0; round < 50; ++round) {
    const unsigned count = 1 + static_cast<unsigned>(round) % 4;
    std::atomic<unsigned> seen{0};
    walkers.run(count, round % 2 ? batch::Walkers::caller_limit() : nullptr,
                [&](unsigned i, const char* limit) {
                  EXPECT_LT(limit, static_cast<const char*>(__builtin_frame_address(0)));
                  seen += 1u << (8 * i);
                });
    EXPECT_EQ(seen, 0x01010101u & ((1ull << (8 * count)) - 1));
  }
  EXPECT_EQ(error_of([&] {
              walkers.run(4, nullptr, [](unsigned i, const char*) {
                if (i) throw Error(ErrorKind::Usage, "part " + std::to_string(i));
              });
            }),
            "usage: part 1");
}

int recurse(abi::Recorder* r, int depth) {
  volatile char frame[200];
  frame[0] = static_cast<char>(depth);
  if (static_cast<const char*>(__builtin_frame_address(0)) < r->stack_limit) r->fault(r, abi::kTooDeep, 1, 0, 0);
  return depth < 100000000 ? recurse(r, depth + 1) + frame[0] : 0;
}

TEST(Walkers, RecursionWithoutEndIsNoticedOnEveryStack) {
  const plan::Plan plan = test::tree_plan();
  batch::Recorder recorder(plan, "p.rondo");
  batch::Walkers walkers(1, size_t{16} << 20);
  for (const char* caller : {batch::Walkers::caller_limit(), static_cast<const char*>(nullptr)})
    EXPECT_THROW(walkers.run(1, caller,
                             [&](unsigned, const char* limit) {
                               recorder.abi()->stack_limit = limit;
                               recurse(recorder.abi(), 0);
                             }),
                 batch::StackUsedUp);
}

}  // namespace
}  // namespace rondo
