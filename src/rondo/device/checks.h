// What both devices check, so that their messages are the same.
#pragma once
#include <string>

#include "rondo/device/device.h"

namespace rondo::device {

inline constexpr uint32_t kParamBytes = 20;  // of set_params

// Throws Error(Internal) when [offset, offset + bytes) is not inside.
void check_range(const char* what, const Buffer& buffer, size_t offset, size_t bytes);
// Throws Error(Device).
[[noreturn]] void fail_allocation(const std::string& where, size_t bytes, const Memory& memory);

}  // namespace rondo::device
