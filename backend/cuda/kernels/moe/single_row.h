// A block of experts for one or two rows, each computed separately, in two launches: different rows mostly have different experts, so that grouping gains
// nothing, and at this size the time is that of launches and of dependent reads.
//
//   single_row_gated   scores → the row's experts (top-k, in every block); x, gate, up → [rows × top, ffn]
//   single_row_down    the same experts; that, down → share × results, combined, → y
//
// A block has a tile of 16 rows of weights (gated: two, of 16 rows of each matrix), of which each warp has every warps-th unit (split-K). Each warp
// loads its units through a cp.async ring of its own, so that most of them are requested at once. The row is repeated in all columns of B.
#pragma once
#include "grouped_gemm.h"
#include "route.h"
#include "vec.h"

struct SingleRowParams {
  const void* scores; // [rows, experts]
  const bf16* x;      // [rows, k], or [rows × top, k] for the last product
  const u8* w;        // as in GroupedGemmParams
  const float *bias, *upBias; // [experts, n] or null
  bf16* y;            // [rows × top, n], or [rows, n]
  const bf16* residual; // [rows, n] added to the last product's results, or null
  long stride;
  int n, k, experts, top, ofAll, fn;
  float clamp;
  int f32Scores;  // whether scores are float32, not bf16
  int depth; // of a warp's ring, in units: singleRow's DEPTH, or the warp's units if fewer
};

constexpr int MAX_SINGLE_TOP = 32, MAX_SINGLE_EXPERTS = 256, MAX_SINGLE_WARPS = 16;

// Choice is the experts of a row and their shares, the weights of their results.
struct Choice {
  int expert[MAX_SINGLE_TOP];
  float share[MAX_SINGLE_TOP];
  template <typename T> DEVICE void make(const SingleRowParams& p, int row, bool shares) { // by a warp
    const T* scores = (const T*)p.scores + (long)row * p.experts;
    Chosen<1> c;
    if (p.experts <= 128) c = topK<T, 4, 1>(scores, p.experts, p.top, p.ofAll, shares);
    else c = topK<T, MAX_SINGLE_EXPERTS / 32, 1>(scores, p.experts, p.top, p.ofAll, shares);
    if (lane() < p.top) expert[lane()] = c.expert[0], share[lane()] = c.share[0];
  }
};

// addUnit accumulates a unit times a row's columns, in shared memory at `at`, into the sums of rows g and g + 8 of each tile.
template <typename Q, int RT> DEVICE void addUnit(float (&acc)[RT][2], const Q (&q)[RT][2], u32 at) {
  float dots[RT][4] = {};
  UNROLL for (int b = 0; b < BLOCKS; b++) {
    u32 v[4];
    if (QUANTISED<Q>) {
      ldmatrix4(v, at + b * 64 + lane() / 8 * 16); // the same row eight times
    } else {
      Vec16 four = InShared{at + b * 64}.four(lane() % 4 * 16);
      UNROLL for (int i = 0; i < 4; i++) v[i] = four.x[i];
    }
    if constexpr (Q::RAW_BIAS != 0) { // see Raw
      constexpr int STEP = 4 / Q::SUBS;
      UNROLL for (int sub = 0; sub < Q::SUBS; sub++) {
        float all[4] = {};
        UNROLL for (int s = sub * STEP; s < (sub + 1) * STEP; s += 2) mma(all, ONES, ONES, ONES, ONES, v[s], v[s + 1]);
        UNROLL for (int r = 0; r < RT; r++) {
          u32 top[4], bottom[4];
          q[r][0].raw(b, top);
          q[r][1].raw(b, bottom);
          float sum[4] = {};
          UNROLL for (int s = sub * STEP; s < (sub + 1) * STEP; s += 2) mma(sum, top[s], bottom[s], top[s + 1], bottom[s + 1], v[s], v[s + 1]);
          UNROLL for (int h = 0; h < 2; h++) {
            float scale = q[r][h].scale(b * Q::SUBS + sub);
            acc[r][h] += scale * sum[2 * h] + (q[r][h].middle(b) - scale * Q::RAW_BIAS) * all[0];
          }
        }
      }
    } else {
      UNROLL for (int r = 0; r < RT; r++) {
        u32 top[4], bottom[4];
        dequantise(q[r][0], b, top);
        dequantise(q[r][1], b, bottom);
        UNROLL for (int s = 0; s < 4; s += 2) mma(dots[r], top[s], bottom[s], top[s + 1], bottom[s + 1], v[s], v[s + 1]);
      }
    }
  }
  if (Q::RAW_BIAS == 0) UNROLL for (int r = 0; r < RT; r++) acc[r][0] += dots[r][0], acc[r][1] += dots[r][2];
}

// copyRows copies rows of x to shared memory, a line of whole units each: by loads, as waiting for a cp.async group would wait for weights in flight too.
DEVICE void copyRows(const SingleRowParams& p, const bf16* from, int rows, int line) {
  for (int i = threadX(); i < rows * (line / 16); i += threads()) {
    int row = i / (line / 16), k = i % (line / 16) * 8;
    bool in = k < p.k;
    Vec16 v = {};
    if (in) v = loadVec(from + (long)row * p.k + k);
    *(Vec16*)(dynamic + i * 16) = v;
  }
}

