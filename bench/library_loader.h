// cuBLAS, cuBLASLt and cuDNN found at run time, for benchmarks that must also start where they are not.
//
//     const Blas& blas = Blas::get();          // looked for once
//     if (!blas.ok()) skip(blas.why());        // where it was looked for, and what the loader said
//     blas.cublasSgemm_v2(...);
//
// Looked for in library_folders(), which the program fills before the first use (option --libs;
// tools/gpu_suite.sh gives the folders of Python's nvidia packages); else by its name, where the loader
// looks; else in /usr/local/cuda/lib64.
#pragma once
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rondo/error.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define BENCH_HAS_CUDNN 1
#else
#define BENCH_HAS_CUDNN 0
#endif

namespace bench {

inline std::vector<std::string>& library_folders() {
  static std::vector<std::string> folders;
  return folders;
}
// "folder:folder", as for LD_LIBRARY_PATH.
inline void look_in(const std::string& folders) {
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    if (end > at) library_folders().push_back(folders.substr(at, end - at));
    at = end + 1;
  }
}

// A shared library that stays open to the end of the process.
class Library {
 public:
  explicit Library(const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& folder : library_folders())
      for (const std::string& name : names) paths.push_back(folder + "/" + name);
    for (const std::string& name : names) paths.push_back(name);
    for (const std::string& name : names) paths.push_back("/usr/local/cuda/lib64/" + name);
    for (const std::string& path : paths) {
      // Global: cuDNN and cuBLAS look for each other's parts by name.
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (handle_) {
        path_ = path;
        return;
      }
      const char* said = dlerror();
      why_ += (why_.empty() ? "" : "; ") + path + ": " + (said ? said : "no reason given");
    }
  }
  bool ok() const { return handle_ && missing_.empty(); }
  const std::string& path() const { return path_; }
  std::string why() const {
    if (!handle_) return why_;
    return missing_.empty() ? "" : path_ + " has no " + missing_;
  }
  template <class F>
  F find(const char* name) {
    void* address = handle_ ? dlsym(handle_, name) : nullptr;
    if (handle_ && !address) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    return reinterpret_cast<F>(address);
  }

 private:
  void* handle_ = nullptr;
  std::string path_, why_, missing_;
};

// These three have a second form in C++ headers, so their types are spelled out.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const void* alpha, const void* a, cudaDataType, int lda, const void* b,
                                  cudaDataType, int ldb, const void* beta, void* c, cudaDataType, int ldc,
                                  cublasComputeType_t, cublasGemmAlgo_t);
using GemmBatchedEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                                         int k, const void* alpha, const void* const* a, cudaDataType,
                                         int lda, const void* const* b, cudaDataType, int ldb,
                                         const void* beta, void* const* c, cudaDataType, int ldc, int batch,
                                         cublasComputeType_t, cublasGemmAlgo_t);
using GemmStridedBatchedEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m,
                                                int n, int k, const void* alpha, const void* a, cudaDataType,
                                                int lda, long long stride_a, const void* b, cudaDataType,
                                                int ldb, long long stride_b, const void* beta, void* c,
                                                cudaDataType, int ldc, long long stride_c, int batch,
                                                cublasComputeType_t, cublasGemmAlgo_t);

// A line a function, in the name that the library exports: X(name), or Y(name, type).
#define BENCH_CUBLAS_FUNCTIONS(X, Y)    \
  X(cublasCreate_v2)                    \
  X(cublasDestroy_v2)                   \
  X(cublasGetVersion_v2)                \
  X(cublasSetStream_v2)                 \
  X(cublasSetWorkspace_v2)              \
  X(cublasSgemm_v2)                     \
  X(cublasSgemv_v2)                     \
  Y(cublasGemmEx, GemmEx)               \
  X(cublasSgemmBatched)                 \
  Y(cublasGemmBatchedEx, GemmBatchedEx) \
  X(cublasSgemmStridedBatched)          \
  Y(cublasGemmStridedBatchedEx, GemmStridedBatchedEx)

