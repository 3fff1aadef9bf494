// What patching and copying cost on this machine, measured once and kept.
#pragma once
#include <cstdint>
#include <string>

#include "rondo/graph.h"

namespace rondo::replay {

struct Costs {
  double set_node_us = 0.29;         // cuGraphExecKernelNodeSetParams
  double copy_us = 4.1;              // what one more small device copy adds to a stream
  double copy_bytes_per_us = 2.0e6;  // of a large one (bytes copied, not read and written)
  bool measured = false;             // false: the figures above, of an H200 (driver 580.159)
};

// Of the current context's device: from memory, from RONDO_CACHE_DIR/replay/costs.json (by device and
// driver), or measured now; figures of another machine, and a note in the trace, when that fails. Never
// throws. Waits for `stream` first unless it is being captured: what it has to do would be in the figures.
Costs machine_costs(CUstream stream) noexcept;

// Measured now, in a few milliseconds (the first time some more, as the driver compiles a kernel): 128 MiB of
// device memory for large copies, less where less than eight times that is free. Safe while this or another
// thread captures. Errors: Device, Unavailable.
Costs measure_costs();

// "NVIDIA H200, driver 13000": what measured figures and decisions are kept under; "unknown device, driver
// 13000" without a context. Never throws.
std::string machine_name() noexcept;

// For tests: as in a new process.
void forget_costs();

}  // namespace rondo::replay
