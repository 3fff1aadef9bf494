#include "rondo/base/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "rondo/error.h"

namespace rondo {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

trace::Level log_level() {
  const std::string value = variable("RONDO_LOG");
  if (value.empty()) return trace::Level::Warn;
  for (auto level :
       {trace::Level::Off, trace::Level::Error, trace::Level::Warn, trace::Level::Info, trace::Level::Debug})
    if (value == trace::name(level)) return level;
  throw Error(ErrorKind::Usage,
              fmt::format("RONDO_LOG is '{}': expected off, error, warn, info or debug", value));
}

int threads() {
  const std::string value = variable("RONDO_THREADS");
  if (value.empty()) return 0;
  int count = 0;
  const char* end = value.data() + value.size();
  const auto [stop, code] = std::from_chars(value.data(), end, count);
  if (code != std::errc() || stop != end || count < 1 || count > 1024)
    throw Error(ErrorKind::Usage,
                fmt::format("RONDO_THREADS is '{}': expected a whole number from 1 to 1024", value));
  return count;
}

GraphWatch watch() {
  const std::string value = variable("RONDO_GRAPH_WATCH");
  if (value.empty() || value == "log") return GraphWatch::Log;
  if (value == "off" || value == "0") return GraphWatch::Off;
  if (value == "retry") return GraphWatch::Retry;
  if (value == "calls" || value == "1") return GraphWatch::Calls;
  throw Error(ErrorKind::Usage,
              fmt::format("RONDO_GRAPH_WATCH is '{}': expected off, log, retry or calls (also 1)", value));
}

ReplayPolicy replay() {
  const std::string value = variable("RONDO_REPLAY");
  if (value.empty() || value == "auto") return ReplayPolicy::Auto;
  if (value == "never") return ReplayPolicy::Never;
  if (value == "always") return ReplayPolicy::Always;
  throw Error(ErrorKind::Usage, fmt::format("RONDO_REPLAY is '{}': expected auto, never or always", value));
}

bool replay_check() {
  const std::string value = variable("RONDO_REPLAY_CHECK");
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  throw Error(ErrorKind::Usage, fmt::format("RONDO_REPLAY_CHECK is '{}': expected 0 or 1", value));
}

// Several processes of one program (ranks) write a file each.
std::string replay_report() {
  std::string value = variable("RONDO_REPLAY_REPORT");
  const std::string id = std::to_string(::getpid());
  for (size_t at = 0; (at = value.find("%p", at)) != std::string::npos; at += id.size()) value.replace(at, 2, id);
  return value;
}

std::string cache_dir() {
  const std::string value = variable("RONDO_CACHE_DIR");
  if (value == "off") return "";
  if (!value.empty()) return value;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/rondo";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/rondo";
  return "";
}

std::mutex mutex;
std::optional<Options> current;
std::atomic<int> current_watch{-1};  // -1: not read yet

}  // namespace

Options read_options() {
  Options o;
  o.libcuda = variable("RONDO_LIBCUDA");
  o.libnvrtc = variable("RONDO_LIBNVRTC");
  o.libcupti = variable("RONDO_LIBCUPTI");
  o.cache_dir = cache_dir();
  o.cxx = variable("RONDO_CXX");
  o.path = variable("PATH");
  o.temp_dir = variable("TMPDIR");
  if (o.temp_dir.empty()) o.temp_dir = "/tmp";
  o.log = log_level();
  o.threads = threads();
  o.graph_watch = watch();
  o.replay = replay();
  o.replay_check = replay_check();
  o.replay_report = replay_report();
  return o;
}

Options options() {
  const std::lock_guard lock(mutex);
  if (!current) current = read_options();
  return *current;
}

void reload_options() {
  Options fresh = read_options();
  const std::lock_guard lock(mutex);
  current_watch.store(static_cast<int>(fresh.graph_watch), std::memory_order_release);
  current = std::move(fresh);
}

GraphWatch graph_watch() {
  int value = current_watch.load(std::memory_order_acquire);
  if (value < 0) current_watch.store(value = static_cast<int>(options().graph_watch), std::memory_order_release);
  return static_cast<GraphWatch>(value);
}

}  // namespace rondo
