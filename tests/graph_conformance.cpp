// Facts about CUDA graphs, each observed by the driver's own calls: which code a call answers, what a
// capture, an instantiation, an update does. ONE list, run on the fake driver in every test run, and on the
// real driver where there is one (else skipped, with the reason). A difference is a fault of the fake, or of
// what we believe: the test prints both.
//
// An observation is a line of numbers and words: codes in the order of the calls, results after a slash.
#include <thread>

#include "graph_support.h"

namespace rondo::graph {
namespace {

// store, add, count_down and choose write through a pointer; the last two set a condition as well.
const char kKernels[] = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry nop() { ret; }
.visible .entry store(.param .u64 p, .param .u32 v) {
  .reg .b32 %r<2>; .reg .b64 %a<3>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u32 %r1, [v];
  st.global.u32 [%a2], %r1; ret;
}
.visible .entry add(.param .u64 p, .param .u32 v) {
  .reg .b32 %r<4>; .reg .b64 %a<3>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u32 %r1, [v];
  ld.global.u32 %r2, [%a2]; add.u32 %r3, %r1, %r2; st.global.u32 [%a2], %r3; ret;
}
)";
const char kConditionKernels[] = R"(
.version 7.8
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 p, .param .u64 h) {
  .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %a<4>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u64 %a3, [h];
  ld.global.u32 %r1, [%a2]; sub.u32 %r2, %r1, 1; st.global.u32 [%a2], %r2;
  setp.ne.u32 %q, %r2, 0; selp.u32 %r3, 1, 0, %q;
  { .param .b64 x; .param .b32 y; st.param.b64 [x], %a3; st.param.b32 [y], %r3;
    call.uni cudaGraphSetConditional, (x, y); }
  ret;
}
.visible .entry choose(.param .u64 p, .param .u64 h) {
  .reg .b32 %r<2>; .reg .b64 %a<4>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u64 %a3, [h];
  ld.global.u32 %r1, [%a2];
  { .param .b64 x; .param .b32 y; st.param.b64 [x], %a3; st.param.b32 [y], %r1;
    call.uni cudaGraphSetConditional, (x, y); }
  ret;
}
)";

// A driver, real or fake, with what a fact needs.
class World {
 public:
  virtual ~World() = default;
  explicit World(const driver::Driver& table) : d(table) {}
  const driver::Driver& d;
  CUfunction nop = nullptr, store = nullptr, add = nullptr, count_down = nullptr, choose = nullptr;
  CUdeviceptr memory = 0;
  CUstream a = nullptr, b = nullptr, blocking = nullptr;
  CUevent event = nullptr, outside = nullptr;
  std::vector<CUgraph> graphs;
  std::vector<CUgraphExec> execs;
  std::string without_conditions;  // why the kernels that set conditions are not there

