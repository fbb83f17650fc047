// Attention over a latent cache in the shape of DeepSeek's models, keys of 576 numbers whose first 512 are the values, on Hopper. A block takes 64 heads of
// one row and a split of its keys, 64 at a time. A tile of keys serves both products, and two lie in shared memory beside the queries. Of each pair of
// tiles one warpgroup makes the scores of the first and one those of the second, and each accumulates half of the numbers of the result, since no
// warpgroup has registers for all: P of the one tile it has in registers, P of the other it reads from shared memory, where the other warpgroup has put it
// (the "seesaw" schedule of FlashMLA). While one makes its softmax, the products of the other run. A third warpgroup loads keys row by row (cp.async), so
// that chosen ones cost what others do.
#include "../../swizzle.h"
#include "latent.h"

#if __CUDA_ARCH__ >= 900
constexpr int HEADS = 64, KEYS = 64, K = 576, V = 512; // of a block, of a tile; numbers of a key and of a value
constexpr int PANELS = K / 64, PANEL = KEYS * 128, TILE = PANELS * PANEL, HALF = V / 2 / 64; // HALF: panels of half of the values
constexpr int ROPE = PANELS - 1; // the panel that no values lie in; behind the scores it holds P
extern SHARED u8 dynamic[];

WGMMA_SS(wgmmaF16, "f16", 64, 32)
#define WGMMA_RS_TRANS_ARRAY(name, type)                                                                                                  \
  DEVICE void name(float (&d)[128], const u32 (&a)[4], u64 b) {                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" ACC_NAMES128 "}, {%[a0],%[a1],%[a2],%[a3]}, "          \
                 "%[b], 1, 1, 1, 1;"                                                                                                      \
                 : ACC_OPERANDS128("+f") : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "l"(b));                   \
  }
// P × V with P in shared memory, K-major, and V MN-major.
#define WGMMA_SS_TRANS(name, type)                                                                                                        \
  DEVICE void name(float (&d)[128], u64 a, u64 b) {                                                                                       \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" ACC_NAMES128 "}, %[a], %[b], 1, 1, 1, 0, 1;"           \
                 : ACC_OPERANDS128("+f") : [a] "l"(a), [b] "l"(b));                                                                       \
  }
WGMMA_RS_TRANS_ARRAY(multiplyPV, "bf16")
WGMMA_RS_TRANS_ARRAY(multiplyPVF16, "f16")
WGMMA_SS_TRANS(multiplyPV, "bf16")
WGMMA_SS_TRANS(multiplyPVF16, "f16")

DEVICE void scores(Bf16, float (&d)[32], u64 q, u64 k, int add) { wgmma(d, q, k, add); }
DEVICE void scores(Half, float (&d)[32], u64 q, u64 k, int add) { wgmmaF16(d, q, k, add); }
template <typename A> DEVICE void values(Bf16, float (&d)[128], const A& p, u64 v) { multiplyPV(d, p, v); }
template <typename A> DEVICE void values(Half, float (&d)[128], const A& p, u64 v) { multiplyPVF16(d, p, v); }
template <int N> DEVICE void settle(float (&x)[N]) { UNROLL for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory"); }
DEVICE void store16(u32 to, Vec16 x) { asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x[0]), "r"(x.x[1]), "r"(x.x[2]), "r"(x.x[3]) : "memory"); }
DEVICE void store4(u32 to, u32 x) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }

// Where queries and the two tiles lie, the mbarriers of the halves of tiles, and what the warpgroups tell each other of rows. Half h of a tile are the
// panels that warpgroup h has the values of. The last panel is of the half of the warpgroup that will read P there, the one that did not make it: of tile t
// half t ^ 1.
struct Shared {
  u32 q, k, full, empty;      // mbarriers [tile][half]
  float *rowMax, *scale0, *scale1, *sums; // [64], [64], [64], [2][64]

  DEVICE u32 bar(u32 bars, int tile, int half) const { return bars + 8 * (2 * tile + half); }
  DEVICE u32 tile(int t) const { return k + t * TILE; }
  DEVICE void release(int tile, int half) const {
    if (lane() == 0) mbarrierArrive(bar(empty, tile, half));
  }
};
enum { MAX_KNOWN = 1, P1_READY, P0_READY }; // named barriers

