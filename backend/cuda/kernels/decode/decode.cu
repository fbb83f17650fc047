// Attention of one new token a sequence over the paged cache, at memory speed. A block takes one sequence, the (up to 8) query
// heads that share a key head, and one of `splits` parts of the keys; its four warps take 16 keys in turn. The parts of a
// sequence meet in scratch memory, where the last block to finish adds them up, always in the same order.
//
// Scores are computed transposed, S' = K Q', and so is the result, O' = V' P': then K and V are the A operand of mma, which
// every lane loads from global memory straight into registers, 16 bytes at a time, with no shared memory between. (The
// order of d within a product does not matter as long as Q is permuted as K is.)
#include "../cuda.h"

struct DecodeParams {
  Step step;
  const bf16* q;  // [T, heads × kSize]
  const u8* cache; // bf16, or IEEE half
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × groups × splits][8 heads][vSize + 2]: unscaled sums, then maximum and weight
  int* arrived;   // [seqs × groups] zeros; how many splits are done
  int heads, kvHeads, kSize, vSize, window;
  int splits, fill; // the most parts a sequence is cut into, and how many of each fill the GPU
  int pad;
  float scale, softcap; // softcap 0: none
};
constexpr int WARPS = 4, STEP = 16, HEADS = 8, MAX_SPLITS = 64;

DEVICE Vec16 loadOnce(const void* p, bool in) {
  Vec16 v = {};
  if (in)
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(p) : "memory");
  return v;
}

// first and second 16-bit halves of two registers, side by side
DEVICE u32 lows(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x5410); }
DEVICE u32 highs(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x7632); }

