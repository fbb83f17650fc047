// FlashAttention of prompts with heads of more than 128 (head_dim up to 256), on Hopper: as prefill_sm90 computes smaller ones (FlashAttention-3, Shah et
// al., arXiv:2407.08608). A block takes one query head of 128 rows of one sequence; a producer warp loads tiles of 80 keys and values by TMA, two consumer
// warpgroups take 64 rows each. Scores of the next tile are computed and become P while P × V of the one before runs.
#include "softmax.h"
#include "wgmma.h"

struct LargeHeadsParams {
  TensorMap k, v;       // the cache's keys and values: [pages, tokens of a page, kvHeads × size], in boxes of a page or less
  TensorMap kRun, vRun; // the same in boxes of as many pages as are a tile, where it divides by pages
  Step step;
  const bf16* q; // [T, heads × kSize]
  bf16* y;       // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int box; // tokens of a TMA box: they lie in one page and divide a tile
  float scale, softcap;
  int bidirectional; // queries attend to later keys too
};

#if __CUDA_ARCH__ >= 900
// Panels are 64 columns of queries, and of keys or values; their bytes. 80 keys are as many as there is room for; the fewer there
// are, the more often shared memory has to give queries to the tensor cores.
constexpr int D = 256, KEYS = 80, STAGES = 2, PANELS = D / 64, Q_PANEL = ROWS * 128, PANEL = KEYS * 128, TILE = PANELS * PANEL;
extern SHARED u8 dynamic[];
template <bool B> struct Is { static constexpr bool value = B; };
template <int N> DEVICE void fenceAccumulator(float (&x)[N]) { // wgmma have written x: reads may not be moved across
  UNROLL for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}
DEVICE void multiply(Bf16, float (&d)[KEYS / 2], u64 a, u64 b, int add) { wgmma(d, a, b, add); }
DEVICE void multiply(Half, float (&d)[KEYS / 2], u64 a, u64 b, int add) { wgmmaF16(d, a, b, add); }
DEVICE void multiply(Bf16, float (&d)[D / 2], const u32 (&a)[4], u64 b) { wgmmaRSTrans(d, a[0], a[1], a[2], a[3], b); }
DEVICE void multiply(Half, float (&d)[D / 2], const u32 (&a)[4], u64 b) { wgmmaRSTransF16(d, a[0], a[1], a[2], a[3], b); }

// SharedStorage is the layout of a block's shared memory: queries, rings of tiles of keys and of values, and their full and empty mbarriers.
struct SharedStorage {
  u32 q, k, v, kFull, vFull, kEmpty, vEmpty;

