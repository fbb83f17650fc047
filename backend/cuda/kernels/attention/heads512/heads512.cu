// Attention with heads of more than 256, up to 512, with mma.sync, on any GPU from Ampere on: prompts, and sequences with one new token, whose keys are
// split over blocks. A block takes 64 rows of queries of one key head: the query heads that share it, of one token or of several, one behind the other. Keys
// and values are loaded 32 at a time (cp.async). Warp w has queries 16·(w/2) to 16·(w/2)+15. No warp has registers for all numbers of a head: the two of a
// pair each hold half of the numbers of these queries, make half of each score, add up the halves through shared memory, and each accumulate half of the
// result. With several splits, heads512_combine adds them up.
#include "../../kv_cache.h"

struct Heads512Params {
  Step step;
  const bf16* q; // [T, heads × kSize]
  u8* cache;
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × kvHeads][splits][64][vSize + 2]: unscaled P × V, row max, row sum
  const int* treeLen; // [S] or null; rows of sequences with a token tree are another kernel's
  int heads, kvHeads, kSize, vSize, window;
  int splits;
  int tiled;          // 1: the work is the step's list of tiles; 0: its sequences with one new token
  float scale, softcap; // softcap 0: none
};

constexpr int QUERIES = 64, KEYS = 32, TILE_ROWS = 128; // of a block, of a tile of keys, and of one of the step's list
constexpr int D = 512, LINE = 2 * D + 16, LINES = 2 * KEYS * LINE; // LINE: bytes of a key or value: eight of them begin in different banks
constexpr int STEPS = D / 16 / 2, TILES = D / 16 / 2; // of a warp: k16 of scores, and n16 of the result
constexpr float MASK_VALUE = -1e30f;
extern SHARED u8 dynamic[];

struct Bf16 {
  static DEVICE u32 query(u32 x) { return x; }
  static DEVICE u32 pair(float a, float b) { return pack(a, b); }
  static DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(d, a[0], a[1], a[2], a[3], b0, b1); }
};
struct Half {
  static DEVICE u32 query(u32 x) { return packF16(low(x), high(x)); }
  static DEVICE u32 pair(float a, float b) { return packF16(a, b); }
  static DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mmaF16(d, a[0], a[1], a[2], a[3], b0, b1); }
};

DEVICE void pairBarrier(int pair) { asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory"); }

// Work is a block's: rows [row0, row0 + rows) of a sequence, of which the first stands at position pos0, with the query heads of key head kv; and keys [first, end).
struct Work {
  int seq, row0, rows, pos0, kv, share, first, end;

  DEVICE Work(const Heads512Params& p) : rows(0) {
    const Step& s = p.step;
    share = p.heads / p.kvHeads, kv = blockY();
    int each = QUERIES / share; // rows of a block
    if (p.tiled) {
      int parts = ceilDiv(TILE_ROWS, each), tile = blockX() / parts, part = parts - 1 - blockX() % parts; // the last rows see the most keys and go first
      seq = s.tiles[2 * tile], row0 = s.tiles[2 * tile + 1] + part * each;
      rows = mini(mini(each, TILE_ROWS - part * each), s.qStart[seq + 1] - row0);
    } else {
      seq = blockX();
      if (seq >= s.counts[COUNT_SEQS]) return;
      row0 = s.qStart[seq];
      if (s.qStart[seq + 1] - row0 != 1 || (p.treeLen && p.treeLen[seq])) return;
      rows = 1;
    }
    if (rows <= 0) return;
    pos0 = s.kvLen[seq] - s.qStart[seq + 1] + row0;
    first = p.window > 0 ? maxi(0, pos0 - p.window + 1) / KEYS * KEYS : 0, end = pos0 + rows;
    int split = ceilDiv(ceilDiv(end - first, p.splits), KEYS) * KEYS;
    first += blockZ() * split, end = mini(end, first + split);
  }
};

// load loads a tile of keys and values, eight threads each.
DEVICE void load(const Heads512Params& p, const Work& w, u32 to, int key0) {
  Pages<bf16> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, p.step.pageShift};
  int line = threadX() / 8, chunk = threadX() % 8, key = key0 + line;
  bool in = key < w.end;
  const u8 *k = p.cache, *v = p.cache;
  if (in) {
    long page = p.step.pages[(long)w.seq * p.step.seqPages + (key >> p.step.pageShift)];
    k = (const u8*)cache.key(page, key, w.kv), v = (const u8*)cache.value(page, key, w.kv);
  }
  UNROLL for (int i = 0; i < D / 64; i++) {
    int at = chunk + 8 * i;
    bool isKey = in && at * 8 < p.kSize, isValue = in && at * 8 < p.vSize;
    cpAsync16(to + line * LINE + at * 16, isKey ? k + at * 16 : p.cache, isKey);
    cpAsync16(to + (KEYS + line) * LINE + at * 16, isValue ? v + at * 16 : p.cache, isValue);
  }
}

