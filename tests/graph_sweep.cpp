// Every public operation with its k-th driver call failing, for every k: no crash, no leak, nothing sticky,
// and an Error of the right kind that names the call - or no error, where the call is one whose failure does
// not matter (a release).
#include "graph_support.h"

namespace rondo::graph {
namespace {

// Objects that an operation works on, made before faults are ordered.
struct Site {
  explicit Site(Machine& m) : machine(m) {
    first = g.add(kernel(m.store, 1, 1, 0, m.word(0), 1u));
    second = g.add(kernel(m.nop, 1, 1, 0), first);
    child_graph.add(kernel(m.store, 1, 1, 0, m.word(1), 1u));
    same_first = same.add(kernel(m.store, 1, 1, 0, m.word(0), 2u));
    same.add(kernel(m.nop, 1, 1, 0), same_first);
    longer.empty(longer.empty(longer.empty()));
    fancy.add(kernel(m.nop, 1, 1, 0).with(attribute::cluster({2})), fancy.add(kernel(m.nop, 1, 1, 0)));
    fill = all.fill(m.word(2), 1, 1);
    copy = all.copy(m.word(3), m.word(2), 4);
    host = all.add(CUDA_HOST_NODE_PARAMS{[](void*) {}, nullptr});
    child = all.child(child_graph);
    record = all.record(event);
    wait = all.wait(event);
    kernel_node = all.add(kernel(m.store, 1, 1, 0, m.word(0), 1u));
    signal = all.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&semaphore, &signal_params, 1});
    sem_wait = all.add(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&semaphore, &wait_params, 1});
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = m.word(4);
    batch = all.batch({&write, 1});
    exec = g.instantiate();
    all_exec = all.instantiate();
    plain = g.clone();
  }
  Machine& machine;
  Stream other = Stream::create();
  Event event = Event::create(), second_event = Event::create();
  Graph g, same, longer, fancy, child_graph, all;
  std::optional<Graph> plain;
  NodeView first, second, same_first, fill, copy, host, child, record, wait, kernel_node, signal, sem_wait,
      batch;
  CUexternalSemaphore semaphore = reinterpret_cast<CUexternalSemaphore>(uint64_t{64});
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal_params{};
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait_params{};
  CUstreamBatchMemOpParams write{};
  std::optional<GraphExec> exec, all_exec;
};

struct Operation {
  const char* name;
  std::function<void(Machine&, Site&)> run;
};

void captured_work(Machine& m, CUstream s) { RONDO_GRAPH_CALL(m.d.cuMemsetD8Async(m.memory, 1, 4, s)); }

