// The preparation of a chunk of the gated delta rule for two value heads of a key head, by 128 threads with few registers.
#pragma once
#include "delta_wide.h"

using L = Layout<GATED_DELTA>;

struct WideParams {
  TensorMap rows; // of queries, keys and values, in boxes of 64 rows of 64 numbers
  DeltaChunksParams chunks;
  int k, v; // where keys and values begin in a row
  int pairs; // of value heads of a key head
  int slots, first; // for chunks, and how many are prepared before others are gone through
  int unused;
  u32* ready; // [slots][keyHeads × pairs], not zero once it is prepared
};

// HeadsShared is what a block has in shared memory. Factors of A and P are powers of two, of which one for the row and one for the column are added:
// P[i][j] = 2^(rowP[i] - past[j]) q[i]·k[j], A[i][j] = 2^(rowA[i] - past[j]) k[i]·k[j].
struct alignas(1024) HeadsShared { // as wgmma reads keys
  union { // once they are multiplied, queries and keys are not needed any more
    struct {
      alignas(16) u8 q[2 * PANEL], k[2 * PANEL];
    };
    float a[2][CHUNK][A_LINE];
  };
  alignas(16) float rowP[2][CHUNK], rowA[2][CHUNK], past[2][CHUNK], rate[2][CHUNK], lengthQ[CHUNK], lengthK[CHUNK];
};

// Rows are 16 rows of a panel, of queries or keys, as the first operand of products.
typedef u32 Rows[4][4];
DEVICE void loadRows(Rows& x, u32 panel, int row0) {
  UNROLL for (int k = 0; k < 4; k++) ldmatrix4(x[k], panel + swizzled(row0 + lane() % 16, 2 * k + lane() / 16));
}

// squares makes the squares of the lengths of 16 rows: of rows g and g + 8 by lane 4g + g/2, on the diagonal of their products with each other.
DEVICE void squares(float (&s)[2], u32 from, int row0) {
  float d[2][4] = {};
  UNROLL for (int panel = 0; panel < 2; panel++) {
    Rows x;
    loadRows(x, from + panel * PANEL, row0);
    UNROLL for (int k = 0; k < 4; k++) {
      mma(d[0], x[k][0], x[k][1], x[k][2], x[k][3], x[k][0], x[k][2]);
      mma(d[1], x[k][0], x[k][1], x[k][2], x[k][3], x[k][1], x[k][3]);
    }
  }
  UNROLL for (int e = 0; e < 2; e++) s[e] = lane() / 4 % 2 ? d[e][2 * e + 1] : d[e][2 * e];
}

// multiplyKeys is the products of 16 rows with all keys of the chunk, a panel at a time, for which there are registers.
DEVICE void multiplyKeys(float (&d)[CHUNK / 2], u32 rows, int row0, u32 keys) {
  UNROLL for (int panel = 0; panel < 2; panel++) {
    Rows x;
    loadRows(x, rows + panel * PANEL, row0);
    startProducts();
    productRows(d, x, keys + panel * PANEL, 0, panel > 0);
    commitProducts();
    waitProducts<0>();
    settle(d);
  }
}

// beginRows begins to load a chunk's rows of 128 numbers into two panels, by 128 threads; zeros beyond `rows`.
DEVICE void beginRows(u32 to, const bf16* from, long stride, int rows, int thread) {
  int row0 = thread / 16, at = thread % 16;
  const bf16* line = from + row0 * stride + at * 8;
  u32 place = to + at / 8 * PANEL + swizzled(row0, at % 8);
  UNROLL for (int i = 0; i < CHUNK / 8; i++) {
    bool in = row0 + 8 * i < rows;
    cpAsync16(place + i * 1024, in ? line : from, in);
    line += 8 * stride;
  }
}

// putHead stores what the decays and rates of a value head come to, of which lane l has those of tokens 2l and 2l+1.
DEVICE void putHead(HeadsShared& shared, WideFactors& to, int v, const float (&decay)[2], const float (&rate)[2]) {
  float sum = prefixSum(decay[0] + decay[1]), last = shuffleFrom(sum, 31), sums[2] = {sum - decay[1], sum};
  UNROLL for (int e = 0; e < 2; e++) {
    int r = 2 * lane() + e;
    float s = sums[e] * LOG2E, q = shared.lengthQ[r], k = shared.lengthK[r];
    shared.rowP[v][r] = s + log2(q), shared.rowA[v][r] = s + log2(k * rate[e]), shared.past[v][r] = s - log2(k), shared.rate[v][r] = rate[e];
    to.of(0, r) = exp2(s) * k, to.of(1, r) = exp2(s) * q, to.of(2, r) = expf(last - sums[e]) * k;
  }
  if (lane() == 0) to.decay = expf(last);
}

// Power is the factors of a thread's numbers in a tile of 16 × 16.
struct Power {
  float row[2];
  const float* past;

  DEVICE Power(const float* rows, const float* past, int row0) : past(past + lane() % 4 * 2) { UNROLL for (int e = 0; e < 2; e++) row[e] = rows[row0 + lane() / 4 + 8 * e]; }
  // of multiplies numbers of columns 16n + 8i to 16n + 8i + 7 by them.
  DEVICE void of(float (&x)[4], const float (&d)[4], int n, int i) const {
    Two ends = *(const Two*)(past + 16 * n + 8 * i);
    UNROLL for (int e = 0; e < 4; e++) x[e] = exp2(row[e / 2] - ends.x[e % 2]) * d[e];
  }
};

