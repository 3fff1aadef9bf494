// Facts: what the library promises, on whichever driver this is.
#include "graph_conformance.h"

#include <thread>

namespace rondo::graph {

std::vector<Fact> library_facts() {
  using W = World&;
  const auto launch = [](W w, CUstream s, CUfunction f, CUdeviceptr p, uint32_t v) {
    void* args[] = {&p, &v};
    RONDO_CU(w.d, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, nullptr));
  };
  const auto text_of = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  return {
      {"RondoCapturesForksAndGrafts", "111 7 4 nodes",
       [launch](W w) {
         Graph part;
         part.add(kernel(w.add, 1, 1, 0, w.memory, 10u));
         const Graph g = capture(w.a, [&](Capture& c) {
           launch(w, w.a, w.store, w.memory, 1);
           c.fork(w.b);
           launch(w, w.b, w.store, w.memory + 4, 7);
           c.graft([&](GraphView graph, After tip) { return graph.child(part, tip); });
           c.join(w.b);
           launch(w, w.a, w.add, w.memory, 100);
         });
         g.instantiate().launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1)) + " " +
                std::to_string(g.node_count()) + " nodes";
       }},
      {"RondoNamesAStreamThatWasNotJoined", "named, and both go on",
       [launch, text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&](Capture& c) {
             c.fork(w.b);
             launch(w, w.b, w.store, w.memory, 1);
           });
         });
         if (text.find("had not been joined to it") == text.npos) return text;
         launch(w, w.a, w.store, w.memory, 1), launch(w, w.b, w.store, w.memory, 1);
         return std::string("named, and both go on");
       }},
      {"RondoExplainsAnAllocationInACapture", "explained, and the stream goes on",
       [launch, text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&] {
             CUdeviceptr p = 0;
             RONDO_GRAPH_CALL(w.d.cuMemAlloc(&p, 256));
           });
         });
         if (text.find("Allocating, freeing or loading is not allowed in a capture") == text.npos)
           return text;
         const Graph g = capture(w.a, [&] { launch(w, w.a, w.store, w.memory, 1); });
         return std::string(g.node_count() == 1 ? "explained, and the stream goes on" : "?");
       }},
      {"RondoFindsTheStretchBetweenCheckpoints", "found",
       [text_of](W w) {
         const std::string text = text_of([&] {
           (void)capture(w.a, [&] {
             RONDO_GRAPH_CHECKPOINT("one");
             (void)w.d.cuStreamSynchronize(w.a);
             RONDO_GRAPH_CHECKPOINT("two");
           });
         });
         return text.find("was broken between checkpoint \"one\"") != text.npos ? std::string("found") : text;
       }},
      {"RondoUpdatesOrInstantiatesAnew", "updated 5, anew 12",
       [](W w) {
         const auto chain = [&](int n, uint32_t first) {
           Graph g;
           NodeView last = g.add(kernel(w.store, 1, 1, 0, w.memory, first));
           for (int i = 1; i < n; ++i) last = g.add(kernel(w.add, 1, 1, 0, w.memory, 1u), last);
           return g;
         };
         GraphExec exec = chain(2, 1).instantiate();
         std::string out =
             exec.update_or_reinstantiate(chain(2, 4)).how == UpdateHow::Updated ? "updated " : "anew ";
         exec.launch(w.a);
         out += std::to_string(w.value()) + ", ";
         out += exec.update_or_reinstantiate(chain(3, 10)).how == UpdateHow::Updated ? "updated " : "anew ";
         exec.launch(w.a);
         return out + std::to_string(w.value());
       }},
      {"RondoComparesAttributes", "refused, then anew",
       [](W w) {
         const auto with = [&](CUlaunchMemSyncDomain domain) {
           Graph g;
           g.add(kernel(w.nop, 1, 1, 0).with(attribute::memory_sync_domain(domain)));
           return g;
         };
         GraphExec exec = with(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT).instantiate();
         const Graph other = with(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
         if (exec.update(other).ok) return std::string("taken");
         return std::string(exec.update_or_reinstantiate(other).how == UpdateHow::Reinstantiated
                                ? "refused, then anew"
                                : "?");
       }},
      {"RondoChangesNodesOfAGraphThatIsGone", "9 22",
       [](W w) {
         NodeView k, f;
         std::optional<GraphExec> exec;
         {
           Graph g;
           k = g.add(kernel(w.store, 1, 1, 0, w.memory, 1u));
           f = g.fill(w.memory + 4, 1, 1, 4, k);
           exec = g.instantiate();
         }
         exec->set(k, kernel(w.store, 1, 1, 0, w.memory, 9u));
         CUDA_MEMSET_NODE_PARAMS m = f.memset();
         m.value = 22;
         exec->set(f, m);
         exec->launch(w.a);
         return std::to_string(w.value(0)) + " " + std::to_string(w.value(1));
       }},
      {"RondoLaunchesOneExecFromManyThreads", "400",
       [](W w) {
         Graph g;
         g.add(kernel(w.add, 1, 1, 0, w.memory, 1u));
         const GraphExec exec = g.instantiate();
         std::vector<std::thread> threads;
         const CUcontext c = w.context();
         for (CUstream s : {w.a, w.b, w.a, w.b})
           threads.emplace_back([&, s] {
             CUcontext ignored = nullptr;
             (void)w.d.cuCtxPushCurrent(c);
             for (int i = 0; i < 100; ++i) exec.launch(s);
             (void)w.d.cuCtxPopCurrent(&ignored);
           });
         for (std::thread& t : threads) t.join();
         RONDO_CU(w.d, cuCtxSynchronize());
         return std::to_string(w.value());
       }},
      {"RondoKeepsAHostFunctionAsLongAsItsExecs", "2",
       [](W w) {
         auto counter = std::make_shared<std::atomic<int>>(0);
         std::optional<GraphExec> exec;
         {
           Graph g;
           g.host([counter] { ++*counter; });
           exec = g.instantiate();
         }
         exec->launch(w.a), exec->launch(w.a);
         RONDO_CU(w.d, cuStreamSynchronize(w.a));
         return std::to_string(*counter);
       }},
      {"RondoBuildsProgrammaticEdges", "3, programmatic",
       [](W w) {
         Graph g;
         const NodeView first = g.add(kernel(w.store, 1, 1, 0, w.memory, 3u));
         g.add(kernel(w.nop, 1, 1, 0), {{first, kProgrammatic}});
         g.instantiate().launch(w.a);
         return std::to_string(w.value()) + ", " + name(g.edges().at(0).data);
       },
       12030},
      {"RondoCapturesAllocationsAsNodes", "alloc, kernel, free",
       [launch](W w) {
         const Graph g = capture(w.a, [&] {
           CUdeviceptr p = 0;
           RONDO_GRAPH_CALL(w.d.cuMemAllocAsync(&p, 256, w.a));
           launch(w, w.a, w.store, p, 3);
           RONDO_GRAPH_CALL(w.d.cuMemFreeAsync(p, w.a));
         });
         std::string out;
         for (const NodeView& n : g.nodes()) out += (out.empty() ? "" : ", ") + std::string(name(n.kind()));
         const GraphExec exec = g.instantiate();
         exec.launch(w.a), exec.launch(w.a);
         RONDO_CU(w.d, cuStreamSynchronize(w.a));
         return out;
       }},
      {"RondoMovesAChildIn", "8",
       [](W w) {
         Graph part, g;
         const Allocation a = part.alloc(256);
         const NodeView k = part.add(kernel(w.store, 1, 1, 0, w.memory, 8u), a.node);
         part.free(a.address, k);
         g.child(std::move(part));
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       },
       12090},
      {"RondoRefusesAGraphAsItsOwnChild", "refused",
       [text_of](W) {
         Graph g;
         g.empty();
         const std::string text = text_of([&] { g.child(g); });
         return text.find("a graph cannot be a child of itself") == 0 ? std::string("refused") : text;
       }},
      {"RondoWritesMemoryByABatchNode", "44",
       [](W w) {
         CUstreamBatchMemOpParams write{};
         write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
         write.writeValue.address = w.memory;
         write.writeValue.value = 44;
         Graph g;
         g.batch({&write, 1});
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       }},
      {"RondoCapturesIntoABody", "0",
       [](W w) {
         Graph g;
         const NodeView set = g.fill(w.memory, 3, 1, 4);
         const ConditionHandle more = g.condition(1u);
         Condition loop = g.while_node(more, set);
         capture_into(loop.body(), w.a, {}, [&] {
           CUdeviceptr p = w.memory;
           ConditionHandle h = more;
           void* args[] = {&p, &h};
           RONDO_CU(w.d, cuLaunchKernel(w.count_down, 1, 1, 1, 1, 1, 1, 0, w.a, args, nullptr));
         });
         g.instantiate().launch(w.a);
         return std::to_string(w.value());
       },
       12030},
      {"RondoKnowsThatABrokenCaptureTookTheGraph", "lost, and 3 from before",
       [launch, text_of](W w) {
         std::optional<GraphExec> exec;
         {
           Graph g;
           g.add(kernel(w.store, 1, 1, 0, w.memory, 3u));
           exec = g.instantiate();
           (void)text_of([&] {
             capture_into(g, w.a, {}, [&] {
               launch(w, w.a, w.store, w.memory, 4);
               (void)w.d.cuStreamSynchronize(w.a);
             });
           });
           const std::string text = text_of([&] { (void)g.node_count(); });
           if (text.find("this graph was lost when a capture into it") != 0) return text;
         }
         exec->launch(w.a);
         return "lost, and " + std::to_string(w.value()) + " from before";
       },
       12030},
      {"RondoInstantiatesDuringACapture", "1 node, 5",
       [launch](W w) {
         Graph g;
         g.add(kernel(w.store, 1, 1, 0, w.memory, 5u));
         std::optional<GraphExec> exec;
         const Graph captured = capture(w.a, [&] {
           launch(w, w.a, w.store, w.memory + 4, 1);
           exec = g.instantiate();
         });
         exec->launch(w.a);
         return std::to_string(captured.node_count()) + " node, " + std::to_string(w.value());
       }},
      {"RondoDestroysAnExecDuringACapture", "1 node",
       [launch](W w) {
         Graph g;
         g.empty();
         std::optional<GraphExec> exec = g.instantiate();
         const Graph captured = capture(w.a, [&] {
           launch(w, w.a, w.store, w.memory, 1);
           exec.reset();
           const Graph gone;
         });
         return std::to_string(captured.node_count()) + " node";
       }},
  };
}

}  // namespace rondo::graph
