// The gated delta rule of prompts on Hopper, of keys of 128 numbers and values of a multiple of 64 (gated_delta_chunks.cu has the rule). A block goes through
// the chunks of 64 columns of the state of a head: one warpgroup carries the state from chunk to chunk, one makes what chunks give, and one thread loads chunks by
// TMA, some stages ahead. Copies by threads (cp.async), and results stored in pieces of 16 bytes, took L1 and shared memory to three quarters of their rate.
#if __CUDA_ARCH__ >= 900
#include "gated_delta_heads.h"

struct WideParams {
  TensorMap rows; // of queries, keys and values, in boxes of 64 rows of 64 numbers
  DeltaChunksParams chunks;
  int k, v; // where keys and values begin in a row
  int pairs, unused; // of value heads of a key head
};

// Blocks are as they were measured: the last three warpgroups, of which one warp loads, give their registers to the first two.
constexpr int WIDE_THREADS = 5 * 128, STAGE_THREADS = 256 + 32; // STAGE_THREADS: with the warp that loads
// Where the state and what a chunk gives lie in shared memory.
constexpr int STATE_AT = 3 * L::BYTES, OUTPUT_AT = STATE_AT + 2 * PANEL;
enum { OUTPUT = 9 }; // a named barrier beside those of chunk_scan.h, of those who make what chunks give

// A block is a chunk and two value heads of a key head. The last of four warps has more to do than the first, and each has a scheduler of its own: blocks have
// them in another order each.
KERNEL(128, 6) gated_delta_wide_prepare(PARAM WideParams c) {
  launchDependentsAndWait();
  prepareHeads(c.chunks, *(HeadsShared*)dynamic, blockX(), blockY() / c.pairs, blockY() % c.pairs, (threadX() + 32 * blockX()) % 128);
}

constexpr u64 EVICT_NORMAL = 0x1000000000000000;

// loadStages is one warp, whose first thread loads chunks by TMA. Of the last one, if it is not whole, all load rows, and zeros behind them.
DEVICE void loadStages(const WideParams& p, const ChunkScan& c, int row0, int q, int k, int v, u32 stages, u32 full) {
  bool issues = lane() == 0;
  PipelineState<3> s;
  for (int n = 0, from = 0; from < c.rows; n++, from += CHUNK, s.next()) {
    u32 to = stages + s.stage * L::BYTES, bar = full + 8 * s.stage;
    if (n >= 3) namedBarrierSync(1 + s.stage, STAGE_THREADS);
    bool whole = from + CHUNK <= c.rows;
    if (whole && issues) {
      mbarrierExpectTx(bar, L::BYTES);
      UNROLL for (int i = 0; i < 2; i++) {
        tmaLoad2D(to + L::K + i * PANEL, &p.rows, k + 64 * i, row0 + from, bar, EVICT_NORMAL);
        tmaLoad2D(to + L::Q + i * PANEL, &p.rows, q + 64 * i, row0 + from, bar, EVICT_NORMAL);
      }
      tmaLoad2D(to + L::V, &p.rows, v, row0 + from, bar, EVICT_FIRST);
    }
    if (!whole) {
      for (int i = lane(); i < CHUNK * 40; i += 32) { // 16 bytes
        int row = i / 40, at = i % 40;
        bool in = from + row < c.rows;
        const bf16* line = (at < 16 ? c.q + at * 8 : at < 32 ? c.k + (at - 16) * 8 : c.v + (at - 32) * 8) + (in ? (from + row) * c.stride : 0);
        u32 panel = at < 16 ? L::Q + at / 8 * PANEL : at < 32 ? L::K + at / 8 % 2 * PANEL : L::V;
        cpAsync16(to + panel + swizzled(row, at % 8), line, in);
      }
      cpAsyncCommit();
      cpAsyncWait<0>();
      fenceProxyAsync();
      warpBarrier();
      if (issues) mbarrierExpectTx(bar, L::PREPARED_BYTES);
    }
    if (issues) tmaLoadBulk(to + L::PREPARED, c.prepared + n * c.nextPrepared, L::PREPARED_BYTES, bar);
    warpBarrier();
  }
}

// loadBehind keeps a load behind what is before it, and in order.
DEVICE float loadBehind(u32 at) {
  float x;
  asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return x;
}

