// Attention of many new tokens a sequence with heads of more than 128, on Hopper: FlashAttention-3 (Shah et al., arXiv:2407.08608) as
// prefill.cu computes smaller ones. A block takes one query head of 128 rows of one sequence; a producer warp fetches tiles of 80 keys
// and values, two warpgroups take 64 rows each. Scores of the next tile are computed and become weights while the
// values of the one before are summed up.
#include "band.h"
#include "products.h"

struct WideParams {
  TensorMap k, v;       // the cache's keys and values: [pages, tokens of a page, kvHeads × size], in boxes of a page or less
  TensorMap kRun, vRun; // the same in boxes of as many pages as are a tile, where it divides by pages
  Step step;
  const bf16* q; // [T, heads × kSize]
  bf16* y;       // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int box; // tokens of a fetch: they lie in one page and divide a tile
  float scale, softcap;
  int both; // queries look at the keys behind them as well
};

#if __CUDA_ARCH__ >= 900
// Panels are 64 columns of queries, and of keys or values; their bytes. 80 keys are as many as there is room for; the fewer there
// are, the more often shared memory has to give queries to the tensor cores.
constexpr int D = 256, KEYS = 80, STAGES = 2, PANELS = D / 64, Q_PANEL = ROWS * 128, PANEL = KEYS * 128, TILE = PANELS * PANEL;
extern SHARED u8 dynamic[];
template <bool B> struct Is { static constexpr bool value = B; };
template <int N> DEVICE void settle(float (&x)[N]) { // products have written x: nothing may be moved across
  UNROLL for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}
DEVICE void multiply(Bf16, float (&d)[KEYS / 2], u64 a, u64 b, int add) { wgmma(d, a, b, add); }
DEVICE void multiply(Half, float (&d)[KEYS / 2], u64 a, u64 b, int add) { wgmmaF16(d, a, b, add); }
DEVICE void multiply(Bf16, float (&d)[D / 2], const u32 (&a)[4], u64 b) { wgmmaRSTrans(d, a[0], a[1], a[2], a[3], b); }
DEVICE void multiply(Half, float (&d)[D / 2], const u32 (&a)[4], u64 b) { wgmmaRSTransF16(d, a[0], a[1], a[2], a[3], b); }

// Room is where a block keeps queries and its rings of tiles of keys and of values, and the barriers that say of each that it has
// come and that it is free.
struct Room {
  u32 q, k, v, kFull, vFull, kEmpty, vEmpty;

  DEVICE Room(u32 bars) {
    q = (sharedAddress(dynamic) + 1023) & ~1023u, k = q + PANELS * Q_PANEL, v = k + STAGES * TILE;
    kFull = bars, vFull = kFull + 8 * STAGES, kEmpty = vFull + 8 * STAGES, vEmpty = kEmpty + 8 * STAGES;
  }
  DEVICE void init() {
    for (int i = 0; i < 2 * STAGES; i++) mbarrierInit(kFull + 8 * i, 1), mbarrierInit(kEmpty + 8 * i, 8); // eight warps hand a tile back
    mbarrierInitFence();
  }
  DEVICE void awaitKeys(int i) const { mbarrierWait(kFull + 8 * (i % STAGES), i / STAGES & 1); }
  DEVICE void awaitValues(int i) const { mbarrierWait(vFull + 8 * (i % STAGES), i / STAGES & 1); }
  DEVICE void releaseKeys(int i) const {
    if (lane() == 0) mbarrierArrive(kEmpty + 8 * (i % STAGES));
  }
  DEVICE void releaseValues(int i) const {
    if (lane() == 0) mbarrierArrive(vEmpty + 8 * (i % STAGES));
  }

