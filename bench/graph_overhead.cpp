// What Rondo costs over the driver's own calls on CUDA graphs: launching, building, capturing, instantiating,
// updating as a whole and node by node, destroying, each both ways in one run.
//   bench_graph_overhead [--json FILE] [--pairs N]        exit code 77: there is no GPU
//
// "raw" calls the same functions of libcuda with the same arguments, through plain pointers, and does nothing
// else (it checks each status). A pair is one stretch of each, in turns (raw first, then Rondo first); the
// ratio is the median of the pairs' ratios, the times are medians, in us an operation. Every stretch's graphs
// are launched, and a counter on the device says whether both did the work: if not, the program fails.
//
// line: each of n kernels waits for the one before. fan: one kernel, n-2 that wait for it, one that waits for
// those; captured, the n-2 are in four forked streams, one after the other.
//
// The list of a fan's nodes is the program's, so both ways keep theirs from graph to graph, handles there and
// NodeViews here: a list made for each graph would measure the heap. glibc tidies up all its free memory when
// it is asked for 1024 bytes or more, which 64 NodeViews take, and 128 handles (docs/decisions.md, on the
// smallest graph).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "counting.h"
#include "program.h"
#include "rondo/driver/driver.h"
#include "rondo/graph.h"

using namespace rondo;
using bench::must;

namespace {

enum class Shape { Line, Fan };

// ---------------------------------------------------------------- the machine

constexpr int kSides = 4;

struct Machine : bench::Gpu {
  CUdeviceptr counter = 0;
  std::optional<graph::Stream> side[kSides];
  std::optional<graph::Event> forked, joined[kSides];

  Machine() {
    RONDO_CU(d, cuMemAlloc(&counter, sizeof(uint64_t)));
    forked = graph::Event::create();
    for (int i = 0; i < kSides; ++i) side[i] = graph::Stream::create(), joined[i] = graph::Event::create();
    (void)take();
  }
  // What the kernels have added since the last time.
  uint64_t take() const {
    uint64_t value = 0;
    RONDO_CU(d, cuMemcpyDtoHAsync(&value, counter, sizeof value, *stream));
    RONDO_CU(d, cuMemsetD8Async(counter, 0, sizeof value, *stream));
    stream->synchronize();
    return value;
  }
};

// The driver's functions as a program that links libcuda calls them.
struct Raw {
  explicit Raw(const driver::Driver& d) : driver(d) {}
  const driver::Driver& driver;
#define RAW(name) const decltype(&::name) name = driver.name.raw()
  RAW(cuGraphCreate);
  RAW(cuGraphDestroy);
  RAW(cuGraphAddKernelNode);
  RAW(cuGraphInstantiateWithParams);
  RAW(cuGraphExecDestroy);
  RAW(cuGraphExecUpdate);
  RAW(cuGraphExecKernelNodeSetParams);
  RAW(cuGraphLaunch);
  RAW(cuStreamBeginCapture);
  RAW(cuStreamEndCapture);
  RAW(cuStreamSynchronize);
  RAW(cuStreamWaitEvent);
  RAW(cuEventRecord);
  RAW(cuLaunchKernel);
#undef RAW
};
// ---------------------------------------------------------------- both ways

// Graphs of the driver's calls.
struct RawWay {
  const Machine& m;
  Raw r{m.d};
  mutable std::vector<CUgraphNode> nodes{};  // of the last fan

