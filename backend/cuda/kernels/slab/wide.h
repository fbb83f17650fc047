// The linear layer on packed weights for more than a few rows of x, on Hopper: one warp keeps the copy engine fetching units of weights and
// tiles of x into a ring of shared memory; two warpgroups open the units in registers, which are the A operand of their products, and take
// x from shared memory. Work is dealt out as in gemm.cu: whole tiles, or a stream of steps in equal runs.
#pragma once
#include "../hopper.h"
#include "unit.h"

struct WideParams {
  TensorMap x; // [rows, k]
  PackedPart part[3];
  float* partial; // stream: two tiles a block
  int* arrived;   // stream: [tiles] zeros
  int m, k, parts, fn;
  int rowTiles, tiles, stream; // tiles of x, tiles in all, how work is dealt out
  int gated; // the two parts are the gate and the up matrix; a tile has 64 rows of each
};

constexpr int WORKERS = 256;

// Work is a block's share: count steps of 256 columns in a row, from a step of a tile on. It is walked by increments: a division a
// step would cost more than the step.
struct Work {
  int steps, count, tile, step, turn; // turn: from one tile to the next
  DEVICE Work(const WideParams& p) {
    steps = unitsOf(p.k) / 2;
    if (p.stream) {
      int start = first(p, steps, blockX());
      count = first(p, steps, blockX() + 1) - start;
      tile = start / steps, step = start % steps, turn = 1;
    } else {
      tile = blockX(), step = 0, turn = gridX();
      count = tile < p.tiles ? ceilDiv(p.tiles - tile, turn) * steps : 0;
    }
  }
  // first is the step that a block of a stream starts with.
  static DEVICE int first(const WideParams& p, int steps, int block) { return (int)((long)p.tiles * steps * block / gridX()); }
  DEVICE bool next() { // whether a new tile begins
    if (++step < steps) return false;
    step = 0, tile += turn;
    return true;
  }
};

// Place is where a tile lies. All tiles of x of a tile of weights follow each other, so that weights are read from memory once.
struct Place {
  int part, tile, xRow; // tile: of its part
  template <int BN> static DEVICE Place of(const WideParams& p, int tile) {
    Place at;
    at.xRow = tile % p.rowTiles * BN;
    at.tile = tile / p.rowTiles;
    at.part = 0;
    if (!p.gated)
      while (at.part + 1 < p.parts && at.tile >= p.part[at.part].tiles) at.tile -= p.part[at.part++].tiles;
    return at;
  }
};

DEVICE void fetchUnits(u32 to, const u8* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(KEEP_SHORT) : "memory");
}

