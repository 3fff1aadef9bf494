// Programs: any bytes are a verified program or an Error(Source) that starts with the name of the file.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "rondo/error.h"
#include "rondo/lang/lang.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    rondo::ir::print(rondo::lang::parse_program(text, "fuzz.rondo"));
  } catch (const rondo::Error& e) {
    if (e.kind() != rondo::ErrorKind::Source || std::string(e.what()).rfind("fuzz.rondo:", 0) != 0)
      std::abort();
  }
  return 0;
}
