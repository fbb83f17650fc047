// The persistent tile scheduler and the producers: tiles, which blocks take as they come, and a block's shared memory.
#pragma once
#include "../prefill_sm80/softmax.h"
#include "../../sm90.h"

struct PrefillParams {
  TensorMap q;          // the queries: [T, heads, kSize], in boxes of 128 rows of 64 columns of a head
  TensorMap k, v;       // the cache's keys and values: [pages, tokens of a page, kvHeads × size], in boxes of a page
  TensorMap kRun, vRun; // the same in boxes of as many pages as are fetched together
  Step step;
  bf16* y;            // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int* tileCounter;         // 0: how many tiles have been taken beyond each block's first
  int heads, kvHeads, kSize, vSize, window;
  int box; // tokens of a TMA box: those of a page, at most KEYS
  float scale, softcap;
  int bidirectional;         // queries attend to later keys too
  int tiles, items; // of the step's list; and all: tiles, times query heads
  int headsTogether;     // query heads whose tiles are mixed
};

#if __CUDA_ARCH__ >= 900
constexpr int KEYS = 128, COLUMNS = KEYS * 128; // COLUMNS: bytes of 64 columns of 128 rows or keys
constexpr int TILE_STAGES = 2;                        // tiles a block knows of: the current one and the next (double buffer)

// Tile is 128 rows of a query head: their first row and how many there are, the position of the first, and which runs of 128 of the
// sequence's `length` keys they look at. end is 0 where there are no more tiles.
struct alignas(16) Tile {
  int head, seq, row0, rows, pos0, length, first, end;

  // read is the tile in a buffer that a warp's first lane will release, which therefore reads it for all.
  static DEVICE Tile read(const Tile& place) {
    Tile t = {};
    if (lane() == 0) t = place;
    int* fields = &t.head;
    UNROLL for (int i = 0; i < 8; i++) fields[i] = uniform(fields[i]);
    return t;
  }
};

DEVICE Tile workTileOf(const PrefillParams& p, int item) {
  // The order is the query heads of a few key heads, then the rows, then the next key heads: so many keys and values at a time
  // stay in the L2 cache.
  const Step& s = p.step;
  int at = item / p.headsTogether;
  Tile t;
  t.head = at / p.tiles * p.headsTogether + item % p.headsTogether;
  at %= p.tiles;
  t.seq = s.tiles[2 * at], t.row0 = s.tiles[2 * at + 1];
  int left = s.qStart[t.seq + 1] - t.row0;
  t.rows = mini(ROWS, left), t.length = s.kvLen[t.seq];
  t.pos0 = t.length - left;
  t.first = p.window > 0 ? maxi(0, t.pos0 - p.window + 1) / KEYS : 0;
  t.end = (p.bidirectional ? t.length - 1 : t.pos0 + t.rows - 1) / KEYS + 1;
  return t;
}

