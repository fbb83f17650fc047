// Attention over a latent cache in the shape of DeepSeek's models, keys of 576 numbers whose first 512 are the values, on Hopper. A block takes 64 heads of
// one row and a split of its keys, 64 at a time. A tile of keys serves both products, and two lie in shared memory beside the queries. Of each pair of
// tiles one warpgroup makes the scores of the first and one those of the second, and each accumulates half of the numbers of the result, since no
// warpgroup has registers for all: P of the one tile it has in registers, P of the other it reads from shared memory, where the other warpgroup has put it
// (as in the "seesaw" schedule of FlashMLA). While one makes its softmax, the products of the other run, and the first tile is free for the next keys before
// the second's softmax is made. A third warpgroup loads keys row by row (cp.async), so that chosen ones cost what others do; or, where two blocks have the same
// keys, the two are a cluster, and each loads half of every tile for both by TMA (latent_pair).
#if __CUDA_ARCH__ >= 900
#include "latent_keys.h"

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
// opaque keeps the compiler from computing all descriptors that follow from one ahead of the loop, for which there are no registers.
DEVICE u64 opaque(u64 x) {
  asm volatile("" : "+l"(x));
  return x;
}

// Consumer is a warpgroup: the scores of tile GROUP of each pair, and half GROUP of the numbers of the result.
template <typename N, int GROUP, bool PAIR> struct Consumer {
  static constexpr int OTHER = GROUP ^ 1;
  const LatentParams& p;
  const Shared& at;
  int g, t, line; // the thread's first row; the other is eight further
  u32 put;        // where this lane stores a row of 8 of P, in its first 16 columns
  float scaled;
  float out[128], sc[32], rowMax[2], sum[2];
  u32 prob[KEYS / 16][4];

  DEVICE Consumer(const LatentParams& p, const Shared& at) : p(p), at(at) {
    g = lane() / 4, t = lane() % 4, line = warp() % 4 * 16 + g, scaled = p.scale * LOG2E;
    put = at.tile(GROUP) + ROPE * PANEL + swizzled(warp() % 4 * 16 + lane() % 16, lane() / 16);
    UNROLL for (int i = 0; i < 128; i++) out[i] = 0;
    UNROLL for (int h = 0; h < 2; h++) rowMax[h] = MASK_VALUE, sum[h] = 0;
  }
  // await waits for a panel. What TMA has written may be read by wgmma at once, and whoever writes keys of a cluster otherwise sees to that itself.
  DEVICE void await(u32 bar, u32 phase) const {
    mbarrierWait(bar, phase);
    if (!PAIR) fenceProxyAsync();
  }
  // multiplyKeys starts the scores of half a tile; `there`: it is loaded for pair i. The scores of the half with the last panel complete those of the other.
  DEVICE void multiplyKeys(int i, int half, bool there) {
    u64 q = opaque(smemDescriptor(at.q)), k = opaque(smemDescriptor(at.tile(GROUP)));
    wgmmaFence();
    UNROLL for (int c = 0; c < HALF + (half != GROUP); c++) {
      int panel = c < HALF ? half * HALF + c : ROPE;
      if (there) await(at.loaded(GROUP, panel), i & 1);
      UNROLL for (int j = 0; j < 4; j++) scores(N(), sc, q + panel * PANEL / 16 + j * 2, k + panel * PANEL / 16 + j * 2, half != GROUP || c + j > 0);
    }
    wgmmaCommit();
  }
  // mask hides scores of keys that are not there, where `left` of the tile are.
  DEVICE void mask(int left) {
    if (left < KEYS) UNROLL for (int j = 0; j < 32; j++)
      if (j / 4 * 8 + 2 * t + j % 2 >= left) sc[j] = MASK_VALUE;
  }
  DEVICE float largest(int h) const {
    float most = MASK_VALUE;
    UNROLL for (int j = 0; j < KEYS / 8; j++) most = maxf(most, maxf(sc[4 * j + 2 * h], sc[4 * j + 2 * h + 1]));
    most = maxf(most, shuffleXor(most, 1));
    return maxf(most, shuffleXor(most, 2));
  }
  // raise makes a row's largest score what its probabilities are relative to, if that is far enough above what they were relative to: sums in float32 have
  // room for 2^8 times as much, and the result is seldom rescaled so. It gives the factor of what has been added up.
  DEVICE float raise(int h, float before, float most) {
    rowMax[h] = (most - before) * scaled > 8 ? most : before;
    return exp2((before - rowMax[h]) * scaled);
  }
  // makeP makes scores probabilities, adds them up, and puts them where the other warpgroup reads them, in the last panel of the tile, which no warp of this
  // one reads any more.
  DEVICE void makeP() {
    UNROLL for (int h = 0; h < 2; h++) {
      float shift = rowMax[h] * scaled, more = 0;
      UNROLL for (int j = 0; j < KEYS / 8; j++) UNROLL for (int e = 0; e < 2; e++) {
        float& x = sc[4 * j + 2 * h + e];
        x = exp2(__builtin_fmaf(x, scaled, -shift));
        more += x;
      }
      sum[h] += more;
    }
    UNROLL for (int k = 0; k < KEYS / 16; k++) UNROLL for (int e = 0; e < 4; e++) prob[k][e] = N::pair(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]);
    namedBarrierSync(OWN + GROUP, 128);
    UNROLL for (int k = 0; k < KEYS / 16; k++) storeMatrices(put ^ k * 32, prob[k]);
    fenceProxyAsync();
  }
  DEVICE void rescale(const float (&by)[2]) {
    if (allSync(by[0] == 1 && by[1] == 1)) return;
    UNROLL for (int j = 0; j < 128; j++) out[j] *= by[j / 2 % 2];
  }
  DEVICE u64 valuesOf(int tile) const { return opaque(smemDescriptorTrans(at.tile(tile) + GROUP * HALF * PANEL, PANEL)); }
  DEVICE void multiplyOwn() {
    u64 v = valuesOf(GROUP);
    wgmmaFence();
    UNROLL for (int k = 0; k < KEYS / 16; k++) values(N(), out, prob[k], v + k * 2048 / 16);
    wgmmaCommit();
  }
  DEVICE void multiplyOther(int i) {
    UNROLL for (int c = 0; c < HALF; c++) mbarrierWait(at.loaded(OTHER, GROUP * HALF + c), i & 1);
    if (!PAIR) fenceProxyAsync();
    u64 v = valuesOf(OTHER), probs = opaque(smemDescriptor(at.tile(OTHER) + ROPE * PANEL));
    wgmmaFence();
    UNROLL for (int k = 0; k < KEYS / 16; k++) values(N(), out, probs + k * 2, v + k * 2048 / 16);
    wgmmaCommit();
  }

  // first is warpgroup 0. It starts the scores of the next pair behind the last product of this one, so that the tensor cores have work while the other
  // warpgroup makes its softmax; behind the last pair it starts them once too often, of what is there, rather than branch while products are in flight.
  DEVICE void first(int pairs, int keys) {
    multiplyKeys(0, 0, pairs > 0);
    multiplyKeys(0, 1, pairs > 0);
    wgmmaWait<0>();
    settle(sc);
    for (int i = 0; i < pairs; i++) {
      mask(keys - 2 * i * KEYS);
      float scale[2];
      UNROLL for (int h = 0; h < 2; h++) {
        scale[h] = raise(h, rowMax[h], largest(h)), sum[h] *= scale[h];
        warpBarrier(); // all lanes have read what was there
        if (t == 0) at.rowMax[line + 8 * h] = rowMax[h], at.scale0[line + 8 * h] = scale[h];
      }
      makeP();
      namedBarrierArrive(P0_READY, 256);
      rescale(scale);
      multiplyOwn();
      wgmmaWait<0>();
      settle(out);
      at.release<PAIR>(0, 0);
      namedBarrierSync(P1_READY, 256);
      UNROLL for (int h = 0; h < 2; h++) scale[h] = at.scale1[line + 8 * h], rowMax[h] = at.rowMax[line + 8 * h], sum[h] *= scale[h];
      rescale(scale);
      multiplyOther(i);
      bool more = i + 1 < pairs;
      multiplyKeys(i + 1, 0, more);
      wgmmaWait<1>();
      at.release<PAIR>(1, 0);
      multiplyKeys(i + 1, 1, more);
      wgmmaWait<0>();
      settle(out);
      settle(sc);
    }
  }
  // second is warpgroup 1. Its softmax is beside the product of its values with the probabilities of the first tile, so that this tile is released early.
  DEVICE void second(int pairs, int keys) {
    for (int i = 0; i < pairs; i++) {
      multiplyKeys(i, 1, true);
      multiplyKeys(i, 0, true);
      namedBarrierSync(P0_READY, 256);
      float scale[2], before[2];
      UNROLL for (int h = 0; h < 2; h++) before[h] = at.rowMax[line + 8 * h], scale[h] = at.scale0[line + 8 * h], sum[h] *= scale[h];
      wgmmaWait<0>();
      settle(sc);
      rescale(scale);
      multiplyOther(i);
      mask(keys - (2 * i + 1) * KEYS);
      UNROLL for (int h = 0; h < 2; h++) scale[h] = raise(h, before[h], largest(h)), sum[h] *= scale[h];
      warpBarrier();
      if (t == 0) UNROLL for (int h = 0; h < 2; h++) at.rowMax[line + 8 * h] = rowMax[h], at.scale1[line + 8 * h] = scale[h];
      makeP();
      namedBarrierArrive(P1_READY, 256);
      wgmmaWait<0>();
      settle(out);
      at.release<PAIR>(0, 1);
      rescale(scale);
      multiplyOwn();
      wgmmaWait<0>();
      settle(out);
      at.release<PAIR>(1, 1);
    }
  }

  DEVICE void store(int row, int head0, int split) {
    UNROLL for (int h = 0; h < 2; h++) {
      sum[h] += shuffleXor(sum[h], 1);
      sum[h] += shuffleXor(sum[h], 2);
      if (t == 0) at.sums[GROUP * HEADS + line + 8 * h] = sum[h];
    }
    namedBarrierSync(ALL, 256);
    int blocks = ceilDiv(p.heads, HEADS);
    UNROLL for (int h = 0; h < 2; h++) {
      int in = line + 8 * h, head = head0 + in;
      if (head >= p.heads) continue;
      float all = at.sums[in] + at.sums[HEADS + in];
      if (p.splits == 1) {
        float f = reciprocal(all);
        u32* y = (u32*)(p.y + ((long)row * p.heads + head) * V + GROUP * V / 2) + t;
        UNROLL for (int j = 0; j < 32; j++) y[4 * j] = pack(out[4 * j + 2 * h] * f, out[4 * j + 2 * h + 1] * f);
        continue;
      }
      float* part = p.partial + ((((long)row * blocks + head0 / HEADS) * p.splits + split) * HEADS + in) * (V + 2);
      UNROLL for (int j = 0; j < 32; j++) {
        int d = GROUP * V / 2 + 8 * j + 2 * t;
        part[d] = out[4 * j + 2 * h], part[d + 1] = out[4 * j + 2 * h + 1];
      }
      if (GROUP == 0 && t == 0) part[V] = at.rowMax[in] * scaled, part[V + 1] = all;
    }
  }
};

