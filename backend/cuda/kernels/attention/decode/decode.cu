// Flash-decoding: attention of one new token a sequence over the paged KV cache, split-KV, at memory speed. A block takes one sequence, the (up to 8)
// query heads that share a key head (GQA), and one of `splits` parts of the keys; each of its four warps takes every fourth group of 16 keys. The
// partial results of a sequence are combined by the last block to finish, always in the same order (split_kv_combine.h).
//
// Scores are computed transposed, S' = K Q', and so is the result, O' = V' P': then K and V are the A operand of mma, which
// every lane loads from global memory straight into registers, 16 bytes at a time, with no shared memory between. (The
// order of d within an mma does not matter as long as Q is permuted as K is.)
#include "../../gemm/w8a8/mma_8bit.h"
#include "kv8.h"
#include "online_softmax.h"

constexpr int STEP = 16;       // keys that a warp takes at a time
constexpr int EVEN_KEYS = 512; // the least keys of a split of a long sequence that is split for load balance; decode.go says the same

// KVSplit is how a sequence's keys are split over blocks, in steps of STEP keys.
struct KVSplit {
  int first;        // the first key that the query attends to
  int step0, steps; // the first step, and how many there are
  int each;         // steps of a split
  int active;       // splits that there are

  // As many splits as fill the GPU, or, of long sequences, as many as keep all multiprocessors busy to the end.
  // A few hundred keys are one split: the combine takes longer than reading another three times 64.
  DEVICE KVSplit(const DecodeParams& p, int length) {
    first = p.window > 0 ? maxi(0, length - p.window) : 0;
    if (p.window < 0) first = (length - 1) - (length - 1) % -p.window;
    step0 = first / STEP, steps = ceilDiv(length, STEP) - step0;
    each = maxi(ceilDiv(steps, maxi(p.fill, mini(steps * STEP / EVEN_KEYS, p.splits))), (steps <= 5 * WARPS ? 5 : 2) * WARPS);
    active = ceilDiv(steps, each);
  }
  // The steps of the block's split.
  DEVICE int begin() const { return step0 + blockX() * each; }
  DEVICE int end() const { return mini(step0 + (blockX() + 1) * each, step0 + steps); }
};

// ROPE: rope of queries and keys, and the KV cache write of the step's own keys and values, are fused in; NORM: and RMSNorm of their heads
// before that. All other keys and values are there before the step begins, so they are loaded before the previous kernel has ended.
template <typename S, bool ROPE, bool NORM = false> DEVICE void decode(const DecodeParams& p) {
  SHARED static WarpPartials<S::WIDTH> warps;
  SHARED static SplitPartials parts;
  launchDependents();
  const Step& s = p.step;
  int share = p.heads / p.kvHeads, blocksPerKV = ceilDiv(share, HEADS);
  int kv = blockY() / blocksPerKV, head0 = kv * share + blockY() % blocksPerKV * HEADS;
  int heads = mini(HEADS, (kv + 1) * share - head0), seq = blockZ(), g = lane() / 4;
  // The step's data is uploaded before any kernel of the step, so it needs no wait.
  int row = s.qStart[seq], next = s.qStart[seq + 1], length = s.kvLen[seq];
  if (seq >= s.counts[COUNT_SEQS] || next - row != 1) return; // no sequence, or prefill's work
  const KVSplit split(p, length);
  if (blockX() >= split.active) return;
  int end = split.end();

  const int* pages = s.pages + (long)seq * s.seqPages;
  int at = split.begin() + warp(), page = 0; // page: that of the keys to load next
  auto findPage = [&](int step) {
    if (step < end) page = pages[step * STEP >> s.pageShift];
  };
  findPage(at);
  Pages<typename S::Number> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  typename S::Query q;
  S x = {};
  const KVAddresses<typename S::Number> places = S::places(cache, kv);
  auto loadKeys = [&](int step) { x.loadKeys(places, page, step * STEP, p.kSize); };
  auto loadValues = [&](int step) {
    x.loadValues(places, page, step * STEP, p.vSize);
    findPage(step + WARPS);
  };
  const bf16* query = p.q + ((long)row * p.heads + head0 + g) * p.kSize;
  int lastStep = (length - 1) / STEP;
  bool owner = lastStep < end && lastStep >= at && (lastStep - at) % WARPS == 0; // of the step's own token
  typename S::NewToken fresh;
  if constexpr (ROPE) {
    int lastPage = owner ? pages[(length - 1) >> s.pageShift] : 0;
    if (at < end) loadKeys(at), loadValues(at);
    auto norms = [&] {
      if constexpr (NORM) return typename S::Norms{p.queryNorm, p.keyNorm};
      else return 0;
    }();
    gridDependencyWait();
    S::loadRaw(q, query, g < heads, p.kSize);
    typename S::Rope rope(p.angles + (long)row * p.kSize, p.adjacent);
    if (owner) {
      fresh.load(p.newKeys + ((long)row * p.kvHeads + kv) * p.kSize, p.newValues + ((long)row * p.kvHeads + kv) * p.vSize, p.kSize, p.vSize);
      if constexpr (NORM) norms.keys(fresh.k, p.eps);
      rope(fresh.k, p.adjacent);
      S::finish(fresh.k);
      if (blockY() % blocksPerKV == 0) fresh.store(cache.key(lastPage, length - 1, kv), cache.value(lastPage, length - 1, kv), p.kSize, p.vSize);
    }
    if constexpr (NORM) norms.queries(q, p.eps);
    rope(q, p.adjacent);
    S::finish(q);
  } else {
    gridDependencyWait();
    S::loadQuery(q, query, g < heads, p.kSize);
    if (at < end) loadKeys(at), loadValues(at);
  }
  OnlineSoftmax<S> sums(p, q);
  for (; at < end; at += WARPS) {
    bool more = at + WARPS < end;
    if constexpr (ROPE) {
      if (owner && at == lastStep) x.insert(fresh, (length - 1) % STEP);
    }
    typename S::Scores raw = {};
    UNROLL for (int i = 0; i < S::PRODUCTS; i++) x.score(raw, q, i);
    float score[4];
    UNROLL for (int i = 0; i < 4; i++) score[i] = x.scoreOf(raw, i);
    if (more) loadKeys(at + WARPS);
    if (p.softcap != 0) {
      UNROLL for (int i = 0; i < 4; i++) score[i] = p.softcap * tanhf(score[i] * (p.scale * S::unit(q, i & 1) / p.softcap));
    }
    if (at * STEP < split.first || (at + 1) * STEP > length) {
      UNROLL for (int i = 0; i < 4; i++) {
        int token = at * STEP + g + (i / 2) * 8;
        if (token < split.first || token >= length) score[i] = -__builtin_inff();
      }
      x.clearBehind(length - at * STEP);
    }
    sums.add(x, score);
    if (more) loadValues(at + WARPS);
  }

  sums.store(warps, warp()); // then all threads combine the warps' partial results
  barrier();
  BlockWork mine = {row, head0, heads, seq * gridY() + blockY(), split.active};
  combineWarps(p, mine, warps);
  if (split.active > 1 && isLastSplit(p, mine)) combineSplits(p, mine, parts);
}
// KERNELS makes the four sizes of a type: heads of up to 64, 96, 128 and 256. So many blocks are on a multiprocessor; decode.go knows.
#define KERNELS(type, blocks, S64, S96, S128, S256)                                    \
  KERNEL(128, blocks) decode64_##type(PARAM DecodeParams p) { decode<S64, false>(p); }  \
  KERNEL(128, blocks) decode96_##type(PARAM DecodeParams p) { decode<S96, false>(p); }  \
  KERNEL(128, blocks) decode128_##type(PARAM DecodeParams p) { decode<S128, false>(p); } \
  KERNEL(128, 2) decode256_##type(PARAM DecodeParams p) { decode<S256, false>(p); }
