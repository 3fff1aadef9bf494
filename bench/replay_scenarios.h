// The regions that bench_replay_regions, the one program that includes this, measures: from launch-bound to
// bandwidth-bound, with large inputs and small, few consumers and many, helpful as graphs and harmful.
#pragma once
#include <cstring>
#include <cub/cub.cuh>
#include <functional>
#include <memory>

#include "replay_bench.h"

namespace replay = rondo::replay;
using bench::Arena;
using replay::Argument;
using replay::in;
using replay::inout;
using replay::out;

namespace {

// ---------------------------------------------------------------- kernels
__global__ void axpb(float* y, const float* x, int n, float a, float b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}
__global__ void gather(float* y, const float* x, const uint32_t* index, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[index[i]];
}
// Sums of a block's part, in a fixed order.
__global__ void sum_blocks(float* sums, const float* x, size_t n) {
  __shared__ float part[256];
  float s = 0;
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) s += x[i];
  part[threadIdx.x] = s;
  for (int width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
__global__ void busy(float* y, const float* x, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int r = 0; r < rounds; ++r) v = fmaf(v, 0.999f, 0.001f);
  y[i] = v;
}
// One of many readers of x: its own element of y.
__global__ void reader(float* y, const float* x, int n, int which) {
  __shared__ float part[128];
  float s = 0;
  for (int i = threadIdx.x; i < 1024; i += 128) s += x[(static_cast<size_t>(which) * 4099 + i) % n];
  part[threadIdx.x] = s;
  for (int width = 64; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
  }
  if (threadIdx.x == 0) y[which] = part[0];
}
__global__ void add_up(float* y, const float* x, int n, int parts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  for (int p = 0; p < parts; ++p) s += x[static_cast<size_t>(p) * n + i];
  y[i] = s;
}
__global__ void bias_relu(float* y, const float* b, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) y[i] = fmaxf(y[i] + b[i % columns], 0.0f);
}
__global__ void bias_relu_half(__nv_bfloat16* y, const __nv_bfloat16* b, size_t count, int columns) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    y[i] = __float2bfloat16(fmaxf(__bfloat162float(y[i]) + __bfloat162float(b[i % columns]), 0.0f));
}
// A row a block of 128.
__global__ void softmax_rows(float* x, int columns, float scale) {
  __shared__ float part[128];
  float* row = x + static_cast<size_t>(blockIdx.x) * columns;
  float m = -1e30f;
  for (int i = threadIdx.x; i < columns; i += 128) m = fmaxf(m, row[i] * scale);
  part[threadIdx.x] = m;
  for (int width = 64; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + width]);
  }
  __syncthreads();
  m = part[0];
  __syncthreads();
  float s = 0;
  for (int i = threadIdx.x; i < columns; i += 128) s += expf(row[i] * scale - m);
  part[threadIdx.x] = s;
  for (int width = 64; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
  }
  __syncthreads();
  s = 1.0f / part[0];
  for (int i = threadIdx.x; i < columns; i += 128) row[i] = expf(row[i] * scale - m) * s;
}
__global__ void halve(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[2 * i] + x[2 * i + 1];
}
__global__ void diffuse(float* to, const float* from, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const auto at = [&](int i, int j) {
    i = min(max(i, 0), width - 1), j = min(max(j, 0), height - 1);
    return from[static_cast<size_t>(j) * width + i];
  };
  to[static_cast<size_t>(y) * width + x] =
      0.5f * at(x, y) + 0.125f * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1));
}
__global__ void adam(float* p, float* m, float* v, const float* g, int n, float rate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float grad = g[i];
  m[i] = 0.9f * m[i] + 0.1f * grad;
  v[i] = 0.999f * v[i] + 0.001f * grad * grad;
  p[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-8f);
}
__global__ void tanh_of(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}
__global__ void descend(float* w, const float* g, int n, float rate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] = 0.5f * w[i] - rate * g[i];
}

int blocks_for(size_t n, int threads = 256) { return static_cast<int>((n + threads - 1) / threads); }

// ---------------------------------------------------------------- scenarios
// Memory that a call reads or writes.
struct Extent {
  void* data;
  size_t bytes;
  bool written;
};

