// What numbers of rows that are too large for 8 bits add to products of the others (LLM.int8; graph.AddOutliers): y += x' W', x' being the numbers of a
// magnitude from the threshold on, W int8 with a scale a row. They are few, and in the same few columns of most rows. A number counts as zero where it is not
// large itself, so that no row depends on those beside it. Rows with a number that is not finite are NaN already: their y is.
#include "../../kv_cache.h"

struct OutlierParams {
  const bf16* x;      // [m, k]
  const i8* w;        // [n, k]
  const float* scale; // [n]
  const bf16* y;      // [m, n]
  bf16* sum;          // [m, n], may be y
  int* columns;       // of many rows: [tiles of MANY rows][1 + k] how many columns, and which
  bf16* numbers;      // of many rows: [tiles][k][MANY] the rows' numbers in those columns
  int m, n, k;
  float threshold;
};
extern SHARED u8 dynamic[];

constexpr int THREADS = 256, MANY = 32;

// Large says which bits of a bf16's magnitude are of large finite numbers: magnitudes are ordered as their bits are.
struct Large {
  u32 least;
  DEVICE Large(float threshold) : least(__builtin_bit_cast(u32, threshold) >> 16) { least += (__builtin_bit_cast(u32, threshold) & 0xffff) != 0; }
  DEVICE bool operator()(u32 bits) const { return (bits & 0x7fff) - least < 0x7f80 - least; }
};
DEVICE void orShared(u32* at, u32 bits) { asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(sharedAddress(at)), "r"(bits) : "memory"); }

// Marks are a bit for each column in which one of some rows has a large number, and a bit for each word of these that is not zero.
struct Marks {
  u32 *words, *marked;
  int upper; // words of marked
  DEVICE Marks(int k) : words((u32*)dynamic), marked(words + ceilDiv(k, 32)), upper(ceilDiv(ceilDiv(k, 32), 32)) {}
  DEVICE void clear(int k) {
    for (int i = threadX(); i < ceilDiv(k, 32) + upper; i += THREADS) words[i] = 0;
    barrier();
  }
  DEVICE void find(const bf16* x, int rows, int k, Large large) {
    constexpr int AHEAD = 4; // loads in flight
    for (int i = threadX() * 8; i < rows * k; i += AHEAD * THREADS * 8) {
      Vec16 v[AHEAD];
      UNROLL for (int a = 0; a < AHEAD; a++) v[a] = i + a * THREADS * 8 < rows * k ? *(const Vec16*)(x + i + a * THREADS * 8) : Vec16{};
      UNROLL for (int a = 0; a < AHEAD; a++) {
        u32 found = 0;
        UNROLL for (int j = 0; j < 8; j++) found |= (u32)large(v[a].x[j / 2] >> (j % 2 * 16)) << j;
        if (!found) continue;
        int column = (i + a * THREADS * 8) % k;
        orShared(words + column / 32, found << column % 32);
        orShared(marked + column / 1024, 1u << column / 32 % 32);
      }
    }
    barrier();
  }
  // each calls f for each marked column, in order.
  template <typename F> DEVICE void each(F f) const {
    for (int i = 0; i < upper; i++) for (u32 found = marked[i]; found; found &= found - 1) {
      int word = i * 32 + __builtin_ctz(found);
      for (u32 bits = words[word]; bits; bits &= bits - 1) f(word * 32 + __builtin_ctz(bits));
    }
  }
};

