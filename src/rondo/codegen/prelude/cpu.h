// Head of every generated file of CPU kernels: vectors of eight floats, their mathematics, access to the
// minibatch's table, how work is cut into tiles, and the product with gathered rows.
//
// Vectors are GCC's, so one text serves AVX2 (one register), SSE and NEON (two) and scalars. What an element
// becomes depends on its own row only, never on its place in a tile: sums over k run in order of k in one
// accumulator, so a batched result equals an unbatched one bit for bit. exp, tanh, log and erf are
// branch-free and within 2 ulp, as are sin and cos up to 1.6e6, sigmoid within 3
// (tests/compiler_codegen_math.cpp measures it); their polynomials are minimax fits in the range reduced as
// each function says.
#pragma once
#include <stdint.h>
#include <string.h>

#define RONDO_INLINE static inline __attribute__((always_inline))

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float v8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));

// ---------------------------------------------------------------- loads and stores
// LANES < 8 leaves the other elements alone.
RONDO_INLINE v8 splat(float x) { return v8{x, x, x, x, x, x, x, x}; }
template <int LANES>
RONDO_INLINE v8 load(const float* p) {
  if (LANES == 8) return *(const v8_unaligned*)p;
  v8 v = splat(0.0f);
  for (int i = 0; i < LANES; ++i) v[i] = p[i];
  return v;
}
template <int LANES>
RONDO_INLINE v8 load(const float* p, int64_t stride) {
  v8 v = splat(0.0f);
  for (int i = 0; i < LANES; ++i) v[i] = p[i * stride];
  return v;
}
template <int LANES>
RONDO_INLINE void store(float* p, v8 v) {
  if (LANES == 8)
    *(v8_unaligned*)p = v;
  else
    for (int i = 0; i < LANES; ++i) p[i] = v[i];
}
template <int LANES>
RONDO_INLINE void store(float* p, v8 v, int64_t stride) {
  for (int i = 0; i < LANES; ++i) p[i * stride] = v[i];
}

// ---------------------------------------------------------------- mathematics
RONDO_INLINE i8 bits(v8 x) { return (i8)x; }
RONDO_INLINE v8 real(i8 x) { return (v8)x; }
RONDO_INLINE i8 isplat(int32_t x) { return i8{x, x, x, x, x, x, x, x}; }
RONDO_INLINE v8 choose(i8 mask, v8 a, v8 b) { return real((bits(a) & mask) | (bits(b) & ~mask)); }
RONDO_INLINE v8 abs_v(v8 x) { return real(bits(x) & isplat(0x7fffffff)); }
RONDO_INLINE v8 with_sign_of(v8 magnitude, v8 sign) {
  return real((bits(magnitude) & isplat(0x7fffffff)) | (bits(sign) & isplat((int32_t)0x80000000u)));
}
// A NaN on either side stays, as in NumPy.
RONDO_INLINE v8 max_v(v8 a, v8 b) { return choose((a > b) | (a != a), a, b); }
RONDO_INLINE v8 min_v(v8 a, v8 b) { return choose((a < b) | (a != a), a, b); }
RONDO_INLINE v8 relu_v(v8 x) { return choose(x < splat(0.0f), splat(0.0f), x); }