  void open_objects() {
    RONDO_CU(d, cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    RONDO_CU(d, cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    RONDO_CU(d, cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    RONDO_CU(d, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    RONDO_CU(d, cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
    RONDO_CU(d, cuEventRecord(outside, a));
    RONDO_CU(d, cuMemAlloc(&memory, 4096));
    RONDO_CU(d, cuMemsetD8Async(memory, 0, 4096, a));
    RONDO_CU(d, cuStreamSynchronize(a));
  }
  // Whatever a fact left behind.
  void close_objects() {
    for (CUstream s : {a, b, blocking}) {
      CUgraph g = nullptr;
      (void)d.cuStreamEndCapture(s, &g);
    }
    for (CUgraphExec e : execs) (void)d.cuGraphExecDestroy(e);
    for (CUgraph g : graphs) (void)d.cuGraphDestroy(g);
    (void)d.cuCtxSynchronize();
    for (CUstream s : {a, b, blocking}) (void)d.cuStreamDestroy(s);
    (void)d.cuEventDestroy(event);
    (void)d.cuEventDestroy(outside);
    (void)d.cuMemFree(memory);
  }

  // ---- what facts are written with
  CUresult begin(CUstream s, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    return d.cuStreamBeginCapture(s, mode);
  }
  CUresult end(CUstream s, CUgraph* out = nullptr) {
    CUgraph g = nullptr;
    const CUresult code = d.cuStreamEndCapture(s, &g);
    if (g) graphs.push_back(g);
    if (out) *out = g;
    return code;
  }
  CUresult work(CUstream s) { return d.cuMemsetD8Async(memory, 1, 64, s); }
  CUgraph graph() {
    CUgraph g = nullptr;
    RONDO_CU(d, cuGraphCreate(&g, 0));
    graphs.push_back(g);
    return g;
  }
  CUcontext context() {
    CUcontext c = nullptr;
    RONDO_CU(d, cuCtxGetCurrent(&c));
    return c;
  }
  CUgraphNode kernel_node(CUgraph g, std::vector<CUgraphNode> deps = {}, CUfunction f = nullptr,
                          uint32_t value = 1, unsigned grid = 1) {
    CUdeviceptr p = memory;
    void* args[] = {&p, &value};
    CUDA_KERNEL_NODE_PARAMS k = kernel_shape(f ? f : nop, grid, 1, 0);
    k.kernelParams = f ? args : nullptr;
    CUgraphNode n = nullptr;
    RONDO_CU(d, cuGraphAddKernelNode(&n, g, deps.data(), deps.size(), &k));
    return n;
  }
  CUgraphNode fill_node(CUgraph g, std::vector<CUgraphNode> deps = {}, size_t width = 64, size_t height = 1) {
    CUDA_MEMSET_NODE_PARAMS m{};
    m.dst = memory, m.elementSize = 1, m.width = width, m.height = height, m.pitch = 64;
    CUgraphNode n = nullptr;
    RONDO_CU(d, cuGraphAddMemsetNode(&n, g, deps.data(), deps.size(), &m, context()));
    return n;
  }
  CUgraphNode copy_node(CUgraph g, bool from_host, std::vector<CUgraphNode> deps = {}) {
    static char host[64];
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcHost = host, c.srcDevice = memory + 128;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE, c.dstDevice = memory;
    c.WidthInBytes = 64, c.Height = c.Depth = 1;
    CUgraphNode n = nullptr;
    RONDO_CU(d, cuGraphAddMemcpyNode(&n, g, deps.data(), deps.size(), &c, context()));
    return n;
  }
  CUgraphNode empty_node(CUgraph g, std::vector<CUgraphNode> deps = {}) {
    CUgraphNode n = nullptr;
    RONDO_CU(d, cuGraphAddEmptyNode(&n, g, deps.data(), deps.size()));
    return n;
  }
  CUgraphNode host_node(CUgraph g) {
    const CUDA_HOST_NODE_PARAMS h{[](void*) {}, nullptr};
    CUgraphNode n = nullptr;
    RONDO_CU(d, cuGraphAddHostNode(&n, g, nullptr, 0, &h));
    return n;
  }
  CUresult alloc_node(CUgraph g, size_t bytes, CUgraphNode* n, CUdeviceptr* address) {
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.bytesize = bytes;
    const CUresult code = d.cuGraphAddMemAllocNode(n, g, nullptr, 0, &p);
    *address = p.dptr;
    return code;
  }
  void attribute(CUgraphNode n, const CUlaunchAttribute& a) {
    RONDO_CU(d, cuGraphKernelNodeSetAttribute(n, a.id, &a.value));
  }
  // "code/result", with " node" when one is named.
  std::string instantiate(CUgraph g, unsigned long long flags = 0, CUgraphExec* out = nullptr) {
    CUDA_GRAPH_INSTANTIATE_PARAMS p{};
    p.flags = flags;
    CUgraphExec e = nullptr;
    const CUresult code = d.cuGraphInstantiateWithParams(&e, g, &p);
    if (code == CUDA_SUCCESS) execs.push_back(e);
    if (out) *out = e;
    return std::to_string(code) + "/" + std::to_string(p.result_out) + (p.hErrNode_out ? " node" : "");
  }
  CUgraphExec exec(CUgraph g, unsigned long long flags = 0) {
    CUgraphExec e = nullptr;
    const std::string answer = instantiate(g, flags, &e);
    if (!e) throw Error(ErrorKind::Internal, "a fact cannot instantiate its graph: " + answer);
    return e;
  }
  std::string update(CUgraphExec e, CUgraph g) {
    CUgraphExecUpdateResultInfo info{};
    const CUresult code = d.cuGraphExecUpdate(e, g, &info);
    return std::to_string(code) + "/" + std::to_string(info.result) + (info.errorNode ? " node" : "") +
           (info.errorFromNode ? " from" : "");
  }
  std::string update(CUgraph was, CUgraph is, unsigned long long flags = 0) {
    return update(exec(was, flags), is);
  }
  uint32_t value(size_t word = 0) {
    uint32_t v = 0;
    RONDO_CU(d, cuMemcpyDtoHAsync(&v, memory + 4 * word, 4, a));
    RONDO_CU(d, cuStreamSynchronize(a));
    return v;
  }
  CUresult elsewhere(const std::function<CUresult()>& call) {
    CUresult code = CUDA_SUCCESS;
    const CUcontext c = context();
    std::thread([&] {
      CUcontext ignored = nullptr;
      (void)d.cuCtxPushCurrent(c);
      code = call();
      (void)d.cuCtxPopCurrent(&ignored);
    }).join();
    return code;
  }
  CUresult allocate() {
    CUdeviceptr p = 0;
    const CUresult code = d.cuMemAlloc(&p, 256);
    if (code == CUDA_SUCCESS) (void)d.cuMemFree(p);
    return code;
  }
};

class FakeWorld final : public World {
 public:
  FakeWorld() : FakeWorld(std::make_unique<Machine>()) {}
  ~FakeWorld() override { close_objects(); }

 private:
  explicit FakeWorld(std::unique_ptr<Machine> m) : World(m->d), machine_(std::move(m)) {
    nop = machine_->nop, store = machine_->store, add = machine_->add;
    count_down = machine_->count_down, choose = machine_->choose;
    open_objects();
  }
  std::unique_ptr<Machine> machine_;
};

class RealWorld final : public World {
 public:
  // Throws Error when there is no driver or no GPU.
  RealWorld() : World(driver::driver()) {
    if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
      throw Error(ErrorKind::Unavailable, "cuInit answers " + driver::describe(d, code));
    // Once for all facts: making a context takes a fifth of a second.
    static const CUcontext context = [this] {
      CUcontext c = nullptr;
      RONDO_CU(d, cuDevicePrimaryCtxRetain(&c, 0));
      return c;
    }();
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module_, kKernels, 0, nullptr, nullptr));
    RONDO_CU(d, cuModuleGetFunction(&nop, module_, "nop"));
    RONDO_CU(d, cuModuleGetFunction(&store, module_, "store"));
    RONDO_CU(d, cuModuleGetFunction(&add, module_, "add"));
    // Without them the facts about conditions fail, each with the reason.
    if (d.version >= 12030) {
      if (const CUresult code = d.cuModuleLoadDataEx(&conditions_, kConditionKernels, 0, nullptr, nullptr);
          code != CUDA_SUCCESS) {
        without_conditions = driver::describe(d, code);
      } else {
        RONDO_CU(d, cuModuleGetFunction(&count_down, conditions_, "count_down"));
        RONDO_CU(d, cuModuleGetFunction(&choose, conditions_, "choose"));
      }
    }
    open_objects();
  }
  ~RealWorld() override {
    close_objects();
    CUcontext ignored = nullptr;
    (void)d.cuModuleUnload(module_);
    if (conditions_) (void)d.cuModuleUnload(conditions_);
    (void)d.cuCtxPopCurrent(&ignored);
  }

 private:
  CUmodule module_ = nullptr, conditions_ = nullptr;
};

// "900 901"
std::string say(std::initializer_list<int> codes) {
  std::string out;
  for (int c : codes) out += (out.empty() ? "" : " ") + std::to_string(c);
  return out;
}

struct Fact {
  const char* name;
  const char* expected;
  std::function<std::string(World&)> observe;
  int since = 12000;
};

void PrintTo(const Fact& f, std::ostream* out) { *out << f.name; }

constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED, kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;

// In a capture of a: the call's code, then that of the end.
Fact in_capture(const char* name, const char* expected, std::function<CUresult(World&)> call,
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  return {name, expected, [call, mode](World& w) {
            RONDO_CU(w.d, cuStreamBeginCapture(w.a, mode));
            const CUresult code = call(w);
            return say({code, w.end(w.a)});
          }};
}

std::vector<Fact> capture_facts() {
  using W = World&;
  return {
    {"BeginOnTheLegacyStream", "900", [](W w) { return say({w.begin(nullptr)}); }},
        in_capture("BeginTwice", "401 0", [](W w) { return w.begin(w.a); }),
        {"EndWithoutBegin", "401", [](W w) { return say({w.end(w.a)}); }},
        {"EndOnTheLegacyStream", "401", [](W w) { return say({w.end(nullptr)}); }},
        in_capture("EndIntoNothing", "1 0", [](W w) { return w.d.cuStreamEndCapture(w.a, nullptr); }),
        in_capture("SynchronizeTheCapturedStream", "900 901",
                   [](W w) { return w.d.cuStreamSynchronize(w.a); }),
        in_capture(
            "SynchronizeTheCapturedStreamRelaxed", "900 901",
            [](W w) { return w.d.cuStreamSynchronize(w.a); }, kRelaxed),
        in_capture("WorkAfterItBroke", "901 901",
                   [](W w) { return (void)w.d.cuStreamSynchronize(w.a), w.work(w.a); }),
        in_capture("QueryTheCapturedStream", "900 901", [](W w) { return w.d.cuStreamQuery(w.a); }),
        in_capture("QueryAnotherStream", "0 0", [](W w) { return w.d.cuStreamQuery(w.b); }),
        in_capture("SynchronizeAnotherStream", "900 901", [](W w) { return w.d.cuStreamSynchronize(w.b); }),
        in_capture(
            "SynchronizeAnotherStreamRelaxed", "0 0", [](W w) { return w.d.cuStreamSynchronize(w.b); },
            kRelaxed),
        in_capture("SynchronizeElsewhere", "0 0",
                   [](W w) { return w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); }); }),
        in_capture(
            "SynchronizeElsewhereGlobal", "900 901",
            [](W w) { return w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); }); }, kGlobal),
        in_capture("SynchronizeTheContext", "900 901", [](W w) { return w.d.cuCtxSynchronize(); }),
        in_capture(
            "SynchronizeTheContextRelaxed", "900 901", [](W w) { return w.d.cuCtxSynchronize(); }, kRelaxed),
        in_capture("SynchronizeTheContextElsewhere", "900 901",
                   [](W w) { return w.elsewhere([&] { return w.d.cuCtxSynchronize(); }); }),
        in_capture("Allocate", "900 901", [](W w) { return w.allocate(); }),
        in_capture(
            "AllocateRelaxed", "0 0", [](W w) { return w.allocate(); }, kRelaxed),
        in_capture("AllocateInARelaxedScope", "0 0",
                   [](W w) {
                     CUstreamCaptureMode mode = kRelaxed;
                     (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
                     const CUresult code = w.allocate();
                     (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
                     return code;
                   }),
        in_capture("AllocateElsewhere", "0 0", [](W w) { return w.elsewhere([&] { return w.allocate(); }); }),
        in_capture(
            "AllocateElsewhereGlobal", "900 901",
            [](W w) { return w.elsewhere([&] { return w.allocate(); }); }, kGlobal),
        {"Free", "900 901",
         [](W w) {
           CUdeviceptr p = 0;
           RONDO_CU(w.d, cuMemAlloc(&p, 256));
           RONDO_CU(w.d, cuStreamBeginCapture(w.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
           const CUresult code = w.d.cuMemFree(p);
           const std::string out = say({code, w.end(w.a)});
           if (code != CUDA_SUCCESS) (void)w.d.cuMemFree(p);
           return out;
         }},
        in_capture("AllocateHostMemory", "900 901",
                   [](W w) {
                     void* p = nullptr;
                     const CUresult code = w.d.cuMemHostAlloc(&p, 256, 0);
                     if (code == CUDA_SUCCESS) (void)w.d.cuMemFreeHost(p);
                     return code;
                   }),
        in_capture("LoadAModule", "900 901",
                   [](W w) {
                     CUmodule m = nullptr;
                     const CUresult code = w.d.cuModuleLoadDataEx(&m, kKernels, 0, nullptr, nullptr);
                     if (code == CUDA_SUCCESS) (void)w.d.cuModuleUnload(m);
                     return code;
                   }),
        in_capture("AskForFreeMemory", "0 0",
                   [](W w) {
                     size_t free = 0, total = 0;
                     return w.d.cuMemGetInfo(&free, &total);
                   }),
        in_capture("QueryACapturedEvent", "907 901",
                   [](W w) { return (void)w.d.cuEventRecord(w.event, w.a), w.d.cuEventQuery(w.event); }),
        in_capture(
            "SynchronizeACapturedEventRelaxed", "907 901",
            [](W w) { return (void)w.d.cuEventRecord(w.event, w.a), w.d.cuEventSynchronize(w.event); },
            kRelaxed),
        in_capture("QueryAnEventOfBefore", "900 901", [](W w) { return w.d.cuEventQuery(w.outside); }),
        in_capture("SynchronizeAnEventOfBefore", "900 901",
                   [](W w) { return w.d.cuEventSynchronize(w.outside); }),
        in_capture(
            "SynchronizeAnEventOfBeforeRelaxed", "0 0", [](W w) { return w.d.cuEventSynchronize(w.outside); },
            kRelaxed),
        in_capture("WaitForAnEventOfBefore", "905 901",
                   [](W w) { return w.d.cuStreamWaitEvent(w.a, w.outside, 0); }),
        in_capture("WaitForAnEventNeverRecorded", "905 901",
                   [](W w) { return w.d.cuStreamWaitEvent(w.a, w.event, 0); }),
        {"WaitForAnEventOfAnEarlierCapture", "905 901",
         [](W w) {
           (void)w.begin(w.a), (void)w.d.cuEventRecord(w.event, w.a), (void)w.end(w.a);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuStreamWaitEvent(w.a, w.event, 0);
           return say({code, w.end(w.a)});
         }},
        {"ACapturedEventAfterTheCapture", "0 0",
         [](W w) {
           (void)w.begin(w.a), (void)w.d.cuEventRecord(w.event, w.a), (void)w.end(w.a);
           return say({w.d.cuEventQuery(w.event), w.d.cuStreamWaitEvent(w.b, w.event, 0)});
         }},
        {"MergeOfTwoCaptures", "902 901 901",
         [](W w) {
           (void)w.begin(w.a), (void)w.begin(w.b), (void)w.d.cuEventRecord(w.event, w.a);
           const CUresult code = w.d.cuStreamWaitEvent(w.b, w.event, 0);
           const CUresult first = w.end(w.a);
           return say({code, first, w.end(w.b)});
         }},
        in_capture("EndOnAJoinedStream", "903 901",
                   [](W w) {
                     (void)w.work(w.a), (void)w.d.cuEventRecord(w.event, w.a);
                     (void)w.d.cuStreamWaitEvent(w.b, w.event, 0);
                     return w.end(w.b);
                   }),
        in_capture("ForkNotJoined", "0 904",
                   [](W w) {
                     (void)w.work(w.a), (void)w.d.cuEventRecord(w.event, w.a);
                     (void)w.d.cuStreamWaitEvent(w.b, w.event, 0);
                     return w.work(w.b);
                   }),
        in_capture("ForkWithoutWorkNotJoined", "0 0",
                   [](W w) {
                     (void)w.work(w.a), (void)w.d.cuEventRecord(w.event, w.a);
                     return w.d.cuStreamWaitEvent(w.b, w.event, 0);
                   }),
        {"BothStreamsAfterAForkNotJoined", "0 0",
         [](W w) {
           (void)w.begin(w.a), (void)w.work(w.a), (void)w.d.cuEventRecord(w.event, w.a);
           (void)w.d.cuStreamWaitEvent(w.b, w.event, 0), (void)w.work(w.b), (void)w.end(w.a);
           return say({w.work(w.a), w.work(w.b)});
         }},
        {"LegacyStreamAgainstABlockingCapture", "906 901",
         [](W w) {
           (void)w.begin(w.blocking);
           const CUresult code = w.work(nullptr);
           return say({code, w.end(w.blocking)});
         }},
        in_capture("LegacyStreamAgainstANonBlockingCapture", "0 0", [](W w) { return w.work(nullptr); }),
        {"AskTheLegacyStreamDuringABlockingCapture", "906 0",
         [](W w) {
           CUstreamCaptureStatus status{};
           (void)w.begin(w.blocking);
           const CUresult code = w.d.cuStreamIsCapturing(nullptr, &status);
           return say({code, w.end(w.blocking)});
         }},
        in_capture("EndElsewhere", "908 401", [](W w) { return w.elsewhere([&] { return w.end(w.a); }); }),
        {"EndElsewhereRelaxed", "0 401",
         [](W w) {
           (void)w.begin(w.a, kRelaxed);
           const CUresult code = w.elsewhere([&] { return w.end(w.a); });
           return say({code, w.end(w.a)});
         }},
        {"LaunchIntoACapture", "900 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuGraphLaunch(e, w.a);
           return say({code, w.end(w.a)});
         }},
        {"UploadIntoACapture", "900 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuGraphUpload(e, w.a);
           return say({code, w.end(w.a)});
         }},
        {"LaunchIntoAnotherStreamDuringACapture", "0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuGraphLaunch(e, w.b);
           return say({code, w.end(w.a)});
         }},
        {"DestroyAnExecDuringACapture", "900 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuGraphExecDestroy(e);
           if (code == CUDA_SUCCESS) w.execs.clear();
           return say({code, w.end(w.a)});
         }},
        {"DestroyAnExecInARelaxedScope", "0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           CUstreamCaptureMode mode = kRelaxed;
           (void)w.begin(w.a), (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
           const CUresult code = w.d.cuGraphExecDestroy(e);
           (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
           if (code == CUDA_SUCCESS) w.execs.clear();
           return say({code, w.end(w.a)});
         }},
        {"InstantiateDuringACapture", "0/0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           (void)w.begin(w.a);
           const std::string answer = w.instantiate(g);
           return answer + " " + say({w.end(w.a)});
         }},
        in_capture("BuildAndDestroyAGraph", "0 0",
                   [](W w) {
                     CUgraph g = nullptr;
                     CUgraphNode n = nullptr;
                     (void)w.d.cuGraphCreate(&g, 0);
                     (void)w.d.cuGraphAddEmptyNode(&n, g, nullptr, 0);
                     return w.d.cuGraphDestroy(g);
                   }),
        in_capture("MakeAndDestroyAnEvent", "0 0",
                   [](W w) {
                     CUevent e = nullptr;
                     const CUresult code = w.d.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
                     return code == CUDA_SUCCESS ? w.d.cuEventDestroy(e) : code;
                   }),
        in_capture("MakeAndDestroyAStream", "0 0",
                   [](W w) {
                     CUstream s = nullptr;
                     const CUresult code = w.d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
                     return code == CUDA_SUCCESS ? w.d.cuStreamDestroy(s) : code;
                   }),
        {"CapturedKindsOfNodes", "0: 2 1 3 10 11 7 6",
         [](W w) {
           CUdeviceptr p = 0;
           CUgraph g = nullptr;
           (void)w.begin(w.a), (void)w.work(w.a),
               (void)w.d.cuMemcpyDtoDAsync(w.memory, w.memory + 64, 64, w.a);
           (void)w.d.cuLaunchHostFunc(
               w.a, [](void*) {}, nullptr);
           (void)w.d.cuMemAllocAsync(&p, 256, w.a), (void)w.d.cuMemFreeAsync(p, w.a);
           (void)w.d.cuEventRecordWithFlags(w.event, w.a, CU_EVENT_RECORD_EXTERNAL);
           (void)w.d.cuStreamWaitEvent(w.a, w.outside, CU_EVENT_WAIT_EXTERNAL);
           std::string out = say({w.end(w.a, &g)}) + ":";
           if (g)
             for (const NodeView& n : GraphView(g).nodes())
               out += " " + std::to_string(static_cast<int>(n.kind()));
           return out;
         }},
        {"UpdateTheTipOfNoCapture", "401",
         [](W w) { return say({w.d.cuStreamUpdateCaptureDependencies_v1(w.a, nullptr, 0, 1)}); }},
        in_capture("UpdateTheTipToAForeignNode", "1 0",
                   [](W w) {
                     CUgraphNode n = w.empty_node(w.graph());
                     return w.d.cuStreamUpdateCaptureDependencies_v1(w.a, &n, 1, 1);
                   }),
        {"AProgrammaticLaunchAsksForEdgeData", "402 0",
         [](W w) {
           (void)w.begin(w.a);
           CUlaunchAttribute attribute{};
           attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
           attribute.value.programmaticStreamSerializationAllowed = 1;
           CUlaunchConfig c{};
           c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
           c.hStream = w.a, c.attrs = &attribute;
           (void)w.d.cuLaunchKernelEx(&c, w.nop, nullptr, nullptr);
           c.numAttrs = 1;
           (void)w.d.cuLaunchKernelEx(&c, w.nop, nullptr, nullptr);
           CUgraph g = nullptr;
           const CUresult code = w.end(w.a, &g);
           CUgraphNode from[4], to[4];
           size_t count = 4;
           return say({w.d.cuGraphGetEdges_v1(g, from, to, &count), code});
         },
         12030},
