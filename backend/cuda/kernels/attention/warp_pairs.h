// Attention with mma.sync where no warp has registers for all numbers of a result: the two warps of a pair have the same 16 rows of queries. Each holds half of
// the numbers of these queries in registers, makes half of each score, adds up the halves through shared memory, and accumulates half of the result. A block
// has four pairs, and keys in tiles of 32; values lie in lines as keys do.
#pragma once
#include "../cuda.h"

constexpr float MASK_VALUE = -1e30f;

// Bf16 and Half are the types of caches. Queries are bf16.
struct Bf16 {
  static constexpr bool CONVERTS = false; // whether queries are other numbers for a cache of the type
  static DEVICE u32 query(u32 x) { return x; }
  static DEVICE u32 pair(float a, float b) { return pack(a, b); }
  static DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(d, a[0], a[1], a[2], a[3], b0, b1); }
};
struct Half {
  static constexpr bool CONVERTS = true;
  static DEVICE u32 query(u32 x) { return packF16(low(x), high(x)); }
  static DEVICE u32 pair(float a, float b) { return packF16(a, b); }
  static DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mmaF16(d, a[0], a[1], a[2], a[3], b0, b1); }
};

DEVICE void pairBarrier(int pair) { asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory"); }

constexpr int PAIR_KEYS = 32, EXCHANGE_BYTES = 8 * 16 * 32 * 4; // of the halves of scores, [8 warps][16][32 lanes] float

// WarpPair is a warp of a pair, for queries of up to K numbers and values of up to V; a key or value takes LINE bytes in shared memory, eight of which begin in
// different banks.
template <typename N, int K, int V, int LINE> struct WarpPair {
  static constexpr int STEPS = K / 16 / 2, TILES = V / 16 / 2; // of a warp: k16 of scores, and n16 of the result
  int pair, half, g, t;
  u32 q[STEPS][4];
  float out[2 * TILES][4] = {}, rowMax[2] = {MASK_VALUE, MASK_VALUE}, sum[2] = {};
  float* mine;
  const float* other;
  u32 across, down; // where this lane reads of four 8 × 8 matrices: keys across (two registers are an operand), values down and transposed

  DEVICE WarpPair(u8* exchange) {
    pair = warp() / 2, half = warp() % 2, g = lane() / 4, t = lane() % 4;
    mine = (float*)exchange + warp() * 16 * 32 + lane(), other = (const float*)exchange + (warp() ^ 1) * 16 * 32 + lane();
    across = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16 + half * STEPS * 32;
    down = lane() % 16 * LINE + lane() / 16 * 16 + half * TILES * 32;
  }
  // row is the row of the block's 64 that this lane has as its first (h = 0) and second; at and column, where its two numbers of an operand and of a sum are.
  DEVICE int row(int h) const { return 16 * pair + g + 8 * h; }
  DEVICE int at(int k, int e) const { return (half * STEPS + k) * 16 + e / 2 * 8 + 2 * t; }
  DEVICE int column(int j) const { return (half * 2 * TILES + j) * 8 + 2 * t; }

  // attend goes on to a tile of keys and values. score makes a score of the product of query row(h) and a key of the tile, or MASK_VALUE; scaled is what scores
  // are multiplied with, for powers of two.
  template <typename S> DEVICE void attend(u32 keys, u32 values, float scaled, const S& score) {
    float x[PAIR_KEYS / 8][4] = {};
    UNROLL for (int k = 0; k < STEPS; k++) UNROLL for (int n = 0; n < PAIR_KEYS / 16; n++) {
      u32 key[4];
      ldmatrix4(key, keys + across + n * 16 * LINE + k * 32);
      N::multiply(x[2 * n], q[k], key[0], key[1]);
      N::multiply(x[2 * n + 1], q[k], key[2], key[3]);
    }
    UNROLL for (int n = 0; n < PAIR_KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) mine[(4 * n + e) * 32] = x[n][e];
    pairBarrier(pair);
    float newMax[2] = {rowMax[0], rowMax[1]};
    UNROLL for (int n = 0; n < PAIR_KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) {
      x[n][e] = score(x[n][e] + other[(4 * n + e) * 32], e / 2, 8 * n + 2 * t + e % 2);
      newMax[e / 2] = maxf(newMax[e / 2], x[n][e]);
    }
    float rescale[2];
    UNROLL for (int h = 0; h < 2; h++) {
      newMax[h] = maxf(newMax[h], shuffleXor(newMax[h], 1));
      newMax[h] = maxf(newMax[h], shuffleXor(newMax[h], 2));
      rescale[h] = exp2((rowMax[h] - newMax[h]) * scaled);
      rowMax[h] = newMax[h], sum[h] *= rescale[h];
    }
    UNROLL for (int n = 0; n < PAIR_KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) {
      x[n][e] = x[n][e] <= 0.1f * MASK_VALUE ? 0 : exp2((x[n][e] - rowMax[e / 2]) * scaled);
      sum[e / 2] += x[n][e];
    }
    if (!allSync(rescale[0] == 1 && rescale[1] == 1)) UNROLL for (int j = 0; j < 2 * TILES; j++) UNROLL for (int e = 0; e < 4; e++) out[j][e] *= rescale[e / 2];
    UNROLL for (int k = 0; k < PAIR_KEYS / 16; k++) {
      u32 prob[4], value[4];
      UNROLL for (int e = 0; e < 4; e++) prob[e] = N::pair(x[2 * k + e / 2][e % 2 * 2], x[2 * k + e / 2][e % 2 * 2 + 1]);
      UNROLL for (int n = 0; n < TILES; n++) {
        ldmatrix4Trans(value, values + down + k * 16 * LINE + n * 32);
        N::multiply(out[2 * n], prob, value[0], value[1]);
        N::multiply(out[2 * n + 1], prob, value[2], value[3]);
      }
    }
    pairBarrier(pair); // the halves of scores have been read
  }
  // addSums makes sums those of all lanes of a row, behind the last tile.
  DEVICE void addSums() {
    UNROLL for (int h = 0; h < 2; h++) {
      sum[h] += shuffleXor(sum[h], 1);
      sum[h] += shuffleXor(sum[h], 2);
    }
  }
  // store stores the result of row(h), vSize numbers.
  DEVICE void store(int h, bf16* y, int vSize) const {
    float f = reciprocal(sum[h]);
    UNROLL for (int j = 0; j < 2 * TILES; j++)
      if (column(j) < vSize) ((u32*)y)[column(j) / 2] = pack(out[j][2 * h] * f, out[j][2 * h + 1] * f);
  }
  // storePart stores that of a split for combineSplits: unscaled P × V, row max, row sum.
  DEVICE void storePart(int h, float* part, int vSize, float scaled) const {
    UNROLL for (int j = 0; j < 2 * TILES; j++)
      if (column(j) < vSize) part[column(j)] = out[j][2 * h], part[column(j) + 1] = out[j][2 * h + 1];
    if (half == 0 && t == 0) part[vSize] = rowMax[h] * scaled, part[vSize + 1] = sum[h];
  }
};

// combineSplits adds up the splits of a row, `next` numbers apart, in a fixed order, by a block.
DEVICE void combineSplits(bf16* y, const float* parts, long next, int splits, int vSize) {
  float most = MASK_VALUE, sum = 0;
  for (int i = 0; i < splits; i++) most = maxf(most, parts[i * next + vSize]);
  for (int i = 0; i < splits; i++) sum += exp2(parts[i * next + vSize] - most) * parts[i * next + vSize + 1];
  float f = reciprocal(sum);
  for (int d = threadX(); d < vSize; d += threads()) {
    float x = 0;
    for (int i = 0; i < splits; i++) x += exp2(parts[i * next + vSize] - most) * parts[i * next + d];
    y[d] = fromFloat<bf16>(x * f);
  }
}
