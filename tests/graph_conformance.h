// What a fact about CUDA graphs is made of: a driver, real or fake, with streams, memory and kernels; an
// observation; what we believe it is. The facts themselves stand in graph_conformance_*.cpp, the tests in
// graph_conformance.cpp.
#pragma once
#include <thread>

#include "graph_support.h"

namespace rondo::graph {

// A driver, real or fake, with what a fact needs.
class World {
 public:
  virtual ~World() = default;
  explicit World(const driver::Driver& table) : d(table) {}
  const driver::Driver& d;
  CUfunction nop = nullptr, store = nullptr, add = nullptr, count_down = nullptr, choose = nullptr,
             cluster_size = nullptr;
  CUdeviceptr memory = 0;
  const char* image = "x";  // of a module that can be loaded
  CUstream a = nullptr, b = nullptr, blocking = nullptr;
  CUevent event = nullptr, outside = nullptr;
  std::vector<CUgraph> graphs;
  std::vector<CUgraphExec> execs;
  std::string missing;  // why kernels that set conditions, or run in clusters, are not there

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

// "900 901"
inline std::string say(std::initializer_list<int> codes) {
  std::string out;
  for (int c : codes) out += (out.empty() ? "" : " ") + std::to_string(c);
  return out;
}

// What trying a fact may do to the process on a real driver.
enum class Risk {
  None,
  MayEndTheProcess,  // tried in a process of its own
  EndsTheProcess,    // not tried: `expected` is what the fake answers, docs/graph_facts.md what was seen
};

struct Fact {
  const char* name;
  const char* expected;
  std::function<std::string(World&)> observe;
  int since = 12000;
  Risk risk = Risk::None;
};

inline void PrintTo(const Fact& f, std::ostream* out) { *out << f.name; }

// By their subject.
std::vector<Fact> capture_facts();
std::vector<Fact> node_facts();
std::vector<Fact> exec_facts();
std::vector<Fact> update_facts();
std::vector<Fact> library_facts();

}  // namespace rondo::graph
