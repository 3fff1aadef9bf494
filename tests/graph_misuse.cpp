// What goes wrong in other people's hands: objects that hold nothing, nodes of other graphs, ends in the
// wrong order or thread, one exec in many threads.
#include <thread>

#include "graph_support.h"
#include "rondo/graph/look.h"

namespace rondo::graph {
namespace {

class Misuse : public Graphs {
 protected:
  CUstreamCaptureMode mode() const {
    CUstreamCaptureMode found = CU_STREAM_CAPTURE_MODE_RELAXED;
    RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&found));
    CUstreamCaptureMode back = found;
    RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&back));
    return found;
  }
  auto remote(size_t word, uint32_t value) {
    return store(word, value).with(attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE));
  }
};

// ---------------------------------------------------------------- what holds nothing

TEST_F(Misuse, AGraphThatWasMovedFromSaysSoInEveryCall) {
  Graph other, g;
  const NodeView n = g.add(store(0, 1));
  const Graph kept = std::move(g);
  GraphExec exec = kept.instantiate();
  const std::function<void()> calls[] = {[&] { (void)g.node_count(); },
                                         [&] { (void)g.nodes(); },
                                         [&] { (void)g.roots(); },
                                         [&] { (void)g.edges(); },
                                         [&] { g.add(store(0, 1)); },
                                         [&] { g.empty(); },
                                         [&] { g.host([] {}); },
                                         [&] { g.copy(m_.word(0), m_.word(1), 4); },
                                         [&] { g.alloc(8); },
                                         [&] { g.condition(); },
                                         [&] { g.if_node(1); },
                                         [&] { g.child(other); },
                                         [&] { other.child(g); },
                                         [&] { other.child(std::move(g)); },
                                         [&] { g.connect(n, n); },
                                         [&] { g.disconnect(n, n); },
                                         [&] { g.remove(n); },
                                         [&] { g.find_in_clone(n); },
                                         [&] { g.keep(std::make_shared<int>(1)); },
                                         [&] { (void)g.clone(); },
                                         [&] { (void)g.instantiate(); },
                                         [&] { (void)exec.update(g).ok; },
                                         [&] { exec.update_or_reinstantiate(g); },
                                         [&] { exec.set(n, g); },
                                         [&] { (void)json(g); },
                                         [&] { (void)dot(g); },
                                         [&] { (void)difference(kept, g); },
                                         [&] { (void)measure_memory(g); }};
  for (const auto& call : calls)
    EXPECT_EQ(message_of(call, ErrorKind::Usage),
              "this graph holds nothing: it was moved from, released, or made of a null handle. Use the one "
              "that it was moved to");
  EXPECT_EQ(kept.node_count(), 1u);
  EXPECT_EQ(other.node_count(), 0u);
  EXPECT_EQ(g.release(), nullptr);
}

TEST_F(Misuse, ANodeThatIsNoneSaysSo) {
  Graph g;
  const NodeView none;
  for (const std::function<void()>& call : {std::function<void()>([&] { (void)none.kind(); }),
                                            {[&] { (void)none.dependencies(); }},
                                            {[&] { (void)none.kernel(); }},
                                            {[&] { none.set(attribute::priority(1)); }}})
    EXPECT_EQ(message_of(call, ErrorKind::Usage), "this NodeView is of no node. Use one that a graph gave");
  EXPECT_EQ(none.describe(), "no node");
}

TEST_F(Misuse, ANodeOfAnotherGraphIsNotRemoved) {
  Graph g, other;
  const NodeView node = other.add(store(0, 1));
  EXPECT_EQ(message_of([&] { g.remove(node); }, ErrorKind::Usage),
            "kernel node store is not a node of this graph. Remove it from its own");
  EXPECT_EQ(other.node_count(), 1u);
}

TEST_F(Misuse, ANodeOfAChildThatWasMovedInCanBeRemoved) {
  Graph g, part;
  const NodeView node = part.add(store(0, 1));
  part.add(store(1, 1));
  GraphView(g.child(std::move(part)).child()).remove(node);
  EXPECT_EQ(g.nodes()[0].child().node_count(), 1u);
}

