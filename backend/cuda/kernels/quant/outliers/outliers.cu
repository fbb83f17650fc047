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
  // Of several rows, in pieces of MANY rows × PIECE columns, of [tiles of rows][pieces of k]:
  int* columns;       // [1 + PIECE] how many columns of the piece have a large number, and which
  bf16* numbers;      // [PIECE][MANY] the rows' numbers in those columns
  int m, n, k;
  float threshold;
};
extern SHARED u8 dynamic[];

constexpr int THREADS = 256, MANY = 32, PIECE = 512;

// Large says which bits of a bf16's magnitude are of large finite numbers: magnitudes are ordered as their bits are.
struct Large {
  u32 least;
  DEVICE Large(float threshold) : least(__builtin_bit_cast(u32, threshold) >> 16) { least += (__builtin_bit_cast(u32, threshold) & 0xffff) != 0; }
  DEVICE bool operator()(u32 bits) const { return (bits & 0x7fff) - least < 0x7f80 - least; }
};
DEVICE void orShared(u32* at, u32 bits) { asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(sharedAddress(at)), "r"(bits) : "memory"); }

// Marks are a bit for each column of a row that has a large number, and a bit for each word of these that is not zero.
struct Marks {
  u32 *words, *marked;
  int upper; // words of marked
  DEVICE Marks(int k) : words((u32*)dynamic), marked(words + ceilDiv(k, 32)), upper(ceilDiv(ceilDiv(k, 32), 32)) {}
  DEVICE void clear(int k) {
    for (int i = threadX(); i < ceilDiv(k, 32) + upper; i += THREADS) words[i] = 0;
    barrier();
  }
  DEVICE void find(const bf16* x, int k, Large large) {
    constexpr int AHEAD = 4; // loads in flight
    for (int i = threadX() * 8; i < k; i += AHEAD * THREADS * 8) {
      Vec16 v[AHEAD];
      UNROLL for (int a = 0; a < AHEAD; a++) v[a] = i + a * THREADS * 8 < k ? *(const Vec16*)(x + i + a * THREADS * 8) : Vec16{};
      UNROLL for (int a = 0; a < AHEAD; a++) {
        u32 found = 0;
        UNROLL for (int j = 0; j < 8; j++) found |= (u32)large(v[a].x[j / 2] >> (j % 2 * 16)) << j;
        if (!found) continue;
        int column = i + a * THREADS * 8;
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

// One row: every block looks through it, and each thread has a row of W.
KERNEL(THREADS, 1) add_outliers1(PARAM OutlierParams p) {
  Marks marks(p.k);
  Large large(p.threshold);
  marks.clear(p.k);
  launchDependents();
  gridDependencyWait();
  marks.find(p.x, p.k, large);
  int column = blockX() * THREADS + threadX();
  if (column >= p.n) return;
  float sum = 0;
  const i8* w = p.w + (long)column * p.k;
  marks.each([&](int at) __attribute__((always_inline)) { sum += toFloat(p.x[at]) * toFloat(w[at]); });
  p.sum[column] = fromFloat<bf16>(toFloat(p.y[column]) + sum * p.scale[column]);
}

// Several rows: a block looks through a piece of them, and lists the columns and what the rows have there, zero where it is not large.
KERNEL(THREADS, 2) find_outliers(PARAM OutlierParams p) {
  constexpr int LANES = PIECE / 8, STEP = THREADS / LANES; // threads of a row, with 16 bytes each, and rows at a time
  SHARED static u32 marks[PIECE / 32];
  Large large(p.threshold);
  if (threadX() < PIECE / 32) marks[threadX()] = 0;
  barrier();
  launchDependents();
  gridDependencyWait();
  int row0 = blockY() * MANY, rows = mini(MANY, p.m - row0), first = blockX() * PIECE, mine = threadX() % LANES * 8;
  const bf16* x = p.x + (long)row0 * p.k + first;
  Vec16 v[MANY / STEP];
  UNROLL for (int i = 0; i < MANY / STEP; i++) {
    int r = threadX() / LANES + i * STEP;
    v[i] = r < rows && first + mine < p.k ? *(const Vec16*)(x + (long)r * p.k + mine) : Vec16{};
  }
  u32 found = 0;
  UNROLL for (int i = 0; i < MANY / STEP; i++) UNROLL for (int j = 0; j < 8; j++) found |= (u32)large(v[i].x[j / 2] >> (j % 2 * 16)) << j;
  if (found) orShared(marks + mine / 32, found << mine % 32);
  barrier();
  long piece = (long)blockY() * gridX() + blockX();
  int* columns = p.columns + piece * (1 + PIECE);
  u16* numbers = (u16*)p.numbers + piece * PIECE * MANY;
  int count = 0;
  for (int i = 0; i < PIECE / 32; i++) for (u32 bits = marks[i]; bits; bits &= bits - 1, count++) {
    if (count % (THREADS / 32) != warp()) continue; // each warp has every eighth
    int at = i * 32 + __builtin_ctz(bits);
    u16 v = lane() < rows ? *(const u16*)(x + (long)lane() * p.k + at) : 0;
    numbers[count * MANY + lane()] = large(v) ? v : 0;
    if (lane() == 0) columns[1 + count] = first + at;
  }
  if (threadX() == 0) columns[0] = count;
}

// Behind it a thread has a row of W and ROWS rows of a tile.
template <int ROWS> DEVICE void addMany(const OutlierParams& p) {
  constexpr int STAGE = 8; // columns whose numbers are in shared memory at one time
  SHARED alignas(16) static float numbers[STAGE][ROWS];
  SHARED static int which[STAGE], slots[STAGE];
  int* counts = (int*)dynamic; // [pieces]
  launchDependents();
  gridDependencyWait();
  int row0 = blockY() * MANY, column = blockX() * THREADS + threadX(), pieces = ceilDiv(p.k, PIECE);
  const int* columns = p.columns + (long)blockY() * pieces * (1 + PIECE);
  const bf16* from = p.numbers + (long)blockY() * pieces * PIECE * MANY;
  for (int i = threadX(); i < pieces; i += THREADS) counts[i] = columns[(long)i * (1 + PIECE)];
  barrier();
  int count = 0;
  for (int i = 0; i < pieces; i++) count += counts[i];
  const i8* w = p.w + (long)mini(column, p.n - 1) * p.k;
  float sums[ROWS] = {};
  for (int first = 0; first < count; first += STAGE) {
    int here = mini(STAGE, count - first);
    barrier();
    if (threadX() < here) {
      int piece = 0, in = first + threadX();
      while (in >= counts[piece]) in -= counts[piece++];
      slots[threadX()] = piece * PIECE + in, which[threadX()] = columns[(long)piece * (1 + PIECE) + 1 + in];
    }
    barrier();
    float own[STAGE];
    UNROLL for (int i = 0; i < STAGE; i++) own[i] = i < here ? toFloat(w[which[i]]) : 0;
    for (int i = threadX(); i < STAGE * ROWS; i += THREADS) numbers[i / ROWS][i % ROWS] = i / ROWS < here ? toFloat(from[(long)slots[i / ROWS] * MANY + i % ROWS]) : 0;
    barrier();
    UNROLL for (int i = 0; i < STAGE; i++) UNROLL for (int r = 0; r < ROWS; r++) sums[r] += numbers[i][r] * own[i];
  }
  if (column >= p.n) return;
  float scale = p.scale[column];
  UNROLL for (int r = 0; r < ROWS; r++) {
    long to = (long)(row0 + r) * p.n + column;
    if (row0 + r < p.m) p.sum[to] = fromFloat<bf16>(toFloat(p.y[to]) + sums[r] * scale);
  }
}
KERNEL(THREADS, 4) add_outliers8(PARAM OutlierParams p) { addMany<8>(p); }
KERNEL(THREADS, 4) add_outliers32(PARAM OutlierParams p) { addMany<MANY>(p); }
