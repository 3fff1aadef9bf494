// Capture: what is recorded, how it breaks, what is left.
#include <thread>

#include "graph_support.h"

namespace rondo::graph {
namespace {

class Captures : public Graphs {
 protected:
  void set(CUstream stream, size_t word, uint32_t value) { launch(stream, m_.store, m_.word(word), value); }
  // The stream takes work, eager and captured, and nothing hangs over.
  void expect_usable(CUstream stream) {
    set(stream, 9, 1);
    EXPECT_EQ(capture(stream, [&] { set(stream, 9, 1); }).node_count(), 1u);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(d_.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(Capture::current(), nullptr);
  }
  static int last_error_;
};
int Captures::last_error_ = 0;

TEST_F(Captures, TheWorkOfAStreamBecomesAGraph) {
  const Graph g = capture(m_.stream, [&] {
    set(m_.stream, 0, 1);
    RONDO_CU(d_, cuMemcpyDtoDAsync(m_.word(1), m_.word(0), 4, m_.stream));
  });
  EXPECT_EQ(word(0), 0u) << "nothing ran yet";
  ASSERT_EQ(g.edges().size(), 1u);
  EXPECT_EQ(g.nodes()[1].kind(), NodeKind::Memcpy);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(1), 1u);
}

TEST_F(Captures, OnAStreamOfItsOwnThatIgnoresTheLegacyStream) {
  const Graph g = capture([&](CUstream stream) {
    set(stream, 0, 1);
    RONDO_CU(d_, cuMemsetD8Async(m_.word(1), 7, 1, nullptr));
  });
  EXPECT_EQ(g.node_count(), 1u);
  EXPECT_EQ(word(1), 7u);
}

TEST_F(Captures, AllocationInStreamOrderBecomesNodes) {
  const Graph g = capture(m_.stream, [&] {
    CUdeviceptr p = 0;
    RONDO_GRAPH_CALL(d_.cuMemAllocAsync(&p, 64, m_.stream));
    RONDO_GRAPH_CALL(d_.cuMemFreeAsync(p, m_.stream));
  });
  EXPECT_EQ(g.nodes()[0].kind(), NodeKind::Alloc);
  EXPECT_EQ(g.nodes()[0].alloc().dptr, g.nodes()[1].freed());
}

TEST_F(Captures, ExternalEventsBecomeNodes) {
  const Event e = Event::create();
  const Graph g = capture(m_.stream, [&] {
    e.wait_external_in(m_.stream);
    e.record_external(m_.stream);
  });
  EXPECT_EQ(g.nodes()[0].kind(), NodeKind::EventWait);
  EXPECT_EQ(g.nodes()[1].event(), e.get());
}

TEST_F(Captures, IntoAnExistingGraphAfterItsNodes) {
  Graph g;
  const NodeView first = g.add(store(0, 1));
  capture_into(g, m_.stream, first, [&] { launch(m_.stream, m_.add, m_.word(0), 4); });
  EXPECT_EQ(g.node_count(), 2u);
  EXPECT_EQ(g.edges().at(0).from, first);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 5u);
}

TEST_F(Captures, ANodeMadeByHandIsGraftedIn) {
  Graph part;
  part.add(add(0, 10));
  const Graph g = capture(m_.stream, [&](Capture& c) {
    set(c.stream(), 0, 1);
    c.graft([&](GraphView graph, After tip) { return graph.child(part, tip); });
    launch(c.stream(), m_.add, m_.word(0), 100);
  });
  ASSERT_EQ(g.edges().size(), 2u);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 111u);
}

TEST_F(Captures, ABodyOfAConditionIsCapturedInto) {
  m_.words()[0] = 3;
  Graph g;
  const ConditionHandle more = g.condition(1u);
  Condition loop = g.while_node(more);
  capture_into(loop.body(), m_.stream, {}, [&] {
    CUdeviceptr p = m_.word(0);
    ConditionHandle h = more;
    void* args[] = {&p, &h};
    RONDO_CU(d_, cuLaunchKernel(m_.count_down, 1, 1, 1, 1, 1, 1, 0, m_.stream, args, nullptr));
  });
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 0u);
}