TEST_F(Misuse, AHostNodeWithoutAFunctionIsRefused) {
  Graph g;
  EXPECT_EQ(
      message_of([&] { g.host({}); }, ErrorKind::Usage),
      "a host node without a function: it would throw at every launch, where nobody sees it. Give one, or "
      "add an empty node");
  EXPECT_EQ(g.node_count(), 0u);
}

// ---------------------------------------------------------------- captures and scopes

TEST_F(Misuse, WhatBelongsToACaptureIsRefusedAfterItsEnd) {
  Graph g;
  const Stream other = Stream::create();
  Capture fresh(m_.stream);
  (void)fresh.end();
  Capture into(m_.stream, g, {});
  into.finish();
  for (Capture* c : {&fresh, &into})
    for (const std::function<void()>& call :
         {std::function<void()>([&] { (void)c->graph(); }),
          {[&] { (void)c->tip(); }},
          {[&] { c->set_tip({}); }},
          {[&] { c->fork(other); }},
          {[&] { c->join(other); }},
          {[&] { c->graft([](GraphView to, const After& tip) { return to.empty(tip); }); }}})
      EXPECT_EQ(message_of(call, ErrorKind::Usage),
                "the capture has ended already. Call end() or finish() once, and last");
}

TEST_F(Misuse, RelaxedScopesMayEndInAnyOrder) {
  auto first = std::make_unique<RelaxedScope>(), second = std::make_unique<RelaxedScope>(),
       third = std::make_unique<RelaxedScope>();
  first.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  third.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  second.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(Misuse, ARelaxedScopeThatEndsOnAnotherThreadLeavesThatThreadAlone) {
  CUstreamCaptureMode strict = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&strict));
  auto outer = std::make_unique<RelaxedScope>(), inner = std::make_unique<RelaxedScope>();
  std::thread([&] {
    outer.reset();
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  }).join();
  inner.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

// ---------------------------------------------------------------- attributes behind an exec

TEST_F(Misuse, AnAttributeOfANodeInAMovedChildIsSeenByTheNextUpdate) {
  Graph g, part;
  const NodeView node = part.add(store(0, 1));
  g.child(std::move(part));
  GraphExec exec = g.instantiate();
  node.set(attribute::cluster(2));
  const Updated updated = exec.update(g);
  EXPECT_FALSE(updated);
  EXPECT_TRUE(updated.attributes_differ);
}

TEST_F(Misuse, AfterAnUpdateThatSkippedAttributesTheyAreNotKnown) {
  Graph g, other;
  g.add(store(0, 1));
  other.add(remote(0, 1));
  GraphExec exec = g.instantiate();
  ASSERT_TRUE(exec.update(other, AttributeCheck::Skip));
  EXPECT_TRUE(exec.update(g).attributes_differ);  // the driver may keep those of `other`
  EXPECT_EQ(exec.update_or_reinstantiate(g).how, UpdateHow::Reinstantiated);
  EXPECT_TRUE(exec.update(g));
}

TEST_F(Misuse, AfterAnotherChildWasSetItsAttributesAreNotKnown) {
  Graph g, part, other;
  part.add(store(0, 1));
  other.add(remote(0, 1));
  const NodeView child = g.child(part);
  GraphExec exec = g.instantiate();
  exec.set(child, part.clone());
  EXPECT_TRUE(exec.update(g));
  exec.set(child, other);
  EXPECT_TRUE(exec.update(g).attributes_differ);
}

// ---------------------------------------------------------------- what goes too early

TEST_F(Misuse, AGraphWithAnExecIsNotMovedInAsAChild) {
  Graph g, part;
  part.add(store(0, 1));
  std::optional<GraphExec> exec = part.instantiate();
  EXPECT_EQ(
      message_of([&] { g.child(std::move(part)); }, ErrorKind::Usage),
      "the graph that is to be moved in as a child is in use: an executable graph was made from it, or a "
      "capture goes into it. Destroy the executable graph first (or make it without keep_source), or add "
      "a clone");
  EXPECT_EQ(part.node_count(), 1u);
  exec.reset();
  g.child(std::move(part));
  EXPECT_EQ(g.node_count(), 1u);
}

