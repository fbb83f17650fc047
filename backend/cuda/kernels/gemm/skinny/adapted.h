// Skinny GEMM of rows with LoRA adapters, in one launch: its first blocks compute h = A x (shrink), and the blocks of the product add B h to their results
// (expand). The latter find h in global memory with the flag in the data. Blocks begin in the order of their numbers and the first wait for no
// other, so they end however many are resident. A block of the first has few columns of A, so that h is there before the last weights of the
// product are: with them each thread fetches h and its numbers of B.
#pragma once
#include "../../flag_in_data.h"
#include "../../lora/params.h"
#include "skinny.h"

namespace skinny_gemm {
enum { ADAPTED_ROWS = 8, ADAPTED_RANK = 64, ADAPTED_PARTS = 3, ADAPTED_SPLITS = 16 }; // at most, of a launch

// SlotsB is B in all slots. Ranks that an adapter does not have are zeros in h.
struct SlotsB {
  const bf16* at; // [slots][passes of 16 ranks][n][16]
  long stride;    // numbers from slot to slot
};
struct AdaptedParams {
  SkinnyParams product;
  const int* tiles;    // [count × 4] as in LoraParams
  const int* places;   // [m] tile × TILE_ROWS + number in the tile, or -1 for a row without an adapter
  const int* rowSlots; // [m] the slot of a row's adapter, or -1
  const float* scales; // as in LoraParams
  const LoraSlot* slots[ADAPTED_PARTS]; // of each part; of a gated launch of gate and up
  SlotsB b[ADAPTED_PARTS];              // of the same
  u32* h;              // [ADAPTED_SPLITS][ADAPTED_ROWS][ADAPTED_PARTS][ADAPTED_RANK]: A x by the scales, over a part of the columns of A each; EMPTY between launches
  int* arrived;        // blocks of the product that have read h; zero between launches
  int count, passes;   // tiles; blocks that the ranks of a tile's adapter are divided into
  int splits;          // blocks that the columns of A are divided into
};

DEVICE u32* hiddenAt(const AdaptedParams& a, int split, int row, int part, int rank) {
  return a.h + ((split * ADAPTED_ROWS + row) * ADAPTED_PARTS + part) * ADAPTED_RANK + rank;
}

// shrink is what one of the first blocks does: h of a tile's rows, 16 ranks of a part, or of gate and up, over some columns of A.
template <int WARPS, bool GATED> DEVICE void shrink(const AdaptedParams& a) {
  constexpr int RT = GATED ? 2 : 1, STEP = WARPS * DEEP * CHUNK;
  SHARED static float sums[WARPS][RT * 128];
  launchDependents();
  const SkinnyParams& p = a.product;
  int split = blockX() % a.splits, at = blockX() / a.splits, first = at % a.passes * 16;
  int parts = GATED ? 1 : p.parts, part = at / a.passes % parts, tile = at / a.passes / parts;
  int g = lane() / 4, t = lane() % 4, each = ceilDiv(p.k, STEP * a.splits) * STEP;
  if (a.tiles[4 * tile + 2] == 0) return; // a recorded launch has more tiles than a step may need
  int ranks[RT], most = 0;
  float scales[RT];
  const bf16* w[RT][2];
  UNROLL for (int r = 0; r < RT; r++) {
    LoraSlot s = a.slots[part + r][a.tiles[4 * tile]];
    ranks[r] = s.rank, most = maxi(most, s.rank), scales[r] = s.scale;
    const bf16* from = s.rank > 0 ? (const bf16*)s.a : p.part[0].w; // of no rank: something to read
    UNROLL for (int half = 0; half < 2; half++) w[r][half] = from + (long)maxi(mini(first + half * 8 + g, s.rank - 1), 0) * p.k + t * 8;
  }
  float acc[RT][1][4] = {};
  auto nothing = []() __attribute__((always_inline)) {};
  int end = first < most ? mini(p.k, (split + 1) * each) : 0; // of no ranks there is nothing to multiply
  stream<MmaBf16, WARPS, 1, RT>(acc, w, p, {split * each, end}, nothing, nothing);
  share<float, 1, RT>(sums, acc);
  barrier();
  for (int i = threadX(); i < RT * 128; i += WARPS * 32) {
    int row = i / (RT * 16), r = i % (RT * 16) / 16, rank = first + i % 16;
    if (row >= p.m) continue;
    int place = a.places[row];
    if (place < 0 || place / TILE_ROWS != tile) continue;
    float sum = 0;
    UNROLL for (int k = 0; k < WARPS; k++) sum += sums[k][i];
    sum *= (r == 0 ? scales[0] : scales[RT - 1]) * a.scales[a.tiles[4 * tile + 1] + place % TILE_ROWS];
    if (rank >= (r == 0 ? ranks[0] : ranks[RT - 1])) sum = 0;
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(hiddenAt(a, split, row, part + r, rank)), "r"(encodePartial(sum)) : "memory");
  }
}

