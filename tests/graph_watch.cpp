// Who broke a capture when a library swallowed the status: by CUPTI, by the driver's log, by a second try.
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "graph_watch_support.h"
#include "rondo/base/trace.h"
#include "rondo/graph/driver_log.h"

namespace rondo::graph {
namespace {

// ---------------------------------------------------------------- the log's format

using detail::failure_of;
using detail::parse_log;

TEST(GraphDriverLog, LinesAreReadWithTheirThread) {
  const auto lines = parse_log(
      "[12:46:23.854][137216133754880][CUDA][E] One or more of block dimensions exceeds the maximum\n"
      "[12:46:23.854][137216133754880][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from "
      "cuLaunchKernel_v2\n"
      "\n"
      "the log was cut here\r\n"
      "[22:21:32.099][25642][CUDA][E][cuLogsDumpToMemory] buffer cannot be NULL");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, "One or more of block dimensions exceeds the maximum");
  EXPECT_EQ(lines[0].thread, 137216133754880u);
  EXPECT_FALSE(failure_of(lines[0]));
  EXPECT_EQ(failure_of(lines[1])->call, "cuLaunchKernel");
  EXPECT_EQ(failure_of(lines[1])->code, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(lines[2].text, "the log was cut here");
  EXPECT_EQ(lines[2].thread, 0u);
  EXPECT_EQ(lines[3].text, "[cuLogsDumpToMemory] buffer cannot be NULL");
  EXPECT_TRUE(parse_log("").empty());
  for (const char* no :
       {"Returning from cuInit", "Returning x (A) from b", "Returning 0 (CUDA_SUCCESS) from cuInit",
        ") from Returning 5", "Returning 5 (A) from "})
    EXPECT_FALSE(failure_of({0, no})) << no;
}

TEST(GraphDriverLog, AMessageShowsTheFirstLinesOnly) {
  EXPECT_EQ(detail::show({}), "");
  EXPECT_EQ(detail::show({{0, "a"}, {0, "b"}}), ". The driver's log since the begin of the capture: a; b");
  EXPECT_EQ(detail::show({{0, "a"}, {0, "b"}, {0, "c"}, {0, "d"}, {0, "e"}, {0, "f"}}),
            ". The driver's log since the begin of the capture: a; b; c; d; and 2 more lines");
}

// ---------------------------------------------------------------- a library that swallows

// rmm::alloc of a shared library of its own; it calls what it is given, and tells nobody what that answered.
class Library {
 public:
  Library() : folder_(std::filesystem::temp_directory_path() / ("rondo_watch_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    const std::string source = folder_ / "rmm.cpp", library = folder_ / "librmm.so";
    std::ofstream(source)
        << "namespace rmm { void alloc(int (*call)()) { volatile int code = call(); (void)code; } }\n"
           "extern \"C\" void rmm_alloc(int (*call)()) { rmm::alloc(call); asm volatile(\"\"); }\n";
    if (std::system(("c++ -shared -fPIC -o " + library + " " + source).c_str()) != 0) return;
    handle_ = dlopen(library.c_str(), RTLD_NOW);
    if (!handle_) return;
    alloc = reinterpret_cast<void (*)(int (*)())>(dlsym(handle_, "rmm_alloc"));
  }
  ~Library() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }
  void (*alloc)(int (*call)()) = nullptr;

