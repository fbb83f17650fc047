// How a warp reads and multiplies 16 keys and values of a cache of eight-bit numbers.
#pragma once
#include "halves.h"

// opened makes IEEE halves of the two eight-bit numbers in the low or the high half of x. What e4m3 becomes is UNIT times too small
// where there is no instruction for it. The signs of int8 have been turned: such a byte is its number + 128, and the low bits of
// a half of 1024 + 128 + its number.
template <typename C> constexpr float UNIT = 1;
#if __CUDA_ARCH__ < 900
template <> constexpr float UNIT<f8> = F8_UNIT;
#endif
DEVICE u32 opened(u32 x, bool high, i8) {
  u32 y = __nvvm_prmt(x, 0x64646464, high ? 0x4342 : 0x4140);
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y) : "r"(0x64806480));
  return y;
}
DEVICE u32 opened(u32 x, bool high, f8) {
#if __CUDA_ARCH__ >= 900
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)(high ? x >> 16 : x)));
  return y;
#else
  u32 y = __nvvm_prmt(x, 0, high ? 0x3424 : 0x1404);
  return (y >> 1 & 0x3f803f80) | (y & 0x80008000);
#endif
}
DEVICE u32 turned(u32 x, i8) { return x ^ 0x80808080; }
DEVICE u32 turned(u32 x, f8) { return x; }

// Bytes are caches of eight-bit numbers, which the tensor cores get as IEEE halves. KC × 64 and VB × 32 × VW are the head sizes
// there is room for; VW is how many words of a value a lane takes at a time.
template <typename C, int KC, int VB, int VW> struct Bytes {
  using Number = C;
  static constexpr bool SCALED = SCALE_BYTES<C>;
  static constexpr int PARTS = KC > 2 ? 1 : 2, PRODUCTS = KC * 4, TILES = VB * 2 * VW, WIDTH = VB * 32 * VW;
  struct Query { u32 x[KC * 4][2]; };
  struct Fresh {}; // keys and values are rounded to eight bits elsewhere
  u32 v[4][VB][VW];
  Vec16 k[KC][2];
  float kUnit[2], vUnit[4];

  static DEVICE int place(int j, int i) { return (j / (2 * VW) * 8 + lane() / 4) * 4 * VW + j % (2 * VW) + i / 2 * 2 * VW; }
  static DEVICE u32 pair(float first, float second) { return packHalf(first, second); }
  static DEVICE void loadQuery(Query& q, const bf16* x, bool in, int size) {
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++) {
      int d = c * 64 + lane() % 4 * 16;
      Vec16 y = asHalf(loadOnce(x + d + half * 8, in && d < size));
      UNROLL for (int w = 0; w < 4; w++) q.x[c * 4 + half * 2 + w / 2][w % 2] = y.x[w];
    }
  }
  DEVICE void loadKeys(const Pages<C>& p, int page, int token0, int kv, int length) {
    int token = token0 + lane() / 4, d = lane() % 4 * 16;
    const C* x = p.key(page, token, kv) + d;
    UNROLL for (int half = 0; half < 2; half++) {
      bool in = token + half * 8 < length;
      UNROLL for (int c = 0; c < KC; c++) k[c][half] = loadPart(x + half * 8 * p.heads * p.kSize + c * 64, in && c * 64 + d < p.kSize);
      kUnit[half] = SCALED && in ? *p.keyScale(page, token + half * 8, kv) : 0;
    }
  }
  DEVICE void loadValues(const Pages<C>& p, int page, int token0, int kv, int length) {
    int d = lane() / 4 * 4 * VW;
    const C* x = p.value(page, token0, kv) + d;
    UNROLL for (int i = 0; i < 4; i++) {
      int token = lane() % 4 * 2 + (i & 1) + (i / 2) * 8;
      bool in = token0 + token < length;
      UNROLL for (int b = 0; b < VB; b++) loadWords(v[i][b], x + token * p.heads * p.vSize + b * 32 * VW, in && b * 32 * VW + d < p.vSize);
    }
    // Scores are transposed: a lane weighs tokens g and g + 8.
    if (SCALED) UNROLL for (int half = 0; half < 2; half++) {
      int token = token0 + lane() / 4 + half * 8;
      vUnit[half] = token < length ? *p.valueScale(page, token, kv) : 0;
    }
  }
  static DEVICE void loadWords(u32 (&w)[4], const void* p, bool in) {
    Vec16 x = loadPart(p, in);
    UNROLL for (int i = 0; i < 4; i++) w[i] = x.x[i];
  }
  static DEVICE void loadWords(u32 (&w)[2], const void* p, bool in) {
    w[0] = w[1] = 0;
    if (in) asm volatile("ld.global.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p) : "memory");
  }
  DEVICE void score(float (&s)[4], const Query& q, int i) {
    u32 a = turned(k[i / 4][0].x[i % 4], C()), b = turned(k[i / 4][1].x[i % 4], C());
    mmaHalf(s, opened(a, false, C()), opened(b, false, C()), opened(a, true, C()), opened(b, true, C()), q.x[i][0], q.x[i][1]);
  }
  DEVICE float keyUnit(int half) const { return SCALED ? kUnit[half] : UNIT<C>; }
  DEVICE float valueUnit(int half) const { return SCALED ? vUnit[half] : 1; }
  DEVICE void add(float (&o)[TILES][4], u32 b0, u32 b1) {
    UNROLL for (int b = 0; b < VB; b++) UNROLL for (int w = 0; w < VW / 2; w++) {
      u32 a[4][4]; // [operand][byte of the word]: two tokens side by side
      auto both = [&](u32 (&to)[4], int i, int word) {
        u32 x = turned(v[i][b][word], C()), y = turned(v[i + 1][b][word], C());
        u32 first = __nvvm_prmt(x, y, 0x5140), second = __nvvm_prmt(x, y, 0x7362);
        to[0] = opened(first, false, C()), to[1] = opened(first, true, C()), to[2] = opened(second, false, C()), to[3] = opened(second, true, C());
      };
      both(a[0], 0, w), both(a[1], 0, w + VW / 2), both(a[2], 2, w), both(a[3], 2, w + VW / 2);
      UNROLL for (int n = 0; n < 4; n++) mmaHalf(o[b * 2 * VW + w * 4 + n], a[0][n], a[1][n], a[2][n], a[3][n], b0, b1);
    }
  }
};
