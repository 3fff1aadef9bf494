#include "rondo/base/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace rondo {
namespace {

// The second number of /proc/self/statm, in pages.
uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file) return 0;
  unsigned long long pages = 0;
  const int read = std::fscanf(file, "%*u %llu", &pages);
  std::fclose(file);
  return read == 1 ? pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

Error out_of_memory(const std::string& what) {
  struct sysinfo machine {};
  const uint64_t free_bytes = ::sysinfo(&machine) == 0 ? uint64_t{machine.freeram} * machine.mem_unit : 0;
  struct rlimit limit {};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return {ErrorKind::Device, fmt::format("out of host memory {}: this process holds {} MiB, the machine has {} MiB free{}", what,
                                         resident_bytes() >> 20, free_bytes >> 20,
                                         limited ? fmt::format(", and the process may have {} MiB (ulimit -v)", limit.rlim_cur >> 20) : "")};
}

}  // namespace rondo
