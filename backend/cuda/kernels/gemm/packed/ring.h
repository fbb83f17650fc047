// What the kernels for up to 8 rows of x share. A block has a run of tiles (16 rows of weights each), and each of its warps a run of the
// units of every tile (of every second one in few.h): so a warp needs its own columns of x alone, which it lays out in shared memory itself.
// Weights come through a ring of units of each warp's own, from before the launch that makes x has ended. The warps' sums of some tiles, a
// round, are added while they are at the next, so that nobody waits long for another before the end.
#pragma once
#include "pipe.h"

struct FewParams {
  const bf16* x;       // [m, k]
  PackedPart part[3];
  int m, k, parts, fn; // fn: graph.Fn of a gated launch, whose two parts are the gate and the up matrix
  int turn;            // 2 in a gated launch: tiles of its parts by turns; otherwise 1
  int tiles, each;     // of all parts; of a block, except the last
  int units;           // of a row
  // Of a launch of digits.h that does a neighbour's work as well:
  float eps;            // in the root of norm's mean
  const float* norm;    // [k]: x is normalised first, with these weights; or null
  const bf16* residual; // [m, n]: added to the result of the one part; or null
};

#if __CUDA_ARCH__ >= 900
constexpr int FEW_WARPS = 16; // of a block
#else
constexpr int FEW_WARPS = 8;
#endif

// findPart is the part that a tile of the launch is of; tile becomes that of the part.
DEVICE int findPart(const FewParams& p, int& tile) {
  if (p.turn == 2) {
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

// squares are sums of the squares of x, for each row what each warp has of them.
SHARED static float squares[8][FEW_WARPS];

// rootMean is what a row of x must be multiplied by to be normalised.
DEVICE float rootMean(const FewParams& p, int m) {
  float sum = 0;
  UNROLL for (int w = 0; w < FEW_WARPS; w++) sum += squares[m][w];
  return rsqrt(sum / p.k + p.eps);
}

// Result is what thread i of a round makes: a number of a tile, with two lanes that have half of the warps' sums each; in a gated launch two
// more have those of the up matrix.
template <typename F> struct Result {
  int tile, number, m, row, which;
  bool second, wanted; // of the up matrix; in range
  DEVICE Result(const FewParams& p, int i, int first) {
    second = p.turn == 2 && (i & 2);
    int j = i >> p.turn;
    tile = j / F::OUT * p.turn + second, number = j % F::OUT, m = number % F::ROWS;
    int t = first + tile;
    which = findPart(p, t), row = t * 16 + number / F::ROWS, wanted = row < p.part[which].n && m < p.m;
  }
  DEVICE long at(const FewParams& p) const { return (long)m * p.part[which].n + row; }
};

// finish adds the warps' sums of a round's tiles, in the same order each time, and writes results. residual is that of a thread's first.
template <typename F> DEVICE void finish(const FewParams& p, const float* sums, int first, int tiles, float residual) {
  for (int i = threadX(); i < tiles * F::OUT * 2; i += FEW_WARPS * 32) {
    Result<F> r(p, i, first);
    const float* half = sums + (r.tile * F::RUNS + i % 2 * (F::RUNS / 2)) * F::SLOT + r.number;
    float v = 0;
    UNROLL for (int w = 0; w < F::RUNS / 2; w++) v += half[w * F::SLOT];
    v += shuffleXor(v, 1);
    if (p.norm) v *= rootMean(p, r.m);
    const PackedPart& part = p.part[r.which];
    if (r.wanted && part.bias) v += part.bias[r.row];
    if (p.turn == 2) {
      float up = shuffleXor(v, 2);
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    if (p.residual) v = toFloat(fromFloat<bf16>(v)) + residual;
    if (r.wanted && i % 2 == 0 && !r.second) part.y[r.at(p)] = fromFloat<bf16>(v);
  }
}

// Rounds is where the warps of a block meet, round by round: F::ROUND tiles whose sums, [tiles][F::RUNS][F::SLOT], lie in one of two
// places; F::RUNS is the runs of columns that a tile is cut in, a warp each. They meet once a round: whoever is past that has added the round
// before the last, whose place is the next to be written.
template <typename F> struct Rounds {
  float* sums;
  int count;           // rounds done
  float ahead, behind; // what to add to a thread's result of this round, and of the last
  DEVICE void init(u8* at) { sums = (float*)at, count = 0, ahead = behind = 0; }
  // begin asks for what a round's results, of these tiles, are added to.
  DEVICE void begin(const FewParams& p, int first, int tiles) {
    static_assert(F::ROUND * F::OUT * 2 <= FEW_WARPS * 32, "a thread has one result of a round");
    if (!p.residual || threadX() >= tiles * F::OUT * 2) return;
    Result<F> r(p, threadX(), first);
    if (r.wanted) ahead = toFloat(p.residual[r.at(p)]);
  }
  DEVICE float* of(int round) const { return sums + round % 2 * (F::SUMS / 4); }
  DEVICE float* place(int tile, int run) const { return of(count) + (tile * F::RUNS + run) * F::SLOT; }
  DEVICE float* mine(int tile) const { return place(tile, warp() % F::RUNS); }
  // addLast adds the sums of the round before, whose first tile is given; a warp calls it when it has been busy with this round for a while:
  // by then the others are through with that one.
  DEVICE void addLast(const FewParams& p, int first) const { end(p, first, F::ROUND); }
  DEVICE void done() { count++, behind = ahead; }
  DEVICE void end(const FewParams& p, int first, int tiles) const {
    barrier();
    finish<F>(p, of(count - 1), first, tiles, behind);
  }
};
