// What numbers of rows that are too large for 8 bits add to products of the others (LLM.int8; graph.AddOutliers): y += x' W', x' being the numbers of a
// magnitude from the threshold on, W int8 with a scale a row. They are few, and in the same few columns of most rows. A number counts as zero where it is not
// large itself, so that no row depends on those beside it. Rows with a number that is not finite are NaN already: their y is.
#include "../../activation.h"
#include "../../kv_cache.h"

// OutlierPart is a matrix that reads the rows, with the products of their other numbers.
struct OutlierPart {
  const i8* w;        // [n, k]
  const float* scale; // [n]
  const bf16* y;      // [m, n]
  bf16* sum;          // [m, n], may be y
  long n;
};
constexpr int MOST_PARTS = 3;

struct OutlierParams {
  const bf16* x; // [m, k]
  OutlierPart part[MOST_PARTS];
  bf16* joined; // [m, n] fn(sum of part 0) × sum of part 1, which are as long, in place of both; or null
  // Of more than FEW rows, in pieces of MANY rows × PIECE columns, of [tiles of rows][pieces of k]:
  int* columns;       // [1 + PIECE] how many columns of the piece have a large number, and which
  bf16* numbers;      // [PIECE][MANY] the rows' numbers in those columns
  int parts, fn, m, k;
  float threshold;
  int pad;
};
extern SHARED u8 dynamic[];