const std::vector<Operation>& operations() {
  using M = Machine;
  using S = Site;
  static const std::vector<Operation> all = {
      // streams, events
      {"Stream::create", [](M&, S&) { (void)Stream::create(); }},
      {"Stream::synchronize", [](M&, S& s) { s.other.synchronize(); }},
      {"Stream::capturing", [](M&, S& s) { (void)s.other.capturing(); }},
      {"Event::create", [](M&, S&) { (void)Event::create(); }},
      {"Event::record", [](M& m, S& s) { s.event.record(m.stream); }},
      {"Event::record_external", [](M& m, S& s) { s.event.record_external(m.stream); }},
      {"Event::wait_in", [](M& m, S& s) { s.event.wait_in(m.stream); }},
      {"Event::wait_external_in", [](M& m, S& s) { s.event.wait_external_in(m.stream); }},
      // building
      {"Graph", [](M&, S&) { Graph g; }},
      {"add kernel", [](M& m, S& s) { s.g.add(kernel(m.nop, 1, 1, 0), s.first); }},
      {"add kernel with attributes",
       [](M& m, S& s) {
         s.g.add(kernel(m.nop, 1, 1, 0).with(attribute::priority(1)).with(attribute::cluster({1})), s.first);
       }},
      {"add kernel with a programmatic edge",
       [](M& m, S& s) { s.g.add(kernel(m.nop, 1, 1, 0), {{s.first, kProgrammatic}}); }},
      {"copy device to device", [](M& m, S& s) { s.g.copy(m.word(1), m.word(0), 4); }},
      {"copy host to device",
       [](M& m, S& s) { s.g.copy(m.word(1), static_cast<const void*>(&s), 4); }},
      {"copy device to host",
       [](M& m, S& s) {
         static uint32_t to;
         s.g.copy(static_cast<void*>(&to), m.word(1), 4);
       }},
      {"fill", [](M& m, S& s) { s.g.fill(m.word(1), 0, 4); }},
      {"host", [](M&, S& s) { s.g.host([] {}); }},
      {"child", [](M&, S& s) { s.g.child(s.child_graph); }},
      {"child moved", [](M&, S& s) { s.g.child(std::move(s.child_graph)); }},
      {"empty", [](M&, S& s) { s.g.empty(s.first); }},
      {"record", [](M&, S& s) { s.g.record(s.event); }},
      {"wait", [](M&, S& s) { s.g.wait(s.event); }},
      {"signal", [](M&, S& s) { s.g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&s.semaphore, &s.signal_params, 1}); }},
      {"semaphore wait", [](M&, S& s) { s.g.add(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&s.semaphore, &s.wait_params, 1}); }},
      {"alloc", [](M&, S& s) { s.g.alloc(64); }},
      {"free", [](M& m, S& s) { s.g.free(m.memory); }},
      {"batch", [](M&, S& s) { s.g.batch({&s.write, 1}); }},
      {"condition", [](M&, S& s) { s.g.condition(1u); }},
      {"if_node", [](M&, S& s) { s.g.if_node(s.g.condition()); }},
      {"if_else_node", [](M&, S& s) { s.g.if_else_node(s.g.condition()); }},
      {"while_node", [](M&, S& s) { s.g.while_node(s.g.condition()); }},
      {"switch_node", [](M&, S& s) { s.g.switch_node(s.g.condition(), 3); }},
      // structure
      {"node_count", [](M&, S& s) { (void)s.g.node_count(); }},
      {"nodes", [](M&, S& s) { (void)s.g.nodes(); }},
      {"roots", [](M&, S& s) { (void)s.g.roots(); }},
      {"edges", [](M&, S& s) { (void)s.g.edges(); }},
      {"connect", [](M&, S& s) { s.longer.connect(s.longer.nodes()[0], s.longer.nodes()[2]); }},
      {"disconnect", [](M&, S& s) { s.g.disconnect(s.first, s.second); }},
      {"remove", [](M&, S& s) { s.g.remove(s.second); }},
      {"find_in_clone", [](M&, S& s) { (void)s.plain->find_in_clone(s.first); }},
      {"keep", [](M&, S& s) { s.g.keep(std::make_shared<int>(1)); }},
      {"clone", [](M&, S& s) { (void)s.g.clone(); }},
      {"release",
       [](M&, S& s) {
         const Graph back = Graph::adopt(s.longer.release());
         EXPECT_EQ(s.longer.get(), nullptr);
       }},
      // nodes
      {"kind", [](M&, S& s) { (void)s.first.kind(); }},
      {"dependencies", [](M&, S& s) { (void)s.second.dependencies(); }},
      {"dependents", [](M&, S& s) { (void)s.first.dependents(); }},
      {"get kernel", [](M&, S& s) { (void)s.first.kernel(); }},
      {"get memcpy", [](M&, S& s) { (void)s.copy.memcpy(); }},
      {"get memset", [](M&, S& s) { (void)s.fill.memset(); }},
      {"get host", [](M&, S& s) { (void)s.host.host(); }},
      {"get child", [](M&, S& s) { (void)s.child.child(); }},
      {"get event of record", [](M&, S& s) { (void)s.record.event(); }},
      {"get event of wait", [](M&, S& s) { (void)s.wait.event(); }},
      {"get signal", [](M&, S& s) { (void)s.signal.signal(); }},
      {"get semaphore wait", [](M&, S& s) { (void)s.sem_wait.wait(); }},
      {"get batch", [](M&, S& s) { (void)s.batch.batch(); }},
      {"set kernel", [](M& m, S& s) { s.first.set(kernel(m.store, 1, 1, 0, m.word(0), 3u)); }},
      {"set memcpy", [](M&, S& s) { s.copy.set(s.copy.memcpy()); }},
      {"set memset", [](M&, S& s) { s.fill.set(s.fill.memset()); }},
      {"set host", [](M&, S& s) { s.host.set(s.host.host()); }},
      {"set event of record", [](M&, S& s) { s.record.set(s.second_event.get()); }},
      {"set event of wait", [](M&, S& s) { s.wait.set(s.second_event.get()); }},
      {"set signal", [](M&, S& s) { s.signal.set(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&s.semaphore, &s.signal_params, 1}); }},
      {"set semaphore wait",
       [](M&, S& s) { s.sem_wait.set(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&s.semaphore, &s.wait_params, 1}); }},
      {"set batch", [](M&, S& s) { s.batch.set(CUDA_BATCH_MEM_OP_NODE_PARAMS{nullptr, 1, &s.write, 0}); }},
      {"set attribute", [](M&, S& s) { s.first.set(attribute::priority(1)); }},
      {"copy attributes", [](M&, S& s) { s.second.copy_attributes_from(s.first); }},
      {"attribute", [](M&, S& s) { (void)s.first.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY); }},
      // executing
      {"instantiate", [](M&, S& s) { (void)s.g.instantiate(); }},
      {"instantiate and upload", [](M& m, S& s) { (void)s.g.instantiate({.upload_to = m.stream}); }},
      {"upload", [](M& m, S& s) { s.exec->upload(m.stream); }},
      {"launch", [](M& m, S& s) { s.exec->launch(m.stream); }},
      {"update", [](M&, S& s) { (void)s.exec->update(s.same); }},
      {"update refused", [](M&, S& s) { (void)s.exec->update(s.longer); }},
      {"update with attributes", [](M&, S& s) { (void)s.exec->update(s.fancy); }},
      {"update_or_reinstantiate", [](M&, S& s) { (void)s.exec->update_or_reinstantiate(s.longer); }},
      {"update_or_reinstantiate with attributes", [](M&, S& s) { (void)s.exec->update_or_reinstantiate(s.fancy); }},
      {"exec set kernel",
       [](M& m, S& s) { s.all_exec->set(s.kernel_node, kernel(m.store, 1, 1, 0, m.word(0), 3u)); }},
      {"exec set kernel with attributes",
       [](M& m, S& s) {
         s.all_exec->set(s.kernel_node,
                         kernel(m.store, 1, 1, 0, m.word(0), 3u).with(attribute::cooperative(false)));
       }},
      {"exec set memcpy", [](M&, S& s) { s.all_exec->set(s.copy, s.copy.memcpy()); }},
      {"exec set memset", [](M&, S& s) { s.all_exec->set(s.fill, s.fill.memset()); }},
      {"exec set host", [](M&, S& s) { s.all_exec->set(s.host, s.host.host()); }},
      {"exec set child", [](M&, S& s) { s.all_exec->set(s.child, s.child_graph); }},
      {"exec set record", [](M&, S& s) { s.all_exec->set(s.record, s.second_event.get()); }},
      {"exec set wait", [](M&, S& s) { s.all_exec->set(s.wait, s.second_event.get()); }},
      {"exec set signal", [](M&, S& s) { s.all_exec->set(s.signal, s.signal.signal()); }},
      {"exec set semaphore wait", [](M&, S& s) { s.all_exec->set(s.sem_wait, s.sem_wait.wait()); }},
      {"exec set batch", [](M&, S& s) { s.all_exec->set(s.batch, s.batch.batch()); }},
      {"enable", [](M&, S& s) { s.all_exec->enable(s.fill, false); }},
      {"enabled", [](M&, S& s) { (void)s.all_exec->enabled(s.fill); }},
      {"flags", [](M&, S& s) { (void)s.exec->flags(); }},
      {"GraphExec::adopt", [](M&, S& s) { (void)GraphExec::adopt(s.exec->release()); }},
      // capturing
      {"capture", [](M& m, S&) { (void)capture(m.stream, [&] { captured_work(m, m.stream); }); }},
      {"capture on its own stream", [](M& m, S&) { (void)capture([&](CUstream s) { captured_work(m, s); }); }},
      {"capture refusing empty",
       [](M& m, S&) { (void)capture(m.stream, [&] { captured_work(m, m.stream); }, {.refuse_empty = true}); }},
      {"capture_into", [](M& m, S& s) { capture_into(s.g, m.stream, s.first, [&] { captured_work(m, m.stream); }); }},
      {"capture with fork and join",
       [](M& m, S& s) {
         (void)capture(m.stream, [&](Capture& c) {
           captured_work(m, c.stream());
           c.fork(s.other);
           captured_work(m, s.other);
           c.join(s.other);
           captured_work(m, c.stream());
         });
       }},
      {"capture with a graft",
       [](M& m, S& s) {
         (void)capture(m.stream, [&](Capture& c) {
           captured_work(m, c.stream());
           c.graft([&](GraphView g, After tip) { return g.child(s.child_graph, tip); });
           (void)c.id();
         });
       }},
      {"capture with checkpoints",
       [](M& m, S&) {
         (void)capture(m.stream, [&] {
           RONDO_GRAPH_CHECKPOINT("one");
           captured_work(m, m.stream);
           RONDO_GRAPH_CHECKPOINT("two");
         });
       }},
      {"capture dropped",
       [](M& m, S&) {
         Capture c(m.stream);
         captured_work(m, m.stream);
       }},
      {"RelaxedScope", [](M&, S&) { const RelaxedScope relaxed; }},
      // memory
      {"graph_memory", [](M&, S&) { (void)graph_memory(0); }},
      {"reset_graph_memory_high", [](M&, S&) { reset_graph_memory_high(0); }},
      {"trim_graph_memory", [](M&, S&) { trim_graph_memory(0); }},
  };
  return all;
}

