// The linear layer on packed weights for more than a few rows of x, on Hopper: a thread each keeps the copy engine fetching tiles of x and
// units of weights into rings of shared memory; pairs of warpgroups open the units in registers, which are the A operand of their products,
// and take x from shared memory.
//
// For up to 32 rows the blocks of a cluster cut the columns of a tile between them, and send each other their sums. For more work is dealt
// out as in gemm.h: whole tiles, or a stream of steps in equal runs, whose pieces of a tile go through memory.
#pragma once
#include "../hopper.h"
#include "opened.h"

struct WideParams {
  TensorMap x; // [rows, k]
  PackedPart part[3];
  float* partial; // stream: two tiles a block
  int* arrived;   // stream: [tiles] zeros
  int m, k, parts, fn;
  int rowTiles, tiles, stream; // tiles of x, tiles in all, how work is dealt out
  int gated; // the two parts are the gate and the up matrix; a tile has 64 rows of each
  int splits; // blocks of a cluster, as a power of two
};

constexpr int WORKERS = 256; // threads of two warpgroups, a team: 64 of a tile's rows each

// WideBlock is how a block for tiles of BN tokens works.
template <typename Q, int BN> struct WideBlock {
  static constexpr bool CLUSTERS = BN <= 32;
  static constexpr int TEAMS = BN <= 32 ? 2 : 1;  // two, with half of a step's columns each, where registers allow: four warps hide each other's latencies
  static constexpr int UNITS = BN <= 128 ? 2 : 1; // of columns in a step
  static constexpr int SIDES = 2 * UNITS / TEAMS; // boxes of 64 columns that a team takes of a step
  static constexpr int BOX = BN * 128, X_STAGE = 2 * UNITS * BOX;                // of x: 64 columns; a step's
  static constexpr int UNIT = 2 * Q::BYTES, STAGE = UNITS * SLAB * UNIT;         // a step's weights
  static constexpr int LINE = 128 * 2 + 16, LINES = BN < 32 ? BN : 32;           // the epilogue's, in bytes and tokens
  static constexpr int SUMS = BN / 2;                                            // of a thread
  static constexpr int HANDED = (TEAMS - 1) * SUMS * WORKERS * 4;                // the second team's sums
  static constexpr int SENT = SUMS * 32 * 4, INBOX = CLUSTERS ? 7 * SENT : 0;    // a warp's sums; those that come from other blocks: there are two boxes
  static constexpr int ROOM = 224 * 1024 - LINE * LINES - HANDED - 2 * INBOX;    // for both rings
  static constexpr int EVEN = ROOM / (X_STAGE + STAGE) < 12 ? ROOM / (X_STAGE + STAGE) : 12;
  static constexpr int KEPT = BN < 32 ? 128 / BN : STAGE > 20480 ? 4 : 5;        // steps' x that stay there where a block's tiles have no more
  static constexpr int X_STAGES = CLUSTERS ? KEPT : EVEN, STAGES = CLUSTERS ? (ROOM - X_STAGES * X_STAGE) / STAGE : EVEN;
  static_assert(STAGES >= 2);
};

// Work is a block's share: count steps in a row, from a step of a tile on; of each tile steps from to to-1. It is walked by increments: a
// division a step would cost more than the step.
struct Work {
  int steps, from, to, count, tile, step, turn; // steps: of a tile; turn: from one tile to the next
  DEVICE Work(const WideParams& p, int units) { // of a step
    steps = to = unitsOf(p.k) / units, from = 0;
    if (p.stream) {
      int start = first(p, steps, blockX());
      count = first(p, steps, blockX() + 1) - start;
      tile = start / steps, step = start % steps, turn = 1;
    } else {
      int rank = blockX() & ((1 << p.splits) - 1);
      from = steps * rank >> p.splits, to = steps * (rank + 1) >> p.splits;
      tile = blockX() >> p.splits, step = from, turn = gridX() >> p.splits;
      count = tile < p.tiles ? ceilDiv(p.tiles - tile, turn) * (to - from) : 0;
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
    at.xRow = tile % p.rowTiles * BN;
    at.tile = tile / p.rowTiles;
    at.part = 0;
    if (!p.gated)
      while (at.part + 1 < p.parts && at.tile >= p.part[at.part].tiles) at.tile -= p.part[at.part++].tiles;
    return at;
  }
};

// ofFirstLane is what all lanes hold alike, so that the compiler knows.
DEVICE int ofFirstLane(int v) {
  int d;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, -1;" : "=r"(d) : "r"(v));
  return d;
}
DEVICE void fetchUnits(u32 to, const u8* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(KEEP_SHORT) : "memory");
}

