// Grouped GEMM of experts, 8 × NT rows at most in a job: out = w × x, or act(gate × x) × (up × x). The weights of an expert stream from memory once for
// its rows, in the packed layout of gemm/packed or in bf16 as layout.go says; they are dequantised in registers, where they are the A operand of mma.sync.
//
// A warp takes a tile of 16 rows of weights (gated: two, of 16 rows of each matrix), or shares it with others (split-K): each then has every split-th unit
// of 128 columns. A warp copies its rows' columns into shared memory itself by cp.async, a unit ahead (double buffer).
#pragma once
#include "../gemm/packed/formats.h"
#include "gated_activation.h"
#include "job.h"

struct GroupedGemmParams {
  const bf16* x;    // [rows, k]
  const int* row;   // [slots] the row of x of each; null: x has a row for each slot
  const int* total;   // see RouteParams
  const Vec16* jobs;
  const u8* w;      // panels of each expert, one expert after the other; gated: gate and up interleaved by eight rows
  const float *bias, *upBias; // [experts, n] or null
  bf16* y;          // [slots, n]
  long stride;      // bytes of an expert's panels
  int n, k, each, split;
  int fn;           // graph.Fn of a gated product; of another RELU2 or IDENTITY
  float clamp;      // see graph.MoE
};

// Bf16Weights is weights in bf16: eight consecutive columns of a row for each lane and block. layout.go documents the layout.
struct Bf16Weights {
  static constexpr int BYTES = 2048, SUBS = 1, RAW_BIAS = 0;
  static constexpr bool AFFINE = false;
  Vec16 codes[BLOCKS];
  template <typename From> DEVICE void load(From from, int step = PANEL * BYTES) { // step: from 64 columns to the next
    UNROLL for (int b = 0; b < BLOCKS; b++) codes[b] = from.four(b / 2 * step + b % 2 * 512 + lane() % 4 * 128 + lane() / 4 * 16);
  }
};
DEVICE void dequantise(const Bf16Weights& q, int block, u32 (&pairs)[4]) {
  UNROLL for (int i = 0; i < 4; i++) pairs[i] = q.codes[block].x[i];
}

// Whether weights are dequantised in registers; and the distance in bytes of the two halves of a tile in a panel.
template <typename Q> constexpr bool QUANTISED = true;
template <> constexpr bool QUANTISED<Bf16Weights> = false;
template <typename Q> constexpr int APART = QUANTISED<Q> ? Q::BYTES : Q::BYTES / 2;

// The pitch of a row's columns of a unit in shared memory, in bytes. Consecutive rows start four banks apart, for ldmatrix, or 16, for loads of 16 bytes a lane.
template <typename Q> constexpr int LINE = COLUMNS * 2 + (QUANTISED<Q> ? 16 : 64);
constexpr int WARPS = 4;

// rowsOf loads the B operands of a block of 32 columns and eight rows, in the column order of the dequantised weights.
template <typename Q> DEVICE void rowsOf(u32 (&v)[4], u32 at) {
  if (QUANTISED<Q>) {
    ldmatrix4(v, at + lane() % 8 * LINE<Q> + lane() / 8 * 16);
  } else {
    Vec16 four = InShared{at + lane() / 4 * LINE<Q>}.four(lane() % 4 * 16);
    UNROLL for (int i = 0; i < 4; i++) v[i] = four.x[i];
  }
}

// Raw multiplies a block's codes undequantised, with an offset of RAW_BIAS, and applies scales and zero points to the accumulators: scale × (sum of codes × x)
// + (middle - scale × RAW_BIAS) × (sum of x). That takes fewer instructions than scaling the weights, and rounds nothing.
template <typename Q, int NT> struct Raw {
  template <int RT> static DEVICE void multiply(float (&acc)[RT][NT][4], const Q (&q)[RT][2], int block, const u32 (&v)[NT][4]) {
    constexpr int STEP = 4 / Q::SUBS; // pairs that share a scale
    UNROLL for (int sub = 0; sub < Q::SUBS; sub++) {
      float all[NT][4]; // the sums of x
      UNROLL for (int j = 0; j < NT; j++) {
        UNROLL for (int i = 0; i < 4; i++) all[j][i] = 0;
        UNROLL for (int s = sub * STEP; s < (sub + 1) * STEP; s += 2) mma(all[j], ONES, ONES, ONES, ONES, v[j][s], v[j][s + 1]);
      }
      UNROLL for (int r = 0; r < RT; r++) {
        u32 top[4], bottom[4];
        q[r][0].raw(block, top);
        q[r][1].raw(block, bottom);
        float scale[2], rest[2];
        UNROLL for (int h = 0; h < 2; h++) scale[h] = q[r][h].scale(block * Q::SUBS + sub), rest[h] = q[r][h].middle(block) - scale[h] * Q::RAW_BIAS;
        UNROLL for (int j = 0; j < NT; j++) {
          float sum[4] = {};
          UNROLL for (int s = sub * STEP; s < (sub + 1) * STEP; s += 2) mma(sum, top[s], bottom[s], top[s + 1], bottom[s + 1], v[j][s], v[j][s + 1]);
          UNROLL for (int i = 0; i < 4; i++) acc[r][j][i] += scale[i / 2] * sum[i];
          UNROLL for (int i = 0; i < 4; i++) acc[r][j][i] += rest[i / 2] * all[j][i];
        }
      }
    }
  }
};

