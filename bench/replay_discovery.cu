// In what kinds of work a replay::Region finds its arguments, and whether what it replays is right.
//   bench_replay_discovery [--json FILE] [--trials N] [--seed S] [--only PART OF A NAME] [--check] [--list]
//   [--libs FOLDER:FOLDER]
// Exit code 77: there is no GPU; 1: a wrong result, or a region that threw; with --check also a row that is
// not as expected.
//
// First a table: each kind of work is called some times with other buffers at each call, and Region (policy
// always, proof exact) says what became of it: found (addresses are patched), staged (some arguments are
// copied), refused (no recording, so every call is plain) or plain (a scalar belongs to the signature, which
// does not come again). A recording that replays has passed the proof. Then random trials: a kind of work,
// sizes, buffers, options and changes drawn from the seed.
//
// How a result is judged: all buffers lie in one pool, and a second pool has the same contents. The region
// works in the first, the same calls are done plainly at the same places of the second, and then the whole
// pools must be equal, bit for bit: so a write to an address of an earlier call is seen wherever it goes.
// Page-locked host memory has two pools of its own. Outputs are overwritten before, so that what an earlier
// call left there does not count. Work whose plain runs differ among themselves (atomic additions) is
// compared within a tolerance. Last, four threads call one region.
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <cub/cub.cuh>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "replay_bench.h"

namespace replay = rondo::replay;
using bench::Type;
using replay::Argument;
using replay::Kind;

namespace {

// ---------------------------------------------------------------- what a kind of work is
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // From first to last, both included.
  int between(int first, int last) {
    return first + static_cast<int>(engine_() % static_cast<uint64_t>(last - first + 1));
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < p; }
  float number() { return static_cast<float>(between(-4096, 4096)) / 1024.0f; }
  uint32_t bits() { return static_cast<uint32_t>(engine_() >> 32); }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

// One argument: a buffer, or a scalar that a trial may change.
struct Spec {
  Kind kind = Kind::In;
  Type type = Type::F32;
  size_t count = 0;      // of elements; a scalar has none
  size_t alignment = 4;  // that the work needs
  uint32_t range = 1;    // of Type::Index
  bool host = false;     // page-locked host memory
  int same_as = -1;      // may be given the same address as this argument
  bool integer = false;  // a scalar: its value is 1 to `most`, else any float
  int most = 0;
  bool buffer() const { return kind <= Kind::InOut; }
  size_t bytes() const { return count * bench::size_of(type); }
};
Spec input(Type t, size_t n, size_t alignment = 4) {
  return {Kind::In, t, n, std::max(alignment, bench::size_of(t))};
}
Spec output(Type t, size_t n, size_t alignment = 4) {
  return {Kind::Out, t, n, std::max(alignment, bench::size_of(t))};
}
Spec changed(Type t, size_t n, size_t alignment = 4) {
  return {Kind::InOut, t, n, std::max(alignment, bench::size_of(t))};
}
Spec live_float() { return {Kind::Live}; }
Spec live_int(int most) {
  Spec s{Kind::Live};
  s.integer = true, s.most = most;
  return s;
}
Spec fixed_int(int most) {
  Spec s = live_int(most);
  s.kind = Kind::Fixed;
  return s;
}

using Work = std::function<void(cudaStream_t, const Argument*)>;
struct Made {
  std::vector<Spec> specs;
  Work work;
  std::string sizes;
  replay::Proof proof = replay::Proof::exact;
  bool alone = false;  // a call is waited for before the next one
  bool host_tables = false;
};

enum class Outcome { Found, Staged, Refused, Plain };
const char* name(Outcome o) {
  const char* const names[] = {"found", "staged", "refused", "plain"};
  return names[static_cast<int>(o)];
}

enum class Needs { Nothing, Blas, BlasLt, Dnn };
struct Family {
  const char* name;
  std::vector<Outcome> expected;
  Needs needs;
  std::function<Made(Random&)> make;
  bool in_trials = true;  // false: the work breaks the contract, so that only a refusal is right
  // false: not among others in the random trials, only where --only asks for it. With these two among them (and
  // so other draws for all) one run of 1,000 trials did not come to its end, which is not understood yet
  // (docs/replay.md, section 13); alone each is fine.
  bool mixed = true;
};

template <class T>
T* pointer(const Argument& a) {
  return reinterpret_cast<T*>(a.value);
}
template <class T>
T scalar(const Argument& a) {
  T value;
  std::memcpy(&value, &a.value, sizeof value);
  return value;
}
int blocks_for(size_t n) { return static_cast<int>((n + 255) / 256); }
template <class... T>
std::string sizes(const T&... n) {
  std::string text;
  ((text += (text.empty() ? "" : " x ") + std::to_string(n)), ...);
  return text;
}

// Device memory that the work keeps (weights, temporary memory, tables): the same in every call.
class Kept {
 public:
  explicit Kept(size_t bytes) { MUST(cudaMalloc(&data_, std::max<size_t>(bytes, 1))); }
  ~Kept() { (void)cudaFree(data_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};
std::shared_ptr<Kept> keep(size_t bytes) { return std::make_shared<Kept>(bytes); }

// Host memory of the work's own, for tables that it copies to the device. A recording takes a copy of what
// lies in static and page-locked memory; memory from the heap may be gone when it looks, so that must be
// refused unless Options::host_tables promises that it is not.
enum class Host { Heap, HeapPromised, Static, PageLocked };
alignas(16) char static_tables[2][16384];
class Table {
 public:
  Table(Host where, size_t bytes, int which = 0) : where_(where) {
    if (where == Host::Static) {
      if (bytes > sizeof static_tables[0])
        throw rondo::Error(rondo::ErrorKind::Internal, "a static table is too small");
      data_ = static_tables[which];
    } else if (where == Host::PageLocked) {
      MUST(cudaMallocHost(&data_, bytes));
    } else {
      heap_.resize(bytes);
      data_ = heap_.data();
    }
  }
  ~Table() {
    if (where_ == Host::PageLocked) (void)cudaFreeHost(data_);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Host where_;
  void* data_ = nullptr;
  std::vector<char> heap_;
};

// ---------------------------------------------------------------- own kernels
__global__ void axpb(float* y, const float* x, int n, float a, float b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}
__global__ void axpb4(float4* y, const float4* x, int n, float a, float b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 v = x[i];
  y[i] = {a * v.x + b, a * v.y + b, a * v.z + b, a * v.w + b};
}
struct Pair {
  const float* x;
  float* y;
  int n;
  float a;
};
__global__ void by_struct(Pair p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.n) p.y[i] = p.a * p.x[i];
}
// As multi-tensor kernels have it: kilobytes of addresses and sizes by value.
struct Many {
  const float* x[48];
  float* y[48];
  int n[48];
  char padding[2048];
  float a;
};
__global__ void by_big_struct(const __grid_constant__ Many m) {
  const int t = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m.n[t]) m.y[t][i] = m.a * m.x[t][i];
}
__global__ void from_to(float* y, const float* first, const float* last) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (first + i < last) y[i] = 2.0f * first[i];
}
__global__ void by_table(float* const* table, int tensors, int n, float a) {
  const int t = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) table[tensors + t][i] = a * table[t][i] + 1.0f;
}
__global__ void make_table(const float** table, const float* base, int count, size_t stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) table[i] = base + i * stride;
}
// In bounds whatever the indices: a later call of a burst may have overwritten them.
__global__ void gather(float* y, const float* x, uint32_t from, const uint32_t* index, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[index[i] % from];
}
// Does nothing with `other`.
__global__ void holds_another(float* y, const float* x, const float* other, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
  if (n < 0) y[0] = other[0];
}
__global__ void element(float* y, const float* x, int i) {
  if (threadIdx.x == 0) y[i] = 3.0f * x[i] + 1.0f;
}
__global__ void add_all(float* sum, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, fabsf(x[i]));
}
__global__ void scale_by(float* y, const float* x, const float* factors, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factors[i % 16] * x[i];
}
// A block's 256 numbers come by a tensor map, which holds the address in a form of the driver's own.
__global__ void by_tensor_map(const __grid_constant__ CUtensorMap map, float* y, int n) {
  __shared__ alignas(128) float tile[256];
  __shared__ alignas(8) uint64_t arrived;
  const auto bar = static_cast<uint32_t>(__cvta_generic_to_shared(&arrived));
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  const int first = static_cast<int>(blockIdx.x) * 256;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(to),
        "l"(&map), "r"(first), "r"(bar)
        : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nAGAIN%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra AGAIN%=;\n}" ::"r"(bar)
      : "memory");
  const int i = first + static_cast<int>(threadIdx.x);
  if (i < n) y[i] = 3.0f * tile[threadIdx.x];
}
void bump(void* count) { ++*static_cast<int*>(count); }

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
EncodeTiled encode_tiled() {
  static const auto found = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    return library ? reinterpret_cast<EncodeTiled>(dlsym(library, "cuTensorMapEncodeTiled")) : nullptr;
  }();
  if (!found) throw std::runtime_error("libcuda has no cuTensorMapEncodeTiled");
  return found;
}

Made tensor_map(Random& r) {
  const int n = r.between(1, 20000);
  return {{input(Type::F32, n, 16), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            CUtensorMap map;
            const cuuint64_t dims[1] = {static_cast<cuuint64_t>(n)}, strides[1] = {0};
            const cuuint32_t box[1] = {256}, steps[1] = {1};
            if (encode_tiled()(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, pointer<float>(a[0]), dims, strides, box, steps,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
              throw std::runtime_error("cuTensorMapEncodeTiled refuses the buffer");
            by_tensor_map<<<blocks_for(n), 256, 0, s>>>(map, pointer<float>(a[1]), n);
            bench::launched();
          },
          sizes(n)};
}

Made chain(Random& r, int kernels) {
  const int n = r.between(1, 20000);
  const auto scratch = keep(n * sizeof(float));
  return {{input(Type::F32, n), output(Type::F32, n), live_float(), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            float* t = scratch->as<float>();
            const float f = scalar<float>(a[2]), g = scalar<float>(a[3]);
            axpb<<<blocks_for(n), 256, 0, s>>>(t, pointer<float>(a[0]), n, f, g);
            for (int i = 2; i < kernels; ++i) axpb<<<blocks_for(n), 256, 0, s>>>(t, t, n, 0.5f, g);
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), t, n, 0.5f, 1.0f);
            bench::launched();
          },
          sizes(n, kernels)};
}

Made by_value_struct(Random& r) {
  const int n = r.between(1, 20000);
  return {{input(Type::F32, n), output(Type::F32, n), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            by_struct<<<blocks_for(n), 256, 0, s>>>(
                Pair{pointer<float>(a[0]), pointer<float>(a[1]), n, scalar<float>(a[2])});
            bench::launched();
          },
          sizes(n)};
}