#if CUDA_VERSION >= 12030
        {"CaptureToAGraphGivesItBack", "0 same 2",
         [](W w) {
           const CUgraph g = w.graph();
           const CUgraphNode first = w.empty_node(g);
           (void)w.d.cuStreamBeginCaptureToGraph(w.a, g, &first, nullptr, 1,
                                                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
           (void)w.work(w.a);
           CUgraph back = nullptr;
           const CUresult code = w.d.cuStreamEndCapture(w.a, &back);
           return say({code}) + (back == g ? " same " : " other ") +
                  std::to_string(GraphView(g).node_count());
         },
         12030},
        {"CaptureToAGraphThatBreaksLeavesItsNodes", "901 2",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           (void)w.d.cuStreamBeginCaptureToGraph(w.a, g, nullptr, nullptr, 0,
                                                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
           (void)w.work(w.a), (void)w.d.cuStreamSynchronize(w.a);
           CUgraph back = nullptr;
           const CUresult code = w.d.cuStreamEndCapture(w.a, &back);
           return say({code}) + " " + std::to_string(GraphView(g).node_count());
         },
         12030},
#endif
  };
}

std::vector<Fact> node_facts() {
  using W = World&;
  return {
    {"NodesComeInTheOrderInWhichTheyWereAdded", "0 1 2",
     [](W w) {
       const CUgraph g = w.graph();
       const CUgraphNode nodes[] = {w.kernel_node(g), w.empty_node(g), w.fill_node(g)};
       std::string out;
       for (const NodeView& n : GraphView(g).nodes())
         for (int i = 0; i < 3; ++i)
           if (nodes[i] == n.get()) out += (out.empty() ? "" : " ") + std::to_string(i);
       return out;
     }},
        {"AnEdgeTwice", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g), y = w.empty_node(g, {x});
           return say({w.d.cuGraphAddDependencies_v1(g, &x, &y, 1)});
         }},
        {"AnEdgeToItself", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g);
           return say({w.d.cuGraphAddDependencies_v1(g, &x, &x, 1)});
         }},
        {"RemoveAnEdgeThatIsNotThere", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g), y = w.empty_node(g);
           return say({w.d.cuGraphRemoveDependencies_v1(g, &x, &y, 1)});
         }},
        {"ADependencyOfAnotherGraph", "1",
         [](W w) {
           CUgraphNode foreign = w.empty_node(w.graph()), n = nullptr;
           return say({w.d.cuGraphAddEmptyNode(&n, w.graph(), &foreign, 1)});
         }},
        {"AKernelWithoutBlocks", "1",
         [](W w) {
           CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.nop, Dim3(0), 1, 0);
           CUgraphNode n = nullptr;
           return say({w.d.cuGraphAddKernelNode(&n, w.graph(), nullptr, 0, &k)});
         }},
        {"AnAllocationBeyondAllMemory", "2",
         [](W w) {
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           return say({w.alloc_node(w.graph(), size_t{1} << 50, &n, &p)});
         }},
        {"AGraphWithMemoryIsNotCloned", "801",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(g, 256, &n, &p);
           CUgraph copy = nullptr;
           return say({w.d.cuGraphClone(&copy, g)});
         }},
        {"AGraphWithMemoryIsNoChild", "801",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(g, 256, &n, &p);
           return say({w.d.cuGraphAddChildGraphNode(&n, w.graph(), nullptr, 0, g)});
         }},
        {"AnAllocNodeIsNotRemoved", "801",
         [](W w) {
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(w.graph(), 256, &n, &p);
           return say({w.d.cuGraphDestroyNode(n)});
         }},
        {"AGraphHasOneChildOfItself", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           return say({w.d.cuGraphAddChildGraphNode(&n, g, nullptr, 0, g)});
         }},
        {"AttributesThatCanBeRead", "1 2 4 5 8 9 10 11",
         [](W w) {
           const CUgraphNode n = w.kernel_node(w.graph());
           std::string out;
           for (int id : {1, 2, 4, 5, 8, 9, 10, 11}) {
             CUlaunchAttributeValue v{};
             if (w.d.cuGraphKernelNodeGetAttribute(n, static_cast<CUlaunchAttributeID>(id), &v) ==
                 CUDA_SUCCESS)
               out += (out.empty() ? "" : " ") + std::to_string(id);
           }
           return out;
         },
         12080},
        {"AttributesAreCopiedFromTheSecondToTheFirst", "3",
         [](W w) {
           const CUgraph g = w.graph();
           const CUgraphNode to = w.kernel_node(g), from = w.kernel_node(g);
           w.attribute(from, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE));
           (void)w.d.cuGraphKernelNodeCopyAttributes(to, from);
           CUlaunchAttributeValue v{};
           (void)w.d.cuGraphKernelNodeGetAttribute(to, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &v);
           return std::to_string(v.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? 3 : 0);
         }},
