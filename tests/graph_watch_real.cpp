// Who broke a capture, asked of the real driver and the real CUPTI: skipped where one is missing, with the
// reason.
#include <dlfcn.h>

#include <cstdio>
#include <optional>

#include "graph_watch_support.h"

// Code of a user, as the stack shows it: outside of every namespace of Rondo, and not optimised into its
// caller.
static __attribute__((noinline)) int user_code_allocates(int (*allocate)()) {
  volatile int code = allocate();
  return code;
}

namespace rondo::graph {
namespace {

class WatchesReal : public testing::Test {
 protected:
  void SetUp() override {
    try {
      d_ = &driver::driver();
      RONDO_CU(*d_, cuInit(0));
      CUcontext context = nullptr;
      RONDO_CU(*d_, cuDevicePrimaryCtxRetain(&context, 0));
      RONDO_CU(*d_, cuCtxPushCurrent(context));
    } catch (const Error& e) {
      d_ = nullptr;
      GTEST_SKIP() << e.what();
    }
    stream_ = Stream::create();
  }
  void TearDown() override {
    if (!d_) return;
    stream_.reset();
    CUcontext ignored = nullptr;
    (void)d_->cuCtxPopCurrent(&ignored);
    (void)d_->cuDevicePrimaryCtxRelease(0);
  }
  std::string broken_by(int (*call)(), WatchCalls how) {
    const std::string text = message_of(
        [&] {
          (void)capture(stream_->get(), [&] { EXPECT_NE(user_code_allocates(call), 0); },
                        {.watch_calls = how});
        },
        ErrorKind::Device);
    EXPECT_EQ(capture(stream_->get(), [] {}).node_count(), 0u) << "the stream takes work again";
    std::printf("[   SAYS   ] %s\n", text.c_str());
    return text;
  }
  static int allocate() {
    CUdeviceptr p = 0;
    return static_cast<int>(driver::driver().cuMemAlloc(&p, 64));
  }
  static int allocate_by_the_runtime() {
    void* p = nullptr;
    return malloc_(&p, 64);
  }
  static inline int (*malloc_)(void**, size_t) = nullptr;  // cudaMalloc
  const driver::Driver* d_ = nullptr;
  std::optional<Stream> stream_;
};

#if CUDA_VERSION >= 12090
TEST_F(WatchesReal, TheDriversLogNamesTheCall) {
  if (!d_->cuLogsCurrent)
    GTEST_SKIP() << "the error log needs driver R575 (CUDA 12.9), this is " << d_->name();
  const std::string text = broken_by(&allocate, WatchCalls::Log);
  EXPECT_NE(text.find("was broken by cuMemAlloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"),
            std::string::npos);
  EXPECT_NE(text.find("as the driver's log says"), std::string::npos);
}
#endif

TEST_F(WatchesReal, CuptiNamesACallOfTheDriverAndItsCaller) {
  try {
    (void)driver::cupti();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const std::string text = broken_by(&allocate, WatchCalls::Calls);
  if (text.find("another tool holds CUPTI") != text.npos) GTEST_SKIP() << text;
  EXPECT_NE(text.find("was broken by cuMemAlloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"),
            std::string::npos);
  EXPECT_NE(text.find(" called from user_code_allocates (graph_test)"), std::string::npos);
}

TEST_F(WatchesReal, CuptiNamesACallOfTheRuntimeAndItsCaller) {
  void* runtime = nullptr;
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so"})
    if (!runtime) runtime = dlopen(name, RTLD_NOW);
  if (!runtime) GTEST_SKIP() << "there is no libcudart: " << dlerror();
  malloc_ = reinterpret_cast<int (*)(void**, size_t)>(dlsym(runtime, "cudaMalloc"));
  ASSERT_NE(malloc_, nullptr);
  ASSERT_EQ(allocate_by_the_runtime(), 0) << "the run-time library starts outside of the capture";
  try {
    (void)driver::cupti();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const std::string text = broken_by(&allocate_by_the_runtime, WatchCalls::Calls);
  if (text.find("another tool holds CUPTI") != text.npos) GTEST_SKIP() << text;
  EXPECT_NE(text.find("was broken by cudaMalloc (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"),
            std::string::npos);
  EXPECT_NE(text.find(" called from user_code_allocates (graph_test)"), std::string::npos);
}

}  // namespace
}  // namespace rondo::graph