TEST_F(Captures, ForkedStreamsJoinAgain) {
  const Stream other = Stream::create();
  const Graph g = capture(m_.stream, [&](Capture& c) {
    set(c.stream(), 0, 1);
    c.fork(other);
    set(other, 1, 2);
    set(c.stream(), 2, 3);
    c.join(other);
    set(c.stream(), 3, 4);
    EXPECT_NE(c.id(), 0u);
  });
  EXPECT_EQ(g.edges().size(), 4u);
  EXPECT_EQ(g.roots().size(), 1u);
}

TEST_F(Captures, AForkedStreamThatWasNotJoinedIsNamed) {
  const Stream other = Stream::create(), joined = Stream::create();
  const std::string text = message_of(
      [&] {
        (void)capture(m_.stream, [&](Capture& c) {
          c.fork(other);
          c.fork(joined);
          set(other, 1, 2);
          set(joined, 1, 2);
          c.join(joined);
        });
      },
      ErrorKind::Usage);
  EXPECT_EQ(text.find("the capture of stream 0x"), 0u) << text;
  char name[32];
  std::snprintf(name, sizeof name, "while stream %p had not been joined to it",
                static_cast<void*>(other.get()));
  EXPECT_NE(text.find(name), std::string::npos) << text;
  EXPECT_NE(text.find("Call Capture::join for it, or record an event in it"), std::string::npos) << text;
  expect_usable(m_.stream);
  expect_usable(other);
}

TEST_F(Captures, AWatchedStreamThatUserCodeForkedIsNamedToo) {
  const Stream other = Stream::create();
  const Event e = Event::create();
  const auto work = [&] {
    set(m_.stream, 0, 1);
    e.record(m_.stream);
    e.wait_in(other);
    set(other, 1, 2);
  };
  EXPECT_EQ(message_of([&] { (void)capture(m_.stream, work, {.watch = {other}}); }, ErrorKind::Usage)
                .find("the capture of stream 0x"),
            0u);
  // Unwatched, the driver's code is explained.
  EXPECT_NE(
      message_of([&] { (void)capture(m_.stream, work); }, ErrorKind::Device)
          .find(
              "A stream that was forked from the captured one was not joined again. Join it before the end: "
              "Capture::join(stream)"),
      std::string::npos);
  expect_usable(other);
}

TEST_F(Captures, WhatTheWorkThrowsComesOutAfterTheCleanUp) {
  struct Mine {};
  EXPECT_THROW((void)capture(m_.stream,
                             [&] {
                               set(m_.stream, 0, 1);
                               throw Mine();
                             }),
               Mine);
  expect_usable(m_.stream);
}

