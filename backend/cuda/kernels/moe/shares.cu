// Routing that is more than softmax and top-k (graph.Route): scores become each expert's share of a row, 0 of those that are not chosen, which the block of
// experts takes as they are (GIVEN in route.h). And the gate of experts that every row passes (graph.GateRows).
#include "route.h"

struct SharesParams {
  const void* scores; // [rows, experts]
  const float* bias;  // [experts] or null
  float* shares;      // [rows, experts]
  int rows, experts, top;
  int sigmoid, noRenorm;
  int groups, topGroups, bestOfGroup; // groups 0: none; a group is as good as the sum of its best one or two
  float scale;
  float mixer; // 0: none; see graph.Route
};

constexpr int SHARES_WARPS = 4;
constexpr float LARGEST = 3.402823466e38f;

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// maskGroups sets what experts outside the best groups are chosen by to 0; quality has room for a number for each group. One warp computes it.
DEVICE void maskGroups(const SharesParams& p, float* by, float* quality) {
  int size = p.experts / p.groups;
  for (int g = lane(); g < p.groups; g += 32) {
    float first = -LARGEST, second = -LARGEST;
    for (int i = 0; i < size; i++) {
      float v = by[g * size + i];
      second = maxf(second, minf(first, v)), first = maxf(first, v);
    }
    quality[g] = p.bestOfGroup == 2 ? first + second : first;
  }
  warpBarrier();
  for (int g = lane(); g < p.groups; g += 32) {
    int better = 0; // groups that come before it
    for (int o = 0; o < p.groups; o++) better += quality[o] > quality[g] || (quality[o] == quality[g] && o < g);
    if (better >= p.topGroups)
      for (int i = 0; i < size; i++) by[g * size + i] = 0;
  }
  warpBarrier();
}

// mix makes a row's shares of SparseMixer in out, of scores: two experts one after the other. One warp computes it.
DEVICE void mix(const SharesParams& p, const float* scores, float* out) {
  int first = -1;
  for (int e = lane(); e < p.experts; e += 32) out[e] = 0;
  for (int turn = 0; turn < 2; turn++) {
    float most = -LARGEST, sum = 0;
    int best = 1 << 20;
    for (int e = lane(); e < p.experts; e += 32)
      if (e != first && (best == 1 << 20 || scores[e] > most)) most = scores[e], best = e;
    float row = warpMax(most);
    best = (int)warpMinOf(most == row ? best : 1 << 20); // of equal scores the first
    for (int e = lane(); e < p.experts; e += 32) {
      float s = scores[e];
      if (e != first && (row - s) / maxf(__builtin_fabsf(s), row) <= p.mixer) sum += expf(s - row);
    }
    sum = warpSum(sum);
    warpBarrier();
    if (lane() == 0) out[best] = 1 / sum;
    first = best;
  }
  warpBarrier();
}

// routeShares: a warp a row, whose numbers it keeps in shared memory.
template <typename T> DEVICE void routeShares(const SharesParams& p) {
  SHARED static float all[SHARES_WARPS][3][MAX_EXPERTS];
  launchDependentsAndWait();
  int r = blockX() * SHARES_WARPS + warp();
  if (r >= p.rows) return;
  const T* scores = (const T*)p.scores + (long)r * p.experts;
  float *prob = all[warp()][0], *by = all[warp()][1], *quality = all[warp()][2], most = -LARGEST, sum = 0;
  for (int e = lane(); e < p.experts; e += 32) prob[e] = toFloat(scores[e]), most = maxf(most, prob[e]);
  if (p.mixer != 0) {
    warpBarrier();
    mix(p, prob, by);
    for (int e = lane(); e < p.experts; e += 32) p.shares[(long)r * p.experts + e] = by[e];
    return;
  }
  if (p.sigmoid) {
    for (int e = lane(); e < p.experts; e += 32) prob[e] = sigmoid(prob[e]);
  } else {
    most = warpMax(most);
    for (int e = lane(); e < p.experts; e += 32) prob[e] = expf(prob[e] - most), sum += prob[e];
    sum = warpSum(sum);
    for (int e = lane(); e < p.experts; e += 32) prob[e] /= sum;
  }
  for (int e = lane(); e < p.experts; e += 32) by[e] = prob[e] + (p.bias ? p.bias[e] : 0);
  warpBarrier();
  if (p.groups > 0) maskGroups(p, by, quality);
  constexpr int PLACES = MAX_TOP / 32;
  Chosen<PLACES> c;
  if (p.experts <= 128) c = topK<float, 4, PLACES>(by, p.experts, p.top, OF_CHOSEN, false);
  else if (p.experts <= 256) c = topK<float, 8, PLACES>(by, p.experts, p.top, OF_CHOSEN, false);
  else c = topK<float, MAX_EXPERTS / 32, PLACES>(by, p.experts, p.top, OF_CHOSEN, false);
  float share[PLACES], chosen = 0;
  UNROLL for (int i = 0; i < PLACES; i++) {
    share[i] = lane() + 32 * i < p.top ? prob[c.expert[i]] : 0;
    chosen += share[i];
  }
  chosen = warpSum(chosen);
  float scale = p.noRenorm ? p.scale : p.scale / chosen;
  warpBarrier();
  for (int e = lane(); e < p.experts; e += 32) by[e] = 0;
  warpBarrier();
  UNROLL for (int i = 0; i < PLACES; i++)
    if (lane() + 32 * i < p.top) by[c.expert[i]] = share[i] * scale;
  warpBarrier();
  for (int e = lane(); e < p.experts; e += 32) p.shares[(long)r * p.experts + e] = by[e];
}
KERNEL(128, 1) route_shares_f32(PARAM SharesParams p) { routeShares<float>(p); }
KERNEL(128, 1) route_shares_bf16(PARAM SharesParams p) { routeShares<bf16>(p); }

struct GateRowsParams {
  const void *x, *gate; // [rows, n], [rows, gates]
  void* y;              // [rows, n]
  int n, gates;         // the largest gate of a row counts
};

template <typename T> DEVICE void gateRows(const GateRowsParams& p) {
  launchDependentsAndWait();
  long base = (long)blockX() * p.n;
  float most = -LARGEST;
  for (int i = 0; i < p.gates; i++) most = maxf(most, toFloat(((const T*)p.gate)[(long)blockX() * p.gates + i]));
  float by = sigmoid(most);
  for (int i = threadX(); i < p.n; i += threads()) ((T*)p.y)[base + i] = fromFloat<T>(toFloat(((const T*)p.x)[base + i]) * by);
}
KERNEL(256, 1) gate_rows_f32(PARAM GateRowsParams p) { gateRows<float>(p); }
KERNEL(256, 1) gate_rows_bf16(PARAM GateRowsParams p) { gateRows<bf16>(p); }
