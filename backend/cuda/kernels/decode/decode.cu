// Attention of one new token a sequence over the paged cache, at memory speed. A block takes one sequence, the (up to 8) query
// heads that share a key head, and one of `splits` parts of the keys; its four warps take 16 or 32 keys in turn. The parts of a
// sequence meet in scratch memory, where the last block to finish adds them up, always in the same order.
//
// Scores are computed transposed, S' = K Q', and so is the result, O' = V' P': then K and V are the A operand of mma, which
// every lane loads from global memory straight into registers, 16 bytes at a time, with no shared memory between. (The
// order of d within a product does not matter as long as Q is permuted as K is.)
#include "eightbit.h"

struct DecodeParams {
  Step step;
  const bf16* q;  // [T, heads × kSize]
  u8* cache;
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × groups × splits][8 heads][vSize + 4]: unscaled sums, then maximum and weight, and two unused
  int* arrived;   // [seqs × groups] zeros; how many splits are done
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int splits, fill; // the most parts a sequence is cut into, and how many of each fill the GPU
  int pad;
  float scale, softcap; // softcap 0: none
  // Of a launch that turns queries and keys and stores keys and values itself: what is new in this step, not turned yet, in rows
  // like the cache's, and the angles to turn by, [T, kSize / 2 × 2].
  const bf16 *newKeys, *newValues;
  const float* angles;
  int adjacent, pad2; // adjacent: pairs are neighbours, not halves of a head
};
constexpr int WARPS = 4, MAX_SPLITS = 64;

