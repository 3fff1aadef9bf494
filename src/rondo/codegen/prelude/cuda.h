// Head of every generated CUDA file (compiled by NVRTC, so it includes nothing). Access to the minibatch's table, the
// order of kernels in a chain of programmatic dependent launches, scalar functions, and the GEMM with gathered rows.
//
// An operation `Op` of a generated GEMM offers
//   static constexpr int N, FREE, ACCS, SEGMENTS, MAX_USES, MAX_K, EARLY;
//   static constexpr int K[], USES[], VEC[] (4: rows are 16-byte aligned and contiguous in k; else 1), STRIDE_K[];
//   static constexpr bool UNIFORM;                     every segment is used by all accumulators, in order
//   static constexpr long long PACK[];                 floats into the weight arena, in lane order (batch/pack_weights.h)
//   template <int S> static constexpr int acc_of(int g)    the accumulator of use g (a local constexpr array)
//   uint32_t count;                                    records at this level
//   const float* weights;
//   template <int S> const float* a_row(uint32_t record, uint32_t f) const;    element k at [k * STRIDE_K[S]]
//   void load(uint32_t record, uint32_t f, uint32_t n, float (&early)[EARLY]) const;     what the epilogue reads
//   void epilogue(uint32_t record, uint32_t f, uint32_t n, const float (&acc)[ACCS], const float (&early)[EARLY]) const;
//   Op(const uint32_t* table, const float* weights, uint32_t level);
// and the kernel calls gemm<Op>(..) with 256 threads a block and kGemmSharedBytes of dynamic shared memory.

typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;

// What NVRTC lacks of the names that both dialects' literals use.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fffffff)

// ---------------------------------------------------------------- chains of dependent launches
// A kernel lets the next one start at once (start_next, first thing) and waits for the previous one before it
// touches rows (wait_previous). The next kernel's wait covers only THIS kernel, so this one must not end
// before its predecessor has: block 0 waits whether it has work or not (end_of_kernel). Other blocks without
// work leave at once and make room for the next kernel, whose weights can then already travel. The table may
// be read at any time: the first kernel starts when it is there (its launch is no dependent one), and no
// other starts before the first has.
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
// 1 + e^-x is at least 1, where the reciprocal unit errs by one unit in the last place at most.
__device__ __forceinline__ float sigmoid_f(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + expf(-x)));
  return y;
}
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
__device__ __forceinline__ void init_barrier(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
#endif
}
// Later copies by the engine come after earlier ordinary accesses of this thread.
__device__ __forceinline__ void order_bulk_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void copy_bulk(float* shared, const float* src, uint32_t bytes, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
               "l"(src), "r"(bytes), "r"(barrier)
               : "memory");
#endif
}
__device__ __forceinline__ void wait_barrier(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p;\n"
      "again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again%=; }" ::"r"(barrier), "r"(parity) : "memory");
#endif
}

// ---------------------------------------------------------------- GEMM with gathered rows
// A tile is BM gathered rows x BU units of n, all ACCS accumulators of a unit in one thread, R rows x UT units a thread.
// The 32 lanes of a warp lie along 8 unit groups x TM row groups x KL parts of k, the 8 warps along WM row groups x KS parts
// of k. Whatever the shape, a thread multiplies R rows by the same few weights, so shared memory is read 7 times for 40
// multiply-adds; few rows are made up for by splitting k further, down to 16 k a step and 4 of them a lane.
// k is counted in steps of 16. A chunk, KC, is one step for each of the KS parts.
constexpr int kStep = 16, kWarps = 8, kThreads = 32 * kWarps;
template <int R_, int TM_, int KS_, int UT_, int AV_>
struct TileShape {
  static constexpr int R = R_, TM = TM_, KL = 4 / TM_, KS = KS_, WM = kWarps / KS_, UT = UT_, AV = AV_;
  static constexpr int BM = R * TM * WM, BU = 8 * UT, KC = kStep * KS;
  static constexpr int APART = TM * WM;                  // rows of a thread are this far apart
  static constexpr int A_LD = KC + 4;                    // padded: rows of a warp fall into different banks
};
template <int W> struct alignas(W * 4) Vector { float v[W]; };
template <int W> constexpr int kVector = W < 4 ? W : 4;  // floats of one load

