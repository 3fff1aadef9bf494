// Where arguments sit: found in two images that differ in nothing else, and every way in which they may not
// be. Images are made by hand here; tests/replay_recording.cpp captures them.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>

#include "replay_captures.h"
#include "rondo/replay/slots.h"

namespace rondo::replay {
namespace {

using graph::NodeKind;

// Two buffers of 256 bytes and what else a test needs, in two captures.
constexpr uint64_t kA0 = 0x7f1200001000, kA1 = 0x7f1200003000, kB0 = 0x7f3400005000, kB1 = 0x7f3400009000;
const std::vector<Argument> kFirst = {buffer(kA0, 256), buffer(kA1, 256)};
const std::vector<Argument> kSecond = {buffer(kB0, 256), buffer(kB1, 256)};

std::vector<Argument> with(std::vector<Argument> arguments, const Argument& one) {
  arguments.push_back(one);
  return arguments;
}

NodeImage kernel_node(std::vector<uint8_t> bytes, std::vector<Parameter> parameters = {}) {
  NodeImage n;
  n.kind = NodeKind::Kernel;
  n.kernel.gridDimX = n.kernel.gridDimY = n.kernel.gridDimZ = 1;
  n.kernel.blockDimX = n.kernel.blockDimY = n.kernel.blockDimZ = 1;
  n.bytes = std::move(bytes);
  n.parameters = std::move(parameters);
  return n;
}
template <class... T>
std::vector<uint8_t> words(T... values) {
  std::vector<uint8_t> out;
  (put(&out, out.size(), static_cast<uint64_t>(values)), ...);
  return out;
}
Image image_of(std::vector<NodeImage> nodes) {
  Image image;
  image.nodes = std::move(nodes);
  return image;
}
NodeImage copy_node(CUmemorytype from_type, uint64_t from, uint64_t to, size_t bytes, size_t rows = 1) {
  CUDA_MEMCPY3D c;
  std::memset(static_cast<void*>(&c), 0, sizeof c);
  c.srcMemoryType = from_type, c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  if (from_type == CU_MEMORYTYPE_HOST)
    c.srcHost = reinterpret_cast<void*>(from);
  else
    c.srcDevice = from;
  c.dstDevice = to;
  c.WidthInBytes = bytes, c.Height = rows, c.Depth = 1;
  NodeImage n;
  n.kind = NodeKind::Memcpy;
  put(&n.bytes, 0, c);
  return n;
}
NodeImage fill_node(uint64_t to, unsigned value, size_t count, unsigned element_bytes = 4) {
  CUDA_MEMSET_NODE_PARAMS m{};
  m.dst = to, m.value = value, m.elementSize = element_bytes, m.width = count, m.height = 1;
  NodeImage n;
  n.kind = NodeKind::Memset;
  put(&n.bytes, 0, m);
  return n;
}

Discovery find(NodeImage x, NodeImage y, std::span<const Argument> a = kFirst,
               std::span<const Argument> b = kSecond, std::vector<Span64> elsewhere = {}) {
  return discover(image_of({std::move(x)}), a, image_of({std::move(y)}), b, elsewhere);
}

// "0:8+4": argument 0 at offset 8 with 4 added; w4: of 4 bytes; t: in a table.
std::string text(const Discovery& d) {
  std::string out;
  for (const Slot& s : d.slots) {
    out += std::to_string(s.argument) + ":" + std::to_string(s.offset);
    if (s.addend) out += "+" + std::to_string(s.addend);
    if (s.width != 8) out += "w" + std::to_string(s.width);
    if (s.in_table) out += "t";
    out += " ";
  }
  for (const Problem& p : d.problems) out += "[" + std::to_string(p.argument) + " " + p.text + "]";
  for (uint16_t f : d.fixed) out += "fixed " + std::to_string(f) + " ";
  return out;
}

// ---------------------------------------------------------------- addresses

TEST(Slots, AnAddressIsFoundAtItsPlaceInTheArgument) {
  EXPECT_EQ(text(find(kernel_node(words(kA0, 7, kA1 + 16)), kernel_node(words(kB0, 7, kB1 + 16)))),
            "0:0 1:16+16 ");
}

TEST(Slots, TheEndOfAnArgumentIsPartOfIt) {
  EXPECT_EQ(text(find(kernel_node(words(kA0 + 256)), kernel_node(words(kB0 + 256)))), "0:0+256 ");
}

TEST(Slots, BehindTheEndIsNot) {
  EXPECT_EQ(text(find(kernel_node(words(kA0 + 257)), kernel_node(words(kB0 + 257)))),
            "[0 kernel node (0): bytes 0 to 7 of its parameters: 0x7f1200001101 in one capture and "
            "0x7f3400005101 in "
            "another, which is argument 0 with 0x101 added, which is outside of it]");
}

TEST(Slots, NorIsWhatLiesBefore) {
  const std::string found = text(find(kernel_node(words(kA1 - 8)), kernel_node(words(kB1 - 8))));
  EXPECT_NE(found.find("argument 1 with 0xfffffffffffffff8 added"), std::string::npos) << found;
}

TEST(Slots, AnEndThatIsAnotherArgumentsBeginIsThatOne) {
  const std::vector<Argument> a = {buffer(kA0, 256), buffer(kA0 + 256, 256)};
  const std::vector<Argument> b = {buffer(kB0, 256), buffer(kB0 + 256, 256)};
  EXPECT_EQ(text(find(kernel_node(words(kA0 + 256)), kernel_node(words(kB0 + 256)), a, b)), "1:0 ");
  // With the neighbour in one capture only there is no question.
  const std::vector<Argument> c = {buffer(kB0, 256), buffer(kB1, 256)};
  EXPECT_EQ(text(find(kernel_node(words(kA0 + 256)), kernel_node(words(kB0 + 256)), a, c)), "0:0+256 ");
  EXPECT_EQ(text(find(kernel_node(words(kA0 + 256)), kernel_node(words(kB1)), a, c)), "1:0 ");
}

TEST(Slots, TwoArgumentsThatAreOneAreAProblem) {
  const std::vector<Argument> a = {buffer(kA0, 256), buffer(kA0, 256)},
                              b = {buffer(kB0, 256), buffer(kB0, 256)};
  const std::string found = text(find(kernel_node(words(kA0)), kernel_node(words(kB0)), a, b));
  EXPECT_NE(
      found.find("bytes 0 to 7 of its parameters may be the end of one argument or the begin of another"),
      std::string::npos)
      << found;
}

TEST(Slots, PackedStructsHoldAddressesAnywhere) {
  for (size_t offset : {1u, 3u, 4u, 5u, 7u, 12u}) {
    std::vector<uint8_t> x(32, 0xab), y = x;
    put(&x, offset, kA0 + 8), put(&y, offset, kB0 + 8);
    put(&x, offset + 8, kA1), put(&y, offset + 8, kB1);  // close behind
    EXPECT_EQ(text(find(kernel_node(x), kernel_node(y))),
              "0:" + std::to_string(offset) + "+8 1:" + std::to_string(offset + 8) + " ");
  }
}

TEST(Slots, AddressesThatDifferInFewBytesAreWholeWords) {
  // The last bytes and the first are the same in both captures.
  const std::vector<Argument> a = {buffer(0x7f1200110000, 256)}, b = {buffer(0x7f1200220000, 256)};
  EXPECT_EQ(text(find(kernel_node(words(0x7f1200110040)), kernel_node(words(0x7f1200220040)), a, b)),
            "0:0+64 ");
}

TEST(Slots, SixteenArgumentsAreToldApart) {
  std::vector<Argument> a, b;
  std::vector<uint8_t> x, y;
  std::string expected;
  for (uint64_t i = 0; i < 16; ++i) {
    a.push_back(buffer(0x7f0000000000 + 0x1000 * i, 512));
    b.push_back(buffer(0x7f8000000000 + 0x2000 * (15 - i), 512));
  }
  for (uint64_t i = 0; i < 16; ++i) {
    put(&x, 8 * i, a[15 - i].value + i), put(&y, 8 * i, b[15 - i].value + i);
    expected += std::to_string(i) + ":" + std::to_string(8 * (15 - i)) +
                (i == 15 ? "" : "+" + std::to_string(15 - i)) + " ";
  }
  EXPECT_EQ(text(find(kernel_node(x), kernel_node(y), a, b)), expected);
}

TEST(Slots, OfABufferWithoutBytesOnlyItsAddressIsIts) {
  const std::vector<Argument> a = {buffer(kA0, 0)}, b = {buffer(kB0, 0)};
  EXPECT_EQ(text(find(kernel_node(words(kA0)), kernel_node(words(kB0)), a, b)), "0:0 ");
  const std::string found = text(find(kernel_node(words(kA0 + 1)), kernel_node(words(kB0 + 1)), a, b));
  EXPECT_NE(found.find("which is outside of it"), std::string::npos) << found;
  EXPECT_EQ(text(find(kernel_node(words(kA0)), kernel_node(words(kA0)), a, a)), "");
}

TEST(Slots, AnArgumentThatIsHeldEqualIsNotLookedFor) {
  const std::vector<Argument> a = {buffer(kA0, 256), buffer(kA1, 256)},
                              b = {buffer(kA0, 256), buffer(kB1, 256)};
  EXPECT_EQ(text(find(kernel_node(words(kA0, kA1)), kernel_node(words(kA0, kB1)), a, b)), "1:8 ");
}

// ---------------------------------------------------------------- what is no address

TEST(Slots, TaggedAddressesAreAProblem) {
  const uint64_t tag = uint64_t{0x80} << 56;
  const std::string found = text(find(kernel_node(words(kA0 | tag)), kernel_node(words(kB0 | tag))));
  EXPECT_NE(found.find("argument 0 with 0x8000000000000000 added"), std::string::npos) << found;
}

TEST(Slots, HalvesOfAnAddressAreAProblem) {
  std::vector<uint8_t> x(16), y(16);
  put(&x, 0, static_cast<uint32_t>(kA0)), put(&y, 0, static_cast<uint32_t>(kB0));
  put(&x, 8, static_cast<uint32_t>(kA0 >> 32)), put(&y, 8, static_cast<uint32_t>(kB0 >> 32));
  const Discovery d = find(kernel_node(x), kernel_node(y));
  EXPECT_TRUE(d.slots.empty());
  ASSERT_EQ(d.problems.size(), 1u);  // one for the node and argument
  EXPECT_EQ(d.problems[0].argument, 0);
  EXPECT_NE(d.problems[0].text.find("made of half of the address of argument 0"), std::string::npos);
}

TEST(Slots, ADistanceBetweenArgumentsIsAProblem) {
  const std::string found = text(find(kernel_node(words(kA1 - kA0 + 4)), kernel_node(words(kB1 - kB0 + 4))));
  EXPECT_NE(found.find("made of the distance from argument 0 to argument 1"), std::string::npos) << found;
}

TEST(Slots, AnotherPlaceInTheArgumentIsAProblem) {
  const Discovery d = find(kernel_node(words(kA0 + 8)), kernel_node(words(kB0 + 16)));
  ASSERT_EQ(d.problems.size(), 1u);
  EXPECT_EQ(d.problems[0].argument, 0);
  EXPECT_NE(d.problems[0].text.find("which is argument 0 at byte 8 and at byte 16"), std::string::npos);
}

TEST(Slots, ParametersAreNamedByNumber) {
  const std::vector<Parameter> parameters = {{0, 8}, {8, 8}};
  const std::string found =
      text(find(kernel_node(words(1, 5), parameters), kernel_node(words(1, 6), parameters)));
  EXPECT_EQ(
      found,
      "[-1 kernel node (0): bytes 8 to 15 of its parameters, parameter 1: 0x5 in one capture and 0x6 in "
      "another, which is neither an address in an argument nor a live scalar]");
}

TEST(Slots, ALastByteWithoutAWordAroundItIsExplainedOrSaid) {
  std::vector<uint8_t> x = {1, 2, 3}, y = {1, 2, 4};
  const std::string found = text(find(kernel_node(x), kernel_node(y)));
  EXPECT_NE(found.find("bytes 2 to 2 of its parameters: 0x3 in one capture and 0x4 in another"),
            std::string::npos)
      << found;
}

TEST(Slots, WhatComesAfterAProblemIsStillFound) {
  EXPECT_EQ(find(kernel_node(words(5, kA0)), kernel_node(words(6, kB0))).slots.size(), 1u);
}

// ---------------------------------------------------------------- structure

TEST(Slots, OtherNodesEdgesAndKindsAreProblems) {
  const auto one = [](const Image& x, const Image& y) {
    const Discovery d = discover(x, kFirst, y, kSecond, {});
    EXPECT_EQ(d.problems.size(), 1u);
    return d.problems.empty() ? "" : d.problems[0].text;
  };
  const NodeImage k = kernel_node({});
  EXPECT_NE(one(image_of({k}), image_of({k, k})).find("two captures of the work have 1 and 2 nodes"),
            std::string::npos);
  EXPECT_NE(
      one(image_of({k}), image_of({fill_node(kA0, 0, 1)})).find("it is a memset node in another capture"),
      std::string::npos);
  Image x = image_of({k, k, k}), y = x;
  x.edges = {{0, 1}, {0, 2}};
  x.edge_data.resize(2);
  y.edges = {{0, 2}, {0, 1}};  // another order is no difference
  y.edge_data.resize(2);
  EXPECT_TRUE(discover(x, kFirst, y, kSecond, {}).problems.empty());
  y.edge_data[0] = graph::kProgrammatic;
  EXPECT_NE(one(x, y).find("the same nodes and other edges"), std::string::npos);
  y.edges = {{0, 1}, {1, 2}};
  y.edge_data.assign(2, graph::kFull);
  EXPECT_NE(one(x, y).find("the same nodes and other edges"), std::string::npos);
}

TEST(Slots, OtherLaunchesAreProblems) {
  const auto one = [](void (*change)(NodeImage*)) {
    NodeImage y = kernel_node(words(1));
    change(&y);
    return text(find(kernel_node(words(1)), y));
  };
  EXPECT_NE(one([](NodeImage* n) {
              n->kernel.gridDimX = 4;
            }).find("grid 1x1x1 in one capture and 4x1x1 in another"),
            std::string::npos);
  EXPECT_NE(one([](NodeImage* n) { n->kernel.blockDimY = 4; }).find("block 1x1x1 in one capture and 1x4x1"),
            std::string::npos);
  EXPECT_NE(one([](NodeImage* n) { n->kernel.sharedMemBytes = 4; }).find("0 bytes of shared memory in one"),
            std::string::npos);
  EXPECT_NE(
      one([](NodeImage* n) { n->kernel.func = reinterpret_cast<CUfunction>(16); }).find("another kernel"),
      std::string::npos);
  EXPECT_NE(one([](NodeImage* n) { n->packed = true; }).find("packed in one capture only"),
            std::string::npos);
  EXPECT_NE(one([](NodeImage* n) { n->rest = "a\nattribute 4 02\n"; }).find("\"a\" in another"),
            std::string::npos);
  EXPECT_NE(
      one([](NodeImage* n) { n->bytes = words(1, 2); }).find("8 bytes of parameters in one capture and 16"),
      std::string::npos);
}

TEST(Slots, AChildMayNotDiffer) {
  NodeImage x, y;
  x.kind = y.kind = NodeKind::Child;
  x.rest = "1", y.rest = "2";
  EXPECT_EQ(text(find(x, y)),
            "[-1 child graph node (0): two captures differ inside a child graph, where nothing is patched]");
}

TEST(Slots, WhatCouldNotBeReadIsAProblemAndNotALiveScalarsFault) {
  NodeImage x = kernel_node({}), y = x;
  y.why_not = "it is not known";
  const std::vector<Argument> a = with(kFirst, scalar(Kind::Live, 1.5f)),
                              b = with(kSecond, scalar(Kind::Live, 2.5f));
  const Discovery d = find(x, y, a, b);
  EXPECT_EQ(text(d), "[-1 kernel node (0): it is not known]");
}

// ---------------------------------------------------------------- copies, fills, memory of the graph

TEST(Slots, AddressesOfCopiesAndFillsAreFound) {
  const CUmemorytype device = CU_MEMORYTYPE_DEVICE, host = CU_MEMORYTYPE_HOST;
  EXPECT_EQ(text(find(copy_node(device, kA0, kA1 + 8, 64), copy_node(device, kB0, kB1 + 8, 64))),
            "0:" + std::to_string(offsetof(CUDA_MEMCPY3D, srcDevice)) +
                " 1:" + std::to_string(offsetof(CUDA_MEMCPY3D, dstDevice)) + "+8 ");
  EXPECT_EQ(text(find(copy_node(host, kA0, kA1, 64), copy_node(host, kB0, kB1, 64))),
            "0:" + std::to_string(offsetof(CUDA_MEMCPY3D, srcHost)) +
                " 1:" + std::to_string(offsetof(CUDA_MEMCPY3D, dstDevice)) + " ");
  EXPECT_EQ(text(find(fill_node(kA0 + 4, 0, 8), fill_node(kB0 + 4, 0, 8))), "0:0+4 ");
}

TEST(Slots, CopiesOfRowsTakeNoOtherAddress) {
  const CUmemorytype device = CU_MEMORYTYPE_DEVICE;
  const Discovery d = find(copy_node(device, kA0, 0x5000, 8, 2), copy_node(device, kB0, 0x5000, 8, 2));
  ASSERT_EQ(d.problems.size(), 1u);
  EXPECT_EQ(d.problems[0].argument, 0);
  EXPECT_NE(d.problems[0].text.find("argument 0 at byte 0, in a place that cannot be written"),
            std::string::npos);
  EXPECT_EQ(text(find(copy_node(device, 0x4000, 0x5000, 8, 2), copy_node(device, 0x4000, 0x5000, 8, 2))), "");
}

TEST(Slots, SizesOfCopiesAndFillsAreNotPatched) {
  const std::vector<Argument> a = with(kFirst, scalar(Kind::Live, uint64_t{64}));
  const std::vector<Argument> b = with(kSecond, scalar(Kind::Live, uint64_t{96}));
  const CUmemorytype device = CU_MEMORYTYPE_DEVICE;
  const Discovery d =
      find(copy_node(device, 0x4000, 0x5000, 64), copy_node(device, 0x4000, 0x5000, 96), a, b);
  EXPECT_EQ(d.fixed, std::vector<uint16_t>{2});
  EXPECT_EQ(find(fill_node(0x4000, 1, 64), fill_node(0x4000, 1, 96), a, b).fixed, std::vector<uint16_t>{2});
}

TEST(Slots, TheValueOfAFillMayBeALiveScalarOfItsSize) {
  const std::vector<Argument> a = with(kFirst, scalar(Kind::Live, 64)),
                              b = with(kSecond, scalar(Kind::Live, 96));
  EXPECT_EQ(text(find(fill_node(0x4000, 64, 8), fill_node(0x4000, 96, 8), a, b)), "2:16w4 ");
  EXPECT_EQ(find(fill_node(0x4000, 64, 8, 1), fill_node(0x4000, 96, 8, 1), a, b).fixed,
            std::vector<uint16_t>{2});
}

TEST(Slots, MemoryOfTheGraphIsExplainedByItsPlace) {
  const auto graph_of = [](uint64_t memory, uint64_t used) {
    NodeImage alloc;
    alloc.kind = NodeKind::Alloc;
    alloc.address = memory, alloc.address_bytes = 128;
    NodeImage freed;
    freed.kind = NodeKind::Free;
    freed.address = memory;
    return image_of(
        {alloc, kernel_node(words(used)), copy_node(CU_MEMORYTYPE_DEVICE, used, 0x5000, 8, 2), freed});
  };
  const auto both = [&](uint64_t x, uint64_t y) {
    return text(discover(graph_of(0x302000, x), kFirst, graph_of(0x402000, y), kSecond, {}));
  };
  EXPECT_EQ(both(0x302010, 0x402010), "");
  EXPECT_EQ(both(0x302080, 0x402080), "");  // its end
  EXPECT_NE(both(0x302010, 0x402020).find("neither an address in an argument"), std::string::npos);
  EXPECT_NE(both(0x302010 + 0x100, 0x402010 + 0x100).find("neither an address"), std::string::npos);
}

TEST(Slots, AnAllocationOfAnotherSizeIsAProblem) {
  NodeImage x, y;
  x.kind = y.kind = NodeKind::Alloc;
  x.address_bytes = 64, y.address_bytes = 128;
  EXPECT_NE(text(find(x, y)).find("it allocates 64 bytes in one capture and 128 in another"),
            std::string::npos);
}

// ---------------------------------------------------------------- tables

NodeImage table_node(uint64_t from, bool pageable, std::vector<uint8_t> table, size_t rows = 1) {
  NodeImage n = copy_node(CU_MEMORYTYPE_HOST, from, 0x5000, table.size() / rows, rows);
  n.table = std::move(table);
  n.pageable = pageable;
  return n;
}

TEST(Slots, TablesOfAddressesAreLookedThrough) {
  for (bool pageable : {false, true})
    EXPECT_EQ(text(find(table_node(0x100, pageable, words(kA0, 1, kA1 + 8)),
                        table_node(0x100, pageable, words(kB0, 1, kB1 + 8)))),
              "0:0t 1:16+8t ");
}

TEST(Slots, ATableMayLieElsewhereWhenTheRecordingHasItsOwn) {
  EXPECT_EQ(text(find(table_node(0x100, true, words(1)), table_node(0x200, true, words(1)))), "");
  EXPECT_EQ(text(find(table_node(0x100, false, words(kA0)), table_node(0x200, false, words(kB0)))), "0:0t ");
  // Its target is compared all the same.
  NodeImage moved = table_node(0x200, true, words(1));
  put(&moved.bytes, offsetof(CUDA_MEMCPY3D, dstDevice), uint64_t{0x6000});
  EXPECT_NE(text(find(table_node(0x100, true, words(1)), moved)).find("of its CUDA_MEMCPY3D: 0x5000"),
            std::string::npos);
}

TEST(Slots, PageLockedMemoryWithOneContentAtTwoPlacesIsAProblem) {
  EXPECT_NE(text(find(table_node(0x100, false, words(1)), table_node(0x200, false, words(1))))
                .find("it copies from page-locked memory at another address in each capture"),
            std::string::npos);
}

TEST(Slots, ATableOfRowsMayNotDiffer) {
  EXPECT_EQ(text(find(table_node(0x100, false, words(1, 2), 2), table_node(0x100, false, words(1, 2), 2))),
            "");
  EXPECT_NE(text(find(table_node(0x100, false, words(kA0, 2), 2), table_node(0x100, false, words(kB0, 2), 2)))
                .find("what it copies from the host differs between captures, and it is a copy of rows"),
            std::string::npos);
}

TEST(Slots, AnUnexplainedWordOfATableIsAProblem) {
  EXPECT_NE(text(find(table_node(0x100, true, words(1, 5)), table_node(0x100, true, words(1, 6))))
                .find("bytes 8 to 15 of what it copies from the host: 0x5 in one capture"),
            std::string::npos);
}

TEST(Slots, TablesOfOtherKindsAreAProblem) {
  for (const NodeImage& other : {table_node(0x100, false, words(1)), table_node(0x100, true, words(1, 2))}) {
    NodeImage y = other;
    y.bytes = table_node(0x100, true, words(1)).bytes;
    EXPECT_NE(text(find(table_node(0x100, true, words(1)), y)).find("host memory of another kind"),
              std::string::npos);
  }
}

// ---------------------------------------------------------------- live scalars

struct Live {
  std::vector<Argument> a = kFirst, b = kSecond;
  template <class T>
  Live& add(T first, T second) {
    a.push_back(scalar(Kind::Live, first));
    b.push_back(scalar(Kind::Live, second));
    return *this;
  }
  Discovery find(const std::vector<uint8_t>& x, const std::vector<uint8_t>& y,
                 std::vector<Parameter> parameters = {}) const {
    return replay::find(kernel_node(x, parameters), kernel_node(y, parameters), a, b);
  }
};
template <class... T>
std::vector<uint8_t> block(T... values) {
  std::vector<uint8_t> out;
  (put(&out, out.size(), values), ...);
  return out;
}

TEST(Slots, LiveScalarsAreFoundByTheirBits) {
  Live live;
  live.add(1.5f, -3.25f).add(0.5, 0.25).add(int64_t{-7}, int64_t{1} << 40);
  EXPECT_EQ(
      text(live.find(block(kA0, 1.5f, 9, 0.5, int64_t{-7}), block(kB0, -3.25f, 9, 0.25, int64_t{1} << 40))),
      "0:0 2:8w4 3:16 4:24 ");
}

TEST(Slots, AScalarBetweenEqualBytesIsFoundWhereItBegins) {
  Live live;
  live.add(0.5, 0.25);  // six bytes of zero, then what differs
  const std::vector<uint8_t> pad(5, 0);
  std::vector<uint8_t> x = pad, y = pad;
  put(&x, 5, 0.5), put(&y, 5, 0.25);
  EXPECT_EQ(text(live.find(x, y)), "2:5 ");
}

TEST(Slots, AScalarInSeveralPlacesHasSeveralSlots) {
  Live live;
  live.add(3, 5);
  EXPECT_EQ(text(live.find(block(3, 3, 8), block(5, 5, 8))), "2:0w4 2:4w4 ");
}

TEST(Slots, AScalarThatIsNotSeenIsFixed) {
  Live live;
  live.add(3, 5).add(1.5f, 2.5f);
  EXPECT_EQ(text(live.find(block(3), block(5))), "2:0w4 fixed 3 ");
}

TEST(Slots, AScalarThatIsHeldEqualIsNot) {
  Live live;
  live.add(3, 3);
  EXPECT_EQ(text(live.find(block(3), block(3))), "");
}

TEST(Slots, AScalarThatIsComputedWithIsFixed) {
  Live live;
  live.add(3, 5);
  EXPECT_EQ(live.find(block(12), block(20)).fixed, std::vector<uint16_t>{2});
  EXPECT_FALSE(live.find(block(12), block(20)).problems.empty());
}

TEST(Slots, WhenAllAreSeenAndSomethingIsNotExplainedAllAreFixed) {
  Live live;
  live.add(3, 5).add(1.5f, 2.5f);
  EXPECT_EQ(live.find(block(3, 1.5f, 12), block(5, 2.5f, 20)).fixed, (std::vector<uint16_t>{2, 3}));
  // Those that are not seen come first: the others get their chance in the next capture.
  EXPECT_EQ(live.find(block(3, 12, 12), block(5, 20, 20)).fixed, std::vector<uint16_t>{3});
}

TEST(Slots, AScalarThatDecidesWhatIsLaunchedIsFixed) {
  Live live;
  live.add(3, 5);
  NodeImage x = kernel_node(block(3)), y = kernel_node(block(5));
  y.kernel.gridDimX = 2;
  EXPECT_EQ(find(x, y, live.a, live.b).fixed, std::vector<uint16_t>{2});
  const Image one = image_of({kernel_node(block(3))}),
              two = image_of({kernel_node(block(5)), kernel_node(block(5))});
  EXPECT_EQ(discover(one, live.a, two, live.b, {}).fixed, std::vector<uint16_t>{2});
}

TEST(Slots, ScalarsWithTheSameBitsAreFixed) {
  Live live;
  live.add(3, 5).add(3, 5).add(7, 9);
  EXPECT_EQ(text(live.find(block(3, 7), block(5, 9))), "4:4w4 fixed 2 fixed 3 ");
}

TEST(Slots, ConversionsOfAScalarAreNoScalars) {
  Live live;
  live.add(3, 5);
  // To a byte, with zeros behind it: the parameter is smaller.
  EXPECT_EQ(live.find(block(uint8_t{3}, uint8_t{0}, uint8_t{0}, uint8_t{0}),
                      block(uint8_t{5}, uint8_t{0}, uint8_t{0}, uint8_t{0}), {{0, 1}, {2, 2}})
                .fixed,
            std::vector<uint16_t>{2});
  // To 8 bytes with its sign: who chooses other signs for the captures sees it.
  Live sign;
  sign.add(3, -5);
  EXPECT_EQ(sign.find(block(int64_t{3}), block(int64_t{-5})).fixed, std::vector<uint16_t>{2});
  // From 8 bytes to 4.
  Live wide;
  wide.add(int64_t{3}, int64_t{5});
  EXPECT_EQ(wide.find(block(3), block(5)).fixed, std::vector<uint16_t>{2});
}

TEST(Slots, WhatOneWordHasExplainedIsNoPartOfAnother) {
  Live live;
  live.add(int64_t{5}, int64_t{7}).add(1.5f, 2.5f);
  // The last two bytes of the float's bits, behind two of the number's zeros: not the float.
  const Discovery d = live.find(block(int64_t{5}, uint16_t{0x3fc0}), block(int64_t{7}, uint16_t{0x4020}));
  EXPECT_EQ(d.fixed, std::vector<uint16_t>{3});
  ASSERT_EQ(d.slots.size(), 1u);
  EXPECT_EQ(d.problems.size(), 1u);
}

TEST(Slots, AnAddressMovedByAScalarIsFixed) {
  Live live;
  live.add(8, 16);
  const Discovery d = live.find(block(8, 0, kA0 + 8), block(16, 0, kB0 + 16));
  EXPECT_EQ(d.fixed, std::vector<uint16_t>{2});
  ASSERT_EQ(d.problems.size(), 1u);
  EXPECT_EQ(d.problems[0].argument, 0);
}

// ---------------------------------------------------------------- what is remembered

TEST(Slots, AddressesOfEarlierCallsAreProblems) {
  const std::vector<Span64> elsewhere = {{0x7f5500000000, 0x100}};
  const auto both = [&](uint64_t word) {
    return text(find(kernel_node(words(1, word)), kernel_node(words(1, word)), kFirst, kSecond, elsewhere));
  };
  EXPECT_EQ(both(0x7f5500000010),
            "[-1 kernel node (0): remembers the address 0x7f5500000010 of an earlier call]");
  EXPECT_EQ(both(0x7f5500000100), "");  // behind it
  EXPECT_EQ(both(kA1 + 8),
            "[1 kernel node (0): remembers the address 0x7f1200003008 of an earlier call (argument 1)]");
  EXPECT_EQ(both(kB0),
            "[0 kernel node (0): remembers the address 0x7f3400005000 of an earlier call (argument 0)]");
}

TEST(Slots, RememberedAddressesAreFoundInCopiesTablesAndTheRest) {
  const std::vector<Span64> elsewhere = {{0x9000, 0x100}};
  const auto same = [&](const NodeImage& n) { return text(find(n, n, kFirst, kSecond, elsewhere)); };
  const std::string expected = "remembers the address 0x9008 of an earlier call";
  EXPECT_NE(same(copy_node(CU_MEMORYTYPE_DEVICE, 0x9008, 0x5000, 8)).find(expected), std::string::npos);
  EXPECT_NE(same(fill_node(0x9008, 0, 1)).find(expected), std::string::npos);
  EXPECT_NE(same(table_node(0x100, true, words(0x9008))).find(expected), std::string::npos);
  EXPECT_NE(same(table_node(0x9008, true, words(1))).find(expected), std::string::npos);
  NodeImage rest = kernel_node({});
  rest.rest_words = {0x9008};
  EXPECT_NE(same(rest).find(expected), std::string::npos);
}

TEST(Slots, ARememberedAddressIsNoLiveScalarsFault) {
  Live live;
  live.add(3, 5);
  EXPECT_EQ(live.find(block(3, 0, kA0), block(5, 0, kA0)).fixed, std::vector<uint16_t>{});
}

// ---------------------------------------------------------------- any block

// A work as data: what stands where, for any arguments.
struct Planted {
  struct Word {
    size_t node, offset;
    int argument;
    uint64_t addend;
  };
  std::vector<std::vector<uint8_t>> constants;  // of each node
  std::vector<bool> table;                      // of a copy, else a kernel's parameters
  std::vector<Word> planted;

