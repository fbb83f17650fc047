// The linear layer on packed weights for 1 to 8 rows of x, at the memory's speed. A block has a run of tiles (16 rows of weights each), and
// each of its warps a run of the units of every tile: so a warp needs its own columns of x alone, which it lays out in shared memory
// itself. Weights come through a ring of units of each warp's own, from before the launch that makes x has ended. The warps' sums of
// some tiles are added while they are at the next, so that none waits for another before the end.
#pragma once
#include "unit.h"

struct FewParams {
  const bf16* x;       // [m, k]
  PackedPart part[3];
  int m, k, parts, fn; // fn: graph.Fn of a gated launch, whose two parts are the gate and the up matrix
  int turn;            // 2 in a gated launch: tiles of its parts by turns; otherwise 1
  int tiles, each;     // of all parts; of a block, except the last
  int units;           // of a row
};

// Few is how a block's shared memory, ROOM bytes, is shared. ONE: there is one row of x, so that the eight columns of a product are all alike.
template <typename Q, bool ONE, int ROOM> struct Few {
#if __CUDA_ARCH__ >= 900
  static constexpr int WARPS = 16;
#else
  static constexpr int WARPS = 8;
#endif
  static constexpr int LINES = ONE ? 8 : 16;             // for each warp: a unit's columns of a row of x each
  static constexpr int LINE = COLUMNS * 2 + (ONE ? 0 : 16); // so that neighbouring lines start four banks apart
  static constexpr int SCALES = BLOCKS * Q::SUBS;        // of a row of a unit
  static constexpr int OFFSETS = Q::ABOVE ? 8 * SCALES * 16 : 0; // for each warp: see offset
  static constexpr int ROUND = ONE ? 8 : 2;              // tiles whose sums are added at once; even
  static constexpr int OUT = ONE ? 16 : 128, SLOT = OUT + 1; // numbers of a sum, and its place: finish's loads fall on all banks
  static constexpr int SUMS = (ROUND * WARPS * SLOT * 4 + 15) / 16 * 16; // of a round; there are two
  static constexpr int UNIT = 2 * Q::BYTES;
  static constexpr int DEPTH = (ROOM - 2 * SUMS - WARPS * (LINES * LINE + OFFSETS)) / (WARPS * UNIT); // of a ring, in units
};

// findPart is the part that a tile of the launch is of; tile becomes that of the part.
DEVICE int findPart(const FewParams& p, int& tile) {
  if (p.turn == 2) {
    int which = tile & 1;
    tile >>= 1;
    return which;
  }
  int which = (tile >= p.part[1].tiles) + (tile >= p.part[2].tiles);
  tile -= p.part[which].tiles;
  return which;
}

// dot is mma that the compiler may move, and whose sum starts at c.
DEVICE void dot(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
DEVICE void storeShared(u32 at, u32 v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
DEVICE void storeShared(u32 at, const Vec16& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}

// A meeting is where the warps of a block say that they are done with something, round by round, and others wait for all of them.
DEVICE void meetingInit(u32 at, int warps) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(warps) : "memory"); }
DEVICE void meetingDone(u32 at) { // by a whole warp
  warpBarrier();
  if (lane() == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
DEVICE void meetingWait(u32 at, int round) {
#if __CUDA_ARCH__ >= 900
#define TRY "mbarrier.try_wait"
#else
#define TRY "mbarrier.test_wait"
#endif
  asm volatile("{\n\t.reg .pred done;\n\tagain:\n\t" TRY ".parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}" ::"r"(at), "r"(round & 1) : "memory");
#undef TRY
}

// Fetch is a warp's way through memory, a ring's depth ahead of what it computes: rounds of tiles, in a round phases of units, in a phase tiles.
template <typename F> struct Fetch {
  const u8* at;
  int end, from, to, step;      // tiles of the block; units of the warp, and of a phase
  int round, phase, tile, unit; // where it is; round and phase by their first tile and unit
  DEVICE void find(const FewParams& p) {
    int t = tile, which = findPart(p, t);
    at = p.part[which].w + unitAt(t, unit, p.units) * F::UNIT + lane() * 16;
  }
  DEVICE void ask(const FewParams& p, u32 stage) {
    if (round < end) {
      u32 to16 = stage + lane() * 16;
      UNROLL for (int i = 0; i < ceilDiv(F::UNIT, 512); i++)
        if (F::UNIT % 512 == 0 || i < F::UNIT / 512 || lane() < F::UNIT % 512 / 16)
          asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to16 + i * 512), "l"(at + i * 512) : "memory");
      at += SLAB * F::UNIT;
      if (++unit == mini(phase + step, to)) {
        if (++tile == mini(round + F::ROUND, end)) {
          if ((phase += step) >= to) phase = from, round += F::ROUND;
          tile = round;
        }
        unit = phase;
        if (round < end) find(p);
      }
    }
    copyCommit();
  }
};

