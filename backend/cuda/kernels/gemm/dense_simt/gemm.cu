// SIMT fallback GEMM, on the float32 units: for f32 activations and weights that no faster kernel takes,
// and the plain version that the tensor-core kernels are tested against.
#include "../../cuda.h"

struct GemmParams {
  const void* x;     // [m, k]
  const void* w;     // [n, k]
  const float* bias; // [n] or null
  void* y;           // [m, n]
  int m, n, k, toF32;
};

constexpr int TILE = 64, DEPTH = 16;

// A block computes 64 × 64 results; each of its 256 threads 4 × 4 of them.
template <typename X, typename W> DEVICE void linear(const GemmParams& p) {
  SHARED static float xs[DEPTH][TILE + 4], ws[DEPTH][TILE + 4];
  launchDependentsAndWait();
  int m0 = blockY() * TILE, n0 = blockX() * TILE, tx = threadX() % 16, ty = threadX() / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
    for (int i = threadX(); i < TILE * DEPTH; i += 256) {
      int r = i / DEPTH, k = i % DEPTH;
      bool in = k0 + k < p.k;
      xs[k][r] = in && m0 + r < p.m ? toFloat(((const X*)p.x)[(long)(m0 + r) * p.k + k0 + k]) : 0;
      ws[k][r] = in && n0 + r < p.n ? toFloat(((const W*)p.w)[(long)(n0 + r) * p.k + k0 + k]) : 0;
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
    if (m >= p.m || n >= p.n) continue;
    float v = p.bias ? acc[i][j] + p.bias[n] : acc[i][j];
    if (p.toF32) ((float*)p.y)[(long)m * p.n + n] = v;
    else ((bf16*)p.y)[(long)m * p.n + n] = fromFloat<bf16>(v);
  }
}
KERNEL(256, 1) gemm_f32_f32(PARAM GemmParams p) { linear<float, float>(p); }
KERNEL(256, 1) gemm_f32_bf16(PARAM GemmParams p) { linear<float, bf16>(p); }
KERNEL(256, 1) gemm_bf16_bf16(PARAM GemmParams p) { linear<bf16, bf16>(p); }
