// Every row of the table that can be provoked, provoked: on the fake driver in every test run, on the real
// one where there is a GPU (else skipped, with the reason). The text is the row's own cause and remedy, and
// the stream takes work afterwards. docs/graph_diagnosis.md is compared with the table.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "graph_watch_support.h"
#include "rondo/graph/diagnosis.h"

namespace rondo::graph {
namespace {

// A driver with what a row needs.
struct Rig {
  explicit Rig(const driver::Driver& table) : d(table) {}
  virtual ~Rig() = default;
  const driver::Driver& d;
  fake::FakeDriver* fake = nullptr;  // null: the real driver
  CUcontext context = nullptr;
  CUfunction nop = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr, other = nullptr, blocking = nullptr;
  CUevent event = nullptr, before = nullptr;

  void open() {
    RONDO_CU(d, cuCtxGetCurrent(&context));
    RONDO_CU(d, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    RONDO_CU(d, cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    RONDO_CU(d, cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    RONDO_CU(d, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    RONDO_CU(d, cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    RONDO_CU(d, cuMemAlloc(&memory, 4096));
    RONDO_CU(d, cuEventRecord(before, stream));
    RONDO_CU(d, cuStreamSynchronize(stream));
  }
  void close() {
    (void)d.cuCtxSynchronize();
    for (CUstream s : {stream, other, blocking}) (void)d.cuStreamDestroy(s);
    for (CUevent e : {event, before}) (void)d.cuEventDestroy(e);
    (void)d.cuMemFree(memory);
  }
  CUresult work(CUstream s) const { return d.cuMemsetD8Async(memory, 1, 64, s); }
  std::string text_of(const std::function<void()>& what) const {
    try {
      what();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  }
  // The error of a capture of `stream`, in which nobody but the work itself looks for the call.
  std::string captured(const std::function<void(Capture&)>& what) const {
    return text_of([&] { (void)capture(stream, what, {.watch_calls = WatchCalls::Off}); });
  }
  // A function of the driver made to fail, where that is possible.
  std::string with_fault(const char* function, CUresult code, const std::function<void()>& what) const {
    fake->fail_function(function, code);
    const std::string text = text_of(what);
    fake->no_faults();
    return text;
  }
};

class FakeRig final : public Rig {
 public:
  FakeRig() : FakeRig(std::make_unique<Machine>()) {}
  ~FakeRig() override { close(); }

 private:
  explicit FakeRig(std::unique_ptr<Machine> m) : Rig(m->d), machine_(std::move(m)) {
    fake = &machine_->fake;
    nop = machine_->nop;
    open();
  }
  std::unique_ptr<Machine> machine_;
};

class RealRig final : public Rig {
 public:
  RealRig() : Rig(driver::driver()) {
    if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
      throw Error(ErrorKind::Unavailable, "cuInit answers " + driver::describe(d, code));
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&primary_, 0));
    RONDO_CU(d, cuCtxPushCurrent(primary_));
    RONDO_CU(
        d, cuModuleLoadDataEx(
               &module_, ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry nop() { ret; }\n", 0,
               nullptr, nullptr));
    RONDO_CU(d, cuModuleGetFunction(&nop, module_, "nop"));
    open();
  }
  ~RealRig() override {
    close();
    CUcontext ignored = nullptr;
    (void)d.cuModuleUnload(module_);
    (void)d.cuCtxPopCurrent(&ignored);
    (void)d.cuDevicePrimaryCtxRelease(0);
  }

 private:
  CUcontext primary_ = nullptr;
  CUmodule module_ = nullptr;
};

enum class Where { Both, FakeOnly };

struct Case {
  const char* name;
  const char* row;   // whose cause and remedy the text has
  const char* text;  // a part of the message that is not the row's
  std::function<std::string(Rig&)> provoke;
  Where where = Where::Both;
  int since = 12000;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Graph with_memory() {
  Graph g;
  (void)g.alloc(256);
  return g;
}

std::vector<Case> cases() {
  using R = Rig&;
  const auto in_capture = [](auto call) {
    return [call](R r) { return r.captured([&](Capture&) { call(r); }); };
  };
  return {
    {"BeginOnTheLegacyStream", "1", "r.d.cuStreamBeginCapture(nullptr",
     [](R r) {
       return r.text_of(
           [&] { RONDO_GRAPH_CALL(r.d.cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); });
     }},
        {"Synchronize", "2", "(900)",
         in_capture([](R r) { RONDO_GRAPH_CALL(r.d.cuStreamSynchronize(r.stream)); })},
        {"SynchronizeTheContext", "2", "(900)",
         in_capture([](R r) { RONDO_GRAPH_CALL(r.d.cuCtxSynchronize()); })},
        {"QueryAnEventOfBefore", "2", "(900)",
         in_capture([](R r) { RONDO_GRAPH_CALL(r.d.cuEventQuery(r.before)); })},
        {"SynchronizeAStreamThatIsNotCaptured", "2", "also for a stream that is not captured",
         in_capture([](R r) { RONDO_GRAPH_CALL(r.d.cuStreamSynchronize(r.other)); })},
        {"AddACallback", "2a", "(900)",
         in_capture([](R) { check_call(900, "cudaStreamAddCallback(s, f, 0, 0)", "f", 1); }),
         Where::FakeOnly},
        {"RecordAnEventOfTheContext", "2b", "(900)",
         in_capture([](R) { check_call(900, "cuCtxRecordEvent(c, e)", "f", 1); }), Where::FakeOnly},
        {"CopyAndWait", "2c", "(900)",
         in_capture([](R) { check_call(900, "cudaMemcpy(a, b, n, kind)", "f", 1); }), Where::FakeOnly},
        {"Allocate", "3", "(900)", in_capture([](R r) {
           CUdeviceptr p = 0;
           RONDO_GRAPH_CALL(r.d.cuMemAlloc(&p, 64));
         })},
        {"AllocateHostMemory", "3", "(900)", in_capture([](R r) {
           void* p = nullptr;
           RONDO_GRAPH_CALL(r.d.cuMemHostAlloc(&p, 64, 0));
         })},
        {"AllocateOnAThreadThatDoesNotCapture", "4", "(900)",
         [](R r) {
           std::string text;
           Capture global(r.stream, {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL});
           std::thread([&] {
             CUcontext ignored = nullptr;
             (void)r.d.cuCtxPushCurrent(r.context);
             text = r.text_of([&] {
               CUdeviceptr p = 0;
               RONDO_GRAPH_CALL(r.d.cuMemAlloc(&p, 64));
             });
             (void)r.d.cuCtxPopCurrent(&ignored);
           }).join();
           return text;
         }},
        {"AnInnocentCallAfterTheBreak", "5", "(901)", in_capture([](R r) {
           (void)r.d.cuStreamSynchronize(r.stream);
           RONDO_GRAPH_CALL(r.work(r.stream));
         })},
        {"AnEndAfterTheBreak", "6", "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)",
         in_capture([](R r) { (void)r.d.cuStreamSynchronize(r.stream); })},
        {"MergeTwoCaptures", "7", "(902)", in_capture([](R r) {
           const Capture second(r.other);
           RONDO_CU(r.d, cuEventRecord(r.event, r.stream));
           RONDO_GRAPH_CALL(r.d.cuStreamWaitEvent(r.other, r.event, 0));
         })},
        {"EndOnAJoinedStream", "8", "(903)", in_capture([](R r) {
           CUgraph g = nullptr;
           RONDO_CU(r.d, cuEventRecord(r.event, r.stream));
           RONDO_CU(r.d, cuStreamWaitEvent(r.other, r.event, 0));
           RONDO_GRAPH_CALL(r.d.cuStreamEndCapture(r.other, &g));
         })},
        {"AForkThatIsNotJoined", "9", "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)",
         in_capture([](R r) {
           RONDO_GRAPH_CALL(r.work(r.stream));
           RONDO_CU(r.d, cuEventRecord(r.event, r.stream));
           RONDO_CU(r.d, cuStreamWaitEvent(r.other, r.event, 0));
           RONDO_GRAPH_CALL(r.work(r.other));
         })},
        {"WaitForAnEventOfBefore", "10", "(905)",
         in_capture([](R r) { RONDO_GRAPH_CALL(r.d.cuStreamWaitEvent(r.stream, r.before, 0)); })},
        {"TheLegacyStreamBesideABlockingCapture", "11", "(906)",
         [](R r) {
           return r.text_of([&] { (void)capture(r.blocking, [&] { RONDO_GRAPH_CALL(r.work(nullptr)); }); });
         }},
        {"QueryACapturedEvent", "12", "(907)", in_capture([](R r) {
           RONDO_CU(r.d, cuEventRecord(r.event, r.stream));
           RONDO_GRAPH_CALL(r.d.cuEventQuery(r.event));
         })},
        {"EndOnAnotherThread", "13",
         "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD (908)",
         [](R r) {
           Capture c(r.stream);
           std::string text;
           std::thread([&] {
             CUcontext ignored = nullptr;
             (void)r.d.cuCtxPushCurrent(r.context);
             text = r.text_of([&] { (void)c.end(); });
             (void)r.d.cuCtxPopCurrent(&ignored);
           }).join();
           return text;
         }},
#if CUDA_VERSION >= 12030
        {"AQuestionWithoutRoomForEdgeData",
         "14",
         "(402)",
         [](R r) {
           Graph g;
           const NodeView first = g.add(kernel(r.nop, 1, 1, 0));
           g.add(kernel(r.nop, 1, 1, 0), {{first, kProgrammatic}});
           CUgraphNode from[4], to[4];
           size_t count = 4;
           return r.text_of([&] { RONDO_GRAPH_CALL(r.d.cuGraphGetEdges_v1(g.get(), from, to, &count)); });
         },
         Where::Both,
         12030},
#else
        {"AQuestionWithoutRoomForEdgeData", "14", "(402)",
         [](R r) { return r.text_of([] { check_call(402, "cudaGraphGetEdges(g, f, t, &n)", "f", 1); }); },
         Where::FakeOnly},
#endif
        {"BeginTwice", "15", "(401)",
         [](R r) {
           std::string text;
           (void)capture(r.stream, [&] { text = r.text_of([&] { (void)capture(r.stream, [] {}); }); });
           return text;
         }},
        {"SomeoneElseEndsTheCapture", "15", "cuStreamEndCapture failed: CUDA_ERROR_ILLEGAL_STATE (401)",
         in_capture([](R r) {
           CUgraph g = nullptr;
           RONDO_CU(r.d, cuStreamEndCapture(r.stream, &g));
           RONDO_CU(r.d, cuGraphDestroy(g));
         })},
        {"LaunchIntoACapture", "17", "cuGraphLaunch failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)",
         [](R r) {
           Graph inner;
           inner.empty();
           const GraphExec exec = inner.instantiate();
           return r.captured([&](Capture&) { exec.launch(r.stream); });
         }},
        {"DestroyAnExecInACapture", "18", "(900)",
         [](R r) {
           Graph g;
           g.empty();
           const CUgraphExec raw = g.instantiate().release();
           const std::string text =
               r.captured([&](Capture&) { RONDO_GRAPH_CALL(r.d.cuGraphExecDestroy(raw)); });
           (void)r.d.cuGraphExecDestroy(raw);
           return text;
         }},
        {"MoreMemoryThanThereIs", "19", "(2)",
         [](R r) {
           Graph g;
           return r.text_of([&] { (void)g.alloc(size_t{1} << 46); });
         }},
        {"ACycle", "20", "invalid structure, such as a cycle",
         [](R r) {
           Graph g;
           const NodeView a = g.empty(), b = g.empty(a);
           return r.text_of([&] {
             g.connect(b, a);
             (void)g.instantiate();
           });
         }},
        {"AHostNodeForDeviceLaunch", "21", "a node that a device-launched graph, or a body, cannot have",
         [](R r) {
           Graph g;
           g.host([] {});
           return r.text_of([&] { (void)g.instantiate({.device_launch = true}); });
         }},
        {"ASecondExecOfAGraphWithMemory", "24", "(801)",
         [](R r) {
           const Graph g = with_memory();
           const GraphExec first = g.instantiate();
           return r.text_of([&] { (void)g.instantiate(); });
         }},
        {"ACloneOfAGraphWithMemory", "24", "(801)",
         [](R r) {
           const Graph g = with_memory();
           return r.text_of([&] { (void)g.clone(); });
         }},
        {"ALaunchWithUnfreedMemory", "25", "cuGraphLaunch failed: CUDA_ERROR_INVALID_VALUE (1)",
         [](R r) {
           Graph g;
           const Allocation a = g.alloc(256);
           const GraphExec exec = g.instantiate();
           exec.launch(r.stream);
           const std::string text = r.text_of([&] { exec.launch(r.stream); });
           (void)r.d.cuMemFreeAsync(a.address, r.stream);
           return text;
         }},
        {"ANodeOfAnotherGraph", "26", "cuGraphExecKernelNodeSetParams failed: CUDA_ERROR_INVALID_VALUE (1)",
         [](R r) {
           Graph g, foreign;
           g.add(kernel(r.nop, 1, 1, 0));
           const NodeView node = foreign.add(kernel(r.nop, 1, 1, 0));
           GraphExec exec = g.instantiate();
           return r.text_of([&] { exec.set(node, kernel(r.nop, 2, 1, 0)); });
         }},
        {"ANodeThatIsGone", "26", "(400)",
         [](R r) {
           Graph g;
           const NodeView node = g.add(kernel(r.nop, 1, 1, 0));
           GraphExec exec = g.instantiate();
           return r.with_fault("cuGraphExecKernelNodeSetParams", CUDA_ERROR_INVALID_HANDLE,
                               [&] { exec.set(node, kernel(r.nop, 2, 1, 0)); });
         },
         Where::FakeOnly},
        {"AnUpdateToAnotherKindOfNode", "27", "(910)",
         [](R r) {
           Graph was, is;
           was.fill(r.memory, 0, 64), is.add(kernel(r.nop, 1, 1, 0));
           return was.instantiate().update(is).reason;
         }},
        {"AnUpdateToOtherEdges", "27", "(910)",
         [](R r) {
           Graph was, is;
           was.fill(r.memory, 0, 64, 1, was.fill(r.memory, 0, 64));
           is.fill(r.memory, 0, 64), is.fill(r.memory, 0, 64);
           return was.instantiate().update(is).reason;
         }},
        {"AnUpdateOfACopysKind", "28", "(910)",
         [](R r) {
           static char host[64];
           Graph was, is;
           was.copy(r.memory, static_cast<const void*>(host), 64), is.copy(r.memory, r.memory + 64, 64);
           return was.instantiate().update(is).reason;
         }},
        {"MemoryThatIsGone", "31", "(700)",
         [](R r) {
           Graph g;
           g.empty();
           const GraphExec exec = g.instantiate();
           return r.with_fault("cuGraphLaunch", CUDA_ERROR_ILLEGAL_ADDRESS, [&] { exec.launch(r.stream); });
         },
         Where::FakeOnly},
        {"MemoryThatIsGoneSeenLater", "31", "(716)",
         [](R r) {
           const Stream s = Stream::borrow(r.stream);
           return r.with_fault("cuStreamSynchronize", CUDA_ERROR_MISALIGNED_ADDRESS,
                               [&] { s.synchronize(); });
         },
         Where::FakeOnly},
        {"ADriverThatIsTooOld", "34", "(36)",
         [](R r) {
           Graph g;
           return r.with_fault("cuGraphAddEmptyNode", static_cast<CUresult>(36),
                               [&] { g.empty(); });
         },
         Where::FakeOnly},
        {"ARuntimeThatIsNewerThanTheDriver", "34", "(35)",
         [](R r) { return r.text_of([] { check_call(35, "cudaGraphCreate(&g, 0)", "f", 1); }); },
         Where::FakeOnly},
        {"WhatTheDeviceDoesNotSupport", "34", "(801)",
         [](R r) {
           Graph g;
           return r.with_fault("cuGraphAddEmptyNode", CUDA_ERROR_NOT_SUPPORTED, [&] { g.empty(); });
         },
         Where::FakeOnly},
        {"AKernelForAnotherArchitecture", "36", "(209)",
         [](R r) {
           Graph g;
           return r.with_fault("cuGraphAddKernelNode", CUDA_ERROR_NO_BINARY_FOR_GPU,
                               [&] { g.add(kernel(r.nop, 1, 1, 0)); });
         },
         Where::FakeOnly},
        {"AKernelOfAnotherContext", "36", "(400)",
         [](R r) {
           Graph g;
           return r.with_fault("cuGraphAddKernelNode", CUDA_ERROR_INVALID_HANDLE,
                               [&] { g.add(kernel(r.nop, 1, 1, 0)); });
         },
         Where::FakeOnly},
        {"AKernelThatTheRuntimeDoesNotFind", "36", "(98)",
         [](R r) { return r.text_of([] { check_call(98, "cudaGraphLaunch(e, s)", "f", 1); }); },
         Where::FakeOnly},
        {"AWaitThatTakesTooLong", "37", "(909)",
         [](R r) {
           Graph g;
           g.empty();
           const GraphExec exec = g.instantiate();
           return r.with_fault("cuGraphLaunch", CUDA_ERROR_TIMEOUT, [&] { exec.launch(r.stream); });
         },
         Where::FakeOnly},
        {"NodesOfTwoContextsForDeviceLaunch", "22", "a device-launched graph",
         // The second context is what the fake lacks; the result is told apart, the text is the table's.
         [](R) {
           return "a device-launched graph" +
                  explain(CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, "cuGraphInstantiateWithParams", 4);
         },
         Where::FakeOnly},
        {"AConditionThatNoNodeUses",
         "23",
         "a condition that no node uses",
         [](R r) {
           Graph g;
           g.empty();
           (void)g.condition(1u);
           return r.text_of([&] { (void)g.instantiate(); });
         },
         Where::Both,
         12080},
  };
}

class Rows : public testing::TestWithParam<Case> {
 protected:
  static void check(Rig& r) {
    const Case& c = GetParam();
    if (r.d.version < c.since)
      GTEST_SKIP() << "needs driver " << driver::driver_name(c.since) << ", this is " << r.d.name();
    const std::string text = c.provoke(r);
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
    bool explained = false;
    for (const Finding& f : findings())
      explained |= f.row == std::string(c.row) &&
                   text.find(std::string(". ") + f.cause + ". " + f.remedy) != std::string::npos;
    EXPECT_TRUE(explained) << "row " << c.row << ": " << text;
    for (CUstream s : {r.stream, r.other, r.blocking}) {
      EXPECT_EQ(r.work(s), CUDA_SUCCESS);
      EXPECT_EQ(capture(s, [&] { (void)r.work(s); }).node_count(), 1u);
    }
  }
};

TEST_P(Rows, Fake) {
  FakeRig r;
  check(r);
}
TEST_P(Rows, Real) {
  if (GetParam().where == Where::FakeOnly)
    GTEST_SKIP() << "this cannot be provoked on a real driver without losing it";
  std::unique_ptr<RealRig> r;
  try {
    r = std::make_unique<RealRig>();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  check(*r);
}
INSTANTIATE_TEST_SUITE_P(Table, Rows, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- the table and its page

TEST(GraphDiagnosisTable, HasEveryRowOfTheReference) {
  std::set<std::string> rows;
  for (const Finding& f : findings()) rows.insert(f.row);
  for (const Advice& a : advice()) rows.insert(a.row);
  for (int row = 1; row <= 37; ++row) EXPECT_TRUE(rows.count(std::to_string(row))) << "row " << row;
  EXPECT_TRUE(rows.count("15b"));
}

TEST(GraphDiagnosisTable, EveryRowWithAStatusIsProvoked) {
  std::set<std::string> provoked;
  for (const Case& c : cases()) provoked.insert(c.row);
  for (const Finding& f : findings()) EXPECT_TRUE(provoked.count(f.row)) << "row " << f.row;
}

TEST(GraphDiagnosisTable, NoRowIsHiddenByAnEarlierOne) {
  for (const Finding& f : findings()) {
    const std::string words = f.calls;
    const std::string call = words.substr(0, words.find('|'));
    const Finding* found = diagnose(f.code, f.phase, call, f.result);
    EXPECT_EQ(found, &f) << "row " << f.row << " of " << f.code << " is answered by row "
                         << (found ? found->row : "none");
  }
}

TEST(GraphDiagnosisTable, ThePageSaysWhatTheTableSays) {
  std::ifstream in(RONDO_SOURCE_DIR "/docs/graph_diagnosis.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  ASSERT_GT(page.size(), 1000u);
  for (const Finding& f : findings()) {
    const std::string line = std::string(" | ") + f.cause + ". " + f.remedy + ". | ";
    EXPECT_NE(page.find(line), std::string::npos) << "row " << f.row << ":" << line;
    EXPECT_NE(page.find(std::string("\n| ") + f.row + " | "), std::string::npos) << "row " << f.row;
  }
  for (const Advice& a : advice())
    EXPECT_NE(page.find(std::string("\n| ") + a.row + " | " + a.symptom + " | Found: " + a.found + ".<br>" +
                        a.advice + ". | "),
              std::string::npos)
        << "row " << a.row;
}

TEST(GraphDiagnosisTable, ThePageNamesTestsThatExist) {
  std::ifstream in(RONDO_SOURCE_DIR "/docs/graph_diagnosis.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  std::string sources;
  for (const auto& entry : std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/tests"))
    if (entry.path().extension() == ".cpp") {
      std::ifstream source(entry.path());
      sources.append(std::istreambuf_iterator<char>(source), {});
    }
  std::set<std::string> rows;
  for (const Case& c : cases()) rows.insert(c.name);
  int named = 0;
  const std::regex test("`(Rows/|[A-Z][A-Za-z]+\\.)([A-Z][A-Za-z0-9]+)`");
  for (std::sregex_iterator at(page.begin(), page.end(), test), end; at != end; ++at) {
    const std::string suite = (*at)[1], name = (*at)[2];
    if (name == "Name") continue;  // how names are written
    ++named;
    if (suite == "Rows/") {
      EXPECT_TRUE(rows.count(name)) << name;
    } else {
      const std::string both = suite.substr(0, suite.size() - 1) + ", " + name + ")";
      EXPECT_NE(sources.find("(" + both), std::string::npos) << suite << name;
    }
  }
  EXPECT_GT(named, 50);
}

}  // namespace
}  // namespace rondo::graph
