// The gated delta rule of sequences with more than one new token in chunks of 64 tokens (Yang et al., arXiv:2412.06464, in the WY form of arXiv:2406.06484), in two kernels. With G the sums
// of the logarithms of decays within a chunk, S the state before it, and for j < i
//   A[i][j] = β[i] e^(G[i]-G[j]) k[i]·k[j],   M = (I + A)⁻¹ diag(β),   P[i][j] = e^(G[i]-G[j]) q[i]·k[j] (also for j = i)
// what a chunk adds to the state and gives is
//   Δ = M (V - diag(e^G) K S),   O = diag(e^G) Q S + P Δ,   S ← e^(G[63]) S + (diag(e^(G[63]-G)) K)ᵀ Δ.
// gated_delta_prepare makes M and P of all chunks side by side; gated_delta_chunks goes through a sequence's chunks (chunk_scan.h). Queries and keys stay as
// they come: their lengths are factors of rows.
#include "gated_delta_chunks.h"

using L = Layout<GATED_DELTA>;

// prepare: a block is a chunk and a key head; its value heads go two at a time.
struct PrepareShared {
  union { // once they are multiplied, queries and keys are not needed any more
    struct {
      alignas(16) u8 q[2 * PANEL], k[2 * PANEL];
    };
    float a[2][CHUNK][A_LINE];
  };
  alignas(16) float sums[2][CHUNK], rate[2][CHUNK], lengthQ[CHUNK], lengthK[CHUNK];
};

// makeLengths makes what queries and keys are divided by factors: a thread has a query or a key.
DEVICE void makeLengths(PrepareShared& shared, int thread, float scale) {
  const u8* line = thread < CHUNK ? shared.q : shared.k;
  float squares[4] = {};
#pragma unroll 4
  for (int i = 0; i < MAX_KEY / 8; i++) {
    Vec16 x = *(const Vec16*)(line + i / 8 * PANEL + swizzled(thread % CHUNK, i % 8));
    UNROLL for (int e = 0; e < 4; e++) {
      float a = low(x.x[e]), b = high(x.x[e]);
      squares[e] += a * a + b * b;
    }
  }
  (thread < CHUNK ? shared.lengthQ : shared.lengthK)[thread % CHUNK] = rsqrt(squares[0] + squares[1] + squares[2] + squares[3] + L2_EPS) * (thread < CHUNK ? scale : 1);
}

// putGates stores what the decays and rates of a value head come to, of which lane l has those of tokens 2l and 2l+1.
DEVICE void putGates(PrepareShared& shared, Factors& to, int v, const float (&decay)[2], const float (&rate)[2]) {
  float sum = prefixSum(decay[0] + decay[1]), last = shuffleFrom(sum, 31), sums[2] = {sum - decay[1], sum};
  UNROLL for (int e = 0; e < 2; e++) {
    int r = 2 * lane() + e;
    shared.sums[v][r] = sums[e], shared.rate[v][r] = rate[e];
    to.before[r] = expf(sums[e]) * shared.lengthK[r], to.query[r] = expf(sums[e]) * shared.lengthQ[r];
    to.after[r] = expf(last - sums[e]) * shared.lengthK[r];
  }
  if (lane() == 0) to.decay = expf(last);
}

// putProducts makes A and P of a value head of products of keys and queries with keys, 16 rows by a warp.
DEVICE void putProducts(PrepareShared& shared, u8* to, int v, int row0, const float (&kk)[CHUNK / 8][4], const float (&qk)[CHUNK / 8][4]) {
  int g = lane() / 4, t = lane() % 4;
  asm volatile("" : "+r"(g), "+r"(t)); // so that places are computed again, and not kept from head to head
  const float* sums = shared.sums[v];
  float sum[2], a[2], q[2]; // of the thread's two rows
  UNROLL for (int e = 0; e < 2; e++) {
    int i = row0 + g + 8 * e;
    sum[e] = sums[i], a[e] = shared.lengthK[i] * shared.rate[v][i], q[e] = shared.lengthQ[i];
  }
  UNROLL for (int n = 0; n < CHUNK / 16; n++) {
    if (16 * n > row0) { // all above the diagonal; A is not read there
      UNROLL for (int e = 0; e < 4; e++) *(u32*)(to + swizzled(row0 + g + e / 2 * 8, 2 * n + e % 2) + 4 * t) = 0;
      continue;
    }
    Two ends[2], length[2]; // of the columns
    UNROLL for (int i = 0; i < 2; i++) ends[i] = *(const Two*)&sums[16 * n + 8 * i + 2 * t], length[i] = *(const Two*)&shared.lengthK[16 * n + 8 * i + 2 * t];
    float between[8]; // computed for all columns: a branch would have each exponential wait for the one before
    UNROLL for (int e = 0; e < 8; e++) {
      between[e] = expf(sum[e / 2 % 2] - ends[e / 4].x[e % 2]) * length[e / 4].x[e % 2];
      if (16 * n + e / 4 * 8 + 2 * t + e % 2 > row0 + g + e / 2 % 2 * 8) between[e] = 0;
    }
    UNROLL for (int e = 0; e < 4; e++) {
      int i = row0 + g + e % 2 * 8, j = 2 * n + e / 2, at = e % 2 * 2;
      float first = between[2 * e], second = between[2 * e + 1];
      *(u32*)(to + swizzled(i, j) + 4 * t) = pack(first * q[e % 2] * qk[j][at], second * q[e % 2] * qk[j][at + 1]);
      *(Two*)&shared.a[v][i][8 * j + 2 * t] = {first * a[e % 2] * kk[j][at], second * a[e % 2] * kk[j][at + 1]};
    }
  }
}