#if CUDA_VERSION >= 12030
        {"EdgeDataBetweenKernels",
         "programmatic 0, launch order 0, both 0, trigger without programmatic 1, from a fill 1, "
         "to an empty node 1",
         [](W w) {
           const auto connect = [&](EdgeData data, bool from_fill = false, bool to_empty = false) {
             const CUgraph g = w.graph();
             CUgraphNode x = from_fill ? w.fill_node(g) : w.kernel_node(g),
                         y = to_empty ? w.empty_node(g) : w.kernel_node(g);
             CUgraphEdgeData e{};
             e.from_port = data.from_port, e.type = data.type;
             return std::to_string(w.d.cuGraphAddDependencies_v2(g, &x, &y, &e, 1));
           };
           return "programmatic " + connect(kProgrammatic) + ", launch order " + connect(kLaunchOrder) +
                  ", both " + connect(kProgrammaticLaunchOrder) + ", trigger without programmatic " +
                  connect({1, 0, 0}) + ", from a fill " + connect(kProgrammatic, true) +
                  ", to an empty node " + connect(kProgrammatic, false, true);
         },
         12030},
#endif
  };
}

std::vector<Fact> exec_facts() {
  using W = World&;
  return {
      {"ACycle", "1/2 node",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode x = w.empty_node(g), y = w.empty_node(g, {x});
         (void)w.d.cuGraphAddDependencies_v1(g, &y, &x, 1);
         return w.instantiate(g);
       }},
      {"AHostNodeForDeviceLaunch", "801/3 node",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g), w.host_node(g);
         return w.instantiate(g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
       }},
      {"FlagsThatExcludeEachOther", "1/1",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g);
         return w.instantiate(
             g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
       }},
      {"AnEmptyGraph", "0/0", [](W w) { return w.instantiate(w.graph()); }},
      {"ASecondExecOfAGraphWithMemory", "0/0, 801/1",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const std::string first = w.instantiate(g);
         return first + ", " + w.instantiate(g);
       }},
      {"LaunchesWithUnfreedMemory", "0 1",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const CUgraphExec e = w.exec(g);
         const CUresult first = w.d.cuGraphLaunch(e, w.a);
         return say({first, w.d.cuGraphLaunch(e, w.a)});
       }},
      {"LaunchesWithUnfreedMemoryAndAutoFree", "0 0",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const CUgraphExec e = w.exec(g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
         const CUresult first = w.d.cuGraphLaunch(e, w.a);
         return say({first, w.d.cuGraphLaunch(e, w.a)});
       }},
      {"TheOrderOfEdgesIsTheOrderOfExecution", "15",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode last = w.kernel_node(g, {}, w.add, 5), first = w.kernel_node(g, {}, w.store, 10);
         (void)w.d.cuGraphAddDependencies_v1(g, &first, &last, 1);
         RONDO_CU(w.d, cuGraphLaunch(w.exec(g), w.a));
         return std::to_string(w.value());
       }},
      {"ADisabledKernel", "10 21",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode x = w.kernel_node(g, {}, w.add, 1);
         w.kernel_node(g, {x}, w.add, 10);
         const CUgraphExec e = w.exec(g);
         RONDO_CU(w.d, cuGraphNodeSetEnabled(e, x, 0));
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         const uint32_t off = w.value();
         RONDO_CU(w.d, cuGraphNodeSetEnabled(e, x, 1));
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return std::to_string(off) + " " + std::to_string(w.value());
       }},
      {"DisablingAHostNode", "1",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.host_node(g);
         return say({w.d.cuGraphNodeSetEnabled(w.exec(g), n, 0)});
       }},
      {"SetANodeOfAnotherGraph", "1",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g);
         const CUgraphNode foreign = w.kernel_node(w.graph());
         const CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.nop, 2, 1, 0);
         return say({w.d.cuGraphExecKernelNodeSetParams(w.exec(g), foreign, &k)});
       }},
      {"SetAKernelsArguments", "0 7",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.kernel_node(g, {}, w.store, 3);
         const CUgraphExec e = w.exec(g);
         CUdeviceptr p = w.memory;
         uint32_t v = 7;
         void* args[] = {&p, &v};
         CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.store, 1, 1, 0);
         k.kernelParams = args;
         const CUresult code = w.d.cuGraphExecKernelNodeSetParams(e, n, &k);
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return say({code, static_cast<int>(w.value())});
       }},
      {"SetAnotherFunction", "0 7",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.kernel_node(g, {}, w.store, 3);
         const CUgraphExec e = w.exec(g);
         CUdeviceptr p = w.memory;
         uint32_t v = 7;
         void* args[] = {&p, &v};
         CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.add, 1, 1, 0);
         k.kernelParams = args;
         const CUresult code = w.d.cuGraphExecKernelNodeSetParams(e, n, &k);
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return say({code, static_cast<int>(w.value())});
       }},
      {"AWhileLoop", "0 5",
       [](W w) {
         Graph g;
         g.fill(w.memory, 5, 1, 4);
         const ConditionHandle more = g.condition(1u);
         Condition loop = g.while_node(more, g.nodes()[0]);
         const NodeView step = loop.body().add(kernel(w.add, 1, 1, 0, w.memory + 4, 1u));
         loop.body().add(kernel(w.count_down, 1, 1, 0, w.memory, more), step);
         g.instantiate().launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1));
       },
       12030},
      {"ASwitch", "12",
       [](W w) {
         Graph g;
         const NodeView two = g.fill(w.memory, 2, 1, 4);
         const ConditionHandle h = g.condition();
         const NodeView set = g.add(kernel(w.choose, 1, 1, 0, w.memory, h), two);
         Condition c = g.switch_node(h, 3, set);
         for (unsigned i = 0; i < 3; ++i) c.body(i).add(kernel(w.store, 1, 1, 0, w.memory + 4, 10 + i));
         g.instantiate().launch(w.a);
         return std::to_string(w.value(1));
       },
       12080},
      {"AConditionThatNoNodeUses", "1/5",
       [](W w) {
         Graph g;
         g.condition();
         return w.instantiate(g.get());
       },
       12080},
      {"AGraphWithAConditionTwice", "0/0, 801/1",
       [](W w) {
         Graph g;
         g.if_node(g.condition(0u)).body().add(kernel(w.nop, 1, 1, 0));
         const std::string first = w.instantiate(g.get());
         std::string out = first + ", " + w.instantiate(g.get());
         for (CUgraphExec e : w.execs) (void)w.d.cuGraphExecDestroy(e);
         w.execs.clear();
         return out;
       },
       12030},
      {"AGraphWithAConditionAsClone", "801",
       [](W w) {
         Graph g;
         g.if_node(g.condition(0u)).body().add(kernel(w.nop, 1, 1, 0));
         CUgraph copy = nullptr;
         return say({w.d.cuGraphClone(&copy, g.get())});
       },
       12030},
      {"AHostNodeInABody", "801",
       [](W w) {
         Graph g;
         Condition c = g.if_node(g.condition(0u));
         const CUDA_HOST_NODE_PARAMS h{[](void*) {}, nullptr};
         CUgraphNode n = nullptr;
         const CUresult code = w.d.cuGraphAddHostNode(&n, c.body().get(), nullptr, 0, &h);
         return code == CUDA_SUCCESS ? "0, then " + w.instantiate(g.get()) : say({code});
       },
       12030},
  };
}

