// Kimi's delta rule (graph.KimiDelta) of prompts in chunks of 64 tokens: as gated_delta_chunks.cu computes the rule with a decay for each head, with the
// sums G[i][d] of the logarithms of decays of each number of a key:
//   A[i][j] = β[i] Σ k[i][d] k[j][d] e^(G[i][d]-G[j][d]),   P[i][j] likewise of q[i] and k[j].
// Keys and queries are multiplied by decays before they come to chunk_scan.h. No exponent is ever above 0: tokens of different blocks of 8 are multiplied on
// the tensor cores, with decays from and to a token between them; those of one block number by number.
#include "gated_delta_chunks.h"

using L = Layout<KIMI_DELTA>;
constexpr int BLOCK = 8, LINE = MAX_KEY + 8; // numbers of a row: eight rows begin in different banks

struct PrepareShared {
  alignas(16) float sums[CHUNK][MAX_KEY + 4]; // G, for powers of two
  alignas(16) bf16 q[CHUNK][LINE], k[CHUNK][LINE];
  alignas(16) float a[CHUNK][A_LINE];
  float rate[CHUNK], lengthQ[CHUNK], lengthK[CHUNK];
};

struct alignas(8) Two { float x[2]; };

// decayed is two numbers of a row, from d on, times 2^(from - to) of each.
DEVICE u32 decayed(const bf16* x, const float* from, const float* to, int d) {
  u32 pair = *(const u32*)(x + d);
  Two a = *(const Two*)(from + d), b = *(const Two*)(to + d);
  return pack(low(pair) * exp2(a.x[0] - b.x[0]), high(pair) * exp2(a.x[1] - b.x[1]));
}