Made multi_tensor(Random& r) {
  const int tensors = r.between(2, 48);
  std::vector<int> n;
  Made made;
  for (int i = 0; i < tensors; ++i) {
    n.push_back(r.between(1, 2000));
    made.specs.push_back(input(Type::F32, n.back()));
    made.specs.push_back(output(Type::F32, n.back()));
  }
  made.specs.push_back(live_float());
  made.work = [=](cudaStream_t s, const Argument* a) {
    Many m;
    std::memset(&m, 0, sizeof m);
    for (int i = 0; i < tensors; ++i)
      m.x[i] = pointer<float>(a[2 * i]), m.y[i] = pointer<float>(a[2 * i + 1]), m.n[i] = n[i];
    m.a = scalar<float>(a[2 * tensors]);
    by_big_struct<<<dim3(8, tensors), 256, 0, s>>>(m);
    bench::launched();
  };
  made.sizes = sizes(tensors);
  return made;
}

// The kernel takes twice the scalar, which no word of the graph shows.
Made derived_scalar(Random& r) {
  const int n = r.between(1, 20000);
  return {{input(Type::F32, n), output(Type::F32, n), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n,
                                               2.0f * scalar<float>(a[2]), 1.0f);
            bench::launched();
          },
          sizes(n)};
}

// The scalar decides how much is launched.
Made deciding_scalar(Random& r) {
  const int n = r.between(2000, 20000);
  return {{input(Type::F32, n), changed(Type::F32, n), live_int(3)},
          [=](cudaStream_t s, const Argument* a) {
            for (int i = 0; i < scalar<int>(a[2]); ++i)
              axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 0.5f,
                                                 static_cast<float>(i));
            bench::launched();
          },
          sizes(n)};
}

// A plain scalar that takes few values: a recording for each.
Made fixed_scalar(Random& r) {
  const int n = r.between(2000, 20000);
  return {{input(Type::F32, n), changed(Type::F32, n), fixed_int(2)},
          [=](cudaStream_t s, const Argument* a) {
            const int used = n / scalar<int>(a[2]);
            axpb<<<blocks_for(used), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), used, 0.5f,
                                                  1.0f);
            bench::launched();
          },
          sizes(n)};
}

Made interior_pointers(Random& r) {
  const int n = r.between(100, 20000), from = r.between(1, n / 2), to = r.between(1, n / 2);
  const int count = n - std::max(from, to);
  return {{input(Type::F32, n), changed(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            axpb<<<blocks_for(count), 256, 0, s>>>(pointer<float>(a[1]) + to, pointer<float>(a[0]) + from,
                                                   count, 2.0f, 1.0f);
            axpb<<<1, 1, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]) + n - 1, 1, 2.0f, 1.0f);
            bench::launched();
          },
          sizes(n, from, to)};
}

// An address that is one past the end, as iterators have it.
Made end_pointer(Random& r) {
  const int n = r.between(1, 20000);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            const float* x = pointer<float>(a[0]);
            from_to<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), x, x + n);
            bench::launched();
          },
          sizes(n)};
}

Made in_place(Random& r) {
  const int n = r.between(1, 20000), kernels = r.between(1, 10);
  return {{changed(Type::F32, n), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            float* x = pointer<float>(a[0]);
            for (int i = 0; i < kernels; ++i)
              axpb<<<blocks_for(n), 256, 0, s>>>(x, x, n, 0.5f, scalar<float>(a[1]));
            bench::launched();
          },
          sizes(n, kernels)};
}

// The same memory given as an input and as an output, or not.
Made in_place_by_two(Random& r) {
  const int n = r.between(1, 20000);
  Made made{{input(Type::F32, n), output(Type::F32, n)},
            [=](cudaStream_t s, const Argument* a) {
              axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 0.5f, 1.0f);
              bench::launched();
            },
            sizes(n)};
  made.specs[1].same_as = 0;
  return made;
}

// What elementwise libraries do: another kernel where the addresses are a multiple of 16.
Made by_alignment(Random& r) {
  const int n = 4 * r.between(1, 5000);
  return {{input(Type::F32, n), output(Type::F32, n), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            const float f = scalar<float>(a[2]);
            if ((a[0].value | a[1].value) % 16 == 0)
              axpb4<<<blocks_for(n / 4), 256, 0, s>>>(pointer<float4>(a[1]), pointer<float4>(a[0]), n / 4, f,
                                                      1.0f);
            else
              axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, f, 1.0f);
            bench::launched();
          },
          sizes(n)};
}

// Addresses written into a host table and copied by a node of the graph.
Made table_from_host(Random& r, Host where) {
  const int tensors = r.between(1, 24), n = r.between(1, 2000);
  Made made;
  for (int i = 0; i < 2 * tensors; ++i)
    made.specs.push_back(i < tensors ? input(Type::F32, n) : output(Type::F32, n));
  made.specs.push_back(live_float());
  const size_t bytes = 2 * tensors * sizeof(float*);
  const auto table = std::make_shared<Table>(where, bytes);
  const auto on_device = keep(bytes);
  made.work = [=](cudaStream_t s, const Argument* a) {
    for (int i = 0; i < 2 * tensors; ++i) table->as<float*>()[i] = pointer<float>(a[i]);
    MUST(cudaMemcpyAsync(on_device->data(), table->as<void>(), bytes, cudaMemcpyHostToDevice, s));
    by_table<<<dim3(blocks_for(n), tensors), 256, 0, s>>>(on_device->as<float*>(), tensors, n,
                                                          scalar<float>(a[2 * tensors]));
    bench::launched();
  };
  made.sizes = sizes(tensors, n);
  made.host_tables = where == Host::HeapPromised;
  made.alone = where == Host::PageLocked;  // the copy reads it later, so it may not be written meanwhile
  return made;
}

// Two tables, one of them of addresses inside of two arguments, the other of plain numbers.
Made two_tables(Random& r) {
  const int rows = r.between(2, 32), n = r.between(1, 1000);
  const size_t count = static_cast<size_t>(rows) * n, bytes = 2 * rows * sizeof(float*);
  const auto table = std::make_shared<Table>(Host::Static, bytes),
             factors = std::make_shared<Table>(Host::Static, 64, 1);
  for (int i = 0; i < 16; ++i) factors->as<float>()[i] = r.number();
  const auto on_device = keep(bytes), factors_on_device = keep(64);
  return {
      {input(Type::F32, count), changed(Type::F32, count)},
      [=](cudaStream_t s, const Argument* a) {
        for (int i = 0; i < rows; ++i) {
          table->as<float*>()[i] = pointer<float>(a[0]) + static_cast<size_t>(rows - 1 - i) * n;
          table->as<float*>()[rows + i] = pointer<float>(a[1]) + static_cast<size_t>(i) * n;
        }
        MUST(cudaMemcpyAsync(on_device->data(), table->as<void>(), bytes, cudaMemcpyHostToDevice, s));
        MUST(cudaMemcpyAsync(factors_on_device->data(), factors->as<void>(), 64, cudaMemcpyHostToDevice, s));
        by_table<<<dim3(blocks_for(n), rows), 256, 0, s>>>(on_device->as<float*>(), rows, n, 0.5f);
        scale_by<<<blocks_for(count), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[1]),
                                                   factors_on_device->as<float>(), static_cast<int>(count));
        bench::launched();
      },
      sizes(rows, n)};
}

Made copies_and_fills(Random& r) {
  const int width = r.between(2, 200), height = r.between(1, 60), part = r.between(1, width / 2);
  const size_t n = static_cast<size_t>(width) * height;
  return {{input(Type::F32, n), changed(Type::F32, n), output(Type::U8, n, 1)},
          [=](cudaStream_t s, const Argument* a) {
            const size_t pitch = width * sizeof(float);
            MUST(cudaMemcpyAsync(pointer<float>(a[1]), pointer<float>(a[0]) + n / 2,
                                 (n - n / 2) * sizeof(float), cudaMemcpyDeviceToDevice, s));
            MUST(cudaMemcpy2DAsync(pointer<float>(a[1]) + part, pitch, pointer<float>(a[0]), pitch,
                                   (width - part) * sizeof(float), height, cudaMemcpyDeviceToDevice, s));
            MUST(cudaMemset2DAsync(pointer<float>(a[1]), pitch, 0x41, part * sizeof(float), height, s));
            MUST(cudaMemsetAsync(pointer<uint8_t>(a[2]), 7, n, s));
            MUST(cudaMemsetAsync(pointer<uint8_t>(a[2]) + n / 3, 9, n / 3 + 1, s));
          },
          sizes(width, height)};
}

// Both ends in page-locked host memory that is an argument.
Made host_arguments(Random& r) {
  const int n = r.between(1, 4000);
  const auto staged = keep(n * sizeof(float));
  Made made{{input(Type::F32, n), output(Type::F32, n), live_float()},
            [=](cudaStream_t s, const Argument* a) {
              float* t = staged->as<float>();
              MUST(cudaMemcpyAsync(t, pointer<float>(a[0]), n * sizeof(float), cudaMemcpyHostToDevice, s));
              axpb<<<blocks_for(n), 256, 0, s>>>(t, t, n, scalar<float>(a[2]), 1.0f);
              MUST(cudaMemcpyAsync(pointer<float>(a[1]), t, n * sizeof(float), cudaMemcpyDeviceToHost, s));
              bench::launched();
            },
            sizes(n)};
  made.specs[0].host = made.specs[1].host = true;
  return made;
}

struct Sides {
  Sides() {
    for (int i = 0; i < 2; ++i) {
      MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
      MUST(cudaEventCreateWithFlags(&joined[i], cudaEventDisableTiming));
    }
    MUST(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  }
  ~Sides() {
    for (int i = 0; i < 2; ++i) (void)cudaStreamDestroy(stream[i]), (void)cudaEventDestroy(joined[i]);
    (void)cudaEventDestroy(forked);
  }
  cudaStream_t stream[2] = {};
  cudaEvent_t joined[2] = {}, forked = nullptr;
};
Made fork_join(Random& r) {
  const int n = r.between(2, 10000), half = n / 2;
  const auto sides = std::make_shared<Sides>();
  return {{input(Type::F32, n), changed(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            MUST(cudaEventRecord(sides->forked, s));
            for (int i = 0; i < 2; ++i) {
              MUST(cudaStreamWaitEvent(sides->stream[i], sides->forked, 0));
              axpb<<<blocks_for(half), 256, 0, sides->stream[i]>>>(pointer<float>(a[1]) + i * half,
                                                                   pointer<float>(a[0]) + (1 - i) * half,
                                                                   half, 0.5f, static_cast<float>(i));
              MUST(cudaEventRecord(sides->joined[i], sides->stream[i]));
              MUST(cudaStreamWaitEvent(s, sides->joined[i], 0));
            }
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[1]), n, 2.0f, 0.0f);
            bench::launched();
          },
          sizes(n)};
}

Made atomic_sum(Random& r) {
  const int n = r.between(100, 20000);
  return {{input(Type::F32, n), output(Type::F32, 1)},
          [=](cudaStream_t s, const Argument* a) {
            MUST(cudaMemsetAsync(pointer<float>(a[1]), 0, sizeof(float), s));
            add_all<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n);
            bench::launched();
          },
          sizes(n),
          replay::Proof::tolerance};
}

// 200 nodes hold each argument: copying is cheaper than writing them all.
Made many_holders(Random& r) {
  const int n = r.between(200, 400);
  return {{input(Type::F32, n), changed(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            for (int i = 0; i < 200; ++i)
              element<<<1, 32, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), i);
            bench::launched();
          },
          sizes(n)};
}

