// FlashAttention-2 of prompts (Dao, arXiv:2307.08691) over the paged KV cache with mma.sync and cp.async, on any GPU from Ampere on. A block takes one query
// head of 128 rows of one sequence; its warps share the rows and all read the same tile of keys and values in shared memory. While a tile's scores are
// computed its values are loaded, and while P × V is computed the next keys are. Tiles that causality or the window mask are never loaded, and
// sequences of any length go in one launch without padding: the list of tiles is the step's.
#pragma once
#include "../../kv_int4.h"
#include "softmax.h"

struct PrefillParams {
  Step step;
  const bf16* q; // [T, heads × kSize]
  const u8* cache;
  bf16* y; // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  float scale, softcap; // softcap 0: none
  int bidirectional; // queries attend to later keys too
};

constexpr int RUN = 16; // tokens that lie in one page together, at least
extern SHARED u8 dynamic[];

// quad is the four accumulators of an mma.
template <int N> DEVICE float (&quad(float (&x)[N], int j))[4] { return *(float(*)[4])&x[4 * j]; }

DEVICE void multiply(Bf16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(d, a[0], a[1], a[2], a[3], b0, b1); }
DEVICE void multiply(Half, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mmaF16(d, a[0], a[1], a[2], a[3], b0, b1); }

// KVPages is where a tile's keys and values lie: tokens key0 and on, those before `length`.
struct KVPages {
  const u8* cache;
  const int* pages; // the sequence's
  int shift, key0, length;
};

// Cached is the tiles of a sequence whose keys and values are all in one cache.
template <int KEYS> struct Cached {
  const PrefillParams& p;
  const WorkTile& work;
  int first, top; // the tiles, the last one first

  DEVICE Cached(const PrefillParams& p, const WorkTile& work) : p(p), work(work), first(work.first), top(work.last) {}
  DEVICE KVPages pages(int tile) const {
    return {p.cache, p.step.pages + (long)work.seq * p.step.seqPages, p.step.pageShift, tile * KEYS, work.length};
  }
  // unseen reports whether none of the rows at positions low to high sees any of a tile's keys, edge whether some see only some of them.
  DEVICE bool unseen(int tile, int low, int high) const { return tile * KEYS > high || (p.window > 0 && tile * KEYS + KEYS - 1 <= low - p.window); }
  DEVICE bool edge(int tile, int low, int high) const { return tile * KEYS + KEYS - 1 > low || (p.window > 0 && tile * KEYS <= high - p.window); }
  template <typename B> DEVICE void mask(B& band, int tile, int pos, int step) const { band.mask(tile * KEYS, pos, step, p.window); }
};

// NewestPages is a residual cache with its page tables.
struct NewestPages {
  const u8* cache;
  const int* pages; // [S × seqPages]
  int seqPages, shift;
};

// Grouped is the tiles of a sequence whose cache is in four bits. A row sees the tokens of its own group in the residual cache, and those before it dequantised, in
// p.cache. Tiles above `last` are the former ones, from the first row's group on.
template <int KEYS> struct Grouped {
  const PrefillParams& p;
  const WorkTile& work;
  const NewestPages& newest;
  int first, last, top, from; // from: the first row's group

  DEVICE Grouped(const PrefillParams& p, const WorkTile& work, const NewestPages& newest) : p(p), work(work), newest(newest) {
    int end = work.pos0 + work.rows - 1;
    from = groupOf(work.pos0), first = work.first;
    last = maxi(first - 1, groupOf(end) > 0 ? (groupOf(end) - 1) / KEYS : -1);
    top = last + (end - from) / KEYS + 1;
  }
  DEVICE int key0(int tile) const { return tile > last ? from + (tile - last - 1) * KEYS : tile * KEYS; }
  DEVICE KVPages pages(int tile) const {
    if (tile > last) return {newest.cache, newest.pages + (long)work.seq * newest.seqPages, newest.shift, key0(tile), work.length};
    return {p.cache, p.step.pages + (long)work.seq * p.step.seqPages, p.step.pageShift, key0(tile), groupOf(work.length)};
  }
  DEVICE bool unseen(int tile, int low, int high) const {
    int key = key0(tile), end = key + KEYS - 1;
    return (tile > last ? key > high || end < groupOf(low) : key >= groupOf(high)) || (p.window > 0 && end <= low - p.window);
  }
  DEVICE bool edge(int tile, int low, int high) const {
    return tile > last || key0(tile) + KEYS > groupOf(low) || (p.window > 0 && key0(tile) <= high - p.window);
  }
  template <typename B> DEVICE void mask(B& band, int tile, int pos, int step) const {
    UNROLL for (int i = 0; i < KEYS / 2; i++) {
      int key = key0(tile) + i / 4 * 8 + lane() % 4 * 2 + i % 2, mine = pos + i / 2 % 2 * step;
      if ((tile > last ? key < groupOf(mine) || key > mine : key >= groupOf(mine)) || (p.window > 0 && key <= mine - p.window)) band.score[i] = MASK_VALUE;
    }
  }
};

