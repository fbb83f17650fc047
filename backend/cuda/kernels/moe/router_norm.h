// The residual add and RMSNorm before a block of experts fused with the router's GEMV, for few rows: separate launches take 2 µs
// each. A block normalises a row and multiplies it by the router weights of eight experts, a warp each, which it loads before it waits for the
// row. The first block of a row stores the sum and the normalised row.
#pragma once
#include "../cuda.h"
#include "vec.h"

struct RouterNormParams {
  const bf16 *x, *add;      // [rows, n]
  bf16 *sum, *y;            // [rows, n] x + add; its RMSNorm
  const float* norm;        // [n]
  const bf16* w;            // [experts, n]
  const float* bias;        // [experts] or null
  bf16* scores;             // [rows, experts]
  int n, experts;           // n is a multiple of 8
  float eps;
  int pad;
};

constexpr int SCORES_THREADS = 256, SCORES_LONGEST = 4096; // the longest row

DEVICE void routerNorm(const RouterNormParams& p) {
  constexpr int EACH = SCORES_LONGEST / 8 / SCORES_THREADS, OF_WEIGHT = SCORES_LONGEST / 8 / 32; // vectors of eight numbers per thread
  SHARED alignas(16) static Vec16 row[SCORES_LONGEST / 8];
  SHARED static float scratch[32];
  int r = blockY(), expert = blockX() * (SCORES_THREADS / 32) + warp(), count = p.n / 8;
  Vec16 w[OF_WEIGHT];
  UNROLL for (int i = 0; i < OF_WEIGHT; i++) w[i] = expert < p.experts && lane() + 32 * i < count ? loadNoAllocate(p.w + (long)expert * p.n + (lane() + 32 * i) * 8) : Vec16{};
  float norm[EACH][8] = {};
  UNROLL for (int i = 0; i < EACH; i++) UNROLL for (int j = 0; j < 8; j++)
    if (threadX() + i * SCORES_THREADS < count) norm[i][j] = p.norm[(threadX() + i * SCORES_THREADS) * 8 + j];
  float bias = p.bias && expert < p.experts ? p.bias[expert] : 0;
  launchDependentsAndWait();
  Vec16 v[EACH], add[EACH];
  float squares = 0;
  UNROLL for (int i = 0; i < EACH; i++) {
    int at = threadX() + i * SCORES_THREADS;
    v[i] = add[i] = Vec16{};
    if (at < count) v[i] = loadVec(p.x + (long)r * p.n + at * 8), add[i] = loadVec(p.add + (long)r * p.n + at * 8);
  }
  UNROLL for (int i = 0; i < EACH; i++) UNROLL for (int j = 0; j < 4; j++) {
    v[i].x[j] = pack(low(v[i].x[j]) + low(add[i].x[j]), high(v[i].x[j]) + high(add[i].x[j]));
    squares += low(v[i].x[j]) * low(v[i].x[j]) + high(v[i].x[j]) * high(v[i].x[j]);
  }
  float scale = rsqrt(blockSum(squares, scratch) / p.n + p.eps);
  UNROLL for (int i = 0; i < EACH; i++) {
    int at = threadX() + i * SCORES_THREADS;
    if (at >= count) continue;
    Vec16 y;
    UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(low(v[i].x[j]) * scale * norm[i][2 * j], high(v[i].x[j]) * scale * norm[i][2 * j + 1]);
    row[at] = y;
    if (blockX() == 0) storeVec(p.sum + (long)r * p.n + at * 8, v[i]), storeVec(p.y + (long)r * p.n + at * 8, y);
  }
  barrier();
  float dot = 0;
  UNROLL for (int i = 0; i < OF_WEIGHT; i++) {
    if (lane() + 32 * i >= count) continue;
    Vec16 x = row[lane() + 32 * i];
    UNROLL for (int j = 0; j < 4; j++) dot += low(w[i].x[j]) * low(x.x[j]) + high(w[i].x[j]) * high(x.x[j]);
  }
  dot = warpSum(dot) + bias;
  if (lane() == 0 && expert < p.experts) p.scores[(long)r * p.experts + expert] = fromFloat<bf16>(dot);
}
