// Going through the chunks of the delta rules' prompts on Hopper, of keys of 128 numbers and values of a multiple of 64 (chunk_scan.h has what is computed and
// for what else). A block goes through the chunks of 64 columns of the state of a head: one warpgroup computes, one stores rows of what chunks give, and one
// thread loads chunks by TMA, some ahead. The rate of shared memory is what all of them share: so the state, and what is made of it, stay in the registers of
// the warpgroup that computes.
#pragma once
#include "gated_delta_chunks.h"

constexpr int WIDE_THREADS = 3 * 128;
constexpr u64 EVICT_NORMAL = 0x1000000000000000; // of TMA loads
enum { ROWS_THERE = 1, ROWS_READ }; // named barriers of those who compute and those who store rows

// What of a chunk lies in shared memory, in two rings of stages: what the state goes through, and what only the output needs, for longer.
template <Rule R> struct Carried {
  static constexpr int K = 0, AFTER = R == KIMI_DELTA ? 2 * PANEL : K, M = AFTER + 2 * PANEL, V = M + PANEL, FACTORS = V + PANEL, BYTES = FACTORS + 1024;
  static constexpr int STAGES = R == KIMI_DELTA ? 3 : 4;
};
template <Rule R> struct Given { static constexpr int Q = 0, P = 2 * PANEL, BYTES = 3 * PANEL, STAGES = R == KIMI_DELTA ? 2 : 3; };

// Rings is where the stages lie, and their mbarriers: what is full has been loaded, what is free has been read by the threads that compute, or by products
// of their four warps.
template <Rule R> struct Rings {
  using C = Carried<R>;
  using G = Given<R>;
  static constexpr int GIVEN_AT = C::STAGES * C::BYTES, ROWS_AT = GIVEN_AT + G::STAGES * G::BYTES, BARS = 2 * (C::STAGES + G::STAGES);
  u32 stages, bars;

  DEVICE u32 carried(int i) const { return stages + i * C::BYTES; }
  DEVICE u32 given(int i) const { return stages + GIVEN_AT + i * G::BYTES; }
  DEVICE u32 rows() const { return stages + ROWS_AT; }
  DEVICE u32 carriedFull(int i) const { return bars + 8 * i; }
  DEVICE u32 carriedFree(int i) const { return bars + 8 * (C::STAGES + i); }
  DEVICE u32 givenFull(int i) const { return bars + 8 * (2 * C::STAGES + i); }
  DEVICE u32 givenFree(int i) const { return bars + 8 * (2 * C::STAGES + G::STAGES + i); }

  DEVICE void init() const {
    for (int i = 0; i < C::STAGES; i++) mbarrierInit(carriedFull(i), 1), mbarrierInit(carriedFree(i), 128);
    for (int i = 0; i < G::STAGES; i++) mbarrierInit(givenFull(i), 1), mbarrierInit(givenFree(i), 4);
    mbarrierInitFence();
  }
};

// Columns is where a head's queries, keys and 64 values begin in the rows of a tensor map, and which row of it is the sequence's first.
struct Columns {
  const TensorMap* map;
  int q, k, v, row0;
};

// Readiness is which chunks have been prepared, `units` numbers from one to the next; without flags all are.
struct Readiness {
  const u32* flags;
  int units;

  // await waits until chunk n of `chunks` is ready, and says how many then are, of the next 32: a lane asks for one each.
  DEVICE int await(int n, int chunks) const {
    int mine = n + lane();
    u32 missing = -1;
    while (missing & 1) {
      u32 is = 1;
      if (mine < chunks) asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(is) : "l"(flags + mine * units) : "memory");
      asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, -1;\n\t}" : "=r"(missing) : "r"(is) : "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory"); // other blocks wrote what TMA reads
    warpBarrier();
    return missing ? n + __builtin_ctz(missing) : n + 32;
  }
};

