// Recordings of captured work: what is launched after patching is what the work itself launches with these
// arguments.
#include <numeric>
#include <random>

#include "replay_captures.h"
#include "rondo/replay/recording.h"

namespace rondo::replay {
namespace {

using Arguments = std::vector<Argument>;
using Work = std::function<void(const Arguments&)>;

// A packed struct with an address at an odd place.
struct [[gnu::packed]] Odd {
  uint8_t mode;
  uint64_t address;
  uint32_t count;
};

class Recordings : public testing::Test {
 protected:
  Machine m_;
  const driver::Driver& d_ = m_.d;

  // Of buffers (sizes in bytes), as often as one is asked for, anew.
  Arguments buffers(std::vector<size_t> sizes) {
    Arguments out;
    for (size_t bytes : sizes) out.push_back(m_.argument(bytes));
    return out;
  }
  Discovery search(const Work& work, const Arguments& a, const Arguments& b, Pageable pageable) {
    first_ = m_.capture([&] { work(a); });
    image_ = read_image(first_, spans(a), pageable);
    second_ = m_.capture([&] { work(b); });
    return discover(image_, a, read_image(second_, spans(b), pageable), b, {});
  }
  std::unique_ptr<Recording> record(const Work& work, const Arguments& a, const Arguments& b,
                                    Pageable pageable = Pageable::MayBeGone) {
    Discovery d = search(work, a, b, pageable);
    for (const Problem& p : d.problems) ADD_FAILURE() << p.text;
    EXPECT_TRUE(d.fixed.empty());
    return std::make_unique<Recording>(std::move(first_), std::move(image_), std::move(d.slots), a,
                                       m_.stream);
  }
  // What the kernels were given since the last call.
  std::vector<std::pair<std::string, std::vector<unsigned char>>> launched() {
    std::vector<std::pair<std::string, std::vector<unsigned char>>> out;
    for (const fake::Launched& l : m_.fake.launches) out.emplace_back(l.kernel, l.params);
    m_.fake.launches.clear();
    return out;
  }
  void expect_same(Recording* r, const Work& work, const Arguments& c) {
    m_.fake.launches.clear();
    work(c);
    const auto plain = launched();
    r->patch(c, m_.stream);
    r->launch(m_.stream);
    EXPECT_EQ(launched(), plain);
  }
  template <class T>
  static T* host(const Argument& a) {
    return reinterpret_cast<T*>(a.value);
  }
  graph::Graph first_, second_;
  Image image_;
};

// ---------------------------------------------------------------- what is patched

TEST_F(Recordings, ParametersOfEveryFormArePatched) {
  const CUfunction plain = m_.kernel("plain", {8, 4, 8}), odd = m_.kernel("odd", {13}),
                   many = m_.kernel("many", {8});
  const Work work = [&](const Arguments& a) {
    m_.launch(plain, a[0].value, 7, a[1].value + 16);
    m_.launch(odd, Odd{3, a[1].value + 64, 9});  // its end
    std::vector<uint8_t> block(1720, 0x11);
    put(&block, 1001, a[0].value + 1);
    put(&block, 128, a[1].value);
    m_.launch_packed(many, block);
    m_.launch(plain, uint64_t{0}, 7, uint64_t{0});
  };
  const auto r = record(work, buffers({64, 64}), buffers({64, 64}));
  EXPECT_EQ(r->nodes(), 4u);
  EXPECT_EQ(r->kernels(), 4u);
  EXPECT_EQ(r->slot_count(), 5u);
  EXPECT_EQ(r->nodes_of(0), 2u);
  EXPECT_EQ(r->nodes_of(1), 3u);
  EXPECT_EQ(r->nodes_of(2), 0u);
  EXPECT_FALSE(r->has_tables());
  for (int i = 0; i < 3; ++i) expect_same(r.get(), work, buffers({64, 64}));
}

TEST_F(Recordings, ANodeOfAKernelHandleIsPatched) {
  const CUfunction f = m_.kernel("f", {8});
  const Arguments a = buffers({64}), b = buffers({64}), c = buffers({64});
  const auto build = [&](const Arguments& of) {
    graph::Graph g;
    g.add(graph::kernel(reinterpret_cast<CUkernel>(f), 1, 1, 0, of[0].value));
    return g;
  };
  graph::Graph x = build(a), y = build(b);
  Image image = read_image(x, spans(a));
  Discovery d = discover(image, a, read_image(y, spans(b)), b, {});
  ASSERT_TRUE(d.problems.empty());
  Recording r(std::move(x), std::move(image), d.slots, a, m_.stream);
  r.patch(c, m_.stream);
  r.launch(m_.stream);
  EXPECT_EQ(at<uint64_t>(m_.fake.launches.at(0).params, 0), c[0].value);
}

TEST_F(Recordings, OnlyNodesOfChangedArgumentsAreSet) {
  const CUfunction f = m_.kernel("f", {8, 8});
  const Work work = [&](const Arguments& a) {
    m_.launch(f, a[0].value, a[1].value);
    m_.launch(f, a[0].value, a[0].value);
    m_.launch(f, a[1].value, a[2].value);
    m_.launch(f, uint64_t{5}, uint64_t{6});
  };
  Arguments c = buffers({64, 64, 64});
  const auto r = record(work, c, buffers({64, 64, 64}));
  const long before = m_.fake.calls();
  EXPECT_EQ(r->patch(c, m_.stream), 0u);
  EXPECT_EQ(m_.fake.calls(), before);  // nothing changed: nothing is asked
  c[2] = m_.argument(64);
  EXPECT_EQ(r->patch(c, m_.stream), 1u);
  c[0] = m_.argument(64), c[1] = m_.argument(64);
  EXPECT_EQ(r->patch(c, m_.stream), 3u);
  EXPECT_EQ(m_.fake.count("cuGraphExecKernelNodeSetParams"), 4u);
  EXPECT_EQ(r->patch(c, m_.stream), 0u);
  r->launch(m_.stream);
  const auto graph = launched();
  work(c);
  EXPECT_EQ(launched(), graph);
}

TEST_F(Recordings, LiveScalarsArePatched) {
  const CUfunction f = m_.kernel("f", {8, 4, 8});
  const Work work = [&](const Arguments& a) {
    m_.launch(f, a[0].value, static_cast<uint32_t>(a[1].value), a[2].value);
    RONDO_CU(d_, cuMemcpyDtoDAsync(a[0].value + 8, a[0].value, 8, m_.stream));
  };
  const auto arguments = [&](float x, double y) {
    return Arguments{m_.argument(64), scalar(Kind::Live, x), scalar(Kind::Live, y)};
  };
  const auto r = record(work, arguments(1.5f, 2.5), arguments(-4.25f, 1e10));
  EXPECT_EQ(r->slot_count(), 5u);
  expect_same(r.get(), work, arguments(0.1f, -0.2));
  Arguments c = arguments(7, 8);
  expect_same(r.get(), work, c);
  c[1] = scalar(Kind::Live, 9.f);
  EXPECT_EQ(r->patch(c, m_.stream), 1u);
}

TEST_F(Recordings, CopiesAndFillsOfEveryDirectionArePatched) {
  const Work work = [&](const Arguments& a) {
    RONDO_CU(d_, cuMemcpyHtoDAsync(a[1].value, host<void>(a[0]), 32, m_.stream));
    RONDO_CU(d_, cuMemcpyDtoDAsync(a[2].value + 8, a[1].value, 24, m_.stream));
    RONDO_CU(d_, cuMemsetD8Async(a[2].value, 7, 8, m_.stream));
    RONDO_CU(d_, cuMemcpyDtoHAsync(host<char>(a[3]) + 4, a[2].value, 16, m_.stream));
  };
  int next = 0;
  const auto arguments = [&] {
    const auto locked = [&] { return buffer(reinterpret_cast<uint64_t>(m_.page_locked<char>(64)), 64); };
    Arguments a = {locked(), m_.argument(64), m_.argument(64), locked()};
    std::memset(host<char>(a[0]), ++next, 64);
    return a;
  };
  const Arguments a = arguments();
  const auto r = record(work, a, arguments());
  EXPECT_FALSE(r->has_tables());
  for (int i = 0; i < 3; ++i) {
    const Arguments c = arguments();
    EXPECT_EQ(r->patch(c, m_.stream), 4u);
    r->launch(m_.stream);
    const std::string filled(8, '\7'), copied(8, static_cast<char>(next));
    EXPECT_EQ(std::string(host<char>(c[3]), 20), std::string(4, '\0') + filled + copied);
    EXPECT_EQ(*host<char>(a[3]), 0);
  }
}

TEST_F(Recordings, MemoryOfTheGraphStaysWhereItIs) {
  const CUfunction f = m_.kernel("add", {8, 8});
  m_.fake.bodies["add"] = [](const fake::Launched& l) {
    *reinterpret_cast<uint64_t*>(at<uint64_t>(l.params, 0)) +=
        *reinterpret_cast<uint64_t*>(at<uint64_t>(l.params, 8));
  };
  const Work work = [&](const Arguments& a) {
    CUdeviceptr between = 0;
    RONDO_CU(d_, cuMemAllocAsync(&between, 64, m_.stream));
    RONDO_CU(d_, cuMemsetD8Async(between + 8, 0, 8, m_.stream));
    m_.launch(f, between + 8, a[0].value);
    m_.launch(f, a[1].value, between + 8);
    RONDO_CU(d_, cuMemFreeAsync(between, m_.stream));
  };
  const auto r = record(work, buffers({8, 8}), buffers({8, 8}));
  for (uint64_t i = 1; i < 4; ++i) {
    const Arguments c = buffers({8, 8});
    *host<uint64_t>(c[0]) = i;
    r->patch(c, m_.stream);
    r->launch(m_.stream);
    r->launch(m_.stream);
    EXPECT_EQ(*host<uint64_t>(c[1]), 2 * i);
  }
}

// ---------------------------------------------------------------- tables

// sum(out, table, n): adds what the addresses in a table on the device point to.
CUfunction sum_kernel(Machine* m) {
  m->fake.bodies["sum"] = [](const fake::Launched& l) {
    const auto* table = reinterpret_cast<const uint64_t*>(at<uint64_t>(l.params, 8));
    uint64_t sum = 0;
    for (uint32_t i = 0; i < at<uint32_t>(l.params, 16); ++i) sum += *reinterpret_cast<uint64_t*>(table[i]);
    *reinterpret_cast<uint64_t*>(at<uint64_t>(l.params, 0)) = sum;
  };
  return m->kernel("sum", {8, 8, 4});
}

class TablesOfAddresses : public Recordings, public testing::WithParamInterface<bool> {};

TEST_P(TablesOfAddresses, FollowTheArguments) {
  const bool page_locked = GetParam();
  const CUfunction sum = sum_kernel(&m_);
  const CUdeviceptr on_device = m_.memory(64);
  static uint64_t kept[2];
  uint64_t* table = page_locked ? m_.page_locked<uint64_t>(2) : kept;
  const Work work = [&](const Arguments& a) {
    table[0] = a[0].value + 8, table[1] = a[1].value;
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 16, m_.stream));
    m_.launch(sum, a[2].value, on_device, 2u);
  };
  const size_t allocated = m_.fake.count("cuMemHostAlloc");
  const auto r = record(work, buffers({64, 64, 8}), buffers({64, 64, 8}));
  EXPECT_TRUE(r->has_tables());
  EXPECT_EQ(r->nodes_of(0), 1u);
  EXPECT_EQ(r->slot_count(), 3u);
  EXPECT_EQ(m_.fake.count("cuMemHostAlloc"), allocated + 1);
  std::memset(table, 0xff, 16);  // nobody reads it any more
  for (uint64_t i = 1; i < 12; ++i) {
    const Arguments c = buffers({64, 64, 8});
    host<uint64_t>(c[0])[1] = i, host<uint64_t>(c[1])[0] = 100;
    EXPECT_EQ(r->patch(c, m_.stream), i == 1 ? 1u : 2u) << i;  // the first place has not been read yet
    r->launch(m_.stream);
    EXPECT_EQ(*host<uint64_t>(c[2]), 100 + i);
    // The first four find a place that no launch reads.
    EXPECT_EQ(m_.fake.count("cuEventSynchronize"), i <= 4 ? 0u : i - 4) << i;
  }
  EXPECT_EQ(m_.fake.count("cuMemHostAlloc"), allocated + 1);
}

