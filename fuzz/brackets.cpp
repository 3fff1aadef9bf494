// Bracketed trees: any bytes are trees or an Error(Usage).
#include <string>

#include "rondo/io/instances.h"
#include "signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto signature = rondo::fuzz::signature(true);
  const std::string text(reinterpret_cast<const char*>(data), size);
  rondo::Batch batch(signature);
  rondo::fuzz::refuses_or_takes([&] {
    const auto trees = rondo::io::trees_of(text, "fuzz", rondo::io::Vocabulary::hash(1000), *signature);
    while (trees->read(&batch, 16) > 0) {
    }
  });
  return 0;
}
