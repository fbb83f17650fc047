// Normalisation of rows. One block takes one row (or one warp one head), reads it twice (the second time from the cache)
// and writes it once; sums are float32 in a fixed order.
#include "../activation.h"
#include "../quant/per_token/round.h"

struct NormParams {
  const void* x;      // [rows, n]
  const void* add;    // [rows, n] added to x first; null: none
  void* sum;          // [rows, n] receives x + add
  const float* weight; // [n]
  const float* bias;   // [n] or null
  void* y;            // [rows, n]
  float* yScale;      // [rows], if y is 8-bit
  int rows, n, groups; // groups of a row, normalised separately, n numbers each
  float eps;
  int ownWeights; // 1: each group has weights of its own, [groups, n]
  int of;                // a row is a part of one of so many numbers, the sum of whose squares is in squares; 0: it is whole
  const float* squares;  // [rows]
  const bf16* gate;      // [rows, groups × n], of rmsGroupGated
  int fn;                // of the gate
};

template <typename T> DEVICE float at(const NormParams& p, long i) {
  float v = toFloat(((const T*)p.x)[i]);
  return p.add ? toFloat(fromFloat<T>(v + toFloat(((const T*)p.add)[i]))) : v;
}

// rmsRow: rows of any length, one number per thread and iteration.
template <typename T> DEVICE void rmsRow(const NormParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  long base = (long)blockX() * p.n;
  float squares = 0;
  for (int i = threadX(); i < p.n && !p.of; i += threads()) {
    float v = at<T>(p, base + i);
    if (p.sum) ((T*)p.sum)[base + i] = fromFloat<T>(v);
    squares += v * v;
  }
  float scale = p.of ? rsqrt(p.squares[blockX()] / p.of + p.eps) : rsqrt(blockSum(squares, scratch) / p.n + p.eps);
  for (int i = threadX(); i < p.n; i += threads()) {
    float v = p.sum ? toFloat(((const T*)p.sum)[base + i]) : at<T>(p, base + i);
    ((T*)p.y)[base + i] = fromFloat<T>(v * scale * p.weight[i]);
  }
}
KERNEL(1024, 1) rms_f32(PARAM NormParams p) { rmsRow<float>(p); }
KERNEL(1024, 1) rms_bf16(PARAM NormParams p) { rmsRow<bf16>(p); }

// rmsWide: bf16 rows of n ≤ 8192 numbers that divide by 8; a thread keeps its 8 numbers in registers between the passes.
// 8-bit results are rounded to bf16 first, like those of the unfused kernels.
template <typename Y> DEVICE void rmsWide(const NormParams& p) {
  SHARED static float scratch[32];
  int i = threadX() * 8;
  bool mine = i < p.n;
  float w[8], v[8];
  UNROLL for (int j = 0; j < 8; j++) v[j] = w[j] = 0;
  if (mine) {
    UNROLL for (int j = 0; j < 8; j++) w[j] = p.weight[i + j];
  }
  launchDependentsAndWait();
  long base = (long)blockX() * p.n + i;
  float squares = 0;
  if (mine) {
    Vec16 x = *(const Vec16*)((const bf16*)p.x + base);
    UNROLL for (int j = 0; j < 4; j++) v[2 * j] = low(x.x[j]), v[2 * j + 1] = high(x.x[j]);
    if (p.add) {
      Vec16 a = *(const Vec16*)((const bf16*)p.add + base), s;
      UNROLL for (int j = 0; j < 4; j++) {
        s.x[j] = pack(v[2 * j] + low(a.x[j]), v[2 * j + 1] + high(a.x[j]));
        v[2 * j] = low(s.x[j]), v[2 * j + 1] = high(s.x[j]);
      }
      *(Vec16*)((bf16*)p.sum + base) = s;
    }
    UNROLL for (int j = 0; j < 8; j++) squares += v[j] * v[j];
  }
  float scale = rsqrt(blockSum(squares, scratch) / p.n + p.eps);
  Vec16 y;
  UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(v[2 * j] * scale * w[2 * j], v[2 * j + 1] * scale * w[2 * j + 1]);
  if constexpr (sizeof(Y) == 2) {
    if (mine) *(Vec16*)((bf16*)p.y + base) = y;
  } else {
    float largest = 0;
    UNROLL for (int j = 0; j < 8; j++) {
      v[j] = j % 2 ? high(y.x[j / 2]) : low(y.x[j / 2]);
      if (mine) largest = maxNaN(largest, __builtin_fabsf(v[j]));
    }
    largest = blockMax(largest, scratch);
    if (mine) *(Codes8*)((u8*)p.y + base) = round8<Y>(v, inverseScale<Y>(largest));
    if (threadX() == 0) p.yScale[blockX()] = largest * (1 / TOP<Y>);
  }
}
KERNEL(1024, 1) rms_bf16_wide(PARAM NormParams p) { rmsWide<bf16>(p); }
KERNEL(1024, 1) rms_bf16_wide_f8(PARAM NormParams p) { rmsWide<f8>(p); }
KERNEL(1024, 1) rms_bf16_wide_i8(PARAM NormParams p) { rmsWide<i8>(p); }