INSTANTIATE_TEST_SUITE_P(Both, TablesOfAddresses, testing::Bool(),
                         [](const auto& info) { return info.param ? "PageLocked" : "Pageable"; });

TEST_F(Recordings, ATableThatIsPatchedBeforeItIsReadIsWrittenInPlace) {
  const CUfunction sum = sum_kernel(&m_);
  const CUdeviceptr on_device = m_.memory(64);
  auto* table = m_.page_locked<uint64_t>(1);
  const Work work = [&](const Arguments& a) {
    table[0] = a[0].value;
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 8, m_.stream));
    m_.launch(sum, a[1].value, on_device, 1u);
  };
  Arguments c = buffers({8, 8});
  const auto r = record(work, c, buffers({8, 8}));
  for (int i = 0; i < 10; ++i) {
    c[0] = m_.argument(8);
    EXPECT_EQ(r->patch(c, m_.stream), 0u);  // no node: what lies there changes
  }
  *host<uint64_t>(c[0]) = 5;
  r->launch(m_.stream);
  EXPECT_EQ(*host<uint64_t>(c[1]), 5u);
  EXPECT_EQ(m_.fake.count("cuEventSynchronize"), 0u);
  // Also where a launch had to be waited for: once.
  for (int i = 0; i < 4; ++i) {
    c[0] = m_.argument(8);
    r->patch(c, m_.stream);
    r->launch(m_.stream);
  }
  EXPECT_EQ(m_.fake.count("cuEventSynchronize"), 1u);
  for (int i = 0; i < 3; ++i) {
    c[0] = m_.argument(8);
    r->patch(c, m_.stream);
  }
  EXPECT_EQ(m_.fake.count("cuEventSynchronize"), 2u);
}

