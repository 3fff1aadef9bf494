#include "rondo/batch/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "rondo/base/trace.h"
#include "rondo/error.h"

namespace rondo::batch {
namespace {

// How far ahead of the walk values are asked for, in instances: 2 and 4 measured alike.
constexpr size_t kInstancesAhead = 2;
// A thread is worth waking for this many records, which take it some hundred microseconds.
constexpr double kRecordsPerWalker = 20000;

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

RuntimeParts checked(RuntimeParts parts) {
  const auto wrong = [](const std::string& what) { throw Error(ErrorKind::Internal, what); };
  if (parts.program->version != abi::kVersion)
    wrong(fmt::format("host program of version {}, expected {}", parts.program->version, abi::kVersion));
  if (parts.program->blocks != parts.plan.blocks.size())
    wrong(fmt::format("host program of {} blocks, the plan has {}", parts.program->blocks, parts.plan.blocks.size()));
  if (parts.launches.size() != parts.plan.launches.size())
    wrong(fmt::format("{} kernels for {} launches", parts.launches.size(), parts.plan.launches.size()));
  return parts;
}

}  // namespace

std::vector<LaunchKernel> cpu_launches(const plan::Plan& plan, const abi::CpuModule& module, device::Device* device,
                                       std::vector<std::shared_ptr<const void>>* owned) {
  std::vector<size_t> first;  // kernel of each block
  size_t count = 0;
  for (const plan::Block& b : plan.blocks) {
    first.push_back(count);
    count += b.kernels.size();
  }
  if (module.version != abi::kVersion || module.count != count)
    throw Error(ErrorKind::Internal, fmt::format("cpu module of version {} with {} kernels, expected version {} with {}",
                                                 module.version, module.count, abi::kVersion, count));
  const device::CpuTable table{4 * static_cast<uint32_t>(plan.pools.size()), static_cast<uint32_t>(plan.blocks.size()),
                               static_cast<uint32_t>(plan.bases)};
  std::vector<LaunchKernel> out;
  for (const plan::Launch& launch : plan.launches) {
    std::vector<const abi::CpuKernel*> items;
    for (const plan::Launch::Item& item : launch.items)
      items.push_back(module.kernels + first[static_cast<size_t>(item.block)] + static_cast<size_t>(item.kernel));
    std::shared_ptr<device::Kernel> kernel = device->cpu_kernel(launch.name, std::move(items), table);
    out.push_back({kernel.get(), 1, 0});
    owned->push_back(std::move(kernel));
  }
  return out;
}

Runtime::Runtime(RuntimeParts parts, const Weights& weights, const RuntimeOptions& options)
    : parts_(checked(std::move(parts))),
      signature_(
          std::make_shared<Signature>(parts_.plan.types, parts_.plan.main_params, parts_.plan.main_result)),
      weights_(pack_weights(parts_.plan, weights,
                            parts_.device->kind() == device::Kind::Cpu ? Packing::Rows : Packing::Lanes)),
      result_types_(parts_.plan, *signature_),
      schedule_(parts_.plan),
      executor_(parts_.plan, parts_.device.get(), parts_.launches, parts_.copy_table, weights_,
                options.replay, options.profile, options.dependent),
      walkers_(options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency())),
      input_rows_(parts_.plan.pools.size()) {
  weights_.arena = {};
  weights_.constants = {};
  if (!weights_.ignored.empty())
    trace::note(trace::Level::Info, "batch.ignored_weights",
                fmt::format("weights that the program does not use: {}", fmt::join(weights_.ignored, ", ")));
}

Runtime::~Runtime() = default;

unsigned Runtime::walkers_for(size_t instances) const {
  const double wanted = static_cast<double>(instances) * records_per_instance_ / kRecordsPerWalker;
  const size_t most = std::min<size_t>(walkers_.most(), instances);
  return static_cast<unsigned>(std::clamp<double>(wanted, 1, static_cast<double>(std::max<size_t>(most, 1))));
}

void Runtime::walk_part(unsigned number, unsigned count, const char* limit, const Batch& batch, OutputStore* store) {
  Worker& worker = *workers_[number];
  worker.recorder.reset();
  worker.recorder.abi()->stack_limit = limit;
  worker.copier.begin(&worker.recorder, &store->arenas[number], number * static_cast<uint32_t>(parts_.plan.pools.size()));
  const size_t words = worker.result.size();
  const size_t begin = batch.size() * number / count, end = batch.size() * (number + 1) / count;
  worker.values.clear();
  for (size_t i = 0; i < batch.values().pieces(); ++i)
    worker.values.add(batch.values().piece(i).data(), batch.values().piece(i).size_bytes());
  const size_t values_each = worker.values.bytes() / batch.size();
  worker.values.skip(begin * values_each);
  worker.values.ask(kInstancesAhead * values_each);
  const size_t table_each = table_.bytes() / batch.size();
  for (size_t i = begin; i < end; ++i) {
    worker.values.ask(values_each);
    if (table_each) table_.ask(table_each);
    worker.recorder.set_instance(i);
    parts_.program->run(worker.recorder.abi(), batch.arguments(i), worker.result.data());
    worker.copier.copy(worker.result.data(), store->roots.data() + i * words);
  }
}

