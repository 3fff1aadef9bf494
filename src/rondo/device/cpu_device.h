// The cpu device: generated CPU kernels, tile by tile, over a thread pool. Memory is the host's; run() is
// done when it returns.
#pragma once
#include <memory>

#include "rondo/device/device.h"

namespace rondo::device {

// threads: 0 = RONDO_THREADS, else the hardware threads.
std::unique_ptr<Device> open_cpu(uint32_t threads = 0);

}  // namespace rondo::device
