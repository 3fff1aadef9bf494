// Executable graphs: instantiate, launch, update.
#include <thread>

#include "graph_support.h"

namespace rondo::graph {
namespace {

class Execs : public Graphs {
 protected:
  Graph chain(int nodes, uint32_t value = 1) {
    Graph g;
    NodeView last;
    for (int i = 0; i < nodes; ++i) last = g.add(add(0, value), last ? After(last) : After());
    return g;
  }
};

TEST_F(Execs, AnExecOutlivesItsGraphAndCanStillBeChangedNodeByNode) {
  NodeView node;
  std::optional<GraphExec> exec;
  {
    Graph g;
    node = g.add(store(0, 1));
    exec = g.instantiate();
  }
  exec->set(node, store(0, 2));
  exec->launch(m_.stream);
  EXPECT_EQ(word(0), 2u);
  EXPECT_EQ(exec->source().node_count(), 1u);
}

TEST_F(Execs, EveryKindIsChangedInPlace) {
  uint32_t up[2] = {1, 2}, calls = 0;
  Graph g, part, other_part;
  part.add(store(3, 1));
  other_part.add(store(3, 33));
  const Event one = Event::create(), two = Event::create();
  const NodeView k = g.add(store(0, 1)), c = g.copy(m_.word(1), static_cast<const void*>(&up[0]), 4),
                 f = g.fill(m_.word(2), 1, 1, 4), child = g.child(part), r = g.record(one), w = g.wait(one);
  const NodeView h = g.add(CUDA_HOST_NODE_PARAMS{[](void*) {}, nullptr});
  CUexternalSemaphore semaphore = reinterpret_cast<CUexternalSemaphore>(uint64_t{64});
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  const NodeView s = g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&semaphore, &signal, 1}),
                 sw = g.add(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&semaphore, &wait, 1});
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = m_.word(4);
  write.writeValue.value = 1;
  const NodeView b = g.batch({&write, 1});
  GraphExec exec = g.instantiate();
  exec.set(k, store(0, 11));
  CUDA_MEMCPY3D copy = c.memcpy();
  copy.srcHost = &up[1];
  exec.set(c, copy);
  CUDA_MEMSET_NODE_PARAMS fill = f.memset();
  fill.value = 22;
  exec.set(f, fill);
  exec.set(child, other_part);
  exec.set(r, two.get());
  exec.set(w, two.get());
  exec.set(h, CUDA_HOST_NODE_PARAMS{[](void* p) { ++*static_cast<uint32_t*>(p); }, &calls});
  exec.set(s, s.signal());
  exec.set(sw, sw.wait());
  write.writeValue.value = 44;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = b.batch();
  batch.paramArray = &write;
  exec.set(b, batch);
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 11u);
  EXPECT_EQ(word(1), 2u);
  EXPECT_EQ(word(2), 22u);
  EXPECT_EQ(word(3), 33u);
  EXPECT_EQ(word(4), 44u);
  EXPECT_EQ(calls, 1u);
}

TEST_F(Execs, ADisabledNodeDoesNothing) {
  Graph g;
  const NodeView a = g.add(add(0, 1)), b = g.add(add(0, 10), a);
  GraphExec exec = g.instantiate();
  EXPECT_TRUE(exec.enabled(a));
  exec.enable(a, false);
  EXPECT_FALSE(exec.enabled(a));
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 10u);
  exec.enable(a);
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 21u);
  (void)b;
}

TEST_F(Execs, ANodeOfAnotherGraphIsExplained) {
  const Graph g = chain(1);
  Graph other;
  const NodeView foreign = other.add(store(0, 1));
  GraphExec exec = g.instantiate();
  EXPECT_EQ(message_of([&] { exec.set(foreign, store(0, 2)); }, ErrorKind::Device),
            "cuGraphExecKernelNodeSetParams failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [kernel "
            "node store]. "
            "The node is not one of the graph that this executable graph was made from, or the change is not "
            "one that "
            "the driver makes in place (another function's context, another kind of copy). Use nodes of "
            "GraphExec::source(), and update_or_reinstantiate for larger changes");
}

TEST_F(Execs, AWholeGraphUpdateTakesTheNewParameters) {
  GraphExec exec = chain(3).instantiate();
  EXPECT_TRUE(exec.update(chain(3, 7)).ok);
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 21u);
  // Plain graphs are not asked for their attributes.
  EXPECT_EQ(m_.fake.count("cuGraphKernelNodeGetAttribute"), 0u);
}

