// Graphs node by node: every kind, edges, parameters, attributes, lifetimes.
#include "graph_support.h"
#include "rondo/base/trace.h"

namespace rondo::graph {
namespace {

TEST_F(Graphs, KernelsRunInTheOrderOfTheirEdges) {
  Graph g;
  const NodeView last = g.add(add(0, 5));
  const NodeView first = g.add(store(0, 10));
  g.connect(first, last);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 15u);
}

TEST_F(Graphs, ANodeMayWaitForManyNodes) {
  Graph g;
  std::vector<NodeView> many;
  for (int i = 0; i < 12; ++i) many.push_back(g.empty());  // more than are kept without memory of their own
  EXPECT_EQ(g.empty(many).dependencies(), many);
  EXPECT_EQ(g.empty(std::span<const NodeView>(many).subspan(10)).dependencies().size(), 2u);
  while (many.size() < 1100) many.push_back(g.empty());  // more than there is room for on the stack
  EXPECT_EQ(g.empty(many).dependencies(), many);
  EXPECT_EQ(g.add(add(0, 1), many).dependencies(), many);
}

TEST_F(Graphs, ANodeMayWaitForHandles) {
  Graph g;
  std::vector<NodeView> nodes;
  std::vector<CUgraphNode> handles;
  for (int i = 0; i < 12; ++i) {
    nodes.push_back(i == 0 ? g.add(store(0, 1)) : g.add(add(0, 1), std::span<const CUgraphNode>(handles)));
    EXPECT_EQ(nodes.back().dependencies(), std::vector<NodeView>(nodes.begin(), nodes.end() - 1));
    handles.push_back(nodes.back().get());
  }
  const After after(handles);
  EXPECT_EQ(after.handles().data(), handles.data());
  EXPECT_TRUE(after.list().empty() && after.nodes().empty());
  EXPECT_EQ(g.empty(handles).dependencies(), nodes);
  EXPECT_EQ(g.fill(m_.word(1), 5, 1, 4, handles).dependencies(), nodes);
  EXPECT_TRUE(g.empty(std::vector<CUgraphNode>()).dependencies().empty());
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 12u);
  EXPECT_EQ(word(1), 5u);
}

TEST_F(Graphs, ManyEdgesMayCarryData) {
  Graph g;
  std::vector<Dependency> list;
  for (int i = 0; i < 12; ++i) list.emplace_back(g.add(store(0, 1)), i % 2 ? kProgrammatic : kFull);
  const NodeView last = g.add(add(0, 1), list);
  const std::vector<Edge> edges = g.edges();
  ASSERT_EQ(edges.size(), list.size());
  for (const Edge& edge : edges) {
    EXPECT_EQ(edge.to, last);
    const auto of = std::find_if(list.begin(), list.end(), [&](auto& d) { return d.node == edge.from; });
    ASSERT_NE(of, list.end());
    EXPECT_EQ(edge.data, of->data);
  }
}

TEST_F(Graphs, ArgumentsAreCopiedWhenTheNodeIsAdded) {
  Graph g;
  {
    auto call = store(0, 7);
    g.add(call);
    call.arg<1>() = 8;
  }
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 7u);
}

TEST_F(Graphs, EveryKindOfNodeIsWhatItWasAddedAs) {
  Graph g, part;
  part.add(store(0, 1));
  const Event event = Event::create();
  char host[16] = {};
  const NodeView k = g.add(kernel(m_.nop, 1, 1, 0));
  EXPECT_EQ(k.kind(), NodeKind::Kernel);
  EXPECT_EQ(g.copy(m_.word(1), m_.word(0), 4, k).kind(), NodeKind::Memcpy);
  EXPECT_EQ(g.copy(m_.word(1), static_cast<const void*>(host), 4).kind(), NodeKind::Memcpy);
  EXPECT_EQ(g.copy(static_cast<void*>(host), m_.word(1), 4).kind(), NodeKind::Memcpy);
  EXPECT_EQ(g.copy(static_cast<void*>(host), static_cast<const void*>(host + 8), 4).kind(), NodeKind::Memcpy);
  EXPECT_EQ(g.fill(m_.word(2), 1, 4).kind(), NodeKind::Memset);
  EXPECT_EQ(g.host([] {}).kind(), NodeKind::Host);
  EXPECT_EQ(g.child(part).kind(), NodeKind::Child);
  EXPECT_EQ(g.empty().kind(), NodeKind::Empty);
  EXPECT_EQ(g.record(event).kind(), NodeKind::EventRecord);
  EXPECT_EQ(g.wait(event).kind(), NodeKind::EventWait);
  CUexternalSemaphore semaphore = reinterpret_cast<CUexternalSemaphore>(uint64_t{64});
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  EXPECT_EQ(g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&semaphore, &signal, 1}).kind(), NodeKind::SemaphoreSignal);
  EXPECT_EQ(g.add(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&semaphore, &wait, 1}).kind(), NodeKind::SemaphoreWait);
  const Allocation a = g.alloc(64);
  EXPECT_EQ(a.node.kind(), NodeKind::Alloc);
  EXPECT_EQ(g.free(a.address, a.node).kind(), NodeKind::Free);
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = m_.word(3);
  write.writeValue.value = 9;
  EXPECT_EQ(g.batch({&write, 1}).kind(), NodeKind::BatchMemOp);
  EXPECT_EQ(g.if_node(g.condition()).node.kind(), NodeKind::Conditional);
  EXPECT_EQ(g.node_count(), 17u);
  EXPECT_EQ(g.nodes().size(), 17u);
  EXPECT_EQ(g.nodes()[0], k);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(3), 9u);
}