// rmsGroup: one warp per group (a head).
template <typename T> DEVICE void rmsGroup(const NormParams& p) {
  launchDependentsAndWait();
  long g = (long)blockX() * (threads() / 32) + warp();
  if (g >= (long)p.rows * p.groups) return;
  const T* x = (const T*)p.x + g * p.n;
  const float* weight = p.weight + (p.ownWeights ? g % p.groups * p.n : 0);
  float squares = 0;
  for (int i = lane(); i < p.n; i += 32) {
    float v = toFloat(x[i]);
    squares += v * v;
  }
  float scale = rsqrt(warpSum(squares) / p.n + p.eps);
  for (int i = lane(); i < p.n; i += 32) ((T*)p.y)[g * p.n + i] = fromFloat<T>(toFloat(x[i]) * scale * weight[i]);
}
KERNEL(128, 1) rms_group_f32(PARAM NormParams p) { rmsGroup<float>(p); }
KERNEL(128, 1) rms_group_bf16(PARAM NormParams p) { rmsGroup<bf16>(p); }

// rmsGroupGated: as rmsGroup, of at most 512 numbers, four a lane at a time; the result, rounded, times a function of the gate.
struct alignas(8) Pairs { u32 x[2]; };
KERNEL(128, 1) rms_group_gated_bf16(PARAM NormParams p) {
  constexpr int MOST = 4; // times 128 numbers
  launchDependents();
  long g = (long)blockX() * (threads() / 32) + warp();
  float w[MOST][4];
  UNROLL for (int k = 0; k < MOST; k++) UNROLL for (int e = 0; e < 4; e++) {
    int i = k * 128 + lane() * 4 + e;
    w[k][e] = i < p.n ? p.weight[i] : 0;
  }
  gridDependencyWait();
  if (g >= (long)p.rows * p.groups) return;
  Pairs x[MOST], gate[MOST];
  float squares = 0;
  UNROLL for (int k = 0; k < MOST; k++) {
    int i = k * 128 + lane() * 4;
    x[k] = gate[k] = {};
    if (i < p.n) x[k] = *(const Pairs*)((const bf16*)p.x + g * p.n + i), gate[k] = *(const Pairs*)(p.gate + g * p.n + i);
    UNROLL for (int e = 0; e < 2; e++) squares += low(x[k].x[e]) * low(x[k].x[e]) + high(x[k].x[e]) * high(x[k].x[e]);
  }
  float scale = rsqrt(warpSum(squares) / p.n + p.eps);
  auto opened = [&](float v) { return p.fn == SILU ? silu(v) : reciprocal(1 + expf(-v)); };
  UNROLL for (int k = 0; k < MOST; k++) {
    int i = k * 128 + lane() * 4;
    Pairs y;
    UNROLL for (int e = 0; e < 2; e++) {
      u32 n = pack(low(x[k].x[e]) * scale * w[k][2 * e], high(x[k].x[e]) * scale * w[k][2 * e + 1]);
      y.x[e] = pack(opened(low(gate[k].x[e])) * low(n), opened(high(gate[k].x[e])) * high(n));
    }
    if (i < p.n) *(Pairs*)((bf16*)p.y + g * p.n + i) = y;
  }
}

// layerRow subtracts the mean before it squares (two passes): no cancellation when the mean is large.
template <typename T> DEVICE void layerRow(const NormParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  long base = (long)blockX() * p.n;
  float sum = 0, squares = 0;
  for (int i = threadX(); i < p.n; i += threads()) sum += at<T>(p, base + i);
  float mean = blockSum(sum, scratch) / p.n;
  for (int i = threadX(); i < p.n; i += threads()) {
    float v = at<T>(p, base + i) - mean;
    squares += v * v;
  }
  float scale = rsqrt(blockSum(squares, scratch) / p.n + p.eps);
  for (int i = threadX(); i < p.n; i += threads()) {
    float v = (at<T>(p, base + i) - mean) * scale * p.weight[i];
    ((T*)p.y)[base + i] = fromFloat<T>(p.bias ? v + p.bias[i] : v);
  }
}
KERNEL(1024, 1) layer_f32(PARAM NormParams p) { layerRow<float>(p); }
KERNEL(1024, 1) layer_bf16(PARAM NormParams p) { layerRow<bf16>(p); }
