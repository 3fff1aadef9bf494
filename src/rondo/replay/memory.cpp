#include "rondo/replay/memory.h"

#include <fmt/format.h>

#include "rondo/driver/driver.h"

namespace rondo::replay {

const char* word(Memory memory) noexcept {
  switch (memory) {
    case Memory::None:
      return "no";
    case Memory::Device:
      return "device";
    case Memory::PageLocked:
      return "page-locked";
    case Memory::Pageable:
      return "ordinary host";
  }
  return "?";
}

Memory memory_at(const driver::Driver& d, uint64_t address) {
  unsigned type = 0;
  const CUresult code = d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (code == CUDA_ERROR_INVALID_VALUE) return Memory::Pageable;
  if (code != CUDA_SUCCESS)
    driver::fail(d, code, "cuPointerGetAttribute(", fmt::format("of the address {:#x}", address));
  if (type == CU_MEMORYTYPE_HOST) return Memory::PageLocked;
  return type == CU_MEMORYTYPE_DEVICE ? Memory::Device : Memory::Pageable;  // 0: of none
}

std::vector<Memory> memory_of(std::span<const Argument> arguments) {
  const driver::Driver& d = driver::driver();
  std::vector<Memory> out(arguments.size(), Memory::None);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (a.buffer() && a.value && a.bytes) out[i] = memory_at(d, a.value);
  }
  return out;
}

}  // namespace rondo::replay
