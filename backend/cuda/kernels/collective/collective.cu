// Collectives of GPUs that address each other's memory; see windows.h.
#include "windows.h"

// reduceOnce is the all-reduce of few numbers (one-shot): each rank pushes all of its own to all others and adds all of all.
template <typename T> DEVICE void reduceOnce(const CollectiveParams& p) {
  u32 launch = begin(p, EPOCH);
  long vectors = (p.n + EACH<T> - 1) / EACH<T>, i = (long)blockX() * threads() + threadX();
  if (i < vectors) {
    Vec16 own = notEmpty(loadVector<T>(p.x, i, p.n));
    for (int r = 1; r < p.ranks; r++) {
      int to = (p.rank + r) % p.ranks;
      push(stage<Vec16>(p, to, launch, 0) + (long)p.rank * ONCE + i, own);
    }
    Sum<T> sum;
    Vec16* mine = stage<Vec16>(p, p.rank, launch, 0);
    for (int r = 0; r < p.ranks; r++) sum.add(r == p.rank ? own : take(mine + (long)r * ONCE + i, p.aborted), r == 0);
    storeVector<T>(p.y, i, p.n, sum.rounded());
  }
  count(counter(p.windows[p.rank], EPOCH));
}
KERNEL(256, 1) reduce_once_f32(PARAM CollectiveParams p) { reduceOnce<float>(p); }
KERNEL(256, 1) reduce_once_bf16(PARAM CollectiveParams p) { reduceOnce<bf16>(p); }

// reduce_norm is reduceOnce for rows of up to 8192 numbers that divide by 8, a block each, with what is behind it: the sum is rounded, add is added, and
// that is normalised (RMSNorm). Sums in front of the norm are those of reduce_once and norm.cu, to the last bit.
struct ReduceNormParams {
  CollectiveParams c; // n is rows × width
  const bf16* add;
  bf16* sum;
  const float* weight; // [width]
  float eps;
};
KERNEL(1024, 1) reduce_norm_bf16(PARAM ReduceNormParams p) {
  SHARED static float scratch[32];
  const CollectiveParams& c = p.c;
  int column = threadX() * 8;
  bool mine = column < c.width;
  float w[8], v[8];
  UNROLL for (int j = 0; j < 8; j++) w[j] = v[j] = 0;
  if (mine) {
    UNROLL for (int j = 0; j < 8; j++) w[j] = p.weight[column + j];
  }
  u32 launch = begin(c, EPOCH);
  long at = (long)blockX() * c.width + column, i = at / 8;
  float squares = 0;
  if (mine) {
    Vec16 own = notEmpty(*(const Vec16*)((const bf16*)c.x + at));
    for (int r = 1; r < c.ranks; r++) push(stage<Vec16>(c, (c.rank + r) % c.ranks, launch, 0) + (long)c.rank * ONCE + i, own);
    Vec16 a = *(const Vec16*)(p.add + at), s; // on its way while the others' numbers are
    Sum<bf16> total;
    Vec16* stages = stage<Vec16>(c, c.rank, launch, 0);
    for (int r = 0; r < c.ranks; r++) total.add(r == c.rank ? own : take(stages + (long)r * ONCE + i, c.aborted), r == 0);
    Vec16 x = total.rounded();
    UNROLL for (int j = 0; j < 4; j++) {
      s.x[j] = pack(low(x.x[j]) + low(a.x[j]), high(x.x[j]) + high(a.x[j]));
      v[2 * j] = low(s.x[j]), v[2 * j + 1] = high(s.x[j]);
    }
    *(Vec16*)(p.sum + at) = s;
    UNROLL for (int j = 0; j < 8; j++) squares += v[j] * v[j];
  }
  float scale = rsqrt(blockSum(squares, scratch) / c.width + p.eps);
  if (mine) {
    Vec16 y;
    UNROLL for (int j = 0; j < 4; j++) y.x[j] = pack(v[2 * j] * scale * w[2 * j], v[2 * j + 1] * scale * w[2 * j + 1]);
    *(Vec16*)((bf16*)c.y + at) = y;
  }
  count(counter(c.windows[c.rank], EPOCH));
}

