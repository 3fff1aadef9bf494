// Kinds of work of libraries: cuBLAS, cuBLASLt, cuDNN by its older interface, CUB, Thrust.
#pragma once
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cub/cub.cuh>

#include "replay_kinds.h"

namespace {

__global__ void make_table(const float** table, const float* base, int count, size_t stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) table[i] = base + i * stride;
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

}  // namespace
