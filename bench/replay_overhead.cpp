// What a call of a replay::Region costs over the driver's own launch of the same graph.
//   bench_replay_overhead [--json FILE] [--pairs N] [--check]
// Exit code 77: there is no GPU; 1: a wrong result, or with --check a limit that is missed.
//
// raw: cuGraphLaunch of an exec of the same work, through a plain pointer. raw, set: the same after
// cuGraphExecKernelNodeSetParams on the nodes whose argument changed, which is what a careful program does by
// hand. region: a call of a Region (policy always, proof exact, staging never) with its arguments. A round is
// one stretch of each, in turns; the columns are medians of the rounds, in us a call, "over raw" is the
// median of the rounds' differences. Only the CPU's time is measured: a stretch fits into the driver's queue,
// and is waited for after it.
//
// "n changed" changes n arguments at every call, each held by one node; "one, in all" changes a single
// argument that every node holds. Limits: 0.2 us over raw, and 0.35 us more for each node that is touched.
// The kernels count, and the sum must be right at the end of every row. Allocations are counted on the
// calling thread: by operator new, and by malloc and its like, whoever calls; what the driver allocates shows
// in the raw columns too.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "counting.h"
#include "program.h"
#include "rondo/driver/driver.h"
#include "rondo/graph.h"
#include "rondo/replay.h"

using namespace rondo;
using bench::must;

// ---------------------------------------------------------------- allocations
namespace {
struct Allocations {
  uint64_t news = 0, mallocs = 0;
};
thread_local Allocations allocations;
}  // namespace

// glibc's own functions under the names that cannot be replaced. Every malloc of the process comes here.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  ++allocations.mallocs;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations.mallocs;
  return __libc_calloc(count, bytes);
}
void* realloc(void* p, size_t bytes) {
  ++allocations.mallocs;
  return __libc_realloc(p, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations.mallocs;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** p, size_t alignment, size_t bytes) {
  ++allocations.mallocs;
  *p = __libc_memalign(alignment, bytes);
  return *p ? 0 : 12;  // ENOMEM
}
}

