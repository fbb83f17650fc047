// Rows on their way to the GPUs that hold their experts (graph.Dispatch), and back (Combine). Which rows go where only the router's shares say, and nothing of that goes to the host:
//
//   place       shares of experts → shares of their copies, where experts are placed by load
//   exchange_*  the shares of a rank's experts of all rows (collective.cu)
//   arrivals    those → which rows come, and how many
//   dispatch    rows to the ranks of their experts
//   combine_*   what experts have made of them back, summed in the order of ranks
//
// All rows are counted rank by rank, and those that come are in this order. A launch moves up to `each` rows of every rank, for which a stage has room.
#include "windows.h"

struct Routes {
  float* come;  // [rows of all, held] shares of this rank's experts
  int* arrived; // [rows of all] the rows that come
  int* number;  // [rows of all] a row's number among those; -1: it does not come
  u32* reached; // [own rows] the ranks with an expert of the row, a bit each
  int* count;   // how many come
  int first[MAX_RANKS + 1]; // row of each rank, and the end
  int rank, ranks;
  int pad;
};

DEVICE u32 votes(bool v) {
  u32 b;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, -1;\n\t}" : "=r"(b) : "r"((int)v));
  return b;
}

struct PlaceParams {
  const float* shares; // [rows, scored]
  float* placed;       // [rows, experts]
  const int* first;    // [scored + 1] of each expert, its first copy
  const int* copies;   // their places among the experts of all ranks
  int rows, scored, experts;
  int own, each; // of experts e, those with e / each == own are of this rank
  int pad;
};

// place gives the share of an expert that is on several devices to its copy on this rank or, without one, to another one than the row beside it has. A warp a row.
KERNEL(256, 1) place(PARAM PlaceParams p) {
  launchDependentsAndWait();
  for (int r = blockX() * 8 + warp(); r < p.rows; r += gridX() * 8) {
    float* to = p.placed + (long)r * p.experts;
    for (int e = lane(); e < p.experts; e += 32) to[e] = 0;
    warpBarrier();
    for (int e = lane(); e < p.scored; e += 32) {
      float x = p.shares[(long)r * p.scored + e];
      int from = p.first[e], n = p.first[e + 1] - from;
      if (x == 0 || n == 0) continue;
      int at = p.copies[from + r % n];
      for (int i = 0; i < n; i++)
        if (p.copies[from + i] / p.each == p.own) {
          at = p.copies[from + i];
          break;
        }
      to[at] = x;
    }
  }
}

struct ArrivalsParams {
  Routes routes;
  int held, pad;
};

// arrivals lists the rows that have a share in any of this rank's experts. One block.
KERNEL(1024, 1) arrivals(PARAM ArrivalsParams p) {
  SHARED static int found[32];
  const Routes& t = p.routes;
  launchDependentsAndWait();
  int rows = t.first[t.ranks], before = 0;
  for (int from = 0; from < rows; from += 1024) {
    int row = from + threadX();
    bool comes = false;
    if (row < rows) {
      const float* share = t.come + (long)row * p.held;
      for (int e = 0; e < p.held; e++) comes |= share[e] != 0;
    }
    u32 all = votes(comes);
    if (lane() == 0) found[warp()] = __builtin_popcount(all);
    barrier();
    int at = before + __builtin_popcount(all & ((1u << lane()) - 1));
    for (int w = 0; w < 32; w++) {
      if (w < warp()) at += found[w];
      before += found[w];
    }
    barrier();
    if (row < rows) t.number[row] = comes ? at : -1;
    if (comes) t.arrived[at] = row;
  }
  if (threadX() == 0) *t.count = before;
}

// A warp moves PART vectors of a row at a time, so that several of its loads are on their way.
constexpr int LOADS = 4, PART = 32 * LOADS;

// takeAll is take of the vectors of a warp's part of a row, those below end.
DEVICE void takeAll(Vec16 (&v)[LOADS], Vec16* at, int from, int end, const u32* aborted) {
  UNROLL for (int j = 0; j < LOADS; j++)
    if (from + 32 * j < end) v[j] = look(at + from + 32 * j);
  UNROLL for (int j = 0; j < LOADS; j++) {
    int i = from + 32 * j;
    if (i >= end) continue;
    if (isEmpty(v[j])) v[j] = take(at + i, aborted);
    else clear(at + i);
  }
}
DEVICE void loadAll(Vec16 (&v)[LOADS], const Vec16* at, int from, int end) {
  UNROLL for (int j = 0; j < LOADS; j++)
    if (from + 32 * j < end) v[j] = at[from + 32 * j];
}

struct DispatchParams {
  CollectiveParams c; // x: own rows, y: [rows that come]; width of a row in vectors
  Routes routes;
  const float* shares; // [own rows, experts]
  float* here;         // [rows that come, experts], those of other ranks' experts 0
  int experts, held, split, part; // rank r has those from (r × split + part) × held on
  int from, each;      // a launch moves rows from `from` on of each rank
};

// rankOf is whose row one of all is.
DEVICE int rankOf(const Routes& t, int row) {
  int r = 0;
  while (row >= t.first[r + 1]) r++;
  return r;
}