// A few rows: every block looks through them, and each thread has a row of W.
template <int ROWS> DEVICE void addFew(const OutlierParams& p) {
  Marks marks(p.k);
  Large large(p.threshold);
  marks.clear(p.k);
  launchDependents();
  gridDependencyWait();
  marks.find(p.x, p.m, p.k, large);
  int column = blockX() * THREADS + threadX();
  if (column >= p.n) return;
  float sums[ROWS] = {}, scale = p.scale[column];
  const i8* w = p.w + (long)column * p.k;
  marks.each([&](int at) __attribute__((always_inline)) {
    float number = toFloat(w[at]);
    UNROLL for (int r = 0; r < ROWS; r++) {
      u32 v = r < p.m ? *(const u16*)(p.x + r * p.k + at) : 0;
      if (large(v)) sums[r] += __builtin_bit_cast(float, v << 16) * number;
    }
  });
  UNROLL for (int r = 0; r < ROWS; r++) {
    long to = (long)r * p.n + column;
    if (r < p.m) p.sum[to] = fromFloat<bf16>(toFloat(p.y[to]) + sums[r] * scale);
  }
}
KERNEL(THREADS, 1) add_outliers1(PARAM OutlierParams p) { addFew<1>(p); }
KERNEL(THREADS, 1) add_outliers8(PARAM OutlierParams p) { addFew<8>(p); }

// Many rows: a block looks through a tile of MANY of them, and lists the columns and what the rows have there, zero where it is not large.
KERNEL(THREADS, 1) find_outliers(PARAM OutlierParams p) {
  Marks marks(p.k);
  Large large(p.threshold);
  marks.clear(p.k);
  launchDependents();
  gridDependencyWait();
  int row0 = blockX() * MANY, rows = mini(MANY, p.m - row0);
  const bf16* x = p.x + (long)row0 * p.k;
  marks.find(x, rows, p.k, large);
  int* columns = p.columns + (long)blockX() * (1 + p.k);
  bf16* numbers = p.numbers + (long)blockX() * p.k * MANY;
  int count = 0;
  marks.each([&](int at) __attribute__((always_inline)) { // all warps go through them; each has every eighth
    if (count % (THREADS / 32) == warp()) {
      u16 v = lane() < rows ? *(const u16*)(x + (long)lane() * p.k + at) : 0;
      ((u16*)numbers)[count * MANY + lane()] = large(v) ? v : 0;
      if (lane() == 0) columns[1 + count] = at;
    }
    count++;
  });
  if (threadX() == 0) columns[0] = count;
}

// Behind it a thread has a row of W and a tile.
KERNEL(THREADS, 2) add_outliers(PARAM OutlierParams p) {
  constexpr int STAGE = 16; // columns whose numbers are in shared memory at one time
  SHARED alignas(16) static float numbers[STAGE][MANY];
  SHARED static int which[STAGE];
  launchDependents();
  gridDependencyWait();
  int row0 = blockY() * MANY, column = blockX() * THREADS + threadX();
  const int* columns = p.columns + (long)blockY() * (1 + p.k);
  const bf16* from = p.numbers + (long)blockY() * p.k * MANY;
  const i8* w = p.w + (long)mini(column, p.n - 1) * p.k;
  float sums[MANY] = {};
  int count = columns[0];
  for (int first = 0; first < count; first += STAGE) {
    int here = mini(STAGE, count - first);
    barrier();
    for (int i = threadX(); i < here * MANY; i += THREADS) numbers[i / MANY][i % MANY] = toFloat(from[(long)first * MANY + i]);
    if (threadX() < here) which[threadX()] = columns[1 + first + threadX()];
    barrier();
    float own[STAGE];
    UNROLL for (int i = 0; i < STAGE; i++) own[i] = i < here ? toFloat(w[which[i]]) : 0;
    UNROLL for (int i = 0; i < STAGE; i++) {
      if (i < here) UNROLL for (int r = 0; r < MANY; r++) sums[r] += numbers[i][r] * own[i];
    }
  }
  if (column >= p.n) return;
  float scale = p.scale[column];
  UNROLL for (int r = 0; r < MANY; r++) {
    long to = (long)(row0 + r) * p.n + column;
    if (row0 + r < p.m) p.sum[to] = fromFloat<bf16>(toFloat(p.y[to]) + sums[r] * scale);
  }
}
