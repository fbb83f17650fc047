// Dense GEMM with mma.sync on any GPU from Ampere on: Y = X W', tiles of 128 × 128 results, four stages of
// cp.async in shared memory. Hopper has a faster one in gemm/dense_sm90; this is what Ampere, Ada and Blackwell run on, and
// Hopper for weights whose number of rows does not divide by eight.
//
// The same template makes the 8-bit kernels of gemm/w8a8; see mma_ops.h.
#pragma once
#include "../../mma_ops.h"

namespace dense_sm80 {
struct GemmParams {
  const bf16* x;     // [m, k]
  const bf16* w;     // [n, k]
  const float* bias; // [n] or null
  const float *scale, *xScale; // [n], [m]: what a number of each row of w and x counts, if they are scaled
  bf16* y;           // [m, n]
  int m, n, k, pad;  // k: in pairs of bytes (mma_ops.h)
};

constexpr int BM = 128, BN = 128, BK = 32, STAGES = 4, LINE = BK * 2, STAGE = (BM + BN) * LINE;
extern SHARED u8 dynamic[];

// swizzle: a row of a tile is 64 bytes, four chunks of 16; chunk c of row r lies at c ^ (r / 2 % 4), so that eight rows of one chunk, what
// ldmatrix reads at a time, lie in different banks.
DEVICE u32 swizzle(u32 base, int row, int chunk) { return base + row * LINE + (chunk ^ (row >> 1 & 3)) * 16; }

template <typename MmaOp> DEVICE void tile(const GemmParams& p) {
  launchDependentsAndWait();
  u32 ring = sharedAddress(dynamic);
  int m0 = blockX() * BM, n0 = blockY() * BN, steps = ceilDiv(p.k, BK);
  auto fetch = [&](int step) __attribute__((always_inline)) {
    u32 base = ring + step % STAGES * STAGE;
    UNROLL for (int i = 0; i < (BM + BN) * 4 / 256; i++) {
      int at = i * 256 + threadX(), row = at / 4, chunk = at % 4, k = step * BK + chunk * 8;
      bool isX = row < BM;
      int r = isX ? m0 + row : n0 + row - BM, limit = isX ? p.m : p.n;
      bool in = step < steps && r < limit && k < p.k;
      const bf16* from = (isX ? p.x : p.w) + (in ? (long)r * p.k + k : 0);
      cpAsync16(swizzle(base, row, chunk), from, in);
    }
    cpAsyncCommit();
  };
  for (int i = 0; i < STAGES - 1; i++) fetch(i);

  int wm = warp() / 4 * 64, wn = warp() % 4 * 32, row = lane() % 16, half = lane() / 16;
  typename MmaOp::Accumulator acc[4][4][4] = {};
  for (int step = 0; step < steps; step++) {
    cpAsyncWait<STAGES - 2>();
    barrier();
    fetch(step + STAGES - 1); // into the stage that all warps have read: the barrier says so
    u32 base = ring + step % STAGES * STAGE;
    UNROLL for (int k = 0; k < BK / 16; k++) {
      u32 a[4][4], b[2][4];
      UNROLL for (int i = 0; i < 4; i++) ldmatrix4(a[i], swizzle(base, wm + i * 16 + row, k * 2 + half));
      UNROLL for (int j = 0; j < 2; j++) ldmatrix4(b[j], swizzle(base, BM + wn + j * 16 + row, k * 2 + half));
      UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
        MmaOp::multiply(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2], b[j / 2][j % 2 + 2]);
    }
  }

  int g = lane() / 4, t = lane() % 4;
  UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++) {
    int m = m0 + wm + i * 16 + g + e / 2 * 8, n = n0 + wn + j * 8 + t * 2 + e % 2;
    if (m >= p.m || n >= p.n) continue;
    float v = MmaOp::SCALED ? MmaOp::result(acc[i][j][e], p.scale[n], p.xScale[m]) : (float)acc[i][j][e];
    p.y[(long)m * p.n + n] = fromFloat<bf16>(p.bias ? v + p.bias[n] : v);
  }
}
} // namespace tiled
