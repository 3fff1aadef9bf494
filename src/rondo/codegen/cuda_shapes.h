// Dynamic shared memory that the GEMM of prelude/cuda.h needs: the same three shapes, computed on the host side.
#pragma once
#include <algorithm>
#include <cstdint>

namespace rondo::codegen {

// accs: accumulators of the kernel; max_uses: most uses of any of its segments. In bytes.
constexpr uint32_t gemm_shared_bytes(int32_t accs, int32_t max_uses, int32_t segments) {
  struct Shape {
    int32_t rows, units, k_groups, k_chunk, stages;
  };
  const int32_t thin = accs >= 3 ? 1 : 2, thick = accs >= 3 ? 1 : accs == 2 ? 2 : 4;
  const Shape shapes[] = {{8, 8 * thin, 8, 64, 4}, {16, 8 * thin, 8, 64, 4}, {32, 8 * thick, 8, 64, 3}};
  int32_t floats = 0;
  for (const Shape& s : shapes) {
    const int32_t stage = s.rows * (s.k_chunk + 4) + s.units / 8 * (s.k_chunk * max_uses * 8 + 8);
    const int32_t pointers = (segments * s.rows * 2 + 31) / 32 * 32;
    floats = std::max(floats, pointers + std::max(stage * s.stages, s.k_groups * accs * s.rows * s.units));
  }
  return static_cast<uint32_t>(floats) * 4;
}
static_assert(gemm_shared_bytes(8, 8, 32) <= 113 * 1024, "two blocks of a full Gemm kernel fit a Hopper SM");

}  // namespace rondo::codegen
