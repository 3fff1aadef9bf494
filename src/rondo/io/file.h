// Files in and out. Failures are Error(Usage) with the path and the system's words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "rondo/base/temporary.h"

namespace rondo::io {

// What does not end by itself is refused at this size: a text that comes through a pipe or a device (/dev/zero), a line.
inline constexpr size_t kMostStreamBytes = size_t{1} << 30, kMostLineBytes = size_t{1} << 28;

// What a path may lead to: a regular file only, as a pipe without a writer would be waited for; also a pipe or a device; and
// "-" is the standard input.
enum class From { File, Stream, StreamOrStdin };

// The bytes of a regular file.
std::string read_file(const std::string& path);

// A text. A byte order mark is dropped.
std::string read_text(const std::string& path, From from = From::Stream, size_t most_bytes = kMostStreamBytes);

// The text without the UTF-8 byte order mark that some editors put in front.
std::string_view without_mark(std::string_view text);

class FileReader {
 public:
  FileReader(const std::string& path, From from);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  size_t read(char* to, size_t at_most);  // what there is by now; 0 = the end
  bool regular() const { return regular_; }
  uint64_t size() const { return size_; }  // of a regular file
  const std::string& name() const { return name_; }  // the path, or "stdin"

 private:
  std::string name_;
  int fd_ = -1;
  bool regular_ = false;
  uint64_t size_ = 0;
};

// A text line by line, as lines come; "-" is the standard input. A byte order mark in front is dropped.
class LineReader {
 public:
  explicit LineReader(const std::string& path, size_t most_bytes = kMostLineBytes)
      : file_(path, From::StreamOrStdin), most_(most_bytes) {}
  // Without its newline; valid until the next call. Nothing: the end.
  std::optional<std::string_view> next();
  size_t number() const { return number_; }  // of the last line, from 1
  const std::string& name() const { return file_.name(); }

 private:
  FileReader file_;
  size_t most_, number_ = 0;
  std::string bytes_;
  size_t at_ = 0;  // where the next line begins
  bool ended_ = false;
};

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
