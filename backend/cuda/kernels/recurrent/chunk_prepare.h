// What the preparation of chunks shares, for recurrent layers: which chunk a block has, its rows in shared memory, their products with each other.
#pragma once
#include "chunk_scan.h"

// sequenceOf is the last sequence that begins at a chunk or before it.
DEVICE int sequenceOf(const Step& s, int chunk) {
  int seq = -1, seqs = s.counts[COUNT_SEQS];
  for (int s0 = 0; s0 < seqs; s0 += 32) {
    float mine = s0 + lane() < seqs && firstChunk(s, s0 + lane()) <= chunk ? 1 : 0;
    seq += (int)warpSum(mine);
  }
  return seq;
}

// loadRows begins to load rows of a chunk into two panels, by 128 threads; zeros beyond `rows` of `size` numbers.
DEVICE void loadRows(u32 to, const bf16* from, long stride, int rows, int size) {
  for (int i = threadX() % 128; i < CHUNK * MAX_KEY / 8; i += 128) {
    int row = i / (MAX_KEY / 8), at = i % (MAX_KEY / 8);
    bool in = row < rows && at * 8 < size;
    cpAsync16(to + at / 8 * PANEL + swizzled(row, at % 8), in ? from + row * stride + at * 8 : from, in);
  }
}

// rowProducts is the products of 16 rows of a with all 64 of b, in the layout of sums.
DEVICE void rowProducts(float (&d)[CHUNK / 8][4], u32 a, int row0, u32 b) {
  UNROLL for (int k = 0; k < MAX_KEY / 16; k++) {
    u32 x[4], y[4];
    ldmatrix4(x, a + k / 4 * PANEL + swizzled(row0 + lane() % 16, k % 4 * 2 + lane() / 16));
    UNROLL for (int n = 0; n < CHUNK / 16; n++) {
      ldmatrix4(y, b + k / 4 * PANEL + swizzled(16 * n + lane() / 16 * 8 + lane() % 8, k % 4 * 2 + lane() / 8 % 2));
      mma(d[2 * n], x[0], x[1], x[2], x[3], y[0], y[1]);
      mma(d[2 * n + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
    }
  }
}

// rowProductsBelow is the products of 16 rows of a, and of the same rows of c, with those of b up to them: what lies above the diagonal is left out.
DEVICE void rowProductsBelow(float (&ab)[CHUNK / 8][4], float (&cb)[CHUNK / 8][4], u32 a, u32 c, int row0, u32 b) {
  UNROLL for (int k = 0; k < MAX_KEY / 16; k++) {
    u32 x[4], z[4], y[4], at = k / 4 * PANEL + swizzled(row0 + lane() % 16, k % 4 * 2 + lane() / 16);
    ldmatrix4(x, a + at);
    ldmatrix4(z, c + at);
    UNROLL for (int n = 0; n < CHUNK / 16; n++) {
      if (16 * n > row0) break;
      ldmatrix4(y, b + k / 4 * PANEL + swizzled(16 * n + lane() / 16 * 8 + lane() % 8, k % 4 * 2 + lane() / 8 % 2));
      mma(ab[2 * n], x[0], x[1], x[2], x[3], y[0], y[1]);
      mma(ab[2 * n + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
      mma(cb[2 * n], z[0], z[1], z[2], z[3], y[0], y[1]);
      mma(cb[2 * n + 1], z[0], z[1], z[2], z[3], y[2], y[3]);
    }
  }
}

// prefixSum is the sum of the lane's number and those of the lanes before it.
DEVICE float prefixSum(float x) {
  UNROLL for (int m = 1; m < 32; m *= 2) {
    float other = shuffleFrom(x, maxi(lane() - m, 0));
    if (lane() >= m) x += other;
  }
  return x;
}
