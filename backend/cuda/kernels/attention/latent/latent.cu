// Attention over a latent cache (multi-head latent attention with absorbed matrices), whose keys all heads share and whose values are the first numbers
// of keys, with mma.sync: the heads of a row are the M of the products. A block takes 64 heads of one row and a split of its keys, all that it sees or
// those that an indexer has chosen; keys are loaded row by row (cp.async), so that chosen ones cost what others do. Warp w has heads 16·(w/2) to
// 16·(w/2)+15. The two warps of a pair each hold half of the numbers of these queries in registers, make half of each score, add up the halves through
// shared memory, and each accumulate half of the result. With several splits, latent_combine adds them up.
#include "latent.h"

constexpr int HEADS = 64, KEYS = 32, STAGES = 4; // of a block of 256 threads
constexpr int MAX_K = 576, MAX_V = 512;
constexpr int LINE = 2 * MAX_K + 16;             // bytes of a key in shared memory: eight of them begin in different banks
constexpr int STEPS = MAX_K / 16 / 2, TILES = MAX_V / 16 / 2; // of a warp: k16 of scores, and n16 of the result
constexpr int EXCHANGE = STAGES * KEYS * LINE;   // where the halves of scores lie, [8 warps][16][32 lanes] float
extern SHARED u8 dynamic[];

DEVICE void pairBarrier(int pair) { asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory"); }

// KeyLoader loads keys, one row of a tile for eight threads each.
struct KeyLoader {
  const LatentParams& p;
  const int* pages;
  const float* chosen;
  int end, row, chunk; // keys before end are read; this thread's row of a tile, and its first 16 bytes of it
  const u8* next;      // this thread's key of the tile that is loaded next, or null

  DEVICE KeyLoader(const LatentParams& p, int r, int seq, int end) : p(p), end(end) {
    pages = p.step.pages + (long)seq * p.step.seqPages, chosen = p.chosen ? p.chosen + (long)r * p.most : nullptr;
    row = threadX() / 8, chunk = threadX() % 8;
  }
  // find looks up a key before the load of its tile.
  DEVICE void find(int first) {
    int key = first + row;
    next = nullptr;
    if (key >= end) return;
    if (chosen) key = (int)chosen[key];
    if (key < 0) return;
    long slot = ((long)pages[key >> p.step.pageShift] << p.step.pageShift) + (key & ((1 << p.step.pageShift) - 1));
    next = p.cache + slot * 2 * p.kSize;
  }
  DEVICE void load(u32 to) {
    const u8* from = next ? next : p.cache;
    UNROLL for (int i = 0; i < MAX_K / 64; i++) {
      int at = chunk + 8 * i;
      bool in = next && at * 8 < p.kSize;
      cpAsync16(to + row * LINE + at * 16, in ? from + at * 16 : p.cache, in);
    }
  }
};

template <typename N> DEVICE void attend(const LatentParams& p) {
  launchDependentsAndWait();
  // Blocks of heads of a row run side by side and share its keys in the L2 cache; the last rows of a prompt, which see the most keys, go first.
  int blocks = ceilDiv(p.heads, HEADS), r = gridX() / blocks - 1 - blockX() / blocks, h0 = blockX() % blocks * HEADS, split = blockY();
  LatentRow row(p, r, split, KEYS);
  if (row.skipped()) return;
  int seq = row.seq, first = row.first, end = row.end;
  int tiles = ceilDiv(maxi(end - first, 0), KEYS), pair = warp() / 2, half = warp() % 2, g = lane() / 4, t = lane() % 4;
  u32 ring = sharedAddress(dynamic);
  KeyLoader keysOf(p, r, seq, end);
  keysOf.find(first);
  UNROLL for (int i = 0; i < STAGES - 1; i++) {
    if (i < tiles) keysOf.load(ring + i * KEYS * LINE);
    cpAsyncCommit();
    keysOf.find(first + (i + 1) * KEYS);
  }

  u32 q[STEPS][4]; // zero where there is no head, and beyond its numbers
  UNROLL for (int k = 0; k < STEPS; k++) UNROLL for (int e = 0; e < 4; e++) {
    int head = h0 + 16 * pair + g + e % 2 * 8, at = (half * STEPS + k) * 16 + e / 2 * 8 + 2 * t;
    q[k][e] = head < p.heads && at < p.kSize ? N::query(*(const u32*)(p.q + ((long)r * p.heads + head) * p.kSize + at)) : 0;
  }
  float out[2 * TILES][4] = {}, rowMax[2] = {MASK_VALUE, MASK_VALUE}, sum[2] = {};
  float* mine = (float*)(dynamic + EXCHANGE) + warp() * 16 * 32 + lane();
  const float* other = (const float*)(dynamic + EXCHANGE) + (warp() ^ 1) * 16 * 32 + lane();
  // Where this lane reads of four 8 × 8 matrices: keys across (two registers are an operand), values down and transposed.
  u32 across = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16 + half * STEPS * 32, down = lane() % 16 * LINE + lane() / 16 * 16 + half * TILES * 32;
  float scaled = p.scale * LOG2E;

  for (int tile = 0; tile < tiles; tile++) {
    cpAsyncWait<STAGES - 2>();
    barrier(); // the tile is here, and the one before has been read
    if (tile + STAGES - 1 < tiles) {
      keysOf.load(ring + (tile + STAGES - 1) % STAGES * KEYS * LINE);
      keysOf.find(first + (tile + STAGES) * KEYS);
    }
    cpAsyncCommit();
    u32 at = ring + tile % STAGES * KEYS * LINE;
    float score[KEYS / 8][4] = {};
    UNROLL for (int k = 0; k < STEPS; k++) UNROLL for (int n = 0; n < KEYS / 16; n++) {
      u32 key[4];
      ldmatrix4(key, at + across + n * 16 * LINE + k * 32);
      N::multiply(score[2 * n], q[k], key[0], key[1]);
      N::multiply(score[2 * n + 1], q[k], key[2], key[3]);
    }
    UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) mine[(4 * n + e) * 32] = score[n][e];
    pairBarrier(pair);
    int left = end - first - tile * KEYS; // keys of this tile
    float newMax[2] = {rowMax[0], rowMax[1]};
    UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) {
      score[n][e] += other[(4 * n + e) * 32];
      int key = 8 * n + 2 * t + e % 2;
      if (key >= left) score[n][e] = MASK_VALUE;
      newMax[e / 2] = maxf(newMax[e / 2], score[n][e]);
    }
    float rescale[2];
    UNROLL for (int h = 0; h < 2; h++) {
      newMax[h] = maxf(newMax[h], shuffleXor(newMax[h], 1));
      newMax[h] = maxf(newMax[h], shuffleXor(newMax[h], 2));
      rescale[h] = exp2((rowMax[h] - newMax[h]) * scaled);
      rowMax[h] = newMax[h], sum[h] *= rescale[h];
    }
    UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) {
      score[n][e] = score[n][e] <= 0.1f * MASK_VALUE ? 0 : exp2((score[n][e] - rowMax[e / 2]) * scaled);
      sum[e / 2] += score[n][e];
    }
    if (!allSync(rescale[0] == 1 && rescale[1] == 1)) UNROLL for (int j = 0; j < 2 * TILES; j++) UNROLL for (int e = 0; e < 4; e++) out[j][e] *= rescale[e / 2];
    UNROLL for (int k = 0; k < KEYS / 16; k++) {
      u32 prob[4], value[4];
      UNROLL for (int e = 0; e < 4; e++) prob[e] = N::pair(score[2 * k + e / 2][e % 2 * 2], score[2 * k + e / 2][e % 2 * 2 + 1]);
      UNROLL for (int n = 0; n < TILES; n++) {
        ldmatrix4Trans(value, at + down + k * 16 * LINE + n * 32);
        N::multiply(out[2 * n], prob, value[0], value[1]);
        N::multiply(out[2 * n + 1], prob, value[2], value[3]);
      }
    }
    pairBarrier(pair); // the halves of scores have been read
  }

  UNROLL for (int h = 0; h < 2; h++) {
    sum[h] += shuffleXor(sum[h], 1);
    sum[h] += shuffleXor(sum[h], 2);
    int in = 16 * pair + g + 8 * h, head = h0 + in;
    if (head >= p.heads) continue;
    if (p.splits == 1) {
      float f = reciprocal(sum[h]);
      u32* y = (u32*)(p.y + ((long)r * p.heads + head) * p.vSize);
      UNROLL for (int j = 0; j < 2 * TILES; j++) {
        int d = (half * 2 * TILES + j) * 8 + 2 * t;
        if (d < p.vSize) y[d / 2] = pack(out[j][2 * h] * f, out[j][2 * h + 1] * f);
      }
      continue;
    }
    float* part = p.partial + ((((long)r * blocks + h0 / HEADS) * p.splits + split) * HEADS + in) * (p.vSize + 2);
    UNROLL for (int j = 0; j < 2 * TILES; j++) {
      int d = (half * 2 * TILES + j) * 8 + 2 * t;
      if (d < p.vSize) part[d] = out[j][2 * h], part[d + 1] = out[j][2 * h + 1];
    }
    if (half == 0 && t == 0) part[p.vSize] = rowMax[h] * scaled, part[p.vSize + 1] = sum[h];
  }
}
KERNEL(256, 1) latent_attention_bf16(PARAM LatentParams p) { attend<Bf16>(p); }
KERNEL(256, 1) latent_attention_f16(PARAM LatentParams p) { attend<Half>(p); }

