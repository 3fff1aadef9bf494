// CUDA C++ text -> cubin, through NVRTC. Needs no GPU and no CUDA toolkit, only libnvrtc; on a machine
// without it, what any NVRTC compiled before from the same text, flags and architecture is taken from the
// cache.
//
// In: text that needs no include path, and the architecture. Out: the cubin's bytes, for Device::load.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "rondo/kernel/kernel_cache.h"

namespace rondo::kernel {

// architecture: "sm_90". Throws Error(Unavailable) without NVRTC (and nothing in the cache) or with one that
// does not know the architecture, Error(Internal) with the compiler's log and the path of the kept text when
// it does not compile.
std::shared_ptr<const Artifact> compile_cuda(std::string_view name, std::string_view text,
                                             std::string_view architecture, Outcome* outcome = nullptr,
                                             KernelCache& cache = KernelCache::shared());

}  // namespace rondo::kernel