#define SHAPE(...) __VA_ARGS__
KERNELS(bf16, 3, SHAPE(KV16<bf16, 2, 1>), SHAPE(KV16<bf16, 3, 2>), SHAPE(KV16<bf16, 4, 2>), SHAPE(KV16<bf16, 8, 4>))
KERNELS(f16, 3, SHAPE(KV16<f16, 2, 1>), SHAPE(KV16<f16, 3, 2>), SHAPE(KV16<f16, 4, 2>), SHAPE(KV16<f16, 8, 4>))
KERNELS(i8, 4, SHAPE(KV8<i8, 1, 1, 2>), SHAPE(KV8<i8, 2, 1, 4>), SHAPE(KV8<i8, 2, 1, 4>), SHAPE(KV8<i8, 4, 2, 4>))
KERNELS(f8, 4, SHAPE(KV8<f8, 1, 1, 2>), SHAPE(KV8<f8, 2, 1, 4>), SHAPE(KV8<f8, 2, 1, 4>), SHAPE(KV8<f8, 4, 2, 4>))
#if __CUDA_ARCH__ >= 900 // where launches overlap (programmatic dependent launch)
KERNEL(128, 2) decode64_rope_bf16(PARAM DecodeParams p) { decode<KV16<bf16, 2, 1>, true>(p); }
KERNEL(128, 2) decode64_rope_f16(PARAM DecodeParams p) { decode<KV16<f16, 2, 1>, true>(p); }
KERNEL(128, 2) decode128_rope_bf16(PARAM DecodeParams p) { decode<KV16<bf16, 4, 2>, true>(p); }
KERNEL(128, 2) decode128_rope_f16(PARAM DecodeParams p) { decode<KV16<f16, 4, 2>, true>(p); }
KERNEL(128, 2) decode64_rope_norm_bf16(PARAM DecodeParams p) { decode<KV16<bf16, 2, 1>, true, true>(p); }
KERNEL(128, 2) decode64_rope_norm_f16(PARAM DecodeParams p) { decode<KV16<f16, 2, 1>, true, true>(p); }
KERNEL(128, 2) decode128_rope_norm_bf16(PARAM DecodeParams p) { decode<KV16<bf16, 4, 2>, true, true>(p); }
KERNEL(128, 2) decode128_rope_norm_f16(PARAM DecodeParams p) { decode<KV16<f16, 4, 2>, true, true>(p); }
#endif
