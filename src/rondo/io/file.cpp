#include "rondo/io/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "rondo/error.h"

namespace rondo::io {

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::Usage, fmt::format("cannot read {}: it is a folder", path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) throw Error(ErrorKind::Usage, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  std::string text;
  const auto size = std::filesystem::file_size(path, ignored);
  if (!ignored) text.reserve(size);
  char buffer[65536];
  size_t n = 0;
  while ((n = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, n);
  const bool failed = std::ferror(file) != 0;
  const int error = errno;
  std::fclose(file);
  if (failed) throw Error(ErrorKind::Usage, fmt::format("cannot read {}: {}", path, std::strerror(error)));
  return text;
}

FileWriter::FileWriter(const std::string& path) : path_(path), written_(path) {
  if (path == "-") {
    file_ = stdout;
    return;
  }
  std::error_code ignored;
  // A link is written through, never replaced: /dev/stdout is one, and leads to a regular file when output is redirected.
  const auto status = std::filesystem::symlink_status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) {
    written_ = fmt::format("{}.{}.tmp", path, getpid());
    listed_.emplace(written_);
  }
  file_ = std::fopen(written_.c_str(), "wb");
  if (!file_) fail();
}

FileWriter::~FileWriter() {
  if (!file_ || file_ == stdout) return;
  std::fclose(file_);
  if (written_ != path_) std::remove(written_.c_str());
}

void FileWriter::fail() const {
  throw Error(ErrorKind::Usage,
              fmt::format("cannot write {}: {}", path_ == "-" ? "to standard output" : path_, std::strerror(errno)));
}

void FileWriter::write(const void* data, size_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file_) != bytes) fail();
}

void FileWriter::finish() {
  std::FILE* file = file_;
  if (std::fflush(file) != 0) fail();
  file_ = nullptr;
  if (file == stdout) return;
  const bool closed = std::fclose(file) == 0;
  if (!closed || (written_ != path_ && std::rename(written_.c_str(), path_.c_str()) != 0)) {
    const int error = errno;
    if (written_ != path_) std::remove(written_.c_str());
    errno = error;
    fail();
  }
}

}  // namespace rondo::io
