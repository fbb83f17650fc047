// SIMT fallback attention for any head size and element type: one warp takes one query head of one row and walks its keys 32 at a time,
// a key a lane for the scores and a few numbers a lane for the values; values of more than 256 numbers are shared by the blocks
// along Z, each of which makes the scores anew. It is what odd shapes run on, and the plain version the tensor-core kernels are
// tested against.
#include "../../kv_cache.h"

// Seen is the keys of a row: those from low on, before high, and of those from base on the ones whose bit is set, bit i that of key base + i. See backend.Keys.
struct Seen {
  int low, high, base, pad;
  u64 tree;
};

struct AttendParams {
  Step step;
  const void* q; // [T, heads × kSize]
  u8* cache;
  void* y; // [T, heads × vSize]
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window; // window below 0: the length of chunks
  float scale, softcap; // softcap 0: none
  int bidirectional; // above 0: queries attend to later keys too; above 1: to no more than so many less one either way
  int onlyTrees;     // rows of sequences without a token tree are another kernel's
  const int* treeLen;   // [S] rows of a sequence's token tree, its last ones, or null; see backend.Batch
  const u64* ancestors; // [T] of rows of trees: those of the tree that the row attends to, a bit each
  int latent;           // values are the first numbers of keys, and pages hold keys alone
  int most;             // keys that are chosen of a row
  const float* chosen;  // [T, most] the keys that a row attends to, -1 behind them, or null: all that it sees
  const Seen* seen;     // [T] the keys that a row attends to where the cache has a part of every sequence's, or null: it follows from the step
};
constexpr int MAX_SIZE = 576, BLOCK_SIZE = 256; // numbers of a head, and those of its values that a block takes

