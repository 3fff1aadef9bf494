// Facts: nodes, edges, attributes; what an instantiation and a launch answer.
#include "graph_conformance.h"

namespace rondo::graph {
namespace {

// The node that a launch of nop with these attributes becomes.
CUgraphNode captured_kernel(World& w, std::span<CUlaunchAttribute> attributes) {
  CUlaunchConfig c{};
  c.gridDimX = 4;
  c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
  c.hStream = w.a;
  c.attrs = attributes.data(), c.numAttrs = static_cast<unsigned>(attributes.size());
  (void)w.begin(w.a);
  (void)w.d.cuLaunchKernelEx(&c, w.nop, nullptr, nullptr);
  CUgraph g = nullptr;
  (void)w.end(w.a, &g);
  return GraphView(g).nodes().at(0).get();
}

}  // namespace

std::vector<Fact> node_facts() {
  using W = World&;
  return {
    {"NodesComeInTheOrderInWhichTheyWereAdded", "0 1 2",
     [](W w) {
       const CUgraph g = w.graph();
       const CUgraphNode nodes[] = {w.kernel_node(g), w.empty_node(g), w.fill_node(g)};
       std::string out;
       for (const NodeView& n : GraphView(g).nodes())
         for (int i = 0; i < 3; ++i)
           if (nodes[i] == n.get()) out += (out.empty() ? "" : " ") + std::to_string(i);
       return out;
     }},
        {"AnEdgeTwice", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g), y = w.empty_node(g, {x});
           return say({w.d.cuGraphAddDependencies_v1(g, &x, &y, 1)});
         }},
        {"AnEdgeToItself", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g);
           return say({w.d.cuGraphAddDependencies_v1(g, &x, &x, 1)});
         }},
        {"RemoveAnEdgeThatIsNotThere", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode x = w.empty_node(g), y = w.empty_node(g);
           return say({w.d.cuGraphRemoveDependencies_v1(g, &x, &y, 1)});
         }},
        {"ADependencyOfAnotherGraph", "1",
         [](W w) {
           CUgraphNode foreign = w.empty_node(w.graph()), n = nullptr;
           return say({w.d.cuGraphAddEmptyNode(&n, w.graph(), &foreign, 1)});
         }},
        {"AKernelWithoutBlocks", "1",
         [](W w) {
           CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.nop, Dim3(0), 1, 0);
           CUgraphNode n = nullptr;
           return say({w.d.cuGraphAddKernelNode(&n, w.graph(), nullptr, 0, &k)});
         }},
        {"AnAllocationBeyondAllMemory", "2",
         [](W w) {
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           return say({w.alloc_node(w.graph(), size_t{1} << 50, &n, &p)});
         }},
        {"AGraphWithMemoryIsNotCloned", "801",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(g, 256, &n, &p);
           CUgraph copy = nullptr;
           return say({w.d.cuGraphClone(&copy, g)});
         }},
        {"AGraphWithMemoryIsNoChild", "801",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(g, 256, &n, &p);
           return say({w.d.cuGraphAddChildGraphNode(&n, w.graph(), nullptr, 0, g)});
         }},
        {"AnAllocNodeIsNotRemoved", "801",
         [](W w) {
           CUgraphNode n = nullptr;
           CUdeviceptr p = 0;
           (void)w.alloc_node(w.graph(), 256, &n, &p);
           return say({w.d.cuGraphDestroyNode(n)});
         }},
        {"AGraphAsChildOfItself", "1",
         [](W w) {
           const CUgraph g = w.graph();
           CUgraphNode n = nullptr;
           return say({w.d.cuGraphAddChildGraphNode(&n, g, nullptr, 0, g)});
         },
         12000, Risk::EndsTheProcess},
        {"AttributesThatCanBeRead", "1 2 4 5 8 9 10",
         [](W w) {
           const CUgraphNode n = w.kernel_node(w.graph());
           std::string out;
           for (int id : {1, 2, 4, 5, 8, 9, 10, 11}) {
             CUlaunchAttributeValue v{};
             if (w.d.cuGraphKernelNodeGetAttribute(n, static_cast<CUlaunchAttributeID>(id), &v) ==
                 CUDA_SUCCESS)
               out += (out.empty() ? "" : " ") + std::to_string(id);
           }
           return out;
         },
         12080},
        // Cluster dimension and memory sync domain of a captured launch, as its node tells them.
        {"AttributesOfACapturedLaunchCanBeRead", "cluster 2, domain 1",
         [](W w) {
           CUlaunchAttribute attributes[] = {attribute::cluster({2}),
                                             attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)};
           const CUgraphNode n = captured_kernel(w, attributes);
           CUlaunchAttributeValue cluster{}, domain{};
           (void)w.d.cuGraphKernelNodeGetAttribute(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster);
           (void)w.d.cuGraphKernelNodeGetAttribute(n, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &domain);
           return "cluster " + std::to_string(cluster.clusterDim.x) + ", domain " +
                  std::to_string(domain.memSyncDomain);
         }},
        // So that an exec of the one is updated from the other.
        {"DefaultsOfACapturedLaunchAreThoseOfANode", "4 9 10",
         [](W w) {
           const CUgraphNode captured = captured_kernel(w, {}), made = w.kernel_node(w.graph());
           std::string out;
           for (int id : {4, 9, 10}) {
             CUlaunchAttributeValue a{}, b{};
             (void)w.d.cuGraphKernelNodeGetAttribute(captured, static_cast<CUlaunchAttributeID>(id), &a);
             (void)w.d.cuGraphKernelNodeGetAttribute(made, static_cast<CUlaunchAttributeID>(id), &b);
             if (std::memcmp(&a, &b, sizeof a) == 0) out += (out.empty() ? "" : " ") + std::to_string(id);
           }
           return out;
         }},
