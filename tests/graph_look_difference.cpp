// Two graphs compared in words. The last test asks the fake driver whether the verdict is right.
#include "graph_support.h"
#include "rondo/graph_look.h"

namespace rondo::graph {
namespace {

class Differences : public Graphs {
 protected:
  // `add` puts the node that differs between two others.
  std::string between(const std::function<void(Graph&, NodeView)>& first,
                      const std::function<void(Graph&, NodeView)>& second) {
    Graph a, b;
    first(a, a.empty());
    second(b, b.empty());
    return difference(a, b);
  }
  std::string hex(CUdeviceptr p) const { return fmt("0x%016llx", static_cast<unsigned long long>(p)); }
  template <class... A>
  static std::string fmt(const char* format, A... a) {
    char text[64];
    std::snprintf(text, sizeof text, format, a...);
    return text;
  }
};

TEST_F(Differences, TheSameGraphIsTheSame) {
  Graph a, b;
  for (Graph* g : {&a, &b}) g->fill(m_.word(0), 1, 4, 1, g->add(store(0, 1)));
  EXPECT_EQ(difference(a, b), "The graphs are the same: 2 nodes.");
  EXPECT_TRUE(compare(a, b).same);
  EXPECT_TRUE(compare(a, b).in_place);
}

TEST_F(Differences, AKernelsShapeAndParametersAreToldAndUpdatedInPlace) {
  Graph a, b;
  a.add(kernel(m_.store, {4}, {32}, 0, m_.word(0), 1u), a.empty());
  b.add(kernel(m_.store, {8}, {32}, 16, m_.word(1), 2u), b.empty());
  EXPECT_EQ(difference(a, b),
            "Same 2 nodes; kernel node 1 (store): grid 4x1x1 -> 8x1x1, shared bytes 0 -> 16, "
            "parameter 0 (8 bytes) " +
                hex(m_.word(0)) + " -> " + hex(m_.word(1)) +
                ", parameter 1 (4 bytes) 0x00000001 -> 0x00000002. The driver updates this in place.");
}

TEST_F(Differences, AnotherKernelIsNamedWithTheConditionThatTheDriverChecks) {
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.add(store(0, 1), n); },
                    [&](Graph& g, NodeView n) { g.add(add(0, 1), n); }),
            "Same 2 nodes; kernel node 1 (store): kernel store -> add. The driver updates this in place, if "
            "neither "
            "kernel uses dynamic parallelism, device-side updates or graph launches.");
}

TEST_F(Differences, OnlyTheWordsOfALargeParameterThatDifferAreTold) {
  m_.fake.kernels.push_back("large");
  m_.fake.parameter_bytes["large"] = {64};
  CUfunction large = nullptr;
  RONDO_CU(d_, cuModuleGetFunction(&large, m_.module, "large"));
  std::array<uint64_t, 8> one{}, two{}, three{};
  two[2] = 5;
  for (uint64_t& word : three) word = 1;
  Graph a, b, c;
  a.add(kernel(large, 1, 1, 0, one));
  b.add(kernel(large, 1, 1, 0, two));
  c.add(kernel(large, 1, 1, 0, three));
  EXPECT_EQ(
      compare(a, b).changes.at(0),
      "kernel node 0 (large): parameter 0 (64 bytes) at byte 16 0x0000000000000000 -> 0x0000000000000005");
  EXPECT_NE(difference(a, c).find(", and 5 more words"), std::string::npos);
}

TEST_F(Differences, AnAttributeNeedsANewInstantiationBecauseTheDriverMayKeepIt) {
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.add(store(0, 1), n); },
                    [&](Graph& g, NodeView n) { g.add(store(0, 1).with(attribute::cluster({2})), n); }),
            "Same 2 nodes; kernel node 1 (store): cluster dimension default -> 2x1x1. This needs a new "
            "instantiation, "
            "because the driver may keep the old attribute of a kernel and report success.");
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.add(store(0, 1).with(attribute::cooperative()), n); },
                    [&](Graph& g, NodeView n) { g.add(store(0, 1), n); }),
            "Same 2 nodes; kernel node 1 (store): cooperative 1 -> default. This needs a new instantiation, "
            "because "
            "a kernel cannot become cooperative or cease to be.");
}

