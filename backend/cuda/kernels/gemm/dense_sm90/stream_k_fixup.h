// Stream-K fix-up: how blocks reduce the partial sums of a tile whose k steps they share.
#pragma once
#include "../../flag_in_data.h"
#include "tile_scheduler.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
// StreamKFixup reduces a tile that several clusters of the stream computed steps of, through scratch memory. A block has two slots: one for the tile
// that its run begins in, one for the tile that it ends in. All clusters whose runs end in the tile take part: each writes some of its chunks
// (Epilogue's). All others leave their partial sums of a chunk in the scratch (flag_in_data.h), and its writer adds them to its own, in an order that
// depends on the launch alone.
template <typename Accumulator, int BN, int CLUSTER, int CHUNKS> struct StreamKFixup {
  static constexpr int EACH = BN / 8 / CHUNKS, AT_ONCE = EACH < 4 ? EACH : 4, OTHERS = 3; // vectors of a chunk, fetched at one time, and of how many other clusters
  const GemmParams& p;
  Cluster cluster;
  int steps, rank, tid;

  DEVICE Vec16* slot(int which, bool head) const { return (Vec16*)p.sums + (long)((which * CLUSTER + rank) * 2 + (head ? 0 : 1)) * (BN / 8) * CONSUMERS + tid; }
  static DEVICE bool missing(Vec16 v) { return v.x[0] == EMPTY || v.x[1] == EMPTY || v.x[2] == EMPTY || v.x[3] == EMPTY; }

  // reduce leaves the block's partial sums of a tile to the blocks that write them, and adds theirs to the chunks that this block writes, whose bits it
  // returns.
  DEVICE u32 reduce(int tile, bool head, Accumulator* acc) const {
    auto start = [&](int which) { return TileScheduler::streamStart(p, steps, cluster, which); };
    int low = tile * steps, high = low + steps - 1; // the first and last step of the tile, and the clusters that have them
    int c0 = (int)((long)tile * cluster.count / p.streamTiles), c1;
    while (start(c0 + 1) <= low) c0++;
    c1 = c0;
    while (start(c1 + 1) <= high) c1++;
    int writers = c1 - c0 + (start(c1 + 1) == high + 1 ? 1 : 0);
    bool c0Head = start(c0) == low; // for all others the tile is the one that their run begins in
    u32 mine = 0;
    UNROLL for (int t = 0; t < CHUNKS; t++) mine |= (c0 + t * writers / CHUNKS == cluster.index ? 1 : 0) << t;
    Vec16* to = slot(cluster.index, head);
    UNROLL for (int j = 0; j < BN / 8; j++) {
      if (mine >> j / EACH & 1) continue;
      Vec16 v;
      UNROLL for (int e = 0; e < 4; e++) v.x[e] = encodePartial(acc[4 * j + e]);
      storePartial(to + j * CONSUMERS, v);
    }
    if (mine == 0) return 0;
    int firstHead = c0 + (c0Head ? 0 : 1), last = (32 - __builtin_clz(mine)) * EACH - 1;
    for (int c = c0; c < c1; c += OTHERS) {
      const Vec16* from[OTHERS]; // the partial sums of clusters c0 to c1 but for the block's own
      UNROLL for (int o = 0; o < OTHERS; o++) {
        int other = mini(c + o, c1 - 1);
        if (other >= cluster.index) other++;
        from[o] = slot(other, other >= firstHead);
      }
      Vec16 tail[OTHERS][1];
      fetch(tail, from, last, c1 - c); // polls few words: polling many slows down the blocks that write them
      UNROLL for (int j = 0; j < BN / 8; j += AT_ONCE) {
        if (!(mine >> j / EACH & 1)) continue;
        Vec16 v[OTHERS][AT_ONCE];
        fetch(v, from, j, c1 - c);
        add(acc + 4 * j, v, from, j, c1 - c);
      }
    }
    return mine;
  }
  // fetch polls for vectors j to j + N of so many others, up to OTHERS.
  template <int N> static DEVICE void fetch(Vec16 (&v)[OTHERS][N], const Vec16* const (&from)[OTHERS], int j, int others) {
    bool again;
    do {
      again = false;
      UNROLL for (int o = 0; o < OTHERS; o++)
        if (o < others) UNROLL for (int i = 0; i < N; i++) v[o][i] = loadPartial(from[o] + (j + i) * CONSUMERS);
      UNROLL for (int o = 0; o < OTHERS; o++)
        if (o < others) UNROLL for (int i = 0; i < N; i++) again |= missing(v[o][i]);
    } while (anySync(again));
  }
  // add adds what was fetched, and makes its words EMPTY.
  template <int N> static DEVICE void add(Accumulator* acc, const Vec16 (&v)[OTHERS][N], const Vec16* const (&from)[OTHERS], int j, int others) {
    UNROLL for (int o = 0; o < OTHERS; o++) {
      if (o >= others) continue;
      UNROLL for (int i = 0; i < N; i++) {
        storePartial((Vec16*)from[o] + (j + i) * CONSUMERS, {EMPTY, EMPTY, EMPTY, EMPTY});
        UNROLL for (int e = 0; e < 4; e++) addPartial(acc[4 * i + e], v[o][i].x[e]);
      }
    }
  }
};
#endif
} // namespace dense_sm90
