// One token of the gated delta rule in every sequence that has one (graph.GatedDelta): a block is 128 columns of the state of one value head of one
// sequence. Its warps share the rows; a thread has four columns of KEYS rows in registers, which it reads and writes 16 bytes at a time. All of a state
// is on its way before anything is computed: what a step takes is the time to read and write the states.
#include "gated_delta.h"

constexpr int WARPS = 8, COLUMNS = 128;

template <typename T, int KEYS> DEVICE void gatedDeltaStep(const GatedDeltaParams& p) {
  SHARED static float q[WARPS * KEYS], k[WARPS * KEYS], gates[2];
  SHARED static Four predicted[WARPS][32], sums[WARPS][32];
  launchDependentsAndWait();
  int s = blockZ(), h = blockY();
  if (s >= p.step.counts[COUNT_SEQS]) return;
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from != 1) return;
  int j = blockX() * COLUMNS + 4 * lane(), first = warp() * KEYS;
  bool mine = j < p.valueSize;
  Four* at = (Four*)(seq.state + h * size + (long)first * p.valueSize + j);
  int next = p.valueSize / 4; // from row to row
  Four state[KEYS];
  UNROLL for (int i = 0; i < KEYS; i++) state[i] = mine && !seq.fresh && first + i < p.keySize ? at[(long)i * next] : Four{};

  int keys = p.keyHeads * p.keySize, width = 2 * keys + p.valueHeads * p.valueSize, kh = p.keyHead(h);
  int r = seq.from;
  const T* row = (const T*)p.x + (long)r * width;
  if (warp() < 2) { // the query, the key
    const T* from = row + warp() * keys + kh * p.keySize;
    float x[WARPS * KEYS / 32], squares = 0;
    UNROLL for (int i = 0; i < WARPS * KEYS / 32; i++) {
      int d = i * 32 + lane();
      x[i] = d < p.keySize ? toFloat(from[d]) : 0;
      squares += x[i] * x[i];
    }
    float scale = rsqrt(warpSum(squares) + L2_EPS) * (warp() == 0 ? p.scale : 1);
    UNROLL for (int i = 0; i < WARPS * KEYS / 32; i++) (warp() == 0 ? q : k)[i * 32 + lane()] = x[i] * scale;
  } else if (threadX() == 64) {
    gates[0] = expf(p.logDecay<T>(r, h)), gates[1] = p.rate<T>(r, h);
  }
  float value[4];
  UNROLL for (int e = 0; e < 4; e++) value[e] = mine ? toFloat(row[2 * keys + h * p.valueSize + j + e]) : 0;
  barrier();
  float decay = gates[0], rate = gates[1];
  Four sum = {};
  UNROLL for (int i = 0; i < KEYS; i++) UNROLL for (int e = 0; e < 4; e++) sum.x[e] += state[i].x[e] * k[first + i];
  predicted[warp()][lane()] = sum;
  barrier();
  Four delta = {};
  UNROLL for (int w = 0; w < WARPS; w++) {
    Four part = predicted[w][lane()];
    UNROLL for (int e = 0; e < 4; e++) delta.x[e] += part.x[e];
  }
  UNROLL for (int e = 0; e < 4; e++) delta.x[e] = rate * (value[e] - decay * delta.x[e]), sum.x[e] = 0;
  UNROLL for (int i = 0; i < KEYS; i++) UNROLL for (int e = 0; e < 4; e++) {
    state[i].x[e] = decay * state[i].x[e] + k[first + i] * delta.x[e];
    sum.x[e] += state[i].x[e] * q[first + i];
  }
  sums[warp()][lane()] = sum;
  barrier();
  UNROLL for (int i = 0; i < KEYS; i++)
    if (mine && first + i < p.keySize) at[(long)i * next] = state[i];
  if (warp() > 0 || !mine) return;
  T* y = (T*)p.y + ((long)r * p.valueHeads + h) * p.valueSize + j;
  UNROLL for (int w = 1; w < WARPS; w++) {
    Four part = sums[w][lane()];
    UNROLL for (int e = 0; e < 4; e++) sum.x[e] += part.x[e];
  }
  UNROLL for (int e = 0; e < 4; e++) y[e] = fromFloat<T>(sum.x[e]);
}
KERNEL(256, 1) gated_delta_step_128_f32(PARAM GatedDeltaParams p) { gatedDeltaStep<float, 16>(p); }
KERNEL(256, 1) gated_delta_step_128_bf16(PARAM GatedDeltaParams p) { gatedDeltaStep<bf16, 16>(p); }
KERNEL(256, 1) gated_delta_step_256_f32(PARAM GatedDeltaParams p) { gatedDeltaStep<float, 32>(p); }
KERNEL(256, 1) gated_delta_step_256_bf16(PARAM GatedDeltaParams p) { gatedDeltaStep<bf16, 32>(p); }