// Registers and shared memory of each shape let two blocks live on an SM, so that one computes while the other waits for
// its first rows. KS: as many parts of k as the longest segment has steps, but fewer when very many weights share a row.
template <class Op> struct Shapes {
  static constexpr int A = Op::ACCS, STEPS = (Op::MAX_K + kStep - 1) / kStep;
  static constexpr int KS = STEPS > 4 && Op::MAX_USES <= 5 ? 8 : STEPS > 2 && Op::MAX_USES <= 10 ? 4 : STEPS > 1 ? 2 : 1;
  static constexpr int THIN = A >= 3 ? 1 : 2, THICK = A >= 3 ? 1 : A == 2 ? 2 : 4, AV = A > 5 ? 2 : 4;
  // Many sums (16 at most, plan/stages.cpp): fewer rows, for the sake of registers.
  static constexpr int R = A <= 8 ? 8 : 4;
  static_assert(A <= 16, "so many sums fit");
  using Tiny = TileShape<R, 1, KS, THIN, AV>;
  using Narrow = TileShape<R, 2, KS, THIN, AV>;
  using Middle = TileShape<R, 4, KS, THIN, AV>;
  using Wide = TileShape<R, 4, (KS + 1) / 2, THICK, AV>;
};

template <class Shape>
__device__ constexpr uint32_t shape_tiles(uint32_t rows, int n) {
  return ((rows + Shape::BM - 1) / Shape::BM) * ((n + Shape::BU - 1) / Shape::BU);
}

template <class Op, class C>
struct GemmTile {
  static constexpr int A_FLOATS = C::BM * C::A_LD;
  static constexpr int GROUPS = C::BU / 8;
  static constexpr int B_GROUP = C::KC * Op::MAX_USES * 8 + 8;  // +8: neighbouring groups start in other banks
  static constexpr int STAGE = A_FLOATS + GROUPS * B_GROUP;
  static constexpr int POINTER_FLOATS = (Op::SEGMENTS * C::BM * 2 + 31) / 32 * 32;  // stages stay aligned
  static constexpr int CELLS = C::BM * C::BU;

  template <int S> __device__ static constexpr int steps() { return (Op::K[S] + kStep - 1) / kStep; }
  template <int S> __device__ static constexpr int chunks() { return (steps<S>() + C::KS - 1) / C::KS; }
  template <int S = 0> __device__ static constexpr int all_chunks() {
    if constexpr (S + 1 < Op::SEGMENTS) return chunks<S>() + all_chunks<S + 1>();
    else return chunks<S>();
  }
  // Every chunk of every segment is a whole one.
  template <int S = 0> __device__ static constexpr bool even() {
    if constexpr (steps<S>() % C::KS != 0) return false;
    else if constexpr (S + 1 < Op::SEGMENTS) return even<S + 1>();
    else return true;
  }
  // All chunks at once if they fit: then nothing is loaded in the loop.
  static constexpr int CHUNKS = all_chunks();
  static constexpr int FIT = (kGemmSharedBytes / 4 - POINTER_FLOATS) / STAGE;
  static constexpr int STAGES = FIT < CHUNKS ? FIT : CHUNKS;
  static_assert(STAGES >= 2 || STAGES == CHUNKS, "two stages fit");
  static_assert(POINTER_FLOATS + C::KS * Op::ACCS * CELLS <= kGemmSharedBytes / 4, "the partial sums fit");

  const Op& op;
  float* shared;
  uint32_t rows, m0, n0;
  int thread, unit, row_group, k_part, k_group;

