// What the benchmarks' main functions share.
#pragma once
#include <cstdio>
#include <exception>

#include "rondo/error.h"

namespace bench {

// What `run` gives; what it throws becomes a line on stderr and an exit code: 77 where the machine lacks
// something, such as a GPU, else 1.
template <class Run>
int guarded(const Run& run) {
  try {
    return run();
  } catch (const rondo::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.kind() == rondo::ErrorKind::Unavailable ? 77 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace bench
