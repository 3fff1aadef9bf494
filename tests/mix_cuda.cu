// CUDA run-time code as people write it, with Rondo's handles where it takes the run-time's and the other way
// round.
#include <cuda.h>
#include <cuda_runtime.h>

#include <functional>

#include "rondo/cuda_compat.h"
// After the line above on purpose: Rondo's own headers do not mind the compatibility ones.
#include "mix_cuda.h"
#include "rondo/graph.h"

namespace rg = rondo::graph;

// Both APIs name the same types, so nothing is converted.
static_assert(std::is_same_v<cudaStream_t, CUstream> && std::is_same_v<cudaEvent_t, CUevent> &&
              std::is_same_v<cudaGraph_t, CUgraph> && std::is_same_v<cudaGraphNode_t, CUgraphNode> &&
              std::is_same_v<cudaGraphExec_t, CUgraphExec> && std::is_same_v<cudaFunction_t, CUfunction>);
static_assert(std::is_convertible_v<rg::Stream, cudaStream_t> &&
              std::is_convertible_v<cudaGraph_t, rg::GraphView> &&
              std::is_convertible_v<cudaGraphNode_t, rg::NodeView> &&
              std::is_convertible_v<rg::Event, cudaEvent_t>);

namespace mix {
namespace {

__global__ void set(int* p, int value) { *p = value; }
__global__ void add(int* p, int value) { *p += value; }

#define MUST(call)                                                       \
  do {                                                                   \
    if (const cudaError_t code_ = (call); code_ != cudaSuccess)          \
      return std::string(#call " failed: ") + cudaGetErrorString(code_); \
  } while (0)

struct Word {
  Word() { (void)cudaMalloc(&p, sizeof *p); }
  ~Word() { (void)cudaFree(p); }
  // "" when it is `wanted` once the device is done.
  std::string is(int wanted) const {
    int value = 0;
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDefault));
    return value == wanted ? ""
                           : "the word is " + std::to_string(value) + ", expected " + std::to_string(wanted);
  }
  int* p = nullptr;
};

}  // namespace

std::string no_device() {
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  MUST(cudaFree(nullptr));  // its context is current from here on
  return count ? "" : "no device";
}

std::string launches_in_a_capture() {
  Word word;
  const rg::Graph g = rg::capture([&](cudaStream_t s) {
    set<<<1, 1, 0, s>>>(word.p, 40);
    add<<<1, 1, 0, s>>>(word.p, 2);
  });
  if (g.node_count() != 2) return "the graph has " + std::to_string(g.node_count()) + " nodes";
  const rg::GraphExec exec = g.instantiate();
  const rg::Stream stream = rg::Stream::create();
  exec.launch(stream);
  MUST(cudaStreamSynchronize(stream));
  return word.is(42);
}

std::string a_stream_of_the_runtime() {
  Word word;
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const rg::Stream owner = rg::Stream::adopt(stream);
  const rg::GraphExec exec = rg::capture(stream, [&] { set<<<1, 1, 0, stream>>>(word.p, 7); }).instantiate();
  MUST(cudaGraphLaunch(exec.get(), stream));
  exec.launch(stream);
  return word.is(7);
}

std::string a_graph_of_the_runtime_goes_in() {
  Word word;
  const rg::Stream stream = rg::Stream::create();
  cudaGraph_t raw = nullptr;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  set<<<1, 1, 0, stream>>>(word.p, 5);
  MUST(cudaStreamEndCapture(stream, &raw));
  rg::Graph g = rg::Graph::adopt(raw);
  cudaGraphNode_t root = nullptr, fill = nullptr;
  size_t count = 1;
  MUST(cudaGraphGetRootNodes(g.get(), &root, &count));
  const rg::NodeView node = root;
  if (node.kind() != rg::NodeKind::Kernel) return "the root is no kernel";
  cudaMemsetParams params{};
  params.dst = word.p, params.elementSize = 1, params.width = 4, params.height = 1;
  MUST(cudaGraphAddMemsetNode(&fill, g.get(), &root, 1, &params));
  size_t edges = 0;
  MUST(cudaGraphGetEdges(g.get(), nullptr, nullptr, &edges));  // as CUDA 12 writes it
  if (edges != 1) return "there are " + std::to_string(edges) + " edges";
  g.instantiate().launch(stream);
  return word.is(0);
}