// prepareHeads prepares a chunk for value heads 2·pair and 2·pair + 1 of a key head. thread: which of the 128 this one is, whose named barrier is `id`.
DEVICE void prepareHeads(const DeltaChunksParams& c, HeadsShared& shared, int slot, int kh, int pair, int thread, int id) {
  const DeltaParams& p = c.delta;
  int warp = uniform(thread / 32), row0 = warp * 16, share = p.valueHeads / p.keyHeads, heads = mini(2, share - 2 * pair);
  auto together = [&]() __attribute__((always_inline)) { namedBarrierSync(id, 128); };
  int seq = sequenceOf(p.step, slot);
  int n = slot - firstChunk(p.step, seq), from = p.step.qStart[seq] + n * CHUNK, rows = mini(CHUNK, p.step.qStart[seq + 1] - from);
  if (rows <= 0 || p.step.qStart[seq + 1] - p.step.qStart[seq] == 1) return;
  u32 qAt = sharedAddress(shared.q), kAt = sharedAddress(shared.k);
  long first = (long)from * p.stride + kh * MAX_KEY;
  beginRows(qAt, (const bf16*)p.q + first, p.stride, rows, thread);
  beginRows(kAt, (const bf16*)p.k + first, p.stride, rows, thread);
  cpAsyncCommit();
  auto prepared = [&](int v) {
    int h = p.tiled ? (2 * pair + v) * p.keyHeads + kh : kh * share + 2 * pair + v;
    return c.scratch + ((long)slot * p.valueHeads + h) * L::PREPARED_BYTES - L::PREPARED;
  };
  float decay[2], rate[2]; // of tokens 2l and 2l+1 of lane l, of the warp's value head
  if (warp < heads) {
    int h = p.tiled ? (2 * pair + warp) * p.keyHeads + kh : kh * share + 2 * pair + warp;
    UNROLL for (int e = 0; e < 2; e++) {
      int r = 2 * lane() + e;
      decay[e] = r < rows ? p.logDecay<bf16, false>(from + r, h, 0) : 0, rate[e] = r < rows ? p.rate<bf16>(from + r, h) : 0;
    }
  }
  cpAsyncWait<0>();
  fenceProxyAsync();
  together();
  float d[CHUNK / 2];
  {
    float q[2], k[2];
    squares(q, qAt, row0);
    squares(k, kAt, row0);
    int g = lane() / 4;
    if (lane() % 4 == g / 2) UNROLL for (int e = 0; e < 2; e++) {
      int i = row0 + g + 8 * e;
      shared.lengthQ[i] = rsqrt(q[e] + L2_EPS) * p.scale, shared.lengthK[i] = rsqrt(k[e] + L2_EPS);
    }
  }
  together();
  if (warp < heads) putHead(shared, *(WideFactors*)(prepared(warp) + L::FACTORS), warp, decay, rate);
  multiplyKeys(d, qAt, row0, kAt);
  together();
#pragma unroll 1
  for (int v = 0; v < heads; v++) { // P takes the place of queries that this warp alone reads
    Power power(shared.rowP[v], shared.past[v], row0);
    u32 to = qAt + v * PANEL + row0 * 128;
    UNROLL for (int n = 0; n < CHUNK / 16; n++) {
      u32 out[4] = {};
      if (16 * n <= row0) UNROLL for (int i = 0; i < 2; i++) {
        float x[4];
        power.of(x, quad(d, 2 * n + i), n, i);
        if (16 * n == row0) UNROLL for (int e = 0; e < 4; e++)
          if (8 * i + lane() % 4 * 2 + e % 2 > lane() / 4 + e / 2 * 8) x[e] = 0;
        out[2 * i] = pack(x[0], x[1]), out[2 * i + 1] = pack(x[2], x[3]);
      }
      storeMatrices(to + swizzled(lane() % 16, 2 * n + lane() / 16), out);
    }
    warpBarrier();
    u8* lines = prepared(v) + L::P + row0 * 128 + lane() * 16;
    UNROLL for (int i = 0; i < 4; i++) {
      Vec16 x;
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3]) : "r"(to + lane() * 16 + 512 * i) : "memory");
      *(Vec16*)(lines + 512 * i) = x;
    }
  }
  multiplyKeys(d, kAt, row0, kAt);
  together(); // keys have been read
#pragma unroll 1
  for (int v = 0; v < heads; v++) {
    Power power(shared.rowA[v], shared.past[v], row0);
    float* to = &shared.a[v][row0 + lane() / 4][lane() % 4 * 2];
    UNROLL for (int n = 0; n < CHUNK / 16; n++) {
      if (16 * n > row0) break;
      UNROLL for (int i = 0; i < 2; i++) {
        float x[4];
        power.of(x, quad(d, 2 * n + i), n, i);
        UNROLL for (int e = 0; e < 2; e++) *(Two*)(to + 8 * e * A_LINE + 16 * n + 8 * i) = {x[2 * e], x[2 * e + 1]};
      }
    }
  }
  together();
  int v = thread / CHUNK;
  if (v < heads) invert(prepared(v) + L::M, shared.a[v], shared.rate[v], thread % CHUNK, id, 128);
  else UNROLL for (int i = 0; i < 3; i++) together(); // as in invert
}