TEST_F(Graphs, CopiesAndFillsMoveBytes) {
  uint32_t up = 42, down = 0;
  Graph g;
  const NodeView a = g.copy(m_.word(0), static_cast<const void*>(&up), 4);
  const NodeView b = g.copy(m_.word(1), m_.word(0), 4, a);
  g.copy(static_cast<void*>(&down), m_.word(1), 4, b);
  g.fill(m_.word(4), 0x01020304, 3, 4);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(down, 42u);
  EXPECT_EQ(word(6), 0x01020304u);
  EXPECT_EQ(word(7), 0u);
}

TEST_F(Graphs, ACopyOfRowsTakesThePitches) {
  const unsigned char from[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = CU_MEMORYTYPE_HOST, p.srcHost = from, p.srcPitch = 4, p.srcHeight = 2;
  p.dstMemoryType = CU_MEMORYTYPE_DEVICE, p.dstDevice = m_.memory, p.dstPitch = 8, p.dstHeight = 2;
  p.WidthInBytes = 2, p.Height = 2, p.Depth = 1;
  Graph g;
  const NodeView node = g.add(p);
  EXPECT_EQ(node.memcpy().Height, 2u);
  g.instantiate().launch(m_.stream);
  const auto* bytes = reinterpret_cast<const unsigned char*>(m_.memory);
  EXPECT_EQ(bytes[1], 2);
  EXPECT_EQ(bytes[2], 0);
  EXPECT_EQ(bytes[9], 6);
}

TEST_F(Graphs, AHostFunctionLivesAsLongAsTheGraphAndItsExecs) {
  auto counter = std::make_shared<int>(0);
  std::weak_ptr<int> alive = counter;
  {
    std::optional<GraphExec> exec;
    {
      Graph g;
      g.host([counter] { ++*counter; });
      exec = g.instantiate();
      counter.reset();
    }
    exec->launch(m_.stream);
    exec->launch(m_.stream);
    ASSERT_FALSE(alive.expired());
    EXPECT_EQ(*alive.lock(), 2);
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(Graphs, WhatAHostFunctionThrowsIsANoteOfTheTrace) {
  auto sink = std::make_shared<trace::MemorySink>();
  const trace::Attached attached = trace::attach(sink);
  Graph g;
  g.host([] { throw std::runtime_error("no paper"); });
  g.instantiate().launch(m_.stream);
  const auto notes = sink->events("graph.host");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].text, "a host node threw: no paper");
}

TEST_F(Graphs, AKeptObjectGoesWithTheLastOfGraphCloneAndExec) {
  auto object = std::make_shared<int>(1);
  std::weak_ptr<int> alive = object;
  std::optional<Graph> clone;
  std::optional<GraphExec> exec;
  {
    Graph g;
    g.empty();
    g.keep(std::move(object));
    clone = g.clone();
    exec = clone->instantiate();
  }
  EXPECT_FALSE(alive.expired());
  clone.reset();
  EXPECT_FALSE(alive.expired());
  exec.reset();
  EXPECT_TRUE(alive.expired());
}

// A driver of CUDA 13.0 ends the process when it is asked.
TEST_F(Graphs, AGraphIsNoChildOfItselfAndNoPartOfItselfEither) {
  Graph g, part;
  part.empty();
  const GraphView inner = g.child(part).child();
  Condition loop = g.while_node(g.condition());
  const size_t asked = m_.fake.count("cuGraphAddChildGraphNode") + m_.fake.count("cuGraphAddNode");
  const char* itself =
      "a graph cannot be a child of itself. Clone it, and make the clone a child: Graph copy = "
      "graph.clone(); graph.child(copy)";
  EXPECT_EQ(message_of([&] { g.child(g); }, ErrorKind::Usage), itself);
  EXPECT_EQ(message_of([&] { g.child(std::move(g)); }, ErrorKind::Usage), itself);
  const char* parts =
      "a graph and its parts (bodies, children) cannot be children of each other. Clone the part, and make "
      "the clone a child: Graph copy = part.clone(); graph.child(copy)";
  EXPECT_EQ(message_of([&] { loop.body().child(g); }, ErrorKind::Usage), parts);
  EXPECT_EQ(message_of([&] { g.child(inner); }, ErrorKind::Usage), parts);
  EXPECT_EQ(m_.fake.count("cuGraphAddChildGraphNode") + m_.fake.count("cuGraphAddNode"), asked);
  g.child(part);  // and g is as it was
}

TEST_F(Graphs, AGraphIsNoChildOfWhatWasMovedIntoIt) {
  Graph g, part;
  part.empty();
  GraphView view = part;
  g.child(std::move(part));
  EXPECT_EQ(message_of([&] { view.child(g); }, ErrorKind::Usage).find("a graph and its parts"), 0u);
}

TEST_F(Graphs, AChildIsACopyOfTheGraph) {
  Graph part;
  const NodeView inner = part.add(add(0, 1));
  Graph g;
  const NodeView child = g.child(part);
  inner.set(add(0, 100));
  EXPECT_EQ(child.child().node_count(), 1u);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 1u);
}

