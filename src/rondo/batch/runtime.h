// A compiled model at work: walks the instances of a batch, schedules and packs what they recorded, runs it, and hands
// back results. Knows nothing of the compiler: a plan, a host program and kernels come in, by hand in tests.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rondo/batch/ahead.h"
#include "rondo/batch/executor.h"
#include "rondo/batch/recorder.h"
#include "rondo/batch/results.h"
#include "rondo/batch/schedule.h"
#include "rondo/batch/walkers.h"
#include "rondo/device/device.h"
#include "rondo/report.h"
#include "rondo/value.h"
#include "rondo/weights.h"

namespace rondo::batch {

struct RuntimeOptions {
  Replay replay = Replay::Auto;
  unsigned threads = 0;   // most that walk instances; 0 = the hardware threads
  bool profile = false;   // GPU times by events
  bool dependent = true;  // programmatic dependent launches where the device has them
};

struct RuntimeParts {
  plan::Plan plan;
  std::string file;                        // of the program, for messages
  const abi::Program* program = nullptr;
  std::shared_ptr<device::Device> device;
  std::vector<LaunchKernel> launches;      // an entry a Plan::launches
  const device::Kernel* copy_table = nullptr;     // for graphs (batch/abi.h); null: they come after an upload
  std::vector<std::shared_ptr<const void>> keep;  // libraries and modules that own program and kernels
};

// The kernels of a plan on the cpu device. `owned` keeps them.
std::vector<LaunchKernel> cpu_launches(const plan::Plan& plan, const abi::CpuModule& module, device::Device* device,
                                       std::vector<std::shared_ptr<const void>>* owned);

class Runtime {
 public:
  // Error(Usage) when weights do not fit (pack_weights.h), Error(Device) when they do not fit into memory.
  Runtime(RuntimeParts parts, const Weights& weights, const RuntimeOptions& options);
  ~Runtime();

  const std::shared_ptr<const Signature>& signature() const { return signature_; }
  // Runs are one after the other, whichever thread calls. After an Error the runtime is as before.
  Outputs run(const Batch& batch);
  void describe(Report* report) const;

 private:
  struct Worker {
    Worker(const plan::Plan& plan, const std::string& file, const ResultTypes& types)
        : recorder(plan, file), copier(plan, types) {}
    Recorder recorder;
    ResultCopier copier;
    std::vector<uint64_t> result;
    Ahead values{Ahead::For::Reading};
  };
  unsigned walkers_for(size_t instances) const;
  void walk(const Batch& batch, unsigned count, OutputStore* store);
  void walk_part(unsigned worker, unsigned count, const char* limit, const Batch& batch, OutputStore* store);
  void pack(unsigned count);

  RuntimeParts parts_;
  std::shared_ptr<const Signature> signature_;
  PackedWeights weights_;
  ResultTypes result_types_;
  Schedule schedule_;
  Executor executor_;
  Walkers walkers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Recorder*> recorders_;
  std::vector<uint32_t> input_rows_;
  Ahead table_{Ahead::For::Writing};
  double records_per_instance_ = 40;   // of the last run; decides how many threads walk
  bool deep_ = false;                  // the caller's stack was too small once
  uint64_t runs_ = 0, instances_ = 0;
  RunReport last_;
  mutable std::mutex mutex_;
};

}  // namespace rondo::batch
