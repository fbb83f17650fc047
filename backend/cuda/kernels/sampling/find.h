// The token of a rank, or at which the prefix sum of weights reaches a goal: first its bin, then its place among that bin's tokens.
#pragma once
#include "bins.h"

// narrow reduces the places [lo, hi] of a bin's tokens, too many to rank, to the part that contains the goal.
template <typename T> DEVICE void narrow(const View& v, const Scale& k, const Goal& goal, Shared& s) {
  int bin = s.bin;
  u64 lo = s.lo, hi = s.hi;
  int shift = 0;
  while ((hi - lo) >> shift >= SUBBINS) shift++;
  for (int i = threadX(); i < SUBBINS; i += THREADS) s.sub.count[i] = s.sub.dent[i] = 0;
  barrier();
  each<T>(v, [&](int id, float x) {
    float y = k.y(x);
    u64 place = placeOf(x, id);
    if (k.counts(x) && (int)y == bin && place >= lo && place <= hi) {
      int i = (int)((place - lo) >> shift);
      sharedAdd(&s.sub.count[i], 1);
      sharedAdd(&s.sub.dent[i], dentOf(y, bin));
    }
  });
  barrier();
  if (threadX() == 0) {
    double unit = root(bin);
    u32 left = s.members;
    for (int i = 0;; i++) {
      u32 n = s.sub.count[i];
      double with = s.base + unit * massOf(n, s.sub.dent[i]);
      left -= n;
      if (n && (goal.reached(s.before + n, with) || left == 0)) {
        s.members = n;
        s.lo = lo + ((u64)i << shift);
        s.hi = s.lo + ((1ull << shift) - 1);
        break;
      }
      s.before += n, s.base = with;
    }
  }
  barrier();
}

// find returns the goal's token and the mass up to it.
template <typename T> DEVICE Found find(const View& v, const Scale& k, const Goal& goal, Shared& s) {
  pickBin(goal, s);
  int bin = s.bin;
  if (s.members > MOST) { // the range of places in use
    u64 lo = NOWHERE, hi = 0;
    each<T>(v, [&](int id, float x) {
      if (k.counts(x) && (int)k.y(x) == bin) {
        u64 place = placeOf(x, id);
        lo = place < lo ? place : lo;
        hi = place > hi ? place : hi;
      }
    });
    lo = blockMin(lo, s);
    hi = blockMax(hi, s);
    if (threadX() == 0) s.lo = lo, s.hi = hi;
    barrier();
    while (s.members > MOST) narrow<T>(v, k, goal, s);
  } else if (threadX() == 0) {
    s.lo = 0, s.hi = NOWHERE;
  }
  if (threadX() == 0) s.extra = 0;
  barrier();
  u64 lo = s.lo, hi = s.hi;
  each<T>(v, [&](int id, float x) {
    float y = k.y(x);
    u64 place = placeOf(x, id);
    if (k.counts(x) && (int)y == bin && place >= lo && place <= hi) {
      u32 at = sharedNext((u32*)&s.extra);
      s.list.place[at] = place;
      s.list.dent[at] = dentOf(y, bin);
    }
  });
  barrier();
  // Each thread ranks its tokens by comparing them with all others. One token is the first that reaches the goal.
  u32 n = s.members;
  double unit = root(bin);
  for (u32 i = threadX(); i < n; i += THREADS) {
    u64 own = s.list.place[i];
    u32 rank = 0, dent = 0;
    for (u32 j = 0; j < n; j++)
      if (s.list.place[j] < own) rank++, dent += s.list.dent[j];
    double without = s.base + unit * massOf(rank, dent);
    double with = s.base + unit * massOf(rank + 1, dent + s.list.dent[i]);
    bool reached = goal.reached(s.before + rank + 1, with) || rank + 1 == n;
    if (reached && (rank == 0 || !goal.reached(s.before + rank, without))) s.found = Found{own, with};
  }
  barrier();
  Found f = s.found;
  barrier();
  return f;
}
