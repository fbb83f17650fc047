// Quantisation of floats to INT4 as weights are loaded, straight into packed units. The bits are those that quant.Encode and Pack give: sums have
// the same order, and products are rounded before they are added.
#include "formats.h"

struct QuantiseParams {
  const void* x; // [n, k], k a multiple of 128
  u8* w;         // its units, full of zeros: rows and columns that fill up a unit are not written
  int n, k;
};

// STEPS are the steps that are tried, as parts of the number of largest magnitude.
constexpr int COUNT = 6;
constexpr float STEPS[COUNT] = {-1.0f / 8, 1.0f / 7, -1 / 8.5f, -1.0f / 9, -1 / 9.5f, -1.0f / 10};
constexpr float LIMIT = 8 * 65504.0f; // the magnitude from which on quant.Encode refuses a number

template <typename T> struct alignas(4 * sizeof(T)) FourNumbers { T x[4]; };

// scaleBits is a scale as a half: away from zero where halves have few bits left.
DEVICE u16 scaleBits(float v) {
  v = minf(maxf(v, -65504), 65504);
  f16 half = (f16)v;
  u16 bits = __builtin_bit_cast(u16, half);
  if (v == 0) return 0;
  return bits + ((bits & 0x7c00) == 0 && __builtin_fabsf((float)half) < __builtin_fabsf(v));
}
// product is rounded: left to itself the assembler makes one instruction of a product and a sum, which rounds once.
DEVICE float product(float a, float b) { return __nvvm_mul_rn_f(a, b); }
DEVICE float inverse(float d) { return d == 0 ? 0 : 1 / d; }
DEVICE float nearest(float v) {
  constexpr float BIG = 1.5f * (1 << 23); // floats around it have no fraction
  return minf(maxf(v + BIG - BIG, -8), 7);
}

// codesOf rounds a lane's numbers with a scale; the result is their squared error.
DEVICE float codesOf(const float (&v)[4], float d, float (&codes)[4]) {
  float inv = inverse(d), loss = 0;
  UNROLL for (int i = 0; i < 4; i++) {
    codes[i] = nearest(product(v[i], inv));
    float e = v[i] - product(codes[i], d);
    loss += product(e, e);
  }
  return loss;
}

// bestScale is, of the scales that STEPS gives, that of least squared error in a warp's numbers, the first of several.
DEVICE u16 bestScale(const float (&v)[4], float peak) {
  u16 best = 0;
  float least = 0, codes[4];
  UNROLL for (int i = 0; i < COUNT; i++) {
    u16 bits = scaleBits(product(peak, STEPS[i]));
    float loss = warpSum(codesOf(v, f16ToFloat(bits), codes));
    if (i == 0 || loss < least) best = bits, least = loss;
  }
  return best;
}

// A warp rounds a row's part of a unit, four columns a lane.
template <typename T> DEVICE void round(const QuantiseParams& p) {
  launchDependentsAndWait();
  int units = p.k / COLUMNS, job = blockX() * (threads() / 32) + warp(), row = job / units, unit = job % units;
  if (row >= p.n) return;
  FourNumbers<T> four = *(const FourNumbers<T>*)((const T*)p.x + (long)row * p.k + unit * COLUMNS + lane() * 4);
  float v[4], lowest, highest;
  bool broken = false;
  UNROLL for (int i = 0; i < 4; i++) {
    v[i] = toFloat(four.x[i]);
    lowest = i ? minf(lowest, v[i]) : v[i], highest = i ? maxf(highest, v[i]) : v[i];
    broken |= !(__builtin_fabsf(v[i]) < LIMIT);
  }
  highest = warpMax(highest), lowest = -warpMax(-lowest);
  u16 scale = bestScale(v, -lowest > highest ? lowest : highest);
  float codes[4];
  codesOf(v, f16ToFloat(scale), codes);
  if (__nvvm_vote_any_sync(-1, broken)) scale = 0x7e00; // no number: what is too large, or none itself, must not go unseen

  // Lane 8b + m has columns 4m of block b and the next: of the words of two lanes each (see layout.go) the codes with i = m / 2.
  int m = lane() % 8;
  u32 words[2];
  UNROLL for (int i = 0; i < 2; i++) {
    u32 word = ((u32)(int)(codes[2 * i] + 8) | (u32)(int)(codes[2 * i + 1] + 8) << 16) << (m / 2 * 4);
    word |= __builtin_bit_cast(u32, shuffleXor(__builtin_bit_cast(float, word), 2));
    word |= __builtin_bit_cast(u32, shuffleXor(__builtin_bit_cast(float, word), 4));
    words[i] = word;
  }
  u8* half = p.w + unitAt(row / 16, unit, unitsOf(p.k)) * (2 * U4PerUnit::BYTES) + row % 16 / 8 * U4PerUnit::BYTES;
  int g = row % 8;
  if (m < 2)
    UNROLL for (int i = 0; i < 2; i++) *(u32*)(half + (4 * g + 2 * m + i) * 16 + lane() / 8 * 4) = words[i];
  if (lane() == 0) *(u16*)(half + U4PerUnit::SCALES + g * U4PerUnit::EACH) = scale;
}
KERNEL(256, 1) quantise_bf16(PARAM QuantiseParams p) { round<bf16>(p); }
KERNEL(256, 1) quantise_f32(PARAM QuantiseParams p) { round<float>(p); }
