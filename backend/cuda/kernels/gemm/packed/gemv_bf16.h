// GEMV on packed weights for up to 8 rows of x in bf16. Two warps have the same run of columns, and alternate tiles: with more
// columns there is less to do for each tile beside multiplying. They go through their columns in phases, of as many units as there is room
// for x of; in a round phases come before tiles.
#pragma once
#include "gemv.h"
#include "sparse24.h"

// GemvBf16 is the layout of a block's shared memory, ROOM bytes.
template <typename Q, int ROOM> struct GemvBf16 {
  static constexpr int ROWS = 8;
  static constexpr int RUNS = GEMV_WARPS / 2;
  static constexpr int LINES = 32;                       // for each run: a unit's columns of a row of x each
  static constexpr int LINE = COLUMNS * 2 + 16;          // so that neighbouring lines start four banks apart
  static constexpr int SCALES = BLOCKS * Q::SUBS;        // of a row of a unit
  static constexpr int CORRECTIONS = Q::RAW_BIAS ? LINES / 2 * SCALES * 16 : 0; // for each run: see biasCorrection
  static constexpr int ROUND = 4;                        // tiles whose sums are reduced at once; even
  static constexpr int OUT = 16 * ROWS, SUM_STRIDE = OUT + 1;  // numbers of a tile, and their stride: reduceAndStore's loads fall on all banks
  static constexpr int SUMS = (ROUND * RUNS * SUM_STRIDE * 4 + 15) / 16 * 16; // of a round; there are two
  static constexpr int UNIT = 2 * Q::BYTES;
  static constexpr int DEPTH = (ROOM - 2 * SUMS - RUNS * (LINES * LINE + CORRECTIONS)) / (GEMV_WARPS * UNIT); // of a ring, in units
};