TEST_F(Captures, ACheckedCallThatBreaksItIsNamedWithCauseAndRemedy) {
  const std::string text = message_of(
      [&] {
        (void)capture(m_.stream, [&] {
          CUdeviceptr p = 0;
          RONDO_GRAPH_CALL(d_.cuMemAlloc(&p, 64));
        });
      },
      ErrorKind::Device);
  EXPECT_EQ(text.find("d_.cuMemAlloc_v2(&p, 64) ("), std::string::npos);
  EXPECT_EQ(text.find("d_.cuMemAlloc(&p, 64) ("), 0u) << text;
  EXPECT_NE(text.find("graph_capture.cpp:"), std::string::npos) << text;
  EXPECT_NE(
      text.find("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says [in the capture of stream 0x"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("Allocating, freeing or loading is not allowed in a capture. Do it before the capture "
                      "(run the work "
                      "once to warm up libraries); or allocate in stream order (cudaMallocAsync), which "
                      "becomes a node; or, "
                      "if it concerns no captured memory, put the call into a RelaxedScope"),
            std::string::npos)
      << text;
  expect_usable(m_.stream);
}

TEST_F(Captures, ACallThatNobodyLookedAtIsFoundBetweenCheckpoints) {
  const std::string text = message_of(
      [&] {
        (void)capture(m_.stream, [&] {
          set(m_.stream, 0, 1);
          RONDO_GRAPH_CHECKPOINT("encoder");
          (void)d_.cuStreamSynchronize(m_.stream);
          RONDO_GRAPH_CHECKPOINT("decoder");
          ADD_FAILURE() << "the checkpoint throws";
        });
      },
      ErrorKind::Device);
  EXPECT_NE(text.find(" was broken between checkpoint \"encoder\" ("), std::string::npos) << text;
  EXPECT_NE(text.find(") and checkpoint \"decoder\" ("), std::string::npos) << text;
  EXPECT_NE(text.find("Check the calls in between with RONDO_GRAPH_CALL, or set more checkpoints there"),
            std::string::npos)
      << text;
  expect_usable(m_.stream);
}

TEST_F(Captures, TheEndSaysWhatWasSeenLast) {
  const auto end_of = [&](const std::function<void()>& work) {
    return message_of([&] { (void)capture(m_.stream, work); }, ErrorKind::Device);
  };
  const std::string nothing = end_of([&] { (void)d_.cuStreamSynchronize(m_.stream); });
  EXPECT_EQ(
      nothing.find(
          "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): as the fake says [stream "
          "0x"),
      0u)
      << nothing;
  EXPECT_NE(nothing.find(
                "An earlier call has broken the capture, and nobody looked at its status; modules that were "
                "loaded and unloaded in it break it too, although the load answers success. Run with "
                "RONDO_GRAPH_WATCH=calls, which names the call and its caller; or check calls with "
                "RONDO_GRAPH_CALL(call), or find the stretch with RONDO_GRAPH_CHECKPOINT(\"name\")"),
            std::string::npos)
      << nothing;
  const std::string after = end_of([&] {
    RONDO_GRAPH_CHECKPOINT("warm");
    (void)d_.cuStreamSynchronize(m_.stream);
  });
  EXPECT_NE(after.find("; it was fine at checkpoint \"warm\" ("), std::string::npos) << after;
  const std::string swallowed = end_of([&] {
    try {
      RONDO_GRAPH_CALL(d_.cuStreamSynchronize(m_.stream));
    } catch (const Error&) {
    }
  });
  EXPECT_NE(swallowed.find(" was broken by d_.cuStreamSynchronize(m_.stream) ("), std::string::npos)
      << swallowed;
  EXPECT_NE(swallowed.find("which answered CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"), std::string::npos)
      << swallowed;
  EXPECT_NE(swallowed.find("Waiting for the GPU"), std::string::npos) << swallowed;
}

// What was seen of a real driver (LoadAndUnloadAModule): the load answers success, the capture is broken.
TEST_F(Captures, AModuleThatComesAndGoesIsThoughtOfAtTheEnd) {
  const std::string text = message_of(
      [&] {
        (void)capture(m_.stream, [&] {
          CUmodule module = nullptr;
          RONDO_GRAPH_CALL(d_.cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr));
          (void)d_.cuModuleUnload(module);
        });
      },
      ErrorKind::Device);
  EXPECT_NE(text.find("modules that were loaded and unloaded in it break it too, although the load answers "
                      "success"),
            std::string::npos)
      << text;
}

TEST_F(Captures, AnEventOfACaptureThatIsOverIsExplained) {
  const Event e = Event::create();
  (void)capture(m_.stream, [&] { e.record(m_.stream); });
  EXPECT_NE(
      message_of([&] { e.wait_in(m_.stream); }, ErrorKind::Device)
          .find("The event was last recorded in a capture that is over, and stands for nothing now. Record "
                "it again in a stream, or record it as an external event (Event::record_external, "
                "cudaEventRecordExternal)"),
      std::string::npos);
  e.record(m_.stream);
  e.wait_in(m_.stream);
}

TEST_F(Captures, ACheckpointOutsideOfACaptureDoesNothing) {
  const long calls = m_.fake.calls();
  RONDO_GRAPH_CHECKPOINT("anywhere");
  EXPECT_EQ(m_.fake.calls(), calls);
}

TEST_F(Captures, ACheckedCallOutsideOfACaptureIsNamedToo) {
  EXPECT_EQ(message_of(
                [&] { RONDO_GRAPH_CALL(d_.cuStreamSynchronize(reinterpret_cast<CUstream>(uint64_t{8192}))); },
                ErrorKind::Device)
                .find("d_.cuStreamSynchronize("),
            0u);
}

