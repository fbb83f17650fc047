// What the preparation of chunks of the gated delta rule shares: the inverse of I + A, for a decay of each head and of each number of a key.
#pragma once
#include "chunk_prepare.h"
#include "gated_delta.h"

struct DeltaChunksParams {
  DeltaParams delta;
  u8* scratch; // [chunks][valueHeads] of Layout::PREPARED_BYTES
};

constexpr int A_LINE = CHUNK + 4; // floats of a row of A

// invert puts a column of M = (I + A)⁻¹ diag(β) where it belongs, of A [64][A_LINE] in shared memory, of which what is not below the diagonal is not read.
DEVICE void invert(u8* m, const float (*a)[A_LINE], int column, float rate) {
  float x[CHUNK];
  UNROLL for (int i = 0; i < CHUNK; i++) {
    float sum[4] = {i == column ? 1.0f : 0.0f, 0, 0, 0};
    UNROLL for (int k = 0; k < i; k += 4) {
      Four row = *(const Four*)&a[i][k];
      UNROLL for (int e = 0; e < 4; e++)
        if (k + e < i) sum[e] -= row.x[e] * x[k + e];
    }
    x[i] = sum[0] + sum[1] + (sum[2] + sum[3]);
    ((bf16*)(m + swizzled(i, column / 8)))[column % 8] = fromFloat<bf16>(x[i] * rate);
  }
}
