// What patching and copying cost on this machine, measured once and kept.
#pragma once
#include <cstdint>
#include <string>

#include "rondo/graph.h"

namespace rondo::replay {

struct Costs {
  double set_node_us = 0.29;         // cuGraphExecKernelNodeSetParams
  double copy_us = 4.1;              // of a small device copy in a stream, end to end
  double copy_bytes_per_us = 2.0e6;  // of a large one (bytes copied, not read and written)
  bool measured = false;             // false: the figures above, of an H200 (driver 580.159)
};

// Of the current context's device: from memory, from RONDO_CACHE_DIR/replay/costs.json (by device and driver), or
// measured now, which takes a few milliseconds; figures of another machine when that fails. Never throws.
Costs machine_costs(CUstream stream);

// "NVIDIA H200, driver 13000": what measured figures and decisions are kept under. Never throws.
std::string machine_name();

}  // namespace rondo::replay
