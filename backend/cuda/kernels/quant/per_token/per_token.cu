// Quantisation of rows to 8 bits with a scale each (dynamic, per token): of activations for gemm/w8a8, and of weights as they are loaded. The largest
// magnitude of a row becomes the largest that the type has.
#include "round.h"

struct QuantiseParams {
  const void* x; // [rows, n]
  void* y;       // [rows, n]
  float* scale;  // [rows] what a number of y counts
  int n;
  float below; // numbers of this magnitude or more are left out, zeros in y, and have no part in the scale; 0: none is
};

template <typename T> DEVICE void load8(float (&v)[8], const T* x) {
  alignas(16) T a[8];
  UNROLL for (int j = 0; j < (int)sizeof(T) / 2; j++)((Vec16*)a)[j] = ((const Vec16*)x)[j];
  UNROLL for (int j = 0; j < 8; j++) v[j] = toFloat(a[j]);
}

// One block a row, 8 numbers per thread and iteration; it reads the row twice, the second time from the cache.
template <typename T, typename C> DEVICE void quantiseRow(const QuantiseParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  int r = blockX();
  const float below = p.below > 0 ? p.below : __builtin_inff();
  const T* x = (const T*)p.x + (long)r * p.n;
  u8* y = (u8*)p.y + (long)r * p.n;
  float v[8], largest = 0;
  for (int i = threadX() * 8; i < p.n; i += threads() * 8) {
    load8(v, x + i);
    UNROLL for (int j = 0; j < 8; j++) {
      float a = __builtin_fabsf(v[j]);
      largest = maxNaN(largest, a < below ? a : a - a); // NaN of what is not finite
    }
  }
  largest = blockMax(largest, scratch);
  float inverse = inverseScale<C>(largest);
  if (threadX() == 0) p.scale[r] = largest * (1 / TOP<C>);
  for (int i = threadX() * 8; i < p.n; i += threads() * 8) {
    load8(v, x + i);
    UNROLL for (int j = 0; j < 8; j++) v[j] = __builtin_fabsf(v[j]) < below ? v[j] : 0;
    *(Codes8*)(y + i) = round8<C>(v, inverse);
  }
}
KERNEL(1024, 1) quantise_bf16_f8(PARAM QuantiseParams p) { quantiseRow<bf16, f8>(p); }
KERNEL(1024, 1) quantise_bf16_i8(PARAM QuantiseParams p) { quantiseRow<bf16, i8>(p); }
KERNEL(1024, 1) quantise_f32_f8(PARAM QuantiseParams p) { quantiseRow<float, f8>(p); }
KERNEL(1024, 1) quantise_f32_i8(PARAM QuantiseParams p) { quantiseRow<float, i8>(p); }
