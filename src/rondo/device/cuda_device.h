// The cuda device: a GPU's primary context (which PyTorch and the CUDA run-time share), one stream of our
// own.
#pragma once
#include <memory>

#include "rondo/device/device.h"

namespace rondo::device {

// Throws Error(Unavailable): no driver, no GPU, no such GPU.
std::unique_ptr<Device> open_cuda(int ordinal);

}  // namespace rondo::device
