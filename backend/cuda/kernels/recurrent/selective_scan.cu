// Mamba 1's state space layer (graph.SelectiveScan): a block is CHANNELS numbers of rows of a sequence; PARTS threads share one, each with four numbers of
// its state in registers, and go through the sequence's tokens. What these need of TOKENS tokens is brought to shared memory together, while those before
// are gone through: between tokens no thread waits for memory.
#include "recurrent.h"

struct SelectiveScanParams {
  Step step;
  const void *x, *dt, *in, *out; // [T, inner], [T, inner], [T, size], [T, size]
  void* y;                       // [T, inner]
  float* states;                 // [states][inner][size]
  const float *decay, *skip;     // [inner][size], [inner]
  int inner, size;
};

constexpr int CHANNELS = 32, PARTS = 4, THREADS = CHANNELS * PARTS, SIZE = 4 * PARTS, TOKENS = 32;
constexpr int ROWS = THREADS / CHANNELS, LINES = THREADS / SIZE; // tokens that the block loads at a time, of channels and of what is read and written

template <typename T> DEVICE void selectiveScan(const SelectiveScanParams& p) {
  launchDependentsAndWait();
  SHARED float x[TOKENS][CHANNELS], delta[TOKENS][CHANNELS], y[TOKENS][CHANNELS];
  SHARED alignas(16) float in[TOKENS][SIZE], out[TOKENS][SIZE];
  int s = blockY(), channel = threadX() / PARTS, part = threadX() % PARTS, i = blockX() * CHANNELS + channel;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  Sequence seq(p.step, s, p.states, (long)p.inner * p.size);
  float state[4], decay[4];
  UNROLL for (int e = 0; e < 4; e++) {
    int j = 4 * part + e;
    bool mine = i < p.inner && j < p.size;
    state[e] = mine && !seq.fresh ? seq.state[(long)i * p.size + j] : 0;
    decay[e] = mine ? p.decay[(long)i * p.size + j] * LOG2E : 0;
  }
  float skip = i < p.inner ? p.skip[i] : 0;
  // What this thread loads: of every ROWS-th token a channel, of every LINES-th a number that is read and one that is written.
  int row = threadX() / CHANNELS, column = threadX() % CHANNELS, line = threadX() / SIZE, number = threadX() % SIZE;
  long at = blockX() * CHANNELS + column;
  bool loads = at < p.inner, reads = number < p.size;
  T xs[TOKENS / ROWS], ds[TOKENS / ROWS], ins[TOKENS / LINES], outs[TOKENS / LINES];
  auto load = [&](int from) __attribute__((always_inline)) {
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = from + row + k * ROWS;
      bool is = loads && r < seq.to;
      xs[k] = is ? ((const T*)p.x)[r * (long)p.inner + at] : (T)0, ds[k] = is ? ((const T*)p.dt)[r * (long)p.inner + at] : (T)0;
    }
    UNROLL for (int k = 0; k < TOKENS / LINES; k++) {
      int r = from + line + k * LINES;
      bool is = reads && r < seq.to;
      ins[k] = is ? ((const T*)p.in)[(long)r * p.size + number] : (T)0, outs[k] = is ? ((const T*)p.out)[(long)r * p.size + number] : (T)0;
    }
  };
  load(seq.from);
  for (int from = seq.from; from < seq.to; from += TOKENS) {
    int n = mini(TOKENS, seq.to - from);
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) x[row + k * ROWS][column] = toFloat(xs[k]), delta[row + k * ROWS][column] = softplus(toFloat(ds[k]));
    UNROLL for (int k = 0; k < TOKENS / LINES; k++) in[line + k * LINES][number] = toFloat(ins[k]), out[line + k * LINES][number] = toFloat(outs[k]);
    barrier();
    load(from + TOKENS);
    for (int t = 0; t < n; t++) {
      float d = delta[t][channel], by = d * x[t][channel], sum = 0;
      UNROLL for (int e = 0; e < 4; e++) {
        state[e] = exp2(d * decay[e]) * state[e] + by * in[t][4 * part + e];
        sum += state[e] * out[t][4 * part + e];
      }
      UNROLL for (int m = 1; m < PARTS; m *= 2) sum += shuffleXor(sum, m);
      if (part == 0) y[t][channel] = sum + skip * x[t][channel];
    }
    barrier();
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = row + k * ROWS;
      if (loads && r < n) ((T*)p.y)[(from + r) * (long)p.inner + at] = fromFloat<T>(y[r][column]);
    }
  }
  UNROLL for (int e = 0; e < 4; e++) {
    int j = 4 * part + e;
    if (i < p.inner && j < p.size) seq.state[(long)i * p.size + j] = state[e];
  }
}
KERNEL(128, 1) scan_16_f32(PARAM SelectiveScanParams p) { selectiveScan<float>(p); }
KERNEL(128, 1) scan_16_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16>(p); }
