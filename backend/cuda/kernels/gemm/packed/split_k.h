// Split-K: how the few blocks that split the k of a tile between them reduce their partial sums, in a cluster through distributed shared memory
// (ClusterSplitK), otherwise through global memory (GlobalSplitK).
#pragma once
#include "../../sm90.h"
#include "../../flag_in_data.h"
#include "formats.h"

// ClusterSplitK reduces in a cluster: each block finishes an equal part of the tile's rows, and all others store their partial sums of these into its
// shared memory (st.async). A block has two mailboxes, for alternate tiles: a block that sends for a tile has received what it needed for the tile
// before, and the senders of that had finished the one before it.
template <typename W> struct ClusterSplitK {
  int splits, rank, count; // count: of tiles
  u32 mailbox, filled;       // filled: an mbarrier for each mailbox
  DEVICE int senders() const { return (1 << splits) - 1; }
  DEVICE int warps() const { return 8 >> splits; } // that a block finishes the rows of
  DEVICE bool mine(int row) const { return row >> (3 - splits) == rank; } // row: of a tile's eight times 16
  DEVICE void expect(int box) const { mbarrierExpectTx(filled + box * 8, senders() * warps() * W::WARP_SUMS); }
  // add sends a warp's partial sums to the block that finishes them, or adds what the others have sent.
  DEVICE void add(float (&acc)[W::SUMS], int row, int lane) {
    int box = count & 1, owner = row >> (3 - splits), nth = row & (warps() - 1);
    u32 at = mailbox + box * W::MAILBOX + lane * 16, bar = filled + box * 8;
    if (owner != rank) {
      u32 there, barThere;
      at += ((rank - (rank > owner)) * warps() + nth) * W::WARP_SUMS;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(owner));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barThere) : "r"(bar), "r"(owner));
      UNROLL for (int e = 0; e < W::SUMS; e += 4)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                     ::"r"(there + e * 128), "f"(acc[e]), "f"(acc[e + 1]), "f"(acc[e + 2]), "f"(acc[e + 3]), "r"(barThere) : "memory");
    } else {
      mbarrierWait(bar, count / 2 & 1);
      if (nth == 0 && lane == 0) expect(box);
      for (int s = 0; s < senders(); s++) UNROLL for (int e = 0; e < W::SUMS; e += 4) {
        Vec16 four = InShared{at + (s * warps() + nth) * W::WARP_SUMS}.four(e * 128);
        UNROLL for (int i = 0; i < 4; i++) acc[e + i] += __builtin_bit_cast(float, four.x[i]);
      }
    }
  }
};

// GlobalSplitK reduces over two or four blocks that are no cluster, one tile each: there may be as many as there are multiprocessors, where
// clusters leave some without work. Partial sums go through global memory (flag_in_data.h, which says when blocks may wait for each other).
template <typename W> struct GlobalSplitK {
  static constexpr int OTHERS = 3, EACH = W::WARP_SUMS / 16; // blocks but for one, of four; vectors of a warp's sums
  Vec16* sums; // [tiles][8 rows][OTHERS senders][EACH], EMPTY between launches; row: of a tile's eight times 16
  int splits, tile, rank;
  DEVICE Vec16* partialAt(int row, int sender, int lane) const { return sums + ((tile * 8 + row) * OTHERS + sender) * EACH + lane; }
  DEVICE void add(float (&acc)[W::SUMS], int row, int lane) const {
    int owner = row >> (3 - splits);
    if (owner != rank) {
      Vec16* to = partialAt(row, rank - (rank > owner), lane);
      UNROLL for (int e = 0; e < W::SUMS; e += 4) {
        Vec16 v;
        UNROLL for (int i = 0; i < 4; i++) v.x[i] = encodePartial(acc[e + i]);
        storePartial(to + e * 8, v);
      }
      return;
    }
    constexpr int ONCE = W::SUMS / 4 < 2 ? 1 : 2; // vectors of each other block that are polled at one time
    UNROLL for (int e = 0; e < W::SUMS / 4; e += ONCE) {
      Vec16 v[OTHERS][ONCE];
      bool again;
      do {
        again = false;
        UNROLL for (int s = 0; s < OTHERS; s++)
          if (s + 1 < 1 << splits) UNROLL for (int j = 0; j < ONCE; j++) v[s][j] = loadPartial(partialAt(row, s, lane) + (e + j) * 32);
        UNROLL for (int s = 0; s < OTHERS; s++)
          if (s + 1 < 1 << splits) UNROLL for (int j = 0; j < ONCE; j++) UNROLL for (int i = 0; i < 4; i++) again |= v[s][j].x[i] == EMPTY;
      } while (anySync(again));
      UNROLL for (int s = 0; s < OTHERS; s++) {
        if (s + 1 >= 1 << splits) continue;
        UNROLL for (int j = 0; j < ONCE; j++) {
          storePartial(partialAt(row, s, lane) + (e + j) * 32, {EMPTY, EMPTY, EMPTY, EMPTY});
          UNROLL for (int i = 0; i < 4; i++) addPartial(acc[4 * (e + j) + i], v[s][j].x[i]);
        }
      }
    }
  }
};