Made index_lookup(Random& r) {
  const int n = r.between(1, 10000), from = r.between(1, 20000);
  Made made{{input(Type::F32, from), input(Type::Index, n), output(Type::F32, n)},
            [=](cudaStream_t s, const Argument* a) {
              gather<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[2]), pointer<float>(a[0]),
                                                   static_cast<uint32_t>(from), pointer<uint32_t>(a[1]), n);
              bench::launched();
            },
            sizes(n, from)};
  made.specs[1].range = static_cast<uint32_t>(from);
  return made;
}

Made host_function(Random& r) {
  const int n = r.between(1, 10000);
  const auto count = std::make_shared<int>(0);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 2.0f, 1.0f);
            bench::launched();
            MUST(cudaLaunchHostFunc(s, bump, count.get()));
          },
          sizes(n)};
}

Made synchronises(Random& r) {
  const int n = r.between(1, 10000);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 2.0f, 1.0f);
            MUST(cudaStreamSynchronize(s));
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[1]), n, 2.0f, 1.0f);
            bench::launched();
          },
          sizes(n)};
}

// Looks at a result, and goes on accordingly.
Made looks_at_results(Random& r) {
  const int n = r.between(1, 10000);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            float first = 0;
            MUST(cudaMemcpyAsync(&first, pointer<float>(a[0]), sizeof first, cudaMemcpyDeviceToHost, s));
            MUST(cudaStreamSynchronize(s));
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 2.0f,
                                               first > 0 ? 1.0f : -1.0f);
            bench::launched();
          },
          sizes(n)};
}

Made allocates(Random& r) {
  const int n = r.between(1, 10000);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            float* t = nullptr;
            MUST(cudaMalloc(&t, n * sizeof(float)));
            axpb<<<blocks_for(n), 256, 0, s>>>(t, pointer<float>(a[0]), n, 2.0f, 1.0f);
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), t, n, 2.0f, 1.0f);
            bench::launched();
            MUST(cudaFree(t));
          },
          sizes(n)};
}

// Becomes nodes that allocate and free.
Made allocates_in_order(Random& r) {
  const int n = r.between(1, 10000);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            void* t = nullptr;
            MUST(cudaMallocAsync(&t, n * sizeof(float), s));
            axpb<<<blocks_for(n), 256, 0, s>>>(static_cast<float*>(t), pointer<float>(a[0]), n, 2.0f, 1.0f);
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), static_cast<float*>(t), n, 2.0f, 1.0f);
            bench::launched();
            MUST(cudaFreeAsync(t, s));
          },
          sizes(n)};
}

// Breaks the contract: gives its kernel an argument of the call before. The kernel does not look there, so
// that the results are the same, and nothing reads memory that is gone.
Made remembers_an_address(Random& r) {
  const int n = r.between(1, 10000);
  const auto last = std::make_shared<const float*>(nullptr);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            holds_another<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), *last, n);
            bench::launched();
            *last = pointer<float>(a[0]);
          },
          sizes(n)};
}

