// How the few blocks that cut the columns of a tile between them add up their sums of it: each finishes an equal part of its warps' rows, and
// all others send it theirs.
#pragma once
#include "../hopper.h"
#include "unit.h"

// Exchange is how the blocks of a cluster add up their sums of a tile: each finishes an equal part of its warps' rows, and all others send it theirs.
// A block has two inboxes, for tiles by turns: who sends for a tile has what it needed of the others for the tile before, and these
// had finished the one before that.
template <typename W> struct Exchange {
  int splits, rank, count; // count: of tiles
  u32 inbox, filled;       // filled: a barrier for each inbox
  DEVICE int senders() const { return (1 << splits) - 1; }
  DEVICE int warps() const { return 8 >> splits; } // that a block finishes the rows of
  DEVICE bool mine(int row) const { return row >> (3 - splits) == rank; } // row: of a tile's eight times 16
  DEVICE void expect(int box) const { barrierExpect(filled + box * 8, senders() * warps() * W::SENT); }
  // add sends a warp's sums to the block that finishes them, or adds what the others have sent.
  DEVICE void add(float (&acc)[W::SUMS], int row, int lane) {
    int box = count & 1, owner = row >> (3 - splits), nth = row & (warps() - 1);
    u32 at = inbox + box * W::INBOX + lane * 16, bar = filled + box * 8;
    if (owner != rank) {
      u32 there, barThere;
      at += ((rank - (rank > owner)) * warps() + nth) * W::SENT;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(owner));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barThere) : "r"(bar), "r"(owner));
      UNROLL for (int e = 0; e < W::SUMS; e += 4)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                     ::"r"(there + e * 128), "f"(acc[e]), "f"(acc[e + 1]), "f"(acc[e + 2]), "f"(acc[e + 3]), "r"(barThere) : "memory");
    } else {
      barrierWait(bar, count / 2 & 1);
      if (nth == 0 && lane == 0) expect(box);
      for (int s = 0; s < senders(); s++) UNROLL for (int e = 0; e < W::SUMS; e += 4) {
        Vec16 four = InShared{at + (s * warps() + nth) * W::SENT}.four(e * 128);
        UNROLL for (int i = 0; i < 4; i++) acc[e + i] += __builtin_bit_cast(float, four.x[i]);
      }
    }
  }
};

// anyLane tells all lanes whether v holds in one.
DEVICE bool anyLane(bool v) {
  u32 y;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\tvote.sync.any.pred p, p, -1;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(y) : "r"((u32)v));
  return y != 0;
}

// EMPTY is a word of the scratch that holds no sum; the only NaN that comes out of an addition is 0x7fffffff.
constexpr u32 EMPTY = 0xffffffff;
DEVICE void leaveWords(Vec16* to, Vec16 v) {
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}
DEVICE Vec16 lookAt(const Vec16* at) {
  Vec16 v;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(at) : "memory");
  return v;
}

// Apart is an exchange of blocks that are no cluster, of two or four, a tile each time: there may be as many as there are multiprocessors, where
// clusters leave some without work. Sums go through memory, whose words say themselves whether they have come (gemm/pieces.h, which says
// as well when blocks may wait for each other): who has read one makes it EMPTY again.
template <typename W> struct Apart {
  static constexpr int OTHERS = 3, EACH = W::SENT / 16; // of a tile; vectors of a warp's sums
  Vec16* sums;
  int splits, tile, rank;
  DEVICE Vec16* place(int row, int sender, int lane) const { return sums + ((tile * 8 + row) * OTHERS + sender) * EACH + lane; }
  DEVICE void add(float (&acc)[W::SUMS], int row, int lane) const {
    int owner = row >> (3 - splits);
    if (owner != rank) {
      Vec16* to = place(row, rank - (rank > owner), lane);
      UNROLL for (int e = 0; e < W::SUMS; e += 4) {
        Vec16 v;
        UNROLL for (int i = 0; i < 4; i++) asm volatile("add.rn.f32 %0, %1, 0f00000000;" : "=r"(v.x[i]) : "f"(acc[e + i]));
        leaveWords(to + e * 8, v);
      }
      return;
    }
    constexpr int ONCE = W::SUMS / 4 < 2 ? 1 : 2; // vectors of each other block that are looked at at one time
    UNROLL for (int e = 0; e < W::SUMS / 4; e += ONCE) {
      Vec16 v[OTHERS][ONCE];
      bool again;
      do {
        again = false;
        UNROLL for (int s = 0; s < OTHERS; s++)
          if (s + 1 < 1 << splits) UNROLL for (int j = 0; j < ONCE; j++) v[s][j] = lookAt(place(row, s, lane) + (e + j) * 32);
        UNROLL for (int s = 0; s < OTHERS; s++)
          if (s + 1 < 1 << splits) UNROLL for (int j = 0; j < ONCE; j++) UNROLL for (int i = 0; i < 4; i++) again |= v[s][j].x[i] == EMPTY;
      } while (anyLane(again));
      UNROLL for (int s = 0; s < OTHERS; s++) {
        if (s + 1 >= 1 << splits) continue;
        UNROLL for (int j = 0; j < ONCE; j++) {
          leaveWords(place(row, s, lane) + (e + j) * 32, {EMPTY, EMPTY, EMPTY, EMPTY});
          UNROLL for (int i = 0; i < 4; i++) acc[4 * (e + j) + i] += __builtin_bit_cast(float, v[s][j].x[i]);
        }
      }
    }
  }
};