// loadKeys is the third warpgroup: two warps load the first tile of each pair and two the second, eight threads a line, eight lines each. First comes the
// half that is released first, and that the scores begin with.
DEVICE void loadKeys(const LatentParams& p, const Shared& at, const LatentRow& row, int pairs) {
  const Step& s = p.step;
  const int* pages = s.pages + (long)row.seq * s.seqPages;
  const float* chosen = p.chosen ? p.chosen + (long)row.row * p.most : nullptr;
  int t = uniform(warp()) / 2 % 2, line = threadX() / 8 % 8, chunk = threadX() % 8;
  int slots[KEYS / 8]; // of the cache; -1: there is no key
  auto find = [&](int pair) __attribute__((always_inline)) {
    UNROLL for (int i = 0; i < KEYS / 8; i++) {
      int key = row.first + (2 * pair + t) * KEYS + line + 8 * i;
      slots[i] = -1;
      if (key >= row.end) continue;
      if (chosen) key = (int)chosen[key];
      if (key >= 0) slots[i] = (pages[key >> s.pageShift] << s.pageShift) + (key & ((1 << s.pageShift) - 1));
    }
  };
  find(0);
  u32 mine = at.tile(t) + swizzled(line, chunk);
  for (int pair = 0; pair < pairs; pair++) {
    UNROLL for (int h = 0; h < 2; h++) {
      int half = t ^ h;
      if (pair > 0) mbarrierWait(at.bar(at.empty, t, half), (pair + 1) & 1);
      auto panel = [&](int c) __attribute__((always_inline)) {
        UNROLL for (int i = 0; i < KEYS / 8; i++)
          cpAsync16(mine + c * PANEL + i * 8 * 128, p.cache + (long)maxi(slots[i], 0) * 2 * K + chunk * 16 + c * 128, slots[i] >= 0);
      };
      for (int c = 0; c < HALF; c++) panel(half * HALF + c);
      if (h == 1) panel(ROPE);
      arriveCopied(at.bar(at.full, t, half));
    }
    find(pair + 1);
  }
  cpAsyncCommit();
  cpAsyncWait<0>();
}