// reduceParts is the all-reduce of many (two-shot): each rank adds a part of the numbers of all, and pushes the sums to all others.
template <typename T> DEVICE void reduceParts(const CollectiveParams& p) {
  u32 launch = begin(p, EPOCH);
  long vectors = (p.n + EACH<T> - 1) / EACH<T>, part = (vectors + p.ranks - 1) / p.ranks;
  long first = (long)blockX() * threads() + threadX(), stride = (long)gridX() * threads();
  for (long i = first; i < part; i += stride)
    for (int r = 1; r < p.ranks; r++) {
      int to = (p.rank + r) % p.ranks;
      if (to * part + i < vectors) push(stage<Vec16>(p, to, launch, 0) + p.rank * part + i, notEmpty(loadVector<T>(p.x, to * part + i, p.n)));
    }
  Vec16 *mine = stage<Vec16>(p, p.rank, launch, 0), *sums = stage<Vec16>(p, p.rank, launch, GATHERED);
  for (long i = first; i < part && p.rank * part + i < vectors; i += stride) {
    long at = p.rank * part + i;
    Sum<T> sum;
    for (int r = 0; r < p.ranks; r++) sum.add(r == p.rank ? notEmpty(loadVector<T>(p.x, at, p.n)) : take(mine + r * part + i, p.aborted), r == 0);
    Vec16 v = notEmpty(sum.rounded());
    for (int r = 1; r < p.ranks; r++) push(stage<Vec16>(p, (p.rank + r) % p.ranks, launch, GATHERED) + at, v);
    storeVector<T>(p.y, at, p.n, v);
  }
  for (int r = 1; r < p.ranks; r++) {
    long base = (p.rank + r) % p.ranks * part;
    for (long i = base + first; i < base + part && i < vectors; i += stride) storeVector<T>(p.y, i, p.n, take(sums + i, p.aborted));
  }
  count(counter(p.windows[p.rank], EPOCH));
}
KERNEL(256, 1) reduce_parts_f32(PARAM CollectiveParams p) { reduceParts<float>(p); }
KERNEL(256, 1) reduce_parts_bf16(PARAM CollectiveParams p) { reduceParts<bf16>(p); }

// gather puts the columns of all ranks side by side. What rows are moved in is V, which stages hold as W; n, width and whole count them. Columns
// beyond whole are padding.
template <typename V, typename W> DEVICE void gather(const CollectiveParams& p) {
  u32 launch = begin(p, EPOCH);
  int first = blockX() * threads() + threadX(), stride = gridX() * threads(), n = (int)p.n;
  for (int i = first; i < n; i += stride) {
    V v = ((const V*)p.x)[i];
    for (int r = 1; r < p.ranks; r++) push(stage<W>(p, (p.rank + r) % p.ranks, launch, 0) + (long)p.rank * n + i, notEmpty((W)v));
    int column = p.rank * p.width + i % p.width;
    if (column < p.whole) ((V*)p.y)[(long)(i / p.width) * p.whole + column] = v;
  }
  W* mine = stage<W>(p, p.rank, launch, 0);
  for (int r = 1; r < p.ranks; r++) {
    int from = (p.rank + r) % p.ranks;
    for (int i = first; i < n; i += stride) {
      W v = take(mine + (long)from * n + i, p.aborted);
      int column = from * p.width + i % p.width;
      if (column < p.whole) ((V*)p.y)[(long)(i / p.width) * p.whole + column] = (V)v;
    }
  }
  count(counter(p.windows[p.rank], EPOCH));
}
KERNEL(256, 1) gather_16(PARAM CollectiveParams p) { gather<Vec16, Vec16>(p); }
KERNEL(256, 1) gather_4(PARAM CollectiveParams p) { gather<u32, u32>(p); }
KERNEL(256, 1) gather_2(PARAM CollectiveParams p) { gather<u16, u32>(p); }

// exchange is an all-to-all of blocks of rows, which differ in where they lie and in how many rows they have: n[r] rows of x from row xRow[r] and column xColumn[r] on go to rank r,
// and m[r] come from it to rows of y from yRow[r] and yColumn[r] on. Blocks are width wide, and a stage has room for most rows of each rank. Of what ranks have of each other both sides
// have the same numbers.
struct ExchangeParams {
  CollectiveParams c; // width of a block's row
  int most;
  int xWhole, yWhole; // of rows of x and y
  int n[MAX_RANKS], xRow[MAX_RANKS], xColumn[MAX_RANKS];
  int m[MAX_RANKS], yRow[MAX_RANKS], yColumn[MAX_RANKS];
};
template <typename V, typename W> DEVICE void exchange(const ExchangeParams& p) {
  const CollectiveParams& c = p.c;
  u32 launch = begin(c, EPOCH);
  int first = blockX() * threads() + threadX(), stride = gridX() * threads(), slot = p.most * c.width;
  const V* x = (const V*)c.x;
  V* y = (V*)c.y;
  auto from = [&](int r, int i) { return x[(long)(p.xRow[r] + i / c.width) * p.xWhole + p.xColumn[r] + i % c.width]; };
  auto to = [&](int r, int i) { return y + (long)(p.yRow[r] + i / c.width) * p.yWhole + p.yColumn[r] + i % c.width; };
  for (int k = 1; k < c.ranks; k++) {
    int r = (c.rank + k) % c.ranks;
    W* there = stage<W>(c, r, launch, 0) + (long)c.rank * slot;
    for (int i = first; i < p.n[r] * c.width; i += stride) push(there + i, notEmpty((W)from(r, i)));
  }
  for (int i = first; i < p.n[c.rank] * c.width; i += stride) *to(c.rank, i) = from(c.rank, i);
  meet(c, launch);
  W* mine = stage<W>(c, c.rank, launch, 0);
  for (int k = 1; k < c.ranks; k++) {
    int r = (c.rank + k) % c.ranks;
    for (int i = first; i < p.m[r] * c.width; i += stride) *to(r, i) = (V)take(mine + (long)r * slot + i, c.aborted);
  }
  count(counter(c.windows[c.rank], EPOCH));
}
KERNEL(256, 1) exchange_16(PARAM ExchangeParams p) { exchange<Vec16, Vec16>(p); }
KERNEL(256, 1) exchange_4(PARAM ExchangeParams p) { exchange<u32, u32>(p); }
KERNEL(256, 1) exchange_2(PARAM ExchangeParams p) { exchange<u16, u32>(p); }