  // produce fetches all tiles, with a warp, a lane a box, or with one fetch pages that follow each other.
  DEVICE void produce(const WideParams& p, const Work& work) const {
    const Step& s = p.step;
    for (int i = 0; i <= work.last - work.first; i++) {
      int token = (work.last - i) * KEYS + lane() * p.box, in = token & ((1 << s.pageShift) - 1);
      bool mine = lane() < KEYS / p.box; // beyond the last token is no page: zeros arrive
      int page = mine && token < work.length ? s.pages[(long)work.seq * s.seqPages + (token >> s.pageShift)] : -1, start = uniform(page);
      bool run = p.box == 1 << s.pageShift && allSync(!mine || page == start + lane());
      auto fetch = [&](u32 to, const TensorMap& one, const TensorMap& many, int column, u32 full) {
        if (lane() == 0) mbarrierExpectTx(full, TILE);
        warpBarrier();
        if (run ? lane() == 0 : mine)
          UNROLL for (int h = 0; h < PANELS; h++) tmaLoad3D(to + h * PANEL + lane() * p.box * 128, run ? &many : &one, column + h * 64, in, page, full);
      };
      if (i >= STAGES) mbarrierWait(kEmpty + 8 * (i % STAGES), (i / STAGES + 1) & 1);
      fetch(k + i % STAGES * TILE, p.k, p.kRun, work.kv * p.kSize, kFull + 8 * (i % STAGES));
      if (i >= STAGES) mbarrierWait(vEmpty + 8 * (i % STAGES), (i / STAGES + 1) & 1);
      fetch(v + i % STAGES * TILE, p.v, p.vRun, work.kv * p.vSize, vFull + 8 * (i % STAGES));
    }
  }
  // loadQueries lays out the rows of a warpgroup as the copy engine would: 16-byte chunk c of row r lies at c ^ (r % 8).
  template <typename N> DEVICE void loadQueries(const WideParams& p, const Work& work, int group) const {
    for (int i = threadX() & 127; i < 64 * D / 8; i += 128) {
      int r = i / (D / 8), c = i % (D / 8), row = group * 64 + r;
      Vec16 x = {};
      if (row < work.rows && c * 8 < p.kSize) x = N::query(*(const Vec16*)(p.q + ((long)(work.row0 + row) * p.heads + work.head) * p.kSize + c * 8));
      storeShared(q + c / 8 * Q_PANEL + row * 128 + ((c % 8) ^ (r & 7)) * 16, x);
    }
    fenceProxyAsync();
    namedBarrierSync(1 + group, 128);
  }
  // clearValues zeroes what nobody wrote in the first tile, from line `from` on: a weight of 0 does not silence NaN. Where both
  // warpgroups look at that tile, both write the same zeros: neither waits for the other.
  DEVICE void clearValues(int from, int group) const {
    awaitValues(0);
    for (int c = threadX() & 127; c < (KEYS - from) * PANELS * 8; c += 128)
      storeShared(v + c % PANELS * PANEL + (from + c / (PANELS * 8)) * 128 + c / PANELS % 8 * 16, Vec16{});
    fenceProxyAsync();
    namedBarrierSync(1 + group, 128);
  }
};

