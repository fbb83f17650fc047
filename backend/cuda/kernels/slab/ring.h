// What the kernels for up to 8 rows of x share. A block has a run of tiles (16 rows of weights each), and each of its warps a run of the
// units of every tile (of every second one in few.h): so a warp needs its own columns of x alone, which it lays out in shared memory itself. Weights come through a ring
// of units of each warp's own, from before the launch that makes x has ended. The warps' sums of some tiles, a round, are added while they
// are at the next, so that nobody waits long for another before the end.
#pragma once
#include "unit.h"

struct FewParams {
  const bf16* x;       // [m, k]
  PackedPart part[3];
  int m, k, parts, fn; // fn: graph.Fn of a gated launch, whose two parts are the gate and the up matrix
  int turn;            // 2 in a gated launch: tiles of its parts by turns; otherwise 1
  int tiles, each;     // of all parts; of a block, except the last
  int units;           // of a row
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

// fetchUnit asks for a unit; it comes with the next group of copies.
template <int UNIT> DEVICE void fetchUnit(u32 to, const u8* from) {
  u32 to16 = to + lane() * 16;
  const u8* from16 = from + lane() * 16;
  UNROLL for (int i = 0; i < ceilDiv(UNIT, 512); i++)
    if (UNIT % 512 == 0 || i < UNIT / 512 || lane() < UNIT % 512 / 16)
      asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to16 + i * 512), "l"(from16 + i * 512) : "memory");
}
DEVICE void storeShared(u32 at, u32 v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
DEVICE void storeShared(u32 at, u32 v, u32 w) { asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(v), "r"(w) : "memory"); }
DEVICE void storeShared(u32 at, const Vec16& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}

// finish adds the warps' sums of a round's tiles, in the same order each time, and writes results. Two lanes have half of the warps each; in a
// gated launch two more have those of the up matrix.
template <typename F> DEVICE void finish(const FewParams& p, const float* sums, int first, int tiles) {
  for (int i = threadX(); i < tiles * F::OUT * 2; i += FEW_WARPS * 32) {
    int second = p.turn == 2 ? i >> 1 & 1 : 0, j = i >> p.turn, tile = j / F::OUT * p.turn + second, number = j % F::OUT;
    const float* half = sums + (tile * F::RUNS + i % 2 * (F::RUNS / 2)) * F::SLOT + number;
    float v = 0;
    UNROLL for (int w = 0; w < F::RUNS / 2; w++) v += half[w * F::SLOT];
    v += shuffleXor(v, 1);
    int t = first + tile, which = findPart(p, t), row = t * 16 + number / F::ROWS, m = number % F::ROWS;
    const PackedPart& part = p.part[which];
    bool wanted = row < part.n && m < p.m;
    if (wanted && part.bias) v += part.bias[row];
    if (p.turn == 2) {
      float up = shuffleXor(v, 2);
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    if (wanted && i % 2 == 0 && second == 0) part.y[(long)m * part.n + row] = fromFloat<bf16>(v);
  }
}

// Rounds is where the warps of a block meet, round by round: F::ROUND tiles whose sums, [tiles][F::RUNS][F::SLOT], lie in one of two
// places; F::RUNS is the runs of columns that a tile is cut in, a warp each. They meet once a round: whoever is past that has added the round
// before the last, whose place is the next to be written.
template <typename F> struct Rounds {
  float* sums;
  int count; // rounds done
  DEVICE void init(u8* at) { sums = (float*)at, count = 0; }
  DEVICE float* of(int round) const { return sums + round % 2 * (F::SUMS / 4); }
  DEVICE float* mine(int tile) const { return of(count) + (tile * F::RUNS + warp() % F::RUNS) * F::SLOT; }
  // addLast adds the sums of the round before, whose first tile is given; a warp calls it when it has been busy with this round for a while:
  // by then the others are through with that one.
  DEVICE void addLast(const FewParams& p, int first) const { end(p, first, F::ROUND); }
  DEVICE void done() { count++; }
  DEVICE void end(const FewParams& p, int first, int tiles) const {
    barrier();
    finish<F>(p, of(count - 1), first, tiles);
  }
};
