// Skinny GEMM, for 1 to 16 rows of activations: it reads every weight once, at memory speed. The weights are the A
// operand of mma.sync, straight from global memory into registers, and the few rows of x are its B.
//
// mma wants A's columns (k) in a fixed order over the lanes, but the sum over k does not care for the order: as long as x
// is permuted alike, lane t of a quad may take any eight. So each lane loads 8 neighbouring numbers, 16 bytes, of a row, and
// no shuffle or shared memory stands between the memory and the tensor core.
//
// The same template makes the 8-bit kernels of gemm/w8a8; see mma_ops.h.
#pragma once
#include "../../activation.h"
#include "../../mma_ops.h"

namespace skinny_gemm {
struct Part { // one weight matrix; several that read the same x are one launch
  const bf16* w;      // [n, k]
  const float* bias;  // [n] or null
  const float* scale; // [n] what a number of each row of weights counts, if they are scaled
  bf16* y;            // [m, n]
  int n, pad;
};
struct SkinnyParams {
  const bf16* x; // [m, k]
  Part part[4];  // of a gated launch one matrix, gate and up interleaved, and the up matrix's bias and scale in part[1]
  const float* xScale; // [m] what a number of each row of x counts, if they are scaled
  int m, k, parts, fn; // k: in pairs of bytes (mma_ops.h); fn: graph.Fn of a gated launch
};

constexpr int CHUNK = 64; // of k, that a warp multiplies at a time
constexpr int DEEP = 2;   // chunks of a warp whose loads are in flight at once

// Range is the part of k that a block multiplies.
struct Range { int from, to; };

// stream adds to acc the products of RT × 16 rows of weights with the rows of x, as far as they are the warp's: WARPS warps split the k between them.
// NT × 8 is the rows of x there is room for. w is where each lane's rows begin. The first weights are on their way when beforeWait runs, and x is read
// after it. Each warp runs beforeLast once, while the last weights are on their way.
template <typename MmaOp, int WARPS, int NT, int RT, typename F, typename G>
DEVICE void stream(typename MmaOp::Accumulator (&acc)[RT][NT][4], const bf16* const (&w)[RT][2], const SkinnyParams& p, Range k, F beforeWait, G beforeLast) {
  int g = lane() / 4, t = lane() % 4;
  Vec16 a[DEEP][RT][2][2]; // [chunk][row tile][rows g, g+8][first and second 32 of the chunk]

  auto load = [&](int at) {
    UNROLL for (int d = 0; d < DEEP; d++) UNROLL for (int h = 0; h < 2; h++) {
      int c = at + d * WARPS * CHUNK + h * 32;
      bool in = c + t * 8 < k.to;
      UNROLL for (int r = 0; r < RT; r++) UNROLL for (int half = 0; half < 2; half++)
        a[d][r][half][h] = in ? loadNoAllocate(w[r][half] + c) : Vec16{};
    }
  };
  constexpr int STEP = WARPS * DEEP * CHUNK;
  int at = k.from + warp() * CHUNK;
  load(at);
  beforeWait();
  gridDependencyWait();
  if (at + STEP >= k.to) beforeLast();
  for (;;) {
    UNROLL for (int d = 0; d < DEEP; d++) UNROLL for (int h = 0; h < 2; h++) {
      int c = at + d * WARPS * CHUNK + h * 32 + t * 8;
      UNROLL for (int j = 0; j < NT; j++) {
        Vec16 b = {};
        if (j * 8 + g < p.m && c < k.to) b = *(const Vec16*)(p.x + (long)(j * 8 + g) * p.k + c);
        UNROLL for (int r = 0; r < RT; r++) {
          Vec16 &top = a[d][r][0][h], &bottom = a[d][r][1][h];
          MmaOp::multiply(acc[r][j], top.x[0], bottom.x[0], top.x[1], bottom.x[1], b.x[0], b.x[1]);
          MmaOp::multiply(acc[r][j], top.x[2], bottom.x[2], top.x[3], bottom.x[3], b.x[2], b.x[3]);
        }
      }
    }
    at += STEP;
    if (at >= k.to) break;
    load(at);
    if (at + STEP >= k.to) beforeLast();
  }
}

// The warps' partial sums are reduced in shared memory, laid out [row of x][row of weights], and are added in the warps' order.
template <typename Accumulator, int NT, int RT> DEVICE void share(Accumulator (*sums)[RT * NT * 128], const Accumulator (&acc)[RT][NT][4]) {
  int g = lane() / 4, t = lane() % 4;
  UNROLL for (int r = 0; r < RT; r++) UNROLL for (int j = 0; j < NT; j++) UNROLL for (int i = 0; i < 4; i++)
    sums[warp()][(j * 8 + t * 2 + (i & 1)) * (RT * 16) + r * 16 + g + (i / 2) * 8] = acc[r][j][i];
}

// Plain is a launch without adapters; adapted.h has the one with them. A launch's first blocks are not the product's.
struct Plain {
  static constexpr int first = 0;
  DEVICE void prepare(int, int, int) const {}
  DEVICE void collect(int, int) const {}
  DEVICE int arrive() const { return 0; }
  DEVICE float add(float sum, int, int, int) const { return sum; }
  DEVICE void leave(int) const {}
};

// A block takes RT × 16 rows of weights (RT = 2 and GATED: 16 of the gate's and the same 16 of the up matrix, interleaved by eights). What adapters add
// to a result comes from adapt.
template <typename MmaOp, int WARPS, int NT, int RT, bool GATED, typename Adapt = Plain> DEVICE void skinny(const SkinnyParams& p, const Adapt& adapt = {}) {
  typedef typename MmaOp::Accumulator Accumulator;
  SHARED static Accumulator sums[WARPS][RT * NT * 128];
  launchDependents();
  constexpr int ROWS = GATED ? 16 : 16 * RT;
  int tile = blockX() - adapt.first, which = 0;
  if (!GATED)
    while (which + 1 < p.parts && tile >= ceilDiv(p.part[which].n, ROWS)) tile -= ceilDiv(p.part[which++].n, ROWS);
  int g = lane() / 4, t = lane() % 4, row0 = tile * ROWS, n = p.part[which].n;

  const bf16* w[RT][2];
  UNROLL for (int r = 0; r < RT; r++) UNROLL for (int half = 0; half < 2; half++) {
    int row = row0 + r * 16 + half * 8 + g, last = n - 1;
    if (GATED) row = (row0 + half * 8) * 2 + r * 8 + g, last = 2 * n - 1;
    w[r][half] = p.part[which].w + (long)mini(row, last) * p.k + t * 8;
  }
  Accumulator acc[RT][NT][4] = {};
  stream<MmaOp, WARPS, NT, RT>(
      acc, w, p, {0, p.k}, [&]() __attribute__((always_inline)) { adapt.prepare(which, row0, n); },
      [&]() __attribute__((always_inline)) { adapt.collect(row0, n); });
  share<Accumulator, NT, RT>(sums, acc);
  barrier();
  int arrived = adapt.arrive();
  for (int i = threadX(); i < RT * NT * 128; i += WARPS * 32) {
    int m = i / (RT * 16), c = i % (RT * 16), row = row0 + c;
    if (m >= p.m || row >= n || (GATED && c >= 16)) continue;
    const Part& part = p.part[which];
    auto total = [&](int i, const float* scale) {
      Accumulator sum = 0;
      UNROLL for (int k = 0; k < WARPS; k++) sum += sums[k][i];
      return MmaOp::SCALED ? MmaOp::result(sum, scale[row], p.xScale[m]) : (float)sum;
    };
    float v = adapt.add(total(i, part.scale), m, 0, row);
    if (part.bias) v += part.bias[row];
    if (GATED) {
      float up = adapt.add(total(i + 16, p.part[1].scale), m, 1, row);
      if (p.part[1].bias) up += p.part[1].bias[row];
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    part.y[(long)m * n + row] = fromFloat<bf16>(v);
  }
  adapt.leave(arrived);
}
} // namespace skinny_gemm
