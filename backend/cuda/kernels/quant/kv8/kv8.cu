// 8-bit KV caches: keys and values are quantised as they are written, a warp a head, after rope if that is fused, and a prompt's pages are dequantised
// to IEEE halves for the tensor cores of its attention.
#include "../per_token/round.h"

constexpr int MAX_EACH = 8; // numbers of a lane, so heads of up to 256

struct StoreParams {
  Step step;
  const void *q, *k, *v; // [T, heads × size], [T, kvHeads × size], [T, kvHeads × vSize]
  const float* angles;   // [T, dim/2 × 2]
  void* y;               // [T, heads × size] queries after rope
  u8* cache;
  int heads, kvHeads, size, vSize, dim, adjacent; // heads and dim are 0 without rope
};

// quantise stores the warp's head, numbers lane, lane + 32, ... of each lane, and its scale.
template <typename C> DEVICE void quantise(const float (&x)[MAX_EACH], C* to, float* scale, int size) {
  float inverse = 1;
  if (SCALE_BYTES<C>) {
    float largest = 0;
    UNROLL for (int i = 0; i < MAX_EACH; i++) if (lane() + 32 * i < size) largest = maxf(largest, __builtin_fabsf(x[i]));
    largest = warpMax(largest);
    inverse = largest == 0 ? 0 : 127 / largest;
    if (lane() == 0) *scale = largest * (float)(1.0 / 127);
  }
  UNROLL for (int i = 0; i < MAX_EACH; i++) if (lane() + 32 * i < size) to[lane() + 32 * i] = fromFloat<C>(x[i] * inverse);
}

// A warp takes a head of a row: of the queries, for rope, of the keys, for rope and the cache, or of the values.
template <typename T, typename C> DEVICE void store(const StoreParams& p) {
  launchDependentsAndWait();
  int r = blockX(), head = blockY() * 8 + warp();
  if (r >= p.step.counts[COUNT_TOKENS] || head >= p.heads + 2 * p.kvHeads) return;
  bool isKey = head >= p.heads && head < p.heads + p.kvHeads, isValue = head >= p.heads + p.kvHeads;
  int h = isValue ? head - p.heads - p.kvHeads : isKey ? head - p.heads : head, size = isValue ? p.vSize : p.size;
  const T* x = (const T*)(isValue ? p.v : isKey ? p.k : p.q) + ((long)r * (isKey || isValue ? p.kvHeads : p.heads) + h) * size;
  const float* angles = p.angles + (long)r * p.dim;
  float y[MAX_EACH];
  UNROLL for (int i = 0; i < MAX_EACH; i++) {
    int e = lane() + 32 * i;
    if (e >= size) break;
    y[i] = toFloat(x[e]);
    if (isValue || e >= p.dim) continue;
    int half = p.dim / 2, pair = p.adjacent ? e / 2 : e % half;
    bool second = p.adjacent ? e & 1 : e >= half;
    float other = toFloat(x[p.adjacent ? e ^ 1 : second ? e - half : e + half]), c = angles[2 * pair], s = angles[2 * pair + 1];
    y[i] = toFloat(fromFloat<T>(second ? y[i] * c + other * s : y[i] * c - other * s));
  }
  if (!isKey && !isValue) {
    warpBarrier(); // y may be where q was
    UNROLL for (int i = 0; i < MAX_EACH; i++)
      if (lane() + 32 * i < size) ((T*)p.y)[((long)r * p.heads + h) * size + lane() + 32 * i] = fromFloat<T>(y[i]);
    return;
  }
  Pages<C> cache = {p.cache, p.kvHeads, p.size, p.vSize, p.step.pageShift};
  int slot = p.step.slots[r], page = slot >> p.step.pageShift;
  if (isKey) quantise(y, cache.key(page, slot, h), cache.keyScale(page, slot, h), size);
  else quantise(y, cache.value(page, slot, h), cache.valueScale(page, slot, h), size);
}
KERNEL(256, 1) store_f32_i8(PARAM StoreParams p) { store<float, i8>(p); }
KERNEL(256, 1) store_f32_f8(PARAM StoreParams p) { store<float, f8>(p); }
KERNEL(256, 1) store_bf16_i8(PARAM StoreParams p) { store<bf16, i8>(p); }
KERNEL(256, 1) store_bf16_f8(PARAM StoreParams p) { store<bf16, f8>(p); }

constexpr int PAGE16 = 128, PAGE16_SHIFT = 7; // tokens of a dequantised page

struct DequantiseParams {
  Step step;
  u8* cache;
  u8* pages16; // pages of PAGE16 tokens in IEEE halves, the sequences' one behind the other
  int* table; // [S × pages] page table of the dequantised pages
  int heads, kSize, vSize, window;
  int seq0, pages; // the first sequence to dequantise; how many dequantised pages the longest takes
};

// dequantise8 is eight numbers of a key or value as halves; unit is the scale of int8.
template <typename C> DEVICE Vec16 dequantise8(const C* from, float unit) {
  Vec16 y;
  C x[8];
  *(u64*)x = *(const u64*)from;
  UNROLL for (int i = 0; i < 4; i++) y.x[i] = packF16(toFloat(x[2 * i]) * unit, toFloat(x[2 * i + 1]) * unit);
  return y;
}

// A block dequantises a page of PAGE16 tokens of one sequence with several new tokens; the others are decode's.
template <typename C> DEVICE void dequantise(const DequantiseParams& p) {
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
  if (p.window > 0 && (j + 1) * PAGE16 <= length - fresh - p.window + 1) return; // too far back for all
  Pages<C> from = {p.cache, p.heads, p.kSize, p.vSize, s.pageShift};
  Pages<f16> to = {p.pages16, p.heads, p.kSize, p.vSize, PAGE16_SHIFT};
  int kUnits = p.heads * p.kSize / 8, units = kUnits + p.heads * p.vSize / 8;
  for (int i = threadX(); i < PAGE16 * units; i += threads()) {
    int token = j * PAGE16 + i / units, u = i % units;
    if (token >= length) return;
    bool isKey = u < kUnits;
    int size = isKey ? p.kSize : p.vSize, e = (isKey ? u : u - kUnits) * 8, head = e / size, d = e % size;
    long source = s.pages[(long)seq * s.seqPages + (token >> s.pageShift)];
    const C* x = (isKey ? from.key(source, token, head) : from.value(source, token, head)) + d;
    float unit = !SCALE_BYTES<C> ? 1 : isKey ? *from.keyScale(source, token, head) : *from.valueScale(source, token, head);
    *(Vec16*)((isKey ? to.key(page, token, head) : to.value(page, token, head)) + d) = dequantise8(x, unit);
  }
}
KERNEL(256, 1) dequantise_i8(PARAM DequantiseParams p) { dequantise<i8>(p); }
KERNEL(256, 1) dequantise_f8(PARAM DequantiseParams p) { dequantise<f8>(p); }