// 2^n * p for n of -150..129 in two steps, so that neither factor over- or underflows by itself.
RONDO_INLINE v8 scale(v8 p, i8 n) {
  const i8 half = n >> 1;
  return p * real((half + 127) << 23) * real((n - half + 127) << 23);
}
// x = n ln2 + r, |r| <= ln2/2; e^r = 1 + r + r^2 P(r). 1.5 * 2^23 rounds to the nearest integer.
RONDO_INLINE v8 exp_v(v8 x) {
  const v8 hi = splat(89.0f), lo = splat(-104.0f), round = splat(12582912.0f);
  const v8 y = choose(x > hi, hi, choose(x < lo, lo, x));
  const v8 t = y * splat(1.44269504f) + round;
  const i8 n = bits(t) - bits(round);
  const v8 nf = t - round;
  const v8 r = (y - nf * splat(0.693359375f)) - nf * splat(-2.12194440e-4f);
  v8 p = splat(1.978926593e-04f);
  p = p * r + splat(1.394575229e-03f);
  p = p * r + splat(8.333504200e-03f);
  p = p * r + splat(4.166628048e-02f);
  p = p * r + splat(1.666666567e-01f);
  p = p * r + splat(0.5f);
  p = (p * r) * r + r + splat(1.0f);
  return choose(x != x, x, scale(p, n));
}
RONDO_INLINE v8 sigmoid_v(v8 x) {
  const v8 e = exp_v(-abs_v(x));
  const v8 q = splat(1.0f) / (splat(1.0f) + e);
  return choose(x < splat(0.0f), e * q, q);
}
// |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (e^2|x| + 1).
RONDO_INLINE v8 tanh_v(v8 x) {
  const v8 a = abs_v(x), s = x * x;
  v8 p = splat(-5.704990588e-03f);
  p = p * s + splat(2.063908987e-02f);
  p = p * s + splat(-5.373971537e-02f);
  p = p * s + splat(1.333144158e-01f);
  p = p * s + splat(-3.333328068e-01f);
  const v8 small = x + (x * s) * p;
  const v8 large = splat(1.0f) - splat(2.0f) / (exp_v(a + a) + splat(1.0f));
  return choose(a < splat(0.625f), small, with_sign_of(large, x));
}
// x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 P(f).
RONDO_INLINE v8 log_v(v8 x) {
  const i8 subnormal = x < splat(1.17549435e-38f);
  const v8 y = choose(subnormal, x * splat(8388608.0f), x);
  const i8 shifted = bits(y) - isplat(0x3f3504f3);
  const i8 n = shifted >> 23;
  const v8 f = real((shifted & isplat(0x7fffff)) + isplat(0x3f3504f3)) - splat(1.0f);
  const v8 nf = __builtin_convertvector(n - (subnormal & isplat(23)), v8);
  const v8 s = f * f;
  v8 p = splat(6.746601313e-02f);
  p = p * f + splat(-1.167564094e-01f);
  p = p * f + splat(1.188817471e-01f);
  p = p * f + splat(-1.240559146e-01f);
  p = p * f + splat(1.421955079e-01f);
  p = p * f + splat(-1.666799635e-01f);
  p = p * f + splat(2.000211924e-01f);
  p = p * f + splat(-2.500000894e-01f);
  p = p * f + splat(3.333331347e-01f);
  v8 q = (p * f) * s + nf * splat(-2.12194440e-4f);
  q = f + (q - splat(0.5f) * s) + nf * splat(0.693359375f);
  const v8 inf = splat(__builtin_inff());
  q = choose(x == inf, inf, q);
  q = choose(x == splat(0.0f), -inf, q);
  return choose((x < splat(0.0f)) | (x != x), splat(__builtin_nanf("")), q);
}
// |x| < 0.92: x + x P(x^2); else 1 - e^-R(|x|), where from 4 on the result is 1.
RONDO_INLINE v8 erf_v(v8 x) {
  const v8 a = abs_v(x), s = x * x;
  v8 p = splat(8.316909225e-05f);
  p = p * s + splat(-8.130050264e-04f);
  p = p * s + splat(5.199910607e-03f);
  p = p * s + splat(-2.685894445e-02f);
  p = p * s + splat(1.128368750e-01f);
  p = p * s + splat(-3.761263192e-01f);
  p = p * s + splat(1.283791661e-01f);
  const v8 small = x + x * p;
  const v8 t = min_v(a, splat(4.0f));
  v8 r = splat(2.082862557e-05f);
  r = r * t + splat(-4.313936515e-04f);
  r = r * t + splat(4.156255163e-03f);
  r = r * t + splat(-2.508061752e-02f);
  r = r * t + splat(1.082203835e-01f);
  r = r * t + splat(6.334008574e-01f);
  r = r * t + splat(1.129488349e+00f);
  r = r * t + splat(-1.692052174e-04f);
  const v8 large = splat(1.0f) - exp_v(-r);
  return choose(a < splat(0.92f), small, choose(x != x, x, with_sign_of(large, x)));
}
RONDO_INLINE v8 gelu_v(v8 x) { return splat(0.5f) * x * (splat(1.0f) + erf_v(x * splat(0.707106781f))); }
// x = n pi/2 + r, |r| <= pi/4, n modulo 4 says which of sin r, cos r and their negatives it is. The reduction
// is in double, with pi/2 in two parts of which n times the first is exact: so it is good for |x| up to 2^20
// pi/2, however near x lies to a zero. Lanes beyond (and infinities) are the C library's, which knows pi to a
// thousand bits. sin r = r + r^3 P(r^2), cos r = 1 - r^2/2 + r^4 Q(r^2); 1.5 * 2^52 rounds to the nearest
// integer.
typedef double d8 __attribute__((vector_size(64)));
RONDO_INLINE d8 dsplat(double x) { return d8{x, x, x, x, x, x, x, x}; }
RONDO_INLINE v8 sin_of_quarters(v8 x, int32_t quarters) {
  const d8 y = __builtin_convertvector(x, d8), round = dsplat(6755399441055744.0);
  const d8 n = (y * dsplat(0.63661977236758138) + round) - round;
  const d8 reduced = (y - n * dsplat(1.57079632673412561417)) - n * dsplat(6.07710050650619224932e-11);
  const v8 r = __builtin_convertvector(reduced, v8), s = r * r;
  const i8 q = __builtin_convertvector(n, i8) + isplat(quarters);
  v8 p = splat(-1.951756068e-04f);
  p = p * s + splat(8.332180628e-03f);
  p = p * s + splat(-1.666665500e-01f);
  const v8 sine = r + (r * s) * p;
  p = splat(2.443944689e-05f);
  p = p * s + splat(-1.388737761e-03f);
  p = p * s + splat(4.166664711e-02f);
  const v8 cosine = (splat(1.0f) - splat(0.5f) * s) + (s * s) * p;
  const i8 odd = -(q & 1), minus = (q & 2) << 30;
  return real(bits(choose(odd, cosine, sine)) ^ minus);
}
RONDO_INLINE int any(i8 mask) {
  int32_t all = 0;
  for (int i = 0; i < 8; ++i) all |= mask[i];
  return all != 0;
}
constexpr float kMostReduced = 1.6e6f;
RONDO_INLINE v8 sin_v(v8 x) {
  v8 y = sin_of_quarters(x, 0);
  const i8 far = abs_v(x) > splat(kMostReduced);
  if (__builtin_expect(any(far), 0))
    for (int i = 0; i < 8; ++i)
      if (far[i]) y[i] = __builtin_sinf(x[i]);
  return y;
}
RONDO_INLINE v8 cos_v(v8 x) {
  v8 y = sin_of_quarters(x, 1);
  const i8 far = abs_v(x) > splat(kMostReduced);
  if (__builtin_expect(any(far), 0))
    for (int i = 0; i < 8; ++i)
      if (far[i]) y[i] = __builtin_cosf(x[i]);
  return y;
}
// The rest a lane at a time: the compiler has instructions for sqrt and floor; pow is the C library's.
#define RONDO_BY_LANE(name, call)                  \
  RONDO_INLINE v8 name(v8 x) {                     \
    v8 y;                                          \
    for (int i = 0; i < 8; ++i) y[i] = call(x[i]); \
    return y;                                      \
  }
