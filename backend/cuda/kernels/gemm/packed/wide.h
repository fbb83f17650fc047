// The linear layer on packed weights for more than a few rows of x, on Hopper: a thread each keeps the copy engine fetching tiles of x and
// units of weights into rings of shared memory; pairs of warpgroups open the units in registers, which are the A operand of their products,
// and take x from shared memory.
//
// For up to 32 rows some blocks, of a cluster or not, cut the columns of a tile between them and send each other their sums. For more work is dealt
// out as in gemm.h: whole tiles, or a stream of steps in equal runs, whose pieces of a tile go through memory.
#pragma once
#include "exchange.h"
#include "opened.h"
#include "rest.h"

// ofFirstLane is what all lanes hold alike, so that the compiler knows.
DEVICE int ofFirstLane(int v) {
  int d;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, -1;" : "=r"(d) : "r"(v));
  return d;
}

// Stages is a ring in shared memory: of x, boxes, or of weights, units.
struct Stages {
  u32 at, full, empty; // empty, full: barriers
  // init makes the nth of all these barriers; full ones come first.
  template <int COUNT> DEVICE void init(int nth, int writers, int readers) const {
    if (nth >= 0 && nth < 2 * COUNT) mbarrierInit(full + 8 * nth, nth < COUNT ? writers : readers);
  }
};

// fetchInput brings x, fetchWeights a part's weights, by one thread each, once all threads are together.
template <typename W, int BN, typename Together> DEVICE void fetchInput(const WideParams& p, Work& work, const Stages& s, bool keeps, Together together) {
  Place at = Place::of<BN>(p, work.tile);
  together();
  if (lane() != 0) return;
  gridDependencyWait();
  PipelineState<W::X_STAGES> r;
  for (int i = 0, count = keeps ? mini(work.to - work.from, work.count) : work.count; i < count; i++, r.next()) {
    if (i >= W::X_STAGES) mbarrierWait(s.empty + r.stage * 8, r.phase ^ 1);
    mbarrierExpectTx(s.full + r.stage * 8, W::X_STAGE);
    tmaLoad3D(s.at + r.stage * W::X_STAGE, &p.x, 0, at.xRow, work.step * 2 * W::UNITS, s.full + r.stage * 8);
    if (work.next()) at = Place::of<BN>(p, work.tile);
  }
}
template <typename W, int BN, typename Together> DEVICE void fetchWeights(const WideParams& p, Work& work, const Stages& s, int second, Together together) {
  constexpr int HALF = SLAB / 2 * W::UNIT;
  Place at = Place::of<BN>(p, work.tile);
  auto find = [&] { // a gated tile has half a slab of each part
    return p.gated ? p.part[second].w + ((long)(at.tile / 2) * work.steps + work.step) * W::STAGE + at.tile % 2 * HALF
                   : p.part[at.part].w + ((long)at.tile * work.steps + work.step) * W::STAGE;
  };
  const u8* from = find();
  together();
  if (lane() != 0) return; // the other does not wait for the launch before this one
  PipelineState<W::STAGES> r;
  for (int i = 0; i < work.count; i++, r.next()) {
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
    if (work.next()) at = Place::of<BN>(p, work.tile), from = find();
  }
}

// Worker is which of a block's threads that multiply one is. It is asked for anew behind each tile's products: what follows from it would
// take registers of the products' loop.
struct Worker {
  int team, id, group, in, lane; // id: of the team; group: its warpgroup; in: the warp of that
  template <int TEAMS> static DEVICE Worker of() {
    int n;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(n));
    n -= 128;
    return {TEAMS == 2 ? ofFirstLane(n / WORKERS) : 0, n % WORKERS, n % WORKERS / 128, n / 32 % 4, n % 32};
  }
  // row is which of a tile's eight times 16 rows are the warp's.
  DEVICE int row(bool gated) const { return gated ? in * 2 + group : group * 4 + in; }
};

// multiplyStep adds the products of a step's x, whose first description has that low word, and weights: halves is where the two halves of the warp's rows lie
// among these.
template <typename W, typename Q> DEVICE void multiplyStep(float (&acc)[W::SUMS], u32 first, u32 stage, const u32 (&halves)[2]) {
  Q q[2];
  u32 a[2][4][4]; // one is opened while the other is multiplied
  UNROLL for (int side = 0; side < W::SIDES; side++) {
    if (side % 2 == 0)
      UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{stage + halves[h] + side / 2 * (SLAB * W::UNIT)});
    if (side >= 2) wgmmaWait<1>();
    Opener<Q> upper(q[0]), lower(q[1]);
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
    UNROLL for (int k = 0; k < 4; k++) opened(acc, a[side % 2][k], first + (side * (W::BOX / 16) + 2 * k));
    wgmmaCommit();
  }
  wgmmaWait<0>();
  UNROLL for (int e = 0; e < W::SUMS; e++) asm volatile("" : "+f"(acc[e])::"memory");
}

