// GEMV on packed weights for 1 to 4 rows of x, in whole numbers: activations are split into hi and lo int8 (two digits of eight bits), with a scale for
// each run of columns in which weights have one scale, so that integer mma multiplies codes as they are, and exactly. An x is off by
// at most 2^-16 of the largest of its run.
//
// A segment is such a run of a row of x. An mma of 16 rows of weights has eight columns: the hi and the lo digits of four segments, a group. A
// block of weights is multiplied by its own segments, with zeros in place of the others'. Where a unit's row has one scale (ONE_SCALE), a group is
// one segment, in four blocks; an mma's columns are the segments of all rows of x, repeated when these are fewer than four.
//
// Digits of several rows take long to make, and every block makes those of all of x. With SPLIT_K two blocks of a cluster have half of the
// columns each and twice as many tiles, one round of them: two warps share a run of columns and its digits and take alternate tiles, and each
// block reduces half of the tiles, whose other partial sums the other block's warps write there through distributed shared memory.
#pragma once
#include "../../sm90.h"
#include "gemv.h"

// UnitPrefetcher walks a warp's units in memory, a ring's depth ahead of what it computes: one tile after the other.
template <int UNIT> struct UnitPrefetcher {
  const u8* at;
  int tile, end, step, unit, from, to;
  DEVICE void find(const GemvParams& p) {
    int t = tile, which = findPart(p, t);
    at = p.part[which].w + unitAt(t, unit, p.units) * UNIT;
  }
  DEVICE bool any() const { return tile < end; }
  DEVICE void next(const GemvParams& p) {
    at += PANEL * UNIT;
    if (++unit < to) return;
    unit = from;
    if ((tile += step) < end) find(p);
  }
};

