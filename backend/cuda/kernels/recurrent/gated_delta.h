// What the kernels of the gated delta rule share (graph.GatedDelta).
#pragma once
#include "recurrent.h"

struct GatedDeltaParams {
  Step step;
  const void *x, *alpha, *beta; // [T, q∥k∥v], [T, valueHeads], [T, valueHeads]
  void* y;                      // [T, valueHeads × valueSize]
  float* states;                // [states][valueHeads][keySize][valueSize]
  const float *decay, *bias;    // [valueHeads]
  int keyHeads, keySize, valueHeads, valueSize;
  float scale; // of queries
  int tiled;   // 1: value head h is one of key head h mod keyHeads

  DEVICE int keyHead(int h) const { return tiled ? h % keyHeads : h / (valueHeads / keyHeads); }
  // logDecay is the logarithm of what is left of a state at row r.
  template <typename T> DEVICE float logDecay(int r, int h) const {
    return decay[h] * softplus(toFloat(((const T*)alpha)[(long)r * valueHeads + h]) + bias[h]);
  }
  template <typename T> DEVICE float rate(int r, int h) const { return sigmoid(toFloat(((const T*)beta)[(long)r * valueHeads + h])); }
};

constexpr float L2_EPS = 1e-6f; // graph.L2Eps

struct alignas(16) Four { float x[4]; };