TEST_F(Differences, DeviceUpdatableKernelsRefuseEveryUpdate) {
  Graph a, b;
  for (Graph* g : {&a, &b}) g->add(store(0, 1).with(attribute::device_updatable()));
  EXPECT_EQ(
      difference(a, b),
      "The graphs are the same: 1 node. An update is refused all the same, because device-updatable kernel "
      "nodes take no update of the whole graph.");
}

TEST_F(Differences, CopiesAndFillsFollowTheDriversRules) {
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.copy(m_.word(0), m_.word(1), 4, n); },
                    [&](Graph& g, NodeView n) { g.copy(m_.word(0), m_.word(2), 8, n); }),
            "Same 2 nodes; memcpy node 1: bytes 4 -> 8, from " + hex(m_.word(1)) + " -> " + hex(m_.word(2)) +
                ". The driver updates this in place, if the memory is of the same device and context.");
  uint32_t host = 0;
  const std::string kinds =
      between([&](Graph& g, NodeView n) { g.copy(m_.word(0), m_.word(1), 4, n); },
              [&](Graph& g, NodeView n) { g.copy(m_.word(0), static_cast<const void*>(&host), 4, n); });
  EXPECT_NE(kinds.find("direction device to device -> host to device"), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("because a copy keeps the kinds of memory that it goes between."), std::string::npos)
      << kinds;
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.fill(m_.word(0), 1, 4, 4, n); },
                    [&](Graph& g, NodeView n) { g.fill(m_.word(0), 2, 8, 4, n); }),
            "Same 2 nodes; memset node 1: bytes 16 -> 32, value 0x00000001 -> 0x00000002. The driver updates "
            "this in "
            "place, if the driver accepts another size of a fill.");
  const auto rows = [&](size_t height) {
    CUDA_MEMSET_NODE_PARAMS p{};
    p.dst = m_.word(0), p.pitch = 32, p.elementSize = 4, p.width = 2, p.height = height;
    return p;
  };
  EXPECT_EQ(between([&](Graph& g, NodeView n) { g.add(rows(2), n); },
                    [&](Graph& g, NodeView n) { g.add(rows(3), n); }),
            "Same 2 nodes; memset node 1: bytes 16 -> 24, rows 2 -> 3. This needs a new instantiation, "
            "because only "
            "fills of one row can change their size.");
}

TEST_F(Differences, AnEdgeThatChangedIsNamedByItsNodes) {
  const auto graph = [&](EdgeData data) {
    Graph g;
    const NodeView a = g.add(store(0, 1));
    g.add(store(0, 1), {{a, data}});
    return g;
  };
  const Graph full = graph(kFull), programmatic = graph(kProgrammatic);
  EXPECT_EQ(difference(full, programmatic),
            "Same 2 nodes; edge 0 -> 1 became programmatic. This needs a new instantiation, because the "
            "edges differ.");
  EXPECT_EQ(compare(programmatic, full).changes.at(0), "edge 0 -> 1 became full");
}

TEST_F(Differences, AnEdgeOfOneGraphOnlyIsTold) {
  Graph a, b;
  for (Graph* g : {&a, &b}) g->empty(), g->empty();
  b.connect(b.nodes()[0], b.nodes()[1]);
  EXPECT_EQ(compare(a, b).changes, std::vector<std::string>{"edge 0 -> 1 is only in the second"});
  EXPECT_EQ(compare(b, a).changes, std::vector<std::string>{"edge 0 -> 1 is only in the first"});
}

TEST_F(Differences, TheOrderOfDependenciesCountsBecauseTheDriverPairsByIt) {
  const auto graph = [&](bool swapped) {
    Graph g;
    const NodeView a = g.empty(), b = g.empty();
    swapped ? g.empty({b, a}) : g.empty({a, b});
    return g;
  };
  EXPECT_EQ(difference(graph(false), graph(true)),
            "Same 3 nodes; node 2 waits for 0, 1 in the first and for 1, 0 in the second. This needs a new "
            "instantiation, because the driver pairs nodes by the order of their edges, which differs.");
}