TEST_F(Recordings, ConstantPageableMemoryIsKeptAndPageLockedMemoryIsReadWhereItIs) {
  const CUdeviceptr scratch = m_.memory(64);
  std::vector<uint64_t> heap = {11};
  auto* locked = m_.page_locked<uint64_t>(1);
  locked[0] = 22;
  const Work work = [&](const Arguments& a) {
    RONDO_CU(d_, cuMemcpyHtoDAsync(scratch, heap.data(), 8, m_.stream));
    RONDO_CU(d_, cuMemcpyHtoDAsync(scratch + 8, locked, 8, m_.stream));
    RONDO_CU(d_, cuMemcpyDtoDAsync(a[0].value, scratch, 16, m_.stream));
  };
  const auto r = record(work, buffers({16}), buffers({16}), Pageable::Kept);
  EXPECT_TRUE(r->has_tables());
  heap = {12};
  locked[0] = 23;
  const Arguments c = buffers({16});
  for (int i = 0; i < 6; ++i) {
    r->patch(c, m_.stream);
    r->launch(m_.stream);
    EXPECT_EQ(host<uint64_t>(c[0])[0], 11u);
    EXPECT_EQ(host<uint64_t>(c[0])[1], 23u);
  }
  EXPECT_EQ(m_.fake.count("cuEventSynchronize"), 0u);
}

