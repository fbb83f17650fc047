// Dense GEMM on Hopper: Y = X W', bf16 or 8-bit (kernels/gemm/w8a8; see mma_ops.h), for any number of rows. Warp-specialised: one producer warp keeps
// TMA loading tiles into a ring of shared memory; two consumer warpgroups multiply them with wgmma. Weights are the A operand (128 rows a
// tile), activations the B operand (BN rows), so the same kernel streams weights for a few rows of x and fills the tensor cores for many.
//
// The grid is persistent (tile_scheduler.h). Most tiles are data parallel: block b computes tiles b, b + grid, …. The tiles that would leave blocks idle
// in a last wave are stream-K, before the others: their k steps in a row are cut into runs, one a block, and the partial sums of a tile are
// reduced by the blocks that have them (stream_k_fixup.h), in an order that depends on the launch alone.
//
// Rows of x beyond m are read (they are within the buffer or zero) and never stored.
#pragma once
#include "adapter_steps.h"
#include "epilogue.h"
#include "stream_k_fixup.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
extern SHARED u8 dynamic[];

// Pipeline is the ring of stages in shared memory, with a full and an empty mbarrier each. A stage has a step's weights, W_BYTES, and behind them its x.
struct Pipeline { u32 at, full, empty; };
// Stage is one of them, and where it lies.
struct Stage {
  int number;
  u32 at;
};

// produce is the producer: one thread that issues the TMA loads of all of a block's tiles; with adapters' tiles (Adapt::TILES) a warp, whose lanes load the tiles of
// a step side by side.
template <int BN, int STAGES, bool GATED, int CLUSTER, typename Adapt> DEVICE void produce(const GemmParams& p, TileScheduler scheduler, int rank, Pipeline s, const Adapt& adapt) {
  constexpr int X_BYTES = BN * BK * 2, STAGE = W_BYTES + X_BYTES;
  bool one = !Adapt::TILES || lane() == 0;
  u64 keep = p.rowTiles > 1 ? EVICT_LAST : EVICT_FIRST;
  typename Adapt::Ahead next = {}, early = {}; // what the next step reads first
  auto loadW = [&](const typename Adapt::Ahead& ahead, const WorkTile& at, int step, int stage) __attribute__((always_inline)) {
    u32 to = s.at + stage * STAGE, bar = s.full + stage * 8;
    if (adapt.has(step)) return adapt.template loadB<BN, GATED>(ahead, to, at, step, p.part, bar);
    if (!one) return;
    mbarrierExpectTx(bar, STAGE);
    tmaLoad2D(to, &p.w[at.part], step * BK, at.wRow, bar, keep);
  };
  auto loadX = [&](const WorkTile& at, int step, int stage) __attribute__((always_inline)) {
    u32 to = s.at + stage * STAGE + W_BYTES + rank * (X_BYTES / 2);
    if (adapt.has(step)) return adapt.template loadH<BN, GATED, CLUSTER>(next, s.at + stage * STAGE, to, at, step, rank, s.full + stage * 8);
    if (!one) return;
    if (CLUSTER > 1) tmaLoadMulticast(to, &p.x, step * BK, at.xRow + rank * (BN / 2), s.full + stage * 8, EVICT_LAST);
    else tmaLoad2D(to, &p.x, step * BK, at.xRow, s.full + stage * 8, EVICT_LAST);
  };
  int ahead = mini(STAGES, scheduler.count); // weights do not wait for the kernel before this one
  TileScheduler before = scheduler;
  WorkTile at = WorkTile::of<BN, CLUSTER>(p, scheduler.tile, rank), earlyAt = at;
  typename Adapt::Run run = adapt.runOf(scheduler.step, scheduler.stepsHere()), earlyRun = run;
  adapt.template tileAhead<BN>(early, earlyAt);
  next = early;
  int j = 0; // step of the run
  for (int i = 0; i < ahead; i++, j++) {
    adapt.template stepAhead<BN, GATED>(early, earlyRun.step(j));
    loadW(early, earlyAt, earlyRun.step(j), i);
    if (!before.next() || i + 1 == ahead) continue;
    earlyAt = WorkTile::of<BN, CLUSTER>(p, before.tile, rank), earlyRun = adapt.runOf(before.step, before.stepsHere()), j = -1;
    adapt.template tileAhead<BN>(early, earlyAt);
  }
  gridDependencyWait();
  PipelineState<STAGES> r;
  j = 0;
  for (int i = 0; i < scheduler.count; i++, r.next()) {
    int step = run.step(j++);
    if (i >= STAGES) {
      mbarrierWait(s.empty + r.stage * 8, r.phase ^ 1);
      loadW(next, at, step, r.stage);
    }
    loadX(at, step, r.stage);
    if (scheduler.next() && i + 1 < scheduler.count) {
      at = WorkTile::of<BN, CLUSTER>(p, scheduler.tile, rank), run = adapt.runOf(scheduler.step, scheduler.stepsHere()), j = 0;
      adapt.template tileAhead<BN>(next, at);
    }
    adapt.template stepAhead<BN, GATED>(next, run.step(j));
  }
}

