// The gated delta rule of sequences with more than one new token in chunks of 64 tokens (Yang et al., arXiv:2412.06464, in the WY form of arXiv:2406.06484), in two kernels. With G the sums
// of the logarithms of decays within a chunk, S the state before it, and for j < i
//   A[i][j] = β[i] e^(G[i]-G[j]) k[i]·k[j],   M = (I + A)⁻¹ diag(β),   P[i][j] = e^(G[i]-G[j]) q[i]·k[j] (also for j = i)
// what a chunk adds to the state and gives is
//   Δ = M (V - diag(e^G) K S),   O = diag(e^G) Q S + P Δ,   S ← e^(G[63]) S + (diag(e^(G[63]-G)) K)ᵀ Δ.
// gated_delta_prepare makes M and P of all chunks side by side; gated_delta_chunks goes through a sequence's chunks with COLUMNS columns of the state, in
// float32 in registers, and as bf16 in shared memory for the products. Queries and keys stay as they come: their lengths are factors of rows.
#include "gated_delta.h"

struct GatedDeltaChunksParams {
  GatedDeltaParams delta;
  u8* scratch; // [chunks][valueHeads] Prepared
};

constexpr int CHUNK = 64, MAX_KEY = 128;

// Prepared is what the second kernel needs of a chunk and value head beside queries, keys and values.
struct alignas(16) Prepared {
  bf16 m[CHUNK][CHUNK], p[CHUNK][CHUNK];
  float before[CHUNK], query[CHUNK], after[CHUNK]; // factors of K S, Q S, and of Δ as it is added to the state
  float decay, unused[63];                         // of the state
};
extern SHARED u8 dynamic[];

// firstChunk is the place in scratch of a sequence's first chunk: behind all chunks of those before, and no two share one.
DEVICE int firstChunk(const Step& s, int seq) { return s.qStart[seq] / CHUNK + seq; }

DEVICE void loadLines(u32 to, int line, const bf16* from, long stride, int rows, int size, int most, int thread, int threads) {
  int chunks = most / 8;
  for (int i = thread; i < CHUNK * chunks; i += threads) {
    int row = i / chunks, at = i % chunks;
    bool in = row < rows && at * 8 < size;
    cpAsync16(to + row * line + at * 16, in ? from + row * stride + at * 8 : from, in);
  }
}

constexpr int LINE = 2 * MAX_KEY + 16; // bytes of a row of queries or keys: eight begin in different banks

// prepare: a block is a chunk and a key head; its value heads go two at a time.
constexpr int A_LINE = CHUNK + 4; // floats
struct PrepareShared {
  alignas(16) u8 q[CHUNK * LINE];
  alignas(16) u8 k[CHUNK * LINE];
  alignas(16) float a[2][CHUNK][A_LINE];
  float sums[2][CHUNK], rate[2][CHUNK], lengthQ[CHUNK], lengthK[CHUNK];
};