TEST_F(Recordings, TablesNeitherBreakACaptureNorAreFreedWhileTheyAreRead) {
  const CUdeviceptr on_device = m_.memory(64);
  auto* table = m_.page_locked<uint64_t>(1);
  const Work work = [&](const Arguments& a) {
    table[0] = a[0].value;
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 8, m_.stream));
  };
  const Arguments a = buffers({8});
  Discovery d = search(work, a, buffers({8}), Pageable::MayBeGone);
  const Arguments c = buffers({8}), e = buffers({8});
  const graph::Stream other = graph::Stream::create();
  const graph::Graph captured = graph::capture(other, [&](graph::Capture&) {
    Recording r(std::move(first_), std::move(image_), d.slots, a, m_.stream);
    for (int i = 0; i < 6; ++i) {
      r.patch(i % 2 ? c : e, m_.stream);
      r.launch(m_.stream);
    }
    m_.fake.log.clear();
  });
  EXPECT_EQ(captured.node_count(), 0u);
  EXPECT_EQ(m_.fake.count("cuEventSynchronize"), 4u);  // all that were launched
  EXPECT_EQ(m_.fake.count("cuMemFreeHost"), 1u);
}

TEST_F(Recordings, ALaunchThatCannotBeMarkedIsWaitedFor) {
  const CUdeviceptr on_device = m_.memory(64);
  static uint64_t table[1] = {1};
  const Work work = [&](const Arguments& a) {
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 8, m_.stream));
    RONDO_CU(d_, cuMemsetD8Async(a[0].value, 1, 8, m_.stream));
  };
  const auto r = record(work, buffers({8}), buffers({8}));
  m_.fake.fail_function("cuEventRecord", CUDA_ERROR_UNKNOWN);
  const size_t before = m_.fake.count("cuStreamSynchronize");
  r->launch(m_.stream);
  EXPECT_EQ(m_.fake.count("cuStreamSynchronize"), before + 1);
}