// Columns is the columns of x of a phase's units: 16 lines (8 if ONE), of 2^shift rows of each unit, of which lanes hold 16 bytes a time.
template <typename F, bool ONE> struct Columns {
  static constexpr int LOADS = F::LINES / 2;
  Vec16 v[LOADS];
  DEVICE void load(const FewParams& p, int shift, int unit, int units) { // all under way at once
    UNROLL for (int i = 0; i < LOADS; i++) {
      v[i] = Vec16{};
      int line = 2 * i + lane() / 16, in = line >> shift, row = line & ((1 << shift) - 1), k = (unit + in) * COLUMNS + lane() % 16 * 8;
      if (in < units && row < p.m && k < p.k) v[i] = *(const Vec16*)(p.x + (long)row * p.k + k);
    }
  }
  DEVICE void layOut(u32 xs) const { // as loadX will want them
    u32 to = xs + lane() / 16 * F::LINE + lane() % 16 * 16, toOne = xs + lane() / 16 * F::LINE + lane() % 16 / 4 * 64 + lane() % 4 * 4;
    UNROLL for (int i = 0; i < LOADS; i++)
      if (ONE) UNROLL for (int t = 0; t < 4; t++) storeShared(toOne + i * 2 * F::LINE + t * 16, v[i].x[t]);
      else storeShared(to + i * 2 * F::LINE, v[i]);
  }
};

// loadX gets a block's columns of x, the B operands of its two products.
template <bool ONE> DEVICE void loadX(u32 (&x)[4], u32 at) {
  if (ONE) {
    Vec16 four = InShared{at}.four(0);
    UNROLL for (int j = 0; j < 4; j++) x[j] = four.x[j];
  } else {
    loadMatrix4(x, at);
  }
}

// offset finds, for each scale of a block, what a product of raw codes is too large by, negative, in the places of its results: 16 bytes for
// each lane of a quad that has results. They lie stride bytes apart.
template <typename Q, bool ONE> DEVICE void offset(u32 xLane, u32 to, int stride, bool mine) {
  constexpr u32 one = 0xc300 + Q::ABOVE - 128, all = one << 16 | one; // -ABOVE as bf16, for ABOVE from 128 to 255
  u32 x[4];
  loadX<ONE>(x, xLane);
  float sums[Q::SUBS][4];
  const float zeros[4] = {};
  UNROLL for (int s = 0; s < 2; s++) dot(sums[s % Q::SUBS], all, all, all, all, x[2 * s], x[2 * s + 1], s < Q::SUBS ? zeros : sums[0]);
  UNROLL for (int s = 0; s < Q::SUBS; s++) {
    Vec16 v;
    UNROLL for (int j = 0; j < 4; j++) v.x[j] = __builtin_bit_cast(u32, sums[s][j]);
    if (mine) storeShared(to + s * stride, v);
  }
}