// A region with its sets of arguments, callable plainly and through regions of different options.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual unsigned sets() const = 0;
  virtual void plain(cudaStream_t s, unsigned set) = 0;
  virtual void make(const std::string& name, replay::Options options) = 0;  // one more region
  virtual void call(size_t region, cudaStream_t s, unsigned set) = 0;
  virtual const replay::RegionBase& region(size_t i) const = 0;
  virtual std::vector<Extent> extents() const = 0;       // each once
  virtual bool new_signatures() const { return false; }  // another one at each call, sets() of them
};

void add_extent(std::vector<Extent>* all, const Argument& a) {
  if (!a.buffer() || a.bytes == 0) return;
  for (Extent& e : *all)
    if (e.data == reinterpret_cast<void*>(a.value)) {
      e.bytes = std::max(e.bytes, static_cast<size_t>(a.bytes));
      e.written |= a.written();
      return;
    }
  all->push_back({reinterpret_cast<void*>(a.value), a.bytes, a.written()});
}

// What plain code has in place of an argument.
template <class T>
T* raw(const replay::Buffer<T>& b) {
  return b.data;
}
template <class T>
T raw(const replay::LiveScalar<T>& s) {
  return s.value;
}
template <class T>
T raw(const T& value) {
  return value;
}

// As a program writes it: arguments with types.
template <class Work, class... Args>
class Typed final : public Scenario {
 public:
  Typed(Work work, std::vector<std::tuple<Args...>> sets) : work_(std::move(work)), sets_(std::move(sets)) {}
  unsigned sets() const override { return static_cast<unsigned>(sets_.size()); }
  void plain(cudaStream_t s, unsigned set) override {
    std::apply([&](const auto&... a) { work_(s, raw(a)...); }, sets_[set]);
  }
  void make(const std::string& name, replay::Options options) override {
    regions_.push_back(std::make_unique<replay::Region<Work>>(name, work_, std::move(options)));
  }
  void call(size_t region, cudaStream_t s, unsigned set) override {
    std::apply([&](const auto&... a) { (*regions_[region])(s, a...); }, sets_[set]);
  }
  const replay::RegionBase& region(size_t i) const override { return *regions_[i]; }
  std::vector<Extent> extents() const override {
    std::vector<Extent> all;
    for (const auto& set : sets_)
      std::apply(
          [&](const auto&... a) {
            (
                [&] {
                  Argument packed[replay::detail::Traits<std::decay_t<decltype(a)>>::kWords];
                  replay::detail::Traits<std::decay_t<decltype(a)>>::pack(a, packed);
                  for (const Argument& p : packed) add_extent(&all, p);
                }(),
                ...);
          },
          set);
    return all;
  }

 private:
  Work work_;
  std::vector<std::tuple<Args...>> sets_;
  std::vector<std::unique_ptr<replay::Region<Work>>> regions_;
};

// For hundreds of arguments: without types.
class Untyped final : public Scenario {
 public:
  using Work = std::function<void(cudaStream_t, const Argument*)>;
  Untyped(Work work, std::vector<std::vector<Argument>> sets)
      : work_(std::move(work)), sets_(std::move(sets)) {}
  unsigned sets() const override { return static_cast<unsigned>(sets_.size()); }
  void plain(cudaStream_t s, unsigned set) override { work_(s, sets_[set].data()); }
  void make(const std::string& name, replay::Options options) override {
    regions_.push_back(std::make_unique<replay::RegionBase>(name, std::move(options)));
  }
  void call(size_t region, cudaStream_t s, unsigned set) override {
    regions_[region]->call(s, sets_[set], {&work_, [](void* work, CUstream stream, const Argument* a) {
                                             (*static_cast<Work*>(work))(stream, a);
                                           }});
  }
  const replay::RegionBase& region(size_t i) const override { return *regions_[i]; }
  std::vector<Extent> extents() const override {
    std::vector<Extent> all;
    for (const auto& set : sets_)
      for (const Argument& a : set) add_extent(&all, a);
    return all;
  }

 private:
  Work work_;
  std::vector<std::vector<Argument>> sets_;
  std::vector<std::unique_ptr<replay::RegionBase>> regions_;
};

constexpr unsigned kSets = 3;

