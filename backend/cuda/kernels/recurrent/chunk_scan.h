// The part of a recurrent layer's prompt that goes from chunk to chunk of 64 tokens with the state: of the gated delta rule with a decay for each head or
// for each number of a key, and of Mamba 2's state space layer. What of a chunk does not depend on the state has been prepared. With S the state before a
// chunk, K, Q and V its keys, queries and values,
//   Δ = M (V - diag(before) K S),   O = diag(query) Q S + P Δ,   S ← decay S + (diag(after) K)ᵀ Δ;   of a state space layer Δ = V.
// All is computed transposed: a warpgroup holds 64 columns of S in float32 as sums of products, from which the first operands of the next products are made
// in registers. Only what other warps have loaded is read from shared memory, and no warp waits for another one's result.
#pragma once
#include "chunk_products.h"
#include "recurrent.h"

constexpr int CHUNK = 64, PANEL = CHUNK * 128, MAX_KEY = 128; // PANEL: bytes of 64 columns of a chunk
enum Rule { GATED_DELTA, KIMI_DELTA, STATE_SPACE };
extern SHARED u8 dynamic[];

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

constexpr int LOADERS = 64; // threads that load
#if __CUDA_ARCH__ >= 900
constexpr int STAGES = 3; // chunks in shared memory
#else
constexpr int STAGES = 2;
#endif

// storeIf stores 8 bytes without a branch, before which the compiler would wait for products.
DEVICE void storeIf(bool is, void* at, u64 x) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p st.global.b64 [%0], %1;\n\t}" ::"l"(at), "l"(x), "r"((u32)is) : "memory");
}

template <Rule R> DEVICE void loadChunks(const ChunkScan& c, u32 stages, u32 full) {
  using L = Layout<R>;
  constexpr int THREADS = 128 + LOADERS;
  int me = threadX() - 128, chunk = me % 16, row0 = me / 16; // its 16 bytes of a row, and its first row
  for (int n = 0, from = 0; from < c.rows; n++, from += CHUNK) {
    u32 to = stages + n % STAGES * L::BYTES;
    if (n >= STAGES) namedBarrierSync(1 + n % STAGES, THREADS);
    if (R != KIMI_DELTA) {
      const bf16 *q = c.q + (from + row0) * c.stride + chunk * 8, *k = c.k + (from + row0) * c.stride + chunk * 8;
      bool mine = chunk * 8 < c.keySize;
      UNROLL for (int i = 0; i < CHUNK / (LOADERS / 16); i++) {
        int row = row0 + i * (LOADERS / 16);
        bool in = mine && from + row < c.rows;
        long at = in ? (long)i * (LOADERS / 16) * c.stride : 0;
        u32 place = to + chunk / 8 * PANEL + swizzled(row, chunk % 8);
        cpAsync16(place + L::Q, in ? q + at : c.q, in);
        cpAsync16(place + L::K, in ? k + at : c.q, in);
      }
    }
    UNROLL for (int i = 0; i < CHUNK / (LOADERS / 8); i++) {
      int row = me / 8 + i * (LOADERS / 8);
      bool in = from + row < c.rows && me % 8 * 8 < c.columns;
      cpAsync16(to + L::V + swizzled(row, me % 8), in ? c.v + (from + row) * c.stride + me % 8 * 8 : c.v, in);
    }
    const u8* prepared = c.prepared + n * c.nextPrepared;
    UNROLL for (int i = 0; i < (L::PREPARED_BYTES / 16 + LOADERS - 1) / LOADERS; i++) {
      int at = (i * LOADERS + me) * 16;
      if (at < L::PREPARED_BYTES) cpAsync16(to + L::PREPARED + at, prepared + at, true);
    }
    arriveCopied(full + 8 * (n % STAGES));
  }
  cpAsyncCommit();
  cpAsyncWait<0>();
}