template <typename N, int STAGES> DEVICE void attend(const Heads512Params& p) {
  launchDependentsAndWait();
  Work work(p);
  if (work.rows <= 0) return;
  int tiles = ceilDiv(maxi(work.end - work.first, 0), KEYS), pair = warp() / 2, half = warp() % 2, g = lane() / 4, t = lane() % 4;
  u32 ring = sharedAddress(dynamic);
  UNROLL for (int i = 0; i < STAGES - 1; i++) {
    if (i < tiles) load(p, work, ring + i * LINES, work.first + i * KEYS);
    cpAsyncCommit();
  }
  // This thread's two queries: a row each, and a head; -1 where there is none.
  int row[2], head[2], pos[2];
  UNROLL for (int h = 0; h < 2; h++) {
    int m = 16 * pair + g + 8 * h, r = m / work.share;
    row[h] = r < work.rows ? work.row0 + r : -1, head[h] = work.kv * work.share + m % work.share, pos[h] = r < work.rows ? work.pos0 + r : -1;
  }
  u32 q[STEPS][4]; // zero where there is no query, and beyond its numbers
  UNROLL for (int k = 0; k < STEPS; k++) UNROLL for (int e = 0; e < 4; e++) {
    int at = (half * STEPS + k) * 16 + e / 2 * 8 + 2 * t;
    q[k][e] = row[e % 2] >= 0 && at < p.kSize ? N::query(*(const u32*)(p.q + ((long)row[e % 2] * p.heads + head[e % 2]) * p.kSize + at)) : 0;
  }
  float out[2 * TILES][4] = {}, rowMax[2] = {MASK_VALUE, MASK_VALUE}, sum[2] = {};
  float* mine = (float*)(dynamic + STAGES * LINES) + warp() * 16 * 32 + lane();
  const float* other = (const float*)(dynamic + STAGES * LINES) + (warp() ^ 1) * 16 * 32 + lane();
  // Where this lane reads of four 8 × 8 matrices: keys across (two registers are an operand), values down and transposed.
  u32 across = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16 + half * STEPS * 32, down = (KEYS + lane() % 16) * LINE + lane() / 16 * 16 + half * TILES * 32;
  float scaled = p.softcap != 0 ? LOG2E : p.scale * LOG2E;

  for (int tile = 0; tile < tiles; tile++) {
    cpAsyncWait<STAGES - 2>();
    barrier(); // the tile is here, and the one before has been read
    if (tile + STAGES - 1 < tiles) load(p, work, ring + (tile + STAGES - 1) % STAGES * LINES, work.first + (tile + STAGES - 1) * KEYS);
    cpAsyncCommit();
    u32 at = ring + tile % STAGES * LINES;
    float score[KEYS / 8][4] = {};
    UNROLL for (int k = 0; k < STEPS; k++) UNROLL for (int n = 0; n < KEYS / 16; n++) {
      u32 key[4];
      ldmatrix4(key, at + across + n * 16 * LINE + k * 32);
      N::multiply(score[2 * n], q[k], key[0], key[1]);
      N::multiply(score[2 * n + 1], q[k], key[2], key[3]);
    }
    UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) mine[(4 * n + e) * 32] = score[n][e];
    pairBarrier(pair);
    float newMax[2] = {rowMax[0], rowMax[1]};
    UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int e = 0; e < 4; e++) {
      float& x = score[n][e];
      x += other[(4 * n + e) * 32];
      if (p.softcap != 0) x = p.softcap * tanhf(x * p.scale / p.softcap);
      int key = work.first + tile * KEYS + 8 * n + 2 * t + e % 2;
      if (key > pos[e / 2] || key >= work.end || (p.window > 0 && key <= pos[e / 2] - p.window)) x = MASK_VALUE;
      newMax[e / 2] = maxf(newMax[e / 2], x);
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
    if (row[h] < 0) continue;
    if (p.splits == 1) {
      float f = reciprocal(sum[h]);
      u32* y = (u32*)(p.y + ((long)row[h] * p.heads + head[h]) * p.vSize);
      UNROLL for (int j = 0; j < 2 * TILES; j++) {
        int d = (half * 2 * TILES + j) * 8 + 2 * t;
        if (d < p.vSize) y[d / 2] = pack(out[j][2 * h] * f, out[j][2 * h + 1] * f);
      }
      continue;
    }
    float* part = p.partial + ((((long)work.seq * p.kvHeads + work.kv) * p.splits + blockZ()) * QUERIES + 16 * pair + g + 8 * h) * (p.vSize + 2);
    UNROLL for (int j = 0; j < 2 * TILES; j++) {
      int d = (half * 2 * TILES + j) * 8 + 2 * t;
      if (d < p.vSize) part[d] = out[j][2 * h], part[d + 1] = out[j][2 * h + 1];
    }
    if (half == 0 && t == 0) part[p.vSize] = rowMax[h] * scaled, part[p.vSize + 1] = sum[h];
  }
}
KERNEL(256, 1) heads512_2_bf16(PARAM Heads512Params p) { attend<Bf16, 2>(p); }
KERNEL(256, 1) heads512_2_f16(PARAM Heads512Params p) { attend<Half, 2>(p); }
KERNEL(256, 1) heads512_3_bf16(PARAM Heads512Params p) { attend<Bf16, 3>(p); }
KERNEL(256, 1) heads512_3_f16(PARAM Heads512Params p) { attend<Half, 3>(p); }

