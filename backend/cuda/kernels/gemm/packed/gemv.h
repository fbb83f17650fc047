// GEMV on packed weights: what the kernels for up to 8 rows of x share. A block has a run of tiles (16 rows of weights each), and its warps split the k of
// every tile, a run of units each (of every second tile in gemv_bf16.h): so a warp needs its own columns of x alone, which it puts into shared memory
// itself. Weights come through a cp.async ring of each warp's own, started before the launch that makes x has ended. The warps' partial sums of some
// tiles, a round, are reduced while they are at the next round, so that warps seldom wait for each other.
#pragma once
#include "cp_async_ring.h"

struct GemvParams {
  const bf16* x;       // [m, k]
  PackedPart part[3];
  int m, k, parts, fn; // fn: graph.Fn of a gated launch, whose two parts are the gate and the up matrix
  int matrices;            // 2 in a gated launch, whose tiles are the gate's and the up matrix's alternately; otherwise 1
  int tiles, each;     // of all parts; of a block, except the last
  int units;           // of a row
  // RMSNorm as the prologue and the residual as the epilogue, of gemv_int8.h alone:
  float eps;            // in the root of norm's mean
  const float* norm;    // [k]: x is normalised first, with these weights; or null
  const bf16* residual; // [m, n]: added to the result of the one part; or null
};

#if __CUDA_ARCH__ >= 900
constexpr int GEMV_WARPS = 16; // of a block
#else
constexpr int GEMV_WARPS = 8;
#endif

// findPart is the part that a tile of the launch is of; tile becomes that of the part.
DEVICE int findPart(const GemvParams& p, int& tile) {
  if (p.matrices == 2) {
    int which = tile & 1;
    tile >>= 1;
    return which;
  }
  int which = (tile >= p.part[1].tiles) + (tile >= p.part[2].tiles);
  tile -= p.part[which].tiles;
  return which;
}

DEVICE void storeShared(u32 at, u32 v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
DEVICE void storeShared(u32 at, u32 v, u32 w) { asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(v), "r"(w) : "memory"); }
DEVICE void storeShared(u32 at, const Vec16& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}

// squares are the sums of the squares of x, for each row those of each warp.
SHARED static float squares[8][GEMV_WARPS];

// rmsScale is the RMSNorm scale of a row of x.
DEVICE float rmsScale(const GemvParams& p, int m) {
  float sum = 0;
  UNROLL for (int w = 0; w < GEMV_WARPS; w++) sum += squares[m][w];
  return rsqrt(sum / p.k + p.eps);
}

// OutputElement is the result that thread i of a round computes, with two lanes that add half of the warps' partial sums each; in a gated launch two
// more add those of the up matrix.
template <typename F> struct OutputElement {
  int tile, number, m, row, which;
  bool second, wanted; // of the up matrix; in range
  DEVICE OutputElement(const GemvParams& p, int i, int first) {
    second = p.matrices == 2 && (i & 2);
    int j = i >> p.matrices;
    tile = j / F::OUT * p.matrices + second, number = j % F::OUT, m = number % F::ROWS;
    int t = first + tile;
    which = findPart(p, t), row = t * 16 + number / F::ROWS, wanted = row < p.part[which].n && m < p.m;
  }
  DEVICE long at(const GemvParams& p) const { return (long)m * p.part[which].n + row; }
};

// reduceAndStore adds the warps' partial sums of a round's tiles, always in the same order, and stores results. residual is that of a thread's first.
template <typename F> DEVICE void reduceAndStore(const GemvParams& p, const float* sums, int first, int tiles, float residual) {
  for (int i = threadX(); i < tiles * F::OUT * 2; i += GEMV_WARPS * 32) {
    OutputElement<F> r(p, i, first);
    const float* half = sums + (r.tile * F::RUNS + i % 2 * (F::RUNS / 2)) * F::SUM_STRIDE + r.number;
    float v = 0;
    UNROLL for (int w = 0; w < F::RUNS / 2; w++) v += half[w * F::SUM_STRIDE];
    v += shuffleXor(v, 1);
    if (p.norm) v *= rmsScale(p, r.m);
    const PackedPart& part = p.part[r.which];
    if (r.wanted && part.bias) v += part.bias[r.row];
    if (p.matrices == 2) {
      float up = shuffleXor(v, 2);
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    if (p.residual) v = toFloat(fromFloat<bf16>(v)) + residual;
    if (r.wanted && i % 2 == 0 && !r.second) part.y[r.at(p)] = fromFloat<bf16>(v);
  }
}

// BlockReduction reduces the partial sums of a block's warps, round by round: F::ROUND tiles whose sums, [tiles][F::RUNS][F::SUM_STRIDE], are double
// buffered; F::RUNS is the runs of columns that a tile's k is split in, a warp each. There is one barrier a round: a warp past it has reduced the round
// before the last, whose buffer is the next to be written.
template <typename F> struct BlockReduction {
  float* sums;
  int count;           // rounds done
  float ahead, behind; // the residual of a thread's result of this round, and of the last
  DEVICE void init(u8* at) { sums = (float*)at, count = 0, ahead = behind = 0; }
  // begin loads the residual of a round's results, of these tiles.
  DEVICE void begin(const GemvParams& p, int first, int tiles) {
    static_assert(F::ROUND * F::OUT * 2 <= GEMV_WARPS * 32, "a thread has one result of a round");
    if (!p.residual || threadX() >= tiles * F::OUT * 2) return;
    OutputElement<F> r(p, threadX(), first);
    if (r.wanted) ahead = toFloat(p.residual[r.at(p)]);
  }
  DEVICE float* of(int round) const { return sums + round % 2 * (F::SUMS / 4); }
  DEVICE float* place(int tile, int run) const { return of(count) + (tile * F::RUNS + run) * F::SUM_STRIDE; }
  DEVICE float* mine(int tile) const { return place(tile, warp() % F::RUNS); }
  // reducePrevious reduces the round before, whose first tile is given; a warp calls it well into this round: by then the others are through with
  // that one.
  DEVICE void reducePrevious(const GemvParams& p, int first) const { end(p, first, F::ROUND); }
  DEVICE void done() { count++, behind = ahead; }
  DEVICE void end(const GemvParams& p, int first, int tiles) const {
    barrier();
    reduceAndStore<F>(p, of(count - 1), first, tiles, behind);
  }
};
