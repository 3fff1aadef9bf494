// Facts: what a whole-graph update takes and refuses, with which result.
#include "graph_conformance.h"

namespace rondo::graph {

std::vector<Fact> update_facts() {
  using W = World&;
  const auto kernel_with = [](W w, const CUlaunchAttribute& a, unsigned grid = 4) {
    const CUgraph g = w.graph();
    w.attribute(w.kernel_node(g, {}, nullptr, 0, grid), a);
    return g;
  };
  return {
    {"UpdateToTheSame", "0/0",
     [](W w) {
       const CUgraph x = w.graph(), y = w.graph();
       w.kernel_node(x), w.kernel_node(y);
       return w.update(x, y);
     }},
        {"UpdateToMoreNodes", "910/2",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(y), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToFewerNodes", "910/2",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(x), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToAnotherKindOfNode", "910/3 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x), w.copy_node(y, false);
           return w.update(x, y);
         }},
        {"UpdateToOtherEdges", "910/2 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           const CUgraphNode xa = w.kernel_node(x);
           w.kernel_node(x, {xa}), w.kernel_node(y), w.kernel_node(y);
           return w.update(x, y);
         }},
        {"UpdateToAnotherOrderOfEdges", "910/3 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           const CUgraphNode xa = w.kernel_node(x), xb = w.fill_node(x), ya = w.kernel_node(y),
                             yb = w.fill_node(y);
           w.empty_node(x, {xa, xb}), w.empty_node(y, {yb, ya});
           return w.update(x, y);
         }},
        // Nodes of one kind, edges in another order: each node takes the place that its edge says.
        {"UpdatePairsNodesByTheOrderOfEdges", "0/0 3 4",
         [](W w) {
           const auto pair = [&](uint32_t first, bool swapped) {
             Graph g;
             const NodeView a = g.add(kernel(w.store, 1, 1, 0, w.memory, first)),
                            b = g.add(kernel(w.store, 1, 1, 0, w.memory + 4, first + 1));
             swapped ? g.empty({b, a}) : g.empty({a, b});
             return g.release();
           };
           const CUgraph x = w.graphs.emplace_back(pair(1, false)), y = w.graphs.emplace_back(pair(3, true));
           const CUgraphExec e = w.exec(x);
           const std::string answer = w.update(e, y);
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return answer + " " + std::to_string(w.value(0)) + " " + std::to_string(w.value(1));
         }},
        {"UpdateToAnotherFunction", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store), w.kernel_node(y, {}, w.add);
           return w.update(x, y);
         }},
        {"UpdateToAnotherGrid", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x), w.kernel_node(y, {}, nullptr, 0, 8);
           return w.update(x, y);
         }},
        {"UpdateOfACopyFromTheHostToOneFromTheDevice", "910/5 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.copy_node(x, true), w.copy_node(y, false);
           return w.update(x, y);
         }},
        {"UpdateOfAFillsLength", "0/0",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x), w.fill_node(y, {}, 32);
           return w.update(x, y);
         }},
        {"UpdateOfTheRowsOfAFill", "910/5 node",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.fill_node(x, {}, 64, 2), w.fill_node(y, {}, 64, 4);
           return w.update(x, y);
         }},
        {"UpdateToCooperative", "910/8 node",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::cooperative(false)),
                           kernel_with(w, attribute::cooperative(true)));
         }},
        {"UpdateOfThePriority", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::priority(0)), kernel_with(w, attribute::priority(-1)));
         }},
        {"UpdateOfThePriorityThatCounts", "910/8 node",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::priority(0)), kernel_with(w, attribute::priority(-1)),
                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
         }},
        {"UpdateOfTheClusterDimension", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::cluster({2})), kernel_with(w, attribute::cluster({4})));
         }},
        // How many blocks a cluster has when it runs: before the update, and after it.
        {"UpdateOfTheClusterDimensionCounts", "2, 0/0 2",
         [](W w) {
           const auto graph = [&](unsigned cluster) {
             const CUgraph g = w.graph();
             CUdeviceptr p = w.memory;
             void* args[] = {&p};
             CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.cluster_size, 8, 1, 0);
             k.kernelParams = args;
             CUgraphNode n = nullptr;
             RONDO_CU(w.d, cuGraphAddKernelNode(&n, g, nullptr, 0, &k));
             w.attribute(n, attribute::cluster({cluster}));
             return g;
           };
           const CUgraphExec e = w.exec(graph(2));
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           std::string out = std::to_string(w.value()) + ", " + w.update(e, graph(4));
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return out + " " + std::to_string(w.value());
         }},
        {"UpdateOfTheAccessPolicyWindow", "0/0",
         [kernel_with](W w) {
           CUaccessPolicyWindow window{};
           window.base_ptr = reinterpret_cast<void*>(w.memory);
           window.num_bytes = 1024;
           window.hitRatio = 1;
           window.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
           const CUgraph x = kernel_with(w, attribute::access_policy(window));
           window.num_bytes = 2048;
           return w.update(x, kernel_with(w, attribute::access_policy(window)));
         }},
        {"UpdateOfTheClusterSchedulingPolicy", "0/0",
         [kernel_with](W w) {
           const auto with = [&](CUclusterSchedulingPolicy policy) {
             CUlaunchAttribute a{};
             a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
             a.value.clusterSchedulingPolicyPreference = policy;
             return kernel_with(w, a);
           };
           return w.update(with(CU_CLUSTER_SCHEDULING_POLICY_SPREAD),
                           with(CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING));
         }},
        {"UpdateOfAGraphWithMemory", "0/0",
         [](W w) {
           const auto graph = [&] {
             const CUgraph g = w.graph();
             CUgraphNode n = nullptr;
             CUdeviceptr p = 0;
             (void)w.alloc_node(g, 256, &n, &p);
             return g;
           };
           return w.update(graph(), graph());
         }},
        {"UpdateOfAGraphWithACondition", "0/0",
         [](W w) {
           const auto graph = [&] {
             Graph g;
             g.if_node(g.condition(0u)).body().add(kernel(w.nop, 1, 1, 0));
             return w.graphs.emplace_back(g.release());
           };
           return w.update(graph(), graph());
         },
         12030},
        {"UpdateOfTheMemorySyncDomain", "0/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT)),
                           kernel_with(w, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)));
         }},
        {"ARefusedUpdateLeavesTheExec", "910/2 3",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store, 3);
           w.kernel_node(y, {}, w.store, 4), w.empty_node(y);
           const CUgraphExec e = w.exec(x);
           const std::string answer = w.update(e, y);
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return answer + " " + std::to_string(w.value());
         }},
        {"AnUpdateTakesTheArguments", "0/0 4",
         [](W w) {
           const CUgraph x = w.graph(), y = w.graph();
           w.kernel_node(x, {}, w.store, 3), w.kernel_node(y, {}, w.store, 4);
           const CUgraphExec e = w.exec(x);
           const std::string answer = w.update(e, y);
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return answer + " " + std::to_string(w.value());
         }},
#if CUDA_VERSION >= 12040
        {"UpdateOfADeviceUpdatableNode", "801/0",
         [kernel_with](W w) {
           return w.update(kernel_with(w, attribute::device_updatable()),
                           kernel_with(w, attribute::device_updatable()));
         },
         12040},
#endif
  };
}

}  // namespace rondo::graph