// Every call has another size, so that none has a recording. The buffers are kSets pairs of the largest size.
template <class Work>
class Sizes final : public Scenario {
 public:
  Sizes(Work work, std::vector<std::pair<float*, float*>> buffers)
      : work_(std::move(work)), buffers_(std::move(buffers)) {}
  // One after the other in an order that never repeats: kSizes is a prime.
  static constexpr unsigned kLeast = 4096, kSizes = 65537, kMost = kLeast + kSizes - 1;
  static int size_of(unsigned set) { return static_cast<int>(kLeast + uint64_t{set} * 40503 % kSizes); }
  unsigned sets() const override { return kSizes; }
  bool new_signatures() const override { return true; }
  void plain(cudaStream_t s, unsigned set) override {
    const auto& [x, y] = buffers_[set % kSets];
    work_(s, x, y, size_of(set));
  }
  void make(const std::string& name, replay::Options options) override {
    regions_.push_back(std::make_unique<replay::Region<Work>>(name, work_, std::move(options)));
  }
  void call(size_t region, cudaStream_t s, unsigned set) override {
    const auto& [x, y] = buffers_[set % kSets];
    const int n = size_of(set);
    const float* from = x;
    (*regions_[region])(s, in(from, static_cast<size_t>(n)), out(y, static_cast<size_t>(n)), n);
  }
  const replay::RegionBase& region(size_t i) const override { return *regions_[i]; }
  std::vector<Extent> extents() const override {
    std::vector<Extent> all;
    for (const auto& [x, y] : buffers_)
      all.push_back({x, kMost * sizeof(float), false}), all.push_back({y, kMost * sizeof(float), true});
    return all;
  }

 private:
  Work work_;
  std::vector<std::pair<float*, float*>> buffers_;
  std::vector<std::unique_ptr<replay::Region<Work>>> regions_;
};

// Three sets of arguments, each made by make(which set).
template <class Make>
auto make_sets(const Make& make) {
  std::vector<decltype(make(0u))> sets;
  for (unsigned i = 0; i < kSets; ++i) sets.push_back(make(i));
  return sets;
}
template <class Work, class... Args>
std::unique_ptr<Scenario> scenario(Work work, std::vector<std::tuple<Args...>> sets) {
  return std::make_unique<Typed<Work, Args...>>(std::move(work), std::move(sets));
}
Argument argument(const void* data, size_t bytes, replay::Kind kind) {
  return {reinterpret_cast<uint64_t>(data), bytes, kind, replay::Element::F32, 0};
}
template <class T>
T* pointer(const Argument& a) {
  return reinterpret_cast<T*>(a.value);
}

// ---------------------------------------------------------------- the list
using Handle = std::shared_ptr<const bench::BlasHandle>;
Handle blas_handle() { return std::make_shared<bench::BlasHandle>(); }

// A chain of small kernels: the arguments sit in the first and the last one.
std::unique_ptr<Scenario> chain(Arena& m, int kernels) {
  const int n = 4096;
  float* scratch = m.zeros<float>(n);
  const auto work = [=](cudaStream_t s, const float* x, float* y, int count) {
    axpb<<<blocks_for(count), 256, 0, s>>>(scratch, x, count, 0.5f, 1.0f);
    for (int i = 2; i < kernels; ++i)
      axpb<<<blocks_for(count), 256, 0, s>>>(scratch, scratch, count, 0.5f, 1.0f);
    axpb<<<blocks_for(count), 256, 0, s>>>(y, scratch, count, 0.5f, 1.0f);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n), n);
                  }));
}

// Three kernels whose grids follow the size, and so does what they compute.
std::unique_ptr<Scenario> new_sizes(Arena& m) {
  const auto make = [&](auto work) -> std::unique_ptr<Scenario> {
    using Made = Sizes<decltype(work)>;
    std::vector<std::pair<float*, float*>> buffers;
    for (unsigned i = 0; i < kSets; ++i)
      buffers.emplace_back(m.filled<float>(Made::kMost), m.zeros<float>(Made::kMost));
    return std::make_unique<Made>(work, std::move(buffers));
  };
  float* scratch = m.zeros<float>(size_t{1} << 17);
  return make([=](cudaStream_t s, const float* x, float* y, int n) {
    axpb<<<blocks_for(n), 256, 0, s>>>(scratch, x, n, 0.5f, static_cast<float>(n));
    axpb<<<blocks_for(n), 256, 0, s>>>(scratch, scratch, n, 0.5f, 1.0f);
    axpb<<<blocks_for(n), 256, 0, s>>>(y, scratch, n, 0.5f, 1.0f);
    bench::launched();
  });
}

std::unique_ptr<Scenario> one_tiny_kernel(Arena& m) {
  const int n = 256;
  const auto work = [](cudaStream_t s, const float* x, float* y, int count) {
    axpb<<<1, 256, 0, s>>>(y, x, count, 2.0f, 1.0f);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n), n);
                  }));
}

