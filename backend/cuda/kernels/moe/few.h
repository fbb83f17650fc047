// A product of experts with few rows each: jobs of one or of up to four slots, multiplied as whole numbers, as kernels/slab has it for one to
// four rows (see ../slab/digits.h). out = w × x, or fn(gate × x) × (up × x).
//
// The tiles (16 rows of weights) of all jobs, one job after the other, are dealt out to the blocks evenly, a run for each, so that the weights
// of any number of experts come from memory at one rate. Of a block's warps `runs` share each tile, a run of its units each, and the tiles go
// to such groups of warps in turn; a warp lays out its columns of x anew where the job changes, and has a ring of units, as in kernels/slab. The
// warps of a group meet at a barrier of their own, where one of them, each in turn, adds up their sums.
//
// Every block chooses the rows' experts itself and deals their slots, in order of rows: that takes a microsecond or two, those of the second
// product while the first is at its end, and a launch that does it takes twice that.
#pragma once
#include "../slab/digits.h"
#include "joined.h"
#include "route.h"

// Note is a job as blocks know it.
struct alignas(16) Note {
  int expert, count;
  u32 rows; // of x, a byte each
  int pad;
  int slot[4]; // of row r, its place k: r × top + k
};

struct FewExpertsParams {
  const bf16* x;      // [rows, k], or of the second product [slots, k]
  const void* scores; // [rows, experts]
  const int* counts;  // see Step
  float* share;       // [slots] is written with the first product
  const u8* w;        // as in ExpertsParams
  const float *bias, *upBias; // [experts, n] or null
  bf16* y;            // [slots, n]
  long stride;
  int n, k;
  int rows, count;    // up to so many, of which counts[count] are there
  int runs;           // of columns, a warp each, that a tile is cut in: a power of two
  int experts, top, ofAll, wide; // wide: scores are float32
  int fn;
  float clamp;
  int each; // the most rows of a job
};

constexpr int FEW_SUMS = FEW_WARPS * 32 * 8; // bytes of a turn's, two of each lane
constexpr int FEW_JOBS = 256, FEW_EXPERTS = 256, FEW_TOP = 32, FEW_ROWS = 32; // most that there may be

template <int ROWS> struct Rows { static constexpr int COUNT = ROWS; };
DEVICE void syncWarps(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Choices is what a block needs to deal: the rows of each expert, a bit each, and its place among the row's.
struct Choices {
  u32 rows[FEW_EXPERTS];
  u8 place[FEW_ROWS][FEW_EXPERTS];
};

// Dealt is a launch's jobs.
struct Dealt {
  Note jobs[FEW_JOBS];
  // before: of so many experts each; aligned, or the assembler's wide loads take along total, which another thread writes. What follows begins at a
  // multiple of 128 bytes.
  int before[FEW_EXPERTS / 32], total, pad[23];
  // decide chooses the experts of rows, a warp for each, and deals.
  template <typename T> DEVICE void decide(const FewExpertsParams& p, Choices& c, int rows, bool keep) {
    for (int e = threadX(); e < FEW_EXPERTS; e += threads()) c.rows[e] = 0;
    if (rows > 1) barrier();
    for (int r = warp(); r < rows; r += FEW_WARPS) {
      const T* scores = (const T*)p.scores + (long)r * p.experts;
      float shares[MAX_TOP / 32];
      auto found = [&](int k, int e) {
        if (lane() != 0) return;
        if (rows == 1) jobs[k] = Note{e, 1, 0, 0, {k, 0, 0, 0}};
        else asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(sharedAddress(c.rows + e)), "r"(1u << r) : "memory");
        c.place[r][e] = k;
      };
      if (p.experts <= 128) choose<T, 4>(scores, p.experts, p.top, p.ofAll, found, shares);
      else choose<T, FEW_EXPERTS / 32>(scores, p.experts, p.top, p.ofAll, found, shares);
      if (keep && lane() < p.top) p.share[r * p.top + lane()] = shares[0];
    }
    if (rows <= 1 && threadX() == 0) total = rows * p.top; // there is nothing to deal
    barrier();
    if (rows > 1) deal(p, c);
  }
  DEVICE void deal(const FewExpertsParams& p, const Choices& c) {
    int e = threadX();
    u32 mine = e < FEW_EXPERTS ? c.rows[e] : 0;
    int own = ceilDiv(ones(mine), 4), job = own;
    UNROLL for (int by = 1; by < 32; by *= 2) {
      int below = shuffleUp(job, by);
      if (lane() >= by) job += below;
    }
    if (lane() == 31 && e < FEW_EXPERTS) before[warp()] = job;
    barrier();
    for (int w = 0; w < mini(warp(), FEW_EXPERTS / 32); w++) job += before[w];
    if (e == FEW_EXPERTS - 1) total = job;
    job -= own;
    for (int left = own; left > 0; left--, job++) { // of one size, as far as that goes
      Note n = {e, ceilDiv(ones(mine), left)};
      UNROLL for (int i = 0; i < 4; i++) {
        int r = i < n.count ? __builtin_ctz(mine) : 0;
        n.slot[i] = r * p.top + c.place[r][e], n.rows |= r << (8 * i);
        if (i < n.count) mine &= mine - 1;
      }
      jobs[job] = n;
    }
    barrier();
  }
};

