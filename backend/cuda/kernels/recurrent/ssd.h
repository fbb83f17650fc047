// What the kernels of Mamba 2's state space layer share (graph.SSD).
#pragma once
#include "recurrent.h"

struct SSDParams {
  Step step;
  const void *x, *dt;               // [T, x∥B∥C], [T, heads]
  void* y;                          // [T, heads × headSize]
  float* states;                    // [states][heads][headSize][stateSize]
  const float *decay, *bias, *skip; // [heads]
  int heads, headSize, groups, stateSize;
  float minStep, maxStep; // of Δ
  int onlyOnes, unused; // 1: sequences with several new tokens are another kernel's

  // delta is Δ of a head at row r.
  template <typename T> DEVICE float delta(int r, int h) const {
    return maxf(minf(softplus(toFloat(((const T*)dt)[(long)r * heads + h]) + bias[h]), maxStep), minStep);
  }
};