// Stages is a ring in shared memory: of x, boxes, or of weights, units.
struct Stages {
  u32 at, full, empty; // empty, full: barriers
  // init makes the nth of all these barriers; full ones come first.
  template <int COUNT> DEVICE void init(int nth, int writers, int readers) const {
    if (nth >= 0 && nth < 2 * COUNT) barrierInit(full + 8 * nth, nth < COUNT ? writers : readers);
  }
};

// fetchInput brings x, fetchWeights a part's weights, by one thread each.
template <typename W, int BN> DEVICE void fetchInput(const WideParams& p, Work& work, const Stages& s, bool keeps) {
  Place at = Place::of<BN>(p, work.tile);
  awaitInput();
  Ring<W::X_STAGES> r;
  for (int i = 0, count = keeps ? mini(work.to - work.from, work.count) : work.count; i < count; i++, r.next()) {
    if (i >= W::X_STAGES) barrierWait(s.empty + r.stage * 8, r.phase ^ 1);
    barrierExpect(s.full + r.stage * 8, W::X_STAGE);
    fetchBox3(s.at + r.stage * W::X_STAGE, &p.x, 0, at.xRow, work.step * 2 * W::UNITS, s.full + r.stage * 8);
    if (work.next()) at = Place::of<BN>(p, work.tile);
  }
}
template <typename W, int BN> DEVICE void fetchWeights(const WideParams& p, Work& work, const Stages& s, int second) { // they do not wait for the launch before this one
  constexpr int HALF = SLAB / 2 * W::UNIT;
  Place at = Place::of<BN>(p, work.tile);
  auto find = [&] { // a gated tile has half a slab of each part
    return p.gated ? p.part[second].w + ((long)(at.tile / 2) * work.steps + work.step) * W::STAGE + at.tile % 2 * HALF
                   : p.part[at.part].w + ((long)at.tile * work.steps + work.step) * W::STAGE;
  };
  const u8* from = find();
  Ring<W::STAGES> r;
  for (int i = 0; i < work.count; i++, r.next()) {
    u32 to = s.at + r.stage * W::STAGE, bar = s.full + r.stage * 8;
    if (i >= W::STAGES) barrierWait(s.empty + r.stage * 8, r.phase ^ 1);
    if (p.gated) {
      barrierExpect(bar, W::STAGE / 2);
      UNROLL for (int u = 0; u < W::UNITS; u++) fetchUnits(to + (2 * u + second) * HALF, from + 2 * u * HALF, HALF, bar);
    } else {
      barrierExpect(bar, W::STAGE);
      fetchUnits(to, from, W::STAGE, bar);
    }
    from += W::STAGE;
    if (work.next()) at = Place::of<BN>(p, work.tile), from = find();
  }
}

// Worker is which of a block's threads that multiply one is.
struct Worker {
  int team, id, group, in; // id: of the team; group: its warpgroup; in: the warp of that
  template <int TEAMS> static DEVICE Worker of() {
    int n = threadX() - 128;
    return {TEAMS == 2 ? ofFirstLane(n / WORKERS) : 0, n % WORKERS, n % WORKERS / 128, warp() % 4};
  }
};

// multiplyStep adds the products of a step's x and weights: halves is where the two halves of the warp's rows lie among these.
template <typename W, typename Q> DEVICE void multiplyStep(float (&acc)[W::SUMS], u32 x, u32 stage, const u32 (&halves)[2], int team) {
  x += team * (W::SIDES * W::BOX);
  Q q[2];
  u32 a[2][4][4]; // one is opened while the other is multiplied
  UNROLL for (int side = 0; side < W::SIDES; side++) {
    if (side % 2 == 0)
      UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{stage + halves[h] + side / 2 * (SLAB * W::UNIT)});
    if (side >= 2) productWait<1>();
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
    productFence();
    UNROLL for (int k = 0; k < 4; k++) opened(acc, a[side % 2][k], operand(x + side * W::BOX) + 2 * k);
    productCommit();
  }
  productWait<0>();
  UNROLL for (int e = 0; e < W::SUMS; e++) asm volatile("" : "+f"(acc[e])::"memory");
}