// handOver gives the second team's sums of the nth tile to the first; it is whether the thread goes on with them. They have two places by turns: when the
// teams meet, the first has taken those of the tile before.
template <int SUMS> DEVICE bool handOver(float (&acc)[SUMS], u8* room, const Worker& me, int nth) {
  float* handed = (float*)room + (nth & 1) * SUMS * WORKERS + me.id;
  if (me.team == 1) UNROLL for (int e = 0; e < SUMS; e++) handed[e * WORKERS] = acc[e];
  namedBarrierSync(4, 2 * WORKERS);
  if (me.team == 1) return false;
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] += handed[e * WORKERS];
  return true;
}

// streamed hands a piece of a tile over through memory; it is whether acc is now the whole tile, since this piece was the last.
template <int SUMS> DEVICE bool streamed(const WideParams& p, float (&acc)[SUMS], int tile, int steps, bool head, int id) {
  SHARED static int isLast;
  float* mine = p.partial + ((long)blockX() * 2 + (head ? 0 : 1)) * SUMS * WORKERS + id;
  UNROLL for (int e = 0; e < SUMS; e++) mine[e * WORKERS] = acc[e];
  int low = tile * steps, high = low + steps - 1; // the first and last step of the tile, and the blocks that have them
  long all = (long)p.tiles * steps;
  int c0 = (int)((long)low * gridX() / all), c1 = (int)((long)high * gridX() / all);
  while (Work::first(p, steps, c0 + 1) <= low) c0++;
  while (Work::first(p, steps, c1 + 1) <= high) c1++;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  namedBarrierSync(3, WORKERS);
  if (id == 0) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + tile) : "memory");
    isLast = before == c1 - c0;
    if (isLast) p.arrived[tile] = 0;
  }
  namedBarrierSync(3, WORKERS);
  bool whole = isLast;
  namedBarrierSync(3, WORKERS); // nobody writes isLast again before all have read it
  if (!whole) return false;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] = 0;
  for (int c = c0; c <= c1; c++) {
    const float* piece = p.partial + (long)(c * 2 + (Work::first(p, steps, c) >= low ? 0 : 1)) * SUMS * WORKERS + id;
    UNROLL for (int e = 0; e < SUMS; e++) acc[e] += __builtin_nontemporal_load(piece + e * WORKERS);
  }
  return true;
}

// writeOut writes a tile, turned so that a token's numbers lie together, some tokens at a time: the warps lay their columns of Y in lines of
// shared memory, and all write them out 16 bytes a thread. mine is whether the block finishes the warp's rows; of the tile's columns of Y, from skip on,
// 8 << pieces are written, which are a piece of their rows.
template <typename W, int BN>
DEVICE void writeOut(const WideParams& p, float (&acc)[W::SUMS], int tile, u8* lines, const Worker& me, bool mine, int skip, int pieces, const Rest<W>& rest, int piece) {
  Place at = Place::of<BN>(p, tile);
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
    namedBarrierSync(1, WORKERS);
    if (W::CLUSTERS) rest.write(p, part, lines, skip, piece);
    else for (int s = me.id; s < W::LINES << pieces; s += WORKERS) {
      int line = s >> pieces, token = at.xRow + c * W::LINES + line, from = skip + (s & ((1 << pieces) - 1)) * 8;
      if (token >= p.m || column + from >= part.n) continue;
      *(Vec16*)(part.y + (long)token * part.n + column + from) = *(const Vec16*)(lines + line * W::LINE + from * 2);
    }
    namedBarrierSync(1, WORKERS);
  }
}