std::vector<Fact> update_facts() {
  using W = World&;
  const auto kernel_with = [](W w, const CUlaunchAttribute& a, unsigned grid = 4) {
    const CUgraph g = w.graph();
    w.attribute(w.kernel_node(g, {}, nullptr, 0, grid), a);
    return g;
  };
  return {
    {"UpdateToTheSame", "0/0",
     [](W w) {
       const CUgraph x = w.graph(), y = w.graph();
       w.kernel_node(x), w.kernel_node(y);
       return w.update(x, y);
     }},
        {"UpdateToMoreNodes", "910/2",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(y), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToFewerNodes", "910/2",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(x), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToAnotherKindOfNode", "910/3 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x), w.copy_node(y, false);
           return w.update(x, y);
         }},
        {"UpdateToOtherEdges", "910/2 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           const CUgraphNode xa = w.kernel_node(x);
           w.kernel_node(x, {xa}), w.kernel_node(y), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToAnotherOrderOfEdges", "910/2 node from",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           const CUgraphNode xa = w.kernel_node(x), xb = w.fill_node(x), ya = w.kernel_node(y),
                             yb = w.fill_node(y);
           w.empty_node(x, {xa, xb}), w.empty_node(y, {yb, ya});
           return w.update(x, y);
         }},
        {"UpdateToAnotherFunction", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store), w.kernel_node(y, {}, w.add);
           return w.update(x, y);
         }},
        {"UpdateToAnotherGrid", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(y, {}, nullptr, 0, 8);
           return w.update(x, y);
         }},
        {"UpdateOfACopyFromTheHostToOneFromTheDevice", "910/5 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.copy_node(x, true), w.copy_node(y, false);
           return w.update(x, y);
         }},
        {"UpdateOfAFillsLength", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x), w.fill_node(y, {}, 32);
           return w.update(x, y);
         }},
        {"UpdateOfTheRowsOfAFill", "910/5 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x, {}, 64, 2), w.fill_node(y, {}, 64, 4);
           return w.update(x, y);
         }},
        {"UpdateToCooperative", "910/8 node",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::cooperative(false)),
                           kernel_with(w, attribute::cooperative(true)));
         }},
        {"UpdateOfThePriority", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::priority(0)), kernel_with(w, attribute::priority(-1)));
         }},
        {"UpdateOfThePriorityThatCounts", "910/8 node",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::priority(0)), kernel_with(w, attribute::priority(-1)),
                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
         }},
        {"UpdateOfTheClusterDimension", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::cluster({2})), kernel_with(w, attribute::cluster({4})));
         }},
        {"UpdateOfTheMemorySyncDomain", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT)),
                           kernel_with(w, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)));
         }},
        {"ARefusedUpdateLeavesTheExec", "910/2 3",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store, 3);
           w.kernel_node(y, {}, w.store, 4), w.empty_node(y);
           const CUgraphExec e = w.exec(x);
           const std::string answer = w.update(e, y);
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return answer + " " + std::to_string(w.value());
         }},
        {"AnUpdateTakesTheArguments", "0/0 4",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store, 3), w.kernel_node(y, {}, w.store, 4);
           const CUgraphExec e = w.exec(x);
           const std::string answer = w.update(e, y);
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return answer + " " + std::to_string(w.value());
         }},
