// What a model cost: where its compiled parts came from, what the last run did, and why it ran as it did.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

struct StageReport {
  std::string name;   // "parse", "plan", "host program", "kernels"
  double ms = 0;      // stages that run side by side overlap
  std::string from;   // "" or where a compiled part came from: "memory", "disk", "compiled"
};

struct RunReport {
  uint64_t instances = 0;
  uint64_t records = 0;             // times an instance reached a block
  uint64_t buckets = 0;             // (level, block) pairs that had records: what was batched together
  uint64_t levels = 0;              // dependent steps, all phases together
  uint64_t launches = 0;            // kernel launches; in graph replay, its kernel nodes but the one that brings the table
  uint64_t unbatched_launches = 0;  // that the same records would have cost one by one
  uint64_t table_bytes = 0;         // the schedule, which goes to the device once
  bool table_in_graph = false;      // a kernel of the graph brings it: that is in run_ms, and not in upload_ms
  uint64_t pool_bytes = 0;          // device memory that values of this run took
  unsigned walkers = 1;             // threads that walked instances
  double walk_ms = 0, pack_ms = 0;  // host: instances to records; records to the table
  double upload_ms = 0;             // of table (see above) and input tensors. Without profiling: the time to enqueue it
  double run_ms = 0;                // the launches. Without profiling: and the download, as the host waits for them
  double download_ms = 0;           // of the results; 0 without profiling
  double total_ms = 0;              // the whole call
  std::string replay;               // "graph", "stream" or "cpu"
  bool recorded = false;            // a graph was made in this run, for level counts not seen before
  std::string reason;               // of this choice
};

struct Report {
  std::string program, device;
  std::vector<StageReport> stages;
  double load_ms = 0;               // all stages, as the caller waited
  uint64_t weight_bytes = 0;        // on the device, packed copies included
  uint64_t runs = 0, instances = 0; // since the model was made
  uint64_t graphs = 0, graphs_recorded = 0, graphs_dropped = 0;
  std::vector<std::string> notes;   // fallbacks, with their reasons; ignored weights
  RunReport last;                   // of the last run

  std::string text() const;
  std::string json() const;
};

}  // namespace rondo