// Little work on a large input: copying the input is all that a staged graph does.
std::unique_ptr<Scenario> gather_from(Arena& m, size_t bytes) {
  const size_t n = bytes / sizeof(float);
  const int taken = 16384;
  const uint32_t* index = m.filled<uint32_t>(taken, static_cast<uint32_t>(n));
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    gather<<<blocks_for(taken), 256, 0, s>>>(y, x, index, taken);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(taken), taken));
                  }));
}

std::unique_ptr<Scenario> sum_of(Arena& m, size_t bytes) {
  const size_t n = bytes / sizeof(float);
  float* sums = m.zeros<float>(1024);
  const auto work = [=](cudaStream_t s, const float* x, float* y, size_t count) {
    sum_blocks<<<1024, 256, 0, s>>>(sums, x, count);
    sum_blocks<<<1, 256, 0, s>>>(y, sums, 1024);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(1), 1), n);
                  }));
}

std::unique_ptr<Scenario> few_big_kernels(Arena& m) {
  const int n = 1 << 20;
  float* scratch = m.zeros<float>(n);
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    busy<<<blocks_for(n), 256, 0, s>>>(scratch, x, n, 2048);
    busy<<<blocks_for(n), 256, 0, s>>>(scratch, scratch, n, 2048);
    busy<<<blocks_for(n), 256, 0, s>>>(scratch, scratch, n, 2048);
    busy<<<blocks_for(n), 256, 0, s>>>(y, scratch, n, 2048);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

// One input that 500 nodes hold, and an output that they all write into.
std::unique_ptr<Scenario> many_readers(Arena& m, size_t bytes) {
  const int n = static_cast<int>(bytes / sizeof(float)), readers = 500;
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    for (int i = 0; i < readers; ++i) reader<<<1, 128, 0, s>>>(y, x, n, i);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(readers), readers));
                  }));
}

// 128 inputs and 128 outputs, each held by one node.
std::unique_ptr<Scenario> many_arguments(Arena& m) {
  const int n = 4096, pairs = 128;
  const auto work = [=](cudaStream_t s, const Argument* a) {
    for (int i = 0; i < pairs; ++i)
      axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[2 * i + 1]), pointer<float>(a[2 * i]), n, 0.5f,
                                         1.0f);
    bench::launched();
  };
  return std::make_unique<Untyped>(work, make_sets([&](unsigned) {
                                     std::vector<Argument> set;
                                     for (int i = 0; i < pairs; ++i) {
                                       set.push_back(argument(m.filled<float>(n), n * 4, replay::Kind::In));
                                       set.push_back(argument(m.zeros<float>(n), n * 4, replay::Kind::Out));
                                     }
                                     return set;
                                   }));
}

struct Sides {
  explicit Sides(int count) {
    MUST(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    for (int i = 0; i < count; ++i) {
      streams.emplace_back(), joined.emplace_back();
      MUST(cudaStreamCreateWithFlags(&streams.back(), cudaStreamNonBlocking));
      MUST(cudaEventCreateWithFlags(&joined.back(), cudaEventDisableTiming));
    }
  }
  ~Sides() {
    for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
    for (cudaEvent_t e : joined) (void)cudaEventDestroy(e);
    (void)cudaEventDestroy(forked);
  }
  cudaEvent_t forked = nullptr;
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> joined;
};
std::unique_ptr<Scenario> fork_join(Arena& m) {
  const int n = 1 << 14, branches = 8, steps = 10;
  const auto sides = std::make_shared<Sides>(branches);
  float* parts = m.zeros<float>(static_cast<size_t>(n) * branches);
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    MUST(cudaEventRecord(sides->forked, s));
    for (int b = 0; b < branches; ++b) {
      cudaStream_t side = sides->streams[b];
      float* part = parts + static_cast<size_t>(b) * n;
      MUST(cudaStreamWaitEvent(side, sides->forked, 0));
      axpb<<<blocks_for(n), 256, 0, side>>>(part, x, n, 0.5f, static_cast<float>(b));
      for (int i = 1; i < steps; ++i) axpb<<<blocks_for(n), 256, 0, side>>>(part, part, n, 0.5f, 1.0f);
      MUST(cudaEventRecord(sides->joined[b], side));
      MUST(cudaStreamWaitEvent(s, sides->joined[b], 0));
    }
    add_up<<<blocks_for(n), 256, 0, s>>>(y, parts, n, branches);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

std::unique_ptr<Scenario> mlp_small(Arena& m) {
  const int rows = 32, width = 256, layers = 4;
  const Handle blas = blas_handle();
  std::vector<const float*> weights, biases;
  std::vector<float*> hidden;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(m.filled<float>(width * width));
    biases.push_back(m.filled<float>(width));
    hidden.push_back(m.zeros<float>(rows * width));
  }
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    for (int i = 0; i < layers; ++i) {
      float* to = i + 1 == layers ? y : hidden[i];
      bench::product(*blas, s, i == 0 ? x : hidden[i - 1], weights[i], to, rows, width, width);
      bias_relu<<<blocks_for(rows * width), 256, 0, s>>>(to, biases[i], rows, width);
    }
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(rows * width), rows * width),
                                      out(m.zeros<float>(rows * width), rows * width));
                  }));
}