RONDO_BY_LANE(sqrt_v, __builtin_sqrtf)
RONDO_BY_LANE(floor_v, __builtin_floorf)
RONDO_INLINE v8 pow_v(v8 x, v8 y) {
  v8 z;
  for (int i = 0; i < 8; ++i) z[i] = __builtin_powf(x[i], y[i]);
  return z;
}

// ---------------------------------------------------------------- reductions over lanes
template <int LANES>
RONDO_INLINE v8 keep(v8 v, float rest) {
  for (int i = LANES; i < 8; ++i) v[i] = rest;
  return v;
}
RONDO_INLINE float sum_of_lanes(v8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
RONDO_INLINE float max_of_lanes(v8 v) {
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = m > v[i] || m != m ? m : v[i];
  return m;
}

// ---------------------------------------------------------------- the table
RONDO_INLINE float* pool_at(const uint32_t* table, uint32_t number) {
  uint64_t address;
  memcpy(&address, table + 2 * number, sizeof address);
  return (float*)(uintptr_t)address;
}

// ---------------------------------------------------------------- tiles
// A tile is worth claiming from about 5 us on (2^17 multiply-adds at the speed of one Zen 3 core), and a
// level is cut into no more than about 32 so that what tiles share (rows, slices of weights) is not read too
// often.
constexpr uint64_t kSmallTile = 1 << 17, kLargeTile = 1 << 21, kTilesWanted = 32;
RONDO_INLINE uint64_t tile_work(uint64_t all) {
  const uint64_t wanted = all / kTilesWanted;
  return wanted < kSmallTile ? kSmallTile : wanted > kLargeTile ? kLargeTile : wanted;
}
// Row steps: `cost` is that of one record, in multiply-adds.
RONDO_INLINE uint32_t records_per_tile(uint32_t count, uint64_t cost) {
  const uint64_t records = tile_work(count * cost) / cost;
  return records < 1 ? 1 : (uint32_t)records;
}
RONDO_INLINE uint32_t step_tiles(uint32_t count, uint64_t cost) {
  const uint32_t each = records_per_tile(count, cost);
  return (count + each - 1) / each;
}

// ---------------------------------------------------------------- product with gathered rows
// Rows are (record, f) pairs. A tile is up to kTileRows of them x some groups of 8 units. Its sums stand in
// scratch as [group][row][acc][8]; k is cut so that a group's slice of the packed weights stays in the L1
// cache while all rows of the tile pass over it.
constexpr int kTileRows = 128;
constexpr int kSliceFloats = 5120;  // 20 KiB of weights

// How one product is cut: FC columns f x RT records make the rows of a tile.
// DEPTH: multiply-adds of one output unit of one row, all accumulators. CELLS: (group, row) pairs whose sums
// fit scratch.
template <int N, int FREE, int64_t DEPTH, uint32_t CELLS>
struct Cut {
  static constexpr uint32_t groups = (N + 7) / 8;
  static constexpr uint32_t f_each = FREE < kTileRows ? FREE : kTileRows,
                            f_tiles = (FREE + f_each - 1) / f_each;
  static constexpr uint32_t r_most = kTileRows / f_each;
  uint32_t r_tiles, r_each, g_each, g_tiles;
  RONDO_INLINE Cut of(uint32_t count) {
    Cut c;
    c.r_tiles = (count + r_most - 1) / r_most;
    c.r_each = (count + c.r_tiles - 1) / c.r_tiles;
    const uint64_t group_work = (uint64_t)c.r_each * f_each * DEPTH * 8;
    const uint64_t room = CELLS / (c.r_each * f_each),
                   worth = tile_work((uint64_t)count * FREE * DEPTH * N) / group_work;
    const uint64_t each = worth < room ? worth : room;
    c.g_each = each < 1 ? 1 : each > groups ? groups : (uint32_t)each;
    c.g_tiles = (groups + c.g_each - 1) / c.g_each;
    c.g_each = (groups + c.g_tiles - 1) / c.g_tiles;
    c.g_tiles = (groups + c.g_each - 1) / c.g_each;
    return c;
  }
  uint32_t tiles() const { return r_tiles * f_tiles * g_tiles; }
};

// Rows whose elements lie STRIDE apart, copied so that k is contiguous; neighbouring rows are neighbouring
// columns of a matrix as a rule, so k is the outer loop.
template <int SLICE, int64_t STRIDE>
static void gather_rows(const float* const* rows, int count, int64_t k0, int64_t kn, float* to,
                        const float** picked) {
  for (int64_t k = 0; k < kn; ++k)
    for (int r = 0; r < count; ++r) to[r * SLICE + k] = rows[r][(k0 + k) * STRIDE];
  for (int r = 0; r < count; ++r) picked[r] = to + r * SLICE;
}

// a * b + c, rounded once where the machine can. Spelled out, because the compiler, left to itself, fuses in
// some of the loops below and not in others, and a row has to give the same bits in all of them.
RONDO_INLINE v8 fused(v8 a, v8 b, v8 c) {
#ifdef __FMA__
  return (v8)__builtin_ia32_vfmaddps256(a, b, c);
#else
  return a * b + c;
#endif
}

// Keeps a value that several products share in a register; the compiler would rather load it for each of
// them, and loads are what limits the loop then.
RONDO_INLINE v8 in_register(v8 x) {
#ifdef __AVX__
  asm("" : "+x"(x));
#endif
  return x;
}

// R rows x G groups x U accumulators of 8 units, kb steps of k. Seg says which accumulator a use feeds.
template <class Seg, int R, int G>
RONDO_INLINE void multiply(const float* const* rows, int64_t k0, int64_t kb, const float* weights,
                           int64_t group_stride, float* sums, int64_t sums_group) {
  constexpr int U = Seg::U, ROW = Seg::ACCS * 8;
  v8 acc[R][G][U];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g)
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) acc[r][g][u] = load<8>(sums + g * sums_group + r * ROW + Seg::acc(u) * 8);
  const float* a[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) a[r] = rows[r] + k0;
