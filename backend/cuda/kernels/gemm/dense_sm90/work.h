// What a product on Hopper is launched with, and each block's share of its work.
#pragma once
#include "../../sm90.h"

namespace wide {
struct Part { // one weight matrix; several that read the same x are one launch
  const float *bias, *bias2; // [n] or null; bias2 is the up matrix's
  const float *scale, *scale2; // [n] what a number of each row of weights counts, if they are scaled; scale2 is the up matrix's
  bf16* y;      // [m, n]
  int n, tiles; // columns of Y, and tiles of 128 rows of weights
};
struct GemmParams {
  TensorMap w[3]; // [n, k] each
  TensorMap x;    // [rows, k]
  Part part[3];
  void* sums;     // two tiles of sums a block, EMPTY between launches (see Pieces)
  const float* xScale; // [rows] what a number of each row of x counts, if they are scaled
  int m, k, parts, fn; // k: in pairs of bytes (mma_ops.h); fn: graph.Fn of a gated launch
  int rowTiles, tiles, stream; // tiles of x, tiles in all, and how many of them go as a stream; of pairs of blocks, pairs of tiles
  int gap; // what giving a piece of one tile away and going on with the next costs, in steps
};

#if __CUDA_ARCH__ >= 900
constexpr int BK = 64, W_BYTES = 128 * BK * 2, WORKERS = 256;

// Team is a block among all that share the work, or its cluster among all clusters.
struct Team { int mine, all; };

// Work is a team's share: a run of the stream's steps, then whole tiles. It is walked by increments: a division a step would cost more
// than the step.
struct Work {
  int steps, count;       // of BK in a tile, and in all
  int tile, step;         // where it stands
  int left, whole, turn;  // steps left of the run; the first whole tile, and from one to the next
  DEVICE Work(const GemmParams& p, Team team) : steps(ceilDiv(p.k, BK)), step(0), whole(p.stream + team.mine), turn(team.all) {
    int start = first(p, steps, team, team.mine);
    left = first(p, steps, team, team.mine + 1) - start;
    count = left + (whole < p.tiles ? ceilDiv(p.tiles - whole, turn) * steps : 0);
    tile = whole;
    if (left > 0) tile = start / steps, step = start % steps;
  }
  // first is the step that a team's run starts with. Runs are equal but for the gap that lies before each tile: who goes on into
  // another tile has fewer steps.
  static DEVICE int first(const GemmParams& p, int steps, Team team, int which) {
    int each = steps + p.gap, at = (int)((long)p.stream * each * which / team.all);
    return at / each * steps + maxi(at % each - p.gap, 0);
  }
  DEVICE bool next() { // whether a new tile begins
    if (left == 1 || step + 1 == steps) return skip(1), true;
    step++;
    if (left > 0) left--;
    return false;
  }
  // here is how many steps of the tile at hand are its own, from where it stands; skip goes on behind them.
  DEVICE int here() const { return left > 0 ? mini(left, steps - step) : steps; }
  DEVICE void skip(int n) {
    step = 0;
    if (left <= 0) tile += turn;
    else tile = (left -= n) > 0 ? tile + 1 : whole;
  }
};

// Place is where a tile lies: eight row tiles of x in turn for each tile of weights, so that what runs at one time shares both.
struct Place {
  int part, wRow, xRow;
  template <int BN, int PAIR> static DEVICE Place of(const GemmParams& p, int tile, int rank) {
    constexpr int GROUP = 8;
    Place at;
    int perGroup = GROUP * (p.tiles / p.rowTiles), group = tile / perGroup, in = tile % perGroup;
    int tall = mini(GROUP, p.rowTiles - group * GROUP), w = in / tall;
    at.xRow = (group * GROUP + in % tall) * BN;
    at.part = 0;
    while (at.part + 1 < p.parts && w >= p.part[at.part].tiles / PAIR) w -= p.part[at.part++].tiles / PAIR;
    at.wRow = (w * PAIR + rank) * 128;
    return at;
  }
};
#endif
} // namespace wide
