#include "rondo/replay/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "rondo/base/temporary.h"

namespace rondo::replay {
namespace {

namespace fs = std::filesystem;

struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

bool write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

std::string cannot(const char* what, const fs::path& path) {
  return fmt::format("cannot {} {} ({})", what, path.string(), std::strerror(errno));
}

}  // namespace

FileText read_whole(const fs::path& path, size_t most_bytes) {
  using Found = FileText::Found;
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would be waited for
  if (file.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return {Found::Unreadable, "", cannot("read", path)};
  }
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return {Found::Unreadable, "", cannot("read", path)};
  if (!S_ISREG(info.st_mode))
    return {Found::Unreadable, "", fmt::format("{} is no regular file", path.string())};
  if (static_cast<uint64_t>(info.st_size) > most_bytes)
    return {Found::Unreadable, "",
            fmt::format("{} has {} bytes, which is more than {}", path.string(), info.st_size, most_bytes)};
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {Found::Unreadable, "", cannot("read", path)};
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return {Found::Text, std::move(text), ""};
}

std::string write_whole(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  if (const fs::file_status there = fs::symlink_status(path, ignored);
      fs::exists(there) && !fs::is_regular_file(there)) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC));
    return file.fd >= 0 && write_all(file.fd, text) ? "" : cannot("write", path);
  }
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  static std::atomic<unsigned> counter{0};
  fs::path temporary = path.parent_path();
  temporary /= fmt::format(".{}-{}-{}.tmp", path.filename().string(), static_cast<long>(::getpid()),
                           counter.fetch_add(1));
  const Temporary listed(temporary);
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.fd < 0) return cannot("write", path);
    if (!write_all(file.fd, text)) {
      const std::string why = cannot("write", path);
      ::unlink(temporary.c_str());
      return why;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) == 0) return "";
  const std::string why = cannot("write", path);
  ::unlink(temporary.c_str());
  return why;
}

FileLock::FileLock(const fs::path& path) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  fd_ = ::open((path.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  for (int tries = 0; fd_ >= 0; ++tries) {
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
    if (tries == 8000) {
      held_by_another_ = true;
      return;
    }
    ::usleep(250);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);  // and the lock with it
}

std::string as_utf8(const std::string& text) {
  const std::string dumped =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(dumped).get<std::string>();
}

}  // namespace rondo::replay
