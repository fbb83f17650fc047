// GEMM with 2:4 sparse weights on Hopper: the tiles, schedule and epilogue of gemm.h, with wgmma's sparse form, which multiplies the half of the weights
// that is stored in half the time. Weights lie as gemm/packed packs them (packed/sparse24.h): they are A from registers, since what a lane needs of them is 16
// bytes a load, and x is B from shared memory. As twice as much of x is read in the time of a dense step, x and weights have rings of their own: a stage of
// weights, 128 columns, is free again when it is in registers, one of x, 64 columns, when it has been multiplied.
//
// A step is a unit of weights, 128 columns; GemmParams' k counts stored numbers, 64 a step.
#pragma once
#include "../packed/sparse24.h"
#include "epilogue.h"
#include "stream_k_fixup.h"

namespace dense_sm90 {
struct SparseWeights {
  const u8* w[3]; // of each part, packed
  const u8* up;   // of a gated launch, whose w[0] is the gate
};

#if __CUDA_ARCH__ >= 900
extern SHARED u8 dynamic[];

constexpr int UNIT_BYTES = 2 * Sparse24::BYTES, PANEL_BYTES = PANEL * UNIT_BYTES; // of 16 and of 128 rows, 128 columns

// SparseRing is a ring of stages in shared memory, with a full and an empty mbarrier each.
struct SparseRing { u32 at, full, empty; };

// produceSparse is the producer: one thread that issues the TMA loads of all of a block's tiles.
template <int BN, int X_STAGES, int W_STAGES, bool GATED, int CLUSTER>
DEVICE void produceSparse(const GemmParams& p, const SparseWeights& weights, TileScheduler scheduler, int rank, SparseRing xs, SparseRing ws) {
  constexpr int X_BYTES = BN * BK * 2;
  u64 keep = p.rowTiles > 1 ? EVICT_LAST : EVICT_FIRST;
  auto loadW = [&](const WorkTile& at, int step, int stage) {
    u32 to = ws.at + stage * PANEL_BYTES, bar = ws.full + stage * 8;
    mbarrierExpectTx(bar, PANEL_BYTES);
    int tile = at.wRow / 128;
    if (GATED) { // half a panel of each of the two
      long from = ((long)(tile / 2) * scheduler.steps + step) * PANEL_BYTES + tile % 2 * (PANEL_BYTES / 2);
      tmaLoadBulk(to, weights.w[0] + from, PANEL_BYTES / 2, bar, keep);
      tmaLoadBulk(to + PANEL_BYTES / 2, weights.up + from, PANEL_BYTES / 2, bar, keep);
    } else {
      tmaLoadBulk(to, weights.w[at.part] + ((long)tile * scheduler.steps + step) * PANEL_BYTES, PANEL_BYTES, bar, keep);
    }
  };
  auto loadX = [&](const WorkTile& at, int column, int stage) {
    u32 to = xs.at + stage * X_BYTES + rank * (X_BYTES / 2), bar = xs.full + stage * 8;
    mbarrierExpectTx(bar, X_BYTES);
    if (CLUSTER > 1) tmaLoadMulticast(to, &p.x, column, at.xRow + rank * (BN / 2), bar, EVICT_LAST);
    else tmaLoad2D(to, &p.x, column, at.xRow, bar, EVICT_LAST);
  };
  int ahead = mini(W_STAGES, scheduler.count); // weights do not wait for the kernel before this one
  TileScheduler early = scheduler;
  WorkTile at = WorkTile::of<BN, CLUSTER>(p, scheduler.tile, rank), earlyAt = at;
  for (int i = 0; i < ahead; i++) {
    loadW(earlyAt, early.step, i);
    if (early.next()) earlyAt = WorkTile::of<BN, CLUSTER>(p, early.tile, rank);
  }
  gridDependencyWait();
  PipelineState<X_STAGES> rx;
  PipelineState<W_STAGES> rw;
  for (int i = 0; i < scheduler.count; i++, rw.next()) {
    if (i >= W_STAGES) {
      mbarrierWait(ws.empty + rw.stage * 8, rw.phase ^ 1);
      loadW(at, scheduler.step, rw.stage);
    }
    UNROLL for (int side = 0; side < 2; side++, rx.next()) {
      if (i * 2 + side >= X_STAGES) mbarrierWait(xs.empty + rx.stage * 8, rx.phase ^ 1);
      loadX(at, scheduler.step * 2 * BK + side * BK, rx.stage);
    }
    if (scheduler.next()) at = WorkTile::of<BN, CLUSTER>(p, scheduler.tile, rank);
  }
}

// loadSide loads a warp's two blocks of 32 columns of a side, 64 columns of a unit, whose halves of eight rows each lie there.
DEVICE void loadSide(SparseRows (&rows)[2], u32 upper, u32 lower, int side) {
  InShared top{upper}, bottom{lower};
  int places = Sparse24::SCALES + lane() / 4 * Sparse24::EACH + lane() % 2 * 8 + side * 4;
  Vec16 first = top.four(side * 512 + lane() * 16), second = bottom.four(side * 512 + lane() * 16);
  u32 firstPlaces = top.word(places), secondPlaces = bottom.word(places);
  UNROLL for (int b = 0; b < 2; b++) {
    rows[b].a[0] = first.x[2 * b], rows[b].a[1] = second.x[2 * b], rows[b].a[2] = first.x[2 * b + 1], rows[b].a[3] = second.x[2 * b + 1];
    rows[b].places = prmt(firstPlaces, secondPlaces, b ? 0x7632 : 0x5410);
  }
}

template <int BN, int X_STAGES, int W_STAGES, bool GATED, int CLUSTER> DEVICE void gemmSparse(const GemmParams& p, const SparseWeights& weights) {
  constexpr int X_BYTES = BN * BK * 2;
  using Out = Epilogue<MmaBf16, BN, GATED, false>;
  SHARED static u64 bars[2 * (X_STAGES + W_STAGES)];
  u32 bar = sharedAddress(bars);
  SparseRing xs = {(sharedAddress(dynamic) + 1023) & ~1023u, bar, bar + 8 * X_STAGES};
  SparseRing ws = {xs.at + X_STAGES * X_BYTES, bar + 16 * X_STAGES, bar + 16 * X_STAGES + 8 * W_STAGES};
  u8* lines = dynamic + (ws.at - sharedAddress(dynamic)) + W_STAGES * PANEL_BYTES; // the epilogue's
  if (threadX() == 0) {
    for (int i = 0; i < X_STAGES; i++) mbarrierInit(xs.full + 8 * i, 1), mbarrierInit(xs.empty + 8 * i, CLUSTER * CONSUMERS / 32);
    for (int i = 0; i < W_STAGES; i++) mbarrierInit(ws.full + 8 * i, 1), mbarrierInit(ws.empty + 8 * i, CONSUMERS / 32);
    mbarrierInitFence();
  }
  int rank = CLUSTER > 1 ? clusterRank() : 0;
  if (CLUSTER > 1) clusterBarrier();
  else barrier();
  launchDependents();
  Cluster cluster = {blockX() / CLUSTER, gridX() / CLUSTER};
  TileScheduler scheduler(p, cluster);

  if (warp() < 4) { // the producer warpgroup: one thread of it works, and it gives its registers to the consumers
    setmaxnregDec<40>();
    if (threadX() == 0) produceSparse<BN, X_STAGES, W_STAGES, GATED, CLUSTER>(p, weights, scheduler, rank, xs, ws);
    return;
  }

  setmaxnregInc<232>();
  gridDependencyWait();
  int group = warp() / 4 - 1, eight = group * 4 + (warp() & 3); // of a warp's 16 rows: a unit's, or of a gated tile the same eight of both matrices
  u32 upper = GATED ? eight / 2 * UNIT_BYTES + eight % 2 * Sparse24::BYTES : eight * UNIT_BYTES;
  u32 lower = upper + (GATED ? PANEL_BYTES / 2 : Sparse24::BYTES);
  alignas(16) float acc[BN / 2];
  auto release = [&](int stage) __attribute__((always_inline)) { // of x, to the producers that fill it: of both blocks, in a cluster
    if (lane() < CLUSTER) {
      if (CLUSTER > 1) mbarrierArriveRemote(xs.empty + stage * 8, lane());
      else mbarrierArrive(xs.empty + stage * 8);
    }
  };
  PipelineState<X_STAGES> rx;
  PipelineState<W_STAGES> rw;
  int steps = scheduler.steps;
  StreamKFixup<float, BN, CLUSTER, Out::CHUNKS> fixup = {p, cluster, steps, rank, (int)threadX() - 128};
  for (int done = 0; done < scheduler.count;) {
    int tile = scheduler.tile, n = scheduler.stepsHere(), last = 0;
    bool head = done == 0;
    for (int j = 0; j < n; j++, rw.next()) {
      u32 unit = ws.at + rw.stage * PANEL_BYTES;
      SparseRows even[2], odd[2];
      mbarrierWait(ws.full + rw.stage * 8, rw.phase);
      loadSide(even, unit + upper, unit + lower, 0);
      mbarrierWait(xs.full + rx.stage * 8, rx.phase);
      u32 b = smemDescriptor(xs.at + rx.stage * X_BYTES);
      wgmmaFence();
      UNROLL for (int k = 0; k < 2; k++) wgmmaSparseRS(acc, even[k], b + 4 * k, j > 0 || k > 0);
      wgmmaCommit();
      wgmmaWait<1>(); // the side before is multiplied: its x may be overwritten, and its registers
      if (j > 0) release(last);
      last = rx.stage, rx.next();

      loadSide(odd, unit + upper, unit + lower, 1);
      mbarrierWait(xs.full + rx.stage * 8, rx.phase);
      b = smemDescriptor(xs.at + rx.stage * X_BYTES);
      wgmmaFence();
      UNROLL for (int k = 0; k < 2; k++) wgmmaSparseRS(acc, odd[k], b + 4 * k, 1);
      wgmmaCommit();
      if (lane() == 0) mbarrierArrive(ws.empty + rw.stage * 8); // all of the warp's lanes have what they need, or wgmma would not have begun
      wgmmaWait<1>();
      release(last);
      last = rx.stage, rx.next();
    }
    wgmmaWait<0>();
    UNROLL for (int e = 0; e < BN / 2; e++) MmaBf16::fenceAccumulator(acc[e]);
    release(last);
    done += n;
    scheduler.leaveTile(n);

    u32 mine = n < steps ? fixup.reduce(tile, head, acc) : ~0u;
    if (mine == 0) continue;
    Out out(p, WorkTile::of<BN, CLUSTER>(p, tile, rank), lines, nullptr);
    if (n == steps) out.template run<true>(acc, mine);
    else out.template run<false>(acc, mine);
  }
  if (CLUSTER > 1) clusterBarrierUnaligned(); // the other block may still arrive at our barriers
}
#endif
} // namespace dense_sm90
