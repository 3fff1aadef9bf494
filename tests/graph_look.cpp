// A graph as a drawing and as data. Numbers, names and addresses are those of the fake driver.
#include "rondo/graph_look.h"

#include <nlohmann/json.hpp>
#include <regex>

#include "graph_support.h"

namespace rondo::graph {
namespace {

using Json = nlohmann::json;

class Looks : public Graphs {
 protected:
  Looks() {
    m_.fake.kernels.push_back("_Z6encodePfi");
    m_.fake.parameter_bytes["_Z6encodePfi"] = {8, 4};
    RONDO_CU(d_, cuModuleGetFunction(&encode_, m_.module, "_Z6encodePfi"));
  }
  auto encode(unsigned grid, CUdeviceptr p = 0x7f0000001000, int n = 42) {
    return kernel(encode_, {grid}, {256}, 16, p, n);
  }
  static Json parsed(const GraphView& g, const LookOptions& options = {}) {
    return Json::parse(json(g, options));
  }
  // Every line of `text` that holds `word`.
  static std::string lines_with(const std::string& text, const std::string& word) {
    std::istringstream in(text);
    std::string out;
    for (std::string line; std::getline(in, line);)
      if (line.find(word) != std::string::npos) out += line + "\n";
    return out;
  }
  CUfunction encode_ = nullptr;
};

TEST_F(Looks, AKernelShowsItsNameShapeAndParameters) {
  Graph g;
  g.add(encode(4).with(attribute::priority(-1)));
  const Json node = parsed(g)["nodes"][0];
  EXPECT_EQ(node["kind"], "kernel");
  EXPECT_EQ(node["name"], "encode(float*, int)");
  EXPECT_EQ(node["symbol"], "_Z6encodePfi");
  EXPECT_EQ(node["grid"], Json({4, 1, 1}));
  EXPECT_EQ(node["block"], Json({256, 1, 1}));
  EXPECT_EQ(node["shared_bytes"], 16);
  EXPECT_EQ(node["parameters"], Json::parse(R"([{"offset": 0, "bytes": 8, "value": "0x00007f0000001000"},
                                                {"offset": 8, "bytes": 4, "value": "0x0000002a"}])"));
  EXPECT_EQ(node["attributes"], Json::parse(R"({"priority": "-1"})"));
  EXPECT_TRUE(node["bytes_moved"].is_null()) << "nobody knows what a kernel moves";
  EXPECT_EQ(
      dot(g),
      "digraph rondo {\n"
      "  node [shape=box, style=filled, fontname=\"monospace\"];\n"
      "  n0 [label=\"0 kernel encode(float*, int)\\lgrid 4x1x1\\lblock 256x1x1\\lshared bytes 16\\l"
      "parameter 0 0x00007f0000001000\\lparameter 1 0x0000002a\\lpriority -1\\l\", fillcolor=\"#dcebff\"];\n"
      "}\n");
}

TEST_F(Looks, PackedParametersAreTakenApartWhereTheLayoutIsKnown) {
  struct {
    uint64_t p = 0x11;
    uint32_t n = 7;
  } block;
  size_t bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS params = kernel_shape(encode_, {1}, {1}, 0);
  params.extra = extra;
  Graph g;
  g.add(KernelParams(params));
  Json node = parsed(g)["nodes"][0];
  EXPECT_EQ(node["packed"], true);
  EXPECT_EQ(node["parameters"][1]["value"], "0x00000007");
  // A block that is smaller than the kernel's parameters stays one block.
  bytes = 8;
  Graph short_one;
  short_one.add(KernelParams(params));
  node = parsed(short_one)["nodes"][0];
  EXPECT_EQ(node["parameters"], Json::parse(R"([{"offset": 0, "bytes": 8, "value": "0x0000000000000011"}])"));
}

TEST_F(Looks, CopiesAndFillsSayWhereAndHowMuch) {
  uint32_t host[4] = {};
  Graph g;
  const NodeView up = g.copy(m_.word(0), static_cast<const void*>(host), 16);
  g.fill(m_.word(4), 0xab, 5, 2, up);
  CUDA_MEMCPY3D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = m_.word(0), rows.dstDevice = m_.word(64);
  rows.WidthInBytes = 8, rows.Height = 3, rows.Depth = 1, rows.srcPitch = rows.dstPitch = 16;
  rows.srcXInBytes = 4;
  g.add(rows);
  const Json all = parsed(g), &nodes = all["nodes"];
  EXPECT_EQ(nodes[0]["direction"], "host to device");
  EXPECT_EQ(nodes[0]["bytes"], 16);
  EXPECT_EQ(nodes[0]["bytes_moved"], 16);
  EXPECT_EQ(nodes[1]["value"], "0x00ab");
  EXPECT_EQ(nodes[1]["bytes_moved"], 10);
  EXPECT_EQ(nodes[2]["bytes"], 24);
  EXPECT_EQ(nodes[2]["rows"], 3);
  EXPECT_EQ(nodes[2]["from_offset"], Json({4, 0, 0}));
  EXPECT_EQ(all["totals"], Json::parse(R"({"nodes": 3, "kernels": 0, "bytes_moved": 50,
                                           "bytes_moved_each_time_in_bodies": 0})"));
}

TEST_F(Looks, EveryKindOfNodeIsShown) {
  const Event event = Event::create();
  Graph g, part;
  part.fill(m_.word(0), 0, 4);
  g.empty();
  g.host([] {});
  g.record(event);
  g.wait(event);
  g.child(part);
  CUexternalSemaphore semaphore = reinterpret_cast<CUexternalSemaphore>(uint64_t{64});
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  signal.params.fence.value = 9;
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  g.add(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS{&semaphore, &signal, 1});
  g.add(CUDA_EXT_SEM_WAIT_NODE_PARAMS{&semaphore, &wait, 1});
  CUstreamBatchMemOpParams operations[2]{};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[0].waitValue.address = m_.word(1);
  operations[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  operations[0].waitValue.value = 5;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[1].writeValue.address = m_.word(2);
  operations[1].writeValue.value64 = 6;
  g.batch(operations);
  const Allocation a = g.alloc(64);
  g.free(a.address, a.node);
  const Json nodes = parsed(g)["nodes"];
  std::vector<std::string> kinds;
  for (const Json& node : nodes) kinds.push_back(node["kind"]);
  EXPECT_EQ(kinds, (std::vector<std::string>{"empty", "host", "event record", "event wait", "child graph",
                                             "semaphore signal", "semaphore wait", "batch mem op", "alloc",
                                             "free"}));
  EXPECT_EQ(nodes[5]["semaphores"], 1);
  EXPECT_EQ(nodes[5]["value_0"], 9);
  EXPECT_EQ(nodes[7]["operation_0"], "wait for ==");
  EXPECT_EQ(nodes[7]["value_0"], "0x00000005");
  EXPECT_EQ(nodes[7]["operation_1"], "write");
  EXPECT_EQ(nodes[7]["value_1"], "0x0000000000000006");
  EXPECT_EQ(nodes[8]["bytes"], 64);
  EXPECT_EQ(nodes[8]["address"], nodes[9]["address"]);
  EXPECT_NE(dot(g).find("subgraph \"cluster_n4\""), std::string::npos);
}

TEST_F(Looks, ChildrenAndBodiesAreNested) {
  Graph g, inner, outer;
  inner.fill(m_.word(0), 0, 4);
  outer.child(inner, outer.add(kernel(m_.nop, 1, 1, 0)));
  const ConditionHandle handle = g.condition(1);
  Condition both = g.if_else_node(handle);
  both.body(0).fill(m_.word(0), 0, 8);
  both.body(1).add(kernel(m_.nop, 1, 1, 0));
  Condition cases = g.switch_node(handle, 2, both.node);
  cases.body(1).empty();
  const Json all = parsed(g), &nodes = all["nodes"];
  EXPECT_EQ(nodes[0]["condition"], "if/else");
  EXPECT_EQ(nodes[0]["graphs"][0]["label"], "then");
  EXPECT_EQ(nodes[0]["graphs"][0]["nodes"][0]["kind"], "memset");
  EXPECT_EQ(nodes[0]["graphs"][1]["label"], "else");
  EXPECT_EQ(nodes[1]["graphs"][0]["label"], "case 0");
  EXPECT_EQ(nodes[1]["graphs"][0]["nodes"], Json::array());
  EXPECT_EQ(all["totals"]["nodes"], 5);
  EXPECT_EQ(all["totals"]["bytes_moved"], 0);
  EXPECT_EQ(all["totals"]["bytes_moved_each_time_in_bodies"], 8);
  const std::string drawing = dot(g);
  EXPECT_EQ(lines_with(drawing, "subgraph"),
            "  subgraph \"cluster_n0\" {\n"
            "    subgraph \"cluster_n0_0_\" {\n"
            "    subgraph \"cluster_n0_1_\" {\n"
            "  subgraph \"cluster_n1\" {\n"
            "    subgraph \"cluster_n1_0_\" {\n"
            "    subgraph \"cluster_n1_1_\" {\n");
  EXPECT_EQ(lines_with(drawing, "->"),
            "    n0 -> n0_0_0 [style=dashed, arrowhead=none];\n"
            "    n0 -> n0_1_0 [style=dashed, arrowhead=none];\n"
            "    n1 -> n1_1_0 [style=dashed, arrowhead=none];\n"
            "  n0 -> n1;\n");
  EXPECT_NE(drawing.find("\"0.else.0 kernel nop"), std::string::npos);
  EXPECT_EQ(std::count(drawing.begin(), drawing.end(), '{'), std::count(drawing.begin(), drawing.end(), '}'));
  EXPECT_EQ(parsed(outer)["nodes"][1]["graphs"][0]["nodes"][0]["bytes"], 4);
  EXPECT_NE(dot(outer).find("\"1.0 memset"), std::string::npos);
}

TEST_F(Looks, EdgesSayWhatTheyCarry) {
  Graph g;
  const NodeView a = g.add(kernel(m_.nop, 1, 1, 0)), b = g.add(kernel(m_.nop, 1, 1, 0), {{a, kProgrammatic}});
  g.add(kernel(m_.nop, 1, 1, 0), b);
  EXPECT_EQ(
      parsed(g)["edges"],
      Json::parse(R"([{"from": 0, "to": 1, "data": "programmatic", "from_port": 1, "to_port": 0, "type": 1},
                            {"from": 1, "to": 2}])"));
  EXPECT_EQ(lines_with(dot(g), "->"),
            "  n0 -> n1 [label=\"programmatic\", style=dashed];\n"
            "  n1 -> n2;\n");
}

TEST_F(Looks, NumbersFollowTheEdgesNotTheOrderOfAdding) {
  Graph g;
  const NodeView last = g.empty(), first = g.fill(m_.word(0), 0, 4), other = g.host([] {});
  g.connect(first, last);
  const Json nodes = parsed(g)["nodes"];
  EXPECT_EQ(nodes[0]["kind"], "memset");
  EXPECT_EQ(nodes[1]["kind"], "empty");
  EXPECT_EQ(nodes[2]["kind"], "host") << other.describe();
}

TEST_F(Looks, ACycleIsShownToo) {
  Graph g;
  const NodeView start = g.host([] {}), a = g.empty(start), b = g.empty(a);
  g.connect(b, a);
  EXPECT_EQ(lines_with(dot(g), "->"), "  n0 -> n1;\n  n2 -> n1;\n  n1 -> n2;\n");
}

TEST_F(Looks, WithoutAddressesTheTextIsTheSameInEveryRun) {
  Graph a, b;
  uint32_t one = 0, two = 0;
  for (auto [g, word, host] : {std::tuple{&a, 0, &one}, {&b, 9, &two}}) {
    const NodeView up = g->copy(m_.word(word), static_cast<const void*>(host), 4);
    g->add(encode(4, m_.word(word)), up);
    g->fill(m_.word(word), 1, 4, 1, up);
    g->host([] {});
  }
  EXPECT_NE(json(a), json(b));
  const LookOptions options{.addresses = false};
  EXPECT_EQ(json(a, options), json(b, options));
  EXPECT_EQ(dot(a, options), dot(b, options));
  EXPECT_EQ(parsed(a, options)["nodes"][1]["parameters"],
            Json::parse(R"([{"offset": 0, "bytes": 8}, {"offset": 8, "bytes": 4, "value": "0x0000002a"}])"));
  EXPECT_FALSE(parsed(a, {.parameters = false})["nodes"][1].contains("parameters"));
}

TEST_F(Looks, LookingChangesNothingThatRondoKnows) {
  Graph g;
  g.add(store(0, 1));
  GraphExec exec = g.instantiate();
  (void)dot(g), (void)json(g), (void)difference(g, g);
  m_.fake.log.clear();
  EXPECT_TRUE(exec.update(g));
  EXPECT_EQ(m_.fake.count("cuGraphKernelNodeGetAttribute"), 0u) << "the graph counts as touched from outside";
}

TEST_F(Looks, TextIsEscaped) {
  m_.fake.kernels.push_back("odd\"name\\\n");
  CUfunction odd = nullptr;
  RONDO_CU(d_, cuModuleGetFunction(&odd, m_.module, "odd\"name\\\n"));
  Graph g;
  g.add(kernel(odd, 1, 1, 0));
  EXPECT_EQ(parsed(g)["nodes"][0]["symbol"], "odd\"name\\\n");
  EXPECT_NE(dot(g).find("kernel odd\\\"name\\\\"), std::string::npos);
}

TEST_F(Looks, AnAttributeIsShownWhenItIsNotTheDefault) {
  Graph g;
  CUaccessPolicyWindow window{};
  window.num_bytes = 256, window.hitRatio = 0.5f;
  g.add(kernel(m_.nop, 4, 1, 0)
            .with(attribute::cluster({2}))
            .with(attribute::cooperative())
            .with(attribute::access_policy(window))
            .with(attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE))
            .with(attribute::priority(0)));
  EXPECT_EQ(
      parsed(g)["nodes"][0]["attributes"],
      Json::parse(R"({"access_policy_window": "256 bytes, hit ratio 0.5, hit 0, miss 0", "cooperative": "1",
                            "cluster_dimension": "2x1x1", "memory_sync_domain": "1"})"));
}

TEST_F(Looks, ABodyThatRondoDidNotAddIsSaidToBeUnknown) {
  Graph g;
  g.if_node(g.condition(1));
  const GraphView raw(g.get());
  EXPECT_EQ(parsed(raw)["nodes"][0]["unknown"],
            "the bodies of a condition that was not added through Rondo are not known");
}

// Of a driver that is too old to tell.
TEST(OldLooks, AnOldDriverTellsNoNamesAndNoParameters) {
  Machine m(12000);
  Graph g;
  g.add(kernel(m.store, 1, 1, 0, m.word(0), 1u));
  const Json node = Json::parse(json(g))["nodes"][0];
  EXPECT_FALSE(node.contains("name"));
  EXPECT_TRUE(node["parameters"].is_null());
  EXPECT_EQ(node["unknown"],
            "the layout of kernel parameters needs driver R550 (CUDA 12.4), this is R525 (CUDA 12.0)");
  EXPECT_NE(dot(g).find("unknown: the layout of kernel parameters needs driver"), std::string::npos);
}

// ---------------------------------------------------------------- memory

TEST_F(Looks, TheMemoryOfExecsIsMeasuredFromFreeMemory) {
  Graph g, child;
  child.add(store(0, 1));
  g.child(child, g.add(store(0, 1)));
  const ExecMemory m = measure_memory(g, 4);
  EXPECT_EQ(m.execs, 4u);
  EXPECT_EQ(m.nodes, 3u);
  EXPECT_EQ(m.device_bytes, 0) << "the fake driver's execs take no device memory";
  EXPECT_EQ(m_.fake.count("cuGraphInstantiateWithParams"), 5u) << "the first brings what all share";
  EXPECT_EQ(m_.fake.count("cuGraphUpload"), 5u);
  EXPECT_EQ(m_.fake.count("cuGraphExecDestroy"), 5u);
  EXPECT_EQ(describe(ExecMemory{4, 100, 2 << 20}),
            "4 execs of 100 nodes take 2.0 MiB on the device: about 512.0 KiB an exec, 5.1 KiB a node (an "
            "estimate: "
            "free memory before and after; the driver takes it in blocks)");
  EXPECT_EQ(message_of([&] { (void)measure_memory(g, 0); }, ErrorKind::Usage),
            "memory of 0 execs cannot be measured: expected 1 or more. Give how many to make");
}

TEST_F(Looks, AGraphThatHasOneExecAtATimeIsMeasuredByOne) {
  Graph g;
  const Allocation a = g.alloc(64);
  g.free(a.address, a.node);
  const ExecMemory m = measure_memory(g, 4);
  EXPECT_EQ(m.execs, 1u);
  EXPECT_EQ(m_.fake.count("cuGraphInstantiateWithParams"), 1u);
}

TEST_F(Looks, TheGraphPoolIsSaidInWords) {
  EXPECT_EQ(
      describe(GraphMemory{1 << 20, 2 << 20, 32 << 20, 33 << 20}),
      "alloc nodes use 1.0 MiB (at most 2.0 MiB so far) of 32.0 MiB that the device holds for them (at most "
      "33.0 MiB); trim_graph_memory gives back up to 31.0 MiB");
}

// ---------------------------------------------------------------- faults

TEST(LookFaults, WhicheverCallFailsTheErrorNamesItAndNothingLeaks) {
  long faults = 0;
  for (const int version : {12000, 13000}) {
    for (long k = 1;; ++k) {
      Machine m(version);
      {
        Graph g, child, other;
        child.fill(m.word(0), 0, 4);
        const NodeView a = g.add(kernel(m.store, 1, 1, 0, m.word(0), 1u));
        g.child(child, a);
        other.add(kernel(m.store, 2, 1, 0, m.word(0), 1u));
        const long before = m.fake.calls();
        m.fake.fail(k, CUDA_ERROR_UNKNOWN);
        std::string text;
        try {
          text = dot(g) + json(g) + difference(g, other) + describe(measure_memory(g, 1));
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::Device) << e.what();
          EXPECT_NE(std::string(e.what()).find(driver::base_name(m.fake.failed())), std::string::npos)
              << e.what() << " does not name " << m.fake.failed();
        }
        m.fake.no_faults();
        if (m.fake.failed().empty()) {
          EXPECT_GE(k, m.fake.calls() - before) << "the sweep ended early";
          k = -1;
        }
      }
      EXPECT_EQ(m.close(), "") << "call " << k;
      if (k < 0) break;
      ++faults;
    }
  }
  EXPECT_GT(faults, 100);
}

}  // namespace
}  // namespace rondo::graph