TEST_F(Execs, ARefusedUpdateKeepsTheReasonAndTheExec) {
  GraphExec exec = chain(2).instantiate();
  const Updated updated = exec.update(chain(3));
  EXPECT_FALSE(updated);
  EXPECT_EQ(updated.code, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(updated.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(updated.reason,
            "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910): as the fake says: the topology differs. The graphs "
            "differ in "
            "their nodes or edges, or in the order of edges. Record in the same order each time, or "
            "instantiate anew "
            "(update_or_reinstantiate)");
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 2u);
}

TEST_F(Execs, ARefusedUpdateNamesTheNodeWhereTheDriverDoes) {
  Graph was, is;
  was.empty(was.fill(m_.memory, 0, 4));
  is.empty(is.add(kernel(m_.nop, 1, 1, 0)));
  GraphExec exec = was.instantiate();
  const Updated updated = exec.update(is);
  EXPECT_EQ(updated.node, is.nodes()[0]);
  EXPECT_EQ(
      updated.reason.find("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910): as the fake says: the type of a node "
                          "differs [kernel node nop]. A node is of another kind. Record"),
      0u)
      << updated.reason;
}

TEST_F(Execs, AnotherKindOfCopyIsNoUpdate) {
  static const uint32_t host = 1;
  Graph was, is;
  was.copy(m_.word(0), static_cast<const void*>(&host), 4);
  is.copy(m_.word(0), m_.word(1), 4);
  EXPECT_EQ(was.instantiate().update(is).reason,
            "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910): as the fake says: parameters differ in a way that "
            "cannot be "
            "updated [memcpy node]. A parameter or attribute of a node is not one that can be changed in "
            "place (the kind "
            "of a copy, the extent of a 2-D fill, cooperative launch, a function of another context). "
            "Instantiate anew "
            "(update_or_reinstantiate)");
}

// Codes that the fake has no cause for, given by order.
TEST_F(Execs, CodesOfTheMachineAreExplainedToo) {
  Graph g;
  const auto text_when = [&](const char* function, int code, const std::function<void()>& work) {
    m_.fake.fail_function(function, static_cast<CUresult>(code));
    const std::string text = message_of(work, ErrorKind::Device);
    m_.fake.no_faults();
    return text;
  };
  const auto add_kernel = [&] { g.add(kernel(m_.nop, 1, 1, 0)); };
  EXPECT_NE(text_when("cuGraphAddKernelNode", 98, add_kernel)
                .find("The kernel was compiled for another architecture, or its handle belongs to another "
                      "context. Compile "
                      "for this device, and look the function up in the current context"),
            std::string::npos);
  EXPECT_NE(
      text_when("cuGraphAddKernelNode", 36, add_kernel)
          .find(
              "The driver is older than this feature. Update the driver; has(Feature) tells before the call"),
      std::string::npos);
  EXPECT_NE(
      text_when("cuGraphAddEmptyNode", CUDA_ERROR_NOT_SUPPORTED, [&] { g.empty(); })
          .find("The driver or the device does not support this. Look for a limit of the node's kind in "
                "rondo/graph_build.h"),
      std::string::npos);
  const GraphExec exec = chain(1).instantiate();
  EXPECT_NE(
      text_when("cuGraphLaunch", CUDA_ERROR_TIMEOUT, [&] { exec.launch(m_.stream); })
          .find("A wait took too long; it has nothing to do with capture. Look at external semaphores and at "
                "communication with other processes"),
      std::string::npos);
}

TEST_F(Execs, AnUpdateThatIsRefusedInstantiatesAnewWhenAsked) {
  GraphExec exec = chain(2).instantiate();
  EXPECT_EQ(exec.update_or_reinstantiate(chain(2, 5)).how, UpdateHow::Updated);
  const Graph longer = chain(3, 100);
  const UpdateOutcome outcome = exec.update_or_reinstantiate(longer);
  EXPECT_EQ(outcome.how, UpdateHow::Reinstantiated);
  EXPECT_NE(outcome.reason.find("the topology differs"), std::string::npos);
  exec.set(longer.nodes()[0], add(0, 1));
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 201u);
}

TEST_F(Execs, ACycleIsNamedByANode) {
  Graph g;
  const NodeView a = g.add(store(0, 1)), b = g.fill(m_.memory, 0, 4, 1, a);
  g.connect(b, a);
  EXPECT_EQ(message_of([&] { (void)g.instantiate(); }, ErrorKind::Device),
            "cuGraphInstantiateWithParams failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [invalid "
            "structure, such "
            "as a cycle; memset node]. The structure of the graph is not valid: its edges make a cycle. "
            "Remove an edge "
            "of the cycle; Graph::edges() lists them");
}