// attend writes what a head makes of the values it sees; a PARTIAL one in float32 and, behind the numbers of a head, the logarithm of the sum of the exponentials of its scores, by which it is merged with
// what other devices make of other keys.
template <typename T, typename C, bool PARTIAL = false> DEVICE void attend(const AttendParams& p) {
  SHARED static float qs[4][MAX_SIZE];
  launchDependentsAndWait();
  int r = blockX(), h = blockY() * 4 + warp();
  if (r >= p.step.counts[COUNT_TOKENS] || h >= p.heads) return;
  const Step& s = p.step;
  int seq = s.rowSeq[r], last = p.bidirectional ? s.kvLen[seq] - 1 : s.kvLen[seq] - s.qStart[seq + 1] + r; // key index
  int treeLen = p.treeLen ? p.treeLen[seq] : 0, base = s.kvLen[seq] - treeLen, place = last;
  if (p.onlyTrees && treeLen == 0) return;
  u64 tree = 0;
  if (last >= base) {
    tree = p.ancestors[r];
    place = base + __builtin_popcountll(tree) - 1;
  } else {
    base = last + 1;
  }
  int first = p.window > 0 ? maxi(0, place - p.window + 1) : 0;
  if (p.window < 0) first = place - place % -p.window;
  if (p.bidirectional > 1) {
    int own = s.kvLen[seq] - s.qStart[seq + 1] + r, reach = p.bidirectional - 1;
    first = maxi(0, own - reach), last = mini(last, own + reach);
    base = last + 1;
  }
  for (int drop = first - base; drop > 0 && tree; drop--) tree &= tree - 1; // ancestors outside of the window
  if (p.seen) first = p.seen[r].low, last = p.seen[r].high - 1, base = p.seen[r].base, tree = p.seen[r].tree;
  int kv = h / (p.heads / p.kvHeads), begins = blockZ() * BLOCK_SIZE + lane(); // the lane's first number of the values
  Pages<C> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  float* q = qs[warp()];
  for (int i = lane(); i < p.kSize; i += 32) q[i] = toFloat(((const T*)p.q)[((long)r * p.heads + h) * p.kSize + i]);
  warpBarrier();
  float acc[BLOCK_SIZE / 32] = {}, rowMax = p.sinks ? p.sinks[h] : -1e30f, sum = p.sinks ? 1 : 0;
  const float* chosen = p.chosen ? p.chosen + (long)r * p.most : nullptr;
  if (chosen) first = 0, last = mini(last, p.most - 1), tree = 0; // no row has chosen more keys than it sees
  for (int p0 = first; p0 <= last; p0 += 32) {
    int pos = p0 + lane();
    if (chosen && (pos = pos <= last ? (int)chosen[pos] : -1, !anySync(pos >= 0))) break;
    float score = -1e30f, unit = 1;
    const C* v = (const C*)p.cache;
    bool seen = chosen ? pos >= 0 : pos <= last && (pos < base || (tree >> (pos - base) & 1));
    if (seen) {
      long page = s.pages[(long)seq * s.seqPages + (pos >> s.pageShift)];
      const C* k = cache.key(page, pos, kv);
      v = cache.value(page, pos, kv);
      const u8* keys = p.cache + page * cache.part(p.kSize);
      if (p.latent) k = v = (const C*)keys + (long)cache.in(pos) * p.kSize;
      score = 0;
      for (int i = 0; i < p.kSize; i++) score += q[i] * toFloat(k[i]);
      score *= p.scale;
      if (SCALE_BYTES<C> && p.latent) unit = *cache.scale((u8*)keys, p.kSize, pos, 0), score *= unit;
      else if (SCALE_BYTES<C>) score *= *cache.keyScale(page, pos, kv), unit = *cache.valueScale(page, pos, kv);
      if (p.softcap != 0) score = p.softcap * tanhf(score / p.softcap);
    }
    float newMax = maxf(rowMax, warpMax(score)), rescale = expf(rowMax - newMax);
    float weight = seen ? expf(score - newMax) : 0;
    rowMax = newMax;
    sum = sum * rescale + warpSum(weight);
    weight *= unit;
    UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++) acc[i] *= rescale;
    for (int j = 0; j < mini(32, last - p0 + 1); j++) {
      float weightJ = shuffleFrom(weight, j);
      const C* valueJ = (const C*)shuffleFrom((u64)v, j);
      UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
        if (begins + i * 32 < p.vSize) acc[i] += weightJ * toFloat(valueJ[begins + i * 32]);
    }
  }
  if (PARTIAL) {
    float* y = (float*)p.y + ((long)r * p.heads + h) * (p.vSize + 1);
    UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
      if (begins + i * 32 < p.vSize) y[begins + i * 32] = sum > 0 ? acc[i] / sum : 0;
    if (begins == 0) y[p.vSize] = sum > 0 ? rowMax + 0.6931471805599453f * log2(sum) : __builtin_bit_cast(float, 0xff800000u);
    return;
  }
  UNROLL for (int i = 0; i < BLOCK_SIZE / 32; i++)
    if (begins + i * 32 < p.vSize) ((T*)p.y)[((long)r * p.heads + h) * p.vSize + begins + i * 32] = fromFloat<T>(acc[i] / sum);
}
KERNEL(128, 1) attention_f32_f32(PARAM AttendParams p) { attend<float, float>(p); }
KERNEL(128, 1) attention_f32_f16(PARAM AttendParams p) { attend<float, f16>(p); }
KERNEL(128, 1) attention_f32_bf16(PARAM AttendParams p) { attend<float, bf16>(p); }
KERNEL(128, 1) attention_bf16_f32(PARAM AttendParams p) { attend<bf16, float>(p); }
KERNEL(128, 1) attention_bf16_f16(PARAM AttendParams p) { attend<bf16, f16>(p); }
KERNEL(128, 1) attention_bf16_bf16(PARAM AttendParams p) { attend<bf16, bf16>(p); }
KERNEL(128, 1) attention_f32_i8(PARAM AttendParams p) { attend<float, i8>(p); }
KERNEL(128, 1) attention_f32_f8(PARAM AttendParams p) { attend<float, f8>(p); }
KERNEL(128, 1) attention_bf16_i8(PARAM AttendParams p) { attend<bf16, i8>(p); }
KERNEL(128, 1) attention_bf16_f8(PARAM AttendParams p) { attend<bf16, f8>(p); }
KERNEL(128, 1) partial_f32_f32(PARAM AttendParams p) { attend<float, float, true>(p); }
KERNEL(128, 1) partial_f32_f16(PARAM AttendParams p) { attend<float, f16, true>(p); }
KERNEL(128, 1) partial_f32_bf16(PARAM AttendParams p) { attend<float, bf16, true>(p); }
KERNEL(128, 1) partial_f32_i8(PARAM AttendParams p) { attend<float, i8, true>(p); }
KERNEL(128, 1) partial_f32_f8(PARAM AttendParams p) { attend<float, f8, true>(p); }
KERNEL(128, 1) partial_bf16_f32(PARAM AttendParams p) { attend<bf16, float, true>(p); }
KERNEL(128, 1) partial_bf16_f16(PARAM AttendParams p) { attend<bf16, f16, true>(p); }
KERNEL(128, 1) partial_bf16_bf16(PARAM AttendParams p) { attend<bf16, bf16, true>(p); }
KERNEL(128, 1) partial_bf16_i8(PARAM AttendParams p) { attend<bf16, i8, true>(p); }
KERNEL(128, 1) partial_bf16_f8(PARAM AttendParams p) { attend<bf16, f8, true>(p); }