// prepareChunk prepares a chunk, by 128 threads, of which this one is `thread`.
DEVICE void prepareChunk(const DeltaChunksParams& c, PrepareShared& shared, int slot, int kh, int thread) {
  const DeltaParams& p = c.delta;
  int warp = uniform(thread / 32);
  auto together = [&]() __attribute__((always_inline)) { namedBarrierSync(1, 128); };
  int seq = sequenceOf(p.step, slot);
  int n = slot - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  int share = p.valueHeads / p.keyHeads;
  u32 qAt = sharedAddress(shared.q), kAt = sharedAddress(shared.k);
  loadRows(qAt, (const bf16*)p.q + (long)from * p.stride + kh * p.keySize, p.stride, rows, p.keySize);
  loadRows(kAt, (const bf16*)p.k + (long)from * p.stride + kh * p.keySize, p.stride, rows, p.keySize);
  cpAsyncCommit();
  float decay[2], rate[2]; // of tokens 2l and 2l+1 of lane l, of the warp's value head of a pair
  auto head = [&](int pair, int v) { return p.tiled ? (pair + v) * p.keyHeads + kh : kh * share + pair + v; };
  auto loadGates = [&](int pair) __attribute__((always_inline)) {
    if (warp >= mini(2, share - pair)) return;
    int h = head(pair, warp);
    UNROLL for (int e = 0; e < 2; e++) {
      int r = 2 * lane() + e;
      decay[e] = r < rows ? p.logDecay<bf16, false>(from + r, h, 0) : 0, rate[e] = r < rows ? p.rate<bf16>(from + r, h) : 0;
    }
  };
  loadGates(0);
  cpAsyncWait<0>();
  together();
  makeLengths(shared, thread, p.scale);
  int row0 = warp * 16;
  float kk[CHUNK / 8][4] = {}, qk[CHUNK / 8][4] = {};
  rowProductsBelow(kk, qk, kAt, qAt, row0, kAt);

  for (int pair = 0; pair < share; pair += 2) {
    together(); // lengths are there, and keys and the inverses before have been read
    auto prepared = [&](int v) { return c.scratch + ((long)slot * p.valueHeads + head(pair, v)) * L::PREPARED_BYTES - L::PREPARED; };
    int heads = mini(2, share - pair);
    if (warp < heads) putGates(shared, *(Factors*)(prepared(warp) + L::FACTORS), warp, decay, rate);
    together();
    for (int v = 0; v < heads; v++) putProducts(shared, prepared(v) + L::P, v, row0, kk, qk);
    if (pair + 2 < share) loadGates(pair + 2);
    together();
    int v = thread / CHUNK;
    if (v < heads) invert(prepared(v) + L::M, shared.a[v], shared.rate[v], thread % CHUNK, 2 + v);
  }
}

KERNEL(128, 4) gated_delta_prepare(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  // The last of four warps has more to do than the first, and each has a scheduler of its own: blocks have them in another order each.
  prepareChunk(c, *(PrepareShared*)dynamic, blockX(), blockY(), (threadX() + 32 * blockX()) % 128);
}

KERNEL(SCAN_THREADS<GATED_DELTA>, 1) gated_delta_chunks(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  int s = blockZ(), h = blockY(), column0 = blockX() * 64;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from == 1) return;
  ChunkScan work;
  work.q = p.query<bf16>(seq.from, h), work.k = p.key<bf16>(seq.from, h), work.v = p.value<bf16>(seq.from, h) + column0, work.stride = p.stride;
  work.y = (bf16*)p.y + ((long)seq.from * p.valueHeads + h) * p.valueSize + column0, work.yStride = (long)p.valueHeads * p.valueSize;
  work.state = seq.state + h * size + column0, work.byKey = p.valueSize, work.byColumn = 1;
  work.keySize = p.keySize, work.columns = p.valueSize - column0, work.rows = seq.to - seq.from, work.fresh = seq.fresh;
  work.prepared = c.scratch + ((long)firstChunk(p.step, s) * p.valueHeads + h) * L::PREPARED_BYTES, work.nextPrepared = (long)p.valueHeads * L::PREPARED_BYTES;
  scanChunks<GATED_DELTA>(work);
}
