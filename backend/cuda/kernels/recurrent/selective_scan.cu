// Mamba 1's state space layer (graph.SelectiveScan): a block is CHANNELS numbers of rows of a sequence; PARTS threads share one, each with four numbers of
// its state in registers, and go through the sequence's tokens. What these need of several tokens is brought to shared memory together, while those before
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

constexpr int CHANNELS = 32, PARTS = 4, THREADS = CHANNELS * PARTS, SIZE = 4 * PARTS;
constexpr int ROWS = THREADS / CHANNELS, LINES = THREADS / SIZE; // tokens that the block loads at a time, of channels and of what is read and written

// TOKENS: how many are brought to shared memory together, a multiple of LINES.
template <typename T, int TOKENS> DEVICE void selectiveScan(const SelectiveScanParams& p) {
  launchDependentsAndWait();
  SHARED float x[TOKENS][CHANNELS], delta[TOKENS][CHANNELS], y[TOKENS][CHANNELS + 8];
  SHARED alignas(16) float in[TOKENS][SIZE], out[TOKENS][SIZE];
  int s = blockY(), channel = threadX() / PARTS, part = threadX() % PARTS, i = blockX() * CHANNELS + channel;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  Sequence seq(p.step, s, p.states, (long)p.inner * p.size);
  bool mine = i < p.inner, fours = p.size % 4 == 0 && 4 * part < p.size; // fours: its numbers are read and written 16 bytes at a time
  float* at = seq.state + (long)i * p.size + 4 * part;
  Four held = {}, decay = {};
  if (mine && fours && !seq.fresh) held = *(const Four*)at;
  if (mine && fours) decay = *(const Four*)(p.decay + (long)i * p.size + 4 * part);
  float state[4];
  UNROLL for (int e = 0; e < 4; e++) {
    bool alone = mine && !fours && 4 * part + e < p.size;
    state[e] = alone && !seq.fresh ? at[e] : held.x[e];
    decay.x[e] = (alone ? p.decay[(long)i * p.size + 4 * part + e] : decay.x[e]) * LOG2E;
  }
  float skip = mine ? p.skip[i] : 0;
  // What this thread loads: of every ROWS-th token a channel, of every LINES-th a number that is read and one that is written.
  int row = threadX() / CHANNELS, column = threadX() % CHANNELS, line = threadX() / SIZE, number = threadX() % SIZE;
  long first = blockX() * CHANNELS + column;
  bool loads = first < p.inner, reads = number < p.size;
  T xs[TOKENS / ROWS], ds[TOKENS / ROWS], ins[TOKENS / LINES], outs[TOKENS / LINES];
  auto load = [&](int from) __attribute__((always_inline)) {
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = from + row + k * ROWS;
      bool is = loads && r < seq.to;
      xs[k] = is ? ((const T*)p.x)[r * (long)p.inner + first] : (T)0, ds[k] = is ? ((const T*)p.dt)[r * (long)p.inner + first] : (T)0;
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
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = row + k * ROWS;
      x[r][column] = toFloat(xs[k]), delta[r][column] = r < n ? softplus(toFloat(ds[k])) : 0; // which leaves the state as it is
    }
    UNROLL for (int k = 0; k < TOKENS / LINES; k++) in[line + k * LINES][number] = toFloat(ins[k]), out[line + k * LINES][number] = toFloat(outs[k]);
    barrier();
    load(from + TOKENS);
    for (int t0 = 0; t0 < n; t0 += 4) { // four tokens at a time, whose sums come to one thread each
      float sum[4];
      UNROLL for (int t = 0; t < 4; t++) {
        float d = delta[t0 + t][channel], by = d * x[t0 + t][channel];
        Four reads = *(const Four*)&in[t0 + t][4 * part], writes = *(const Four*)&out[t0 + t][4 * part];
        sum[t] = 0;
        UNROLL for (int e = 0; e < 4; e++) {
          state[e] = exp2(d * decay.x[e]) * state[e] + by * reads.x[e];
          sum[t] += state[e] * writes.x[e];
        }
      }
      bool odd = part & 1, high = part & 2;
      float a = (odd ? sum[1] : sum[0]) + shuffleXor(odd ? sum[0] : sum[1], 1), b = (odd ? sum[3] : sum[2]) + shuffleXor(odd ? sum[2] : sum[3], 1);
      float all = (high ? b : a) + shuffleXor(high ? a : b, 2);
      y[t0 + part][channel] = all + skip * x[t0 + part][channel];
    }
    barrier();
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = row + k * ROWS;
      if (loads && r < n) ((T*)p.y)[(from + r) * (long)p.inner + first] = fromFloat<T>(y[r][column]);
    }
  }
  if (mine && fours) *(Four*)at = {state[0], state[1], state[2], state[3]};
  UNROLL for (int e = 0; e < 4; e++)
    if (mine && !fours && 4 * part + e < p.size) at[e] = state[e];
}
KERNEL(128, 1) scan_16_f32(PARAM SelectiveScanParams p) { selectiveScan<float, 32>(p); }
KERNEL(128, 1) scan_16_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16, 32>(p); }
KERNEL(128, 1) scan_16_step_f32(PARAM SelectiveScanParams p) { selectiveScan<float, 8>(p); }
KERNEL(128, 1) scan_16_step_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16, 8>(p); }
