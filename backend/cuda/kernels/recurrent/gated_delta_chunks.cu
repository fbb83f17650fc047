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
  alignas(16) u8 q[2 * PANEL];
  alignas(16) u8 k[2 * PANEL];
  alignas(16) float a[2][CHUNK][A_LINE];
  float sums[2][CHUNK], rate[2][CHUNK], lengthQ[CHUNK], lengthK[CHUNK];
};

KERNEL(128, 1) gated_delta_prepare(PARAM DeltaChunksParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.delta;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = sequenceOf(p.step, blockX()), kh = blockY();
  int n = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  int share = p.valueHeads / p.keyHeads;
  u32 qAt = sharedAddress(shared.q), kAt = sharedAddress(shared.k);
  loadRows(qAt, (const bf16*)p.q + (long)from * p.stride + kh * p.keySize, p.stride, rows, p.keySize);
  loadRows(kAt, (const bf16*)p.k + (long)from * p.stride + kh * p.keySize, p.stride, rows, p.keySize);
  cpAsyncCommit();
  cpAsyncWait<0>();
  barrier();
  { // a thread is a query or a key
    const u8* line = threadX() < CHUNK ? shared.q : shared.k;
    float squares = 0;
    for (int i = 0; i < MAX_KEY / 8; i++) {
      Vec16 x = *(const Vec16*)(line + i / 8 * PANEL + swizzled(threadX() % CHUNK, i % 8));
      UNROLL for (int e = 0; e < 4; e++) {
        float a = low(x.x[e]), b = high(x.x[e]);
        squares += a * a + b * b;
      }
    }
    (threadX() < CHUNK ? shared.lengthQ : shared.lengthK)[threadX() % CHUNK] = rsqrt(squares + L2_EPS) * (threadX() < CHUNK ? p.scale : 1);
  }
  int row0 = warp() * 16, g = lane() / 4, t = lane() % 4;
  float kk[CHUNK / 8][4] = {}, qk[CHUNK / 8][4] = {};
  rowProducts(kk, kAt, row0, kAt);
  rowProducts(qk, qAt, row0, kAt);

  for (int pair = 0; pair < share; pair += 2) {
    barrier(); // lengths are there, and the inverses before have been read
    auto head = [&](int v) { return p.tiled ? (pair + v) * p.keyHeads + kh : kh * share + pair + v; };
    auto prepared = [&](int v) { return c.scratch + ((long)blockX() * p.valueHeads + head(v)) * L::PREPARED_BYTES - L::PREPARED; };
    int heads = mini(2, share - pair);
    if (warp() < heads) { // gates: lane l has tokens 2l and 2l+1
      int h = head(warp());
      float decay[2], rate[2];
      UNROLL for (int e = 0; e < 2; e++) {
        int r = 2 * lane() + e;
        decay[e] = r < rows ? p.logDecay<bf16, false>(from + r, h, 0) : 0, rate[e] = r < rows ? p.rate<bf16>(from + r, h) : 0;
      }
      float sum = prefixSum(decay[0] + decay[1]), last = shuffleFrom(sum, 31), sums[2] = {sum - decay[1], sum};
      Factors& to = *(Factors*)(prepared(warp()) + L::FACTORS);
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
      u8* to = prepared(v) + L::P;
      UNROLL for (int j = 0; j < CHUNK / 8; j++) UNROLL for (int e = 0; e < 4; e += 2) {
        int i = row0 + g + 4 * e, col = 8 * j + 2 * t; // 4e: 0 or 8
        float values[2];
        UNROLL for (int f = 0; f < 2; f++) {
          float between = col + f <= i ? expf(shared.sums[v][i] - shared.sums[v][col + f]) * shared.lengthK[col + f] : 0;
          values[f] = between * shared.lengthQ[i] * qk[j][e + f];
          shared.a[v][i][col + f] = between * shared.lengthK[i] * shared.rate[v][i] * kk[j][e + f];
        }
        *(u32*)(to + swizzled(i, j) + 4 * t) = pack(values[0], values[1]);
      }
    }
    barrier();
    int v = threadX() / CHUNK;
    if (v < heads) invert(prepared(v) + L::M, shared.a[v], shared.rate[v], threadX() % CHUNK, 1 + v);
  }
}

KERNEL(192, 1) gated_delta_chunks(PARAM DeltaChunksParams c) {
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
