// C++ text -> functions in this process, by the machine's own compiler: RONDO_CXX, else g++, c++, clang++. On
// a machine without it, what any compiler made before from the same text and flags for this CPU is taken from
// the cache; where there is one, a warm start does not run it.
//
// In: text that needs no include path of Rondo's. Out: a loaded shared object. No compiler and nothing in the
// cache: Error(Unavailable) that says what to install; text that does not compile: Error(Internal) with the
// head of the log and the path of the text.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "rondo/kernel/kernel_cache.h"

namespace rondo::kernel {

// A loaded shared object; functions of it are valid as long as it lives.
class HostLibrary {
 public:
  HostLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~HostLibrary();
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  // Throws Error(Internal) when there is none of that name.
  void* symbol(const char* name) const;
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }
  const std::string& path() const { return path_; }

 private:
  void* handle_;
  std::string path_;
};

struct HostCompiler {
  std::string path;
  std::string identity;      // version, size and time
  std::string architecture;  // what -march=native means here
};
// Looked for anew at each call. `cache` remembers what `--version` said, by the compiler's path, size and
// time, so that only a compiler that it has not seen is run. Throws Error(Unavailable).
HostCompiler host_compiler(KernelCache& cache = KernelCache::shared());

std::shared_ptr<HostLibrary> compile_host(std::string_view name, std::string_view text,
                                          Outcome* outcome = nullptr,
                                          KernelCache& cache = KernelCache::shared());

}  // namespace rondo::kernel
