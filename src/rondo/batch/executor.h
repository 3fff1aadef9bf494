// Runs a packed minibatch on a device: memory of pools, results and table; the launches; graphs of them.
//
// A launch reads counts, rows and addresses from the table, so its parameters depend on nothing but the
// number of depths of each phase: a recording serves every minibatch of the same numbers, and survives the
// growth of pools. It is made the first time that the numbers are seen (Replay::Graph) or the second (Auto) and
// kept, up to kMostRecordings, least recently used first out. Minibatches of very many levels, and devices that refuse to record, get plain
// launches; a note says why.
//
// In a recording the table comes by a kernel, its first (batch/abi.h); large tables and plain launches get an
// upload.
#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rondo/batch/pack_weights.h"
#include "rondo/batch/schedule.h"
#include "rondo/device/device.h"
#include "rondo/plan/plan.h"
#include "rondo/replay/selector.h"
#include "rondo/report.h"
#include "rondo/value.h"

namespace rondo::batch {

// Auto: plain launches for numbers of levels that are new, a graph from the second time on, kept where it is faster.
enum class Replay { Auto, Graph, Stream };

// What an entry of Plan::launches runs.
struct LaunchKernel {
  const device::Kernel* kernel = nullptr;
  uint32_t threads = 1, shared_bytes = 0;
};

// Host memory for results, handed out again when the Outputs that hold it are gone.
class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  std::shared_ptr<const device::Buffer> take(device::Device* device, size_t bytes);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<device::Buffer>> free_;
};

class Executor {
 public:
  static constexpr size_t kMostRecordings = 64;
  // A graph of more levels takes longer to make than it saves, and each one needs its own.
  static constexpr uint64_t kMostGraphLevels = 1024;
  // A table of more comes faster by the copy engine.
  static constexpr uint64_t kMostCopiedBytes = uint64_t{1} << 20;

  // device and plan must outlive it. launches: an entry a Plan::launches. copy_table: may be null, then all
  // tables are uploaded.
  Executor(const plan::Plan& plan, device::Device* device, std::vector<LaunchKernel> launches,
           const device::Kernel* copy_table, const PackedWeights& weights, Replay replay, bool profile,
           bool dependent);

  // For Schedule::layout: exact on the cpu and for plain launches; else few different numbers.
  uint32_t (*rounding() const)(uint32_t);

  // Makes room. The table is then to be filled by Schedule. Error(Device) when memory runs out: the executor has then let
  // go of all its pools, so that a smaller minibatch works.
  void prepare(const Schedule& schedule);
  uint32_t* table() const { return table_.as<uint32_t>() + abi::kCopyHeadBytes / sizeof(uint32_t); }
  uint64_t table_words() const { return table_words_; }  // there is room for; 0: none yet
  std::span<const uint64_t> pool_addresses() const { return pool_addresses_; }
  std::span<const uint64_t> result_addresses() const { return result_addresses_; }

  // Uploads, launches, downloads and waits. Fills in the times, launches, replay and reason.
  void run(const Schedule& schedule, const Batch& batch, RunReport* report);
  // The results of a pool, in host memory; null when it has none. Valid after run(), handed over.
  std::shared_ptr<const device::Buffer> results(size_t pool) { return results_[pool]; }

  void describe(Report* report) const;

 private:
  struct Cached {
    std::vector<uint32_t> depths;
    bool copies = false;  // its first kernel brings the table
    std::unique_ptr<device::Recording> recording;  // null: seen once, not recorded yet
    uint64_t launches = 0, used = 0;
    replay::Selector selector{2, selecting()};  // of Auto: way 0 is the graph, way 1 plain launches
    std::string why;                            // what it chose, in words: made once, not at every minibatch
  };
  static replay::SelectorOptions selecting();
  void grow_table(uint64_t words);
  void grow_pools(const Schedule& schedule);
  void grow_pool(size_t pool, uint64_t rows);
  void upload_table(const Schedule& schedule);
  void upload_inputs(const Batch& batch);
  bool may_replay(const Schedule& schedule, std::string* reason);
  void build(const Schedule& schedule, bool skip_empty, bool copies);
  // Whether this run replays; records where it is to. `timed`: its time is to be told to the selector.
  bool choose(const Schedule& schedule, Cached* cached, bool* timed, RunReport* report);
  Cached* find(const Schedule& schedule, bool copies);
  // False, with refusal_, when the device does not record.
  bool record(const Schedule& schedule, Cached* to, RunReport* report);
  void launch_graph(const Schedule& schedule, Cached* recording, RunReport* report);
  void launch_plain(const Schedule& schedule, RunReport* report);
  void note(const std::string& name, const std::string& text);

  const plan::Plan& plan_;
  device::Device* device_;
  bool cpu_;
  std::vector<LaunchKernel> kernels_;
  std::vector<uint32_t> grids_;
  const device::Kernel* copy_table_;
  Replay replay_;
  bool profile_, dependent_;

  device::Buffer weights_, table_, device_table_;  // table_: head of the copy kernel, then the table
  uint64_t table_words_ = 0;                       // room for the table
  std::vector<std::vector<float>> constants_;
  std::vector<device::Buffer> pools_, device_results_;
  std::vector<uint64_t> pool_rows_;                            // capacity
  std::vector<uint64_t> pool_addresses_, result_addresses_;
  std::vector<std::shared_ptr<const device::Buffer>> results_;
  std::shared_ptr<HostMemory> host_memory_ = std::make_shared<HostMemory>();

  device::LaunchList list_;
  std::vector<Cached> cache_;
  uint64_t clock_ = 0, recorded_ = 0, dropped_ = 0;
  int refused_ = 0;                                            // times that the device would not record
  std::string refusal_;
  std::set<std::string> notes_;
};

}  // namespace rondo::batch
