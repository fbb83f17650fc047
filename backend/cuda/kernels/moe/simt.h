// SIMT fallback of the grouped GEMM, for rows and weights in any floats: rows in F32, and sizes that the tensor-core kernels do not support.
// Weights are row-major.
#pragma once
#include "../cuda.h"
#include "job.h"
#include "gated_activation.h"

struct SimtParams {
  const void* x;    // [rows, k]
  const int* row;   // as in GroupedGemmParams
  const int* total;
  const Vec16* jobs;
  const void* w;    // [experts, n, k]
  const float* bias; // [experts, n] or null
  void* y;          // [slots, n]
  int n, k, each;
  int round; // inputs are rounded to bf16
};

DEVICE float rounded(float v, int round) { return round ? toFloat(fromFloat<bf16>(v)) : v; }

// A block computes up to 64 slots × 64 results; each of its 256 threads 4 × 4 of them.
template <typename X, typename W> DEVICE void simtGemm(const SimtParams& p) {
  constexpr int TILE = 64, DEPTH = 16;
  SHARED static float xs[DEPTH][TILE + 4], ws[DEPTH][TILE + 4];
  SHARED static int rows[TILE];
  launchDependentsAndWait();
  Job job;
  if (!job.find(p, blockX(), ceilDiv(p.n, TILE))) return;
  int n0 = job.tiles * TILE, tx = threadX() % 16, ty = threadX() / 16;
  for (int i = threadX(); i < job.count; i += 256) rows[i] = p.row ? p.row[job.slot + i] : job.slot + i;
  barrier();
  const W* w = (const W*)p.w + (long)job.expert * p.n * p.k;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
    for (int i = threadX(); i < TILE * DEPTH; i += 256) {
      int r = i / DEPTH, k = i % DEPTH;
      bool in = k0 + k < p.k;
      xs[k][r] = in && r < job.count ? rounded(toFloat(((const X*)p.x)[(long)rows[r] * p.k + k0 + k]), p.round) : 0;
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
    int s = ty * 4 + i, n = n0 + tx * 4 + j;
    if (s >= job.count || n >= p.n) continue;
    float v = p.bias ? acc[i][j] + p.bias[(long)job.expert * p.n + n] : acc[i][j];
    ((X*)p.y)[(long)(job.slot + s) * p.n + n] = fromFloat<X>(v);
  }
}

struct ActivationParams {
  void* gate;       // [slots, n]; receives the result
  const void* up;   // [slots, n]
  const int* first; // [experts + 1]
  int n, experts, fn;
  float clamp;
};

// gatedActivations computes act(gate) × up of every slot, in place of the gate (a grid-stride loop).
template <typename T> DEVICE void gatedActivations(const ActivationParams& p) {
  launchDependentsAndWait();
  long all = (long)p.first[p.experts] * p.n;
  T* gate = (T*)p.gate;
  for (long i = (long)blockX() * 256 + threadX(); i < all; i += (long)gridX() * 256)
    gate[i] = fromFloat<T>(gatedActivation(p.fn, p.clamp, toFloat(gate[i]), toFloat(((const T*)p.up)[i])));
}