TEST_F(Graphs, AMovedChildKeepsItsNodesAndMayAllocate) {
  Graph part;
  const Allocation a = part.alloc(64);
  part.free(a.address, a.node);
  Graph g;
  EXPECT_EQ(message_of([&] { g.child(part); }, ErrorKind::Device).find("cuGraphAddChildGraphNode failed: "),
            0u);
  const NodeView child = g.child(std::move(part));
  EXPECT_EQ(child.child().nodes()[0], a.node);
  EXPECT_EQ(a.node.kind(), NodeKind::Alloc);
  g.instantiate().launch(m_.stream);
}

TEST_F(Graphs, EdgesCarryTheirData) {
  Graph g;
  const NodeView a = g.add(kernel(m_.nop, 1, 1, 0)), b = g.add(kernel(m_.nop, 1, 1, 0), {{a, kProgrammatic}});
  const NodeView c = g.empty({b, {a, kLaunchOrder}});
  const auto edges = g.edges();
  ASSERT_EQ(edges.size(), 3u);
  EXPECT_EQ(edges[0].to, b);
  EXPECT_EQ(name(edges[0].data), "programmatic");
  EXPECT_EQ(name(edges[1].data), "full");
  EXPECT_EQ(name(edges[2].data), "launch order");
  EXPECT_EQ(c.dependencies(), (std::vector<NodeView>{b, a}));
  EXPECT_EQ(a.dependents(), (std::vector<NodeView>{b, c}));
  EXPECT_EQ(g.roots(), std::vector<NodeView>{a});
  g.disconnect(a, b, kProgrammatic);
  g.connect(a, b);
  EXPECT_EQ(name(g.edges()[0].data), "full");
  EXPECT_EQ(name(EdgeData{3, 0, 1}), "port 3 to port 0, type 1");
}

TEST_F(Graphs, AWrongEdgeNamesBothNodes) {
  Graph g;
  const NodeView a = g.fill(m_.memory, 0, 4), b = g.add(kernel(m_.nop, 1, 1, 0));
  EXPECT_EQ(message_of([&] { g.connect(a, b, kProgrammatic); }, ErrorKind::Device),
            "cuGraphAddDependencies failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [from memset node "
            "to kernel "
            "node nop]");
}

TEST_F(Graphs, MoreDependenciesThanFitInPlaceAreTakenToo) {
  Graph g;
  std::vector<Dependency> all;
  for (int i = 0; i < 20; ++i) all.emplace_back(g.add(add(0, 1)));
  g.copy(m_.word(1), m_.word(0), 4, all);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(1), 20u);
}

