// The gated delta rule (graph.GatedDelta, graph.KimiDelta) token by token: a block is COLUMNS columns of the state of one value head of one sequence, which
// it holds in registers while it goes through the sequence's tokens. PARTS threads share a column: each has KEYS of its numbers. Queries, keys and values
// of BATCH tokens are brought to shared memory and normalised together, so that between tokens no thread waits for another warp.
#include "gated_delta.h"

constexpr int COLUMNS = 32, PARTS = 4, THREADS = COLUMNS * PARTS;

// EACH_KEY: each number of a key has a decay of its own.
template <typename T, int KEYS, bool EACH_KEY> DEVICE void gatedDelta(const DeltaParams& p) {
  launchDependentsAndWait();
  constexpr int STRIDE = KEYS + 4; // so that the parts of a key lie in different banks
  SHARED float q[BATCH][PARTS * STRIDE], k[BATCH][PARTS * STRIDE], v[BATCH][COLUMNS], rate[BATCH], decay[BATCH][EACH_KEY ? PARTS * STRIDE : 1];
  int s = blockZ(), h = blockY();
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  int part = threadX() & (PARTS - 1), column = threadX() / PARTS, j = blockX() * COLUMNS + column, first = part * KEYS;
  float* at = seq.state + h * size + j;
  float state[KEYS];
  UNROLL for (int i = 0; i < KEYS; i++)
    state[i] = !seq.fresh && j < p.valueSize && first + i < p.keySize ? at[(long)(first + i) * p.valueSize] : 0;

  for (int from = seq.from; from < seq.to; from += BATCH) {
    int n = mini(BATCH, seq.to - from);
    barrier(); // the batch before has been read
    for (int t = warp(); t < n; t += THREADS / 32) {
      const T *query = p.query<T>(from + t, h), *key = p.key<T>(from + t, h);
      float qs[PARTS * KEYS / 32], ks[PARTS * KEYS / 32], qq = 0, kk = 0;
      UNROLL for (int i = 0; i < PARTS * KEYS / 32; i++) {
        int d = i * 32 + lane();
        qs[i] = d < p.keySize ? toFloat(query[d]) : 0;
        ks[i] = d < p.keySize ? toFloat(key[d]) : 0;
        qq += qs[i] * qs[i], kk += ks[i] * ks[i];
      }
      float qscale = rsqrt(warpSum(qq) + L2_EPS) * p.scale, kscale = rsqrt(warpSum(kk) + L2_EPS);
      UNROLL for (int i = 0; i < PARTS * KEYS / 32; i++) {
        int d = i * 32 + lane(), to = d / KEYS * STRIDE + d % KEYS;
        q[t][to] = qs[i] * qscale, k[t][to] = ks[i] * kscale;
        if (EACH_KEY) decay[t][to] = d < p.keySize ? expf(p.logDecay<T, true>(from + t, h, d)) : 0;
      }
      int c = blockX() * COLUMNS + lane();
      v[t][lane()] = c < p.valueSize ? toFloat(p.value<T>(from + t, h)[c]) : 0;
      if (lane() == 0) {
        if (!EACH_KEY) decay[t][0] = expf(p.logDecay<T, false>(from + t, h, 0));
        rate[t] = p.rate<T>(from + t, h);
      }
    }
    barrier();
    for (int t = 0; t < n; t++) {
      const float *qt = &q[t][part * STRIDE], *kt = &k[t][part * STRIDE], *gt = &decay[t][EACH_KEY ? part * STRIDE : 0];
      float predicted = 0, sum = 0;
      UNROLL for (int i = 0; i < KEYS; i++) {
        state[i] *= gt[EACH_KEY ? i : 0];
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
KERNEL(128, 1) gated_delta_128_f32(PARAM DeltaParams p) { gatedDelta<float, 32, false>(p); }
KERNEL(128, 1) gated_delta_128_bf16(PARAM DeltaParams p) { gatedDelta<bf16, 32, false>(p); }
KERNEL(128, 1) gated_delta_256_f32(PARAM DeltaParams p) { gatedDelta<float, 64, false>(p); }
KERNEL(128, 1) gated_delta_256_bf16(PARAM DeltaParams p) { gatedDelta<bf16, 64, false>(p); }
KERNEL(128, 1) kimi_delta_128_f32(PARAM DeltaParams p) { gatedDelta<float, 32, true>(p); }
KERNEL(128, 1) kimi_delta_128_bf16(PARAM DeltaParams p) { gatedDelta<bf16, 32, true>(p); }