constexpr int THREADS = 256, FEW = 8, MANY = 32, PIECE = 512;

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
  // find marks the columns in which one of m rows has a large number.
  DEVICE void find(const bf16* x, int m, int k, Large large) {
    constexpr int AHEAD = 4; // loads in flight
    for (int i = threadX() * 8; i < m * k; i += AHEAD * THREADS * 8) {
      Vec16 v[AHEAD];
      UNROLL for (int a = 0; a < AHEAD; a++) v[a] = i + a * THREADS * 8 < m * k ? *(const Vec16*)(x + i + a * THREADS * 8) : Vec16{};
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
  DEVICE bool none() const {
    for (int i = 0; i < upper; i++) if (marked[i]) return false;
    return true;
  }
  // each calls f for each marked column, in order.
  template <typename F> DEVICE void each(F f) const {
    for (int i = 0; i < upper; i++) for (u32 found = marked[i]; found; found &= found - 1) {
      int word = i * 32 + __builtin_ctz(found);
      for (u32 bits = words[word]; bits; bits &= bits - 1) f(word * 32 + __builtin_ctz(bits));
    }
  }
};

// Column is what a thread makes: a number of each row, of one part or, where two are joined, of both.
struct Column {
  OutlierPart part, up;
  int at;
  bool joined;

  DEVICE Column(const OutlierParams& p) : joined(p.joined) {
    int block = blockX(), i = 0;
    for (; !joined && i < p.parts - 1 && block >= ceilDiv(p.part[i].n, THREADS); i++) block -= ceilDiv(p.part[i].n, THREADS);
    part = p.part[0], up = p.part[1];
    if (i == 1) part = p.part[1];
    if (i == 2) part = p.part[2];
    at = block * THREADS + threadX();
  }
  DEVICE bool inside() const { return at < part.n; }
  // nothing reports whether there is nothing to do where no number is large.
  DEVICE bool nothing() const { return !joined && part.y == part.sum; }
  DEVICE const i8* row(const OutlierPart& of, int k) const { return of.w + (long)mini(at, of.n - 1) * k; }
  // put stores a number of few rows: sum, and of the second part more, are what its large numbers come to.
  DEVICE void put(const OutlierParams& p, int row, float sum, float more) const {
    long to = row * part.n + at;
    float y = toFloat(fromFloat<bf16>(toFloat(part.y[to]) + sum * part.scale[at]));
    if (!joined) part.sum[to] = fromFloat<bf16>(y);
    else p.joined[to] = fromFloat<bf16>(gate(p.fn, y) * toFloat(fromFloat<bf16>(toFloat(up.y[to]) + more * up.scale[at])));
  }
};

// Few rows: every block looks through them, and each thread has a row of W.
template <int ROWS> DEVICE void addFew(const OutlierParams& p) {
  Marks marks(p.k);
  Large large(p.threshold);
  marks.clear(p.k);
  const Column column(p);
  launchDependents();
  gridDependencyWait();
  marks.find(p.x, p.m, p.k, large);
  if (!column.inside() || (column.nothing() && marks.none())) return;
  float sums[ROWS] = {}, more[ROWS] = {};
  const i8 *w = column.row(column.part, p.k), *up = column.row(column.up, p.k);
  marks.each([&](int at) __attribute__((always_inline)) {
    float own = toFloat(w[at]), other = column.joined ? toFloat(up[at]) : 0;
    UNROLL for (int r = 0; r < ROWS; r++) {
      u16 v = r < p.m ? *(const u16*)(p.x + (long)r * p.k + at) : 0;
      float x = large(v) ? toFloat(__builtin_bit_cast(bf16, v)) : 0;
      sums[r] += x * own, more[r] += x * other;
    }
  });
  UNROLL for (int r = 0; r < ROWS; r++) if (r < p.m) column.put(p, r, sums[r], more[r]);
}
KERNEL(THREADS, 1) add_outliers1(PARAM OutlierParams p) { addFew<1>(p); }
KERNEL(THREADS, 1) add_outliers8(PARAM OutlierParams p) { addFew<FEW>(p); }

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

// join makes fn(first) × second of a block's columns of some rows of two sums.
DEVICE void join(const OutlierParams& p, int row0, int rows) {
  const OutlierPart &first = p.part[0], &second = p.part[1];
  int column0 = blockX() * THREADS, width = mini(THREADS, first.n - column0);
  auto of = [&](float a, float b) { return gate(p.fn, a) * b; };
  if (first.n % 8) {
    for (int i = threadX(); i < rows * width; i += THREADS) {
      long at = (row0 + i / width) * first.n + column0 + i % width;
      p.joined[at] = fromFloat<bf16>(of(toFloat(first.sum[at]), toFloat(second.sum[at])));
    }
    return;
  }
  for (int i = threadX(); i < rows * (THREADS / 8); i += THREADS) {
    int c = i % (THREADS / 8) * 8;
    if (c >= width) continue;
    long at = (row0 + i / (THREADS / 8)) * first.n + column0 + c;
    Vec16 a = *(const Vec16*)(first.sum + at), b = *(const Vec16*)(second.sum + at);
    UNROLL for (int j = 0; j < 4; j++) a.x[j] = pack(of(low(a.x[j]), low(b.x[j])), of(high(a.x[j]), high(b.x[j])));
    *(Vec16*)(p.joined + at) = a;
  }
}

// Behind it a thread has a row of W and the rows of a tile. Sums that are joined are in place: where no number is large they are there already.
template <bool JOINED> DEVICE void addMany(const OutlierParams& p) {
  constexpr int STAGE = 8; // columns whose numbers are in shared memory at one time
  SHARED alignas(16) static float numbers[STAGE][MANY];
  SHARED static int which[STAGE], slots[STAGE];
  int* counts = (int*)dynamic; // [pieces]
  const Column column(p);
  launchDependents();
  gridDependencyWait();
  int row0 = blockY() * MANY, pieces = ceilDiv(p.k, PIECE);
  const int* columns = p.columns + (long)blockY() * pieces * (1 + PIECE);
  const bf16* from = p.numbers + (long)blockY() * pieces * PIECE * MANY;
  for (int i = threadX(); i < pieces; i += THREADS) counts[i] = columns[(long)i * (1 + PIECE)];
  barrier();
  int count = 0;
  for (int i = 0; i < pieces; i++) count += counts[i];
  if (count == 0 && column.nothing()) return;
  const i8 *w = column.row(column.part, p.k), *up = column.row(column.up, p.k);
  float sums[MANY] = {}, more[JOINED ? MANY : 1] = {};
  for (int first = 0; first < count; first += STAGE) {
    int here = mini(STAGE, count - first);
    barrier();
    if (threadX() < here) {
      int piece = 0, in = first + threadX();
      while (in >= counts[piece]) in -= counts[piece++];
      slots[threadX()] = piece * PIECE + in, which[threadX()] = columns[(long)piece * (1 + PIECE) + 1 + in];
    }
    barrier();
    float own[STAGE], other[STAGE];
    UNROLL for (int i = 0; i < STAGE; i++) own[i] = i < here ? toFloat(w[which[i]]) : 0, other[i] = JOINED && i < here ? toFloat(up[which[i]]) : 0;
    for (int i = threadX(); i < STAGE * MANY; i += THREADS) numbers[i / MANY][i % MANY] = i / MANY < here ? toFloat(from[(long)slots[i / MANY] * MANY + i % MANY]) : 0;
    barrier();
    UNROLL for (int i = 0; i < STAGE; i++) UNROLL for (int r = 0; r < MANY; r++) {
      sums[r] += numbers[i][r] * own[i];
      if (JOINED) more[r] += numbers[i][r] * other[i];
    }
  }
  int rows = mini(MANY, p.m - row0);
  auto add = [&](const OutlierPart& part, const float (&sums)[MANY]) {
    float scale = part.scale[column.at];
    bf16* to = part.sum + (long)row0 * part.n + column.at;
    const bf16* y = part.y + (long)row0 * part.n + column.at;
    UNROLL for (int r = 0; r < MANY; r++) if (r < rows) to[r * part.n] = fromFloat<bf16>(toFloat(y[r * part.n]) + sums[r] * scale);
  };
  if (column.inside() && (count > 0 || !JOINED)) {
    add(column.part, sums);
    if constexpr (JOINED) add(column.up, more);
  }
  if constexpr (JOINED) {
    barrier(); // the block's part of both sums is there
    join(p, row0, rows);
  }
}
KERNEL(THREADS, 3) add_outliers32(PARAM OutlierParams p) { addMany<false>(p); }
KERNEL(THREADS, 2) join_outliers32(PARAM OutlierParams p) { addMany<true>(p); }