TEST_F(Graphs, ParametersAreReadAndChangedInTheGraph) {
  Graph g;
  const NodeView k = g.add(store(0, 1)), f = g.fill(m_.word(1), 2, 1, 4),
                 c = g.copy(m_.word(2), m_.word(1), 4, f);
  EXPECT_EQ(k.kernel().gridDimX, 1u);
  EXPECT_EQ(f.memset().value, 2u);
  EXPECT_EQ(c.memcpy().WidthInBytes, 4u);
  k.set(store(0, 11));
  CUDA_MEMSET_NODE_PARAMS fill = f.memset();
  fill.value = 22;
  f.set(fill);
  CUDA_MEMCPY3D copy = c.memcpy();
  copy.dstDevice = m_.word(3);
  c.set(copy);
  const Event one = Event::create(), two = Event::create();
  const NodeView r = g.record(one), w = g.wait(one);
  r.set(two.get());
  w.set(two.get());
  EXPECT_EQ(r.event(), two.get());
  EXPECT_EQ(w.event(), two.get());
  static int calls = 0;
  CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
  const NodeView h = g.add(host);
  host.fn = [](void*) { ++calls; };
  h.set(host);
  EXPECT_EQ(h.host().fn, host.fn);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 11u);
  EXPECT_EQ(word(3), 22u);
  EXPECT_EQ(calls, 1);
}

TEST_F(Graphs, AQuestionToTheWrongKindOfNodeNamesBothKinds) {
  Graph g;
  const NodeView node = g.fill(m_.memory, 0, 4);
  EXPECT_EQ(message_of([&] { (void)node.kernel(); }, ErrorKind::Usage),
            "kernel parameters of a node of kind memset: expected kind kernel. Ask NodeView::kind() first");
  EXPECT_EQ(message_of([&] { (void)node.event(); }, ErrorKind::Usage),
            "the event of a node of kind memset: expected kind event wait. Ask NodeView::kind() first");
}

TEST_F(Graphs, AttributesOfAKernelAreSetReadAndCopied) {
  Graph g;
  const NodeView a =
      g.add(kernel(m_.nop, 4, 1, 0).with(attribute::priority(-2)).with(attribute::cluster({2})));
  const NodeView b = g.add(kernel(m_.nop, 4, 1, 0));
  EXPECT_EQ(a.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY)->priority, -2);
  EXPECT_EQ(a.attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)->clusterDim.x, 2u);
  EXPECT_EQ(b.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY)->priority, 0);
  b.copy_attributes_from(a);
  EXPECT_EQ(b.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY)->priority, -2);
  b.set(attribute::cooperative());
  EXPECT_EQ(b.attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE)->cooperative, 1);
}

TEST_F(Graphs, AFailedAttributeLeavesNoNodeBehind) {
  Graph g;
  m_.fake.fail_function("cuGraphKernelNodeSetAttribute", CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      message_of([&] { g.add(kernel(m_.nop, 1, 1, 0).with(attribute::priority(3))); }, ErrorKind::Device),
      "cuGraphKernelNodeSetAttribute failed: CUDA_ERROR_INVALID_VALUE (1): as the fake says [attribute 8 of "
      "kernel node nop]");
  EXPECT_EQ(g.node_count(), 0u);
}

TEST_F(Graphs, ARemovedNodeTakesItsEdgesAlong) {
  Graph g;
  const NodeView a = g.empty(), b = g.empty(a);
  g.empty(b);
  g.remove(b);
  EXPECT_EQ(g.node_count(), 2u);
  EXPECT_TRUE(g.edges().empty());
}

TEST_F(Graphs, ACloneHasItsOwnNodes) {
  Graph g;
  const NodeView node = g.add(store(0, 1));
  const Graph copy = g.clone();
  const NodeView twin = copy.find_in_clone(node);
  EXPECT_NE(twin.get(), node.get());
  twin.set(store(0, 2));
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 1u);
  copy.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 2u);
}

TEST_F(Graphs, AWhileLoopRunsUntilItsConditionIsZero) {
  m_.words()[0] = 5;
  Graph g;
  const ConditionHandle more = g.condition(1u);
  Condition loop = g.while_node(more);
  const NodeView step = loop.body().add(add(1, 1));
  loop.body().add(kernel(m_.count_down, 1, 1, 0, m_.word(0), more), step);
  g.instantiate().launch(m_.stream);
  EXPECT_EQ(word(0), 0u);
  EXPECT_EQ(word(1), 5u);
  ASSERT_TRUE(loop.node.condition());
  EXPECT_EQ(loop.node.condition()->kind, ConditionKind::While);
  EXPECT_EQ(loop.node.condition()->bodies.at(0).node_count(), 2u);
}

