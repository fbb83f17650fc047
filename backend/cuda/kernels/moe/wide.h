// The products of experts.h on Hopper, for jobs of up to 128 slots: a warp for each operand keeps the copy engine fetching units of weights
// and tiles of x into a ring of shared memory; two warpgroups open the units in registers, which are the A operand of their products,
// and take x from shared memory. x has a row for each slot. A box of x that goes beyond an expert's slots has those of the next expert,
// which are multiplied, as far as the narrowest product that holds the job's own goes, and not stored. Blocks take tiles in turn: 128 rows
// of weights, or 64 of the gate and 64 of the up matrix, by one job.
#pragma once
#include "../slab/wide.h"
#include "experts.h"

struct WideExpertsParams {
  TensorMap x;   // [slots, k], in boxes of WIDE slots × 128 columns
  TensorMap few; // likewise in boxes of FEW slots, for jobs that have no more
  const int* total;
  const Vec16* jobs;
  const u8 *w, *up;
  const float *bias, *upBias;
  bf16* y;
  long stride;
  int n, k, each, fn;
  float clamp;
  int pad;
  long pad8[5]; // the struct's size is a multiple of its map's alignment, 64
};

constexpr int WIDE = 128, FEW = 32; // slots

#if __CUDA_ARCH__ >= 900
// Halves is the two halves of units that are a warp's 16 rows, in shared memory; open makes the A operands of their columns from 64 × side on.
template <typename Q> struct Halves {
  Q q[2];
  DEVICE void load(u32 top, u32 bottom) { q[0].load(InShared{top}), q[1].load(InShared{bottom}); }
  DEVICE void open(u32 (&a)[4][4], int side) const {
    UNROLL for (int b = 0; b < 2; b++) {
      u32 top[4], bottom[4];
      weights(q[0], side * 2 + b, top);
      weights(q[1], side * 2 + b, bottom);
      UNROLL for (int s = 0; s < 2; s++) {
        u32(&to)[4] = a[2 * b + s];
        to[0] = top[2 * s], to[1] = bottom[2 * s], to[2] = top[2 * s + 1], to[3] = bottom[2 * s + 1];
      }
    }
  }
};
template <> struct Halves<Sixteen> { // no registers are to spare for what needs no opening
  u32 top, bottom;
  DEVICE void load(u32 t, u32 b) { top = t, bottom = b; }
  DEVICE void open(u32 (&a)[4][4], int side) const {
    UNROLL for (int b = 0; b < 2; b++) {
      int at = (side * 2 + b) * 512 + lane() * 16;
      Vec16 v = InShared{top}.four(at), w = InShared{bottom}.four(at);
      UNROLL for (int s = 0; s < 2; s++) {
        u32(&to)[4] = a[2 * b + s];
        to[0] = v.x[2 * s], to[1] = w.x[2 * s], to[2] = v.x[2 * s + 1], to[3] = w.x[2 * s + 1];
      }
    }
  }
};

