// The part of a recurrent layer's prompt that goes from chunk to chunk of 64 tokens with the state: of the gated delta rule with a decay for each head or
// for each number of a key, and of Mamba 2's state space layer. What of a chunk does not depend on the state has been prepared. With S the state before a
// chunk, K, Q and V its keys, queries and values,
//   Δ = M (V - diag(before) K S),   O = diag(query) Q S + P Δ,   S ← decay S + (diag(after) K)ᵀ Δ;   of a state space layer Δ = V.
// All is computed transposed: a warpgroup holds 64 columns of S in float32 as sums of products, from which the first operands of the next products are made
// in registers. On Hopper a second warpgroup makes what a chunk gives, O, of S and Δ that the first leaves in shared memory, so that the first has nothing to do
// but the chain from state to state.
#pragma once
#include "chunk_products.h"
#include "recurrent.h"

constexpr int CHUNK = 64, PANEL = CHUNK * 128, MAX_KEY = 128; // PANEL: bytes of 64 columns of a chunk
enum Rule { GATED_DELTA, KIMI_DELTA, STATE_SPACE };
extern SHARED __attribute__((aligned(1024))) u8 dynamic[];

// Layout is where the matrices of a chunk lie in shared memory, and from PREPARED on in what has been prepared of it. Keys and queries come as they are
// with factors for their rows; those of Kimi's rule have been multiplied by decays.
template <Rule R> struct Layout {
  static constexpr int Q = 0, K = 2 * PANEL, AFTER = R == KIMI_DELTA ? 4 * PANEL : K, M = AFTER + 2 * PANEL;
  static constexpr int P = M + (R == STATE_SPACE ? 0 : PANEL), FACTORS = P + PANEL, V = FACTORS + 1024, BYTES = V + PANEL;
  static constexpr int PREPARED = R == KIMI_DELTA ? 0 : M, PREPARED_BYTES = V - PREPARED;
};
// Factors lie behind the matrices; of Kimi's rule there is a decay for each number of a key, and no others.
struct Factors {
  float before[CHUNK], query[CHUNK], after[CHUNK], decay, unused[CHUNK - 1];
};

// ChunkScan is the work of a block: columns of the state of a head of a sequence.
struct ChunkScan {
  const bf16 *q, *k, *v; // of the first row
  bf16* y;
  long stride, yStride; // from row to row
  float* state;
  int byKey, byColumn; // from number to number of the state
  int keySize, columns, rows, fresh;
  const u8* prepared;
  long nextPrepared;
};

// firstChunk is the place in what is prepared of a sequence's first chunk: behind all chunks of those before, and no two share one.
DEVICE int firstChunk(const Step& s, int seq) { return s.qStart[seq] / CHUNK + seq; }

#if __CUDA_ARCH__ >= 900
constexpr bool HOPPER = true;
#else
constexpr bool HOPPER = false;
#endif
// SPLIT: a warpgroup of its own makes what chunks give. A state space layer has no chain of products that would be worth it.
template <Rule R> constexpr bool SPLIT = HOPPER && R != STATE_SPACE;
template <Rule R> constexpr int LOADERS = SPLIT<R> ? 128 : 64; // threads that load
template <Rule R> constexpr int SCAN_THREADS = (SPLIT<R> ? 256 : 128) + LOADERS<R>;
constexpr int STAGES = HOPPER ? 3 : 2; // chunks in shared memory; behind them is a place for a state where SPLIT (stateAt)
// Named barriers; those of stages, 1 to 3, say that they may be loaded again. DELTA_THERE has two, for chunks by turns.
enum { STATE_THERE = 4, STATE_READ, CHAIN, DELTA_THERE };

// storeIf stores two numbers without a branch, before which the compiler would wait for products.
DEVICE void storeIf(bool is, void* at, u32 x) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p st.global.b32 [%0], %1;\n\t}" ::"l"(at), "r"(x), "r"((u32)is) : "memory");
}