TEST_F(Differences, ANodeMoreIsOneChangeWhereverItStands) {
  const auto graph = [&](bool more) {
    Graph g;
    NodeView last = g.add(store(0, 1));
    last = g.copy(m_.word(1), m_.word(0), 4, last);
    if (more) last = g.fill(m_.word(2), 0, 4, 1, last);
    last = g.add(add(0, 1), last);
    g.host([] {}, last);
    return g;
  };
  const Graph a = graph(false), b = graph(true);
  const Difference d = compare(a, b);
  EXPECT_EQ(d.because, "the numbers of nodes differ");
  // The host functions are two objects.
  ASSERT_EQ(d.changes.size(), 3u) << d.text();
  EXPECT_EQ(d.changes[0].rfind("host node 3, 4 in the second: data 0x", 0), 0u) << d.changes[0];
  EXPECT_EQ(d.changes[1], "node 2 (memset) is only in the second");
  EXPECT_EQ(d.changes[2], "edge 1 -> 2 is only in the first");
  EXPECT_EQ(d.text().rfind("4 nodes in the first, 5 in the second; host node 3", 0), 0u) << d.text();
}

TEST_F(Differences, AnotherKindOfNodeInItsPlaceIsTold) {
  EXPECT_EQ(
      between([&](Graph& g, NodeView n) { g.add(store(0, 1), n); },
              [&](Graph& g, NodeView n) { g.fill(m_.word(0), 0, 4, 1, n); }),
      "Same 2 nodes; node 1 is a kernel node in the first and a memset node in the second. This needs a new "
      "instantiation, because the kinds of nodes differ.");
}

TEST_F(Differences, ChildrenAndBodiesAreComparedWithTheirPath) {
  const auto graph = [&](unsigned value) {
    Graph g, child;
    child.add(store(0, value), child.empty());
    Condition c = g.while_node(g.condition(1), g.child(child));
    c.body().add(store(1, value));
    return g;
  };
  EXPECT_EQ(
      difference(graph(1), graph(2)),
      "Same 2 nodes; kernel node 0.1 (store): parameter 1 (4 bytes) 0x00000001 -> 0x00000002; kernel node "
      "1.body.0 (store): parameter 1 (4 bytes) 0x00000001 -> 0x00000002. The driver updates this in place.");
}

TEST_F(Differences, WhatAnUpdateCannotChangeIsSaid) {
  const auto because = [&](const std::function<void(Graph&)>& one, const std::function<void(Graph&)>& two) {
    Graph a, b;
    one(a), two(b);
    return compare(a, b).because;
  };
  EXPECT_EQ(because([&](Graph& g) { (void)g.alloc(64); }, [&](Graph& g) { (void)g.alloc(128); }),
            "alloc and free nodes cannot be updated");
  EXPECT_EQ(
      because([&](Graph& g) { g.if_node(g.condition(1)); }, [&](Graph& g) { g.while_node(g.condition(1)); }),
      "the parameters of a condition cannot change");
  CUstreamBatchMemOpParams operations[2]{};
  for (CUstreamBatchMemOpParams& op : operations) {
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = m_.word(0);
  }
  EXPECT_EQ(because(
                [&](Graph& g) {
                  g.batch({operations, 1});
                },
                [&](Graph& g) {
                  g.batch({operations, 2});
                }),
            "the number and kinds of memory operations cannot change");
  CUexternalSemaphore semaphores[2] = {reinterpret_cast<CUexternalSemaphore>(uint64_t{64}),
                                       reinterpret_cast<CUexternalSemaphore>(uint64_t{128})};
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signals[2]{};
  EXPECT_EQ(because(
                [&](Graph& g) {
                  g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{semaphores, signals, 1});
                },
                [&](Graph& g) {
                  g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{semaphores, signals, 2});
                }),
            "the number of semaphores cannot change");
}

