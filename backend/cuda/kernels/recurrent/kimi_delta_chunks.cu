// Kimi's delta rule (graph.KimiDelta) of prompts in chunks of 64 tokens: as gated_delta_chunks.cu computes the rule with a decay for each head, with the
// sums G[i][d] of the logarithms of decays of each number of a key:
//   A[i][j] = β[i] Σ k[i][d] k[j][d] e^(G[i][d]-G[j][d]),   P[i][j] likewise of q[i] and k[j].
// Keys and queries are multiplied by decays before they come to chunk_scan.h. Of tokens i and j in blocks I and J of 16 the exponent is that from the start of I
// to i, that from j to the end of J, and what lies between these two, whose exponential is multiplied into the numbers of i. Only within a block (I = J) is that
// one above 0: a block in which a decay is stronger than the numbers' range allows is computed token by token (strongBlock).
#include "gated_delta_chunks.h"

using L = Layout<KIMI_DELTA>;
constexpr int BLOCK = 16, BLOCKS = CHUNK / BLOCK;
constexpr int TOKENS = 4, GROUPS = CHUNK / TOKENS, OCTETS = MAX_KEY / 8; // a thread has eight numbers of TOKENS tokens, a group of them
constexpr float STRONG = -100; // the least power of two that is left of a number over a block

struct PrepareShared {
  alignas(16) u8 keys[2 * PANEL], queries[2 * PANEL]; // times what is left of them from the start of their block on
  alignas(16) u8 ends[2 * PANEL];                     // keys times what is left of them at the end of their block
  alignas(16) float a[CHUNK][A_LINE];
  alignas(16) float sums[GROUPS][MAX_KEY];        // G before a group, for powers of two
  alignas(16) float starts[BLOCKS + 1][MAX_KEY];  // G before a block
  alignas(16) float between[BLOCKS * (BLOCKS + 1) / 2][MAX_KEY]; // [I (I+1)/2 + J]: what is left from the end of block J to the start of I
  float rate[CHUNK];
  int strong[BLOCKS];
};

// Tokens is a thread's: eight numbers of keys and queries of TOKENS tokens, their lengths, and the sums of the logarithms of their decays.
struct Tokens {
  Vec16 q[TOKENS], k[TOKENS];
  float lengthQ[TOKENS], lengthK[TOKENS], g[TOKENS][8];

  DEVICE Tokens(const DeltaParams& p, int h, int from, int rows, int row0, int d) {
    bool mine = d < p.keySize;
    long first = (long)from + row0;
    int head = h * p.keySize + d;
    float bias[8] = {};
    if (mine) UNROLL for (int e = 0; e < 8; e++) bias[e] = p.bias[head + e];
    float decay = p.decay[h] * LOG2E;
    const bf16 *qs = (const bf16*)p.q + first * p.stride + head, *ks = (const bf16*)p.k + first * p.stride + head;
    const bf16* as = (const bf16*)p.alpha + first * p.valueHeads * p.keySize + head;
    Vec16 a[TOKENS];
    UNROLL for (int i = 0; i < TOKENS; i++) {
      q[i] = k[i] = a[i] = Vec16{};
      if (mine && row0 + i < rows) {
        q[i] = *(const Vec16*)(qs + (long)i * p.stride), k[i] = *(const Vec16*)(ks + (long)i * p.stride);
        a[i] = *(const Vec16*)(as + (long)i * p.valueHeads * p.keySize);
      }
    }
    UNROLL for (int i = 0; i < TOKENS; i++) {
      float qq = 0, kk = 0;
      UNROLL for (int e = 0; e < 4; e++) {
        float q0 = low(q[i].x[e]), q1 = high(q[i].x[e]), k0 = low(k[i].x[e]), k1 = high(k[i].x[e]);
        qq += q0 * q0 + q1 * q1, kk += k0 * k0 + k1 * k1;
      }
      UNROLL for (int m = 1; m < OCTETS; m *= 2) qq += shuffleXor(qq, m), kk += shuffleXor(kk, m);
      lengthQ[i] = rsqrt(qq + L2_EPS) * p.scale, lengthK[i] = rsqrt(kk + L2_EPS);
      UNROLL for (int e = 0; e < 8; e++) {
        float x = decay * softplus((e % 2 ? high(a[i].x[e / 2]) : low(a[i].x[e / 2])) + bias[e]);
        g[i][e] = (i > 0 ? g[maxi(i - 1, 0)][e] : 0) + (mine && row0 + i < rows ? x : 0);
      }
    }
  }
  DEVICE float query(int i, int e) const { return (e % 2 ? high(q[i].x[e / 2]) : low(q[i].x[e / 2])) * lengthQ[i]; }
  DEVICE float key(int i, int e) const { return (e % 2 ? high(k[i].x[e / 2]) : low(k[i].x[e / 2])) * lengthK[i]; }
};

