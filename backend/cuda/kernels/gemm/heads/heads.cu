// A product for each head (graph.HeadLinear): the queries of latent attention go into the latent's space, and its values out of it. SIMT, as dense_simt,
// with the head along Z.
#include "heads.h"

constexpr int TILE = 64, DEPTH = 16;

// A block computes 64 × 64 results of a head; each of its 256 threads 4 × 4 of them.
template <typename X, typename W> DEVICE void headLinear(const HeadsParams& p) {
  SHARED static float xs[DEPTH][TILE + 4], ws[DEPTH][TILE + 4];
  launchDependentsAndWait();
  int m0 = blockY() * TILE, n0 = blockX() * TILE, h = blockZ(), tx = threadX() % 16, ty = threadX() / 16;
  const X* x = (const X*)p.x + (long)h * p.size;
  const W* w = (const W*)p.w + (long)h * p.n * p.k;
  X* y = (X*)p.y + (long)h * p.width;
  long xRow = (long)p.heads * p.size, yRow = (long)p.heads * p.width;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
    for (int i = threadX(); i < TILE * DEPTH; i += 256) {
      int r = i / DEPTH, k = i % DEPTH;
      bool in = k0 + k < p.k;
      xs[k][r] = in && m0 + r < p.rows ? toFloat(x[(m0 + r) * xRow + k0 + k]) : 0;
      ws[k][r] = in && n0 + r < p.n ? toFloat(w[(long)(n0 + r) * p.k + k0 + k]) : 0;
    }
    barrier();
    UNROLL for (int k = 0; k < DEPTH; k++) {
      float a[4], b[4];
      UNROLL for (int i = 0; i < 4; i++) a[i] = xs[k][ty * 4 + i], b[i] = ws[k][tx * 4 + i];
      UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) acc[i][j] += a[i] * b[j];
    }
    barrier();
  }
  UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) {
    int m = m0 + ty * 4 + i, n = n0 + tx * 4 + j;
    if (m < p.rows && n < p.n) y[m * yRow + n] = fromFloat<X>(acc[i][j]);
  }
  if (blockX() == 0) copyRest<X>(p, h, m0, TILE);
}
KERNEL(256, 1) heads_f32_f32(PARAM HeadsParams p) { headLinear<float, float>(p); }
KERNEL(256, 1) heads_f32_bf16(PARAM HeadsParams p) { headLinear<float, bf16>(p); }
KERNEL(256, 1) heads_bf16_bf16(PARAM HeadsParams p) { headLinear<bf16, bf16>(p); }