template <typename Q, bool GATED> DEVICE void singleRow(const SingleRowParams& p) {
  constexpr int RT = GATED ? 2 : 1, UNIT = 2 * Q::BYTES, STAGE = RT * UNIT, DEPTH = QUANTISED<Q> ? 4 : 2;
  SHARED static Choice choice;
  SHARED static float sums[MAX_SINGLE_WARPS][RT][16];
  int row = blockY(), warps = threads() / 32, units = ceilDiv(p.k, COLUMNS), line = units * COLUMNS * 2, all = GATED ? units : p.top * units;
  int runs = ceilDiv(p.n, 16), which = blockX() / runs, tile = blockX() % runs, slot = row * p.top + which;
  float residual = 0; // written before the first launch: no wait
  if (!GATED && p.residual && threadX() < 16 && tile * 16 + threadX() < p.n) residual = toFloat(p.residual[(long)row * p.n + tile * 16 + threadX()]);
  // The scores are of the launch before the first. It has ended once the first has executed launch_dependents, so the second can route and load its
  // weights while the first runs.
  if (GATED) gridDependencyWait();
  launchDependents();
  if (warp() == 0) {
    if (p.f32Scores) choice.make<float>(p, row, !GATED);
    else choice.make<bf16>(p, row, !GATED);
  }
  u32 xs = sharedAddress(dynamic), ring = xs + (GATED ? 1 : p.top) * line + warp() * p.depth * STAGE, end = ring + p.depth * STAGE, place = ring;
  if (GATED) copyRows(p, p.x + (long)row * p.k, 1, line);
  barrier();

  const u8* w = p.w + (long)(RT * tile / PANEL * unitsOf(p.k)) * (PANEL * UNIT) + RT * tile % PANEL * (2 * APART<Q>) + lane() * 16;
  int asked = warp();
  auto ask = [&](u32 to) __attribute__((always_inline)) { // loads the warp's next unit, if any
    if (asked < all) {
      int expert = choice.expert[GATED ? which : asked / units];
      const u8* from = w + expert * p.stride + (long)(GATED ? asked : asked % units) * (PANEL * UNIT);
      constexpr int PIECES = QUANTISED<Q> ? 1 : 2, PIECE = STAGE / PIECES; // contiguous pieces of a stage
      UNROLL for (int piece = 0; piece < PIECES; piece++) UNROLL for (int i = 0; i < ceilDiv(PIECE, 512); i++)
        if (PIECE % 512 == 0 || i < PIECE / 512 || lane() < PIECE % 512 / 16)
          cpAsync16(to + lane() * 16 + piece * PIECE + i * 512, from + piece * (PANEL * UNIT / 2) + i * 512, true);
      asked += warps;
    }
    cpAsyncCommit();
  };
  for (int i = 0; i < DEPTH; i++) ask(ring + mini(i, p.depth - 1) * STAGE);
  if (!GATED) {
    gridDependencyWait();
    copyRows(p, p.x + (long)row * p.top * p.k, p.top, line);
    barrier();
  }
  float acc[RT][2] = {};
  for (int i = warp(); i < all; i += warps) {
    cpAsyncWait<DEPTH - 1>();
    warpBarrier();
    Q q[RT][2];
    UNROLL for (int r = 0; r < RT; r++) UNROLL for (int h = 0; h < 2; h++) {
      InShared half = {place + (2 * r + h) * APART<Q>};
      if constexpr (QUANTISED<Q>) q[r][h].load(half);
      else q[r][h].load(half, STAGE / 2);
    }
    float more[RT][2] = {};
    addUnit<Q, RT>(more, q, xs + i * (COLUMNS * 2));
    float share = GATED ? 1 : choice.share[i / units];
    UNROLL for (int r = 0; r < RT; r++) UNROLL for (int h = 0; h < 2; h++) acc[r][h] += share * more[r][h];
    warpBarrier(); // all lanes have read the place that is refilled now
    ask(place);
    if ((place += STAGE) == end) place = ring;
  }

  if (lane() % 4 == 0)
    UNROLL for (int r = 0; r < RT; r++) UNROLL for (int h = 0; h < 2; h++) sums[warp()][r][lane() / 4 + 8 * h] = acc[r][h];
  barrier();
  int c = threadX(), at = tile * 16 + c;
  if (c >= 16 || at >= p.n) return;
  auto total = [&](int r, int c) {
    float v = 0;
    for (int part = 0; part < warps; part++) v += sums[part][r][c];
    return v;
  };
  if (GATED) {
    long bias = (long)choice.expert[which] * p.n + at;
    float gate = total(c / 8 % RT, c % 8) + (p.bias ? p.bias[bias] : 0), up = total(c / 8 % RT, c % 8 + 8) + (p.upBias ? p.upBias[bias] : 0);
    p.y[(long)slot * p.n + at] = fromFloat<bf16>(gatedActivation(p.fn, p.clamp, gate, up));
  } else {
    float v = total(0, c);
    if (p.bias) for (int k = 0; k < p.top; k++) v += choice.share[k] * p.bias[(long)choice.expert[k] * p.n + at];
    if (p.residual) v = toFloat(fromFloat<bf16>(v)) + residual; // rounded to bf16, like the unfused kernels
    p.y[(long)row * p.n + at] = fromFloat<bf16>(v);
  }
}
