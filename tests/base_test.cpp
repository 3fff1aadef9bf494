#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "message_of.h"
#include "rondo/base/hash.h"
#include "rondo/base/memory.h"
#include "rondo/base/options.h"
#include "rondo/base/temporary.h"
#include "rondo/base/trace.h"
#include "rondo/error.h"

namespace rondo {
namespace {

// Sets a variable for a test and puts the old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

using test::message_of;

// ---------------------------------------------------------------- hash

TEST(Hash, AgreesWithThePublishedAlgorithm) {
  EXPECT_EQ(hash("").hex(), "00000000000000000000000000000000");
  EXPECT_EQ(hash("hello").hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(hash("The quick brown fox jumps over the lazy dog").hex(), "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST(Hash, AStreamHashesLikeTheWholeHoweverItIsCut) {
  std::string text;
  for (int i = 0; i < 101; ++i) text += static_cast<char>(i * 37);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    for (size_t second : {cut, std::min(cut + 7, text.size()), std::min(cut + 16, text.size())}) {
      Hasher h;
      h.bytes(text.data(), cut)
          .bytes(text.data() + cut, second - cut)
          .bytes(text.data() + second, text.size() - second);
      ASSERT_EQ(h.finish(), hash(text)) << cut << " " << second;
    }
}

TEST(Hash, TextsAreHashedWithTheirLength) {
  EXPECT_NE(Hasher().text("ab").text("c").finish(), Hasher().text("a").text("bc").finish());
}

TEST(Hash, NoTwoOfManySimilarTextsAreEqual) {
  std::set<Hash128> seen;
  std::string text(64, 'x');
  for (size_t at = 0; at < text.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ 1 << bit);
      seen.insert(hash(other));
    }
  EXPECT_EQ(seen.size(), 64u * 8u);
}

// ---------------------------------------------------------------- options

TEST(Options, TheCacheFolderFollowsTheEnvironment) {
  Variable own("RONDO_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", nullptr), home("HOME", "/home/x");
  EXPECT_EQ(read_options().cache_dir, "/home/x/.cache/rondo");
  Variable xdg2("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(read_options().cache_dir, "/xdg/rondo");
  Variable own2("RONDO_CACHE_DIR", "/own");
  EXPECT_EQ(read_options().cache_dir, "/own");
  Variable own3("RONDO_CACHE_DIR", "off");
  EXPECT_EQ(read_options().cache_dir, "");
}

TEST(Options, ThreadsOutOfRangeAreRefusedByName) {
  for (const char* bad : {"0", "1025", "-1", "four", "4x", "99999999999"}) {
    Variable v("RONDO_THREADS", bad);
    EXPECT_EQ(message_of([] { read_options(); }, ErrorKind::Usage),
              std::string("RONDO_THREADS is '") + bad + "': expected a whole number from 1 to 1024");
  }
  Variable v("RONDO_THREADS", "12");
  EXPECT_EQ(read_options().threads, 12);
}

TEST(Options, AnUnknownLogLevelIsRefusedByName) {
  Variable v("RONDO_LOG", "loud");
  EXPECT_EQ(message_of([] { read_options(); }, ErrorKind::Usage),
            "RONDO_LOG is 'loud': expected off, error, warn, info or debug");
}

TEST(Options, AnUnknownGraphWatchIsRefusedByName) {
  Variable v("RONDO_GRAPH_WATCH", "loud");
  EXPECT_EQ(message_of([] { read_options(); }, ErrorKind::Usage),
            "RONDO_GRAPH_WATCH is 'loud': expected off, log, retry or calls (also 1)");
}

TEST(Options, TheGraphWatchIsReadAndKept) {
  for (const auto& [text, value] : {std::pair{"off", GraphWatch::Off}, {"0", GraphWatch::Off}, {"log", GraphWatch::Log},
                                    {"retry", GraphWatch::Retry}, {"calls", GraphWatch::Calls}, {"1", GraphWatch::Calls}}) {
    Variable v("RONDO_GRAPH_WATCH", text);
    EXPECT_EQ(read_options().graph_watch, value) << text;
    reload_options();
    EXPECT_EQ(graph_watch(), value) << text;
  }
  Variable none("RONDO_GRAPH_WATCH", nullptr);
  reload_options();
  EXPECT_EQ(graph_watch(), GraphWatch::Log);
}

TEST(Options, TheReplayPolicyIsReadAndAnUnknownOneRefusedByName) {
  using Row = std::pair<const char*, ReplayPolicy>;
  for (const auto& [text, value] : {Row{nullptr, ReplayPolicy::Auto}, Row{"", ReplayPolicy::Auto}, Row{"auto", ReplayPolicy::Auto},
                                    Row{"never", ReplayPolicy::Never}, Row{"always", ReplayPolicy::Always}}) {
    Variable v("RONDO_REPLAY", text);
    EXPECT_EQ(read_options().replay, value) << (text ? text : "not set");
  }
  Variable v("RONDO_REPLAY", "sometimes");
  EXPECT_EQ(message_of([] { read_options(); }, ErrorKind::Usage),
            "RONDO_REPLAY is 'sometimes': expected auto, never or always");
}

TEST(Options, TheReplayCheckIsOnOrOff) {
  for (const auto& [text, value] : {std::pair<const char*, bool>{nullptr, false}, {"0", false}, {"1", true}}) {
    Variable v("RONDO_REPLAY_CHECK", text);
    EXPECT_EQ(read_options().replay_check, value);
  }
  Variable v("RONDO_REPLAY_CHECK", "yes");
  EXPECT_EQ(message_of([] { read_options(); }, ErrorKind::Usage), "RONDO_REPLAY_CHECK is 'yes': expected 0 or 1");
}

TEST(Options, TheReplayReportHasAFileForEachProcess) {
  Variable none("RONDO_REPLAY_REPORT", nullptr);
  EXPECT_EQ(read_options().replay_report, "");
  Variable v("RONDO_REPLAY_REPORT", "/tmp/%p/report-%p.json");
  const std::string id = std::to_string(getpid());
  EXPECT_EQ(read_options().replay_report, "/tmp/" + id + "/report-" + id + ".json");
}

TEST(Options, AreReadAgainOnReload) {
  {
    Variable v("RONDO_LIBCUDA", "/somewhere/libcuda.so");
    reload_options();
    EXPECT_EQ(options().libcuda, "/somewhere/libcuda.so");
  }
  EXPECT_EQ(options().libcuda, "/somewhere/libcuda.so");
  reload_options();
  EXPECT_NE(options().libcuda, "/somewhere/libcuda.so");
}

// ---------------------------------------------------------------- memory

TEST(Memory, WhatALackOfItInterruptedIsNamed) {
  const auto named = [](const std::function<int()>& work) {
    return message_of([&] { naming_memory([] { return std::string("while testing"); }, work); }, ErrorKind::Device);
  };
  const std::string head = "out of host memory while testing: this process holds ";
  for (const std::string& message : {named([]() -> int { throw std::bad_alloc(); }),
                                     named([] { return std::string().reserve(std::string().max_size() + 1), 0; })}) {
    EXPECT_EQ(message.rfind(head, 0), 0u) << message;
    EXPECT_NE(message.find(" MiB, the machine has "), message.npos) << message;
  }
  EXPECT_EQ(naming_memory([] { return std::string(); }, [] { return 3; }), 3);
}

// ---------------------------------------------------------------- temporaries

TEST(Temporaries, AreRemovedWhileListedAndLeftAloneAfterwards) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("rondo_temporaries_" + std::to_string(getpid()));
  const fs::path file = folder / "file", other = folder / "other";
  fs::create_directory(folder);
  for (const fs::path& path : {file, other}) std::ofstream(path) << "x";
  {
    const Temporary listed(folder), inside(file);
    { const Temporary over(other); }
    remove_temporaries();
    EXPECT_FALSE(fs::exists(file));
    EXPECT_TRUE(fs::exists(other)) << "was taken off the list";
    remove_temporaries();  // what was removed is off the list too
  }
  fs::remove(other);
  const Temporary listed(folder);
  remove_temporaries();
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Temporaries, ThoseThatDoNotFitAreNotListed) {
  const std::string path = std::filesystem::temp_directory_path() / ("rondo_temporary_" + std::to_string(getpid()));
  std::ofstream(path) << "x";
  std::list<Temporary> others;
  for (size_t i = 0; i < 2 * Temporary::kMost; ++i) others.emplace_back("/nowhere/file");
  const Temporary one_too_many(path), too_long(std::string(Temporary::kLongest, '/'));
  remove_temporaries();
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

// ---------------------------------------------------------------- trace

TEST(Trace, AMemorySinkSeesSpansCountersAndNotes) {
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  {
    trace::Span outer("t.outer");
    trace::Span inner("t.inner", "particulars");
    trace::counter("t.count", 3);
    trace::counter("t.count", 4);
    trace::note(trace::Level::Info, "t.note", "a reason");
  }
  const auto events = sink->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[2].text, "a reason");
  EXPECT_EQ(events[3].name, "t.inner");
  EXPECT_EQ(events[3].text, "particulars");
  EXPECT_EQ(events[4].name, "t.outer");
  EXPECT_LE(events[4].start_us, events[3].start_us);
  EXPECT_GE(events[4].dur_us, events[3].dur_us);
  EXPECT_EQ(sink->total("t.count"), 7);
  EXPECT_EQ(sink->total("t.note"), 1);
}

TEST(Trace, NothingIsWantedBeyondTheLogLevelWhenNoSinkIsAttached) {
  trace::set_log_level(trace::Level::Error);
  EXPECT_FALSE(trace::wants(trace::Level::Warn));
  EXPECT_TRUE(trace::wants(trace::Level::Error));
  EXPECT_FALSE(trace::Span("t.unseen").on());
  {
    const auto attached = trace::attach(std::make_shared<trace::MemorySink>(), trace::Level::Info);
    EXPECT_TRUE(trace::wants(trace::Level::Info));
    EXPECT_FALSE(trace::wants(trace::Level::Debug));
  }
  EXPECT_FALSE(trace::wants(trace::Level::Info));
  trace::set_log_level(trace::Level::Warn);
}

TEST(Trace, ADetachedSinkGetsNothingMore) {
  auto sink = std::make_shared<trace::MemorySink>();
  auto attached = trace::attach(sink);
  trace::counter("t.one");
  attached = {};
  trace::counter("t.two");
  EXPECT_EQ(sink->events().size(), 1u);
}

TEST(Trace, WarningsGoToStderr) {
  trace::set_log_level(trace::Level::Warn);
  testing::internal::CaptureStderr();
  trace::note(trace::Level::Warn, "t.fallback", "the reason");
  trace::note(trace::Level::Info, "t.quiet", "not shown");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "rondo: warn: t.fallback: the reason\n");
}

TEST(Trace, EventsOfManyThreadsAllArriveWithTheirThread) {
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) trace::counter("t.many");
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sink->total("t.many"), 400);
  std::set<uint32_t> numbers;
  for (const auto& e : sink->events()) numbers.insert(e.thread);
  EXPECT_EQ(numbers.size(), 4u);
}

TEST(Trace, TheChromeFileIsValidJsonWithEveryEvent) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("rondo_trace_" + std::to_string(getpid()));
  {
    const auto attached = trace::attach(std::make_shared<trace::ChromeSink>(path));
    trace::Span span("t.span", "quotes \" and \\ and\nlines");
    trace::counter("t.bytes", 5);
    trace::counter("t.bytes", 6);
    trace::note(trace::Level::Info, "t.note", "why");
  }
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  const auto& events = json.at("traceEvents");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].at("args").at("value"), 11);
  EXPECT_EQ(events[2].at("args").at("text"), "why");
  EXPECT_EQ(events[3].at("ph"), "X");
  EXPECT_EQ(events[3].at("args").at("text"), "quotes \" and \\ and\nlines");
  std::filesystem::remove(path);
}

TEST(Trace, ATraceFileThatCannotBeWrittenIsAUsageError) {
  EXPECT_EQ(message_of([] { trace::ChromeSink sink("/no/such/folder/trace.json"); }, ErrorKind::Usage),
            "cannot write the trace to /no/such/folder/trace.json (No such file or directory): expected a "
            "path in a "
            "folder that can be written");
}

}  // namespace
}  // namespace rondo
