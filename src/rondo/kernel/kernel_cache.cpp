#include "rondo/kernel/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rondo/base/options.h"
#include "rondo/base/temporary.h"
#include "rondo/base/trace.h"
#include "rondo/error.h"

namespace rondo::kernel {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFormat = 1;

struct Trailer {
  char magic[8];
  uint64_t format, size, high, low, reserved;
};
static_assert(sizeof(Trailer) == 48);
constexpr char kMagic[] = "rondo-kc";

Trailer trailer_of(std::string_view bytes) {
  const Hash128 sum = hash(bytes);
  Trailer t{{}, kFormat, bytes.size(), sum.high, sum.low, 0};
  std::memcpy(t.magic, kMagic, sizeof t.magic);
  return t;
}

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool open() const { return fd_ >= 0; }
  bool regular() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  }
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool read(std::string* bytes) {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return false;
    bytes->resize(static_cast<size_t>(info.st_size));
    for (size_t done = 0; done < bytes->size();) {
      const ssize_t n = ::read(fd_, bytes->data() + done, bytes->size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

// As a part of a file name.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 64))
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  return out;
}

}  // namespace

Hash128 make_key(const KeyParts& parts) {
  return Hasher()
      .number(kFormat)
      .text(parts.kind)
      .text(parts.compiler)
      .text(parts.flags)
      .text(parts.architecture)
      .text(parts.text)
      .finish();
}

const char* name(Outcome::From from) noexcept {
  static const char* const names[] = {"memory", "disk", "compiled"};
  return names[static_cast<int>(from)];
}

// ---------------------------------------------------------------- the two levels

struct KernelCache::State {
  using Pointer = std::shared_ptr<const Artifact>;

  fs::path folder;
  std::mutex mutex;
  std::condition_variable finished;
  std::unordered_map<Hash128, Pointer> memory;  // null = being made
  bool told = false;

  fs::path path_of(Hash128 key, std::string_view name, std::string_view suffix) const {
    return folder / (plain(name) + "-" + key.hex() + std::string(suffix));
  }

  // Once a cache: a folder that cannot be written is a slower start, not an error.
  void tell(int code, const std::string& what) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(told, true)) return;
    }
    trace::note(
        trace::Level::Warn, "kernel.cache",
        fmt::format("{} ({}): compiled kernels are kept in memory only. Set RONDO_CACHE_DIR to a folder that "
                    "can be written, or to off",
                    what, std::strerror(code)));
  }

  fs::path temporary_path() const {
    static std::atomic<unsigned> counter{0};
    return folder / fmt::format(".{}-{}.tmp", static_cast<long>(::getpid()), counter.fetch_add(1));
  }

  // Under another name first, so that a reader never sees half a file.
  bool write(const fs::path& path, std::string_view a, std::string_view b = {}) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    const fs::path temporary = temporary_path();
    const Temporary listed(temporary);
    int code = 0;
    {
      File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
      if (!file.open() || !file.write(a) || !file.write(b)) code = errno;
    }
    if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
    if (code == 0) return true;
    ::unlink(temporary.c_str());
    tell(code, fmt::format("cannot write {}", path.string()));
    return false;
  }

  bool write_sealed(const fs::path& path, std::string_view bytes) {
    const Trailer trailer = trailer_of(bytes);
    return write(path, bytes, {reinterpret_cast<const char*>(&trailer), sizeof trailer});
  }

  // Null when there is none. A file with a wrong trailer is deleted; one that cannot be read is left alone.
  Pointer read(const fs::path& path) {
    File file(path, O_RDONLY | O_NONBLOCK);  // a pipe without a writer would wait for one
    auto artifact = std::make_shared<Artifact>();
    if (!file.open()) return nullptr;
    std::string& bytes = artifact->bytes;
    if (file.regular() && !file.read(&bytes)) return nullptr;
    Trailer found{};
    if (bytes.size() >= sizeof found) {
      std::memcpy(&found, bytes.data() + bytes.size() - sizeof found, sizeof found);
      bytes.resize(bytes.size() - sizeof found);
      const Trailer wanted = trailer_of(bytes);
      if (std::memcmp(&found, &wanted, sizeof found) == 0) {
        artifact->file = path;
        return artifact;
      }
    }
    trace::note(trace::Level::Warn, "kernel.cache",
                fmt::format("{} is damaged: deleted, and compiled again", path.string()));
    ::unlink(path.c_str());
    return nullptr;
  }

  // What another thread made or is making; nullopt: this thread has to make it.
  std::optional<Pointer> wait_for(Hash128 key) {
    std::unique_lock lock(mutex);
    for (;;) {
      const auto [at, is_new] = memory.try_emplace(key, nullptr);
      if (is_new) return std::nullopt;
      if (at->second) return at->second;
      finished.wait(lock);
    }
  }
  void finish(Hash128 key, Pointer artifact) {
    {
      const std::lock_guard lock(mutex);
      if (artifact)
        memory[key] = std::move(artifact);
      else
        memory.erase(key);  // the next thread that waits tries for itself
    }
    finished.notify_all();
  }
};

