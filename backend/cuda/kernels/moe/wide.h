// The products of experts.h on Hopper, for jobs of up to BN slots: a warp for each operand keeps the copy engine fetching units of weights
// and tiles of x into a ring of shared memory; two warpgroups open the units in registers, which are the A operand of their products,
// and take x from shared memory. x has a row for each slot. A box of x that goes beyond an expert's slots has those of the next expert,
// which are multiplied and not stored. Blocks take tiles in turn: 128 rows of weights, or 64 of the gate and 64 of the up matrix, by one job.
#pragma once
#include "../slab/wide.h"
#include "experts.h"

struct WideExpertsParams {
  TensorMap x; // [slots, k], in boxes of BN slots × 128 columns
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

#if __CUDA_ARCH__ >= 900
template <typename Q, int BN, bool GATED> DEVICE void wideExperts(const WideExpertsParams& p) {
  constexpr int UNIT = 2 * Q::BYTES, X_BYTES = BN * 128; // of 64 columns
  constexpr int STAGE = (2 * X_BYTES + SLAB * UNIT + 1023) / 1024 * 1024, ROWS = GATED ? 64 : 128;
  constexpr int LINE = 128 * 2 + 16, LINES = 32; // the epilogue's, in bytes and slots
  constexpr int ROOM = 224 * 1024 - LINE * LINES, STAGES = ROOM / STAGE < 8 ? ROOM / STAGE : 8;
  SHARED static u64 bars[2 * STAGES];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(bars), empty = full + 8 * STAGES;
  u8* lines = dynamic + (ring - sharedAddress(dynamic)) + STAGES * STAGE;
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) barrierInit(full + 8 * i, 2 + GATED), barrierInit(empty + 8 * i, WORKERS / 32);
    barrierInitDone();
  }
  barrier();
  begin();
  int units = unitsOf(p.k), runs = ceilDiv(p.n, ROWS), tile = blockX();
  Job job;
  Ring<STAGES> r;

  if (warp() < 4) { // producers, which need few registers: one thread for x, one for each matrix
    keepRegisters<40>();
    if (lane() != 0 || warp() > 1 + GATED) return;
    for (int fetched = 0; job.find(p, tile, runs); tile += gridX()) {
      const u8* from = warp() < 2 ? p.w : p.up; // a gated tile has half a slab of each matrix
      from += job.expert * p.stride + (GATED ? (long)(job.tiles / 2) * units * SLAB + job.tiles % 2 * (SLAB / 2) : (long)job.tiles * units * SLAB) * UNIT;
      for (int unit = 0; unit < units; unit++, fetched++, r.next()) {
        u32 to = ring + r.stage * STAGE, bar = full + r.stage * 8;
        if (fetched >= STAGES) barrierWait(empty + r.stage * 8, r.phase ^ 1);
        if (warp() == 0) {
          barrierExpect(bar, 2 * X_BYTES);
          fetchBox3(to, &p.x, 0, job.slot, unit * 2, bar);
        } else {
          constexpr int BYTES = SLAB * UNIT / (GATED ? 2 : 1);
          barrierExpect(bar, BYTES);
          fetchUnits(to + 2 * X_BYTES + (warp() - 1) * BYTES, from, BYTES, bar);
          from += SLAB * UNIT;
        }
      }
    }
    return;
  }

  takeRegisters<232>();
  int group = warp() / 4 - 1, in = warp() % 4, tid = threadX() - 128, g = lane() / 4, t = lane() % 4;
  // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
  // two units, of which the one warpgroup takes the first halves and the other the second.
  u32 top = (GATED ? in * UNIT + group * Q::BYTES : (group * 4 + in) * UNIT) + 2 * X_BYTES;
  u32 halves[2] = {top, top + (GATED ? 4 * UNIT : Q::BYTES)};
  float acc[BN / 2];
  for (; job.find(p, tile, runs); tile += gridX()) {
    UNROLL for (int e = 0; e < BN / 2; e++) acc[e] = 0;
    for (int unit = 0; unit < units; unit++) {
      barrierWait(full + r.stage * 8, r.phase);
      u32 at = ring + r.stage * STAGE;
      Q q[2];
      UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{at + halves[h]});
      u32 a[2][4][4]; // one is opened while the other is multiplied
      UNROLL for (int side = 0; side < 2; side++) { // 64 columns, a box of x
        UNROLL for (int b = 0; b < 2; b++) {
          u32 top[4], bottom[4];
          weights(q[0], side * 2 + b, top);
          weights(q[1], side * 2 + b, bottom);
          UNROLL for (int s = 0; s < 2; s++) {
            u32(&to)[4] = a[side][2 * b + s];
            to[0] = top[2 * s], to[1] = bottom[2 * s], to[2] = top[2 * s + 1], to[3] = bottom[2 * s + 1];
          }
        }
        productFence();
        UNROLL for (int k = 0; k < 4; k++) opened(acc, a[side][k], operand(at + side * X_BYTES) + 2 * k);
        productCommit();
      }
      productWait<0>();
      UNROLL for (int e = 0; e < BN / 2; e++) asm volatile("" : "+f"(acc[e])::"memory");
      if (lane() == 0) barrierArrive(empty + r.stage * 8);
      r.next();
    }

    // The epilogue turns the tile so that a slot's numbers lie together, some slots at a time: the warps lay their columns of Y in lines of
    // shared memory, and all write them out 16 bytes a thread.
    int column = job.tiles * ROWS, row = GATED ? in * 16 + group * 8 : (group * 4 + in) * 16, row1 = GATED ? row + g : row + g + 8;
    const float* second = GATED ? p.upBias : p.bias;
    long biases = (long)job.expert * p.n + column;
    float bias0 = p.bias && column + row + g < p.n ? p.bias[biases + row + g] : 0;
    float bias1 = second && column + row1 < p.n ? second[biases + row1] : 0;
    UNROLL for (int c = 0; c < BN / LINES; c++) {
      if (c * LINES >= job.count) continue;
      UNROLL for (int j = 0; j < LINES / 8; j++) {
        float* d = acc + (c * (LINES / 8) + j) * 4;
        u32* line = (u32*)(lines + (j * 8 + g) * LINE + row * 2 + t * 4);
        if (GATED) {
          line[0] = transpose8(pack(joined(p.fn, p.clamp, d[0] + bias0, d[2] + bias1), joined(p.fn, p.clamp, d[1] + bias0, d[3] + bias1)));
        } else {
          line[0] = transpose8(pack(d[0] + bias0, d[1] + bias0));
          line[4] = transpose8(pack(d[2] + bias1, d[3] + bias1));
        }
      }
      namedBarrier(1, WORKERS);
      for (int s = tid; s < LINES * (ROWS / 8); s += WORKERS) {
        int line = s / (ROWS / 8), slot = c * LINES + line, col = column + s % (ROWS / 8) * 8;
        if (slot >= job.count || col >= p.n) continue;
        *(Vec16*)(p.y + (long)(job.slot + slot) * p.n + col) = *(const Vec16*)(lines + line * LINE + s % (ROWS / 8) * 16);
      }
      namedBarrier(1, WORKERS);
    }
  }
}
#endif