#if CUDA_VERSION >= 12080
        // Set, read, instantiate; then the size of the cluster that ran. Best effort, so 2 or 4.
        {"APreferredClusterDimension", "1 1 0/0 2",
         [](W w) {
           const CUgraph g = w.graph();
           CUdeviceptr p = w.memory;
           void* args[] = {&p};
           CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.cluster_size, 4, 1, 0);
           k.kernelParams = args;
           CUgraphNode n = nullptr;
           RONDO_CU(w.d, cuGraphAddKernelNode(&n, g, nullptr, 0, &k));
           w.attribute(n, attribute::cluster({2}));
           CUlaunchAttributeValue v{};
           v.preferredClusterDim.x = 4, v.preferredClusterDim.y = v.preferredClusterDim.z = 1;
           constexpr auto kId = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
           const CUresult set = w.d.cuGraphKernelNodeSetAttribute(n, kId, &v);
           std::string out = say({set, w.d.cuGraphKernelNodeGetAttribute(n, kId, &v)});
           CUgraphExec e = nullptr;
           out += " " + w.instantiate(g, 0, &e);
           if (!e) return out;
           RONDO_CU(w.d, cuGraphLaunch(e, w.a));
           return out + " " + std::to_string(w.value());
         },
         12080},
#endif
        {"AttributesAreCopiedFromTheSecondToTheFirst", "3",
         [](W w) {
           const CUgraph g = w.graph();
           const CUgraphNode to = w.kernel_node(g), from = w.kernel_node(g);
           w.attribute(from, attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE));
           (void)w.d.cuGraphKernelNodeCopyAttributes(to, from);
           CUlaunchAttributeValue v{};
           (void)w.d.cuGraphKernelNodeGetAttribute(to, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &v);
           return std::to_string(v.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? 3 : 0);
         }},