TEST_F(Graphs, ABranchRunsTheBodyThatItsConditionSelects) {
  for (uint32_t value : {0u, 1u, 2u, 7u}) {
    m_.words()[0] = value;
    m_.words()[1] = m_.words()[2] = m_.words()[3] = 0;
    Graph g;
    const ConditionHandle h = g.condition();
    const NodeView set = g.add(kernel(m_.choose, 1, 1, 0, m_.word(0), h));
    g.if_node(h, set).body().add(store(1, 1));
    Condition either = g.if_else_node(h, set);
    either.body(0).add(store(2, 1));
    either.body(1).add(store(2, 2));
    Condition one_of = g.switch_node(h, 3, set);
    for (unsigned i = 0; i < 3; ++i) one_of.body(i).add(store(3, 10 + i));
    g.instantiate().launch(m_.stream);
    EXPECT_EQ(word(1), value ? 1u : 0u);
    EXPECT_EQ(word(2), value ? 1u : 2u);
    EXPECT_EQ(word(3), value < 3 ? 10 + value : 0u);
  }
}

TEST_F(Graphs, ASwitchWithoutCasesIsRefused) {
  Graph g;
  EXPECT_EQ(message_of([&] { g.switch_node(g.condition(), 0); }, ErrorKind::Usage),
            "a switch node has no case: expected one or more. Give the number of bodies");
}

TEST_F(Graphs, RawHandlesGoInAndOut) {
  CUgraph raw = nullptr;
  RONDO_CU(d_, cuGraphCreate(&raw, 0));
  {
    GraphView borrowed = raw;
    borrowed.add(store(0, 3));
  }
  Graph g = Graph::adopt(raw);
  EXPECT_EQ(g.get(), raw);
  GraphExec exec = g.instantiate();
  RONDO_CU(d_, cuGraphLaunch(exec.get(), m_.stream));
  EXPECT_EQ(word(0), 3u);
  EXPECT_EQ(g.release(), raw);
  RONDO_CU(d_, cuGraphDestroy(raw));
  const CUgraphExec raw_exec = exec.release();
  GraphExec::adopt(raw_exec).launch(m_.stream);
  Stream mine = Stream::create();
  EXPECT_TRUE(mine.owned());
  EXPECT_FALSE(Stream::borrow(m_.stream).owned());
  EXPECT_TRUE(Stream::adopt(mine.release()).owned());
  EXPECT_TRUE(Event::adopt(Event::create().release()).get() != nullptr);
  mine = Stream::borrow(nullptr);
  EXPECT_EQ(m_.fake.count("cuStreamDestroy"), 1u);
}

TEST_F(Graphs, GraphsAreMovedNotShared) {
  Graph a, b;
  b.empty();
  a = std::move(b);
  EXPECT_EQ(a.node_count(), 1u);
  GraphExec exec = a.instantiate();
  GraphExec other = std::move(exec);
  EXPECT_EQ(exec.get(), nullptr);
  other.launch(m_.stream);
}

TEST_F(Graphs, TheMemoryOfAllocNodesIsCounted) {
  Graph g;
  g.alloc(4096);
  {
    GraphExec exec = g.instantiate();
    exec.launch(m_.stream);
    EXPECT_EQ(graph_memory(0).used_bytes, 4096u);
  }
  trim_graph_memory(0);
  EXPECT_EQ(graph_memory(0).used_bytes, 0u);
  EXPECT_EQ(graph_memory(0).used_high_bytes, 4096u);
  reset_graph_memory_high(0);
  EXPECT_EQ(graph_memory(0).used_high_bytes, 0u);
}

TEST_F(Graphs, NothingIsLeft) {
  {
    Graph g, part;
    part.add(store(0, 1));
    g.child(part);
    g.child(std::move(part));
    g.host([] {});
    Condition c = g.while_node(g.condition(0u));
    c.body().add(store(0, 1));
    GraphExec exec = g.instantiate();
    exec.launch(m_.stream);
    Stream s = Stream::create();
    Event e = Event::create();
    e.record(s);
  }
  EXPECT_EQ(m_.close(), "");
}

}  // namespace
}  // namespace rondo::graph
