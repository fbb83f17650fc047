// The tensor-core operation of an element type, which the GEMMs of gemm/dense_sm90, gemm/dense_sm80 and gemm/skinny are templates over. An MmaOp says
//   Accumulator       what it adds up in, float or int
//   SCALED            whether each row of weights and of x has a scale, which accumulators are multiplied with in the end
//   multiply          D += A × B: wgmma of two tiles in shared memory (sm90.h), or mma.sync of a warp's fragments (cuda.h)
//   fenceAccumulator  keeps reads of a wgmma's accumulator behind the wait for it
//   result            what an accumulator comes to with the scales of its row of weights and of x
// Those of 8-bit types are in gemm/w8a8/mma_8bit.h. Their depth, k, is counted in pairs of bytes like that of bf16, since that is all that TMA
// and registers know: a row of 4096 such numbers has a k of 2048.
#pragma once
#include "sm90.h"

// MmaBf16 is bf16 in, float32 out, without scales.
struct MmaBf16 {
  typedef float Accumulator;
  static constexpr bool SCALED = false;
#if __CUDA_ARCH__ >= 900
  template <int N> static DEVICE void multiply(float (&d)[N], u64 a, u64 b, int add) { wgmma(d, a, b, add); }
  static DEVICE void fenceAccumulator(float& d) { asm volatile("" : "+f"(d)::"memory"); }
#endif
  static DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { mma(d, a0, a1, a2, a3, b0, b1); }
  static DEVICE float result(float sum, float, float) { return sum; }
};