// multiply adds a unit's products to acc.
template <typename Q, bool ONE> DEVICE void multiply(float (&acc)[4], const Q (&q)[2], u32 xLane, u32 offsetLane, int stride) {
  UNROLL for (int block = 0; block < BLOCKS; block++) {
    u32 x[4], top[4], bottom[4];
    loadX<ONE>(x, xLane + block * 64);
    q[0].raw(block, top);
    q[1].raw(block, bottom);
    float dots[Q::SUBS][4], above[Q::SUBS][4] = {};
    UNROLL for (int s = 0; s < Q::SUBS; s++) {
      if (!Q::ABOVE) continue;
      Vec16 four = InShared{offsetLane + (block * Q::SUBS + s) * stride}.four(0);
      UNROLL for (int j = 0; j < 4; j++) above[s][j] = __builtin_bit_cast(float, four.x[j]);
    }
    UNROLL for (int s = 0; s < 2; s++)
      dot(dots[s % Q::SUBS], top[2 * s], bottom[2 * s], top[2 * s + 1], bottom[2 * s + 1], x[2 * s], x[2 * s + 1], s < Q::SUBS ? above[s] : dots[0]);
    UNROLL for (int s = 0; s < Q::SUBS; s++) UNROLL for (int j = 0; j < 4; j += ONE ? 2 : 1) {
      acc[j] += q[j / 2].scale(block * Q::SUBS + s) * dots[s][j];
      if (Q::AFFINE) acc[j] += q[j / 2].middle(block) * (-1.0f / maxi(Q::ABOVE, 1)) * above[s][j];
    }
  }
}