  // ---- rows: addresses, an entry a segment and row, at the start of shared memory. They come from the table, so they are
  // found before the wait. Rows beyond the last one are computed from what shared memory holds, and dropped.
  __device__ __forceinline__ const float** row_pointers() const { return reinterpret_cast<const float**>(shared); }
  template <int S = 0>
  __device__ __forceinline__ void find_rows() const {
    for (int m = thread; m < C::BM; m += kThreads) {
      const uint32_t row = m0 + m;
      if (row < rows) row_pointers()[S * C::BM + m] = op.template a_row<S>(row / Op::FREE, row % Op::FREE);
    }
    if constexpr (S + 1 < Op::SEGMENTS) find_rows<S + 1>();
  }
  // Piece by piece: a bulk copy a row is slower (measured, docs/decisions.md).
  template <int S = 0>
  __device__ __forceinline__ void load_a(int chunk, float* stage) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return load_a<S + 1>(chunk - chunks<S>(), stage);
    }
    constexpr int K = Op::K[S], STRIDE = Op::STRIDE_K[S];
    constexpr bool RAGGED = K % C::KC != 0;
    if constexpr (Op::VEC[S] == 4) {
      // The pieces of a thread lie in one row, so that one address serves them all.
      constexpr int QUADS = C::BM * C::KC / 4, PIECES = QUADS > kThreads ? QUADS / kThreads : 1, ACROSS = C::KC / 4 / PIECES;
      const int m = thread / ACROSS, k = thread % ACROSS * 4;
      if (m >= C::BM || m0 + m >= rows) return;
      const float* from = row_pointers()[S * C::BM + m] + chunk * C::KC + k;
      float* to = stage + m * C::A_LD + k;
#pragma unroll
      for (int j = 0; j < PIECES; ++j) {
        const bool valid = !RAGGED || chunk * C::KC + k + j * ACROSS * 4 < K;
        copy_async<16>(to + j * ACROSS * 4, valid ? from + j * ACROSS * 4 : row_pointers()[S * C::BM + m], valid);
      }
    } else {
      // Strided rows (columns of a matrix): neighbouring threads along the rows.
#pragma unroll 4
      for (int i = thread; i < C::BM * C::KC; i += kThreads) {
        const int m = i % C::BM, k = i / C::BM, at = chunk * C::KC + k;
        if (m0 + m >= rows) continue;
        copy_async<4>(stage + m * C::A_LD + k, row_pointers()[S * C::BM + m] + (at < K ? at * STRIDE : 0), at < K);
      }
    }
  }

  // ---- weights: [n / 8][k / 16][k % 4][piece of uses][k / 4 % 4][n % 8][use of the piece], so that the lanes of a warp,
  // whichever way they split k, read neighbouring words. A chunk is contiguous for each group of 8 units: a bulk copy of one
  // thread where there are such.
  template <int S>
  __device__ static constexpr int chunk_floats(int chunk) {
    const int left = steps<S>() - chunk * C::KS;
    return (left < C::KS ? left : C::KS) * kStep * Op::USES[S] * 8;
  }
  __device__ __forceinline__ bool has_group(int g) const { return n0 / 8 + g < (Op::N + 7) / 8; }
  template <int S>
  __device__ __forceinline__ const float* chunk_weights(int chunk, int g) const {
    constexpr int64_t PACK = Op::PACK[S];
    return op.weights + PACK + (static_cast<int64_t>(n0 / 8 + g) * steps<S>() + chunk * C::KS) * (kStep * Op::USES[S] * 8);
  }
  template <int S = 0>
  __device__ __forceinline__ void load_b(int chunk, float* stage, uint32_t barrier) const {
    if constexpr (S + 1 < Op::SEGMENTS) {
      if (chunk >= chunks<S>()) return load_b<S + 1>(chunk - chunks<S>(), stage, barrier);
    }
    const int floats = chunk_floats<S>(chunk);
    if constexpr (kBulkCopies) {
      if (thread != 0) return;
      int groups = 0;
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) groups += has_group(g);
      expect_bytes(barrier, groups * floats * 4);
#pragma unroll
      for (int g = 0; g < GROUPS; ++g)
        if (has_group(g)) copy_bulk(stage + A_FLOATS + g * B_GROUP, chunk_weights<S>(chunk, g), floats * 4, barrier);
    } else {
      for (int g = 0; g < GROUPS; ++g)
        for (int i = thread * 4; i < floats; i += kThreads * 4)
          copy_async<16>(stage + A_FLOATS + g * B_GROUP + i, chunk_weights<S>(chunk, has_group(g) ? g : 0) + i, has_group(g));
    }
  }

  // ---- arithmetic
  using Sums = float[C::R][C::UT][Op::ACCS];
  template <int S = 0>
  __device__ __forceinline__ void multiply(int chunk, const float* stage, Sums& acc) const {
    if constexpr (S + 1 < Op::SEGMENTS && !(Op::UNIFORM && even())) {
      if (chunk >= chunks<S>()) return multiply<S + 1>(chunk - chunks<S>(), stage, acc);
    }
    if constexpr (steps<S>() % C::KS != 0) {
      if (chunk * C::KS + k_group >= steps<S>()) return;
    }
    constexpr int USES = Op::USES[S], PARTS = 4 / C::KL;
    const float* a = stage + row_group * C::A_LD + k_group * kStep + k_part * (PARTS * 4);
    const float* b = stage + A_FLOATS + unit / 8 * B_GROUP + k_group * (kStep * USES * 8);
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
      for (int k0 = 0; k0 < 4; k0 += C::AV) {
        Vector<C::AV> av[C::R];
#pragma unroll
        for (int r = 0; r < C::R; ++r)
          av[r] = *reinterpret_cast<const Vector<C::AV>*>(a + r * C::APART * C::A_LD + part * 4 + k0);
#pragma unroll
        for (int k = 0; k < C::AV; ++k)
          multiply_uses<S, 0>(b + (k0 + k) * (USES * 32), k_part * (PARTS * 8) + unit % 8 + part * 8, k, av, acc);
      }
    }
  }
  // Uses are packed in pieces of 4, 2 and 1, so that few loads bring them.
  template <int S, int U>
  __device__ __forceinline__ void multiply_uses(const float* b, int at, int k, const Vector<C::AV> (&av)[C::R], Sums& acc) const {
    constexpr int LEFT = Op::USES[S] - U, W = LEFT >= 4 ? 4 : LEFT >= 2 ? 2 : 1;
    float bv[C::UT * W];
#pragma unroll
    for (int i = 0; i < C::UT * W; i += kVector<C::UT * W>) {
      const auto piece = *reinterpret_cast<const Vector<kVector<C::UT * W>>*>(b + U * 32 + at * W + i);
#pragma unroll
      for (int j = 0; j < kVector<C::UT * W>; ++j) bv[i + j] = piece.v[j];
    }
#pragma unroll
    for (int r = 0; r < C::R; ++r)
#pragma unroll
      for (int t = 0; t < C::UT; ++t)
#pragma unroll
        for (int g = 0; g < W; ++g) acc[r][t][Op::template acc_of<S>(U + g)] += av[r].v[k] * bv[t * W + g];
    if constexpr (LEFT > W) multiply_uses<S, U + W>(b, at, k, av, acc);
  }

  // Adds up the k parts of a warp: each of two lanes sends the half of its rows that the other keeps. Afterwards a lane has
  // the sums of rows row_group + (r + k_part * R / KL) * APART, r < R / KL, in acc[r].
  template <int PARTS = C::KL, int ROWS = C::R>
  __device__ __forceinline__ void join_parts(Sums& acc) const {
    if constexpr (PARTS > 1) {
      const bool upper = k_part & (PARTS / 2);
#pragma unroll
      for (int r = 0; r < ROWS / 2; ++r)
#pragma unroll
        for (int t = 0; t < C::UT; ++t)
#pragma unroll
          for (int g = 0; g < Op::ACCS; ++g) {
            const float low = acc[r][t][g], high = acc[r + ROWS / 2][t][g];
            acc[r][t][g] = (upper ? high : low) + __shfl_xor_sync(0xffffffffu, upper ? low : high, PARTS / 2 * 8 * C::TM);
          }
      join_parts<PARTS / 2, ROWS / 2>(acc);
    }
  }

  // What the epilogue reads is fetched while the product runs (one element a thread) or while partial sums meet (two).
  static constexpr int EACH = (CELLS + kThreads - 1) / kThreads, FETCH = Op::EARLY <= 8 && EACH <= 2 ? EACH : 0;
  using Early = float[Op::EARLY];
  __device__ __forceinline__ void fetch(Early (&early)[EACH <= 2 ? EACH : 1]) const {
#pragma unroll
    for (int c = 0; c < FETCH; ++c) {
      uint32_t row, n;
      if (find_cell(thread + c * kThreads, &row, &n)) op.load(row / Op::FREE, row % Op::FREE, n, early[c]);
    }
  }
  __device__ __forceinline__ bool find_cell(int cell, uint32_t* row, uint32_t* n) const {
    *row = m0 + cell / C::BU;
    *n = n0 + cell % C::BU;
    return cell < CELLS && *row < rows && *n < Op::N;
  }

  __device__ void run() const {
    Sums acc = {};
    float* const stages = shared + POINTER_FLOATS;
    __shared__ alignas(8) uint64_t barriers[STAGES];  // a stage's weights have arrived
    uint32_t full;
    asm volatile("mov.u32 %0, %1;" : "=r"(full) : "r"(shared_address(barriers)));  // or it is found again each time
    if constexpr (kBulkCopies) order_bulk_copies();
    __syncthreads();  // the tile before this one has left shared memory
    if constexpr (kBulkCopies) {
      if (thread < STAGES) init_barrier(full + thread * 8), order_bulk_copies();
    }
    find_rows();
    __syncthreads();
    // Weights do not depend on the previous kernel: they travel while it still runs.
#pragma unroll
    for (int s = 0; s < STAGES; ++s) load_b(s, stages + s * STAGE, full + s * 8);
    wait_previous();
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      load_a(s, stages + s * STAGE);
      commit_copies();
    }
    Early early[EACH <= 2 ? EACH : 1];
    if constexpr (FETCH == 1) fetch(early);
    int stage = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      if constexpr (STAGES > 1) {
        if (chunk == 0) wait_copies<STAGES - 1>();
        else wait_copies<STAGES - 2>();
      } else {
        wait_copies<0>();
      }
      if constexpr (kBulkCopies) wait_barrier(full + stage * 8, parity);
      __syncthreads();  // the stage has arrived for everybody, and everybody is done with the one before
      if (chunk > 0) {
        if constexpr (STAGES < CHUNKS) {
          const int next = chunk - 1 + STAGES, into = stage == 0 ? STAGES - 1 : stage - 1;
          if (next < CHUNKS) {
            load_b(next, stages + into * STAGE, full + into * 8);
            load_a(next, stages + into * STAGE);
          }
        }
        commit_copies();
      }
      multiply(chunk, stages + stage * STAGE, acc);
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    if constexpr (FETCH == 2) fetch(early);
    join_parts(acc);
    // Partial sums of the k groups meet in shared memory, [k group][acc][row][unit].
    __syncthreads();
