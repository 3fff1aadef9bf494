#include "rondo/driver/nvrtc.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/driver.h"
#include "rondo/driver/library.h"

namespace rondo::driver {
namespace {

[[noreturn]] void unavailable(const std::string& why) {
  throw Error(
      ErrorKind::Unavailable,
      fmt::format("NVRTC, which compiles CUDA kernels, is not available: {}. Install the CUDA toolkit or "
                  "`pip install nvidia-cuda-nvrtc`, or set RONDO_LIBNVRTC to the path of libnvrtc.so",
                  why));
}

// 0 when there is no driver: then any NVRTC will do, nothing is going to be loaded here.
int driver_major() {
  try {
    return driver().version / 1000;
  } catch (const Error&) {
    return 0;
  }
}

std::vector<std::string> candidates() {
  const std::string own = options().libnvrtc;
  if (!own.empty()) return {own};
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12"};
  if (driver_major() == 12) std::swap(names[0], names[1]);
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/opt/cuda/lib64"})
    names.push_back(std::string(folder) + "/libnvrtc.so");
  return names;
}

}  // namespace

std::unique_ptr<Nvrtc> load_nvrtc() {
  Library library = open_library(candidates());
  if (!library.handle) unavailable(library.reasons);
  auto n = std::make_unique<Nvrtc>();
  n->where = library.path;
  std::string missing;
#define RONDO_FIND(name)                                                      \
  n->name = reinterpret_cast<decltype(n->name)>(find_symbol(library, #name)); \
  if (!n->name) missing += missing.empty() ? #name : ", " #name;
  RONDO_NVRTC_FUNCTIONS(RONDO_FIND)
#undef RONDO_FIND
  if (!missing.empty()) unavailable(fmt::format("{} does not have {}", library.path, missing));
  if (n->nvrtcVersion(&n->major, &n->minor) != NVRTC_SUCCESS)
    unavailable(fmt::format("{} does not tell its version", library.path));
  trace::note(trace::Level::Info, "nvrtc.found",
              fmt::format("NVRTC {}.{}, {}", n->major, n->minor, n->where));
  library.keep();
  return n;
}

namespace {
std::atomic<const Nvrtc*> replaced{nullptr};

}  // namespace

const Nvrtc& nvrtc() {
  if (const Nvrtc* table = replaced.load(std::memory_order_acquire)) return *table;
  static std::mutex mutex;
  // Never destroyed, map and tables: callers hold on to a table.
  static std::map<std::string, const Nvrtc*>& found = *new std::map<std::string, const Nvrtc*>;
  const std::string own = options().libnvrtc;
  const std::lock_guard lock(mutex);
  const Nvrtc*& table = found[own];
  if (!table) table = load_nvrtc().release();
  return *table;
}

const Nvrtc* set_nvrtc_for_tests(const Nvrtc* table) {
  return replaced.exchange(table, std::memory_order_acq_rel);
}

}  // namespace rondo::driver
