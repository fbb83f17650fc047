// How a warp loads, dequantises and multiplies 16 keys and values of an 8-bit KV cache.
#pragma once
#include "kv16.h"

// E4M3 where there is no instruction for the conversion.
#if __CUDA_ARCH__ < 900
template <> constexpr float UNIT<f8> = F8_UNIT;
#endif

// flipSigns prepares four numbers of a value for dequantise: it flips the sign bits of int8.
DEVICE u32 flipSigns(u32 x, i8) { return x ^ 0x80808080; }
DEVICE u32 flipSigns(u32 x, f8) { return x; }

// dequantise converts the two 8-bit numbers in the low or the high half of x to IEEE halves, UNIT times too small. An int8 whose sign bit
// has been flipped is its number + 128: the low bits of a half of 1024 + 128 + its number.
DEVICE u32 dequantise(u32 x, bool high, i8) {
  u32 y = __nvvm_prmt(x, 0x64646464, high ? 0x4342 : 0x4140);
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y) : "r"(0x64806480));
  return y;
}
DEVICE u32 dequantise(u32 x, bool high, f8) {
#if __CUDA_ARCH__ >= 900
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)(high ? x >> 16 : x)));
  return y;
#else
  u32 y = __nvvm_prmt(x, 0, high ? 0x3424 : 0x1404);
  return (y >> 1 & 0x3f803f80) | (y & 0x80008000);
#endif
}

