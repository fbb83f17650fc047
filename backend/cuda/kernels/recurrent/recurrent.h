// What kernels of recurrent layers share: where a sequence's state lies, and softplus.
#pragma once
#include "../cuda.h"

// Sequence is a sequence's part of a step in a recurrent layer: rows [from, to), and its state; fresh: it starts from zero, whatever is there.
struct Sequence {
  int from, to;
  bool fresh;
  float* state;

  // In a recurrent group's table of pages each sequence has one, its state.
  DEVICE Sequence(const Step& step, int s, float* states, long size) {
    from = step.qStart[s], to = step.qStart[s + 1];
    fresh = step.kvLen[s] == to - from;
    state = states + (long)step.pages[s] * size;
  }
};

struct alignas(8) Two { float x[2]; };
struct alignas(16) Four { float x[4]; };

constexpr float LN2 = 0.6931471805599453f;
DEVICE float softplus(float x) {
  float y = log2(1 + expf(x)) * LN2; // computed for all x: a branch would have each wait for the one before
  return x > 20 ? x : y;
}
DEVICE float sigmoid(float x) { return reciprocal(1 + expf(-x)); }

// BATCH tokens of a sequence are brought to shared memory together, and then gone through one after the other.
constexpr int BATCH = 16;
