// Packed-weight GEMM on Hopper (mixed-input: bf16 activations × quantised weights) for more than a few rows of x. Warp-specialised: one producer thread
// each keeps TMA loading tiles of x and units of weights into rings of shared memory; consumer warpgroups dequantise the units in registers, which
// are the A operand of their wgmma, and take x from shared memory.
//
// For up to 32 rows it is split-K: some blocks, of a cluster or not, split the k of a tile between them (split_k.h), and in a block two slices of
// warpgroups do (sliced-K). For more rows the grid is persistent: whole tiles, or stream-K, where all k steps of all tiles are cut into equal
// runs and the partial sums of a tile are reduced through global memory.
#pragma once
#include "split_k.h"
#include "wgmma_dequantise.h"
#include "norm_epilogue.h"

// broadcastFirst is lane 0's value of what all lanes hold alike, so that the compiler keeps it in a uniform register.
DEVICE int broadcastFirst(int v) {
  int d;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, -1;" : "=r"(d) : "r"(v));
  return d;
}

// Pipeline is a ring of stages in shared memory, of x or of weights.
struct Pipeline {
  u32 at, full, empty; // empty, full: mbarriers
  // init initialises the nth of these mbarriers; the full ones are first.
  template <int COUNT> DEVICE void init(int nth, int writers, int readers) const {
    if (nth >= 0 && nth < 2 * COUNT) mbarrierInit(full + 8 * nth, nth < COUNT ? writers : readers);
  }
};

// produceX and produceWeights are the producers, of x and of a part's weights, one thread each, once all mbarriers are initialised (barriersReady).
template <typename W, int BN, typename Together> DEVICE void produceX(const GemmParams& p, TileScheduler& scheduler, const Pipeline& s, bool resident, Together barriersReady) {
  WorkTile at = WorkTile::of<BN>(p, scheduler.tile);
  barriersReady();
  if (lane() != 0) return;
  gridDependencyWait();
  PipelineState<W::X_STAGES> r;
  for (int i = 0, count = resident ? mini(scheduler.to - scheduler.from, scheduler.count) : scheduler.count; i < count; i++, r.next()) {
    if (i >= W::X_STAGES) mbarrierWait(s.empty + r.stage * 8, r.phase ^ 1);
    mbarrierExpectTx(s.full + r.stage * 8, W::X_STAGE);
    tmaLoad3D(s.at + r.stage * W::X_STAGE, &p.x, 0, at.xRow, scheduler.step * 2 * W::UNITS, s.full + r.stage * 8);
    if (scheduler.next()) at = WorkTile::of<BN>(p, scheduler.tile);
  }
}
template <typename W, int BN, typename Together> DEVICE void produceWeights(const GemmParams& p, TileScheduler& scheduler, const Pipeline& s, int second, Together barriersReady) {
  constexpr int HALF = PANEL / 2 * W::UNIT;
  WorkTile at = WorkTile::of<BN>(p, scheduler.tile);
  auto find = [&] { // a gated tile has half a panel of each part
    return p.gated ? p.part[second].w + ((long)(at.tile / 2) * scheduler.steps + scheduler.step) * W::STAGE + at.tile % 2 * HALF
                   : p.part[at.part].w + ((long)at.tile * scheduler.steps + scheduler.step) * W::STAGE;
  };
  const u8* from = find();
  barriersReady();
  if (lane() != 0) return; // weights do not wait for the launch before this one
  PipelineState<W::STAGES> r;
  for (int i = 0; i < scheduler.count; i++, r.next()) {
    u32 to = s.at + r.stage * W::STAGE, bar = s.full + r.stage * 8;
    if (i >= W::STAGES) mbarrierWait(s.empty + r.stage * 8, r.phase ^ 1);
    if (p.gated) {
      mbarrierExpectTx(bar, W::STAGE / 2);
      UNROLL for (int u = 0; u < W::UNITS; u++) tmaLoadBulk(to + (2 * u + second) * HALF, from + 2 * u * HALF, HALF, bar);
    } else {
      mbarrierExpectTx(bar, W::STAGE);
      tmaLoadBulk(to, from, W::STAGE, bar);
    }
    from += W::STAGE;
    if (scheduler.next()) at = WorkTile::of<BN>(p, scheduler.tile), from = find();
  }
}

