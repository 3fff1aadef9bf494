#include "rondo/base/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "rondo/base/options.h"
#include "rondo/error.h"

namespace rondo::trace {

// Until the stream has read RONDO_LOG everything is wanted, so that the first event finds the stream and
// settles it.
std::atomic<uint8_t> detail::highest_level{static_cast<uint8_t>(Level::Debug)};

const char* name(Level level) noexcept {
  static const char* const names[] = {"off", "error", "warn", "info", "debug"};
  return names[static_cast<int>(level)];
}

const char* name(Kind kind) noexcept {
  static const char* const names[] = {"span", "counter", "note"};
  return names[static_cast<int>(kind)];
}

namespace {

struct Stream {
  struct Entry {
    std::shared_ptr<Sink> sink;
    Level up_to;
  };
  std::mutex mutex;
  std::vector<Entry> sinks;
  Level log = Level::Warn;

  Stream() {
    // A bad RONDO_LOG is reported by whoever reads the options first; the stream itself never fails.
    try {
      log = options().log;
    } catch (const Error&) {
    }
    settle();
  }
  void settle() {
    Level highest = log;
    for (const Entry& e : sinks) highest = std::max(highest, e.up_to);
    detail::highest_level.store(static_cast<uint8_t>(highest), std::memory_order_relaxed);
  }
};

// Never destroyed: events may come from destructors of static objects.
Stream& stream() {
  static Stream* const instance = new Stream;
  return *instance;
}

void log_line(const Event& e) {
  std::string line;
  if (e.kind == Kind::Span)
    line =
        fmt::format("rondo: {} {:.3f} ms{}{}\n", e.name, e.dur_us / 1000, e.text.empty() ? "" : ": ", e.text);
  else if (e.kind == Kind::Counter)
    line = fmt::format("rondo: {} += {}\n", e.name, e.value);
  else
    line = fmt::format("rondo: {}: {}: {}\n", name(e.level), e.name, e.text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

uint32_t thread_number() noexcept {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out += '"';
}

}  // namespace

// ---------------------------------------------------------------- sinks

struct MemorySink::State {
  mutable std::mutex mutex;
  std::vector<Event> events;
};

MemorySink::MemorySink() : state_(std::make_unique<State>()) {}
MemorySink::~MemorySink() = default;

void MemorySink::take(const Event& event) noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->events.push_back(event);
}

std::vector<Event> MemorySink::events() const {
  const std::lock_guard lock(state_->mutex);
  return state_->events;
}

std::vector<Event> MemorySink::events(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Event> out;
  std::copy_if(state_->events.begin(), state_->events.end(), std::back_inserter(out),
               [&](const Event& e) { return e.name == name; });
  return out;
}

double MemorySink::total(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  double sum = 0;
  for (const Event& e : state_->events)
    if (e.name == name) sum += e.kind == Kind::Span ? e.dur_us : e.kind == Kind::Counter ? e.value : 1;
  return sum;
}

void MemorySink::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->events.clear();
}

struct ChromeSink::State {
  std::FILE* file = nullptr;  // null once it is finished
  std::string path;
  bool first = true;
  std::vector<std::pair<std::string, double>> totals;  // counters are shown as running sums

