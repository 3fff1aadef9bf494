// Who holds what is known of a graph, where its memory comes from, and in which order all that may go.
#include "rondo/graph/state.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "graph_support.h"

namespace rondo::graph {
namespace {

using detail::GraphState;
using detail::kKeptStates;
using detail::StateShare;

class States : public Graphs {
 protected:
  static constexpr size_t kMany = 5 * 32 + 3;  // more than a thread keeps, and no multiple of it
  Graph storing(uint32_t value) {
    Graph g;
    g.add(store(0, value));
    return g;
  }
  // Whether it is still the graph that storing(value) made.
  void expect_storing(const Graph& g, uint32_t value) {
    const GraphExec exec = g.instantiate();
    exec.launch(m_.stream);
    EXPECT_EQ(word(0), value);
  }
  size_t destroyed() const { return m_.fake.count("cuGraphDestroy"); }
};

// ---------------------------------------------------------------- memory

TEST_F(States, AStateIsMadeInThePlaceOfTheLastThatWentOnItsThread) {
  if (kKeptStates == 0) GTEST_SKIP() << "under AddressSanitizer no memory is used again";
  for (int round = 0; round < 100; ++round) {
    StateShare first = StateShare::make(d_, nullptr), second = StateShare::make(d_, nullptr);
    const GraphState *place = first.get(), *other = second.get();
    first = StateShare();
    second = StateShare();
    // Held, so that the heap has nothing of this size at hand.
    std::vector<std::unique_ptr<char[]>> blocks(32);
    for (auto& b : blocks) b = std::make_unique<char[]>(sizeof(GraphState));
    first = StateShare::make(d_, nullptr);
    second = StateShare::make(d_, nullptr);
    ASSERT_EQ(first.get(), other) << round;
    ASSERT_EQ(second.get(), place) << round;
  }
}

TEST_F(States, AStateInAnOldPlaceKnowsNothingOfTheOldOne) {
  for (int round = 0; round < 3; ++round) {
    StateShare share = StateShare::make(d_, nullptr);
    EXPECT_TRUE(share.only());
    EXPECT_TRUE(share->owned);
    EXPECT_FALSE(share->lost || share->own || share->plain);
    EXPECT_EQ(share->version, 0u);
    EXPECT_FALSE(share->record || share->rare || share->within);
    share->own = share->plain = true;
    share->make_rare();
    share->record = std::make_shared<const detail::AttributeRecord>();
    share->lose();
  }
}

// How much of the heap is in use is asked of glibc; of the few blocks that it keeps itself it says that they
// are.
#ifdef __GLIBC__
size_t used_bytes() { return mallinfo2().uordblks; }
constexpr size_t kSome = 16 * 2 * sizeof(GraphState);

TEST_F(States, AThreadKeepsTheMemoryOfFew) {
  const auto make_and_drop = [&](size_t count) {
    std::vector<StateShare> shares(count);
    for (StateShare& s : shares) s = StateShare::make(d_, nullptr);
  };
  make_and_drop(1);
  const size_t before = used_bytes();
  make_and_drop(10000);
  EXPECT_LE(used_bytes(), before + kKeptStates * 2 * sizeof(GraphState) + kSome);
}

TEST_F(States, AThreadThatEndsKeepsNothing) {
  const auto thread = [&] {
    std::thread([&] {
      // Made before the first state goes here, so it goes after all that is kept was given back.
      thread_local StateShare late;
      late = StateShare::make(d_, nullptr);
      std::vector<StateShare> shares(kKeptStates / 2);  // there is room for more at the end
      for (StateShare& s : shares) s = StateShare::make(d_, nullptr);
    }).join();
  };
  thread();
  const size_t before = used_bytes();
  for (int i = 0; i < 100; ++i) thread();
  EXPECT_LE(used_bytes(), before + kSome);
}
#endif

TEST_F(States, ManyGraphsGoInAnyOrderAndOthersTakeTheirPlace) {
  std::mt19937 random(7);
  std::vector<std::optional<Graph>> graphs(kMany);
  std::vector<size_t> order(kMany);
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < kMany; ++i)
      if (!graphs[i]) graphs[i].emplace(storing(static_cast<uint32_t>(i)));
    if (round == 1) std::reverse(order.begin(), order.end());
    if (round >= 2) std::shuffle(order.begin(), order.end(), random);
    // A part stays from round to round.
    for (size_t k = 0; k < kMany - 40; ++k) graphs[order[k]].reset();
    for (size_t i = 0; i < kMany; ++i)
      if (graphs[i]) expect_storing(*graphs[i], static_cast<uint32_t>(i));
  }
  graphs.clear();
  EXPECT_EQ(m_.close(), "");
}

// ---------------------------------------------------------------- threads