#pragma GCC unroll 4
  for (int64_t k = 0; k < kb; ++k) {
    v8 w[G][U];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g)
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u)
        w[g][u] = R == 1 ? load<8>(weights + g * group_stride + k * Seg::STRIDE + u * 8)
                         : in_register(load<8>(weights + g * group_stride + k * Seg::STRIDE + u * 8));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const v8 x = splat(a[r][k]);
#pragma GCC unroll 16
      for (int g = 0; g < G; ++g)
#pragma GCC unroll 16
        for (int u = 0; u < U; ++u) acc[r][g][u] = fused(x, w[g][u], acc[r][g][u]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g)
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) store<8>(sums + g * sums_group + r * ROW + Seg::acc(u) * 8, acc[r][g][u]);
}

// All rows of a tile over one slice of k of G groups; R rows at a time, then what is left one by one.
template <class Seg, int R, int G>
static __attribute__((noinline)) void multiply_rows(const float* const* rows, int count, int64_t k0,
                                                    int64_t kb, const float* weights, int64_t group_stride,
                                                    float* sums, int64_t sums_group) {
  constexpr int ROW = Seg::ACCS * 8;
  int r = 0;
  for (; r + R <= count; r += R)
    multiply<Seg, R, G>(rows + r, k0, kb, weights, group_stride, sums + r * ROW, sums_group);
  if (R > 3)
    for (; r + 2 <= count; r += 2)
      multiply<Seg, 2, G>(rows + r, k0, kb, weights, group_stride, sums + r * ROW, sums_group);
  for (; r < count; ++r)
    multiply<Seg, 1, G>(rows + r, k0, kb, weights, group_stride, sums + r * ROW, sums_group);
}

// Sixteen registers: R x G x U sums, the weights of one k and one element of A.
template <class Seg>
RONDO_INLINE void multiply_groups(const float* const* rows, int count, int64_t k0, int64_t kb,
                                  const float* weights, int64_t group_stride, int groups, float* sums,
                                  int64_t sums_group) {
  constexpr int U = Seg::U;
  constexpr int G = U == 1 ? 2 : 1;
  constexpr int R = U <= 2 ? 6 : U == 3 ? 4 : U == 4 ? 3 : U <= 6 ? 2 : 1;
  int g = 0;
  for (; g + G <= groups; g += G)
    multiply_rows<Seg, R, G>(rows, count, k0, kb, weights + g * group_stride, group_stride,
                             sums + g * sums_group, sums_group);
  if (G > 1 && g < groups)
    multiply_rows<Seg, R, 1>(rows, count, k0, kb, weights + g * group_stride, group_stride,
                             sums + g * sums_group, sums_group);
}
