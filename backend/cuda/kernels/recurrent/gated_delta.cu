// The gated delta rule (graph.GatedDelta): a block is COLUMNS columns of the state of one value head of one sequence, which it holds in
// registers while it goes through the sequence's tokens. PARTS threads share a column: each has KEYS of its numbers. Queries, keys and values
// of BATCH tokens are brought to shared memory and normalised together, so that between tokens no thread waits for another warp.
#include "gated_delta.h"

constexpr int COLUMNS = 32, PARTS = 4, THREADS = COLUMNS * PARTS;

template <typename T, int KEYS> DEVICE void gatedDelta(const GatedDeltaParams& p) {
  launchDependentsAndWait();
  constexpr int STRIDE = KEYS + 4; // so that the parts of a key lie in different banks
  SHARED float q[BATCH][PARTS * STRIDE], k[BATCH][PARTS * STRIDE], v[BATCH][COLUMNS], decay[BATCH], rate[BATCH];
  int s = blockZ(), h = blockY();
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  int part = threadX() & (PARTS - 1), column = threadX() / PARTS, j = blockX() * COLUMNS + column, first = part * KEYS;
  float* at = seq.state + h * size + j;
  float state[KEYS];
  UNROLL for (int i = 0; i < KEYS; i++)
    state[i] = !seq.fresh && j < p.valueSize && first + i < p.keySize ? at[(long)(first + i) * p.valueSize] : 0;

  int keys = p.keyHeads * p.keySize, width = 2 * keys + p.valueHeads * p.valueSize, kh = p.keyHead(h);
  for (int from = seq.from; from < seq.to; from += BATCH) {
    int n = mini(BATCH, seq.to - from);
    barrier(); // the batch before has been read
    for (int t = warp(); t < n; t += THREADS / 32) {
      const T* row = (const T*)p.x + (long)(from + t) * width;
      float qs[PARTS * KEYS / 32], ks[PARTS * KEYS / 32], qq = 0, kk = 0;
      UNROLL for (int i = 0; i < PARTS * KEYS / 32; i++) {
        int d = i * 32 + lane();
        qs[i] = d < p.keySize ? toFloat(row[kh * p.keySize + d]) : 0;
        ks[i] = d < p.keySize ? toFloat(row[keys + kh * p.keySize + d]) : 0;
        qq += qs[i] * qs[i], kk += ks[i] * ks[i];
      }
      float qscale = rsqrt(warpSum(qq) + L2_EPS) * p.scale, kscale = rsqrt(warpSum(kk) + L2_EPS);
      UNROLL for (int i = 0; i < PARTS * KEYS / 32; i++) {
        int d = i * 32 + lane(), to = d / KEYS * STRIDE + d % KEYS;
        q[t][to] = qs[i] * qscale, k[t][to] = ks[i] * kscale;
      }
      int c = blockX() * COLUMNS + lane();
      v[t][lane()] = c < p.valueSize ? toFloat(row[2 * keys + h * p.valueSize + c]) : 0;
      if (lane() == 0) {
        decay[t] = expf(p.logDecay<T>(from + t, h)), rate[t] = p.rate<T>(from + t, h);
      }
    }
    barrier();
    for (int t = 0; t < n; t++) {
      const float *qt = &q[t][part * STRIDE], *kt = &k[t][part * STRIDE];
      float g = decay[t], predicted = 0, sum = 0;
      UNROLL for (int i = 0; i < KEYS; i++) {
        state[i] *= g;
        predicted += state[i] * kt[i];
      }
      UNROLL for (int m = 1; m < PARTS; m *= 2) predicted += shuffleXor(predicted, m);
      float delta = rate[t] * (v[t][column] - predicted);
      UNROLL for (int i = 0; i < KEYS; i++) {
        state[i] += kt[i] * delta;
        sum += state[i] * qt[i];
      }
      UNROLL for (int m = 1; m < PARTS; m *= 2) sum += shuffleXor(sum, m);
      if (part == 0 && j < p.valueSize) ((T*)p.y)[((long)(from + t) * p.valueHeads + h) * p.valueSize + j] = fromFloat<T>(sum);
    }
  }
  UNROLL for (int i = 0; i < KEYS; i++)
    if (j < p.valueSize && first + i < p.keySize) at[(long)(first + i) * p.valueSize] = state[i];
}
KERNEL(128, 1) gated_delta_128_f32(PARAM GatedDeltaParams p) { gatedDelta<float, 32>(p); }
KERNEL(128, 1) gated_delta_128_bf16(PARAM GatedDeltaParams p) { gatedDelta<bf16, 32>(p); }
KERNEL(128, 1) gated_delta_256_f32(PARAM GatedDeltaParams p) { gatedDelta<float, 64>(p); }
KERNEL(128, 1) gated_delta_256_bf16(PARAM GatedDeltaParams p) { gatedDelta<bf16, 64>(p); }