// opened is D[64 × N] += A[64 × 16] × B[N × 16]', A from registers as mma's.
DEVICE void opened(float (&d)[8], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, 1, 1, 1, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE void opened(float (&d)[16], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE void opened(float (&d)[32], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE void opened(float (&d)[64], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <typename Q, int BN> DEVICE void wide(const WideParams& p) {
  constexpr int UNIT = 2 * Q::BYTES, X_BYTES = BN * 128; // of 64 columns
  constexpr int STAGE = (4 * X_BYTES + 2 * SLAB * UNIT + 1023) / 1024 * 1024;
  constexpr int LINE = 128 * 2 + 16, LINES = BN < 32 ? BN : 32;                                    // the epilogue's, in bytes and tokens
  constexpr int ROOM = 224 * 1024 - LINE * LINES, STAGES = ROOM / STAGE < 12 ? ROOM / STAGE : 12;
  SHARED static u64 bars[2 * STAGES];
  SHARED static int isLast;
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(bars), empty = full + 8 * STAGES;
  u8* lines = dynamic + (ring - sharedAddress(dynamic)) + STAGES * STAGE;
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) barrierInit(full + 8 * i, 2 + p.gated), barrierInit(empty + 8 * i, WORKERS / 32);
    barrierInitDone();
  }
  barrier();
  releaseNext();
  Work work(p);

  if (warp() < 4) { // producers, which need few registers: one thread for x, one for each part of a tile's weights
    keepRegisters<40>();
    if (lane() != 0 || warp() > 1 + p.gated) return;
    Place at = Place::of<BN>(p, work.tile);
    if (warp() == 0) {
      awaitInput();
      Ring<STAGES> r;
      for (int i = 0; i < work.count; i++, r.next()) {
        if (i >= STAGES) barrierWait(empty + r.stage * 8, r.phase ^ 1);
        barrierExpect(full + r.stage * 8, 4 * X_BYTES);
        fetchBox3(ring + r.stage * STAGE, &p.x, 0, at.xRow, work.step * 4, full + r.stage * 8);
        if (work.next()) at = Place::of<BN>(p, work.tile);
      }
      return;
    }
    int second = warp() - 1; // weights do not wait for the launch before this one
    auto find = [&] { // a gated tile has half a slab of each part
      return p.gated ? p.part[second].w + ((long)(at.tile / 2) * work.steps * 4 + work.step * 4 + at.tile % 2) * (SLAB / 2 * UNIT)
                     : p.part[at.part].w + ((long)at.tile * work.steps + work.step) * (2 * SLAB * UNIT);
    };
    const u8* from = find();
    Ring<STAGES> r;
    for (int i = 0; i < work.count; i++, r.next()) {
      u32 to = ring + r.stage * STAGE + 4 * X_BYTES, bar = full + r.stage * 8;
      if (i >= STAGES) barrierWait(empty + r.stage * 8, r.phase ^ 1);
      if (p.gated) {
        barrierExpect(bar, SLAB * UNIT);
        fetchUnits(to + second * (SLAB / 2 * UNIT), from, SLAB / 2 * UNIT, bar);
        fetchUnits(to + SLAB * UNIT + second * (SLAB / 2 * UNIT), from + SLAB * UNIT, SLAB / 2 * UNIT, bar);
      } else {
        barrierExpect(bar, 2 * SLAB * UNIT);
        fetchUnits(to, from, 2 * SLAB * UNIT, bar);
      }
      from += 2 * SLAB * UNIT;
      if (work.next()) at = Place::of<BN>(p, work.tile), from = find();
    }
    return;
  }

  takeRegisters<232>();
  awaitInput();
  int group = warp() / 4 - 1, in = warp() % 4, tid = threadX() - 128, g = lane() / 4, t = lane() % 4;
  // A warp's 16 rows are a unit's; in a gated tile they are eight of the gate's (half 0 of A) and the same eight of the up matrix's, from
  // two units, of which the one warpgroup takes the first halves and the other the second.
  u32 top = (p.gated ? in * UNIT + group * Q::BYTES : (group * 4 + in) * UNIT) + 4 * X_BYTES;
  u32 halves[2] = {top, top + (p.gated ? 4 * UNIT : Q::BYTES)};
  float acc[BN / 2];
  Ring<STAGES> r;
  int steps = work.steps;
  for (int done = 0; done < work.count;) {
    int tile = work.tile, n = mini(steps - work.step, work.count - done);
    bool head = done == 0;
    UNROLL for (int e = 0; e < BN / 2; e++) acc[e] = 0;
    for (int j = 0; j < n; j++) {
      barrierWait(full + r.stage * 8, r.phase);
      u32 at = ring + r.stage * STAGE;
      Q q[2];
      u32 a[2][4][4]; // one is opened while the other is multiplied
      UNROLL for (int side = 0; side < 4; side++) { // 64 columns, a box of x
        if (side % 2 == 0)
          UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{at + halves[h] + side / 2 * (SLAB * UNIT)});
        if (side >= 2) productWait<1>();
        UNROLL for (int b = 0; b < 2; b++) {
          u32 top[4], bottom[4];
          weights(q[0], side % 2 * 2 + b, top);
          weights(q[1], side % 2 * 2 + b, bottom);
          UNROLL for (int s = 0; s < 2; s++) {
            u32(&to)[4] = a[side % 2][2 * b + s];
            to[0] = top[2 * s], to[1] = bottom[2 * s], to[2] = top[2 * s + 1], to[3] = bottom[2 * s + 1];
          }
        }
        productFence();
        UNROLL for (int k = 0; k < 4; k++) opened(acc, a[side % 2][k], operand(at + side * X_BYTES) + 2 * k);
        productCommit();
      }
      productWait<0>();
      UNROLL for (int e = 0; e < BN / 2; e++) asm volatile("" : "+f"(acc[e])::"memory");
      if (lane() == 0) barrierArrive(empty + r.stage * 8);
      r.next();
    }
    done += n, work.step = 0, work.tile += work.turn;

    if (n < steps) { // a piece: hand it over, and go on with the whole tile if it was the last
      float* mine = p.partial + ((long)blockX() * 2 + (head ? 0 : 1)) * (BN / 2) * WORKERS + tid;
      UNROLL for (int e = 0; e < BN / 2; e++) mine[e * WORKERS] = acc[e];
      int low = tile * steps, high = low + steps - 1; // the first and last step of the tile, and the blocks that have them
      long all = (long)p.tiles * steps;
      int c0 = (int)((long)low * gridX() / all), c1 = (int)((long)high * gridX() / all);
      while (Work::first(p, steps, c0 + 1) <= low) c0++;
      while (Work::first(p, steps, c1 + 1) <= high) c1++;
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      namedBarrier(3, WORKERS);
      if (tid == 0) {
        int before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + tile) : "memory");
        isLast = before == c1 - c0;
        if (isLast) p.arrived[tile] = 0;
      }
      namedBarrier(3, WORKERS);
      bool mineToFinish = isLast;
      namedBarrier(3, WORKERS); // nobody writes isLast again before all have read it
      if (!mineToFinish) continue;
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      UNROLL for (int e = 0; e < BN / 2; e++) acc[e] = 0;
      for (int c = c0; c <= c1; c++) {
        const float* piece = p.partial + (long)(c * 2 + (Work::first(p, steps, c) >= low ? 0 : 1)) * (BN / 2) * WORKERS + tid;
        UNROLL for (int e = 0; e < BN / 2; e++) acc[e] += __builtin_nontemporal_load(piece + e * WORKERS);
      }
    }

    // The epilogue turns the tile so that a token's numbers lie together, some tokens at a time: the warps lay their columns of Y in lines
    // of shared memory, and all write them out 16 bytes a thread.
    Place at = Place::of<BN>(p, tile);
    const PackedPart& part = p.part[at.part];
    int cols = p.gated ? 64 : 128, column = at.tile * cols, row = p.gated ? in * 16 + group * 8 : (group * 4 + in) * 16;
    const float* second = p.gated ? p.part[1].bias : part.bias;
    int row1 = p.gated ? row + g : row + g + 8;
    float bias0 = part.bias && column + row + g < part.n ? part.bias[column + row + g] : 0;
    float bias1 = second && column + row1 < part.n ? second[column + row1] : 0;
    UNROLL for (int c = 0; c < BN / LINES; c++) {
      UNROLL for (int j = 0; j < LINES / 8; j++) {
        float* d = acc + (c * (LINES / 8) + j) * 4;
        u32* line = (u32*)(lines + (j * 8 + g) * LINE + row * 2 + t * 4);
        if (p.gated) {
          float v[2];
          UNROLL for (int e = 0; e < 2; e++)
            v[e] = gate(p.fn, toFloat(fromFloat<bf16>(d[e] + bias0))) * toFloat(fromFloat<bf16>(d[e + 2] + bias1));
          line[0] = transpose8(pack(v[0], v[1]));
        } else {
          line[0] = transpose8(pack(d[0] + bias0, d[1] + bias0));
          line[4] = transpose8(pack(d[2] + bias1, d[3] + bias1));
        }
      }
      namedBarrier(1, WORKERS);
      for (int s = tid; s < LINES * (cols / 8); s += WORKERS) {
        int line = s / (cols / 8), token = at.xRow + c * LINES + line, col = column + s % (cols / 8) * 8;
        if (token >= p.m || col >= part.n) continue;
        *(Vec16*)(part.y + (long)token * part.n + col) = *(const Vec16*)(lines + line * LINE + s % (cols / 8) * 16);
      }
      namedBarrier(1, WORKERS);
    }
  }
}