// heads512_combine adds up the splits of one head of a sequence with one new token, in a fixed order.
KERNEL(128, 1) heads512_combine(PARAM Heads512Params p) {
  launchDependentsAndWait();
  const Step& s = p.step;
  int seq = blockY(), head = blockX(), share = p.heads / p.kvHeads, width = p.vSize + 2;
  if (seq >= s.counts[COUNT_SEQS]) return;
  int row = s.qStart[seq];
  if (s.qStart[seq + 1] - row != 1 || (p.treeLen && p.treeLen[seq])) return;
  const float* parts = p.partial + (((long)seq * p.kvHeads + head / share) * p.splits * QUERIES + head % share) * width;
  long next = (long)QUERIES * width; // from split to split
  float most = MASK_VALUE, sum = 0;
  for (int i = 0; i < p.splits; i++) most = maxf(most, parts[i * next + p.vSize]);
  for (int i = 0; i < p.splits; i++) sum += exp2(parts[i * next + p.vSize] - most) * parts[i * next + p.vSize + 1];
  float f = reciprocal(sum);
  for (int d = threadX(); d < p.vSize; d += 128) {
    float x = 0;
    for (int i = 0; i < p.splits; i++) x += exp2(parts[i * next + p.vSize] - most) * parts[i * next + d];
    p.y[((long)row * p.heads + head) * p.vSize + d] = fromFloat<bf16>(x * f);
  }
}