  [[noreturn]] void fail(const char* expected) const {
    throw Error(ErrorKind::Usage,
                fmt::format("cannot write the trace to {} ({}): {}", path, std::strerror(errno), expected));
  }
};

ChromeSink::ChromeSink(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->file = std::fopen(path.c_str(), "w");
  if (!state_->file) state_->fail("expected a path in a folder that can be written");
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", state_->file);
}

ChromeSink::~ChromeSink() {
  try {
    finish();
  } catch (const std::exception&) {  // a destructor does not throw
  }
}

void ChromeSink::finish() {
  std::FILE* const file = std::exchange(state_->file, nullptr);
  if (!file) return;
  std::fputs("\n]}\n", file);
  const bool written = std::fflush(file) == 0 && !std::ferror(file);
  const int error = errno;
  if (std::fclose(file) == 0 && written) return;
  if (!written) errno = error;
  state_->fail("expected room for it");
}

void ChromeSink::take(const Event& e) noexcept {
  if (!state_->file) return;
  std::string line = fmt::format("{}\n{{\"name\":{},\"pid\":1,\"tid\":{},\"ts\":{:.3f},",
                                 state_->first ? "" : ",", quoted(e.name), e.thread, e.start_us);
  state_->first = false;
  if (e.kind == Kind::Span) {
    line += fmt::format("\"ph\":\"X\",\"dur\":{:.3f},\"args\":{{\"text\":{}}}}}", e.dur_us, quoted(e.text));
  } else if (e.kind == Kind::Counter) {
    auto at = std::find_if(state_->totals.begin(), state_->totals.end(),
                           [&](auto& t) { return t.first == e.name; });
    if (at == state_->totals.end()) at = state_->totals.emplace(at, e.name, 0);
    if (std::isfinite(e.value)) at->second += e.value;
    line += fmt::format("\"ph\":\"C\",\"args\":{{\"value\":{}}}}}", at->second);
  } else {
    line += fmt::format("\"ph\":\"i\",\"s\":\"t\",\"args\":{{\"level\":\"{}\",\"text\":{}}}}}", name(e.level),
                        quoted(e.text));
  }
  std::fwrite(line.data(), 1, line.size(), state_->file);
}

// ---------------------------------------------------------------- the stream

Attached::Attached(std::shared_ptr<Sink> sink, Level up_to) : sink_(std::move(sink)) {
  Stream& s = stream();
  const std::lock_guard lock(s.mutex);
  s.sinks.push_back({sink_, up_to});
  s.settle();
}

Attached::Attached(Attached&& other) noexcept : sink_(std::move(other.sink_)) {}

Attached& Attached::operator=(Attached&& other) noexcept {
  if (this != &other) {
    detach();
    sink_ = std::move(other.sink_);
  }
  return *this;
}

Attached::~Attached() { detach(); }

void Attached::detach() noexcept {
  if (!sink_) return;
  Stream& s = stream();
  {
    const std::lock_guard lock(s.mutex);
    const auto at = std::find_if(s.sinks.begin(), s.sinks.end(), [&](auto& e) { return e.sink == sink_; });
    if (at != s.sinks.end()) s.sinks.erase(at);
    s.settle();
  }
  sink_.reset();
}

Attached attach(std::shared_ptr<Sink> sink, Level up_to) { return Attached(std::move(sink), up_to); }

void set_log_level(Level level) {
  Stream& s = stream();
  const std::lock_guard lock(s.mutex);
  s.log = level;
  s.settle();
}

double now_us() noexcept {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void emit(Event event) {
  Stream& s = stream();
  event.thread = thread_number();
  if (event.start_us == 0) event.start_us = now_us();
  const std::lock_guard lock(s.mutex);
  if (event.level <= s.log) log_line(event);
  for (const Stream::Entry& e : s.sinks)
    if (event.level <= e.up_to) e.sink->take(event);
}

void note(Level level, std::string_view name, std::string text) {
  if (!wants(level)) return;
  Event e;
  e.kind = Kind::Note;
  e.level = level;
  e.name = name;
  e.text = std::move(text);
  emit(std::move(e));
}

void counter(std::string_view name, double value) {
  if (!wants(Level::Debug)) return;
  Event e;
  e.kind = Kind::Counter;
  e.name = name;
  e.value = value;
  emit(std::move(e));
}

// A destructor must not throw: an event that there is no memory for is lost.
Span::~Span() {
  if (!on_) return;
  try {
    Event e;
    e.kind = Kind::Span;
    e.name = name_;
    e.start_us = start_us_;
    e.dur_us = now_us() - start_us_;
    e.text = std::move(text_);
    emit(std::move(e));
  } catch (...) {
  }
}

}  // namespace rondo::trace
