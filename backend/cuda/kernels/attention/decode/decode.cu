// Attention of one new token a sequence over the paged cache, at memory speed. A block takes one sequence, the (up to 8) query
// heads that share a key head, and one of `splits` parts of the keys; its four warps take 16 keys in turn. The parts of a
// sequence meet in scratch memory, where the last block to finish adds them up, always in the same order.
//
// Scores are computed transposed, S' = K Q', and so is the result, O' = V' P': then K and V are the A operand of mma, which
// every lane loads from global memory straight into registers, 16 bytes at a time, with no shared memory between. (The
// order of d within a product does not matter as long as Q is permuted as K is.)
#include "../../gemm/w8a8/mma_8bit.h"
#include "eightbit.h"
#include "meet.h"

constexpr int STEP = 16;       // keys that a warp takes at a time
constexpr int EVEN_KEYS = 512; // the least that a part of a long sequence has for evenness; decode.go says the same

// Cut is how a sequence's keys are cut into parts, in steps of STEP keys.
struct Cut {
  int first;        // the first key that the query sees
  int step0, steps; // the first step, and how many there are
  int each;         // steps of a part
  int active;       // parts that there are

  // As many parts as fill the GPU, or, of long sequences, as many as keep all multiprocessors busy to the end.
  // A few hundred keys are one part: adding parts up takes longer than reading another three times 64.
  DEVICE Cut(const DecodeParams& p, int length) {
    first = p.window > 0 ? maxi(0, length - p.window) : 0;
    step0 = first / STEP, steps = ceilDiv(length, STEP) - step0;
    each = maxi(ceilDiv(steps, maxi(p.fill, mini(steps * STEP / EVEN_KEYS, p.splits))), (steps <= 5 * WARPS ? 5 : 2) * WARPS);
    active = ceilDiv(steps, each);
  }
  // The steps of the block's part.
  DEVICE int begin() const { return step0 + blockX() * each; }
  DEVICE int end() const { return mini(step0 + (blockX() + 1) * each, step0 + steps); }
};

// Sums is what a warp has found so far. A lane has two query heads, 2t and 2t + 1; of a step's four scores number i is head i % 2's.
template <typename S> struct Sums {
  float out[S::TILES][4] = {};
  float top[2] = {-1e29f, -1e29f}, sum[2] = {0, 0}; // the largest score, nearly, and the sum of weights
  float unit[2], shift[2]; // a score's weight is 2^(score × unit - shift)
  float slack[2]; // how far a score may be above top. Weights of up to 16 do no harm, and sums and results are seldom scaled

  DEVICE Sums(const DecodeParams& p, const typename S::Query& q) {
    UNROLL for (int i = 0; i < 2; i++) {
      unit[i] = LOG2E * (p.softcap == 0 ? p.scale * S::unit(q, i) : 1);
      slack[i] = 4 * reciprocal(unit[i]), shift[i] = top[i] * unit[i];
    }
  }
  // add adds the values of a step, weighed by its scores.
  DEVICE void add(S& x, const float (&score)[4]) {
    float now[2] = {-1e30f, -1e30f}, w[4];
    UNROLL for (int i = 0; i < 4; i++) now[i & 1] = maxf(now[i & 1], score[i]);
    if (anySync(now[0] > top[0] + slack[0] || now[1] > top[1] + slack[1])) raise(now);
    UNROLL for (int i = 0; i < 4; i++) {
      w[i] = exp2(__builtin_fmaf(score[i], unit[i & 1], -shift[i & 1]));
      sum[i & 1] += w[i];
      w[i] *= x.valueUnit(i / 2);
    }
    x.add(out, transpose8(S::pair(w[0], w[1])), transpose8(S::pair(w[2], w[3])));
  }
  // raise brings top to the largest score of all lanes, and what was summed up to its unit.
  DEVICE void raise(float (&now)[2]) {
    UNROLL for (int i = 0; i < 2; i++) {
      UNROLL for (int m = 4; m <= 16; m *= 2) now[i] = maxf(now[i], shuffleXor(now[i], m));
      now[i] = maxf(now[i], top[i]);
      float shrink = exp2((top[i] - now[i]) * unit[i]);
      top[i] = now[i], shift[i] = top[i] * unit[i];
      sum[i] *= shrink;
      UNROLL for (int j = 0; j < S::TILES; j++) out[j][i] *= shrink, out[j][i + 2] *= shrink;
    }
  }
};

