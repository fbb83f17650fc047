// How the warps of a block, and then the blocks of a sequence, add up their parts of a result.
#pragma once
#include "halves.h"

struct DecodeParams {
  Step step;
  const bf16* q;  // [T, heads × kSize]
  u8* cache;
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × groups × splits][8 heads][vSize + 4]: unscaled sums, then maximum and weight, and two unused
  int* arrived;   // [seqs × groups] zeros; how many splits are done
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int splits, fill; // the most parts a sequence is cut into, and how many of each fill the GPU
  int pad;
  float scale, softcap; // softcap 0: none
  // Of a launch that turns queries and keys and stores keys and values itself: what is new in this step, not turned yet, in rows
  // like the cache's, and the angles to turn by, [T, kSize / 2 × 2].
  const bf16 *newKeys, *newValues;
  const float* angles;
  int adjacent; // pairs are neighbours, not halves of a head
  float eps;    // and of one that normalises each head of those first, with these weights, [kSize]
  const float *queryNorm, *keyNorm;
};
constexpr int WARPS = 4, MAX_SPLITS = 64; // MAX_SPLITS: parts of a sequence; decode.go says the same
struct alignas(16) Numbers { float x[4]; };

// Share is what a block computes: query heads from head0 on of a sequence whose query is in this row, in one of `active` parts.
struct Share { int row, head0, heads, group, active; };

// Warps is what a block's warps found, in powers of two: sums of weighted values, the largest score, and the sum of weights.
template <int WIDTH> struct Warps {
  alignas(16) float out[WARPS][HEADS][WIDTH];
  float top[WARPS][HEADS], sum[WARPS][HEADS];
};
// Parts is the same of a sequence's parts.
struct Parts { float top[HEADS][MAX_SPLITS], sum[HEADS][MAX_SPLITS], weight[HEADS][MAX_SPLITS], sink[HEADS]; };

constexpr float NO_SINK = -1e30f;
DEVICE float sinkOf(const DecodeParams& p, int head) { return p.sinks ? p.sinks[head] * LOG2E : NO_SINK; }

// result writes four numbers of a head, divided by the sum of weights.
DEVICE void result(const DecodeParams& p, const Share& s, int h, int d, const Numbers& x, float sum) {
  u32* to = (u32*)(p.y + ((long)s.row * p.heads + s.head0 + h) * p.vSize + d);
  float f = reciprocal(sum);
  to[0] = pack(x.x[0] * f, x.x[1] * f), to[1] = pack(x.x[2] * f, x.x[3] * f);
}

// partial is where a part of a share lies: of each head vSize numbers, then maximum and weight.
DEVICE float* partial(const DecodeParams& p, const Share& s, int part) {
  return p.partial + ((long)s.group * p.splits + part) * HEADS * (p.vSize + 4);
}

// addWarps adds up what the warps found: to the result, if the share has one part, with its sinks; or to the block's part.
template <int WIDTH> DEVICE void addWarps(const DecodeParams& p, const Share& s, const Warps<WIDTH>& warps) {
  constexpr int LANES = WIDTH / 4; // of a head, four numbers each
  int d = threadX() % LANES * 4;
  for (int h = threadX() / LANES; h < s.heads && d < p.vSize; h += WARPS * 32 / LANES) {
    float alone = s.active == 1 ? sinkOf(p, s.head0 + h) : NO_SINK, top = alone;
    UNROLL for (int w = 0; w < WARPS; w++) top = maxf(top, warps.top[w][h]);
    float sum = alone > NO_SINK ? exp2(alone - top) : 0;
    Numbers x = {};
    UNROLL for (int w = 0; w < WARPS; w++) {
      float f = exp2(warps.top[w][h] - top);
      sum += warps.sum[w][h] * f;
      Numbers part = *(const Numbers*)&warps.out[w][h][d];
      UNROLL for (int e = 0; e < 4; e++) x.x[e] += part.x[e] * f;
    }
    if (s.active == 1) {
      result(p, s, h, d, x, sum);
      continue;
    }
    float* mine = partial(p, s, blockX()) + h * (p.vSize + 4);
    *(Numbers*)(mine + d) = x;
    if (d == 0) mine[p.vSize] = top, mine[p.vSize + 1] = sum;
  }
}

// last reports whether all other blocks of the share have written their parts. The fences order reads that follow behind those writes.
DEVICE bool last(const DecodeParams& p, const Share& s) {
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

// addParts adds up a share's parts, always in the same order, with two reads in a row.
DEVICE void addParts(const DecodeParams& p, const Share& s, Parts& parts) {
  int width = p.vSize + 4;
  const float* all = partial(p, s, 0);
  for (int i = threadX(); i < s.heads * s.active; i += WARPS * 32) {
    int h = i / s.active, n = i % s.active;
    const float* part = all + ((long)n * HEADS + h) * width + p.vSize;
    parts.top[h][n] = part[0], parts.sum[h][n] = part[1];
  }
  barrier();
  for (int i = threadX(); i < s.heads * s.active; i += WARPS * 32) {
    int h = i / s.active, n = i % s.active;
    float sink = sinkOf(p, s.head0 + h), top = sink;
    for (int e = 0; e < s.active; e++) top = maxf(top, parts.top[h][e]);
    parts.weight[h][n] = exp2(parts.top[h][n] - top);
    if (n == 0) parts.sink[h] = exp2(sink - top);
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
    result(p, s, h, d, x, sum);
  }
}
