// The table of NVRTC functions: found at run time like libcuda, needs neither a GPU nor a CUDA toolkit.
//
// Looked for in RONDO_LIBNVRTC if set; else libnvrtc.so.13 and .12 (the driver's own major version first,
// since a cubin of a newer compiler may be refused by an older driver), then in the toolkit's folder.
#pragma once
#include <nvrtc.h>

#include <memory>
#include <string>

namespace rondo::driver {

#define RONDO_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                \
  X(nvrtcGetErrorString)         \
  X(nvrtcCreateProgram)          \
  X(nvrtcDestroyProgram)         \
  X(nvrtcCompileProgram)         \
  X(nvrtcGetProgramLogSize)      \
  X(nvrtcGetProgramLog)          \
  X(nvrtcGetCUBINSize)           \
  X(nvrtcGetCUBIN)               \
  X(nvrtcGetNumSupportedArchs)   \
  X(nvrtcGetSupportedArchs)

struct Nvrtc {
#define RONDO_FIELD(name) decltype(&::name) name = nullptr;
  RONDO_NVRTC_FUNCTIONS(RONDO_FIELD)
#undef RONDO_FIELD
  int major = 0, minor = 0;
  std::string where;
};

// Throws Error(Unavailable) with the reason and what to do. Found once for each value of RONDO_LIBNVRTC; a
// failure is tried again at the next call.
const Nvrtc& nvrtc();
// Looks for it anew.
std::unique_ptr<Nvrtc> load_nvrtc();
// nullptr = the real one again. Returns what was set before.
const Nvrtc* set_nvrtc_for_tests(const Nvrtc* table);

}  // namespace rondo::driver
