// Small files of this room: read whole, written whole or not at all, changed by one process at a time.
// Nothing throws but for lack of memory; what went wrong is said in words.
#pragma once
#include <filesystem>
#include <string>

namespace rondo::replay {

struct FileText {
  enum class Found { None, Text, Unreadable } found = Found::None;
  std::string text;
  std::string why;  // when it is unreadable
};
// A regular file of at most `most_bytes`.
FileText read_whole(const std::filesystem::path& path, size_t most_bytes);

// Beside it under another name first, then renamed, so that nobody reads half of it; folders are made. What
// is no regular file (a pipe, /dev/stderr, a link) is written as it is. "" or what went wrong.
std::string write_whole(const std::filesystem::path& path, const std::string& text);

// Others who take the lock of this path wait for up to two seconds (a process that was stopped in the middle
// must not stop all others). Where a file system has no locks nobody waits: two processes that write at the
// same moment may then lose what one of them had to add.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  bool held_by_another() const noexcept { return held_by_another_; }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
  bool held_by_another_ = false;
};

// As JSON can hold it: bytes that are no UTF-8 are replaced.
std::string as_utf8(const std::string& text);

}  // namespace rondo::replay
