// The vector mathematics of generated CPU kernels against the C library in double, over the whole range of
// floats.
#pragma GCC diagnostic ignored "-Wpsabi"
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "rondo/codegen/prelude/cpu.h"

namespace {

float from_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
// Distance in units of the last place of the right result; what is subnormal counts in units of the smallest
// normal's.
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : INFINITY;
  int exponent;
  std::frexp(std::max(std::fabs(want), 1.1754943508222875e-38), &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 24);
}

using Vector = v8 (*)(v8);

// Every `step`th float between two bit patterns, both signs.
double worst(Vector f, const std::function<double(double)>& exact, uint32_t step, float lo = -INFINITY,
             float hi = INFINITY) {
  double most = 0;
  for (uint64_t bits = 0; bits <= 0x7f800000u; bits += step)
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float x = from_bits(static_cast<uint32_t>(bits) | sign);
      if (x < lo || x > hi) continue;
      const double off = ulps(f(splat(x))[3], exact(x));
      if (off > most) most = off;
    }
  return most;
}
v8 exp_of(v8 x) { return exp_v(x); }
v8 tanh_of(v8 x) { return tanh_v(x); }
v8 sigmoid_of(v8 x) { return sigmoid_v(x); }
v8 log_of(v8 x) { return log_v(x); }
v8 erf_of(v8 x) { return erf_v(x); }
v8 sin_of(v8 x) { return sin_v(x); }
v8 cos_of(v8 x) { return cos_v(x); }

constexpr uint32_t kStep = 4099;  // a prime: a few hundred thousand floats of all exponents

TEST(VectorMath, ExpIsWithinTwoUlp) {
  EXPECT_LE(worst(
                exp_of, [](double x) { return std::exp(x); }, kStep),
            2.0);
}
TEST(VectorMath, TanhIsWithinTwoUlp) {
  EXPECT_LE(worst(
                tanh_of, [](double x) { return std::tanh(x); }, kStep),
            2.0);
}
TEST(VectorMath, SigmoidIsWithinThreeUlp) {
  EXPECT_LE(worst(
                sigmoid_of, [](double x) { return 1 / (1 + std::exp(-x)); }, kStep),
            3.0);
}
TEST(VectorMath, LogIsWithinTwoUlp) {
  EXPECT_LE(worst(
                log_of, [](double x) { return std::log(x); }, kStep),
            2.0);
}
TEST(VectorMath, ErfIsWithinTwoUlp) {
  EXPECT_LE(worst(
                erf_of, [](double x) { return std::erf(x); }, kStep),
            2.0);
}
TEST(VectorMath, SinAndCosAreWithinTwoUlp) {
  EXPECT_LE(worst(
                sin_of, [](double x) { return std::sin(x); }, kStep),
            2.0);
  EXPECT_LE(worst(
                cos_of, [](double x) { return std::cos(x); }, kStep),
            2.0);
}
// Floats beside multiples of pi/2 are where a reduction loses its digits; and where the reduction changes
// hands.
TEST(VectorMath, SinAndCosAreWithinTwoUlpBesideTheirZeros) {
  double most = 0;
  const auto look = [&](float x) {
    most = std::max({most, ulps(sin_v(splat(x))[5], std::sin(static_cast<double>(x))),
                     ulps(cos_v(splat(x))[5], std::cos(static_cast<double>(x)))});
  };
  for (int64_t n = 1; n < 1'100'000; n = n < 3000 ? n + 1 : n + 37)
    for (const int sign : {1, -1}) {
      const float near = static_cast<float>(sign * static_cast<double>(n) * 1.5707963267948966);
      for (const float x : {std::nextafter(near, -INFINITY), near, std::nextafter(near, INFINITY)}) look(x);
    }
  for (float x = kMostReduced - 5; x < kMostReduced + 5; x = std::nextafter(x, INFINITY)) look(x);
  EXPECT_LE(most, 2.0);
}
TEST(VectorMath, ALaneBeyondTheReductionChangesNoOther) {
  v8 x = splat(0.5f);
  x[3] = 1e30f;
  EXPECT_EQ(sin_v(x)[3], sin_v(splat(1e30f))[0]);
  EXPECT_EQ(cos_v(x)[3], cos_v(splat(1e30f))[7]);
  for (const int lane : {0, 2, 4, 7}) {
    EXPECT_EQ(sin_v(x)[lane], sin_v(splat(0.5f))[1]);
    EXPECT_EQ(cos_v(x)[lane], cos_v(splat(0.5f))[1]);
  }
}
TEST(VectorMath, GeluIsWithinAMillionth) {
  for (int k = -4000; k <= 4000; ++k) {
    const float x = static_cast<float>(k) / 400;
    EXPECT_NEAR(gelu_v(splat(x))[0], 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 1e-6 * (1 + std::fabs(x)))
        << x;
  }
}

TEST(VectorMath, InfinitiesAndNaNs) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(exp_v(splat(inf))[0], inf);
  EXPECT_EQ(exp_v(splat(-inf))[0], 0.0f);
  EXPECT_EQ(tanh_v(splat(inf))[0], 1.0f);
  EXPECT_EQ(tanh_v(splat(-inf))[0], -1.0f);
  EXPECT_EQ(sigmoid_v(splat(inf))[0], 1.0f);
  EXPECT_EQ(sigmoid_v(splat(-inf))[0], 0.0f);
  EXPECT_EQ(log_v(splat(inf))[0], inf);
  EXPECT_EQ(log_v(splat(0.0f))[0], -inf);
  EXPECT_EQ(erf_v(splat(inf))[0], 1.0f);
  EXPECT_EQ(erf_v(splat(-inf))[0], -1.0f);
  EXPECT_TRUE(std::isnan(log_v(splat(-1.0f))[0]));
  for (Vector f : {sin_of, cos_of})
    for (const float x : {inf, -inf}) EXPECT_TRUE(std::isnan(f(splat(x))[0]));
  EXPECT_EQ(sin_v(splat(0.0f))[0], 0.0f);
  EXPECT_EQ(cos_v(splat(0.0f))[0], 1.0f);
  for (Vector f : {exp_of, tanh_of, sigmoid_of, log_of, erf_of, sin_of, cos_of})
    EXPECT_TRUE(std::isnan(f(splat(nan))[0]));
  EXPECT_TRUE(std::isnan(relu_v(splat(nan))[0]));
}

TEST(VectorMath, MaximumAndMinimumKeepANaNOfEitherSide) {
  const v8 nan = splat(std::nanf("")), one = splat(1.0f), two = splat(2.0f);
  for (const v8 r : {max_v(nan, one), max_v(one, nan), min_v(nan, one), min_v(one, nan)})
    EXPECT_TRUE(std::isnan(r[0]));
  EXPECT_EQ(max_v(one, two)[0], 2.0f);
  EXPECT_EQ(min_v(one, two)[0], 1.0f);
  v8 mixed = one;
  mixed[5] = std::nanf("");
  EXPECT_TRUE(std::isnan(max_of_lanes(mixed)));
}

TEST(VectorMath, LanesBeyondTheEndAreNeitherReadNorWritten) {
  float from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  store<3>(to, load<3>(from));
  EXPECT_EQ(to[2], 3.0f);
  EXPECT_EQ(to[3], 9.0f);
  store<2>(to, load<2>(from, 3), 4);
  EXPECT_EQ(to[0], 1.0f);
  EXPECT_EQ(to[4], 4.0f);
  EXPECT_EQ(to[1], 2.0f);
  EXPECT_EQ(sum_of_lanes(keep<3>(load<8>(from), 0.0f)), 6.0f);
}

}  // namespace
