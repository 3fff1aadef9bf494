// A shared library found at run time. The last reason of dlopen is kept, because it is what a user needs to
// read.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace rondo::driver {

struct Library {
  Library() = default;
  Library(Library&& other) noexcept { *this = std::move(other); }
  Library& operator=(Library&& other) noexcept {
    std::swap(handle, other.handle);
    std::swap(path, other.path);
    std::swap(reasons, other.reasons);
    return *this;
  }
  ~Library();                                 // closes it
  void keep() noexcept { handle = nullptr; }  // for as long as the process lives

  void* handle = nullptr;
  std::string path;     // where it really lies
  std::string reasons;  // when handle is null: "cannot open a (why), b (why)"
};

// The first of `names` that opens; with only_loaded, the first that is in the process already.
Library open_library(const std::vector<std::string>& names, bool only_loaded = false);
void* find_symbol(const Library& library, const char* name);

}  // namespace rondo::driver