 private:
  std::filesystem::path folder_;
  void* handle_ = nullptr;
};

class Watches : public Graphs {
 protected:
  static void SetUpTestSuite() { library_ = std::make_unique<Library>(); }
  static void TearDownTestSuite() { library_.reset(); }
  void SetUp() override {
    if (!library_->alloc) GTEST_SKIP() << "there is no C++ compiler (c++) to make a library with";
    machine_ = &m_;
    last_ = 0;
    target_ = m_.stream;
  }
  // The error of a capture of `work`.
  std::string broken(const std::function<void()>& work, WatchCalls how, ErrorKind kind = ErrorKind::Device) {
    return message_of([&] { (void)capture(m_.stream, work, {.watch_calls = how}); }, kind);
  }
  void expect_usable() {
    EXPECT_EQ(capture(m_.stream, [&] { launch(m_.stream, m_.store, m_.word(0), 1); }).node_count(), 1u);
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

#if RONDO_HAS_CUPTI
  // As libcudart does: a call of the run-time API with a driver call inside.
  static int cuda_malloc() {
    return FakeCupti::call(CUPTI_CB_DOMAIN_RUNTIME_API, "cudaMalloc", [] {
      return last_ = FakeCupti::call(CUPTI_CB_DOMAIN_DRIVER_API, "cuMemAlloc_v2", [] {
               CUdeviceptr p = 0;
               return static_cast<int>(machine_->d.cuMemAlloc(&p, 64));
             });
    });
  }
  static int driver_synchronize() {
    return FakeCupti::call(CUPTI_CB_DOMAIN_DRIVER_API, "cuStreamSynchronize",
                           [] { return static_cast<int>(machine_->d.cuStreamSynchronize(target_)); });
  }
  static int get_last_error() {
    return FakeCupti::call(CUPTI_CB_DOMAIN_RUNTIME_API, "cudaGetLastError",
                           [] { return std::exchange(last_, 0); });
  }
#endif
  static inline std::unique_ptr<Library> library_;
  static inline Machine* machine_ = nullptr;
  static inline int last_ = 0;
  static inline CUstream target_ = nullptr;
};

constexpr const char* kCause =
    "Allocating, freeing or loading is not allowed in a capture. Do it before the capture";

#if RONDO_HAS_CUPTI

TEST_F(Watches, ACallInALibraryThatSwallowsTheStatusIsNamedWithItsCaller) {
  FakeCupti cupti;
  Library& library = *library_;
  const std::string text = broken(
      [&] {
        launch(m_.stream, m_.store, m_.word(0), 1);
        library.alloc(&cuda_malloc);
        (void)d_.cuMemsetD8Async(m_.memory, 0, 4, m_.stream);  // 901, and innocent
      },
      WatchCalls::Calls);
  EXPECT_EQ(text.find("the capture of stream 0x"), 0u) << text;
  EXPECT_TRUE(has(text,
                  " was broken by cudaMalloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says) "
                  "called from rmm::alloc (librmm.so), by "))
      << text;
  EXPECT_TRUE(has(text, std::string(". ") + kCause)) << text;
  for (const char* remedy : {"run the work once to warm up libraries", "cudaMallocAsync", "RelaxedScope"})
    EXPECT_TRUE(has(text, remedy)) << text;
  EXPECT_FALSE(cupti.subscribed());
  expect_usable();
}

TEST_F(Watches, ADriverCallWithoutTheRuntimeIsNamedToo) {
  FakeCupti cupti;
  Library& library = *library_;
  const std::string text = broken([&] { library.alloc(&driver_synchronize); }, WatchCalls::Calls);
  EXPECT_TRUE(
      has(text,
          "was broken by cuStreamSynchronize (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake "
          "says) called from rmm::alloc (librmm.so)"))
      << text;
  EXPECT_TRUE(has(text, "Move the call after the capture, or split the region there")) << text;
}

TEST_F(Watches, ACallThatFailsWithoutBreakingTheCaptureIsNotBlamed) {
  FakeCupti cupti;
  Library& library = *library_;
  const auto invalid = [] {
    return FakeCupti::call(CUPTI_CB_DOMAIN_RUNTIME_API, "cudaFuncSetAttribute_v9000", [] { return 1; });
  };
  EXPECT_EQ(capture(m_.stream,
                    [&] {
                      library.alloc(+invalid);
                      launch(m_.stream, m_.store, m_.word(0), 1);
                    },
                    {.watch_calls = WatchCalls::Calls})
                .node_count(),
            1u);
  const std::string text = broken(
      [&] {
        library.alloc(+invalid);
        library.alloc(&cuda_malloc);
        library.alloc(&get_last_error);  // tells 900 again
      },
      WatchCalls::Calls);
  EXPECT_TRUE(has(text, "was broken by cudaMalloc (")) << text;
  // A break that no call shows (here behind CUPTI's back): what failed is mentioned, not blamed.
  const std::string other = broken(
      [&] {
        library.alloc(+invalid);
        (void)d_.cuStreamSynchronize(m_.stream);
      },
      WatchCalls::Calls);
  EXPECT_EQ(other.find("cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"), 0u)
      << other;
  EXPECT_TRUE(
      has(other,
          ". The first call that failed in it was cudaFuncSetAttribute, with 1 called from rmm::alloc "
          "(librmm.so)"))
      << other;
}

TEST_F(Watches, ACallOfAnotherThreadThatBreaksTheCaptureIsNamedAsSuch) {
  FakeCupti cupti;
  Library& library = *library_;
  const std::string text = message_of(
      [&] {
        (void)capture(m_.stream, [&] { std::thread([&] { library.alloc(&cuda_malloc); }).join(); },
                      {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL, .watch_calls = WatchCalls::Calls});
      },
      ErrorKind::Device);
  EXPECT_TRUE(has(text, "was broken by cudaMalloc (")) << text;
  EXPECT_TRUE(has(text, " called from rmm::alloc (librmm.so)")) << text;
  EXPECT_TRUE(has(text, ", on another thread. Allocating")) << text;
}

TEST_F(Watches, ACheckedCallAndACheckpointSayWhoBrokeItBefore) {
  FakeCupti cupti;
  Library& library = *library_;
  const std::string checked = broken(
      [&] {
        library.alloc(&cuda_malloc);
        RONDO_GRAPH_CALL(d_.cuMemsetD8Async(m_.memory, 0, 4, m_.stream));
      },
      WatchCalls::Calls);
  EXPECT_EQ(checked.find("d_.cuMemsetD8Async(m_.memory, 0, 4, m_.stream) ("), 0u) << checked;
  EXPECT_TRUE(has(checked, "(901): as the fake says [in the capture of stream 0x")) << checked;
  EXPECT_TRUE(has(checked,
                  "; broken by cudaMalloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says) "
                  "called from rmm::alloc (librmm.so)"))
      << checked;
  EXPECT_TRUE(has(checked, kCause)) << checked;
  const std::string checkpoint = broken(
      [&] {
        RONDO_GRAPH_CHECKPOINT("first");
        library.alloc(&cuda_malloc);
        RONDO_GRAPH_CHECKPOINT("second");
      },
      WatchCalls::Calls);
  EXPECT_TRUE(has(checkpoint, " was broken between checkpoint \"first\" (")) << checkpoint;
  EXPECT_TRUE(has(checkpoint,
                  "), by cudaMalloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says) called "
                  "from rmm::alloc (librmm.so)"))
      << checkpoint;
}

TEST_F(Watches, ASwallowedCheckIsNamedByFileAndCaller) {
  FakeCupti cupti;
  Library& library = *library_;
  const std::string text = broken(
      [&] {
        library.alloc(+[]() -> int {
          const int code = cuda_malloc();
          try {
            check_call(code, "cudaMalloc(&p, n)", "rmm.cpp", 7);
          } catch (const Error&) {
          }
          return code;
        });
      },
      WatchCalls::Calls);
  EXPECT_TRUE(has(text,
                  " was broken by cudaMalloc(&p, n) (rmm.cpp:7), which answered "
                  "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says, called from rmm::alloc "
                  "(librmm.so)"))
      << text;
}

TEST_F(Watches, CapturesThatAreOpenTogetherShareOneSubscription) {
  FakeCupti cupti;
  Library& library = *library_;
  const Stream other = Stream::create();
  target_ = other.get();
  const Graph outer = capture(m_.stream,
                              [&] {
                                launch(m_.stream, m_.store, m_.word(0), 1);
                                const std::string text = message_of(
                                    [&] {
                                      (void)capture(other, [&] { library.alloc(&driver_synchronize); },
                                                    {.watch_calls = WatchCalls::Calls});
                                    },
                                    ErrorKind::Device);
                                EXPECT_TRUE(has(text, "was broken by cuStreamSynchronize (")) << text;
                                EXPECT_TRUE(cupti.subscribed());
                              },
                              {.watch_calls = WatchCalls::Calls});
  EXPECT_EQ(outer.node_count(), 1u) << "what broke the other one is not held against it";
  EXPECT_FALSE(cupti.subscribed());
  EXPECT_EQ(cupti.subscriptions, 1);
}

TEST_F(Watches, NothingIsSubscribedUnlessAskedFor) {
  FakeCupti cupti;
  EXPECT_EQ(capture(m_.stream, [&] { EXPECT_FALSE(cupti.subscribed()); }).node_count(), 0u);
  EXPECT_EQ(capture(m_.stream, [&] { EXPECT_FALSE(cupti.subscribed()); }, {.watch_calls = WatchCalls::Log})
                .node_count(),
            0u);
  EXPECT_EQ(cupti.subscriptions, 0);
}

TEST_F(Watches, TheEnvironmentAsksForIt) {
  FakeCupti cupti;
  Library& library = *library_;
  const Environment watch("RONDO_GRAPH_WATCH", "1");
  EXPECT_TRUE(
      has(broken([&] { library.alloc(&cuda_malloc); }, WatchCalls::Default), " called from rmm::alloc ("));
  EXPECT_FALSE(has(broken([&] { library.alloc(&cuda_malloc); }, WatchCalls::Off), "rmm::alloc"));
}

TEST_F(Watches, AnotherToolThatHoldsCuptiIsNotDisturbedAndSaid) {
  FakeCupti cupti;
  Library& library = *library_;
  cupti.answer = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const std::string text = broken([&] { library.alloc(&cuda_malloc); }, WatchCalls::Calls);
  EXPECT_EQ(text.find("cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"), 0u) << text;
  EXPECT_TRUE(
      has(text,
          ". Callers are not known: another tool holds CUPTI, which has room for one. Run without the "
          "profiler or debugger (Nsight, compute-sanitizer, the PyTorch profiler)"))
      << text;
  // A good capture says nothing of it.
  expect_usable();
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
  cupti.table().cuptiSubscribe_v2 = [](CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*,
                                       CUpti_SubscriberParams* p) {
    std::snprintf(p->oldSubscriberName, p->oldSubscriberSize, "CUPTI for Kineto");
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  };
  EXPECT_TRUE(has(broken([&] { library.alloc(&cuda_malloc); }, WatchCalls::Calls),
                  "another tool holds CUPTI, which has room for one (CUPTI for Kineto)"));
#endif
}

TEST_F(Watches, ACuptiThatFailsIsSaidAndGivenBack) {
  FakeCupti cupti;
  cupti.answer = CUPTI_ERROR_NOT_INITIALIZED;
  const auto swallow = [&] { (void)d_.cuStreamSynchronize(m_.stream); };
  EXPECT_TRUE(
      has(broken(swallow, WatchCalls::Calls),
          "Callers are not known: cuptiSubscribe of fake libcupti failed: CUPTI_AS_THE_FAKE_SAYS (15)"));
  cupti.answer = CUPTI_SUCCESS;
  cupti.refuse_domains = true;
  EXPECT_TRUE(
      has(broken(swallow, WatchCalls::Calls),
          "Callers are not known: cuptiEnableDomain of fake libcupti failed: CUPTI_AS_THE_FAKE_SAYS (1)"));
  EXPECT_FALSE(cupti.subscribed());
}

TEST_F(Watches, ASecondTryNamesTheCallerOfTheFirst) {
  FakeCupti cupti;
  Library& library = *library_;
  int runs = 0;
  const std::string text = broken([&] { ++runs, library.alloc(&cuda_malloc); }, WatchCalls::Retry);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(cupti.subscriptions, 1);
  EXPECT_TRUE(has(text, "was broken by cudaMalloc (")) << text;
  EXPECT_TRUE(has(text, " called from rmm::alloc (librmm.so)")) << text;
  expect_usable();
}

TEST_F(Watches, ASecondTryThatGoesWellGivesItsGraph) {
  FakeCupti cupti;
  int runs = 0;
  const Graph g = capture(m_.stream,
                          [&] {
                            launch(m_.stream, m_.store, m_.word(0), 1);
                            if (++runs == 1)
                              (void)d_.cuStreamSynchronize(m_.stream);  // a library's first use
                          },
                          {.watch_calls = WatchCalls::Retry});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(g.node_count(), 1u);
}

TEST_F(Watches, WorkIsNotRepeatedWhenTheCallIsKnownOrTheErrorIsItsOwn) {
  FakeCupti cupti;
  int runs = 0;
  (void)broken([&] { ++runs, RONDO_GRAPH_CALL(d_.cuStreamSynchronize(m_.stream)); }, WatchCalls::Retry);
  EXPECT_EQ(runs, 1);
  (void)broken([&] { ++runs, throw Error(ErrorKind::Usage, "mine"); }, WatchCalls::Retry, ErrorKind::Usage);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(capture(m_.stream, [&] { ++runs; }, {.watch_calls = WatchCalls::Retry}).node_count(), 0u);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(cupti.subscriptions, 0);
}

#endif

TEST_F(Watches, WithoutALibcuptiItIsSaidAndWorkIsNotRepeated) {
  const Environment none("RONDO_LIBCUPTI", "/nowhere/libcupti.so");
  for (const WatchCalls how : {WatchCalls::Calls, WatchCalls::Retry}) {
    int runs = 0;
    const std::string text = broken([&] { ++runs, (void)d_.cuStreamSynchronize(m_.stream); }, how);
    EXPECT_EQ(runs, 1);
    EXPECT_TRUE(has(text, ". Callers are not known: CUPTI, which tells who makes a call, is not available: "))
        << text;
    expect_usable();
  }
}

// ---------------------------------------------------------------- the driver's log

#if CUDA_VERSION >= 12090

TEST_F(Watches, TheDriversLogNamesTheCallWithoutCupti) {
  const LoggingDriver driver(d_);
  LoggingDriver::say(
      "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuModuleLoadData");  // before it
  const std::string text = broken(
      [&] {
        LoggingDriver::say("Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuCtxSynchronize",
                           1);  // of another thread
        LoggingDriver::say("The operation is not permitted when a stream is capturing");
        LoggingDriver::say("Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2");
        LoggingDriver::say("Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuLaunchKernel");
        (void)d_.cuStreamSynchronize(m_.stream);
      },
      WatchCalls::Default);
  EXPECT_TRUE(
      has(text,
          " was broken by cuMemAlloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says), as "
          "the driver's log says. Allocating, freeing or loading is not allowed in a capture"))
      << text;
  EXPECT_TRUE(
      has(text,
          ". The driver's log since the begin of the capture: The operation is not permitted when a stream "
          "is capturing; Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2; "
          "Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuLaunchKernel"))
      << text;
  EXPECT_FALSE(has(text, "cuCtxSynchronize")) << text;
  EXPECT_FALSE(has(text, "cuModuleLoadData")) << text;
}

TEST_F(Watches, LinesOfAFormThatIsNotKnownAreShownAsTheyAre) {
  const LoggingDriver driver(d_);
  const std::string text = broken(
      [&] {
        LoggingDriver::lines.push_back("something went wrong");
        (void)d_.cuStreamSynchronize(m_.stream);
      },
      WatchCalls::Default);
  EXPECT_EQ(text.find("cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"), 0u) << text;
  EXPECT_TRUE(has(text, ". The driver's log since the begin of the capture: something went wrong")) << text;
}

TEST_F(Watches, AGoodCaptureCostsOneMark) {
  const LoggingDriver driver(d_);
  LoggingDriver::marks = 0;
  expect_usable();
  EXPECT_EQ(LoggingDriver::marks, 1);
  (void)capture(m_.stream, [] {}, {.watch_calls = WatchCalls::Off});
  EXPECT_EQ(LoggingDriver::marks, 1);
}

TEST_F(Watches, ALogThatDoesNotAnswerIsDoneWithout) {
  const LoggingDriver driver(d_);
  LoggingDriver::answer = CUDA_ERROR_UNKNOWN;
  LoggingDriver::say("Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2");
  const std::string text = broken([&] { (void)d_.cuStreamSynchronize(m_.stream); }, WatchCalls::Default);
  EXPECT_FALSE(has(text, "log")) << text;
  expect_usable();
}

TEST_F(Watches, AFailedCallOutsideOfACaptureHasTheReasonOfTheLog) {
  const LoggingDriver driver(d_);
  m_.fake.fail_function("cuGraphCreate", CUDA_ERROR_OUT_OF_MEMORY);
  LoggingDriver::say("The pool is exhausted");
  LoggingDriver::say("Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuGraphCreate");
  EXPECT_TRUE(
      has(message_of([] { Graph g; }, ErrorKind::Device), ". The driver's log: The pool is exhausted"));
  // What was said of another call is not this one's reason.
  LoggingDriver::say("Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2");
  EXPECT_FALSE(has(message_of([] { Graph g; }, ErrorKind::Device), "log"));
  m_.fake.no_faults();
}

#endif

}  // namespace
}  // namespace rondo::graph
