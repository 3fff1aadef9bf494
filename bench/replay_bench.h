// What the programs about replay regions share: checked calls, device memory that is filled, compared and
// given back at once, cuBLAS handles, and numbers.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <rondo/error.h>
#include <rondo/graph.h>
#include <rondo/replay.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "library_loader.h"

namespace bench {

inline void must(cudaError_t code, const char* call) {
  if (code != cudaSuccess)
    throw rondo::Error(rondo::ErrorKind::Device, std::string(call) + " answers " + cudaGetErrorName(code) +
                                                     ": " + cudaGetErrorString(code));
}
// In the work of a region too: a call that a capture does not allow ends the recording with its name.
#define MUST(call) ::bench::must((call), #call)
inline void launched() { must(cudaGetLastError(), "a kernel launch"); }

// The first GPU, its context current. Exit code 77 of the programs: there is none.
inline void use_gpu() {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) code = cudaSetDevice(0);
  if (code == cudaSuccess && count > 0) code = cudaFree(nullptr);
  if (code != cudaSuccess || count == 0)
    throw rondo::Error(rondo::ErrorKind::Unavailable,
                       std::string("no GPU can be used: ") + cudaGetErrorString(code));
  // This program has a run-time API of its own inside, whose last error a broken recording must not leave
  // set.
  rondo::graph::use_runtime_last_error([] { return static_cast<int>(cudaGetLastError()); });
}
inline std::string gpu_name() {
  cudaDeviceProp properties{};
  MUST(cudaGetDeviceProperties(&properties, 0));
  int driver = 0;
  MUST(cudaDriverGetVersion(&driver));
  return std::string(properties.name) + ", driver of CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

// ---------------------------------------------------------------- contents
enum class Type { F32, F16, BF16, F64, I32, U8, Index };  // Index: 0 to range - 1
inline size_t size_of(Type t) {
  switch (t) {
    case Type::F16:
    case Type::BF16:
      return 2;
    case Type::F64:
      return 8;
    case Type::U8:
      return 1;
    default:
      return 4;
  }
}

__host__ __device__ inline uint32_t mixed(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
  return x;
}
// Floats in [-1, 1), ints in [-1000, 1000).
static __global__ void fill_kernel(void* to, size_t count, Type type, uint32_t seed, uint32_t range) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint32_t bits = mixed(static_cast<uint32_t>(i) * 0x9e3779b9u + mixed(seed));
    const float f = static_cast<float>(bits >> 8) * (2.0f / 16777216.0f) - 1.0f;
    switch (type) {
      case Type::F32:
        static_cast<float*>(to)[i] = f;
        break;
      case Type::F16:
        static_cast<__half*>(to)[i] = __float2half(f);
        break;
      case Type::BF16:
        static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(f);
        break;
      case Type::F64:
        static_cast<double*>(to)[i] = f;
        break;
      case Type::I32:
        static_cast<int32_t*>(to)[i] = static_cast<int32_t>(bits % 2000u) - 1000;
        break;
      case Type::U8:
        static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(bits >> 24);
        break;
      case Type::Index:
        static_cast<uint32_t*>(to)[i] = bits % range;
        break;
    }
  }
}
inline void fill(void* to, size_t count, Type type, uint32_t seed, cudaStream_t s, uint32_t range = 1) {
  if (count == 0) return;
  const unsigned blocks = static_cast<unsigned>(std::min<size_t>((count + 255) / 256, 2048));
  fill_kernel<<<blocks, 256, 0, s>>>(to, count, type, seed, range);
  launched();
}

