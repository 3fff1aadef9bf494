#include "rondo/device/device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "rondo/base/trace.h"
#include "rondo/device/checks.h"
#include "rondo/device/cpu_device.h"
#include "rondo/device/cuda_device.h"
#include "rondo/error.h"

namespace rondo::device {

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  owner_ = std::move(other.owner_);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void set_params(Launch* launch, uint64_t table, uint64_t weights, uint32_t level) {
  std::memcpy(launch->params, &table, 8);
  std::memcpy(launch->params + 8, &weights, 8);
  std::memcpy(launch->params + 16, &level, 4);
  launch->param_bytes = kParamBytes;
}

void set_copy_params(Launch* launch, uint64_t from, uint64_t to) {
  std::memcpy(launch->params, &from, 8);
  std::memcpy(launch->params + 8, &to, 8);
  launch->param_bytes = 16;
}

void check_range(const char* what, const Buffer& buffer, size_t offset, size_t bytes) {
  if (offset <= buffer.bytes() && bytes <= buffer.bytes() - offset) return;
  throw Error(ErrorKind::Internal, fmt::format("{} of {} bytes at offset {} of a buffer of {} bytes", what,
                                               bytes, offset, buffer.bytes()));
}

void fail_allocation(const std::string& where, size_t bytes, const Memory& memory) {
  throw Error(
      ErrorKind::Device,
      fmt::format("{} is out of memory: {} bytes asked for, {} of {} bytes free. Use smaller batches, or a "
                  "device with more memory",
                  where, bytes, memory.free_bytes, memory.total_bytes));
}

std::unique_ptr<Device> Device::open(const std::string& which) {
  if (which == "cpu") return open_cpu();
  if (which == "cuda") return open_cuda(0);
  if (which == "auto") {
    try {
      return open_cuda(0);
    } catch (const Error& e) {
      // No GPU is how many machines are; a GPU that fails is worth a warning.
      trace::note(e.kind() == ErrorKind::Unavailable ? trace::Level::Info : trace::Level::Warn, "device.auto",
                  fmt::format("the cpu is used: {}", e.what()));
      return open_cpu();
    }
  }
  if (which.rfind("cuda:", 0) == 0) {
    int ordinal = -1;
    const char *begin = which.data() + 5, *end = which.data() + which.size();
    const auto [stop, code] = std::from_chars(begin, end, ordinal);
    if (code == std::errc() && stop == end && ordinal >= 0) return open_cuda(ordinal);
  }
  throw Error(ErrorKind::Usage,
              fmt::format("there is no device '{}': expected auto, cpu, cuda or cuda:N", which));
}

}  // namespace rondo::device
