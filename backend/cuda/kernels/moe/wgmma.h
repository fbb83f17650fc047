// wgmma of 64 rows of weights with 32 to 256 slots, 16 columns deep: D[64 × N] += A[64 × 16] × B[N × 16]', bf16 in and float32 out.
// B is in shared memory; A too (SS), or in registers with mma's fragment layout (RS). Thread 32w + 4g + t of the warpgroup holds in d[4j + i] row 16w + g + 8(i/2),
// column 8j + 2t + i%2.
#pragma once
#include "../sm90.h"

// smemDescriptorNoSwizzle is the descriptor of a K-major tile in shared memory without swizzle: core matrices of eight rows × eight columns, 128 bytes each; the
// next eight columns follow, the next eight rows are `rows` bytes further, and the next k16 is 256 bytes further.
DEVICE u64 smemDescriptorNoSwizzle(u32 address, u64 rows) { return (u64)((address & 0x3ffff) >> 4) | 8ull << 16 | rows >> 4 << 32; }

// Both forms of one width: N slots, N / 2 accumulators a thread.
#define WGMMA_SS_RS(n, sums)                                                                                                                   \
  DEVICE void multiply(float (&d)[sums], u64 a, u64 b) {                                                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" ACC_NAMES##sums "}, %[a], %[b], 1, 1, 1, 0, 0;"                   \
                 : ACC_OPERANDS##sums("+f") : [a] "l"(a), [b] "l"(b));                                                                              \
  }                                                                                                                                         \
  DEVICE void multiply(float (&d)[sums], const u32 (&a)[4], u64 b) {                                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" ACC_NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, %[b], 1, 1, 1, 0;" \
                 : ACC_OPERANDS##sums("+f") : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "l"(b));                          \
  }
WGMMA_SS_RS(32, 16)
WGMMA_SS_RS(64, 32)
WGMMA_SS_RS(96, 48)
WGMMA_SS_RS(128, 64)
WGMMA_SS_RS(160, 80)
WGMMA_SS_RS(192, 96)
WGMMA_SS_RS(224, 112)
WGMMA_SS_RS(256, 128)
