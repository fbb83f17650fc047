// RMSNorm fused into gemm_sm90.h for up to 32 rows (fused_norm.go): residual and norm weights in the epilogue, the norm's scale in the next launch.
#pragma once
#include "tile_scheduler.h"

// NormEpilogue is the epilogue of a tile of up to 32 rows whose results lie in lines of shared memory: it adds the residual, loaded while blocks still
// reduce split-K sums, stores y, and stores what the norm behind needs. Lanes that have the same line are neighbours.
template <typename W> struct NormEpilogue {
  static constexpr int COUNT = (W::LINES * 16 + CONSUMERS - 1) / CONSUMERS; // of 16 bytes
  Vec16 residual[COUNT], weight[2];
  int id, column, groupsLog; // column: the block's first; it has 8 << pieces
  DEVICE int line(int i) const { return (id + i * CONSUMERS) >> groupsLog; }
  DEVICE int from(int i) const { return (id & ((1 << groupsLog) - 1)) * 8; }
  DEVICE bool mine(const GemmParams& p, int n, int i) const { return line(i) < W::LINES && line(i) < p.m && column + from(i) < n; }
  DEVICE void loadResidual(const GemmParams& p) {
    if (!W::CLUSTERS || !p.residual) return;
    int n = p.part[0].n;
    UNROLL for (int i = 0; i < COUNT; i++)
      if (mine(p, n, i)) residual[i] = *(const Vec16*)(p.residual + (long)line(i) * n + column + from(i));
    if (p.weight && column + from(0) < n) UNROLL for (int i = 0; i < 2; i++) weight[i] = ((const Vec16*)(p.weight + column + from(0)))[i];
  }
  DEVICE void store(const GemmParams& p, const PackedPart& part, const u8* lines, int skip, int rowPart) const {
    UNROLL for (int i = 0; i < COUNT; i++) {
      bool in = mine(p, part.n, i);
      long at = (long)line(i) * part.n + column + from(i);
      Vec16 y = {};
      if (in) y = *(const Vec16*)(lines + line(i) * W::LINE + (skip + from(i)) * 2);
      if (p.residual && in)
        UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(low(y.x[j]) + low(residual[i].x[j]), high(y.x[j]) + high(residual[i].x[j]));
      if (in) *(Vec16*)(part.y + at) = y;
      if (!p.weight) continue;
      float sum = 0;
      UNROLL for (int j = 0; j < 4; j++) sum += low(y.x[j]) * low(y.x[j]) + high(y.x[j]) * high(y.x[j]);
      for (int m = 1; m < 1 << groupsLog; m *= 2) sum += shuffleXor(sum, m);
      if (from(i) == 0 && line(i) < W::LINES && line(i) < p.m) p.squares[line(i) * (p.tiles << p.splits) + rowPart] = sum;
      if (!in) continue;
      auto scaled = [&](float v, int j) { return v * __builtin_bit_cast(float, weight[j / 4].x[j % 4]); };
      UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(scaled(low(y.x[j]), 2 * j), scaled(high(y.x[j]), 2 * j + 1));
      *(Vec16*)(p.yWeighted + at) = y;
    }
  }
};

// rmsScales computes the norm's scale of each row of x, a warp each.
DEVICE void rmsScales(const GemmParams& p, float* scales, int warp, int warps) {
  for (int row = warp; row < p.m; row += warps) {
    float sum = 0;
    for (int i = lane(); i < p.squareParts; i += 32) sum += p.squares[row * p.squareParts + i];
    float scale = rsqrt(warpSum(sum) / p.k + p.eps);
    if (lane() == 0) scales[row] = scale;
  }
}
