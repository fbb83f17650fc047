// Mamba 1's state space layer (graph.SelectiveScan): a block is CHANNELS numbers of rows of a sequence; PARTS threads share one, each with NUMBERS numbers of
// its state in registers, and go through the sequence's tokens. What these need of several tokens is brought to shared memory together, while those before
// are gone through: between tokens no thread waits for memory. Of prompts twice as many threads share a row as of single tokens: two warps a scheduler leave
// exponentials idle.
#include "recurrent.h"

struct SelectiveScanParams {
  Step step;
  const void *x, *dt, *in, *out; // [T, inner], [T, inner], [T, size], [T, size]
  void* y;                       // [T, inner]
  float* states;                 // [states][inner][size]
  const float *decay, *skip;     // [inner][size], [inner]
  int inner, size;
};

constexpr int CHANNELS = 32, SIZE = 16;
template <int N> struct alignas(4 * N) Numbers { float x[N]; };

// TOKENS: how many are brought to shared memory together, a multiple of PARTS and of LINES.
template <typename T, int PARTS, int TOKENS> DEVICE void selectiveScan(const SelectiveScanParams& p) {
  constexpr int THREADS = CHANNELS * PARTS, NUMBERS = SIZE / PARTS;
  constexpr int ROWS = THREADS / CHANNELS, LINES = THREADS / SIZE; // tokens that the block loads at a time, of channels and of what is read and written
  launchDependentsAndWait();
  SHARED Numbers<2> by[TOKENS][CHANNELS]; // Δ, and Δ times the channel
  SHARED float y[TOKENS][CHANNELS + 8];
  SHARED alignas(16) float in[TOKENS][SIZE], out[TOKENS][SIZE];
  int s = blockY(), channel = threadX() / PARTS, part = threadX() % PARTS, i = blockX() * CHANNELS + channel;
  if (s >= p.step.counts[COUNT_SEQS]) return;
  Sequence seq(p.step, s, p.states, (long)p.inner * p.size);
  bool mine = i < p.inner, together = p.size % NUMBERS == 0 && NUMBERS * part < p.size; // its numbers are read and written at once
  float* at = seq.state + (long)i * p.size + NUMBERS * part;
  Numbers<NUMBERS> held = {}, decay = {};
  if (mine && together && !seq.fresh) held = *(const Numbers<NUMBERS>*)at;
  if (mine && together) decay = *(const Numbers<NUMBERS>*)(p.decay + (long)i * p.size + NUMBERS * part);
  float state[NUMBERS];
  UNROLL for (int e = 0; e < NUMBERS; e++) {
    bool alone = mine && !together && NUMBERS * part + e < p.size;
    state[e] = alone && !seq.fresh ? at[e] : held.x[e];
    decay.x[e] = (alone ? p.decay[(long)i * p.size + NUMBERS * part + e] : decay.x[e]) * LOG2E;
  }
  // What this thread loads: of every ROWS-th token a channel, of every LINES-th a number that is read and one that is written.
  int row = threadX() / CHANNELS, column = threadX() % CHANNELS, line = threadX() / SIZE, number = threadX() % SIZE;
  long first = blockX() * CHANNELS + column;
  bool loads = first < p.inner, reads = number < p.size;
  float skip = loads ? p.skip[first] : 0;
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
      float x = toFloat(xs[k]), delta = softplus(toFloat(ds[k]));
      if (r >= n) delta = 0; // which leaves the state as it is
      by[r][column] = {delta, delta * x}, y[r][column] = skip * x;
    }
    UNROLL for (int k = 0; k < TOKENS / LINES; k++) in[line + k * LINES][number] = toFloat(ins[k]), out[line + k * LINES][number] = toFloat(outs[k]);
    barrier();
    load(from + TOKENS);
    for (int t0 = 0; t0 < n; t0 += PARTS) { // as many tokens at a time as threads share a row, whose sums come to one thread each
      float sum[PARTS];
      UNROLL for (int t = 0; t < PARTS; t++) {
        Numbers<2> d = by[t0 + t][channel];
        Numbers<NUMBERS> reads = *(const Numbers<NUMBERS>*)&in[t0 + t][NUMBERS * part], writes = *(const Numbers<NUMBERS>*)&out[t0 + t][NUMBERS * part];
        sum[t] = 0;
        UNROLL for (int e = 0; e < NUMBERS; e++) {
          state[e] = exp2(d.x[0] * decay.x[e]) * state[e] + d.x[1] * reads.x[e];
          sum[t] += state[e] * writes.x[e];
        }
      }
      UNROLL for (int m = 1; m < PARTS; m *= 2) UNROLL for (int k = 0; k < PARTS / 2 / m; k++) {
        bool second = part & m;
        sum[k] = (second ? sum[2 * k + 1] : sum[2 * k]) + shuffleXor(second ? sum[2 * k] : sum[2 * k + 1], m);
      }
      y[t0 + part][channel] += sum[0];
    }
    barrier();
    UNROLL for (int k = 0; k < TOKENS / ROWS; k++) {
      int r = row + k * ROWS;
      if (loads && r < n) ((T*)p.y)[(from + r) * (long)p.inner + first] = fromFloat<T>(y[r][column]);
    }
  }
  Numbers<NUMBERS> last;
  UNROLL for (int e = 0; e < NUMBERS; e++) last.x[e] = state[e];
  if (mine && together) *(Numbers<NUMBERS>*)at = last;
  UNROLL for (int e = 0; e < NUMBERS; e++)
    if (mine && !together && NUMBERS * part + e < p.size) at[e] = state[e];
}
KERNEL(256, 1) scan_16_f32(PARAM SelectiveScanParams p) { selectiveScan<float, 8, 32>(p); }
KERNEL(256, 1) scan_16_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16, 8, 32>(p); }
KERNEL(128, 1) scan_16_step_f32(PARAM SelectiveScanParams p) { selectiveScan<float, 4, 8>(p); }
KERNEL(128, 1) scan_16_step_bf16(PARAM SelectiveScanParams p) { selectiveScan<bf16, 4, 8>(p); }
