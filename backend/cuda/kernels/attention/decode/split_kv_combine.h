// Split-KV combine (flash-decoding): how the warps of a block, and then the blocks of a sequence, add up their partial results.
#pragma once
#include "kv16.h"

struct DecodeParams {
  Step step;
  const bf16* q;  // [T, heads × kSize]
  u8* cache;
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × groups × splits][8 heads][vSize + 4]: unscaled P × V, then row max and row sum, and two unused
  int* arrived;   // [seqs × groups] zeros; how many splits are done
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int splits, fill; // the most splits of a sequence, and how many of each fill the GPU
  int pad;
  float scale, softcap; // softcap 0: none
  // With ROPE: the step's own keys and values, before rope, in rows like the cache's, and cosines and sines, [T, kSize / 2 × 2].
  const bf16 *newKeys, *newValues;
  const float* angles;
  int adjacent; // pairs are neighbours, not halves of a head
  float eps;    // with NORM: RMSNorm of each head before rope, with these weights, [kSize]
  const float *queryNorm, *keyNorm;
};
constexpr int WARPS = 4, MAX_SPLITS = 64; // MAX_SPLITS: of a sequence; decode.go says the same
struct alignas(16) Numbers { float x[4]; };

// BlockWork is what a block computes: query heads from head0 on of a sequence whose query is in this row, for one of `active` splits of its keys.
struct BlockWork { int row, head0, heads, group, active; };

// WarpPartials is the partial results of a block, one of each warp or more, in powers of two: P × V, row max, and row sum.
template <int WIDTH, int PARTS = WARPS> struct WarpPartials {
  alignas(16) float out[PARTS][HEADS][WIDTH];
  float rowMax[PARTS][HEADS], sum[PARTS][HEADS];
};
// SplitPartials is the same of a sequence's splits; weight: what each counts in the result.
struct SplitPartials { float rowMax[HEADS][MAX_SPLITS], sum[HEADS][MAX_SPLITS], weight[HEADS][MAX_SPLITS], sink[HEADS]; };

constexpr float NO_SINK = -1e30f;
DEVICE float sinkOf(const DecodeParams& p, int head) { return p.sinks ? p.sinks[head] * LOG2E : NO_SINK; }

// store writes four numbers of a head, divided by the row sum.
DEVICE void store(const DecodeParams& p, const BlockWork& s, int h, int d, const Numbers& x, float sum) {
  u32* to = (u32*)(p.y + ((long)s.row * p.heads + s.head0 + h) * p.vSize + d);
  float f = reciprocal(sum);
  to[0] = pack(x.x[0] * f, x.x[1] * f), to[1] = pack(x.x[2] * f, x.x[3] * f);
}

// partial is where the partial result of a split lies: of each head vSize numbers, then row max and row sum.
DEVICE float* partial(const DecodeParams& p, const BlockWork& s, int part) {
  return p.partial + ((long)s.group * p.splits + part) * HEADS * (p.vSize + 4);
}

// combineWarps adds up the warps' partial results: to the result, with sinks, if there is one split; otherwise to the block's partial result.
template <int WIDTH, int PARTS> DEVICE void combineWarps(const DecodeParams& p, const BlockWork& s, const WarpPartials<WIDTH, PARTS>& warps) {
  constexpr int LANES = WIDTH / 4; // of a head, four numbers each
  int d = threadX() % LANES * 4;
  for (int h = threadX() / LANES; h < s.heads && d < p.vSize; h += WARPS * 32 / LANES) {
    float alone = s.active == 1 ? sinkOf(p, s.head0 + h) : NO_SINK, rowMax = alone;
    UNROLL for (int w = 0; w < PARTS; w++) rowMax = maxf(rowMax, warps.rowMax[w][h]);
    float sum = alone > NO_SINK ? exp2(alone - rowMax) : 0;
    Numbers x = {};
    UNROLL for (int w = 0; w < PARTS; w++) {
      float f = exp2(warps.rowMax[w][h] - rowMax);
      sum += warps.sum[w][h] * f;
      Numbers part = *(const Numbers*)&warps.out[w][h][d];
      UNROLL for (int e = 0; e < 4; e++) x.x[e] += part.x[e] * f;
    }
    if (s.active == 1) {
      store(p, s, h, d, x, sum);
      continue;
    }
    float* mine = partial(p, s, blockX()) + h * (p.vSize + 4);
    *(Numbers*)(mine + d) = x;
    if (d == 0) mine[p.vSize] = rowMax, mine[p.vSize + 1] = sum;
  }
}

// isLastSplit reports whether all other splits have stored their partial results. The fences order reads that follow behind those writes.
DEVICE bool isLastSplit(const DecodeParams& p, const BlockWork& s) {
  SHARED static int isLast;
  barrier();
  if (threadX() == 0) {
    int before;
    asm volatile("fence.acq_rel.gpu;\n\tatom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + s.group) : "memory");
    isLast = before == s.active - 1;
    if (isLast) p.arrived[s.group] = 0;
  }
  barrier();
  if (isLast) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  return isLast;
}

// combineSplits adds up the partial results of all splits, always in the same order.
DEVICE void combineSplits(const DecodeParams& p, const BlockWork& s, SplitPartials& parts) {
  int width = p.vSize + 4;
  const float* all = partial(p, s, 0);
  for (int i = threadX(); i < s.heads * s.active; i += WARPS * 32) {
    int h = i / s.active, n = i % s.active;
    const float* part = all + ((long)n * HEADS + h) * width + p.vSize;
    parts.rowMax[h][n] = part[0], parts.sum[h][n] = part[1];
  }
  barrier();
  for (int i = threadX(); i < s.heads * s.active; i += WARPS * 32) {
    int h = i / s.active, n = i % s.active;
    float sink = sinkOf(p, s.head0 + h), rowMax = sink;
    for (int e = 0; e < s.active; e++) rowMax = maxf(rowMax, parts.rowMax[h][e]);
    parts.weight[h][n] = exp2(parts.rowMax[h][n] - rowMax);
    if (n == 0) parts.sink[h] = exp2(sink - rowMax);
  }
  barrier();
  for (int i = threadX() * 4; i < s.heads * p.vSize; i += WARPS * 32 * 4) {
    int h = i / p.vSize, d = i % p.vSize;
    const float* one = all + (long)h * width + d;
    float sum = parts.sink[h];
    Numbers x = {};
#pragma unroll 16
    for (int n = 0; n < s.active; n++) {
      float w = parts.weight[h][n];
      Numbers part = *(const Numbers*)(one + (long)n * HEADS * width);
      sum += w * parts.sum[h][n];
      UNROLL for (int e = 0; e < 4; e++) x.x[e] += w * part.x[e];
    }
    store(p, s, h, d, x, sum);
  }
}
