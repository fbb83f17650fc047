// Grouped GEMV of experts with few rows each: jobs of one to four slots, by integer mma with activations split into hi and lo int8, as
// gemm/packed's GEMV of one to four rows (gemv_int8.h). out = w × x, or act(gate × x) × (up × x).
//
// The tiles (16 rows of weights) of all jobs, one job after the other, are divided evenly among the blocks, a run for each (TileRange), so that weights
// load at the full rate whatever the number of experts. Of a block's warps `runs` share each tile (split-K), a run of its units each, and such groups of
// warps take alternate tiles; a warp quantises its columns of x again where the job changes, and has a cp.async ring of units. The warps of a group
// synchronise at a named barrier of their own, where one of them, in rotation, reduces their partial sums.
#pragma once
#include "../gemm/packed/gemv_int8.h"
#include "gemv_jobs.h"
#include "gated_activation.h"

constexpr int LOG_WARPS = GEMV_WARPS == 16 ? 4 : 3;
constexpr int GEMV_SUMS = GEMV_WARPS * 32 * 8; // bytes of an iteration's partial sums, two of each lane

template <int ROWS> struct Rows { static constexpr int COUNT = ROWS; };
DEVICE void syncWarps(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// divided is n / d by the inverse 2³² / d, rounded up, or 0 if d is 1: exact while n × d is less than 2³².
DEVICE int divided(u32 n, u32 inverse) { return inverse ? (int)((u64)n * inverse >> 32) : n; }
// quotient is n / d for n below 2¹⁶.
DEVICE int quotient(int n, int d) { return (int)((n + 0.5f) * reciprocal(d)); }

// TileRange is a block's tiles, [first, end) of those of all jobs: an even share, and all of one job where that gives no group of warps more iterations.
// Each job has rows of its own, and a block that quantises those of two jobs ends 2 µs later.
struct TileRange {
  int first, end;
  DEVICE TileRange(const GroupedGemvParams& p, int jobs, int tiles) { // tiles: of a job
    int groupsLog = LOG_WARPS - p.runsLog, blocks = jobs ? quotient(gridX(), jobs) : 0, each = divided(jobs * tiles + gridX() - 1, p.ofGrid);
    auto iterations = [&](int n) { return (n + (1 << groupsLog) - 1) >> groupsLog; };
    int own = blocks ? quotient(tiles + blocks - 1, blocks) : 0;
    if (blocks && iterations(own) <= iterations(each)) {
      int job = quotient(blockX(), blocks);
      first = job * tiles + (blockX() - job * blocks) * own, end = job < jobs ? mini(first + own, (job + 1) * tiles) : first;
    } else {
      first = blockX() * each, end = mini(first + each, jobs * tiles);
    }
  }
};

// TileIterator iterates over a block's tiles, every step-th, job by job.
struct TileIterator {
  int tile, step, end, job, in; // in: index of the tile in its job
  DEVICE bool any() const { return tile < end; }
  DEVICE void next(int tiles) { // tiles: of a job
    tile += step, in += step;
    while (in >= tiles) in -= tiles, job++;
  }
};

// JobUnitPrefetcher iterates over a warp's units of these tiles, a ring's depth ahead of the computation.
template <int UNIT> struct JobUnitPrefetcher {
  TileIterator walk;
  const u8* at;
  int unit, from, to;
  DEVICE void find(const GroupedGemvParams& p, const GemvJobs& gemvJobs) {
    at = p.w + gemvJobs.jobs[walk.job].expert * p.stride + unitAt(walk.in, unit, unitsOf(p.k)) * UNIT;
  }
  DEVICE bool any() const { return walk.any(); }
  DEVICE void next(const GroupedGemvParams& p, const GemvJobs& gemvJobs, int tiles) {
    at += PANEL * UNIT;
    if (++unit < to) return;
    unit = from;
    walk.next(tiles);
    if (walk.any()) find(p, gemvJobs);
  }
};

// quantiseJobRows quantises a warp's segments of a job's rows of x; it calls then once the loads of x are in flight.
template <typename Q, int ROWS, bool GATED, typename Then> DEVICE void quantiseJobRows(const GroupedGemvParams& p, const GemvJob& job, u32 xs, int from, int units, Then then) {
  using F = GemvInt8<Q, ROWS>;
  constexpr int COUNT = 4; // in flight at once
  int groups = units * F::GROUPS, pairs = ceilDiv(groups, 2);
  GemvParams columns;
  columns.k = p.k;
  for (int i = 0; i < pairs; i += COUNT) {
    Segments<F, Q> segments[COUNT];
    UNROLL for (int n = 0; n < COUNT; n++) {
      segments[n].find(i + n, groups);
      int k = segments[n].column(columns, from), row = segments[n].row();
      segments[n].x = k < p.k && row < job.count ? loadVec(p.x + (long)(GATED ? (int)(job.rows >> (8 * row) & 255) : job.slot[row]) * p.k + k) : Vec16{};
    }
    if (i == 0) then();
    UNROLL for (int n = 0; n < COUNT; n++)
      if (i + n < pairs) segments[n].storeDigits(xs);
  }
}

// reduceWarps reduces the partial sums of a group's warps, of which this is `run`, in warp order. It returns mine: whether this warp has the result.
DEVICE bool reduceWarps(int runs, float (&acc)[2], u32 place, int group, int run, bool mine) {
  place += (group * runs * 32 + lane()) * 8;
  storeShared(place + run * 256, __builtin_bit_cast(u32, acc[0]), __builtin_bit_cast(u32, acc[1]));
  syncWarps(group + 1, runs * 32);
  if (!mine) return false;
  acc[0] = acc[1] = 0;
  for (int r = 0; r < runs; r++) {
    Vec8 v = InShared{place}.two(r * 256);
    UNROLL for (int h = 0; h < 2; h++) acc[h] += __builtin_bit_cast(float, v.x[h]);
  }
  return true;
}

// write is the epilogue of a lane's sums: of row n of the weights and, if not gated, of row n + 8.
template <bool GATED> DEVICE void write(const GroupedGemvParams& p, const GemvJob& job, const float (&acc)[2], const float (&bias)[2], int n, int count) {
  if (lane() % 4 >= count) return;
  bf16* y = p.y + (long)job.slot[lane() % 4] * p.n;
  float first = acc[0] + bias[0], second = acc[1] + bias[1];
  if (GATED) {
    if (n < p.n) y[n] = fromFloat<bf16>(gatedActivation(p.fn, p.clamp, first, second));
  } else {
    if (n < p.n) y[n] = fromFloat<bf16>(first);
    if (n + 8 < p.n) y[n + 8] = fromFloat<bf16>(second);
  }
}

template <typename Q, bool GATED> DEVICE void groupedGemv(const GroupedGemvParams& p) {
  using F = GemvInt8<Q, 4>; // for the sizes, which are the same for all numbers of rows
  constexpr int UNIT = F::UNIT, DEPTH = F::DEPTH, EARLY = F::EARLY, ROWS_OF = GATED ? 8 : 16; // of a tile
  GemvJobs& gemvJobs = *(GemvJobs*)dynamic;
  ExpertRows& choices = *(ExpertRows*)(dynamic + sizeof(GemvJobs)); // later the rings of weights
  int rows = mini(p.rows, p.counts[p.count]); // uploaded before any kernel of the step: no wait
  // The scores are of a launch before the first product. It has ended once the first product has executed launch_dependents, so the second need not wait for it.
  if (GATED) gridDependencyWait(), launchDependents();
  bool keep = GATED && blockX() == 0;
  if (p.f32Scores) gemvJobs.route<float>(p, choices, rows, keep);
  else gemvJobs.route<bf16>(p, choices, rows, keep);

  int tiles = ceilDiv(p.n, ROWS_OF), units = ceilDiv(p.k, COLUMNS), runs = 1 << p.runsLog;
  int run = warp() & (runs - 1), group = warp() >> p.runsLog, from = units * run >> p.runsLog, to = units * (run + 1) >> p.runsLog;
  TileRange own(p, gemvJobs.total, tiles);
  int tile = own.first + group, owner = divided(tile, p.ofTiles); // owner: its job
  TileIterator walk = {tile, GEMV_WARPS >> p.runsLog, own.end, owner, tile - owner * tiles};
  if (!walk.any()) return;
  CpAsyncRing<UNIT, DEPTH> pipe;
  pipe.init(sharedAddress(dynamic) + sizeof(GemvJobs) + warp() * DEPTH * UNIT);
  JobUnitPrefetcher<UNIT> ahead = {walk, nullptr, from, from, to};
  ahead.find(p, gemvJobs);
  auto ask = [&](int from, int to) {
    _Pragma("nounroll") for (int i = from; i < to; i++) {
      if (ahead.any()) pipe.prologue(i, ahead.at), ahead.next(p, gemvJobs, tiles);
      pipe.commit();
    }
  };
  ask(0, EARLY);
  if (!GATED) gridDependencyWait(), launchDependents(); // the combine reads shares before this launch has ended

  u32 sums = sharedAddress(dynamic) + sizeof(GemvJobs) + GEMV_WARPS * DEPTH * UNIT, xs = sums + 2 * GEMV_SUMS + warp() * (((units + runs - 1) >> p.runsLog) * p.each * Q::SUBS * F::GROUP);
  // multiply accumulates a tile times a job's rows; lane 4g + t gets row t of x times rows g and g + 8 of the tile.
  auto multiply = [&](auto rows, float (&acc)[2]) __attribute__((always_inline)) {
    using R = GemvInt8<Q, decltype(rows)::COUNT>;
    u32 line = xs;
    _Pragma("nounroll") for (int unit = from; unit < to; unit++, line += R::GROUPS * R::GROUP) {
      pipe.wait();
      Q q[2];
      UnitScales<R, Q> scales;
      UNROLL for (int h = 0; h < 2; h++) q[h].loadCodes(InShared{pipe.place + h * Q::BYTES});
      scales.load(pipe.place);
      warpBarrier();
      if (ahead.any()) pipe.refill(ahead.at), ahead.next(p, gemvJobs, tiles);
      pipe.commit();
      pipe.next();
      multiplyDigits<R, Q>(acc, q, scales, line);
    }
    UNROLL for (int mask = R::ROWS; mask < 4; mask *= 2) UNROLL for (int h = 0; h < 2; h++) acc[h] += shuffleXor(acc[h], mask);
  };
  int job = -1;
  const GemvJob* at = gemvJobs.jobs;
  int count = 0;
  for (int iteration = 0; walk.any(); iteration++, walk.next(tiles)) {
    if (walk.job != job) {
      bool begin = job < 0;
      auto then = [&] { if (begin) ask(EARLY, DEPTH); };
      job = walk.job, at = gemvJobs.jobs + job;
      count = warpMaxOf(at->count); // uniform across the warp, which ptxas cannot infer from the load
      warpBarrier(); // all lanes have read the previous job's rows
      if (count == 1) quantiseJobRows<Q, 1, GATED>(p, *at, xs, from, to - from, then);
      else if (count == 2) quantiseJobRows<Q, 2, GATED>(p, *at, xs, from, to - from, then);
      else quantiseJobRows<Q, 4, GATED>(p, *at, xs, from, to - from, then);
      warpBarrier();
    }
    bool mine = (iteration & (runs - 1)) == run; // this warp reduces the partial sums and adds biases
    int n = walk.in * ROWS_OF + lane() / 4, second = GATED ? n : n + 8;
    float acc[2] = {}, bias[2] = {};
    if (mine && p.bias) {
      if (n < p.n) bias[0] = p.bias[(long)at->expert * p.n + n];
      if (second < p.n) bias[1] = (GATED ? p.upBias : p.bias)[(long)at->expert * p.n + second];
    }
    if (count == 1) multiply(Rows<1>{}, acc);
    else if (count == 2) multiply(Rows<2>{}, acc);
    else multiply(Rows<4>{}, acc);
    // Double buffered, so that one barrier an iteration is enough: a warp past it has read the previous iteration's buffer.
    if (runs > 1 && !reduceWarps(runs, acc, sums + iteration % 2 * GEMV_SUMS, group, run, mine)) continue;
    write<GATED>(p, *at, acc, bias, n, count);
  }
}