// ---------------------------------------------------------------- failures

TEST_F(Recordings, AFailureNamesTheNodeAndTheNextPatchSetsThemAll) {
  const CUfunction f = m_.kernel("scale", {8, 8});
  const Work work = [&](const Arguments& a) {
    m_.launch(f, a[0].value, a[1].value);
    m_.launch(f, a[1].value, a[1].value);
    RONDO_CU(d_, cuMemsetD8Async(a[0].value, 1, 8, m_.stream));
  };
  Arguments c = buffers({64, 64});
  const auto r = record(work, c, buffers({64, 64}));
  c[0] = m_.argument(64);
  m_.fake.fail_function("cuGraphExecKernelNodeSetParams", CUDA_ERROR_INVALID_VALUE);
  const std::string text = message_of([&] { r->patch(c, m_.stream); }, ErrorKind::Device);
  EXPECT_NE(text.find("cuGraphExecKernelNodeSetParams failed: CUDA_ERROR_INVALID_VALUE"), std::string::npos)
      << text;
  EXPECT_NE(text.find("kernel node scale"), std::string::npos) << text;
  m_.fake.no_faults();
  EXPECT_EQ(r->patch(c, m_.stream), 3u);  // all nodes, although no argument changed
  EXPECT_EQ(r->patch(c, m_.stream), 0u);
  r->launch(m_.stream);
  const auto graph = launched();
  work(c);
  EXPECT_EQ(launched(), graph);
  m_.fake.fail_function("cuGraphExecMemsetNodeSetParams", CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(message_of(
                [&] {
                  r->patch(buffers({64, 64}), m_.stream);
                },
                ErrorKind::Device)
                .find("cuGraphExecMemsetNodeSetParams failed"),
            std::string::npos);
}

TEST_F(Recordings, WhicheverCallFailsTheNextPatchIsRight) {
  const CUfunction f = m_.kernel("f", {8, 8}), sum = sum_kernel(&m_);
  const CUdeviceptr on_device = m_.memory(64);
  auto* table = m_.page_locked<uint64_t>(2);
  const Work work = [&](const Arguments& a) {
    table[0] = a[0].value, table[1] = a[1].value;
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 16, m_.stream));
    m_.launch(sum, a[2].value, on_device, 2u);
    RONDO_CU(d_, cuMemcpyDtoDAsync(a[2].value + 8, a[2].value, 8, m_.stream));
    RONDO_CU(d_, cuMemsetD8Async(a[2].value + 16, 1, 8, m_.stream));
    m_.launch(f, a[0].value, a[1].value);
  };
  const auto r = record(work, buffers({8, 8, 64}), buffers({8, 8, 64}));
  const auto try_one = [&](long fault) {
    const Arguments c = buffers({8, 8, 64});
    *host<uint64_t>(c[0]) = static_cast<uint64_t>(fault), *host<uint64_t>(c[1]) = 1000;
    m_.fake.fail(fault);
    bool failed = false;
    try {
      r->patch(c, m_.stream);
    } catch (const Error& e) {
      failed = true;
      EXPECT_EQ(e.kind(), ErrorKind::Device);
    }
    m_.fake.no_faults();
    // Other arguments in between do not hide what was not set.
    if (fault % 2) r->patch(buffers({8, 8, 64}), m_.stream);
    r->patch(c, m_.stream);
    m_.fake.launches.clear();
    r->launch(m_.stream);
    EXPECT_EQ(host<uint64_t>(c[2])[1], 1000 + static_cast<uint64_t>(fault));
    EXPECT_EQ(host<uint64_t>(c[2])[2], 0x0101010101010101u);
    EXPECT_EQ(at<uint64_t>(m_.fake.launches.back().params, 0), c[0].value);
    return failed;
  };
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(try_one(1000));  // until a patch waits for a launch, too
  int faults = 0;
  for (long fault = 1; fault < 20; ++fault) faults += try_one(fault);
  EXPECT_GE(faults, 6);
}

