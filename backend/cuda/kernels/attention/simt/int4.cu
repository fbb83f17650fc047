// The SIMT fallback over a KV cache in four bits: as attention.cu, a warp takes one query head of one row. A row sees the tokens of its own group in the residual
// cache, and those before it in four bits; rows of a token tree are of the group that the tree begins in.
#include "../../kv_int4.h"

struct Int4AttendParams {
  Step step;
  const void* q; // [T, heads × kSize]
  u8 *cache, *newest;
  const int* newestPages; // [S × seqPages]
  void* y; // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  const int* treeLen;   // [S] rows of a sequence's token tree, its last ones, or null; see backend.Batch
  const u64* ancestors; // [T] of rows of trees: those of the tree that the row attends to, a bit each
  int heads, kvHeads, kSize, vSize, window; // window below 0: the length of chunks
  float scale, softcap; // softcap 0: none
  int onlyTrees; // rows of sequences without a token tree are another kernel's
};
constexpr int MAX_SIZE = 576, BLOCK_SIZE = 256; // numbers of a head, and those of its values that a block takes

template <typename T> DEVICE void attend(const Int4AttendParams& p) {
  SHARED static float qs[4][MAX_SIZE];
  launchDependentsAndWait();
  int r = blockX(), h = blockY() * 4 + warp();
  if (r >= p.step.counts[COUNT_TOKENS] || h >= p.heads) return;
  const Step& s = p.step;
  int seq = s.rowSeq[r], last = s.kvLen[seq] - s.qStart[seq + 1] + r; // key index
  int treeLen = p.treeLen ? p.treeLen[seq] : 0, base = s.kvLen[seq] - treeLen, place = last, group = groupOf(last);
  if (p.onlyTrees && treeLen == 0) return;
  u64 tree = 0;
  if (last >= base) {
    tree = p.ancestors[r];
    place = base + __builtin_popcountll(tree) - 1, group = groupOf(base);
  } else {
    base = last + 1;
  }
  int first = p.window > 0 ? maxi(0, place - p.window + 1) : 0;
  if (p.window < 0) first = place - place % -p.window;
  for (int drop = first - base; drop > 0 && tree; drop--) tree &= tree - 1; // ancestors outside of the window
  int kv = h / (p.heads / p.kvHeads), begins = blockZ() * BLOCK_SIZE + lane(); // the lane's first number of the values
  Int4Pages cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  Pages<f16> newest = {p.newest, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  auto pageOf = [&](const int* pages, int token) -> long { return pages[(long)seq * s.seqPages + (token >> s.pageShift)]; };
  float* q = qs[warp()];
  for (int i = lane(); i < p.kSize; i += 32) q[i] = toFloat(((const T*)p.q)[((long)r * p.heads + h) * p.kSize + i]);
  warpBarrier();
  float acc[BLOCK_SIZE / 32] = {}, rowMax = p.sinks ? p.sinks[h] : -1e30f, sum = p.sinks ? 1 : 0;
  for (int p0 = first; p0 <= last; p0 += 32) {
    int pos = p0 + lane();
    float score = -1e30f;
    bool seen = pos <= last && (pos < base || (tree >> (pos - base) & 1));
    if (seen) {
      score = 0;
      if (pos >= group) {
        const f16* k = newest.key(pageOf(p.newestPages, pos), pos, kv);
        for (int i = 0; i < p.kSize; i++) score += q[i] * toFloat(k[i]);
      } else {
        Int4Head k = cache.head(pageOf(s.pages, pos), pos, kv);
        for (int i = 0; i < p.kSize; i++) score += q[i] * k.key(pos % GROUP, i);
      }
      score *= p.scale;
      if (p.softcap != 0) score = p.softcap * tanhf(score / p.softcap);
    }
    float newMax = maxf(rowMax, warpMax(score)), rescale = expf(rowMax - newMax);
    float weight = seen ? expf(score - newMax) : 0;
    rowMax = newMax;
    sum = sum * rescale + warpSum(weight);
    UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++) acc[i] *= rescale;
    for (int j = 0; j < mini(32, last - p0 + 1); j++) {
      float weightJ = shuffleFrom(weight, j);
      if (weightJ == 0) continue; // what is not seen may never have been written
      int token = p0 + j;
      if (token >= group) {
        const f16* v = newest.value(pageOf(p.newestPages, token), token, kv);
        UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
          if (begins + i * 32 < p.vSize) acc[i] += weightJ * toFloat(v[begins + i * 32]);
      } else {
        Int4Head v = cache.head(pageOf(s.pages, token), token, kv);
        UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
          if (begins + i * 32 < p.vSize) acc[i] += weightJ * v.value(token % GROUP, begins + i * 32);
      }
    }
  }
  UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
    if (begins + i * 32 < p.vSize) ((T*)p.y)[((long)r * p.heads + h) * p.vSize + begins + i * 32] = fromFloat<T>(acc[i] / sum);
}
KERNEL(128, 1) attention_f32_i4(PARAM Int4AttendParams p) { attend<float>(p); }
KERNEL(128, 1) attention_bf16_i4(PARAM Int4AttendParams p) { attend<bf16>(p); }