// products are those of 16 rows of a with all 64 of b, in the layout of accumulators.
DEVICE void products(float (&d)[CHUNK / 8][4], u32 a, u32 b) {
  u32 down = lane() % 16 * LINE + lane() / 16 * 16, across = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16;
  UNROLL for (int k = 0; k < MAX_KEY / 16; k++) {
    u32 x[4], y[4];
    ldmatrix4(x, a + down + k * 32);
    UNROLL for (int n = 0; n < CHUNK / 16; n++) {
      ldmatrix4(y, b + across + n * 16 * LINE + k * 32);
      mma(d[2 * n], x[0], x[1], x[2], x[3], y[0], y[1]);
      mma(d[2 * n + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
    }
  }
}

KERNEL(128, 1) gated_delta_prepare(PARAM GatedDeltaChunksParams c) {
  launchDependentsAndWait();
  const GatedDeltaParams& p = c.delta;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = -1, seqs = p.step.counts[COUNT_SEQS], kh = blockY();
  for (int s0 = 0; s0 < seqs; s0 += 32) { // the last sequence that begins at this chunk or before it
    float mine = s0 + lane() < seqs && firstChunk(p.step, s0 + lane()) <= blockX() ? 1 : 0;
    seq += (int)warpSum(mine);
  }
  int n = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  int keys = p.keyHeads * p.keySize, share = p.valueHeads / p.keyHeads;
  long width = 2 * keys + p.valueHeads * p.valueSize;
  const bf16* q = (const bf16*)p.x + from * width + kh * p.keySize;
  u32 qAt = sharedAddress(shared.q), kAt = sharedAddress(shared.k);
  loadLines(qAt, LINE, q, width, rows, p.keySize, MAX_KEY, threadX(), 128);
  loadLines(kAt, LINE, q + keys, width, rows, p.keySize, MAX_KEY, threadX(), 128);
  cpAsyncCommit();
  cpAsyncWait<0>();
  barrier();
  { // a thread is a query or a key
    const Vec16* line = (const Vec16*)((threadX() < CHUNK ? shared.q : shared.k) + threadX() % CHUNK * LINE);
    float squares = 0;
    for (int i = 0; i < MAX_KEY / 8; i++) UNROLL for (int e = 0; e < 4; e++) {
      float a = low(line[i].x[e]), b = high(line[i].x[e]);
      squares += a * a + b * b;
    }
    (threadX() < CHUNK ? shared.lengthQ : shared.lengthK)[threadX() % CHUNK] = rsqrt(squares + L2_EPS) * (threadX() < CHUNK ? p.scale : 1);
  }
  int row0 = warp() * 16, g = lane() / 4, t = lane() % 4;
  float kk[CHUNK / 8][4] = {}, qk[CHUNK / 8][4] = {};
  products(kk, kAt + row0 * LINE, kAt);
  products(qk, qAt + row0 * LINE, kAt);

  for (int pair = 0; pair < share; pair += 2) {
    barrier(); // lengths are there, and the inverses before have been read
    auto head = [&](int v) { return p.tiled ? (pair + v) * p.keyHeads + kh : kh * share + pair + v; };
    auto prepared = [&](int v) { return (Prepared*)c.scratch + (long)blockX() * p.valueHeads + head(v); };
    int heads = mini(2, share - pair);
    if (warp() < heads) { // gates: lane l has tokens 2l and 2l+1
      int h = head(warp());
      float decay[2], rate[2];
      UNROLL for (int e = 0; e < 2; e++) {
        int r = 2 * lane() + e;
        decay[e] = r < rows ? p.logDecay<bf16>(from + r, h) : 0, rate[e] = r < rows ? p.rate<bf16>(from + r, h) : 0;
      }
      float own = decay[0] + decay[1], sum = own;
      UNROLL for (int m = 1; m < 32; m *= 2) {
        float other = shuffleFrom(sum, maxi(lane() - m, 0));
        if (lane() >= m) sum += other;
      }
      float last = shuffleFrom(sum, 31), sums[2] = {sum - decay[1], sum};
      Prepared& to = *prepared(warp());
      UNROLL for (int e = 0; e < 2; e++) {
        int r = 2 * lane() + e;
        shared.sums[warp()][r] = sums[e], shared.rate[warp()][r] = rate[e];
        to.before[r] = expf(sums[e]) * shared.lengthK[r], to.query[r] = expf(sums[e]) * shared.lengthQ[r];
        to.after[r] = expf(last - sums[e]) * shared.lengthK[r];
      }
      if (lane() == 0) to.decay = expf(last);
    }
    barrier();
    for (int v = 0; v < heads; v++) {
      u32* to = (u32*)prepared(v)->p;
      UNROLL for (int j = 0; j < CHUNK / 8; j++) UNROLL for (int e = 0; e < 4; e += 2) {
        int i = row0 + g + 4 * e, col = 8 * j + 2 * t; // 4e: 0 or 8
        float values[2];
        UNROLL for (int f = 0; f < 2; f++) {
          float between = col + f <= i ? expf(shared.sums[v][i] - shared.sums[v][col + f]) * shared.lengthK[col + f] : 0;
          values[f] = between * shared.lengthQ[i] * qk[j][e + f];
          shared.a[v][i][col + f] = between * shared.lengthK[i] * shared.rate[v][i] * kk[j][e + f]; // what is not below the diagonal is not read
        }
        to[(i * CHUNK + col) / 2] = pack(values[0], values[1]);
      }
    }
    barrier();
    int v = threadX() / CHUNK, column = threadX() % CHUNK; // a thread is a column of an inverse
    if (v >= heads) continue;
    float x[CHUNK], rate = shared.rate[v][column];
    bf16* m = &prepared(v)->m[0][column];
    UNROLL for (int i = 0; i < CHUNK; i++) {
      float sum[4] = {i == column ? 1.0f : 0.0f, 0, 0, 0};
      UNROLL for (int k = 0; k < i; k += 4) {
        Four a = *(const Four*)&shared.a[v][i][k];
        UNROLL for (int e = 0; e < 4; e++)
          if (k + e < i) sum[e] -= a.x[e] * x[k + e];
      }
      x[i] = sum[0] + sum[1] + (sum[2] + sum[3]);
      m[i * CHUNK] = fromFloat<bf16>(x[i] * rate);
    }
  }
}

// Chunks: a block is COLUMNS columns of a value head's state of a sequence. Warp w computes rows 16·(w%4) of the chunk and rows 32·(w%4) of the state, of
// half w/4 of the columns.
constexpr int COLUMNS = 32, TILES = COLUMNS / 2 / 8; // n8 of a warp
constexpr int M_LINE = 2 * CHUNK + 16, V_LINE = 2 * COLUMNS + 16;
struct Stage {
  alignas(16) u8 q[CHUNK * LINE];
  alignas(16) u8 k[CHUNK * LINE];
  alignas(16) u8 m[CHUNK * M_LINE];
  alignas(16) u8 p[CHUNK * M_LINE];
  alignas(16) u8 v[CHUNK * V_LINE];
  alignas(16) float before[CHUNK];
  float query[CHUNK], after[CHUNK], decay, unused[3];
};
struct ChunksShared {
  Stage stages[2];
  alignas(16) u8 state[MAX_KEY * V_LINE];
  alignas(16) u8 rest[CHUNK * V_LINE], delta[CHUNK * V_LINE], decayed[CHUNK * V_LINE]; // V - K S; Δ; Δ as it is added to the state
};

KERNEL(256, 1) gated_delta_chunks(PARAM GatedDeltaChunksParams c) {
  launchDependentsAndWait();
  const GatedDeltaParams& p = c.delta;
  ChunksShared& shared = *(ChunksShared*)dynamic;
  int s = blockZ(), h = blockY(), column0 = blockX() * COLUMNS;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from == 1) return;
  int keys = p.keyHeads * p.keySize, columns = mini(COLUMNS, p.valueSize - column0), kh = p.keyHead(h), chunks = ceilDiv(seq.to - seq.from, CHUNK);
  long width = 2 * keys + p.valueHeads * p.valueSize;
  const Prepared* prepared = (const Prepared*)c.scratch + (long)firstChunk(p.step, s) * p.valueHeads + h;
  auto load = [&](int n) __attribute__((always_inline)) {
    Stage& to = shared.stages[n % 2];
    int from = seq.from + n * CHUNK, rows = mini(CHUNK, seq.to - from);
    const bf16* x = (const bf16*)p.x + from * width;
    const Prepared* of = prepared + (long)n * p.valueHeads;
    loadLines(sharedAddress(to.k), LINE, x + keys + kh * p.keySize, width, rows, p.keySize, MAX_KEY, threadX(), 256);
    loadLines(sharedAddress(to.q), LINE, x + kh * p.keySize, width, rows, p.keySize, MAX_KEY, threadX(), 256);
    loadLines(sharedAddress(to.v), V_LINE, x + 2 * keys + h * p.valueSize + column0, width, rows, columns, COLUMNS, threadX(), 256);
    loadLines(sharedAddress(to.m), M_LINE, of->m[0], CHUNK, CHUNK, CHUNK, CHUNK, threadX(), 256);
    loadLines(sharedAddress(to.p), M_LINE, of->p[0], CHUNK, CHUNK, CHUNK, CHUNK, threadX(), 256);
    if (threadX() < 3 * CHUNK / 4 + 1) cpAsync16(sharedAddress(to.before) + 16 * threadX(), of->before + 4 * threadX(), true);
    cpAsyncCommit();
  };
  load(0);

  int row0 = warp() % 4 * 16, key0 = warp() % 4 * 32, col0 = warp() / 4 * (COLUMNS / 2), g = lane() / 4, t = lane() % 4;
  float state[2][TILES][4]; // rows key0 + 16m + g + 8(e/2), columns col0 + 8n + 2t + e%2
  UNROLL for (int m = 0; m < 2; m++) UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e++) {
    int key = key0 + 16 * m + g + e / 2 * 8, col = col0 + 8 * n + 2 * t + e % 2;
    state[m][n][e] = !seq.fresh && key < p.keySize && col < columns ? seq.state[h * size + (long)key * p.valueSize + column0 + col] : 0;
  }
  u32 stateAt = sharedAddress(shared.state), restAt = sharedAddress(shared.rest), deltaAt = sharedAddress(shared.delta), decayedAt = sharedAddress(shared.decayed);
  // Where this lane reads of four 8 × 8 matrices: 16 rows of a first operand; 16 rows of a second, transposed; and of keys as the first operand, transposed.
  u32 second = lane() % 16 * V_LINE + lane() / 16 * 16 + col0 * 2, turned = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16 + key0 * 2;

  for (int chunk = 0; chunk < chunks; chunk++) {
    const Stage& of = shared.stages[chunk % 2];
    UNROLL for (int m = 0; m < 2; m++) UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e += 2)
      *(u32*)(shared.state + (key0 + 16 * m + g + 4 * e) * V_LINE + (col0 + 8 * n + 2 * t) * 2) = pack(state[m][n][e], state[m][n][e + 1]);
    cpAsyncWait<0>();
    barrier(); // the chunk and the state are here, and the chunk before has been read
    if (chunk + 1 < chunks) load(chunk + 1);

    u32 keyRows = sharedAddress(of.k), first = lane() % 16 * LINE + lane() / 16 * 16, queries = sharedAddress(of.q) + row0 * LINE + first;
    u32 square = (row0 + lane() % 16) * M_LINE + lane() / 16 * 16;
    float ks[TILES][4] = {}, out[TILES][4] = {};
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) {
      u32 a[4], q[4], b[4];
      ldmatrix4(a, keyRows + row0 * LINE + first + k * 32);
      ldmatrix4(q, queries + k * 32);
      ldmatrix4Trans(b, stateAt + second + k * 16 * V_LINE);
      UNROLL for (int n = 0; n < TILES; n++) {
        mma(ks[n], a[0], a[1], a[2], a[3], b[2 * n], b[2 * n + 1]);
        mma(out[n], q[0], q[1], q[2], q[3], b[2 * n], b[2 * n + 1]);
      }
    }
    UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e += 2) {
      int i = row0 + g + 4 * e, at = i * V_LINE + (col0 + 8 * n + 2 * t) * 2;
      u32 v = *(const u32*)(of.v + at);
      *(u32*)(shared.rest + at) = pack(low(v) - of.before[i] * ks[n][e], high(v) - of.before[i] * ks[n][e + 1]);
      out[n][e] *= of.query[i], out[n][e + 1] *= of.query[i];
    }
    barrier();
    float delta[TILES][4] = {};
    UNROLL for (int k = 0; k < CHUNK / 16; k++) {
      u32 a[4], b[4];
      ldmatrix4(a, sharedAddress(of.m) + square + k * 32);
      ldmatrix4Trans(b, restAt + second + k * 16 * V_LINE);
      UNROLL for (int n = 0; n < TILES; n++) mma(delta[n], a[0], a[1], a[2], a[3], b[2 * n], b[2 * n + 1]);
    }
    UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e += 2) {
      int i = row0 + g + 4 * e, at = i * V_LINE + (col0 + 8 * n + 2 * t) * 2;
      *(u32*)(shared.delta + at) = pack(delta[n][e], delta[n][e + 1]);
      *(u32*)(shared.decayed + at) = pack(delta[n][e] * of.after[i], delta[n][e + 1] * of.after[i]);
    }
    barrier();
    UNROLL for (int m = 0; m < 2; m++) UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e++) state[m][n][e] *= of.decay;
    UNROLL for (int k = 0; k < CHUNK / 16; k++) {
      u32 a[4], b[4], d[4];
      ldmatrix4(a, sharedAddress(of.p) + square + k * 32);
      ldmatrix4Trans(b, deltaAt + second + k * 16 * V_LINE);
      ldmatrix4Trans(d, decayedAt + second + k * 16 * V_LINE);
      UNROLL for (int n = 0; n < TILES; n++) mma(out[n], a[0], a[1], a[2], a[3], b[2 * n], b[2 * n + 1]);
      UNROLL for (int m = 0; m < 2; m++) {
        ldmatrix4Trans(a, keyRows + turned + k * 16 * LINE + m * 32);
        UNROLL for (int n = 0; n < TILES; n++) mma(state[m][n], a[0], a[1], a[2], a[3], d[2 * n], d[2 * n + 1]);
      }
    }
    UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e += 2) {
      int r = seq.from + chunk * CHUNK + row0 + g + 4 * e, col = col0 + 8 * n + 2 * t;
      if (r < seq.to && col < columns) *(u32*)((bf16*)p.y + ((long)r * p.valueHeads + h) * p.valueSize + column0 + col) = pack(out[n][e], out[n][e + 1]);
    }
  }
  UNROLL for (int m = 0; m < 2; m++) UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e++) {
    int key = key0 + 16 * m + g + e / 2 * 8, col = col0 + 8 * n + 2 * t + e % 2;
    if (key < p.keySize && col < columns) seq.state[h * size + (long)key * p.valueSize + column0 + col] = state[m][n][e];
  }
}
