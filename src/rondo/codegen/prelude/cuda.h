// Head of every generated CUDA file (compiled by NVRTC, so it includes nothing). Access to the minibatch's table, the
// order of kernels in a chain of programmatic dependent launches, scalar functions, and the GEMM with gathered rows.
//
// An operation `Op` of a generated GEMM offers
//   static constexpr int N, FREE, ACCS, SEGMENTS, MAX_USES;
//   static constexpr bool UNIFORM;                     every segment is used by all accumulators, in order
//   static constexpr int K[], USES[], VEC[] (4: rows are 16-byte aligned and contiguous in k; else 1), STRIDE_K[];
//   static constexpr long long PACK[];                 floats into the weight arena, layout [n/8][k][uses][8]
//   template <int S> static constexpr int acc_of(int g)    the accumulator of use g (a local constexpr array)
//   uint32_t count;                                    records at this level
//   const float* weights;
//   template <int S> const float* a_row(uint32_t record, uint32_t f) const;    element k at [k * STRIDE_K[S]]
//   void epilogue(uint32_t record, uint32_t f, uint32_t n, const float (&acc)[ACCS]) const;
// and the kernel calls gemm<Op>(op, tile, shared) for tile < gemm_tiles<Op>(count), with 256 threads a block and the dynamic
// shared memory that gemm_shared_bytes (cuda_shapes.h) computes.

typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;

// What NVRTC lacks of the names that both dialects' literals use.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fffffff)

// ---------------------------------------------------------------- chains of dependent launches
// A kernel lets the next one start at once (start_next, first thing) and waits for the previous one before it touches rows
// (wait_previous). The next kernel's wait covers only THIS kernel, so this one must not end before its predecessor has:
// block 0 waits whether it has work or not (end_of_kernel). Other blocks without work leave at once and make room for the
// next kernel, whose weights can then already travel. The table, written before the first kernel, may be read at any time.
__device__ __forceinline__ void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void end_of_kernel() {
  if (blockIdx.x == 0) wait_previous();
}

// ---------------------------------------------------------------- the table (batch/abi.h)
__device__ __forceinline__ float* pool_at(const uint32_t* table, uint32_t number) {
  return reinterpret_cast<float* const*>(table)[number];
}