// KVLoader loads tiles of keys and values from their pages into shared memory by cp.async, in lines of LINE bytes.
template <int D, int KEYS, int THREADS, int LINE> struct KVLoader {
  const PrefillParams& p;
  const WorkTile& work;
  int found[KEYS / RUN]; // the pages of a tile's runs of tokens

  DEVICE KVLoader(const PrefillParams& p, const WorkTile& work) : p(p), work(work) {}
  // find looks up the pages of a tile, for the loads of it that follow.
  DEVICE void find(const KVPages& at) {
    UNROLL for (int j = 0; j < KEYS / RUN; j++) {
      int token = at.key0 + j * RUN;
      found[j] = token < at.length ? at.pages[token >> at.shift] : 0;
    }
  }
  DEVICE void keys(u32 to, const KVPages& at) { load(to, at, 0, p.kSize); }
  DEVICE void values(u32 to, const KVPages& at) { load(to, at, 2 * p.kvHeads * p.kSize << at.shift, p.vSize); }
  // load starts the load of what lies `part` bytes into the pages; what is beyond the last token, and beyond a head, becomes zeros.
  DEVICE void load(u32 to, const KVPages& at, u32 part, int size) {
    constexpr int CHUNKS = D / 8;
    u32 token = 2 * p.kvHeads * size, page = 2 * p.kvHeads * (p.kSize + p.vSize) << at.shift; // bytes
    const u8* run[KEYS / RUN];
    UNROLL for (int j = 0; j < KEYS / RUN; j++)
      run[j] = at.cache + (u64)found[j] * page + (part + ((at.key0 + j * RUN) & ((1 << at.shift) - 1)) * token);
    UNROLL for (int i = 0; i < ceilDiv(RUN * CHUNKS, THREADS); i++) {
      int n = i * THREADS + threadX(), row = n / CHUNKS, chunk = n % CHUNKS;
      if (RUN * CHUNKS % THREADS != 0 && row >= RUN) break;
      u32 off = row * token + work.kv * size * 2 + chunk * 16;
      int left = chunk * 8 < size ? at.length - row - at.key0 : 0; // tokens from this one to the last
      UNROLL for (int j = 0; j < KEYS / RUN; j++) cpAsync16(to + (j * RUN + row) * LINE + chunk * 16, run[j] + off, j * RUN < left);
    }
    cpAsyncCommit();
  }
};

