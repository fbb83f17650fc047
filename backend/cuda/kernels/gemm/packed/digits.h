// The linear layer on packed weights for 1 to 4 rows of x, in whole numbers: x becomes numbers of two digits of eight bits, with a scale for
// each run of columns in which weights have one scale, so that the tensor cores multiply codes as they are, and exactly. An x is off by
// at most 2^-16 of the largest of its run.
//
// A slot is such a run of a row of x. A product of 16 rows of weights has eight columns: the high and the low digits of four slots, a group. A
// block of weights is multiplied by its own slots, with zeros in place of the others'. Where a unit's row has one scale (WHOLE), a group is
// one slot, in four blocks; a product's columns are the slots of all rows of x, again and again when these are fewer than four.
//
// Digits of several rows take long to make, and every block makes those of all of x. In a PAIR two blocks of a cluster have half of the
// columns each and twice as many tiles, one round of them: two warps share a run of columns and its digits and take tiles by turns, and each
// block adds up half of the tiles, whose other sums the other block's warps write there.
#pragma once
#include "../../sm90.h"
#include "ring.h"

// Ahead is a warp's way through memory, a ring's depth ahead of what it computes: its units of one tile after the other.
template <int UNIT> struct Ahead {
  const u8* at;
  int tile, end, step, unit, from, to;
  DEVICE void find(const FewParams& p) {
    int t = tile, which = findPart(p, t);
    at = p.part[which].w + unitAt(t, unit, p.units) * UNIT;
  }
  DEVICE bool any() const { return tile < end; }
  DEVICE void next(const FewParams& p) {
    at += SLAB * UNIT;
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

// Digits is how a block's shared memory is shared: rings, sums, and for each run of columns its slots.
template <typename Q, int X_ROWS, bool PAIR = false> struct Digits {
  static constexpr int ROWS = X_ROWS;                                // 1, 2 or 4
  static constexpr int GROUPS = BLOCKS * Q::SUBS * ROWS / 4;         // of a unit
  static constexpr int GROUP = 32 * 8 + 4 * 8;                       // bytes: each lane's digits; each slot's scale and its sum, see Slots
  static constexpr int RUNS = FEW_WARPS;                             // of columns that a tile is cut in
  static constexpr int SHARE = PAIR ? 2 : 1;                         // warps that have the same run; blocks that have the same tile
  static constexpr int OWN = RUNS / SHARE;                           // runs of a block
  static constexpr int ROUND = 8 / ROWS;                             // tiles whose sums a block adds at once; even
  static constexpr int OUT = 16 * ROWS, SLOT = OUT + 1;
  static constexpr int SUMS = (ROUND * FEW_WARPS * SLOT * 4 + 15) / 16 * 16; // of a round; there are two
  static constexpr int UNIT = 2 * Q::BYTES;
  static constexpr int ROOM = ROWS == 4 ? RING * 8 / 9 : RING;       // so that four rows of 14336 fit beside it
  static constexpr int DEPTH = ROOM / (FEW_WARPS * UNIT) < 3 ? 3 : ROOM / (FEW_WARPS * UNIT); // of a ring, in units
  static constexpr int EARLY = (DEPTH + 1) / 2; // of them, asked for before x, which would have to wait for more
};

// Slots is two groups of a warp's, of which each lane has eight columns of one slot, or nothing: first eight in a row, as they are read, and then
// those that it has of weights.
template <typename F, typename Q> struct Slots {
  int group, groups;
  Vec16 x;
  Vec16 norm[2]; // the weights to normalise with
  static DEVICE int quarter() { return lane() / 4 % 4; } // which of the group's slots, or blocks
  DEVICE int row() const { return WHOLE<Q> ? group % F::GROUPS : quarter() % F::ROWS; }
  DEVICE void find(int n, int all) { groups = all, group = 2 * n + lane() / 16; } // the nth two of a warp's
  DEVICE int run() const { return WHOLE<Q> ? quarter() : (group % F::GROUPS * 4 + quarter()) / F::ROWS; }
  // column is where a lane's eight begin, and p.k if it has none; unit is the warp's first.
  DEVICE int column(const FewParams& p, int unit) const {
    int k = (unit + group / F::GROUPS) * COLUMNS + run() / Q::SUBS * 32 + lane() % 4 * 8;
    return group < groups && k < p.k && (Q::SUBS == 1 || run() % 2 == lane() % 4 / 2) ? k : p.k;
  }
  // askNorm and ask have weights and x on their way.
  DEVICE void askNorm(const FewParams& p, int unit) {
    int k = column(p, unit);
    UNROLL for (int i = 0; i < 2; i++) norm[i] = k < p.k ? *(const Vec16*)(p.norm + k + 4 * i) : Vec16{};
  }
  DEVICE void ask(const FewParams& p, int unit) {
    int k = column(p, unit);
    x = k < p.k && row() < p.m ? *(const Vec16*)(p.x + (long)row() * p.k + k) : Vec16{};
  }
  // weigh multiplies x by the weights and gives the sum of the squares it had. What is left of a normalisation is one number for a row.
  DEVICE float weigh() {
    float sum = 0;
    UNROLL for (int i = 0; i < 4; i++) {
      float a = low(x.x[i]), b = high(x.x[i]);
      sum += a * a + b * b;
      x.x[i] = pack(a * __builtin_bit_cast(float, norm[i / 2].x[i % 2 * 2]), b * __builtin_bit_cast(float, norm[i / 2].x[i % 2 * 2 + 1]));
    }
    return sum;
  }
  // turn gives lane t of four the pairs t of all of them.
  DEVICE void turn() {
    UNROLL for (int mask = 1; mask < 4; mask *= 2) UNROLL for (int i = 0; i < 4; i++) {
      if (i & mask) continue;
      bool upper = lane() & mask;
      u32 got = shuffleBits(upper ? x.x[i] : x.x[i + mask], mask);
      x.x[i] = upper ? got : x.x[i], x.x[i + mask] = upper ? x.x[i + mask] : got;
    }
  }
  // layOut writes digits, and for each slot its scale and, in such scales, BIAS times what its numbers add up to, negative.
  DEVICE void layOut(u32 xs) {
    turn();
    const u32(&pairs)[4] = x.x;
    constexpr u32 MAGIC = 0x4b400000 + 128; // 1.5 × 2^23: a number added to it is whole, in the last bits; 128 makes the low digit signed
    u32 top = maxPair(maxPair(pairs[0] & ABS, pairs[1] & ABS), maxPair(pairs[2] & ABS, pairs[3] & ABS));
    top = maxPair(top, choose(top, top, 0x1032));
    top = maxPair(top, shuffleBits(top, 1));
    top = maxPair(top, shuffleBits(top, 2));
    if (WHOLE<Q>) top = maxPair(top, shuffleBits(top, 4)), top = maxPair(top, shuffleBits(top, 8));
    float most = low(top) == 0 ? 1 : low(top), steps = 32512 * reciprocal(most);
    u32 v[8], sum = 0;
    UNROLL for (int i = 0; i < 8; i++) {
      float one = i % 2 ? high(pairs[i / 2]) : low(pairs[i / 2]);
      v[i] = __builtin_bit_cast(u32, __builtin_fmaf(one, steps, __builtin_bit_cast(float, MAGIC)));
      sum += v[i] - MAGIC;
    }
    sum += shuffleBits(sum, 1);
    sum += shuffleBits(sum, 2);
    if (WHOLE<Q>) sum += shuffleBits(sum, 4), sum += shuffleBits(sum, 8);
    if (group >= groups) return;
    u32 to = xs + group * F::GROUP;
    UNROLL for (int digit = 0; digit < 2; digit++) { // the high ones first
      u32 words[2];
      UNROLL for (int w = 0; w < 2; w++) {
        auto two = [&](int n) { return choose(v[Q::ORDER >> (16 * w + 4 * n) & 15], v[Q::ORDER >> (16 * w + 4 * n + 4) & 15], digit ? 0x0040 : 0x0051); };
        words[w] = choose(two(0), two(2), 0x5410) ^ (digit ? 0x80808080 : 0);
      }
      int column = digit * 4 + lane() % 4;
      storeShared(to + (WHOLE<Q> ? quarter() / 2 * 128 + column * 16 + quarter() % 2 * 8 : quarter() * 64 + column * 8), words[0], words[1]);
    }
    float scale = most * (Q::STEPS / 32512);
    if (lane() % (WHOLE<Q> ? 16 : 4) == 0)
      storeShared(to + 256 + quarter() * 8, __builtin_bit_cast(u32, scale), __builtin_bit_cast(u32, (float)(int)sum * scale * -Q::BIAS));
  }
};

// layOutRows makes a warp's slots of x, once it is there, and calls then when x is on its way. The warps of a run take its groups two by two,
// by turns. NORM: x is normalised but for what rootMean finds.
template <typename F, typename Q, bool NORM, typename Then> DEVICE void layOutRows(const FewParams& p, u32 xs, int from, int groups, Then then) {
  constexpr int COUNT = NORM ? F::ROWS : 4; // under way at once: all, where a row has 4096 numbers, without too many registers
  constexpr int TURNS = WHOLE<Q> && F::ROWS == 4 ? 2 : 1; // of rows that a lane has
  float sums[TURNS] = {};
  int i = 0, all = ceilDiv(ceilDiv(groups, 2) - warp() / F::OWN, F::SHARE);
  do {
    Slots<F, Q> slots[COUNT];
    UNROLL for (int n = 0; n < COUNT; n++) {
      slots[n].find((i + n) * F::SHARE + warp() / F::OWN, groups);
      if (NORM && i + n < all) slots[n].askNorm(p, from);
    }
    if (i == 0) gridDependencyWait();
    UNROLL for (int n = 0; n < COUNT; n++)
      if (i + n < all) slots[n].ask(p, from);
    if (i == 0) then();
    UNROLL for (int n = 0; n < COUNT; n++) {
      if (i + n >= all) continue;
      if (NORM) sums[n % TURNS] += slots[n].weigh();
      slots[n].layOut(xs);
    }
  } while ((i += COUNT) < all);
  if (!NORM) return;
  UNROLL for (int turn = 0; turn < TURNS; turn++) {
    UNROLL for (int mask = 1; mask < 32; mask *= 2) // of the lanes that have the same row
      if (WHOLE<Q> ? mask < 16 || F::ROWS == 1 : mask < 4 || mask >= 4 * F::ROWS) sums[turn] += shuffleXor(sums[turn], mask);
    int step = WHOLE<Q> ? 16 : 4, row = lane() / step;
    if (lane() % step == 0 && row < F::ROWS) squares[2 * turn + row][warp()] = sums[turn];
  }
}

// dotBytes is D[16 × 8] += A[16 × 32] × B[32 × 8], whole numbers: A without sign, B with one.
DEVICE void dotBytes(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Scales is those of a unit that a lane wants: for each group, of its slot's columns and of rows g and g + 8.
template <typename F, typename Q> struct Scales {
  static constexpr int COUNT = WHOLE<Q> ? 1 : F::GROUPS;
  u16 scales[COUNT][2], middles[COUNT][2];
  DEVICE void load(u32 unit) {
    UNROLL for (int j = 0; j < COUNT; j++) UNROLL for (int h = 0; h < 2; h++) {
      InShared row = {unit + h * Q::BYTES + Q::SCALES + lane() / 4 * Q::EACH + (WHOLE<Q> ? 0 : lane() % 4 / F::ROWS * 2)};
      scales[j][h] = row.one(4 * j / F::ROWS * 2);
      if (Q::AFFINE) middles[j][h] = row.one(4 * j / F::ROWS * 2 + Q::EACH / 2);
    }
  }
};

// number is what sums of products come to, of high digits and of low ones, with a slot's scale and what its BIAS adds.
DEVICE float number(int high, int low, const Vec8& slot) {
  return __builtin_bit_cast(float, slot.x[0]) * (float)(high * 256 + low) + __builtin_bit_cast(float, slot.x[1]);
}

// multiply adds a unit's products to acc: of rows g and g + 8 by the slot's row of x.
template <typename F, typename Q> DEVICE void multiplyDigits(float (&acc)[2], const Q (&q)[2], const Scales<F, Q>& s, u32 xs) {
  constexpr int OF_BLOCK = F::ROWS * Q::SUBS; // slots
  UNROLL for (int j = 0; j < F::GROUPS; j++) {
    Vec8 digits = InShared{xs + lane() * 8}.two(j * F::GROUP), slot = InShared{xs + lane() % 4 * 8}.two(j * F::GROUP + 256);
    int sums[4] = {};
    UNROLL for (int block = 4 * j / OF_BLOCK; block <= (4 * j + 3) / OF_BLOCK; block++) {
      u32 top[2], bottom[2];
      q[0].bytes(block, top);
      q[1].bytes(block, bottom);
      bool mine = OF_BLOCK >= 4 || (4 * j + lane() / 8) / OF_BLOCK == block;
      dotBytes(sums, top[0], bottom[0], top[1], bottom[1], mine ? digits.x[0] : 0, mine ? digits.x[1] : 0);
    }
    UNROLL for (int h = 0; h < 2; h++) {
      acc[h] += Q::number(s.scales[j][h]) * number(sums[2 * h], sums[2 * h + 1], slot);
      if (Q::AFFINE) acc[h] += Q::number(s.middles[j][h]) * (__builtin_bit_cast(float, slot.x[1]) * (-1.0f / Q::BIAS));
    }
  }
}

// multiplyWhole is multiplyDigits with one scale a row: it scales once.
template <typename F, typename Q> DEVICE void multiplyWhole(float (&acc)[2], const Q (&q)[2], const Scales<F, Q>& s, u32 xs) {
  InShared mine = {xs + lane() / 8 % F::ROWS * F::GROUP + lane() % 8 * 16};
  Vec16 digits[2] = {mine.four(0), mine.four(128)};
  Vec8 slot = InShared{xs + lane() % F::ROWS * F::GROUP}.two(256);
  int sums[4] = {};
  UNROLL for (int block = 0; block < BLOCKS; block++) {
    u32 top[2], bottom[2];
    q[0].bytes(block, top);
    q[1].bytes(block, bottom);
    dotBytes(sums, top[0], bottom[0], top[1], bottom[1], digits[block / 2].x[block % 2 * 2], digits[block / 2].x[block % 2 * 2 + 1]);
  }
  UNROLL for (int h = 0; h < 2; h++) acc[h] += Q::number(s.scales[0][h]) * number(sums[2 * h], sums[2 * h + 1], slot);
}

// storeSums adds the lanes that have slots of the same row of x, unless they have the same slot, and stores [16 rows of weights][rows of x].
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

// Mail is what a block of a pair gets from the other: sums, whose bytes a barrier counts, so that no fence is needed.
struct Mail {
  u32 bar;
  // open says how many words there will be; the other block has said so too when opened returns, and may be sent its own.
  DEVICE void open(int words) {
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
  DEVICE void opened() const { clusterWait(); }
  DEVICE void send(int block, u32 place, float v) const {
    asm volatile("{\n\t.reg .b32 there, bar;\n\tmapa.shared::cluster.u32 there, %0, %3;\n\tmapa.shared::cluster.u32 bar, %1, %3;\n\t"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %2, [bar];\n\t}"
                 ::"r"(place), "r"(bar), "f"(v), "r"(block) : "memory");
  }
  DEVICE void await() const { mbarrierWait(bar, 0); }
};

template <typename Q, int ROWS, bool NORM, bool PAIR = false> DEVICE void digits(const FewParams& p) {
  using F = Digits<Q, ROWS, PAIR>;
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH, LINE = F::GROUPS * F::GROUP, SUMS = FEW_WARPS * DEPTH * UNIT;
  static_assert(!PAIR || !NORM);
  launchDependents();
  int first = blockX() / F::SHARE * p.each, end = mini(first + p.each, p.tiles), rank = PAIR ? blockX() % 2 : 0;
  int run = rank * F::OWN + warp() % F::OWN, from = p.units * run / F::RUNS, to = p.units * (run + 1) / F::RUNS;
  Mail mail;
  if constexpr (PAIR) mail.open(maxi(0, mini(F::ROUND, end - first - rank * F::ROUND)) * F::OWN * F::OUT);
  Pipe<UNIT, DEPTH> pipe;
  pipe.init(sharedAddress(dynamic) + warp() * DEPTH * UNIT);
  int second = warp() / F::OWN; // of the run's warps
  Ahead<UNIT> ahead = {nullptr, first + second, from < to ? end : first, F::SHARE, from, from, to};
  if (!PAIR || ahead.any()) ahead.find(p);
  auto ask = [&](int from, int to) {
    _Pragma("nounroll") for (int i = from; i < to; i++) {
      if (ahead.any()) pipe.first(i, ahead.at), ahead.next(p);
      pipe.asked();
    }
  };
  const int early = NORM && (end - first) * (to - from) <= 2 * F::EARLY ? mini(F::EARLY, 2) : F::EARLY; // where units are few, x comes last
  ask(0, early);
  Rounds<F> rounds;
  rounds.init(dynamic + SUMS);

  u32 xs = sharedAddress(dynamic) + SUMS + 2 * F::SUMS + warp() % F::OWN * (ceilDiv(p.units, F::RUNS) * LINE);
  layOutRows<F, Q, NORM>(p, xs, from, (to - from) * F::GROUPS, [&] { ask(early, DEPTH); });
  if constexpr (PAIR) namedBarrierSync(1 + warp() % F::OWN, 64), mail.opened();
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
        Scales<F, Q> scales;
        UNROLL for (int h = 0; h < 2; h++) q[h].loadCodes(InShared{pipe.place + h * Q::BYTES});
        scales.load(pipe.place);
        warpBarrier();
        if (ahead.any()) pipe.again(ahead.at), ahead.next(p);
        pipe.asked();
        pipe.next();
        if constexpr (WHOLE<Q>) multiplyWhole<F, Q>(acc, q, scales, at);
        else multiplyDigits<F, Q>(acc, q, scales, at);
      }
      if (!PAIR && tile == 0 && round > first) rounds.addLast(p, round - F::ROUND);
      float* sums = rounds.place(tile % F::ROUND, run);
      storeSums<ROWS, WHOLE<Q>>(acc, [&](int i, float v) {
        if (PAIR && tile / F::ROUND != rank) mail.send(1 - rank, sharedAddress(sums + i), v);
        else sums[i] = v;
      });
    }
    rounds.done();
  }
  if constexpr (PAIR) mail.await();
  int last = PAIR ? first + rank * F::ROUND : round - F::ROUND;
  rounds.end(p, last, mini(F::ROUND, end - last));
}
