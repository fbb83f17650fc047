// The MmaOps (mma_ops.h) of 8-bit types: E4M3 accumulated in float32, INT8 accumulated in int32.
#pragma once
#include "../../sm90.h"

#if __CUDA_ARCH__ >= 900
// wgmma8bit is wgmma (sm90.h) of 32 8-bit numbers from each row.
#define WGMMA_8BIT(sum, kind, types, scales, n, sums)                                                                                      \
  DEVICE void wgmma8bit(sum (&d)[sums], u64 a, u64 b, int add) {                                                                          \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %[add], 0;\n\twgmma.mma_async.sync.aligned.m64n" #n "k32." types " {" ACC_NAMES##sums \
                 "}, %[a], %[b], p" scales ";\n\t}"                                                                                      \
                 : ACC_OPERANDS##sums(kind) : [a] "l"(a), [b] "l"(b), [add] "r"(add));                                                           \
  }
#define WGMMA_F8(n, sums) WGMMA_8BIT(float, "+f", "f32.e4m3.e4m3", ", 1, 1", n, sums)
#define WGMMA_I8(n, sums) WGMMA_8BIT(int, "+r", "s32.s8.s8", "", n, sums)
WGMMA_F8(16, 8)
WGMMA_F8(32, 16)
WGMMA_F8(64, 32)
WGMMA_F8(128, 64)
WGMMA_F8(256, 128)
WGMMA_I8(16, 8)
WGMMA_I8(32, 16)
WGMMA_I8(64, 32)
WGMMA_I8(128, 64)
WGMMA_I8(256, 128)
#endif

DEVICE void mmaS8(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// MmaI8 is INT8 in wgmma and mma.
struct MmaI8 {
  typedef int Accumulator;
  static constexpr bool SCALED = true;
#if __CUDA_ARCH__ >= 900
  template <int N> static DEVICE void multiply(int (&d)[N], u64 a, u64 b, int add) { wgmma8bit(d, a, b, add); }
  static DEVICE void fenceAccumulator(int& d) { asm volatile("" : "+r"(d)::"memory"); }
#endif
  static DEVICE void multiply(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { mmaS8(d, a0, a1, a2, a3, b0, b1); }
  static DEVICE float result(int sum, float w, float x) { return (float)sum * (w * x); }
};

#if __CUDA_ARCH__ >= 900
// WgmmaF8 is E4M3 in wgmma.
struct WgmmaF8 {
  typedef float Accumulator;
  static constexpr bool SCALED = true;
  template <int N> static DEVICE void multiply(float (&d)[N], u64 a, u64 b, int add) { wgmma8bit(d, a, b, add); }
  static DEVICE void fenceAccumulator(float& d) { asm volatile("" : "+f"(d)::"memory"); }
  static DEVICE float result(float sum, float w, float x) { return sum * (w * x); }
};
#endif

// MmaF8 is E4M3 in mma.sync, which Ampere lacks and Hopper emulates by the one for IEEE halves: so numbers are converted to halves first. Which
// two of four numbers share a register does not matter as long as both matrices do it alike.
struct MmaF8 {
  typedef float Accumulator;
  static constexpr bool SCALED = true;
  static DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    mmaF16(d, first(a0), first(a1), second(a0), second(a1), first(b0), second(b0));
    mmaF16(d, first(a2), first(a3), second(a2), second(a3), first(b1), second(b1));
  }
#if __CUDA_ARCH__ >= 900
  static DEVICE u32 toF16x2(u32 two) {
    u32 y;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)two));
    return y;
  }
  static DEVICE u32 first(u32 v) { return toF16x2(v); }
  static DEVICE u32 second(u32 v) { return toF16x2(v >> 16); }
  static DEVICE float result(float sum, float w, float x) { return sum * (w * x); }
#else
  // Shifted by a bit, exponent and mantissa are those of 2⁻⁸ times the number, also below the smallest normal one.
  static DEVICE u32 first(u32 v) { return (v << 7 & 0x3f803f80) | (v << 8 & 0x80008000); }
  static DEVICE u32 second(u32 v) { return (v >> 1 & 0x3f803f80) | (v & 0x80008000); }
  static DEVICE float result(float sum, float w, float x) { return sum * (w * x * 65536); }
#endif
};