// KV8 is KV16 for 8-bit KV caches, whose values the tensor cores get as IEEE halves. KC × 64 and VB × 32 × VW are the head sizes
// there is room for; VW is how many words of a value a lane takes at a time.
template <typename C, int KC, int VB, int VW> struct KV8 {
  using Number = C;
  static constexpr bool SCALED = SCALE_BYTES<C>;
  static constexpr int PRODUCTS = SCALED ? KC * 2 : KC * 4, TILES = VB * 2 * VW, WIDTH = VB * 32 * VW;
  struct Query { u32 x[KC * 4][2]; float unit[2]; };
  struct Scores { float x[4]; int high[4], low[4]; };
  struct NewToken {}; // keys and values are quantised elsewhere (quant/kv8)
  u32 v[4][VB][VW];
  Vec16 k[KC][2];
  float kUnit[2], vUnit[2];

  static DEVICE int place(int j, int i) { return (j / (2 * VW) * 8 + lane() / 4) * 4 * VW + j % (2 * VW) + i / 2 * 2 * VW; }
  static DEVICE u32 pair(float first, float second) { return packF16(first, second); }
  static DEVICE void loadQuery(Query& q, const bf16* x, bool in, int size) {
    Vec16 y[KC][2];
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++) {
      int d = c * 64 + lane() % 4 * 16;
      y[c][half] = loadOnce(x + d + half * 8, in && d < size);
    }
    if constexpr (SCALED) return round(q, y);
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++) {
      Vec16 h = bf16ToF16(y[c][half]);
      UNROLL for (int w = 0; w < 4; w++) q.x[c * 4 + half * 2 + w / 2][w % 2] = h.x[w];
    }
  }
  // round makes a head's query whole numbers of 16 bits, which int8 keys are multiplied with exactly: split into hi and lo int8, x[][0] the
  // high ones. Each word has four.
  static DEVICE void round(Query& q, const Vec16 (&y)[KC][2]) {
    float most = 1e-20f;
    auto number = [&](int i) { u32 v = y[i / 16][i / 8 % 2].x[i / 2 % 4]; return i % 2 ? high(v) : low(v); };
    UNROLL for (int i = 0; i < KC * 16; i++) most = maxf(most, __builtin_fabsf(number(i)));
    most = maxf(most, shuffleXor(most, 1));
    most = maxf(most, shuffleXor(most, 2));
    float to = 32512 / most;
    UNROLL for (int w = 0; w < KC * 4; w++) {
      u32 digits[2] = {0, 0};
      UNROLL for (int e = 0; e < 4; e++) {
        int n = (int)__builtin_rintf(number(w * 4 + e) * to), high = (n + 128) >> 8;
        digits[0] |= (high & 255) << 8 * e, digits[1] |= (n & 255) << 8 * e;
      }
      q.x[w][0] = digits[0], q.x[w][1] = digits[1];
    }
    UNROLL for (int i = 0; i < 2; i++) q.unit[i] = shuffleFrom(most, (lane() % 4 * 2 + i) * 4) / 32512;
  }
  static DEVICE KVAddresses<C> places(const Pages<C>& p, int kv) { return {p, kv, lane() % 4 * 16, lane() / 4, lane() / 4 * 4 * VW, lane() % 4 * 2}; }
  DEVICE void loadKeys(const KVAddresses<C>& p, int page, int token0, int size) {
    const u8* start = p.start(page);
    const u8* x = start + (p.key + p.in(token0) * p.kRow);
    UNROLL for (int half = 0; half < 2; half++) {
      UNROLL for (int c = 0; c < KC; c++) load<true>(k[c][half], x + half * 8 * p.kRow + c * 64, c * 64 + lane() % 4 * 16 < size);
      if (SCALED) kUnit[half] = *(const float*)(start + (p.kScale + p.in(token0) * 4) + half * 32);
    }
  }
  DEVICE void loadValues(const KVAddresses<C>& p, int page, int token0, int size) {
    const u8* start = p.start(page);
    const u8* x = start + (p.value + p.in(token0) * p.vRow);
    UNROLL for (int i = 0; i < 4; i++)
      UNROLL for (int b = 0; b < VB; b++) loadWords(v[i][b], x + (i % 2 + i / 2 * 8) * p.vRow + b * 32 * VW, b * 32 * VW + lane() / 4 * 4 * VW < size);
    // Scores are transposed: a lane has P of tokens g and g + 8.
    if (SCALED) UNROLL for (int half = 0; half < 2; half++) vUnit[half] = *(const float*)(start + (p.vScale + p.in(token0) * 4) + half * 32);
  }
  static DEVICE void loadWords(u32 (&w)[4], const u8* p, bool in) {
    asm volatile("{\n\t.reg .pred in;\n\tsetp.ne.b32 in, %5, 0;\n\t@in ld.global.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]) : "l"(p), "r"((int)in) : "memory");
  }
  static DEVICE void loadWords(u32 (&w)[2], const u8* p, bool in) {
    asm volatile("{\n\t.reg .pred in;\n\tsetp.ne.b32 in, %3, 0;\n\t@in ld.global.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2];\n\t}"
                 : "+r"(w[0]), "+r"(w[1]) : "l"(p), "r"((int)in) : "memory");
  }
  DEVICE void clearBehind(int n) {
    UNROLL for (int i = 0; i < 4; i++)
      if (lane() % 4 * 2 + i % 2 + i / 2 * 8 >= n) UNROLL for (int b = 0; b < VB; b++) UNROLL for (int w = 0; w < VW; w++) v[i][b][w] = 0;
    UNROLL for (int half = 0; half < 2; half++)
      if (lane() / 4 + half * 8 >= n) vUnit[half] = 0;
  }
  // score adds the products of 16 numbers of a head, or, exactly, of 32 int8.
  DEVICE void score(Scores& s, const Query& q, int i) {
    if constexpr (SCALED) {
      const Vec16 &x = k[i / 2][0], &y = k[i / 2][1];
      int w = i % 2 * 2;
      mmaS8(s.high, x.x[w], y.x[w], x.x[w + 1], y.x[w + 1], q.x[2 * i][0], q.x[2 * i + 1][0]);
      mmaS8(s.low, x.x[w], y.x[w], x.x[w + 1], y.x[w + 1], q.x[2 * i][1], q.x[2 * i + 1][1]);
    } else {
      u32 a = k[i / 4][0].x[i % 4], b = k[i / 4][1].x[i % 4];
      mmaF16(s.x, dequantise(a, false, C()), dequantise(b, false, C()), dequantise(a, true, C()), dequantise(b, true, C()), q.x[i][0], q.x[i][1]);
    }
  }
  DEVICE float scoreOf(const Scores& s, int i) const { return SCALED ? (float)(s.high[i] * 256 + s.low[i]) * kUnit[i / 2] : s.x[i]; }
  static DEVICE float unit(const Query& q, int head) { return SCALED ? q.unit[head] : UNIT<C>; }
  DEVICE float valueUnit(int half) const { return SCALED ? vUnit[half] : 1; }
  DEVICE void add(float (&o)[TILES][4], u32 b0, u32 b1) {
    UNROLL for (int b = 0; b < VB; b++) UNROLL for (int w = 0; w < VW / 2; w++) {
      u32 a[4][4]; // [operand][byte of the word]: two tokens side by side
      auto pairUp = [&](u32 (&to)[4], int i, int word) {
        u32 x = flipSigns(v[i][b][word], C()), y = flipSigns(v[i + 1][b][word], C());
        u32 first = __nvvm_prmt(x, y, 0x5140), second = __nvvm_prmt(x, y, 0x7362);
        to[0] = dequantise(first, false, C()), to[1] = dequantise(first, true, C()), to[2] = dequantise(second, false, C()), to[3] = dequantise(second, true, C());
      };
      pairUp(a[0], 0, w), pairUp(a[1], 0, w + VW / 2), pairUp(a[2], 2, w), pairUp(a[3], 2, w + VW / 2);
      UNROLL for (int n = 0; n < 4; n++) mmaF16(o[b * 2 * VW + w * 4 + n], a[0][n], a[1][n], a[2][n], a[3][n], b0, b1);
    }
  }
};
