// What a launch of wide.h is given, how its blocks work, and each block's share.
#pragma once
#include "../../sm90.h"
#include "unit.h"

struct WideParams {
  TensorMap x; // [rows, k]
  PackedPart part[3];
  float* partial; // stream: two tiles a block
  int* arrived;   // stream: [tiles] zeros
  int m, k, parts, fn; // fn: graph.Fn of a gated launch
  int rowTiles, tiles, stream; // tiles of x, tiles in all; whether work is dealt out as a stream (see Work)
  int gated; // the two parts are the gate and the up matrix; a tile has 64 rows of each
  int rounds, more; // no stream: tiles of each cluster, and how many clusters have one more
  int splits, apart; // blocks that cut a tile's columns, as a power of two; whether they are no cluster
  Vec16* sums; // apart: their places for sums (see Apart)
  // Up to 32 rows, a neighbour's work: sums and normalisation as join_norm.go has them. A launch that adds to the residual leaves what it
  // makes, y, also multiplied by the normalisation's weights, and the sums of y's squares over each of a row's pieces; the next one takes
  // that as its x.
  const bf16* residual; // [m, n] added to the results, or null
  const float* weight;  // [n] those weights, or null
  bf16* weighed;        // [m, n] with weight: y × weight
  float* squares;       // [m, pieces]
  int pieces;           // of a row that x is normalised by; 0: x is as it shall be
  float eps;
};

constexpr int WORKERS = 256; // threads of two warpgroups, a team: 64 of a tile's rows each

// WideBlock is how a block for tiles of BN tokens works.
template <typename Q, int BN> struct WideBlock {
  static constexpr bool CLUSTERS = BN <= 32;
  static constexpr int TEAMS = BN <= 32 ? 2 : 1;  // two, with every second step each, where registers allow: one's products hide the other's opening
  static constexpr int UNITS = (BN <= 32 ? Q::BYTES < 640 : BN <= 128) ? 2 : 1; // of columns in a step
  static constexpr int SIDES = 2 * UNITS;         // boxes of 64 columns of a step
  static constexpr int BOX = BN * 128, X_STAGE = 2 * UNITS * BOX;                // of x: 64 columns; a step's
  static constexpr int UNIT = 2 * Q::BYTES, STAGE = UNITS * SLAB * UNIT;         // a step's weights
  static constexpr int LINE = 128 * 2 + 16, LINES = BN < 32 ? BN : 32;           // the epilogue's, in bytes and tokens
  static constexpr int SUMS = BN / 2;                                            // of a thread
  static constexpr int HANDED = (TEAMS - 1) * 2 * SUMS * WORKERS * 4;            // the second team's sums, of two tiles
  static constexpr int SENT = SUMS * 32 * 4, INBOX = CLUSTERS ? 7 * SENT : 0;    // a warp's sums; those that come from other blocks: there are two boxes
  static constexpr int ROOM = 224 * 1024 - LINE * LINES - HANDED - 2 * INBOX;    // for both rings
  static constexpr int EVEN = ROOM / (X_STAGE + STAGE) < 12 ? ROOM / (X_STAGE + STAGE) : 12;
  static constexpr int KEPT = BN < 32 ? 256 / (BN * UNITS) : 8 / UNITS;          // steps' x that stay there where a block's tiles have no more
  static constexpr int X_STAGES = CLUSTERS ? KEPT : EVEN, STAGES = CLUSTERS ? (ROOM - X_STAGES * X_STAGE) / STAGE / TEAMS * TEAMS : EVEN; // each is one team's
  static_assert(STAGES >= 2);
};

// Work is a block's share: count steps in a row, from a step of a tile on; of each tile steps from to to-1. It is walked by increments: a
// division a step would cost more than the step.
struct Work {
  int steps, from, to, count, tile, step, turn; // steps: of a tile; turn: from one tile to the next
  DEVICE Work(const WideParams& p, int units, bool streams) { // units: of a step; streams: whether there may be a stream
    steps = to = unitsOf(p.k) / units, from = 0;
    if (streams && p.stream) {
      int start = first(p, steps, blockX());
      count = first(p, steps, blockX() + 1) - start;
      tile = start / steps, step = start % steps, turn = 1;
    } else {
      int rank = blockX() & ((1 << p.splits) - 1);
      from = steps * rank >> p.splits, to = steps * (rank + 1) >> p.splits;
      tile = blockX() >> p.splits, step = from, turn = gridX() >> p.splits;
      count = (p.rounds + (tile < p.more)) * (to - from); // a division would take as long as a step
    }
  }
  // first is the step that a block of a stream starts with.
  static DEVICE int first(const WideParams& p, int steps, int block) { return (int)((long)p.tiles * steps * block / gridX()); }
  DEVICE bool next() { // whether a new tile begins
    if (++step < to) return false;
    step = from, tile += turn;
    return true;
  }
};

// Place is where a tile lies. All tiles of x of a tile of weights follow each other, so that weights are read from memory once.
struct Place {
  int part, tile, xRow; // tile: of its part
  template <int BN> static DEVICE Place of(const WideParams& p, int tile) {
    Place at;
    at.xRow = BN <= 32 ? 0 : tile % p.rowTiles * BN;
    at.tile = BN <= 32 ? tile : tile / p.rowTiles;
    at.part = 0;
    if (!p.gated)
      while (at.part + 1 < p.parts && at.tile >= p.part[at.part].tiles) at.tile -= p.part[at.part++].tiles;
    return at;
  }
};