// Walk is a way through a block's tiles, every so many of them, job by job.
struct Walk {
  int tile, step, end, job, in; // in: the tile's place in its job
  DEVICE Walk(int tile, int step, int end, int tiles) : tile(tile), step(step), end(end), job(tile / tiles), in(tile % tiles) {}
  DEVICE bool any() const { return tile < end; }
  DEVICE void next(int tiles) { // tiles: of a job
    tile += step, in += step;
    while (in >= tiles) in -= tiles, job++;
  }
};

// Units is a warp's way through its units of such tiles, a ring's depth ahead of what it computes.
template <int UNIT> struct Units {
  Walk walk;
  const u8* at;
  int unit, from, to;
  DEVICE void find(const FewExpertsParams& p, const Dealt& dealt) {
    at = p.w + dealt.jobs[walk.job].expert * p.stride + unitAt(walk.in, unit, unitsOf(p.k)) * UNIT;
  }
  DEVICE bool any() const { return walk.any(); }
  DEVICE void next(const FewExpertsParams& p, const Dealt& dealt, int tiles) {
    at += SLAB * UNIT;
    if (++unit < to) return;
    unit = from;
    walk.next(tiles);
    if (walk.any()) find(p, dealt);
  }
};

// layOutJob makes a warp's slots of a job's rows of x, each of a run of columns; it does what is given when x is on its way.
template <typename Q, int ROWS, bool GATED, typename Then> DEVICE void layOutJob(const FewExpertsParams& p, const Note& job, u32 xs, int from, int units, Then then) {
  using F = Digits<Q, ROWS>;
  constexpr int COUNT = 4; // under way at once
  int groups = units * F::GROUPS, pairs = ceilDiv(groups, 2);
  FewParams columns;
  columns.k = p.k;
  for (int i = 0; i < pairs; i += COUNT) {
    Slots<F, Q> slots[COUNT];
    UNROLL for (int n = 0; n < COUNT; n++) {
      slots[n].find(i + n, groups);
      int k = slots[n].column(columns, from), row = slots[n].row();
      slots[n].x = k < p.k && row < job.count ? loadVec(p.x + (long)(GATED ? (int)(job.rows >> (8 * row) & 255) : job.slot[row]) * p.k + k) : Vec16{};
    }
    if (i == 0) then();
    UNROLL for (int n = 0; n < COUNT; n++)
      if (i + n < pairs) slots[n].layOut(xs);
  }
}

// addUp adds the sums of a group's warps, of which this is `run`, in their order; it reports whether this warp has them, which is so if mine.
DEVICE bool addUp(const FewExpertsParams& p, float (&acc)[2], u32 place, int group, int run, bool mine) {
  place += (group * p.runs * 32 + lane()) * 8;
  storeShared(place + run * 256, __builtin_bit_cast(u32, acc[0]), __builtin_bit_cast(u32, acc[1]));
  syncWarps(group + 1, p.runs * 32);
  if (!mine) return false;
  acc[0] = acc[1] = 0;
  for (int r = 0; r < p.runs; r++) {
    Vec8 v = InShared{place}.two(r * 256);
    UNROLL for (int h = 0; h < 2; h++) acc[h] += __builtin_bit_cast(float, v.x[h]);
  }
  return true;
}

// write makes results of a lane's sums, of row n of the weights and, of ungated ones, of row n + 8.
template <bool GATED> DEVICE void write(const FewExpertsParams& p, const Note& job, const float (&acc)[2], const float (&bias)[2], int n, int count) {
  if (lane() % 4 >= count) return;
  bf16* y = p.y + (long)job.slot[lane() % 4] * p.n;
  float first = acc[0] + bias[0], second = acc[1] + bias[1];
  if (GATED) {
    if (n < p.n) y[n] = fromFloat<bf16>(joined(p.fn, p.clamp, first, second));
  } else {
    if (n < p.n) y[n] = fromFloat<bf16>(first);
    if (n + 8 < p.n) y[n + 8] = fromFloat<bf16>(second);
  }
}

