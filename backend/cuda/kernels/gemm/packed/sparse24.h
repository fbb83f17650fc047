// 2:4 sparse weights: what a lane holds of them, and the tensor cores' sparse products.
#pragma once
#include "../../wgmma_registers.h"
#include "formats.h"

// Numbers of 2:4 sparse rows, bf16, of which the tensor cores' sparse mma multiplies those stored; there is no raw, and dequantise is of its own. It has
// no scales: behind the numbers are their places.
struct Sparse24 {
  static constexpr int BYTES = 1152, SCALES = 1024, EACH = 16, SUBS = 1, RAW_BIAS = 0;
  static constexpr bool AFFINE = false;
  Vec16 numbers[2]; // of each block two of the four of columns 4t, and two of those 16 further
  Vec8 places;      // 16 bits of each block: of its first 16 columns in lanes of even t, of the last in the others
  template <typename From> DEVICE void load(From from) {
    UNROLL for (int v = 0; v < 2; v++) numbers[v] = from.four(v * 512 + lane() * 16);
    places = from.two(SCALES + lane() / 4 * EACH + lane() % 2 * 8);
  }
  DEVICE u32 pair(int block, int i) const { return numbers[block / 2].x[block % 2 * 2 + i]; }
  DEVICE float scale(int) const { return 1; }
};
template <> constexpr bool SPARSE<Sparse24> = true;

// SparseRows is 16 rows × 32 columns as sparse mma and wgmma take them: rows g and g + 8 of the first two columns' numbers, then of the last two's,
// and the places of both rows' numbers, which lanes with t 0 and 1 give for all four of a quad.
struct SparseRows {
  u32 a[4], places;
  DEVICE SparseRows() {}
  DEVICE SparseRows(const Sparse24& top, const Sparse24& bottom, int block)
      : a{top.pair(block, 0), bottom.pair(block, 0), top.pair(block, 1), bottom.pair(block, 1)},
        places(prmt(top.places.x[block / 2], bottom.places.x[block / 2], block % 2 ? 0x7632 : 0x5410)) {}
};

// mmaSparse is D[16×8] += A[16×32] × B[32×8], A 2:4 sparse. Lane 4g + t holds in b[i] B[8i + 2t, 8i + 2t + 1][g].
DEVICE void mmaSparse(float (&d)[4], const SparseRows& r, const u32 (&b)[4]) {
  asm volatile("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(r.a[0]), "r"(r.a[1]), "r"(r.a[2]), "r"(r.a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(r.places));
}

// wgmmaSparseRS is D[64 × N] (+)= A[64 × 32] × B[N × 32]' of 2:4 sparse A from registers, for N of 8 to 256; add 0 starts a new sum. b is the low word of B's
// shared-memory descriptor, whose high word never changes, so that it costs one uniform register.
#define WGMMA_SPARSE_RS(n, sums)                                                                                                          \
  DEVICE void wgmmaSparseRS(float (&d)[sums], const SparseRows& r, u32 b, int add) {                                                      \
    asm volatile("{\n\t.reg .b64 b;\n\t.reg .pred p;\n\tsetp.ne.b32 p, %[add], 0;\n\tmov.b64 b, {%[b], 0x40000040};\n\t"                   \
                 "wgmma.mma_async.sp.sync.aligned.m64n" #n "k32.f32.bf16.bf16 {" ACC_NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, b, %[e], 0, p, 1, 1, 0;\n\t}" \
                 : ACC_OPERANDS##sums("+f")                                                                                               \
                 : [a0] "r"(r.a[0]), [a1] "r"(r.a[1]), [a2] "r"(r.a[2]), [a3] "r"(r.a[3]), [e] "r"(r.places), [b] "r"(b), [add] "r"(add));  \
  }
WGMMA_SPARSE_RS(8, 4)
WGMMA_SPARSE_RS(16, 8)
WGMMA_SPARSE_RS(32, 16)
WGMMA_SPARSE_RS(64, 32)
WGMMA_SPARSE_RS(128, 64)
WGMMA_SPARSE_RS(256, 128)
