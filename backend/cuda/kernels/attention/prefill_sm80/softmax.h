// Online softmax: a warp's scores, P and output rows in the layout of accumulators, of both mma.sync and wgmma.
#pragma once
#include "../../cuda.h"

constexpr int ROWS = 128;        // of a block
constexpr float MASK_VALUE = -1e30f; // the score of a masked key

// Bf16 and Half are the types of keys and values; queries and P become the same.
struct Bf16 {
  static DEVICE Vec16 query(Vec16 x) { return x; }
  static DEVICE u32 pair(float a, float b) { return pack(a, b); }
};
struct Half {
  static DEVICE Vec16 query(Vec16 x) { return bf16ToF16(x); }
  static DEVICE u32 pair(float a, float b) { return packF16(a, b); }
};

// WorkTile is what a block computes: one query head of up to 128 rows of one sequence, and which tiles of keys these see.
struct WorkTile {
  int kv, head, seq, row0, rows, length;
  int pos0;        // position of the first row
  int first, last; // tiles

  // The grid is the query heads of a few key heads, then the tiles of rows, then the next key heads: so many keys and values at a time
  // stay in the L2 cache. Of the last of these passes some blocks may have kv beyond the last and nothing to do.
  template <typename P> DEVICE WorkTile(const P& p, int keys) {
    const Step& s = p.step;
    int share = p.heads / p.kvHeads;
    kv = blockZ() * (gridX() / share) + blockX() / share, head = kv * share + blockX() % share;
    seq = s.tiles[2 * blockY()], row0 = s.tiles[2 * blockY() + 1];
    int left = s.qStart[seq + 1] - row0;
    rows = mini(ROWS, left), length = s.kvLen[seq], pos0 = length - left;
    first = p.window > 0 ? maxi(0, (p.bidirectional ? length - 1 : pos0) - p.window + 1) / keys : 0;
    last = (p.bidirectional ? length - 1 : pos0 + rows - 1) / keys;
  }
};

DEVICE Vec16 loadShared(u32 at) {
  Vec16 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3]) : "r"(at) : "memory");
  return x;
}
DEVICE void storeShared(u32 at, Vec16 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x[0]), "r"(x.x[1]), "r"(x.x[2]), "r"(x.x[3]) : "memory");
}

// SoftmaxRows is the state of 16 rows of a warp, for KEYS keys and D numbers of a head. Lane 4g + t has of score, and of out likewise, in
// [4j + e] row g + 8(e/2), column 8j + 2t + e%2.
template <int D, int KEYS> struct SoftmaxRows {
  float score[KEYS / 2], out[D / 2], rowMax[2], sum[2], rescale[2];

  DEVICE void start() {
    UNROLL for (int h = 0; h < 2; h++) rowMax[h] = MASK_VALUE, sum[h] = 0;
    UNROLL for (int i = 0; i < D / 2; i++) out[i] = 0;
  }
  // mask masks keys, from key0 on, that a row may not see (causality and window): row g stands at pos, row g + 8 at pos + step.
  DEVICE void mask(int key0, int pos, int step, int window) {
    UNROLL for (int i = 0; i < KEYS / 2; i++) {
      int key = key0 + i / 4 * 8 + lane() % 4 * 2 + i % 2, mine = pos + i / 2 % 2 * step;
      if (key > mine || (window > 0 && key <= mine - window)) score[i] = MASK_VALUE;
    }
  }
  // cap soft-caps scores: limit × tanh(score × scale / limit). Only its absolute error counts, of limit × 1e-7, as an exponential
  // follows: so there is no need to treat small numbers apart, as tanhf does.
  DEVICE void cap(float scale, float limit) {
    float twice = 2 * LOG2E * scale / limit;
    UNROLL for (int i = 0; i < KEYS / 2; i++) score[i] = limit - 2 * limit * reciprocal(1 + exp2(score[i] * twice));
  }
  // softmax turns scores into P, in units in which the largest so far is 1. rescale is the factor that brings out to these units.
  DEVICE void softmax(float scaled) {
    UNROLL for (int h = 0; h < 2; h++) {
      float m = rowMax[h];
      UNROLL for (int j = 0; j < KEYS / 8; j++) m = maxf(m, maxf(score[4 * j + 2 * h], score[4 * j + 2 * h + 1]));
      m = maxf(m, shuffleXor(m, 1));
      m = maxf(m, shuffleXor(m, 2));
      float shift = m <= 0.1f * MASK_VALUE ? 0 : m * scaled, more = 0;
      rescale[h] = exp2((rowMax[h] - m) * scaled);
      rowMax[h] = m;
      UNROLL for (int j = 0; j < KEYS / 8; j++) UNROLL for (int i = 4 * j + 2 * h; i < 4 * j + 2 * h + 2; i++) {
        score[i] = exp2(__builtin_fmaf(score[i], scaled, -shift));
        more += score[i];
      }
      sum[h] = sum[h] * rescale[h] + more;
    }
  }
  DEVICE void rescaleOutput() {
    UNROLL for (int i = 0; i < D / 2; i++) out[i] *= rescale[i / 2 % 2];
  }
  // fragmentP is P of keys 16k to 16k + 15 as the A operand of P × V.
  template <typename N> DEVICE void fragmentP(u32 (&a)[4], int k) const {
    UNROLL for (int e = 0; e < 4; e++) a[e] = N::pair(score[8 * k + 2 * e], score[8 * k + 2 * e + 1]);
  }
  // store writes the rows, the first of which is the block's row `row`.
  template <typename P> DEVICE void store(const P& p, const WorkTile& work, int row, float scaled) {
    float sink = p.sinks ? p.sinks[work.head] * LOG2E : MASK_VALUE; // a score without a key
    row += lane() / 4;
    UNROLL for (int h = 0; h < 2; h++, row += 8) {
      sum[h] += shuffleXor(sum[h], 1);
      sum[h] += shuffleXor(sum[h], 2);
      float mine = rowMax[h] * scaled, m = maxf(mine, sink), e = exp2(mine - m), f = e / (sum[h] * e + exp2(sink - m));
      u32* y = (u32*)(p.y + ((long)(work.row0 + row) * p.heads + work.head) * p.vSize);
      UNROLL for (int j = 0; j < D / 8; j++)
        if (row < work.rows && j * 8 < p.vSize) y[j * 4 + lane() % 4] = pack(out[4 * j + 2 * h] * f, out[4 * j + 2 * h + 1] * f);
    }
  }
};
