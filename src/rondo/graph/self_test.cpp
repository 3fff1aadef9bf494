#include "rondo/graph/self_test.h"

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <optional>

#include "rondo/driver/cupti.h"
#include "rondo/driver/driver.h"
#include "rondo/graph.h"

namespace rondo::graph {
namespace {

using driver::Driver;

constexpr size_t kWords = 4, kBytes = 4 * kWords;
constexpr size_t kNodes = 5;
constexpr size_t kStored = 1;  // the word that the kernel writes

// PTX runs on every later architecture; the oldest target that the newest drivers still take is sm_75.
std::string kernel_text(int major, int minor) {
  return fmt::format(
      ".version 6.4\n.target {}\n.address_size 64\n"
      ".visible .entry rondo_self_test(.param .u64 p, .param .u32 v) {{\n"
      "  .reg .b32 %r<2>; .reg .b64 %a<3>;\n"
      "  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u32 %r1, [v];\n"
      "  st.global.u32 [%a2], %r1; ret;\n"
      "}}\n",
      10 * major + minor >= 75 ? "sm_75" : "sm_50");
}

// What the test needs of a GPU, given back in the opposite order.
class Bench {
 public:
  explicit Bench(int gpu) : d_(driver::driver()) {
    try {
      open(gpu);
    } catch (...) {
      close();
      throw;
    }
  }
  ~Bench() { close(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const std::string& name() const { return name_; }
  CUstream stream() const { return *stream_; }

  // The work, with values that make a difference.
  void enqueue(CUstream s, unsigned char filled, uint32_t stored) const {
    RONDO_CU(d_, cuMemsetD8Async(a_, filled, kBytes, s));
    RONDO_CU(d_, cuMemcpyDtoDAsync(b_, a_, kBytes, s));
    CUdeviceptr p = b_ + 4 * kStored;
    void* arguments[] = {&p, &stored};
    RONDO_CU(d_, cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, s, arguments, nullptr));
    RONDO_CU(d_, cuLaunchHostFunc(
                     s, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); },
                     const_cast<std::atomic<int>*>(&calls_)));
    RONDO_CU(d_, cuMemcpyDtoHAsync(words_, b_, kBytes, s));
  }
  void replay(const GraphExec& exec) {
    calls_ = 0;
    for (size_t i = 0; i < kWords; ++i) words_[i] = 0;
    exec.launch(*stream_);
    stream_->synchronize();
  }
  std::string compare(unsigned char filled, uint32_t stored) const {
    for (size_t i = 0; i < kWords; ++i) {
      const uint32_t expected = i == kStored ? stored : 0x01010101u * filled;
      if (words_[i] != expected)
        throw Error(
            ErrorKind::Device,
            fmt::format(
                "word {} is 0x{:08x}, expected 0x{:08x} from the {}: the graph ran without an error and "
                "did not do this. Check the GPU with compute-sanitizer and dcgmi diag, or update the driver",
                i, words_[i], expected, i == kStored ? "kernel" : "fill and the copies"));
    }
    if (calls_ != 1)
      throw Error(
          ErrorKind::Device,
          fmt::format("the host function ran {} times, expected once. Update the driver", calls_.load()));
    return fmt::format("{} words and the host function are as expected", kWords);
  }

 private:
  void open(int gpu) {
    RONDO_CU(d_, cuDeviceGet(&device_, gpu));
    char name[256] = {};
    RONDO_CU(d_, cuDeviceGetName(name, sizeof name - 1, device_));
    name_ = name;
    int major = 0, minor = 0;
    RONDO_CU(d_, cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
    RONDO_CU(d_, cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_));
    CUcontext context = nullptr;
    RONDO_CU(d_, cuDevicePrimaryCtxRetain(&context, device_));
    retained_ = true;
    RONDO_CU(d_, cuCtxPushCurrent(context));
    pushed_ = true;
    const std::string text = kernel_text(major, minor);
    RONDO_CU_WITH(d_, cuModuleLoadDataEx(&module_, text.c_str(), 0, nullptr, nullptr),
                  "PTX of the self-test");
    RONDO_CU_WITH(d_, cuModuleGetFunction(&kernel_, module_, "rondo_self_test"), "rondo_self_test");
    RONDO_CU(d_, cuMemAlloc(&a_, kBytes));
    RONDO_CU(d_, cuMemAlloc(&b_, kBytes));
    void* words = nullptr;
    RONDO_CU(d_, cuMemHostAlloc(&words, kBytes, 0));
    words_ = static_cast<uint32_t*>(words);
    stream_ = Stream::create();
  }
  void close() noexcept {
    stream_.reset();
    if (words_) (void)d_.cuMemFreeHost(words_);
    if (b_) (void)d_.cuMemFree(b_);
    if (a_) (void)d_.cuMemFree(a_);
    if (module_) (void)d_.cuModuleUnload(module_);
    CUcontext ignored = nullptr;
    if (pushed_) (void)d_.cuCtxPopCurrent(&ignored);
    if (retained_) (void)d_.cuDevicePrimaryCtxRelease(device_);
  }