// latent_combine adds up the splits of one head of one row, in a fixed order.
KERNEL(128, 1) latent_combine(PARAM LatentParams p) {
  launchDependentsAndWait();
  int r = blockY(), head = blockX(), blocks = ceilDiv(p.heads, HEADS), width = p.vSize + 2;
  if (r >= p.step.counts[COUNT_TOKENS] || (p.treeLen && !p.chosen && p.treeLen[p.step.rowSeq[r]])) return;
  const float* parts = p.partial + ((((long)r * blocks + head / HEADS) * p.splits) * HEADS + head % HEADS) * width;
  long next = (long)HEADS * width; // from split to split
  float most = MASK_VALUE, sum = 0;
  for (int i = 0; i < p.splits; i++) most = maxf(most, parts[i * next + p.vSize]);
  for (int i = 0; i < p.splits; i++) sum += exp2(parts[i * next + p.vSize] - most) * parts[i * next + p.vSize + 1];
  float f = reciprocal(sum);
  for (int d = threadX(); d < p.vSize; d += 128) {
    float x = 0;
    for (int i = 0; i < p.splits; i++) x += exp2(parts[i * next + p.vSize] - most) * parts[i * next + d];
    p.y[((long)r * p.heads + head) * p.vSize + d] = fromFloat<bf16>(x * f);
  }
}