std::unique_ptr<Scenario> mlp_large(Arena& m) {
  const int rows = 4096, width = 4096, layers = 3;
  const size_t count = static_cast<size_t>(rows) * width;
  const Handle blas = blas_handle();
  std::vector<const __nv_bfloat16*> weights, biases;
  std::vector<__nv_bfloat16*> hidden;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(m.filled<__nv_bfloat16>(count));
    biases.push_back(m.filled<__nv_bfloat16>(width));
    hidden.push_back(m.zeros<__nv_bfloat16>(count));
  }
  const auto work = [=](cudaStream_t s, const __nv_bfloat16* x, __nv_bfloat16* y) {
    const float one = 0.02f, zero = 0.0f;
    for (int i = 0; i < layers; ++i) {
      __nv_bfloat16* to = i + 1 == layers ? y : hidden[i];
      bench::must(bench::Blas::get().cublasGemmEx(
                      blas->on(s), CUBLAS_OP_N, CUBLAS_OP_N, width, rows, width, &one, weights[i],
                      CUDA_R_16BF, width, i == 0 ? x : hidden[i - 1], CUDA_R_16BF, width, &zero, to,
                      CUDA_R_16BF, width, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                  "cublasGemmEx");
      bias_relu_half<<<blocks_for(count), 256, 0, s>>>(to, biases[i], count, width);
    }
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<__nv_bfloat16>(count), count),
                                      out(m.zeros<__nv_bfloat16>(count), count));
                  }));
}

std::unique_ptr<Scenario> attention(Arena& m) {
  const int heads = 64, length = 256, depth = 64;
  const size_t count = static_cast<size_t>(heads) * length * depth;
  const Handle blas = blas_handle();
  float* scores = m.zeros<float>(static_cast<size_t>(heads) * length * length);
  const auto work = [=](cudaStream_t s, const float* q, const float* k, const float* v, float* o) {
    const bench::Blas& b = bench::Blas::get();
    const float one = 1.0f, zero = 0.0f;
    const long long wide = static_cast<long long>(length) * depth,
                    square = static_cast<long long>(length) * length;
    bench::must(
        b.cublasSgemmStridedBatched(blas->on(s), CUBLAS_OP_T, CUBLAS_OP_N, length, length, depth, &one, k,
                                    depth, wide, q, depth, wide, &zero, scores, length, square, heads),
        "cublasSgemmStridedBatched");
    softmax_rows<<<heads * length, 128, 0, s>>>(scores, length, 0.125f);
    bench::must(
        b.cublasSgemmStridedBatched(blas->on(s), CUBLAS_OP_N, CUBLAS_OP_N, depth, length, length, &one, v,
                                    depth, wide, scores, length, square, &zero, o, depth, wide, heads),
        "cublasSgemmStridedBatched");
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(count), count), in(m.filled<float>(count), count),
                                      in(m.filled<float>(count), count), out(m.zeros<float>(count), count));
                  }));
}

