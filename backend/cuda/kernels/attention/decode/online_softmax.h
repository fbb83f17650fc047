// A warp's online softmax over steps of 16 keys and values.
#pragma once
#include "split_kv_combine.h"

// OnlineSoftmax is a warp's online softmax and P × V so far. A lane has two query heads, 2t and 2t + 1; of a step's four scores number i is head i % 2's.
template <typename S> struct OnlineSoftmax {
  float out[S::TILES][4] = {};
  float rowMax[2] = {-1e29f, -1e29f}, sum[2] = {0, 0}; // the largest score, nearly, and the sum of P
  float unit[2], shift[2]; // P = 2^(score × unit - shift)
  float slack[2]; // how far a score may be above rowMax. P of up to 16 does no harm, and sums and results are seldom rescaled

  DEVICE OnlineSoftmax(const DecodeParams& p, const typename S::Query& q) {
    UNROLL for (int i = 0; i < 2; i++) {
      unit[i] = LOG2E * (p.softcap == 0 ? p.scale * S::unit(q, i) : 1);
      slack[i] = 4 * reciprocal(unit[i]), shift[i] = rowMax[i] * unit[i];
    }
  }
  // add adds P × V of a step.
  DEVICE void add(S& x, const float (&score)[4]) {
    float now[2] = {-1e30f, -1e30f}, w[4];
    UNROLL for (int i = 0; i < 4; i++) now[i & 1] = maxf(now[i & 1], score[i]);
    if (anySync(now[0] > rowMax[0] + slack[0] || now[1] > rowMax[1] + slack[1])) raiseMax(now);
    UNROLL for (int i = 0; i < 4; i++) {
      w[i] = exp2(__builtin_fmaf(score[i], unit[i & 1], -shift[i & 1]));
      sum[i & 1] += w[i];
      w[i] *= x.valueUnit(i / 2);
    }
    x.add(out, transpose8(S::pair(w[0], w[1])), transpose8(S::pair(w[2], w[3])));
  }
  // raiseMax raises rowMax to the largest score of all lanes, and rescales the sums.
  DEVICE void raiseMax(float (&now)[2]) {
    UNROLL for (int i = 0; i < 2; i++) {
      UNROLL for (int m = 4; m <= 16; m *= 2) now[i] = maxf(now[i], shuffleXor(now[i], m));
      now[i] = maxf(now[i], rowMax[i]);
      float rescale = exp2((rowMax[i] - now[i]) * unit[i]);
      rowMax[i] = now[i], shift[i] = rowMax[i] * unit[i];
      sum[i] *= rescale;
      UNROLL for (int j = 0; j < S::TILES; j++) out[j][i] *= rescale, out[j][i + 2] *= rescale;
    }
  }
  // store stores the warp's partial result, as number `to`.
  template <typename Partials> DEVICE void store(Partials& warps, int to) {
    UNROLL for (int i = 0; i < 2; i++) {
      UNROLL for (int m = 4; m <= 16; m *= 2) sum[i] += shuffleXor(sum[i], m);
      if (lane() < 4) warps.rowMax[to][lane() * 2 + i] = shift[i], warps.sum[to][lane() * 2 + i] = sum[i];
    }
    UNROLL for (int j = 0; j < S::TILES; j++) UNROLL for (int i = 0; i < 4; i++) {
      int d = S::place(j, i);
      if (d < S::WIDTH) warps.out[to][lane() % 4 * 2 + (i & 1)][d] = out[j][i] * UNIT<typename S::Number>;
    }
  }
};