template <typename Q, int NT, bool GATED> DEVICE void groupedGemm(const GroupedGemmParams& p) {
  constexpr int RT = GATED ? 2 : 1, UNIT = 2 * Q::BYTES, STAGE = NT * 8 * LINE<Q>, PITCH = 20;
  static_assert(2 * STAGE >= RT * NT * 8 * PITCH * 4, "the sums lie where x lay");
  constexpr bool RAW = Q::RAW_BIAS && NT <= 2; // see Raw; with more rows it is slower
  launchDependentsAndWait();
  int group = WARPS / p.split, allTiles = ceilDiv(p.n, 16), units = ceilDiv(p.k, COLUMNS);
  Job job;
  if (!job.find(p, blockX(), ceilDiv(allTiles, group))) return;
  int g = lane() / 4, t = lane() % 4, tile = mini(job.tiles * group + warp() / p.split, allTiles - 1);

  const u8* w = p.w + job.expert * p.stride + (long)(RT * tile / PANEL * unitsOf(p.k)) * (PANEL * UNIT) + RT * tile % PANEL * (2 * APART<Q>);
  float acc[RT][NT][4] = {};
  auto load = [&](Q (&q)[RT][2], int unit) __attribute__((always_inline)) {
    UNROLL for (int r = 0; r < RT; r++) UNROLL for (int h = 0; h < 2; h++) q[r][h].load(InGlobal{w + (long)unit * PANEL * UNIT + (2 * r + h) * APART<Q>});
  };
  Q even[RT][2], odd[RT][2];
  int unit = warp() % p.split, at = 0;
  if (unit < units) load(even, unit);

  u32 stage = sharedAddress(dynamic) + warp() * 2 * STAGE;
  const bf16* x[NT * 4]; // the rows of which a lane copies 16 bytes a unit
  UNROLL for (int i = 0; i < NT * 4; i++) {
    int s = job.slot + mini(2 * i + lane() / 16, job.count - 1);
    x[i] = p.x + (long)(p.row ? p.row[s] : s) * p.k;
  }
  auto loadX = [&](int unit, int at) __attribute__((always_inline)) {
    int k = unit * COLUMNS + lane() % 16 * 8;
    UNROLL for (int i = 0; i < NT * 4; i++) {
      bool in = 2 * i + lane() / 16 < job.count && k < p.k;
      cpAsync16(stage + at * STAGE + (2 * i + lane() / 16) * LINE<Q> + lane() % 16 * 16, x[i] + (in ? k : 0), in);
    }
    cpAsyncCommit();
  };
  if (unit < units) loadX(unit, 0);
  // step multiplies a unit while the next one is loaded; it reports whether there is one.
  auto step = [&](Q (&q)[RT][2], Q (&later)[RT][2]) __attribute__((always_inline)) {
    unit += p.split;
    if (unit < units) load(later, unit), loadX(unit, at ^ 1);
    else cpAsyncCommit();
    cpAsyncWait<1>();
    warpBarrier();
    UNROLL for (int b = 0; b < BLOCKS; b++) {
      u32 v[NT][4];
      UNROLL for (int j = 0; j < NT; j++) rowsOf<Q>(v[j], stage + at * STAGE + j * 8 * LINE<Q> + b * 64);
      if constexpr (RAW) {
        Raw<Q, NT>::multiply(acc, q, b, v);
      } else {
        UNROLL for (int r = 0; r < RT; r++) {
          u32 top[4], bottom[4];
          dequantise(q[r][0], b, top);
          dequantise(q[r][1], b, bottom);
          UNROLL for (int j = 0; j < NT; j++) UNROLL for (int s = 0; s < 4; s += 2)
            mma(acc[r][j], top[s], bottom[s], top[s + 1], bottom[s + 1], v[j][s], v[j][s + 1]);
        }
      }
    }
    warpBarrier(); // all lanes have read what the next step's copies overwrite
    at ^= 1;
    return unit < units;
  };
  if (unit < units)
    while (step(even, odd) && step(odd, even)) {}

  // Epilogue: the partial sums of the warps that share a tile are reduced in warp order. In shared memory they are [slot][PITCH].
  cpAsyncWait<0>();
  barrier();
  float* sums = (float*)dynamic;
  constexpr int SUMS = NT * 8 * PITCH;
  UNROLL for (int r = 0; r < RT; r++) UNROLL for (int j = 0; j < NT; j++) UNROLL for (int i = 0; i < 4; i++)
    sums[(warp() * RT + r) * SUMS + (j * 8 + t * 2 + (i & 1)) * PITCH + g + i / 2 * 8] = acc[r][j][i];
  barrier();
  for (int i = threadX(); i < group * NT * 128; i += WARPS * 32) {
    int in = i / (NT * 128), s = i % (NT * 128) / 16, c = i % 16, row = (job.tiles * group + in) * 16 + c;
    if (s >= job.count || row >= p.n) continue;
    auto total = [&](int at, const float* bias) {
      float v = 0;
      for (int part = 0; part < p.split; part++) v += sums[(in * p.split + part) * RT * SUMS + s * PITCH + at];
      return bias ? v + bias[(long)job.expert * p.n + row] : v;
    };
    int at = GATED ? c / 8 * SUMS + c % 8 : c; // the gate's; the up matrix's is 8 further
    float v = total(at, p.bias);
    if (GATED) v = gatedActivation(p.fn, p.clamp, v, total(at + 8, p.upBias));
    else v = productOf(p.fn == RELU2, v);
    p.y[(long)(job.slot + s) * p.n + row] = fromFloat<bf16>(v);
  }
}