// TURN: the launch turns queries and keys and stores the step's own keys and values in the cache too; NORM: it normalises their heads
// before that. All other keys and values are there before the step begins, so they are fetched before the kernel ahead of this one has ended.
template <typename S, bool TURN, bool NORM = false> DEVICE void decode(const DecodeParams& p) {
  SHARED static Warps<S::WIDTH> warps;
  SHARED static Parts parts;
  launchDependents();
  const Step& s = p.step;
  int share = p.heads / p.kvHeads, blocksPerKV = ceilDiv(share, HEADS);
  int kv = blockY() / blocksPerKV, head0 = kv * share + blockY() % blocksPerKV * HEADS;
  int heads = mini(HEADS, (kv + 1) * share - head0), seq = blockZ(), g = lane() / 4, t = lane() % 4;
  // The step's data came before any kernel of the step, so it needs no wait.
  int row = s.qStart[seq], next = s.qStart[seq + 1], length = s.kvLen[seq];
  if (seq >= s.counts[COUNT_SEQS] || next - row != 1) return; // no sequence, or prefill's work
  const Cut cut(p, length);
  if (blockX() >= cut.active) return;
  int end = cut.end();

  const int* pages = s.pages + (long)seq * s.seqPages;
  int at = cut.begin() + warp(), page = 0; // page: that of the keys to load next
  auto findPage = [&](int step) {
    if (step < end) page = pages[step * STEP >> s.pageShift];
  };
  findPage(at);
  Pages<typename S::Number> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  typename S::Query q;
  S x = {};
  const Places<typename S::Number> places = S::places(cache, kv);
  auto loadKeys = [&](int step) { x.loadKeys(places, page, step * STEP, p.kSize); };
  auto loadValues = [&](int step) {
    x.loadValues(places, page, step * STEP, p.vSize);
    findPage(step + WARPS);
  };
  const bf16* query = p.q + ((long)row * p.heads + head0 + g) * p.kSize;
  int lastStep = (length - 1) / STEP;
  bool owner = lastStep < end && lastStep >= at && (lastStep - at) % WARPS == 0; // of the step's own token
  typename S::Fresh fresh;
  if constexpr (TURN) {
    int lastPage = owner ? pages[(length - 1) >> s.pageShift] : 0;
    if (at < end) loadKeys(at), loadValues(at);
    auto norms = [&] {
      if constexpr (NORM) return typename S::Norms{p.queryNorm, p.keyNorm};
      else return 0;
    }();
    gridDependencyWait();
    S::loadRaw(q, query, g < heads, p.kSize);
    typename S::Turn turn(p.angles + (long)row * p.kSize, p.adjacent);
    if (owner) {
      fresh.load(p.newKeys + ((long)row * p.kvHeads + kv) * p.kSize, p.newValues + ((long)row * p.kvHeads + kv) * p.vSize, p.kSize, p.vSize);
      if constexpr (NORM) norms.keys(fresh.k, p.eps);
      turn(fresh.k, p.adjacent);
      S::finish(fresh.k);
      if (blockY() % blocksPerKV == 0) fresh.store(cache.key(lastPage, length - 1, kv), cache.value(lastPage, length - 1, kv), p.kSize, p.vSize);
    }
    if constexpr (NORM) norms.queries(q, p.eps);
    turn(q, p.adjacent);
    S::finish(q);
  } else {
    gridDependencyWait();
    S::loadQuery(q, query, g < heads, p.kSize);
    if (at < end) loadKeys(at), loadValues(at);
  }
  Sums<S> sums(p, q);
  for (; at < end; at += WARPS) {
    bool more = at + WARPS < end;
    if constexpr (TURN) {
      if (owner && at == lastStep) x.put(fresh, (length - 1) % STEP);
    }
    typename S::Scores raw = {};
    UNROLL for (int i = 0; i < S::PRODUCTS; i++) x.score(raw, q, i);
    float score[4];
    UNROLL for (int i = 0; i < 4; i++) score[i] = x.scoreOf(raw, i);
    if (more) loadKeys(at + WARPS);
    if (p.softcap != 0) {
      UNROLL for (int i = 0; i < 4; i++) score[i] = p.softcap * tanhf(score[i] * (p.scale * S::unit(q, i & 1) / p.softcap));
    }
    if (at * STEP < cut.first || (at + 1) * STEP > length) {
      UNROLL for (int i = 0; i < 4; i++) {
        int token = at * STEP + g + (i / 2) * 8;
        if (token < cut.first || token >= length) score[i] = -__builtin_inff();
      }
      x.keep(length - at * STEP);
    }
    sums.add(x, score);
    if (more) loadValues(at + WARPS);
  }

  // The warps meet: each writes its part, then all threads add up their numbers over the warps.
  UNROLL for (int i = 0; i < 2; i++) {
    UNROLL for (int m = 4; m <= 16; m *= 2) sums.sum[i] += shuffleXor(sums.sum[i], m);
    if (g == 0) warps.top[warp()][t * 2 + i] = sums.shift[i], warps.sum[warp()][t * 2 + i] = sums.sum[i];
  }
  UNROLL for (int j = 0; j < S::TILES; j++) UNROLL for (int i = 0; i < 4; i++) {
    int d = S::place(j, i);
    if (d < S::WIDTH) warps.out[warp()][t * 2 + (i & 1)][d] = sums.out[j][i] * UNIT<typename S::Number>;
  }
  barrier();
  Share mine = {row, head0, heads, seq * gridY() + blockY(), cut.active};
  addWarps(p, mine, warps);
  if (cut.active > 1 && last(p, mine)) addParts(p, mine, parts);
}
// KERNELS makes the four sizes of a type: heads of up to 64, 96, 128 and 256. So many blocks are on a multiprocessor; decode.go knows.
#define KERNELS(type, blocks, S64, S96, S128, S256)                                    \
  KERNEL(128, blocks) decode64_##type(PARAM DecodeParams p) { decode<S64, false>(p); }  \
  KERNEL(128, blocks) decode96_##type(PARAM DecodeParams p) { decode<S96, false>(p); }  \
  KERNEL(128, blocks) decode128_##type(PARAM DecodeParams p) { decode<S128, false>(p); } \
  KERNEL(128, 2) decode256_##type(PARAM DecodeParams p) { decode<S256, false>(p); }