// CAP: scores are soft-capped. N: what keys and values are.
template <bool CAP, typename N> DEVICE void wide(const WideParams& p) {
  SHARED static u64 bars[4 * STAGES];
  Room room(sharedAddress(bars));
  if (threadX() == 0) room.init();
  barrier();
  launchDependents();
  Work work(p, KEYS);
  if (work.kv >= p.kvHeads) return;
  if (uniform(warp()) < 4) {
    setmaxnregDec<40>();
    if (warp() > 0) return;
    gridDependencyWait();
    room.produce(p, work);
    return;
  }

  setmaxnregInc<232>();
  gridDependencyWait();
  int mine = uniform(warp()), group = mine / 4 - 1;
  room.loadQueries<N>(p, work, group);
  Band<D, KEYS> band;
  band.start();
  u32 w[KEYS / 16][4]; // the weights of a tile, as A operand
  int low = work.pos0 + group * 64, high = mini(low + 63, work.pos0 + work.rows - 1); // the positions of this warpgroup's rows
  bool none = high < low;
  if (p.both) low = high = work.length - 1; // how far they look
  int pos = p.both ? low : low + (mine & 3) * 16 + lane() / 4, rowStep = p.both ? 0 : 8, steps = work.last - work.first + 1;
  int skip = none ? steps : mini(steps, work.last - high / KEYS); // leading tiles beyond every row's position
  float scaled = CAP ? LOG2E : p.scale * LOG2E;

  auto scores = [&](int i) __attribute__((always_inline)) {
    room.awaitKeys(i);
    wgmmaFence();
    u64 q = smemDescriptor(room.q + group * 64 * 128), key = smemDescriptor(room.k + i % STAGES * TILE);
    UNROLL for (int k = 0; k < D / 16; k++) multiply(N(), band.score, q + (k / 4 * Q_PANEL + k % 4 * 32) / 16, key + (k / 4 * PANEL + k % 4 * 32) / 16, k > 0);
    wgmmaCommit();
  };
  auto weighted = [&](int i) __attribute__((always_inline)) { // out += w × values, after it is brought to the new maximum
    band.rescale();
    room.awaitValues(i);
    wgmmaFence();
    u64 values = smemDescriptorTrans(room.v + i % STAGES * TILE, PANEL);
    UNROLL for (int k = 0; k < KEYS / 16; k++) multiply(N(), band.out, w[k], values + k * 2048 / 16);
    wgmmaCommit();
  };
  auto soften = [&](int i, auto edge) __attribute__((always_inline)) {
    if (CAP) band.cap(p.scale, p.softcap);
    if (edge.value) band.hide((work.last - i) * KEYS, pos, rowStep, p.window);
    band.soften(scaled);
  };
  auto weights = [&]() __attribute__((always_inline)) { UNROLL for (int k = 0; k < KEYS / 16; k++) band.template weights<N>(w[k], k); };
  // The warpgroups take turns: while one's products run on the tensor cores, the other computes its weights.
  auto takeTurn = [&]() __attribute__((always_inline)) { namedBarrierSync(4 + group, 256); };
  auto giveTurn = [&](int i) __attribute__((always_inline)) {
    if (group == 0 || i + 1 < steps) namedBarrierArrive(5 - group, 256);
  };
  if (group == 1) namedBarrierArrive(4, 256);
  for (int i = 0; i < skip; i++) {
    takeTurn();
    giveTurn(i);
    room.awaitKeys(i);
    room.releaseKeys(i);
    room.awaitValues(i);
    room.releaseValues(i);
  }
  if (skip == steps) return; // no rows
  int known = work.length - work.last * KEYS; // tokens of the last tile
  if (skip == 0 && known < KEYS) room.clearValues(known, group);
  scores(skip);
  wgmmaWait<0>();
  settle(band.score);
  room.releaseKeys(skip);
  soften(skip, Is<true>());
  weights();
  // There may be no branch while products are under way, or the compiler waits before it; so tiles with hidden scores, the diagonal's
  // and those at the window's end, are another loop's. Of the tiles from clear to far no score is hidden.
  int clear = work.last + 1 - (low + 1) / KEYS, far = p.window > 0 && high >= p.window ? work.last - (high - p.window) / KEYS : steps;
  auto round = [&](int i, auto edge) __attribute__((always_inline)) {
    takeTurn();
    scores(i + 1);
    weighted(i);
    giveTurn(i);
    wgmmaWait<1>();
    settle(band.score);
    room.releaseKeys(i + 1);
    soften(i + 1, edge);
    if (band.sum[0] + band.sum[1] < 0) asm volatile("trap;"); // never; but the assembler may not put this behind the wait then
    wgmmaWait<0>(); // nothing may be under way where the loop turns: the compiler moves registers there
    settle(band.out);
    room.releaseValues(i);
    weights();
  };
  for (int i = skip; i + 1 < steps; i++) {
    for (; i + 1 >= clear && i + 1 < mini(far, steps); i++) round(i, Is<false>());
    if (i + 1 < steps) round(i, Is<true>());
  }
  takeTurn();
  weighted(steps - 1);
  giveTurn(steps - 1);
  wgmmaWait<0>();
  settle(band.out);
  band.store(p, work, group * 64 + (mine & 3) * 16, scaled);
}
KERNEL(384, 1) wide_bf16(PARAM WideParams p) { wide<false, Bf16>(p); }
KERNEL(384, 1) wide_cap_bf16(PARAM WideParams p) { wide<true, Bf16>(p); }
KERNEL(384, 1) wide_f16(PARAM WideParams p) { wide<false, Half>(p); }
KERNEL(384, 1) wide_cap_f16(PARAM WideParams p) { wide<true, Half>(p); }
#endif