TEST_F(Recordings, MakingOneFailsWithoutLeavingAnything) {
  static uint64_t table[1] = {1};
  const CUfunction f = m_.kernel("f", {8});
  const CUdeviceptr on_device = m_.memory(64);
  const Work work = [&](const Arguments& a) {
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 8, m_.stream));
    m_.launch(f, a[0].value);
  };
  const Arguments a = buffers({8}), b = buffers({8});
  int failed = 0;
  bool reached = true;
  for (long fault = 1; reached; ++fault) {
    Discovery d = search(work, a, b, Pageable::MayBeGone);
    ASSERT_TRUE(d.problems.empty());
    const long before = m_.fake.calls();
    m_.fake.fail(fault);
    try {
      const Recording r(std::move(first_), std::move(image_), d.slots, a, m_.stream);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Device) << e.what();
      ++failed;
    }
    m_.fake.no_faults();
    reached = m_.fake.calls() - before >= fault;
  }
  EXPECT_GE(failed, 5);
  { const graph::Graph first = std::move(first_), second = std::move(second_); }
  EXPECT_EQ(m_.close(), "");
}

TEST_F(Recordings, NothingIsLeft) {
  static uint64_t table[1] = {1};
  const CUdeviceptr on_device = m_.memory(64);
  const Work work = [&](const Arguments& a) {
    RONDO_CU(d_, cuMemcpyHtoDAsync(on_device, table, 8, m_.stream));
    RONDO_CU(d_, cuMemsetD8Async(a[0].value, 1, 8, m_.stream));
  };
  auto r = record(work, buffers({8}), buffers({8}));
  r->launch(m_.stream);
  r.reset();
  image_ = {};
  { const graph::Graph first = std::move(first_), second = std::move(second_); }
  EXPECT_EQ(m_.close(), "");
}

TEST_F(Recordings, OtherNumbersOfArgumentsAreRefused) {
  const CUfunction f = m_.kernel("f", {8});
  const auto r = record([&](const Arguments& a) { m_.launch(f, a[0].value); }, buffers({8}), buffers({8}));
  EXPECT_EQ(message_of([&] { r->patch({}, m_.stream); }, ErrorKind::Internal),
            "a recording of 1 arguments was given 0");
}

TEST_F(Recordings, StructureDoesNotDependOnAddresses) {
  const CUfunction f = m_.kernel("f", {8}), g = m_.kernel("g", {8});
  const auto structure = [&](CUfunction k) {
    return record([&](const Arguments& a) { m_.launch(k, a[0].value); }, buffers({8}), buffers({8}))
        ->structure();
  };
  EXPECT_EQ(structure(f), structure(f));
  EXPECT_NE(structure(f), structure(g));
}