// Breaks the contract: launches less at every call.
Made counts_its_calls(Random& r) {
  const int n = r.between(1, 10000);
  const auto calls = std::make_shared<int>(0);
  return {{input(Type::F32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            axpb<<<blocks_for(n), 256, 0, s>>>(pointer<float>(a[1]), pointer<float>(a[0]), n, 2.0f,
                                               static_cast<float>(++*calls));
            bench::launched();
          },
          sizes(n)};
}

// ---------------------------------------------------------------- cuBLAS
const bench::BlasHandle& blas_handle() {
  static const auto* handle = new bench::BlasHandle;  // never destroyed: cuBLAS may be gone before
  return *handle;
}
const bench::Blas& blas() { return bench::Blas::get(); }

struct Product {
  int m, n, k;
  cublasOperation_t ta, tb;
  int lda() const { return ta == CUBLAS_OP_N ? m : k; }
  int ldb() const { return tb == CUBLAS_OP_N ? k : n; }
  size_t a() const { return static_cast<size_t>(m) * k; }
  size_t b() const { return static_cast<size_t>(k) * n; }
  size_t c() const { return static_cast<size_t>(m) * n; }
  std::string sizes() const { return ::sizes(m, n, k) + (ta ? " T" : " N") + (tb ? "T" : "N"); }
};
Product product(Random& r, int most) {
  const auto size = [&] { return r.chance(0.5) ? 8 * r.between(1, most / 8) : r.between(1, most); };
  return {size(), size(), size(), r.chance(0.5) ? CUBLAS_OP_T : CUBLAS_OP_N,
          r.chance(0.5) ? CUBLAS_OP_T : CUBLAS_OP_N};
}

// alpha is a live scalar, which the library is free to take as it is or not.
Made sgemm(Random& r) {
  const Product p = product(r, 256);
  const float beta = r.chance(0.5) ? 0.0f : 1.0f;
  return {{input(Type::F32, p.a()), input(Type::F32, p.b()),
           beta == 0.0f ? output(Type::F32, p.c()) : changed(Type::F32, p.c()), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            const float alpha = scalar<float>(a[3]);
            bench::must(blas().cublasSgemm_v2(blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &alpha,
                                              pointer<float>(a[0]), p.lda(), pointer<float>(a[1]), p.ldb(),
                                              &beta, pointer<float>(a[2]), p.m),
                        "cublasSgemm");
          },
          p.sizes()};
}

Made gemm_of(Random& r, Type type, cudaDataType data, cublasComputeType_t compute, int most = 512) {
  const Product p = product(r, most);
  return {{input(type, p.a()), input(type, p.b()), output(type, p.c())},
          [=](cudaStream_t s, const Argument* a) {
            const float one = 1.0f, zero = 0.0f;
            bench::must(
                blas().cublasGemmEx(blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one, pointer<void>(a[0]),
                                    data, p.lda(), pointer<void>(a[1]), data, p.ldb(), &zero,
                                    pointer<void>(a[2]), data, p.m, compute, CUBLAS_GEMM_DEFAULT),
                "cublasGemmEx");
          },
          p.sizes()};
}

// Few results of long sums: cuBLAS splits the sums and adds the parts in its workspace.
Made split_k(Random& r) {
  const Product p{r.between(1, 64), r.between(1, 64), r.between(4096, 32768), CUBLAS_OP_T, CUBLAS_OP_N};
  return {{input(Type::F32, p.a()), input(Type::F32, p.b()), output(Type::F32, p.c())},
          [=](cudaStream_t s, const Argument* a) {
            const float one = 1.0f, zero = 0.0f;
            bench::must(blas().cublasSgemm_v2(blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one,
                                              pointer<float>(a[0]), p.lda(), pointer<float>(a[1]), p.ldb(),
                                              &zero, pointer<float>(a[2]), p.m),
                        "cublasSgemm");
          },
          p.sizes()};
}

Made gemv(Random& r) {
  const int m = r.between(1, 2000), n = r.between(1, 500);
  const cublasOperation_t t = r.chance(0.5) ? CUBLAS_OP_T : CUBLAS_OP_N;
  return {{input(Type::F32, static_cast<size_t>(m) * n), input(Type::F32, t ? m : n),
           output(Type::F32, t ? n : m), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            const float alpha = scalar<float>(a[3]), zero = 0.0f;
            bench::must(blas().cublasSgemv_v2(blas_handle().on(s), t, m, n, &alpha, pointer<float>(a[0]), m,
                                              pointer<float>(a[1]), 1, &zero, pointer<float>(a[2]), 1),
                        "cublasSgemv");
          },
          sizes(m, n)};
}

// Tables of addresses: made on the host and copied, or made by a kernel of the region.
Made batched(Random& r, bool table_by_kernel) {
  const Product p = product(r, 64);
  const int batch = r.between(1, 32);
  const size_t bytes = 3 * batch * sizeof(void*);
  const auto table = std::make_shared<Table>(Host::Static, bytes);
  const auto on_device = keep(bytes);
  return {
      {input(Type::F32, p.a() * batch), input(Type::F32, p.b() * batch), output(Type::F32, p.c() * batch)},
      [=](cudaStream_t s, const Argument* a) {
        const size_t parts[] = {p.a(), p.b(), p.c()};
        const float** t = on_device->as<const float*>();
        for (int j = 0; j < 3; ++j)
          if (table_by_kernel)
            make_table<<<1, 32, 0, s>>>(t + j * batch, pointer<float>(a[j]), batch, parts[j]);
          else
            for (int i = 0; i < batch; ++i)
              table->as<const float*>()[j * batch + i] = pointer<float>(a[j]) + i * parts[j];
        bench::launched();
        if (!table_by_kernel) MUST(cudaMemcpyAsync(t, table->as<void>(), bytes, cudaMemcpyHostToDevice, s));
        const float one = 1.0f, zero = 0.0f;
        bench::must(blas().cublasSgemmBatched(blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one, t,
                                              p.lda(), t + batch, p.ldb(), &zero,
                                              const_cast<float**>(t + 2 * batch), p.m, batch),
                    "cublasSgemmBatched");
      },
      p.sizes() + ", " + std::to_string(batch)};
}

Made batched_half(Random& r) {
  Product p = product(r, 64);
  const int batch = r.between(1, 16);
  const size_t bytes = 3 * batch * sizeof(void*);
  const auto table = std::make_shared<Table>(Host::Static, bytes);
  const auto on_device = keep(bytes);
  return {
      {input(Type::F16, p.a() * batch), input(Type::F16, p.b() * batch), output(Type::F16, p.c() * batch)},
      [=](cudaStream_t s, const Argument* a) {
        const size_t parts[] = {p.a(), p.b(), p.c()};
        for (int j = 0; j < 3; ++j)
          for (int i = 0; i < batch; ++i)
            table->as<void*>()[j * batch + i] = pointer<__half>(a[j]) + i * parts[j];
        void** t = on_device->as<void*>();
        MUST(cudaMemcpyAsync(t, table->as<void>(), bytes, cudaMemcpyHostToDevice, s));
        const float one = 1.0f, zero = 0.0f;
        bench::must(
            blas().cublasGemmBatchedEx(blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one, t, CUDA_R_16F,
                                       p.lda(), t + batch, CUDA_R_16F, p.ldb(), &zero, t + 2 * batch,
                                       CUDA_R_16F, p.m, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmBatchedEx");
      },
      p.sizes() + ", " + std::to_string(batch)};
}

Made strided(Random& r) {
  const Product p = product(r, 96);
  const int batch = r.between(1, 32);
  return {
      {input(Type::F32, p.a() * batch), input(Type::F32, p.b() * batch), output(Type::F32, p.c() * batch)},
      [=](cudaStream_t s, const Argument* a) {
        const float one = 1.0f, zero = 0.0f;
        bench::must(
            blas().cublasSgemmStridedBatched(
                blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one, pointer<float>(a[0]), p.lda(),
                static_cast<long long>(p.a()), pointer<float>(a[1]), p.ldb(), static_cast<long long>(p.b()),
                &zero, pointer<float>(a[2]), p.m, static_cast<long long>(p.c()), batch),
            "cublasSgemmStridedBatched");
      },
      p.sizes() + ", " + std::to_string(batch)};
}

Made strided_half(Random& r) {
  const Product p = product(r, 128);
  const int batch = r.between(1, 16);
  return {
      {input(Type::BF16, p.a() * batch), input(Type::BF16, p.b() * batch), output(Type::BF16, p.c() * batch)},
      [=](cudaStream_t s, const Argument* a) {
        const float one = 1.0f, zero = 0.0f;
        bench::must(blas().cublasGemmStridedBatchedEx(
                        blas_handle().on(s), p.ta, p.tb, p.m, p.n, p.k, &one, pointer<void>(a[0]),
                        CUDA_R_16BF, p.lda(), static_cast<long long>(p.a()), pointer<void>(a[1]), CUDA_R_16BF,
                        p.ldb(), static_cast<long long>(p.b()), &zero, pointer<void>(a[2]), CUDA_R_16BF, p.m,
                        static_cast<long long>(p.c()), batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                    "cublasGemmStridedBatchedEx");
      },
      p.sizes() + ", " + std::to_string(batch)};
}

// ---------------------------------------------------------------- cuBLASLt
const bench::BlasLt& lt() { return bench::BlasLt::get(); }
cublasLtHandle_t lt_handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t h = nullptr;
    bench::must(lt().cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  return handle;
}

// A product with an epilogue, its algorithm chosen once.
struct LtProduct {
  LtProduct(int m, int n, int k, cudaDataType data, cublasLtEpilogue_t epilogue) {
    bench::must(lt().cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
    bench::must(lt().cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                    sizeof epilogue),
                "cublasLtMatmulDescSetAttribute");
    const cublasOperation_t t = CUBLAS_OP_T;
    bench::must(lt().cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t),
                "cublasLtMatmulDescSetAttribute");
    bench::must(lt().cublasLtMatrixLayoutCreate(&a, data, k, m, k), "cublasLtMatrixLayoutCreate");
    bench::must(lt().cublasLtMatrixLayoutCreate(&b, data, k, n, k), "cublasLtMatrixLayoutCreate");
    bench::must(lt().cublasLtMatrixLayoutCreate(&c, data, m, n, m), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    bench::must(lt().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    bench::must(lt().cublasLtMatmulPreferenceSetAttribute(
                    preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace),
                "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = lt().cublasLtMatmulAlgoGetHeuristic(lt_handle(), operation, a, b, c, c,
                                                                      preference, 1, &found, &count);
    (void)lt().cublasLtMatmulPreferenceDestroy(preference);
    bench::must(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0)
      throw rondo::Error(rondo::ErrorKind::Device, "cuBLASLt knows no algorithm for this product");
    algorithm = found.algo;
  }
  ~LtProduct() {
    (void)lt().cublasLtMatrixLayoutDestroy(a);
    (void)lt().cublasLtMatrixLayoutDestroy(b);
    (void)lt().cublasLtMatrixLayoutDestroy(c);
    (void)lt().cublasLtMatmulDescDestroy(operation);
  }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  void run(cudaStream_t s, const void* x, const void* y, const void* bias, void* out) {
    const float one = 1.0f, zero = 0.0f;
    bench::must(
        lt().cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
        "cublasLtMatmulDescSetAttribute");
    bench::must(lt().cublasLtMatmul(lt_handle(), operation, &one, x, a, y, b, &zero, out, c, out, c,
                                    &algorithm, workspace.data(), kWorkspace, s),
                "cublasLtMatmul");
  }
  static constexpr size_t kWorkspace = size_t{4} << 20;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Kept workspace{kWorkspace};
};

Made lt_product(Random& r, cublasLtEpilogue_t epilogue) {
  const int m = 8 * r.between(1, 64), n = 8 * r.between(1, 64), k = 8 * r.between(1, 64);
  const bool half = r.chance(0.5);
  const Type type = half ? Type::BF16 : Type::F32;
  const auto p = std::make_shared<LtProduct>(m, n, k, half ? CUDA_R_16BF : CUDA_R_32F, epilogue);
  return {{input(type, static_cast<size_t>(k) * m, 256), input(type, static_cast<size_t>(k) * n, 256),
           input(type, m, 256), output(type, static_cast<size_t>(m) * n, 256)},
          [=](cudaStream_t s, const Argument* a) {
            p->run(s, pointer<void>(a[0]), pointer<void>(a[1]), pointer<void>(a[2]), pointer<void>(a[3]));
          },
          sizes(m, n, k) + (half ? " bf16" : " fp32")};
}

// ---------------------------------------------------------------- cuDNN, by its older interface
#if BENCH_HAS_CUDNN
const bench::Dnn& dnn() { return bench::Dnn::get(); }
cudnnHandle_t dnn_on(cudaStream_t s) {
  static const cudnnHandle_t handle = [] {
    cudnnHandle_t h = nullptr;
    bench::must(dnn().cudnnCreate(&h), "cudnnCreate");
    return h;
  }();
  bench::must(dnn().cudnnSetStream(handle, s), "cudnnSetStream");
  return handle;
}

struct Image4 {
  Image4(int n, int c, int h, int w) : count(static_cast<size_t>(n) * c * h * w) {
    bench::must(dnn().cudnnCreateTensorDescriptor(&tensor), "cudnnCreateTensorDescriptor");
    bench::must(dnn().cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w),
                "cudnnSetTensor4dDescriptor");
  }
  ~Image4() { (void)dnn().cudnnDestroyTensorDescriptor(tensor); }
  Image4(const Image4&) = delete;
  Image4& operator=(const Image4&) = delete;
  cudnnTensorDescriptor_t tensor = nullptr;
  size_t count;
};

struct Convolution {
  Convolution(int n, int c, int k, int h, int w)
      : x(n, c, h, w), y(n, k, h, w), bias(1, k, 1, 1), weights_count(static_cast<size_t>(k) * c * 9) {
    bench::must(dnn().cudnnCreateFilterDescriptor(&weights), "cudnnCreateFilterDescriptor");
    bench::must(dnn().cudnnSetFilter4dDescriptor(weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, 3, 3),
                "cudnnSetFilter4dDescriptor");
    bench::must(dnn().cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
    bench::must(dnn().cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                                      CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor");
    bench::must(dnn().cudnnCreateActivationDescriptor(&activation), "cudnnCreateActivationDescriptor");
    bench::must(
        dnn().cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0),
        "cudnnSetActivationDescriptor");
    size_t bytes = 0;
    bench::must(dnn().cudnnGetConvolutionForwardWorkspaceSize(dnn_on(nullptr), x.tensor, weights, convolution,
                                                              y.tensor, kAlgorithm, &bytes),
                "cudnnGetConvolutionForwardWorkspaceSize");
    workspace = keep(bytes), workspace_bytes = bytes;
  }
  ~Convolution() {
    (void)dnn().cudnnDestroyActivationDescriptor(activation);
    (void)dnn().cudnnDestroyConvolutionDescriptor(convolution);
    (void)dnn().cudnnDestroyFilterDescriptor(weights);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  static constexpr cudnnConvolutionFwdAlgo_t kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  Image4 x, y, bias;
  size_t weights_count, workspace_bytes = 0;
  cudnnFilterDescriptor_t weights = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
  std::shared_ptr<Kept> workspace;
};

Made convolution(Random& r, bool with_bias) {
  const int n = r.between(1, 4), c = 4 * r.between(1, 8), k = 4 * r.between(1, 8), h = r.between(4, 24),
            w = r.between(4, 24);
  const auto p = std::make_shared<Convolution>(n, c, k, h, w);
  Made made;
  made.specs = {input(Type::F32, p->x.count, 16), input(Type::F32, p->weights_count, 16),
                output(Type::F32, p->y.count, 16)};
  if (with_bias) made.specs.push_back(input(Type::F32, k, 16));
  made.work = [=](cudaStream_t s, const Argument* a) {
    const float one = 1.0f, zero = 0.0f;
    if (with_bias)
      bench::must(dnn().cudnnConvolutionBiasActivationForward(
                      dnn_on(s), &one, p->x.tensor, pointer<void>(a[0]), p->weights, pointer<void>(a[1]),
                      p->convolution, Convolution::kAlgorithm, p->workspace->data(), p->workspace_bytes,
                      &zero, p->y.tensor, pointer<void>(a[2]), p->bias.tensor, pointer<void>(a[3]),
                      p->activation, p->y.tensor, pointer<void>(a[2])),
                  "cudnnConvolutionBiasActivationForward");
    else
      bench::must(dnn().cudnnConvolutionForward(dnn_on(s), &one, p->x.tensor, pointer<void>(a[0]), p->weights,
                                                pointer<void>(a[1]), p->convolution, Convolution::kAlgorithm,
                                                p->workspace->data(), p->workspace_bytes, &zero, p->y.tensor,
                                                pointer<void>(a[2])),
                  "cudnnConvolutionForward");
  };
  // With beta 0 the fused form does not read what it adds, which is the output: it is given as one of both
  // kinds.
  if (with_bias) made.specs[2].kind = Kind::InOut;
  made.sizes = sizes(n, c, k, h, w);
  return made;
}

Made softmax(Random& r) {
  const auto x = std::make_shared<Image4>(r.between(1, 64), r.between(1, 500), 1, 1);
  return {{input(Type::F32, x->count), output(Type::F32, x->count)},
          [=](cudaStream_t s, const Argument* a) {
            const float one = 1.0f, zero = 0.0f;
            bench::must(dnn().cudnnSoftmaxForward(dnn_on(s), CUDNN_SOFTMAX_ACCURATE,
                                                  CUDNN_SOFTMAX_MODE_INSTANCE, &one, x->tensor,
                                                  pointer<void>(a[0]), &zero, x->tensor, pointer<void>(a[1])),
                        "cudnnSoftmaxForward");
          },
          sizes(x->count)};
}

// Multi-head attention by cuDNN's older interface, as in inference: projections, softmax, projection.
struct Attention {
  static constexpr int kHeads = 4, kWidth = 64;
  Attention(int batch_, int queries_, int keys_) : batch(batch_), queries(queries_), keys(keys_) {
    bench::must(dnn().cudnnCreateAttnDescriptor(&attention), "cudnnCreateAttnDescriptor");
    bench::must(dnn().cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE, kHeads, 0.25, CUDNN_DATA_FLOAT,
                                             CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, nullptr, nullptr, kWidth, kWidth,
                                             kWidth, 16, 16, 16, kWidth, queries, keys, batch, 1),
                "cudnnSetAttnDescriptor");
    size_t weight_bytes = 0, work_bytes = 0;
    bench::must(dnn().cudnnGetMultiHeadAttnBuffers(dnn_on(nullptr), attention, &weight_bytes, &work_bytes, nullptr),
                "cudnnGetMultiHeadAttnBuffers");
    weights = keep(weight_bytes), work = keep(work_bytes);
    sizes[0] = weight_bytes, sizes[1] = work_bytes;
    std::vector<float> numbers(weight_bytes / sizeof(float));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 37 % 101) / 500 - 0.1f;
    MUST(cudaMemcpy(weights->data(), numbers.data(), weight_bytes, cudaMemcpyHostToDevice));
    make(&q, queries, &of_q), make(&k, keys, &of_k);
    low.assign(static_cast<size_t>(queries), 0), high.assign(static_cast<size_t>(queries), keys);
  }
  ~Attention() {
    (void)dnn().cudnnDestroySeqDataDescriptor(q);
    (void)dnn().cudnnDestroySeqDataDescriptor(k);
    (void)dnn().cudnnDestroyAttnDescriptor(attention);
  }
  void make(cudnnSeqDataDescriptor_t* to, int length, std::shared_ptr<Kept>* lengths) {
    int dims[CUDNN_SEQDATA_DIM_COUNT];
    dims[CUDNN_SEQDATA_TIME_DIM] = length, dims[CUDNN_SEQDATA_BATCH_DIM] = batch;
    dims[CUDNN_SEQDATA_BEAM_DIM] = 1, dims[CUDNN_SEQDATA_VECT_DIM] = kWidth;
    const cudnnSeqDataAxis_t axes[] = {CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_TIME_DIM,
                                       CUDNN_SEQDATA_VECT_DIM};
    const std::vector<int> all(static_cast<size_t>(batch), length);
    bench::must(dnn().cudnnCreateSeqDataDescriptor(to), "cudnnCreateSeqDataDescriptor");
    bench::must(dnn().cudnnSetSeqDataDescriptor(*to, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, all.size(),
                                                all.data(), nullptr),
                "cudnnSetSeqDataDescriptor");
    *lengths = keep(all.size() * sizeof(int));
    MUST(cudaMemcpy((*lengths)->data(), all.data(), all.size() * sizeof(int), cudaMemcpyHostToDevice));
  }
  const int batch, queries, keys;
  cudnnAttnDescriptor_t attention = nullptr;
  cudnnSeqDataDescriptor_t q = nullptr, k = nullptr;
  std::shared_ptr<Kept> weights, work, of_q, of_k;
  size_t sizes[2] = {};
  std::vector<int> low, high;
};
Made attention(Random& r) {
  const int batch = r.between(1, 4), queries = r.between(1, 64), keys = r.between(1, 64);
  const auto m = std::make_shared<Attention>(batch, queries, keys);
  const size_t of_q = static_cast<size_t>(batch) * queries * Attention::kWidth,
               of_k = static_cast<size_t>(batch) * keys * Attention::kWidth;
  return {{input(Type::F32, of_q, 16), input(Type::F32, of_k, 16), input(Type::F32, of_k, 16), output(Type::F32, of_q, 16)},
          [=](cudaStream_t s, const Argument* a) {
            bench::must(dnn().cudnnMultiHeadAttnForward(
                            dnn_on(s), m->attention, -1, m->low.data(), m->high.data(), m->of_q->as<int>(),
                            m->of_k->as<int>(), m->q, pointer<void>(a[0]), nullptr, m->k, pointer<void>(a[1]), m->k,
                            pointer<void>(a[2]), m->q, pointer<void>(a[3]), m->sizes[0], m->weights->data(),
                            m->sizes[1], m->work->data(), 0, nullptr),
                        "cudnnMultiHeadAttnForward");
          },
          sizes(batch, queries, keys)};
}

struct Pooling {
  Pooling() {
    bench::must(dnn().cudnnCreatePoolingDescriptor(&p), "cudnnCreatePoolingDescriptor");
    bench::must(
        dnn().cudnnSetPooling2dDescriptor(p, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2),
        "cudnnSetPooling2dDescriptor");
  }
  ~Pooling() { (void)dnn().cudnnDestroyPoolingDescriptor(p); }
  cudnnPoolingDescriptor_t p = nullptr;
};
Made pooling(Random& r) {
  const int n = r.between(1, 4), c = r.between(1, 16), h = r.between(1, 16), w = r.between(1, 16);
  const auto x = std::make_shared<Image4>(n, c, 2 * h, 2 * w), y = std::make_shared<Image4>(n, c, h, w);
  const auto p = std::make_shared<Pooling>();
  return {{input(Type::F32, x->count), output(Type::F32, y->count)},
          [=](cudaStream_t s, const Argument* a) {
            const float one = 1.0f, zero = 0.0f;
            bench::must(dnn().cudnnPoolingForward(dnn_on(s), p->p, &one, x->tensor, pointer<void>(a[0]),
                                                  &zero, y->tensor, pointer<void>(a[1])),
                        "cudnnPoolingForward");
          },
          sizes(n, c, h, w)};
}

Made batch_norm(Random& r) {
  const int n = r.between(1, 8), c = r.between(1, 32), h = r.between(1, 16);
  const auto x = std::make_shared<Image4>(n, c, h, h), of_channel = std::make_shared<Image4>(1, c, 1, 1);
  // A variance must be positive: it is kept, and the same in every call.
  const auto variance = keep(c * sizeof(float));
  const std::vector<float> ones(c, 1.0f);
  MUST(cudaMemcpy(variance->data(), ones.data(), c * sizeof(float), cudaMemcpyHostToDevice));
  return {{input(Type::F32, x->count), output(Type::F32, x->count), input(Type::F32, c), input(Type::F32, c),
           input(Type::F32, c)},
          [=](cudaStream_t s, const Argument* a) {
            const float one = 1.0f, zero = 0.0f;
            bench::must(dnn().cudnnBatchNormalizationForwardInference(
                            dnn_on(s), CUDNN_BATCHNORM_SPATIAL, &one, &zero, x->tensor, pointer<void>(a[0]),
                            x->tensor, pointer<void>(a[1]), of_channel->tensor, pointer<void>(a[2]),
                            pointer<void>(a[3]), pointer<void>(a[4]), variance->data(), 1e-5),
                        "cudnnBatchNormalizationForwardInference");
          },
          sizes(n, c, h)};
}

#endif

// ---------------------------------------------------------------- CUB and Thrust
Made cub_sort(Random& r) {
  const int n = r.between(1, 100000);
  size_t bytes = 0;
  MUST(cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<uint32_t*>(nullptr),
                                       static_cast<uint32_t*>(nullptr), static_cast<float*>(nullptr),
                                       static_cast<float*>(nullptr), n));
  const auto temporary = keep(bytes);
  Made made{{input(Type::Index, n), output(Type::Index, n), input(Type::F32, n), output(Type::F32, n)},
            [=](cudaStream_t s, const Argument* a) {
              size_t b = bytes;
              MUST(cub::DeviceRadixSort::SortPairs(temporary->data(), b, pointer<const uint32_t>(a[0]),
                                                   pointer<uint32_t>(a[1]), pointer<const float>(a[2]),
                                                   pointer<float>(a[3]), n, 0, 32, s));
            },
            sizes(n)};
  made.specs[0].range = made.specs[1].range = 1u << 31;
  return made;
}

Made cub_reduce(Random& r) {
  const int n = r.between(1, 200000);
  size_t bytes = 0;
  MUST(cub::DeviceReduce::Sum(nullptr, bytes, static_cast<float*>(nullptr), static_cast<float*>(nullptr), n));
  const auto temporary = keep(bytes);
  return {{input(Type::F32, n), output(Type::F32, 1)},
          [=](cudaStream_t s, const Argument* a) {
            size_t b = bytes;
            MUST(cub::DeviceReduce::Sum(temporary->data(), b, pointer<const float>(a[0]),
                                        pointer<float>(a[1]), n, s));
          },
          sizes(n)};
}

// Of ints: sums of floats by this scan are not the same from run to run.
Made cub_scan(Random& r) {
  const int n = r.between(1, 200000);
  size_t bytes = 0;
  MUST(cub::DeviceScan::ExclusiveSum(nullptr, bytes, static_cast<int*>(nullptr), static_cast<int*>(nullptr),
                                     n));
  const auto temporary = keep(bytes);
  return {{input(Type::I32, n), output(Type::I32, n)},
          [=](cudaStream_t s, const Argument* a) {
            size_t b = bytes;
            MUST(cub::DeviceScan::ExclusiveSum(temporary->data(), b, pointer<const int>(a[0]),
                                               pointer<int>(a[1]), n, s));
          },
          sizes(n)};
}

struct Negative {
  __host__ __device__ bool operator()(int v) const { return v < 0; }
};
Made cub_select(Random& r) {
  const int n = r.between(1, 100000);
  size_t bytes = 0;
  MUST(cub::DeviceSelect::If(nullptr, bytes, static_cast<int*>(nullptr), static_cast<int*>(nullptr),
                             static_cast<int*>(nullptr), n, Negative{}));
  const auto temporary = keep(bytes);
  return {{input(Type::I32, n), changed(Type::I32, n), output(Type::I32, 1)},
          [=](cudaStream_t s, const Argument* a) {
            size_t b = bytes;
            MUST(cub::DeviceSelect::If(temporary->data(), b, pointer<const int>(a[0]), pointer<int>(a[1]),
                                       pointer<int>(a[2]), n, Negative{}, s));
          },
          sizes(n)};
}

struct Affine {
  float a;
  __host__ __device__ float operator()(float x) const { return a * x + 1.0f; }
};
Made thrust_transform(Random& r) {
  const int n = r.between(1, 50000);
  return {{input(Type::F32, n), output(Type::F32, n), live_float()},
          [=](cudaStream_t s, const Argument* a) {
            const thrust::device_ptr<float> x(pointer<float>(a[0])), y(pointer<float>(a[1]));
            thrust::transform(thrust::cuda::par_nosync.on(s), x, x + n, y, Affine{scalar<float>(a[2])});
          },
          sizes(n)};
}

// Temporary memory out of a block that is kept: the same addresses in every call.
struct Bump {
  using value_type = char;
  char* base;
  size_t bytes, used = 0;
  char* allocate(std::ptrdiff_t n) {
    const size_t at = used;
    used += (static_cast<size_t>(n) + 255) / 256 * 256;
    if (used > bytes) throw std::bad_alloc();
    return base + at;
  }
  void deallocate(char*, size_t) {}
};
Made thrust_sort(Random& r) {
  const int n = r.between(1, 50000);
  const size_t bytes = size_t{4} << 20;
  const auto memory = keep(bytes);
  return {{changed(Type::I32, n)},
          [=](cudaStream_t s, const Argument* a) {
            Bump temporary{memory->as<char>(), bytes};
            const thrust::device_ptr<int> x(pointer<int>(a[0]));
            thrust::sort(thrust::cuda::par_nosync(temporary).on(s), x, x + n);
          },
          sizes(n)};
}
Made thrust_scan(Random& r) {
  const int n = r.between(1, 50000);
  const size_t bytes = size_t{4} << 20;
  const auto memory = keep(bytes);
  return {{input(Type::I32, n), output(Type::I32, n)},
          [=](cudaStream_t s, const Argument* a) {
            Bump temporary{memory->as<char>(), bytes};
            const thrust::device_ptr<int> x(pointer<int>(a[0])), y(pointer<int>(a[1]));
            thrust::inclusive_scan(thrust::cuda::par_nosync(temporary).on(s), x, x + n, y);
          },
          sizes(n)};
}
// Allocates by itself.
Made thrust_sort_allocating(Random& r) {
  const int n = r.between(1, 50000);
  return {{changed(Type::I32, n)},
          [=](cudaStream_t s, const Argument* a) {
            const thrust::device_ptr<int> x(pointer<int>(a[0]));
            thrust::sort(thrust::cuda::par_nosync.on(s), x, x + n);
          },
          sizes(n)};
}
// Gives a number back, so it waits.
Made thrust_reduce(Random& r) {
  const int n = r.between(1, 50000);
  return {{input(Type::I32, n), output(Type::F32, n)},
          [=](cudaStream_t s, const Argument* a) {
            const thrust::device_ptr<int> x(pointer<int>(a[0]));
            const int sum = thrust::reduce(thrust::cuda::par.on(s), x, x + n);
            MUST(cudaMemsetAsync(pointer<float>(a[1]), sum & 0x3f, n * sizeof(float), s));
          },
          sizes(n)};
}

const std::vector<Outcome> kFound = {Outcome::Found}, kRefused = {Outcome::Refused},
                           kStaged = {Outcome::Staged}, kCopiedOrFound = {Outcome::Found, Outcome::Staged},
                           kFoundOrPlain = {Outcome::Found, Outcome::Staged, Outcome::Plain},
                           kAny = {Outcome::Found, Outcome::Staged, Outcome::Refused},
                           kPlain = {Outcome::Plain, Outcome::Refused};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
    {"one kernel", kFound, Needs::Nothing, [](Random& r) { return chain(r, 2); }},
    {"chain of kernels, live scalars", kFound, Needs::Nothing,
     [](Random& r) { return chain(r, r.between(3, 40)); }},
    {"struct with pointers by value", kFound, Needs::Nothing, by_value_struct},
    {"multi-tensor struct of 3 KiB", kFound, Needs::Nothing, multi_tensor},
    {"interior pointers", kFound, Needs::Nothing, interior_pointers},
    {"pointer one past the end", kAny, Needs::Nothing, end_pointer},
    {"tensor map", kFound, Needs::Nothing, tensor_map, true, false},
    {"in place", kFound, Needs::Nothing, in_place},
    {"in place by two arguments", kFoundOrPlain, Needs::Nothing, in_place_by_two},
    {"kernel chosen by alignment", kFound, Needs::Nothing, by_alignment},
    {"pointer table, static memory", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::Static); }},
    {"pointer table, page-locked", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::PageLocked); }},
    {"pointer table, heap, promised", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::HeapPromised); }},
    {"pointer table, heap", kRefused, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::Heap); }},
    {"two tables, interior pointers", kFound, Needs::Nothing, two_tables},
    {"copies and fills, 1-D and 2-D", kFound, Needs::Nothing, copies_and_fills},
    {"page-locked host arguments", kCopiedOrFound, Needs::Nothing, host_arguments},
    {"fork and join", kFound, Needs::Nothing, fork_join},
    {"atomic additions, tolerance", kFound, Needs::Nothing, atomic_sum},
    {"200 nodes hold an argument", kStaged, Needs::Nothing, many_holders},
    {"index lookup", kFound, Needs::Nothing, index_lookup},
    {"host function", kAny, Needs::Nothing, host_function},
    {"fixed scalar of two values", kFound, Needs::Nothing, fixed_scalar},
    {"live scalar, computed with", kPlain, Needs::Nothing, derived_scalar},
    {"live scalar decides launches", kFoundOrPlain, Needs::Nothing, deciding_scalar},
    {"synchronises", kRefused, Needs::Nothing, synchronises},
    {"looks at results", kRefused, Needs::Nothing, looks_at_results},
    {"cudaMalloc inside", kRefused, Needs::Nothing, allocates},
    {"cudaMallocAsync inside", kAny, Needs::Nothing, allocates_in_order},
    {"remembers an address", kRefused, Needs::Nothing, remembers_an_address, false},
    {"counts its calls", kRefused, Needs::Nothing, counts_its_calls, false},
    {"cuBLAS fp32, live alpha", kFoundOrPlain, Needs::Blas, sgemm},
    {"cuBLAS TF32", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::F32, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32); }},
    {"cuBLAS bf16", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F); }},
    {"cuBLAS bf16, large", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1536); }},
    {"cuBLAS fp16", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::F16, CUDA_R_16F, CUBLAS_COMPUTE_32F); }},
    {"cuBLAS split-K", kFound, Needs::Blas, split_k},
    {"cuBLAS gemv, live alpha", kFoundOrPlain, Needs::Blas, gemv},
    {"cuBLAS batched, host table", kFound, Needs::Blas, [](Random& r) { return batched(r, false); }},
    {"cuBLAS batched, table by kernel", kFound, Needs::Blas, [](Random& r) { return batched(r, true); }},
    {"cuBLAS batched fp16, host table", kCopiedOrFound, Needs::Blas, batched_half},
    {"cuBLAS strided batched", kFound, Needs::Blas, strided},
    {"cuBLAS strided batched bf16", kCopiedOrFound, Needs::Blas, strided_half},
    {"cuBLASLt bias", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_BIAS); }},
    {"cuBLASLt bias, relu", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_RELU_BIAS); }},
    {"cuBLASLt bias, gelu", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_GELU_BIAS); }},
