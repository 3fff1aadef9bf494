#include "rondo/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "rondo/base/memory.h"
#include "rondo/error.h"

namespace rondo::io {

namespace {

constexpr size_t kPiece = size_t{1} << 16;

[[noreturn]] void cannot_read(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::Usage, fmt::format("cannot read {}: {}", name, why));
}

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

// All of it; what is not a regular file may have at most `most` bytes.
std::string read_all(FileReader* file, size_t most) {
  std::string text;
  try {
    if (file->regular()) text.reserve(file->size() + kPiece);  // the last piece finds the end
    for (size_t got = 1; got > 0;) {
      const size_t have = text.size();
      text.resize(have + kPiece);
      got = file->read(text.data() + have, kPiece);
      text.resize(have + got);
      if (!file->regular() && text.size() > most)
        cannot_read(file->name(), fmt::format("it has not ended after {} bytes; expected a text of at most so many, or a file", most));
    }
  } catch (const std::bad_alloc&) {
    throw out_of_memory(fmt::format("while reading {}, of {} bytes", file->name(), std::max<uint64_t>(file->size(), text.size())));
  } catch (const std::length_error&) {
    throw out_of_memory(fmt::format("while reading {}, of {} bytes", file->name(), file->size()));
  }
  return text;
}

}  // namespace

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.substr(0, kMark.size()) == kMark ? text.substr(kMark.size()) : text;
}

std::string read_file(const std::string& path) {
  FileReader file(path, From::File);
  return read_all(&file, 0);
}

std::string read_text(const std::string& path, From from, size_t most_bytes) {
  FileReader file(path, from);
  std::string text = read_all(&file, most_bytes);
  text.erase(0, text.size() - without_mark(text).size());
  return text;
}

// ---------------------------------------------------------------- reading
FileReader::FileReader(const std::string& path, From from) {
  const bool standard = path == "-" && from == From::StreamOrStdin;
  name_ = standard ? "stdin" : path;
  // To open a pipe waits for its writer, unless told not to; a regular file does not care.
  fd_ = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (from == From::File ? O_NONBLOCK : 0));
  if (fd_ < 0) cannot_read(name_, std::strerror(errno));
  struct stat info {};
  const int error = ::fstat(fd_, &info) == 0 ? 0 : errno;
  regular_ = error == 0 && S_ISREG(info.st_mode);
  if (regular_) size_ = static_cast<uint64_t>(info.st_size);
  if (error == 0 && !S_ISDIR(info.st_mode) && (regular_ || from != From::File)) return;
  if (!standard) ::close(fd_);
  if (error != 0) cannot_read(name_, std::strerror(error));
  cannot_read(name_, fmt::format("it is {}{}", kind_of(info.st_mode), S_ISDIR(info.st_mode) ? "" : "; expected a file"));
}

FileReader::~FileReader() {
  if (fd_ != STDIN_FILENO) ::close(fd_);
}

size_t FileReader::read(char* to, size_t at_most) {
  for (;;) {
    const ssize_t got = ::read(fd_, to, at_most);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) cannot_read(name_, std::strerror(errno));
  }
}

std::optional<std::string_view> LineReader::next() {
  for (size_t searched = at_;;) {
    const size_t end = bytes_.find('\n', searched);
    if (end != std::string::npos || (ended_ && at_ < bytes_.size())) {
      std::string_view line = std::string_view(bytes_).substr(at_, std::min(end, bytes_.size()) - at_);
      at_ = std::min(end, bytes_.size() - 1) + 1;
      return ++number_ == 1 ? without_mark(line) : line;
    }
    if (ended_) return std::nullopt;
    if (bytes_.size() - at_ > most_)
      cannot_read(name(), fmt::format("line {} has more than {} bytes; expected an instance a line", number_ + 1, most_));
    bytes_.erase(0, at_);
    at_ = 0;
    searched = bytes_.size();
    bytes_.resize(searched + kPiece);
    const size_t got = file_.read(bytes_.data() + searched, kPiece);
    bytes_.resize(searched + got);
    ended_ = got == 0;
  }
}

// ---------------------------------------------------------------- writing
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
