#include "rondo/driver/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

namespace rondo::driver {
namespace {

// "libx.so.1: cannot open shared object file: No such file or directory" -> the last part.
std::string reason(const std::string& name) {
  const char* text = dlerror();
  std::string out = text ? text : "not found";
  if (out.rfind(name + ": ", 0) == 0) out.erase(0, name.size() + 2);
  const std::string generic = "cannot open shared object file: ";
  if (out.rfind(generic, 0) == 0) out.erase(0, generic.size());
  return out;
}

}  // namespace

Library::~Library() {
  if (handle) dlclose(handle);
}

Library open_library(const std::vector<std::string>& names, bool only_loaded) {
  Library library;
  for (const std::string& name : names) {
    library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
    if (library.handle) {
      library.path = name;
      link_map* map = nullptr;
      if (dlinfo(library.handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        library.path = map->l_name;
      return library;
    }
    library.reasons +=
        fmt::format("{}{} ({})", library.reasons.empty() ? "cannot open " : ", ", name, reason(name));
  }
  return library;
}

void* find_symbol(const Library& library, const char* name) { return dlsym(library.handle, name); }

}  // namespace rondo::driver