// KC × 32 and VH × 64 are the head sizes there is room for; HALF: keys and values are IEEE halves.
template <int KC, int VH, bool HALF> DEVICE void decode(const DecodeParams& p) {
  constexpr int TILES = (VH + 1) / 2 * 8;
  SHARED static float out[WARPS][HEADS][VH * 64];
  SHARED static float tops[WARPS][HEADS], sums[WARPS][HEADS];
  SHARED static float weight[HEADS][MAX_SPLITS], weighed[HEADS][MAX_SPLITS];
  SHARED static int last;
  releaseNext();
  const Step& s = p.step;
  int share = p.heads / p.kvHeads, blocksPerKV = ceilDiv(share, HEADS);
  int kv = blockY() / blocksPerKV, head0 = kv * share + blockY() % blocksPerKV * HEADS;
  int heads = mini(HEADS, (kv + 1) * share - head0), seq = blockZ();
  int g = lane() / 4, t = lane() % 4;
  // The step's data came before any kernel of the step, so it needs no wait.
  int row = s.qStart[seq], next = s.qStart[seq + 1], length = s.kvLen[seq];
  if (seq >= s.counts[COUNT_SEQS] || next - row != 1) return; // no sequence, or prefill's work
  int first = p.window > 0 ? maxi(0, length - p.window) : 0;
  int step0 = first / STEP, steps = ceilDiv(length, STEP) - step0;
  // As many splits as fill the GPU, or, of long sequences, parts of 64 steps, which even out between multiprocessors.
  int each = maxi(ceilDiv(steps, maxi(p.fill, mini(steps / 64, p.splits))), 2 * WARPS), active = ceilDiv(steps, each);
  if (blockX() >= active) return;
  int end = mini(step0 + (blockX() + 1) * each, step0 + steps);

  const int* pages = s.pages + (long)seq * s.seqPages;
  auto pageOf = [&](int step) { return pages[(step * STEP) >> s.pageShift]; };
  int at = step0 + blockX() * each + warp(), page = at < end ? pageOf(at) : 0, nextPage = 0;
  awaitInput();
  Vec16 q[KC];
  UNROLL for (int c = 0; c < KC; c++) {
    int d = c * 32 + t * 8;
    q[c] = loadOnce(p.q + ((long)row * p.heads + head0 + g) * p.kSize + d, g < heads && d < p.kSize);
    if (HALF) q[c] = asHalf(q[c]);
  }
  auto multiply = [](float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) __attribute__((always_inline)) {
    if (HALF) mmaHalf(d, a0, a1, a2, a3, b0, b1);
    else mma(d, a0, a1, a2, a3, b0, b1);
  };
  int kLen = p.kvHeads * p.kSize, vLen = p.kvHeads * p.vSize;
  auto keys = [&](int page, int token) { // where a token's key of this head lies; its value is at the same place of the values
    return (const bf16*)p.cache + ((long)page << s.pageShift) * (kLen + vLen) + (token & ((1 << s.pageShift) - 1)) * kLen + kv * p.kSize;
  };
  auto values = [&](int page, int token) {
    return (const bf16*)p.cache + ((long)page << s.pageShift) * (kLen + vLen) + ((long)kLen << s.pageShift) +
           (token & ((1 << s.pageShift) - 1)) * vLen + kv * p.vSize;
  };

  float o[TILES][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  Vec16 k[KC][2], v[4][VH];
  auto loadKeys = [&](int page, int token0) {
    const bf16* base = keys(page, token0) + g * kLen + t * 8;
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++)
      k[c][half] = loadOnce(base + half * 8 * kLen + c * 32, c * 32 + t * 8 < p.kSize && token0 + g + half * 8 < length);
  };
  auto loadValues = [&](int page, int token0) {
    const bf16* base = values(page, token0) + g * 8;
    UNROLL for (int i = 0; i < 4; i++) {
      int token = t * 2 + (i & 1) + (i / 2) * 8;
      UNROLL for (int h = 0; h < VH; h++)
        v[i][h] = loadOnce(base + token * vLen + h * 64, h * 64 + g * 8 < p.vSize && token0 + token < length);
    }
  };
  if (at < end) {
    loadKeys(page, at * STEP);
    loadValues(page, at * STEP);
    if (at + WARPS < end) nextPage = pageOf(at + WARPS);
  }
  for (; at < end; at += WARPS) {
    int token0 = at * STEP;
    bool more = at + WARPS < end;
    float sc[4] = {};
    UNROLL for (int c = 0; c < KC; c++) {
      multiply(sc, k[c][0].x[0], k[c][1].x[0], k[c][0].x[1], k[c][1].x[1], q[c].x[0], q[c].x[1]);
      multiply(sc, k[c][0].x[2], k[c][1].x[2], k[c][0].x[3], k[c][1].x[3], q[c].x[2], q[c].x[3]);
    }
    if (more) loadKeys(nextPage, token0 + WARPS * STEP);
    float now[2] = {top[0], top[1]};
    UNROLL for (int i = 0; i < 4; i++) {
      int token = token0 + g + (i / 2) * 8;
      float x = sc[i] * p.scale;
      if (p.softcap != 0) x = p.softcap * tanhf(x / p.softcap);
      sc[i] = token >= first && token < length ? x * LOG2E : -1e30f;
      now[i & 1] = maxf(now[i & 1], sc[i]);
    }
    UNROLL for (int i = 0; i < 2; i++) {
      UNROLL for (int m = 4; m <= 16; m *= 2) now[i] = maxf(now[i], shuffleXor(now[i], m));
      float shrink = exp2(top[i] - now[i]);
      top[i] = now[i];
      sum[i] *= shrink;
      UNROLL for (int j = 0; j < TILES; j++) o[j][i] *= shrink, o[j][i + 2] *= shrink;
    }
    UNROLL for (int i = 0; i < 4; i++) {
      sc[i] = sc[i] <= -1e30f ? 0 : exp2(sc[i] - top[i & 1]);
      sum[i & 1] += sc[i];
    }
    u32 b0 = transpose8(HALF ? packHalf(sc[0], sc[1]) : pack(sc[0], sc[1])), b1 = transpose8(HALF ? packHalf(sc[2], sc[3]) : pack(sc[2], sc[3]));
    UNROLL for (int j = 0; j < TILES; j++) {
      constexpr Vec16 none = {};
      int h = j / 8 * 2, e = j % 8 / 2;
      const Vec16 &x0 = v[0][h], &x1 = v[1][h], &x2 = v[2][h], &x3 = v[3][h];
      const Vec16 &z0 = h + 1 < VH ? v[0][h + 1 < VH ? h + 1 : 0] : none, &z1 = h + 1 < VH ? v[1][h + 1 < VH ? h + 1 : 0] : none,
                  &z2 = h + 1 < VH ? v[2][h + 1 < VH ? h + 1 : 0] : none, &z3 = h + 1 < VH ? v[3][h + 1 < VH ? h + 1 : 0] : none;
      if (j % 2 == 0)
        multiply(o[j], lows(x0.x[e], x1.x[e]), lows(z0.x[e], z1.x[e]), lows(x2.x[e], x3.x[e]), lows(z2.x[e], z3.x[e]), b0, b1);
      else
        multiply(o[j], highs(x0.x[e], x1.x[e]), highs(z0.x[e], z1.x[e]), highs(x2.x[e], x3.x[e]), highs(z2.x[e], z3.x[e]), b0, b1);
    }
    if (more) {
      loadValues(nextPage, token0 + WARPS * STEP);
      if (at + 2 * WARPS < end) nextPage = pageOf(at + 2 * WARPS);
    }
  }

  // The warps meet: each writes its part, then all threads add up their numbers over the warps.
  UNROLL for (int i = 0; i < 2; i++) {
    UNROLL for (int m = 4; m <= 16; m *= 2) sum[i] += shuffleXor(sum[i], m);
    if (g == 0) tops[warp()][t * 2 + i] = top[i], sums[warp()][t * 2 + i] = sum[i];
  }
  UNROLL for (int j = 0; j < TILES; j++) UNROLL for (int i = 0; i < 4; i++) {
    int h = j / 8 * 2 + i / 2;
    if (h < VH) out[warp()][t * 2 + (i & 1)][h * 64 + g * 8 + j % 8] = o[j][i];
  }
  barrier();
  int group = seq * gridY() + blockY(), width = p.vSize + 2;
  float* mine = p.partial + ((long)group * p.splits + blockX()) * HEADS * width;
  for (int i = threadX(); i < heads * p.vSize; i += WARPS * 32) {
    int h = i / p.vSize, d = i % p.vSize;
    float m = tops[0][h], l = 0, x = 0;
    UNROLL for (int w = 1; w < WARPS; w++) m = maxf(m, tops[w][h]);
    UNROLL for (int w = 0; w < WARPS; w++) {
      float f = exp2(tops[w][h] - m);
      l += sums[w][h] * f;
      x += out[w][h][d] * f;
    }
    if (active == 1) {
      p.y[((long)row * p.heads + head0 + h) * p.vSize + d] = fromFloat<bf16>(x / l);
    } else {
      mine[h * width + d] = x;
      if (d == 0) mine[h * width + p.vSize] = m, mine[h * width + p.vSize + 1] = l;
    }
  }
  if (active == 1) return;

  // The splits meet: the last block to arrive adds all up. The fence orders its reads behind the others' writes.
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  barrier();
  if (threadX() == 0) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + group) : "memory");
    last = before == active - 1;
    if (last) p.arrived[group] = 0;
  }
  barrier();
  if (!last) return;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  const float* all = p.partial + (long)group * p.splits * HEADS * width;
  for (int i = threadX(); i < heads * active; i += WARPS * 32) weight[i / active][i % active] = all[((long)(i % active) * HEADS + i / active) * width + p.vSize];
  barrier();
  if (warp() == 0 && lane() < heads) {
    float m = -1e30f;
    for (int n = 0; n < active; n++) m = maxf(m, weight[lane()][n]);
    sums[0][lane()] = m;
  }
  barrier();
  for (int i = threadX(); i < heads * active; i += WARPS * 32) {
    int h = i / active, n = i % active;
    float f = exp2(weight[h][n] - sums[0][h]);
    weight[h][n] = f;
    weighed[h][n] = f * all[((long)n * HEADS + h) * width + p.vSize + 1];
  }
  barrier();
  if (warp() == 0 && lane() < heads) {
    float l = 0;
    for (int n = 0; n < active; n++) l += weighed[lane()][n];
    tops[0][lane()] = 1 / l;
  }
  barrier();
  for (int i = threadX(); i < heads * p.vSize; i += WARPS * 32) {
    int h = i / p.vSize, d = i % p.vSize;
    const float* one = all + (long)h * width + d;
    float x = 0;
#pragma unroll 16
    for (int n = 0; n < active; n++) x += one[(long)n * HEADS * width] * weight[h][n];
    p.y[((long)row * p.heads + head0 + h) * p.vSize + d] = fromFloat<bf16>(x * tops[0][h]);
  }
}
KERNEL(128, 3) decode64_bf16(PARAM DecodeParams p) { decode<2, 1, false>(p); }
KERNEL(128, 3) decode96_bf16(PARAM DecodeParams p) { decode<3, 2, false>(p); }
KERNEL(128, 3) decode128_bf16(PARAM DecodeParams p) { decode<4, 2, false>(p); }
KERNEL(128, 2) decode256_bf16(PARAM DecodeParams p) { decode<8, 4, false>(p); }
KERNEL(128, 3) decode64_f16(PARAM DecodeParams p) { decode<2, 1, true>(p); }
KERNEL(128, 3) decode96_f16(PARAM DecodeParams p) { decode<3, 2, true>(p); }
KERNEL(128, 3) decode128_f16(PARAM DecodeParams p) { decode<4, 2, true>(p); }
KERNEL(128, 2) decode256_f16(PARAM DecodeParams p) { decode<8, 4, true>(p); }
