// Typical sampling (locally typical decoding): tokens ordered by the distance of their information from the entropy, and a sample from the first of them.
#pragma once
#include "bins.h"

// Typical is that order, among the tokens that the filters left.
struct Typical {
  Scale k;
  u64 last;     // the last token left, by placeOf
  double shift; // ln of their mass, minus their entropy
  DEVICE bool counts(float x, int id) const { return k.counts(x) && placeOf(x, id) <= last; }
  DEVICE u64 place(float x, int id) const {
    float far = (float)__builtin_fabs((double)k.y(x) * 0.010830424696249145 + shift);
    return (u64)__builtin_bit_cast(u32, far) << 32 | (u32)id;
  }
  // weight is fixed point: 2^40 for the likeliest.
  DEVICE u64 weight(float x) const { return (u64)(exp2(k.y(x) * (-1.0f / 64)) * 1099511627776.0f); }
};

struct Sought { u64 place, weight; }; // a token in that order, and the weight of all tokens up to and including it

// seek is the first token, in the order o, at which the prefix sum of weights reaches goal.
template <typename T> DEVICE Sought seek(const View& v, const Typical& o, u64 goal, Shared& s) {
  u64 lo = 0, hi = (u64)0x7f800000 << 32; // the largest distance
  if (threadX() == 0) s.weight = 0, s.members = MOST + 1;
  barrier();
  _Pragma("nounroll") while (s.members > MOST) {
    int shift = 0;
    while ((hi - lo) >> shift >= SUBBINS) shift++;
    for (int i = threadX(); i < SUBBINS; i += THREADS) s.part.weight[i] = s.part.count[i] = 0;
    barrier();
    each<T>(v, [&](int id, float x) {
      u64 place = o.place(x, id);
      if (o.counts(x, id) && place >= lo && place <= hi) {
        int i = (int)((place - lo) >> shift);
        sharedAdd(&s.part.count[i], 1);
        sharedAdd64(&s.part.weight[i], o.weight(x));
      }
    });
    barrier();
    if (threadX() == 0) {
      u64 with = s.weight;
      int last = 0; // the last nonempty part
      for (int i = 0; i < SUBBINS; i++) {
        if (s.part.count[i] == 0) continue;
        s.weight = with, last = i;
        with += s.part.weight[i];
        if (with >= goal) break;
      }
      s.members = s.part.count[last];
      s.lo = lo + ((u64)last << shift);
      s.hi = s.lo + ((1ull << shift) - 1);
    }
    barrier();
    lo = s.lo, hi = s.hi;
  }
  if (threadX() == 0) s.extra = 0;
  barrier();
  each<T>(v, [&](int id, float x) {
    u64 place = o.place(x, id);
    if (o.counts(x, id) && place >= lo && place <= hi) {
      u32 at = sharedNext((u32*)&s.extra);
      s.typical.place[at] = place;
      s.typical.weight[at] = o.weight(x);
    }
  });
  barrier();
  u32 n = s.members;
  u64 before = s.weight;
  barrier();
  for (u32 i = threadX(); i < n; i += THREADS) {
    u64 own = s.typical.place[i], with = before;
    u32 rank = 0;
    for (u32 j = 0; j < n; j++)
      if (s.typical.place[j] < own) rank++, with += s.typical.weight[j];
    bool first = rank == 0 || with < goal;
    with += s.typical.weight[i];
    if (first && (with >= goal || rank + 1 == n)) s.lo = own, s.weight = with;
  }
  barrier();
  Sought found = {s.lo, s.weight};
  barrier();
  return found;
}

// drawTypical samples from the tokens up to place last, whose mass is given.
template <typename T> DEVICE u64 drawTypical(const View& v, const Scale& k, const Row& r, u64 last, double mass, Shared& s) {
  Typical o = {k, last, 0};
  double sum = 0, weights = 0;
  each<T>(v, [&](int id, float x) {
    if (o.counts(x, id)) sum += exp2(k.y(x) * (-1.0f / 64)) * k.y(x), weights += (double)o.weight(x);
  });
  sum = blockAdd(sum, s);
  weights = blockAdd(weights, s);
  o.shift = -sum * 0.010830424696249145 / mass; // the entropy is ln mass + ln 2/64 · sum/mass
  Sought f = {0, (u64)weights};
  _Pragma("nounroll") for (int draw = 0; draw < 2; draw++) // the filter, then the sample from what it leaves
    f = seek<T>(v, o, (u64)((draw ? r.u : r.typicalP) * (double)f.weight), s);
  return f.place;
}