// Calls whose failure changes nothing for the caller: releases, the guard around them, what only words a
// message or is an answer by itself.
bool may_be_quiet(const std::string& function) {
  for (const char* quiet : {"cuStreamDestroy", "cuEventDestroy", "cuGraphDestroy", "cuGraphExecDestroy",
                            "cuThreadExchangeStreamCaptureMode", "cuGraphKernelNodeGetAttribute",
                            "cuFuncGetName", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams"})
    if (function == quiet) return true;
  return false;
}

// Runs one operation with its k-th call failing; false when it makes fewer calls.
bool run_with_fault(int version, const Operation& operation, long k, CUresult code, long* thrown) {
  Machine m(version);
  bool reached = false;
  {
    Site site(m);
    m.fake.fail(k, code);
    const long before = m.fake.calls();
    try {
      operation.run(m, site);
      if (m.fake.calls() - before >= k) {
        const bool dropped =
            operation.name == std::string("capture dropped") && m.fake.failed() == "cuStreamEndCapture";
        EXPECT_TRUE(may_be_quiet(m.fake.failed()) || dropped)
            << operation.name << " does not notice that call " << k << ", " << m.fake.failed() << ", failed";
      }
    } catch (const Error& e) {
      ++*thrown;
      const std::string text = e.what();
      EXPECT_EQ(e.kind(), ErrorKind::Device) << operation.name << ", call " << k << ": " << text;
      EXPECT_NE(text.find(m.fake.failed()), std::string::npos)
          << operation.name << ", call " << k << " (" << m.fake.failed() << "): " << text;
      EXPECT_NE(text.find("(" + std::to_string(static_cast<int>(code)) + ")"), std::string::npos)
          << operation.name << ", call " << k << ": " << text;
    }
    reached = m.fake.calls() - before >= k;
    m.fake.no_faults();
    // Nothing hangs over: the stream takes work, is captured again, and graphs go on.
    EXPECT_EQ(Capture::current(), nullptr) << operation.name << ", call " << k;
    EXPECT_EQ(m.d.cuMemsetD8Async(m.memory, 0, 4, m.stream), CUDA_SUCCESS)
        << operation.name << ", call " << k;
    try {
      const Graph again = capture(m.stream, [&] { captured_work(m, m.stream); });
      again.instantiate().launch(m.stream);
      if (site.exec->get()) site.exec->launch(m.stream);
      site.all_exec->launch(m.stream);
      Graph fresh;
      fresh.add(kernel(m.nop, 1, 1, 0));
      fresh.instantiate().launch(m.stream);
    } catch (const Error& e) {
      ADD_FAILURE() << "after a failed call " << k << " of " << operation.name << " (" << m.fake.failed()
                    << "): " << e.what();
    }
  }
  EXPECT_EQ(m.close(), "") << operation.name << ", call " << k << ", " << m.fake.failed();
  return reached;
}

// Whether it works on a driver of that version: without faults, or the sweep would sweep nothing.
bool works(int version, const Operation& operation) {
  Machine m(version);
  {
    Site site(m);
    try {
      operation.run(m, site);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Unavailable) << operation.name << ": " << e.what();
      return false;
    }
  }
  EXPECT_EQ(m.close(), "") << operation.name;
  return true;
}

TEST(GraphFaults, WhicheverCallFailsNothingLeaksNothingSticksAndTheCallIsNamed) {
  // The newest driver, and the oldest, where other functions of the table do the work.
  for (const int version : {13000, 12000}) {
    long count = 0, faults = 0, thrown = 0;
    for (const Operation& operation : operations()) {
      if (!works(version, operation)) {
        EXPECT_LT(version, 12090) << operation.name << " does not work on the newest driver";
        continue;
      }
      long calls = 0;
      while (run_with_fault(version, operation, calls + 1,
                            calls % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN, &thrown))
        ++calls;
      EXPECT_GT(calls, 0) << operation.name << " makes no driver call";
      faults += calls;
      ++count;
    }
    std::printf("[   SWEEP  ] driver %s: %ld operations, %ld faults injected, %ld of them thrown as errors\n",
                driver::driver_name(version).c_str(), count, faults, thrown);
    EXPECT_GT(thrown, faults / 2);
  }
}

}  // namespace
}  // namespace rondo::graph