// ---------------------------------------------------------------- scalar functions (single precision, libdevice accuracy)
__device__ __forceinline__ float exp_f(float x) { return expf(x); }
__device__ __forceinline__ float log_f(float x) { return logf(x); }
__device__ __forceinline__ float sqrt_f(float x) { return sqrtf(x); }
__device__ __forceinline__ float abs_f(float x) { return fabsf(x); }
__device__ __forceinline__ float sigmoid_f(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float tanh_f(float x) { return tanhf(x); }
__device__ __forceinline__ float relu_f(float x) { return x < 0.0f ? 0.0f : x; }
__device__ __forceinline__ float erf_f(float x) { return erff(x); }
__device__ __forceinline__ float gelu_f(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
__device__ __forceinline__ float sin_f(float x) { return sinf(x); }
__device__ __forceinline__ float cos_f(float x) { return cosf(x); }
__device__ __forceinline__ float floor_f(float x) { return floorf(x); }
__device__ __forceinline__ float pow_f(float x, float y) { return powf(x, y); }
// A NaN on either side stays one, as in NumPy.
__device__ __forceinline__ float max_f(float x, float y) { return x > y || x != x ? x : y; }
__device__ __forceinline__ float min_f(float x, float y) { return x < y || x != x ? x : y; }

// ---------------------------------------------------------------- asynchronous copies into shared memory
// Copies BYTES (4 or 16); writes zeros instead when !valid (src must still be a readable address).
template <int BYTES>
__device__ __forceinline__ void copy_async(float* shared, const float* src, bool valid) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
#if __CUDA_ARCH__ >= 800
  const int bytes = valid ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
#else
  (void)to;
  for (int i = 0; i < BYTES / 4; ++i) shared[i] = valid ? src[i] : 0.0f;
#endif
}
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Bulk copies (the copy engine of sm_90): one instruction moves a contiguous piece and counts its bytes on a barrier.
// Addresses and sizes are multiples of 16 bytes.
#if __CUDA_ARCH__ >= 900
constexpr bool kBulkCopies = true;
#else
constexpr bool kBulkCopies = false;
#endif
__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void init_barrier(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
#endif
}
// Later copies by the engine come after earlier ordinary accesses of this thread.
__device__ __forceinline__ void order_bulk_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void copy_bulk(float* shared, const float* src, uint32_t bytes, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
               "l"(src), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}
__device__ __forceinline__ void wait_barrier(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p;\n"
      "again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again%=; }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
#endif
}

// ---------------------------------------------------------------- GEMM with gathered rows
// A tile is BM gathered rows x BU units of n, all ACCS accumulators of a unit in one thread. The 256 threads are
// KS groups that share the k range x TM row groups x TU unit groups; a thread holds R rows x UT units x ACCS sums.
// Few rows: small tiles, so that many SMs stream the weights; many rows: large ones, so that a weight is used more often.
template <int R_, int TM_, int TU_, int KS_, int UT_, int KC_, int STAGES_, int AV_>
struct TileShape {
  static constexpr int R = R_, TM = TM_, TU = TU_, KS = KS_, UT = UT_, KC = KC_, STAGES = STAGES_, AV = AV_;
  static constexpr int BM = R * TM, BU = TU * UT, THREADS = TM * TU * KS;
  static constexpr int A_LD = KC + 4;                    // padded: rows of a warp fall into different banks
  static constexpr int KK = KC / KS;                     // k of one group in a chunk
  static_assert(KK % AV == 0 && BU % 8 == 0, "tile shape");
};
template <int W> struct alignas(W * 4) Vector { float v[W]; };

// Three shapes; all keep a warp's lanes on 8 units x 4 row groups and split k over the 8 warps of a block. Registers and
// shared memory of each let two blocks live on an SM, so that one computes while the other waits for its first rows.
template <class Op> struct Shapes {
  static constexpr int A = Op::ACCS, UT = A >= 3 ? 1 : 2;
  using Narrow = TileShape<2, 4, 8, 8, UT, 64, 4, 4>;
  using Middle = TileShape<4, 4, 8, 8, UT, 64, 4, 4>;
  using Wide = TileShape<8, 4, 8, 8, (A >= 3 ? 1 : A == 2 ? 2 : 4), 64, 3, (A > 5 ? 2 : 4)>;
};
// Microseconds of a round of tiles when at most half of the grid has one, and when more has: measured on an H200
// (docs/decisions.md); only their ratios matter.
struct RoundCost { float few, many; };
constexpr RoundCost kNarrowCost = {5.6f, 8.8f}, kMiddleCost = {7.2f, 9.8f}, kWideCost = {10.5f, 14.2f};

template <class Shape>
__device__ constexpr uint32_t shape_tiles(uint32_t rows, int n) {
  return ((rows + Shape::BM - 1) / Shape::BM) * ((n + Shape::BU - 1) / Shape::BU);
}
__device__ inline float time_of(uint32_t tiles, RoundCost cost) {
  return 2 * tiles <= gridDim.x ? cost.few : cost.many * static_cast<float>((tiles + gridDim.x - 1) / gridDim.x);
}
// The shape that takes least time when its tiles go round the blocks of the grid.
template <class Op>
__device__ int choose_shape(uint32_t count) {
  const uint32_t rows = count * Op::FREE;
  const float narrow = time_of(shape_tiles<typename Shapes<Op>::Narrow>(rows, Op::N), kNarrowCost);
  const float middle = time_of(shape_tiles<typename Shapes<Op>::Middle>(rows, Op::N), kMiddleCost);
  const float wide = time_of(shape_tiles<typename Shapes<Op>::Wide>(rows, Op::N), kWideCost);
  return wide <= middle && wide <= narrow ? 2 : middle < narrow ? 1 : 0;
}
template <class Op>
__device__ uint32_t gemm_tiles(uint32_t count) {
  const uint32_t rows = count * Op::FREE;
  const int shape = choose_shape<Op>(count);
  return shape == 0   ? shape_tiles<typename Shapes<Op>::Narrow>(rows, Op::N)
         : shape == 1 ? shape_tiles<typename Shapes<Op>::Middle>(rows, Op::N)
                      : shape_tiles<typename Shapes<Op>::Wide>(rows, Op::N);
}

template <class Op, class C>
struct GemmTile {
  static constexpr int A_FLOATS = C::BM * C::A_LD;
  static constexpr int GROUPS = C::BU / 8;
  static constexpr int B_GROUP = C::KC * Op::MAX_USES * 8 + 8;  // +8: neighbouring groups start in other banks
  static constexpr int B_FLOATS = GROUPS * B_GROUP;
  static constexpr int STAGE = A_FLOATS + B_FLOATS;

  // Weights of whole chunks travel as bulk copies, those of a ragged k piece by piece. Gathered rows always travel piece by
  // piece: a bulk copy a row is slower (measured, docs/decisions.md).
  template <int S = 0> __device__ static constexpr bool bulk() {
    if constexpr (!kBulkCopies || Op::K[S] % C::KC != 0) return false;
    else if constexpr (S + 1 < Op::SEGMENTS) return bulk<S + 1>();
    else return true;
  }

  const Op& op;
  float* shared;
  uint32_t rows, m0, n0;
  int thread, lane_u, row_group, k_group;

  template <int S> __device__ static constexpr int chunks() { return (Op::K[S] + C::KC - 1) / C::KC; }
  template <int S = 0> __device__ static constexpr int all_chunks() {
    if constexpr (S + 1 < Op::SEGMENTS) return chunks<S>() + all_chunks<S + 1>();
    else return chunks<S>();
  }

  template <int S = 0>
  __device__ __forceinline__ void load_b(int chunk, float* stage) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return load_b<S + 1>(chunk - chunks<S>(), stage);
    }
    constexpr int K = Op::K[S], ROW = Op::USES[S] * 8, QUADS = C::KC * ROW / 4;
    constexpr int64_t PACK = Op::PACK[S];
    const int k0 = chunk * C::KC;
    float* b = stage + A_FLOATS;
    for (int i = thread; i < GROUPS * QUADS; i += C::THREADS) {
      const int g = i / QUADS, q = i % QUADS;
      const uint32_t group = n0 / 8 + g;
      const bool valid = group < (Op::N + 7) / 8 && k0 + q * 4 / ROW < K;
      const float* from = op.weights + PACK + (valid ? (static_cast<int64_t>(group) * K + k0) * ROW + q * 4 : 0);
      copy_async<16>(b + g * B_GROUP + q * 4, from, valid);
    }
  }

  template <int S = 0>
  __device__ __forceinline__ void load_a(int chunk, float* stage) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return load_a<S + 1>(chunk - chunks<S>(), stage);
    }
    constexpr int K = Op::K[S], VEC = Op::VEC[S], STRIDE = Op::STRIDE_K[S], PER_ROW = C::KC / VEC;
    const int k0 = chunk * C::KC;
    for (int i = thread; i < C::BM * PER_ROW; i += C::THREADS) {
      // Contiguous rows: neighbouring threads along k. Strided rows (columns of a matrix): along the rows.
      const int m = VEC == 4 ? i / PER_ROW : i % C::BM, k = (VEC == 4 ? i % PER_ROW : i / C::BM) * VEC;
      const bool valid = m0 + m < rows && k0 + k < K;
      const float* from = row_pointers()[S * C::BM + m] + (valid ? (k0 + k) * STRIDE : 0);
      copy_async<VEC * 4>(stage + m * C::A_LD + k, from, valid);
    }
  }

  // The bulk twin of load_b, run by one thread.
  template <int S = 0>
  __device__ __forceinline__ void expect(int chunk, uint64_t* barrier) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return expect<S + 1>(chunk - chunks<S>(), barrier);
    }
    constexpr int ROW = Op::USES[S] * 8;
    const uint32_t left = (Op::N + 7) / 8 - n0 / 8, groups = left < GROUPS ? left : GROUPS;
    expect_bytes(barrier, C::KC * 4 * groups * ROW);
  }
  template <int S = 0>
  __device__ __forceinline__ void bulk_b(int chunk, float* stage, uint64_t* barrier) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return bulk_b<S + 1>(chunk - chunks<S>(), stage, barrier);
    }
    constexpr int K = Op::K[S], ROW = Op::USES[S] * 8;
    constexpr int64_t PACK = Op::PACK[S];
    for (int g = 0; g < GROUPS; ++g) {
      const uint32_t group = n0 / 8 + g;
      if (group < (Op::N + 7) / 8)
        copy_bulk(stage + A_FLOATS + g * B_GROUP, op.weights + PACK + (static_cast<int64_t>(group) * K + chunk * C::KC) * ROW,
                  C::KC * ROW * 4, barrier);
    }
  }
  // Addresses of the tile's rows, an entry a segment and row, at the start of shared memory. They come from the table, so
  // they are found before the wait. Rows beyond the last one take the address of row 0 (nothing is read from them).
  static constexpr int POINTER_FLOATS = (Op::SEGMENTS * C::BM * 2 + 31) / 32 * 32;  // stages stay aligned
  __device__ __forceinline__ const float** row_pointers() const { return reinterpret_cast<const float**>(shared); }
  template <int S = 0>
  __device__ __forceinline__ void find_rows() const {
    for (int m = thread; m < C::BM; m += C::THREADS) {
      const uint32_t row = m0 + m < rows ? m0 + m : 0;
      row_pointers()[S * C::BM + m] = op.template a_row<S>(row / Op::FREE, row % Op::FREE);
    }
    if constexpr (S + 1 < Op::SEGMENTS) find_rows<S + 1>();
  }

  template <int S = 0>
  __device__ __forceinline__ void multiply(int chunk, const float* stage, float (&acc)[C::R][C::UT][Op::ACCS]) const {
    if constexpr (S + 1 < Op::SEGMENTS && !Op::UNIFORM) {
      if (chunk >= chunks<S>()) return multiply<S + 1>(chunk - chunks<S>(), stage, acc);
    }
    constexpr int USES = Op::USES[S], AV = C::AV;
    const float* a = stage + row_group * C::A_LD + k_group * C::KK;  // rows of a thread: row_group + r * TM
    const int u = lane_u * C::UT;
    const float* b = stage + A_FLOATS + (u / 8) * B_GROUP + k_group * C::KK * USES * 8 + u % 8;
#pragma unroll 2
    for (int k0 = 0; k0 < C::KK; k0 += AV) {
      Vector<AV> av[C::R];
#pragma unroll
      for (int r = 0; r < C::R; ++r) av[r] = *reinterpret_cast<const Vector<AV>*>(a + r * C::TM * C::A_LD + k0);
#pragma unroll
      for (int k = 0; k < AV; ++k) {
#pragma unroll
        for (int g = 0; g < USES; ++g) {
          const Vector<C::UT> bv = *reinterpret_cast<const Vector<C::UT>*>(b + ((k0 + k) * USES + g) * 8);
#pragma unroll
          for (int r = 0; r < C::R; ++r)
#pragma unroll
            for (int t = 0; t < C::UT; ++t) acc[r][t][Op::template acc_of<S>(g)] += av[r].v[k] * bv.v[t];
        }
      }
    }
  }

  __device__ __forceinline__ void finish(uint32_t row, uint32_t n, const float (&acc)[Op::ACCS]) const {
    if (row < rows && n < Op::N) op.epilogue(row / Op::FREE, row % Op::FREE, n, acc);
  }

  __device__ void run() const {
    constexpr int CHUNKS = all_chunks();
    float acc[C::R][C::UT][Op::ACCS] = {};
    float* const stages = shared + POINTER_FLOATS;
    __shared__ alignas(8) uint64_t full[C::STAGES];  // a stage's weights have arrived
    if constexpr (bulk()) order_bulk_copies();
    __syncthreads();  // the tile before this one has left shared memory
    if constexpr (bulk()) {
      if (thread < C::STAGES) init_barrier(full + thread), order_bulk_copies();
    }
    find_rows();
    __syncthreads();
    const auto weights_of = [&](int chunk) {
      float* stage = stages + chunk % C::STAGES * STAGE;
      if constexpr (bulk()) {
        if (thread == 0) expect(chunk, full + chunk % C::STAGES), bulk_b(chunk, stage, full + chunk % C::STAGES);
      } else {
        load_b(chunk, stage);
      }
    };
    // Weights do not depend on the previous kernel: their first chunks travel while it still runs.
#pragma unroll
    for (int s = 0; s < C::STAGES - 1; ++s)
      if (s < CHUNKS) weights_of(s);
    wait_previous();
#pragma unroll
    for (int s = 0; s < C::STAGES - 1; ++s) {
      if (s < CHUNKS) load_a(s, stages + s * STAGE);
      commit_copies();
    }
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      wait_copies<C::STAGES - 2>();
      if constexpr (bulk()) wait_barrier(full + chunk % C::STAGES, chunk / C::STAGES & 1);
      __syncthreads();  // the stage has arrived for everybody, and everybody is done with the one that is filled next
      const int next = chunk + C::STAGES - 1;
      if (next < CHUNKS) {
        weights_of(next);
        load_a(next, stages + next % C::STAGES * STAGE);
      }
      commit_copies();
      multiply(chunk, stages + chunk % C::STAGES * STAGE, acc);
    }
    if constexpr (C::KS == 1) {
#pragma unroll
      for (int r = 0; r < C::R; ++r)
#pragma unroll
        for (int t = 0; t < C::UT; ++t) finish(m0 + row_group + r * C::TM, n0 + lane_u * C::UT + t, acc[r][t]);
    } else {
      // Partial sums of the k groups meet in shared memory, [k group][acc][row][unit].
      constexpr int CELLS = C::BM * C::BU;
      __syncthreads();
#pragma unroll
      for (int r = 0; r < C::R; ++r)
#pragma unroll
        for (int t = 0; t < C::UT; ++t)
#pragma unroll
          for (int g = 0; g < Op::ACCS; ++g)
            stages[(k_group * Op::ACCS + g) * CELLS + (row_group + r * C::TM) * C::BU + lane_u * C::UT + t] = acc[r][t][g];
      __syncthreads();
      for (int cell = thread; cell < CELLS; cell += C::THREADS) {
        float sum[Op::ACCS] = {};
#pragma unroll
        for (int s = 0; s < C::KS; ++s)
#pragma unroll
          for (int g = 0; g < Op::ACCS; ++g) sum[g] += stages[(s * Op::ACCS + g) * CELLS + cell];
        finish(m0 + cell / C::BU, n0 + cell % C::BU, sum);
      }
    }
  }

  __device__ GemmTile(const Op& o, float* s, uint32_t tile) : op(o), shared(s) {
    rows = o.count * Op::FREE;
    const uint32_t across = (Op::N + C::BU - 1) / C::BU;
    m0 = tile / across * C::BM;
    n0 = tile % across * C::BU;
    thread = threadIdx.x;
    lane_u = thread % C::TU;
    row_group = thread / C::TU % C::TM;
    k_group = thread / (C::TU * C::TM);
  }
};

template <class Op>
__device__ void gemm(const Op& op, uint32_t tile, float* shared) {
  const int shape = choose_shape<Op>(op.count);
  if (shape == 0) GemmTile<Op, typename Shapes<Op>::Narrow>(op, shared, tile).run();
  else if (shape == 1) GemmTile<Op, typename Shapes<Op>::Middle>(op, shared, tile).run();
  else GemmTile<Op, typename Shapes<Op>::Wide>(op, shared, tile).run();
}
