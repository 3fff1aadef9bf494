// ONE stream of events: timed spans, counters and notes (a fallback, a reason, a warning). Everything that a
// report, a log or a profile shows goes through here.
//
// In: events from any thread. Out: the sinks attached at that moment: memory (reports, tests), a
// Chrome/Perfetto JSON file, and stderr as RONDO_LOG says. With no sink that wants an event's level, the
// event costs one relaxed load.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::trace {

enum class Level : uint8_t { Off, Error, Warn, Info, Debug };
// "off", "error", "warn", "info" or "debug".
const char* name(Level level) noexcept;

enum class Kind : uint8_t { Span, Counter, Note };
const char* name(Kind kind) noexcept;

struct Event {
  Kind kind = Kind::Note;
  Level level = Level::Debug;
  std::string name;     // what, stable: "kernel.compile"
  double start_us = 0;  // since the first event of the process
  double dur_us = 0;    // Span
  uint32_t thread = 0;  // small numbers in order of first appearance
  double value = 0;     // Counter: the amount to add
  std::string text;     // Span, Note: the particulars
};

// Takes events one at a time (calls are serialised by the stream). Must not throw and must not emit events.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void take(const Event& event) noexcept = 0;
};

// Keeps events for reports and tests.
class MemorySink final : public Sink {
 public:
  MemorySink();
  ~MemorySink() override;
  void take(const Event& event) noexcept override;
  std::vector<Event> events() const;  // a copy, in order of their end
  std::vector<Event> events(std::string_view name) const;
  double total(std::string_view name) const;  // spans: microseconds; counters: sum; notes: how many
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes https://ui.perfetto.dev JSON ("traceEvents"); the file is complete when the sink is destroyed.
// Throws Error(Usage) when the file cannot be opened.
class ChromeSink final : public Sink {
 public:
  explicit ChromeSink(const std::string& path);
  ~ChromeSink() override;
  void take(const Event& event) noexcept override;
  // Writes the end and closes the file; nothing is taken afterwards. Throws Error(Usage) when the file did
  // not take all of it. The destructor does the same and says nothing.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A sink receives events as long as this lives.
class [[nodiscard]] Attached {
 public:
  Attached() = default;
  Attached(std::shared_ptr<Sink> sink, Level up_to);
  Attached(Attached&& other) noexcept;
  Attached& operator=(Attached&& other) noexcept;
  ~Attached();

 private:
  void detach() noexcept;
  std::shared_ptr<Sink> sink_;
};
Attached attach(std::shared_ptr<Sink> sink, Level up_to = Level::Debug);

// The level of stderr, from RONDO_LOG at start (warn when unset).
void set_log_level(Level level);

namespace detail {
extern std::atomic<uint8_t> highest_level;  // that any sink wants
}
inline bool wants(Level level) noexcept {
  return static_cast<uint8_t>(level) <= detail::highest_level.load(std::memory_order_relaxed);
}

double now_us() noexcept;
void emit(Event event);  // fills in thread; start_us when 0

// Something a person may want to know. Fallbacks are Warn or Info notes that carry the reason.
void note(Level level, std::string_view name, std::string text);
// Counters are Debug events: they are seen by reports and profiles.
void counter(std::string_view name, double value = 1);

// Times the scope it lives in. A Debug event.
class Span {
 public:
  explicit Span(const char* name) noexcept
      : name_(name), on_(wants(Level::Debug)), start_us_(on_ ? now_us() : 0) {}
  Span(const char* name, std::string_view text) : Span(name) { say(text); }
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  bool on() const noexcept { return on_; }
  void say(std::string_view text) {
    if (on_) text_ = text;
  }

 private:
  const char* name_;
  bool on_;
  double start_us_;
  std::string text_;
};

}  // namespace rondo::trace
