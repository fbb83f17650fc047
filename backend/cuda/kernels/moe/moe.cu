// Mixture of experts (graph.MoE): a step's rows are routed to experts, grouped GEMMs run over the rows of each, and each row's results are combined,
// weighted by their shares.
//
//   router_norm       rows → their sum with the residual, normalised → scores; where an AddNorm and the router precede the block
//   gemv_*            few rows: routing and both products by integer mma; see grouped_gemv.h
//   route             scores → chosen, share (top-k softmax); if one block is enough, slots and jobs too
//   align_slots       chosen → slots and jobs
//   permute           x → a copy of its row for every slot, for large jobs
//   gated             x, gate, up → [slots, ffn]         experts_*.cu, by the weights' format
//   down              that, down → [slots, in]
//   combine           share × those, summed → y
//
// One or two rows may take two launches instead; see single_row.h.
#include "../cuda.h"
#include "route.h"
#include "router_norm.h"
#include "simt.h"
#include "vec.h"

KERNEL(256, 2) router_norm(PARAM RouterNormParams p) { routerNorm(p); }
KERNEL(512, 1) route_f32(PARAM RouteParams p) { route<float>(p); }
KERNEL(512, 1) route_bf16(PARAM RouteParams p) { route<bf16>(p); }
KERNEL(512, 1) align_slots(PARAM RouteParams p) {
  launchDependentsAndWait();
  alignSlots(p, p.step.counts[p.count], p.chosen);
}

struct PermuteParams {
  const bf16* x;    // [rows, n]
  const int* row;   // [slots]
  const int* first; // [experts + 1]
  bf16* y;          // [slots, n]
  int n, experts;
};

// A warp copies a row.
KERNEL(256, 1) permute(PARAM PermuteParams p) {
  launchDependentsAndWait();
  int slot = blockX() * 8 + warp();
  if (slot >= p.first[p.experts]) return;
  const Vec16* from = (const Vec16*)(p.x + (long)p.row[slot] * p.n);
  Vec16* to = (Vec16*)(p.y + (long)slot * p.n);
  constexpr int COUNT = 4; // in flight at once
  for (int i = lane(); i < p.n / 8; i += 32 * COUNT) {
    Vec16 v[COUNT];
    UNROLL for (int j = 0; j < COUNT; j++) v[j] = loadVec(from + mini(i + 32 * j, p.n / 8 - 1));
    UNROLL for (int j = 0; j < COUNT; j++)
      if (i + 32 * j < p.n / 8) storeVec(to + i + 32 * j, v[j]);
  }
}

struct CombineParams {
  Step step;
  const void* down;   // [slots, n]
  const int* slot;    // [rows × top]; null: slot i is i
  const float* share; // [rows × top]
  void* y;            // [rows, n]
  int n, top, count, pad;
};

// combine is the weighted sum of a row's results, in the order of its scores, eight numbers a thread; loads of four results are in flight at once. Experts of
// another device have no slot.
template <typename T> DEVICE void combine(const CombineParams& p) {
  launchDependentsAndWait();
  int r = blockY(), i = (blockX() * 128 + threadX()) * 8;
  if (r >= p.step.counts[p.count] || i >= p.n) return;
  auto slot = [&](int k) { return p.slot ? p.slot[r * p.top + k] : r * p.top + k; };
  const float* share = p.share + r * p.top;
  T* y = (T*)p.y + (long)r * p.n + i;
  if (p.n % 8 != 0) {
    for (int j = 0; j < mini(8, p.n - i); j++) {
      float acc = 0;
      for (int k = 0; k < p.top; k++)
        if (slot(k) >= 0) acc += share[k] * toFloat(((const T*)p.down)[(long)slot(k) * p.n + i + j]);
      y[j] = fromFloat<T>(acc);
    }
    return;
  }
  constexpr int WORDS = 8 * sizeof(T) / 16;
  alignas(16) T v[4][8];
  float acc[8] = {};
  for (int k0 = 0; k0 < p.top; k0 += 4) {
    UNROLL for (int k = 0; k < 4; k++) {
      const Vec16* from = (const Vec16*)((const T*)p.down + (long)maxi(slot(mini(k0 + k, p.top - 1)), 0) * p.n + i);
      UNROLL for (int j = 0; j < WORDS; j++) ((Vec16*)v[k])[j] = from[j];
    }
    UNROLL for (int k = 0; k < 4; k++) {
      if (k0 + k >= p.top) break;
      if (slot(k0 + k) < 0) continue;
      float s = share[k0 + k];
      UNROLL for (int j = 0; j < 8; j++) acc[j] += s * toFloat(v[k][j]);
    }
  }
  UNROLL for (int j = 0; j < 8; j++) v[0][j] = fromFloat<T>(acc[j]);
  UNROLL for (int j = 0; j < WORDS; j++) ((Vec16*)y)[j] = ((Vec16*)v[0])[j];
}
// CombineNormParams is combine fused with the residual add and RMSNorm that follow the block.
struct CombineNormParams {
  CombineParams of;         // its y receives the normalised rows
  const bf16* residual; // [rows, n]
  bf16* total;          // [rows, n] receives residual + sum
  const float* weight;  // [n]
  float eps;
  int early; // shares may be read before the previous launch has ended, as after grouped_gemv.h
};