  Image build(const std::vector<Argument>& arguments) const {
    Image image;
    for (size_t i = 0; i < constants.size(); ++i) {
      std::vector<uint8_t> bytes = constants[i];
      for (const Word& w : planted)
        if (w.node == i) {
          const Argument& a = arguments[static_cast<size_t>(w.argument)];
          const uint64_t value = a.value + w.addend;
          std::memcpy(bytes.data() + w.offset, &value, a.buffer() ? 8 : a.bytes);
        }
      image.nodes.push_back(table[i] ? table_node(0x100, true, bytes) : kernel_node(bytes));
    }
    return image;
  }
};

TEST(Slots, WritingThemGivesTheWorkOfAnyArguments) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    std::vector<Argument> a, b, c;
    const size_t buffers = 1 + below(12), scalars = below(5);
    // Gaps between them, and none of a set in another.
    const auto place = [&](uint64_t base, std::vector<Argument>* to) {
      for (size_t i = 0; i < buffers; ++i) {
        const size_t bytes = i < a.size() ? a[i].bytes : 1 + below(1 << 16);
        base += 256 * (1 + below(1000));
        to->push_back(buffer(base, bytes));
        base += bytes;
      }
      for (size_t i = 0; i < scalars; ++i) {
        const bool wide = i < 2;
        to->push_back(wide ? scalar(Kind::Live, random())
                           : scalar(Kind::Live, static_cast<uint32_t>(random())));
      }
    };
    const uint64_t bases[] = {0x302000000, 0x7f0000000000, 0x7f0010000000, 0x550000000000};
    place(bases[below(2)], &a);
    place(bases[2], &b);
    place(bases[3], &c);
    Planted work;
    std::set<int> seen;
    const size_t nodes = 1 + below(6);
    for (size_t i = 0; i < nodes; ++i) {
      std::vector<uint8_t> bytes(8 + below(300));
      for (uint8_t& byte : bytes) byte = below(3) ? static_cast<uint8_t>(random()) : 0;
      const bool packed = below(2) != 0;
      // One after the other: on whole words, or on any byte.
      for (size_t at = below(16); at + 8 <= bytes.size(); at += 8 + (below(2) ? below(24) : 0)) {
        if (!packed) at = (at + 7) / 8 * 8;
        if (at + 8 > bytes.size()) break;
        const int argument = static_cast<int>(below(a.size()));
        const Argument& is = a[static_cast<size_t>(argument)];
        work.planted.push_back({i, at, argument, is.buffer() ? below(is.bytes + 1) : 0});
        seen.insert(argument);
      }
      work.constants.push_back(std::move(bytes));
      work.table.push_back(below(4) == 0);
    }
    const Image first = work.build(a);
    const Discovery d = discover(first, a, work.build(b), b, {});
    std::vector<uint16_t> unseen;
    for (size_t i = buffers; i < a.size(); ++i)
      if (!seen.count(static_cast<int>(i))) unseen.push_back(static_cast<uint16_t>(i));
    ASSERT_TRUE(d.problems.empty()) << text(d);
    ASSERT_EQ(d.fixed, unseen);
    ASSERT_EQ(d.slots.size(), work.planted.size());
    for (uint16_t i : unseen) c[i] = a[i];
    Image patched = first;
    for (const Slot& s : d.slots) {
      NodeImage& n = patched.nodes.at(s.node);
      const uint64_t value = c[s.argument].value + static_cast<uint64_t>(s.addend);
      std::memcpy((s.in_table ? n.table : n.bytes).data() + s.offset, &value, s.width);
    }
    const Image direct = work.build(c);
    for (size_t i = 0; i < nodes; ++i) {
      ASSERT_EQ(patched.nodes[i].bytes, direct.nodes[i].bytes);
      ASSERT_EQ(patched.nodes[i].table, direct.nodes[i].table);
    }
    ASSERT_TRUE(std::is_sorted(d.slots.begin(), d.slots.end(), [](const Slot& s, const Slot& t) {
      return std::tie(s.argument, s.node) < std::tie(t.argument, t.node);
    }));
  }
}