// Adapted is what a block of the product adds: PARTS is 2 for gate and up, and 1 otherwise. A thread of the epilogue has one row of x and one column,
// of the gate and of up.
template <int PARTS> struct Adapted {
  struct Shared {
    int slots[ADAPTED_ROWS];
    float h[ADAPTED_ROWS][PARTS][ADAPTED_RANK];
  };
  const AdaptedParams& a;
  Shared& s;
  int first; // block of the product
  mutable int part, before;
  mutable Vec16 b[PARTS][2]; // the thread's numbers of B, of the first 16 ranks

  DEVICE const bf16* rowOfB(int m, int r, int column, int pass) const {
    return a.b[part + r].at + s.slots[m] * a.b[part + r].stride + ((long)pass * a.product.part[part].n + column) * 16;
  }
  // prepare finds the rows' adapters, and has the block's rows of B brought to the L2 cache. One load waits for another's result and no more: each takes
  // microseconds beside those of weights.
  DEVICE void prepare(int which, int row0, int n) const {
    part = PARTS > 1 ? 0 : which;
    int m = threadX();
    if (m >= a.product.m) return;
    s.slots[m] = a.rowSlots[m];
    if (s.slots[m] < 0) return;
    UNROLL for (int r = 0; r < PARTS; r++) {
      for (int pass = 0; pass < a.passes; pass++) {
        const u8* from = (const u8*)rowOfB(m, r, row0, pass);
        for (int at = 0; at < mini(16, n - row0) * 32; at += 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
      }
    }
  }
  // collect fetches the thread's numbers of B, and waits for h.
  DEVICE void collect(int row0, int n) const {
    barrier();
    int mine = threadX() / (16 * PARTS), column = mini(row0 + threadX() % 16, n - 1);
    bool has = mine < a.product.m && s.slots[mini(mine, ADAPTED_ROWS - 1)] >= 0;
    UNROLL for (int r = 0; r < PARTS; r++) UNROLL for (int j = 0; j < 2; j++) {
      b[r][j] = Vec16{};
      if (has) b[r][j] = loadNoAllocate(rowOfB(mine, r, column, 0) + 8 * j);
    }
    int ranks = a.passes * 16;
    for (int i = threadX(); i < a.product.m * PARTS * ranks; i += threads()) {
      int m = i / (PARTS * ranks), r = i / ranks % PARTS, rank = i % ranks;
      if (s.slots[m] >= 0) s.h[m][r][rank] = hidden(m, part + r, rank);
    }
    if (!oneWarp()) return;
    warpBarrier();
    count();
  }
  // oneWarp is whether one warp alone reads h: then the block has read it before its last weights are there, which hides the time of the count.
  DEVICE bool oneWarp() const { return a.product.m * PARTS * a.passes * 16 <= 32; }
  DEVICE void count() const {
    before = 0;
    if (threadX() == 0) asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(a.arrived) : "memory");
  }
  // hidden is the sum of the splits of a number of h, in their order.
  DEVICE float hidden(int m, int part, int rank) const {
    constexpr int AHEAD = 4;
    float sum = 0;
    for (int z = 0; z < a.splits; z += AHEAD) {
      u32 word[AHEAD];
      bool waits;
      do {
        waits = false;
        UNROLL for (int i = 0; i < AHEAD; i++)
          asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(word[i]) : "l"(hiddenAt(a, mini(z + i, a.splits - 1), m, part, rank)) : "memory");
        UNROLL for (int i = 0; i < AHEAD; i++) waits |= word[i] == EMPTY;
      } while (waits);
      UNROLL for (int i = 0; i < AHEAD; i++)
        if (z + i < a.splits) sum += __builtin_bit_cast(float, word[i]);
    }
    return sum;
  }
  // arrive says that the block has read h, and how many had before; leave empties it if all have.
  DEVICE int arrive() const {
    if (!oneWarp()) count();
    return before;
  }
  DEVICE float add(float sum, int m, int r, int column) const {
    if (s.slots[m] < 0) return sum;
    auto eight = [&](Vec16 v, int j) __attribute__((always_inline)) {
      const float* h = s.h[m][r] + j;
      UNROLL for (int i = 0; i < 4; i++) sum += low(v.x[i]) * h[2 * i] + high(v.x[i]) * h[2 * i + 1];
    };
    UNROLL for (int j = 0; j < 2; j++) eight(b[r][j], 8 * j);
    for (int j = 2; j < 2 * a.passes; j++) eight(*(const Vec16*)(rowOfB(m, r, column, j / 2) + j % 2 * 8), 8 * j);
    return sum;
  }
  DEVICE void leave(int before) const {
    if (warp() > 0 || uniform(before) + 1 < gridX() - first) return;
    const Vec16 none = {EMPTY, EMPTY, EMPTY, EMPTY};
    int each = a.passes * 4, rows = a.product.m * ADAPTED_PARTS;
    for (int i = lane(); i < a.splits * rows * each; i += 32) {
      int rank = i % each * 4, row = i / each % rows;
      *(Vec16*)hiddenAt(a, i / each / rows, row / ADAPTED_PARTS, row % ADAPTED_PARTS, rank) = none;
    }
    if (lane() == 0) *a.arrived = 0;
  }
};

template <int WARPS, bool GATED> DEVICE void adapted(const AdaptedParams& a) {
  typedef Adapted<GATED ? 2 : 1> Adapt;
  SHARED static typename Adapt::Shared s;
  int first = a.count * a.passes * a.splits * (GATED ? 1 : a.product.parts);
  if (blockX() < first) return shrink<WARPS, GATED>(a);
  skinny<MmaBf16, WARPS, 1, GATED ? 2 : 1, GATED>(a.product, Adapt{a, s, first, 0, 0, {}});
}
} // namespace skinny_gemm
