// Attention of many new tokens a sequence over the paged cache, on Hopper: FlashAttention (Dao, arXiv:2307.08691; for Hopper
// Shah et al., arXiv:2407.08608). A block takes one query head of 128 rows of one sequence; a producer warp fetches tiles of 128
// keys and values, a page at a time or pages that follow each other at once, two warpgroups take 64 rows each: scores into registers,
// a running softmax, and the product with the values, which runs while the next scores become weights. Tiles that causality or the window hide are never fetched, and sequences of any length go in one
// launch without padding: the tiles' list is the step's.
#include "../hopper.h"

struct PrefillParams {
  TensorMap k, v;       // the cache's keys and values: [pages, tokens of a page, kvHeads × size], in boxes of a page
  TensorMap kRun, vRun; // the same in boxes of as many pages as are a tile
  Step step;
  const bf16* q; // [T, heads × kSize]
  bf16* y;       // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int box; // tokens of a fetch: those of a page, at most KEYS
  float scale, softcap;
  int both; // queries look at the keys behind them as well
};

#if __CUDA_ARCH__ >= 900
DEVICE int shuffleFrom(int v, int lane) {
  asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, -1;" : "+r"(v) : "r"(lane));
  return v;
}
template <bool B> struct Is { static constexpr bool value = B; };
DEVICE bool allOf(bool each) { return __nvvm_vote_all_sync(-1, each); }

constexpr int KEYS = 128, ROWS = 128, STAGES = 2, COLUMNS = KEYS * 128; // COLUMNS: bytes of 64 columns of a tile
extern SHARED u8 dynamic[];

