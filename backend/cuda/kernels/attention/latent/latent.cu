// Attention over a latent cache (multi-head latent attention with absorbed matrices), whose keys all heads share and whose values are the first numbers
// of keys, with mma.sync: the heads of a row are the M of the products. A block takes 64 heads of one row and a split of its keys, all that it sees or
// those that an indexer has chosen, by pairs of warps; keys are loaded row by row (cp.async), so that chosen ones cost what others do. With several splits,
// latent_combine adds them up.
#include "latent.h"

constexpr int HEADS = 64, KEYS = PAIR_KEYS, STAGES = 4; // of a block of 256 threads
constexpr int MAX_K = 576, MAX_V = 512, LINE = 2 * MAX_K + 16;
extern SHARED u8 dynamic[];

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
  int tiles = ceilDiv(maxi(end - first, 0), KEYS);
  u32 ring = sharedAddress(dynamic);
  KeyLoader keysOf(p, r, seq, end);
  keysOf.find(first);
  UNROLL for (int i = 0; i < STAGES - 1; i++) {
    if (i < tiles) keysOf.load(ring + i * KEYS * LINE);
    cpAsyncCommit();
    keysOf.find(first + (i + 1) * KEYS);
  }

  WarpPair<N, MAX_K, MAX_V, LINE> w(dynamic + STAGES * KEYS * LINE);
  UNROLL for (int k = 0; k < w.STEPS; k++) UNROLL for (int e = 0; e < 4; e++) { // zero where there is no head, and beyond its numbers
    int head = h0 + w.row(e % 2), at = w.at(k, e);
    w.q[k][e] = head < p.heads && at < p.kSize ? N::query(*(const u32*)(p.q + ((long)r * p.heads + head) * p.kSize + at)) : 0;
  }
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
    int left = end - first - tile * KEYS; // keys of this tile
    w.attend(at, at, scaled, [&](float x, int, int key) __attribute__((always_inline)) { return key >= left ? MASK_VALUE : x; });
  }

  w.addSums();
  UNROLL for (int h = 0; h < 2; h++) {
    int head = h0 + w.row(h);
    if (head >= p.heads) continue;
    if (p.splits == 1) w.store(h, p.y + ((long)r * p.heads + head) * p.vSize, p.vSize);
    else w.storePart(h, p.partial + ((((long)r * blocks + h0 / HEADS) * p.splits + split) * HEADS + w.row(h)) * (p.vSize + 2), p.vSize, scaled);
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
  combineSplits(p.y + ((long)r * p.heads + head) * p.vSize, parts, (long)HEADS * width, p.splits, p.vSize);
}
