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
// replaces. The blocks of 16 on the diagonal are inverted by a thread for each column. Of two blocks on the diagonal and the one A below them comes the
// inverse of all, whose block below is -X[2] A X[1]: of 32 rows by each of the two warps, and then of 64 by both, by tensor cores. id: a barrier of the
// block that is theirs.
DEVICE void invert(u8* m, float (*a)[A_LINE], const float* rate, int thread, int id, int threads = 64) {
  auto together = [&]() __attribute__((always_inline)) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); };
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
  warpBarrier();
  // times adds 16 rows from `row` and 8 columns from `column` of a, times b.
  auto times = [&](float (&d)[4], int row, int column, const float (&b)[2]) __attribute__((always_inline)) {
    mmaTF32(d, {a[row + g][column + t], a[row + g + 8][column + t], a[row + g][column + t + 4], a[row + g + 8][column + t + 4]}, b[0], b[1]);
  };
  auto rowsOf = [&](float (&b)[2], int row, int column) __attribute__((always_inline)) { b[0] = a[row + t][column + g], b[1] = a[row + t + 4][column + g]; };
  // turned makes rows 8k to 8k+7 of a sum a second operand.
  auto turned = [&](float (&b)[2], const float (&sum)[4], int k) __attribute__((always_inline)) {
    UNROLL for (int e = 0; e < 2; e++) {
      int from = (t + 4 * e) * 4 + g / 2;
      float even = shuffleFrom(sum[2 * k], from), odd = shuffleFrom(sum[2 * k + 1], from);
      b[e] = g % 2 ? odd : even;
    }
  };
  auto store = [&](const float (&x)[4], int row, int column) __attribute__((always_inline)) {
    UNROLL for (int e = 0; e < 4; e++) a[row + g + e / 2 * 8][column + 2 * t + e % 2] = -x[e];
  };
  {
    int at = 32 * half;
    float x[2][4] = {}, b[2];
    UNROLL for (int n = 0; n < 2; n++) {
      float sum[4] = {};
      UNROLL for (int k = 0; k < 2; k++) rowsOf(b, at + 8 * k, at + 8 * n), times(sum, at + 16, at + 8 * k, b);
      UNROLL for (int k = 0; k < 2; k++) turned(b, sum, k), times(x[n], at + 16, at + 16 + 8 * k, b);
    }
    warpBarrier();
    UNROLL for (int n = 0; n < 2; n++) store(x[n], at + 16, at + 8 * n);
  }
  together();
  float x[2][2][4] = {};
  UNROLL for (int i = 0; i < 2; i++) { // columns 16i + 8 half to 16i + 8 half + 7
    float sum[2][4] = {}, b[2];
    UNROLL for (int k = 2 * i; k < 4; k++) {
      rowsOf(b, 8 * k, 16 * i + 8 * half);
      UNROLL for (int r = 0; r < 2; r++) times(sum[r], 32 + 16 * r, 8 * k, b);
    }
    UNROLL for (int k = 0; k < 4; k++) {
      turned(b, sum[k / 2], k % 2);
      UNROLL for (int r = k / 2; r < 2; r++) times(x[i][r], 32 + 16 * r, 32 + 8 * k, b);
    }
  }
  together(); // A has been read
  UNROLL for (int i = 0; i < 2; i++) UNROLL for (int r = 0; r < 2; r++) store(x[i][r], 32 + 16 * r, 16 * i + 8 * half);
  together();
  int column = thread % 8 * 8; // of the thread's 16 bytes of eight rows
  float rates[8];
  UNROLL for (int e = 0; e < 8; e++) rates[e] = rate[column + e];
#pragma unroll 4
  for (int n = 0; n < 8; n++) {
    int row = 8 * n + thread / 8;
    Four x[2] = {*(const Four*)&a[row][column], *(const Four*)&a[row][column + 4]};
    Vec16 y;
    UNROLL for (int e = 0; e < 8; e++) {
      float& v = x[e / 4].x[e % 4];
      v = column + e <= row ? v * rates[e] : 0;
    }
    UNROLL for (int e = 0; e < 4; e++) y.x[e] = pack(x[e / 2].x[e % 2 * 2], x[e / 2].x[e % 2 * 2 + 1]);
    *(Vec16*)(m + swizzled(row, column / 8)) = y;
  }
}
