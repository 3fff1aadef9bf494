#include "rondo/batch/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "rondo/base/trace.h"
#include "rondo/error.h"

namespace rondo::batch {
namespace {

constexpr uint64_t kFirstTableWords = uint64_t{1} << 18;  // 1 MiB: graphs hold the table's address, so it rarely moves
constexpr size_t kMostNotes = 32;
constexpr int kMostRefusals = 3;
constexpr size_t kMostFreeBuffers = 16;
// Pieces of the table that are copied before the number of all is known: as many as the recording's first
// minibatch had, within these bounds, so that a larger one still finds enough blocks, and a smaller one
// little to copy for nothing.
constexpr uint64_t kFewestCopyBlocks = 8, kMostCopyBlocks = 32;
constexpr uint64_t kCopyBlockBytes = abi::kCopyThreads * abi::kCopyPieceBytes;
static_assert(kMostCopyBlocks * kCopyBlockBytes <= kFirstTableWords * sizeof(uint32_t),
              "every thread has a piece");
// Results of a pool up to here are written straight into the host's memory, which saves the latency of a copy.
constexpr uint64_t kDirectBytes = uint64_t{1} << 20;

uint32_t exact(uint32_t depths) { return depths; }

// Exact while depths are few, as an empty level costs a launch; then about 1 in 16 too many at most.
uint32_t few(uint32_t depths) {
  const auto up = [&](uint32_t step) { return (depths + step - 1) / step * step; };
  if (depths <= 32) return depths;
  return depths <= 128 ? up(4) : up(16);
}

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string mib(uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

std::shared_ptr<const device::Buffer> HostMemory::take(device::Device* device, size_t bytes) {
  std::unique_ptr<device::Buffer> buffer;
  {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if ((*it)->bytes() >= bytes && (best == free_.end() || (*it)->bytes() < (*best)->bytes())) best = it;
    if (best != free_.end()) {
      buffer = std::move(*best);
      free_.erase(best);
    }
  }
  if (!buffer) {
    size_t rounded = 4096;
    while (rounded < bytes) rounded *= 2;
    buffer = std::make_unique<device::Buffer>(device->allocate_pinned(rounded));
  }
  return {buffer.release(), [home = weak_from_this()](const device::Buffer* b) {
            std::unique_ptr<device::Buffer> owned(const_cast<device::Buffer*>(b));
            const std::shared_ptr<HostMemory> memory = home.lock();
            if (!memory) return;
            const std::lock_guard lock(memory->mutex_);
            if (memory->free_.size() < kMostFreeBuffers) memory->free_.push_back(std::move(owned));
          }};
}

Executor::Executor(const plan::Plan& plan, device::Device* device, std::vector<LaunchKernel> launches,
                   const device::Kernel* copy_table, const PackedWeights& weights, Replay replay,
                   bool profile, bool dependent)
    : plan_(plan),
      device_(device),
      cpu_(device->kind() == device::Kind::Cpu),
      kernels_(std::move(launches)),
      copy_table_(copy_table),
      replay_(replay),
      profile_(profile),
      dependent_(dependent),
      constants_(weights.constants),
      pools_(plan.pools.size()),
      device_results_(plan.pools.size()),
      pool_rows_(plan.pools.size(), 0),
      pool_addresses_(plan.pools.size(), 0),
      result_addresses_(plan.pools.size(), 0),
      results_(plan.pools.size()) {
  for (const LaunchKernel& k : kernels_) grids_.push_back(k.kernel->resident_blocks(k.threads, k.shared_bytes));
  const size_t bytes = weights.arena.size() * sizeof(float);
  weights_ = device_->allocate(std::max<size_t>(bytes, 4));
  if (bytes) device_->upload(weights_, 0, weights.arena.data(), bytes);
  device_->synchronize();
}

uint32_t (*Executor::rounding() const)(uint32_t) { return cpu_ || replay_ == Replay::Stream ? exact : few; }

void Executor::note(const std::string& name, const std::string& text) {
  if (notes_.size() >= kMostNotes || !notes_.insert(text).second) return;
  trace::note(trace::Level::Info, name, text);
}

void Executor::grow_table(uint64_t words) {
  if (table_words_ >= words) return;
  const uint64_t grown = std::max({words, kFirstTableWords, 2 * table_words_});
  const uint64_t bytes =
      (grown * sizeof(uint32_t) + abi::kCopyPieceBytes - 1) / abi::kCopyPieceBytes * abi::kCopyPieceBytes;
  cache_.clear();  // recordings hold the address
  table_ = {};
  device_table_ = {};
  table_words_ = 0;
  table_ = device_->allocate_pinned(abi::kCopyHeadBytes + bytes);
  if (!cpu_) device_table_ = device_->allocate(bytes);
  table_words_ = grown;
}

void Executor::grow_pool(size_t pool, uint64_t rows) {
  const uint64_t row_bytes = static_cast<uint64_t>(plan_.pools[pool]) * sizeof(float);
  const uint64_t doubled = std::max(rows, 2 * pool_rows_[pool]);
  pools_[pool] = {};  // first, so that old and new need not fit at once
  pool_rows_[pool] = 0;
  uint64_t got = doubled;
  try {
    pools_[pool] = device_->allocate(doubled * row_bytes);
  } catch (const Error&) {
    if (doubled == rows) throw;
    got = rows;
    pools_[pool] = device_->allocate(rows * row_bytes);
  }
  pool_rows_[pool] = got;
  pool_addresses_[pool] = pools_[pool].address();
  const std::vector<float>& constants = constants_[pool];
  if (!constants.empty()) device_->upload(pools_[pool], 0, constants.data(), constants.size() * sizeof(float));
}

void Executor::grow_pools(const Schedule& schedule) {
  uint64_t bytes = 0;
  for (size_t p = 0; p < pools_.size(); ++p)
    bytes += schedule.rows(p) * static_cast<uint64_t>(plan_.pools[p]) * sizeof(float);
  try {
    grow_table(schedule.table_words());
    for (size_t p = 0; p < pools_.size(); ++p)
      if (schedule.rows(p) > pool_rows_[p]) grow_pool(p, schedule.rows(p));
    for (size_t p = 0; p < pools_.size(); ++p) {
      results_[p] = nullptr;
      const uint64_t result_bytes = schedule.result_rows(p) * static_cast<uint64_t>(plan_.pools[p]) * sizeof(float);
      if (!result_bytes) continue;
      results_[p] = host_memory_->take(device_, result_bytes);
      if (cpu_ || result_bytes <= kDirectBytes) {
        result_addresses_[p] = results_[p]->address();
      } else {
        if (device_results_[p].bytes() < result_bytes) {
          const size_t grown = std::max<size_t>(result_bytes, 2 * device_results_[p].bytes());
          device_results_[p] = {};
          device_results_[p] = device_->allocate(grown);
        }
        result_addresses_[p] = device_results_[p].address();
      }
    }
  } catch (const Error& e) {
    // A pool that has grown may be what keeps the others from fitting next time.
    if (table_words_ == 0) {
      table_ = {};
      device_table_ = {};
    }
    for (size_t p = 0; p < pools_.size(); ++p) {
      pools_[p] = {};
      device_results_[p] = {};
      results_[p] = nullptr;
      pool_rows_[p] = 0;
    }
    if (e.kind() != ErrorKind::Device) throw;
    throw Error(ErrorKind::Device, fmt::format("the batch needs {} for its values and {} for its schedule: {}. Run fewer "
                                               "instances at a time",
                                               mib(bytes), mib(schedule.table_words() * sizeof(uint32_t)), e.what()));
  }
}

void Executor::prepare(const Schedule& schedule) { grow_pools(schedule); }

void Executor::upload_table(const Schedule& schedule) {
  if (!cpu_) device_->upload(device_table_, 0, table(), schedule.table_words() * sizeof(uint32_t));
}

void Executor::upload_inputs(const Batch& batch) {
  for (size_t p = 0; p < pools_.size(); ++p) {
    const std::span<const float> tensors = batch.tensors(plan_.pools[p]);
    if (tensors.empty()) continue;
    const auto first = static_cast<size_t>(plan_.pool_constants[p]) * static_cast<size_t>(plan_.pools[p]);
    device_->upload(pools_[p], first * sizeof(float), tensors.data(), tensors.size_bytes());
  }
}

void Executor::build(const Schedule& schedule, bool skip_empty, bool copies) {
  list_.clear();
  const uint64_t table = cpu_ ? table_.address() + abi::kCopyHeadBytes : device_table_.address();
  if (copies) {
    device::Launch& copy = list_.emplace_back();
    copy.kernel = copy_table_;
    copy.block = abi::kCopyThreads;
    copy.grid = static_cast<uint32_t>(std::clamp(
        schedule.table_words() * sizeof(uint32_t) / kCopyBlockBytes + 1, kFewestCopyBlocks, kMostCopyBlocks));
    device::set_copy_params(&copy, table_.address(), table);
  }
  // The table is read before a dependent kernel waits (codegen/prelude/cuda.h).
  const size_t before = list_.size();
  const std::span<const uint32_t> depths = schedule.depths();
  size_t begin = 0;
  for (size_t phase = 0; phase < depths.size(); ++phase) {
    size_t end = begin;
    while (end < plan_.launches.size() && plan_.launches[end].phase == static_cast<int32_t>(phase)) ++end;
    for (uint32_t depth = 1; depth <= depths[phase]; ++depth) {
      for (size_t i = begin; i < end; ++i) {
        const plan::Launch& launch = plan_.launches[i];
        if (depth < static_cast<uint32_t>(launch.from_level)) break;  // they are in order of from_level
        if (launch.to_level >= 0 && depth > static_cast<uint32_t>(launch.to_level)) continue;
        if (skip_empty && std::none_of(launch.items.begin(), launch.items.end(), [&](const plan::Launch::Item& item) {
              return schedule.count(phase, depth, static_cast<size_t>(item.block)) > 0;
            }))
          continue;
        device::Launch& out = list_.emplace_back();
        out.kernel = kernels_[i].kernel;
        out.grid = grids_[i];
        out.block = kernels_[i].threads;
        out.shared_bytes = kernels_[i].shared_bytes;
        out.dependent = dependent_ && list_.size() > before + 1;
        device::set_params(&out, table, weights_.address(), schedule.first_level(phase) + depth - 1);
      }
    }
    begin = end;
  }
}

// Every minibatch ends with a wait, so what counts is the latency.
replay::SelectorOptions Executor::selecting() {
  replay::SelectorOptions options;
  options.goal = replay::Goal::latency;
  return options;
}

Executor::Cached* Executor::find(const Schedule& schedule, bool copies) {
  const std::span<const uint32_t> depths = schedule.depths();
  auto found = std::find_if(cache_.begin(), cache_.end(), [&](const Cached& c) {
    return c.copies == copies && std::equal(depths.begin(), depths.end(), c.depths.begin(), c.depths.end());
  });
  if (found == cache_.end()) {
    if (cache_.size() >= kMostRecordings) {
      const auto oldest = std::min_element(cache_.begin(), cache_.end(), [](const Cached& a, const Cached& b) { return a.used < b.used; });
      if (oldest->recording) {
        ++dropped_;
        note("batch.recording_dropped",
             fmt::format("more than {} numbers of levels; the least recently used recording is dropped", kMostRecordings));
      }
      cache_.erase(oldest);
    }
    found = cache_.insert(cache_.end(), Cached{{depths.begin(), depths.end()}, copies, nullptr, 0, 0});
  }
  return &*found;
}

bool Executor::record(const Schedule& schedule, Cached* to, RunReport* report) {
  build(schedule, false, to->copies);
  try {
    to->recording = device_->record(list_);
  } catch (const Error& e) {
    ++refused_;
    refusal_ = e.what();
    note("batch.not_recorded", fmt::format("plain launches, as the device does not record them: {}", refusal_));
    return false;
  }
  to->launches = list_.size() - to->copies;
  ++recorded_;
  report->recorded = true;
  return true;
}

void Executor::launch_graph(const Schedule& schedule, Cached* recording, RunReport* report) {
  if (recording->copies)
    *table_.as<uint32_t>() = static_cast<uint32_t>(
        (schedule.table_words() * sizeof(uint32_t) + abi::kCopyPieceBytes - 1) / abi::kCopyPieceBytes);
  recording->recording->launch();
  report->table_in_graph = recording->copies;
  report->launches = recording->launches;
  report->replay = "graph";
  if (report->reason.empty())
    report->reason = report->recorded ? "these numbers of levels are new: recorded" : "these numbers of levels are recorded";
}

void Executor::launch_plain(const Schedule& schedule, RunReport* report) {
  build(schedule, true, false);
  device_->run(list_);
  report->launches = list_.size();
  report->replay = cpu_ ? "cpu" : "stream";
}

bool Executor::may_replay(const Schedule& schedule, std::string* reason) {
  if (cpu_) {
    *reason = "the cpu runs launches as they are";
  } else if (replay_ == Replay::Stream) {
    *reason = "asked for";
  } else if (schedule.levels() > kMostGraphLevels) {
    *reason = fmt::format("{} levels; graphs are made of up to {}", schedule.levels(), kMostGraphLevels);
    note("batch.too_many_levels", "plain launches: " + *reason);
  } else if (refused_ >= kMostRefusals) {
    *reason = "the device does not record: " + refusal_;
  } else {
    return true;
  }
  return false;
}

bool Executor::choose(const Schedule& schedule, Cached* cached, bool* timed, RunReport* report) {
  const bool known = cached->used > 0;
  cached->used = ++clock_;
  const bool automatic = replay_ == Replay::Auto;
  if (automatic && !known) {
    report->reason = "these numbers of levels are new";
    return false;
  }
  if (!cached->recording) {
    if (record(schedule, cached, report)) return true;
    report->reason = "the device does not record: " + refusal_;
    return false;
  }
  if (!automatic) return true;
  if (!cached->selector.decided() || cached->selector.count_call()) {
    cached->why.clear();
    const replay::Step step = cached->selector.next();
    *timed = step.begins && step.ends;  // the last call waited, so this one begins with nothing under way
    if (step.way == 1) report->reason = "plain launches are timed against the graph";
    return step.way == 0;
  }
  if (cached->why.empty()) cached->why = cached->selector.reason({"graph", "stream"});
  report->reason = cached->why;
  return cached->selector.choice() == 0;
}

void Executor::run(const Schedule& schedule, const Batch& batch, RunReport* report) {
  const bool marks = profile_ && !cpu_;
  std::unique_ptr<device::Mark> at[4];
  const auto mark = [&](int i) {
    if (marks) at[i] = device_->mark();
  };
  const bool may = may_replay(schedule, &report->reason);
  const bool copies = may && copy_table_ && schedule.table_words() * sizeof(uint32_t) <= kMostCopiedBytes;
  Cached* const cached = may ? find(schedule, copies) : nullptr;
  bool timed = false;
  const bool graph = cached && choose(schedule, cached, &timed, report);
  // A block that is not ended well is done again.
  struct Timing {
    Cached* open;
    ~Timing() {
      if (open) open->selector.abandon();
    }
  } timing{timed ? cached : nullptr};
  const auto begin = std::chrono::steady_clock::now();
  auto start = begin;
  mark(0);
  if (!graph || !copies) upload_table(schedule);
  upload_inputs(batch);
  mark(1);
  report->upload_ms = since_ms(start);

  start = std::chrono::steady_clock::now();
  if (graph) {
    launch_graph(schedule, cached, report);
  } else {
    launch_plain(schedule, report);
  }
  mark(2);

  for (size_t p = 0; p < results_.size(); ++p)
    if (results_[p] && result_addresses_[p] != results_[p]->address())
      device_->download(results_[p]->as<float>(), device_results_[p], 0,
                        schedule.result_rows(p) * static_cast<uint64_t>(plan_.pools[p]) * sizeof(float));
  mark(3);
  device_->synchronize();
  report->run_ms = since_ms(start);
  if (timed) std::exchange(timing.open, nullptr)->selector.finish(since_ms(begin) * 1e3);
  if (marks) {
    report->upload_ms = device_->elapsed_ms(*at[0], *at[1]);
    report->run_ms = device_->elapsed_ms(*at[1], *at[2]);
    report->download_ms = device_->elapsed_ms(*at[2], *at[3]);
  }
  report->pool_bytes = 0;
  for (size_t p = 0; p < pools_.size(); ++p)
    report->pool_bytes += schedule.rows(p) * static_cast<uint64_t>(plan_.pools[p]) * sizeof(float);
}

void Executor::describe(Report* report) const {
  report->weight_bytes = weights_.bytes();
  report->graphs = static_cast<uint64_t>(std::count_if(cache_.begin(), cache_.end(), [](const Cached& c) { return c.recording != nullptr; }));
  report->graphs_recorded = recorded_;
  report->graphs_dropped = dropped_;
  report->notes.insert(report->notes.end(), notes_.begin(), notes_.end());
}

}  // namespace rondo::batch