// carryState is the warpgroup that holds the state. Δ takes the place of a chunk's values.
DEVICE void carryState(const ChunkScan& c, u32 stages, u32 full) {
  constexpr int TILES = CHUNK / 8;
  float state[MAX_KEY / 2];
  loadState(state, c);
  int chunks = ceilDiv(c.rows, CHUNK);
  u32 x[CHUNK / 16][4], stateAt = stages + STATE_AT;
  PipelineState<3> s;
  mbarrierWait(full, 0);
  loadValues(x, stages + L::V);
  for (int n = 0; n < chunks; n++) {
    u32 at = stages + s.stage * L::BYTES, mine = at + L::FACTORS + 8 * (lane() % 4);
    auto factor = [&](int which, int i) __attribute__((always_inline)) { return loadBehind(mine + 4 * (which * CHUNK + 8 * (i / 2) + i % 2)); };
    u32 a[MAX_KEY / 16][4], y[CHUNK / 16][4];
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) operand(a[k], state, k);
    float ks[CHUNK / 2], f[2 * TILES];
    startProducts();
    productRows(ks, a, at + L::K, PANEL, false);
    commitProducts();
    if (n > 0) namedBarrierSync(STATE_READ, 256);
    storeOperands(stateAt, a);
    namedBarrierArrive(STATE_THERE, 256);
    UNROLL for (int i = 0; i < 2 * TILES; i++) f[i] = factor(0, i);
    waitProducts<0>();
    settle(ks);
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
      u32& v = x[i / 2][i % 2 * 2 + h];
      v = pack(low(v) - f[2 * i] * ks[4 * i + 2 * h], high(v) - f[2 * i + 1] * ks[4 * i + 2 * h + 1]);
    }
    float delta[CHUNK / 2];
    startProducts();
    productRows(delta, x, at + L::M, 0, false);
    commitProducts();
    float decay = loadBehind(at + L::FACTORS + 4 * 3 * CHUNK);
    UNROLL for (int i = 0; i < 2 * TILES; i++) f[i] = factor(2, i);
    UNROLL for (int i = 0; i < MAX_KEY / 2; i++) state[i] *= decay;
    waitProducts<0>();
    settle(delta);
    UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(x[k], delta, k);
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) delta[4 * i + e] *= f[2 * i + e % 2];
    UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(y[k], delta, k);
    startProducts();
    productLines(state, y, at + L::K, PANEL);
    commitProducts();
    namedBarrierSync(CHAIN, 128); // all values have been read
    storeOperands(at + L::V, x);
    fenceProxyAsync(); // values of another chunk will come there
    namedBarrierArrive(DELTA_THERE + n % 2, 256);
    int stage = s.stage;
    s.next();
    if (n + 1 < chunks) {
      mbarrierWait(full + 8 * s.stage, s.phase);
      loadValues(x, stages + s.stage * L::BYTES + L::V);
    }
    waitProducts<0>();
    settle(state);
    if (n + 3 < chunks) namedBarrierArrive(1 + stage, STAGE_THREADS);
  }
  storeState(state, c);
}

