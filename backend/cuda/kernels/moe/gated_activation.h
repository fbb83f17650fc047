// The activations of experts: of gate and up, or of a product alone.
#pragma once
#include "../activation.h"

constexpr float ALPHA = 1.702f; // graph.SwiGLUAlpha

// gatedActivation is act(gate) × up, or gpt-oss's clamped form.
DEVICE float gatedActivation(int fn, float clamp, float gate, float up) {
  if (clamp != 0) {
    gate = minf(gate, clamp), up = minf(maxf(up, -clamp), clamp);
    return (up + 1) * gate * reciprocal(1 + expf(-ALPHA * gate));
  }
  switch (fn) {
  case SILU: return silu(gate) * up;
  case GELU_TANH: return geluTanh(gate) * up;
  case GELU_ERF: return geluErf(gate) * up;
  default: return maxf(gate, 0) * up;
  }
}

// productOf is a result of a product that is not gated, squared if the expert's activation is.
DEVICE float productOf(bool squared, float x) {
  float above = maxf(x, 0);
  return squared ? above * above : x;
}