TEST_F(Misuse, AnExecIsInstantiatedAnewWithoutTheStreamOfItsFirstUpload) {
  Graph g, other;
  g.add(store(0, 1));
  other.add(store(0, 2));
  other.add(store(1, 2));
  InstantiateOptions options;
  std::optional<Stream> stream = Stream::create();
  options.upload_to = stream->get();
  GraphExec exec = g.instantiate(options);
  EXPECT_EQ(exec.flags(), static_cast<uint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
  stream.reset();
  EXPECT_EQ(exec.update_or_reinstantiate(other).how, UpdateHow::Reinstantiated);
  EXPECT_EQ(exec.flags(), 0u);
}

TEST_F(Misuse, AFailureOfTheDriverIsNotCalledSuccess) {
  Graph g;
  g.add(store(0, 1));
  const Graph gone = Graph::adopt(g.get());
  (void)g.release();
  RONDO_CU(d_, cuGraphDestroy(gone.get()));
  const std::string text = message_of([&] { (void)gone.instantiate(); }, ErrorKind::Device);
  EXPECT_EQ(text.find("success"), text.npos) << text;
}

// ---------------------------------------------------------------- threads

TEST_F(Misuse, ExecsOfOneGraphAreUpdatedByAThreadEach) {
  for (int round = 0; round < 20; ++round) {
    Graph g;
    g.add(remote(0, 1));
    std::vector<GraphExec> execs;
    std::vector<Graph> updates;
    for (int i = 0; i < 4; ++i) {
      execs.push_back(g.instantiate());
      updates.push_back(g.clone());
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < execs.size(); ++i)
      threads.emplace_back([&, i] { EXPECT_TRUE(execs[i].update(updates[i])); });
    for (std::thread& t : threads) t.join();
  }
}

TEST_F(Misuse, ThreadsInstantiateOneExecAnew) {
  Graph first;
  first.add(store(0, 1));
  GraphExec exec = first.instantiate();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Graph mine;
      for (uint32_t i = 0; i <= t; ++i) mine.add(store(i, t));
      for (int i = 0; i < 50; ++i) {
        exec.update_or_reinstantiate(mine);
        EXPECT_EQ(exec.flags(), 0u);
        EXPECT_EQ(exec.try_launch(m_.stream), CUDA_SUCCESS);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(m_.fake.overlaps(), 0);
}

// ---------------------------------------------------------------- names

TEST_F(Misuse, APlainNameThatSpellsATypeIsNotTakenApart) {
  EXPECT_EQ(look::demangled("f"), "f");
  EXPECT_EQ(look::demangled("Pf"), "Pf");
  EXPECT_EQ(look::demangled("_Z3fooi"), "foo(int)");
}

TEST_F(Misuse, AStringOfJsonIsUtf8WhateverTheNameHolds) {
  EXPECT_EQ(look::quoted("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\u000a\\u0001\x7f\"");
  const std::string good = "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", bad = "\xef\xbf\xbd";
  EXPECT_EQ(look::utf8(good), good);
  EXPECT_EQ(look::quoted(good), '"' + good + '"');
  // A byte that begins nothing, a character cut off, too long a form, half a pair, beyond the last one.
  EXPECT_EQ(look::utf8("\xff|\xc3"), bad + "|" + bad);
  EXPECT_EQ(look::utf8("\xc0\xaf"), bad + bad);
  EXPECT_EQ(look::utf8("\xed\xa0\x80"), bad + bad + bad);
  EXPECT_EQ(look::utf8("\xf4\x90\x80\x80"), bad + bad + bad + bad);
}

TEST_F(Misuse, ALabelOfDotHasNoControlCharacters) {
  m_.fake.kernels.push_back("a\"b\\c\nd\xff");
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  RONDO_CU(d_, cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr));
  RONDO_CU(d_, cuModuleGetFunction(&function, module, m_.fake.kernels.back().c_str()));
  Graph g;
  g.add(kernel(function, 1, 1, 0));
  const std::string text = dot(g), label = "label=\"0 kernel a\\\"b\\\\c\\\\x0ad\xef\xbf\xbd\\l";
  EXPECT_NE(text.find(label), text.npos) << text;
}

}  // namespace
}  // namespace rondo::graph