std::string a_graph_goes_out() {
  Word word;
  rg::Graph g = rg::capture([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 9); });
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t error = nullptr;
  char log[64] = "";
  MUST(cudaGraphInstantiate(&exec, g.get(), &error, log, sizeof log));  // as CUDA 11 writes it
  MUST(cudaGraphLaunch(exec, nullptr));
  MUST(cudaDeviceSynchronize());
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(g.release()));
  return word.is(9);
}

std::string execs_go_both_ways() {
  Word word;
  const rg::Stream stream = rg::Stream::create();
  const rg::Graph g = rg::capture([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 1); });
  const rg::Graph other = rg::capture([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 2); });
  cudaGraphExec_t raw = nullptr;
  MUST(cudaGraphInstantiate(&raw, g.get(), 0));
  rg::GraphExec exec = rg::GraphExec::adopt(raw);
  cudaGraphNode_t error = nullptr;
  cudaGraphExecUpdateResult result;
  MUST(cudaGraphExecUpdate(exec.get(), other.get(), &error, &result));  // as CUDA 11 writes it
  exec.launch(stream);
  if (const std::string wrong = word.is(2); !wrong.empty()) return wrong;
  raw = exec.release();
  MUST(cudaGraphExecDestroy(raw));
  return "";
}

std::string a_kernel_of_this_file_as_a_node() {
  Word word;
  cudaFunction_t function = nullptr;
  MUST(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(set)));
  rg::Graph g;
  g.add(rg::kernel(function, 1, 1, 0, word.p, 11));
  rg::GraphExec exec = g.instantiate();
  exec.launch(cudaStreamPerThread);
  if (const std::string wrong = word.is(11); !wrong.empty()) return wrong;
  exec.set(g.nodes()[0], rg::kernel(function, 1, 1, 0, word.p, 12));
  exec.launch(cudaStreamPerThread);
  return word.is(12);
}

std::string events_of_the_runtime() {
  Word word;
  const rg::Stream side = rg::Stream::create();
  cudaEvent_t event = nullptr;
  MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const rg::Event owner = rg::Event::adopt(event);
  const rg::Graph g = rg::capture([&](rg::Capture& c) {
    set<<<1, 1, 0, c.stream()>>>(word.p, 1);
    (void)cudaEventRecord(event, c.stream());
    (void)cudaStreamWaitEvent(side, event, 0);
    add<<<1, 1, 0, side>>>(word.p, 2);
    c.join(side);
  });
  const rg::Stream stream = rg::Stream::create();
  g.instantiate().launch(stream);
  return word.is(3);
}

std::string a_broken_capture() {
  Word word;
  rg::use_runtime_last_error([] { return static_cast<int>(cudaGetLastError()); });
  const rg::Stream stream = rg::Stream::create();
  std::string said;
  try {
    (void)rg::capture(stream, [&] {
      void* p = nullptr;
      RONDO_GRAPH_CALL(cudaMalloc(&p, 16));
    });
  } catch (const rondo::Error& e) {
    said = e.what();
  }
  if (said.find("cudaMalloc(&p, 16)") == std::string::npos)
    return "the error does not name the call: " + said;
  if (const cudaError_t left = cudaGetLastError(); left != cudaSuccess)
    return std::string("the last error is left set: ") + cudaGetErrorString(left);
  set<<<1, 1, 0, stream>>>(word.p, 3);  // the stream takes work again
  return word.is(3);
}

std::string kernels_are_shown() {
  Word word;
  const rg::Graph g = rg::capture([&](cudaStream_t s) {
    set<<<4, 32, 64, s>>>(word.p, 42);
    (void)cudaMemsetAsync(word.p, 1, 4, s);
  });
  const std::string text = rg::json(g);
  int driver = 0;
  MUST(cudaDriverGetVersion(&driver));
  std::vector<std::string> wanted = {"\"grid\":[4,1,1]", "\"block\":[32,1,1]", "\"shared_bytes\":64",
                                     "\"bytes_moved\":4"};
  if (driver >= 12030) wanted.push_back("set(int*, int)");
  if (driver >= 12040) wanted.push_back("\"bytes\":4,\"value\":\"0x0000002a\"");
  for (const std::string& part : wanted)
    if (text.find(part) == std::string::npos) return part + " is not in " + text;
  if (text.find("attributes") != std::string::npos) return "attributes that nobody set are shown: " + text;
  const rg::Difference same = rg::compare(g, g);
  return same.same && same.in_place ? "" : same.text();
}

