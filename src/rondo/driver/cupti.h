// The table of CUPTI functions that tell of every call of the run-time and driver APIs: found at run time
// like libcuda, asked for only when someone wants to know who broke a capture.
//
// Looked for in RONDO_LIBCUPTI if set; else the libcupti that is in the process already (a profiler's: two in
// one process disturb each other); else libcupti.so.13 and .12, the driver's own major version first; then in
// the toolkit's folders. Built without CUPTI's headers, it answers that.
#pragma once
#include <memory>
#include <string>

#if __has_include(<cupti_callbacks.h>) && __has_include(<cuda_stdint.h>) && __has_include(<builtin_types.h>)
#define RONDO_HAS_CUPTI 1
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#else
#define RONDO_HAS_CUPTI 0
#endif

namespace rondo::driver {

#if RONDO_HAS_CUPTI

#define RONDO_CUPTI_FUNCTIONS(X) \
  X(cuptiGetVersion)             \
  X(cuptiGetResultString)        \
  X(cuptiSubscribe)              \
  X(cuptiUnsubscribe)            \
  X(cuptiEnableDomain)

struct Cupti {
#define RONDO_FIELD(name) decltype(&::name) name = nullptr;
  RONDO_CUPTI_FUNCTIONS(RONDO_FIELD)
#undef RONDO_FIELD
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
  // Null before CUDA 13. Tells who holds CUPTI.
  decltype(&::cuptiSubscribe_v2) cuptiSubscribe_v2 = nullptr;
#endif
  uint32_t version = 0;
  std::string where;
};

#else

struct Cupti {
  unsigned version = 0;
  std::string where;
};

#endif

// Throws Error(Unavailable) with the reason and what to do. Found once for each value of RONDO_LIBCUPTI; a
// failure is tried again at the next call.
const Cupti& cupti();
// Looks for it anew.
std::unique_ptr<Cupti> load_cupti();
// nullptr = the real one again. Returns what was set before.
const Cupti* set_cupti_for_tests(const Cupti* table);

}  // namespace rondo::driver