// Consumer is which of a block's consumer threads one is. It is computed again behind each tile's main loop: kept, it would take registers there.
struct Consumer {
  int slice, id, group, in, lane; // id: in the slice; group: its warpgroup; in: the warp of that
  template <int K_SLICES> static DEVICE Consumer of() {
    int n;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(n));
    n -= 128;
    return {K_SLICES == 2 ? broadcastFirst(n / CONSUMERS) : 0, n % CONSUMERS, n % CONSUMERS / 128, n / 32 % 4, n % 32};
  }
  // row is which of a tile's eight times 16 rows are the warp's.
  DEVICE int row(bool gated) const { return gated ? in * 2 + group : group * 4 + in; }
};

// mainloopStepSparse is mainloopStep of 2:4 sparse weights, which nothing has to be done to.
template <typename W> DEVICE void mainloopStepSparse(float (&acc)[W::SUMS], u32 first, u32 stage, const u32 (&halves)[2]) {
  SparseRows rows[W::UNITS * BLOCKS];
  Sparse24 q[W::UNITS][2];
  UNROLL for (int u = 0; u < W::UNITS; u++) {
    UNROLL for (int h = 0; h < 2; h++) q[u][h].load(InShared{stage + halves[h] + u * (PANEL * W::UNIT)});
    UNROLL for (int b = 0; b < BLOCKS; b++) rows[u * BLOCKS + b] = SparseRows(q[u][0], q[u][1], b);
  }
  wgmmaFence();
  UNROLL for (int b = 0; b < W::UNITS * BLOCKS; b++) wgmmaSparseRS(acc, rows[b], first + b / 2 * (W::BOX / 16) + b % 2 * 4, 1);
  wgmmaCommit();
  wgmmaWait<0>();
  UNROLL for (int e = 0; e < W::SUMS; e++) asm volatile("" : "+f"(acc[e])::"memory");
}

// mainloopStep adds the products of a step: of x, whose first shared-memory descriptor has that low word, and of weights, among which halves is where the
// two halves of the warp's rows lie.
template <typename W, typename Q> DEVICE void mainloopStep(float (&acc)[W::SUMS], u32 first, u32 stage, const u32 (&halves)[2]) {
  Q q[2];
  u32 a[2][4][4]; // double buffer: one is dequantised while the other is multiplied
  UNROLL for (int side = 0; side < W::SIDES; side++) {
    if (side % 2 == 0)
      UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{stage + halves[h] + side / 2 * (PANEL * W::UNIT)});
    if (side >= 2) wgmmaWait<1>();
    Dequantiser<Q> upper(q[0]), lower(q[1]);
    UNROLL for (int b = 0; b < 2; b++) {
      u32 top[4], bottom[4];
      upper(side % 2 * 2 + b, top);
      lower(side % 2 * 2 + b, bottom);
      UNROLL for (int s = 0; s < 2; s++) {
        u32(&to)[4] = a[side % 2][2 * b + s];
        to[0] = top[2 * s], to[1] = bottom[2 * s], to[2] = top[2 * s + 1], to[3] = bottom[2 * s + 1];
      }
    }
    wgmmaFence();
    UNROLL for (int k = 0; k < 4; k++) wgmmaRS(acc, a[side % 2][k], first + (side * (W::BOX / 16) + 2 * k));
    wgmmaCommit();
  }
  wgmmaWait<0>();
  UNROLL for (int e = 0; e < W::SUMS; e++) asm volatile("" : "+f"(acc[e])::"memory");
}

// reduceSlices adds the second slice's partial sums of the nth tile to the first's; it is whether the thread goes on with them. They are double
// buffered: at the barrier the first slice has read those of the tile before.
template <int SUMS> DEVICE bool reduceSlices(float (&acc)[SUMS], u8* room, const Consumer& me, int nth) {
  float* sliceSums = (float*)room + (nth & 1) * SUMS * CONSUMERS + me.id;
  if (me.slice == 1) UNROLL for (int e = 0; e < SUMS; e++) sliceSums[e * CONSUMERS] = acc[e];
  namedBarrierSync(4, 2 * CONSUMERS);
  if (me.slice == 1) return false;
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] += sliceSums[e * CONSUMERS];
  return true;
}

