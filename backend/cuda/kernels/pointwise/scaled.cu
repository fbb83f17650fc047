// Functions with coefficients: rows times a factor, which may grow with the position, and xIELU.
#include "../cuda.h"

struct ScaleParams {
  const void* x;        // [rows, width]
  void* y;
  const int* positions; // [rows]; null: every row is multiplied by `by`
  int width;
  float by, beta; // the factor is by × (1 + beta × ln(1 + (position + from) / every))
  int every, from;
};

// A block takes numbers blockY × 1024 and on of row blockX.
template <typename T> DEVICE void scale(const ScaleParams& p) {
  launchDependentsAndWait();
  long row = blockX();
  float by = p.by;
  if (p.positions) by *= 1 + p.beta * 0.6931471805599453f * log2((float)(1 + (p.positions[row] + p.from) / p.every));
  const T* x = (const T*)p.x + row * p.width;
  T* y = (T*)p.y + row * p.width;
  int end = mini(p.width, (blockY() + 1) * 1024);
  for (int i = blockY() * 1024 + threadX(); i < end; i += threads()) y[i] = fromFloat<T>(by * toFloat(x[i]));
}
KERNEL(256, 1) scale_f32(PARAM ScaleParams p) { scale<float>(p); }
KERNEL(256, 1) scale_bf16(PARAM ScaleParams p) { scale<bf16>(p); }

struct XieluParams {
  const void* x; // [n]
  void* y;
  long n;
  float positive, negative, beta, eps;
};

template <typename T> DEVICE void xielu(const XieluParams& p) {
  launchDependentsAndWait();
  long i = (long)blockX() * threads() + threadX();
  if (i >= p.n) return;
  float x = toFloat(((const T*)p.x)[i]), y;
  if (x > 0) y = p.positive * x * x + p.beta * x;
  else y = p.negative * (expf(minf(x, p.eps)) - 1 - x) + p.beta * x;
  ((T*)p.y)[i] = fromFloat<T>(y);
}
KERNEL(256, 1) xielu_f32(PARAM XieluParams p) { xielu<float>(p); }
KERNEL(256, 1) xielu_bf16(PARAM XieluParams p) { xielu<bf16>(p); }
