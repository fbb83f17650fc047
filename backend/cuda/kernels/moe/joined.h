// How an expert's two branches become one.
#pragma once
#include "../cuda.h"

enum { SILU, GELU_TANH, GELU_ERF, RELU }; // graph.Fn
constexpr float ALPHA = 1.702f;           // graph.Alpha

// joined is an expert's two branches as one.
DEVICE float joined(int fn, float clamp, float gate, float up) {
  if (clamp != 0) {
    gate = minf(gate, clamp), up = minf(maxf(up, -clamp), clamp);
    return (up + 1) * gate * reciprocal(1 + expf(-ALPHA * gate));
  }
  switch (fn) {
  case SILU: return gate * reciprocal(1 + expf(-gate)) * up;
  case GELU_TANH: return 0.5f * gate * (1 + tanhf(0.7978845608028654f * (gate + 0.044715f * gate * gate * gate))) * up;
  case GELU_ERF: return 0.5f * gate * (1 + erff(gate * 0.7071067811865476f)) * up;
  default: return maxf(gate, 0) * up;
  }
}