// TURN: the launch turns queries and keys and stores the step's own keys and values in the cache too. All other keys and values are
// there before the step begins, so they are fetched before the kernel ahead of this one has ended.
template <typename S, bool TURN> DEVICE void decode(const DecodeParams& p) {
  constexpr int PARTS = S::PARTS, STEP = 16 * PARTS, TILES = S::TILES;
  SHARED static float out[WARPS][HEADS][S::WIDTH];
  SHARED static float tops[WARPS][HEADS], sums[WARPS][HEADS];
  SHARED static float partTop[HEADS][MAX_SPLITS], partSum[HEADS][MAX_SPLITS], weight[HEADS][MAX_SPLITS]; // of the parts of a sequence
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
  // As many splits as fill the GPU, or, of long sequences, parts of 1,024 keys, which even out between multiprocessors.
  // A few hundred keys are one part: adding parts up takes longer than reading another three times 64.
  int each = maxi(ceilDiv(steps, maxi(p.fill, mini(steps * STEP / 1024, p.splits))), (steps <= 5 * WARPS / PARTS ? 5 : 2) * WARPS / PARTS), active = ceilDiv(steps, each);
  if (blockX() >= active) return;
  int end = mini(step0 + (blockX() + 1) * each, step0 + steps);

  const int* pages = s.pages + (long)seq * s.seqPages;
  int at = step0 + blockX() * each + warp(), page[PARTS]; // the pages of the keys to load next
  auto findPages = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) {
      int token = step * STEP + i * 16;
      page[i] = step < end && token < length ? pages[token >> s.pageShift] : 0;
    }
  };
  findPages(at);
  int cached = TURN ? length - 1 : length; // tokens in the cache
  Pages<typename S::Number> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  typename S::Query q;
  S x[PARTS];
  float o[TILES][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  auto loadKeys = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) x[i].loadKeys(cache, page[i], step * STEP + i * 16, kv, cached);
  };
  auto loadValues = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) x[i].loadValues(cache, page[i], step * STEP + i * 16, kv, cached);
    findPages(step + WARPS);
  };
  const bf16* query = p.q + ((long)row * p.heads + head0 + g) * p.kSize;
  int lastStep = (length - 1) / STEP;
  bool owner = lastStep < end && lastStep >= at && (lastStep - at) % WARPS == 0; // of the step's own token
  typename S::Fresh fresh;
  if constexpr (TURN) {
    int lastPage = owner ? pages[(length - 1) >> s.pageShift] : 0;
    if (at < end) loadKeys(at), loadValues(at);
    awaitInput();
    S::loadRaw(q, query, g < heads, p.kSize);
    typename S::Turn turn(p.angles + (long)row * p.kSize, p.adjacent);
    if (owner) {
      fresh.load(p.newKeys + ((long)row * p.kvHeads + kv) * p.kSize, p.newValues + ((long)row * p.kvHeads + kv) * p.vSize, p.kSize, p.vSize);
      turn(fresh.k, p.adjacent);
      S::finish(fresh.k);
      if (blockY() % blocksPerKV == 0) fresh.store(cache.key(lastPage, length - 1, kv), cache.value(lastPage, length - 1, kv), p.kSize, p.vSize);
    }
    turn(q, p.adjacent);
    S::finish(q);
  } else {
    awaitInput();
    S::loadQuery(q, query, g < heads, p.kSize);
    if (at < end) loadKeys(at), loadValues(at);
  }
  for (; at < end; at += WARPS) {
    bool more = at + WARPS < end;
    if constexpr (TURN) {
      if (owner && at == lastStep) x[0].put(fresh, (length - 1) % STEP);
    }
    float sc[PARTS][4] = {}, now[2] = {top[0], top[1]};
    UNROLL for (int i = 0; i < S::PRODUCTS; i++) UNROLL for (int n = 0; n < PARTS; n++) x[n].score(sc[n], q, i);
    UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) sc[n][i] *= p.scale * x[n].keyUnit(i / 2);
    if (more) loadKeys(at + WARPS);
    if (p.softcap != 0) {
      UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) sc[n][i] = p.softcap * tanhf(sc[n][i] / p.softcap);
    }
    UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) {
      float& score = sc[n][i];
      int token = at * STEP + n * 16 + g + (i / 2) * 8;
      score = token >= first && token < length ? score * LOG2E : -1e30f;
      now[i & 1] = maxf(now[i & 1], score);
    }
    UNROLL for (int m = 4; m <= 16; m *= 2) UNROLL for (int i = 0; i < 2; i++) now[i] = maxf(now[i], shuffleXor(now[i], m));
    UNROLL for (int i = 0; i < 2; i++) {
      float shrink = exp2(top[i] - now[i]);
      top[i] = now[i];
      sum[i] *= shrink;
      UNROLL for (int j = 0; j < TILES; j++) o[j][i] *= shrink, o[j][i + 2] *= shrink;
    }
    UNROLL for (int n = 0; n < PARTS; n++) {
      float w[4];
      UNROLL for (int i = 0; i < 4; i++) {
        w[i] = sc[n][i] <= -1e30f ? 0 : exp2(sc[n][i] - top[i & 1]);
        sum[i & 1] += w[i];
        w[i] *= x[n].valueUnit(i / 2);
      }
      x[n].add(o, transpose8(S::pair(w[0], w[1])), transpose8(S::pair(w[2], w[3])));
    }
    if (more) loadValues(at + WARPS);
  }

  // The warps meet: each writes its part, then all threads add up their numbers over the warps.
  UNROLL for (int i = 0; i < 2; i++) {
    UNROLL for (int m = 4; m <= 16; m *= 2) sum[i] += shuffleXor(sum[i], m);
    if (g == 0) tops[warp()][t * 2 + i] = top[i], sums[warp()][t * 2 + i] = sum[i];
  }
  UNROLL for (int j = 0; j < TILES; j++) UNROLL for (int i = 0; i < 4; i++) {
    int d = S::place(j, i);
    if (d < S::WIDTH) out[warp()][t * 2 + (i & 1)][d] = o[j][i] * UNIT<typename S::Number>;
  }
  barrier();
  int group = seq * gridY() + blockY(), width = p.vSize + 4;
  float* mine = p.partial + ((long)group * p.splits + blockX()) * HEADS * width;
  auto sink = [&](int h) { return p.sinks ? p.sinks[head0 + h] * LOG2E : -1e30f; };
  for (int i = threadX(); i < heads * p.vSize; i += WARPS * 32) {
    int h = i / p.vSize, d = i % p.vSize;
    float alone = active == 1 ? sink(h) : -1e30f, m = alone, l, x = 0; // of several splits, the sink joins their sum
    UNROLL for (int w = 0; w < WARPS; w++) m = maxf(m, tops[w][h]);
    l = alone > -1e30f ? exp2(alone - m) : 0;
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
  for (int i = threadX(); i < heads * active; i += WARPS * 32) {
    int h = i / active, n = i % active;
    const float* part = all + ((long)n * HEADS + h) * width + p.vSize;
    partTop[h][n] = part[0], partSum[h][n] = part[1];
  }
  barrier();
  for (int i = threadX(); i < heads * active; i += WARPS * 32) {
    int h = i / active, n = i % active;
    float m = sink(h);
    for (int e = 0; e < active; e++) m = maxf(m, partTop[h][e]);
    weight[h][n] = exp2(partTop[h][n] - m);
    if (n == 0) sums[0][h] = exp2(sink(h) - m);
  }
  barrier();
  for (int i = threadX() * 4; i < heads * p.vSize; i += WARPS * 32 * 4) {
    int h = i / p.vSize, d = i % p.vSize;
    const float* one = all + (long)h * width + d;
    float l = sums[0][h];
    Numbers x = {};
#pragma unroll 16
    for (int n = 0; n < active; n++) {
      float w = weight[h][n];
      Numbers part = *(const Numbers*)(one + (long)n * HEADS * width);
      l += w * partSum[h][n];
      UNROLL for (int e = 0; e < 4; e++) x.x[e] += w * part.x[e];
    }
    u32* y = (u32*)(p.y + ((long)row * p.heads + head0 + h) * p.vSize + d);
    y[0] = pack(x.x[0] / l, x.x[1] / l), y[1] = pack(x.x[2] / l, x.x[3] / l);
  }
}
// KERNELS makes the four sizes of a type: heads of up to 64, 96, 128 and 256.
#define KERNELS(type, S64, S96, S128, S256)                                       \
  KERNEL(128, 3) decode64_##type(PARAM DecodeParams p) { decode<S64, false>(p); }  \
  KERNEL(128, 3) decode96_##type(PARAM DecodeParams p) { decode<S96, false>(p); }  \
  KERNEL(128, 3) decode128_##type(PARAM DecodeParams p) { decode<S128, false>(p); } \
  KERNEL(128, 2) decode256_##type(PARAM DecodeParams p) { decode<S256, false>(p); }
#define SHAPE(...) __VA_ARGS__
KERNELS(bf16, SHAPE(Halves<bf16, 2, 1>), SHAPE(Halves<bf16, 3, 2>), SHAPE(Halves<bf16, 4, 2>), SHAPE(Halves<bf16, 8, 4>))
KERNELS(f16, SHAPE(Halves<f16, 2, 1>), SHAPE(Halves<f16, 3, 2>), SHAPE(Halves<f16, 4, 2>), SHAPE(Halves<f16, 8, 4>))
KERNELS(i8, SHAPE(Bytes<i8, 1, 1, 2>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 4, 2, 4>))
KERNELS(f8, SHAPE(Bytes<f8, 1, 1, 2>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 4, 2, 4>))
#if __CUDA_ARCH__ >= 900 // where launches overlap
KERNEL(128, 2) decode64_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 2, 1>, true>(p); }
KERNEL(128, 2) decode64_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 2, 1>, true>(p); }
KERNEL(128, 2) decode128_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 4, 2>, true>(p); }
KERNEL(128, 2) decode128_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 4, 2>, true>(p); }
#endif
