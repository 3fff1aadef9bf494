// What patching and copying cost: measured on the fake driver, kept in memory and on disk, and never an
// error.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph_support.h"
#include "replay_folder.h"
#include "rondo/base/trace.h"
#include "rondo/replay/costs.h"

namespace rondo::replay {
namespace {

class CostsOfAMachine : public testing::Test {
 protected:
  CostsOfAMachine() {
    m_.fake.kernels.push_back("rondo_costs");
    m_.fake.parameter_bytes["rondo_costs"] = {8};
    m_.fake.total_bytes = size_t{32} << 20;  // small, so that the sweep is quick
    forget_costs();
    m_.fake.log.clear();
  }
  ~CostsOfAMachine() override { forget_costs(); }
  std::string note() const {
    const auto notes = sink_->events("replay.costs");
    for (auto at = notes.rbegin(); at != notes.rend(); ++at)
      if (at->kind == trace::Kind::Note) return at->text;
    return "";
  }
  bool was_measured() {
    const bool yes = m_.fake.count("cuMemcpyDtoDAsync") > 0;
    m_.fake.log.clear();
    return yes;
  }

  graph::Machine m_;
  const test::Folder folder_;
  const std::filesystem::path path_ = folder_.path / "replay" / "costs.json";
  const test::CacheDir cache_{folder_.path};
  const std::shared_ptr<trace::MemorySink> sink_ = std::make_shared<trace::MemorySink>();
  const trace::Attached attached_ = trace::attach(sink_);
};

void expect_sensible(const Costs& c) {
  for (const double x : {c.set_node_us, c.copy_us, c.copy_bytes_per_us}) {
    EXPECT_GT(x, 0);
    EXPECT_TRUE(std::isfinite(x));
  }
}

TEST_F(CostsOfAMachine, AreMeasuredOnceAndKeptOnDisk) {
  const Costs first = machine_costs(m_.stream);
  EXPECT_TRUE(first.measured);
  expect_sensible(first);
  EXPECT_EQ(m_.fake.count("cuGraphExecKernelNodeSetParams"), 160u);  // 16 nodes, nine rounds and one before
  EXPECT_TRUE(was_measured());
  EXPECT_EQ(sink_->events("replay.costs").size(), 1u);  // the span
  (void)machine_costs(m_.stream);
  EXPECT_FALSE(was_measured());
  forget_costs();  // a new process
  const Costs second = machine_costs(m_.stream);
  EXPECT_FALSE(was_measured());
  EXPECT_TRUE(second.measured);
  EXPECT_EQ(second.set_node_us, first.set_node_us);
  EXPECT_EQ(second.copy_us, first.copy_us);
  EXPECT_EQ(second.copy_bytes_per_us, first.copy_bytes_per_us);
}

TEST_F(CostsOfAMachine, BelongToDeviceAndDriver) {
  EXPECT_EQ(machine_name(), "Fake GPU, driver 13000");
  test::write(
      path_,
      R"({"rondo_costs":1,"machines":{"Other GPU, driver 13000":{"set_node_us":1,"copy_us":1,"copy_bytes_per_us":1}}})");
  (void)machine_costs(m_.stream);
  EXPECT_TRUE(was_measured());
  const auto all = nlohmann::json::parse(test::read(path_));
  EXPECT_EQ(all["machines"].size(), 2u);  // what another machine measured stays
  EXPECT_EQ(all["machines"]["Other GPU, driver 13000"]["copy_us"], 1);
}

TEST_F(CostsOfAMachine, ADamagedFileIsMeasuredAnewAndReplaced) {
  for (
      const char* bad :
      {"", "{", "[1]", "{\"rondo_costs\":2,\"machines\":{}}",
       R"({"rondo_costs":1,"machines":{"Fake GPU, driver 13000":1}})",
       R"({"rondo_costs":1,"machines":{"Fake GPU, driver 13000":{"set_node_us":1,"copy_us":-1,"copy_bytes_per_us":1}}})",
       R"({"rondo_costs":1,"machines":{"Fake GPU, driver 13000":{"set_node_us":"1","copy_us":1,"copy_bytes_per_us":1}}})"}) {
    test::write(path_, bad);
    forget_costs();
    EXPECT_TRUE(machine_costs(m_.stream).measured);
    EXPECT_TRUE(was_measured()) << bad;
    forget_costs();
    EXPECT_TRUE(machine_costs(m_.stream).measured);
    EXPECT_FALSE(was_measured()) << bad;
  }
}

TEST_F(CostsOfAMachine, WithoutADiskAreKeptInMemory) {
  const test::CacheDir off("off");
  EXPECT_TRUE(machine_costs(m_.stream).measured);
  EXPECT_TRUE(was_measured());
  (void)machine_costs(m_.stream);
  EXPECT_FALSE(was_measured());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Fail call k, for every k: never an exception, nothing left behind, and either measured figures or those of
// an H200.
TEST_F(CostsOfAMachine, AreNeverAnErrorWhateverFails) {
  const test::CacheDir off("off");
  const std::string before = m_.fake.leaks();
  (void)machine_costs(m_.stream);
  const long calls = m_.fake.calls();
  forget_costs();
  const long start = m_.fake.calls();
  (void)machine_costs(m_.stream);
  const long needed = m_.fake.calls() - start;
  EXPECT_GT(needed, 100);
  EXPECT_GT(calls, 0);
  int failures = 0;
  for (long k = 1; k <= needed; ++k) {
    forget_costs();
    m_.fake.fail(k);
    const Costs costs = machine_costs(m_.stream);
    m_.fake.no_faults();
    expect_sensible(costs);
    EXPECT_EQ(m_.fake.leaks(), before) << "call " << k << ", " << m_.fake.failed();
    if (costs.measured) continue;  // a release, or a question whose answer does not matter
    ++failures;
    EXPECT_EQ(costs.set_node_us, Costs{}.set_node_us);
    // Kept as well: not tried again at every recording.
    m_.fake.log.clear();
    EXPECT_FALSE(machine_costs(m_.stream).measured);
    EXPECT_FALSE(was_measured());
  }
  EXPECT_GT(failures, 100);
  EXPECT_NE(note().find("what patching and copying cost cannot be measured: "), std::string::npos) << note();
  EXPECT_NE(note().find(". Taken: the figures of an H200"), std::string::npos) << note();
}

TEST_F(CostsOfAMachine, AreMeasuredBesideACaptureThatGoesOn) {
  RONDO_CU(m_.d, cuStreamBeginCapture(m_.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_TRUE(machine_costs(m_.stream).measured) << note();
  CUgraph captured = nullptr;
  EXPECT_EQ(m_.d.cuStreamEndCapture(m_.stream, &captured), CUDA_SUCCESS);
  (void)m_.d.cuGraphDestroy(captured);
}

TEST_F(CostsOfAMachine, WhereMemoryIsShortCopiesAreSmaller) {
  const size_t before = m_.fake.used_bytes();
  m_.fake.total_bytes = before + (size_t{2} << 20);  // two buffers of 1 MiB, the smallest
  EXPECT_TRUE(machine_costs(m_.stream).measured) << note();
  forget_costs();
  std::filesystem::remove(path_);
  m_.fake.total_bytes = before + (size_t{1} << 20);
  EXPECT_FALSE(machine_costs(m_.stream).measured);
  EXPECT_NE(note().find("cuMemAlloc"), std::string::npos) << note();
}

TEST_F(CostsOfAMachine, ThreadsMeasureOnce) {
  CUcontext context = nullptr;
  RONDO_CU(m_.d, cuCtxGetCurrent(&context));
  std::vector<std::thread> threads;
  std::vector<Costs> costs(4);
  for (Costs& c : costs) {
    threads.emplace_back([&] {
      (void)m_.d.cuCtxPushCurrent(context);
      c = machine_costs(m_.stream);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sink_->events("replay.costs").size(), 1u);
  for (const Costs& c : costs) EXPECT_EQ(c.copy_us, costs[0].copy_us);
}

TEST(CostsWithoutADriver, AreThoseOfAnH200) {
  forget_costs();
  const test::CacheDir off("off");
  const fake::FakeDriver nothing_current;  // no context
  EXPECT_FALSE(machine_costs(nullptr).measured);
  EXPECT_EQ(machine_name(), "unknown device, driver 13000");
}

}  // namespace
}  // namespace rondo::replay