#if BENCH_HAS_CUDNN
    {"cuDNN convolution", kFound, Needs::Dnn, [](Random& r) { return convolution(r, false); }},
    {"cuDNN convolution, bias, relu", kFound, Needs::Dnn, [](Random& r) { return convolution(r, true); }},
    {"cuDNN softmax", kFound, Needs::Dnn, softmax},
    {"cuDNN multi-head attention", kCopiedOrFound, Needs::Dnn, attention, true, false},
    {"cuDNN pooling", kFound, Needs::Dnn, pooling},
    {"cuDNN batch norm, inference", kFound, Needs::Dnn, batch_norm},
#endif
    {"CUB sort of pairs", kFound, Needs::Nothing, cub_sort},
    {"CUB sum", kFound, Needs::Nothing, cub_reduce},
    {"CUB scan", kFound, Needs::Nothing, cub_scan},
    {"CUB select", kFound, Needs::Nothing, cub_select},
    {"Thrust transform", kFound, Needs::Nothing, thrust_transform},
    {"Thrust sort, memory kept", kFound, Needs::Nothing, thrust_sort},
    {"Thrust scan, memory kept", kFound, Needs::Nothing, thrust_scan},
    {"Thrust sort, allocates", kAny, Needs::Nothing, thrust_sort_allocating},
    {"Thrust reduce to a number", kRefused, Needs::Nothing, thrust_reduce},
  };
  return all;
}