struct Eight { float x[8]; };
DEVICE Eight eight(const float* from) {
  Eight y;
  UNROLL for (int i = 0; i < 2; i++) *(Four*)&y.x[4 * i] = ((const Four*)from)[i];
  return y;
}

// sumBlocks makes the sums of groups those before them, and what lies between blocks, of number d of keys.
DEVICE void sumBlocks(PrepareShared& shared, int d, float* decay) {
  float sum = 0, start[BLOCKS + 1];
  UNROLL for (int n = 0; n < GROUPS; n++) {
    if (n % (BLOCK / TOKENS) == 0) start[n / (BLOCK / TOKENS)] = sum;
    float x = shared.sums[n][d];
    shared.sums[n][d] = sum, sum += x;
  }
  start[BLOCKS] = sum, decay[d] = exp2(sum);
  UNROLL for (int i = 0; i <= BLOCKS; i++) shared.starts[i][d] = start[i];
  UNROLL for (int i = 0; i < BLOCKS; i++) {
    UNROLL for (int j = 0; j <= i; j++) shared.between[i * (i + 1) / 2 + j][d] = exp2(start[i] - start[j + 1]);
    if (start[i + 1] - start[i] < STRONG) shared.strong[i] = 1;
  }
}

// putTokens stores a thread's tokens with their decays, for the products of blocks and, prepared, for chunk_scan.h.
DEVICE void putTokens(PrepareShared& shared, u8* prepared, const Tokens& x, int group, int octet) {
  int block = group / (BLOCK / TOKENS), d = octet * 8;
  Eight before = eight(&shared.sums[group][d]), start = eight(&shared.starts[block][d]), end = eight(&shared.starts[block + 1][d]), last = eight(&shared.starts[BLOCKS][d]);
  float left[8], after[8];
  UNROLL for (int e = 0; e < 8; e++) left[e] = exp2(start.x[e]), after[e] = exp2(last.x[e] - end.x[e]);
  UNROLL for (int i = 0; i < TOKENS; i++) {
    u32 place = octet / 8 * PANEL + swizzled(group * TOKENS + i, octet % 8);
    float q[8], k[8], ends[8];
    UNROLL for (int e = 0; e < 8; e++) {
      float sum = before.x[e] + x.g[i][e], f = exp2(sum - start.x[e]);
      q[e] = x.query(i, e) * f, k[e] = x.key(i, e) * f, ends[e] = x.key(i, e) * exp2(end.x[e] - sum);
    }
    auto put = [&](u8* to, const float(&v)[8]) __attribute__((always_inline)) {
      Vec16 y;
      UNROLL for (int e = 0; e < 4; e++) y.x[e] = pack(v[2 * e], v[2 * e + 1]);
      *(Vec16*)(to + place) = y;
    };
    put(shared.queries, q), put(shared.keys, k), put(shared.ends, ends);
    UNROLL for (int e = 0; e < 8; e++) q[e] *= left[e], k[e] *= left[e], ends[e] *= after[e];
    put(prepared + L::Q, q), put(prepared + L::K, k), put(prepared + L::AFTER, ends);
  }
}