// ---------------------------------------------------------------- what is found to be impossible, in
// captures

TEST_F(Recordings, WorkThatRemembersOrChoosesByAddressIsSeen) {
  const CUfunction f = m_.kernel("f", {8}), g = m_.kernel("g", {8});
  uint64_t remembered = 0;
  const Arguments a = buffers({64}), b = buffers({64});
  const auto problem = [&](const Work& work) {
    const Discovery d = search(work, a, b, Pageable::MayBeGone);
    return d.problems.empty() ? std::string() : d.problems[0].text;
  };
  EXPECT_NE(problem([&](const Arguments& of) {
              if (!remembered) remembered = of[0].value;
              m_.launch(f, remembered);
            }).find("kernel node f (0): remembers the address"),
            std::string::npos);
  EXPECT_NE(problem([&](const Arguments& of) {
              m_.launch(of[0].value == a[0].value ? f : g, of[0].value);
            }).find("kernel node f (0): another kernel in another capture"),
            std::string::npos);
  EXPECT_NE(problem([&](const Arguments& of) {
              m_.launch(f, of[0].value | uint64_t{1} << 63);
            }).find("argument 0 with"),
            std::string::npos);
  EXPECT_NE(problem([&](const Arguments& of) {
              m_.launch(f, of[0].value);
              if (of[0].value == a[0].value) m_.launch(f, of[0].value);
            }).find("have 2 and 1 nodes"),
            std::string::npos);
}

// ---------------------------------------------------------------- any work

TEST_F(Recordings, AnyWorkIsLaunchedAsItLaunchesItself) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const size_t count = 1 + below(8);
    std::vector<size_t> sizes(count);
    for (size_t& bytes : sizes) bytes = 64 + 8 * below(100);
    struct Step {
      int kind;
      CUfunction f;
      std::vector<uint8_t> block;
      std::vector<std::tuple<size_t, size_t, uint64_t>> words;  // offset, argument, addend
    };
    std::vector<Step> steps;
    for (size_t i = 0; i < 1 + below(6); ++i) {
      Step s{static_cast<int>(below(4)), nullptr, std::vector<uint8_t>(16 + below(100)), {}};
      for (uint8_t& byte : s.block) byte = static_cast<uint8_t>(random());
      for (size_t at = below(9); at + 8 <= s.block.size(); at += 8 + below(20)) {
        const size_t argument = below(count);
        s.words.emplace_back(at, argument, below(sizes[argument] + 1));
      }
      s.f = m_.kernel("k" + std::to_string(seed) + "_" + std::to_string(i), {s.block.size()});
      steps.push_back(std::move(s));
    }
    const Work work = [&](const Arguments& a) {
      for (const Step& s : steps) {
        std::vector<uint8_t> block = s.block;
        for (const auto& [offset, argument, addend] : s.words)
          put(&block, offset, a[argument].value + addend);
        if (s.kind == 0) {
          m_.launch_packed(s.f, block);
        } else if (s.kind == 1) {
          RONDO_CU(d_, cuMemcpyDtoDAsync(a[0].value, a[count - 1].value + 32, 8, m_.stream));
        } else {
          void* pointers[] = {block.data()};
          RONDO_CU(d_, cuLaunchKernel(s.f, 2, 1, 1, 32, 1, 1, 0, m_.stream, pointers, nullptr));
        }
      }
    };
    const auto r = record(work, buffers(sizes), buffers(sizes));
    Arguments c = buffers(sizes);
    for (int i = 0; i < 5; ++i) {
      c[below(count)] = Argument();
      for (size_t k = 0; k < count; ++k)
        if (!c[k].value) c[k] = m_.argument(sizes[k]);
      for (Argument& argument : c) argument.kind = Kind::InOut;
      expect_same(r.get(), work, c);
    }
  }
}

}  // namespace
}  // namespace rondo::replay