// Every pair of these graphs: is an exec of the one updated to the other in place, as rondo::graph::compare
// says?
std::string verdicts_hold(std::string* seen) {
  Word word, other;
  int* host = nullptr;
  MUST(cudaMallocHost(&host, sizeof *host));
  const rg::Event event = rg::Event::create(), second = rg::Event::create();
  std::vector<rg::Graph> graphs;
  const auto captured = [&](const std::function<void(cudaStream_t)>& work) {
    graphs.push_back(rg::capture(work));
  };
  captured([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 1), add<<<1, 1, 0, s>>>(word.p, 2); });
  captured([&](cudaStream_t s) { set<<<2, 8, 64, s>>>(other.p, 3), add<<<1, 1, 0, s>>>(word.p, 2); });
  captured([&](cudaStream_t s) { add<<<1, 1, 0, s>>>(word.p, 1), set<<<1, 1, 0, s>>>(word.p, 2); });
  captured([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 1), (void)cudaMemsetAsync(word.p, 1, 4, s); });
  captured([&](cudaStream_t s) { set<<<1, 1, 0, s>>>(word.p, 1), (void)cudaMemsetAsync(other.p, 2, 4, s); });
  captured([&](cudaStream_t s) {
    set<<<1, 1, 0, s>>>(word.p, 1), (void)cudaMemcpyAsync(word.p, other.p, 4, cudaMemcpyDeviceToDevice, s);
  });
  captured([&](cudaStream_t s) {
    set<<<1, 1, 0, s>>>(word.p, 1), (void)cudaMemcpyAsync(other.p, word.p, 4, cudaMemcpyDeviceToDevice, s);
  });
  captured([&](cudaStream_t s) {
    set<<<1, 1, 0, s>>>(word.p, 1), (void)cudaMemcpyAsync(host, word.p, 4, cudaMemcpyDeviceToHost, s);
  });
  captured([&](cudaStream_t s) {
    set<<<1, 1, 0, s>>>(word.p, 1), add<<<1, 1, 0, s>>>(word.p, 2), add<<<1, 1, 0, s>>>(word.p, 2);
  });
  cudaFunction_t function = nullptr;
  MUST(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(set)));
  const auto node = [&](rg::Graph& g, rg::After after) {
    return g.add(rg::kernel(function, 1, 1, 0, word.p, 1), after);
  };
  rg::Graph apart, clustered, cooperative, recorded, recorded_second, parent;
  node(apart, {}), node(apart, {});
  clustered.add(rg::kernel(function, 2, 1, 0, word.p, 1).with(rg::attribute::cluster({2})),
                node(clustered, {}));
  cooperative.add(rg::kernel(function, 1, 1, 0, word.p, 1).with(rg::attribute::cooperative()),
                  node(cooperative, {}));
  recorded.record(event, node(recorded, {}));
  recorded_second.record(second, node(recorded_second, {}));
  parent.child(apart, node(parent, {}));
  for (rg::Graph* g : {&apart, &clustered, &cooperative, &recorded, &recorded_second, &parent})
    graphs.push_back(std::move(*g));
  std::string wrong;
  size_t in_place = 0;
  for (size_t a = 0; a < graphs.size(); ++a)
    for (size_t b = 0; b < graphs.size(); ++b) {
      const rg::Difference d = rg::compare(graphs[a], graphs[b]);
      rg::GraphExec exec = graphs[a].instantiate();
      const rg::Updated updated = exec.update(graphs[b]);
      in_place += updated.ok;
      if (d.in_place != updated.ok)
        wrong += "graph " + std::to_string(a) + " to " + std::to_string(b) + ": " + d.text() +
                 " The driver: " + (updated.ok ? "updated" : updated.reason) + "\n";
    }
  *seen =
      std::to_string(graphs.size() * graphs.size()) + " pairs, " + std::to_string(in_place) + " in place\n";
  graphs.clear();
  MUST(cudaFreeHost(host));
  return wrong;
}

std::string memory_of_execs(std::string* seen) {
  Word word;
  const rg::Graph g = rg::capture([&](cudaStream_t s) {
    for (int i = 0; i < 100; ++i) add<<<1, 1, 0, s>>>(word.p, 1);
  });
  const rg::ExecMemory m = rg::measure_memory(g, 64);
  *seen = rg::describe(m) + "\n" + rg::describe(rg::graph_memory(0));
  // Others use the device too, so this bounds only nonsense: 64 execs of 100 nodes in more than 1 GiB.
  return m.execs == 64 && m.nodes == 100 && m.device_bytes < int64_t{1} << 30 ? "" : *seen;
}

}  // namespace mix