// streamKFixup stores a partial tile to global memory; it is whether acc is now the whole tile, since this block was the last of the tile's.
template <int SUMS> DEVICE bool streamKFixup(const GemmParams& p, float (&acc)[SUMS], int tile, int steps, bool head, int id) {
  SHARED static int isLast;
  float* mine = p.partial + ((long)blockX() * 2 + (head ? 0 : 1)) * SUMS * CONSUMERS + id;
  UNROLL for (int e = 0; e < SUMS; e++) mine[e * CONSUMERS] = acc[e];
  int low = tile * steps, high = low + steps - 1; // the first and last step of the tile, and the blocks that have them
  long all = (long)p.tiles * steps;
  int c0 = (int)((long)low * gridX() / all), c1 = (int)((long)high * gridX() / all);
  while (TileScheduler::first(p, steps, c0 + 1) <= low) c0++;
  while (TileScheduler::first(p, steps, c1 + 1) <= high) c1++;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  namedBarrierSync(3, CONSUMERS);
  if (id == 0) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + tile) : "memory");
    isLast = before == c1 - c0;
    if (isLast) p.arrived[tile] = 0;
  }
  namedBarrierSync(3, CONSUMERS);
  bool whole = isLast;
  namedBarrierSync(3, CONSUMERS); // isLast is not written again before all have read it
  if (!whole) return false;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] = 0;
  for (int c = c0; c <= c1; c++) {
    const float* piece = p.partial + (long)(c * 2 + (TileScheduler::first(p, steps, c) >= low ? 0 : 1)) * SUMS * CONSUMERS + id;
    UNROLL for (int e = 0; e < SUMS; e++) acc[e] += __builtin_nontemporal_load(piece + e * CONSUMERS);
  }
  return true;
}

// epilogue stores a tile, some tokens at a time: the warps transpose their columns of Y through lines of shared memory, a token's numbers side by side,
// and all write them out 16 bytes a thread. mine is whether the block finishes the warp's rows; of the tile's columns of Y, 8 << groupsLog from skip on
// are written, part number `part` of their rows' sums of squares.
template <typename W, int BN>
DEVICE void epilogue(const GemmParams& p, float (&acc)[W::SUMS], int tile, u8* lines, const Consumer& me, bool mine, int skip, int groupsLog, const NormEpilogue<W>& rest, int piece) {
  WorkTile at = WorkTile::of<BN>(p, tile);
  const PackedPart& part = p.part[at.part];
  int g = me.lane / 4, t = me.lane % 4, first = me.row(p.gated) * (p.gated ? 8 : 16), column = at.tile * (p.gated ? 64 : 128);
  const float* second = p.gated ? p.part[1].bias : part.bias;
  int row0 = first + g, row1 = p.gated ? row0 : row0 + 8;
  float bias0 = part.bias && column + row0 < part.n ? part.bias[column + row0] : 0;
  float bias1 = second && column + row1 < part.n ? second[column + row1] : 0;
  UNROLL for (int c = 0; c < BN / W::LINES; c++) {
    UNROLL for (int j = 0; j < W::LINES / 8; j++) {
      if (!mine) continue;
      float* d = acc + (c * (W::LINES / 8) + j) * 4;
      u32* line = (u32*)(lines + (j * 8 + g) * W::LINE + first * 2 + t * 4);
      if (p.gated) {
        float v[2];
        UNROLL for (int e = 0; e < 2; e++)
          v[e] = gate(p.fn, toFloat(fromFloat<bf16>(d[e] + bias0))) * toFloat(fromFloat<bf16>(d[e + 2] + bias1));
        line[0] = transpose8(pack(v[0], v[1]));
      } else {
        line[0] = transpose8(pack(d[0] + bias0, d[1] + bias0));
        line[4] = transpose8(pack(d[2] + bias1, d[3] + bias1));
      }
    }
    namedBarrierSync(1, CONSUMERS);
    if (W::CLUSTERS) rest.store(p, part, lines, skip, piece);
    else for (int s = me.id; s < W::LINES << groupsLog; s += CONSUMERS) {
      int line = s >> groupsLog, token = at.xRow + c * W::LINES + line, from = skip + (s & ((1 << groupsLog) - 1)) * 8;
      if (token >= p.m || column + from >= part.n) continue;
      *(Vec16*)(part.y + (long)token * part.n + column + from) = *(const Vec16*)(lines + line * W::LINE + from * 2);
    }
    namedBarrierSync(1, CONSUMERS);
  }
}