  const Driver& d_;
  std::string name_;
  CUdevice device_ = 0;
  bool retained_ = false, pushed_ = false;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr a_ = 0, b_ = 0;
  uint32_t* words_ = nullptr;  // pinned
  std::optional<Stream> stream_;
  std::atomic<int> calls_{0};
};

struct Values {
  unsigned char filled;
  uint32_t stored;
};
constexpr Values kFirst{0x11, 0xabcd1234}, kSecond{0x22, 0x5678ef01};

Graph record(const Bench& bench, const Values& v) {
  Graph graph = capture(bench.stream(), [&](CUstream s) { bench.enqueue(s, v.filled, v.stored); });
  if (graph.node_count() != kNodes)
    throw Error(ErrorKind::Device,
                fmt::format("the captured graph has {} nodes, expected {}: work went elsewhere. Update "
                            "the driver",
                            graph.node_count(), kNodes));
  return graph;
}

}  // namespace

bool SelfTest::ok() const noexcept {
  for (const SelfTestStep& s : steps)
    if (!s.ok) return false;
  return !steps.empty();
}

SelfTest self_test(int gpu) {
  SelfTest test;
  test.gpu = gpu;
  bool going = true;
  const auto step = [&](const char* name, const std::function<std::string()>& work) {
    SelfTestStep s;
    s.name = name;
    if (going) {
      s.tried = true;
      try {
        s.text = work();
        s.ok = true;
      } catch (const Error& e) {
        s.text = e.what();
      }
      going = s.ok;
    }
    test.steps.push_back(std::move(s));
  };
  std::optional<Bench> bench;
  std::optional<Graph> graph;
  std::optional<GraphExec> exec;
  step("open", [&] {
    bench.emplace(gpu);
    return bench->name();
  });
  step("capture", [&] {
    graph = record(*bench, kFirst);
    return fmt::format("{} nodes: a fill, a copy, a kernel, a host function, a copy back", kNodes);
  });
  step("instantiate", [&] {
    exec = graph->instantiate();
    return std::string("done");
  });
  step("replay", [&] {
    bench->replay(*exec);
    return std::string("done");
  });
  step("compare", [&] { return bench->compare(kFirst.filled, kFirst.stored); });
  step("update", [&] {
    const Graph other = record(*bench, kSecond);
    const Updated updated = exec->update(other);
    if (!updated) throw Error(ErrorKind::Device, updated.reason);
    return std::string("every node, in place");
  });
  step("replay updated", [&] {
    bench->replay(*exec);
    return std::string("done");
  });
  step("compare updated", [&] { return bench->compare(kSecond.filled, kSecond.stored); });
  exec.reset();  // before the context
  graph.reset();
  return test;
}

std::vector<SelfTest> self_tests() {
  const Driver& d = driver::driver();
  RONDO_CU(d, cuInit(0));
  int count = 0;
  RONDO_CU(d, cuDeviceGetCount(&count));
  std::vector<SelfTest> tests;
  for (int gpu = 0; gpu < count; ++gpu) tests.push_back(self_test(gpu));
  return tests;
}

std::string report(const SelfTest& test) {
  std::string out;
  for (const SelfTestStep& s : test.steps)
    out += fmt::format("{:<8} {:<14} {}: {}\n",
                       s.ok      ? "ok"
                       : s.tried ? "failed"
                                 : "skipped",
                       fmt::format("graph, GPU {}", test.gpu), s.name,
                       s.tried ? s.text : "not tried, because of what failed before");
  return out;
}

std::string describe_call_watch() {
  std::string log = "the driver has no error log (it came with CUDA 12.9)";
#if CUDA_VERSION >= 12090
  if (driver::driver().cuLogsCurrent) log = "the driver's error log";
#endif
  try {
    const driver::Cupti& cupti = driver::cupti();
    return fmt::format("{}; callers through CUPTI {} ({}), with RONDO_GRAPH_WATCH=calls", log, cupti.version,
                       cupti.where);
  } catch (const Error& e) {
    return fmt::format("{}; no callers: {}", log, e.what());
  }
}

}  // namespace rondo::graph