// A block is a chunk and a head; a warp has 16 rows of A and P.
KERNEL(128, 1) kimi_delta_prepare(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = sequenceOf(p.step, blockX()), h = blockY();
  int n = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
#pragma unroll 4
  for (int n = 0; n < CHUNK / 4; n++) {
    int r = n * 4 + warp();
    float qq = 0, kk = 0;
    UNROLL for (int i = 0; i < MAX_KEY / 32; i++) {
      int d = i * 32 + lane();
      bool in = r < rows && d < p.keySize;
      bf16 q = in ? p.query<bf16>(from + r, h)[d] : (bf16)0, k = in ? p.key<bf16>(from + r, h)[d] : (bf16)0;
      shared.q[r][d] = q, shared.k[r][d] = k, shared.sums[r][d] = in ? p.logDecay<bf16, true>(from + r, h, d) * LOG2E : 0;
      qq += toFloat(q) * toFloat(q), kk += toFloat(k) * toFloat(k);
    }
    qq = rsqrt(warpSum(qq) + L2_EPS) * p.scale, kk = rsqrt(warpSum(kk) + L2_EPS);
    if (lane() == 0) shared.lengthQ[r] = qq, shared.lengthK[r] = kk, shared.rate[r] = r < rows ? p.rate<bf16>(from + r, h) : 0;
  }
  barrier();
  float sum = 0; // a thread is a number of keys
#pragma unroll 16
  for (int r = 0; r < CHUNK; r++) shared.sums[r][threadX()] = sum += shared.sums[r][threadX()];
  barrier();

  u8* prepared = c.scratch + ((long)blockX() * p.valueHeads + h) * L::PREPARED_BYTES - L::PREPARED;
  const float* last = shared.sums[CHUNK - 1];
  ((float*)(prepared + L::FACTORS))[threadX()] = exp2(last[threadX()]);
#pragma unroll 4
  for (int n = 0; n < CHUNK / 2; n++) {
    int i = n * 128 + threadX(), r = i / (MAX_KEY / 2), d = i % (MAX_KEY / 2) * 2;
    u32 place = d / CHUNK * PANEL + swizzled(r, d % CHUNK / 8) + d % 8 * 2, q = *(const u32*)&shared.q[r][d], k = *(const u32*)&shared.k[r][d];
    Two sums = *(const Two*)&shared.sums[r][d], ends = *(const Two*)&last[d];
    float f0 = exp2(sums.x[0]), f1 = exp2(sums.x[1]), lq = shared.lengthQ[r], lk = shared.lengthK[r];
    *(u32*)(prepared + L::Q + place) = pack(low(q) * lq * f0, high(q) * lq * f1);
    *(u32*)(prepared + L::K + place) = pack(low(k) * lk * f0, high(k) * lk * f1);
    *(u32*)(prepared + L::AFTER + place) = pack(low(k) * lk * exp2(ends.x[0] - sums.x[0]), high(k) * lk * exp2(ends.x[1] - sums.x[1]));
  }

  // put stores what a query and a key of the chunk come to.
  auto put = [&](int r, int col, float kk, float qk) __attribute__((always_inline)) {
    float length = shared.lengthK[col];
    shared.a[r][col] = kk * length * shared.lengthK[r] * shared.rate[r];
    ((bf16*)(prepared + L::P + swizzled(r, col / 8)))[col % 8] = fromFloat<bf16>(col <= r ? qk * length * shared.lengthQ[r] : 0);
  };
  int row0 = warp() * 2 * BLOCK, g = lane() / 4, t = lane() % 4;
  {
    // Of all 16 rows those of blocks before; of the last eight rows those of the eight before them.
    const float *start = shared.sums[maxi(row0 - 1, 0)], *middle = shared.sums[row0 + BLOCK - 1];
    float kk[CHUNK / 8][4] = {}, qk[CHUNK / 8][4] = {}, kkHalf[4] = {}, qkHalf[4] = {};
    for (int k = 0; k < MAX_KEY / 16; k++) {
      u32 key[4], query[4], keyHalf[2], queryHalf[2];
      UNROLL for (int e = 0; e < 4; e++) {
        int r = row0 + g + e % 2 * 8, d = 16 * k + e / 2 * 8 + 2 * t;
        key[e] = decayed(shared.k[r], shared.sums[r], start, d), query[e] = decayed(shared.q[r], shared.sums[r], start, d);
        if (e % 2) keyHalf[e / 2] = decayed(shared.k[r], shared.sums[r], middle, d), queryHalf[e / 2] = decayed(shared.q[r], shared.sums[r], middle, d);
      }
      UNROLL for (int j = 0; j < CHUNK / 8 - 2; j++) {
        if (8 * j >= row0) continue;
        const float* sums = shared.sums[8 * j + g];
        u32 b0 = decayed(shared.k[8 * j + g], start, sums, 16 * k + 2 * t), b1 = decayed(shared.k[8 * j + g], start, sums, 16 * k + 8 + 2 * t);
        mma(kk[j], key[0], key[1], key[2], key[3], b0, b1);
        mma(qk[j], query[0], query[1], query[2], query[3], b0, b1);
      }
      const float* sums = shared.sums[row0 + g];
      u32 b0 = decayed(shared.k[row0 + g], middle, sums, 16 * k + 2 * t), b1 = decayed(shared.k[row0 + g], middle, sums, 16 * k + 8 + 2 * t);
      mma(kkHalf, 0, keyHalf[0], 0, keyHalf[1], b0, b1);
      mma(qkHalf, 0, queryHalf[0], 0, queryHalf[1], b0, b1);
    }
    UNROLL for (int j = 0; j < CHUNK / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
      int r = row0 + g + e / 2 * 8, col = 8 * j + 2 * t + e % 2;
      if (8 * j < row0) put(r, col, kk[j][e], qk[j][e]);
      else if (8 * j > row0 + BLOCK || (8 * j > row0 && e < 2)) put(r, col, 0, 0);
    }
    UNROLL for (int e = 2; e < 4; e++) put(row0 + g + 8, row0 + 2 * t + e % 2, kkHalf[e], qkHalf[e]);
  }
  // Within the two blocks on the diagonal: a lane has a column of every second row.
  int block = row0 + lane() / 16 * BLOCK, col = block + lane() % 8, odd = lane() / 8 % 2;
  float kk[BLOCK / 2] = {}, qk[BLOCK / 2] = {};
  for (int d = 0; d < MAX_KEY; d += 2) {
    u32 key = *(const u32*)&shared.k[col][d];
    Two sums = *(const Two*)&shared.sums[col][d];
    UNROLL for (int i = 0; i < BLOCK / 2; i++) {
      int r = block + 2 * i + odd;
      u32 k = *(const u32*)&shared.k[r][d], q = *(const u32*)&shared.q[r][d];
      Two own = *(const Two*)&shared.sums[r][d];
      float x0 = low(key) * exp2(minf(own.x[0] - sums.x[0], 0)), x1 = high(key) * exp2(minf(own.x[1] - sums.x[1], 0)); // above the diagonal, anything
      kk[i] += x0 * low(k) + x1 * high(k), qk[i] += x0 * low(q) + x1 * high(q);
    }
  }
  UNROLL for (int i = 0; i < BLOCK / 2; i++) put(block + 2 * i + odd, col, kk[i], qk[i]);
  barrier();
  if (threadX() < CHUNK) invert(prepared + L::M, shared.a, shared.rate, threadX(), 1);
}

KERNEL(192, 1) kimi_delta_chunks(PARAM DeltaChunksParams c) {
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
