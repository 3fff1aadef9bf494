// One binary on every driver from CUDA 12.0: what it lacks is said at the call, the rest works.
#include "graph_support.h"

namespace rondo::graph {
namespace {

TEST(GraphVersions, WhatADriverLacksIsSaidWithBothVersions) {
  Machine m(12020);
  Graph g;
  const NodeView a = g.add(kernel(m.nop, 1, 1, 0));
  EXPECT_EQ(
      message_of([&] { g.condition(); }, ErrorKind::Unavailable),
      "a conditional node needs driver R545 (CUDA 12.3), this is R535 (CUDA 12.2). Update the driver, or ask "
      "has(Feature) before");
  EXPECT_EQ(message_of(
                [&] {
                  g.add(kernel(m.nop, 1, 1, 0), {{a, kProgrammatic}});
                },
                ErrorKind::Unavailable),
            "a programmatic or launch-order edge needs driver R545 (CUDA 12.3), this is R535 (CUDA 12.2). "
            "Update the "
            "driver, or ask has(Feature) before");
  EXPECT_EQ(message_of([&] { capture_into(g, m.stream, a, [] {}); }, ErrorKind::Unavailable)
                .find("capture into an existing graph needs driver R545"),
            0u);
  EXPECT_EQ(message_of([&] { attribute::device_updatable(); }, ErrorKind::Unavailable)
                .find("a device-updatable kernel node needs driver R550 (CUDA 12.4), this is R535"),
            0u);
  EXPECT_EQ(message_of([&] { g.child(Graph()); }, ErrorKind::Unavailable)
                .find("moving a graph in as a child needs driver R575 (CUDA 12.9)"),
            0u);
  EXPECT_EQ(g.node_count(), 1u);
}

TEST(GraphVersions, ElseAndSwitchCameLaterThanIf) {
  Machine m(12040);
  Graph g;
  const ConditionHandle h = g.condition();
  g.if_node(h);
  EXPECT_EQ(message_of([&] { g.if_else_node(h); }, ErrorKind::Unavailable)
                .find("an if/else conditional node needs driver R570 (CUDA 12.8), this is R550 (CUDA 12.4)"),
            0u);
  EXPECT_EQ(message_of([&] { g.switch_node(h, 2); }, ErrorKind::Unavailable)
                .find("a switch conditional node needs driver R570 (CUDA 12.8)"),
            0u);
}

TEST(GraphVersions, FeaturesAreToldBefore) {
  {
    Machine m(12030);
    EXPECT_TRUE(has(Feature::Conditional));
    EXPECT_FALSE(has(Feature::ConditionalSwitch));
    EXPECT_STREQ(name(Feature::ConditionalSwitch), "a switch conditional node");
  }
  Machine m(13000);
  EXPECT_EQ(has(Feature::ChildMove), CUDA_VERSION >= 12090);
}

// Every call of the oldest driver: build, look, capture with two streams, graft, instantiate, update.
TEST(GraphVersions, TheOldestDriverDoesAllTheRest) {
  Machine m(12000);
  {
    Graph g;
    const NodeView a = g.add(kernel(m.store, 1, 1, 0, m.word(0), 1u)),
                   b = g.add(kernel(m.add, 1, 1, 0, m.word(0), 2u));
    g.connect(a, b);
    EXPECT_EQ(g.edges().size(), 1u);
    EXPECT_EQ(b.dependencies(), std::vector<NodeView>{a});
    EXPECT_EQ(a.dependents(), std::vector<NodeView>{b});
    g.disconnect(a, b);
    g.connect(a, b);
    GraphExec exec = g.instantiate();
    EXPECT_TRUE(exec.update(g.clone()).ok);
    exec.launch(m.stream);
    EXPECT_EQ(m.words()[0], 3u);
    EXPECT_EQ(a.describe(), "kernel node");
    const Stream other = Stream::create();
    const Graph captured = capture(m.stream, [&](Capture& c) {
      RONDO_CU(m.d, cuMemsetD8Async(m.memory, 1, 4, c.stream()));
      c.fork(other);
      RONDO_CU(m.d, cuMemsetD8Async(m.memory + 4, 1, 4, other));
      c.join(other);
      c.graft([&](GraphView graph, After tip) { return graph.empty(tip); });
    });
    EXPECT_EQ(captured.edges().size(), 3u);
  }
  EXPECT_EQ(m.close(), "");
}

}  // namespace
}  // namespace rondo::graph
