// Dequantisation in registers, as the A operand of wgmma: a Dequantiser gives the weights of a block, rounded to bf16, less a factor of FACTOR that
// goes on the accumulators. As pairs of bf16, the first two those of the block's first 16 columns.
#pragma once
#include "../../wgmma_registers.h"
#include "formats.h"
#include "sparse24.h"

template <typename Q> struct Dequantiser {
  static constexpr float FACTOR = 1;
  const Q& q;
  DEVICE Dequantiser(const Q& q) : q(q) {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const { dequantise(q, block, pairs); }
};

DEVICE u32 mulPair(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// twice is one of a pair, I, in both halves.
template <int I> DEVICE u32 twice(u32 pair) {
  u32 d;
  if (I) asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h};}" : "=r"(d) : "r"(pair));
  else asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l};}" : "=r"(d) : "r"(pair));
  return d;
}
DEVICE constexpr u32 both(u32 bits) { return bits << 16 | bits; }

// Shift is scales times the powers of two with which one fma makes weights of the bits of codes alone. A code c in the last bits of a
// bf16 whose others are zeros stands for c × 2^-133, four bits higher for c × 2^-129, also where its highest bit is the exponent's
// lowest. So c × 2^-133 × (scale × 2^111) - MIDDLE × scale × 2^-22 is the weight times 2^-22, rounded once; the largest scale, 2^16, overflows
// nowhere.
template <int MIDDLE> struct Shift {
  static constexpr float FACTOR = 1 << 22;
  u32 lowest, higher, less; // of codes in the last bits, and of those four bits higher; what an fma adds
  DEVICE Shift(u32 halves) { // two scales
    u32 scales = pack(f16ToFloat(halves, 0), f16ToFloat(halves, 1));
    lowest = mulPair(scales, both(0x7700)), higher = mulPair(scales, both(0x7500));
    less = mulPair(scales, both(MIDDLE == 8 ? 0xb600 : 0xb700)); // -MIDDLE × 2^-22
  }
};

// dequantiseU4 gives a block's weights of 4-bit codes.
DEVICE void dequantiseU4(u32 codes, u32 lowest, u32 higher, u32 less, u32 (&pairs)[4]) {
  u32 next = codes >> 8;
  pairs[0] = fmaPair(codes & 0x000f000f, lowest, less), pairs[1] = fmaPair(codes & 0x00f000f0, higher, less);
  pairs[2] = fmaPair(next & 0x000f000f, lowest, less), pairs[3] = fmaPair(next & 0x00f000f0, higher, less);
}

template <> struct Dequantiser<U4> {
  static constexpr float FACTOR = Shift<8>::FACTOR;
  const U4& q;
  Shift<8> of[2]; // two blocks each
  DEVICE Dequantiser(const U4& q) : q(q), of{q.scales.x[0], q.scales.x[1]} {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const {
    const Shift<8>& s = of[block / 2];
    if (block % 2) dequantiseU4(q.codes.x[block], twice<1>(s.lowest), twice<1>(s.higher), twice<1>(s.less), pairs);
    else dequantiseU4(q.codes.x[block], twice<0>(s.lowest), twice<0>(s.higher), twice<0>(s.less), pairs);
  }
};

template <> struct Dequantiser<U4PerUnit> {
  static constexpr float FACTOR = Shift<8>::FACTOR;
  const U4PerUnit& q;
  Shift<8> all;
  DEVICE Dequantiser(const U4PerUnit& q) : q(q), all(both(q.one)) {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const { dequantiseU4(q.codes.x[block], all.lowest, all.higher, all.less, pairs); }
};

template <> struct Dequantiser<U6> {
  static constexpr float FACTOR = Shift<32>::FACTOR;
  const U6& q;
  Shift<32> of[4]; // a block each: two scales
  DEVICE Dequantiser(const U6& q) : q(q), of{q.scales.x[0], q.scales.x[1], q.scales.x[2], q.scales.x[3]} {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const {
    const Shift<32>& s = of[block];
    UNROLL for (int i = 0; i < 4; i++) {
      u32 low = q.codes.x[block] >> (4 * i) & 0x000f000f;
      u32 code = maskOr(U6::moved(q.high.x[block / 2], i / 2 * 8 + block % 2 * 4 + i % 2 * 2, 4), 0x00300030, low);
      pairs[i] = fmaPair(code, i / 2 ? twice<1>(s.lowest) : twice<0>(s.lowest), i / 2 ? twice<1>(s.less) : twice<0>(s.less));
    }
  }
};

// wgmmaRS is D[64 × N] += A[64 × 16] × B[N × 16]', for N of 8 to 256, A from registers as mma's; b is the low word of the shared-memory descriptor,
// whose high word never changes, so that it costs one uniform register.
#define WGMMA_RS(n, sums)                                                                                                              \
  DEVICE void wgmmaRS(float (&d)[sums], const u32 (&a)[4], u32 b) {                                                                   \
    asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%[b], 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" \
                 ACC_NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, b, 1, 1, 1, 0;\n\t}"                                                     \
                 : ACC_OPERANDS##sums("+f") : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "r"(b));                   \
  }
WGMMA_RS(8, 4)
WGMMA_RS(16, 8)
WGMMA_RS(32, 16)
WGMMA_RS(64, 32)
WGMMA_RS(128, 64)
WGMMA_RS(256, 128)

template <> struct Dequantiser<Sparse24> { static constexpr float FACTOR = 1; }; // there is nothing to do
