#include "rondo/driver/driver.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/library.h"

namespace rondo::driver {
namespace {

// The first driver branch of each CUDA version (CUDA Toolkit release notes, table "CUDA Driver").
struct Branch {
  int cuda, branch;
};
constexpr Branch kBranches[] = {{12000, 525}, {12010, 530}, {12020, 535}, {12030, 545},
                                {12040, 550}, {12050, 555}, {12060, 560}, {12080, 570},
                                {12090, 575}, {13000, 580}, {13010, 590}};
constexpr int kOldest = 12000;
constexpr bool required = true, optional = false;

[[noreturn]] void unavailable(const std::string& why, const std::string& what_to_do) {
  throw Error(ErrorKind::Unavailable, fmt::format("CUDA is not available: {}. {}", why, what_to_do));
}

using GetProcAddress = decltype(&::cuGetProcAddress);

template <class F>
bool find(Function<F>* function, GetProcAddress get, int driver_version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult code = get(base_name(function->name()).c_str(), &address, function->version(),
                            CU_GET_PROC_ADDRESS_DEFAULT, &found);
  if (code != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS) address = nullptr;
  function->set(reinterpret_cast<F>(address), driver_version);
  return address != nullptr;
}

Library find_libcuda() {
  const std::string own = options().libcuda;
  if (!own.empty()) {
    Library library = open_library({own});
    if (!library.handle)
      unavailable(library.reasons,
                  "RONDO_LIBCUDA must be the path of a libcuda.so: correct it, unset it to "
                  "look in the usual places, or use --device cpu.");
    return library;
  }
  Library library = open_library({"libcuda.so.1"}, true);
  if (!library.handle) library = open_library({"libcuda.so.1"});
  if (!library.handle) unavailable(library.reasons, "Set RONDO_LIBCUDA to its path, or use --device cpu.");
  return library;
}

}  // namespace

std::unique_ptr<Driver> load_driver() {
  Library library = find_libcuda();
  auto d = std::make_unique<Driver>();
  d->where = library.path;
  const auto get_version =
      reinterpret_cast<decltype(&::cuDriverGetVersion)>(find_symbol(library, "cuDriverGetVersion"));
  if (!get_version)
    unavailable(library.path + " has no cuDriverGetVersion",
                "RONDO_LIBCUDA must be the path of a libcuda.so.");
  if (const CUresult code = get_version(&d->version); code != CUDA_SUCCESS)
    unavailable(fmt::format("cuDriverGetVersion of {} failed with {}", library.path, static_cast<int>(code)),
                "Check the driver with nvidia-smi, or use --device cpu.");
  const auto get = reinterpret_cast<GetProcAddress>(find_symbol(library, "cuGetProcAddress_v2"));
  if (d->version < kOldest || !get)
    unavailable(fmt::format("{} is driver {}, needed is {} or newer", library.path, driver_name(d->version),
                            driver_name(kOldest)),
                "Update the driver, or use --device cpu.");
  std::string missing;
#define RONDO_FIND(name, since, need) \
  if (!find(&d->name, get, d->version) && need) missing += missing.empty() ? #name : ", " #name;
  RONDO_DRIVER_FUNCTIONS(RONDO_FIND)
#undef RONDO_FIND
#define RONDO_FIND(field, name, since, ...) (void)find(&d->field, get, d->version);
  RONDO_DRIVER_FUNCTIONS_OLD(RONDO_FIND)
#undef RONDO_FIND
  if (!missing.empty())
    unavailable(fmt::format("{} ({}) does not have {}", library.path, d->name(), missing),
                "Set RONDO_LIBCUDA to a complete driver, or use --device cpu.");
  trace::note(trace::Level::Info, "driver.found", fmt::format("{}, {}", d->name(), d->where));
  library.keep();
  return d;
}

namespace {
std::atomic<const Driver*> replaced{nullptr};
}  // namespace

std::string driver_name(int version) {
  const std::string cuda = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  const Branch* best = nullptr;
  for (const Branch& b : kBranches)
    if (b.cuda <= version) best = &b;
  if (!best) return fmt::format("older than R{} ({})", kBranches[0].branch, cuda);
  if (version / 10 == best->cuda / 10) return fmt::format("R{} ({})", best->branch, cuda);
  return fmt::format("newer than R{} ({})", best->branch, cuda);
}

std::string Driver::name() const { return driver_name(version); }

std::string base_name(std::string_view function) {
  const size_t at = function.rfind("_v");
  return std::string(at != function.npos && at + 3 == function.size() ? function.substr(0, at) : function);
}

void fail_missing(const char* function, int needs_version, int has_version) {
  throw Error(ErrorKind::Unavailable, fmt::format("{} needs driver {}, this is {}", base_name(function),
                                                  driver_name(needs_version), driver_name(has_version)));
}

const Driver& driver() {
  if (const Driver* table = replaced.load(std::memory_order_acquire)) return *table;
  static std::atomic<const Driver*> found{nullptr};  // never destroyed: static objects use it to the end
  if (const Driver* table = found.load(std::memory_order_acquire)) return *table;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!found.load(std::memory_order_relaxed)) found.store(load_driver().release(), std::memory_order_release);
  return *found.load(std::memory_order_relaxed);
}

const Driver* set_driver_for_tests(const Driver* table) {
  return replaced.exchange(table, std::memory_order_acq_rel);
}

std::string describe(const Driver& d, CUresult code) {
  const char *name = nullptr, *text = nullptr;
  if (d.cuGetErrorName(code, &name) != CUDA_SUCCESS || !name) name = "unknown error";
  if (d.cuGetErrorString(code, &text) != CUDA_SUCCESS || !text) text = "no description";
  return fmt::format("{} ({}): {}", name, static_cast<int>(code), text);
}

void fail(const Driver& d, CUresult code, const char* call, const std::string& context, ErrorKind kind) {
  std::string_view text(call);
  const std::string function = base_name(text.substr(0, text.find('(')));
  throw Error(kind, fmt::format("{} failed: {}{}", function, describe(d, code),
                                context.empty() ? "" : " [" + context + "]"));
}

}  // namespace rondo::driver