// ---------------------------------------------------------------- memory of a framework, gaps of structs

constexpr uint64_t kOwnA = 0x7f1200100000, kOwnB = 0x7f3400200000;
bool below(uint64_t word) { return word < 0x7f0000000000; }  // what a kernel cannot reach

Discovery find_own(uint64_t x, uint64_t y, std::vector<Own> own, bool (*no_memory)(uint64_t)) {
  return discover(image_of({kernel_node(words(kA0, x))}), kFirst, image_of({kernel_node(words(kB0, y))}),
                  kSecond, {}, own, no_memory);
}

TEST(Slots, MemoryOfTheWorksOwnStaysWhereItWasCaptured) {
  const Discovery d = find_own(kOwnA + 64, kOwnB + 64, {{kOwnA, kOwnB, 512}}, nullptr);
  EXPECT_TRUE(d.problems.empty());
  ASSERT_EQ(d.slots.size(), 1u);
  EXPECT_EQ(d.slots[0].argument, 0);
}

TEST(Slots, AResultInTheWorksOwnMemoryIsTheResult) {
  std::vector<Argument> a = with(kFirst, buffer(kOwnA, 512)), b = with(kSecond, buffer(kOwnB, 512));
  const std::vector<Own> own = {{kOwnA, kOwnB + 4096, 512}, {kOwnA, kOwnB, 512}};
  const Discovery d = discover(image_of({kernel_node(words(kOwnA, kOwnA))}), a,
                               image_of({kernel_node(words(kOwnB + 4096, kOwnB))}), b, {}, own, nullptr);
  EXPECT_TRUE(d.problems.empty());
  ASSERT_EQ(d.slots.size(), 1u) << "what lay there before is not the result";
  EXPECT_EQ(d.slots[0].offset, 8u);
}

TEST(Slots, AWordInAGapMeansNothingWhereAProofFollows) {
  // A number on both sides, an address on one, addresses of different things.
  for (const auto& [x, y] :
       {std::pair<uint64_t, uint64_t>{0x48636950, 0x4863de30}, {0, 0x7f4444440000}, {kOwnA, kB1}}) {
    const std::vector<Own> own = {{kOwnA, kOwnB, 512}};
    const Discovery d = find_own(x, y, own, below);
    EXPECT_TRUE(d.problems.empty()) << d.problems[0].text;
    EXPECT_EQ(d.meaningless, 1u);
    EXPECT_EQ(find_own(x, y, own, nullptr).problems.size(), 1u);
  }
}

TEST(Slots, AddressesOfUnknownMemoryInBothCapturesMeanSomething) {
  const Discovery d = find_own(0x7f5555550000, 0x7f6666660000, {{kOwnA, kOwnB, 512}}, below);
  EXPECT_EQ(d.problems.size(), 1u);
  EXPECT_EQ(d.meaningless, 0u);
}

}  // namespace
}  // namespace rondo::replay