// GATED: the one weight matrix has gate and up interleaved: eight rows of the gate, then the same eight of the up matrix, and so on, so that a thread
// holds both numbers of a result (rows g and g + 8 of the accumulator) and writes one.
//
// CLUSTER 2: two blocks of a cluster take neighbouring tiles of weights and the same tile of x, of which each loads one half for both (TMA
// multicast). That cuts the traffic from the L2 cache, which limits wide tiles before the tensor cores do, by a third.
//
// DELTA: adapters add to the results (Deltas). Adapt: or they are steps behind those of k (AdapterSteps).
template <typename MmaOp, int BN, int STAGES, bool GATED, int CLUSTER, bool DELTA = false, typename Adapt = NoSteps>
DEVICE void gemm(const GemmParams& p, const Deltas* deltas = nullptr, const Adapt& adapt = {}) {
  constexpr int STAGE = W_BYTES + BN * BK * 2;
  using Out = Epilogue<MmaOp, BN, GATED, DELTA>;
  SHARED static u64 bars[2 * STAGES];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(bars), empty = full + 8 * STAGES;
  u8* lines = dynamic + (ring - sharedAddress(dynamic)) + STAGES * STAGE; // the epilogue's
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) mbarrierInit(full + 8 * i, 1), mbarrierInit(empty + 8 * i, CLUSTER * CONSUMERS / 32);
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
    if (Adapt::TILES ? warp() == 0 : threadX() == 0) produce<BN, STAGES, GATED, CLUSTER>(p, scheduler, rank, {ring, full, empty}, adapt);
    return;
  }

  setmaxnregInc<232>();
  gridDependencyWait();
  int group = warp() / 4 - 1;
  typedef typename MmaOp::Accumulator Accumulator;
  alignas(16) Accumulator acc[BN / 2];
  auto release = [&](int stage) __attribute__((always_inline)) { // to the producers that fill it: of both blocks, in a cluster
    if (lane() < CLUSTER) {
      if (CLUSTER > 1) mbarrierArriveRemote(empty + stage * 8, lane());
      else mbarrierArrive(empty + stage * 8);
    }
  };
  PipelineState<STAGES> r;
  auto wait = [&]() __attribute__((always_inline)) { // for the next stage, which it gives: its number, and where it lies
    mbarrierWait(full + r.stage * 8, r.phase);
    int stage = r.stage;
    r.next();
    return Stage{stage, ring + stage * STAGE};
  };
  int steps = scheduler.steps;
  StreamKFixup<Accumulator, BN, CLUSTER, Out::CHUNKS> fixup = {p, cluster, steps, rank, (int)threadX() - 128};
  for (int done = 0; done < scheduler.count;) {
    int tile = scheduler.tile, first = scheduler.step, n = scheduler.stepsHere(), last = 0;
    bool head = done == 0;
    WorkTile place = WorkTile::of<BN, CLUSTER>(p, tile, rank);
    typename Adapt::Run run = adapt.runOf(first, n);
    int products = mini(run.k, n);
    auto tiles = adapt.template tilesOf<BN>(place);
    for (int j = 0; j < products; j++) {
      mbarrierWait(full + r.stage * 8, r.phase);
      u32 at = ring + r.stage * STAGE;
      u64 a = smemDescriptor(at + group * (W_BYTES / 2)), b = smemDescriptor(at + W_BYTES);
      u32 next = 2; // of 16 bytes, to the next k16 of weights
      if (Adapt::PRODUCTS && adapt.has(run.step(j))) a = smemDescriptor32(at + group * 64 * 32), next = 128 * 2;
      wgmmaFence();
      UNROLL for (int k = 0; k < BK / 16; k++) MmaOp::multiply(acc, a + next * k, b + 2 * k, j > 0 || k > 0);
      wgmmaCommit();
      wgmmaWait<1>(); // the previous step is done: its stage may be filled again
      if (j > 0) release(last);
      last = r.stage;
      r.next();
    }
    wgmmaWait<0>();
    UNROLL for (int e = 0; e < BN / 2; e++) MmaOp::fenceAccumulator(acc[e]);
    if (products > 0) release(last);
    if (products == 0) UNROLL for (int e = 0; e < BN / 2; e++) acc[e] = 0;
    if (products < n) adapt.template multiply<BN, GATED>(acc, tiles, run.step(products), run.step(n), wait, release);
    done += n;
    scheduler.leaveTile(n);

    u32 mine = n < steps ? fixup.reduce(tile, head, acc) : ~0u;
    if (mine == 0) continue;
    Out out(p, place, lines, deltas);
    if (n == steps) out.template run<true>(acc, mine);
    else out.template run<false>(acc, mine);
  }
  if (CLUSTER > 1) clusterBarrierUnaligned(); // the other block may still arrive at our barriers
}
#endif
} // namespace dense_sm90