// D: the head size rounded up; what is beyond the true size is zero in shared memory and never stored. KEYS: of a tile. BANDS:
// 16 rows each, of a warp: two share what is loaded of keys and values, one needs fewer registers. Lines of shared memory are 16
// bytes longer than a head, so that eight of them, what ldmatrix reads at a time, begin in different banks.
// TILES says where tiles of keys lie and which rows see them.
template <int D, int KEYS, int BANDS, typename N, typename TILES, typename... Newest> DEVICE void prefillTiles(const PrefillParams& p, const Newest&... newest) {
  constexpr int THREADS = ROWS / (16 * BANDS) * 32, CHUNKS = D / 8, LINE = D * 2 + 16;
  u32 qAt = sharedAddress(dynamic), kAt = qAt + ROWS * LINE, vAt = kAt + KEYS * LINE;
  launchDependentsAndWait();
  WorkTile work(p, KEYS);
  if (work.kv >= p.kvHeads) return;
  KVLoader<D, KEYS, THREADS, LINE> source(p, work);
  const TILES tiles(p, work, newest...);
  source.find(tiles.pages(tiles.top));
  source.keys(kAt, tiles.pages(tiles.top));
  for (int i = threadX(); i < ROWS * CHUNKS; i += THREADS) {
    int row = i / CHUNKS, chunk = i % CHUNKS;
    Vec16 x = {};
    if (row < work.rows && chunk * 8 < p.kSize) x = N::query(*(const Vec16*)(p.q + ((long)(work.row0 + row) * p.heads + work.head) * p.kSize + chunk * 8));
    storeShared(qAt + row * LINE + chunk * 16, x);
  }

  SoftmaxRows<D, KEYS> band[BANDS];
  UNROLL for (int b = 0; b < BANDS; b++) band[b].start();
  int myRow = uniform(warp()) * BANDS * 16, g = lane() / 4;
  int low = work.pos0 + myRow, high = mini(low + BANDS * 16, work.pos0 + work.rows) - 1; // the positions of this warp's rows
  bool none = high < low;
  if (p.bidirectional) low = high = work.length - 1; // how far they look
  int bandStep = p.bidirectional ? 0 : 16, rowStep = bandStep / 2, mine = p.bidirectional ? low : low + g;
  float scaled = p.softcap != 0 ? LOG2E : p.scale * LOG2E;
  // Where this lane reads of 16 lines of 32 bytes, four 8 × 8 matrices: down first, or, of keys, across first, so that the two
  // registers that an mma takes are neighbours.
  u32 down = lane() % 16 * LINE + lane() / 16 * 16, across = (lane() / 16 * 8 + lane() % 8) * LINE + lane() / 8 % 2 * 16, qMine = qAt + myRow * LINE + down;

  for (int tile = tiles.top; tile >= tiles.first; tile--) {
    cpAsyncWait<0>();
    barrier(); // the keys are here, and the last values have been read
    source.values(vAt, tiles.pages(tile));
    if (tile > tiles.first) source.find(tiles.pages(tile - 1));
    auto loadNextKeys = [&]() __attribute__((always_inline)) {
      cpAsyncWait<0>();
      barrier(); // the values are here, and the keys have been read
      if (tile > tiles.first) source.keys(kAt, tiles.pages(tile - 1));
    };
    if (none || tiles.unseen(tile, low, high)) {
      loadNextKeys();
      continue;
    }
    UNROLL for (int b = 0; b < BANDS; b++) UNROLL for (int i = 0; i < KEYS / 2; i++) band[b].score[i] = 0;
    UNROLL for (int k = 0; k < D / 16; k++) {
      u32 q[BANDS][4], key[4];
      UNROLL for (int b = 0; b < BANDS; b++) ldmatrix4(q[b], qMine + b * 16 * LINE + k * 32);
      UNROLL for (int n = 0; n < KEYS / 16; n++) {
        ldmatrix4(key, kAt + across + n * 16 * LINE + k * 32);
        UNROLL for (int b = 0; b < BANDS; b++) UNROLL for (int i = 0; i < 2; i++) multiply(N(), quad(band[b].score, 2 * n + i), q[b], key[2 * i], key[2 * i + 1]);
      }
    }
    loadNextKeys();
    bool edge = tiles.edge(tile, low, high);
    UNROLL for (int b = 0; b < BANDS; b++) {
      if (p.softcap != 0) band[b].cap(p.scale, p.softcap);
      if (edge) tiles.mask(band[b], tile, mine + b * bandStep, rowStep);
      band[b].softmax(scaled);
      if (!allSync(band[b].rescale[0] == 1 && band[b].rescale[1] == 1)) band[b].rescaleOutput(); // few tiles raise the row max
    }
    UNROLL for (int k = 0; k < KEYS / 16; k++) {
      u32 prob[BANDS][4], value[4];
      UNROLL for (int b = 0; b < BANDS; b++) band[b].template fragmentP<N>(prob[b], k);
      UNROLL for (int n = 0; n < D / 16; n++) {
        ldmatrix4Trans(value, vAt + down + k * 16 * LINE + n * 32);
        UNROLL for (int b = 0; b < BANDS; b++) UNROLL for (int i = 0; i < 2; i++) multiply(N(), quad(band[b].out, 2 * n + i), prob[b], value[2 * i], value[2 * i + 1]);
      }
    }
  }

  UNROLL for (int b = 0; b < BANDS; b++) band[b].store(p, work, myRow + b * 16, scaled);
}
template <int D, int KEYS, int BANDS, typename N> DEVICE void prefill(const PrefillParams& p) { prefillTiles<D, KEYS, BANDS, N, Cached<KEYS>>(p); }
