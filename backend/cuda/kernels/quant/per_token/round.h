// Per-token quantisation to 8 bits: the scale maps a row's largest magnitude to the format's largest.
#pragma once
#include "../../kv_cache.h"

// The value that a row's largest magnitude is mapped to.
template <typename C> constexpr float TOP = 448;
template <> constexpr float TOP<i8> = 127;

constexpr float NOTHING = 0x1p-116f; // a row whose largest number is smaller has no inverse scale and is zeros

template <> DEVICE i8 fromFloat(float x) {
  int n;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(n) : "f"(x));
  return {(signed char)n};
}

// maxNaN is the larger of two, or NaN if either is NaN, so that NaN propagates.
DEVICE float maxNaN(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// four rounds four numbers; the first is the lowest byte.
template <typename C> DEVICE u32 four(const float* v, float inverse) {
  u32 y = 0;
#if __CUDA_ARCH__ >= 900
  if (TOP<C> == 448) {
    u16 low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(v[1] * inverse), "f"(v[0] * inverse));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(v[3] * inverse), "f"(v[2] * inverse));
    return low | (u32)high << 16;
  }
#endif
  UNROLL for (int i = 0; i < 4; i++) y |= (u32)(u8)fromFloat<C>(v[i] * inverse).bits << (8 * i);
  return y;
}

struct alignas(8) Codes8 { u32 x[2]; };
template <typename C> DEVICE Codes8 round8(const float (&v)[8], float inverse) { return {four<C>(v, inverse), four<C>(v + 4, inverse)}; }

// blockMax is the largest number of a block's threads, up to 1024; every thread gets it.
DEVICE float blockMax(float v, float* scratch32) {
  UNROLL for (int m = 16; m > 0; m /= 2) v = maxNaN(v, shuffleXor(v, m));
  if (lane() == 0) scratch32[warp()] = v;
  barrier();
  v = lane() < threads() / 32 ? scratch32[lane()] : 0;
  UNROLL for (int m = 16; m > 0; m /= 2) v = maxNaN(v, shuffleXor(v, m));
  return v;
}

template <typename C> DEVICE float inverseScale(float largest) { return largest < NOTHING ? 0 : TOP<C> / largest; }
