// The functions of graph.Fn.
#pragma once
#include "cuda.h"

enum { SILU, GELU_TANH, GELU_ERF, RELU, RELU2, SIGMOID, IDENTITY }; // graph.Fn

DEVICE float silu(float x) { return x * reciprocal(1 + expf(-x)); }
DEVICE float geluTanh(float x) { return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x))); }
DEVICE float geluErf(float x) { return 0.5f * x * (1 + erff(x * 0.7071067811865476f)); }

// gate is the activation of a gated product (SwiGLU, GeGLU), one of two.
DEVICE float gate(int fn, float x) {
  if (fn == SILU) return silu(x);
  return geluTanh(x);
}
