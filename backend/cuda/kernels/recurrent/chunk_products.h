// Products of 64 rows that a warpgroup holds in registers with matrices in shared memory: wgmma on Hopper, mma.sync elsewhere. Warp w of the four has rows
// 16w to 16w+15, held as mma holds its first operand; sums are held as mma holds them, in d[4j + e] those of columns 8j to 8j+7. Matrices lie in panels of
// 64 columns: lines of 128 bytes, whose chunk c of 16 bytes is at c ^ (line % 8), as swizzle mode 1 of wgmma has it.
#pragma once
#include "../swizzle.h"

template <int N> DEVICE float (&quad(float (&x)[N], int j))[4] { return *(float(*)[4])&x[4 * j]; }

#if __CUDA_ARCH__ >= 900
// wgmmaRS is D[64 × N] (+)= A[64 × 16] × B[N × 16]', A from registers and B K-major.
#define WGMMA_RS(n, sums)                                                                                                        \
  DEVICE void wgmmaRS(float (&d)[sums], const u32 (&a)[4], u64 b, int add) {                                                     \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %[add], 0;\n\twgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 "  \
                 "{" ACC_NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, %[b], p, 1, 1, 0;\n\t}"                                      \
                 : ACC_OPERANDS##sums("+f") : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "l"(b), [add] "r"(add)); \
  }
WGMMA_RS(64, 32)

DEVICE void startProducts() { wgmmaFence(); }
DEVICE void commitProducts() { wgmmaCommit(); }
// waitProducts waits until all but the last N committed groups of products are there; sums of the others may be read behind it.
template <int N> DEVICE void waitProducts() { wgmmaWait<N>(); }
template <int N> DEVICE void settle(float (&x)[N]) { UNROLL for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory"); }

// productRows is D[64 × N] (+)= A[64 × 16K] × B[N × 16K]': the lines of B are its rows, panels are `panel` bytes apart.
template <int N, int K> DEVICE void productRows(float (&d)[N], const u32 (&a)[K][4], u32 b, int panel, bool add) {
  UNROLL for (int k = 0; k < K; k++) wgmmaRS(d, a[k], smemDescriptor(b + k / 4 * panel) + k % 4 * 2, add || k > 0);
}
// productLines is D[64 × N] += A[64 × 16K] × B[16K × N]: the lines of B are its rows, each N numbers in N/64 panels.
template <int N, int K> DEVICE void productLines(float (&d)[N], const u32 (&a)[K][4], u32 b, int panel) {
  u64 at = smemDescriptorTrans(b, panel);
  UNROLL for (int k = 0; k < K; k++) wgmmaRSTrans(d, a[k][0], a[k][1], a[k][2], a[k][3], at + k * 2048 / 16);
}
#else
DEVICE void startProducts() {}
DEVICE void commitProducts() {}
template <int N> DEVICE void waitProducts() {}
template <int N> DEVICE void settle(float (&)[N]) {}

template <int N, int K> DEVICE void productRows(float (&d)[N], const u32 (&a)[K][4], u32 b, int panel, bool add) {
  if (!add) UNROLL for (int i = 0; i < N; i++) d[i] = 0;
  UNROLL for (int k = 0; k < K; k++) UNROLL for (int n = 0; n < N / 8; n++) {
    u32 y[4];
    ldmatrix4(y, b + k / 4 * panel + swizzled(16 * n + lane() / 16 * 8 + lane() % 8, k % 4 * 2 + lane() / 8 % 2));
    mma(quad(d, 2 * n), a[k][0], a[k][1], a[k][2], a[k][3], y[0], y[1]);
    mma(quad(d, 2 * n + 1), a[k][0], a[k][1], a[k][2], a[k][3], y[2], y[3]);
  }
}
template <int N, int K> DEVICE void productLines(float (&d)[N], const u32 (&a)[K][4], u32 b, int panel) {
  UNROLL for (int k = 0; k < K; k++) UNROLL for (int n = 0; n < N / 8; n++) {
    u32 y[4];
    ldmatrix4Trans(y, b + n / 4 * panel + swizzled(16 * k + lane() % 16, n % 4 * 2 + lane() / 16));
    mma(quad(d, 2 * n), a[k][0], a[k][1], a[k][2], a[k][3], y[0], y[1]);
    mma(quad(d, 2 * n + 1), a[k][0], a[k][1], a[k][2], a[k][3], y[2], y[3]);
  }
}
#endif

// operand is sums as the first operand of a product: of 16 columns, those of tiles 2k and 2k+1.
template <int N> DEVICE void operand(u32 (&a)[4], const float (&d)[N], int k) {
  UNROLL for (int e = 0; e < 4; e++) a[e] = pack(d[8 * k + 2 * e], d[8 * k + 2 * e + 1]);
}
