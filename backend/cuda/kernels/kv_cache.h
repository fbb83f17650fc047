// The layout of a layer's paged KV cache, and its 8-bit element types.
#pragma once
#include "cuda.h"

struct f8 { u8 bits; };          // e4m3: a sign, 4 bits of exponent, 3 of mantissa
struct i8 { signed char bits; }; // 127ths of the largest magnitude of its head and token, whose scale lies beside

template <typename C> constexpr int SCALE_BYTES = 0;
template <> constexpr int SCALE_BYTES<i8> = 4;

// An e4m3's exponent and mantissa, shifted to those of an IEEE half, are 2⁻⁸ of its value, also below the smallest normal number.
constexpr float F8_UNIT = 256;

template <> DEVICE float toFloat(f8 v) {
  return (float)__builtin_bit_cast(f16, (u16)((v.bits & 0x80) << 8 | (v.bits & 0x7f) << 7)) * F8_UNIT;
}
template <> DEVICE float toFloat(i8 v) { return v.bits; }

// to nearest, ties to even; 448 is the largest
template <> DEVICE f8 fromFloat(float x) {
  u32 bits = __builtin_bit_cast(u32, x), sign = bits >> 24 & 0x80, a = bits & 0x7fffffff;
  float size = __builtin_bit_cast(float, a);
  if (!(size < 448)) return {(u8)(sign | (size != size ? 0x7f : 0x7e))};
  if (size < 1.0f / 64) return {(u8)(sign | (u32)__builtin_rintf(size * 512))};
  return {(u8)(sign | ((a + 0x7ffff + (a >> 20 & 1)) >> 20) - (120 << 3))};
}

// Pages is a paged KV cache: each page holds the keys of its tokens, [tokens][heads × kSize], and their scales, [heads][tokens], if its
// numbers have any; then the values likewise. A page has 2^shift tokens.
template <typename C> struct Pages {
  u8* cache;
  int heads, kSize, vSize, shift;

  DEVICE long part(int size) const { return (long)heads * (size * (int)sizeof(C) + SCALE_BYTES<C>) << shift; }
  DEVICE u8* keys(long page) const { return cache + page * (part(kSize) + part(vSize)); }
  DEVICE u8* values(long page) const { return keys(page) + part(kSize); }
  DEVICE int in(int token) const { return token & ((1 << shift) - 1); } // its place in its page
  DEVICE C* key(long page, int token, int head) const { return (C*)keys(page) + (in(token) * heads + head) * kSize; }
  DEVICE C* value(long page, int token, int head) const { return (C*)values(page) + (in(token) * heads + head) * vSize; }
  DEVICE float* keyScale(long page, int token, int head) const { return scale(keys(page), kSize, token, head); }
  DEVICE float* valueScale(long page, int token, int head) const { return scale(values(page), vSize, token, head); }
  DEVICE float* scale(u8* part, int size, int token, int head) const {
    return (float*)(part + ((long)heads * size << shift)) + (head << shift) + in(token);
  }
};
