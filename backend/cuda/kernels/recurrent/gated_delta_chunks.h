// What the preparation of chunks of the gated delta rule shares: the inverse of I + A, for a decay of each head and of each number of a key.
#pragma once
#include "chunk_prepare.h"
#include "gated_delta.h"

struct DeltaChunksParams {
  DeltaParams delta;
  u8* scratch; // [chunks][valueHeads] of Layout::PREPARED_BYTES
};

constexpr int A_LINE = CHUNK + 4; // floats of a row of A

// mmaTF32 is D[16×8] += A[16×8] × B[8×8] in tf32, float32 with 10 bits behind the point. Lane 4g + t holds A[g][t], A[g+8][t], A[g][t+4], A[g+8][t+4],
// B[t][g], B[t+4][g], and D as mma does.
DEVICE void mmaTF32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  u32 x[6];
  UNROLL for (int i = 0; i < 6; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(i < 4 ? a[i] : i == 4 ? b0 : b1));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));
}

// invert makes M = (I + A)⁻¹ diag(β) by 64 threads, of A in shared memory, of which what is not below the diagonal is not read and which the inverse
// replaces. The blocks of 16 on the diagonal are inverted by a thread for each column; then, from one row of blocks to the next,
//   X[i][j] = -X[i][i] Σ A[i][k] X[k][j]   (j ≤ k < i)
// by tensor cores, a warp every second tile of eight columns. id: a barrier of the block that is theirs.
DEVICE void invert(u8* m, float (*a)[A_LINE], const float* rate, int thread, int id) {
  auto together = [&]() __attribute__((always_inline)) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); };
  int g = lane() / 4, t = lane() % 4, half = thread / 32;
  {
    float(*d)[A_LINE] = a + thread / 16 * 16, x[16];
    int column = thread % 16, first = thread / 16 * 16;
    UNROLL for (int i = 0; i < 16; i++) {
      x[i] = i == column ? 1 : 0;
      UNROLL for (int k = 0; k < i; k += 4) {
        Four row = *(const Four*)&d[i][first + k];
        UNROLL for (int e = 0; e < 4; e++)
          if (k + e < i) x[i] -= row.x[e] * x[k + e];
      }
    }
    warpBarrier();
    UNROLL for (int i = 0; i < 16; i++) d[i][thread] = x[i];
  }
  together();
#pragma unroll 1
  for (int i = 1; i < CHUNK / 16; i++) {
    float result[3][4];
    int row = 16 * i + g;
    UNROLL for (int n = 0; n < 3; n++) {
      int column = 8 * (2 * n + half);
      float sum[4] = {}, x[4] = {};
      if (n < i) {
        for (int k = column / 16 * 16; k < 16 * i; k += 8)
          mmaTF32(sum, {a[row][k + t], a[row + 8][k + t], a[row][k + t + 4], a[row + 8][k + t + 4]}, a[k + t][column + g], a[k + t + 4][column + g]);
        UNROLL for (int k = 0; k < 2; k++) { // rows of the sum become those of a second operand
          float b[2];
          UNROLL for (int e = 0; e < 2; e++) {
            int from = (t + 4 * e) * 4 + g / 2;
            float even = shuffleFrom(sum[2 * k], from), odd = shuffleFrom(sum[2 * k + 1], from);
            b[e] = g % 2 ? odd : even;
          }
          int at = 16 * i + 8 * k + t;
          mmaTF32(x, {a[row][at], a[row + 8][at], a[row][at + 4], a[row + 8][at + 4]}, b[0], b[1]);
        }
      }
      UNROLL for (int e = 0; e < 4; e++) result[n][e] = -x[e];
    }
    together(); // this row of A has been read
    UNROLL for (int n = 0; n < 3; n++) UNROLL for (int e = 0; e < 4; e++)
      if (n < i) a[row + e / 2 * 8][8 * (2 * n + half) + 2 * t + e % 2] = result[n][e];
    together();
  }
#pragma unroll 2
  for (int n = 0; n < CHUNK / 8; n++) {
    int at = n * CHUNK + thread, row = at / 8, column = at % 8 * 8;
    Vec16 x;
    UNROLL for (int e = 0; e < 4; e++) {
      int c = column + 2 * e;
      x.x[e] = pack(c <= row ? a[row][c] * rate[c] : 0, c + 1 <= row ? a[row][c + 1] * rate[c + 1] : 0);
    }
    *(Vec16*)(m + swizzled(row, column / 8)) = x;
  }
}
