// What the numbered examples share: a printed line for each checked fact, and the exit code.
//   0   every fact held
//   1   one did not, or a call failed; the line or the message says which
//   77  this machine cannot run it (no driver, no GPU, a driver or GPU that is too old); the message says why
#pragma once
#include <rondo/error.h>

#include <cstdio>
#include <exception>
#include <string>

namespace example {

inline bool all_right = true;

// A fact that the example shows, looked at.
inline void check(bool holds, const std::string& fact) {
  std::printf("%s %s\n", holds ? "ok   " : "WRONG", fact.c_str());
  all_right &= holds;
}

// This machine cannot run the example.
[[noreturn]] inline void skip(const std::string& reason) {
  throw rondo::Error(rondo::ErrorKind::Unavailable, reason);
}

inline int run(void (*body)()) {
  try {
    body();
    return all_right ? 0 : 1;
  } catch (const rondo::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.kind() == rondo::ErrorKind::Unavailable ? 77 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

#ifdef __CUDACC__
// Makes the first GPU's context current, as Rondo expects it.
inline void use_gpu() {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) code = cudaSetDevice(0);
  if (code != cudaSuccess) skip(std::string("no GPU can be used: ") + cudaGetErrorString(code));
}
// The handle of a __global__ function, as nodes made by hand take it.
template <class... Args>
cudaFunction_t function_of(void (*kernel)(Args...)) {
  cudaFunction_t function = nullptr;
  const cudaError_t code = cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(kernel));
  if (code != cudaSuccess) throw rondo::Error(rondo::ErrorKind::Device, cudaGetErrorString(code));
  return function;
}
#endif

}  // namespace example