  CUgraph build(Shape shape, int n, uint64_t v) const {
    CUgraph g = nullptr;
    must(r.cuGraphCreate(&g, 0));
    if (shape == Shape::Fan) nodes.resize(static_cast<size_t>(n));
    CUgraphNode last = nullptr;
    for (int i = 0; i < n; ++i) {
      CUdeviceptr p = m.counter;
      void* arguments[] = {&p, &v};
      CUDA_KERNEL_NODE_PARAMS k{};
      k.func = m.count;
      k.gridDimX = k.gridDimY = k.gridDimZ = 1;
      k.blockDimX = 32, k.blockDimY = k.blockDimZ = 1;
      k.kernelParams = arguments;
      if (shape == Shape::Line) {
        CUgraphNode node = nullptr;
        must(r.cuGraphAddKernelNode(&node, g, &last, i == 0 ? 0 : 1, &k));
        last = node;
        continue;
      }
      const bool last_of_fan = i == n - 1 && n > 2;
      const CUgraphNode* before = last_of_fan ? &nodes[1] : &nodes[0];
      const size_t count = i == 0 ? 0 : last_of_fan ? static_cast<size_t>(n - 2) : 1;
      must(r.cuGraphAddKernelNode(&nodes[static_cast<size_t>(i)], g, before, count, &k));
    }
    return g;
  }
  void launch_kernel(CUstream s, uint64_t v) const {
    CUdeviceptr p = m.counter;
    void* arguments[] = {&p, &v};
    must(r.cuLaunchKernel(m.count, 1, 1, 1, 32, 1, 1, 0, s, arguments, nullptr));
  }
  CUgraph capture(Shape shape, int n, uint64_t v) const {
    const CUstream s = *m.stream;
    must(r.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (shape == Shape::Line) {
      for (int i = 0; i < n; ++i) launch_kernel(s, v);
    } else {
      launch_kernel(s, v);
      must(r.cuEventRecord(*m.forked, s));
      for (const auto& side : m.side) must(r.cuStreamWaitEvent(*side, *m.forked, 0));
      for (int i = 1; i < n - 1; ++i) launch_kernel(*m.side[i % kSides], v);
      for (int i = 0; i < kSides; ++i) {
        must(r.cuEventRecord(*m.joined[i], *m.side[i]));
        must(r.cuStreamWaitEvent(s, *m.joined[i], 0));
      }
      launch_kernel(s, v);
    }
    CUgraph g = nullptr;
    must(r.cuStreamEndCapture(s, &g));
    return g;
  }
  CUgraphExec instantiate(CUgraph g) const {
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    CUgraphExec e = nullptr;
    must(r.cuGraphInstantiateWithParams(&e, g, &params));
    return e;
  }
  void update(CUgraphExec e, CUgraph g) const {
    CUgraphExecUpdateResultInfo info{};
    must(r.cuGraphExecUpdate(e, g, &info));
  }
  void set(CUgraphExec e, CUgraphNode node, uint64_t v) const {
    CUdeviceptr p = m.counter;
    void* arguments[] = {&p, &v};
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = m.count;
    k.gridDimX = k.gridDimY = k.gridDimZ = 1;
    k.blockDimX = 32, k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = arguments;
    must(r.cuGraphExecKernelNodeSetParams(e, node, &k));
  }
};

// The same by Rondo.
struct OurWay {
  const Machine& m;
  Raw r{m.d};
  mutable std::vector<graph::NodeView> nodes{};  // of the last fan

  auto call(uint64_t v) const { return graph::kernel(m.count, 1, 32, 0, m.counter, v); }
  graph::Graph build(Shape shape, int n, uint64_t v) const {
    graph::Graph g;
    if (shape == Shape::Line) {
      graph::NodeView last = g.add(call(v));
      for (int i = 1; i < n; ++i) last = g.add(call(v), last);
      return g;
    }
    nodes.resize(static_cast<size_t>(n));
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i == 0)
        nodes[i] = g.add(call(v));
      else if (i == nodes.size() - 1 && n > 2)
        nodes[i] = g.add(call(v), std::span<const graph::NodeView>(nodes).subspan(1, i - 1));
      else
        nodes[i] = g.add(call(v), nodes[0]);
    }
    return g;
  }
  void launch_kernel(CUstream s, uint64_t v) const {
    CUdeviceptr p = m.counter;
    void* arguments[] = {&p, &v};
    must(r.cuLaunchKernel(m.count, 1, 1, 1, 32, 1, 1, 0, s, arguments, nullptr));
  }
  graph::Graph capture(Shape shape, int n, uint64_t v) const {
    return graph::capture(*m.stream, [&](graph::Capture& c) {
      const CUstream s = c.stream();
      if (shape == Shape::Line) {
        for (int i = 0; i < n; ++i) launch_kernel(s, v);
        return;
      }
      launch_kernel(s, v);
      for (const auto& side : m.side) c.fork(*side);
      for (int i = 1; i < n - 1; ++i) launch_kernel(*m.side[i % kSides], v);
      for (const auto& side : m.side) c.join(*side);
      launch_kernel(s, v);
    });
  }
};

// ---------------------------------------------------------------- measuring

