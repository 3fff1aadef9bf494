#include <fmt/format.h>

#include "rondo/io/file.h"
#include "verbs.h"

namespace rondo::tool {

int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::Source: return kSource;
    case ErrorKind::Usage: return kUsage;
    case ErrorKind::Unavailable: return kUnavailable;
    case ErrorKind::Device: return kDevice;
    case ErrorKind::Internal: return kInternal;
  }
  return kInternal;
}

void DefineOption::add_to(CLI::App& verb) {
  verb.add_option("-D,--define", given, "NAME=VALUE: sets an int constant of the program, as in -D H=512 (repeatable)")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

Defines DefineOption::parsed() const {
  Defines defines;
  for (const std::string& text : given) {
    const size_t at = text.find('=');
    int64_t value = 0;
    size_t used = 0;
    try {
      if (at != std::string::npos && at > 0) value = std::stoll(text.substr(at + 1), &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || at + 1 + used != text.size()) {
      throw Error(ErrorKind::Usage, fmt::format("-D {}: expected NAME=VALUE with a whole number, as in -D H=512", text));
    }
    defines.emplace_back(text.substr(0, at), value);
  }
  return defines;
}

void write_file(const std::string& path, const std::string& text) {
  io::FileWriter file(path);
  file.write(text);
  file.finish();
}

}  // namespace rondo::tool