TEST_F(Execs, AGraphWithMemoryHasOneExecAtATime) {
  Graph g;
  const Allocation a = g.alloc(64);
  g.free(a.address, a.node);
  {
    const GraphExec exec = g.instantiate();
    EXPECT_EQ(message_of([&] { (void)g.instantiate(); }, ErrorKind::Device),
              "cuGraphInstantiateWithParams failed: CUDA_ERROR_NOT_SUPPORTED (801): as the fake says [see "
              "the error "
              "code]. A graph with alloc, free, conditional or device-updatable nodes has one executable "
              "graph at a "
              "time. Destroy the first one, or update it instead");
  }
  (void)g.instantiate();
  EXPECT_NE(message_of([&] { (void)g.clone(); }, ErrorKind::Device).find("cannot be cloned"),
            std::string::npos);
}

TEST_F(Execs, UnfreedMemoryRefusesTheNextLaunchUnlessItIsFreedAutomatically) {
  Graph g;
  g.alloc(64);
  {
    const GraphExec exec = g.instantiate();
    exec.launch(m_.stream);
    EXPECT_NE(message_of([&] { exec.launch(m_.stream); }, ErrorKind::Device)
                  .find("Free it by a free node or cuMemFreeAsync before the next launch, or instantiate "
                        "with auto_free"),
              std::string::npos);
  }
  const GraphExec exec = g.instantiate({.auto_free = true});
  exec.launch(m_.stream);
  exec.launch(m_.stream);
}

TEST_F(Execs, AHostNodeInADeviceLaunchedGraphIsNamed) {
  Graph g;
  g.host([] {});
  EXPECT_EQ(
      message_of([&] { (void)g.instantiate({.device_launch = true}); }, ErrorKind::Device),
      "cuGraphInstantiateWithParams failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [a node that a "
      "device-launched graph, or a body, cannot have; host node]. A graph that kernels launch may hold "
      "kernels, "
      "copies, fills and child graphs only; the body of a condition these, empty nodes and conditions. Take "
      "the node out, or instantiate without device_launch");
}

// The driver adds it without a word, and refuses the whole graph later.
TEST_F(Execs, AHostNodeInABodyIsNamed) {
  Graph g;
  Condition c = g.if_node(g.condition(0u));
  c.body().add(CUDA_HOST_NODE_PARAMS{[](void*) {}, nullptr});
  EXPECT_NE(message_of([&] { (void)g.instantiate(); }, ErrorKind::Device)
                .find("or a body, cannot have; host node]. A graph that kernels launch may hold"),
            std::string::npos);
}

TEST_F(Execs, InstantiatingWhileTheThreadCapturesDisturbsNothing) {
  const Graph g = chain(2);
  std::optional<GraphExec> exec;
  const Graph captured = capture(m_.stream, [&] {
    launch(m_.stream, m_.store, m_.word(1), 1);
    exec = g.instantiate();
    EXPECT_EQ(exec->update_or_reinstantiate(chain(3)).how, UpdateHow::Reinstantiated);
  });
  EXPECT_EQ(captured.node_count(), 1u);
  exec->launch(m_.stream);
  EXPECT_EQ(word(0), 3u);
}

TEST_F(Execs, InstantiatingBreaksNoCaptureOfAnotherThread) {
  const Graph g = chain(1);
  const Graph captured = capture(m_.stream,
                                 [&] {
                                   launch(m_.stream, m_.store, m_.word(1), 1);
                                   std::thread([&] { (void)g.instantiate(); }).join();
                                 },
                                 {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL});
  EXPECT_EQ(captured.node_count(), 1u);
}

TEST_F(Execs, AnUploadIntoACaptureIsRefusedBeforeItBreaksIt) {
  const Graph g = chain(1);
  const Graph captured = capture(m_.stream, [&] {
    EXPECT_NE(message_of([&] { (void)g.instantiate({.upload_to = m_.stream}); }, ErrorKind::Usage)
                  .find("which is being captured: an upload is no node. Leave upload_to out, or give another "
                        "stream"),
              std::string::npos);
    launch(m_.stream, m_.store, m_.word(1), 1);
  });
  EXPECT_EQ(captured.node_count(), 1u);
}

TEST_F(Execs, AnUnusedConditionIsSaid) {
  Graph g;
  g.condition();
  EXPECT_NE(
      message_of([&] { (void)g.instantiate(); }, ErrorKind::Device)
          .find("A condition was made, and no conditional node uses it. Add its node, or do not make it"),
      std::string::npos);
}

TEST_F(Execs, FlagsThatExcludeEachOtherAreRefused) {
  const Graph g = chain(1);
  EXPECT_EQ(
      message_of([&] { (void)g.instantiate({.auto_free = true, .device_launch = true}); }, ErrorKind::Usage),
      "instantiate with auto_free and device_launch: the driver has only one of them at a time. Free the "
      "memory in "
      "the graph, or launch it from the host");
}