// combine_norm: one block a row of n ≤ 4096 numbers, a multiple of 8; eight a thread.
KERNEL(512, 1) combine_norm(PARAM CombineNormParams p) {
  SHARED static float scratch[32];
  constexpr int COUNT = 8; // results in flight at once
  const CombineParams& of = p.of;
  int r = blockX(), i = threadX() * 8;
  bool mine = i < of.n;
  float weight[8] = {}, share[COUNT];
  long slot[COUNT];
  auto note = [&](int k0) {
    UNROLL for (int k = 0; k < COUNT; k++) {
      int j = r * of.top + mini(k0 + k, of.top - 1);
      share[k] = of.share[j], slot[k] = of.slot ? of.slot[j] : j;
    }
  };
  if (mine) UNROLL for (int j = 0; j < 8; j++) weight[j] = p.weight[i + j];
  launchDependents();
  bool there = r < of.step.counts[of.count];
  if (there && p.early) note(0);
  gridDependencyWait();
  if (!there) return;
  if (!p.early) note(0);
  long at = (long)r * of.n + i;
  float acc[8] = {}, squares = 0;
  if (mine) {
    Vec16 to = loadVec(p.residual + at);
    for (int k0 = 0; k0 < of.top; k0 += COUNT) {
      if (k0 > 0) note(k0);
      Vec16 v[COUNT];
      UNROLL for (int k = 0; k < COUNT; k++) v[k] = loadVec((const bf16*)of.down + slot[k] * of.n + i);
      UNROLL for (int k = 0; k < COUNT; k++) {
        if (k0 + k >= of.top) break;
        UNROLL for (int j = 0; j < 4; j++) acc[2 * j] += share[k] * low(v[k].x[j]), acc[2 * j + 1] += share[k] * high(v[k].x[j]);
      }
    }
    UNROLL for (int j = 0; j < 4; j++) {
      u32 sum = pack(acc[2 * j], acc[2 * j + 1]); // rounded to bf16, like the unfused kernels
      to.x[j] = pack(low(to.x[j]) + low(sum), high(to.x[j]) + high(sum));
      acc[2 * j] = low(to.x[j]), acc[2 * j + 1] = high(to.x[j]);
    }
    storeVec(p.total + at, to);
    UNROLL for (int j = 0; j < 8; j++) squares += acc[j] * acc[j];
  }
  float scale = rsqrt(blockSum(squares, scratch) / of.n + p.eps);
  Vec16 y;
  UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(acc[2 * j] * scale * weight[2 * j], acc[2 * j + 1] * scale * weight[2 * j + 1]);
  if (mine) storeVec((bf16*)of.y + at, y);
}

KERNEL(128, 1) combine_f32(PARAM CombineParams p) { combine<float>(p); }
KERNEL(128, 1) combine_bf16(PARAM CombineParams p) { combine<bf16>(p); }

KERNEL(256, 1) simt_f32_f32(PARAM SimtParams p) { simtGemm<float, float>(p); }
KERNEL(256, 1) simt_f32_bf16(PARAM SimtParams p) { simtGemm<float, bf16>(p); }
KERNEL(256, 1) simt_bf16_bf16(PARAM SimtParams p) { simtGemm<bf16, bf16>(p); }
KERNEL(256, 1) gated_activation_f32(PARAM ActivationParams p) { gatedActivations<float>(p); }
KERNEL(256, 1) gated_activation_bf16(PARAM ActivationParams p) { gatedActivations<bf16>(p); }
