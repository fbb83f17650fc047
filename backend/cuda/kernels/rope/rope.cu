// Rotary position embedding (RoPE): angles once a step, then the rotation of every head.
#include "../kv_cache.h"

struct AnglesParams {
  Step step;
  const float* frequencies; // [pairs], or [S, pairs] when they depend on the sequence's length
  float* y;                 // [T, pairs × 2] cosine, sine
  const int* axes;          // [pairs] the axis of each pair's positions, or null: there is one
  int pairs, perSequence;
  float magnitude;
  int axisStride; // from a row's position on an axis to that on the next
};

// The angle is a float32 product, like the reference's, and may be 100,000 radians: it is reduced to one period in
// float64 before the hardware's sine and cosine, which are accurate to 5e-7 there.
KERNEL(128, 1) angles(PARAM AnglesParams p) {
  launchDependentsAndWait();
  int r = blockX();
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  const float* f = p.frequencies + (p.perSequence ? (long)p.step.rowSeq[r] * p.pairs : 0);
  for (int i = threadX(); i < p.pairs; i += threads()) {
    float angle = (float)p.step.positions[r + (p.axes ? p.axes[i] * p.axisStride : 0)] * f[i];
    double turns = (double)angle * 0.15915494309189535;
    double whole;
    asm("cvt.rni.f64.f64 %0, %1;" : "=d"(whole) : "d"(turns));
    float rest = (float)((turns - whole) * 6.283185307179586), c, s;
    asm("cos.approx.ftz.f32 %0, %1;" : "=f"(c) : "f"(rest));
    asm("sin.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(rest));
    long at = ((long)r * p.pairs + i) * 2;
    p.y[at] = c * p.magnitude;
    p.y[at + 1] = s * p.magnitude;
  }
}

struct RopeParams {
  const void* x;       // [rows, heads × size]
  const float* angles; // [rows, dim/2 × 2]
  void* y;
  int heads, size, dim, adjacent;
  int from, unused; // first number of a head that is rotated
};

// One thread rotates one pair, or copies one number outside the rotated dims.
template <typename T> DEVICE void rope(const RopeParams& p) {
  launchDependentsAndWait();
  long r = blockX();
  int half = p.dim / 2, rest = p.size - p.dim, work = half + rest;
  for (int i = threadX() + blockY() * threads(); i < p.heads * work; i += threads() * gridY()) {
    int h = i / work, pair = i % work;
    long head = (r * p.heads + h) * p.size;
    const T* x = (const T*)p.x + head;
    T* y = (T*)p.y + head;
    if (pair >= half) {
      int e = pair - half < p.from ? pair - half : p.dim + pair - half;
      y[e] = x[e];
      continue;
    }
    int j = p.from + (p.adjacent ? 2 * pair : pair), k = p.adjacent ? j + 1 : j + half;
    float c = p.angles[(r * half + pair) * 2], s = p.angles[(r * half + pair) * 2 + 1];
    float a = toFloat(x[j]), b = toFloat(x[k]);
    y[j] = fromFloat<T>(a * c - b * s);
    y[k] = fromFloat<T>(b * c + a * s);
  }
}
KERNEL(256, 1) rope_f32(PARAM RopeParams p) { rope<float>(p); }
KERNEL(256, 1) rope_bf16(PARAM RopeParams p) { rope<bf16>(p); }

struct RopeStoreParams {
  Step step;
  const bf16 *q, *k, *v; // [T, heads × size], [T, kvHeads × size], [T, vLen]
  const float* angles;   // [T, dim/2 × 2]
  bf16* y;               // [T, heads × size] queries after rope
  u8* cache;             // bf16, or IEEE half
  int heads, kvHeads, size, vLen, dim, adjacent;
};

DEVICE void rotatePair(bf16& one, bf16& two, float c, float s) {
  float x = toFloat(one), y = toFloat(two);
  one = fromFloat<bf16>(x * c - y * s);
  two = fromFloat<bf16>(y * c + x * s);
}

// ropeStore is rope of queries and keys fused with the KV cache write of keys and values. A thread rotates eight pairs, or copies eight
// numbers: dim divides by 16, what is not rotated and vLen by 8.
template <bool HALF> DEVICE void ropeStore(const RopeStoreParams& p) {
  launchDependentsAndWait();
  int r = blockX(), i = threadX() + blockY() * 256;
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  int rotated = p.dim / 16, units = rotated + (p.size - p.dim) / 8, half = p.dim / 2;
  int kLen = p.kvHeads * p.size, slot = p.step.slots[r], page = slot >> p.step.pageShift;
  Pages<u16> cache = {p.cache, 1, kLen, p.vLen, p.step.pageShift}; // all heads of a token as one
  if (i >= (p.heads + p.kvHeads) * units) {
    int e = (i - (p.heads + p.kvHeads) * units) * 8;
    if (e >= p.vLen) return;
    Vec16 v = *(const Vec16*)(p.v + (long)r * p.vLen + e);
    *(Vec16*)(cache.value(page, slot, 0) + e) = HALF ? bf16ToF16(v) : v;
    return;
  }
  int head = i / units, u = i % units;
  const bf16* x = head < p.heads ? p.q + ((long)r * p.heads + head) * p.size : p.k + (long)r * kLen + (head - p.heads) * p.size;
  bool toCache = head >= p.heads;
  u16* y = toCache ? cache.key(page, slot, 0) + (head - p.heads) * p.size : (u16*)p.y + ((long)r * p.heads + head) * p.size;
  if (u >= rotated) {
    int e = p.dim + (u - rotated) * 8;
    Vec16 v = *(const Vec16*)(x + e);
    *(Vec16*)(y + e) = HALF && toCache ? bf16ToF16(v) : v;
    return;
  }
  int first = p.adjacent ? u * 16 : u * 8, second = p.adjacent ? first + 8 : first + half;
  alignas(16) bf16 a[16];
  alignas(16) float cosSin[16]; // cosine, sine of the eight pairs
  ((Vec16*)a)[0] = *(const Vec16*)(x + first);
  ((Vec16*)a)[1] = *(const Vec16*)(x + second);
  UNROLL for (int j = 0; j < 4; j++) ((Vec16*)cosSin)[j] = ((const Vec16*)(p.angles + ((long)r * half + u * 8) * 2))[j];
  if (p.adjacent) {
    UNROLL for (int j = 0; j < 8; j++) rotatePair(a[2 * j], a[2 * j + 1], cosSin[2 * j], cosSin[2 * j + 1]);
  } else {
    UNROLL for (int j = 0; j < 8; j++) rotatePair(a[j], a[j + 8], cosSin[2 * j], cosSin[2 * j + 1]);
  }
  Vec16 v = ((Vec16*)a)[0], later = ((Vec16*)a)[1];
  *(Vec16*)(y + first) = HALF && toCache ? bf16ToF16(v) : v;
  *(Vec16*)(y + second) = HALF && toCache ? bf16ToF16(later) : later;
}
KERNEL(256, 1) rope_store_bf16(PARAM RopeStoreParams p) { ropeStore<false>(p); }
KERNEL(256, 1) rope_store_f16(PARAM RopeStoreParams p) { ropeStore<true>(p); }