#pragma unroll
    for (int r = 0; r < C::R / C::KL; ++r)
#pragma unroll
      for (int t = 0; t < C::UT; ++t)
#pragma unroll
        for (int g = 0; g < Op::ACCS; ++g)
          stages[(k_group * Op::ACCS + g) * CELLS + (row_group + (r + k_part * (C::R / C::KL)) * C::APART) * C::BU + unit + t] = acc[r][t][g];
    __syncthreads();
#pragma unroll(FETCH > 0 ? FETCH : 1)
    for (int c = 0; c < EACH; ++c) {
      const int cell = thread + c * kThreads;
      uint32_t row, n;
      if (!find_cell(cell, &row, &n)) continue;
      float sum[Op::ACCS] = {};
#pragma unroll
      for (int s = 0; s < C::KS; ++s)
#pragma unroll
        for (int g = 0; g < Op::ACCS; ++g) sum[g] += stages[(s * Op::ACCS + g) * CELLS + cell];
      if constexpr (FETCH == 0) op.load(row / Op::FREE, row % Op::FREE, n, early[0]);
      op.epilogue(row / Op::FREE, row % Op::FREE, n, sum, early[FETCH > 0 ? c : 0]);
    }
  }

  __device__ GemmTile(const Op& o, float* s, uint32_t tile) : op(o), shared(s) {
    rows = o.count * Op::FREE;
    constexpr uint32_t ACROSS = (Op::N + C::BU - 1) / C::BU;
    m0 = tile / ACROSS * C::BM;
    n0 = tile % ACROSS * C::BU;
    thread = threadIdx.x;
    const int lane = thread % 32, warp = thread / 32;
    unit = lane % 8 * C::UT;
    row_group = lane / 8 % C::TM + warp % C::WM * C::TM;
    k_part = lane / 8 / C::TM;
    k_group = warp / C::WM;
  }
};

