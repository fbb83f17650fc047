// What the kernels of products for each head share (graph.HeadLinear).
#pragma once
#include "../../cuda.h"

struct HeadsParams {
  const void* x; // [rows, heads × size]
  const void* w; // [heads, n, k]
  void* y;       // [rows, heads × width]
  int rows, heads, size, width, n, k, rest; // the last `rest` numbers of a head are copied
  int unused;
};

// copyRest16 copies the numbers of rows that are not multiplied, by the threads of a block, where all sizes of heads are multiples of 16 bytes. Loads of several
// lines are in flight: one by one they took three times as long as the products.
DEVICE void copyRest16(const HeadsParams& p, int h, int row0, int rows) {
  constexpr int LINES = 4;
  int chunks = p.rest / 8, all = mini(rows, p.rows - row0) * chunks;
  for (int first = threadX(); first < all; first += LINES * threads()) {
    u32 v[LINES][4];
    UNROLL for (int e = 0; e < LINES; e++) {
      int i = mini(first + e * threads(), all - 1);
      const Vec16* from = (const Vec16*)((const bf16*)p.x + ((long)(row0 + i / chunks) * p.heads + h) * p.size + p.k + i % chunks * 8);
      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v[e][0]), "=r"(v[e][1]), "=r"(v[e][2]), "=r"(v[e][3]) : "l"(from));
    }
    UNROLL for (int e = 0; e < LINES; e++) {
      int i = first + e * threads();
      if (i < all) *(Vec16*)((bf16*)p.y + ((long)(row0 + i / chunks) * p.heads + h) * p.width + p.n + i % chunks * 8) = {v[e][0], v[e][1], v[e][2], v[e][3]};
    }
  }
}

// copyRest copies the numbers of rows that are not multiplied, by the threads of a block.
template <typename T> DEVICE void copyRest(const HeadsParams& p, int h, int row0, int rows) {
  for (int i = threadX(); i < rows * p.rest; i += threads()) {
    int m = row0 + i / p.rest, e = i % p.rest;
    if (m < p.rows) ((T*)p.y)[((long)m * p.heads + h) * p.width + p.n + e] = ((const T*)p.x)[((long)m * p.heads + h) * p.size + p.k + e];
  }
}