using Clock = std::chrono::steady_clock;
template <class Work>
double microseconds(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Row {
  Shape shape;
  int nodes;
  const char* operation;
  double raw_us, ours_us, ratio, goal;
  int pairs;
};

class Bench {
 public:
  Bench(const Machine& m, int pairs) : m_(m), raw_{m}, ours_{m}, pairs_(pairs) {}

  void run(Shape shape, int n) {
    // Short operations are repeated, so that a stretch is long beside the clock's own cost.
    const int repeats = n == 1 ? 20 : n == 10 ? 5 : 1;
    launch(shape, n);
    building(shape, n, repeats);
    instantiating(shape, n, repeats);
    updating(shape, n, repeats);
    recording_again(shape, n, repeats);
    setting(shape, n);
  }
  const std::vector<Row>& rows() const { return rows_; }
  bool right() const { return right_; }

 private:
  // raw() and ours() do one stretch of `operations` and return its time in us.
  template <class A, class B>
  void pairs(Shape shape, int n, const char* operation, double goal, int operations, const A& raw,
             const B& ours) {
    const int count = n >= 1000 ? std::max(pairs_ / 4, 1) : pairs_;
    std::vector<double> a, b, ratio;
    for (int i = -3; i < count; ++i) {  // the first few warm up
      double t[2];
      if (i & 1) {
        t[1] = ours();
        t[0] = raw();
      } else {
        t[0] = raw();
        t[1] = ours();
      }
      if (i < 0) continue;
      a.push_back(t[0] / operations), b.push_back(t[1] / operations), ratio.push_back(t[1] / t[0]);
    }
    rows_.push_back({shape, n, operation, median(a), median(b), median(ratio), goal, count});
    const Row& r = rows_.back();
    fmt::print("{:<5} {:>5}  {:<22} {:>10.3f} {:>10.3f} {:>7.3f} {:>6.2f}{}\n",
               shape == Shape::Line ? "line" : "fan", n, operation, r.raw_us, r.ours_us, r.ratio, goal,
               r.ratio > goal ? "  over" : "");
    std::fflush(stdout);
  }
  // What the kernels have added since the last look must be this.
  void expect(uint64_t added, const char* what) {
    const uint64_t is = m_.take();
    if (is == added) return;
    fmt::print(stderr, "wrong result of {}: the kernels added {}, expected {}\n", what, is, added);
    right_ = false;
  }
  void run_once(CUgraphExec e) {
    must(raw_.r.cuGraphLaunch(e, *m_.stream));
    m_.stream->synchronize();
  }
  void run_once(CUgraph g) {
    const CUgraphExec e = raw_.instantiate(g);
    run_once(e);
    must(raw_.r.cuGraphExecDestroy(e));
  }

  // Both on the same exec. A burst is short enough for the driver's queue, so that the CPU's time is
  // measured.
  void launch(Shape shape, int n) {
    const graph::GraphExec exec = ours_.build(shape, n, 1).instantiate();
    const CUgraphExec e = exec.get();
    const CUstream s = *m_.stream;
    const int burst = n >= 1000 ? 4 : 16;
    uint64_t launches = 0;
    const auto after = [&](double us, int count) {
      m_.stream->synchronize();
      launches += static_cast<uint64_t>(count);
      return us;
    };
    pairs(
        shape, n, "launch", 1.05, burst,
        [&] {
          return after(microseconds([&] {
                         for (int i = 0; i < burst; ++i) must(raw_.r.cuGraphLaunch(e, s));
                       }),
                       burst);
        },
        [&] {
          return after(microseconds([&] {
                         for (int i = 0; i < burst; ++i) exec.launch(s);
                       }),
                       burst);
        });
    pairs(
        shape, n, "launch and wait", 1.05, 1,
        [&] {
          return after(
              microseconds([&] { must(raw_.r.cuGraphLaunch(e, s)), must(raw_.r.cuStreamSynchronize(s)); }),
              1);
        },
        [&] { return after(microseconds([&] { exec.launch(s), m_.stream->synchronize(); }), 1); });
    expect(launches * static_cast<uint64_t>(n), "launching");
  }

  void building(Shape shape, int n, int repeats) {
    std::vector<CUgraph> raw(static_cast<size_t>(repeats));
    std::vector<std::optional<graph::Graph>> ours(static_cast<size_t>(repeats));
    uint64_t samples = 0;
    const auto both = [&](const char* operation, const auto& make_raw, const auto& make_ours) {
      pairs(
          shape, n, operation, 1.10, repeats,
          [&] {
            const double us = microseconds([&] {
              for (CUgraph& g : raw) g = make_raw();
            });
            run_once(raw.front()), ++samples;
            for (CUgraph g : raw) must(raw_.r.cuGraphDestroy(g));
            return us;
          },
          [&] {
            const double us = microseconds([&] {
              for (auto& g : ours) g.emplace(make_ours());
            });
            run_once(ours.front()->get()), ++samples;
            for (auto& g : ours) g.reset();
            return us;
          });
      expect(samples * static_cast<uint64_t>(n) * 3, operation);
      samples = 0;
    };
    both(
        "build", [&] { return raw_.build(shape, n, 3); }, [&] { return ours_.build(shape, n, 3); });
    both(
        "capture", [&] { return raw_.capture(shape, n, 3); }, [&] { return ours_.capture(shape, n, 3); });
  }

  void instantiating(Shape shape, int n, int repeats) {
    const graph::Graph g = ours_.build(shape, n, 1), same = ours_.build(shape, n, 1);
    const CUgraph handle = same.get();
    std::vector<CUgraphExec> raw(static_cast<size_t>(repeats));
    std::vector<std::optional<graph::GraphExec>> ours(static_cast<size_t>(repeats));
    uint64_t samples = 0;
    pairs(
        shape, n, "instantiate", 1.10, repeats,
        [&] {
          const double us = microseconds([&] {
            for (CUgraphExec& e : raw) e = raw_.instantiate(handle);
          });
          run_once(raw.front()), ++samples;
          for (CUgraphExec e : raw) must(raw_.r.cuGraphExecDestroy(e));
          return us;
        },
        [&] {
          const double us = microseconds([&] {
            for (auto& e : ours) e.emplace(g.instantiate());
          });
          run_once(ours.front()->get()), ++samples;
          for (auto& e : ours) e.reset();
          return us;
        });
    pairs(
        shape, n, "instantiate, destroy", 1.10, repeats,
        [&] {
          return microseconds([&] {
            for (int i = 0; i < repeats; ++i) must(raw_.r.cuGraphExecDestroy(raw_.instantiate(handle)));
          });
        },
        [&] {
          return microseconds([&] {
            for (int i = 0; i < repeats; ++i) (void)g.instantiate();
          });
        });
    expect(samples * static_cast<uint64_t>(n), "instantiate");
  }

  // Between two graphs with other arguments, so that every update changes every node.
  void updating(Shape shape, int n, int repeats) {
    const CUgraph raw[] = {raw_.build(shape, n, 1), raw_.build(shape, n, 2)};
    const CUgraphExec e = raw_.instantiate(raw[1]);
    const graph::Graph ours[] = {ours_.build(shape, n, 1), ours_.build(shape, n, 2)};
    graph::GraphExec exec = ours[1].instantiate();
    uint64_t added = 0;
    size_t raw_turn = 0, our_turn = 0;
    pairs(
        shape, n, "update", 1.10, repeats,
        [&] {
          const double us = microseconds([&] {
            for (int i = 0; i < repeats; ++i) raw_.update(e, raw[raw_turn++ & 1]);
          });
          added += ((raw_turn - 1) & 1) + 1;
          run_once(e);
          return us;
        },
        [&] {
          const double us = microseconds([&] {
            for (int i = 0; i < repeats; ++i) check(exec.update(ours[our_turn++ & 1]));
          });
          added += ((our_turn - 1) & 1) + 1;
          run_once(exec.get());
          return us;
        });
    expect(added * static_cast<uint64_t>(n), "update");
    must(raw_.r.cuGraphExecDestroy(e));
    for (CUgraph g : raw) must(raw_.r.cuGraphDestroy(g));
  }

  // What a program does that records its work anew each time: capture, update, drop the recording. Rondo also
  // compares the kernels' attributes, which the raw way leaves out; the row after it is without.
  void recording_again(Shape shape, int n, int repeats) {
    const CUgraph first = raw_.capture(shape, n, 1);
    const CUgraphExec e = raw_.instantiate(first);
    graph::GraphExec exec = ours_.capture(shape, n, 1).instantiate();
    for (const auto compare : {graph::AttributeCheck::Compare, graph::AttributeCheck::Skip}) {
      uint64_t added = 0, v = 1;
      pairs(
          shape, n, compare == graph::AttributeCheck::Compare ? "capture and update" : "the same, unchecked",
          1.10, repeats,
          [&] {
            const double us = microseconds([&] {
              for (int i = 0; i < repeats; ++i) {
                const CUgraph g = raw_.capture(shape, n, ++v);
                raw_.update(e, g);
                must(raw_.r.cuGraphDestroy(g));
              }
            });
            added += v;
            run_once(e);
            return us;
          },
          [&] {
            const double us = microseconds([&] {
              for (int i = 0; i < repeats; ++i) check(exec.update(ours_.capture(shape, n, ++v), compare));
            });
            added += v;
            run_once(exec.get());
            return us;
          });
      expect(added * static_cast<uint64_t>(n), "capture and update");
    }
    must(raw_.r.cuGraphExecDestroy(e));
    must(raw_.r.cuGraphDestroy(first));
  }

  // Every node once, both on the same exec.
  void setting(Shape shape, int n) {
    const graph::Graph g = ours_.build(shape, n, 1);
    graph::GraphExec exec = g.instantiate();
    const std::vector<graph::NodeView> nodes = g.nodes();
    const CUgraphExec e = exec.get();
    uint64_t added = 0, v = 1;
    const auto after = [&](double us) {
      added += v;
      run_once(e);
      return us;
    };
    pairs(
        shape, n, "set a node", 1.10, n,
        [&] {
          ++v;
          return after(microseconds([&] {
            for (const graph::NodeView node : nodes) raw_.set(e, node.get(), v);
          }));
        },
        [&] {
          ++v;
          return after(microseconds([&] {
            for (const graph::NodeView node : nodes) exec.set(node, ours_.call(v));
          }));
        });
    expect(added * static_cast<uint64_t>(n), "set");
  }
  static void check(const graph::Updated& updated) {
    if (!updated) throw Error(ErrorKind::Device, "an update was refused: " + updated.reason);
  }

  const Machine& m_;
  RawWay raw_;
  OurWay ours_;
  int pairs_;
  std::vector<Row> rows_;
  bool right_ = true;
};

int run(const std::string& json, int pairs) {
  const Machine machine;
  fmt::print("{}, driver {}; medians of {} pairs ({} at 1000 nodes), us an operation\n", machine.device(),
             machine.d.name(), pairs, std::max(pairs / 4, 1));
#ifndef __OPTIMIZE__
  fmt::print("built without optimisation: the ratios say nothing about a release build\n");
#endif
  fmt::print("{:<5} {:>5}  {:<22} {:>10} {:>10} {:>7} {:>6}\n", "shape", "nodes", "operation", "raw", "rondo",
             "ratio", "goal");
  Bench bench(machine, pairs);
  for (const Shape shape : {Shape::Line, Shape::Fan})
    for (const int n : {1, 10, 100, 1000})
      if (shape == Shape::Line || n > 1) bench.run(shape, n);  // a fan of one node is the line
  const auto over =
      std::count_if(bench.rows().begin(), bench.rows().end(), [](const Row& r) { return r.ratio > r.goal; });
  fmt::print("{} rows, {} over their goal; results {}\n", bench.rows().size(), over,
             bench.right() ? "right" : "WRONG");
  if (!json.empty()) {
    nlohmann::json out = {
        {"device", machine.device()}, {"driver", machine.d.name()}, {"results_right", bench.right()}};
    for (const Row& r : bench.rows())
      out["rows"].push_back({{"shape", r.shape == Shape::Line ? "line" : "fan"},
                             {"nodes", r.nodes},
                             {"operation", r.operation},
                             {"raw_us", r.raw_us},
                             {"rondo_us", r.ours_us},
                             {"ratio", r.ratio},
                             {"goal", r.goal},
                             {"pairs", r.pairs}});
    std::ofstream file(json);
    if (!(file << out.dump(2) << '\n')) throw Error(ErrorKind::Usage, "cannot write " + json);
  }
  return bench.right() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  int pairs = 400;
  return bench::guarded([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--json" && i + 1 < argc)
        json = argv[++i];
      else if (option == "--pairs" && i + 1 < argc)
        pairs = std::atoi(argv[++i]);
      else
        throw Error(ErrorKind::Usage,
                    fmt::format("unknown option {}: expected --json FILE or --pairs N", option));
    }
    if (pairs < 1) throw Error(ErrorKind::Usage, "--pairs must be 1 or more");
    return run(json, pairs);
  });
}