std::unique_ptr<Scenario> elementwise(Arena& m, size_t bytes) {
  const int n = static_cast<int>(bytes / sizeof(float)), kernels = 6;
  float* scratch = m.zeros<float>(n);
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    axpb<<<blocks_for(n), 256, 0, s>>>(scratch, x, n, 0.5f, 1.0f);
    for (int i = 2; i < kernels; ++i) axpb<<<blocks_for(n), 256, 0, s>>>(scratch, scratch, n, 0.5f, 1.0f);
    axpb<<<blocks_for(n), 256, 0, s>>>(y, scratch, n, 0.5f, 1.0f);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

// Copies and fills, 1-D and 2-D, with small kernels between them.
std::unique_ptr<Scenario> copies_and_fills(Arena& m) {
  const int width = 1024, height = 256, parts = 8;
  const size_t n = static_cast<size_t>(width) * height;
  float* scratch = m.zeros<float>(n);
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    const size_t pitch = width * sizeof(float), part = n / parts;
    MUST(cudaMemsetAsync(y, 0, n * sizeof(float), s));
    for (int i = 0; i < parts; ++i) {
      MUST(cudaMemcpyAsync(scratch + i * part, x + (parts - 1 - i) * part, part * sizeof(float),
                           cudaMemcpyDeviceToDevice, s));
      axpb<<<blocks_for(part), 256, 0, s>>>(scratch + i * part, scratch + i * part, static_cast<int>(part),
                                            0.5f, 1.0f);
    }
    MUST(cudaMemcpy2DAsync(y, pitch, scratch, pitch, pitch / 2, height, cudaMemcpyDeviceToDevice, s));
    MUST(cudaMemset2DAsync(y + 3 * width / 4, pitch, 0x3f, pitch / 8, height, s));
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

std::unique_ptr<Scenario> cub_sort_scan_reduce(Arena& m) {
  const int n = 1 << 18;
  uint32_t* sorted = m.zeros<uint32_t>(n);
  size_t sort_bytes = 0, scan_bytes = 0, sum_bytes = 0;
  MUST(cub::DeviceRadixSort::SortKeys(nullptr, sort_bytes, sorted, sorted, n));
  MUST(cub::DeviceScan::InclusiveSum(nullptr, scan_bytes, sorted, sorted, n));
  MUST(cub::DeviceReduce::Sum(nullptr, sum_bytes, sorted, sorted, n));
  void* temporary = m.bytes(std::max({sort_bytes, scan_bytes, sum_bytes}));
  const auto work = [=](cudaStream_t s, const uint32_t* x, uint32_t* scanned, uint32_t* sum) {
    size_t bytes = sort_bytes;
    MUST(cub::DeviceRadixSort::SortKeys(temporary, bytes, x, sorted, n, 0, 32, s));
    bytes = scan_bytes;
    MUST(cub::DeviceScan::InclusiveSum(temporary, bytes, sorted, scanned, n, s));
    bytes = sum_bytes;
    MUST(cub::DeviceReduce::Sum(temporary, bytes, scanned, sum, n, s));
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<uint32_t>(n, 1u << 30), n), out(m.zeros<uint32_t>(n), n),
                                      out(m.zeros<uint32_t>(1), 1));
                  }));
}

std::unique_ptr<Scenario> reduction_tree(Arena& m) {
  const int levels = 18;
  const size_t n = size_t{1} << levels;
  float* scratch = m.zeros<float>(n);  // half of it, a quarter, ...
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    const float* from = x;
    float* to = scratch;
    for (size_t left = n / 2; left > 0; left /= 2) {
      if (left == 1) to = y;
      halve<<<blocks_for(left), 256, 0, s>>>(to, from, static_cast<int>(left));
      from = to;
      to += left;
    }
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(1), 1));
                  }));
}