// Why this kind of work cannot be tried here; "": it can.
std::string absent(Needs needs) {
  const auto& b = bench::Blas::get();
  const auto& l = bench::BlasLt::get();
  const auto& d = bench::Dnn::get();
  switch (needs) {
    case Needs::Blas:
      return b.ok() ? "" : b.why();
    case Needs::BlasLt:
      return l.ok() ? "" : l.why();
    case Needs::Dnn:
      return d.ok() ? "" : d.why();
    default:
      return "";
  }
}

// ---------------------------------------------------------------- two pools
// `work` is where regions work, `plain` where the same is done plainly, at the same places.
class Pools {
 public:
  static constexpr size_t kDevice = size_t{32} << 20, kHost = size_t{1} << 20;
  Pools() {
    MUST(cudaStreamCreateWithFlags(&stream[0], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&stream[1], cudaStreamNonBlocking));
    for (uint8_t*& p : device) MUST(cudaMalloc(&p, kDevice));
    for (uint8_t*& p : host) MUST(cudaMallocHost(&p, kHost));
    MUST(cudaMalloc(&difference_, sizeof *difference_));
    for (uint8_t* p : device) MUST(cudaMemset(p, 0x5a, kDevice));
    for (uint8_t* p : host) std::memset(p, 0x5a, kHost);
  }
  ~Pools() {
    for (uint8_t* p : device) (void)cudaFree(p);
    for (uint8_t* p : host) (void)cudaFreeHost(p);
    (void)cudaFree(difference_);
    for (cudaStream_t s : stream) (void)cudaStreamDestroy(s);
  }
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  void wait() const {
    for (cudaStream_t s : stream) MUST(cudaStreamSynchronize(s));
  }
  // The plain pools become copies of the working ones.
  void equalise() const {
    MUST(cudaMemcpyAsync(device[1], device[0], kDevice, cudaMemcpyDeviceToDevice, stream[0]));
    wait();
    std::memcpy(host[1], host[0], kHost);
  }
  // "" or where they differ.
  std::string difference() const {
    bench::Difference d;
    MUST(cudaMemcpyAsync(difference_, &d, sizeof d, cudaMemcpyHostToDevice, stream[0]));
    bench::compare(device[0], device[1], kDevice, 0, difference_, stream[0]);
    MUST(cudaMemcpyAsync(&d, difference_, sizeof d, cudaMemcpyDeviceToHost, stream[0]));
    wait();
    if (d.bytes)
      return std::to_string(d.bytes) + " bytes of device memory differ, the first at " +
             std::to_string(d.first);
    if (std::memcmp(host[0], host[1], kHost) == 0) return "";
    size_t first = 0;
    while (host[0][first] == host[1][first]) ++first;
    return "host memory differs, first at " + std::to_string(first);
  }

  cudaStream_t stream[2] = {};
  uint8_t* device[2] = {};
  uint8_t* host[2] = {};

 private:
  bench::Difference* difference_ = nullptr;
};

// ---------------------------------------------------------------- one region, called and judged
// Of work whose plain runs differ, to the largest magnitude of the buffer.
constexpr double kTolerance = 1e-3;

struct Counts {
  uint64_t calls = 0, plain = 0, replays = 0, patched = 0;
};

class Trial {
 public:
  Trial(Pools& pools, Random& random, std::string name, Made made, replay::Options options)
      : pools_(pools), random_(random), made_(std::move(made)), region_(std::move(name), std::move(options)) {
    values_.resize(made_.specs.size());
    alignment_.resize(made_.specs.size());
    for (size_t i = 0; i < made_.specs.size(); ++i) {
      // Usually one alignment a trial: it belongs to the signature.
      const size_t least = made_.specs[i].alignment;
      alignment_[i] = random_.chance(0.7) ? std::max<size_t>(least, 256) : least << random_.between(0, 6);
      draw(i);
    }
  }

  // Some calls one after the other, without a wait between them. `change`: the chance for an argument to be
  // another one. "" or what is wrong.
  std::string burst(int calls, double change) {
    std::vector<std::vector<uint64_t>> each;
    for (int c = 0; c < calls; ++c) {
      if (done_ > 0 || c > 0)
        for (size_t i = 0; i < values_.size(); ++i)
          if (random_.chance(change)) draw(i);
      each.push_back(values_);
    }
    for (const auto& values : each) prepare(values);
    pools_.equalise();
    const cudaStream_t s = pools_.stream[random_.between(0, 1)];
    const replay::detail::WorkRef work{&made_.work, [](void* object, CUstream stream, const Argument* a) {
                                         (*static_cast<Work*>(object))(stream, a);
                                       }};
    for (const auto& values : each) region_.call(s, arguments(values, 0), work);
    pools_.wait();
    for (const auto& values : each) made_.work(s, arguments(values, 1).data());
    pools_.wait();
    MUST(cudaGetLastError());
    done_ += calls;
    std::string wrong;
    if (made_.proof == replay::Proof::tolerance) wrong = settle_outputs(each.back());
    if (wrong.empty()) wrong = pools_.difference();
    if (wrong.empty()) return "";
    pools_.equalise();
    return wrong + placement(each.back());
  }
  replay::RegionReport report() const { return region_.report(); }
  const std::string& sizes() const { return made_.sizes; }