#define SHAPE(...) __VA_ARGS__
KERNELS(bf16, 3, SHAPE(Halves<bf16, 2, 1>), SHAPE(Halves<bf16, 3, 2>), SHAPE(Halves<bf16, 4, 2>), SHAPE(Halves<bf16, 8, 4>))
KERNELS(f16, 3, SHAPE(Halves<f16, 2, 1>), SHAPE(Halves<f16, 3, 2>), SHAPE(Halves<f16, 4, 2>), SHAPE(Halves<f16, 8, 4>))
KERNELS(i8, 4, SHAPE(Bytes<i8, 1, 1, 2>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 4, 2, 4>))
KERNELS(f8, 4, SHAPE(Bytes<f8, 1, 1, 2>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 4, 2, 4>))
#if __CUDA_ARCH__ >= 900 // where launches overlap
KERNEL(128, 2) decode64_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 2, 1>, true>(p); }
KERNEL(128, 2) decode64_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 2, 1>, true>(p); }
KERNEL(128, 2) decode128_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 4, 2>, true>(p); }
KERNEL(128, 2) decode128_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 4, 2>, true>(p); }
KERNEL(128, 2) decode64_turn_norm_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 2, 1>, true, true>(p); }
KERNEL(128, 2) decode64_turn_norm_f16(PARAM DecodeParams p) { decode<Halves<f16, 2, 1>, true, true>(p); }
KERNEL(128, 2) decode128_turn_norm_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 4, 2>, true, true>(p); }
KERNEL(128, 2) decode128_turn_norm_f16(PARAM DecodeParams p) { decode<Halves<f16, 4, 2>, true, true>(p); }
#endif