KERNEL(256, 1) dispatch(PARAM DispatchParams p) {
  const CollectiveParams& c = p.c;
  const Routes& t = p.routes;
  u32 launch = begin(c, EPOCH);
  int parts = ceilDiv(c.width, PART), warps = gridX() * (threads() / 32), first = blockX() * (threads() / 32) + warp();
  const Vec16* x = (const Vec16*)c.x;
  int own = mini(t.first[c.rank + 1] - t.first[c.rank], p.from + p.each) - p.from;
  for (int item = first; item < own * parts; item += warps) {
    int k = p.from + item / parts, from = item % parts * PART + lane();
    u32 to = 0;
    for (int r = 0; r < c.ranks; r++) {
      const float* share = p.shares + (long)k * p.experts + (r * p.split + p.part) * p.held;
      bool any = false;
      for (int e = lane(); e < p.held; e += 32) any |= share[e] != 0;
      to |= (u32)(votes(any) != 0) << r;
    }
    if (from == 0) t.reached[k] = to;
    if ((to & ~(1u << c.rank)) == 0) continue;
    Vec16 v[LOADS];
    loadAll(v, x + (long)k * c.width, from, c.width);
    for (int n = 1; n < c.ranks; n++) {
      int r = (c.rank + n) % c.ranks;
      if (!(to >> r & 1)) continue;
      Vec16* there = stage<Vec16>(c, r, launch, 0) + ((long)c.rank * p.each + k - p.from) * c.width;
      UNROLL for (int j = 0; j < LOADS; j++)
        if (from + 32 * j < c.width) push(there + from + 32 * j, notEmpty(v[j]));
    }
  }
  meet(c, launch);
  Vec16* mine = stage<Vec16>(c, c.rank, launch, 0);
  int come = *t.count, begins = (c.rank * p.split + p.part) * p.held;
  for (int item = first; item < come * parts; item += warps) {
    int a = item / parts, row = t.arrived[a], r = rankOf(t, row), k = row - t.first[r], from = item % parts * PART + lane();
    if (k < p.from || k >= p.from + p.each) continue;
    Vec16 v[LOADS];
    if (r == c.rank) loadAll(v, x + (long)k * c.width, from, c.width);
    else takeAll(v, mine + ((long)r * p.each + k - p.from) * c.width, from, c.width, c.aborted);
    UNROLL for (int j = 0; j < LOADS; j++)
      if (from + 32 * j < c.width) ((Vec16*)c.y)[(long)a * c.width + from + 32 * j] = v[j];
    if (from != lane()) continue; // the first part of a row has its shares
    for (int e = lane(); e < p.experts; e += 32) p.here[(long)a * p.experts + e] = (u32)(e - begins) < (u32)p.held ? t.come[(long)row * p.held + e - begins] : 0.0f;
  }
  count(counter(c.windows[c.rank], EPOCH));
}

struct CombineRowsParams {
  CollectiveParams c; // x: [rows that have come], y: own rows; width of a row in vectors
  Routes routes;
  int from, each;
};
template <typename T> DEVICE void combineRows(const CombineRowsParams& p) {
  const CollectiveParams& c = p.c;
  const Routes& t = p.routes;
  u32 launch = begin(c, EPOCH);
  int parts = ceilDiv(c.width, PART), warps = gridX() * (threads() / 32), first = blockX() * (threads() / 32) + warp();
  const Vec16* x = (const Vec16*)c.x;
  int come = *t.count;
  for (int item = first; item < come * parts; item += warps) {
    int a = item / parts, row = t.arrived[a], r = rankOf(t, row), k = row - t.first[r], from = item % parts * PART + lane();
    if (r == c.rank || k < p.from || k >= p.from + p.each) continue;
    Vec16 v[LOADS];
    loadAll(v, x + (long)a * c.width, from, c.width);
    Vec16* there = stage<Vec16>(c, r, launch, 0) + ((long)c.rank * p.each + k - p.from) * c.width;
    UNROLL for (int j = 0; j < LOADS; j++)
      if (from + 32 * j < c.width) push(there + from + 32 * j, notEmpty(v[j]));
  }
  meet(c, launch);
  Vec16* mine = stage<Vec16>(c, c.rank, launch, 0);
  int own = mini(t.first[c.rank + 1] - t.first[c.rank], p.from + p.each) - p.from;
  for (int item = first; item < own * parts; item += warps) {
    int k = p.from + item / parts, from = item % parts * PART + lane();
    u32 of = t.reached[k];
    Sum<T> sum[LOADS] = {};
    for (int r = 0; r < c.ranks; r++) {
      if (!(of >> r & 1)) continue;
      Vec16 v[LOADS];
      if (r == c.rank) loadAll(v, x + (long)t.number[t.first[r] + k] * c.width, from, c.width);
      else takeAll(v, mine + ((long)r * p.each + k - p.from) * c.width, from, c.width, c.aborted);
      UNROLL for (int j = 0; j < LOADS; j++)
        if (from + 32 * j < c.width) sum[j].add(v[j], false);
    }
    UNROLL for (int j = 0; j < LOADS; j++)
      if (from + 32 * j < c.width) ((Vec16*)c.y)[(long)k * c.width + from + 32 * j] = sum[j].rounded();
  }
  count(counter(c.windows[c.rank], EPOCH));
}
KERNEL(256, 1) combine_f32(PARAM CombineRowsParams p) { combineRows<float>(p); }
KERNEL(256, 1) combine_bf16(PARAM CombineRowsParams p) { combineRows<bf16>(p); }
