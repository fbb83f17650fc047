// Mamba 2's state space layer (graph.SSD): a block is ROWS rows of the state of one head of one sequence, which it holds in registers while
// it goes through the sequence's tokens. PARTS threads share a row: each has every PARTS-th four of its numbers.
#include "ssd.h"

constexpr int ROWS = 32, PARTS = 4, THREADS = ROWS * PARTS;

template <typename T, int NUMBERS> DEVICE void ssd(const SSDParams& p) {
  launchDependentsAndWait();
  SHARED float in[BATCH][PARTS * NUMBERS], out[BATCH][PARTS * NUMBERS], x[BATCH][ROWS], decay[BATCH], delta[BATCH];
  int s = blockZ(), h = blockY();
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.headSize * p.stateSize;
  Sequence seq(p.step, s, p.states, size * p.heads);
  if (p.onlyOnes && seq.to - seq.from > 1) return;
  int part = threadX() & (PARTS - 1), row = threadX() / PARTS, i = blockX() * ROWS + row;
  float* at = seq.state + h * size + (long)i * p.stateSize;
  float state[NUMBERS];
  bool fours = p.stateSize % 4 == 0; // which are read and written 16 bytes at a time
  UNROLL for (int m = 0; m < NUMBERS; m += 4) {
    int j = (m / 4 * PARTS + part) * 4;
    bool mine = i < p.headSize && j < p.stateSize;
    Four x = {};
    if (mine && !seq.fresh && fours) x = *(const Four*)(at + j);
    UNROLL for (int e = 0; e < 4; e++) {
      if (mine && !seq.fresh && !fours && j + e < p.stateSize) x.x[e] = at[j + e];
      state[m + e] = x.x[e];
    }
  }
  int inner = p.heads * p.headSize, group = h / (p.heads / p.groups) * p.stateSize, width = inner + 2 * p.groups * p.stateSize;
  for (int from = seq.from; from < seq.to; from += BATCH) {
    int n = mini(BATCH, seq.to - from);
    barrier(); // the batch before has been read
    for (int t = warp(); t < n; t += THREADS / 32) {
      const T* of = (const T*)p.x + (long)(from + t) * width;
      for (int j = lane(); j < PARTS * NUMBERS; j += 32) {
        in[t][j] = j < p.stateSize ? toFloat(of[inner + group + j]) : 0;
        out[t][j] = j < p.stateSize ? toFloat(of[inner + p.groups * p.stateSize + group + j]) : 0;
      }
      int c = blockX() * ROWS + lane();
      x[t][lane()] = c < p.headSize ? toFloat(of[h * p.headSize + c]) : 0;
      if (lane() == 0) {
        delta[t] = p.delta<T>(from + t, h);
        decay[t] = expf(delta[t] * p.decay[h]);
      }
    }
    barrier();
    for (int t = 0; t < n; t++) {
      float g = decay[t], by = delta[t] * x[t][row], sum = 0;
      UNROLL for (int m = 0; m < NUMBERS; m++) {
        int j = (m / 4 * PARTS + part) * 4 + m % 4;
        state[m] = g * state[m] + by * in[t][j];
        sum += state[m] * out[t][j];
      }
      UNROLL for (int m = 1; m < PARTS; m *= 2) sum += shuffleXor(sum, m);
      if (part == 0 && i < p.headSize) ((T*)p.y)[(long)(from + t) * inner + h * p.headSize + i] = fromFloat<T>(sum + p.skip[h] * x[t][row]);
    }
  }
  UNROLL for (int m = 0; m < NUMBERS; m += 4) {
    int j = (m / 4 * PARTS + part) * 4;
    if (i >= p.headSize || j >= p.stateSize) continue;
    if (fours) *(Four*)(at + j) = {state[m], state[m + 1], state[m + 2], state[m + 3]};
    else UNROLL for (int e = 0; e < 4; e++) if (j + e < p.stateSize) at[j + e] = state[m + e];
  }
}
KERNEL(128, 1) ssd_128_f32(PARAM SSDParams p) { ssd<float, 32>(p); }
KERNEL(128, 1) ssd_128_bf16(PARAM SSDParams p) { ssd<bf16, 32>(p); }
KERNEL(128, 1) ssd_256_f32(PARAM SSDParams p) { ssd<float, 64>(p); }
KERNEL(128, 1) ssd_256_bf16(PARAM SSDParams p) { ssd<bf16, 64>(p); }