template <Rule R> DEVICE void loadChunks(const ChunkScan& c, u32 stages, u32 full) {
  using L = Layout<R>;
  int me = threadX() % LOADERS<R>, chunk = me % 16, row0 = me / 16; // its 16 bytes of a row, and its first row
  for (int n = 0, from = 0; from < c.rows; n++, from += CHUNK) {
    u32 to = stages + n % STAGES * L::BYTES;
    if (n >= STAGES) namedBarrierSync(1 + n % STAGES, SCAN_THREADS<R>);
    if (R != KIMI_DELTA) {
      const bf16 *q = c.q + (from + row0) * c.stride + chunk * 8, *k = c.k + (from + row0) * c.stride + chunk * 8;
      bool mine = chunk * 8 < c.keySize;
      UNROLL for (int i = 0; i < CHUNK / (LOADERS<R> / 16); i++) {
        int row = row0 + i * (LOADERS<R> / 16);
        bool in = mine && from + row < c.rows;
        long at = in ? (long)i * (LOADERS<R> / 16) * c.stride : 0;
        u32 place = to + chunk / 8 * PANEL + swizzled(row, chunk % 8);
        cpAsync16(place + L::Q, in ? q + at : c.q, in);
        cpAsync16(place + L::K, in ? k + at : c.q, in);
      }
    }
    UNROLL for (int i = 0; i < CHUNK / (LOADERS<R> / 8); i++) {
      int row = me / 8 + i * (LOADERS<R> / 8);
      bool in = from + row < c.rows && me % 8 * 8 < c.columns;
      cpAsync16(to + L::V + swizzled(row, me % 8), in ? c.v + (from + row) * c.stride + me % 8 * 8 : c.v, in);
    }
    const u8* prepared = c.prepared + n * c.nextPrepared;
    UNROLL for (int i = 0; i < (L::PREPARED_BYTES / 16 + LOADERS<R> - 1) / LOADERS<R>; i++) {
      int at = (i * LOADERS<R> + me) * 16;
      if (at < L::PREPARED_BYTES) cpAsync16(to + L::PREPARED + at, prepared + at, true);
    }
    arriveCopied(full + 8 * (n % STAGES));
  }
  cpAsyncCommit();
  cpAsyncWait<0>();
}

// Stage is a chunk in shared memory.
struct Stage {
  u32 at;
  const float* factors;
  template <Rule R> static DEVICE Stage of(u32 stages, int n) {
    using L = Layout<R>;
    u32 at = stages + n % STAGES * L::BYTES;
    return {at, (const float*)(dynamic + (at - sharedAddress(dynamic)) + L::FACTORS)};
  }
  // stateAt is where the state before the chunk is put for the second warpgroup, [64 columns][keys] in two panels: behind all stages, or, of Kimi's rule, where
  // the keys were that it is multiplied with.
  template <Rule R> DEVICE u32 stateAt(u32 stages) const { return R == KIMI_DELTA ? at + Layout<R>::K : stages + STAGES * Layout<R>::BYTES; }
  DEVICE float factor(int which, int i, int e) const { return factors[which * CHUNK + 8 * i + 2 * (lane() % 4) + e]; }
};

// Rows of operands of 16 columns of a warp lie in panels of shared memory as those that the warp's lanes hold.
DEVICE u32 operandRow() { return swizzled(warp() % 4 * 16 + lane() % 16, lane() / 16); }
template <int K> DEVICE void storeOperands(u32 to, const u32 (&a)[K][4]) {
  UNROLL for (int k = 0; k < K; k++) storeMatrices(to + k / 4 * PANEL + (operandRow() ^ k % 4 * 32), a[k]);
}
template <int K> DEVICE void loadOperands(u32 (&a)[K][4], u32 from) {
  UNROLL for (int k = 0; k < K; k++) ldmatrix4(a[k], from + k / 4 * PANEL + (operandRow() ^ k % 4 * 32));
}

// firstColumn is the first of the warp's 16 columns. Rows g and g + 8 of sums are columns g and g + 8 of them.
DEVICE int firstColumn() { return 16 * (warp() % 4); }

// loadValues loads the values of a chunk, transposed, as operands.
DEVICE void loadValues(u32 (&x)[CHUNK / 16][4], u32 from) {
  UNROLL for (int k = 0; k < CHUNK / 16; k++) ldmatrix4Trans(x[k], from + swizzled(16 * k + lane() / 16 * 8 + lane() % 8, firstColumn() / 8 + lane() / 8 % 2));
}