// startQueries begins to load the queries of the block's heads into shared memory, zeros where there is no head; finishQueries waits for them.
DEVICE void startQueries(const LatentParams& p, u32 to, int row, int head0) {
  int chunk = threadX() % 8;
  for (int head = threadX() / 8; head < HEADS; head += 32) {
    bool is = head0 + head < p.heads;
    const bf16* from = p.q + ((long)row * p.heads + (is ? head0 + head : 0)) * K + chunk * 8;
    UNROLL for (int c = 0; c < PANELS; c++) cpAsync16(to + c * PANEL + swizzled(head, chunk), from + c * 64, is);
  }
  cpAsyncCommit();
}
template <typename N> DEVICE void finishQueries(u32 at) {
  cpAsyncWait<0>();
  if (N::CONVERTS) { // what the thread has loaded itself
    int chunk = threadX() % 8;
    for (int head = threadX() / 8; head < HEADS; head += 32) UNROLL for (int c = 0; c < PANELS; c++) {
      u32 place = at + c * PANEL + swizzled(head, chunk);
      Vec16 x;
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3]) : "r"(place) : "memory");
      UNROLL for (int e = 0; e < 4; e++) x.x[e] = N::query(x.x[e]);
      store16(place, x);
    }
  }
  fenceProxyAsync();
  namedBarrierSync(ALL, 256);
}

