// What gemm.h, skinny.h and tile.h multiply is a Number, a type that says
//   Sum       what products are added up in, float or int
//   SCALED    whether each row of weights and of x has a scale, which sums are multiplied with in the end
//   multiply  adds products of matrices in shared memory (product of sm90.h), or of what a lane holds (mma of cuda.h)
//   settle    keeps reads of a warpgroup's sum behind the wait for it
//   result    what a sum comes to with the scales of its row of weights and of x
// Those of eight bits are in gemm/w8a8/mma_8bit.h. Their depth, k, is counted in pairs of bytes like that of bf16, since that is all that copies
// and registers know: a row of 4096 such numbers has a k of 2048.
#pragma once
#include "sm90.h"

// Bf16 is the Number of unscaled products.
struct Bf16 {
  typedef float Sum;
  static constexpr bool SCALED = false;
#if __CUDA_ARCH__ >= 900
  template <int N> static DEVICE void multiply(float (&d)[N], u64 a, u64 b, int add) { product(d, a, b, add); }
  static DEVICE void settle(float& d) { asm volatile("" : "+f"(d)::"memory"); }
#endif
  static DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { mma(d, a0, a1, a2, a3, b0, b1); }
  static DEVICE float result(float sum, float, float) { return sum; }
};