// multiplyBlocks is the products of the 16 rows of block i with those of the blocks before it and its own, by a warp.
DEVICE void multiplyBlocks(float (&d)[CHUNK / 8][4], const PrepareShared& shared, const u8* rows, int i) {
  u32 a = sharedAddress(rows), b = sharedAddress(shared.ends);
  int t = lane() % 4;
  UNROLL for (int j = 0; j < BLOCKS; j++) {
    if (j > i) continue;
    const float* between = shared.between[i * (i + 1) / 2 + j];
    UNROLL for (int k = 0; k < MAX_KEY / 16; k++) {
      u32 x[4], y[4];
      ldmatrix4(x, a + k / 4 * PANEL + swizzled(16 * i + lane() % 16, k % 4 * 2 + lane() / 16));
      ldmatrix4(y, b + k / 4 * PANEL + swizzled(16 * j + lane() / 16 * 8 + lane() % 8, k % 4 * 2 + lane() / 8 % 2));
      UNROLL for (int h = 0; h < 2; h++) {
        float f0 = between[16 * k + 8 * h + 2 * t], f1 = between[16 * k + 8 * h + 2 * t + 1];
        UNROLL for (int e = 2 * h; e < 2 * h + 2; e++) x[e] = pack(low(x[e]) * f0, high(x[e]) * f1);
      }
      mma(d[2 * j], x[0], x[1], x[2], x[3], y[0], y[1]);
      mma(d[2 * j + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
    }
  }
}

// strongBlock computes A and P of the tokens of block n with each other, number by number: a thread has one pair of tokens.
DEVICE void strongBlock(PrepareShared& shared, const DeltaParams& p, u8* prepared, int h, int from, int rows, int n) {
  int octet = threadX() % OCTETS, group = threadX() / OCTETS;
  Tokens x(p, h, from, rows, group * TOKENS, octet * 8);
  float(*g)[MAX_KEY + 4] = (float(*)[MAX_KEY + 4]) shared.keys, (*k)[MAX_KEY + 4] = g + BLOCK, (*q)[MAX_KEY + 4] = k + BLOCK;
  if (group / (BLOCK / TOKENS) == n) UNROLL for (int i = 0; i < TOKENS; i++) UNROLL for (int e = 0; e < 8; e++) {
    int row = group % (BLOCK / TOKENS) * TOKENS + i, d = octet * 8 + e;
    g[row][d] = shared.sums[group][d] + x.g[i][e], k[row][d] = x.key(i, e), q[row][d] = x.query(i, e);
  }
  barrier();
  int i = threadX() / BLOCK, j = threadX() % BLOCK, row = n * BLOCK + i, col = n * BLOCK + j;
  float kk = 0, qk = 0;
  if (j <= i)
    for (int d = 0; d < MAX_KEY; d++) {
      float f = k[j][d] * exp2(g[i][d] - g[j][d]);
      kk += k[i][d] * f, qk += q[i][d] * f;
    }
  shared.a[row][col] = kk * shared.rate[row];
  ((bf16*)(prepared + L::P + swizzled(row, col / 8)))[col % 8] = fromFloat<bf16>(qk);
  barrier();
}

// A block is a chunk and a head.
KERNEL(256, 2) kimi_delta_prepare(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = sequenceOf(p.step, blockX()), h = blockY();
  int chunk = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + chunk * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  u8* prepared = c.scratch + ((long)blockX() * p.valueHeads + h) * L::PREPARED_BYTES - L::PREPARED;
  int octet = threadX() % OCTETS, group = threadX() / OCTETS;
  if (threadX() < BLOCKS) shared.strong[threadX()] = 0;
  if (threadX() < CHUNK) shared.rate[threadX()] = threadX() < rows ? p.rate<bf16>(from + threadX(), h) : 0;
  {
    Tokens x(p, h, from, rows, group * TOKENS, octet * 8);
    UNROLL for (int e = 0; e < 8; e++) shared.sums[group][octet * 8 + e] = x.g[TOKENS - 1][e];
    barrier();
    if (threadX() < MAX_KEY) sumBlocks(shared, threadX(), (float*)(prepared + L::FACTORS));
    barrier();
    putTokens(shared, prepared, x, group, octet);
  }
  barrier();

  // A warp has a block of rows of A or of P.
  bool isP = warp() >= BLOCKS;
  int block = isP ? 2 * BLOCKS - 1 - warp() : warp(), g = lane() / 4, t = lane() % 4;
  float d[CHUNK / 8][4] = {};
  multiplyBlocks(d, shared, isP ? shared.queries : shared.keys, block);
  UNROLL for (int j = 0; j < CHUNK / 8; j++) UNROLL for (int e = 0; e < 4; e += 2) {
    int row = BLOCK * block + g + 4 * e, col = 8 * j + 2 * t; // 4e: 0 or 8
    if (isP) *(u32*)(prepared + L::P + swizzled(row, j) + 4 * t) = pack(col <= row ? d[j][e] : 0, col + 1 <= row ? d[j][e + 1] : 0);
    else shared.a[row][col] = d[j][e] * shared.rate[row], shared.a[row][col + 1] = d[j][e + 1] * shared.rate[row];
  }
  barrier();
  if (shared.strong[0] + shared.strong[1] + shared.strong[2] + shared.strong[3]) {
#pragma unroll 1
    for (int n = 0; n < BLOCKS; n++)
      if (shared.strong[n]) strongBlock(shared, p, prepared, h, from, rows, n);
  }
  if (threadX() < CHUNK) invert(prepared + L::M, shared.a, shared.rate, threadX(), 1);
}

KERNEL(SCAN_THREADS<KIMI_DELTA>, 1) kimi_delta_chunks(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  int s = blockZ(), h = blockY(), column0 = blockX() * 64;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from == 1) return;
  ChunkScan work = {};
  work.v = p.value<bf16>(seq.from, h) + column0, work.stride = p.stride;
  work.y = (bf16*)p.y + ((long)seq.from * p.valueHeads + h) * p.valueSize + column0, work.yStride = (long)p.valueHeads * p.valueSize;
  work.state = seq.state + h * size + column0, work.byKey = p.valueSize, work.byColumn = 1;
  work.keySize = p.keySize, work.columns = p.valueSize - column0, work.rows = seq.to - seq.from, work.fresh = seq.fresh;
  work.prepared = c.scratch + ((long)firstChunk(p.step, s) * p.valueHeads + h) * L::PREPARED_BYTES, work.nextPrepared = (long)p.valueHeads * L::PREPARED_BYTES;
  scanChunks<KIMI_DELTA>(work);
}