template <typename Q, int BN> DEVICE void gemm(const GemmParams& p) {
  using W = GemmConfig<Q, BN>;
  constexpr int UNIT = W::UNIT, X_STAGES = W::X_STAGES, STAGES = W::STAGES;
  SHARED static u64 bars[2 * X_STAGES + 2 * STAGES + 2];
  SHARED static float scales[W::CLUSTERS ? BN : 1];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, bar = sharedAddress(bars);
  Pipeline xs = {ring, bar, bar + 8 * X_STAGES}, ws = {ring + X_STAGES * W::X_STAGE, bar + 16 * X_STAGES, bar + 16 * X_STAGES + 8 * STAGES};
  u8* lines = dynamic + (ws.at - sharedAddress(dynamic)) + STAGES * W::STAGE;
  ClusterSplitK<W> exchange = {p.splits, blockX() & ((1 << p.splits) - 1), 0, sharedAddress(lines) + W::LINE * W::LINES + W::SLICE_SUMS, ws.empty + 8 * STAGES};
  bool clusters = W::CLUSTERS && p.splits > 0 && !p.viaGlobal;
  auto barriersReady = [&] { // the mbarriers are initialised
    barrier();
    launchDependents();
    if (clusters) clusterArriveRelaxed();
  };
  auto xStays = [&](const TileScheduler& scheduler) { return W::CLUSTERS && scheduler.to - scheduler.from <= X_STAGES; }; // all of x fits into its ring, and is loaded once

  if (warp() < 4) { // producers: one thread for x, one for each part of a tile's weights; their registers go to the consumers
    setmaxnregDec<W::K_SLICES == 2 ? 32 : 40>();
    TileScheduler scheduler(p, W::UNITS, !W::CLUSTERS);
    if (warp() == 0) return produceX<W, BN>(p, scheduler, xs, xStays(scheduler), barriersReady);
    if (warp() <= 1 + p.gated) return produceWeights<W, BN>(p, scheduler, ws, warp() - 1, barriersReady);
    barriersReady();
    if (clusters && warp() == 3 && lane() == 0) exchange.expect(0), exchange.expect(1);
    if (W::CLUSTERS && p.weight && warp() == 3 && lane() < 4 && scheduler.tile * 128 + lane() * 32 < p.part[0].n) // the norm's weights, which the epilogue would wait for
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight + scheduler.tile * 128 + lane() * 32));
    return;
  }

  // Meanwhile the consumers initialise the mbarriers, a warp each: lanes would do it one after the other, which takes 2,800 cycles.
  for (int i = broadcastFirst(warp()) - 4; i < 2 * X_STAGES + 2 * STAGES + 2; i += W::K_SLICES * CONSUMERS / 32) {
    xs.init<X_STAGES>(i, 1, CONSUMERS / 32);
    ws.init<STAGES>(i - 2 * X_STAGES, 1 + p.gated, CONSUMERS);
    if (i >= 2 * X_STAGES + 2 * STAGES) mbarrierInit(bar + 8 * i, 1);
  }
  mbarrierInitFence();
  barriersReady();
  setmaxnregInc<W::K_SLICES == 2 ? 112 : 232>();
  TileScheduler scheduler(p, W::UNITS, !W::CLUSTERS);
  bool resident = xStays(scheduler);
  gridDependencyWait();
  Consumer me = Consumer::of<W::K_SLICES>();
  if (clusters) clusterWait(); // the other blocks have initialised their mbarriers; both slices wait, or racecheck never ends (docs/lore.md, 121)
  if (W::CLUSTERS && p.squareParts) rmsScales(p, scales, warp() - 4, W::K_SLICES * CONSUMERS / 32); // read behind the barrier of reduceSlices
  // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
  // two units, of which the one warpgroup takes the first halves and the other the second.
  u32 upper = (p.gated ? me.in * UNIT + me.group * Q::BYTES : (me.group * 4 + me.in) * UNIT);
  u32 halves[2] = {upper, upper + (p.gated ? 4 * UNIT : Q::BYTES)};
  int slice = me.slice, groupsLog = (p.gated ? 3 : 4) - p.splits; // 8 << groupsLog columns of Y are the block's
  float acc[W::SUMS];
  u32 firstX = broadcastFirst(smemDescriptor(xs.at)); // shared-memory descriptors are made in uniform registers
  PipelineState<X_STAGES / W::K_SLICES> rx; // over the stages of the slice
  PipelineState<STAGES / W::K_SLICES> r;
  for (int done = 0; done < scheduler.count; exchange.count++) {
    int tile = W::CLUSTERS ? (blockX() >> p.splits) + exchange.count * (gridX() >> p.splits) : scheduler.tile;
    int n = W::CLUSTERS ? scheduler.to - scheduler.from : mini(scheduler.to - scheduler.step, scheduler.count - done);
    bool head = done == 0;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] = 0;
    int j = (slice - done) & (W::K_SLICES - 1), shift = resident ? j : slice;
    if (resident) rx = {};
    for (; j < n; j += W::K_SLICES, rx.next(), r.next()) {
      int x = rx.stage * W::K_SLICES + shift, w = r.stage * W::K_SLICES + slice;
      mbarrierWait(xs.full + x * 8, rx.phase);
      mbarrierWait(ws.full + w * 8, r.phase);
      u32 descriptor = firstX + broadcastFirst(x) * (W::X_STAGE / 16), stage = ws.at + w * W::STAGE;
      if constexpr (SPARSE<Q>) mainloopStepSparse<W>(acc, descriptor, stage, halves);
      else mainloopStep<W, Q>(acc, descriptor, stage, halves);
      mbarrierArrive(ws.empty + w * 8); // each thread for what it has read; x is read by the warpgroup's wgmma
      if (!resident && lane() == 0) mbarrierArrive(xs.empty + x * 8);
    }
    done += n;
    if (!W::CLUSTERS) scheduler.step = scheduler.from, scheduler.tile += scheduler.stride;
    me = Consumer::of<W::K_SLICES>();
    int row = me.row(p.gated);
    if (W::K_SLICES == 2 && !reduceSlices(acc, lines + W::LINE * W::LINES, me, exchange.count)) continue;
    NormEpilogue<W> rest = {{}, {}, me.id, WorkTile::of<BN>(p, tile).tile * (p.gated ? 64 : 128) + (exchange.rank * 8 << groupsLog), groupsLog};
    if (BN < 32) rest.loadResidual(p); // while partial sums are in flight; the widest tile has no registers for that
    if (clusters) exchange.add(acc, row, me.lane);
    else if (W::CLUSTERS && p.viaGlobal) GlobalSplitK<W>{p.sums, p.splits, tile, exchange.rank}.add(acc, row, me.lane);
    if (BN == 32) rest.loadResidual(p);
    if (!W::CLUSTERS && n < scheduler.steps && !streamKFixup(p, acc, tile, scheduler.steps, head, me.id)) continue;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] *= Dequantiser<Q>::FACTOR;
    if (W::CLUSTERS && p.squareParts) UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] *= scales[e / 4 * 8 + me.lane % 4 * 2 + e % 2];
    epilogue<W, BN>(p, acc, tile, lines, me, exchange.mine(row), exchange.rank * 8 << groupsLog, groupsLog, rest, tile << p.splits | exchange.rank);
  }
}