// mmaFrom is mma that the compiler may move, and whose accumulator starts at c.
DEVICE void mmaFrom(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// PhasedPrefetcher walks a warp's units in memory, a ring's depth ahead of what it computes: rounds of tiles, in a round phases of units, in a phase tiles.
template <typename F> struct PhasedPrefetcher {
  const u8* at;
  int end, from, to, step;      // tiles of the block; units of the run, and of a phase
  int second;                   // whether the warp is the second of its run
  int round, phase, tile, unit; // the next; round and phase by their first tile and unit
  DEVICE void find(const GemvParams& p) {
    int t = tile, which = findPart(p, t);
    at = p.part[which].w + unitAt(t, unit, p.units) * F::UNIT;
  }
  DEVICE void prefetch(const GemvParams& p, u32 stage) {
    if (tile < end) {
      cpAsyncUnit<F::UNIT>(stage, at);
      at += PANEL * F::UNIT;
      if (++unit == mini(phase + step, to)) {
        if ((tile += 2) >= mini(round + F::ROUND, end)) {
          if ((phase += step) >= to) phase = from, round += F::ROUND;
          tile = round + second;
        }
        unit = phase;
        if (tile < end) find(p);
      }
    }
    cpAsyncCommit();
  }
};

DEVICE void pairBarrier(int run) { asm volatile("bar.sync %0, 64;" ::"r"(run + 1) : "memory"); } // of a run's two warps

// Columns is the columns of x of a phase's units: lines of 2^shift rows of each unit, of which each warp of a run has half, and lanes 16
// bytes a time.
template <typename F> struct Columns {
  static constexpr int LOADS = F::LINES / 4;
  Vec16 v[LOADS];
  static DEVICE int line(int i) { return warp() / F::RUNS * (F::LINES / 2) + 2 * i + lane() / 16; }
  DEVICE void load(const GemvParams& p, int shift, int unit, int units) { // all in flight at once
    int first = line(0);
    asm volatile("" : "+r"(first)); // or the compiler keeps an address for each load, and has no registers left
    UNROLL for (int i = 0; i < LOADS; i++) {
      v[i] = Vec16{};
      int in = (first + 2 * i) >> shift, row = (first + 2 * i) & ((1 << shift) - 1), k = (unit + in) * COLUMNS + lane() % 16 * 8;
      if (in < units && row < p.m && k < p.k) v[i] = *(const Vec16*)(p.x + (long)row * p.k + k);
    }
  }
  DEVICE void layOut(u32 xs) const { // as ldmatrix wants them
    UNROLL for (int i = 0; i < LOADS; i++) storeShared(xs + line(i) * F::LINE + lane() % 16 * 16, v[i]);
  }
};

// biasCorrection computes, for each scale of a block, what a product of raw codes is too large by (RAW_BIAS × sum of x), negative, in the layout of its
// accumulator: 16 bytes for each lane of a quad that has results. They lie stride bytes apart.
template <typename Q> DEVICE void biasCorrection(u32 xLane, u32 to, int stride, bool mine) {
  constexpr u32 one = 0xc300 + Q::RAW_BIAS - 128, all = one << 16 | one; // -RAW_BIAS as bf16, for RAW_BIAS from 128 to 255
  u32 x[4];
  ldmatrix4(x, xLane);
  float sums[Q::SUBS][4];
  const float zeros[4] = {};
  UNROLL for (int s = 0; s < 2; s++) mmaFrom(sums[s % Q::SUBS], all, all, all, all, x[2 * s], x[2 * s + 1], s < Q::SUBS ? zeros : sums[0]);
  UNROLL for (int s = 0; s < Q::SUBS; s++) {
    Vec16 v;
    UNROLL for (int j = 0; j < 4; j++) v.x[j] = __builtin_bit_cast(u32, sums[s][j]);
    if (mine) storeShared(to + s * stride, v);
  }
}

// multiply adds a unit's products to acc.
template <typename Q> DEVICE void multiply(float (&acc)[4], const Q (&q)[2], u32 xLane, u32 correctionLane, int stride) {
  UNROLL for (int block = 0; block < BLOCKS; block++) {
    u32 x[4], top[4], bottom[4];
    ldmatrix4(x, xLane + block * 64);
    q[0].raw(block, top);
    q[1].raw(block, bottom);
    float dots[Q::SUBS][4], above[Q::SUBS][4] = {};
    UNROLL for (int s = 0; s < Q::SUBS; s++) {
      if (!Q::RAW_BIAS) continue;
      Vec16 four = InShared{correctionLane + (block * Q::SUBS + s) * stride}.four(0);
      UNROLL for (int j = 0; j < 4; j++) above[s][j] = __builtin_bit_cast(float, four.x[j]);
    }
    UNROLL for (int s = 0; s < 2; s++)
      mmaFrom(dots[s % Q::SUBS], top[2 * s], bottom[2 * s], top[2 * s + 1], bottom[2 * s + 1], x[2 * s], x[2 * s + 1], s < Q::SUBS ? above[s] : dots[0]);
    UNROLL for (int s = 0; s < Q::SUBS; s++) UNROLL for (int j = 0; j < 4; j++) {
      acc[j] += q[j / 2].scale(block * Q::SUBS + s) * dots[s][j];
      if (Q::AFFINE) acc[j] += q[j / 2].middle(block) * (-1.0f / maxi(Q::RAW_BIAS, 1)) * above[s][j];
    }
  }
}

template <> DEVICE void multiply(float (&acc)[4], const Sparse24 (&q)[2], u32 xLane, u32, int) {
  UNROLL for (int block = 0; block < BLOCKS; block++) {
    u32 x[4];
    ldmatrix4(x, xLane + block * 64);
    mmaSparse(acc, SparseRows(q[0], q[1], block), x);
  }
}

template <typename Q, int ROOM> DEVICE void gemvBf16(const GemvParams& p) {
  using F = GemvBf16<Q, ROOM>;
  static_assert(F::DEPTH >= 2);
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH;
  launchDependents();
  int first = blockX() * p.each, end = mini(first + p.each, p.tiles), run = warp() % F::RUNS, second = warp() / F::RUNS;
  int from = p.units * run / F::RUNS, to = p.units * (run + 1) / F::RUNS;
  int shift = p.m <= 2 ? 1 : p.m <= 4 ? 2 : 3, step = F::LINES >> shift; // rows of x there is room for, as a power of two; units of a phase
  u32 ring = sharedAddress(dynamic) + warp() * DEPTH * UNIT, stage = ring;
  PhasedPrefetcher<F> ahead = {nullptr, end, from, to, step, second, first, from, from < to ? first + second : end, from};
  if (ahead.tile < end) ahead.find(p);
  _Pragma("nounroll") for (int i = 0; i < DEPTH; i++) ahead.prefetch(p, ring + i * UNIT);
  constexpr int SUMS = GEMV_WARPS * DEPTH * UNIT, XS = SUMS + 2 * F::SUMS;
  BlockReduction<F> rounds;
  rounds.init(dynamic + SUMS);

  u32 xs = sharedAddress(dynamic) + XS + run * (F::LINES * F::LINE + F::CORRECTIONS);
  u32 xLane = xs + (lane() % 8 & ((1 << shift) - 1)) * F::LINE + lane() / 8 * 16; // a unit's are LINE << shift apart
  int quads = (1 << shift) / 2, stride = quads * 16;
  u32 correctionLane = xs + F::LINES * F::LINE + mini(lane() % 4, quads - 1) * 16;
  bool whole = to - from <= step; // there is one phase, laid out once
  gridDependencyWait();
  Columns<F> columns; // of the next phase
  columns.load(p, shift, from, mini(step, to - from));
  int round = first;
  for (; round < end; round += F::ROUND) {
    int tiles = mini(F::ROUND, end - round);
    bool added = round == first;
    for (int phase = from; phase == from || phase < to; phase += step) {
      int units = mini(step, to - phase);
      if (!whole || round == first) {
        pairBarrier(run);
        columns.layOut(xs);
        pairBarrier(run);
        if (Q::RAW_BIAS) {
          for (int i = second; i < units; i += 2) UNROLL for (int b = 0; b < BLOCKS; b++)
            biasCorrection<Q>(xLane + (i << shift) * F::LINE + b * 64, correctionLane + (i * F::SCALES + b * Q::SUBS) * stride, stride, lane() < quads);
          pairBarrier(run);
        }
        int next = phase + step < to ? phase + step : from;
        if (!whole) columns.load(p, shift, next, mini(step, to - next));
      }
      for (int tile = second; tile < tiles; tile += 2) {
        float acc[4] = {};
        _Pragma("nounroll") for (int i = 0; i < units; i++) {
          cpAsyncWait<DEPTH - 1>();
          warpBarrier();
          Q q[2];
          UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{stage + h * Q::BYTES});
          warpBarrier();
          ahead.prefetch(p, stage);
          if ((stage += UNIT) == ring + DEPTH * UNIT) stage = ring;
          multiply<Q>(acc, q, xLane + (i << shift) * F::LINE, correctionLane + i * F::SCALES * stride, stride);
        }
        if (!added) rounds.reducePrevious(p, round - F::ROUND), added = true;
        float* mine = rounds.mine(tile) + lane() / 4 * 8 + lane() % 4 * 2;
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int e = 0; e < 2; e++) {
          float* one = mine + h * 64 + e;
          *one = phase == from ? acc[2 * h + e] : *one + acc[2 * h + e];
        }
      }
    }
    if (!added) rounds.reducePrevious(p, round - F::ROUND);
    rounds.done();
  }
  rounds.end(p, round - F::ROUND, end - (round - F::ROUND));
}