 private:
  // Another place in the pool, or another value.
  void draw(size_t i) {
    const Spec& spec = made_.specs[i];
    if (!spec.buffer()) {
      values_[i] = 0;
      if (spec.integer) {
        values_[i] = static_cast<uint64_t>(random_.between(1, spec.most));
      } else {
        // Sometimes one of the values that libraries treat specially.
        const float f = random_.chance(0.1) ? static_cast<float>(random_.between(-1, 1)) : random_.number();
        std::memcpy(&values_[i], &f, sizeof f);
      }
      return;
    }
    if (spec.same_as >= 0 && random_.chance(0.5)) {
      values_[i] = values_[static_cast<size_t>(spec.same_as)];
      return;
    }
    const size_t pool = spec.host ? Pools::kHost : Pools::kDevice;
    const size_t alignment = random_.chance(0.05) ? spec.alignment << random_.between(0, 4) : alignment_[i];
    if (spec.bytes() > pool / 4)
      throw rondo::Error(rondo::ErrorKind::Internal,
                         "a buffer of " + std::to_string(spec.bytes()) + " bytes is too large for the pool");
    for (int tries = 0; tries < 1000; ++tries) {
      const size_t places = (pool - spec.bytes()) / alignment;
      const size_t at = (static_cast<size_t>(random_.bits()) % (places + 1)) * alignment;
      if (free_for(i, at)) {
        values_[i] = at;
        return;
      }
    }
    throw rondo::Error(rondo::ErrorKind::Internal, "the pool is too full for another buffer");
  }
  bool free_for(size_t i, size_t at) const {
    const Spec& spec = made_.specs[i];
    for (size_t j = 0; j < made_.specs.size(); ++j) {
      const Spec& other = made_.specs[j];
      if (j == i || !other.buffer() || other.host != spec.host) continue;
      if (at < values_[j] + other.bytes() && values_[j] < at + spec.bytes()) return false;
    }
    return true;
  }
  void* address(size_t i, uint64_t at, int pool) const {
    return (made_.specs[i].host ? pools_.host : pools_.device)[pool] + at;
  }
  std::vector<Argument> arguments(const std::vector<uint64_t>& values, int pool) const {
    std::vector<Argument> all;
    for (size_t i = 0; i < values.size(); ++i) {
      const Spec& spec = made_.specs[i];
      Argument a;
      a.kind = spec.kind;
      a.value = spec.buffer() ? reinterpret_cast<uint64_t>(address(i, values[i], pool)) : values[i];
      a.bytes = spec.buffer() ? spec.bytes() : 4;
      const Type t = spec.type;
      if (spec.buffer())
        a.element = t == Type::F32    ? replay::Element::F32
                    : t == Type::F16  ? replay::Element::F16
                    : t == Type::BF16 ? replay::Element::BF16
                    : t == Type::F64  ? replay::Element::F64
                                      : replay::Element::Bytes;
      else if (!spec.integer)
        a.element = replay::Element::F32;
      all.push_back(a);
    }
    return all;
  }
  // New contents for what is read, rubbish where it is written.
  void prepare(const std::vector<uint64_t>& values) {
    const cudaStream_t s = pools_.stream[0];
    for (const bool read : {false, true})
      for (size_t i = 0; i < values.size(); ++i) {
        const Spec& spec = made_.specs[i];
        if (!spec.buffer() || (spec.kind != Kind::Out) != read) continue;
        if (read)
          bench::fill(address(i, values[i], 0), spec.count, spec.type, random_.bits(), s, spec.range);
        else
          MUST(cudaMemsetAsync(address(i, values[i], 0), 0xa5, spec.bytes(), s));
      }
  }
  // Outputs that may differ a little: compared here, and then made equal.
  std::string settle_outputs(const std::vector<uint64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Spec& spec = made_.specs[i];
      if (spec.kind != Kind::Out || spec.type != Type::F32 || spec.host) continue;
      std::vector<float> a(spec.count), b(spec.count);
      MUST(cudaMemcpy(a.data(), address(i, values[i], 0), spec.bytes(), cudaMemcpyDeviceToHost));
      MUST(cudaMemcpy(b.data(), address(i, values[i], 1), spec.bytes(), cudaMemcpyDeviceToHost));
      double most = 0;
      for (const float v : b) most = std::max(most, std::fabs(static_cast<double>(v)));
      for (size_t j = 0; j < spec.count; ++j)
        if (!(std::fabs(static_cast<double>(a[j]) - b[j]) <= kTolerance * (most + 1.0)))
          return "argument " + std::to_string(i) + " is " + std::to_string(a[j]) + " instead of " +
                 std::to_string(b[j]);
      MUST(cudaMemcpy(address(i, values[i], 1), address(i, values[i], 0), spec.bytes(),
                      cudaMemcpyDeviceToDevice));
    }
    return "";
  }
  std::string placement(const std::vector<uint64_t>& values) const {
    std::string text = "; the last call had";
    for (size_t i = 0; i < values.size(); ++i)
      if (made_.specs[i].buffer())
        text += " " + std::to_string(values[i]) + "+" + std::to_string(made_.specs[i].bytes());
    return text;
  }

  Pools& pools_;
  Random& random_;
  Made made_;
  replay::RegionBase region_;
  std::vector<uint64_t> values_;  // places in the pool, or bits of scalars
  std::vector<size_t> alignment_;
  int done_ = 0;
};

Outcome outcome_of(const replay::RegionReport& r) {
  if (r.replays == 0) {
    for (const auto& recording : r.recordings)
      if (recording.state == "refused") return Outcome::Refused;
    return r.failures > 0 ? Outcome::Refused : Outcome::Plain;
  }
  for (const auto& recording : r.recordings)
    if (recording.replays > 0 && recording.copied_bytes_a_call > 0) return Outcome::Staged;
  return Outcome::Found;
}
std::string reason_of(const replay::RegionReport& r) {
  std::string reason;
  for (const auto& recording : r.recordings)
    if (!recording.reason.empty()) reason = recording.reason;
  return r.fallbacks.empty() ? reason : r.fallbacks.back();
}

// ---------------------------------------------------------------- the table
struct Row {
  std::string name, sizes, wrong, threw, reason;
  std::string not_made;  // why the library cannot do this work here
  Outcome outcome = Outcome::Plain;
  bool expected = true;
  std::vector<Outcome> expectation;
  size_t nodes = 0, kernels = 0, slots = 0;
  uint64_t copied_bytes = 0, patched = 0, calls = 0, replays = 0;
  double record_ms = 0;
};

Row table_row(const Family& family, uint64_t seed, Pools& pools) {
  Random random(seed);
  Row row;
  row.name = family.name, row.expectation = family.expected;
  Made made;
  try {
    made = family.make(random);
  } catch (const std::exception& e) {
    row.not_made = e.what();
    return row;
  }
  try {
    replay::Options options;
    options.policy = replay::Policy::always;
    options.remember = false;
    options.proof = made.proof;
    options.host_tables = made.host_tables;
    options.tolerance = kTolerance;
    Trial trial(pools, random, family.name, std::move(made), options);
    row.sizes = trial.sizes();
    for (int i = 0; i < 12; ++i) {
      const std::string wrong = trial.burst(1, 1.0);
      // Work that breaks the contract has no right result.
      if (!wrong.empty() && family.in_trials && row.wrong.empty()) row.wrong = wrong;
    }
    const replay::RegionReport r = trial.report();
    row.outcome = outcome_of(r);
    row.reason = reason_of(r);
    row.calls = r.calls, row.replays = r.replays, row.patched = r.patched_nodes;
    for (const auto& recording : r.recordings) {
      row.record_ms += recording.record_ms;
      if (recording.nodes < row.nodes) continue;
      row.nodes = recording.nodes, row.kernels = recording.kernels, row.slots = recording.slots;
      row.copied_bytes = recording.copied_bytes_a_call;
    }
    row.expected =
        std::find(family.expected.begin(), family.expected.end(), row.outcome) != family.expected.end();
  } catch (const std::exception& e) {
    row.threw = e.what();
  }
  return row;
}

void print(const Row& r) {
  if (!r.not_made.empty()) {
    std::printf("%-32s not done: %s\n", r.name.c_str(), r.not_made.c_str());
    return;
  }
  std::string expectation;
  for (const Outcome o : r.expectation)
    expectation += (expectation.empty() ? "" : "/") + std::string(name(o));
  std::printf("%-32s %-22s %-8s%c %5zu %5zu %5zu %9llu %8.2f %3llu/%-3llu %s\n", r.name.c_str(),
              r.sizes.c_str(), r.threw.empty() ? name(r.outcome) : "threw", r.expected ? ' ' : '!', r.nodes,
              r.kernels, r.slots, static_cast<unsigned long long>(r.copied_bytes), r.record_ms,
              static_cast<unsigned long long>(r.replays), static_cast<unsigned long long>(r.calls),
              r.wrong.empty() ? "" : "WRONG");
  if (!r.threw.empty()) std::printf("    %s\n", r.threw.c_str());
  if (!r.wrong.empty()) std::printf("    %s\n", r.wrong.c_str());
  if (!r.expected) std::printf("    expected: %s\n", expectation.c_str());
  if (!r.reason.empty() && r.outcome != Outcome::Found) std::printf("    %s\n", r.reason.c_str());
  std::fflush(stdout);
}

// ---------------------------------------------------------------- random trials
struct Trials {
  uint64_t seed = 0;
  int count = 0, replayed = 0, staged = 0, refused = 0, plain = 0, wrong = 0, threw = 0, not_made = 0;
  Counts calls;
  std::vector<std::string> failures;
};

replay::Options random_options(Random& r, const Made& made) {
  replay::Options o;
  o.host_tables = made.host_tables;
  o.policy = r.chance(0.75) ? replay::Policy::always : replay::Policy::auto_;
  o.proof = r.chance(0.1) ? replay::Proof::off : made.proof;
  o.tolerance = kTolerance;
  const double staging = r.chance(0.7) ? 0.0 : r.chance(0.5) ? 1.0 : 2.0;
  o.staging = staging == 0.0   ? replay::Staging::auto_
              : staging == 1.0 ? replay::Staging::always
                               : replay::Staging::never;
  o.goal = r.chance(0.5) ? replay::Goal::both : r.chance(0.5) ? replay::Goal::period : replay::Goal::latency;
  o.plain_calls = static_cast<unsigned>(r.between(1, 2));
  o.most_recordings = r.chance(0.2) ? 2 : 64;
  o.check_arguments = r.chance(0.1);
  o.remember = false;
  return o;
}

