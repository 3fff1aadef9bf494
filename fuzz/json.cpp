// Instances as JSON lines: any bytes are values or an Error(Usage).
#include <string_view>

#include "rondo/io/instances.h"
#include "signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto signature = rondo::fuzz::signature(false);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  rondo::Batch batch(signature);
  rondo::fuzz::refuses_or_takes([&] { rondo::io::add_json_instance(text, "fuzz:1", &batch); });
  return 0;
}