  DEVICE SharedStorage(u32 bars) {
    q = (sharedAddress(dynamic) + 1023) & ~1023u, k = q + PANELS * Q_PANEL, v = k + STAGES * TILE;
    kFull = bars, vFull = kFull + 8 * STAGES, kEmpty = vFull + 8 * STAGES, vEmpty = kEmpty + 8 * STAGES;
  }
  DEVICE void init() {
    for (int i = 0; i < 2 * STAGES; i++) mbarrierInit(kFull + 8 * i, 1), mbarrierInit(kEmpty + 8 * i, 8); // eight warps release a tile
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

  // produce is the producer warp: it loads all tiles, a lane a box, or consecutive pages with one TMA load.
  DEVICE void produce(const LargeHeadsParams& p, const WorkTile& work) const {
    const Step& s = p.step;
    for (int i = 0; i <= work.last - work.first; i++) {
      int token = (work.last - i) * KEYS + lane() * p.box, in = token & ((1 << s.pageShift) - 1);
      bool mine = lane() < KEYS / p.box; // beyond the last token there is no page: zeros are loaded
      int page = mine && token < work.length ? s.pages[(long)work.seq * s.seqPages + (token >> s.pageShift)] : -1, start = uniform(page);
      bool run = p.box == 1 << s.pageShift && allSync(!mine || page == start + lane());
      auto load = [&](u32 to, const TensorMap& one, const TensorMap& many, int column, u32 full) {
        if (lane() == 0) mbarrierExpectTx(full, TILE);
        warpBarrier();
        if (run ? lane() == 0 : mine)
          UNROLL for (int h = 0; h < PANELS; h++) tmaLoad3D(to + h * PANEL + lane() * p.box * 128, run ? &many : &one, column + h * 64, in, page, full);
      };
      if (i >= STAGES) mbarrierWait(kEmpty + 8 * (i % STAGES), (i / STAGES + 1) & 1);
      load(k + i % STAGES * TILE, p.k, p.kRun, work.kv * p.kSize, kFull + 8 * (i % STAGES));
      if (i >= STAGES) mbarrierWait(vEmpty + 8 * (i % STAGES), (i / STAGES + 1) & 1);
      load(v + i % STAGES * TILE, p.v, p.vRun, work.kv * p.vSize, vFull + 8 * (i % STAGES));
    }
  }
  // loadQueries swizzles the rows of a warpgroup as TMA would: 16-byte chunk c of row r lies at c ^ (r % 8).
  template <typename N> DEVICE void loadQueries(const LargeHeadsParams& p, const WorkTile& work, int group) const {
    for (int i = threadX() & 127; i < 64 * D / 8; i += 128) {
      int r = i / (D / 8), c = i % (D / 8), row = group * 64 + r;
      Vec16 x = {};
      if (row < work.rows && c * 8 < p.kSize) x = N::query(*(const Vec16*)(p.q + ((long)(work.row0 + row) * p.heads + work.head) * p.kSize + c * 8));
      storeShared(q + c / 8 * Q_PANEL + row * 128 + ((c % 8) ^ (r & 7)) * 16, x);
    }
    fenceProxyAsync();
    namedBarrierSync(1 + group, 128);
  }
  // clearValues zeroes what was never written in the first tile, from line `from` on: P = 0 times NaN would be NaN. Where both
  // warpgroups read that tile, both write the same zeros: neither waits for the other.
  DEVICE void clearValues(int from, int group) const {
    awaitValues(0);
    for (int c = threadX() & 127; c < (KEYS - from) * PANELS * 8; c += 128)
      storeShared(v + c % PANELS * PANEL + (from + c / (PANELS * 8)) * 128 + c / PANELS % 8 * 16, Vec16{});
    fenceProxyAsync();
    namedBarrierSync(1 + group, 128);
  }
};

// CAP: scores are soft-capped. N: what keys and values are.
template <bool CAP, typename N> DEVICE void prefillLargeHeads(const LargeHeadsParams& p) {
  SHARED static u64 bars[4 * STAGES];
  SharedStorage storage(sharedAddress(bars));
  if (threadX() == 0) storage.init();
  barrier();
  launchDependents();
  WorkTile work(p, KEYS);
  if (work.kv >= p.kvHeads) return;
  if (uniform(warp()) < 4) {
    setmaxnregDec<40>();
    if (warp() > 0) return;
    gridDependencyWait();
    storage.produce(p, work);
    return;
  }

  setmaxnregInc<232>();
  gridDependencyWait();
  int mine = uniform(warp()), group = mine / 4 - 1;
  storage.loadQueries<N>(p, work, group);
  SoftmaxRows<D, KEYS> band;
  band.start();
  u32 prob[KEYS / 16][4]; // P of a tile, as A operand
  int low = work.pos0 + group * 64, high = mini(low + 63, work.pos0 + work.rows - 1); // the positions of this warpgroup's rows
  bool none = high < low;
  if (p.bidirectional) low = high = work.length - 1; // how far they look
  int pos = p.bidirectional ? low : low + (mine & 3) * 16 + lane() / 4, rowStep = p.bidirectional ? 0 : 8, steps = work.last - work.first + 1;
  int skip = none ? steps : mini(steps, work.last - high / KEYS); // leading tiles beyond every row's position
  float scaled = CAP ? LOG2E : p.scale * LOG2E;

  auto multiplyQK = [&](int i) __attribute__((always_inline)) {
    storage.awaitKeys(i);
    wgmmaFence();
    u64 q = smemDescriptor(storage.q + group * 64 * 128), key = smemDescriptor(storage.k + i % STAGES * TILE);
    UNROLL for (int k = 0; k < D / 16; k++) multiply(N(), band.score, q + (k / 4 * Q_PANEL + k % 4 * 32) / 16, key + (k / 4 * PANEL + k % 4 * 32) / 16, k > 0);
    wgmmaCommit();
  };
  auto multiplyPV = [&](int i) __attribute__((always_inline)) { // out += P × V, after out is rescaled to the new row max
    band.rescaleOutput();
    storage.awaitValues(i);
    wgmmaFence();
    u64 values = smemDescriptorTrans(storage.v + i % STAGES * TILE, PANEL);
    UNROLL for (int k = 0; k < KEYS / 16; k++) multiply(N(), band.out, prob[k], values + k * 2048 / 16);
    wgmmaCommit();
  };
  auto softmax = [&](int i, auto edge) __attribute__((always_inline)) {
    if (CAP) band.cap(p.scale, p.softcap);
    if (edge.value) band.mask((work.last - i) * KEYS, pos, rowStep, p.window);
    band.softmax(scaled);
  };
  auto makeP = [&]() __attribute__((always_inline)) { UNROLL for (int k = 0; k < KEYS / 16; k++) band.template fragmentP<N>(prob[k], k); };
  // Ping-pong: while the wgmma of one warpgroup run on the tensor cores, the other computes its softmax.
  auto pingPongWait = [&]() __attribute__((always_inline)) { namedBarrierSync(4 + group, 256); };
  auto pingPongArrive = [&](int i) __attribute__((always_inline)) {
    if (group == 0 || i + 1 < steps) namedBarrierArrive(5 - group, 256);
  };
  if (group == 1) namedBarrierArrive(4, 256);
  for (int i = 0; i < skip; i++) {
    pingPongWait();
    pingPongArrive(i);
    storage.awaitKeys(i);
    storage.releaseKeys(i);
    storage.awaitValues(i);
    storage.releaseValues(i);
  }
  if (skip == steps) return; // no rows
  int known = work.length - work.last * KEYS; // tokens of the last tile
  if (skip == 0 && known < KEYS) storage.clearValues(known, group);
  multiplyQK(skip);
  wgmmaWait<0>();
  fenceAccumulator(band.score);
  storage.releaseKeys(skip);
  softmax(skip, Is<true>());
  makeP();
  // There may be no branch while wgmma are in flight, or the compiler waits before it; so tiles with masked scores, the diagonal's
  // and those at the window's end, are another loop's. Of the tiles from clear to far no score is masked.
  int clear = work.last + 1 - (low + 1) / KEYS, far = p.window > 0 && high >= p.window ? work.last - (high - p.window) / KEYS : steps;
  auto step = [&](int i, auto edge) __attribute__((always_inline)) {
    pingPongWait();
    multiplyQK(i + 1);
    multiplyPV(i);
    pingPongArrive(i);
    wgmmaWait<1>();
    fenceAccumulator(band.score);
    storage.releaseKeys(i + 1);
    softmax(i + 1, edge);
    if (band.sum[0] + band.sum[1] < 0) asm volatile("trap;"); // never; but the assembler may not put this behind the wait then
    wgmmaWait<0>(); // no wgmma may be in flight at the loop's end: the compiler moves registers there
    fenceAccumulator(band.out);
    storage.releaseValues(i);
    makeP();
  };
  for (int i = skip; i + 1 < steps; i++) {
    for (; i + 1 >= clear && i + 1 < mini(far, steps); i++) step(i, Is<false>());
    if (i + 1 < steps) step(i, Is<true>());
  }
  pingPongWait();
  multiplyPV(steps - 1);
  pingPongArrive(steps - 1);
  wgmmaWait<0>();
  fenceAccumulator(band.out);
  band.store(p, work, group * 64 + (mine & 3) * 16, scaled);
}
KERNEL(384, 1) prefill256_bf16(PARAM LargeHeadsParams p) { prefillLargeHeads<false, Bf16>(p); }
KERNEL(384, 1) prefill256_cap_bf16(PARAM LargeHeadsParams p) { prefillLargeHeads<true, Bf16>(p); }
KERNEL(384, 1) prefill256_f16(PARAM LargeHeadsParams p) { prefillLargeHeads<false, Half>(p); }
KERNEL(384, 1) prefill256_cap_f16(PARAM LargeHeadsParams p) { prefillLargeHeads<true, Half>(p); }
#endif
