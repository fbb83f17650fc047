// Blocks of many experts (graph.MoE): a step's rows are dealt to the experts they pass, the experts' products run over those rows,
// and each row's results are added up, times their shares.
//
//   route   scores → chosen, share; and, where one block is enough, what deal does
//   deal    chosen → slots and jobs
//   sort    x → a copy of its row for every slot, which large jobs want
//   gated   x, gate, up → [slots, ffn]         experts_*.cu, by the weights' format
//   one     that, down → [slots, in]
//   sum     share × those → y
//
// A row or two may do with two launches instead; see single.h.
#include "../cuda.h"
#include "route.h"
#include "plain.h"
#include "vec.h"

KERNEL(512, 1) route_f32(PARAM RouteParams p) { route<float>(p); }
KERNEL(512, 1) route_bf16(PARAM RouteParams p) { route<bf16>(p); }
KERNEL(512, 1) deal(PARAM RouteParams p) {
  begin();
  deal(p, p.step.counts[p.count], p.chosen);
}

struct SortParams {
  const bf16* x;    // [rows, n]
  const int* row;   // [slots]
  const int* first; // [experts + 1]
  bf16* y;          // [slots, n]
  int n, experts;
};

// A warp copies a row.
KERNEL(256, 1) sort(PARAM SortParams p) {
  begin();
  int slot = blockX() * 8 + warp();
  if (slot >= p.first[p.experts]) return;
  const Vec16* from = (const Vec16*)(p.x + (long)p.row[slot] * p.n);
  Vec16* to = (Vec16*)(p.y + (long)slot * p.n);
  constexpr int COUNT = 4; // on their way at once
  for (int i = lane(); i < p.n / 8; i += 32 * COUNT) {
    Vec16 v[COUNT];
    UNROLL for (int j = 0; j < COUNT; j++) v[j] = loadVec(from + mini(i + 32 * j, p.n / 8 - 1));
    UNROLL for (int j = 0; j < COUNT; j++)
      if (i + 32 * j < p.n / 8) storeVec(to + i + 32 * j, v[j]);
  }
}

struct SumParams {
  Step step;
  const void* down;   // [slots, n]
  const int* slot;    // [rows × top]
  const float* share; // [rows × top]
  void* y;            // [rows, n]
  int n, top, count, pad;
};

// sum adds up a row's results in the order of its scores, eight numbers a thread. Four results are on their way at a time.
template <typename T> DEVICE void sum(const SumParams& p) {
  begin();
  int r = blockY(), i = (blockX() * 128 + threadX()) * 8;
  if (r >= p.step.counts[p.count] || i >= p.n) return;
  const int* slot = p.slot + r * p.top;
  const float* share = p.share + r * p.top;
  T* y = (T*)p.y + (long)r * p.n + i;
  if (p.n % 8 != 0) {
    for (int j = 0; j < mini(8, p.n - i); j++) {
      float acc = 0;
      for (int k = 0; k < p.top; k++) acc += share[k] * toFloat(((const T*)p.down)[(long)slot[k] * p.n + i + j]);
      y[j] = fromFloat<T>(acc);
    }
    return;
  }
  constexpr int WORDS = 8 * sizeof(T) / 16;
  alignas(16) T v[4][8];
  float acc[8] = {};
  for (int k0 = 0; k0 < p.top; k0 += 4) {
    UNROLL for (int k = 0; k < 4; k++) {
      const Vec16* from = (const Vec16*)((const T*)p.down + (long)slot[mini(k0 + k, p.top - 1)] * p.n + i);
      UNROLL for (int j = 0; j < WORDS; j++) ((Vec16*)v[k])[j] = from[j];
    }
    UNROLL for (int k = 0; k < 4; k++) {
      if (k0 + k >= p.top) break;
      float s = share[k0 + k];
      UNROLL for (int j = 0; j < 8; j++) acc[j] += s * toFloat(v[k][j]);
    }
  }
  UNROLL for (int j = 0; j < 8; j++) v[0][j] = fromFloat<T>(acc[j]);
  UNROLL for (int j = 0; j < WORDS; j++) ((Vec16*)y)[j] = ((Vec16*)v[0])[j];
}
KERNEL(128, 1) sum_f32(PARAM SumParams p) { sum<float>(p); }
KERNEL(128, 1) sum_bf16(PARAM SumParams p) { sum<bf16>(p); }

KERNEL(256, 1) plain_f32_f32(PARAM PlainParams p) { plain<float, float>(p); }
KERNEL(256, 1) plain_f32_bf16(PARAM PlainParams p) { plain<float, bf16>(p); }
KERNEL(256, 1) plain_bf16_bf16(PARAM PlainParams p) { plain<bf16, bf16>(p); }
KERNEL(256, 1) join_f32(PARAM JoinParams p) { join<float>(p); }
KERNEL(256, 1) join_bf16(PARAM JoinParams p) { join<bf16>(p); }
