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

// copyRest copies the numbers of rows that are not multiplied, by the threads of a block.
template <typename T> DEVICE void copyRest(const HeadsParams& p, int h, int row0, int rows) {
  for (int i = threadX(); i < rows * p.rest; i += threads()) {
    int m = row0 + i / p.rest, e = i % p.rest;
    if (m < p.rows) ((T*)p.y)[((long)m * p.heads + h) * p.width + p.n + e] = ((const T*)p.x)[((long)m * p.heads + h) * p.size + p.k + e];
  }
}
