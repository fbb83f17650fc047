// Rotary position embedding: the angles once a step, then the turning of every head by them.
#include "../cuda.h"

struct AnglesParams {
  Step step;
  const float* frequencies; // [pairs], or [S, pairs] when they depend on the sequence's length
  float* y;                 // [T, pairs × 2] cosine, sine
  int pairs, perSequence;
  float magnitude;
};

// The angle is a float32 product, as the reference has it, and may be 100,000 radians: it is reduced to one turn in
// float64 before the hardware's sine and cosine, which are good to 5e-7 there.
KERNEL(128, 1) angles(PARAM AnglesParams p) {
  begin();
  int r = blockX();
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  const float* f = p.frequencies + (p.perSequence ? (long)p.step.rowSeq[r] * p.pairs : 0);
  for (int i = threadX(); i < p.pairs; i += threads()) {
    float angle = (float)p.step.positions[r] * f[i];
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
};

// One thread turns one pair, or copies one number that does not turn.
template <typename T> DEVICE void rope(const RopeParams& p) {
  begin();
  long r = blockX();
  int half = p.dim / 2, rest = p.size - p.dim, work = half + rest;
  for (int i = threadX() + blockY() * threads(); i < p.heads * work; i += threads() * gridY()) {
    int h = i / work, pair = i % work;
    long head = (r * p.heads + h) * p.size;
    const T* x = (const T*)p.x + head;
    T* y = (T*)p.y + head;
    if (pair >= half) {
      y[p.dim + pair - half] = x[p.dim + pair - half];
      continue;
    }
    int j = p.adjacent ? 2 * pair : pair, k = p.adjacent ? 2 * pair + 1 : pair + half;
    float c = p.angles[(r * half + pair) * 2], s = p.angles[(r * half + pair) * 2 + 1];
    float a = toFloat(x[j]), b = toFloat(x[k]);
    y[j] = fromFloat<T>(a * c - b * s);
    y[k] = fromFloat<T>(b * c + a * s);
  }
}
KERNEL(256, 1) rope_f32(PARAM RopeParams p) { rope<float>(p); }
KERNEL(256, 1) rope_bf16(PARAM RopeParams p) { rope<bf16>(p); }