// Output is what chunks give.
template <Rule R> struct Output {
  using L = Layout<R>;
  static constexpr int TILES = CHUNK / 8; // of 8 rows of a chunk
  const ChunkScan& c;
  float o[CHUNK / 2];
  u32 out[2 * TILES];

  DEVICE Output(const ChunkScan& c) : c(c) { UNROLL for (int i = 0; i < 2 * TILES; i++) out[i] = 0; }
  // multiplyState starts the products of queries with the state.
  DEVICE void multiplyState(const Stage& s, const u32 (&a)[MAX_KEY / 16][4]) {
    productRows(o, a, s.at + L::Q, PANEL, false);
    commitProducts();
  }
  DEVICE void scale(const Stage& s) {
    settle(o);
    if (R != KIMI_DELTA) UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) o[4 * i + e] *= s.factor(1, i, e % 2);
  }
  // multiplyDelta starts those of P with Δ.
  DEVICE void multiplyDelta(const Stage& s, const u32 (&x)[CHUNK / 16][4]) { productRows(o, x, s.at + L::P, 0, true); }
  DEVICE void keep() {
    settle(o);
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) out[2 * i + h] = pack(o[4 * i + 2 * h], o[4 * i + 2 * h + 1]);
  }
  // store stores what was kept of chunk n.
  DEVICE void store(int n) const {
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
      int row = n * CHUNK + 8 * i + lane() / 4, column = firstColumn() + 8 * h + lane() % 4 * 2;
      storeIf(row >= 0 && row < c.rows && column < c.columns, c.y + row * c.yStride + column, transpose8(out[2 * i + h]));
    }
  }
};

// makeOutputs is the second warpgroup.
template <Rule R> DEVICE void makeOutputs(const ChunkScan& c, u32 stages, u32 full) {
  using L = Layout<R>;
  Output<R> output(c);
  int chunks = ceilDiv(c.rows, CHUNK);
  for (int n = 0; n < chunks; n++) {
    Stage s = Stage::of<R>(stages, n);
    u32 a[MAX_KEY / 16][4], x[CHUNK / 16][4];
    awaitCopies(full + 8 * (n % STAGES), n / STAGES & 1);
    namedBarrierSync(STATE_THERE, 256);
    loadOperands(a, s.stateAt<R>(stages));
    startProducts();
    output.multiplyState(s, a);
    if (n + 1 < chunks) namedBarrierArrive(STATE_READ, 256);
    output.store(n - 1);
    waitProducts<0>();
    output.scale(s);
    namedBarrierSync(DELTA_THERE + n % 2, 256);
    loadOperands(x, s.at + L::V);
    startProducts();
    output.multiplyDelta(s, x);
    commitProducts();
    waitProducts<0>();
    output.keep();
    if (n + STAGES < chunks) namedBarrierArrive(1 + n % STAGES, SCAN_THREADS<R>);
  }
  output.store(chunks - 1);
}

// A thread's numbers of the state: 4j + e is of column g + 8 (e / 2) and key 8j + 2t + e % 2. numberOf says where it lies, -1 if there is none.
DEVICE long numberOf(const ChunkScan& c, int lane, int j, int e) {
  int key = 8 * j + lane % 4 * 2 + e % 2, col = firstColumn() + lane / 4 + e / 2 * 8;
  return key < c.keySize && col < c.columns ? (long)key * c.byKey + (long)col * c.byColumn : -1;
}
DEVICE void loadState(float (&state)[MAX_KEY / 2], const ChunkScan& c) {
  int lane = ::lane();
  UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
    long at = numberOf(c, lane, j, e);
    state[4 * j + e] = !c.fresh && at >= 0 ? c.state[at] : 0;
  }
}
DEVICE void storeState(const float (&state)[MAX_KEY / 2], const ChunkScan& c) {
  int lane = ::lane();
  asm volatile("" : "+r"(lane)); // so that all places are computed again, and not kept since the state was loaded
  UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
    long at = numberOf(c, lane, j, e);
    if (at >= 0) c.state[at] = state[4 * j + e];
  }
}