// Where two stretches of memory differ: how many bytes, and the first of them.
struct Difference {
  unsigned long long bytes = 0, first = ~0ull;
};
static __global__ void compare_kernel(const uint8_t* a, const uint8_t* b, size_t bytes,
                                      unsigned long long base, Difference* out) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool wide = (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 16 == 0;
  const size_t words = wide ? bytes / 16 : 0;
  const auto byte = [&](size_t i) {
    if (a[i] == b[i]) return;
    atomicAdd(&out->bytes, 1ull);
    atomicMin(&out->first, base + i);
  };
  for (size_t w = at; w < words; w += step) {
    const uint4 x = reinterpret_cast<const uint4*>(a)[w], y = reinterpret_cast<const uint4*>(b)[w];
    if (x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w)
      for (size_t i = 16 * w; i < 16 * w + 16; ++i) byte(i);
  }
  for (size_t i = 16 * words + at; i < bytes; i += step) byte(i);
}
// Adds to *out, whose `first` counts from `base`.
inline void compare(const void* a, const void* b, size_t bytes, unsigned long long base, Difference* out,
                    cudaStream_t s) {
  if (bytes == 0) return;
  const unsigned blocks = static_cast<unsigned>(std::min<size_t>((bytes / 16 + 255) / 256 + 1, 2048));
  compare_kernel<<<blocks, 256, 0, s>>>(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), bytes,
                                        base, out);
  launched();
}

// ---------------------------------------------------------------- memory
// Device (and page-locked) memory, given back together. Each block begins at a multiple of 512 bytes.
class Arena {
 public:
  explicit Arena(cudaStream_t stream) : stream_(stream) {}
  ~Arena() {
    for (void* p : device_) (void)cudaFree(p);
    for (void* p : host_) (void)cudaFreeHost(p);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* bytes(size_t count) {
    void* p = nullptr;
    MUST(cudaMalloc(&p, std::max<size_t>(count, 1)));
    device_.push_back(p);
    MUST(cudaMemsetAsync(p, 0, std::max<size_t>(count, 1), stream_));
    return p;
  }
  void* host_bytes(size_t count) {
    void* p = nullptr;
    MUST(cudaMallocHost(&p, std::max<size_t>(count, 1)));
    host_.push_back(p);
    return p;
  }
  // Zeros.
  template <class T>
  T* zeros(size_t count) {
    return static_cast<T*>(bytes(count * sizeof(T)));
  }
  template <class T>
  T* filled(size_t count, uint32_t range = 1) {
    T* p = zeros<T>(count);
    fill(p, count, type_of(static_cast<T*>(nullptr)), ++seed_, stream_, range);
    return p;
  }

 private:
  static Type type_of(const float*) { return Type::F32; }
  static Type type_of(const __half*) { return Type::F16; }
  static Type type_of(const __nv_bfloat16*) { return Type::BF16; }
  static Type type_of(const int32_t*) { return Type::I32; }
  static Type type_of(const uint32_t*) { return Type::Index; }
  cudaStream_t stream_;
  uint32_t seed_ = 0;
  std::vector<void*> device_, host_;
};

// ---------------------------------------------------------------- cuBLAS
// A handle and its workspace: cuBLAS allocates nothing by itself then, which a recording could not do.
class BlasHandle {
 public:
  static constexpr size_t kWorkspace = size_t{32} << 20;
  BlasHandle() {
    must(b_.cublasCreate_v2(&handle_), "cublasCreate");
    MUST(cudaMalloc(&workspace_, kWorkspace));
  }
  ~BlasHandle() {
    (void)b_.cublasDestroy_v2(handle_);
    (void)cudaFree(workspace_);
  }
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  // The handle, its work going into `s`. Setting the stream takes the workspace away, so it is given each
  // time.
  cublasHandle_t on(cudaStream_t s) const {
    must(b_.cublasSetStream_v2(handle_, s), "cublasSetStream");
    must(b_.cublasSetWorkspace_v2(handle_, workspace_, kWorkspace), "cublasSetWorkspace");
    return handle_;
  }

 private:
  const Blas& b_ = Blas::get();
  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

// y[rows, out] = x[rows, in] * w[in, out] (all row by row) + beta * y.
inline void product(const BlasHandle& blas, cudaStream_t s, const float* x, const float* w, float* y,
                    int rows, int in, int out, float beta = 0.0f) {
  const float one = 1.0f;
  must(Blas::get().cublasSgemm_v2(blas.on(s), CUBLAS_OP_N, CUBLAS_OP_N, out, rows, in, &one, w, out, x, in,
                                  &beta, y, out),
       "cublasSgemm");
}

// ---------------------------------------------------------------- numbers
using Clock = std::chrono::steady_clock;
inline double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
// Of each pair a[i] / b[i].
inline double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}
inline double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace bench
