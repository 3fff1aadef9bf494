// Decisions on disk: two processes are two DecisionFiles of one path.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "replay_folder.h"
#include "rondo/base/trace.h"
#include "rondo/replay/decisions.h"

namespace rondo::replay {
namespace {

namespace fs = std::filesystem;

DecisionKey key(const std::string& region, uint64_t structure = ~uint64_t{0}) {
  return {region, "in 4096 B, 1024", "NVIDIA H200, driver 13000", structure};
}
Decision decision(const std::string& choice = "graph") {
  return {choice, choice + ": because", {{"plain", 25, 20, 5}, {"graph", 10.5, 8.25, 5}}};
}

class Decisions : public testing::Test {
 protected:
  Decisions() { trace::set_log_level(trace::Level::Off); }  // what is noted is looked at here
  ~Decisions() override { trace::set_log_level(trace::Level::Warn); }
  const test::Folder folder_;
  const fs::path path_ = folder_.path / "replay" / "decisions.json";
  const std::shared_ptr<trace::MemorySink> sink_ = std::make_shared<trace::MemorySink>();
  const trace::Attached attached_ = trace::attach(sink_);
  std::string note() const {
    const auto notes = sink_->events("replay.decisions");
    return notes.empty() ? "" : notes.back().text;
  }
};

TEST_F(Decisions, OutliveTheProcess) {
  {
    DecisionFile first(path_);
    EXPECT_FALSE(first.find(key("step")));
    first.put(key("step"), decision());
    ASSERT_TRUE(first.find(key("step")));
  }
  const DecisionFile second(path_);
  const auto found = second.find(key("step"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->choice, "graph");
  EXPECT_EQ(found->reason, "graph: because");
  ASSERT_EQ(found->alternatives.size(), 2u);
  EXPECT_EQ(found->alternatives[1].name, "graph");
  EXPECT_EQ(found->alternatives[1].latency_us, 10.5);
  EXPECT_EQ(found->alternatives[1].period_us, 8.25);
  EXPECT_EQ(found->alternatives[1].samples, 5u);
  EXPECT_EQ(note(), "");
}

TEST_F(Decisions, EveryPartOfTheKeyCounts) {
  DecisionFile file(path_);
  file.put(key("step"), decision());
  const DecisionFile again(path_);
  for (const auto& change : std::vector<void (*)(DecisionKey*)>{
           [](DecisionKey* k) { k->region += "x"; }, [](DecisionKey* k) { k->signature += "x"; },
           [](DecisionKey* k) { k->machine += "x"; }, [](DecisionKey* k) { k->structure ^= 1; }}) {
    DecisionKey other = key("step");
    change(&other);
    EXPECT_FALSE(again.find(other));
  }
  EXPECT_TRUE(again.find(key("step")));
  // Of another version of Rondo: kept, but not taken.
  auto all = nlohmann::json::parse(test::read(path_));
  all["decisions"][0]["rondo"] = "0.0.1";
  test::write(path_, all.dump());
  DecisionFile newer(path_);
  EXPECT_FALSE(newer.find(key("step")));
  newer.put(key("step"), decision("plain"));
  EXPECT_EQ(nlohmann::json::parse(test::read(path_))["decisions"].size(), 2u);
}

TEST_F(Decisions, TwoProcessesLoseNothingOfEachOther) {
  DecisionFile a(path_), b(path_);
  a.put(key("a"), decision());
  b.put(key("b"), decision("plain"));
  a.put(key("a"), decision("plain"));  // changed its mind
  EXPECT_FALSE(a.find(key("b")));      // read once: no disk on a look-up
  const DecisionFile c(path_);
  ASSERT_TRUE(c.find(key("a")) && c.find(key("b")));
  EXPECT_EQ(c.find(key("a"))->choice, "plain");
  EXPECT_EQ(nlohmann::json::parse(test::read(path_))["decisions"].size(), 2u);
}

TEST_F(Decisions, RealProcessesAndThreadsLoseNothing) {
  constexpr int kProcesses = 3, kThreads = 4, kEach = 12;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    DecisionFile file(path_);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const DecisionKey k =
              key("p" + std::to_string(p) + "t" + std::to_string(t), static_cast<uint64_t>(i));
          file.put(k, decision());
          if (!file.find(k)) _exit(1);
        }
      });
    }
    for (std::thread& t : threads) t.join();
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const DecisionFile file(path_);
  int missing = 0;
  for (int p = 0; p < kProcesses; ++p)
    for (int t = 0; t < kThreads; ++t)
      for (int i = 0; i < kEach; ++i)
        missing +=
            !file.find(key("p" + std::to_string(p) + "t" + std::to_string(t), static_cast<uint64_t>(i)));
  EXPECT_EQ(missing, 0);
  for (const auto& entry : fs::directory_iterator(path_.parent_path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST_F(Decisions, OldestGoFirst) {
  DecisionFile file(path_);
  file.put(key("old"), decision());
  file.put(key("kept"), decision());
  // As other processes would fill it.
  auto all = nlohmann::ordered_json::parse(test::read(path_));
  while (all["decisions"].size() < kMostDecisions) {
    auto one = all["decisions"][0];
    one["structure"] = all["decisions"].size();
    all["decisions"].push_back(one);
  }
  test::write(path_, all.dump());
  file.put(key("new"), decision());
  EXPECT_EQ(nlohmann::json::parse(test::read(path_))["decisions"].size(), kMostDecisions);
  {
    const DecisionFile again(path_);
    EXPECT_FALSE(again.find(key("old")));
    EXPECT_TRUE(again.find(key("kept")));
    EXPECT_TRUE(again.find(key("new")));
  }
  file.put(key("kept"), decision());  // written again, it is young
  file.put(key("newer"), decision());
  EXPECT_TRUE(DecisionFile(path_).find(key("kept")));
}

TEST_F(Decisions, ADamagedFileIsNoDecisionsAndIsReplaced) {
  const std::string good = [&] {
    DecisionFile(path_).put(key("step"), decision());
    return test::read(path_);
  }();
  for (const std::string& bad :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2), std::string("[]"),
        std::string("{\"rondo_decisions\":1}"),
        std::string(R"({"rondo_decisions":1,"decisions":[{"region":1}]})"), std::string("\0\xff\xfe", 3)}) {
    test::write(path_, bad);
    sink_->clear();
    DecisionFile file(path_);
    EXPECT_FALSE(file.find(key("step")));
    EXPECT_EQ(note().rfind(path_.string() + " is damaged (", 0), 0u) << note();
    EXPECT_NE(note().find("): choices are made anew, and the next one replaces the file"), std::string::npos)
        << note();
    EXPECT_EQ(test::read(path_), bad);  // until there is something to write
    file.put(key("other"), decision());
    EXPECT_TRUE(DecisionFile(path_).find(key("other")));
  }
  test::write(path_, "{\"rondo_decisions\":7}");
  EXPECT_FALSE(DecisionFile(path_).find(key("other")));
  EXPECT_EQ(note(), path_.string() + " is of another format: choices are made anew");
}