// finish adds the warps' sums of a round's tiles, in the same order each time, and writes results. Two lanes have half of the warps each; in a
// gated launch two more have those of the up matrix.
template <typename F, bool ONE> DEVICE void finish(const FewParams& p, const float* sums, int first, int tiles) {
  constexpr int ROWS = ONE ? 1 : 8;
  for (int i = threadX(); i < tiles * F::OUT * 2; i += F::WARPS * 32) {
    int second = p.turn == 2 ? i >> 1 & 1 : 0, j = i >> p.turn, tile = j / F::OUT * p.turn + second, number = j % F::OUT;
    const float* half = sums + (tile * F::WARPS + i % 2 * (F::WARPS / 2)) * F::SLOT + number;
    float v = 0;
    UNROLL for (int w = 0; w < F::WARPS / 2; w++) v += half[w * F::SLOT];
    v += shuffleXor(v, 1);
    int t = first + tile, which = findPart(p, t), row = t * 16 + number / ROWS, m = number % ROWS;
    const PackedPart& part = p.part[which];
    bool wanted = row < part.n && m < p.m;
    if (wanted && part.bias) v += part.bias[row];
    if (p.turn == 2) {
      float up = shuffleXor(v, 2);
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    if (wanted && i % 2 == 0 && second == 0) part.y[(long)m * part.n + row] = fromFloat<bf16>(v);
  }
}

template <typename Q, bool ONE, int ROOM> DEVICE void few(const FewParams& p) {
  using F = Few<Q, ONE, ROOM>;
  static_assert(F::DEPTH >= 2);
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH;
  SHARED static u64 meetings[4]; // of two rounds: their sums are there; they have been added
  releaseNext();
  int first = blockX() * p.each, end = mini(first + p.each, p.tiles);
  int from = p.units * warp() / F::WARPS, to = p.units * (warp() + 1) / F::WARPS;
  int shift = ONE ? 0 : p.m <= 2 ? 1 : p.m <= 4 ? 2 : 3, step = F::LINES >> shift; // rows of x there is room for, as a power of two; units of a phase
  u32 ring = sharedAddress(dynamic) + warp() * DEPTH * UNIT, stage = ring;
  Fetch<F> ahead = {nullptr, from < to ? end : first, from, to, step, first, from, first, from};
  ahead.find(p);
  _Pragma("nounroll") for (int i = 0; i < DEPTH; i++) ahead.ask(p, ring + i * UNIT);
  u32 there = sharedAddress(meetings), added = there + 16;
  if (threadX() < 4) meetingInit(there + threadX() * 8, F::WARPS);
  barrier();

  constexpr int SUMS = F::WARPS * DEPTH * UNIT, XS = SUMS + 2 * F::SUMS;
  u32 xs = sharedAddress(dynamic) + XS + warp() * (F::LINES * F::LINE + F::OFFSETS);
  u32 xLane = xs + (ONE ? lane() % 4 * 16 : (lane() % 8 & ((1 << shift) - 1)) * F::LINE + lane() / 8 * 16); // a unit's are LINE << shift apart
  int quads = ONE ? 1 : (1 << shift) / 2, stride = quads * 16;
  u32 offsetLane = xs + F::LINES * F::LINE + mini(lane() % 4, quads - 1) * 16;
  bool whole = to - from <= step; // there is one phase, laid out once
  awaitInput();
  auto sumsOf = [&](int count) { return (float*)(dynamic + SUMS + count % 2 * F::SUMS); }; // [tiles][warps][16 rows of weights][rows of x]
  int round = first, count = 0;
  for (; round < end; round += F::ROUND, count++) {
    int tiles = mini(F::ROUND, end - round);
    for (int phase = from; phase == from || phase < to; phase += step) {
      int units = mini(step, to - phase);
      if (!whole || round == first) {
        Columns<F, ONE> columns;
        columns.load(p, shift, phase, units);
        warpBarrier();
        columns.layOut(xs);
        warpBarrier();
        if (Q::ABOVE) {
          for (int i = 0; i < units; i++) UNROLL for (int b = 0; b < BLOCKS; b++)
            offset<Q, ONE>(xLane + (i << shift) * F::LINE + b * 64, offsetLane + (i * F::SCALES + b * Q::SUBS) * stride, stride, lane() < quads);
          warpBarrier();
        }
      }
      for (int tile = 0; tile < tiles; tile++) {
        float acc[4] = {};
        _Pragma("nounroll") for (int i = 0; i < units; i++) {
          copyWait<DEPTH - 1>();
          warpBarrier();
          Q q[2];
          UNROLL for (int h = 0; h < 2; h++) q[h].load(InShared{stage + h * Q::BYTES});
          warpBarrier();
          ahead.ask(p, stage);
          if ((stage += UNIT) == ring + DEPTH * UNIT) stage = ring;
          multiply<Q, ONE>(acc, q, xLane + (i << shift) * F::LINE, offsetLane + i * F::SCALES * stride, stride);
        }
        if (phase == from && tile == 0 && count > 0) { // by now the others are through with the round before, and with adding that before it
          meetingWait(there + (count - 1) % 2 * 8, (count - 1) / 2);
          finish<F, ONE>(p, sumsOf(count - 1), round - F::ROUND, F::ROUND);
          meetingDone(added + (count - 1) % 2 * 8);
          if (count > 1) meetingWait(added + count % 2 * 8, count / 2 - 1);
        }
        float* mine = sumsOf(count) + (tile * F::WARPS + warp()) * F::SLOT + lane() / 4 * (ONE ? 1 : 8) + (ONE ? 0 : lane() % 4 * 2);
        if (!ONE || lane() % 4 == 0)
          UNROLL for (int h = 0; h < 2; h++) UNROLL for (int e = 0; e < (ONE ? 1 : 2); e++) {
            float* one = mine + h * (ONE ? 8 : 64) + e;
            *one = phase == from ? acc[2 * h + e] : *one + acc[2 * h + e];
          }
      }
    }
    meetingDone(there + count % 2 * 8);
  }
  meetingWait(there + (count - 1) % 2 * 8, (count - 1) / 2);
  finish<F, ONE>(p, sumsOf(count - 1), round - F::ROUND, end - (round - F::ROUND));
}
