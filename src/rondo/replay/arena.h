// Memory that several recordings work in: their launches one after the other, on whatever streams.
//
// Comes in: launches. Goes out: the same, each ordered after the last one in the same arena. On one stream
// that costs a comparison; a change of the stream costs an event.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <mutex>

#include "rondo/graph.h"
#include "rondo/graph/state.h"

namespace rondo::replay {

class Arena {
 public:
  // The one of this number in this context: lives as long as the process.
  static Arena& of(CUcontext context, uint64_t number);

  // Errors: Device, and what `launch` throws.
  template <class Launch>
  void use(CUstream stream, const Launch& launch) {
    const std::lock_guard lock(lock_);
    if (used_ && stream != last_) [[unlikely]]
      order(stream);
    last_ = stream;
    used_ = true;
    launch();
  }

 private:
  void order(CUstream stream);
  graph::detail::SpinLock lock_;
  CUstream last_ = nullptr;
  bool used_ = false;
};

}  // namespace rondo::replay