// computeChunks is the first warpgroup, which holds the state, and the only one where there is no second. Δ takes the place of a chunk's values.
template <Rule R> DEVICE void computeChunks(const ChunkScan& c, u32 stages, u32 full) {
  using L = Layout<R>;
  constexpr int TILES = CHUNK / 8;
  Output<R> output(c);
  float state[MAX_KEY / 2];
  loadState(state, c);
  int chunks = ceilDiv(c.rows, CHUNK);
  u32 x[CHUNK / 16][4]; // values, and what becomes of them
  auto await = [&](int n) __attribute__((always_inline)) { // their values are loaded ahead, while products of the chunk before run
    if (n >= chunks) return;
    awaitCopies(full + 8 * (n % STAGES), n / STAGES & 1);
    loadValues(x, Stage::of<R>(stages, n).at + L::V);
  };
  await(0);

  for (int n = 0; n < chunks; n++) {
    Stage s = Stage::of<R>(stages, n);
    u32 a[MAX_KEY / 16][4], y[CHUNK / 16][4];
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) operand(a[k], state, k);
    float ks[CHUNK / 2], before[2 * TILES], after[2 * TILES]; // factors of rows, loaded while products run
    startProducts();
    if (R != STATE_SPACE) {
      productRows(ks, a, s.at + L::K, PANEL, false);
      commitProducts();
    }
    auto giveState = [&]() __attribute__((always_inline)) {
      if (n > 0) namedBarrierSync(STATE_READ, 256);
      storeOperands(s.stateAt<R>(stages), a);
      namedBarrierArrive(STATE_THERE, 256);
    };
    if (SPLIT<R>) {
      if (R != KIMI_DELTA) giveState();
    } else {
      output.multiplyState(s, a);
      output.store(n - 1);
    }
    if (R == GATED_DELTA) UNROLL for (int i = 0; i < 2 * TILES; i++) before[i] = s.factor(0, i / 2, i % 2);
    UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++)
      state[4 * j + e] *= R == KIMI_DELTA ? s.factors[8 * j + 2 * (lane() % 4) + e % 2] : s.factors[3 * CHUNK];
    waitProducts<0>();
    if (R != STATE_SPACE) {
      settle(ks);
      UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
        float f0 = R == KIMI_DELTA ? 1 : before[2 * i], f1 = R == KIMI_DELTA ? 1 : before[2 * i + 1];
        u32& v = x[i / 2][i % 2 * 2 + h];
        v = pack(low(v) - f0 * ks[4 * i + 2 * h], high(v) - f1 * ks[4 * i + 2 * h + 1]);
      }
      float delta[CHUNK / 2];
      startProducts();
      productRows(delta, x, s.at + L::M, 0, false);
      commitProducts();
      if (R == GATED_DELTA) UNROLL for (int i = 0; i < 2 * TILES; i++) after[i] = s.factor(2, i / 2, i % 2);
      if (SPLIT<R> && R == KIMI_DELTA) {
        namedBarrierSync(CHAIN, 128); // all keys have been read
        giveState();
      }
      waitProducts<0>();
      settle(delta);
      UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(x[k], delta, k);
      if (R == GATED_DELTA) UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) delta[4 * i + e] *= after[2 * i + e % 2];
      UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(y[k], delta, k);
    } else {
      UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
        u32 v = x[i / 2][i % 2 * 2 + h];
        y[i / 2][i % 2 * 2 + h] = pack(low(v) * s.factor(2, i, 0), high(v) * s.factor(2, i, 1));
      }
    }
    if (!SPLIT<R>) output.scale(s);
    startProducts();
    if (!SPLIT<R>) output.multiplyDelta(s, x);
    productLines(state, y, s.at + L::AFTER, PANEL);
    commitProducts();
    if (SPLIT<R>) {
      namedBarrierSync(CHAIN, 128); // all values have been read
      storeOperands(s.at + L::V, x);
      namedBarrierArrive(DELTA_THERE + n % 2, 256);
      await(n + 1);
    }
    waitProducts<0>();
    settle(state);
    if (!SPLIT<R>) {
      output.keep();
      await(n + 1); // whose values take the place of an operand
    }
    if (n + STAGES < chunks) namedBarrierArrive(1 + n % STAGES, SCAN_THREADS<R>);
  }
  if (!SPLIT<R>) output.store(chunks - 1);
  storeState(state, c);
}

// scanChunks is a block of a warpgroup that goes through the chunks of 64 columns, one that makes what they give, and of LOADERS threads that load chunks, some
// stages ahead.
template <Rule R> DEVICE void scanChunks(const ChunkScan& c) {
  SHARED static u64 loaded[STAGES];
  u32 at = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(loaded);
  if (threadX() == 0)
    for (int i = 0; i < STAGES; i++) mbarrierInit(full + 8 * i, LOADERS<R>);
  barrier();
  int group = uniform(warp()) / 4;
#if __CUDA_ARCH__ >= 900
  if constexpr (SPLIT<R>) {
    if (group == 0) {
      setmaxnregInc<240>();
      computeChunks<R>(c, at, full);
    } else if (group == 1) {
      setmaxnregDec<144>();
      makeOutputs<R>(c, at, full);
    } else {
      setmaxnregDec<96>();
      loadChunks<R>(c, at, full);
    }
    return;
  }
#endif
  if (group == 0) computeChunks<R>(c, at, full);
  else loadChunks<R>(c, at, full);
}
