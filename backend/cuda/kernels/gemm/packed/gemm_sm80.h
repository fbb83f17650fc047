// Packed-weight GEMM with mma.sync for 9 to 32 rows of x on GPUs before Hopper, which has gemm_sm90.h.
#pragma once
#include "formats.h"
#include "sparse24.h"

struct GemmSm80Params {
  const bf16* x; // [m, k]
  PackedPart part;
  int m, k;
};

// multiplyBlock adds the products of a tile's block of 32 columns with NT × 8 rows of x.
template <typename Q, int NT> DEVICE void multiplyBlock(float (&acc)[NT][4], const Q (&a)[2], int block, const u32 (&b)[NT][4]) {
  u32 top[4], bottom[4];
  dequantise(a[0], block, top);
  dequantise(a[1], block, bottom);
  UNROLL for (int j = 0; j < NT; j++) UNROLL for (int s = 0; s < 4; s += 2)
    mma(acc[j], top[s], bottom[s], top[s + 1], bottom[s + 1], b[j][s], b[j][s + 1]);
}
template <int NT> DEVICE void multiplyBlock(float (&acc)[NT][4], const Sparse24 (&a)[2], int block, const u32 (&b)[NT][4]) {
  SparseRows rows(a[0], a[1], block);
  UNROLL for (int j = 0; j < NT; j++) mmaSparse(acc[j], rows, b[j]);
}

// A block takes two tiles of 16 rows of weights, whose k its warps split. NT × 8 is the rows of x there is room for.
template <typename Q, int NT> DEVICE void gemmSm80(const GemmSm80Params& p) {
  constexpr int WARPS = 8, RT = 2, UNIT = 2 * Q::BYTES;
  SHARED static float sums[WARPS][RT * NT * 128];
  int tile = blockX() * RT, g = lane() / 4, t = lane() % 4, n = p.part.n, units = unitsOf(p.k), last = ceilDiv(n, 16) - 1;

  const u8* w[RT];
  UNROLL for (int r = 0; r < RT; r++) w[r] = p.part.w + unitAt(mini(tile + r, last), 0, units) * UNIT;
  float acc[RT][NT][4] = {};
  for (int unit = warp(); unit < units; unit += WARPS) {
    Q a[RT][2];
    UNROLL for (int r = 0; r < RT; r++) UNROLL for (int h = 0; h < 2; h++) a[r][h].load(InGlobal{w[r] + (long)unit * PANEL * UNIT + h * Q::BYTES});
    UNROLL for (int block = 0; block < BLOCKS; block++) {
      u32 b[NT][4]; // columns 8i + 2t and the next, of row g
      UNROLL for (int j = 0; j < NT; j++) UNROLL for (int i = 0; i < 4; i++) {
        int k = unit * COLUMNS + block * 32 + i * 8 + t * 2; // past the end x counts as zero
        b[j][i] = j * 8 + g < p.m && k < p.k ? *(const u32*)(p.x + (long)(j * 8 + g) * p.k + k) : 0;
      }
      UNROLL for (int r = 0; r < RT; r++) multiplyBlock(acc[r], a[r], block, b);
    }
  }

  // The warps' partial sums are reduced in shared memory, laid out [row of x][row of weights], and are added in the warps' order.
  UNROLL for (int r = 0; r < RT; r++) UNROLL for (int j = 0; j < NT; j++) UNROLL for (int i = 0; i < 4; i++)
    sums[warp()][(j * 8 + t * 2 + (i & 1)) * (RT * 16) + r * 16 + g + (i / 2) * 8] = acc[r][j][i];
  barrier();
  for (int i = threadX(); i < RT * NT * 128; i += WARPS * 32) {
    int m = i / (RT * 16), row = tile * 16 + i % (RT * 16);
    if (m >= p.m || row >= n) continue;
    float v = 0;
    UNROLL for (int k = 0; k < WARPS; k++) v += sums[k][i];
    if (p.part.bias) v += p.part.bias[row];
    p.part.y[(long)m * n + row] = fromFloat<bf16>(v);
  }
}
