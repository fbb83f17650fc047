// Mamba 1's state space layer (graph.SelectiveScan): a thread is one number of a row, whose state of up to SIZE numbers it holds in registers
// while it goes through a sequence's tokens.
#include "recurrent.h"

struct SelectiveScanParams {
  Step step;
  const void *x, *dt, *in, *out; // [T, inner], [T, inner], [T, size], [T, size]
  void* y;                       // [T, inner]
  float* states;                 // [states][inner][size]
  const float *decay, *skip;     // [inner][size], [inner]
  int inner, size;
};

template <typename T, int SIZE> DEVICE void selectiveScan(const SelectiveScanParams& p) {
  launchDependentsAndWait();
  SHARED float in[BATCH][SIZE], out[BATCH][SIZE];
  int s = blockY(), i = blockX() * threads() + threadX();
  if (s >= p.step.counts[COUNT_SEQS]) return;
  Sequence seq(p.step, s, p.states, (long)p.inner * p.size);
  bool mine = i < p.inner;
  float state[SIZE], decay[SIZE];
  UNROLL for (int j = 0; j < SIZE; j++) {
    state[j] = mine && j < p.size && !seq.fresh ? seq.state[(long)i * p.size + j] : 0;
    decay[j] = mine && j < p.size ? p.decay[(long)i * p.size + j] : 0;
  }
  float skip = mine ? p.skip[i] : 0;
  for (int from = seq.from; from < seq.to; from += BATCH) {
    int n = mini(BATCH, seq.to - from);
    barrier(); // the batch before has been read
    for (int e = threadX(); e < n * SIZE; e += threads()) {
      int t = e / SIZE, j = e % SIZE;
      in[t][j] = j < p.size ? toFloat(((const T*)p.in)[(long)(from + t) * p.size + j]) : 0;
      out[t][j] = j < p.size ? toFloat(((const T*)p.out)[(long)(from + t) * p.size + j]) : 0;
    }
    barrier();
    for (int t = 0; mine && t < n; t++) {
      long at = (long)(from + t) * p.inner + i;
      float x = toFloat(((const T*)p.x)[at]), d = softplus(toFloat(((const T*)p.dt)[at])), by = d * x, sum = skip * x;
      UNROLL for (int j = 0; j < SIZE; j++) {
        state[j] = expf(d * decay[j]) * state[j] + by * in[t][j];
        sum += state[j] * out[t][j];
      }
      ((T*)p.y)[at] = fromFloat<T>(sum);
    }
  }
  UNROLL for (int j = 0; j < SIZE; j++)
    if (mine && j < p.size) seq.state[(long)i * p.size + j] = state[j];
}
KERNEL(128, 1) scan_16_f32(PARAM SelectiveScanParams p) { selectiveScan<float, 16>(p); }
KERNEL(128, 1) scan_16_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16, 16>(p); }