TEST_F(Differences, AKernelOfAnotherModuleOrContextIsToldApart) {
  CUfunction twin = nullptr;
  RONDO_CU(d_, cuModuleGetFunction(&twin, m_.module, "nop"));
  Graph a, b;
  a.add(kernel(m_.nop, 1, 1, 0));
  b.add(kernel(twin, 1, 1, 0));
  EXPECT_EQ(compare(a, b).changes.at(0),
            "kernel node 0 (nop): a kernel of the same name from another module");
  const auto in_context = [&](uint64_t context) {
    CUDA_KERNEL_NODE_PARAMS p = kernel_shape(m_.nop, {1}, {1}, 0);
    p.ctx = reinterpret_cast<CUcontext>(context);
    Graph g;
    g.add(KernelParams(p));
    return g;
  };
  EXPECT_EQ(difference(in_context(16), in_context(32)),
            "Same 1 node; kernel node 0 (nop): another context. This needs a new instantiation, because the "
            "context of "
            "a kernel cannot change.");
  EXPECT_TRUE(compare(in_context(16), in_context(0)).same) << "the driver tells it of one of them only";
}

TEST_F(Differences, BodiesThatNobodyTellsAreNoted) {
  Graph a, b;
  for (Graph* g : {&a, &b}) g->while_node(g->condition(1)).body().add(store(0, g == &a));
  EXPECT_EQ(difference(GraphView(a.get()), GraphView(b.get())),
            "Nothing that can be seen differs: 1 node. Note: node 0 was not compared: the bodies of a "
            "condition that was "
            "not added through Rondo are not known.");
  EXPECT_EQ(compare(a, b).changes.size(), 1u);
}

TEST_F(Differences, ManyChangesAreCut) {
  Graph a, b;
  for (unsigned i = 0; i < 30; ++i) a.add(store(0, 1)), b.add(store(0, 2));
  EXPECT_EQ(compare(a, b).changes.size(), 30u);
  EXPECT_NE(difference(a, b).find("; and 10 changes more. The driver"), std::string::npos)
      << difference(a, b);
}

TEST(OldDifferences, ParametersThatNobodyTellsAreNoted) {
  Machine m(12000);
  Graph a, b;
  a.add(kernel(m.store, 1, 1, 0, m.word(0), 1u));
  b.add(kernel(m.store, 1, 1, 0, m.word(0), 2u));
  EXPECT_EQ(difference(a, b),
            "Nothing that can be seen differs: 1 node. Note: parameters of kernels were not compared: the "
            "layout of kernel "
            "parameters needs driver R550 (CUDA 12.4), this is R525 (CUDA 12.0).");
}

// The verdict against the driver: for each pair of these graphs, an exec of the one is updated to the other.
TEST_F(Differences, TheVerdictIsThatOfAnUpdate) {
  std::vector<Graph> graphs;
  const auto add_graph = [&](const std::function<void(Graph&)>& fill) { fill(graphs.emplace_back()); };
  add_graph([&](Graph& g) { g.add(store(0, 2), g.add(store(0, 1))); });
  add_graph([&](Graph& g) { g.add(store(0, 2), g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.add(add(0, 2), g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.add(store(0, 2)), g.add(store(1, 3)); });
  add_graph([&](Graph& g) { g.fill(m_.word(0), 2, 4, 1, g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.fill(m_.word(1), 3, 4, 1, g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.copy(m_.word(1), m_.word(2), 4, g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.empty(g.add(store(0, 2), g.add(store(1, 3)))); });
  add_graph([&](Graph& g) { g.add(store(0, 2).with(attribute::cluster({2})), g.add(store(1, 3))); });
  add_graph([&](Graph& g) { g.add(store(0, 2).with(attribute::cooperative()), g.add(store(1, 3))); });
  add_graph([&](Graph& g) {
    Graph child;
    child.add(store(0, 1));
    g.child(child, g.add(store(1, 3)));
  });
  size_t in_place = 0;
  for (const Graph& from : graphs)
    for (const Graph& to : graphs) {
      const Difference d = compare(from, to);
      GraphExec exec = from.instantiate();
      const Updated updated = exec.update(to);
      EXPECT_EQ(d.in_place, updated.ok) << d.text() << "\n" << updated.reason;
      in_place += d.in_place;
    }
  EXPECT_GT(in_place, graphs.size()) << "nothing but the same graph was updated";
}

}  // namespace
}  // namespace rondo::graph