template <typename Q, bool GATED> DEVICE void fewExperts(const FewExpertsParams& p) {
  using F = Digits<Q, 4>; // for the sizes that all have
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH, EARLY = F::EARLY, ROWS_OF = GATED ? 8 : 16; // of a tile
  Dealt& dealt = *(Dealt*)dynamic;
  Choices& choices = *(Choices*)(dynamic + sizeof(Dealt)); // where weights lie later
  int rows = mini(p.rows, p.counts[p.count]); // the step's data came before any kernel of it
  // The scores are of a launch before the first product. That has ended once the first lets the second start.
  if (GATED) awaitInput(), releaseNext();
  bool keep = GATED && blockX() == 0;
  if (p.wide) dealt.decide<float>(p, choices, rows, keep);
  else dealt.decide<bf16>(p, choices, rows, keep);

  int tiles = ceilDiv(p.n, ROWS_OF), units = ceilDiv(p.k, COLUMNS), each = ceilDiv(dealt.total * tiles, gridX());
  int first = blockX() * each, end = mini(first + each, dealt.total * tiles);
  int groups = FEW_WARPS / p.runs, run = warp() % p.runs, group = warp() / p.runs, from = units * run / p.runs, to = units * (run + 1) / p.runs;
  Walk walk(first + group, groups, end, tiles);
  if (!walk.any()) return;
  Pipe<UNIT, DEPTH> pipe;
  pipe.init(sharedAddress(dynamic) + sizeof(Dealt) + warp() * DEPTH * UNIT);
  Units<UNIT> ahead = {walk, nullptr, from, from, to};
  ahead.find(p, dealt);
  auto ask = [&](int from, int to) {
    _Pragma("nounroll") for (int i = from; i < to; i++) {
      if (ahead.any()) pipe.first(i, ahead.at), ahead.next(p, dealt, tiles);
      pipe.asked();
    }
  };
  ask(0, EARLY);
  if (!GATED) awaitInput(), releaseNext(); // what adds up the results reads shares before this launch has ended

  u32 sums = sharedAddress(dynamic) + sizeof(Dealt) + FEW_WARPS * DEPTH * UNIT, xs = sums + 2 * FEW_SUMS + warp() * (ceilDiv(units, p.runs) * p.each * Q::SUBS * F::GROUP);
  // multiply adds a tile's products with a job's rows; lane 4g + t gets those of row t of x with rows g and g + 8 of the tile.
  auto multiply = [&](auto rows, float (&acc)[2]) __attribute__((always_inline)) {
    using R = Digits<Q, decltype(rows)::COUNT>;
    u32 line = xs;
    _Pragma("nounroll") for (int unit = from; unit < to; unit++, line += R::GROUPS * R::GROUP) {
      pipe.wait();
      Q q[2];
      Scales<R, Q> scales;
      UNROLL for (int h = 0; h < 2; h++) q[h].loadCodes(InShared{pipe.place + h * Q::BYTES});
      scales.load(pipe.place);
      warpBarrier();
      if (ahead.any()) pipe.again(ahead.at), ahead.next(p, dealt, tiles);
      pipe.asked();
      pipe.next();
      multiplyDigits<R, Q>(acc, q, scales, line);
    }
    UNROLL for (int mask = R::ROWS; mask < 4; mask *= 2) UNROLL for (int h = 0; h < 2; h++) acc[h] += shuffleXor(acc[h], mask);
  };
  int job = -1;
  const Note* at = dealt.jobs;
  int count = 0;
  for (int turn = 0; walk.any(); turn++, walk.next(tiles)) {
    if (walk.job != job) {
      bool begin = job < 0;
      auto then = [&] { if (begin) ask(EARLY, DEPTH); };
      job = walk.job, at = dealt.jobs + job;
      count = warpMaxOf(at->count); // the same in all lanes, which the assembler now knows
      warpBarrier(); // all lanes have read the last job's
      if (count == 1) layOutJob<Q, 1, GATED>(p, *at, xs, from, to - from, then);
      else if (count == 2) layOutJob<Q, 2, GATED>(p, *at, xs, from, to - from, then);
      else layOutJob<Q, 4, GATED>(p, *at, xs, from, to - from, then);
      warpBarrier();
    }
    bool mine = turn % p.runs == run; // to add up, for which it wants biases
    int n = walk.in * ROWS_OF + lane() / 4, second = GATED ? n : n + 8;
    float acc[2] = {}, bias[2] = {};
    if (mine && p.bias) {
      if (n < p.n) bias[0] = p.bias[(long)at->expert * p.n + n];
      if (second < p.n) bias[1] = (GATED ? p.upBias : p.bias)[(long)at->expert * p.n + second];
    }
    if (count == 1) multiply(Rows<1>{}, acc);
    else if (count == 2) multiply(Rows<2>{}, acc);
    else multiply(Rows<4>{}, acc);
    // Two places do with one barrier a turn: whoever is past it has read what lay there the turn before.
    if (p.runs > 1 && !addUp(p, acc, sums + turn % 2 * FEW_SUMS, group, run, mine)) continue;
    write<GATED>(p, *at, acc, bias, n, count);
  }
}