#if CUDA_VERSION >= 12040
        {"UpdateOfADeviceUpdatableNode", "910/6 node",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::device_updatable()),
                           kernel_with(w, attribute::device_updatable()));
         },
         12040},
#endif
  };
}

// What the library promises, on this driver.
std::vector<Fact> library_facts() {
  using W = World&;
  const auto launch = [](W w, CUstream s, CUfunction f, CUdeviceptr p, uint32_t v) {
    void* args[] = {&p, &v};
    RONDO_CU(w.d, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, nullptr));
  };
  const auto text_of = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  return {
      {"RondoCapturesForksAndGrafts", "111 7 4 nodes",
       [launch](W w) {
         Graph part;
         part.add(kernel(w.add, 1, 1, 0, w.memory, 10u));
         const Graph g = capture(w.a, [&](Capture& c) {
           launch(w, w.a, w.store, w.memory, 1);
           c.fork(w.b);
           launch(w, w.b, w.store, w.memory + 4, 7);
           c.graft([&](GraphView graph, After tip) { return graph.child(part, tip); });
           c.join(w.b);
           launch(w, w.a, w.add, w.memory, 100);
         });
         g.instantiate().launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1)) + " " +
                std::to_string(g.node_count()) + " nodes";
       }},
      {"RondoNamesAStreamThatWasNotJoined", "named, and both go on",
       [launch, text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&](Capture& c) {
             c.fork(w.b);
             launch(w, w.b, w.store, w.memory, 1);
           });
         });
         if (text.find("had not been joined to it") == text.npos) return text;
         launch(w, w.a, w.store, w.memory, 1), launch(w, w.b, w.store, w.memory, 1);
         return std::string("named, and both go on");
       }},
      {"RondoExplainsAnAllocationInACapture", "explained, and the stream goes on",
       [launch, text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&] {
             CUdeviceptr p = 0;
             RONDO_GRAPH_CALL(w.d.cuMemAlloc(&p, 256));
           });
         });
         if (text.find("Allocating, freeing or loading is not allowed in a capture") == text.npos)
           return text;
         const Graph g = capture(w.a, [&] { launch(w, w.a, w.store, w.memory, 1); });
         return std::string(g.node_count() == 1 ? "explained, and the stream goes on" : "?");
       }},
      {"RondoFindsTheStretchBetweenCheckpoints", "found",
       [text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&] {
             RONDO_GRAPH_CHECKPOINT("one");
             (void)w.d.cuStreamSynchronize(w.a);
             RONDO_GRAPH_CHECKPOINT("two");
           });
         });
         return text.find("was broken between checkpoint \"one\"") != text.npos ? std::string("found") : text;
       }},
      {"RondoUpdatesOrInstantiatesAnew", "updated 5, anew 12",
       [](W w) {
         const auto chain = [&](int n, uint32_t first) {
           Graph g;
           NodeView last = g.add(kernel(w.store, 1, 1, 0, w.memory, first));
           for (int i = 1; i < n; ++i) last = g.add(kernel(w.add, 1, 1, 0, w.memory, 1u), last);
           return g;
         };
         GraphExec exec = chain(2, 1).instantiate();
         std::string out =
             exec.update_or_reinstantiate(chain(2, 4)).how == UpdateHow::Updated ? "updated " : "anew ";
         exec.launch(w.a);
         out += std::to_string(w.value()) + ", ";
         out += exec.update_or_reinstantiate(chain(3, 10)).how == UpdateHow::Updated ? "updated " : "anew ";
         exec.launch(w.a);
         return out + std::to_string(w.value());
       }},
      {"RondoComparesAttributes", "refused, then anew",
       [](W w) {
         const auto with = [&](int priority) {
           Graph g;
           g.add(kernel(w.nop, 1, 1, 0).with(attribute::priority(priority)));
           return g;
         };
         GraphExec exec = with(0).instantiate();
         const Graph other = with(-1);
         if (exec.update(other).ok) return std::string("taken");
         return std::string(exec.update_or_reinstantiate(other).how == UpdateHow::Reinstantiated
                                ? "refused, then anew"
                                : "?");
       }},
      {"RondoChangesNodesOfAGraphThatIsGone", "9 22",
       [](W w) {
         NodeView k, f;
         std::optional<GraphExec> exec;
         {
           Graph g;
           k = g.add(kernel(w.store, 1, 1, 0, w.memory, 1u));
           f = g.fill(w.memory + 4, 1, 1, 4, k);
           exec = g.instantiate();
         }
         exec->set(k, kernel(w.store, 1, 1, 0, w.memory, 9u));
         CUDA_MEMSET_NODE_PARAMS m = f.memset();
         m.value = 22;
         exec->set(f, m);
         exec->launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1));
       }},
      {"RondoLaunchesOneExecFromManyThreads", "400",
       [](W w) {
         Graph g;
         g.add(kernel(w.add, 1, 1, 0, w.memory, 1u));
         const GraphExec exec = g.instantiate();
         std::vector<std::thread> threads;
         const CUcontext c = w.context();
         for (CUstream s : {w.a, w.b, w.a, w.b})
           threads.emplace_back([&, s] {
             CUcontext ignored = nullptr;
             (void)w.d.cuCtxPushCurrent(c);
             for (int i = 0; i < 100; ++i) exec.launch(s);
             (void)w.d.cuCtxPopCurrent(&ignored);
           });
         for (std::thread& t : threads) t.join();
         RONDO_CU(w.d, cuCtxSynchronize());
         return std::to_string(w.value());
       }},
      {"RondoKeepsAHostFunctionAsLongAsItsExecs", "2",
       [](W w) {
         auto counter = std::make_shared<std::atomic<int>>(0);
         std::optional<GraphExec> exec;
         {
           Graph g;
           g.host([counter] { ++*counter; });
           exec = g.instantiate();
         }
         exec->launch(w.a), exec->launch(w.a);
         RONDO_CU(w.d, cuStreamSynchronize(w.a));
         return std::to_string(*counter);
       }},
      {"RondoBuildsProgrammaticEdges", "3, programmatic",
       [](W w) {
         Graph g;
         const NodeView first = g.add(kernel(w.store, 1, 1, 0, w.memory, 3u));
         g.add(kernel(w.nop, 1, 1, 0), {{first, kProgrammatic}});
         g.instantiate().launch(w.a);
         return std::to_string(w.value()) + ", " + name(g.edges().at(0).data);
       },
       12030},
      {"RondoCapturesAllocationsAsNodes", "alloc, kernel, free",
       [launch](W w) {
         const Graph g = capture(w.a, [&] {
           CUdeviceptr p = 0;
           RONDO_GRAPH_CALL(w.d.cuMemAllocAsync(&p, 256, w.a));
           launch(w, w.a, w.store, p, 3);
           RONDO_GRAPH_CALL(w.d.cuMemFreeAsync(p, w.a));
         });
         std::string out;
         for (const NodeView& n : g.nodes()) out += (out.empty() ? "" : ", ") + std::string(name(n.kind()));
         const GraphExec exec = g.instantiate();
         exec.launch(w.a), exec.launch(w.a);
         RONDO_CU(w.d, cuStreamSynchronize(w.a));
         return out;
       }},
      {"RondoMovesAChildIn", "8",
       [](W w) {
         Graph part, g;
         const Allocation a = part.alloc(256);
         const NodeView k = part.add(kernel(w.store, 1, 1, 0, w.memory, 8u), a.node);
         part.free(a.address, k);
         g.child(std::move(part));
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       },
       12090},
      {"RondoWritesMemoryByABatchNode", "44",
       [](W w) {
         CUstreamBatchMemOpParams write{};
         write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
         write.writeValue.address = w.memory;
         write.writeValue.value = 44;
         Graph g;
         g.batch({&write, 1});
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       }},
      {"RondoCapturesIntoABody", "0",
       [](W w) {
         Graph g;
         const NodeView set = g.fill(w.memory, 3, 1, 4);
         const ConditionHandle more = g.condition(1u);
         Condition loop = g.while_node(more, set);
         capture_into(loop.body(), w.a, {}, [&] {
           CUdeviceptr p = w.memory;
           ConditionHandle h = more;
           void* args[] = {&p, &h};
           RONDO_CU(w.d, cuLaunchKernel(w.count_down, 1, 1, 1, 1, 1, 1, 0, w.a, args, nullptr));
         });
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       },
       12030},
      {"RondoDestroysAnExecDuringACapture", "1 node",
       [launch](W w) {
         Graph g;
         g.empty();
         std::optional<GraphExec> exec = g.instantiate();
         const Graph captured = capture(w.a, [&] {
           launch(w, w.a, w.store, w.memory, 1);
           exec.reset();
           const Graph gone;
         });
         return std::to_string(captured.node_count()) + " node";
       }},
  };
}