TEST_F(Captures, TheLegacyStreamIsRefused) {
  EXPECT_EQ(
      message_of([&] { (void)capture(static_cast<CUstream>(nullptr), [] {}); }, ErrorKind::Usage),
      "the legacy (NULL) stream cannot be captured. Capture on a stream of your own: Stream::create() or "
      "cudaStreamCreateWithFlags(.., cudaStreamNonBlocking)");
}

TEST_F(Captures, AStreamThatIsCapturedAlreadyIsExplained) {
  const Graph g = capture(m_.stream, [&] {
    EXPECT_NE(message_of([&] { (void)capture(m_.stream, [] {}); }, ErrorKind::Device)
                  .find("The stream is being captured already. End the other capture first"),
              std::string::npos);
    set(m_.stream, 0, 1);
  });
  EXPECT_EQ(g.node_count(), 1u);
}

TEST_F(Captures, CapturesOfAThreadNest) {
  std::optional<Graph> inner;
  const Graph outer = capture(m_.stream, [&](Capture& c) {
    set(m_.stream, 0, 1);
    inner = capture([&](Capture& i) {
      EXPECT_EQ(Capture::current(), &i);
      set(i.stream(), 1, 1);
    });
    EXPECT_EQ(Capture::current(), &c);
  });
  EXPECT_EQ(outer.node_count(), 1u);
  EXPECT_EQ(inner->node_count(), 1u);
}

TEST_F(Captures, AnEmptyGraphIsRefusedWhenAsked) {
  EXPECT_EQ(capture(m_.stream, [] {}).node_count(), 0u);
  EXPECT_NE(message_of([&] { (void)capture(m_.stream, [] {}, {.refuse_empty = true}); }, ErrorKind::Usage)
                .find("recorded nothing. Put the work into that stream (or one forked from it), or leave "
                      "refuse_empty off"),
            std::string::npos);
}

TEST_F(Captures, ARelaxedScopeLetsALibraryAllocate) {
  const Graph g = capture(m_.stream, [&] {
    CUdeviceptr p = 0;
    {
      const RelaxedScope relaxed;
      RONDO_GRAPH_CALL(d_.cuMemAlloc(&p, 64));
      RONDO_GRAPH_CALL(d_.cuMemFree(p));
    }
    set(m_.stream, 0, 1);
  });
  EXPECT_EQ(g.node_count(), 1u);
  expect_usable(m_.stream);
}

TEST_F(Captures, OtherThreadsAreNotDisturbedUnlessTheModeIsGlobal) {
  const auto allocate_elsewhere = [&] {
    CUresult code = CUDA_SUCCESS;
    std::thread([&] {
      CUdeviceptr p = 0;
      code = d_.cuMemAlloc(&p, 64);
      if (code == CUDA_SUCCESS) (void)d_.cuMemFree(p);
    }).join();
    return code;
  };
  (void)capture(m_.stream, [&] { EXPECT_EQ(allocate_elsewhere(), CUDA_SUCCESS); });
  EXPECT_NE(message_of(
                [&] {
                  (void)capture(
                      m_.stream,
                      [&] { EXPECT_EQ(allocate_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); },
                      {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL});
                },
                ErrorKind::Device)
                .find("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"),
            std::string::npos);
}

TEST_F(Captures, AFailedCaptureLeavesTheLastErrorOfTheRuntimeClear) {
  use_runtime_last_error([] { return std::exchange(last_error_, 0); });
  EXPECT_THROW((void)capture(m_.stream,
                             [&] {
                               last_error_ = d_.cuStreamSynchronize(m_.stream);
                               RONDO_GRAPH_CALL(last_error_);
                             }),
               Error);
  EXPECT_EQ(last_error_, 0);
  last_error_ = 5;  // not ours
  (void)capture(m_.stream, [&] { set(m_.stream, 0, 1); });
  EXPECT_EQ(last_error_, 5);
  use_runtime_last_error(nullptr);
  last_error_ = 0;
}

TEST_F(Captures, ACaptureThatIsDroppedIsEnded) {
  {
    Capture c(m_.stream);
    set(m_.stream, 0, 1);
  }
  expect_usable(m_.stream);
}

TEST_F(Captures, ACaptureEndsOnce) {
  Capture c(m_.stream);
  (void)c.end();
  EXPECT_EQ(message_of([&] { (void)c.end(); }, ErrorKind::Usage),
            "the capture has ended already. Call end() or finish() once, and last");
}