std::unique_ptr<Scenario> stencil(Arena& m) {
  const int width = 512, height = 512, steps = 100;
  const size_t n = static_cast<size_t>(width) * height;
  float* scratch[2] = {m.zeros<float>(n), m.zeros<float>(n)};
  float *const a = scratch[0], *const b = scratch[1];
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    const dim3 threads(32, 8), blocks(width / 32, height / 8);
    const float* from = x;
    for (int i = 0; i < steps; ++i) {
      float* to = i + 1 == steps ? y : i % 2 ? b : a;
      diffuse<<<blocks, threads, 0, s>>>(to, from, width, height);
      from = to;
    }
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

// Adam over 200 tensors: parameters and moments stay, the gradients lie elsewhere at each step, the rate
// changes.
std::unique_ptr<Scenario> optimizer(Arena& m) {
  const int tensors = 200;
  std::vector<int> sizes;
  for (int i = 0; i < tensors; ++i) sizes.push_back(256 << (i % 7));
  const auto work = [=](cudaStream_t s, const Argument* a) {
    float rate;
    std::memcpy(&rate, &a[4 * tensors].value, sizeof rate);
    for (int i = 0; i < tensors; ++i)
      adam<<<blocks_for(sizes[i]), 256, 0, s>>>(pointer<float>(a[4 * i]), pointer<float>(a[4 * i + 1]),
                                                pointer<float>(a[4 * i + 2]), pointer<float>(a[4 * i + 3]),
                                                sizes[i], rate);
    bench::launched();
  };
  std::vector<Argument> kept;
  for (int i = 0; i < tensors; ++i)
    for (int j = 0; j < 3; ++j)
      kept.push_back(argument(j == 0 ? m.filled<float>(sizes[i]) : m.zeros<float>(sizes[i]),
                              sizes[i] * sizeof(float), replay::Kind::InOut));
  return std::make_unique<Untyped>(
      work, make_sets([&](unsigned set) {
        std::vector<Argument> all;
        for (int i = 0; i < tensors; ++i) {
          for (int j = 0; j < 3; ++j) all.push_back(kept[3 * i + j]);
          all.push_back(argument(m.filled<float>(sizes[i]), sizes[i] * sizeof(float), replay::Kind::In));
        }
        const float rate = 0.001f * static_cast<float>(set + 1);
        Argument live{0, sizeof rate, replay::Kind::Live, replay::Element::F32, 0};
        std::memcpy(&live.value, &rate, sizeof rate);
        all.push_back(live);
        return all;
      }));
}

// h_t = tanh(x_t Wx + h_{t-1} Wh): a small product and a small kernel a step.
std::unique_ptr<Scenario> rnn(Arena& m) {
  const int steps = 50, rows = 32, width = 256;
  const size_t part = static_cast<size_t>(rows) * width, count = steps * part;
  const Handle blas = blas_handle();
  const float* wx = m.filled<float>(width * width);
  const float* wh = m.filled<float>(width * width);
  float* sums = m.zeros<float>(count);
  const auto work = [=](cudaStream_t s, const float* x, float* h) {
    bench::product(*blas, s, x, wx, sums, steps * rows, width, width);
    for (int t = 0; t < steps; ++t) {
      if (t > 0) bench::product(*blas, s, h + (t - 1) * part, wh, sums + t * part, rows, width, width, 1.0f);
      tanh_of<<<blocks_for(part), 256, 0, s>>>(h + t * part, sums + t * part, static_cast<int>(part));
    }
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(count), count), out(m.zeros<float>(count), count));
                  }));
}

// 64 products whose addresses lie in tables that are made on the host at every call.
std::unique_ptr<Scenario> pointer_table(Arena& m) {
  const int batch = 64, n = 64;
  const size_t part = static_cast<size_t>(n) * n, count = batch * part;
  const Handle blas = blas_handle();
  // In static memory, of which a recording can take a copy of its own.
  static float* table[3 * batch];
  float** on_device = m.zeros<float*>(3 * batch);
  const auto work = [=](cudaStream_t s, const float* a, const float* b, float* c) {
    for (int i = 0; i < batch; ++i) {
      table[i] = const_cast<float*>(a + i * part);
      table[batch + i] = const_cast<float*>(b + i * part);
      table[2 * batch + i] = c + i * part;
    }
    MUST(cudaMemcpyAsync(on_device, table, sizeof table, cudaMemcpyHostToDevice, s));
    const float one = 1.0f, zero = 0.0f;
    bench::must(bench::Blas::get().cublasSgemmBatched(blas->on(s), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                                                      on_device, n, on_device + batch, n, &zero,
                                                      on_device + 2 * batch, n, batch),
                "cublasSgemmBatched");
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(count), count), in(m.filled<float>(count), count),
                                      out(m.zeros<float>(count), count));
                  }));
}

// 50 kernels that hold a scalar which is another one at every call.
std::unique_ptr<Scenario> live_scalar(Arena& m) {
  const int n = 4096, steps = 50;
  const float* gradient = m.filled<float>(n);
  const auto work = [=](cudaStream_t s, float* w, float rate) {
    for (int i = 0; i < steps; ++i) descend<<<blocks_for(n), 256, 0, s>>>(w, gradient, n, rate);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned set) {
                    return std::tuple(inout(m.filled<float>(n), n),
                                      replay::live(0.01f * static_cast<float>(set + 1)));
                  }));
}

