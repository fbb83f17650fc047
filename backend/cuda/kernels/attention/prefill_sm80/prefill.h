// FlashAttention-2 of prompts (Dao, arXiv:2307.08691) over the paged KV cache with mma.sync and cp.async, on any GPU from Ampere on. A block takes one query
// head of 128 rows of one sequence; its warps share the rows and all read the same tile of keys and values in shared memory. While a tile's scores are
// computed its values are loaded, and while P × V is computed the next keys are. Tiles that causality or the window mask are never loaded, and
// sequences of any length go in one launch without padding: the list of tiles is the step's.
#pragma once
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

// KVLoader loads tiles of keys and values from their pages into shared memory by cp.async, in lines of LINE bytes.
template <int D, int KEYS, int THREADS, int LINE> struct KVLoader {
  const PrefillParams& p;
  const WorkTile& work;
  u32 kPart, page;       // bytes of a page: of its keys, and of all
  int found[KEYS / RUN]; // the pages of a tile's runs of tokens

  DEVICE KVLoader(const PrefillParams& p, const WorkTile& work) : p(p), work(work) {
    kPart = 2 * p.kvHeads * p.kSize << p.step.pageShift, page = kPart + (2 * p.kvHeads * p.vSize << p.step.pageShift);
  }
  // find looks up the pages of a tile, for the loads of it that follow.
  DEVICE void find(int tile) {
    UNROLL for (int j = 0; j < KEYS / RUN; j++) {
      int token = tile * KEYS + j * RUN;
      found[j] = token < work.length ? p.step.pages[(long)work.seq * p.step.seqPages + (token >> p.step.pageShift)] : 0;
    }
  }
  DEVICE void keys(u32 to, int tile) { load(to, tile, 0, p.kSize); }
  DEVICE void values(u32 to, int tile) { load(to, tile, kPart, p.vSize); }
  // load starts the load of what lies `part` bytes into the pages; what is beyond the last token, and beyond a head, becomes zeros.
  DEVICE void load(u32 to, int tile, u32 part, int size) {
    constexpr int CHUNKS = D / 8;
    u32 token = 2 * p.kvHeads * size; // bytes
    const u8* run[KEYS / RUN];
    UNROLL for (int j = 0; j < KEYS / RUN; j++)
      run[j] = p.cache + (u64)found[j] * page + (part + ((tile * KEYS + j * RUN) & ((1 << p.step.pageShift) - 1)) * token);
    UNROLL for (int i = 0; i < ceilDiv(RUN * CHUNKS, THREADS); i++) {
      int at = i * THREADS + threadX(), row = at / CHUNKS, chunk = at % CHUNKS;
      if (RUN * CHUNKS % THREADS != 0 && row >= RUN) break;
      u32 off = row * token + work.kv * size * 2 + chunk * 16;
      int left = chunk * 8 < size ? work.length - row - tile * KEYS : 0; // tokens from this one to the last
      UNROLL for (int j = 0; j < KEYS / RUN; j++) cpAsync16(to + (j * RUN + row) * LINE + chunk * 16, run[j] + off, j * RUN < left);
    }
    cpAsyncCommit();
  }
};

// D: the head size rounded up; what is beyond the true size is zero in shared memory and never stored. KEYS: of a tile. BANDS:
// 16 rows each, of a warp: two share what is loaded of keys and values, one needs fewer registers. Lines of shared memory are 16
// bytes longer than a head, so that eight of them, what ldmatrix reads at a time, begin in different banks.
template <int D, int KEYS, int BANDS, typename N> DEVICE void prefill(const PrefillParams& p) {
  constexpr int THREADS = ROWS / (16 * BANDS) * 32, CHUNKS = D / 8, LINE = D * 2 + 16;
  u32 qAt = sharedAddress(dynamic), kAt = qAt + ROWS * LINE, vAt = kAt + KEYS * LINE;
  launchDependentsAndWait();
  WorkTile work(p, KEYS);
  if (work.kv >= p.kvHeads) return;
  KVLoader<D, KEYS, THREADS, LINE> source(p, work);
  source.find(work.last);
  source.keys(kAt, work.last);
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

  for (int tile = work.last; tile >= work.first; tile--) {
    int key0 = tile * KEYS;
    cpAsyncWait<0>();
    barrier(); // the keys are here, and the last values have been read
    source.values(vAt, tile);
    if (tile > work.first) source.find(tile - 1);
    auto loadNextKeys = [&]() __attribute__((always_inline)) {
      cpAsyncWait<0>();
      barrier(); // the values are here, and the keys have been read
      if (tile > work.first) source.keys(kAt, tile - 1);
    };
    if (none || key0 > high || (p.window > 0 && key0 + KEYS - 1 <= low - p.window)) { // no row of this warp sees any of these keys
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
    bool edge = key0 + KEYS - 1 > low || (p.window > 0 && key0 <= high - p.window);
    UNROLL for (int b = 0; b < BANDS; b++) {
      if (p.softcap != 0) band[b].cap(p.scale, p.softcap);
      if (edge) band[b].mask(key0, mine + b * bandStep, rowStep, p.window);
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