TEST_F(Decisions, EveryByteMayBeLostOrChanged) {
  DecisionFile(path_).put(key("step"), decision());
  const std::string good = test::read(path_);
  for (size_t at = 0; at < good.size(); ++at) {
    test::write(path_, good.substr(0, at));
    (void)DecisionFile(path_).find(key("step"));
    test::write(path_, good.substr(0, at) + static_cast<char>(good[at] ^ 0x15) + good.substr(at + 1));
    (void)DecisionFile(path_).find(key("step"));  // nothing is thrown
  }
}

TEST_F(Decisions, AFileThatCannotBeReadIsLeftAlone) {
  fs::create_directories(path_);  // a folder in its place
  DecisionFile file(path_);
  EXPECT_EQ(note(), path_.string() +
                        " is no regular file: decisions are kept in memory only. Set RONDO_CACHE_DIR to a "
                        "folder that can be "
                        "written, or to off");
  file.put(key("step"), decision());
  EXPECT_TRUE(file.find(key("step")));
  EXPECT_TRUE(fs::is_directory(path_));
  EXPECT_EQ(sink_->events("replay.decisions").size(), 1u);  // told once
}

TEST_F(Decisions, WithoutADiskTheyAreKeptInMemory) {
  DecisionFile none("");
  none.put(key("step"), decision());
  EXPECT_TRUE(none.find(key("step")));
  DecisionFile nowhere("/proc/nowhere/replay/decisions.json");
  nowhere.put(key("step"), decision());
  EXPECT_TRUE(nowhere.find(key("step")));
  EXPECT_EQ(note().rfind("cannot write /proc/nowhere/replay/decisions.json (", 0), 0u) << note();
}

TEST_F(Decisions, AnotherProcessThatKeepsTheLockStopsNobody) {
  DecisionFile file(path_);
  fs::create_directories(path_.parent_path());
  const int fd = open((path_.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  file.put(key("first"), decision());
  EXPECT_TRUE(file.find(key("first")));
  EXPECT_EQ(note(), path_.string() + " is locked by another process: written with the next decision");
  EXPECT_FALSE(fs::exists(path_));
  close(fd);
  file.put(key("second"), decision());
  const DecisionFile again(path_);
  EXPECT_TRUE(again.find(key("first")) && again.find(key("second")));
}

TEST_F(Decisions, NamesThatAreNoUtf8AreFoundAgain) {
  DecisionFile file(path_);
  for (int i = 0; i < 3; ++i) file.put(key("caf\xe9"), decision());
  EXPECT_TRUE(DecisionFile(path_).find(key("caf\xe9")));
  EXPECT_EQ(nlohmann::json::parse(test::read(path_))["decisions"].size(), 1u);
}

TEST_F(Decisions, LieInTheCacheFolder) {
  {
    const test::CacheDir cache(folder_.path / "one");
    remember(key("step"), decision());
    EXPECT_TRUE(remembered(key("step")));
    EXPECT_TRUE(fs::exists(folder_.path / "one/replay/decisions.json"));
  }
  {
    const test::CacheDir cache(folder_.path / "two");
    EXPECT_FALSE(remembered(key("step")));
  }
  {
    const test::CacheDir cache("off");
    remember(key("step"), decision());
    EXPECT_TRUE(remembered(key("step")));
  }
  const test::CacheDir cache(folder_.path / "one");
  EXPECT_TRUE(remembered(key("step")));
}

}  // namespace
}  // namespace rondo::replay
