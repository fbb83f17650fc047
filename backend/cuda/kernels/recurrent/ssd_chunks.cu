// Mamba 2's state space layer (graph.SSD) of prompts in chunks of 64 tokens on the tensor cores (state space duality: Dao and Gu, arXiv:2405.21060), in two
// kernels. With G the sums of Δ·decay within a chunk and h the state before it, x the rows of a head, B and C what is read from and written to its group's
// state:
//   P[i][j] = e^(G[i]-G[j]) Δ[j] C[i]·B[j], and the skip for j = i;   O = diag(e^G) C hᵀ + P x;   h ← e^(G[63]) h + xᵀ diag(e^(G[63]-G) Δ) B.
// ssd_prepare makes P of all chunks side by side; ssd_chunks goes through a sequence's chunks (chunk_scan.h): C are its queries, B its keys.
#include "chunk_prepare.h"
#include "ssd.h"

using L = Layout<STATE_SPACE>;

struct SSDChunksParams {
  SSDParams ssd;
  u8* scratch; // [chunks][heads] of Layout::PREPARED_BYTES
};

constexpr int HEADS = 8; // of a block of ssd_prepare, of one group

struct PrepareShared {
  alignas(16) u8 c[2 * PANEL];
  alignas(16) u8 b[2 * PANEL];
  alignas(16) float sums[4][CHUNK], delta[4][CHUNK]; // of a warp
};

// A block is a chunk and up to HEADS heads of a group; all warps have C·B of 16 rows each, for one head after the other.
KERNEL(128, 1) ssd_prepare(PARAM SSDChunksParams of) {
  launchDependentsAndWait();
  const SSDParams& p = of.ssd;
  PrepareShared& shared = *(PrepareShared*)dynamic;
  int seq = sequenceOf(p.step, blockX()), share = p.heads / p.groups, blocks = ceilDiv(share, HEADS), group = blockY() / blocks, head0 = group * share + blockY() % blocks * HEADS;
  int n = blockX() - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  int inner = p.heads * p.headSize;
  long width = inner + 2l * p.groups * p.stateSize;
  const bf16* in = (const bf16*)p.x + from * width + inner + group * p.stateSize;
  u32 bAt = sharedAddress(shared.b), cAt = sharedAddress(shared.c);
  loadRows(bAt, in, width, rows, p.stateSize);
  loadRows(cAt, in + p.groups * p.stateSize, width, rows, p.stateSize);
  cpAsyncCommit();
  cpAsyncWait<0>();
  barrier();
  int row0 = warp() * 16, g = lane() / 4, t = lane() % 4;
  float cb[CHUNK / 8][4] = {};
  rowProducts(cb, cAt, row0, bAt);
  float *sums = shared.sums[warp()], *deltas = shared.delta[warp()];
  for (int h = head0; h < mini(head0 + HEADS, (group + 1) * share); h++) {
    float delta[2], decay[2]; // lane l has tokens 2l and 2l+1
    UNROLL for (int e = 0; e < 2; e++) {
      int r = 2 * lane() + e;
      delta[e] = r < rows ? p.delta<bf16>(from + r, h) : 0, decay[e] = delta[e] * p.decay[h];
    }
    float sum = prefixSum(decay[0] + decay[1]), last = shuffleFrom(sum, 31), ends[2] = {sum - decay[1], sum};
    u8* prepared = of.scratch + ((long)blockX() * p.heads + h) * L::PREPARED_BYTES - L::PREPARED;
    Factors& to = *(Factors*)(prepared + L::FACTORS);
    warpBarrier(); // the head before has been read
    UNROLL for (int e = 0; e < 2; e++) {
      int r = 2 * lane() + e;
      sums[r] = ends[e], deltas[r] = delta[e];
      if (warp() == 0) to.query[r] = expf(ends[e]), to.after[r] = expf(last - ends[e]) * delta[e];
    }
    if (threadX() == 0) to.decay = expf(last);
    warpBarrier();
    float skip = p.skip[h];
    float row[2] = {sums[row0 + g], sums[row0 + g + 8]};
    UNROLL for (int j = 0; j < CHUNK / 8; j++) {
      Two ends = *(const Two*)&sums[8 * j + 2 * t], delta = *(const Two*)&deltas[8 * j + 2 * t];
      float values[4]; // computed for all columns: a branch would have each exponential wait for the one before
      UNROLL for (int e = 0; e < 4; e++) {
        int i = row0 + g + e / 2 * 8, col = 8 * j + 2 * t + e % 2;
        values[e] = expf(row[e / 2] - ends.x[e % 2]) * delta.x[e % 2] * cb[j][e] + (col == i ? skip : 0);
        if (col > i) values[e] = 0;
      }
      UNROLL for (int e = 0; e < 2; e++) *(u32*)(prepared + L::P + swizzled(row0 + g + 8 * e, j) + 4 * t) = pack(values[2 * e], values[2 * e + 1]);
    }
  }
}

KERNEL(SCAN_THREADS<STATE_SPACE>, 1) ssd_chunks(PARAM SSDChunksParams of) {
  launchDependentsAndWait();
  const SSDParams& p = of.ssd;
  int s = blockZ(), h = blockY(), column0 = blockX() * 64;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.headSize * p.stateSize;
  Sequence seq(p.step, s, p.states, size * p.heads);
  if (seq.to - seq.from == 1) return;
  int inner = p.heads * p.headSize, group = h / (p.heads / p.groups);
  ChunkScan work;
  work.stride = inner + 2l * p.groups * p.stateSize;
  const bf16* row = (const bf16*)p.x + seq.from * work.stride;
  work.v = row + h * p.headSize + column0, work.k = row + inner + group * p.stateSize, work.q = work.k + p.groups * p.stateSize;
  work.y = (bf16*)p.y + (long)seq.from * inner + h * p.headSize + column0, work.yStride = inner;
  work.state = seq.state + h * size + (long)column0 * p.stateSize, work.byKey = 1, work.byColumn = p.stateSize;
  work.keySize = p.stateSize, work.columns = p.headSize - column0, work.rows = seq.to - seq.from, work.fresh = seq.fresh;
  work.prepared = of.scratch + ((long)firstChunk(p.step, s) * p.heads + h) * L::PREPARED_BYTES, work.nextPrepared = (long)p.heads * L::PREPARED_BYTES;
  scanChunks<STATE_SPACE>(work);
}
