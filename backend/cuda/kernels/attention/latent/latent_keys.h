// How the kernel of latent_sm90.cu has keys in shared memory, and the warpgroup that loads them: two warps load the first tile of each pair and two the second,
// eight threads a line, eight lines each. Of a tile first comes the half that is released first, and that the scores begin with.
#pragma once
#include "../../kv_cache.h"
#include "../../swizzle.h"
#include "latent.h"

constexpr int HEADS = 64, KEYS = 64, K = 576, V = 512; // of a block, of a tile; numbers of a key and of a value
constexpr int PANELS = K / 64, PANEL = KEYS * 128, TILE = PANELS * PANEL, HALF = V / 2 / 64; // HALF: panels of half of the values
constexpr int ROPE = PANELS - 1; // the panel that no values lie in; behind the scores it holds P
constexpr int LINES = KEYS / 8; // of a thread

DEVICE void store16(u32 to, Vec16 x) { asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x[0]), "r"(x.x[1]), "r"(x.x[2]), "r"(x.x[3]) : "memory"); }

// Where queries and the two tiles lie, the mbarriers of tiles, and what the warpgroups tell each other of rows. Half h of a tile are the panels that warpgroup
// h has the values of. The last panel is of the half of the warpgroup that will read P there, the one that did not make it: of tile t half t ^ 1.
struct Shared {
  u32 q, k, full, empty;                  // mbarriers [tile][panel], [tile][half]
  float *rowMax, *scale0, *scale1, *sums; // [64], [64], [64], [2][64]

  DEVICE u32 loaded(int tile, int panel) const { return full + 8 * (tile * PANELS + panel); }
  DEVICE u32 released(int tile, int half) const { return empty + 8 * (2 * tile + half); }
  DEVICE u32 tile(int t) const { return k + t * TILE; }
  // release says that a warp has read half a tile; PAIR: to both blocks of a cluster, as each loads a part of it for both.
  template <bool PAIR> DEVICE void release(int tile, int half) const {
    if (PAIR) {
      if (lane() < 2) mbarrierArriveRemote(released(tile, half), lane());
    } else if (lane() == 0) {
      mbarrierArrive(released(tile, half));
    }
  }
};
enum { P0_READY = 1, P1_READY, ALL, OWN }; // named barriers of both warpgroups; OWN: two, of each

// Finder says where this thread's lines of a tile lie in the cache: slots[i] of its tokens, -1 where there is no key.
struct Finder {
  const LatentParams& p;
  const LatentRow& row;
  const int* pages;
  const float* chosen;
  int tile, line;

  DEVICE Finder(const LatentParams& p, const LatentRow& row) : p(p), row(row) {
    pages = p.step.pages + (long)row.seq * p.step.seqPages, chosen = p.chosen ? p.chosen + (long)row.row * p.most : nullptr;
    tile = uniform(warp()) / 2 % 2, line = threadX() / 8 % 8;
  }
  DEVICE void find(int (&slots)[LINES], int pair) const {
    int shift = p.step.pageShift, key[LINES], first = row.first + (2 * pair + tile) * KEYS + line;
    UNROLL for (int i = 0; i < LINES; i++) key[i] = mini(first + 8 * i, row.end - 1); // loads without branches are in flight side by side
    if (chosen) UNROLL for (int i = 0; i < LINES; i++) key[i] = (int)chosen[key[i]];
    UNROLL for (int i = 0; i < LINES; i++) {
      int slot = (pages[maxi(key[i], 0) >> shift] << shift) + (key[i] & ((1 << shift) - 1));
      slots[i] = first + 8 * i < row.end && key[i] >= 0 ? slot : -1;
    }
  }
};

// LatentPairParams is a launch whose blocks work in clusters of two, which take neighbouring heads of a row.
struct LatentPairParams {
  TensorMap keys; // of the cache, in boxes of 64 numbers of `lines` keys
  LatentParams latent;
  int lines, pad[7];
};