Trials random_trials(const std::vector<Family>& chosen, int count, uint64_t seed, Pools& pools) {
  Trials t;
  t.seed = seed;
  for (int i = 0; i < count; ++i) {
    // A trial is repeated alone by its own seed: --trials 1 --seed S.
    const uint64_t own = seed + static_cast<uint64_t>(i);
    Random random(own);
    const Family& family = random.of(chosen);
    ++t.count;
    std::string said;
    Made made;
    try {
      made = family.make(random);
    } catch (const std::exception&) {  // sizes that the library refuses
      ++t.not_made;
      continue;
    }
    try {
      // Of atomic additions only the last call is compared, so there are no bursts of several either.
      const bool alone = made.alone || made.proof == replay::Proof::tolerance;
      const replay::Options options = random_options(random, made);
      Trial trial(pools, random, "trial " + std::to_string(own), std::move(made), options);
      const int bursts = random.between(4, 10);
      const double change = random.chance(0.2) ? 0.0 : random.chance(0.3) ? 1.0 : 0.4;
      for (int b = 0; b < bursts && said.empty(); ++b)
        said = trial.burst(alone || b < 3 ? 1 : random.between(1, 4), change);
      const replay::RegionReport r = trial.report();
      t.calls.calls += r.calls, t.calls.plain += r.plain_calls, t.calls.replays += r.replays;
      t.calls.patched += r.patched_nodes;
      switch (outcome_of(r)) {
        case Outcome::Found:
          ++t.replayed;
          break;
        case Outcome::Staged:
          ++t.staged;
          break;
        case Outcome::Refused:
          ++t.refused;
          break;
        case Outcome::Plain:
          ++t.plain;
          break;
      }
      if (!said.empty()) {
        ++t.wrong;
        said = "WRONG, seed " + std::to_string(own) + ", " + family.name + " " + trial.sizes() + ": " + said;
      }
    } catch (const std::exception& e) {
      ++t.threw;
      said = "threw, seed " + std::to_string(own) + ", " + family.name + ": " + e.what();
    }
    if (!said.empty()) {
      std::printf("%s\n", said.c_str());
      std::fflush(stdout);
      t.failures.push_back(said);
      if (cudaDeviceSynchronize() != cudaSuccess) {
        std::printf("the GPU's context is lost: the remaining trials are not done\n");
        break;
      }
    }
  }
  return t;
}

// Four threads, each with a stream and buffers of its own, call one region. "" or what is wrong.
std::string threads_check() {
  constexpr int kThreads = 4, kCalls = 200, kCount = 5000, kBuffers = 3;
  replay::Options options;
  options.policy = replay::Policy::always;
  options.remember = false;
  replay::Region region(
      "threads",
      [](cudaStream_t s, const float* x, float* y, int n, float a) {
        for (int i = 0; i < 5; ++i) axpb<<<blocks_for(n), 256, 0, s>>>(y, i ? y : x, n, 0.5f, a);
        bench::launched();
      },
      options);
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      try {
        MUST(cudaSetDevice(0));
        cudaStream_t s = nullptr;
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        bench::Arena memory(s);
        float *x[kBuffers], *y[kBuffers];
        for (int b = 0; b < kBuffers; ++b)
          x[b] = memory.filled<float>(kCount), y[b] = memory.zeros<float>(kCount);
        std::vector<float> in(kCount), out(kCount);
        for (int c = 0; c < kCalls && wrong[t].empty(); ++c) {
          const int b = (c + t) % kBuffers;
          const float a = static_cast<float>(2 + c % 17 + t);
          MUST(cudaMemsetAsync(y[b], 0xa5, kCount * sizeof(float), s));
          region(s, replay::in(static_cast<const float*>(x[b]), kCount), replay::out(y[b], kCount), kCount,
                 replay::live(a));
          MUST(cudaMemcpyAsync(in.data(), x[b], kCount * sizeof(float), cudaMemcpyDeviceToHost, s));
          MUST(cudaMemcpyAsync(out.data(), y[b], kCount * sizeof(float), cudaMemcpyDeviceToHost, s));
          MUST(cudaStreamSynchronize(s));
          for (int i = 0; i < kCount; ++i) {
            float v = in[i];
            for (int k = 0; k < 5; ++k)
              v = 0.5f * v + a;  // exact: the product is, so fused or not is the same
            if (v == out[i]) continue;
            wrong[t] = "thread " + std::to_string(t) + ", call " + std::to_string(c) + ", element " +
                       std::to_string(i) + ": " + std::to_string(out[i]) + " instead of " + std::to_string(v);
            break;
          }
        }
        MUST(cudaStreamDestroy(s));
      } catch (const std::exception& e) {
        wrong[t] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  const replay::RegionReport r = region.report();
  std::printf("%d threads, %llu calls of one region: %llu plain, %llu replays\n", kThreads,
              static_cast<unsigned long long>(r.calls), static_cast<unsigned long long>(r.plain_calls),
              static_cast<unsigned long long>(r.replays));
  for (const std::string& w : wrong)
    if (!w.empty()) return w;
  if (r.calls != kThreads * kCalls) return "the report has another number of calls";
  return r.replays == 0 ? "nothing was replayed: " + reason_of(r) : "";
}

void write(const std::string& path, const std::vector<Row>& rows, const std::vector<std::string>& absent,
           const Trials& t, const std::string& of_threads) {
  nlohmann::json j = {{"device", bench::gpu_name()}, {"absent", absent}};
  j["cublas"] = bench::Blas::get().path(), j["cublaslt"] = bench::BlasLt::get().path();
  j["cudnn"] = bench::Dnn::get().path();
  for (const Row& r : rows) {
    nlohmann::json expectation = nlohmann::json::array();
    for (const Outcome o : r.expectation) expectation.push_back(name(o));
    j["table"].push_back({{"name", r.name},
                          {"sizes", r.sizes},
                          {"outcome", r.threw.empty() ? name(r.outcome) : "threw"},
                          {"expected", expectation},
                          {"as_expected", r.expected},
                          {"right", r.wrong.empty()},
                          {"nodes", r.nodes},
                          {"kernels", r.kernels},
                          {"slots", r.slots},
                          {"copied_bytes_a_call", r.copied_bytes},
                          {"patched_nodes", r.patched},
                          {"calls", r.calls},
                          {"replays", r.replays},
                          {"record_ms", r.record_ms},
                          {"reason", r.reason},
                          {"wrong", r.wrong},
                          {"threw", r.threw}});
  }
  j["trials"] = {{"seed", t.seed},
                 {"count", t.count},
                 {"found", t.replayed},
                 {"staged", t.staged},
                 {"refused", t.refused},
                 {"plain", t.plain},
                 {"wrong", t.wrong},
                 {"threw", t.threw},
                 {"not_made", t.not_made},
                 {"calls", t.calls.calls},
                 {"plain_calls", t.calls.plain},
                 {"replays", t.calls.replays},
                 {"patched_nodes", t.calls.patched},
                 {"failures", t.failures}};
  j["threads_wrong"] = of_threads;
  const std::string text = j.dump(2) + "\n";
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file && std::fclose(file) != 0) || !written)
    throw rondo::Error(rondo::ErrorKind::Usage, "cannot write " + path);
}

int run(int trials, uint64_t seed, const std::string& only, const std::string& json, bool check) {
  bench::use_gpu();
  std::printf("%s\n", bench::gpu_name().c_str());
  Pools pools;
  std::vector<Family> chosen, in_trials;
  std::vector<std::string> left_out;
  for (const Family& f : families()) {
    if (std::string(f.name).find(only) == std::string::npos) continue;
    if (const std::string why = absent(f.needs); !why.empty()) {
      left_out.push_back(std::string(f.name) + ": " + why);
      continue;
    }
    chosen.push_back(f);
    if (f.in_trials && (f.mixed || !only.empty())) in_trials.push_back(f);
  }
  for (const std::string& line : left_out) std::printf("left out: %s\n", line.c_str());
  std::printf("%-32s %-22s %-9s %5s %5s %5s %9s %8s %7s\n", "work", "sizes", "outcome", "nodes", "kern.",
              "slots", "copied B", "rec. ms", "replays");
  std::vector<Row> rows;
  int wrong = 0, unexpected = 0;
  for (const Family& f : chosen) {
    rows.push_back(table_row(f, seed, pools));
    print(rows.back());
    if (!rows.back().not_made.empty()) {
      left_out.push_back(std::string(f.name) + ": " + rows.back().not_made);
      rows.pop_back();
      continue;
    }
    wrong += !rows.back().wrong.empty() || !rows.back().threw.empty();
    unexpected += !rows.back().expected;
  }
  int counts[4] = {};
  for (const Row& r : rows) ++counts[static_cast<int>(r.outcome)];
  std::printf(
      "%zu kinds of work: %d found, %d staged, %d refused, %d plain; %d not as expected, %d wrong or threw\n",
      rows.size(), counts[0], counts[1], counts[2], counts[3], unexpected, wrong);
  Trials t;
  t.seed = seed;
  if (!in_trials.empty() && trials > 0) {
    t = random_trials(in_trials, trials, seed, pools);
    std::printf(
        "%d random trials from seed %llu: %d found, %d staged, %d refused, %d plain; %d WRONG, %d threw\n",
        t.count, static_cast<unsigned long long>(seed), t.replayed, t.staged, t.refused, t.plain, t.wrong,
        t.threw);
    std::printf(
        "%llu calls, %llu plain, %llu replays, %llu nodes patched\n",
        static_cast<unsigned long long>(t.calls.calls), static_cast<unsigned long long>(t.calls.plain),
        static_cast<unsigned long long>(t.calls.replays), static_cast<unsigned long long>(t.calls.patched));
  }
  const std::string of_threads = threads_check();
  if (!of_threads.empty()) std::printf("WRONG with threads: %s\n", of_threads.c_str());
  if (!json.empty()) write(json, rows, left_out, t, of_threads);
  return wrong || !of_threads.empty() || t.wrong || t.threw || (check && unexpected) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json, only;
  int trials = 1000;
  uint64_t seed = 1;
  bool check = false;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--list") {
        for (const Family& f : families()) std::printf("%s\n", f.name);
        return 0;
      }
      if (option == "--check") {
        check = true;
        continue;
      }
      if (i + 1 == argc)
        throw rondo::Error(rondo::ErrorKind::Usage,
                           option +
                               " is unknown or lacks its value: expected --json FILE, --trials N, --seed S, "
                               "--only NAME, --check, --libs FOLDERS or --list");
      const std::string value = argv[++i];
      if (option == "--json")
        json = value;
      else if (option == "--libs")
        bench::look_in(value);
      else if (option == "--only")
        only = value;
      else if (option == "--trials")
        trials = std::atoi(value.c_str());
      else if (option == "--seed")
        seed = std::strtoull(value.c_str(), nullptr, 10);
      else
        throw rondo::Error(rondo::ErrorKind::Usage, "unknown: " + option + " " + value);
    }
    return run(trials, seed, only, json, check);
  } catch (const rondo::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.kind() == rondo::ErrorKind::Unavailable ? 77 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
