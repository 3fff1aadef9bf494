// Kinds of work of kernels of our own: parameters of every form, tables, copies, streams, scalars, tensor maps, and work
// that cannot be recorded.
#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include "replay_kinds.h"

namespace {

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

}  // namespace