// handOver gives the second team's sums to the first; it is whether the thread goes on with them.
template <int SUMS> DEVICE bool handOver(float (&acc)[SUMS], u8* room, const Worker& me, bool first, bool last) {
  float* handed = (float*)room + me.id;
  if (me.team == 1) {
    if (!first) namedBarrier(5, 2 * WORKERS); // those of the tile before have been taken
    UNROLL for (int e = 0; e < SUMS; e++) handed[e * WORKERS] = acc[e];
    namedArrive(4, 2 * WORKERS);
    return false;
  }
  namedBarrier(4, 2 * WORKERS);
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] += handed[e * WORKERS];
  if (!last) namedArrive(5, 2 * WORKERS);
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
  namedBarrier(3, WORKERS);
  if (id == 0) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + tile) : "memory");
    isLast = before == c1 - c0;
    if (isLast) p.arrived[tile] = 0;
  }
  namedBarrier(3, WORKERS);
  bool whole = isLast;
  namedBarrier(3, WORKERS); // nobody writes isLast again before all have read it
  if (!whole) return false;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  UNROLL for (int e = 0; e < SUMS; e++) acc[e] = 0;
  for (int c = c0; c <= c1; c++) {
    const float* piece = p.partial + (long)(c * 2 + (Work::first(p, steps, c) >= low ? 0 : 1)) * SUMS * WORKERS + id;
    UNROLL for (int e = 0; e < SUMS; e++) acc[e] += __builtin_nontemporal_load(piece + e * WORKERS);
  }
  return true;
}

// Exchange is how the blocks of a cluster add up their sums of a tile: each finishes an equal part of its warps' rows, and all others send it theirs.
// A block has two inboxes, for tiles by turns: who sends for a tile has what it needed of the others for the tile before, and these
// had finished the one before that.
template <typename W> struct Exchange {
  int splits, rank, count; // count: of tiles
  u32 inbox, filled;       // filled: a barrier for each inbox
  DEVICE int senders() const { return (1 << splits) - 1; }
  DEVICE int warps() const { return 8 >> splits; } // that a block finishes the rows of
  DEVICE bool mine(int row) const { return row >> (3 - splits) == rank; } // row: of a tile's eight times 16
  DEVICE void expect(int box) const { barrierExpect(filled + box * 8, senders() * warps() * W::SENT); }
  // add sends a warp's sums to the block that finishes them, or adds what the others have sent.
  DEVICE void add(float (&acc)[W::SUMS], int row) {
    int box = count & 1, owner = row >> (3 - splits), nth = row & (warps() - 1);
    u32 at = inbox + box * W::INBOX + lane() * 16, bar = filled + box * 8;
    if (owner != rank) {
      u32 there, barThere;
      at += ((rank - (rank > owner)) * warps() + nth) * W::SENT;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(owner));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barThere) : "r"(bar), "r"(owner));
      UNROLL for (int e = 0; e < W::SUMS; e += 4)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                     ::"r"(there + e * 128), "f"(acc[e]), "f"(acc[e + 1]), "f"(acc[e + 2]), "f"(acc[e + 3]), "r"(barThere) : "memory");
    } else {
      barrierWait(bar, count / 2 & 1);
      if (nth == 0 && lane() == 0) expect(box);
      for (int s = 0; s < senders(); s++) UNROLL for (int e = 0; e < W::SUMS; e += 4) {
        Vec16 four = InShared{at + (s * warps() + nth) * W::SENT}.four(e * 128);
        UNROLL for (int i = 0; i < 4; i++) acc[e + i] += __builtin_bit_cast(float, four.x[i]);
      }
    }
    count++;
  }
};

// writeOut writes a tile, turned so that a token's numbers lie together, some tokens at a time: the warps lay their columns of Y in lines of
// shared memory, and all write them out 16 bytes a thread. row is which of the tile's eight times 16 rows the warp has; of its columns of Y,
// from skip on, 8 << pieces are written.
template <typename W, int BN> DEVICE void writeOut(const WideParams& p, float (&acc)[W::SUMS], int tile, u8* lines, int id, int row, bool mine, int skip, int pieces) {
  Place at = Place::of<BN>(p, tile);
  const PackedPart& part = p.part[at.part];
  int g = lane() / 4, t = lane() % 4, first = row * (p.gated ? 8 : 16), column = at.tile * (p.gated ? 64 : 128);
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
    namedBarrier(1, WORKERS);
    for (int s = id; s < W::LINES << pieces; s += WORKERS) {
      int line = s >> pieces, token = at.xRow + c * W::LINES + line, from = skip + (s & ((1 << pieces) - 1)) * 8;
      if (token >= p.m || column + from >= part.n) continue;
      *(Vec16*)(part.y + (long)token * part.n + column + from) = *(const Vec16*)(lines + line * W::LINE + from * 2);
    }
    namedBarrier(1, WORKERS);
  }
}