std::vector<Fact> all_facts() {
  std::vector<Fact> all;
  for (auto* part : {capture_facts, node_facts, exec_facts, update_facts, library_facts})
    for (Fact& f : part()) all.push_back(std::move(f));
  return all;
}

// What the driver does, or "threw: ..." .
std::string observe(World& w, const Fact& f) {
  std::string observed;
  try {
    observed = f.observe(w);
  } catch (const Error& e) {
    observed = std::string("threw: ") + e.what();
  }
  if (observed != f.expected && !w.without_conditions.empty())
    observed += " (kernels that set conditions cannot be loaded: " + w.without_conditions + ")";
  return observed;
}

class Conformance : public testing::TestWithParam<Fact> {};

TEST_P(Conformance, OfTheFake) {
  FakeWorld world;
  EXPECT_EQ(observe(world, GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Facts, Conformance, testing::ValuesIn(all_facts()),
                         [](const auto& info) { return std::string(info.param.name); });

// One test, so that a machine without a GPU has one thing to skip; it says each fact before it tries it, in
// case that one ends the process.
TEST(ConformanceOfTheRealDriver, EveryFactHolds) {
  int held = 0, tried = 0;
  for (const Fact& f : all_facts()) {
    std::unique_ptr<RealWorld> world;
    try {
      world = std::make_unique<RealWorld>();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::Unavailable) throw;
      GTEST_SKIP() << e.what();
    }
    if (world->d.version < f.since) continue;
    std::printf("[   FACT   ] %s: ", f.name);
    std::fflush(stdout);
    const std::string observed = observe(*world, f);
    std::printf("%s\n", observed.c_str());
    EXPECT_EQ(observed, f.expected) << "FACT " << f.name << " on " << world->d.name() << " ("
                                    << world->d.where << ")";
    ++tried, held += observed == f.expected;
  }
  std::printf("[   FACTS  ] %d of %d hold\n", held, tried);
}

}  // namespace
}  // namespace rondo::graph