namespace {
void* counted_new(size_t bytes, size_t alignment) {
  ++allocations.news;
  void* p = alignment ? __libc_memalign(alignment, bytes) : __libc_malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace
void* operator new(size_t bytes) { return counted_new(bytes, 0); }
void* operator new[](size_t bytes) { return counted_new(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a) { return counted_new(bytes, static_cast<size_t>(a)); }
void* operator new[](size_t bytes, std::align_val_t a) { return counted_new(bytes, static_cast<size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

constexpr double kLimitOver = 0.2, kLimitNode = 0.35;  // us
constexpr size_t kStride = 256;                        // between counters: all are aligned alike
constexpr size_t kMostArguments = 101;

struct Machine : bench::Gpu {
  CUdeviceptr counters = 0;  // two of each argument's
  decltype(&::cuGraphLaunch) raw_launch = d.cuGraphLaunch.raw();
  decltype(&::cuGraphExecKernelNodeSetParams) raw_set = d.cuGraphExecKernelNodeSetParams.raw();
  decltype(&::cuLaunchKernel) raw_kernel = d.cuLaunchKernel.raw();

  Machine() {
    RONDO_CU(d, cuMemAlloc(&counters, bytes()));
    (void)take();
  }
  static size_t bytes() { return 2 * kMostArguments * kStride; }
  CUdeviceptr counter(size_t argument, size_t set) const { return counters + (2 * argument + set) * kStride; }
  // What all kernels have added since the last time.
  uint64_t take() const {
    std::vector<uint64_t> all(bytes() / sizeof(uint64_t));
    RONDO_CU(d, cuMemcpyDtoHAsync(all.data(), counters, bytes(), *stream));
    RONDO_CU(d, cuMemsetD8Async(counters, 0, bytes(), *stream));
    stream->synchronize();
    uint64_t sum = 0;
    for (const uint64_t v : all) sum += v;
    return sum;
  }
  void launch_kernel(CUstream s, CUdeviceptr p) const {
    uint64_t one = 1;
    void* arguments[] = {&p, &one};
    must(raw_kernel(count, 1, 1, 1, 32, 1, 1, 0, s, arguments, nullptr));
  }
  void set(CUgraphExec e, CUgraphNode node, CUdeviceptr p) const {
    uint64_t one = 1;
    void* arguments[] = {&p, &one};
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = count;
    k.gridDimX = k.gridDimY = k.gridDimZ = 1;
    k.blockDimX = 32, k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = arguments;
    must(raw_set(e, node, &k));
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Shape {
  const char* what;
  size_t nodes, arguments, changed, touched;
  bool limited = true;
};
struct Row {
  Shape shape;
  double raw_us, set_us, region_us, over_us, limit_us;
  Allocations raw, set, region;  // in all rounds
  int64_t more_news() const { return static_cast<int64_t>(region.news - set.news); }
  int64_t more_mallocs() const { return static_cast<int64_t>(region.mallocs - set.mallocs); }
  bool missed() const {
    return shape.limited && (over_us > limit_us || more_news() > 0 || more_mallocs() > 0);
  }
};

class Bench {
 public:
  Bench(const Machine& m, int pairs) : m_(m), pairs_(pairs) {}

  // Each node counts in its argument's counter; the nodes beyond the arguments share the last one.
  void run(const Shape& shape) {
    const auto work = [&](CUstream s, const replay::Argument* a) {
      for (size_t i = 0; i < shape.nodes; ++i) m_.launch_kernel(s, a[std::min(i, shape.arguments - 1)].value);
    };
    measure(shape, [&](auto&& with) {
      replay::RegionBase region(fmt::format("{} nodes, {}", shape.nodes, shape.what), options());
      const replay::detail::WorkRef ref{const_cast<void*>(static_cast<const void*>(&work)),
                                        [](void* object, CUstream s, const replay::Argument* a) {
                                          (*static_cast<decltype(&work)>(object))(s, a);
                                        }};
      std::vector<replay::Argument> sets[2];
      for (size_t set = 0; set < 2; ++set)
        for (size_t i = 0; i < shape.arguments; ++i)
          sets[set].push_back({m_.counter(i, i < shape.changed ? set : 0), sizeof(uint64_t),
                               replay::Kind::InOut, replay::Element::Bytes, 0});
      with(region, [&](size_t turn) { region.call(*m_.stream, sets[turn & 1], ref); });
    });
  }
  // The same through the typed face: a buffer and a scalar.
  void run_typed(size_t nodes) {
    const Shape shape{"unchanged, typed", nodes, 1, 0, 0};
    measure(shape, [&](auto&& with) {
      replay::Region region(
          fmt::format("{} nodes, typed", nodes),
          [&](CUstream s, CUdeviceptr p, size_t n) {
            for (size_t i = 0; i < n; ++i) m_.launch_kernel(s, p);
          },
          options());
      with(region,
           [&](size_t) { region(*m_.stream, replay::inout(m_.counter(0, 0), sizeof(uint64_t)), nodes); });
    });
  }
  const std::vector<Row>& rows() const { return rows_; }
  bool right() const { return right_; }

 private:
  static replay::Options options() {
    replay::Options o;
    o.policy = replay::Policy::always;
    o.staging = replay::Staging::never;
    o.remember = false;
    return o;
  }

  // with_region(f): calls f(region, call), call(turn) being one call of it with the arguments of that turn.
  template <class WithRegion>
  void measure(const Shape& shape, const WithRegion& with_region) {
    const CUstream s = *m_.stream;
    const auto address = [&](size_t node, size_t turn) {
      const size_t argument = std::min(node, shape.arguments - 1);
      return m_.counter(argument, argument < shape.changed ? turn & 1 : 0);
    };
    const auto capture = [&] {
      return graph::capture(*m_.stream, [&](CUstream into) {
        for (size_t i = 0; i < shape.nodes; ++i) m_.launch_kernel(into, address(i, 0));
      });
    };
    const graph::Graph raw_graph = capture(), set_graph = capture();
    const graph::GraphExec raw_exec = raw_graph.instantiate(), set_exec = set_graph.instantiate();
    const CUgraphExec raw = raw_exec.get(), set = set_exec.get();
    std::vector<CUgraphNode> held;
    for (const graph::NodeView node : set_graph.nodes()) held.push_back(node.get());
    held.resize(shape.touched);

    with_region([&](const replay::RegionBase& region, const auto& call) {
      uint64_t calls = 0;
      size_t turn = 0;
      // Until it is replayed.
      for (int i = 0; i < 20 && region.report().replays < 2; ++i) call(turn++), ++calls;
      m_.stream->synchronize();
      const replay::RegionReport before = region.report();
      if (before.replays < 2)
        throw Error(ErrorKind::Internal, "a region is not replayed:\n" + replay::text(std::vector{before}));

      const int burst = shape.nodes >= 1000 ? 4 : 16;
      Row row{shape, 0, 0, 0, 0, kLimitOver + kLimitNode * static_cast<double>(shape.touched), {}, {}, {}};
      // One stretch: us a call.
      const auto stretch = [&](Allocations* allocated, const auto& once) {
        const Allocations at_first = allocations;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < burst; ++i) once();
        const double us =
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
        allocated->news += allocations.news - at_first.news;
        allocated->mallocs += allocations.mallocs - at_first.mallocs;
        m_.stream->synchronize();
        calls += static_cast<uint64_t>(burst);
        return us / burst;
      };
      std::vector<double> raws, sets, regions, over;
      const int count = shape.nodes >= 1000 ? std::max(pairs_ / 4, 1) : pairs_;
      size_t set_turn = 0;
      for (int i = -3; i < count; ++i) {  // the first few warm up
        if (i == 0) row.raw = row.set = row.region = {};
        double t[3] = {};
        for (int j = 0; j < 3; ++j) switch ((i + 3 + j) % 3) {
            case 0:
              t[0] = stretch(&row.raw, [&] { must(m_.raw_launch(raw, s)); });
              break;
            case 1:
              t[1] = stretch(&row.set, [&] {
                ++set_turn;
                for (size_t n = 0; n < held.size(); ++n) m_.set(set, held[n], address(n, set_turn));
                must(m_.raw_launch(set, s));
              });
              break;
            default:
              t[2] = stretch(&row.region, [&] { call(turn++); });
          }
        if (i < 0) continue;
        raws.push_back(t[0]), sets.push_back(t[1]), regions.push_back(t[2]), over.push_back(t[2] - t[0]);
      }
      row.raw_us = median(raws), row.set_us = median(sets), row.region_us = median(regions);
      row.over_us = median(over);
      rows_.push_back(row);

      const replay::RegionReport after = region.report();
      fmt::print("{:>5}  {:<22} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>5} {:>4}{}\n", shape.nodes,
                 shape.what, row.raw_us, row.set_us, row.region_us, row.over_us, row.limit_us,
                 row.more_news(), row.more_mallocs(), row.missed() ? "  over" : "");
      std::fflush(stdout);
      const uint64_t is = m_.take(), expected = calls * shape.nodes;
      if (is != expected) {
        fmt::print(stderr, "wrong result of {}, {} nodes: the kernels added {}, expected {}\n", shape.what,
                   shape.nodes, is, expected);
        right_ = false;
      }
      if (const uint64_t plain = after.plain_calls - before.plain_calls; plain != 0) {
        fmt::print(stderr, "{} of the timed calls of {}, {} nodes, were plain\n", plain, shape.what,
                   shape.nodes);
        right_ = false;
      }
      if (const uint64_t patched = after.patched_nodes - before.patched_nodes;
          (patched > 0) != (shape.touched > 0)) {
        fmt::print(stderr, "{}, {} nodes: {} nodes were patched\n", shape.what, shape.nodes, patched);
        right_ = false;
      }
    });
  }

  const Machine& m_;
  int pairs_;
  std::vector<Row> rows_;
  bool right_ = true;
};

int run(const std::string& json, int pairs, bool check) {
  const Machine machine;
  fmt::print("{}, driver {}; medians of {} rounds ({} at 1000 nodes), us a call\n", machine.device(),
             machine.d.name(), pairs, std::max(pairs / 4, 1));
#ifndef __OPTIMIZE__
  fmt::print("built without optimisation: the times say nothing about a release build\n");
#endif
  fmt::print("{:>5}  {:<22} {:>9} {:>9} {:>9} {:>9} {:>9} {:>5} {:>4}\n", "nodes", "arguments", "raw",
             "raw, set", "region", "over raw", "limit", "new", "malloc");
  Bench bench(machine, pairs);
  for (const size_t n : {size_t{1}, size_t{10}, size_t{100}, size_t{1000}}) {
    bench.run_typed(n);
    bench.run({"unchanged", n, 1, 0, 0});
    const char* names[] = {"1 changed", "10 changed", "100 changed"};
    size_t k = 1;
    for (const char* name : names) {
      if (k < n) bench.run({name, n, k + 1, k, k});
      k *= 10;
    }
    bench.run({"one, in all", n, 1, 1, n});
  }
  // What comparing many arguments costs. No limit: it grows with them.
  bench.run({"unchanged, 101 of them", 1000, kMostArguments, 0, 0, false});
  const auto missed =
      std::count_if(bench.rows().begin(), bench.rows().end(), [](const Row& r) { return r.missed(); });
  fmt::print("{} rows, {} over their limit or allocating; results {}\n", bench.rows().size(), missed,
             bench.right() ? "right" : "WRONG");
  if (!json.empty()) {
    nlohmann::json out = {{"device", machine.device()},
                          {"driver", machine.d.name()},
                          {"results_right", bench.right()},
                          {"missed", missed}};
    const auto counts = [](const Allocations& a) {
      return nlohmann::json{{"new", a.news}, {"malloc", a.mallocs}};
    };
    for (const Row& r : bench.rows())
      out["rows"].push_back({{"nodes", r.shape.nodes},
                             {"arguments", r.shape.what},
                             {"changed_arguments", r.shape.changed},
                             {"touched_nodes", r.shape.touched},
                             {"raw_us", r.raw_us},
                             {"raw_set_us", r.set_us},
                             {"region_us", r.region_us},
                             {"over_raw_us", r.over_us},
                             {"limit_us", r.limit_us},
                             {"limited", r.shape.limited},
                             {"missed", r.missed()},
                             {"allocations_raw", counts(r.raw)},
                             {"allocations_raw_set", counts(r.set)},
                             {"allocations_region", counts(r.region)}});
    std::ofstream file(json);
    if (!(file << out.dump(2) << '\n')) throw Error(ErrorKind::Usage, "cannot write " + json);
  }
  return bench.right() && !(check && missed) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  int pairs = 400;
  bool check = false;
  return bench::guarded([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--json" && i + 1 < argc)
        json = argv[++i];
      else if (option == "--pairs" && i + 1 < argc)
        pairs = std::atoi(argv[++i]);
      else if (option == "--check")
        check = true;
      else
        throw Error(ErrorKind::Usage,
                    fmt::format("unknown option {}: expected --json FILE, --pairs N or --check", option));
    }
    if (pairs < 1) throw Error(ErrorKind::Usage, "--pairs must be 1 or more");
    return run(json, pairs, check);
  });
}
