// Weight files: any bytes are tensors or an Error(Usage), and what is read lies inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "rondo/io/safetensors.h"
#include "signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  rondo::fuzz::refuses_or_takes([&] {
    volatile float sum = 0;
    for (const auto& [name, tensor] : rondo::io::read_safetensors(path)) {
      for (const float v : tensor.values()) sum = sum + v;
    }
  });
  return 0;
}