TEST_F(Execs, FlagsAreThoseOfTheDriver) {
  const Graph g = chain(1);
  EXPECT_EQ(g.instantiate({.node_priority = true}).flags(), 8u);
  EXPECT_EQ(g.instantiate({.auto_free = true, .upload_to = m_.stream}).flags(), 3u);
}

TEST_F(Execs, AFailedReinstantiationLeavesTheExecAsItWas) {
  GraphExec exec = chain(1).instantiate();
  const Graph longer = chain(2);
  m_.fake.fail_function("cuGraphInstantiateWithParams", CUDA_ERROR_OUT_OF_MEMORY);
  const std::string text = message_of([&] { (void)exec.update_or_reinstantiate(longer); }, ErrorKind::Device);
  EXPECT_NE(text.find("There is no memory left on the device. Destroy executable graphs that are not needed"),
            std::string::npos)
      << text;
  m_.fake.no_faults();
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 1u);
}

TEST_F(Execs, AnExecIsUsedByOneThreadAtATime) {
  const Graph g = chain(3);
  GraphExec exec = g.instantiate();
  const Graph same = chain(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        if (t == 0 && i % 10 == 0)
          EXPECT_TRUE(exec.update(same).ok);
        else
          exec.launch(m_.stream);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(m_.fake.overlaps(), 0);
  EXPECT_EQ(word(0), 3u * (800 - 20));
}

TEST_F(Execs, TheGraphOfAnAdoptedExecIsNotKnown) {
  const Graph g = chain(1);
  GraphExec exec = GraphExec::adopt(g.instantiate().release());
  EXPECT_EQ(message_of([&] { (void)exec.source(); }, ErrorKind::Usage),
            "the graph of this executable graph is not known: it was adopted, or made without keep_source. "
            "Keep the "
            "graph that it was made from");
}

TEST_F(Execs, AnAttributeIsNotChangedNodeByNode) {
  Graph g;
  const NodeView node = g.add(kernel(m_.nop, 1, 1, 0).with(attribute::priority(1)));
  GraphExec exec = g.instantiate();
  exec.set(node, kernel(m_.nop, 2, 1, 0).with(attribute::priority(1)));
  EXPECT_EQ(
      message_of([&] { exec.set(node, kernel(m_.nop, 2, 1, 0).with(attribute::priority(2))); },
                 ErrorKind::Usage),
      "attribute 8 of kernel node nop cannot be changed in an executable graph. Set it in the graph and "
      "update_or_reinstantiate");
}

TEST_F(Execs, AnExecThatWasMovedFromSaysSo) {
  GraphExec exec = chain(1).instantiate();
  const GraphExec other = std::move(exec);
  EXPECT_EQ(exec.try_launch(m_.stream), CUDA_ERROR_INVALID_HANDLE);
  for (const std::function<void()>& use : {std::function<void()>([&] { exec.launch(m_.stream); }),
                                           std::function<void()>([&] { exec.upload(m_.stream); })})
    EXPECT_EQ(message_of(use, ErrorKind::Usage),
              "this GraphExec holds no executable graph: it was moved from or released. Use the one that it "
              "was moved "
              "to");
}

TEST_F(Execs, ADeviceUpdatableNodeHasAHandleForKernelsAndRefusesUpdates) {
  Graph g, same;
  const NodeView node = g.add(kernel(m_.nop, 1, 1, 0).with(attribute::device_updatable()));
  same.add(kernel(m_.nop, 1, 1, 0).with(attribute::device_updatable()));
#if CUDA_VERSION >= 12040
  EXPECT_EQ(node.attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
                ->deviceUpdatableKernelNode.deviceUpdatable,
            1);
#endif
  GraphExec exec = g.instantiate();
  const Updated updated = exec.update(same);
  EXPECT_FALSE(updated.ok);
  EXPECT_EQ(updated.code, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(updated.result, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(
      updated.reason,
      "CUDA_ERROR_NOT_SUPPORTED (801): as the fake says: something about a node is not supported. One of "
      "the graphs has device-updatable kernel nodes, and such graphs are not updated as a whole. Change "
      "nodes by GraphExec::set or from a kernel, or instantiate anew (update_or_reinstantiate)");
  EXPECT_EQ(exec.update_or_reinstantiate(same).how, UpdateHow::Reinstantiated);
  EXPECT_THROW(g.remove(node), Error);
}

TEST_F(Execs, DestroyingAnExecWhileTheThreadCapturesDisturbsNothing) {
  std::optional<GraphExec> exec = chain(1).instantiate();
  const Graph g = capture(m_.stream, [&] {
    launch(m_.stream, m_.store, m_.word(0), 1);
    exec.reset();
  });
  EXPECT_EQ(g.node_count(), 1u);
}

}  // namespace
}  // namespace rondo::graph
