// Attention with heads of more than 256, up to 512, with mma.sync, on any GPU from Ampere on: prompts, and sequences with one new token, whose keys are
// split over blocks. A block takes 64 rows of queries of one key head: the query heads that share it, of one token or of several, one behind the other. Keys
// and values are loaded 32 at a time (cp.async) and gone through by pairs of warps. With several splits, heads512_combine adds them up.
#include "../../kv_cache.h"
#include "../warp_pairs.h"

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

constexpr int QUERIES = 64, KEYS = PAIR_KEYS, TILE_ROWS = 128; // of a block, of a tile of keys, and of one of the step's list
constexpr int D = 512, LINE = 2 * D + 16, LINES = 2 * KEYS * LINE; // of a key or value, of a tile
extern SHARED u8 dynamic[];

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
  int tiles = ceilDiv(maxi(work.end - work.first, 0), KEYS);
  u32 ring = sharedAddress(dynamic);
  UNROLL for (int i = 0; i < STAGES - 1; i++) {
    if (i < tiles) load(p, work, ring + i * LINES, work.first + i * KEYS);
    cpAsyncCommit();
  }
  WarpPair<N, D, D, LINE> w(dynamic + STAGES * LINES);
  // This thread's two queries: a row each, and a head; -1 where there is none.
  int row[2], head[2], pos[2];
  UNROLL for (int h = 0; h < 2; h++) {
    int m = w.row(h), r = m / work.share;
    row[h] = r < work.rows ? work.row0 + r : -1, head[h] = work.kv * work.share + m % work.share, pos[h] = r < work.rows ? work.pos0 + r : -1;
  }
  UNROLL for (int k = 0; k < w.STEPS; k++) UNROLL for (int e = 0; e < 4; e++) { // zero where there is no query, and beyond its numbers
    int at = w.at(k, e);
    w.q[k][e] = row[e % 2] >= 0 && at < p.kSize ? N::query(*(const u32*)(p.q + ((long)row[e % 2] * p.heads + head[e % 2]) * p.kSize + at)) : 0;
  }
  float scaled = p.softcap != 0 ? LOG2E : p.scale * LOG2E;
  for (int tile = 0; tile < tiles; tile++) {
    cpAsyncWait<STAGES - 2>();
    barrier(); // the tile is here, and the one before has been read
    if (tile + STAGES - 1 < tiles) load(p, work, ring + (tile + STAGES - 1) % STAGES * LINES, work.first + (tile + STAGES - 1) * KEYS);
    cpAsyncCommit();
    u32 at = ring + tile % STAGES * LINES;
    int key0 = work.first + tile * KEYS;
    w.attend(at, at + KEYS * LINE, scaled, [&](float x, int h, int in) __attribute__((always_inline)) {
      if (p.softcap != 0) x = p.softcap * tanhf(x * p.scale / p.softcap);
      int key = key0 + in;
      return key > pos[h] || key >= work.end || (p.window > 0 && key <= pos[h] - p.window) ? MASK_VALUE : x;
    });
  }

  w.addSums();
  UNROLL for (int h = 0; h < 2; h++) {
    if (row[h] < 0) continue;
    if (p.splits == 1) w.store(h, p.y + ((long)row[h] * p.heads + head[h]) * p.vSize, p.vSize);
    else w.storePart(h, p.partial + ((((long)work.seq * p.kvHeads + work.kv) * p.splits + blockZ()) * QUERIES + w.row(h)) * (p.vSize + 2), p.vSize, scaled);
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
  combineSplits(p.y + ((long)row * p.heads + head) * p.vSize, parts, (long)QUERIES * width, p.splits, p.vSize);
}