TEST_F(Captures, ACaptureIntoAGraphGivesNoGraphOfItsOwn) {
  Graph g;
  Capture c(m_.stream, g, {});
  EXPECT_EQ(message_of([&] { (void)c.end(); }, ErrorKind::Usage),
            "a capture into an existing graph is ended by finish(); the nodes are in that graph");
  c.finish();
}

TEST_F(Captures, AnEndOnAnotherThreadIsExplained) {
  Capture c(m_.stream);
  std::string text;
  std::thread([&] { text = message_of([&] { (void)c.end(); }, ErrorKind::Device); }).join();
  EXPECT_NE(
      text.find(
          "The capture was ended on another thread than the one that began it; it is over. End it on its own "
          "thread, or begin it with CU_STREAM_CAPTURE_MODE_RELAXED"),
      std::string::npos)
      << text;
}

// One cause each, as user code meets it, with the remedy that the table gives.
struct Broken {
  const char* name;
  const char* text;  // of the call
  std::function<CUresult(Machine&, CUstream other, CUevent event)> call;
  int code;
  const char* cause;
  const char* remedy;
};
void PrintTo(const Broken& b, std::ostream* out) { *out << b.name; }
class BrokenBy : public testing::TestWithParam<Broken> {};

TEST_P(BrokenBy, IsExplainedAndTheStreamGoesOn) {
  Machine m;
  const Stream other = Stream::create();
  const Event event = Event::create(), before = Event::create();
  before.record(m.stream);
  const Broken& b = GetParam();
  const std::string text = message_of(
      [&] {
        (void)capture(m.stream, [&] {
          const CUresult code = b.call(m, other, std::string(b.name) == "Isolation" ? before : event);
          check_call(code, b.text, __FILE__, __LINE__);
        });
      },
      ErrorKind::Device);
  EXPECT_EQ(text.find(b.text), 0u) << text;
  EXPECT_NE(text.find("(" + std::to_string(b.code) + ")"), std::string::npos) << text;
  EXPECT_NE(text.find(b.cause), std::string::npos) << text;
  EXPECT_NE(text.find(b.remedy), std::string::npos) << text;
  EXPECT_EQ(capture(m.stream, [&] { (void)m.d.cuMemsetD8Async(m.memory, 0, 4, m.stream); }).node_count(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, BrokenBy,
    testing::Values(Broken{"Synchronize", "cudaStreamSynchronize(stream)",
                           [](Machine& m, CUstream, CUevent) { return m.d.cuStreamSynchronize(m.stream); },
                           900, "Waiting for the GPU", "Move the call after the capture"},
                    Broken{"SynchronizeOther", "cudaStreamSynchronize(other)",
                           [](Machine& m, CUstream other, CUevent) { return m.d.cuStreamSynchronize(other); },
                           900, "also for a stream that is not captured", "or split the region there"},
                    Broken{"QueryOther", "cudaStreamQuery(other)",
                           [](Machine& m, CUstream other, CUevent) { return m.d.cuStreamQuery(other); }, 900,
                           "or asking how far it is", "Move the call after the capture"},
                    Broken{"ModuleUnload", "cuModuleUnload(module)",
                           [](Machine& m, CUstream, CUevent) {
                             CUmodule module = nullptr;
                             (void)m.d.cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr);
                             return m.d.cuModuleUnload(module);
                           },
                           900, "Allocating, freeing or loading is not allowed in a capture", "RelaxedScope"},
                    Broken{"Launch", "cudaGraphLaunch(exec, stream)",
                           [](Machine& m, CUstream, CUevent) {
                             Graph g;
                             g.empty();
                             return g.instantiate().try_launch(m.stream);
                           },
                           900, "trying has broken the capture", "Add the graph as a child node instead"},
                    Broken{"CapturedEvent", "cudaEventQuery(event)",
                           [](Machine& m, CUstream, CUevent event) {
                             (void)m.d.cuEventRecord(event, m.stream);
                             return m.d.cuEventQuery(event);
                           },
                           907, "stands for a point of the graph", "Event::record_external"},
                    Broken{"Isolation", "cudaStreamWaitEvent(stream, event)",
                           [](Machine& m, CUstream, CUevent event) {
                             return m.d.cuStreamWaitEvent(m.stream, event, 0);
                           },
                           905, "recorded outside of the capture", "Event::wait_external_in"},
                    Broken{"EventOfAnEarlierCapture", "cudaStreamWaitEvent(stream, event)",
                           [](Machine& m, CUstream other, CUevent event) {
                             (void)capture(other, [&] { (void)m.d.cuEventRecord(event, other); });
                             return m.d.cuStreamWaitEvent(m.stream, event, 0);
                           },
                           1, "recorded in a capture that is over", "Record it again"},
                    Broken{"Merge", "cudaStreamWaitEvent(other, event)",
                           [](Machine& m, CUstream other, CUevent event) {
                             const Capture second(other);
                             (void)m.d.cuEventRecord(event, m.stream);
                             return m.d.cuStreamWaitEvent(other, event, 0);
                           },
                           902, "would merge the two; both are broken", "Capture::fork and join"},
                    Broken{"Unmatched", "cudaStreamEndCapture(other, &graph)",
                           [](Machine& m, CUstream other, CUevent event) {
                             CUgraph g = nullptr;
                             (void)m.d.cuEventRecord(event, m.stream);
                             (void)m.d.cuStreamWaitEvent(other, event, 0);
                             return m.d.cuStreamEndCapture(other, &g);
                           },
                           903, "not in the one where it began", "End it in the stream of its begin"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Captures, AnInnocentThreadIsToldThatAGlobalCaptureIsToBlame) {
  std::string text;
  EXPECT_THROW((void)capture(m_.stream,
                             [&] {
                               std::thread([&] {
                                 CUdeviceptr p = 0;
                                 text = message_of([&] { RONDO_GRAPH_CALL(d_.cuMemAlloc(&p, 64)); },
                                                   ErrorKind::Device);
                               }).join();
                             },
                             {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL}),
               Error);
  EXPECT_NE(text.find("The call is not allowed while a stream is being captured, on this thread or, by a "
                      "capture in global "
                      "mode, on another one. Make it outside of the capture, capture in thread-local mode, "
                      "or put the call "
                      "into a RelaxedScope"),
            std::string::npos)
      << text;
}

TEST_F(Captures, ACaptureThatSomeoneElseHasEndedIsExplained) {
  Capture c(m_.stream);
  CUgraph stolen = nullptr;
  RONDO_CU(d_, cuStreamEndCapture(m_.stream, &stolen));
  const Graph owner = Graph::adopt(stolen);
  const std::string text = message_of([&] { (void)c.end(); }, ErrorKind::Device);
  EXPECT_NE(
      text.find("The stream is not being captured: someone else has ended the capture. Leave the end to "
                "Capture::end()"),
      std::string::npos)
      << text;
}

TEST_F(Captures, TheLegacyStreamAgainstABlockingCaptureIsExplained) {
  CUstream blocking = nullptr;
  RONDO_CU(d_, cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  const Stream owner = Stream::adopt(blocking);
  const std::string text = message_of(
      [&] {
        (void)capture(blocking, [&] { RONDO_GRAPH_CALL(d_.cuMemsetD8Async(m_.memory, 0, 4, nullptr)); });
      },
      ErrorKind::Device);
  EXPECT_NE(text.find("Plain cudaMemcpy and cudaMemset use that stream too. Capture on a non-blocking stream "
                      "(Stream::create()), or compile with --default-stream per-thread"),
            std::string::npos)
      << text;
  expect_usable(blocking);
}

TEST_F(Captures, LaunchingAGraphIntoACaptureSaysWhatToDoInstead) {
  Graph inner;
  inner.empty();
  const GraphExec exec = inner.instantiate();
  const std::string text =
      message_of([&] { (void)capture(m_.stream, [&] { exec.launch(m_.stream); }); }, ErrorKind::Device);
  EXPECT_EQ(
      text.find(
          "cuGraphLaunch failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): as the fake says [stream 0x"),
      0u)
      << text;
  EXPECT_NE(text.find("Add the graph as a child node instead, Capture::graft("), std::string::npos) << text;
  expect_usable(m_.stream);
}

}  // namespace
}  // namespace rondo::graph