template <typename Q, int BN> DEVICE void wide(const WideParams& p) {
  using W = WideBlock<Q, BN>;
  constexpr int UNIT = W::UNIT, X_STAGES = W::X_STAGES, STAGES = W::STAGES;
  SHARED static u64 bars[2 * X_STAGES + 2 * STAGES + 2];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, bar = sharedAddress(bars);
  Stages xs = {ring, bar, bar + 8 * X_STAGES}, ws = {ring + X_STAGES * W::X_STAGE, bar + 16 * X_STAGES, bar + 16 * X_STAGES + 8 * STAGES};
  u8* lines = dynamic + (ws.at - sharedAddress(dynamic)) + STAGES * W::STAGE;
  Exchange<W> exchange = {p.splits, blockX() & ((1 << p.splits) - 1), 0, sharedAddress(lines) + W::LINE * W::LINES + W::HANDED, ws.empty + 8 * STAGES};
  bool clusters = W::CLUSTERS && p.splits > 0;
  int box = threadX() - 2 * X_STAGES - 2 * STAGES; // of Exchange, whose barriers come last
  if (box < 2) { // a thread a barrier: one after the other would take as long as a step
    xs.init<X_STAGES>(threadX(), 1, W::TEAMS * WORKERS / 32);
    ws.init<STAGES>(threadX() - 2 * X_STAGES, 1 + p.gated, W::TEAMS * WORKERS);
    if (box >= 0) barrierInit(exchange.filled + 8 * box, 1);
    barrierInitDone();
  }
  barrier();
  if (clusters && (box == 0 || box == 1)) exchange.expect(box);
  releaseNext();
  if (clusters) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  Work work(p, W::UNITS);
  bool keeps = W::CLUSTERS && work.to - work.from <= X_STAGES; // x stays where it is

  if (warp() < 4) { // producers, which need few registers: one thread for x, one for each part of a tile's weights
    keepRegisters<W::TEAMS == 2 ? 24 : 40>();
    if (lane() != 0 || warp() > 1 + p.gated) return;
    if (warp() == 0) fetchInput<W, BN>(p, work, xs, keeps);
    else fetchWeights<W, BN>(p, work, ws, warp() - 1);
    return;
  }

  takeRegisters<W::TEAMS == 2 ? 112 : 232>();
  awaitInput();
  Worker me = Worker::of<W::TEAMS>();
  if (clusters && me.team == 0) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); // the others have their barriers ready
  // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
  // two units, of which the one warpgroup takes the first halves and the other the second.
  u32 top = (p.gated ? me.in * UNIT + me.group * Q::BYTES : (me.group * 4 + me.in) * UNIT) + me.team * (SLAB * UNIT);
  u32 halves[2] = {top, top + (p.gated ? 4 * UNIT : Q::BYTES)};
  int row = p.gated ? me.in * 2 + me.group : me.group * 4 + me.in, pieces = (p.gated ? 3 : 4) - p.splits; // 8 << pieces columns of Y are the block's
  float acc[W::SUMS];
  Ring<X_STAGES> rx;
  Ring<STAGES> r;
  for (int done = 0; done < work.count;) {
    int tile = work.tile, n = mini(work.to - work.step, work.count - done);
    bool head = done == 0;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] = 0;
    if (keeps) rx = {};
    for (int j = 0; j < n; j++, rx.next(), r.next()) {
      barrierWait(xs.full + rx.stage * 8, rx.phase);
      barrierWait(ws.full + r.stage * 8, r.phase);
      multiplyStep<W, Q>(acc, xs.at + rx.stage * W::X_STAGE, ws.at + r.stage * W::STAGE, halves, me.team);
      barrierArrive(ws.empty + r.stage * 8); // each thread for what it has read; x is read by the warpgroup's products
      if (!keeps && lane() == 0) barrierArrive(xs.empty + rx.stage * 8);
    }
    done += n, work.step = work.from, work.tile += work.turn;
    if (W::TEAMS == 2 && !handOver(acc, lines + W::LINE * W::LINES, me, head, done == work.count)) continue;
    if (clusters) exchange.add(acc, row);
    if (!W::CLUSTERS && n < work.steps && !streamed(p, acc, tile, work.steps, head, me.id)) continue;
    UNROLL for (int e = 0; e < W::SUMS; e++) acc[e] *= Opener<Q>::COUNT;
    writeOut<W, BN>(p, acc, tile, lines, me.id, row, exchange.mine(row), exchange.rank * 8 << pieces, pieces);
  }
}