TEST_F(States, GraphsGoOnAnotherThreadThanTheyCameFrom) {
  std::vector<Graph> here, there;
  for (size_t i = 0; i < kMany; ++i) here.push_back(storing(static_cast<uint32_t>(i)));
  std::thread([&] {
    std::vector<Graph> taken = std::move(here);
    for (size_t i = 0; i < kMany; i += 2) taken[i] = storing(static_cast<uint32_t>(1000 + i));
    taken.resize(kMany / 2);  // the rest goes here
    there = std::move(taken);
  }).join();  // and the thread with what it has kept
  for (size_t i = 0; i < there.size(); ++i)
    expect_storing(there[i], static_cast<uint32_t>(i % 2 ? i : 1000 + i));
  there.clear();
  for (size_t i = 0; i < kMany; ++i) expect_storing(storing(3), 3);
  EXPECT_EQ(m_.close(), "");
}

TEST_F(States, ThreadsHandGraphsToEachOther) {
  constexpr int kThreads = 4, kRounds = 200;
  std::mutex mutex;
  std::vector<Graph> pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        Graph mine;
        for (int k = 0; k <= (i + t) % 3; ++k) mine.empty();
        const std::lock_guard lock(mutex);
        pool.push_back(std::move(mine));
        std::swap(pool.front(), pool.back());
        if (pool.size() > 50) pool.erase(pool.begin(), pool.begin() + 40);  // most are of other threads
      }
    });
  for (std::thread& t : threads) t.join();
  for (const Graph& g : pool) EXPECT_LE(g.node_count() - 1, 2u);
  pool.clear();
  EXPECT_EQ(destroyed(), size_t{kThreads} * kRounds);
  EXPECT_EQ(m_.close(), "");
}

TEST_F(States, AGraphMayOutliveWhatItsThreadKeeps) {
  std::thread([&] {
    // Made before the first state goes on this thread, so it goes after all that is kept is given back.
    thread_local std::optional<Graph> late;
    late.emplace().empty();
    (void)storing(1);
  }).join();
  EXPECT_EQ(destroyed(), 2u);
  EXPECT_EQ(m_.close(), "");
}

// ---------------------------------------------------------------- shares

TEST_F(States, TheLastShareOfSeveralThreadsDestroysTheGraphOnce) {
  for (int round = 0; round < 20; ++round) {
    const size_t before = destroyed();
    std::vector<std::optional<GraphExec>> execs(8);
    {
      Graph g = storing(1);
      for (auto& e : execs) e.emplace(g.instantiate());
    }
    EXPECT_EQ(destroyed(), before);
    std::vector<std::thread> threads;
    for (auto& e : execs) threads.emplace_back([&e] { e.reset(); });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(destroyed(), before + 1);
  }
}

TEST_F(States, AShareMayBeMadeOfAView) {
  Graph g = storing(1);
  {
    // The capture holds the graph that it goes into, whoever lets it go.
    Capture c(m_.stream, g, {});
    g = Graph();
    EXPECT_EQ(destroyed(), 0u);
    launch(m_.stream, m_.store, m_.word(0), 2);
    c.finish();
  }
  EXPECT_EQ(destroyed(), 1u);
}

TEST_F(States, SharesAreCountedThroughCopiesAndMoves) {
  StateShare a = StateShare::make(d_, nullptr);
  EXPECT_TRUE(a.only());
  StateShare b = a;
  EXPECT_FALSE(a.only());
  StateShare c = std::move(b);
  EXPECT_FALSE(b || a.only());
  b = a;
  const StateShare& itself = b;
  b = itself;
  c = StateShare();
  EXPECT_FALSE(a.only());
  b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_TRUE(b.only());
  const StateShare one_more(b.get());
  EXPECT_FALSE(b.only());
}

TEST_F(States, AParentAndItsMovedChildGoInEitherOrder) {
  for (const bool parent_first : {true, false}) {
    const size_t before = destroyed();
    Graph child = storing(1);
    const NodeView node = child.nodes()[0];
    std::optional<Graph> parent(std::in_place);
    parent->child(std::move(child));
    std::optional<GraphExec> exec(parent->instantiate());
    if (parent_first) parent.reset();
    EXPECT_EQ(node.kind(), NodeKind::Kernel);  // its state is held by the parent's, that one by the exec
    exec.reset();
    EXPECT_EQ(destroyed(), before + (parent_first ? 1 : 0));
    parent.reset();
    EXPECT_EQ(destroyed(), before + 1);
  }
}

TEST_F(States, AReleasedGraphKeepsItsState) {
  Graph g = storing(1);
  const NodeView node = g.nodes()[0];
  const CUgraph raw = g.release();
  EXPECT_EQ(node.describe(), "kernel node store");
  EXPECT_EQ(destroyed(), 0u);
  RONDO_CU(d_, cuGraphDestroy(raw));
  EXPECT_EQ(destroyed(), 1u);
  EXPECT_EQ(m_.close(), "");
}

}  // namespace
}  // namespace rondo::graph