// A Loader is one warp, whose first thread loads stages of a ring by TMA. Rows of the last chunk, if it is not whole, all of them load, and zeros behind them.
template <Rule R> struct Loader {
  using C = Carried<R>;
  using G = Given<R>;
  using L = Layout<R>;
  static constexpr bool PREPARED = R == KIMI_DELTA; // queries and keys have been
  const ChunkScan& c;
  const Columns& at;
  const Rings<R>& r;
  const Readiness& ready;

  // rows begins to load what there is of `panels` panels of 64 columns.
  DEVICE void rows(u32 to, const bf16* line, int from, int panels) const {
    for (int i = lane(); i < CHUNK * 8 * panels; i += 32) { // 16 bytes
      int row = i / (8 * panels), x = i % (8 * panels);
      bool in = from + row < c.rows;
      cpAsync16(to + x / 8 * PANEL + swizzled(row, x % 8), line + x * 8 + (in ? (from + row) * c.stride : 0), in);
    }
  }
  // awaitRows waits for them. Each lane arrives for itself, in addition to those that `bar` counts.
  DEVICE void awaitRows(u32 bar) const {
    cpAsyncCommit();
    cpAsyncWait<0>();
    fenceProxyAsync();
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(bar) : "memory");
    warpBarrier();
  }
  // bulk loads what has been prepared, which two blocks read.
  DEVICE void bulk(u32 to, const u8* from, int bytes, u32 bar) const {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(EVICT_NORMAL) : "memory");
  }
  DEVICE void panels(u32 to, int column, int from, u32 bar) const { UNROLL for (int i = 0; i < 2; i++) tmaLoad2D(to + i * PANEL, at.map, column + 64 * i, at.row0 + from, bar, EVICT_NORMAL); }

  DEVICE void carried(u32 to, u32 bar, const u8* prepared, int from, bool issues) const {
    bool whole = from + CHUNK <= c.rows;
    if (!whole) {
      if (!PREPARED) rows(to + C::K, c.k, from, 2);
      rows(to + C::V, c.v, from, 1);
      awaitRows(bar);
    }
    if (!issues) return;
    mbarrierExpectTx(bar, C::BYTES - (whole ? 0 : PREPARED ? PANEL : 3 * PANEL));
    if (PREPARED) bulk(to + C::K, prepared + L::K, 5 * PANEL, bar); // and AFTER and M
    else bulk(to + C::M, prepared + L::M, PANEL, bar);
    bulk(to + C::FACTORS, prepared + L::FACTORS, 1024, bar);
    if (whole) {
      if (!PREPARED) panels(to + C::K, at.k, from, bar);
      tmaLoad2D(to + C::V, at.map, at.v, at.row0 + from, bar, EVICT_FIRST);
    }
  }
  DEVICE void given(u32 to, u32 bar, const u8* prepared, int from, bool issues) const {
    bool whole = from + CHUNK <= c.rows;
    if (!PREPARED && !whole) {
      rows(to + G::Q, c.q, from, 2);
      awaitRows(bar);
    }
    if (!issues) return;
    mbarrierExpectTx(bar, G::BYTES - (PREPARED || whole ? 0 : 2 * PANEL));
    if (PREPARED) bulk(to + G::Q, prepared + L::Q, 2 * PANEL, bar);
    else if (whole) panels(to + G::Q, at.q, from, bar);
    bulk(to + G::P, prepared + L::P, PANEL, bar);
  }

  template <bool CARRIED> DEVICE void load() const {
    bool issues = lane() == 0;
    PipelineState<CARRIED ? C::STAGES : G::STAGES> s;
    const u8* prepared = c.prepared - L::PREPARED;
    int known = 0; // chunks that are known to be ready
    for (int n = 0, from = 0; from < c.rows; n++, from += CHUNK, s.next(), prepared += c.nextPrepared) {
      if (ready.flags && n >= known) known = ready.await(n, ceilDiv(c.rows, CHUNK));
      if (n >= (CARRIED ? C::STAGES : G::STAGES)) mbarrierWait(CARRIED ? r.carriedFree(s.stage) : r.givenFree(s.stage), s.phase ^ 1);
      if (CARRIED) carried(r.carried(s.stage), r.carriedFull(s.stage), prepared, from, issues);
      else given(r.given(s.stage), r.givenFull(s.stage), prepared, from, issues);
      warpBarrier();
    }
  }
};

// WideFactors are the factors of a chunk's rows, of keys and queries with the state and of keys with Δ. Those that a thread multiplies its numbers in sums with
// lie together: of tokens 8i + 2t and 8i + 2t + 1 at x[.][t].
struct WideFactors {
  float x[3][4][20], decay, unused[15];

  DEVICE float& of(int which, int token) { return x[which][token % 8 / 2][token / 8 * 2 + token % 2]; }
};