// SharedStorage is the layout of a block's shared memory. H: heads are H × 64 columns. STAGES: tiles of keys, and of values, in flight.
template <int H, int STAGES> struct SharedStorage {
  static constexpr int RUN = H * COLUMNS, BARRIERS = 4 * STAGES + 3 * TILE_STAGES; // RUN: bytes of 128 rows, keys or values
  u32 q, k, v;                        // queries of TILE_STAGES tiles, keys and values, each [half][128]
  u32 kFull, vFull, kEmpty, vEmpty;   // mbarriers of STAGES
  u32 known, qFull, done;             // mbarriers of TILE_STAGES: of tiles, of their queries, and of their release
  Tile* tiles;                        // [TILE_STAGES]

  DEVICE SharedStorage(u32 memory, u32 barriers, Tile* tiles) : tiles(tiles) {
    q = (memory + 1023) & ~1023u, k = q + TILE_STAGES * RUN, v = k + STAGES * RUN;
    kFull = barriers, vFull = kFull + 8 * STAGES, kEmpty = vFull + 8 * STAGES, vEmpty = kEmpty + 8 * STAGES;
    known = vEmpty + 8 * STAGES, qFull = known + 8 * TILE_STAGES, done = qFull + 8 * TILE_STAGES;
  }
  DEVICE void init() const { // by one thread; eight warps compute, one fetches
    for (int i = 0; i < STAGES; i++) {
      mbarrierInit(kFull + 8 * i, 1), mbarrierInit(vFull + 8 * i, 1);
      mbarrierInit(kEmpty + 8 * i, 8), mbarrierInit(vEmpty + 8 * i, 8);
    }
    for (int i = 0; i < TILE_STAGES; i++) mbarrierInit(known + 8 * i, 1), mbarrierInit(qFull + 8 * i, 1), mbarrierInit(done + 8 * i, 9);
    mbarrierInitFence();
  }

  // scheduleTiles is a producer warp: it takes tile after tile for the block from a global counter, a tile ahead, and loads their queries.
  DEVICE void scheduleTiles(const PrefillParams& p) const {
    int item = blockX();
    for (int n = 0;; n++) {
      int slot = n % TILE_STAGES, next = 0;
      Tile t = {};
      if (item < p.items) {
        t = workTileOf(p, item);
        if (lane() == 0) { // every block counts once more than it gets a tile; the last one clears the counter
          asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(next) : "l"(p.tileCounter) : "memory");
          if (next == p.items - 1) *p.tileCounter = 0;
          next += gridX();
        }
        next = shuffleFrom(next, 0);
      }
      if (n >= TILE_STAGES) mbarrierWait(done + 8 * slot, (n / TILE_STAGES + 1) & 1);
      if (lane() == 0) {
        tiles[slot] = t;
        mbarrierArrive(known + 8 * slot);
        if (t.end > 0) {
          mbarrierExpectTx(qFull + 8 * slot, RUN);
          for (int h = 0; h < H; h++) tmaLoad3D(q + slot * RUN + h * COLUMNS, &p.q, h * 64, t.head, t.row0, qFull + 8 * slot);
        }
      }
      if (t.end == 0) return;
      item = next;
    }
  }

  // produceKV is a producer warp: it loads the keys and values of the block's tiles by TMA, a lane a box.
  DEVICE void produceKV(const PrefillParams& p) const {
    const Step& s = p.step;
    int boxes = KEYS / p.box, fetched = 0;
    for (int n = 0;; n++) {
      mbarrierWait(known + 8 * (n % TILE_STAGES), n / TILE_STAGES & 1);
      Tile t = Tile::read(tiles[n % TILE_STAGES]);
      if (lane() == 0) mbarrierArrive(done + 8 * (n % TILE_STAGES));
      if (t.end == 0) return;
      int kv = t.head / (p.heads / p.kvHeads);
      auto pageOf = [&](int run) { // the page of this lane's box of 128 keys; -1, which loads zeros, beyond the last token
        int token = run * KEYS + lane() * p.box;
        return run >= t.first && lane() < boxes && token < t.length ? s.pages[(long)t.seq * s.seqPages + (token >> s.pageShift)] : -1;
      };
      int page = pageOf(t.end - 1);
      for (int run = t.end - 1; run >= t.first; run--, fetched++) {
        int stage = fetched % STAGES, in = (run * KEYS + lane() * p.box) & ((1 << s.pageShift) - 1), start = shuffleFrom(page, 0);
        bool whole = boxes > 1 && allSync(lane() >= boxes || page == start + lane());
        auto fetchRun = [&](u32 to, const TensorMap& one, const TensorMap& many, int column, u32 full, u32 empty) {
          if (fetched >= STAGES) mbarrierWait(empty + 8 * stage, (fetched / STAGES + 1) & 1);
          if (lane() == 0) mbarrierExpectTx(full + 8 * stage, RUN);
          warpBarrier();
          if (lane() < (whole ? 1 : boxes))
            UNROLL for (int h = 0; h < H; h++)
              tmaLoad3D(to + stage * RUN + h * COLUMNS + lane() * p.box * 128, whole ? &many : &one, column + h * 64, in, page, full + 8 * stage);
        };
        fetchRun(k, p.k, p.kRun, kv * p.kSize, kFull, kEmpty);
        fetchRun(v, p.v, p.vRun, kv * p.vSize, vFull, vEmpty);
        page = pageOf(run - 1);
      }
    }
  }
};
#endif