DEVICE u32 maxPair(u32 a, u32 b) { // of bf16, or NaN if one is
  u32 d;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEVICE u32 shuffleBits(u32 v, int mask) { return __builtin_bit_cast(u32, shuffleXor(__builtin_bit_cast(float, v), mask)); }
constexpr u32 ABS = 0x7fff7fff;
#if __CUDA_ARCH__ >= 900
constexpr int RING = 93 << 10; // bytes of a block's rings together
#else
constexpr int RING = 56 << 10;
#endif

// GemvInt8 is the layout of a block's shared memory: rings, partial sums, and for each run of columns its segments.
template <typename Q, int X_ROWS, bool SPLIT_K = false> struct GemvInt8 {
  static constexpr int ROWS = X_ROWS;                                // 1, 2 or 4
  static constexpr int GROUPS = BLOCKS * Q::SUBS * ROWS / 4;         // of a unit
  static constexpr int GROUP = 32 * 8 + 4 * 8;                       // bytes: each lane's digits; each segment's scale and its sum, see Segments
  static constexpr int RUNS = GEMV_WARPS;                             // of columns that a tile's k is split in
  static constexpr int SHARE = SPLIT_K ? 2 : 1;                         // warps that have the same run; blocks that have the same tile
  static constexpr int OWN = RUNS / SHARE;                           // runs of a block
  static constexpr int ROUND = 8 / ROWS;                             // tiles that a block reduces at once; even
  static constexpr int OUT = 16 * ROWS, SUM_STRIDE = OUT + 1;
  static constexpr int SUMS = (ROUND * GEMV_WARPS * SUM_STRIDE * 4 + 15) / 16 * 16; // of a round; there are two
  static constexpr int UNIT = 2 * Q::BYTES;
  static constexpr int ROOM = ROWS == 4 ? RING * 8 / 9 : RING;       // so that four rows of 14336 fit beside it
  static constexpr int DEPTH = ROOM / (GEMV_WARPS * UNIT) < 3 ? 3 : ROOM / (GEMV_WARPS * UNIT); // of a ring, in units
  static constexpr int EARLY = (DEPTH + 1) / 2; // of them, loaded before x, which would have to wait for more
};

// Segments is two groups of a warp's, of which each lane has eight columns of one segment, or nothing: first eight in a row, as they are read, and then
// those that it has of weights.
template <typename F, typename Q> struct Segments {
  int group, groups;
  Vec16 x;
  Vec16 norm[2]; // the weights to normalise with
  static DEVICE int quarter() { return lane() / 4 % 4; } // which of the group's segments, or blocks
  DEVICE int row() const { return ONE_SCALE<Q> ? group % F::GROUPS : quarter() % F::ROWS; }
  DEVICE void find(int n, int all) { groups = all, group = 2 * n + lane() / 16; } // the nth two of a warp's
  DEVICE int run() const { return ONE_SCALE<Q> ? quarter() : (group % F::GROUPS * 4 + quarter()) / F::ROWS; }
  // column is where a lane's eight begin, and p.k if it has none; unit is the warp's first.
  DEVICE int column(const GemvParams& p, int unit) const {
    int k = (unit + group / F::GROUPS) * COLUMNS + run() / Q::SUBS * 32 + lane() % 4 * 8;
    return group < groups && k < p.k && (Q::SUBS == 1 || run() % 2 == lane() % 4 / 2) ? k : p.k;
  }
  // loadNorm and load start the loads of the norm's weights and of x.
  DEVICE void loadNorm(const GemvParams& p, int unit) {
    int k = column(p, unit);
    UNROLL for (int i = 0; i < 2; i++) norm[i] = k < p.k ? *(const Vec16*)(p.norm + k + 4 * i) : Vec16{};
  }
  DEVICE void load(const GemvParams& p, int unit) {
    int k = column(p, unit);
    x = k < p.k && row() < p.m ? *(const Vec16*)(p.x + (long)row() * p.k + k) : Vec16{};
  }
  // applyNorm multiplies x by the norm's weights and gives the sum of the squares it had. The norm's scale, one number for a row, is applied to results.
  DEVICE float applyNorm() {
    float sum = 0;
    UNROLL for (int i = 0; i < 4; i++) {
      float a = low(x.x[i]), b = high(x.x[i]);
      sum += a * a + b * b;
      x.x[i] = pack(a * __builtin_bit_cast(float, norm[i / 2].x[i % 2 * 2]), b * __builtin_bit_cast(float, norm[i / 2].x[i % 2 * 2 + 1]));
    }
    return sum;
  }
  // transposeQuad gives lane t of four the pairs t of all of them.
  DEVICE void transposeQuad() {
    UNROLL for (int mask = 1; mask < 4; mask *= 2) UNROLL for (int i = 0; i < 4; i++) {
      if (i & mask) continue;
      bool upper = lane() & mask;
      u32 got = shuffleBits(upper ? x.x[i] : x.x[i + mask], mask);
      x.x[i] = upper ? got : x.x[i], x.x[i + mask] = upper ? x.x[i + mask] : got;
    }
  }
  // storeDigits writes digits, and for each segment its scale and, in such scales, BYTE_BIAS times what its numbers add up to, negative.
  DEVICE void storeDigits(u32 xs) {
    transposeQuad();
    const u32(&pairs)[4] = x.x;
    constexpr u32 MAGIC = 0x4b400000 + 128; // 1.5 × 2^23: a number added to it is whole, in the last bits; 128 makes the low digit signed
    u32 top = maxPair(maxPair(pairs[0] & ABS, pairs[1] & ABS), maxPair(pairs[2] & ABS, pairs[3] & ABS));
    top = maxPair(top, prmt(top, top, 0x1032));
    top = maxPair(top, shuffleBits(top, 1));
    top = maxPair(top, shuffleBits(top, 2));
    if (ONE_SCALE<Q>) top = maxPair(top, shuffleBits(top, 4)), top = maxPair(top, shuffleBits(top, 8));
    float most = low(top) == 0 ? 1 : low(top), steps = 32512 * reciprocal(most);
    u32 v[8], sum = 0;
    UNROLL for (int i = 0; i < 8; i++) {
      float one = i % 2 ? high(pairs[i / 2]) : low(pairs[i / 2]);
      v[i] = __builtin_bit_cast(u32, __builtin_fmaf(one, steps, __builtin_bit_cast(float, MAGIC)));
      sum += v[i] - MAGIC;
    }
    sum += shuffleBits(sum, 1);
    sum += shuffleBits(sum, 2);
    if (ONE_SCALE<Q>) sum += shuffleBits(sum, 4), sum += shuffleBits(sum, 8);
    if (group >= groups) return;
    u32 to = xs + group * F::GROUP;
    UNROLL for (int digit = 0; digit < 2; digit++) { // the high ones first
      u32 words[2];
      UNROLL for (int w = 0; w < 2; w++) {
        auto two = [&](int n) { return prmt(v[Q::ORDER >> (16 * w + 4 * n) & 15], v[Q::ORDER >> (16 * w + 4 * n + 4) & 15], digit ? 0x0040 : 0x0051); };
        words[w] = prmt(two(0), two(2), 0x5410) ^ (digit ? 0x80808080 : 0);
      }
      int column = digit * 4 + lane() % 4;
      storeShared(to + (ONE_SCALE<Q> ? quarter() / 2 * 128 + column * 16 + quarter() % 2 * 8 : quarter() * 64 + column * 8), words[0], words[1]);
    }
    float scale = most * (Q::STEPS / 32512);
    if (lane() % (ONE_SCALE<Q> ? 16 : 4) == 0)
      storeShared(to + 256 + quarter() * 8, __builtin_bit_cast(u32, scale), __builtin_bit_cast(u32, (float)(int)sum * scale * -Q::BYTE_BIAS));
  }
};

// quantiseRows makes a warp's segments of x, once it is there, and calls then when its loads are in flight. The warps of a run take alternate
// pairs of groups. NORM: x is normalised but for rmsScale.
template <typename F, typename Q, bool NORM, typename Then> DEVICE void quantiseRows(const GemvParams& p, u32 xs, int from, int groups, Then then) {
  constexpr int COUNT = NORM ? F::ROWS : 4; // in flight at once: all, where a row has 4096 numbers, without too many registers
  constexpr int PASSES = ONE_SCALE<Q> && F::ROWS == 4 ? 2 : 1; // of rows that a lane has
  float sums[PASSES] = {};
  int i = 0, all = ceilDiv(ceilDiv(groups, 2) - warp() / F::OWN, F::SHARE);
  do {
    Segments<F, Q> segments[COUNT];
    UNROLL for (int n = 0; n < COUNT; n++) {
      segments[n].find((i + n) * F::SHARE + warp() / F::OWN, groups);
      if (NORM && i + n < all) segments[n].loadNorm(p, from);
    }
    if (i == 0) gridDependencyWait();
    UNROLL for (int n = 0; n < COUNT; n++)
      if (i + n < all) segments[n].load(p, from);
    if (i == 0) then();
    UNROLL for (int n = 0; n < COUNT; n++) {
      if (i + n >= all) continue;
      if (NORM) sums[n % PASSES] += segments[n].applyNorm();
      segments[n].storeDigits(xs);
    }
  } while ((i += COUNT) < all);
  if (!NORM) return;
  UNROLL for (int turn = 0; turn < PASSES; turn++) {
    UNROLL for (int mask = 1; mask < 32; mask *= 2) // of the lanes that have the same row
      if (ONE_SCALE<Q> ? mask < 16 || F::ROWS == 1 : mask < 4 || mask >= 4 * F::ROWS) sums[turn] += shuffleXor(sums[turn], mask);
    int step = ONE_SCALE<Q> ? 16 : 4, row = lane() / step;
    if (lane() % step == 0 && row < F::ROWS) squares[2 * turn + row][warp()] = sums[turn];
  }
}

// mmaU8S8 is D[16 × 8] += A[16 × 32] × B[32 × 8], whole numbers: A without sign, B with one.
DEVICE void mmaU8S8(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// UnitScales is a unit's weight scales that a lane needs: for each group, of its segment's columns and of rows g and g + 8.
template <typename F, typename Q> struct UnitScales {
  static constexpr int COUNT = ONE_SCALE<Q> ? 1 : F::GROUPS;
  u16 scales[COUNT][2], middles[COUNT][2];
  DEVICE void load(u32 unit) {
    UNROLL for (int j = 0; j < COUNT; j++) UNROLL for (int h = 0; h < 2; h++) {
      InShared row = {unit + h * Q::BYTES + Q::SCALES + lane() / 4 * Q::EACH + (ONE_SCALE<Q> ? 0 : lane() % 4 / F::ROWS * 2)};
      scales[j][h] = row.one(4 * j / F::ROWS * 2);
      if (Q::AFFINE) middles[j][h] = row.one(4 * j / F::ROWS * 2 + Q::EACH / 2);
    }
  }
};

// number combines the integer accumulators of hi and lo digits, with a segment's scale and what its BYTE_BIAS adds.
DEVICE float number(int high, int low, const Vec8& segment) {
  return __builtin_bit_cast(float, segment.x[0]) * (float)(high * 256 + low) + __builtin_bit_cast(float, segment.x[1]);
}

// multiplyDigits adds a unit's products to acc: of rows g and g + 8 by the segment's row of x.
template <typename F, typename Q> DEVICE void multiplyDigits(float (&acc)[2], const Q (&q)[2], const UnitScales<F, Q>& s, u32 xs) {
  constexpr int OF_BLOCK = F::ROWS * Q::SUBS; // segments
  UNROLL for (int j = 0; j < F::GROUPS; j++) {
    Vec8 digits = InShared{xs + lane() * 8}.two(j * F::GROUP), segment = InShared{xs + lane() % 4 * 8}.two(j * F::GROUP + 256);
    int sums[4] = {};
    UNROLL for (int block = 4 * j / OF_BLOCK; block <= (4 * j + 3) / OF_BLOCK; block++) {
      u32 top[2], bottom[2];
      q[0].bytes(block, top);
      q[1].bytes(block, bottom);
      bool mine = OF_BLOCK >= 4 || (4 * j + lane() / 8) / OF_BLOCK == block;
      mmaU8S8(sums, top[0], bottom[0], top[1], bottom[1], mine ? digits.x[0] : 0, mine ? digits.x[1] : 0);
    }
    UNROLL for (int h = 0; h < 2; h++) {
      acc[h] += Q::number(s.scales[j][h]) * number(sums[2 * h], sums[2 * h + 1], segment);
      if (Q::AFFINE) acc[h] += Q::number(s.middles[j][h]) * (__builtin_bit_cast(float, segment.x[1]) * (-1.0f / Q::BYTE_BIAS));
    }
  }
}

// multiplyOneScale is multiplyDigits with one scale a row: it scales once.
template <typename F, typename Q> DEVICE void multiplyOneScale(float (&acc)[2], const Q (&q)[2], const UnitScales<F, Q>& s, u32 xs) {
  InShared mine = {xs + lane() / 8 % F::ROWS * F::GROUP + lane() % 8 * 16};
  Vec16 digits[2] = {mine.four(0), mine.four(128)};
  Vec8 segment = InShared{xs + lane() % F::ROWS * F::GROUP}.two(256);
  int sums[4] = {};
  UNROLL for (int block = 0; block < BLOCKS; block++) {
    u32 top[2], bottom[2];
    q[0].bytes(block, top);
    q[1].bytes(block, bottom);
    mmaU8S8(sums, top[0], bottom[0], top[1], bottom[1], digits[block / 2].x[block % 2 * 2], digits[block / 2].x[block % 2 * 2 + 1]);
  }
  UNROLL for (int h = 0; h < 2; h++) acc[h] += Q::number(s.scales[0][h]) * number(sums[2 * h], sums[2 * h + 1], segment);
}

// storeSums adds the lanes that have segments of the same row of x, unless they have the same segment, and stores [16 rows of weights][rows of x].
template <int ROWS, bool SAME, typename Store> DEVICE void storeSums(float (&acc)[2], Store store) {
  int g = lane() / 4, t = lane() % 4;
  if (ROWS == 4) {
    store(g * 4 + t, acc[0]), store(g * 4 + t + 32, acc[1]);
    return;
  }
  bool second = t & ROWS; // the half of the lanes that goes on with row g + 8
  float top = acc[0], bottom = acc[1], v = second ? bottom : top; // chosen as acc[second] it would lie in local memory
  if (!SAME) v += shuffleXor(second ? top : bottom, ROWS);
  if (!SAME && ROWS == 1) v += shuffleXor(v, 2);
  if (ROWS == 2 || t < 2) store((g + (second ? 8 : 0)) * ROWS + t % ROWS, v);
}

// RemoteSums is the partial sums that a block of a cluster of two gets from the other (st.async): an mbarrier counts their bytes, so no fence is needed.
struct RemoteSums {
  u32 bar;
  // init expects so many words; the other block has done so too when waitReady returns, and may be sent its own.
  DEVICE void init(int words) {
    SHARED static u64 arrived[16]; // one, and as much as keeps the rings at multiples of 128 bytes
    bar = sharedAddress(arrived);
    if (threadX() == 0) {
      mbarrierInit(bar, 1);
      mbarrierInitFence();
      mbarrierExpectTx(bar, 4 * words);
    }
    barrier();
    clusterArriveRelaxed();
  }
  DEVICE void waitReady() const { clusterWait(); }
  DEVICE void send(int block, u32 place, float v) const {
    asm volatile("{\n\t.reg .b32 there, bar;\n\tmapa.shared::cluster.u32 there, %0, %3;\n\tmapa.shared::cluster.u32 bar, %1, %3;\n\t"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %2, [bar];\n\t}"
                 ::"r"(place), "r"(bar), "f"(v), "r"(block) : "memory");
  }
  DEVICE void wait() const { mbarrierWait(bar, 0); }
};

template <typename Q, int ROWS, bool NORM, bool SPLIT_K = false> DEVICE void gemvInt8(const GemvParams& p) {
  using F = GemvInt8<Q, ROWS, SPLIT_K>;
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH, LINE = F::GROUPS * F::GROUP, SUMS = GEMV_WARPS * DEPTH * UNIT;
  static_assert(!SPLIT_K || !NORM);
  launchDependents();
  int first = blockX() / F::SHARE * p.each, end = mini(first + p.each, p.tiles), rank = SPLIT_K ? blockX() % 2 : 0;
  int run = rank * F::OWN + warp() % F::OWN, from = p.units * run / F::RUNS, to = p.units * (run + 1) / F::RUNS;
  RemoteSums remote;
  if constexpr (SPLIT_K) remote.init(maxi(0, mini(F::ROUND, end - first - rank * F::ROUND)) * F::OWN * F::OUT);
  CpAsyncRing<UNIT, DEPTH> pipe;
  pipe.init(sharedAddress(dynamic) + warp() * DEPTH * UNIT);
  int second = warp() / F::OWN; // of the run's warps
  UnitPrefetcher<UNIT> ahead = {nullptr, first + second, from < to ? end : first, F::SHARE, from, from, to};
  if (!SPLIT_K || ahead.any()) ahead.find(p);
  auto prefetch = [&](int from, int to) {
    _Pragma("nounroll") for (int i = from; i < to; i++) {
      if (ahead.any()) pipe.prologue(i, ahead.at), ahead.next(p);
      pipe.commit();
    }
  };
  const int early = NORM && (end - first) * (to - from) <= 2 * F::EARLY ? mini(F::EARLY, 2) : F::EARLY; // where units are few, x comes last
  prefetch(0, early);
  BlockReduction<F> rounds;
  rounds.init(dynamic + SUMS);

  u32 xs = sharedAddress(dynamic) + SUMS + 2 * F::SUMS + warp() % F::OWN * (ceilDiv(p.units, F::RUNS) * LINE);
  quantiseRows<F, Q, NORM>(p, xs, from, (to - from) * F::GROUPS, [&] { prefetch(early, DEPTH); });
  if constexpr (SPLIT_K) namedBarrierSync(1 + warp() % F::OWN, 64), remote.waitReady();
  else warpBarrier();
  int round = first;
  for (; round < end; round += F::ROUND * F::SHARE) {
    int mine = round + rank * F::ROUND, tiles = mini(F::ROUND * F::SHARE, end - round);
    rounds.begin(p, mine, mini(F::ROUND, end - mine));
    for (int tile = second; tile < tiles; tile += F::SHARE) {
      float acc[2] = {};
      u32 at = xs;
      _Pragma("nounroll") for (int unit = from; unit < to; unit++, at += LINE) {
        pipe.wait();
        Q q[2];
        UnitScales<F, Q> scales;
        UNROLL for (int h = 0; h < 2; h++) q[h].loadCodes(InShared{pipe.place + h * Q::BYTES});
        scales.load(pipe.place);
        warpBarrier();
        if (ahead.any()) pipe.refill(ahead.at), ahead.next(p);
        pipe.commit();
        pipe.next();
        if constexpr (ONE_SCALE<Q>) multiplyOneScale<F, Q>(acc, q, scales, at);
        else multiplyDigits<F, Q>(acc, q, scales, at);
      }
      if (!SPLIT_K && tile == 0 && round > first) rounds.reducePrevious(p, round - F::ROUND);
      float* sums = rounds.place(tile % F::ROUND, run);
      storeSums<ROWS, ONE_SCALE<Q>>(acc, [&](int i, float v) {
        if (SPLIT_K && tile / F::ROUND != rank) remote.send(1 - rank, sharedAddress(sums + i), v);
        else sums[i] = v;
      });
    }
    rounds.done();
  }
  if constexpr (SPLIT_K) remote.wait();
  int last = SPLIT_K ? first + rank * F::ROUND : round - F::ROUND;
  rounds.end(p, last, mini(F::ROUND, end - last));
}
