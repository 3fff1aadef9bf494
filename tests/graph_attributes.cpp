// Kernel attributes across whole-graph updates: what is compared, what is left to the driver, what it costs.
#include "graph_support.h"

namespace rondo::graph {
namespace {

class Attributes : public Graphs {
 protected:
  Graph with(std::initializer_list<CUlaunchAttribute> attributes) {
    Graph g;
    auto call = kernel(m_.nop, 8, 1, 0);
    for (const CUlaunchAttribute& a : attributes) call.with(a);
    g.add(call);
    return g;
  }
  // As someone else's code launches them.
  Graph captured(std::vector<std::vector<CUlaunchAttribute>> launches) {
    return capture(m_.stream, [&] {
      for (std::vector<CUlaunchAttribute>& attributes : launches) {
        CUlaunchConfig c{};
        c.gridDimX = 8;
        c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
        c.hStream = m_.stream;
        c.attrs = attributes.data(), c.numAttrs = static_cast<unsigned>(attributes.size());
        RONDO_CU(d_, cuLaunchKernelEx(&c, m_.nop, nullptr, nullptr));
      }
    });
  }
  static CUlaunchAttribute remote() {
    return attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
  }
};

TEST_F(Attributes, ThatAnUpdateWouldKeepSilentlyRefuseIt) {
  m_.fake.kept_attributes = {4};
  {
    const Graph wider = with({attribute::cluster({4})});
    const GraphExec exec = with({attribute::cluster({2})}).instantiate();
    CUgraphExecUpdateResultInfo info{};
    EXPECT_EQ(d_.cuGraphExecUpdate(exec.get(), wider.get(), &info), CUDA_SUCCESS);
    EXPECT_EQ(m_.fake.exec_attribute_cluster_x(exec.get(), 0), 2) << "the trap that this guards against";
  }
  GraphExec exec = with({attribute::cluster({2})}).instantiate();
  const Graph wider = with({attribute::cluster({4})});
  const Updated updated = exec.update(wider);
  EXPECT_FALSE(updated.ok);
  EXPECT_TRUE(updated.attributes_differ);
  EXPECT_EQ(updated.node, wider.nodes()[0]);
  EXPECT_EQ(updated.reason,
            "the cluster dimension of kernel node nop differs: the driver may say success and keep the old "
            "value, so the update was not made. Instantiate anew (update_or_reinstantiate), or update with "
            "AttributeCheck::Skip if it does not matter");
  EXPECT_EQ(exec.update_or_reinstantiate(wider).how, UpdateHow::Reinstantiated);
  EXPECT_EQ(m_.fake.exec_attribute_cluster_x(exec.get(), 0), 4);
  EXPECT_TRUE(exec.update(with({attribute::cluster({4})})).ok);
  EXPECT_TRUE(exec.update(with({attribute::cluster({2})}), AttributeCheck::Skip).ok);
}

TEST_F(Attributes, AreThoseOfTheNewExecOnceItIsInstantiatedAnew) {
  GraphExec exec = with({}).instantiate();
  EXPECT_TRUE(exec.update(with({})).ok);
  EXPECT_EQ(exec.update_or_reinstantiate(with({attribute::cluster({2})})).how, UpdateHow::Reinstantiated);
  EXPECT_TRUE(exec.update(with({})).attributes_differ);
  EXPECT_EQ(exec.update_or_reinstantiate(with({})).how, UpdateHow::Reinstantiated);
  EXPECT_TRUE(exec.update(with({})).ok);
  EXPECT_TRUE(exec.update(with({attribute::cluster({2})})).attributes_differ);
}

TEST_F(Attributes, OfCapturedLaunchesAreCompared) {
  GraphExec exec = captured({{}}).instantiate();
  EXPECT_TRUE(exec.update(captured({{}})).ok);
  EXPECT_TRUE(exec.update(with({})).ok) << "a node made by hand has the same defaults";
  EXPECT_EQ(
      exec.update(captured({{remote()}})).reason.find("the memory sync domain of kernel node nop differs: "),
      0u);
  EXPECT_TRUE(exec.update(captured({{attribute::cluster({1})}})).ok) << "a cluster of one block is none";
  CUlaunchAttribute map{};
  map.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
  map.value.memSyncDomainMap.remote = 2;
  EXPECT_EQ(
      exec.update(captured({{map}})).reason.find("the memory sync domain map of kernel node nop differs: "),
      0u);
}

// docs/graph_facts.md: UpdateToCooperative, UpdateOfThePriority and UpdateOfThePriorityThatCounts.
TEST_F(Attributes, ThatTheDriverComparesAreLeftToIt) {
  GraphExec exec = with({attribute::priority(1)}).instantiate();
  EXPECT_TRUE(exec.update(with({attribute::priority(2)})).ok);
  const Updated cooperative = exec.update(with({attribute::cooperative()}));
  EXPECT_FALSE(cooperative.attributes_differ);
  EXPECT_EQ(cooperative.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  GraphExec by_priority = with({attribute::priority(1)}).instantiate({.node_priority = true});
  EXPECT_EQ(by_priority.update(with({attribute::priority(2)})).result,
            CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
}

TEST_F(Attributes, OfAKernelInAClusterMayHideOneThatCannotBeRead) {
  GraphExec exec = captured({{attribute::cluster({2})}}).instantiate();
  EXPECT_EQ(
      exec.update(captured({{attribute::cluster({2})}}))
          .reason.find("kernel node nop is in a cluster, and the driver does not tell its preferred cluster "
                       "dimension: "),
      0u);
  // Of a graph that was built here it is known: a node does not take that one attribute (driver 580).
  GraphExec own = with({attribute::cluster({2})}).instantiate();
  EXPECT_TRUE(own.update(with({attribute::cluster({2})})).ok);
#if CUDA_VERSION >= 12080
  CUlaunchAttribute preferred{};
  preferred.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
  EXPECT_NE(message_of(
                [&] {
                  (void)with({attribute::cluster({2}), preferred});
                },
                ErrorKind::Device)
                .find("attribute 11"),
            std::string::npos);
#endif
}

TEST_F(Attributes, OfSeveralKindsAskForTheSameOrder) {
  const auto pair = [&](bool first_remote, bool swapped) {
    Graph g;
    auto plain = kernel(m_.nop, 8, 1, 0), other = kernel(m_.nop, 8, 1, 0).with(remote());
    const NodeView a = g.add(first_remote ? other : plain), b = g.add(first_remote ? plain : other);
    swapped ? g.empty({b, a}) : g.empty({a, b});
    return g;
  };
  GraphExec exec = pair(false, false).instantiate();
  EXPECT_TRUE(exec.update(pair(false, false)).ok);
  EXPECT_EQ(exec.update(pair(true, false)).reason.find("the memory sync domain of kernel node nop differs: "),
            0u);
  // The driver would pair the first with the second here (UpdatePairsNodesByTheOrderOfEdges).
  EXPECT_EQ(
      exec.update(pair(false, true))
          .reason.find("kernel nodes have attributes of several kinds, and nodes or edges come in another "
                       "order than before, so it is not known which kernel takes whose place: "),
      0u);
}

TEST_F(Attributes, OfChildrenAreComparedToo) {
  const auto nested = [&](std::initializer_list<CUlaunchAttribute> attributes) {
    Graph g;
    g.child(with(attributes).clone());
    return g;
  };
  GraphExec exec = nested({remote()}).instantiate();
  EXPECT_TRUE(exec.update(nested({remote()})).ok);
  EXPECT_TRUE(exec.update(nested({attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT)}))
                  .attributes_differ);
}

TEST_F(Attributes, ChangedBehindAnExecAreNotGuessed) {
  Graph g;
  const NodeView node = g.add(kernel(m_.nop, 1, 1, 0).with(attribute::priority(1)));
  GraphExec exec = g.instantiate();
  node.set(attribute::priority(2));
  EXPECT_EQ(
      exec.update(g).reason.find("the attributes that the executable graph was made with are not known"), 0u);
}

// What the reads cost is measured by the benchmark; here, that there are no more of them.
TEST_F(Attributes, OfACapturedGraphCostThreeCallsANode) {
  constexpr size_t kNodes = 20;
  const std::vector<std::vector<CUlaunchAttribute>> launches(kNodes);
  GraphExec exec = captured(launches).instantiate();
  ASSERT_TRUE(exec.update(captured(launches)).ok);  // reads the exec's own graph too
  Graph next = captured(launches);
  m_.fake.log.clear();
  ASSERT_TRUE(exec.update(next).ok);
  EXPECT_EQ(m_.fake.count("cuGraphKernelNodeGetAttribute"), 3 * kNodes);
  EXPECT_EQ(m_.fake.log.size(), 3 * kNodes + 2 + 1) << "and the list of nodes, and the update";
  m_.fake.log.clear();
  ASSERT_TRUE(exec.update(next).ok);
  EXPECT_EQ(m_.fake.log, std::vector<std::string>{"cuGraphExecUpdate"}) << "a graph that is used again";
}

}  // namespace
}  // namespace rondo::graph