template <typename Q, int BN> DEVICE void wide(const WideParams& p) {
  using W = WideBlock<Q, BN>;
  constexpr int UNIT = W::UNIT, X_STAGES = W::X_STAGES, STAGES = W::STAGES;
  SHARED static u64 bars[2 * X_STAGES + 2 * STAGES + 2];
  SHARED static float scales[W::CLUSTERS ? BN : 1];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, bar = sharedAddress(bars);
  Stages xs = {ring, bar, bar + 8 * X_STAGES}, ws = {ring + X_STAGES * W::X_STAGE, bar + 16 * X_STAGES, bar + 16 * X_STAGES + 8 * STAGES};
  u8* lines = dynamic + (ws.at - sharedAddress(dynamic)) + STAGES * W::STAGE;
  Exchange<W> exchange = {p.splits, blockX() & ((1 << p.splits) - 1), 0, sharedAddress(lines) + W::LINE * W::LINES + W::HANDED, ws.empty + 8 * STAGES};
  bool clusters = W::CLUSTERS && p.splits > 0 && !p.apart;
  auto together = [&] { // the barriers are made
    barrier();
    launchDependents();
    if (clusters) clusterArriveRelaxed();
  };
  auto staying = [&](const Work& work) { return W::CLUSTERS && work.to - work.from <= X_STAGES; }; // x stays where it is

  if (warp() < 4) { // producers, which need few registers: one thread for x, one for each part of a tile's weights
    setmaxnregDec<W::TEAMS == 2 ? 32 : 40>();
    Work work(p, W::UNITS, !W::CLUSTERS);
    if (warp() == 0) return fetchInput<W, BN>(p, work, xs, staying(work), together);
    if (warp() <= 1 + p.gated) return fetchWeights<W, BN>(p, work, ws, warp() - 1, together);
    together();
    if (clusters && warp() == 3 && lane() == 0) exchange.expect(0), exchange.expect(1);
    if (W::CLUSTERS && p.weight && warp() == 3 && lane() < 4 && work.tile * 128 + lane() * 32 < p.part[0].n) // read from memory at the end, they would take long
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight + work.tile * 128 + lane() * 32));
    return;
  }

  // Meanwhile the others make the barriers, a warp each: lanes would do it one after the other, which takes 2,800 cycles.
  for (int i = ofFirstLane(warp()) - 4; i < 2 * X_STAGES + 2 * STAGES + 2; i += W::TEAMS * WORKERS / 32) {
    xs.init<X_STAGES>(i, 1, WORKERS / 32);
    ws.init<STAGES>(i - 2 * X_STAGES, 1 + p.gated, WORKERS);
    if (i >= 2 * X_STAGES + 2 * STAGES) mbarrierInit(bar + 8 * i, 1);
  }
  mbarrierInitFence();
  together();
  setmaxnregInc<W::TEAMS == 2 ? 112 : 232>();
  Work work(p, W::UNITS, !W::CLUSTERS);
  bool keeps = staying(work);
  gridDependencyWait();
  Worker me = Worker::of<W::TEAMS>();
  if (clusters) clusterWait(); // the others have their barriers ready; both teams wait, or racecheck never ends (docs/lore.md, 121)
  if (W::CLUSTERS && p.pieces) findScales(p, scales, warp() - 4, W::TEAMS * WORKERS / 32); // whose readers meet all warps in handOver
  // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
  // two units, of which the one warpgroup takes the first halves and the other the second.
  u32 top = (p.gated ? me.in * UNIT + me.group * Q::BYTES : (me.group * 4 + me.in) * UNIT);
  u32 halves[2] = {top, top + (p.gated ? 4 * UNIT : Q::BYTES)};
  int team = me.team, pieces = (p.gated ? 3 : 4) - p.splits; // 8 << pieces columns of Y are the block's
  float acc[W::SUMS];
  u32 firstX = ofFirstLane(smemDescriptor(xs.at)); // descriptors are made in uniform registers
  PipelineState<X_STAGES / W::TEAMS> rx; // over stages that are the team's
  PipelineState<STAGES / W::TEAMS> r;
  for (int done = 0; done < work.count; exchange.count++) {
    int tile = W::CLUSTERS ? (blockX() >> p.splits) + exchange.count * (gridX() >> p.splits) : work.tile;
    int n = W::CLUSTERS ? work.to - work.from : mini(work.to - work.step, work.count - done);
    bool head = done == 0;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] = 0;
    int j = (team - done) & (W::TEAMS - 1), shift = keeps ? j : team;
    if (keeps) rx = {};
    for (; j < n; j += W::TEAMS, rx.next(), r.next()) {
      int x = rx.stage * W::TEAMS + shift, w = r.stage * W::TEAMS + team;
      mbarrierWait(xs.full + x * 8, rx.phase);
      mbarrierWait(ws.full + w * 8, r.phase);
      multiplyStep<W, Q>(acc, firstX + ofFirstLane(x) * (W::X_STAGE / 16), ws.at + w * W::STAGE, halves);
      mbarrierArrive(ws.empty + w * 8); // each thread for what it has read; x is read by the warpgroup's products
      if (!keeps && lane() == 0) mbarrierArrive(xs.empty + x * 8);
    }
    done += n;
    if (!W::CLUSTERS) work.step = work.from, work.tile += work.turn;
    me = Worker::of<W::TEAMS>();
    int row = me.row(p.gated);
    if (W::TEAMS == 2 && !handOver(acc, lines + W::LINE * W::LINES, me, exchange.count)) continue;
    Rest<W> rest = {{}, {}, me.id, Place::of<BN>(p, tile).tile * (p.gated ? 64 : 128) + (exchange.rank * 8 << pieces), pieces};
    if (BN < 32) rest.fetch(p); // while sums are on their way; the widest tile has no registers for that
    if (clusters) exchange.add(acc, row, me.lane);
    else if (W::CLUSTERS && p.apart) Apart<W>{p.sums, p.splits, tile, exchange.rank}.add(acc, row, me.lane);
    if (BN == 32) rest.fetch(p);
    if (!W::CLUSTERS && n < work.steps && !streamed(p, acc, tile, work.steps, head, me.id)) continue;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] *= Opener<Q>::COUNT;
    if (W::CLUSTERS && p.pieces) UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] *= scales[e / 4 * 8 + me.lane % 4 * 2 + e % 2];
    writeOut<W, BN>(p, acc, tile, lines, me, exchange.mine(row), exchange.rank * 8 << pieces, pieces, rest, tile << p.splits | exchange.rank);
  }
}
