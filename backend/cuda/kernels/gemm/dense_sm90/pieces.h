// How blocks add up a tile whose steps they share.
#pragma once
#include "../../flag_in_data.h"
#include "work.h"

namespace wide {
#if __CUDA_ARCH__ >= 900
// Pieces of a tile that teams of the stream share, in scratch memory. A block has two places: one for the tile that it begins
// with, one for the tile that it ends with. Those whose runs end in the tile each write some of its turns (Writer's): all leave
// their sums of these in the scratch (flag_in_data.h), and who writes a turn adds them to its own.
template <typename Sum, int BN, int PAIR, int TURNS> struct Pieces {
  static constexpr int EACH = BN / 8 / TURNS, AT_ONCE = EACH < 4 ? EACH : 4, OTHERS = 3; // vectors of a turn, fetched at one time, and of how many pieces
  const GemmParams& p;
  Team team;
  int steps, rank, tid;

  DEVICE Vec16* place(int which, bool head) const { return (Vec16*)p.sums + (long)((which * PAIR + rank) * 2 + (head ? 0 : 1)) * (BN / 8) * WORKERS + tid; }
  static DEVICE bool missing(Vec16 v) { return v.x[0] == EMPTY || v.x[1] == EMPTY || v.x[2] == EMPTY || v.x[3] == EMPTY; }

  // join leaves the block's sums of a tile to those who write them, and adds theirs to what the block itself writes: the turns
  // whose bits it returns.
  DEVICE u32 join(int tile, bool head, Sum* acc) const {
    auto start = [&](int which) { return Work::first(p, steps, team, which); };
    int low = tile * steps, high = low + steps - 1; // the first and last step of the tile, and the teams that have them
    int c0 = (int)((long)tile * team.all / p.stream), c1;
    while (start(c0 + 1) <= low) c0++;
    c1 = c0;
    while (start(c1 + 1) <= high) c1++;
    int writers = c1 - c0 + (start(c1 + 1) == high + 1 ? 1 : 0);
    bool c0Head = start(c0) == low; // the other pieces begin their runs for sure
    u32 mine = 0;
    UNROLL for (int t = 0; t < TURNS; t++) mine |= (c0 + t * writers / TURNS == team.mine ? 1 : 0) << t;
    Vec16* to = place(team.mine, head);
    UNROLL for (int j = 0; j < BN / 8; j++) {
      if (mine >> j / EACH & 1) continue;
      Vec16 v;
      UNROLL for (int e = 0; e < 4; e++) v.x[e] = leave(acc[4 * j + e]);
      put(to + j * WORKERS, v);
    }
    if (mine == 0) return 0;
    int firstHead = c0 + (c0Head ? 0 : 1), last = (32 - __builtin_clz(mine)) * EACH - 1;
    for (int c = c0; c < c1; c += OTHERS) {
      const Vec16* from[OTHERS]; // the others' pieces: those of teams c0 to c1 but for the block's own
      UNROLL for (int o = 0; o < OTHERS; o++) {
        int who = mini(c + o, c1 - 1);
        if (who >= team.mine) who++;
        from[o] = place(who, who >= firstHead);
      }
      Vec16 tail[OTHERS][1];
      fetch(tail, from, last, c1 - c); // waits by few words: to look at many slows down those who write them
      UNROLL for (int j = 0; j < BN / 8; j += AT_ONCE) {
        if (!(mine >> j / EACH & 1)) continue;
        Vec16 v[OTHERS][AT_ONCE];
        fetch(v, from, j, c1 - c);
        add(acc + 4 * j, v, from, j, c1 - c);
      }
    }
    return mine;
  }
  // fetch waits for vectors j to j + N of so many pieces, up to OTHERS.
  template <int N> static DEVICE void fetch(Vec16 (&v)[OTHERS][N], const Vec16* const (&from)[OTHERS], int j, int pieces) {
    bool again;
    do {
      again = false;
      UNROLL for (int o = 0; o < OTHERS; o++)
        if (o < pieces) UNROLL for (int i = 0; i < N; i++) v[o][i] = look(from[o] + (j + i) * WORKERS);
      UNROLL for (int o = 0; o < OTHERS; o++)
        if (o < pieces) UNROLL for (int i = 0; i < N; i++) again |= missing(v[o][i]);
    } while (anyOf(again));
  }
  // add adds what was fetched, and empties its places.
  template <int N> static DEVICE void add(Sum* acc, const Vec16 (&v)[OTHERS][N], const Vec16* const (&from)[OTHERS], int j, int pieces) {
    UNROLL for (int o = 0; o < OTHERS; o++) {
      if (o >= pieces) continue;
      UNROLL for (int i = 0; i < N; i++) {
        put((Vec16*)from[o] + (j + i) * WORKERS, {EMPTY, EMPTY, EMPTY, EMPTY});
        UNROLL for (int e = 0; e < 4; e++) take(acc[4 * i + e], v[o][i].x[e]);
      }
    }
  }
};
#endif
} // namespace wide
