// The fixed heads of generated texts, which lie in the source tree as ordinary files and are turned into
// string literals when the build is configured (cmake/embed.cmake).
#pragma once

namespace rondo::codegen {

extern const char kAbiText[];          // batch/abi.h
extern const char kCpuPreludeText[];   // codegen/prelude/cpu.h
extern const char kCudaPreludeText[];  // codegen/prelude/cuda.h

}  // namespace rondo::codegen