template <Rule R> DEVICE void computeChunks(const ChunkScan& c, u32 stages, u32 full) {
  using L = Layout<R>;
  constexpr int THREADS = 128 + LOADERS, TILES = CHUNK / 8; // TILES: of 8 rows of a chunk
  int g = lane() / 4, t = lane() % 4, col0 = 16 * warp(), mine = col0 + 4 * t; // the warp's columns; four of a row that this thread loads and stores
  // Rows g and g + 8 of sums are these columns, so that the four of a row that lie side by side come to one thread when 8 × 8 tiles are transposed.
  int column[2] = {col0 + g / 2 * 4 + g % 2, col0 + g / 2 * 4 + g % 2 + 2};
  float state[MAX_KEY / 2]; // of column[e / 2] key 8j + 2t + e % 2
  UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
    int key = 8 * j + 2 * t + e % 2, col = column[e / 2];
    state[4 * j + e] = !c.fresh && key < c.keySize && col < c.columns ? c.state[(long)key * c.byKey + (long)col * c.byColumn] : 0;
  }
  int chunks = ceilDiv(c.rows, CHUNK);
  u32 values = L::V + swizzled(g, mine / 8) + mine % 8 * 2; // of a row of the thread's
  u32 out[2 * TILES];
  auto store = [&](int n) __attribute__((always_inline)) {
    UNROLL for (int i = 0; i < TILES; i++) {
      int row = n * CHUNK + 8 * i + g;
      u64 x = (u64)transpose8(out[2 * i + 1]) << 32 | transpose8(out[2 * i]);
      storeIf(row >= 0 && row < c.rows && mine < c.columns, c.y + row * c.yStride + mine, x);
    }
  };
  UNROLL for (int i = 0; i < 2 * TILES; i++) out[i] = 0;

  for (int n = 0; n < chunks; n++) {
    u32 at = stages + n % STAGES * L::BYTES;
    const float* factors = (const float*)(dynamic + (at - sharedAddress(dynamic)) + L::FACTORS);
    auto factor = [&](int which, int i, int e) __attribute__((always_inline)) { return factors[which * CHUNK + 8 * i + 2 * t + e]; };
    u32 a[MAX_KEY / 16][4], x[CHUNK / 16][4], y[CHUNK / 16][4];
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) operand(a[k], state, k);
    float ks[CHUNK / 2], o[CHUNK / 2];
    awaitCopies(full + 8 * (n % STAGES), n / STAGES & 1);
    startProducts();
    if (R != STATE_SPACE) {
      productRows(ks, a, at + L::K, PANEL, false);
      commitProducts();
    }
    productRows(o, a, at + L::Q, PANEL, false);
    commitProducts();
    store(n - 1);
    UNROLL for (int i = 0; i < TILES; i++) {
      u64 v;
      asm volatile("ld.shared.b64 %0, [%1];" : "=l"(v) : "r"(at + values + i * 8 * 128) : "memory");
      UNROLL for (int h = 0; h < 2; h++) x[i / 2][i % 2 * 2 + h] = transpose8((u32)(v >> 32 * h));
    }
    if (R != STATE_SPACE) {
      waitProducts<1>();
      settle(ks);
      UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
        float f0 = R == KIMI_DELTA ? 1 : factor(0, i, 0), f1 = R == KIMI_DELTA ? 1 : factor(0, i, 1);
        u32& v = x[i / 2][i % 2 * 2 + h];
        v = pack(low(v) - f0 * ks[4 * i + 2 * h], high(v) - f1 * ks[4 * i + 2 * h + 1]);
      }
      float delta[CHUNK / 2];
      startProducts();
      productRows(delta, x, at + L::M, 0, false);
      commitProducts();
      waitProducts<0>();
      settle(delta);
      UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(x[k], delta, k);
      if (R == GATED_DELTA) UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) delta[4 * i + e] *= factor(2, i, e % 2);
      UNROLL for (int k = 0; k < CHUNK / 16; k++) operand(y[k], delta, k);
    } else {
      waitProducts<0>();
      UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) {
        u32 v = x[i / 2][i % 2 * 2 + h];
        y[i / 2][i % 2 * 2 + h] = pack(low(v) * factor(2, i, 0), high(v) * factor(2, i, 1));
      }
    }
    settle(o);
    if (R != KIMI_DELTA) UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int e = 0; e < 4; e++) o[4 * i + e] *= factor(1, i, e % 2);
    UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++)
      state[4 * j + e] *= R == KIMI_DELTA ? factors[8 * j + 2 * t + e % 2] : factors[3 * CHUNK];
    startProducts();
    productRows(o, x, at + L::P, 0, true);
    productLines(state, y, at + L::AFTER, PANEL);
    commitProducts();
    waitProducts<0>();
    settle(o);
    settle(state);
    if (n + STAGES < chunks) namedBarrierArrive(1 + n % STAGES, THREADS);
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int h = 0; h < 2; h++) out[2 * i + h] = pack(o[4 * i + 2 * h], o[4 * i + 2 * h + 1]);
  }
  store(chunks - 1);
  UNROLL for (int j = 0; j < MAX_KEY / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
    int key = 8 * j + 2 * t + e % 2, col = column[e / 2];
    if (key < c.keySize && col < c.columns) c.state[(long)key * c.byKey + (long)col * c.byColumn] = state[4 * j + e];
  }
}

// scanChunks is a block of a warpgroup that computes 64 columns, and of LOADERS threads that load chunks, up to STAGES ahead. (A block that is to leave room for
// another one, or that has a second warpgroup, has no registers for this: its products would go one after the other.)
template <Rule R> DEVICE void scanChunks(const ChunkScan& c) {
  SHARED static u64 loaded[STAGES];
  u32 stages = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(loaded);
  if (threadX() == 0)
    for (int i = 0; i < STAGES; i++) mbarrierInit(full + 8 * i, LOADERS);
  barrier();
  if (uniform(warp()) < 4) computeChunks<R>(c, stages, full);
  else loadChunks<R>(c, stages, full);
}