template <typename N, typename C, bool PAIR = false> DEVICE void attend(const LatentParams& p, const TensorMap* map = nullptr, int boxLines = 0) {
  SHARED static u64 barriers[2 * PANELS + 4];
  SHARED static float rows[5][HEADS];
  Shared at;
  at.q = (sharedAddress(dynamic) + 1023) & ~1023u, at.k = at.q + PANELS * PANEL, at.full = sharedAddress(barriers), at.empty = at.full + 8 * 2 * PANELS;
  at.rowMax = rows[0], at.scale0 = rows[1], at.scale1 = rows[2], at.sums = rows[3];
  if (threadX() == 0) {
    for (int i = 0; i < 2 * PANELS; i++) mbarrierInit(at.full + 8 * i, 64);
    for (int i = 0; i < 4; i++) mbarrierInit(at.empty + 8 * i, PAIR ? 8 : 4);
    mbarrierInitFence();
  }
  if (threadX() < HEADS) at.rowMax[threadX()] = MASK_VALUE;
  if (PAIR) clusterBarrier();
  else barrier();
  launchDependentsAndWait();
  // Blocks of heads of a row run side by side and share its keys in the L2 cache; the last rows of a prompt, which see the most keys, go first.
  int blocks = ceilDiv(p.heads, HEADS), r = gridX() / blocks - 1 - blockX() / blocks, head0 = blockX() % blocks * HEADS, group = uniform(warp()) / 4;
  if (group < 2) startQueries(p, at.q, r, head0); // on their way while the row is looked up
  LatentRow row(p, r, blockY(), 2 * KEYS);
  if (row.skipped()) return cpAsyncWait<0>();
  constexpr int LOADER_REGISTERS = sizeof(C) == 1 ? 104 : PAIR ? 72 : 56, CONSUMER_REGISTERS = sizeof(C) == 1 ? 200 : PAIR ? 216 : 224;
  int keys = maxi(row.end - row.first, 0), pairs = ceilDiv(keys, 2 * KEYS);
  if (group == 2) {
    setmaxnregDec<LOADER_REGISTERS>();
    if constexpr (sizeof(C) == 1) widenKeys<C>(p, at, row, pairs);
    else loadKeys<PAIR>(p, map, boxLines, at, row, pairs);
  } else if (group == 0) {
    setmaxnregInc<CONSUMER_REGISTERS>();
    finishQueries<N>(at.q);
    Consumer<N, 0, PAIR> consumer(p, at);
    consumer.first(pairs, keys);
    consumer.store(r, head0, blockY());
  } else {
    setmaxnregInc<CONSUMER_REGISTERS>();
    finishQueries<N>(at.q);
    Consumer<N, 1, PAIR> consumer(p, at);
    consumer.second(pairs, keys);
    consumer.store(r, head0, blockY());
  }
  if (PAIR) clusterBarrierUnaligned(); // the other block may still arrive at this block's mbarriers
}
KERNEL(384, 1) latent_wide_bf16(PARAM LatentParams p) { attend<Bf16, bf16>(p); }
KERNEL(384, 1) latent_wide_f16(PARAM LatentParams p) { attend<Half, f16>(p); }
KERNEL(384, 1) latent_pair_bf16(PARAM LatentPairParams p) { attend<Bf16, bf16, true>(p.latent, &p.keys, p.lines); }
KERNEL(384, 1) latent_pair_f16(PARAM LatentPairParams p) { attend<Half, f16, true>(p.latent, &p.keys, p.lines); }
KERNEL(384, 1) latent_wide_f8(PARAM LatentParams p) { attend<Half, f8>(p); }
KERNEL(384, 1) latent_wide_i8(PARAM LatentParams p) { attend<Bf16, i8>(p); }
#endif