// loadFactors loads those of a thread; and of Kimi's rule the decays of keys 8i + 2t and the next. Such loads stay behind what is before them, and in order.
DEVICE void loadFactors(float (&x)[CHUNK / 4], u32 factors, int which) {
  u32 at = factors + 80 * (4 * which + lane() % 4);
  UNROLL for (int i = 0; i < CHUNK / 16; i++)
    asm volatile("ld.volatile.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x[4 * i]), "=f"(x[4 * i + 1]), "=f"(x[4 * i + 2]), "=f"(x[4 * i + 3]) : "r"(at + 16 * i) : "memory");
}
DEVICE void loadDecays(float (&x)[MAX_KEY / 4], u32 decays) {
  UNROLL for (int i = 0; i < MAX_KEY / 8; i++)
    asm volatile("ld.volatile.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x[2 * i]), "=f"(x[2 * i + 1]) : "r"(decays + 32 * i + 8 * (lane() % 4)) : "memory");
}
template <int N> DEVICE void multiply(float (&d)[2 * N], const float (&f)[N]) { UNROLL for (int i = 0; i < N / 2; i++) UNROLL for (int e = 0; e < 4; e++) d[4 * i + e] *= f[2 * i + e % 2]; }

// storeMatricesTurned stores four 8 × 8 matrices transposed: lane l gives where column l % 8 of matrix l / 8 lies.
DEVICE void storeMatricesTurned(u32 to, const u32 (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

// computeRows is the warpgroup that computes. Products of a chunk with the state run beside those of the chunk before with Δ, and what is made of results
// between. No sums are in flight from turn to turn of the loop: ptxas would have every product wait.
template <Rule R> DEVICE void computeRows(const ChunkScan& c, const Rings<R>& r) {
  using C = Carried<R>;
  using G = Given<R>;
  constexpr int TILES = CHUNK / 8;
  constexpr bool FACTORS = R != KIMI_DELTA; // of rows; otherwise rows have been multiplied
  float state[MAX_KEY / 2], o[CHUNK / 2], before[CHUNK / 4];
  loadState(state, c);
  int chunks = ceilDiv(c.rows, CHUNK);
  u32 values[CHUNK / 16][4], x[CHUNK / 16][4], out[TILES / 2][4] = {};
  PipelineState<C::STAGES> s;
  PipelineState<G::STAGES> g;
  auto load = [&]() __attribute__((always_inline)) { // what the first products of a chunk are put together with
    loadValues(values, r.carried(s.stage) + C::V);
    if (FACTORS) loadFactors(before, r.carried(s.stage) + C::FACTORS, 0);
  };
  auto keep = [&]() __attribute__((always_inline)) {
    UNROLL for (int i = 0; i < TILES / 2; i++) UNROLL for (int e = 0; e < 4; e++)
      out[i][e] = pack(o[4 * (2 * i + e / 2) + e % 2 * 2], o[4 * (2 * i + e / 2) + e % 2 * 2 + 1]);
  };
  auto give = [&]() __attribute__((always_inline)) { // what a chunk gives goes to those who store it
    namedBarrierSync(ROWS_READ, 256);
    UNROLL for (int i = 0; i < TILES / 2; i++)
      storeMatricesTurned(r.rows() + swizzled(8 * (2 * i + lane() / 16) + lane() % 8, firstColumn() / 8 + lane() / 8 % 2), out[i]);
    namedBarrierArrive(ROWS_THERE, 256);
  };
  float delta[CHUNK / 2], after[CHUNK / 4], query[CHUNK / 4];
  // startChunk multiplies with the state before chunk n, up to Δ = M (V - diag(before) K S) and o = diag(query) Q S; what chunk n - 1 gives may still be in
  // flight.
  auto startChunk = [&](int n) __attribute__((always_inline)) {
    u32 a[MAX_KEY / 16][4];
    float ks[CHUNK / 2], decays[MAX_KEY / 4];
    u32 carried = r.carried(s.stage), factors = carried + C::FACTORS;
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) operand(a[k], state, k);
    startProducts();
    productRows(ks, a, carried + C::K, PANEL, false);
    commitProducts();
    if (n > 0) {
      waitProducts<1>();
      settle(o);
      if (lane() == 0) mbarrierArrive(r.givenFree(g.stage));
      keep();
      g.next();
    }
    mbarrierWait(r.givenFull(g.stage), g.phase);
    startProducts();
    productRows(o, a, r.given(g.stage) + G::Q, PANEL, false);
    commitProducts();
    waitProducts<1>();
    settle(ks);
    UNROLL for (int k = 0; k < CHUNK / 16; k++) {
      UNROLL for (int e = 0; e < 4; e++) {
        int i = 2 * k + e / 2, at = 8 * k + 2 * e;
        float k0 = ks[at], k1 = ks[at + 1];
        if (FACTORS) k0 *= before[2 * i], k1 *= before[2 * i + 1];
        x[k][e] = pack(low(values[k][e]) - k0, high(values[k][e]) - k1);
      }
    }
    startProducts();
    productRows(delta, x, carried + C::M, 0, false);
    commitProducts();
    if (FACTORS) {
      asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(decays[0]) : "r"(factors + 4 * 240) : "memory");
      loadFactors(after, factors, 2);
      loadFactors(query, factors, 1);
      UNROLL for (int i = 0; i < MAX_KEY / 2; i++) state[i] *= decays[0];
    } else {
      loadDecays(decays, factors);
      multiply(state, decays);
    }
    settle(state);
    waitProducts<0>();
    settle(delta);
    settle(o);
  };
  // finishChunk starts the last products of a chunk: of the state, and of what it gives; what the chunk before gave is given away meanwhile.
  auto finishChunk = [&](bool last) __attribute__((always_inline)) {
    u32 y[CHUNK / 16][4];
    u32 carried = r.carried(s.stage), given = r.given(g.stage);
    UNROLL for (int k = 0; k < CHUNK / 16; k++) {
      UNROLL for (int e = 0; e < 4; e++) {
        int i = 2 * k + e / 2, at = 8 * k + 2 * e;
        y[k][e] = FACTORS ? pack(delta[at] * after[2 * i], delta[at + 1] * after[2 * i + 1]) : pack(delta[at], delta[at + 1]);
      }
    }
    startProducts();
    productLines(state, y, carried + C::AFTER, PANEL);
    commitProducts();
    UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(x[k], delta, k);
    if (FACTORS) multiply(o, query);
    startProducts();
    productRows(o, x, given + G::P, 0, true);
    commitProducts();
    give();
    if (!last) {
      s.next();
      mbarrierWait(r.carriedFull(s.stage), s.phase);
      load();
    }
  };
  mbarrierWait(r.carriedFull(0), 0);
  load();
  startChunk(0);
  for (int n = 1; n < chunks; n++) {
    finishChunk(false);
    waitProducts<1>();
    settle(state);
    mbarrierArrive(r.carriedFree(s.stage == 0 ? C::STAGES - 1 : s.stage - 1)); // every reader for itself, as racecheck wants it
    startChunk(n);
  }
  finishChunk(true);
  waitProducts<0>();
  settle(state);
  settle(o);
  keep();
  give();
  storeState(state, c);
}

// storeRows is the warpgroup that stores what chunks give, rows as a whole.
template <Rule R> DEVICE void storeRows(const ChunkScan& c, const Rings<R>& r) {
  int thread = threadX() % 128, row0 = thread / 8, chunk = thread % 8;
  bf16* y = c.y + row0 * c.yStride + chunk * 8;
  namedBarrierSync(ROWS_READ, 256);
  namedBarrierSync(ROWS_THERE, 256); // before the first chunk there is nothing
  for (int row = row0; row - row0 < c.rows; row += CHUNK, y += CHUNK * c.yStride) {
    Vec16 lines[4];
    namedBarrierSync(ROWS_READ, 256);
    namedBarrierSync(ROWS_THERE, 256);
    UNROLL for (int i = 0; i < 4; i++) {
      u32(&x)[4] = lines[i].x;
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(r.rows() + swizzled(row0 + 16 * i, chunk)) : "memory");
    }
    UNROLL for (int i = 0; i < 4; i++)
      if (row + 16 * i < c.rows) *(Vec16*)(y + 16 * i * c.yStride) = lines[i];
  }
}

// goThrough is the work of a block of WIDE_THREADS or more: columns column0 to column0 + 63 of the state of head h of sequence s. q, k, v: where these begin in
// rows of the tensor map.
template <Rule R> DEVICE void goThrough(const DeltaChunksParams& c, const TensorMap* map, int q, int k, int v, int s, int h, int column0, const Readiness& ready) {
  SHARED static u64 bars[Rings<R>::BARS];
  using L = Layout<R>;
  const DeltaParams& p = c.delta;
  int group = uniform(warp()) / 4;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from == 1) return;
  Rings<R> rings = {sharedAddress(dynamic), sharedAddress(bars)};
  if (threadX() == 0) rings.init();
  barrier();
  ChunkScan work = {};
  work.q = p.query<bf16>(seq.from, h), work.k = p.key<bf16>(seq.from, h), work.v = p.value<bf16>(seq.from, h) + column0, work.stride = p.stride;
  work.y = (bf16*)p.y + ((long)seq.from * p.valueHeads + h) * p.valueSize + column0, work.yStride = (long)p.valueHeads * p.valueSize;
  work.state = seq.state + h * size + column0, work.byKey = p.valueSize, work.byColumn = 1;
  work.keySize = p.keySize, work.columns = 64, work.rows = seq.to - seq.from, work.fresh = seq.fresh;
  work.prepared = c.scratch + ((long)firstChunk(p.step, s) * p.valueHeads + h) * L::PREPARED_BYTES, work.nextPrepared = (long)p.valueHeads * L::PREPARED_BYTES;
  if (group == 0) {
    setmaxnregInc<240>();
    computeRows<R>(work, rings);
  } else if (group == 1) {
    setmaxnregDec<56>();
    storeRows<R>(work, rings);
  } else {
    setmaxnregDec<40>();
    int head = p.keyHead(h) * MAX_KEY;
    Columns at = {map, q + head, k + head, v + h * p.valueSize + column0, seq.from};
    Loader<R> loader = {work, at, rings, ready};
    if (warp() == 8) loader.template load<true>();
    if (warp() == 9) loader.template load<false>();
  }
}