// Consumer is a warpgroup: the scores of one tile of each pair, and half of the numbers of the result.
template <typename N> struct Consumer {
  const LatentParams& p;
  const Shared& at;
  int group, g, t, line; // the thread's first row; the other is eight further
  float scaled;
  float out[128], sc[32], rowMax[2], sum[2], scale[2];
  u32 prob[KEYS / 16][4];

  DEVICE Consumer(const LatentParams& p, const Shared& at) : p(p), at(at) {
    group = uniform(warp()) / 4, g = lane() / 4, t = lane() % 4, line = warp() % 4 * 16 + g, scaled = p.scale * LOG2E;
    UNROLL for (int i = 0; i < 128; i++) out[i] = 0;
    UNROLL for (int h = 0; h < 2; h++) rowMax[h] = MASK_VALUE, sum[h] = 0;
  }
  DEVICE void loadQueries(int row, int head0) const {
    for (int i = threadX(); i < HEADS * K / 8; i += 256) {
      int head = i / (K / 8), c = i % (K / 8);
      Vec16 x = {};
      if (head0 + head < p.heads) x = *(const Vec16*)(p.q + ((long)row * p.heads + head0 + head) * K + c * 8);
      UNROLL for (int e = 0; e < 4; e++) x.x[e] = N::query(x.x[e]);
      store16(at.q + c / 8 * PANEL + swizzled(head, c % 8), x);
    }
    fenceProxyAsync();
    namedBarrierSync(4, 256);
  }
  // makeScores are those of the warpgroup's tile of pair i, of which `left` keys are there, and their row max.
  DEVICE void makeScores(int i, int left) {
    u64 q = smemDescriptor(at.q), k = smemDescriptor(at.tile(group));
    u64 own = group * HALF * PANEL / 16, other = (group ^ 1) * HALF * PANEL / 16;
    auto multiply = [&](u64 panel, bool first) __attribute__((always_inline)) {
      UNROLL for (int j = 0; j < 4; j++) scores(N(), sc, q + panel + j * 2, k + panel + j * 2, !first || j > 0);
    };
    awaitCopies(at.bar(at.full, group, group), i & 1);
    wgmmaFence();
    UNROLL for (int c = 0; c < HALF; c++) multiply(own + c * PANEL / 16, c == 0);
    wgmmaCommit();
    awaitCopies(at.bar(at.full, group, group ^ 1), i & 1);
    UNROLL for (int c = 0; c < HALF; c++) multiply(other + c * PANEL / 16, false);
    multiply(ROPE * PANEL / 16, false);
    wgmmaCommit();
    wgmmaWait<0>();
    settle(sc);
    if (left < KEYS) UNROLL for (int j = 0; j < 32; j++)
      if (j / 4 * 8 + 2 * t + j % 2 >= left) sc[j] = MASK_VALUE;
  }
  DEVICE float largest(int h, float most) const {
    UNROLL for (int j = 0; j < KEYS / 8; j++) most = maxf(most, maxf(sc[4 * j + 2 * h], sc[4 * j + 2 * h + 1]));
    most = maxf(most, shuffleXor(most, 1));
    return maxf(most, shuffleXor(most, 2));
  }
  // makeP makes scores probabilities, in registers as a first operand too, and adds them up.
  DEVICE void makeP() {
    UNROLL for (int h = 0; h < 2; h++) {
      float shift = rowMax[h] * scaled, more = 0;
      UNROLL for (int j = 0; j < KEYS / 8; j++) UNROLL for (int e = 0; e < 2; e++) {
        float& x = sc[4 * j + 2 * h + e];
        x = exp2(__builtin_fmaf(x, scaled, -shift));
        more += x;
      }
      sum[h] = sum[h] * scale[h] + more;
    }
    UNROLL for (int k = 0; k < KEYS / 16; k++) UNROLL for (int e = 0; e < 4; e++) prob[k][e] = N::pair(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]);
  }
  DEVICE void rescale() {
    if (!allSync(scale[0] == 1 && scale[1] == 1)) UNROLL for (int j = 0; j < 128; j++) out[j] *= scale[j / 2 % 2];
  }
  DEVICE void putP(float by0, float by1) const { // for the other warpgroup
    u32 to = at.tile(group) + ROPE * PANEL;
    UNROLL for (int j = 0; j < KEYS / 8; j++) {
      store4(to + swizzled(line, j) + 4 * t, N::pair(sc[4 * j] * by0, sc[4 * j + 1] * by0));
      store4(to + swizzled(line + 8, j) + 4 * t, N::pair(sc[4 * j + 2] * by1, sc[4 * j + 3] * by1));
    }
    fenceProxyAsync();
  }
  DEVICE u64 valuesOf(int tile) const { return smemDescriptorTrans(at.tile(tile) + group * HALF * PANEL, PANEL); }
  DEVICE void multiplyOwn() {
    u64 v = valuesOf(group);
    wgmmaFence();
    UNROLL for (int k = 0; k < KEYS / 16; k++) values(N(), out, prob[k], v + k * 2048 / 16);
    wgmmaCommit();
  }
  DEVICE void multiplyOther() {
    int other = group ^ 1;
    u64 v = valuesOf(other), probs = smemDescriptor(at.tile(other) + ROPE * PANEL);
    wgmmaFence();
    UNROLL for (int k = 0; k < KEYS / 16; k++) values(N(), out, probs + k * 2, v + k * 2048 / 16);
    wgmmaCommit();
  }

  DEVICE void first(int pairs, int keys) {
    for (int i = 0; i < pairs; i++) {
      makeScores(i, keys - 2 * i * KEYS);
      UNROLL for (int h = 0; h < 2; h++) {
        float m = largest(h, rowMax[h]);
        scale[h] = exp2((rowMax[h] - m) * scaled), rowMax[h] = m;
        if (t == 0) at.rowMax[line + 8 * h] = m, at.scale0[line + 8 * h] = scale[h];
      }
      namedBarrierArrive(MAX_KNOWN, 256);
      makeP();
      rescale();
      multiplyOwn();
      namedBarrierSync(P1_READY, 256);
      UNROLL for (int h = 0; h < 2; h++) scale[h] = at.scale1[line + 8 * h], rowMax[h] = at.rowMax[line + 8 * h], sum[h] *= scale[h];
      putP(scale[0], scale[1]);
      namedBarrierArrive(P0_READY, 256);
      wgmmaWait<0>();
      settle(out);
      at.release(0, 0);
      rescale();
      awaitCopies(at.bar(at.full, 1, 0), i & 1);
      multiplyOther();
      wgmmaWait<0>();
      settle(out);
      at.release(1, 0);
    }
  }
  DEVICE void second(int pairs, int keys) {
    for (int i = 0; i < pairs; i++) {
      makeScores(i, keys - (2 * i + 1) * KEYS);
      float most[2] = {largest(0, MASK_VALUE), largest(1, MASK_VALUE)}, scale1[2];
      namedBarrierSync(MAX_KNOWN, 256);
      UNROLL for (int h = 0; h < 2; h++) {
        float before = at.rowMax[line + 8 * h];
        rowMax[h] = maxf(before, most[h]), scale1[h] = exp2((before - rowMax[h]) * scaled), scale[h] = at.scale0[line + 8 * h] * scale1[h];
      }
      warpBarrier();
      if (t == 0) UNROLL for (int h = 0; h < 2; h++) at.rowMax[line + 8 * h] = rowMax[h], at.scale1[line + 8 * h] = scale1[h];
      makeP();
      putP(1, 1);
      namedBarrierArrive(P1_READY, 256);
      rescale();
      multiplyOwn();
      namedBarrierSync(P0_READY, 256);
      awaitCopies(at.bar(at.full, 0, 1), i & 1);
      multiplyOther();
      wgmmaWait<1>();
      at.release(1, 1);
      wgmmaWait<0>();
      settle(out);
      at.release(0, 1);
    }
  }

  DEVICE void store(int row, int head0, int split) {
    UNROLL for (int h = 0; h < 2; h++) {
      sum[h] += shuffleXor(sum[h], 1);
      sum[h] += shuffleXor(sum[h], 2);
      if (t == 0) at.sums[group * HEADS + line + 8 * h] = sum[h];
      if (t == 0 && group == 1) at.rowMax[line + 8 * h] = rowMax[h];
    }
    namedBarrierSync(4, 256);
    int blocks = ceilDiv(p.heads, HEADS);
    UNROLL for (int h = 0; h < 2; h++) {
      int in = line + 8 * h, head = head0 + in;
      if (head >= p.heads) continue;
      float all = at.sums[in] + at.sums[HEADS + in];
      if (p.splits == 1) {
        float f = reciprocal(all);
        u32* y = (u32*)(p.y + ((long)row * p.heads + head) * V + group * V / 2) + t;
        UNROLL for (int j = 0; j < 32; j++) y[4 * j] = pack(out[4 * j + 2 * h] * f, out[4 * j + 2 * h + 1] * f);
        continue;
      }
      float* part = p.partial + ((((long)row * blocks + head0 / HEADS) * p.splits + split) * HEADS + in) * (V + 2);
      UNROLL for (int j = 0; j < 32; j++) {
        int d = group * V / 2 + 8 * j + 2 * t;
        part[d] = out[4 * j + 2 * h], part[d + 1] = out[4 * j + 2 * h + 1];
      }
      if (group == 0 && t == 0) part[V] = at.rowMax[in] * scaled, part[V + 1] = all;
    }
  }
};

