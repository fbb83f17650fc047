// The parameters of gemm_sm90.h, its compile-time configuration, and its persistent tile scheduler.
#pragma once
#include "../../sm90.h"
#include "formats.h"

struct GemmParams {
  TensorMap x; // [rows, k]
  PackedPart part[3];
  float* partial; // stream-K: partial sums, two tiles a block
  int* arrived;   // stream-K: [tiles] zeros
  int m, k, parts, fn; // fn: graph.Fn of a gated launch
  int rowTiles, tiles, streamK; // tiles of x, tiles in all; whether all tiles are stream-K (see TileScheduler)
  int gated; // the two parts are the gate and the up matrix; a tile has 64 rows of each
  int tilesEach, oneMore; // not stream-K: tiles of each cluster, and how many clusters have one more
  int splits, viaGlobal; // split-K: blocks that share a tile, as a power of two; whether they are no cluster and reduce through global memory
  Vec16* sums; // viaGlobal: the blocks' partial sums (see GlobalSplitK)
  // Up to 32 rows, RMSNorm fused as epilogue and prologue (fused_norm.go). A launch that adds to the residual also stores its y multiplied by the norm's
  // weights, and the sums of y's squares over each of a row's parts; the next one takes that as its x and multiplies its results by the norm's scale.
  const bf16* residual; // [m, n] added to the results, or null
  const float* weight;  // [n] the norm's weights, or null
  bf16* yWeighted;        // [m, n] with weight: y × weight
  float* squares;       // [m, squareParts]
  int squareParts;           // of a row of x, whose sums of squares are still to be applied; 0: none
  float eps;
};

constexpr int CONSUMERS = 256; // threads of two warpgroups, 64 of a tile's rows each

// GemmConfig is the configuration of a block for tiles of BN tokens: its stages and shared memory.
template <typename Q, int BN> struct GemmConfig {
  static constexpr bool CLUSTERS = BN <= 32;
  static constexpr int K_SLICES = BN <= 32 ? 2 : 1;  // sliced-K: two pairs of warpgroups with every second k step each, where registers allow: the wgmma of one hides the dequantisation of the other
  static constexpr int UNITS = (BN <= 32 ? Q::BYTES < 640 : BN <= 128) ? 2 : 1; // of columns in a step
  static constexpr int SIDES = 2 * UNITS;         // boxes of 64 columns of a step
  static constexpr int BOX = BN * 128, X_STAGE = 2 * UNITS * BOX;                // of x: 64 columns; a step's
  static constexpr int UNIT = 2 * Q::BYTES, STAGE = UNITS * PANEL * UNIT;         // a step's weights
  static constexpr int LINE = 128 * 2 + 16, LINES = BN < 32 ? BN : 32;           // the epilogue's, in bytes and tokens
  static constexpr int SUMS = BN / 2;                                            // of a thread
  static constexpr int SLICE_SUMS = (K_SLICES - 1) * 2 * SUMS * CONSUMERS * 4;            // the second slice's partial sums, of two tiles
  static constexpr int WARP_SUMS = SUMS * 32 * 4, MAILBOX = CLUSTERS ? 7 * WARP_SUMS : 0;    // a warp's partial sums; those that come from other blocks: there are two mailboxes
  static constexpr int ROOM = 224 * 1024 - LINE * LINES - SLICE_SUMS - 2 * MAILBOX;    // for both rings
  static constexpr int BOTH_STAGES = ROOM / (X_STAGE + STAGE) < 12 ? ROOM / (X_STAGE + STAGE) : 12;
  static constexpr int RESIDENT = BN < 32 ? 256 / (BN * UNITS) : 8 / UNITS;          // steps whose x stays in shared memory where a block's tiles have no more
  static constexpr int X_STAGES = CLUSTERS ? RESIDENT : BOTH_STAGES, STAGES = CLUSTERS ? (ROOM - X_STAGES * X_STAGE) / STAGE / K_SLICES * K_SLICES : BOTH_STAGES; // each is one slice's
  static_assert(STAGES >= 2);
};

// TileScheduler is a block's share: count steps in a row, from a step of a tile on; of each tile steps from to to-1 (all, or a split of k). It goes by
// increments: a division a step would cost more than the step.
struct TileScheduler {
  int steps, from, to, count, tile, step, stride; // steps: of a tile; stride: from one tile to the next
  DEVICE TileScheduler(const GemmParams& p, int units, bool streams) { // units: of a step; streams: whether stream-K is possible
    steps = to = unitsOf(p.k) / units, from = 0;
    if (streams && p.streamK) {
      int start = first(p, steps, blockX());
      count = first(p, steps, blockX() + 1) - start;
      tile = start / steps, step = start % steps, stride = 1;
    } else {
      int rank = blockX() & ((1 << p.splits) - 1);
      from = steps * rank >> p.splits, to = steps * (rank + 1) >> p.splits;
      tile = blockX() >> p.splits, step = from, stride = gridX() >> p.splits;
      count = (p.tilesEach + (tile < p.oneMore)) * (to - from); // a division would take as long as a step
    }
  }
  // first is the step that a block's stream-K run starts with.
  static DEVICE int first(const GemmParams& p, int steps, int block) { return (int)((long)p.tiles * steps * block / gridX()); }
  DEVICE bool next() { // advances by a step; whether a new tile begins
    if (++step < to) return false;
    step = from, tile += stride;
    return true;
  }
};

// WorkTile is the coordinates of a tile. All tiles of x of a tile of weights follow each other, so that weights are read from memory once.
struct WorkTile {
  int part, tile, xRow; // tile: of its part
  template <int BN> static DEVICE WorkTile of(const GemmParams& p, int tile) {
    WorkTile at;
    at.xRow = BN <= 32 ? 0 : tile % p.rowTiles * BN;
    at.tile = BN <= 32 ? tile : tile / p.rowTiles;
    at.part = 0;
    if (!p.gated)
      while (at.part + 1 < p.parts && at.tile >= p.part[at.part].tiles) at.tile -= p.part[at.part++].tiles;
    return at;
  }
};