KernelCache::KernelCache(fs::path folder) : state_(std::make_unique<State>()) {
  state_->folder = std::move(folder);
}
KernelCache::~KernelCache() = default;

KernelCache& KernelCache::shared() {
  static KernelCache* const cache = new KernelCache(options().cache_dir);
  return *cache;
}

const fs::path& KernelCache::folder() const { return state_->folder; }

void KernelCache::forget() {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->memory, [](const auto& entry) { return entry.second != nullptr; });
}

fs::path KernelCache::keep_source(Hash128 key, std::string_view name, std::string_view suffix,
                                  std::string_view source) {
  if (state_->folder.empty()) return {};
  const fs::path path = state_->path_of(key, name, suffix);
  return state_->write(path, source) ? path : fs::path();
}

void KernelCache::put(Hash128 key, std::string_view name, std::string_view suffix, std::string bytes) {
  auto made = std::make_shared<Artifact>();
  made->bytes = std::move(bytes);
  if (!state_->folder.empty()) {
    const fs::path path = state_->path_of(key, name, suffix);
    if (state_->write_sealed(path, made->bytes)) made->file = path;
  }
  state_->finish(key, std::move(made));
}

std::shared_ptr<const Artifact> KernelCache::find(Hash128 key, std::string_view name,
                                                  std::string_view suffix) {
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto at = state_->memory.find(key); at != state_->memory.end() && at->second) return at->second;
  }
  return state_->folder.empty() ? nullptr : state_->read(state_->path_of(key, name, suffix));
}

std::shared_ptr<const Artifact> KernelCache::instead_of(const Error& reason, Hash128 any_key,
                                                        std::string_view name, std::string_view suffix,
                                                        Outcome* outcome) {
  const double start_us = trace::now_us();
  auto known = find(any_key, name, suffix);
  if (!known) throw reason;
  if (outcome) *outcome = {Outcome::From::Disk, (trace::now_us() - start_us) / 1000};
  trace::note(trace::Level::Info, "kernel.without_compiler",
              fmt::format("{} is taken from the cache: {}", name, reason.what()));
  return known;
}

void KernelCache::also(const Artifact& artifact, Hash128 key, std::string_view name,
                       std::string_view suffix) {
  if (artifact.file.empty()) return;
  const fs::path temporary = state_->temporary_path();
  const Temporary listed(temporary);
  if (::link(artifact.file.c_str(), temporary.c_str()) != 0) return;
  (void)::rename(temporary.c_str(), state_->path_of(key, name, suffix).c_str());
  ::unlink(temporary.c_str());  // rename leaves it when both are the same file
}

std::shared_ptr<const Artifact> KernelCache::get(Hash128 key, std::string_view name, std::string_view suffix,
                                                 std::string_view source_suffix, std::string_view source,
                                                 const std::function<std::string()>& compile,
                                                 Outcome* outcome) {
  const double start_us = trace::now_us();
  const auto done = [&](Outcome::From from) {
    const Outcome o{from, (trace::now_us() - start_us) / 1000};
    if (outcome) *outcome = o;
    if (!trace::wants(trace::Level::Debug)) return;
    trace::Event e;
    e.kind = trace::Kind::Span;
    e.name = fmt::format("kernel.{}", kernel::name(from));
    e.start_us = start_us;
    e.dur_us = o.ms * 1000;
    e.text = name;
    trace::emit(std::move(e));
  };

  if (auto known = state_->wait_for(key)) {
    done(Outcome::From::Memory);
    return *known;
  }
  std::shared_ptr<const Artifact> artifact;
  try {
    const bool on_disk = !state_->folder.empty();
    const fs::path path = on_disk ? state_->path_of(key, name, suffix) : fs::path();
    if (on_disk) artifact = state_->read(path);
    const bool found = artifact != nullptr;
    if (!found) {
      auto made = std::make_shared<Artifact>();
      made->bytes = compile();
      if (on_disk && state_->write_sealed(path, made->bytes)) {
        made->file = path;
        state_->write(state_->path_of(key, name, source_suffix), source);
      }
      artifact = std::move(made);
    }
    done(found ? Outcome::From::Disk : Outcome::From::Compiled);
  } catch (...) {
    state_->finish(key, nullptr);
    throw;
  }
  state_->finish(key, artifact);
  return artifact;
}

}  // namespace rondo::kernel
