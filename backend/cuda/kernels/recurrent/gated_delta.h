// What the kernels of the gated delta rule share (graph.GatedDelta, graph.KimiDelta).
#pragma once
#include "recurrent.h"

struct DeltaParams {
  Step step;
  const void *q, *k, *v;     // [T, keyHeads × keySize], likewise, [T, valueHeads × valueSize]: parts of rows, `stride` numbers apart
  const void *alpha, *beta;  // [T, valueHeads], of Kimi's rule [T, valueHeads × keySize]; [T, valueHeads]
  void* y;                   // [T, valueHeads × valueSize]
  float* states;             // [states][valueHeads][keySize][valueSize]
  const float *decay, *bias; // [valueHeads]; [valueHeads], of Kimi's rule [valueHeads × keySize]
  int keyHeads, keySize, valueHeads, valueSize, stride;
  float scale;      // of queries
  int tiled, unused; // tiled 1: value head h is one of key head h mod keyHeads

  DEVICE int keyHead(int h) const { return tiled ? h % keyHeads : h / (valueHeads / keyHeads); }
  template <typename T> DEVICE const T* query(int r, int h) const { return (const T*)q + (long)r * stride + keyHead(h) * keySize; }
  template <typename T> DEVICE const T* key(int r, int h) const { return (const T*)k + (long)r * stride + keyHead(h) * keySize; }
  template <typename T> DEVICE const T* value(int r, int h) const { return (const T*)v + (long)r * stride + h * valueSize; }
  // logDecay is the logarithm of what is left of a state at row r; of its numbers of key d, where each key has a decay of its own.
  template <typename T, bool EACH_KEY> DEVICE float logDecay(int r, int h, int d) const {
    int at = EACH_KEY ? h * keySize + d : h, width = EACH_KEY ? valueHeads * keySize : valueHeads;
    return decay[h] * softplus(toFloat(((const T*)alpha)[(long)r * width + at]) + bias[at]);
  }
  template <typename T> DEVICE float rate(int r, int h) const { return sigmoid(toFloat(((const T*)beta)[(long)r * valueHeads + h])); }
};

constexpr float L2_EPS = 1e-6f; // graph.L2Eps
