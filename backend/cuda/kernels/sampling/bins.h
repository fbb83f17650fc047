// The histogram of tokens by weight, and the bin in which a rank or a sum of weights is reached.
#pragma once
#include "view.h"

// root is 2^(-b/64).
DEVICE double root(int b) {
  double r = __builtin_bit_cast(double, (u64)(1023 - (b >> 6)) << 52);
  if (b & 1) r *= 0.98922801319397548;
  if (b & 2) r *= 0.97857206208770009;
  if (b & 4) r *= 0.95760328069857365;
  if (b & 8) r *= 0.91700404320467122;
  if (b & 16) r *= 0.84089641525371450;
  if (b & 32) r *= 0.70710678118654757;
  return r;
}

// Scale maps logits to y, their distance below the top logit in 1/64 octaves of weight.
struct Scale {
  float top, slope, floor; // only tokens above floor are counted
  DEVICE float y(float x) const { return __nvvm_mul_rn_f(__nvvm_add_rn_f(top, -x), slope); }
  DEVICE bool counts(float x) const { return x > floor && y(x) < BINS; } // NaN is not
};

// dentOf is d of a token: its weight is 1 - d/2^20 of its bin's largest.
DEVICE u32 dentOf(float y, int bin) {
  constexpr float L = 0.010830424696249145f; // ln 2 / 64
  float f = (y - (float)bin) * L;
  return (u32)(UNIT * f * (1 - f * (0.5f - f * (1.0f / 6))) + 0.5f);
}
DEVICE double massOf(u64 count, u64 dent) { return (double)((count << 20) - dent) * (1.0 / UNIT); }

// countBins fills the bins and the prefix sums over the threads' bins.
template <typename T> DEVICE void countBins(const View& v, const Scale& k, Shared& s) {
  for (int i = threadX(); i < BINS; i += THREADS) s.count[i] = s.dent[i] = 0;
  barrier();
  each<T>(v, [&](int, float x) {
    if (k.counts(x)) {
      float y = k.y(x);
      int bin = (int)y;
      sharedAdd(&s.count[bin], 1);
      sharedAdd(&s.dent[bin], dentOf(y, bin));
    }
  });
  barrier();
  int t = threadX();
  double mass = 0;
  u32 tokens = 0;
  for (int b = t * OWN; b < (t + 1) * OWN; b++) {
    tokens += s.count[b];
    mass += root(b) * massOf(s.count[b], s.dent[b]);
  }
  s.mass[t] = mass;
  s.tokens[t] = tokens;
  for (int d = 1; d < THREADS; d *= 2) { // prefix sums, in a fixed order
    barrier();
    double m = t >= d ? s.mass[t - d] : 0;
    u32 n = t >= d ? s.tokens[t - d] : 0;
    barrier();
    s.mass[t] += m;
    s.tokens[t] += n;
  }
  barrier();
}

// Goal is what find searches: the token of a rank (from 1), or the first at which the mass reaches a sum.
struct Goal {
  u32 rank; // 0: by mass
  double mass;
  DEVICE bool reached(u32 tokens, double sum) const { return rank ? tokens >= rank : sum >= mass; }
};

// pickBin finds the goal's bin: the last nonempty one if rounding leaves the goal beyond all.
DEVICE void pickBin(const Goal& goal, Shared& s) {
  int t = threadX();
  u32 before = t ? s.tokens[t - 1] : 0, total = s.tokens[THREADS - 1];
  bool some = s.tokens[t] > before;
  if (t == 0) s.hit = THREADS;
  barrier();
  if (some && (goal.reached(s.tokens[t], s.mass[t]) || s.tokens[t] == total)) sharedMin(&s.hit, t);
  barrier();
  if (t == s.hit) {
    double mass = t ? s.mass[t - 1] : 0;
    for (int b = t * OWN;; b++) {
      u32 n = s.count[b];
      double with = mass + root(b) * massOf(n, s.dent[b]);
      if (n && (goal.reached(before + n, with) || before + n == s.tokens[t])) {
        s.bin = b, s.base = mass, s.before = before, s.members = n;
        break;
      }
      before += n, mass = with;
    }
  }
  barrier();
}
