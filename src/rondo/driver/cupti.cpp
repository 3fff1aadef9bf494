#include "rondo/driver/cupti.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/driver.h"
#include "rondo/driver/library.h"

namespace rondo::driver {
namespace {

[[noreturn]] void unavailable(const std::string& why, const std::string& what_to_do) {
  throw Error(ErrorKind::Unavailable,
              fmt::format("CUPTI, which tells who makes a call, is not available: {}. {}", why, what_to_do));
}

#if RONDO_HAS_CUPTI

constexpr const char* kInstall =
    "Install the CUDA toolkit or `pip install nvidia-cuda-cupti`, or set RONDO_LIBCUPTI to the path of "
    "libcupti.so";

// 0 when there is no driver.
int driver_major() {
  try {
    return driver().version / 1000;
  } catch (const Error&) {
    return 0;
  }
}

Library find_libcupti() {
  const std::string own = options().libcupti;
  if (!own.empty()) return open_library({own});
  std::vector<std::string> names = {"libcupti.so.13", "libcupti.so.12"};
  if (driver_major() == 12) std::swap(names[0], names[1]);
  if (Library loaded = open_library(names, true); loaded.handle) return loaded;
  for (const char* folder :
       {"/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64", "/opt/cuda/extras/CUPTI/lib64"})
    names.push_back(std::string(folder) + "/libcupti.so");
  return open_library(names);
}

#endif

std::atomic<const Cupti*> replaced{nullptr};

}  // namespace

std::unique_ptr<Cupti> load_cupti() {
#if RONDO_HAS_CUPTI
  Library library = find_libcupti();
  if (!library.handle) unavailable(library.reasons, kInstall);
  auto c = std::make_unique<Cupti>();
  c->where = library.path;
  std::string missing;
#define RONDO_FIND(name)                                                      \
  c->name = reinterpret_cast<decltype(c->name)>(find_symbol(library, #name)); \
  if (!c->name) missing += missing.empty() ? #name : ", " #name;
  RONDO_CUPTI_FUNCTIONS(RONDO_FIND)
#undef RONDO_FIND
  if (!missing.empty()) unavailable(fmt::format("{} does not have {}", library.path, missing), kInstall);
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
  c->cuptiSubscribe_v2 =
      reinterpret_cast<decltype(c->cuptiSubscribe_v2)>(find_symbol(library, "cuptiSubscribe_v2"));
#endif
  if (c->cuptiGetVersion(&c->version) != CUPTI_SUCCESS) c->version = 0;
  trace::note(trace::Level::Info, "cupti.found", fmt::format("CUPTI {}, {}", c->version, c->where));
  library.keep();
  return c;
#else
  unavailable("this build of Rondo was made without its headers",
              "Build it where cupti_callbacks.h lies beside cuda.h (tools/setup.sh fetches both)");
#endif
}

const Cupti& cupti() {
  if (const Cupti* table = replaced.load(std::memory_order_acquire)) return *table;
  static std::mutex mutex;
  // Never destroyed, map and tables: a subscription may be open until the process ends.
  static std::map<std::string, const Cupti*>& found = *new std::map<std::string, const Cupti*>;
  const std::string own = options().libcupti;
  const std::lock_guard lock(mutex);
  const Cupti*& table = found[own];
  if (!table) table = load_cupti().release();
  return *table;
}

const Cupti* set_cupti_for_tests(const Cupti* table) {
  return replaced.exchange(table, std::memory_order_acq_rel);
}

}  // namespace rondo::driver