#define BENCH_CUBLASLT_FUNCTIONS(X, Y)    \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)

#if BENCH_HAS_CUDNN
#define BENCH_CUDNN_FUNCTIONS(X, Y)          \
  X(cudnnGetVersion)                         \
  X(cudnnGetErrorString)                     \
  X(cudnnCreate)                             \
  X(cudnnDestroy)                            \
  X(cudnnSetStream)                          \
  X(cudnnCreateTensorDescriptor)             \
  X(cudnnDestroyTensorDescriptor)            \
  X(cudnnSetTensor4dDescriptor)              \
  X(cudnnCreateFilterDescriptor)             \
  X(cudnnDestroyFilterDescriptor)            \
  X(cudnnSetFilter4dDescriptor)              \
  X(cudnnCreateConvolutionDescriptor)        \
  X(cudnnDestroyConvolutionDescriptor)       \
  X(cudnnSetConvolution2dDescriptor)         \
  X(cudnnGetConvolutionForwardWorkspaceSize) \
  X(cudnnConvolutionForward)                 \
  X(cudnnConvolutionBiasActivationForward)   \
  X(cudnnCreateActivationDescriptor)         \
  X(cudnnDestroyActivationDescriptor)        \
  X(cudnnSetActivationDescriptor)            \
  X(cudnnCreatePoolingDescriptor)            \
  X(cudnnDestroyPoolingDescriptor)           \
  X(cudnnSetPooling2dDescriptor)             \
  X(cudnnPoolingForward)                     \
  X(cudnnSoftmaxForward)                     \
  X(cudnnCreateAttnDescriptor)               \
  X(cudnnDestroyAttnDescriptor)              \
  X(cudnnSetAttnDescriptor)                  \
  X(cudnnGetMultiHeadAttnBuffers)            \
  X(cudnnMultiHeadAttnForward)               \
  X(cudnnCreateSeqDataDescriptor)            \
  X(cudnnDestroySeqDataDescriptor)           \
  X(cudnnSetSeqDataDescriptor)               \
  X(cudnnBatchNormalizationForwardInference)
#endif

#define BENCH_MEMBER(name) decltype(&::name) name = library_.find<decltype(&::name)>(#name);
#define BENCH_TYPED_MEMBER(name, type) type name = library_.find<type>(#name);
#define BENCH_TABLE(Table, functions, ...)                                  \
  class Table {                                                             \
    Library library_{{__VA_ARGS__}};                                        \
                                                                            \
   public:                                                                  \
    functions(BENCH_MEMBER, BENCH_TYPED_MEMBER) static const Table& get() { \
      static const Table table;                                             \
      return table;                                                         \
    }                                                                       \
    bool ok() const { return library_.ok(); }                               \
    std::string why() const { return library_.why(); }                      \
    const std::string& path() const { return library_.path(); }             \
  };

BENCH_TABLE(BlasLt, BENCH_CUBLASLT_FUNCTIONS, "libcublasLt.so.13", "libcublasLt.so.12")
BENCH_TABLE(Blas, BENCH_CUBLAS_FUNCTIONS, "libcublas.so.13", "libcublas.so.12")
#if BENCH_HAS_CUDNN
BENCH_TABLE(Dnn, BENCH_CUDNN_FUNCTIONS, "libcudnn.so.9")
#else
struct Dnn {
  static const Dnn& get() {
    static const Dnn table;
    return table;
  }
  bool ok() const { return false; }
  std::string why() const { return "this program was built without cudnn.h"; }
  std::string path() const { return ""; }
};
#endif
#undef BENCH_TABLE
#undef BENCH_MEMBER
#undef BENCH_TYPED_MEMBER

inline void must(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw rondo::Error(rondo::ErrorKind::Device, std::string(call) + " answers " + std::to_string(status));
}
#if BENCH_HAS_CUDNN
inline void must(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw rondo::Error(rondo::ErrorKind::Device, std::string(call) + " answers " + std::to_string(status) +
                                                     ", " + Dnn::get().cudnnGetErrorString(status));
}
#endif

}  // namespace bench
