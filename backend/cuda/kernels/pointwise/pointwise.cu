// Pointwise functions, 8 numbers a thread; the last numbers, if they are fewer, one by one.
#include "../activation.h"

struct PointwiseParams {
  const void* x;     // [n]
  const void* other; // [n] the second input; null for functions of one
  void* y;           // [n]
  long n;
  int what;    // as below
  float limit; // soft cap
};
enum { ACT = 0, ACT_MUL = 16, ADD = 32, SOFTCAP = 48 }; // ACT and ACT_MUL plus a function of activation.h

DEVICE float activation(int fn, float x) {
  switch (fn) {
  case SILU: return silu(x);
  case GELU_TANH: return geluTanh(x);
  case GELU_ERF: return geluErf(x);
  case RELU2: return maxf(x, 0) * maxf(x, 0);
  case SIGMOID: return reciprocal(1 + expf(-x));
  case IDENTITY: return x;
  default: return maxf(x, 0);
  }
}

DEVICE float one(int what, float limit, float x, float other) {
  switch (what & ~15) {
  case ACT: return activation(what & 15, x);
  case ACT_MUL: return activation(what & 15, x) * other;
  case ADD: return x + other;
  default: return limit * tanhf(x / limit);
  }
}

template <typename T> DEVICE void pointwise(const PointwiseParams& p) {
  launchDependentsAndWait();
  long i = ((long)blockX() * threads() + threadX()) * 8;
  const T *x = (const T*)p.x, *other = (const T*)p.other;
  T* y = (T*)p.y;
  if (i + 8 <= p.n) {
    alignas(16) T a[8], b[8];
    UNROLL for (int j = 0; j < 8 * (int)sizeof(T) / 16; j++) {
      ((Vec16*)a)[j] = ((const Vec16*)(x + i))[j];
      ((Vec16*)b)[j] = other ? ((const Vec16*)(other + i))[j] : Vec16{};
    }
    UNROLL for (int j = 0; j < 8; j++) a[j] = fromFloat<T>(one(p.what, p.limit, toFloat(a[j]), toFloat(b[j])));
    UNROLL for (int j = 0; j < 8 * (int)sizeof(T) / 16; j++)((Vec16*)(y + i))[j] = ((Vec16*)a)[j];
  } else {
    for (; i < p.n; i++) y[i] = fromFloat<T>(one(p.what, p.limit, toFloat(x[i]), other ? toFloat(other[i]) : 0));
  }
}
KERNEL(256, 1) pointwise_f32(PARAM PointwiseParams p) { pointwise<float>(p); }
KERNEL(256, 1) pointwise_bf16(PARAM PointwiseParams p) { pointwise<bf16>(p); }