// selected gives rank 0 chosen rows, wherever they are: row i of its y is row chosen[i] of the rows that ranks divide, of which first[r] is the first of rank r.
struct SelectedParams {
  CollectiveParams c; // n is rows, of width
  const int* chosen;
  int first[MAX_RANKS + 1];
};
template <typename V, typename W> DEVICE void selected(const SelectedParams& p) {
  const CollectiveParams& c = p.c;
  u32 launch = begin(c, EPOCH);
  W* stages = stage<W>(c, 0, launch, 0);
  V* y = (V*)c.y;
  meet(c, launch);
  for (int i = blockX() * threads() + threadX(); i < (int)c.n * c.width; i += gridX() * threads()) {
    int row = p.chosen[i / c.width], column = i % c.width;
    if (row >= p.first[c.rank] && row < p.first[c.rank + 1]) {
      V v = ((const V*)c.x)[(long)(row - p.first[c.rank]) * c.width + column];
      if (c.rank == 0)
        y[i] = v;
      else
        push(stages + i, notEmpty((W)v));
    } else if (c.rank == 0) {
      y[i] = (V)take(stages + i, c.aborted);
    }
  }
  count(counter(c.windows[c.rank], EPOCH));
}
KERNEL(256, 1) selected_16(PARAM SelectedParams p) { selected<Vec16, Vec16>(p); }
KERNEL(256, 1) selected_4(PARAM SelectedParams p) { selected<u32, u32>(p); }
KERNEL(256, 1) selected_2(PARAM SelectedParams p) { selected<u16, u32>(p); }

// join is the second half of a gather whose shards lie one behind the other in x, as NCCL puts them: [ranks, rows, width] → [rows, whole].
template <typename V> DEVICE void join(const CollectiveParams& p) {
  launchDependentsAndWait();
  for (int i = blockX() * threads() + threadX(); i < (int)p.n; i += gridX() * threads()) {
    int row = i / p.whole, column = i % p.whole, from = column / p.width, rows = (int)p.n / p.whole;
    ((V*)p.y)[i] = ((const V*)p.x)[((long)from * rows + row) * p.width + column % p.width];
  }
}
KERNEL(256, 1) join_16(PARAM CollectiveParams p) { join<Vec16>(p); }
KERNEL(256, 1) join_4(PARAM CollectiveParams p) { join<u32>(p); }
KERNEL(256, 1) join_2(PARAM CollectiveParams p) { join<u16>(p); }

// Messages from a rank to another, of n bytes. The sender is at most two ahead: a stage is free when the receiver has taken what was in it.
KERNEL(256, 1) send(PARAM CollectiveParams p) {
  u8* own = p.windows[p.rank];
  u32 message = begin(p, SENT + p.peer);
  int looks = 0;
  while (((message - loadCounter(counter(own, TAKEN + p.peer)) / LAUNCH) & (LAUNCH - 1)) >= 2)
    if (giveUp(looks, p.aborted)) break;
  Vec16* to = stage<Vec16>(p, p.peer, message, 0) + (long)p.rank * (STAGE / 16 / MAX_RANKS);
  for (long i = (long)blockX() * threads() + threadX(); i * 16 < p.n; i += (long)gridX() * threads()) push(to + i, notEmpty(loadVector<u16>(p.x, i, p.n / 2)));
  count(counter(own, SENT + p.peer));
}
KERNEL(256, 1) receive(PARAM CollectiveParams p) {
  u8* own = p.windows[p.rank];
  u32 message = begin(p, RECEIVED + p.peer);
  Vec16* from = stage<Vec16>(p, p.rank, message, 0) + (long)p.peer * (STAGE / 16 / MAX_RANKS);
  for (long i = (long)blockX() * threads() + threadX(); i * 16 < p.n; i += (long)gridX() * threads()) storeVector<u16>(p.y, i, p.n / 2, take(from + i, p.aborted));
  count(counter(own, RECEIVED + p.peer)); // a barrier: all of the block has been emptied
  if (threadX() == 0) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(counter(p.windows[p.peer], TAKEN + p.rank)), "r"(weight()) : "memory");
  }
}
