// The fake driver of the tests as a libcuda.so: for the examples, which find their driver themselves, where
// there is no GPU. RONDO_LIBCUDA names it. It knows the kernels of examples/gpu.h and of
// bench/graph_overhead.cpp by their names and computes what they do.
#include <cstring>
#include <string_view>

#include "../fake_driver.h"

namespace {

using rondo::fake::FakeDriver;
using rondo::fake::Launched;

template <class T>
T argument(const Launched& l, size_t offset) {
  T value;
  std::memcpy(&value, l.params.data() + offset, sizeof value);
  return value;
}

FakeDriver& machine() {
  // Never destroyed: the program's own destructors call it to the end.
  static FakeDriver& fake = *[] {
    auto* made = new FakeDriver(13000);
    made->kernels = {"add", "scale", "add_each", "count"};
    made->parameter_bytes = {
        {"add", {8, 4, 4}}, {"scale", {8, 4, 4}}, {"add_each", {8, 4, 4, 4}}, {"count", {8, 8}}};
    const auto each = [](auto change) {
      return [change](const Launched& l) {
        auto* x = reinterpret_cast<float*>(argument<uint64_t>(l, 0));
        for (uint32_t i = 0; i < argument<uint32_t>(l, 8); ++i) change(x[i], argument<float>(l, 12));
      };
    };
    made->bodies["add"] = each([](float& x, float v) { x += v; });
    made->bodies["scale"] = each([](float& x, float v) { x *= v; });
    made->bodies["add_each"] = [](const Launched& l) {
      auto* const* table = reinterpret_cast<float**>(argument<uint64_t>(l, 0));
      for (uint32_t t = 0; t < argument<uint32_t>(l, 8); ++t)
        for (uint32_t i = 0; i < argument<uint32_t>(l, 12); ++i) table[t][i] += argument<float>(l, 16);
    };
    made->bodies["count"] = [](const Launched& l) {
      *reinterpret_cast<uint64_t*>(argument<uint64_t>(l, 0)) += argument<uint64_t>(l, 8);
    };
    return made;
  }();
  return fake;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult cuDriverGetVersion(int* version) {
  *version = machine().table().version;
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(
    const char* name, void** address, int version, cuuint64_t, CUdriverProcAddressQueryResult* found) {
  *address = nullptr;
  const auto offer = [&](const auto& function, const char* known_as) {
    if (function && function.version() == version && rondo::driver::base_name(known_as) == name)
      *address = reinterpret_cast<void*>(function.raw());
  };
  const rondo::driver::Driver& d = machine().table();
#define OFFER(function, since, need) offer(d.function, #function);
  RONDO_DRIVER_FUNCTIONS(OFFER)
#undef OFFER
#define OFFER(field, function, since, ...) offer(d.field, function);
  RONDO_DRIVER_FUNCTIONS_OLD(OFFER)
#undef OFFER
  if (found) *found = *address ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