// storeMatricesTurned stores four 8 × 8 matrices transposed: lane l gives where column l % 8 of matrix l / 8 lies.
DEVICE void storeMatricesTurned(u32 to, const u32 (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

// giveRows is the warpgroup that makes what chunks give, O. It goes through shared memory, so that rows are stored as a whole.
DEVICE void giveRows(const ChunkScan& c, u32 stages, u32 full) {
  constexpr int TILES = CHUNK / 8;
  int chunks = ceilDiv(c.rows, CHUNK), thread = threadX() % 128, row0 = thread / 8, chunk = thread % 8;
  u32 stateAt = stages + STATE_AT, outAt = stages + OUTPUT_AT;
  PipelineState<3> s;
  bf16* y = c.y + row0 * c.yStride + chunk * 8;
  u32 out[TILES / 2][4] = {};
  auto store = [&](int n) __attribute__((always_inline)) { // of chunk n, behind the barrier that says that all have read what was there
    UNROLL for (int i = 0; i < TILES / 2; i++)
      storeMatricesTurned(outAt + swizzled(8 * (2 * i + lane() / 16) + lane() % 8, firstColumn() / 8 + lane() / 8 % 2), out[i]);
    namedBarrierSync(OUTPUT, 128);
    UNROLL for (int i = 0; i < 4; i++) {
      Vec16 line;
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(line.x[0]), "=r"(line.x[1]), "=r"(line.x[2]), "=r"(line.x[3]) : "r"(outAt + swizzled(row0 + 16 * i, chunk)) : "memory");
      if (n * CHUNK + row0 + 16 * i < c.rows) *(Vec16*)(y + 16 * i * c.yStride) = line;
    }
    y += CHUNK * c.yStride;
  };
  for (int n = 0; n < chunks; n++, s.next()) {
    u32 at = stages + s.stage * L::BYTES, mine = at + L::FACTORS + 4 * CHUNK + 8 * (lane() % 4);
    u32 a[MAX_KEY / 16][4], x[CHUNK / 16][4];
    float o[CHUNK / 2];
    mbarrierWait(full + 8 * s.stage, s.phase);
    namedBarrierSync(STATE_THERE, 256);
    loadOperands(a, stateAt);
    startProducts();
    productRows(o, a, at + L::Q, PANEL, false);
    commitProducts();
    if (n > 0) store(n - 1);
    if (n + 1 < chunks) namedBarrierArrive(STATE_READ, 256);
    float f[2 * TILES];
    UNROLL for (int i = 0; i < 2 * TILES; i++) f[i] = loadBehind(mine + 4 * (8 * (i / 2) + i % 2));
    waitProducts<0>();
    settle(o);
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) o[4 * i + e] *= f[2 * i + e % 2];
    namedBarrierSync(DELTA_THERE + n % 2, 256);
    loadOperands(x, at + L::V);
    startProducts();
    productRows(o, x, at + L::P, 0, true);
    commitProducts();
    waitProducts<0>();
    settle(o);
    if (n + 3 < chunks) namedBarrierArrive(1 + s.stage, STAGE_THREADS);
    UNROLL for (int i = 0; i < TILES / 2; i++) UNROLL for (int e = 0; e < 4; e++)
      out[i][e] = pack(o[4 * (2 * i + e / 2) + e % 2 * 2], o[4 * (2 * i + e / 2) + e % 2 * 2 + 1]);
    namedBarrierSync(OUTPUT, 128);
  }
  store(chunks - 1);
}

KERNEL(WIDE_THREADS, 1) gated_delta_wide_chunks(PARAM WideParams c) {
  SHARED static u64 loaded[3];
  launchDependentsAndWait();
  const DeltaParams& p = c.chunks.delta;
  int s = blockZ(), h = blockY(), column0 = blockX() * 64, group = uniform(warp()) / 4;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from == 1) return;
  u32 stages = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(loaded);
  if (threadX() == 0)
    for (int i = 0; i < 3; i++) mbarrierInit(full + 8 * i, 1);
  mbarrierInitFence();
  barrier();
  ChunkScan work = {};
  work.q = p.query<bf16>(seq.from, h), work.k = p.key<bf16>(seq.from, h), work.v = p.value<bf16>(seq.from, h) + column0, work.stride = p.stride;
  work.y = (bf16*)p.y + ((long)seq.from * p.valueHeads + h) * p.valueSize + column0, work.yStride = (long)p.valueHeads * p.valueSize;
  work.state = seq.state + h * size + column0, work.byKey = p.valueSize, work.byColumn = 1;
  work.keySize = p.keySize, work.columns = 64, work.rows = seq.to - seq.from, work.fresh = seq.fresh;
  work.prepared = c.chunks.scratch + ((long)firstChunk(p.step, s) * p.valueHeads + h) * L::PREPARED_BYTES, work.nextPrepared = (long)p.valueHeads * L::PREPARED_BYTES;
  if (group == 0) {
    setmaxnregInc<208>();
    carryState(work, stages, full);
  } else if (group == 1) {
    setmaxnregInc<152>();
    giveRows(work, stages, full);
  } else {
    setmaxnregDec<24>();
    int head = p.keyHead(h) * MAX_KEY;
    if (warp() == 8) loadStages(c, work, seq.from, head, c.k + head, c.v + h * p.valueSize + column0, stages, full);
  }
}
#endif
