// The memory that alloc nodes use.
#include <fmt/format.h>

#include "rondo/graph/state.h"

namespace rondo::graph {

GraphMemory graph_memory(CUdevice device) {
  const driver::Driver& d = driver::driver();
  GraphMemory m;
  const auto read = [&](CUgraphMem_attribute which, uint64_t* to) {
    cuuint64_t value = 0;
    RONDO_GRAPH_CHECK(d, Build, cuDeviceGetGraphMemAttribute(device, which, &value),
                      fmt::format("device {}", device));
    *to = value;
  };
  read(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &m.used_bytes);
  read(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &m.used_high_bytes);
  read(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &m.reserved_bytes);
  read(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &m.reserved_high_bytes);
  return m;
}

void reset_graph_memory_high(CUdevice device) {
  const driver::Driver& d = driver::driver();
  for (const CUgraphMem_attribute which :
       {CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH}) {
    cuuint64_t zero = 0;  // the only value that the driver takes
    RONDO_GRAPH_CHECK(d, Build, cuDeviceSetGraphMemAttribute(device, which, &zero),
                      fmt::format("device {}", device));
  }
}

void trim_graph_memory(CUdevice device) {
  RONDO_GRAPH_CHECK(driver::driver(), Build, cuDeviceGraphMemTrim(device), fmt::format("device {}", device));
}

}  // namespace rondo::graph