template <typename N> DEVICE void attend(const LatentParams& p) {
  SHARED static u64 barriers[8];
  SHARED static float rows[5][HEADS];
  Shared at;
  at.q = (sharedAddress(dynamic) + 1023) & ~1023u, at.k = at.q + PANELS * PANEL, at.full = sharedAddress(barriers), at.empty = at.full + 8 * 4;
  at.rowMax = rows[0], at.scale0 = rows[1], at.scale1 = rows[2], at.sums = rows[3];
  if (threadX() == 0) {
    for (int i = 0; i < 4; i++) mbarrierInit(at.full + 8 * i, 64), mbarrierInit(at.empty + 8 * i, 4);
    mbarrierInitFence();
  }
  if (threadX() < HEADS) at.rowMax[threadX()] = MASK_VALUE;
  barrier();
  launchDependentsAndWait();
  // Blocks of heads of a row run side by side and share its keys in the L2 cache; the last rows of a prompt, which see the most keys, go first.
  int blocks = ceilDiv(p.heads, HEADS), r = gridX() / blocks - 1 - blockX() / blocks, head0 = blockX() % blocks * HEADS;
  LatentRow row(p, r, blockY(), 2 * KEYS);
  if (row.skipped()) return;
  int keys = maxi(row.end - row.first, 0), pairs = ceilDiv(keys, 2 * KEYS);
  if (uniform(warp()) >= 8) {
    setmaxnregDec<56>();
    loadKeys(p, at, row, pairs);
    return;
  }
  setmaxnregInc<224>();
  Consumer<N> consumer(p, at);
  consumer.loadQueries(r, head0);
  if (consumer.group == 0) consumer.first(pairs, keys);
  else consumer.second(pairs, keys);
  consumer.store(r, head0, blockY());
}
KERNEL(384, 1) latent_wide_bf16(PARAM LatentParams p) { attend<Bf16>(p); }
KERNEL(384, 1) latent_wide_f16(PARAM LatentParams p) { attend<Half>(p); }
#endif
