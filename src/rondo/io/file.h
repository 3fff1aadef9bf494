// Whole files in and out. Failures are Error(Usage) with the path and the system's words.
#pragma once
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "rondo/base/temporary.h"

namespace rondo::io {

std::string read_file(const std::string& path);

// Writes beside the file and renames at finish(), so that a reader never sees half of it. Devices, pipes and links
// (/dev/stdout) are written as they are, "-" is standard output. Destroyed before finish(), or interrupted: nothing is left.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();

 private:
  [[noreturn]] void fail() const;
  std::string path_, written_;
  std::optional<Temporary> listed_;  // when written_ is beside the file
  std::FILE* file_ = nullptr;
};

}  // namespace rondo::io
