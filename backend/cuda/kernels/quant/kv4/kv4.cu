// KV caches in four bits: keys and values go to the residual cache as IEEE halves, after rope if that is fused, and with the last token of a group all of it is
// quantised: keys by channel, values by token. A prompt's pages are dequantised to IEEE halves for the tensor cores of its attention.
#include "../../kv_int4.h"

constexpr int THREADS = 128, MOST = 256; // MOST: numbers of a head

struct StoreParams {
  Step step;
  NewestTokens newest;
  const void *q, *k, *v; // [T, heads × size], [T, kvHeads × size], [T, kvHeads × vSize]
  const float* angles;   // [T, dim/2 × 2]
  void* y;               // [T, heads × size] queries after rope
  u8* cache;
  int heads, kvHeads, size, vSize, dim, adjacent; // heads and dim are 0 without rope
};

DEVICE float minNaN(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEVICE float maxNaN(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }

// Range is a scale and a minimum, both as IEEE halves have them.
struct Range {
  f16 scale, minimum;
  DEVICE Range(float low, float high) : scale((f16)((high - low) / 15)), minimum((f16)low) {}
  DEVICE u32 code(float x) const {
    float q = __builtin_rintf((x - (float)minimum) / (float)scale);
    return q > 0 ? (u32)minf(q, 15) : 0; // 0 if it is NaN
  }
};
template <typename F> DEVICE Range rangeOf(int n, F number) {
  float low = number(0), high = low;
  for (int i = 1; i < n; i++) {
    float x = number(i);
    low = minNaN(low, x), high = maxNaN(high, x);
  }
  return {low, high};
}

// rotated is number e of a head of `size` numbers, after rope of the first dim.
template <typename T> DEVICE float rotated(const T* x, const float* angles, int e, int dim, int adjacent) {
  float y = toFloat(x[e]);
  if (e >= dim) return y;
  int half = dim / 2, pair = adjacent ? e / 2 : e % half;
  bool second = adjacent ? e & 1 : e >= half;
  float other = toFloat(x[adjacent ? e ^ 1 : second ? e - half : e + half]), c = angles[2 * pair], s = angles[2 * pair + 1];
  return toFloat(fromFloat<T>(second ? y * c + other * s : y * c - other * s));
}

// A block takes a row's key and value of a head, or, of the queries, rope of four heads.
template <typename T> DEVICE void store(const StoreParams& p) {
  SHARED static f16 group[GROUP * MOST];
  SHARED static float scales[MOST], minima[MOST];
  launchDependentsAndWait();
  const Step& s = p.step;
  int r = blockX(), h = blockY();
  if (r >= s.counts[COUNT_TOKENS]) return;
  if (h >= p.kvHeads) {
    h = (h - p.kvHeads) * 4 + warp();
    if (h >= p.heads) return;
    const T* x = (const T*)p.q + ((long)r * p.heads + h) * p.size;
    float y[MOST / 32];
    UNROLL for (int i = 0; i < MOST / 32; i++)
      if (lane() + 32 * i < p.size) y[i] = rotated(x, p.angles + (long)r * p.dim, lane() + 32 * i, p.dim, p.adjacent);
    warpBarrier(); // y may be where q was
    UNROLL for (int i = 0; i < MOST / 32; i++)
      if (lane() + 32 * i < p.size) ((T*)p.y)[((long)r * p.heads + h) * p.size + lane() + 32 * i] = fromFloat<T>(y[i]);
    return;
  }
  auto key = [&](long row, int d) { return (f16)rotated((const T*)p.k + (row * p.kvHeads + h) * p.size, p.angles + row * p.dim, d, p.dim, p.adjacent); };
  auto value = [&](long row, int d) { return (f16)toFloat(((const T*)p.v)[(row * p.kvHeads + h) * p.vSize + d]); };
  Pages<f16> newest = {p.newest.cache, p.kvHeads, p.size, p.vSize, s.pageShift};
  int slot = p.newest.slots[r], page = slot >> s.pageShift;
  for (int d = threadX(); d < p.size; d += THREADS) newest.key(page, slot, h)[d] = key(r, d);
  for (int d = threadX(); d < p.vSize; d += THREADS) newest.value(page, slot, h)[d] = value(r, d);

  int seq = s.rowSeq[r], first = s.qStart[seq], token = s.kvLen[seq] - s.qStart[seq + 1] + r;
  if ((token + 1) % GROUP != 0) return;
  const int* pages = p.newest.pages + (long)seq * s.seqPages;
  Int4Pages cache = {p.cache, p.kvHeads, p.size, p.vSize, s.pageShift};
  Int4Head to = cache.head(s.slots[r] >> s.pageShift, s.slots[r], h);
  // Tokens of the step are taken from its rows: other blocks may not have written them yet.
  auto load = [&](int size, auto fresh, auto old) {
    for (int i = threadX(); i < GROUP * size; i += THREADS) {
      int back = GROUP - 1 - i / size, d = i % size;
      group[i] = r - back >= first ? fresh(r - back, d) : old(pages[(token - back) >> s.pageShift], token - back)[d];
    }
    barrier();
  };
  load(p.size, key, [&](long page, int token) { return newest.key(page, token, h); });
  for (int d = threadX(); d < p.size; d += THREADS) {
    Range range = rangeOf(GROUP, [&](int i) { return (float)group[i * p.size + d]; });
    to.keyScales()[d] = range.scale, to.keyMinima()[d] = range.minimum;
    scales[d] = range.scale, minima[d] = range.minimum;
  }
  barrier();
  for (int i = threadX(); i < p.size * 4; i += THREADS) {
    int unit = i / GROUP, token = i % GROUP;
    u32 word = 0;
    for (int e = 0; e < 8; e++) {
      int d = unit * 8 + e;
      Range range(0, 0);
      range.scale = (f16)scales[d], range.minimum = (f16)minima[d];
      word |= range.code((float)group[token * p.size + d]) << (e / 2 * 4 + e % 2 * 16);
    }
    to.keys()[Int4Head::keyWord(unit, token % 8, token / 8)] = word;
  }
  barrier(); // keys have been read
  load(p.vSize, value, [&](long page, int token) { return newest.value(page, token, h); });
  int run = to.run(), runs = p.vSize / run;
  for (int i = threadX(); i < GROUP * runs; i += THREADS) {
    int token = i % GROUP;
    Range range = rangeOf(run, [&](int j) { return (float)group[token * p.vSize + i / GROUP * run + j]; });
    to.valueRanges()[Int4Head::rangeWord(i / GROUP, token)] = __builtin_bit_cast(u16, range.scale) | (u32)__builtin_bit_cast(u16, range.minimum) << 16;
    scales[i] = range.scale, minima[i] = range.minimum;
  }
  barrier();
  for (int i = threadX(); i < p.vSize * 4; i += THREADS) {
    int d = i / 4, t = i % 4;
    u32 word = 0;
    for (int e = 0; e < 8; e++) {
      int token = e / 2 * 8 + t * 2 + e % 2, of = d / run * GROUP + token;
      Range range(0, 0);
      range.scale = (f16)scales[of], range.minimum = (f16)minima[of];
      word |= range.code((float)group[token * p.vSize + d]) << (e / 2 * 4 + e % 2 * 16);
    }
    to.values()[to.valueWord(d / 8, d % 8, t)] = word;
  }
}
KERNEL(THREADS, 4) store_f32(PARAM StoreParams p) { store<float>(p); }
KERNEL(THREADS, 4) store_bf16(PARAM StoreParams p) { store<bf16>(p); }

constexpr int PAGE16 = 128, PAGE16_SHIFT = 7; // tokens of a dequantised page

struct DequantiseParams {
  Step step;
  u8* cache;
  u8* pages16; // pages of PAGE16 tokens in IEEE halves, the sequences' one behind the other
  int* table;  // [S × pages] page table of the dequantised pages
  int heads, kSize, vSize, window;
  int seq0, pages; // the first sequence to dequantise; how many dequantised pages the longest takes
};

// A block dequantises a page of PAGE16 tokens of one sequence with several new tokens, those in whole groups; the other sequences are decode's.
KERNEL(256, 2) dequantise(PARAM DequantiseParams p) {
  SHARED static float before[8];
  launchDependentsAndWait();
  const Step& s = p.step;
  int j = blockX(), seq = p.seq0 + blockY(), length = s.kvLen[seq], fresh = s.qStart[seq + 1] - s.qStart[seq];
  if (fresh < 2 || j >= ceilDiv(length, PAGE16)) return;
  float count = 0; // dequantised pages of the sequences before; a sum of small integers is exact
  for (int i = p.seq0 + threadX(); i < seq; i += threads())
    if (s.qStart[i + 1] - s.qStart[i] > 1) count += ceilDiv(s.kvLen[i], PAGE16);
  int page = (int)blockSum(count, before) + j;
  if (threadX() == 0) p.table[seq * p.pages + j] = page;
  // Too far back for all; a tile of keys may begin in the page before the first that is seen.
  if (p.window > 0 && (j + 2) * PAGE16 <= length - fresh - p.window + 1) return;
  Int4Pages from = {p.cache, p.heads, p.kSize, p.vSize, s.pageShift};
  Pages<f16> to = {p.pages16, p.heads, p.kSize, p.vSize, PAGE16_SHIFT};
  int keyItems = p.kSize, items = keyItems + p.vSize / 2, all = items * p.heads; // of a head: eight channels of four tokens; of eight tokens
  for (int i = threadX(); i < PAGE16 / GROUP * all; i += threads()) {
    int token0 = j * PAGE16 + i / all * GROUP, h = i % all / items, item = i % items;
    if (token0 + GROUP > length) return;
    Int4Head head = from.head(s.pages[(long)seq * s.seqPages + (token0 >> s.pageShift)], token0, h);
    if (item < keyItems) {
      int unit = item / 8, g = item % 8;
      Vec16 words = *(const Vec16*)(head.keys() + Int4Head::keyWord(unit, g, 0));
      alignas(16) f16 scale[8], minimum[8];
      *(Vec16*)scale = *(const Vec16*)(head.keyScales() + unit * 8), *(Vec16*)minimum = *(const Vec16*)(head.keyMinima() + unit * 8);
      UNROLL for (int k = 0; k < 4; k++) {
        Vec16 y;
        UNROLL for (int e = 0; e < 4; e++)
          y.x[e] = packF16((float)scale[2 * e] * code(words.x[k], 2 * e) + (float)minimum[2 * e], (float)scale[2 * e + 1] * code(words.x[k], 2 * e + 1) + (float)minimum[2 * e + 1]);
        *(Vec16*)(to.key(page, token0 + g + 8 * k, h) + unit * 8) = y;
      }
      continue;
    }
    int m = (item - keyItems) / 4, t = item % 4;
    u32 words[8];
    UNROLL for (int g = 0; g < 8; g++) words[g] = head.values()[head.valueWord(m, g, t)];
    UNROLL for (int e = 0; e < 8; e++) {
      int token = e / 2 * 8 + t * 2 + e % 2;
      u32 range = head.valueRanges()[Int4Head::rangeWord(m * 8 / head.run(), token)];
      float scale = Int4Head::scaleOf(range), minimum = Int4Head::minimumOf(range);
      Vec16 y;
      UNROLL for (int g = 0; g < 4; g++) y.x[g] = packF16(scale * code(words[2 * g], e) + minimum, scale * code(words[2 * g + 1], e) + minimum);
      *(Vec16*)(to.value(page, token0 + token, h) + m * 8) = y;
    }
  }
}
