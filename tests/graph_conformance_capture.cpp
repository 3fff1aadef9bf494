// Facts: what each call answers in a capture, and what becomes of the capture.
#include "graph_conformance.h"

namespace rondo::graph {
namespace {

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

#if CUDA_VERSION >= 12030
// Captures `work` into a graph with one node: the code of the end, then that of a question to the graph.
std::string after_capture_to_a_graph(World& w, const std::function<void()>& work, bool elsewhere = false) {
  const CUgraph g = w.graph();
  w.empty_node(g);
  (void)w.d.cuStreamBeginCaptureToGraph(w.a, g, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  work();
  CUgraph back = nullptr;
  const auto end = [&] { return w.d.cuStreamEndCapture(w.a, &back); };
  const CUresult code = elsewhere ? w.elsewhere(end) : end();
  size_t count = 0;
  const CUresult there = w.d.cuGraphGetNodes(g, nullptr, &count);
  if (there != CUDA_SUCCESS) std::erase(w.graphs, g);
  return say({code, there});
}
#endif

}  // namespace

std::vector<Fact> capture_facts() {
  using W = World&;
  return {
    {"BeginOnTheLegacyStream", "900", [](W w) { return say({w.begin(nullptr)}); }},
        in_capture("BeginTwice", "401 0", [](W w) { return w.begin(w.a); }),
        {"EndWithoutBegin", "401", [](W w) { return say({w.end(w.a)}); }},
        {"EndOnTheLegacyStream", "401", [](W w) { return say({w.end(nullptr)}); }},
        in_capture("EndIntoNothing", "0 401", [](W w) { return w.d.cuStreamEndCapture(w.a, nullptr); }),
        in_capture("SynchronizeTheCapturedStream", "900 901",
                   [](W w) { return w.d.cuStreamSynchronize(w.a); }),
        in_capture(
            "SynchronizeTheCapturedStreamRelaxed", "900 901",
            [](W w) { return w.d.cuStreamSynchronize(w.a); }, kRelaxed),
        in_capture("WorkAfterItBroke", "901 901",
                   [](W w) { return (void)w.d.cuStreamSynchronize(w.a), w.work(w.a); }),
        in_capture("QueryTheCapturedStream", "900 901", [](W w) { return w.d.cuStreamQuery(w.a); }),
        in_capture("QueryAnotherStream", "900 901", [](W w) { return w.d.cuStreamQuery(w.b); }),
        in_capture("SynchronizeAnotherStream", "900 901", [](W w) { return w.d.cuStreamSynchronize(w.b); }),
        in_capture(
            "SynchronizeAnotherStreamRelaxed", "0 0", [](W w) { return w.d.cuStreamSynchronize(w.b); },
            kRelaxed),
        in_capture("SynchronizeElsewhere", "0 0",
                   [](W w) { return w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); }); }),
        in_capture(
            "SynchronizeElsewhereGlobal", "900 901",
            [](W w) { return w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); }); }, kGlobal),
        in_capture(
            "SynchronizeElsewhereRelaxed", "0 0",
            [](W w) { return w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); }); }, kRelaxed),
        {"SynchronizeElsewhereDuringABlockingCapture", "0 0",
         [](W w) {
           (void)w.begin(w.blocking);
           const CUresult code = w.elsewhere([&] { return w.d.cuStreamSynchronize(w.b); });
           return say({code, w.end(w.blocking)});
         }},
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
        // Seen; which of the two calls breaks it, the next two tell.
        in_capture("LoadAndUnloadAModule", "0 901",
                   [](W w) {
                     CUmodule m = nullptr;
                     const CUresult code = w.d.cuModuleLoadDataEx(&m, w.image, 0, nullptr, nullptr);
                     if (code == CUDA_SUCCESS) (void)w.d.cuModuleUnload(m);
                     return code;
                   }),
        {"LoadAModule", "0 0",
         [](W w) {
           CUmodule m = nullptr;
           (void)w.begin(w.a);
           const CUresult code = w.d.cuModuleLoadDataEx(&m, w.image, 0, nullptr, nullptr);
           const std::string out = say({code, w.end(w.a)});
           if (code == CUDA_SUCCESS) (void)w.d.cuModuleUnload(m);
           return out;
         }},
        {"UnloadAModule", "900 901",
         [](W w) {
           CUmodule m = nullptr;
           RONDO_CU(w.d, cuModuleLoadDataEx(&m, w.image, 0, nullptr, nullptr));
           (void)w.begin(w.a);
           const CUresult code = w.d.cuModuleUnload(m);
           const std::string out = say({code, w.end(w.a)});
           if (code != CUDA_SUCCESS) (void)w.d.cuModuleUnload(m);
           return out;
         }},
        // Load before, first look at the function and launch in the capture: modules are loaded lazily.
        {"FirstUseOfAModule", "0 0 0",
         [](W w) {
           CUmodule m = nullptr;
           CUfunction f = nullptr;
           RONDO_CU(w.d, cuModuleLoadDataEx(&m, w.image, 0, nullptr, nullptr));
           (void)w.begin(w.a);
           const CUresult found = w.d.cuModuleGetFunction(&f, m, "nop");
           const CUresult launched =
               f ? w.d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, w.a, nullptr, nullptr) : found;
           CUgraph g = nullptr;
           const std::string out = say({found, launched, w.end(w.a, &g)});
           if (g) (void)w.d.cuGraphDestroy(g), std::erase(w.graphs, g);
           (void)w.d.cuModuleUnload(m);
           return out;
         }},
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
        in_capture("WaitForAnEventNeverRecorded", "0 0",
                   [](W w) { return w.d.cuStreamWaitEvent(w.a, w.event, 0); }),
        {"WaitForAnEventOfAnEarlierCapture", "1 901",
         [](W w) {
           (void)w.begin(w.a), (void)w.d.cuEventRecord(w.event, w.a), (void)w.end(w.a);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuStreamWaitEvent(w.a, w.event, 0);
           return say({code, w.end(w.a)});
         }},
        {"ACapturedEventAfterTheCapture", "1 1",
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
        {"DestroyAnExecElsewhereGlobal", "900 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a, kGlobal);
           const CUresult code = w.elsewhere([&] { return w.d.cuGraphExecDestroy(e); });
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
        {"InstantiateDuringACapture", "900/1 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           (void)w.begin(w.a);
           const std::string answer = w.instantiate(g);
           return answer + " " + say({w.end(w.a)});
         }},
        {"InstantiateInARelaxedScope", "0/0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           CUstreamCaptureMode mode = kRelaxed;
           (void)w.begin(w.a), (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
           const std::string answer = w.instantiate(g);
           (void)w.d.cuThreadExchangeStreamCaptureMode(&mode);
           return answer + " " + say({w.end(w.a)});
         }},
        {"InstantiateElsewhereGlobal", "900/1 901",
         [](W w) {
           const CUgraph g = w.graph();
           w.empty_node(g);
           (void)w.begin(w.a, kGlobal);
           std::string answer;
           (void)w.elsewhere([&] { return answer = w.instantiate(g), CUDA_SUCCESS; });
           return answer + " " + say({w.end(w.a)});
         }},
        {"UpdateDuringACapture", "0/0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.kernel_node(g);
           const CUgraphExec e = w.exec(g);
           (void)w.begin(w.a);
           const std::string answer = w.update(e, g);
           return answer + " " + say({w.end(w.a)});
         }},
        {"SetParametersDuringACapture", "0 0",
         [](W w) {
           const CUgraph g = w.graph();
           const CUgraphNode n = w.kernel_node(g);
           const CUgraphExec e = w.exec(g);
           const CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.nop, 2, 1, 0);
           (void)w.begin(w.a);
           const CUresult code = w.d.cuGraphExecKernelNodeSetParams(e, n, &k);
           return say({code, w.end(w.a)});
         }},
        {"CloneDuringACapture", "0 0",
         [](W w) {
           const CUgraph g = w.graph();
           w.kernel_node(g);
           (void)w.begin(w.a);
           CUgraph copy = nullptr;
           const CUresult code = w.d.cuGraphClone(&copy, g);
           if (copy) w.graphs.push_back(copy);
           return say({code, w.end(w.a)});
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
        // The code of the end, then what cuGraphGetNodes answers.
        {"CaptureToAGraphThatBreaksDestroysIt", "901 1",
         [](W w) {
           return after_capture_to_a_graph(w, [&] { (void)w.work(w.a), (void)w.d.cuStreamSynchronize(w.a); });
         },
         12030},
        {"CaptureToAGraphThatIsNotJoinedDestroysIt", "904 1",
         [](W w) {
           return after_capture_to_a_graph(w, [&] {
             (void)w.work(w.a), (void)w.d.cuEventRecord(w.event, w.a);
             (void)w.d.cuStreamWaitEvent(w.b, w.event, 0), (void)w.work(w.b);
           });
         },
         12030},
        {"CaptureToAGraphThatAnotherThreadEndsDestroysIt", "908 1",
         [](W w) {
           return after_capture_to_a_graph(
               w, [&] { (void)w.work(w.a); }, true);
         },
         12030},
        {"CaptureToABodyThatBreaksDestroysTheBody", "901, body 1, graph 0, destroy 0",
         [](W w) {
           Graph owner;
           CUgraph body = owner.if_node(owner.condition(0u)).body().get();
           const CUgraph g = owner.release();
           (void)w.d.cuStreamBeginCaptureToGraph(w.a, body, nullptr, nullptr, 0,
                                                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
           (void)w.work(w.a), (void)w.d.cuStreamSynchronize(w.a);
           CUgraph back = nullptr;
           const CUresult code = w.d.cuStreamEndCapture(w.a, &back);
           size_t count = 0;
           std::string out = say({code}) + ", body " + say({w.d.cuGraphGetNodes(body, nullptr, &count)});
           out += ", graph " + say({w.d.cuGraphGetNodes(g, nullptr, &count)});
           return out + ", destroy " + say({w.d.cuGraphDestroy(g)});
         },
         12030, Risk::EndsTheProcess},
#endif
  };
}

}  // namespace rondo::graph