// Cannot be recorded: it waits in the middle.
std::unique_ptr<Scenario> synchronises(Arena& m) {
  const int n = 4096;
  float* scratch = m.zeros<float>(n);
  const auto work = [=](cudaStream_t s, const float* x, float* y) {
    for (int i = 0; i < 10; ++i) axpb<<<blocks_for(n), 256, 0, s>>>(scratch, i ? scratch : x, n, 0.5f, 1.0f);
    MUST(cudaStreamSynchronize(s));
    for (int i = 0; i < 10; ++i)
      axpb<<<blocks_for(n), 256, 0, s>>>(i == 9 ? y : scratch, scratch, n, 0.5f, 1.0f);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n));
                  }));
}

// Much arithmetic on the host, which depends on a plain argument only, then few kernels.
std::unique_ptr<Scenario> long_host_part(Arena& m) {
  const int n = 4096;
  const auto work = [](cudaStream_t s, const float* x, float* y, int count) {
    double a = 1.0 / count;
    for (int i = 0; i < 20000; ++i) a = std::sqrt(a * a + 1e-9 * (i % 7)) * 0.99999;
    for (int i = 0; i < 5; ++i)
      axpb<<<blocks_for(count), 256, 0, s>>>(y, i ? y : x, count, 0.5f + static_cast<float>(a), 1.0f);
    bench::launched();
  };
  return scenario(work, make_sets([&](unsigned) {
                    return std::tuple(in(m.filled<float>(n), n), out(m.zeros<float>(n), n), n);
                  }));
}

constexpr size_t kMiB = size_t{1} << 20;

struct Entry {
  const char* name;
  const char* what;
  bool blas;
  std::function<std::unique_ptr<Scenario>(Arena&)> make;
};
const Entry kEntries[] = {
    {"one tiny kernel", "1 kernel of 256 elements", false, one_tiny_kernel},
    {"chain of 10", "10 kernels of 4096 elements", false, [](Arena& m) { return chain(m, 10); }},
    {"chain of 100", "100 kernels of 4096 elements", false, [](Arena& m) { return chain(m, 100); }},
    {"chain of 1000", "1000 kernels of 4096 elements", false, [](Arena& m) { return chain(m, 1000); }},
    {"gather from 256 MiB", "1 kernel takes 16384 elements of a large input", false,
     [](Arena& m) { return gather_from(m, 256 * kMiB); }},
    {"sum of 64 MiB", "2 kernels, bandwidth-bound", false, [](Arena& m) { return sum_of(m, 64 * kMiB); }},
    {"few big kernels", "4 kernels, arithmetic-bound", false, few_big_kernels},
    {"500 readers of 16 KiB", "500 nodes hold one input and one output", false,
     [](Arena& m) { return many_readers(m, 16 * 1024); }},
    {"500 readers of 256 MiB", "the same with a large input", false,
     [](Arena& m) { return many_readers(m, 256 * kMiB); }},
    {"256 arguments", "128 kernels, each with an input and an output of its own", false, many_arguments},
    {"fork and join", "8 streams of 10 kernels", false, fork_join},
    {"mlp, small", "4 layers, cuBLAS fp32, 32 x 256", true, mlp_small},
    {"mlp, large", "3 layers, cuBLAS bf16, 4096 x 4096", true, mlp_large},
    {"attention", "cuBLAS batched products and softmax, 64 heads of 256 x 64", true, attention},
    {"elementwise 64 MiB", "6 kernels, bandwidth-bound", false,
     [](Arena& m) { return elementwise(m, 64 * kMiB); }},
    {"copies and fills", "19 nodes, 1-D and 2-D, on 1 MiB", false, copies_and_fills},
    {"cub sort, scan, sum", "of 262144 keys, temporary memory kept", false, cub_sort_scan_reduce},
    {"reduction tree", "18 kernels, each half as large", false, reduction_tree},
    {"stencil", "100 steps on 512 x 512", false, stencil},
    {"optimizer", "Adam over 200 tensors, 801 arguments", false, optimizer},
    {"rnn", "50 steps, cuBLAS fp32, 32 x 256", true, rnn},
    {"pointer table", "64 products by a table copied from the host", true, pointer_table},
    {"live scalar", "50 kernels hold a scalar that changes", false, live_scalar},
    {"synchronises", "20 kernels with a wait in the middle: no recording", false, synchronises},
    {"long host part", "5 kernels after some 100 us of host arithmetic", false, long_host_part},
    {"sizes never come again", "3 kernels of 4096 to 69632 elements, another size at each call", false,
     new_sizes},
};

}  // namespace
