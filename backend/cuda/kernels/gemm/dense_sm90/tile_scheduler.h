// The parameters of a GEMM on Hopper, and its persistent tile scheduler: which tiles and k steps each block computes.
#pragma once
#include "../../sm90.h"

namespace dense_sm90 {
struct Part { // one weight matrix; several that read the same x are one launch (fused QKV)
  const float *bias, *bias2; // [n] or null; bias2 is the up matrix's
  const float *scale, *scale2; // [n] what a number of each row of weights counts, if they are scaled; scale2 is the up matrix's
  bf16* y;      // [m, n]
  int n, tiles; // columns of Y, and tiles of 128 rows of weights
};
struct GemmParams {
  TensorMap w[4]; // [n, k] each
  TensorMap x;    // [rows, k]
  Part part[4];
  void* sums;     // stream-K partial sums: two tiles a block, EMPTY between launches (see StreamKFixup)
  const float* xScale; // [rows] what a number of each row of x counts, if they are scaled
  int m, k, parts, fn; // k: in pairs of bytes (mma_ops.h); fn: graph.Fn of a gated launch
  int rowTiles, tiles, streamTiles; // tiles of x, tiles in all, and how many of them are stream-K; with clusters of two, pairs of tiles
  int switchCost; // what leaving a tile's partial sums to another cluster and going on with the next tile costs, in steps
};

#if __CUDA_ARCH__ >= 900
constexpr int BK = 64, W_BYTES = 128 * BK * 2, CONSUMERS = 256;

// Cluster is which of the grid's clusters a block is of; without clusters, which block it is.
struct Cluster { int index, count; };

// TileScheduler walks a cluster's share of the work: first a run of the stream-K tiles' k steps, then whole tiles (data parallel), every stride-th.
// It goes by increments: a division a step would cost more than the step.
struct TileScheduler {
  int steps, count;       // k steps of BK in a tile, and in all of the cluster's work
  int tile, step;         // where it stands
  int streamLeft, nextWhole, stride;  // steps left of the stream-K run; the next whole tile, and the distance from one to the next
  DEVICE TileScheduler(const GemmParams& p, Cluster cluster) : steps(ceilDiv(p.k, BK)), step(0), nextWhole(p.streamTiles + cluster.index), stride(cluster.count) {
    int start = streamStart(p, steps, cluster, cluster.index);
    streamLeft = streamStart(p, steps, cluster, cluster.index + 1) - start;
    count = streamLeft + (nextWhole < p.tiles ? ceilDiv(p.tiles - nextWhole, stride) * steps : 0);
    tile = nextWhole;
    if (streamLeft > 0) tile = start / steps, step = start % steps;
  }
  // streamStart is the step that a cluster's stream-K run starts with. Runs are equal but for switchCost: a cluster that goes on into another tile
  // has so many steps fewer.
  static DEVICE int streamStart(const GemmParams& p, int steps, Cluster cluster, int which) {
    int each = steps + p.switchCost, at = (int)((long)p.streamTiles * each * which / cluster.count);
    return at / each * steps + maxi(at % each - p.switchCost, 0);
  }
  DEVICE bool next() { // advances by a step; whether a new tile begins
    if (streamLeft == 1 || step + 1 == steps) return leaveTile(1), true;
    step++;
    if (streamLeft > 0) streamLeft--;
    return false;
  }
  // stepsHere is how many steps of the current tile are the cluster's, from the current one on; leaveTile advances behind them.
  DEVICE int stepsHere() const { return streamLeft > 0 ? mini(streamLeft, steps - step) : steps; }
  DEVICE void leaveTile(int n) {
    step = 0;
    if (streamLeft <= 0) tile += stride;
    else tile = (streamLeft -= n) > 0 ? tile + 1 : nextWhole;
  }
};

// WorkTile is the coordinates of a tile. Tiles are rasterised for the L2 cache: eight tiles of x for each tile of weights, so that those computed at
// one time share both.
struct WorkTile {
  int part, wRow, xRow;
  template <int BN, int CLUSTER> static DEVICE WorkTile of(const GemmParams& p, int tile, int rank) {
    constexpr int GROUP = 8;
    WorkTile at;
    int perGroup = GROUP * (p.tiles / p.rowTiles), group = tile / perGroup, in = tile % perGroup;
    int tall = mini(GROUP, p.rowTiles - group * GROUP), w = in / tall;
    at.xRow = (group * GROUP + in % tall) * BN;
    at.part = 0;
    auto shares = [&](int part) { return (p.part[part].tiles + CLUSTER - 1) / CLUSTER; }; // of clusters; the last may have a tile beyond the weights
    while (at.part + 1 < p.parts && w >= shares(at.part)) w -= shares(at.part++);
    at.wRow = (w * CLUSTER + rank) * 128;
    return at;
  }
};
#endif
} // namespace dense_sm90