// loadKeys loads keys of 16 bits, by cp.async. PAIR: each block of a cluster loads half of the lines of a tile for both (TMA multicast), but for the last pair
// of tiles, if it is not whole.
template <bool PAIR> DEVICE void loadKeys(const LatentParams& p, const TensorMap* map, int boxLines, const Shared& at, const LatentRow& row, int pairs) {
  Finder finder(p, row);
  int t = finder.tile, chunk = threadX() % 8, slots[LINES], rank = PAIR ? clusterRank() : 0, shift = p.step.pageShift;
  finder.find(slots, 0);
  u32 mine = at.tile(t) + swizzled(finder.line, chunk);
  for (int pair = 0; pair < pairs; pair++) {
    if (PAIR && row.first + (pair + 1) * 2 * KEYS <= row.end) {
      bool issues = threadX() % 64 == 0;
      int box[KEYS / 2 / 16], first = row.first + (2 * pair + t) * KEYS + rank * (KEYS / 2);
      UNROLL for (int i = 0; i < KEYS / 2 / 16; i++) {
        int key = first + i * 16;
        box[i] = (finder.pages[key >> shift] << shift) + (key & ((1 << shift) - 1));
      }
      UNROLL for (int h = 0; h < 2; h++) {
        int half = t ^ h;
        if (pair > 0) mbarrierWait(at.released(t, half), (pair + 1) & 1);
        for (int i = 0; i < HALF + h; i++) {
          int c = i < HALF ? half * HALF + i : ROPE;
          u32 to = at.tile(t) + c * PANEL + rank * (PANEL / 2), bar = at.loaded(t, c);
          if (issues) {
            mbarrierExpectTx(bar, PANEL);
            tmaLoadMulticast(to, map, c * 64, box[0], bar, EVICT_FIRST);
            if (boxLines == 16) tmaLoadMulticast(to + 16 * 128, map, c * 64, box[1], bar, EVICT_FIRST);
          } else {
            mbarrierArrive(bar);
          }
        }
      }
      if (pair + 1 < pairs && row.first + (pair + 2) * 2 * KEYS > row.end) finder.find(slots, pair + 1);
      continue;
    }
    UNROLL for (int h = 0; h < 2; h++) {
      int half = t ^ h;
      if (pair > 0) mbarrierWait(at.released(t, half), (pair + 1) & 1);
      auto panel = [&](int c) __attribute__((always_inline)) {
        UNROLL for (int i = 0; i < LINES; i++)
          cpAsync16(mine + c * PANEL + i * 8 * 128, p.cache + (long)maxi(slots[i], 0) * 2 * K + chunk * 16 + c * 128, slots[i] >= 0);
        if (!PAIR) arriveCopied(at.loaded(t, c));
      };
#pragma unroll 1
      for (int c = 0; c < HALF; c++) panel(half * HALF + c);
      if (h == 1) panel(ROPE);
    }
    if (PAIR) { // the last keys
      cpAsyncCommit();
      cpAsyncWait<0>();
      fenceProxyAsync();
      for (int c = 0; c < PANELS; c++) mbarrierArrive(at.loaded(t, c));
      return;
    }
    finder.find(slots, pair + 1);
  }
  cpAsyncCommit();
  cpAsyncWait<0>();
}

// widen makes eight numbers of a cache of 8 bits those of 16 that are multiplied: halves, or bf16.
DEVICE Vec16 widen(f8, u64 x, float) {
  Vec16 y;
  UNROLL for (int e = 0; e < 4; e++) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y.x[e]) : "h"((u16)(x >> 16 * e)));
  return y;
}
DEVICE Vec16 widen(i8, u64 x, float scale) {
  x ^= 0x8080808080808080; // 128 more, to be the last bits of 2²³
  auto number = [&](int i) __attribute__((always_inline)) {
    u32 bits;
    asm("prmt.b32 %0, %1, 0x4b000000, %2;" : "=r"(bits) : "r"((u32)(x >> i / 4 * 32)), "r"(0x7440 | i % 4));
    return (__builtin_bit_cast(float, bits) - (8388608 + 128)) * scale;
  };
  return {pack(number(0), number(1)), pack(number(2), number(3)), pack(number(4), number(5)), pack(number(6), number(7))};
}

// widenKeys loads keys of 8 bits, a panel ahead of the one that is widened.
template <typename C> DEVICE void widenKeys(const LatentParams& p, const Shared& at, const LatentRow& row, int pairs) {
  Finder finder(p, row);
  Pages<C> cache = {(u8*)p.cache, 1, K, 0, p.step.pageShift};
  int t = finder.tile, chunk = threadX() % 8;
  const u8* lines[LINES]; // null: there is no key
  float scale[LINES];
  u64 next[LINES];
  auto find = [&](int pair) __attribute__((always_inline)) {
    int slots[LINES];
    finder.find(slots, pair);
    UNROLL for (int i = 0; i < LINES; i++) {
      u8* page = cache.cache + (slots[i] >> cache.shift) * cache.part(K);
      lines[i] = slots[i] < 0 ? nullptr : page + cache.in(slots[i]) * K + chunk * 8;
      if (SCALE_BYTES<C>) scale[i] = slots[i] < 0 ? 0 : *cache.scale(page, K, slots[i], 0);
    }
  };
  auto fetch = [&](int c) __attribute__((always_inline)) {
    UNROLL for (int i = 0; i < LINES; i++)
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u64 p, %1, 0;\n\tmov.b64 %0, 0;\n\t@p ld.global.b64 %0, [%2];\n\t}" : "=&l"(next[i]) : "l"(lines[i]), "l"(lines[i] + c * 64) : "memory");
  };
  auto panel = [&](int s) __attribute__((always_inline)) { return s < HALF ? t * HALF + s : s < 2 * HALF ? (t ^ 1) * HALF + s - HALF : ROPE; }; // the s-th of a tile
  find(0);
  fetch(panel(0));
  u32 mine = at.tile(t) + swizzled(finder.line, chunk);
  for (int pair = 0; pair < pairs; pair++) {
    UNROLL for (int s = 0; s < PANELS; s++) {
      u64 now[LINES];
      UNROLL for (int i = 0; i < LINES; i++) now[i] = next[i];
      if (s + 1 < PANELS) fetch(panel(s + 1));
      if (s % HALF == 0 && s < 2 * HALF && pair > 0) mbarrierWait(at.released(t, t ^ s / HALF), (pair + 1) & 1);
      int c = panel(s);
      UNROLL for (int i = 0; i < LINES; i++) store16(mine + c * PANEL + i * 8 * 128, widen(C(), now[i], scale[i]));
      fenceProxyAsync();
      mbarrierArrive(at.loaded(t, c));
    }
    find(pair + 1);
    fetch(panel(0));
  }
}