#if CUDA_VERSION >= 12030
        {"EdgeDataBetweenKernels",
         "programmatic 0, launch order 0, both 0, trigger without programmatic 1, from a fill 1, "
         "to an empty node 1",
         [](W w) {
           const auto connect = [&](EdgeData data, bool from_fill = false, bool to_empty = false) {
             const CUgraph g = w.graph();
             CUgraphNode x = from_fill ? w.fill_node(g) : w.kernel_node(g),
                         y = to_empty ? w.empty_node(g) : w.kernel_node(g);
             CUgraphEdgeData e{};
             e.from_port = data.from_port, e.type = data.type;
             return std::to_string(w.d.cuGraphAddDependencies_v2(g, &x, &y, &e, 1));
           };
           return "programmatic " + connect(kProgrammatic) + ", launch order " + connect(kLaunchOrder) +
                  ", both " + connect(kProgrammaticLaunchOrder) + ", trigger without programmatic " +
                  connect({1, 0, 0}) + ", from a fill " + connect(kProgrammatic, true) +
                  ", to an empty node " + connect(kProgrammatic, false, true);
         },
         12030},
#endif
  };
}

std::vector<Fact> exec_facts() {
  using W = World&;
  return {
      {"ACycle", "1/2 node",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode x = w.empty_node(g), y = w.empty_node(g, {x});
         (void)w.d.cuGraphAddDependencies_v1(g, &y, &x, 1);
         return w.instantiate(g);
       }},
      {"AHostNodeForDeviceLaunch", "1/3 node",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g), w.host_node(g);
         return w.instantiate(g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
       }},
      {"FlagsThatExcludeEachOther", "1/1",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g);
         return w.instantiate(
             g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
       }},
      {"AnEmptyGraph", "0/0", [](W w) { return w.instantiate(w.graph()); }},
      {"ASecondExecOfAGraphWithMemory", "0/0, 801/1",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const std::string first = w.instantiate(g);
         return first + ", " + w.instantiate(g);
       }},
      {"LaunchesWithUnfreedMemory", "0 1",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const CUgraphExec e = w.exec(g);
         const CUresult first = w.d.cuGraphLaunch(e, w.a);
         return say({first, w.d.cuGraphLaunch(e, w.a)});
       }},
      {"LaunchesWithUnfreedMemoryAndAutoFree", "0 0",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode n = nullptr;
         CUdeviceptr p = 0;
         (void)w.alloc_node(g, 256, &n, &p);
         const CUgraphExec e = w.exec(g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
         const CUresult first = w.d.cuGraphLaunch(e, w.a);
         return say({first, w.d.cuGraphLaunch(e, w.a)});
       }},
      {"TheOrderOfEdgesIsTheOrderOfExecution", "15",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode last = w.kernel_node(g, {}, w.add, 5), first = w.kernel_node(g, {}, w.store, 10);
         (void)w.d.cuGraphAddDependencies_v1(g, &first, &last, 1);
         RONDO_CU(w.d, cuGraphLaunch(w.exec(g), w.a));
         return std::to_string(w.value());
       }},
      {"ADisabledKernel", "10 21",
       [](W w) {
         const CUgraph g = w.graph();
         CUgraphNode x = w.kernel_node(g, {}, w.add, 1);
         w.kernel_node(g, {x}, w.add, 10);
         const CUgraphExec e = w.exec(g);
         RONDO_CU(w.d, cuGraphNodeSetEnabled(e, x, 0));
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         const uint32_t off = w.value();
         RONDO_CU(w.d, cuGraphNodeSetEnabled(e, x, 1));
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return std::to_string(off) + " " + std::to_string(w.value());
       }},
      {"DisablingAHostNode", "1",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.host_node(g);
         return say({w.d.cuGraphNodeSetEnabled(w.exec(g), n, 0)});
       }},
      {"SetANodeOfAnotherGraph", "1",
       [](W w) {
         const CUgraph g = w.graph();
         w.kernel_node(g);
         const CUgraphNode foreign = w.kernel_node(w.graph());
         const CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.nop, 2, 1, 0);
         return say({w.d.cuGraphExecKernelNodeSetParams(w.exec(g), foreign, &k)});
       }},
      {"SetAKernelsArguments", "0 7",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.kernel_node(g, {}, w.store, 3);
         const CUgraphExec e = w.exec(g);
         CUdeviceptr p = w.memory;
         uint32_t v = 7;
         void* args[] = {&p, &v};
         CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.store, 1, 1, 0);
         k.kernelParams = args;
         const CUresult code = w.d.cuGraphExecKernelNodeSetParams(e, n, &k);
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return say({code, static_cast<int>(w.value())});
       }},
      {"SetAnotherFunction", "0 7",
       [](W w) {
         const CUgraph g = w.graph();
         const CUgraphNode n = w.kernel_node(g, {}, w.store, 3);
         const CUgraphExec e = w.exec(g);
         CUdeviceptr p = w.memory;
         uint32_t v = 7;
         void* args[] = {&p, &v};
         CUDA_KERNEL_NODE_PARAMS k = kernel_shape(w.add, 1, 1, 0);
         k.kernelParams = args;
         const CUresult code = w.d.cuGraphExecKernelNodeSetParams(e, n, &k);
         RONDO_CU(w.d, cuGraphLaunch(e, w.a));
         return say({code, static_cast<int>(w.value())});
       }},
      {"AWhileLoop", "0 5",
       [](W w) {
         Graph g;
         g.fill(w.memory, 5, 1, 4);
         const ConditionHandle more = g.condition(1u);
         Condition loop = g.while_node(more, g.nodes()[0]);
         const NodeView step = loop.body().add(kernel(w.add, 1, 1, 0, w.memory + 4, 1u));
         loop.body().add(kernel(w.count_down, 1, 1, 0, w.memory, more), step);
         g.instantiate().launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1));
       },
       12030},
      {"ASwitch", "12",
       [](W w) {
         Graph g;
         const NodeView two = g.fill(w.memory, 2, 1, 4);
         const ConditionHandle h = g.condition();
         const NodeView set = g.add(kernel(w.choose, 1, 1, 0, w.memory, h), two);
         Condition c = g.switch_node(h, 3, set);
         for (unsigned i = 0; i < 3; ++i) c.body(i).add(kernel(w.store, 1, 1, 0, w.memory + 4, 10 + i));
         g.instantiate().launch(w.a);
         return std::to_string(w.value(1));
       },
       12080},
      {"AConditionThatNoNodeUses", "1/5",
       [](W w) {
         Graph g;
         g.condition();
         return w.instantiate(g.get());
       },
       12080},
      {"AGraphWithAConditionTwice", "0/0, 801/1",
       [](W w) {
         Graph g;
         g.if_node(g.condition(0u)).body().add(kernel(w.nop, 1, 1, 0));
         const std::string first = w.instantiate(g.get());
         std::string out = first + ", " + w.instantiate(g.get());
         for (CUgraphExec e : w.execs) (void)w.d.cuGraphExecDestroy(e);
         w.execs.clear();
         return out;
       },
       12030},
      {"AGraphWithAConditionAsClone", "801",
       [](W w) {
         Graph g;
         g.if_node(g.condition(0u)).body().add(kernel(w.nop, 1, 1, 0));
         CUgraph copy = nullptr;
         return say({w.d.cuGraphClone(&copy, g.get())});
       },
       12030},
      {"AHostNodeInABody", "0, then 1/3 node",
       [](W w) {
         Graph g;
         Condition c = g.if_node(g.condition(0u));
         const CUDA_HOST_NODE_PARAMS h{[](void*) {}, nullptr};
         CUgraphNode n = nullptr;
         const CUresult code = w.d.cuGraphAddHostNode(&n, c.body().get(), nullptr, 0, &h);
         return code == CUDA_SUCCESS ? "0, then " + w.instantiate(g.get()) : say({code});
       },
       12030},
  };
}

}  // namespace rondo::graph
