// Graphs that a broken capture took with it: nothing touches what the driver has destroyed.
#include "graph_support.h"

namespace rondo::graph {
namespace {

// The driver destroys what it captures into when that breaks (CaptureToAGraphThatBreaksDestroysIt).
class LostGraphs : public Graphs {
 protected:
  static constexpr const char* kLost =
      "this graph was lost when a capture into it, or into a part of it, broke: the driver destroys such a "
      "graph. Build it anew; a graph that must outlive a broken capture takes the work as a child: Graph "
      "work "
      "= capture(...); graph.child(work)";
  void set(CUstream stream, size_t word, uint32_t value) { launch(stream, m_.store, m_.word(word), value); }
  std::string break_into(GraphView into) {
    return message_of(
        [&] {
          capture_into(into, m_.stream, {}, [&] {
            set(m_.stream, 0, 1);
            (void)d_.cuStreamSynchronize(m_.stream);
          });
        },
        ErrorKind::Device);
  }
  void expect_lost(const std::function<void()>& use) { EXPECT_EQ(message_of(use, ErrorKind::Usage), kLost); }
};

TEST_F(LostGraphs, ACaptureThatBreaksTakesTheGraphThatItWasInto) {
  Graph g, other;
  const NodeView node = g.add(store(0, 1)), second = g.add(store(1, 1)), beside = other.empty();
  const std::string text = break_into(g);
  EXPECT_EQ(text.find("cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"), 0u) << text;
  EXPECT_NE(
      text.find(
          ". The graph that it was captured into is lost with it, and so is a graph that holds that one: "
          "the driver destroys it. Build it anew; a graph that must outlive a broken capture takes the "
          "work as a child: Graph work = capture(...); graph.child(work)"),
      std::string::npos)
      << text;
  m_.fake.log.clear();
  expect_lost([&] { (void)g.node_count(); });
  expect_lost([&] { (void)g.nodes(); });
  expect_lost([&] { (void)g.roots(); });
  expect_lost([&] { (void)g.edges(); });
  expect_lost([&] { g.empty(); });
  expect_lost([&] { g.host([] {}); });
  expect_lost([&] { g.child(other); });
  expect_lost([&] { g.condition(); });
  expect_lost([&] { g.connect(node, second); });
  expect_lost([&] { g.remove(node); });
  expect_lost([&] { g.keep(nullptr); });
  expect_lost([&] { (void)g.clone(); });
  expect_lost([&] { (void)g.instantiate(); });
  expect_lost([&] { (void)g.release(); });
  expect_lost([&] { capture_into(g, m_.stream, {}, [] {}); });
  expect_lost([&] { (void)node.kind(); });
  expect_lost([&] { (void)node.describe(); });
  expect_lost([&] { (void)node.kernel(); });
  expect_lost([&] { (void)node.dependencies(); });
  expect_lost([&] { node.set(store(0, 2)); });
  expect_lost([&] { node.set(attribute::priority(1)); });
  expect_lost([&] { other.child(g); });
  expect_lost([&] { other.empty(node); });
  expect_lost([&] { other.add(store(0, 1), node); });
  expect_lost([&] { other.empty({beside, node}); });
  expect_lost([&] { other.add(store(0, 1), std::vector<NodeView>{beside, node, beside}); });
  expect_lost([&] { (void)other.find_in_clone(node); });
  EXPECT_EQ(g.get(), nullptr);
  EXPECT_EQ(m_.fake.log, std::vector<std::string>()) << "the driver was asked";
  EXPECT_EQ(capture(m_.stream, [&] { set(m_.stream, 0, 1); }).node_count(), 1u) << "and the stream goes on";
}

TEST_F(LostGraphs, TheyAreNotDestroyedTwice) {
  { Graph g; }
  m_.fake.log.clear();
  {
    Graph g;
    (void)break_into(g);
  }
  EXPECT_EQ(m_.fake.count("cuGraphDestroy"), 0u);
  EXPECT_EQ(m_.close(), "");
}

TEST_F(LostGraphs, ACaptureThatIsDroppedBrokenTakesTheGraphToo) {
  {
    Graph g;
    {
      const Capture c(m_.stream, g, {});
      (void)d_.cuStreamSynchronize(m_.stream);
    }
    expect_lost([&] { g.empty(); });
  }
  EXPECT_EQ(m_.close(), "");
}

TEST_F(LostGraphs, WorkThatThrowsWithoutBreakingTheCaptureLeavesTheGraph) {
  struct Mine {};
  Graph g;
  EXPECT_THROW(capture_into(g, m_.stream, {},
                            [&] {
                              set(m_.stream, 0, 1);
                              throw Mine();
                            }),
               Mine);
  EXPECT_EQ(g.node_count(), 1u);
}

// What is left of a graph around a lost body is not known, so it is not even destroyed.
TEST_F(LostGraphs, ABodyTakesTheWholeGraph) {
  {
    Graph g;
    Condition loop = g.while_node(g.condition(1u));
    (void)break_into(loop.body());
    expect_lost([&] { (void)g.instantiate(); });
    expect_lost([&] { (void)loop.body().node_count(); });
    m_.fake.log.clear();
  }
  EXPECT_EQ(m_.fake.count("cuGraphDestroy"), 0u);
  EXPECT_EQ(m_.close(), "1 graph ");
}

TEST_F(LostGraphs, AChildThatWasMovedInTakesItsParentAndTheOtherWayRound) {
  for (const bool child_first : {true, false}) {
    Graph g, part, beside;
    part.empty();
    GraphView inner = part, other = beside;
    g.child(std::move(part));
    g.child(std::move(beside));
    (void)break_into(child_first ? inner : GraphView(g));
    expect_lost([&] { (void)g.node_count(); });
    expect_lost([&] { (void)inner.node_count(); });
    expect_lost([&] { (void)other.node_count(); });
  }
}

TEST_F(LostGraphs, ExecsFromBeforeAreLaunchedButNotChanged) {
  Graph g, same;
  const NodeView node = g.add(store(0, 7));
  same.add(store(0, 8).with(attribute::cluster({1})));
  GraphExec exec = g.instantiate();
  (void)break_into(g);
  exec.launch(m_.stream);
  EXPECT_EQ(word(0), 7u);
  expect_lost([&] { exec.set(node, store(0, 2)); });
  expect_lost([&] { exec.enable(node, false); });
  expect_lost([&] { (void)exec.enabled(node); });
  expect_lost([&] { (void)exec.source().nodes(); });
  expect_lost([&] { (void)exec.update(g); });
  expect_lost([&] { (void)exec.update_or_reinstantiate(g); });
  EXPECT_EQ(
      exec.update(same).reason.find("the attributes that the executable graph was made with are not known"),
      0u);
  EXPECT_EQ(exec.update_or_reinstantiate(same).how, UpdateHow::Reinstantiated);
}

TEST_F(LostGraphs, AGraphThatGoesDuringTheCaptureIntoItStaysUntilTheEnd) {
  {
    std::optional<Graph> g;
    g.emplace();
    Capture c(m_.stream, *g, {});
    g.reset();
    set(m_.stream, 0, 1);
    c.finish();
  }
  EXPECT_EQ(m_.close(), "");
}

}  // namespace
}  // namespace rondo::graph