// D: 64 or 128, the head size rounded up; what is beyond the true size is zero in Q and never stored. CAP: scores are
// soft-capped. HALF: keys and values are IEEE halves.
template <int D, bool CAP, bool HALF> DEVICE void prefill(const PrefillParams& p) {
  constexpr int H = D / 64, TILE = H * COLUMNS;
  SHARED static u64 bars[4 * STAGES];
  u32 base = (sharedAddress(dynamic) + 1023) & ~1023u;
  u32 qAt = base, kAt = base + H * COLUMNS, vAt = kAt + STAGES * TILE; // Q: [half][128 rows]
  u32 kFull = sharedAddress(bars), vFull = kFull + 8 * STAGES, kEmpty = vFull + 8 * STAGES, vEmpty = kEmpty + 8 * STAGES;
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) {
      barrierInit(kFull + 8 * i, 1), barrierInit(vFull + 8 * i, 1);
      barrierInit(kEmpty + 8 * i, 8), barrierInit(vEmpty + 8 * i, 8);
    }
    barrierInitDone();
  }
  barrier();
  releaseNext();
  const Step& s = p.step;
  // The grid is the query heads of a few key heads, then the tiles, then the next key heads: so many keys and values at a time stay
  // in the L2 cache.
  int share = p.heads / p.kvHeads, kv = blockZ() * (gridX() / share) + blockX() / share, head = kv * share + blockX() % share;
  if (kv >= p.kvHeads) return;
  int seq = s.tiles[2 * blockY()], row0 = s.tiles[2 * blockY() + 1];
  int rows = mini(ROWS, s.qStart[seq + 1] - row0), length = s.kvLen[seq];
  int pos0 = length - (s.qStart[seq + 1] - row0); // position of the first row
  int first = p.window > 0 ? maxi(0, pos0 - p.window + 1) / KEYS : 0, end = (p.both ? length - 1 : pos0 + rows - 1) / KEYS + 1;

  if (warp() < 4) { // the producer: a warp, a lane a box
    keepRegisters<24>();
    if (warp() > 0) return;
    awaitInput();
    int boxes = KEYS / p.box;
    auto pageOf = [&](int i) { // the page of this lane's box of a tile; -1, which arrives as zeros, beyond the last token
      int token = (end - 1 - i) * KEYS + lane() * p.box;
      return i < end - first && lane() < boxes && token < length ? s.pages[(long)seq * s.seqPages + (token >> s.pageShift)] : -1;
    };
    int page = pageOf(0);
    for (int i = 0; i < end - first; i++) {
      int stage = i % STAGES, in = ((end - 1 - i) * KEYS + lane() * p.box) & ((1 << s.pageShift) - 1), start = shuffleFrom(page, 0);
      bool run = boxes > 1 && allOf(lane() >= boxes || page == start + lane());
      auto fetch = [&](u32 to, const TensorMap& one, const TensorMap& many, int column, u32 full, u32 empty) {
        if (i >= STAGES) barrierWait(empty + 8 * stage, (i / STAGES + 1) & 1);
        if (lane() == 0) barrierExpect(full + 8 * stage, TILE);
        warpBarrier();
        if (lane() < (run ? 1 : boxes))
          UNROLL for (int h = 0; h < H; h++)
            fetchBox3(to + stage * TILE + h * COLUMNS + lane() * p.box * 128, run ? &many : &one, column + h * 64, in, page, full + 8 * stage);
      };
      fetch(kAt, p.k, p.kRun, kv * p.kSize, kFull, kEmpty);
      fetch(vAt, p.v, p.vRun, kv * p.vSize, vFull, vEmpty);
      page = pageOf(i + 1);
    }
    return;
  }

  takeRegisters<240>();
  awaitInput();
  int group = warp() / 4 - 1, me = threadX() & 127, g = lane() / 4, t = lane() % 4;
  for (int i = me; i < 64 * H * 8; i += 128) { // Q, swizzled as the copy engine would: 16-byte chunk c of row r lies at c ^ (r % 8)
    int r = i / (H * 8), c = i % (H * 8), row = group * 64 + r;
    Vec16 x = {};
    if (row < rows && c * 8 < p.kSize) x = *(const Vec16*)(p.q + ((long)(row0 + row) * p.heads + head) * p.kSize + c * 8);
    if (HALF) x = asHalf(x);
    u32 to = qAt + c / 8 * COLUMNS + row * 128 + ((c % 8) ^ (r & 7)) * 16;
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x[0]), "r"(x.x[1]), "r"(x.x[2]), "r"(x.x[3]) : "memory");
  }
  sharedFence();
  namedBarrier(1 + group, 128);

  float o[D / 2], sc[KEYS / 2], top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  UNROLL for (int i = 0; i < D / 2; i++) o[i] = 0;
  int low = pos0 + group * 64, high = mini(low + 63, pos0 + rows - 1); // the positions of this warpgroup's rows
  bool none = high < low;
  if (p.both) low = high = length - 1; // how far they look
  int steps = end - first, skip = none ? steps : mini(steps, end - 1 - high / KEYS); // leading tiles beyond every row's position
  float scaled = CAP ? LOG2E : p.scale * LOG2E;

  float shrink[2] = {1, 1};
  u32 w[KEYS / 16][4]; // the weights of a tile, as A operand

  auto scores = [&](int i) __attribute__((always_inline)) {
    barrierWait(kFull + 8 * (i % STAGES), i / STAGES & 1);
    productFence();
    u64 q = operand(qAt + group * 64 * 128), key = operand(kAt + i % STAGES * TILE);
    UNROLL for (int k = 0; k < D / 16; k++) {
      int off = (k / 4 * COLUMNS + k % 4 * 32) / 16;
      if (HALF) productHalf(sc, q + off, key + off, k > 0);
      else product(sc, q + off, key + off, k > 0);
    }
    productCommit();
  };
  auto weighted = [&](int i) __attribute__((always_inline)) { // o += w × values, after o is scaled to the new maximum
    UNROLL for (int j = 0; j < D / 8; j++) UNROLL for (int e = 0; e < 4; e++) o[4 * j + e] *= shrink[e / 2];
    barrierWait(vFull + 8 * (i % STAGES), i / STAGES & 1);
    productFence();
    u64 values = operandT(vAt + i % STAGES * TILE, COLUMNS);
    UNROLL for (int k = 0; k < KEYS / 16; k++) {
      if (HALF) productTHalf(o, w[k][0], w[k][1], w[k][2], w[k][3], values + k * 2048 / 16);
      else productT(o, w[k][0], w[k][1], w[k][2], w[k][3], values + k * 2048 / 16);
    }
    productCommit();
  };
  auto softmax = [&](int i, auto masked) __attribute__((always_inline)) {
    int key0 = (end - 1 - i) * KEYS;
    if (CAP) {
      UNROLL for (int j = 0; j < KEYS / 2; j++) sc[j] = p.softcap * tanhf(sc[j] * p.scale / p.softcap);
    }
    if (masked.value) {
      UNROLL for (int j = 0; j < KEYS / 2; j++) {
        int key = key0 + j / 4 * 8 + t * 2 + (j & 1), pos = p.both ? low : low + (warp() & 3) * 16 + g + (j & 2) * 4;
        if (key > pos || (p.window > 0 && key <= pos - p.window)) sc[j] = -1e30f;
      }
    }
    UNROLL for (int h = 0; h < 2; h++) {
      float m = top[h];
      UNROLL for (int j = 0; j < KEYS / 8; j++) m = maxf(m, maxf(sc[4 * j + 2 * h], sc[4 * j + 2 * h + 1]));
      m = maxf(m, shuffleXor(m, 1));
      m = maxf(m, shuffleXor(m, 2));
      float shift = m <= -1e29f ? 0 : m * scaled, more = 0;
      shrink[h] = exp2((top[h] - m) * scaled);
      top[h] = m;
      UNROLL for (int j = 0; j < KEYS / 8; j++) UNROLL for (int e = 0; e < 2; e++) {
        float& x = sc[4 * j + 2 * h + e];
        x = exp2(__builtin_fmaf(x, scaled, -shift));
        more += x;
      }
      sum[h] = sum[h] * shrink[h] + more;
    }
  };
  auto weights = [&]() __attribute__((always_inline)) {
    UNROLL for (int k = 0; k < KEYS / 16; k++) UNROLL for (int e = 0; e < 4; e++)
      w[k][e] = HALF ? packHalf(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]) : pack(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]);
  };
  auto scoresDone = [&]() __attribute__((always_inline)) { UNROLL for (int j = 0; j < KEYS / 2; j++) asm volatile("" : "+f"(sc[j])::"memory"); };
  auto sumsDone = [&]() __attribute__((always_inline)) { UNROLL for (int j = 0; j < D / 2; j++) asm volatile("" : "+f"(o[j])::"memory"); };
  auto release = [&](u32 bars, int i) __attribute__((always_inline)) {
    if (lane() == 0) barrierArrive(bars + 8 * (i % STAGES));
  };
  // The warpgroups take turns: while one's products run on the tensor cores, the other computes its softmax. Each round a
  // warpgroup waits for its turn, issues its products and gives the turn away. (Left alone, both fall in step: both queue
  // products, both wait, both compute exponentials.)
  auto takeTurn = [&]() __attribute__((always_inline)) { namedBarrier(4 + group, 256); };
  auto giveTurn = [&](int i) __attribute__((always_inline)) {
    if (group == 0 || i + 1 < steps) namedArrive(5 - group, 256);
  };
  if (group == 1) namedArrive(4, 256);
  for (int i = 0; i < skip; i++) {
    takeTurn();
    giveTurn(i);
    barrierWait(kFull + 8 * (i % STAGES), i / STAGES & 1);
    release(kEmpty, i);
    barrierWait(vFull + 8 * (i % STAGES), i / STAGES & 1);
    release(vEmpty, i);
  }
  if (skip == steps) return; // no rows
  if (skip == 0 && end * KEYS > length) { // zero what nobody wrote: a weight of 0 does not silence NaN
    barrierWait(vFull, 0);
    for (int c = me; c < (end * KEYS - length) * H * 8; c += 128) {
      u32 to = vAt + c % H * COLUMNS + (length - (end - 1) * KEYS + c / (H * 8)) * 128 + c / H % 8 * 16;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
    }
    sharedFence();
    namedBarrier(1 + group, 128);
  }
  scores(skip);
  productWait<0>();
  scoresDone();
  release(kEmpty, skip);
  softmax(skip, Is<true>());
  weights();
  // While the weighted values of one tile are summed up, the scores of the next become weights. There may be no branch in
  // between, or the compiler waits before it; so tiles with masked scores, the diagonal's and those at the window's end, are
  // another loop's. Of the tiles from clear to far no score is masked.
  int clear = end - (low + 1) / KEYS, far = p.window > 0 && high >= p.window ? end - 1 - (high - p.window) / KEYS : steps;
  auto round = [&](int i, auto masked) __attribute__((always_inline)) {
    takeTurn();
    scores(i + 1);
    weighted(i);
    giveTurn(i);
    productWait<1>();
    scoresDone();
    release(kEmpty, i + 1);
    softmax(i + 1, masked);
    if (sum[0] + sum[1] < 0) asm volatile("trap;"); // never; but the assembler may not put the softmax behind the wait then
    productWait<0>(); // nothing may be under way where the loop turns: the compiler moves registers there
    sumsDone();
    release(vEmpty, i);
    weights();
  };
  for (int i = skip; i + 1 < steps; i++) {
    for (; i + 1 >= clear && i + 1 < mini(far, steps); i++) round(i, Is<false>());
    if (i + 1 < steps) round(i, Is<true>());
  }
  takeTurn();
  weighted(steps - 1);
  giveTurn(steps - 1);
  productWait<0>();
  sumsDone();
  UNROLL for (int h = 0; h < 2; h++) {
    sum[h] += shuffleXor(sum[h], 1);
    sum[h] += shuffleXor(sum[h], 2);
    int row = group * 64 + (warp() & 3) * 16 + g + h * 8;
    if (row >= rows) continue;
    u32* y = (u32*)(p.y + ((long)(row0 + row) * p.heads + head) * p.vSize);
    float f = 1 / sum[h];
    if (p.sinks) {
      float mine = top[h] * scaled, sink = p.sinks[head] * LOG2E, m = maxf(mine, sink), e = exp2(mine - m);
      f = e / (sum[h] * e + exp2(sink - m));
    }
    UNROLL for (int j = 0; j < D / 8; j++)
      if (j * 8 < p.vSize) y[j * 4 + t] = pack(o[4 * j + 2 * h] * f, o[4 * j + 2 * h + 1] * f);
  }
}
KERNEL(384, 1) prefill64_bf16(PARAM PrefillParams p) { prefill<64, false, false>(p); }
KERNEL(384, 1) prefill64_cap_bf16(PARAM PrefillParams p) { prefill<64, true, false>(p); }
KERNEL(384, 1) prefill128_bf16(PARAM PrefillParams p) { prefill<128, false, false>(p); }
KERNEL(384, 1) prefill128_cap_bf16(PARAM PrefillParams p) { prefill<128, true, false>(p); }
KERNEL(384, 1) prefill64_f16(PARAM PrefillParams p) { prefill<64, false, true>(p); }
KERNEL(384, 1) prefill64_cap_f16(PARAM PrefillParams p) { prefill<64, true, true>(p); }
KERNEL(384, 1) prefill128_f16(PARAM PrefillParams p) { prefill<128, false, true>(p); }
KERNEL(384, 1) prefill128_cap_f16(PARAM PrefillParams p) { prefill<128, true, true>(p); }
#endif
