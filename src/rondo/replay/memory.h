// What kind of memory an address is of: asked of the driver in one place.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

#include "rondo/replay.h"

namespace rondo::driver {
struct Driver;
}

namespace rondo::replay {

enum class Memory : uint8_t { None, Device, PageLocked, Pageable };
const char* word(Memory memory) noexcept;
// Pageable is what the driver knows nothing of. Errors: Device, where it does not answer.
Memory memory_at(const driver::Driver& d, uint64_t address);
// Of each argument; None for scalars, null and empty buffers. Errors: Device.
std::vector<Memory> memory_of(std::span<const Argument> arguments);

}  // namespace rondo::replay