template <class Op, class C>
__device__ __forceinline__ uint32_t gemm_tiles(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float* shared) {
  const Op op(table, weights, level);
  const uint32_t tiles = shape_tiles<C>(op.count * Op::FREE, Op::N);
  for (; tile < tiles; tile += gridDim.x) GemmTile<Op, C>(op, shared, tile).run();
  return tile - tiles;
}
// Goes round the tiles of an operation from `tile` on; returns where the next operation's go on. The smallest tiles that all
// find a block at once, else the widest: measured best at every number of rows (docs/decisions.md).
template <class Op>
__device__ uint32_t gemm(const uint32_t* table, const float* weights, uint32_t level, uint32_t tile, float* shared) {
  using S = Shapes<Op>;
  const uint32_t rows = Op(table, weights, level).count * Op::FREE;
  if (shape_tiles<typename S::Tiny>(rows, Op::N) <= gridDim.x)
    return gemm_tiles<Op, typename S::Tiny>(table, weights, level, tile, shared);
  if (shape_tiles<typename S::Narrow>(rows, Op::N) <= gridDim.x)
    return gemm_tiles<Op, typename S::Narrow>(table, weights, level, tile, shared);
  if (shape_tiles<typename S::Middle>(rows, Op::N) <= gridDim.x)
    return gemm_tiles<Op, typename S::Middle>(table, weights, level, tile, shared);
  return gemm_tiles<Op, typename S::Wide>(table, weights, level, tile, shared);
}

// ---------------------------------------------------------------- bringing the table
// The first kernel of a graph (batch/abi.h). The host's memory is more than a microsecond away: a thread asks
// for its first piece and for the count at once, then for four pieces at a time; only what lies beyond the
// first pieces waits for the count.
extern "C" __global__ void __launch_bounds__(kCopyThreads) rondo_copy_table(const uint4* from, uint4* to) {
  constexpr int kAtATime = 4;
  const uint4* const pieces = from + kCopyHeadPieces;
  const uint32_t step = gridDim.x * kCopyThreads, first = blockIdx.x * kCopyThreads + threadIdx.x;
  const uint4 own = pieces[first];
  const uint32_t count = from->x;
  to[first] = own;
  for (uint32_t i = first + step; i < count; i += kAtATime * step) {
    uint4 next[kAtATime];
#pragma unroll
    for (int j = 0; j < kAtATime; ++j)
      if (i + j * step < count) next[j] = pieces[i + j * step];
#pragma unroll
    for (int j = 0; j < kAtATime; ++j)
      if (i + j * step < count) to[i + j * step] = next[j];
  }
}
