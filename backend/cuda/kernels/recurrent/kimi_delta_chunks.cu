// Kimi's delta rule (graph.KimiDelta) of prompts in chunks of 64 tokens: as gated_delta_chunks.cu computes the rule with a decay for each head, with the
// sums G[i][d] of the logarithms of decays of each number of a key:
//   A[i][j] = β[i] Σ k[i][d] k[j][d] e^(G[i][d]-G[j][d]),   P[i][j] likewise of q[i] and k[j].
// Keys and queries are multiplied by decays before they come to chunk_scan.h. No exponent is ever above 0: tokens of different blocks of 16 are multiplied
// on the tensor cores, with decays from and to the beginning of the later one's block; those of one block number by number.
#include "gated_delta_chunks.h"

using L = Layout<KIMI_DELTA>;
constexpr int BLOCK = 16, LINE = MAX_KEY + 4; // floats of a row: four lanes apart in banks

struct PrepareShared {
  alignas(16) float sums[CHUNK][LINE], q[CHUNK][LINE], k[CHUNK][LINE]; // G; queries and keys, normalised
  alignas(16) float a[CHUNK][A_LINE], p[CHUNK][A_LINE];
  float rate[CHUNK];
};

// decayed is two numbers of a row from d on, times e^(from - to) of each.
DEVICE u32 decayed(const float* x, const float* from, const float* to, int d) {
  return pack(x[d] * expf(from[d] - to[d]), x[d + 1] * expf(from[d + 1] - to[d + 1]));
}

// A block is a chunk and a head; a warp has BLOCK rows of A and P.
KERNEL(128, 1) kimi_delta_prepare(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = sequenceOf(p.step, blockX()), h = blockY();
  int n = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  for (int r = warp(); r < CHUNK; r += 4) {
    float qs[MAX_KEY / 32], ks[MAX_KEY / 32], qq = 0, kk = 0;
    UNROLL for (int i = 0; i < MAX_KEY / 32; i++) {
      int d = i * 32 + lane();
      bool in = r < rows && d < p.keySize;
      qs[i] = in ? toFloat(p.query<bf16>(from + r, h)[d]) : 0, ks[i] = in ? toFloat(p.key<bf16>(from + r, h)[d]) : 0;
      qq += qs[i] * qs[i], kk += ks[i] * ks[i];
      shared.sums[r][d] = in ? p.logDecay<bf16, true>(from + r, h, d) : 0;
    }
    float qscale = rsqrt(warpSum(qq) + L2_EPS) * p.scale, kscale = rsqrt(warpSum(kk) + L2_EPS);
    UNROLL for (int i = 0; i < MAX_KEY / 32; i++) shared.q[r][i * 32 + lane()] = qs[i] * qscale, shared.k[r][i * 32 + lane()] = ks[i] * kscale;
    if (lane() == 0) shared.rate[r] = r < rows ? p.rate<bf16>(from + r, h) : 0;
  }
  barrier();
  float sum = 0; // a thread is a number of keys
  for (int r = 0; r < CHUNK; r++) shared.sums[r][threadX()] = sum += shared.sums[r][threadX()];
  barrier();

  u8* prepared = c.scratch + ((long)blockX() * p.valueHeads + h) * L::PREPARED_BYTES - L::PREPARED;
  const float* last = shared.sums[CHUNK - 1];
  ((float*)(prepared + L::FACTORS))[threadX()] = expf(last[threadX()]);
  for (int i = threadX(); i < CHUNK * MAX_KEY / 2; i += 128) {
    int r = i / (MAX_KEY / 2), d = i % (MAX_KEY / 2) * 2;
    u32 place = d / CHUNK * PANEL + swizzled(r, d % CHUNK / 8) + d % 8 * 2;
    float f0 = expf(shared.sums[r][d]), f1 = expf(shared.sums[r][d + 1]);
    *(u32*)(prepared + L::Q + place) = pack(shared.q[r][d] * f0, shared.q[r][d + 1] * f1);
    *(u32*)(prepared + L::K + place) = pack(shared.k[r][d] * f0, shared.k[r][d + 1] * f1);
    *(u32*)(prepared + L::AFTER + place) = decayed(shared.k[r], last, shared.sums[r], d);
  }

  int row0 = warp() * BLOCK, g = lane() / 4, t = lane() % 4;
  if (warp() > 0) { // with the tokens of blocks before
    const float* start = shared.sums[row0 - 1];
    float kk[CHUNK / 8][4] = {}, qk[CHUNK / 8][4] = {};
    for (int k = 0; k < MAX_KEY / 16; k++) {
      u32 key[4], query[4];
      UNROLL for (int e = 0; e < 4; e++) {
        int r = row0 + g + e % 2 * 8, d = 16 * k + e / 2 * 8 + 2 * t;
        key[e] = decayed(shared.k[r], shared.sums[r], start, d), query[e] = decayed(shared.q[r], shared.sums[r], start, d);
      }
      UNROLL for (int j = 0; j < 3 * BLOCK / 8; j++) {
        if (j >= row0 / 8) continue;
        const float *x = shared.k[8 * j + g], *sums = shared.sums[8 * j + g];
        u32 b0 = decayed(x, start, sums, 16 * k + 2 * t), b1 = decayed(x, start, sums, 16 * k + 8 + 2 * t);
        mma(kk[j], key[0], key[1], key[2], key[3], b0, b1);
        mma(qk[j], query[0], query[1], query[2], query[3], b0, b1);
      }
    }
    UNROLL for (int j = 0; j < 3 * BLOCK / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
      if (j >= row0 / 8) continue;
      int r = row0 + g + e / 2 * 8, col = 8 * j + 2 * t + e % 2;
      shared.a[r][col] = kk[j][e], shared.p[r][col] = qk[j][e];
    }
  }
  // Within the block: lane l has column l % 16 of every second row.
  int col = row0 + lane() % BLOCK, odd = lane() / BLOCK;
  float kk[BLOCK / 2] = {}, qk[BLOCK / 2] = {};
  for (int d = 0; d < p.keySize; d++) {
    float key = shared.k[col][d], sums = shared.sums[col][d];
    UNROLL for (int i = 0; i < BLOCK / 2; i++) {
      int r = row0 + 2 * i + odd;
      float x = key * expf(minf(shared.sums[r][d] - sums, 0)); // what is above the diagonal is not used
      kk[i] += x * shared.k[r][d], qk[i] += x * shared.q[r][d];
    }
  }
  UNROLL for (int i = 0; i < BLOCK / 2; i++) shared.a[row0 + 2 * i + odd][col] = kk[i], shared.p[row0 + 2 * i + odd][col] = qk[i];
  warpBarrier();
  for (int i = lane(); i < BLOCK * CHUNK / 2; i += 32) {
    int r = row0 + i / (CHUNK / 2), at = i % (CHUNK / 2) * 2;
    float x[2];
    UNROLL for (int e = 0; e < 2; e++) {
      x[e] = at + e <= r ? shared.p[r][at + e] : 0;
      if (at + e < r) shared.a[r][at + e] *= shared.rate[r];
    }
    *(u32*)(prepared + L::P + swizzled(r, at / 8) + at % 8 * 2) = pack(x[0], x[1]);
  }
  barrier();
  if (threadX() < CHUNK) invert(prepared + L::M, shared.a, threadX(), shared.rate[threadX()]);
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
  scanChunks<KIMI_DELTA, 1, 2>(work);
}