void Runtime::walk(const Batch& batch, unsigned count, OutputStore* store) {
  while (workers_.size() < count) {
    workers_.push_back(std::make_unique<Worker>(parts_.plan, parts_.file, result_types_));
    workers_.back()->result.resize(static_cast<size_t>(signature_->words(signature_->result())));
  }
  // The table will be about as long as the last one.
  table_.clear();
  if (const uint64_t words = std::min(schedule_.table_words(), executor_.table_words());
      words > 0 && count == 1)
    table_.add(executor_.table(), words * sizeof(uint32_t));
  recorders_.clear();
  for (unsigned i = 0; i < count; ++i) recorders_.push_back(&workers_[i]->recorder);
  const auto go = [&](const char* caller) {
    store->arenas.clear();
    store->arenas.resize(count);
    walkers_.run(count, caller,
                 [&](unsigned i, const char* limit) { walk_part(i, count, limit, batch, store); });
  };
  try {
    const char* caller = deep_ ? nullptr : Walkers::caller_limit();
    if (caller) {
      try {
        return go(caller);
      } catch (const StackUsedUp& e) {
        deep_ = true;
        trace::note(trace::Level::Info, "batch.deep_recursion",
                    "instances are walked again, and from now on, by a thread with a large stack: " + e.message);
      }
    }
    go(nullptr);
  } catch (const StackUsedUp& e) {
    throw Error(ErrorKind::Usage, e.message + ". Use instances of less depth");
  }
}

void Runtime::pack(unsigned count) {
  schedule_.layout(recorders_, input_rows_, executor_.rounding());
  executor_.prepare(schedule_);
  schedule_.write_head(executor_.table(), executor_.pool_addresses(), executor_.result_addresses());
  walkers_.run(count, Walkers::caller_limit(), [&](unsigned i, const char*) {
    schedule_.write_records(executor_.table(), i, *recorders_[i]);
  });
}

Outputs Runtime::run(const Batch& batch) {
  if (&batch.signature() != signature_.get())
    throw Error(ErrorKind::Usage, "this batch was made for another model; make it from this one's batch()");
  const std::lock_guard lock(mutex_);
  const trace::Span span("batch.run");
  const auto start = std::chrono::steady_clock::now();
  auto store = std::make_unique<OutputStore>();
  store->signature = signature_;
  store->instances = batch.size();
  RunReport report;
  report.instances = batch.size();
  if (batch.size() == 0) {
    report.replay = "none";
    report.reason = "the batch is empty";
    last_ = report;
    ++runs_;
    return Outputs(std::move(store));
  }
  store->roots.resize(batch.size() * static_cast<size_t>(signature_->words(signature_->result())));

  report.walkers = walkers_for(batch.size());
  walk(batch, report.walkers, store.get());
  report.walk_ms = since_ms(start);

  auto mark = std::chrono::steady_clock::now();
  const size_t pools = parts_.plan.pools.size();
  for (size_t p = 0; p < pools; ++p)
    input_rows_[p] = static_cast<uint32_t>(batch.tensors(parts_.plan.pools[p]).size() /
                                           static_cast<size_t>(parts_.plan.pools[p]));
  pack(report.walkers);
  report.pack_ms = since_ms(mark);

  report.records = schedule_.records();
  report.buckets = schedule_.buckets();
  report.levels = schedule_.used_levels();
  report.unbatched_launches = schedule_.unbatched_launches();
  report.table_bytes = schedule_.table_words() * sizeof(uint32_t);
  executor_.run(schedule_, batch, &report);

  for (unsigned t = 0; t < report.walkers; ++t)
    for (size_t p = 0; p < pools; ++p) {
      const auto memory = executor_.results(p);
      const size_t first = size_t{schedule_.first_result(t, p)} * static_cast<size_t>(parts_.plan.pools[p]);
      store->tensors.push_back(memory ? memory->as<float>() + first : nullptr);
      if (t == 0 && memory) store->memory.push_back(memory);
    }
  records_per_instance_ = static_cast<double>(report.records) / static_cast<double>(batch.size());
  report.total_ms = since_ms(start);
  last_ = report;
  ++runs_;
  instances_ += batch.size();
  return Outputs(std::move(store));
}

void Runtime::describe(Report* report) const {
  const std::lock_guard lock(mutex_);
  report->device = parts_.device->description();
  report->runs = runs_;
  report->instances = instances_;
  report->last = last_;
  if (!weights_.ignored.empty())
    report->notes.push_back(
        fmt::format("weights that the program does not use: {}", fmt::join(weights_.ignored, ", ")));
  if (deep_) report->notes.push_back("instances are walked by threads with large stacks, as some are very deep");
  executor_.describe(report);
}

}  // namespace rondo::batch