// Wide is a warp's part of the tiles.
template <typename Q, bool GATED> struct Wide {
  static constexpr int UNIT = 2 * Q::BYTES, X_BYTES = WIDE * 128; // of 64 columns
  static constexpr int STAGE = (2 * X_BYTES + SLAB * UNIT + 1023) / 1024 * 1024, ROWS = GATED ? 64 : 128;
  static constexpr int ROOM = 224 * 1024, STAGES = ROOM / STAGE < 8 ? ROOM / STAGE : 8;
  u32 ring, full, empty; // in shared memory: stages, and barriers for each
  Job* jobs;             // in shared memory, AHEAD of them: that of each tile, from who fetches x
  int units;             // of a row
  Ring<STAGES> r;
  static constexpr int AHEAD = 8; // more tiles than have a stage in the ring

  // fetch is a producer's work: what 0 is x, 1 and 2 are the matrices.
  DEVICE void fetch(const WideExpertsParams& p, int what) {
    Job job;
    int runs = ceilDiv(p.n, ROWS), fetched = 0, at = 0;
    auto begin = [&] { // of a stage, once it is empty
      if (fetched++ >= STAGES) barrierWait(empty + r.stage * 8, r.phase ^ 1);
    };
    for (int tile = blockX(); job.find(p, tile, runs); tile += gridX(), at++) {
      const u8* from = what < 2 ? p.w : p.up; // a gated tile has half a slab of each matrix
      from += job.expert * p.stride + (GATED ? (long)(job.tiles / 2) * units * SLAB + job.tiles % 2 * (SLAB / 2) : (long)job.tiles * units * SLAB) * UNIT;
      for (int unit = 0; unit < units; unit++, r.next()) {
        u32 to = ring + r.stage * STAGE, bar = full + r.stage * 8;
        begin();
        if (what == 0) {
          if (unit == 0) jobs[at % AHEAD] = job;
          bool few = job.count <= FEW;
          barrierExpect(bar, few ? 2 * FEW * 128 : 2 * X_BYTES);
          fetchBox3(to, few ? &p.few : &p.x, 0, job.slot, unit * 2, bar);
        } else {
          constexpr int BYTES = SLAB * UNIT / (GATED ? 2 : 1);
          barrierExpect(bar, BYTES);
          fetchUnits(to + 2 * X_BYTES + (what - 1) * BYTES, from, BYTES, bar);
          from += SLAB * UNIT;
        }
      }
    }
    begin(); // the end is a job without slots
    if (what == 0) jobs[at % AHEAD].count = 0;
    barrierArrive(full + r.stage * 8);
  }

  // tile multiplies one, for a job of up to N slots, and stores it. Its first stage has come.
  template <int N> DEVICE void tile(const WideExpertsParams& p, const Job& job) {
    int group = warp() / 4 - 1, in = warp() % 4, g = lane() / 4, t = lane() % 4;
    int column = job.tiles * ROWS + (GATED ? in * 16 + group * 8 : (group * 4 + in) * 16);
    long biases = (long)job.expert * p.n;
    auto biasOf = [&](const float* bias, int row) { return bias && row < p.n ? bias[biases + row] : 0; };
    float bias0 = biasOf(p.bias, column + g), bias1 = GATED ? biasOf(p.upBias, column + g) : biasOf(p.bias, column + 8 + g);

    // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
    // two units, of which the one warpgroup takes the first halves and the other the second.
    u32 top = (GATED ? in * UNIT + group * Q::BYTES : (group * 4 + in) * UNIT) + 2 * X_BYTES;
    u32 bottom = top + (GATED ? 4 * UNIT : Q::BYTES);
    float acc[N / 2] = {};
    u32 a[2][4][4]; // one side's operands are made while the other's are multiplied
    for (int unit = 0; unit < units; unit++) {
      barrierWait(full + r.stage * 8, r.phase);
      u32 at = ring + r.stage * STAGE;
      Halves<Q> halves;
      halves.load(at + top, at + bottom);
      UNROLL for (int side = 0; side < 2; side++) {
        productWait<1>(); // the last products that read a[side] are done
        if (side == 1 && unit > 0 && lane() == 0) barrierArrive(empty + before(r.stage) * 8); // and so are all of the stage before
        halves.open(a[side], side);
        productFence();
        UNROLL for (int k = 0; k < 4; k++) opened(acc, a[side][k], operand(at + side * (N <= FEW ? FEW : WIDE) * 128) + 2 * k);
        productCommit();
      }
      r.next();
    }
    productWait<0>();
    UNROLL for (int e = 0; e < N / 2; e++) asm volatile("" : "+f"(acc[e])::"memory");
    if (lane() == 0) barrierArrive(empty + before(r.stage) * 8);

    // Turned, a lane has two neighbouring numbers of slot 8j + g; no warp waits for another.
    bf16* y = p.y + (long)(job.slot + g) * p.n + column + t * 2;
    UNROLL for (int j = 0; j < N / 8; j++) {
      float* d = acc + j * 4;
      bool in0 = j * 8 + g < job.count && column < p.n, in1 = in0 && column + 8 < p.n; // n divides by eight
      u32* to = (u32*)(y + (long)j * 8 * p.n);
      if (GATED) {
        u32 v = transpose8(pack(joined(p.fn, p.clamp, d[0] + bias0, d[2] + bias1), joined(p.fn, p.clamp, d[1] + bias0, d[3] + bias1)));
        if (in0) *to = v;
      } else {
        u32 v = transpose8(pack(d[0] + bias0, d[1] + bias0)), w = transpose8(pack(d[2] + bias1, d[3] + bias1));
        if (in0) *to = v;
        if (in1) to[4] = w;
      }
    }
  }
  static DEVICE int before(int stage) { return stage == 0 ? STAGES - 1 : stage - 1; }
};

template <typename Q, bool GATED> DEVICE void wideExperts(const WideExpertsParams& p) {
  typedef Wide<Q, GATED> W;
  SHARED static u64 bars[2 * W::STAGES];
  SHARED static Job jobs[W::AHEAD];
  W w;
  w.jobs = jobs;
  w.ring = (sharedAddress(dynamic) + 1023) & ~1023u, w.full = sharedAddress(bars), w.empty = w.full + 8 * W::STAGES;
  w.units = unitsOf(p.k);
  if (threadX() == 0) {
    for (int i = 0; i < W::STAGES; i++) barrierInit(w.full + 8 * i, 2 + GATED), barrierInit(w.empty + 8 * i, WORKERS / 32);
    barrierInitDone();
  }
  barrier();
  begin();
  if (warp() < 4) { // producers, which need few registers: one thread for x, one for each matrix
    keepRegisters<40>();
    if (lane() == 0 && warp() <= 1 + GATED) w.fetch(p, warp());
    return;
  }
  takeRegisters<232>();
  for (int at = 0;; at++) {
    barrierWait(w.full + w.r.stage * 8, w.r.phase);
    Job job = jobs[at % W::AHEAD];
    if (job.count == 0) return;
    if (job.count <= 16) w.template tile<16>(p, job);
    else if (job.count <= FEW) w.template tile<FEW>(p, job);
    else if (job.count <= 64) w.template tile<64>(p, job);
    else w.template tile<WIDE>(p, job);
  }
}
#endif
