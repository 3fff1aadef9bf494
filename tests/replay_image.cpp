// Captured graphs as data: what of each node is read, and what is said of those that cannot be.
#include <map>

#include "replay_captures.h"

namespace rondo::replay {
namespace {

using graph::NodeKind;

class Images : public testing::Test {
 protected:
  Machine m_;
  const driver::Driver& d_ = m_.d;
  template <class Work>
  Image read(Work&& work, std::vector<Span64> arguments = {}, Pageable pageable = Pageable::MayBeGone) {
    graphs_.push_back(m_.capture(work));
    return read_image(graphs_.back(), arguments, pageable);
  }
  std::vector<graph::Graph> graphs_;
};

TEST_F(Images, ParametersLieWhereTheDriverSays) {
  const CUfunction f = m_.kernel("f", {4, 8, 2});
  const Image image = read([&] { m_.launch(f, 7, uint64_t{0x1122334455667788}, uint16_t{9}); });
  ASSERT_EQ(image.nodes.size(), 1u);
  EXPECT_EQ(image.kernels, 1u);
  const NodeImage& n = image.nodes[0];
  EXPECT_EQ(n.kind, NodeKind::Kernel);
  EXPECT_EQ(n.why_not, "");
  EXPECT_FALSE(n.packed);
  ASSERT_EQ(n.bytes.size(), 18u);
  EXPECT_EQ(at<int>(n.bytes, 0), 7);
  EXPECT_EQ(at<int>(n.bytes, 4), 0);  // between them
  EXPECT_EQ(at<uint64_t>(n.bytes, 8), 0x1122334455667788u);
  EXPECT_EQ(at<uint16_t>(n.bytes, 16), 9);
  EXPECT_EQ(n.parameters.size(), 3u);
  EXPECT_EQ(n.kernel.func, f);
  EXPECT_EQ(n.kernel.blockDimX, 32u);
  EXPECT_EQ(n.kernel.kernelParams, nullptr);
  EXPECT_EQ(n.kernel.extra, nullptr);
}

TEST_F(Images, APackedBlockIsTakenAsItIsWithoutWhatLiesBetweenItsParameters) {
  const CUfunction f = m_.kernel("f", {4, 8});
  std::vector<uint8_t> block(24, 0xee);  // 8 bytes more than the parameters
  put(&block, 0, 7);
  put(&block, 8, uint64_t{99});
  const Image image = read([&] { m_.launch_packed(f, block); });
  const NodeImage& n = image.nodes.at(0);
  EXPECT_TRUE(n.packed);
  ASSERT_EQ(n.bytes.size(), 24u);
  EXPECT_EQ(at<int>(n.bytes, 0), 7);
  EXPECT_EQ(at<uint32_t>(n.bytes, 4), 0u);
  EXPECT_EQ(at<uint64_t>(n.bytes, 8), 99u);
  EXPECT_EQ(at<uint64_t>(n.bytes, 16), 0xeeeeeeeeeeeeeeeeu);
}

TEST_F(Images, APackedBlockOfAnUnknownLayoutIsOneParameter) {
  m_.fake.kernels.push_back("closed");
  CUfunction f = nullptr;
  RONDO_CU(d_, cuModuleGetFunction(&f, m_.module, "closed"));
  const Image image = read([&] { m_.launch_packed(f, std::vector<uint8_t>(1720, 0x5a)); });
  ASSERT_EQ(image.nodes.at(0).parameters.size(), 1u);
  EXPECT_EQ(image.nodes[0].parameters[0].size, 1720u);
  EXPECT_EQ(image.nodes[0].bytes, std::vector<uint8_t>(1720, 0x5a));
}

TEST_F(Images, ANodeOfAKernelHandleIsReadToo) {
  const CUfunction f = m_.kernel("f", {8});
  graph::Graph g;
  g.add(graph::kernel(reinterpret_cast<CUkernel>(f), 1, 1, 0, uint64_t{5}));
  const Image image = read_image(g, {});
  EXPECT_EQ(at<uint64_t>(image.nodes.at(0).bytes, 0), 5u);
  EXPECT_EQ(image.nodes[0].kernel.func, nullptr);
  EXPECT_GT(m_.fake.count("cuKernelGetParamInfo"), 0u);
}

TEST(OldDrivers, CannotTellWhereParametersLieButPackedBlocksAreRead) {
  Machine m(12030);
  const CUfunction f = m.kernel("f", {8});
  const CUfunction none = m.kernel("none", {});
  const graph::Graph g = m.capture([&] {
    m.launch(f, uint64_t{1});
    m.launch_packed(f, std::vector<uint8_t>(8, 3));
    m.launch(none);
  });
  const Image image = read_image(g, {});
  EXPECT_EQ(image.nodes.at(0).why_not,
            "where its parameters lie is told by driver R550 (CUDA 12.4) and newer, this is R545 (CUDA "
            "12.3). Update "
            "the driver");
  EXPECT_EQ(image.nodes.at(1).why_not, "");
  EXPECT_EQ(image.nodes[1].bytes, std::vector<uint8_t>(8, 3));
}

TEST_F(Images, AttributesOfKernelsAreCompared) {
  const CUfunction f = m_.kernel("f", {});
  graph::Graph g;
  g.add(graph::kernel(f, 1, 1, 0));
  g.add(graph::kernel(f, 1, 1, 0).with(graph::attribute::cluster({2, 1, 1})));
  CUaccessPolicyWindow window{};
  window.base_ptr = reinterpret_cast<void*>(0x7000);
  window.num_bytes = 64;
  g.add(graph::kernel(f, 1, 1, 0).with(graph::attribute::access_policy(window)));
  g.add(graph::kernel(f, 1, 1, 0).with(graph::attribute::device_updatable()));
  const Image image = read_image(g, {});
  EXPECT_EQ(image.nodes.at(0).rest, "");
  EXPECT_EQ(image.nodes.at(1).rest, "attribute 4 020000000100000001000000\n");
  EXPECT_EQ(image.nodes.at(2).rest_words, std::vector<uint64_t>{0x7000});
  EXPECT_NE(image.nodes.at(3).why_not.find("a kernel may change it on the device"), std::string::npos);
}

TEST_F(Images, EdgesAreByPositionAndCarryTheirData) {
  const CUfunction f = m_.kernel("f", {});
  graph::Graph g;
  const auto a = g.add(graph::kernel(f, 1, 1, 0));
  const auto b = g.add(graph::kernel(f, 1, 1, 0), {{a, graph::kProgrammatic}});
  g.empty({a, b});
  const Image image = read_image(g, {});
  ASSERT_EQ(image.edges.size(), 3u);
  std::map<std::pair<uint32_t, uint32_t>, graph::EdgeData> found;
  for (size_t i = 0; i < 3; ++i) found[image.edges[i]] = image.edge_data[i];
  EXPECT_EQ(found.at({0, 1}), graph::kProgrammatic);
  EXPECT_EQ(found.at({0, 2}), graph::kFull);
  EXPECT_EQ(found.at({1, 2}), graph::kFull);
}

// ---------------------------------------------------------------- copies and fills

TEST_F(Images, EqualCopiesAreEqualByteByByte) {
  const CUdeviceptr x = m_.memory(256), y = m_.memory(256);
  const auto add = [&](graph::Graph* g, int junk) {
    CUDA_MEMCPY3D c;
    std::memset(static_cast<void*>(&c), junk, sizeof c);  // also where nothing is meant
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = x, c.dstDevice = y;
    c.srcXInBytes = 16, c.dstXInBytes = 0;
    c.srcY = c.srcZ = c.dstY = c.dstZ = 0;
    c.WidthInBytes = 32, c.Height = c.Depth = 1;
    g->add(c);
  };
  graph::Graph g;
  add(&g, 0x11);
  add(&g, 0x77);
  const Image image = read_image(g, {});
  EXPECT_EQ(image.nodes.at(0).bytes, image.nodes.at(1).bytes);
  const CUDA_MEMCPY3D c = copy_of(image.nodes[0]);
  EXPECT_EQ(c.srcDevice, x + 16);  // one address says it all
  EXPECT_EQ(c.srcXInBytes, 0u);
  EXPECT_EQ(c.dstDevice, y);
  EXPECT_EQ(c.srcHost, nullptr);
  EXPECT_EQ(c.srcPitch, 0u);
  EXPECT_TRUE(one_row(c));
}

TEST_F(Images, RowsKeepTheirPitch) {
  const CUdeviceptr x = m_.memory(256), y = m_.memory(256);
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = x, c.dstDevice = y;
  c.srcXInBytes = 4, c.srcPitch = 32, c.srcHeight = 2, c.dstPitch = 16, c.dstHeight = 2;
  c.WidthInBytes = 8, c.Height = 2, c.Depth = 1;
  graph::Graph g;
  g.add(c);
  const CUDA_MEMCPY3D read = copy_of(read_image(g, {}).nodes.at(0));
  EXPECT_EQ(read.srcXInBytes, 4u);
  EXPECT_EQ(read.srcPitch, 32u);
  EXPECT_EQ(read.Height, 2u);
  EXPECT_FALSE(one_row(read));
}

TEST_F(Images, APageLockedSourceIsReadAndOneThatIsAnArgumentIsNot) {
  const CUdeviceptr x = m_.memory(256);
  auto* table = m_.page_locked<uint64_t>(4);
  auto* input = m_.page_locked<uint64_t>(4);
  table[1] = 17;
  const Image image = read(
      [&] {
        RONDO_CU(d_, cuMemcpyHtoDAsync(x, table, 32, m_.stream));
        RONDO_CU(d_, cuMemcpyHtoDAsync(x, input + 1, 24, m_.stream));
      },
      {{reinterpret_cast<uint64_t>(input), 32}});
  ASSERT_EQ(image.nodes.at(0).table.size(), 32u);
  EXPECT_EQ(at<uint64_t>(image.nodes[0].table, 8), 17u);
  EXPECT_FALSE(image.nodes[0].pageable);
  EXPECT_TRUE(image.nodes.at(1).table.empty());
  EXPECT_EQ(image.nodes[1].why_not, "");
}

TEST_F(Images, LargePageLockedMemoryIsReadWhereItIs) {
  const CUdeviceptr x = m_.memory(kMostTableBytes + 8);
  auto* data = m_.page_locked<char>(kMostTableBytes + 8);
  const Image image = read([&] {
    RONDO_CU(d_, cuMemcpyHtoDAsync(x, data, kMostTableBytes + 8, m_.stream));
    RONDO_CU(d_, cuMemcpyHtoDAsync(x, data, kMostTableBytes, m_.stream));
  });
  EXPECT_TRUE(image.nodes.at(0).table.empty());
  EXPECT_EQ(image.nodes[0].why_not, "");
  EXPECT_EQ(image.nodes.at(1).table.size(), kMostTableBytes);
}

TEST_F(Images, PageLockedRowsAreReadRowByRow) {
  const CUdeviceptr x = m_.memory(256);
  auto* data = m_.page_locked<uint32_t>(16);
  for (uint32_t i = 0; i < 16; ++i) data[i] = i;
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST, c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcHost = data, c.srcXInBytes = 4, c.srcPitch = 16, c.srcHeight = 2;
  c.dstDevice = x, c.dstPitch = 8, c.dstHeight = 2;
  c.WidthInBytes = 8, c.Height = 2, c.Depth = 1;
  graph::Graph g;
  g.add(c);
  const Image image = read_image(g, {});
  const std::vector<uint8_t>& table = image.nodes.at(0).table;
  ASSERT_EQ(table.size(), 16u);
  EXPECT_EQ(at<uint32_t>(table, 0), 1u);
  EXPECT_EQ(at<uint32_t>(table, 4), 2u);
  EXPECT_EQ(at<uint32_t>(table, 8), 5u);
  EXPECT_EQ(at<uint32_t>(table, 12), 6u);
}

TEST_F(Images, HostMemoryThatTheGraphItselfWritesIsNoTable) {
  const CUdeviceptr x = m_.memory(256);
  auto* between = m_.page_locked<uint64_t>(8);
  const Image image = read([&] {
    RONDO_CU(d_, cuMemcpyDtoHAsync(between + 2, x, 16, m_.stream));
    RONDO_CU(d_, cuMemcpyHtoDAsync(x + 64, between, 24, m_.stream));
    RONDO_CU(d_, cuMemcpyHtoDAsync(x + 64, between + 4, 8, m_.stream));
  });
  EXPECT_TRUE(image.nodes.at(1).table.empty());   // overlaps by 8 bytes
  EXPECT_FALSE(image.nodes.at(2).table.empty());  // begins where it ends
}

TEST_F(Images, PageableMemoryIsTrustedWhenItIsStaticOrSaidToBeKept) {
  static uint64_t fixed[4] = {1, 2, 3, 4};
  const CUdeviceptr x = m_.memory(256);
  const std::vector<uint64_t> heap = {5, 6, 7, 8};
  const auto work = [&] {
    RONDO_CU(d_, cuMemcpyHtoDAsync(x, fixed, 32, m_.stream));
    RONDO_CU(d_, cuMemcpyHtoDAsync(x, heap.data(), 32, m_.stream));
  };
  const Image careful = read(work);
  EXPECT_TRUE(careful.nodes.at(0).pageable);
  EXPECT_EQ(at<uint64_t>(careful.nodes[0].table, 24), 4u);
  EXPECT_EQ(careful.nodes[0].why_not, "");
  EXPECT_TRUE(careful.nodes.at(1).table.empty());
  EXPECT_NE(careful.nodes[1].why_not.find("a copy of 32 bytes from pageable host memory at 0x"),
            std::string::npos);
  EXPECT_NE(
      careful.nodes[1].why_not.find(", which the work may have freed by now. Make it an argument, page-lock "
                                    "it, or promise that it stays (Options::host_tables)"),
      std::string::npos);
  const Image kept = read(work, {}, Pageable::Kept);
  EXPECT_EQ(kept.nodes.at(1).why_not, "");
  EXPECT_TRUE(kept.nodes[1].pageable);
  EXPECT_EQ(at<uint64_t>(kept.nodes[1].table, 8), 6u);
}

TEST_F(Images, PageableMemoryThatIsTooLargeInRowsOrNotThereIsRefused) {
  static char large[kMostTableBytes + 8];
  const CUdeviceptr x = m_.memory(sizeof large);
  graph::Graph g;
  g.copy(x, static_cast<const void*>(large), sizeof large);
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST, c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcHost = large, c.srcPitch = 16, c.srcHeight = 2;
  c.dstDevice = x, c.dstPitch = 8, c.dstHeight = 2;
  c.WidthInBytes = 8, c.Height = 2, c.Depth = 1;
  g.add(c);
  g.copy(x, reinterpret_cast<const void*>(0x10), 8);
  const Image image = read_image(g, {}, Pageable::Kept);
  EXPECT_NE(image.nodes.at(0).why_not.find(", more than a recording keeps of it (1 MiB)."),
            std::string::npos);
  EXPECT_NE(image.nodes.at(1).why_not.find(", in rows, which"), std::string::npos);
  EXPECT_NE(image.nodes.at(2).why_not.find("at 0x10, which is not there any more."), std::string::npos);
}

TEST_F(Images, ACopyToPageableMemoryIsRefusedUnlessItIsAnArgument) {
  static uint64_t result[4];
  const CUdeviceptr x = m_.memory(256);
  auto* locked = m_.page_locked<uint64_t>(4);
  const auto work = [&] {
    RONDO_CU(d_, cuMemcpyDtoHAsync(result, x, 32, m_.stream));
    RONDO_CU(d_, cuMemcpyDtoHAsync(locked, x, 32, m_.stream));
  };
  const Image image = read(work);
  EXPECT_NE(image.nodes.at(0).why_not.find("a copy to pageable host memory at 0x"), std::string::npos);
  EXPECT_NE(image.nodes[0].why_not.find(
                "would write to an address that may be gone. Make it an argument, or page-lock it"),
            std::string::npos);
  EXPECT_EQ(image.nodes.at(1).why_not, "");
  EXPECT_EQ(read(work, {{reinterpret_cast<uint64_t>(result), 32}}).nodes.at(0).why_not, "");
}

TEST_F(Images, AnAddressOfEitherSideIsAskedFor) {
  const CUdeviceptr x = m_.memory(256);
  auto* locked = m_.page_locked<uint64_t>(4);
  locked[0] = 3;
  graph::Graph g;
  for (uint64_t from : {static_cast<uint64_t>(x), reinterpret_cast<uint64_t>(locked)}) {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = CU_MEMORYTYPE_UNIFIED, c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = from, c.dstDevice = x + 128;
    c.WidthInBytes = 8, c.Height = c.Depth = 1;
    g.add(c);
  }
  const Image image = read_image(g, {});
  EXPECT_TRUE(image.nodes.at(0).table.empty());
  EXPECT_EQ(at<uint64_t>(image.nodes.at(1).table, 0), 3u);
}

TEST_F(Images, AFailureToAskIsAnError) {
  const CUdeviceptr x = m_.memory(256);
  auto* locked = m_.page_locked<uint64_t>(4);
  const graph::Graph g = m_.capture([&] { RONDO_CU(d_, cuMemcpyHtoDAsync(x, locked, 32, m_.stream)); });
  m_.fake.fail_function("cuPointerGetAttribute", CUDA_ERROR_UNKNOWN);
  EXPECT_NE(message_of([&] { read_image(g, {}); }, ErrorKind::Device)
                .find("cuPointerGetAttribute failed: CUDA_ERROR_UNKNOWN"),
            std::string::npos);
}

TEST_F(Images, AFillOfOneRowHasNoPitch) {
  const CUdeviceptr x = m_.memory(256);
  CUDA_MEMSET_NODE_PARAMS p{};
  p.dst = x, p.pitch = 99, p.value = 7, p.elementSize = 4, p.width = 8, p.height = 1;
  graph::Graph g;
  g.add(p);
  const auto fill = at<CUDA_MEMSET_NODE_PARAMS>(read_image(g, {}).nodes.at(0).bytes, 0);
  EXPECT_EQ(fill.dst, x);
  EXPECT_EQ(fill.pitch, 0u);
  EXPECT_EQ(fill.value, 7u);
}

// ---------------------------------------------------------------- other nodes

TEST_F(Images, HostFunctionsEventsAndMemoryOperationsAreCompared) {
  const CUdeviceptr x = m_.memory(256);
  const graph::Event event = graph::Event::create();
  int data = 0;
  graph::Graph g;
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void*) {}, host.userData = &data;
  g.add(host);
  g.record(event);
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = x, op.writeValue.value64 = 0xdeadbeef00000005, op.writeValue.alias = 99;
  g.batch({&op, 1});
  const Image image = read_image(g, {});
  EXPECT_NE(image.nodes.at(0).rest.find("data 0x"), std::string::npos);
  EXPECT_EQ(image.nodes[0].rest_words, std::vector<uint64_t>{reinterpret_cast<uint64_t>(&data)});
  EXPECT_NE(image.nodes.at(1).rest.find("event 0x"), std::string::npos);
  EXPECT_NE(image.nodes.at(2).rest.find("value 0x5 flags 0\n"), std::string::npos);
  EXPECT_EQ(image.nodes[2].rest_words, std::vector<uint64_t>{x});
}

TEST_F(Images, AChildIsTextWithEverythingInIt) {
  const CUfunction f = m_.kernel("f", {8});
  const auto text = [&](uint64_t value, bool second) {
    graph::Graph inner, outer;
    const auto a = inner.add(graph::kernel(f, 1, 1, 0, value));
    if (second) inner.empty(a);
    outer.child(inner);
    const Image image = read_image(outer, {});
    EXPECT_EQ(image.nodes.at(0).rest_words, std::vector<uint64_t>{value});
    return image.nodes.at(0).rest;
  };
  EXPECT_EQ(text(5, true), text(5, true));
  EXPECT_NE(text(5, true), text(6, true));
  EXPECT_NE(text(5, true), text(5, false));
}

TEST_F(Images, WhatCannotBeReadInAChildIsSaidOfTheChild) {
  static uint64_t fixed[2];
  const CUdeviceptr x = m_.memory(64);
  const auto why = [&](auto&& fill) {
    graph::Graph inner, outer;
    fill(inner);
    outer.child(inner);
    return read_image(outer, {}).nodes.at(0).why_not;
  };
  EXPECT_NE(why([&](auto& g) {
              g.copy(static_cast<void*>(fixed), x, 16);
            }).find("inside a child graph, memcpy node: a copy to pageable host memory"),
            std::string::npos);
  EXPECT_EQ(why([&](auto& g) { g.copy(x, static_cast<const void*>(fixed), 16); }),
            "inside a child graph, memcpy node copies from pageable memory, which may be gone at a replay. "
            "Page-lock "
            "it");
}

TEST_F(Images, ConditionsAreNotRead) {
  graph::Graph g;
  g.if_node(g.condition());
  EXPECT_NE(read_image(g, {}).nodes.at(0).why_not.find("does not tell what a conditional node holds"),
            std::string::npos);
}

TEST_F(Images, MemoryOfTheGraphComesAndGoesWithIt) {
  CUdeviceptr a = 0, b = 0;
  const Image image = read([&] {
    RONDO_CU(d_, cuMemAllocAsync(&a, 64, m_.stream));
    RONDO_CU(d_, cuMemAllocAsync(&b, 128, m_.stream));
    RONDO_CU(d_, cuMemFreeAsync(b, m_.stream));
    RONDO_CU(d_, cuMemFreeAsync(a, m_.stream));
  });
  EXPECT_EQ(image.nodes.at(0).address, a);
  EXPECT_EQ(image.nodes.at(1).address_bytes, 128u);
  EXPECT_EQ(image.nodes.at(2).rest, "of node 1\n");
  EXPECT_EQ(image.nodes.at(3).rest, "of node 0\n");
  for (const NodeImage& n : image.nodes) EXPECT_EQ(n.why_not, "");
}

TEST_F(Images, MemoryThatOutlivesALaunchIsRefused) {
  const CUdeviceptr elsewhere = m_.memory(64);
  CUdeviceptr a = 0;
  const Image image = read([&] {
    RONDO_CU(d_, cuMemAllocAsync(&a, 64, m_.stream));
    RONDO_CU(d_, cuMemFreeAsync(elsewhere, m_.stream));
  });
  EXPECT_NE(image.nodes.at(0).why_not.find("the work does not free its 64 bytes at 0x"), std::string::npos);
  EXPECT_NE(image.nodes.at(1).why_not.find("it frees memory at 0x"), std::string::npos);
}

// ---------------------------------------------------------------- writing and structure

TEST_F(Images, WhatIsWrittenIsLaunched) {
  const CUfunction f = m_.kernel("f", {4, 8});
  const CUdeviceptr x = m_.memory(64), y = m_.memory(64);
  graph::Graph g;
  g.add(graph::kernel(f, 1, 1, 0, 1, uint64_t{2}));
  std::vector<uint8_t> block(16, 1);
  size_t bytes = block.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS packed = graph::kernel_shape(f, 1, 1, 0);
  packed.extra = extra;
  g.add(graph::KernelParams(packed));
  g.fill(x, 1, 8);
  g.copy(x + 8, x, 8);
  graph::GraphExec exec = g.instantiate();
  Image image = read_image(g, {});
  put(&image.nodes.at(0).bytes, 8, uint64_t{77});
  put(&image.nodes.at(1).bytes, 0, 78);
  put(&image.nodes.at(2).bytes, offsetof(CUDA_MEMSET_NODE_PARAMS, dst), y);
  put(&image.nodes.at(3).bytes, offsetof(CUDA_MEMCPY3D, srcDevice), y);
  put(&image.nodes.at(3).bytes, offsetof(CUDA_MEMCPY3D, dstDevice), y + 16);
  for (const NodeImage& n : image.nodes) set_node(&exec, n);
  exec.launch(m_.stream);
  ASSERT_EQ(m_.fake.launches.size(), 2u);
  EXPECT_EQ(at<int>(m_.fake.launches[0].params, 0), 1);
  EXPECT_EQ(at<uint64_t>(m_.fake.launches[0].params, 8), 77u);
  EXPECT_EQ(at<int>(m_.fake.launches[1].params, 0), 78);
  EXPECT_EQ(m_.fake.launches[1].params.size(), 16u);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(y + 16), 0x0101010101010101u);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(x), 0u);
}

TEST_F(Images, StructureIsOfShapesAndNamesAndNotOfAddresses) {
  const CUfunction f = m_.kernel("f", {8, 4}), g = m_.kernel("g", {8, 4});
  const auto structure = [&](CUfunction kernel, unsigned grid, int n, size_t bytes, bool joined) {
    const CUdeviceptr x = m_.memory(256);
    graph::Graph inner, outer;
    inner.add(graph::kernel(kernel, grid, 32, 0, x, n));
    const auto child = outer.child(inner);
    const auto copy = outer.copy(x, x + 128, bytes, child);
    outer.fill(x, 0, 4, 4, joined ? graph::After(copy) : graph::After());
    return structure_of(read_image(outer, {}));
  };
  const uint64_t base = structure(f, 1, 5, 16, true);
  EXPECT_EQ(structure(f, 1, 6, 16, true), base);
  EXPECT_NE(structure(g, 1, 5, 16, true), base);
  EXPECT_NE(structure(f, 2, 5, 16, true), base);
  EXPECT_NE(structure(f, 1, 5, 24, true), base);
  EXPECT_NE(structure(f, 1, 5, 16, false), base);
}

}  // namespace
}  // namespace rondo::replay
