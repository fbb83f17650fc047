// One token of the gated delta rule in every sequence that has one (graph.GatedDelta, graph.KimiDelta): a block is COLUMNS columns of the state of one value
// head of one sequence. COLUMNS / 4 threads take a row of these, 16 bytes each; the other threads have other rows. All of a state is on its way before
// anything is computed, and before the launch ahead has ended, since nothing ahead of it in a step writes states: what a step takes is the time to read and
// write the states.
#include "gated_delta.h"

// With 32 columns a block has little and there are many: 3.52 TB/s for 64 sequences on an H200, where blocks of 64 reach 3.08 and blocks of 128 3.20, and
// one that has bulk copies move whole states through shared memory 3.48.
constexpr int THREADS = 256, COLUMNS = 32;

// KEYS: rows of the state of a thread. EACH_KEY: each number of a key has a decay of its own.
template <typename T, int KEYS, bool EACH_KEY> DEVICE void gatedDeltaStep(const DeltaParams& p) {
  constexpr int LANES = COLUMNS / 4, GROUPS = THREADS / LANES, MAX_KEY = GROUPS * KEYS; // threads of a row; rows at a time
  SHARED static float q[MAX_KEY], k[MAX_KEY], g[MAX_KEY];
  SHARED static float gates[2];
  SHARED static Four predicted[THREADS / 32][LANES], sums[THREADS / 32][LANES];
  launchDependents();
  int s = blockZ(), h = blockY();
  if (s >= p.step.counts[COUNT_SEQS]) return gridDependencyWait();
  long size = (long)p.keySize * p.valueSize;
  Sequence seq(p.step, s, p.states, size * p.valueHeads);
  if (seq.to - seq.from != 1) return gridDependencyWait();
  int column = threadX() % LANES, j = blockX() * COLUMNS + 4 * column, group = threadX() / LANES; // rows group, group + GROUPS, …
  bool mine = j < p.valueSize;
  Four* at = (Four*)(seq.state + h * size + (long)group * p.valueSize + j);
  long next = (long)GROUPS * p.valueSize / 4;
  Four state[KEYS];
  UNROLL for (int i = 0; i < KEYS; i++) state[i] = mine && !seq.fresh && group + i * GROUPS < p.keySize ? at[i * next] : Four{};
  gridDependencyWait();

  int r = seq.from;
  if (warp() < 2) { // the query, the key
    const T* from = warp() == 0 ? p.query<T>(r, h) : p.key<T>(r, h);
    float x[MAX_KEY / 32], squares = 0;
    UNROLL for (int i = 0; i < MAX_KEY / 32; i++) {
      int d = i * 32 + lane();
      x[i] = d < p.keySize ? toFloat(from[d]) : 0;
      squares += x[i] * x[i];
    }
    float scale = rsqrt(warpSum(squares) + L2_EPS) * (warp() == 0 ? p.scale : 1);
    UNROLL for (int i = 0; i < MAX_KEY / 32; i++) (warp() == 0 ? q : k)[i * 32 + lane()] = x[i] * scale;
  } else if (threadX() == 64) {
    if (!EACH_KEY) gates[0] = expf(p.logDecay<T, false>(r, h, 0));
    gates[1] = p.rate<T>(r, h);
  } else if (EACH_KEY && warp() > 2) {
    for (int d = threadX() - 96; d < MAX_KEY; d += THREADS - 96) g[d] = d < p.keySize ? expf(p.logDecay<T, true>(r, h, d)) : 0;
  }
  float value[4];
  UNROLL for (int e = 0; e < 4; e++) value[e] = mine ? toFloat(p.value<T>(r, h)[j + e]) : 0;
  barrier();
  float decay = EACH_KEY ? 0 : gates[0], rate = gates[1];
  auto sumRows = [&](Four& sum) __attribute__((always_inline)) { // of the rows that the warp has at a time
    UNROLL for (int m = LANES; m < 32; m *= 2) UNROLL for (int e = 0; e < 4; e++) sum.x[e] += shuffleXor(sum.x[e], m);
  };
  Four sum = {};
  UNROLL for (int i = 0; i < KEYS; i++) {
    float left = EACH_KEY ? g[group + i * GROUPS] : decay, key = k[group + i * GROUPS];
    UNROLL for (int e = 0; e < 4; e++) state[i].x[e] *= left, sum.x[e] += state[i].x[e] * key;
  }
  sumRows(sum);
  if (lane() < LANES) predicted[warp()][column] = sum;
  barrier();
  Four delta = {};
  UNROLL for (int w = 0; w < THREADS / 32; w++) {
    Four part = predicted[w][column];
    UNROLL for (int e = 0; e < 4; e++) delta.x[e] += part.x[e];
  }
  UNROLL for (int e = 0; e < 4; e++) delta.x[e] = rate * (value[e] - delta.x[e]), sum.x[e] = 0;
  UNROLL for (int i = 0; i < KEYS; i++) {
    float key = k[group + i * GROUPS], query = q[group + i * GROUPS];
    UNROLL for (int e = 0; e < 4; e++) state[i].x[e] += key * delta.x[e], sum.x[e] += state[i].x[e] * query;
    if (mine && group + i * GROUPS < p.keySize) at[i * next] = state[i];
  }
  sumRows(sum);
  if (lane() < LANES) sums[warp()][column] = sum;
  barrier();
  if (threadX() >= LANES || !mine) return;
  T* y = (T*)p.y + ((long)r * p.valueHeads + h) * p.valueSize + j;
  sum = {};
  UNROLL for (int w = 0; w < THREADS / 32; w++) {
    Four part = sums[w][column];
    UNROLL for (int e = 0; e < 4; e++) sum.x[e] += part.x[e];
  }
  UNROLL for (int e = 0; e < 4; e++) y[e] = fromFloat<T>(sum.x[e]);
}
#define STEP(name, T, most, each) \
  KERNEL(256, most == 128 ? 4 : 3) name##_##T(PARAM DeltaParams p) { gatedDeltaStep<T, most * COLUMNS / 1024, each>(p); }
typedef float f32;
STEP(gated_delta_step_128, f32, 128, false)
STEP(gated_delta_step_128, bf16, 128, false)
STEP(gated_delta_step_256, f32, 256, false)
STEP(gated_delta_step_256, bf16, 256, false)
STEP(kimi_delta_step_128, f32, 128, true)
STEP(kimi_delta_step_128, bf16, 128, true)
