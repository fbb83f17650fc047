// Choosing tokens from rows of logits where they lie: one block a row. What is to be done with a row is package drawing's Draw;
// how, in passes over the row that stay in the L2 cache for the most part:
//
//   mask, edits   tokens that are masked or edited are marked in a bitmap in shared memory, which every pass looks at;
//                 edited tokens go through the passes on their own, after the row
//   top           the likeliest token: greedy ends here
//   count         tokens by weight, in 64ths of an octave below the top one (bins), with the bins' masses
//   find          once for each filter, and for the draw: which bin holds the token of that rank, or the one where the
//                 weights come to that sum; then the bin's tokens, in order
//   typical       a second order, of what the filters left: no bins, but parts of it cut in ever smaller parts
//
// Weights are 2^(-y/64). Within bin b a weight is 2^(-b/64) · (1 - d/2^20) with a whole d, so that masses of a bin are whole
// numbers: sums do not depend on the order of threads, and the same draw gives the same token.
#include "../cuda.h"

constexpr int THREADS = 512, BINS = 4096, OWN = BINS / THREADS, MOST = 1024, SUBBINS = 1024, MAXTOP = 20;
constexpr float UNIT = 1048576.0f; // of a bin's weights

struct Edit {
  int id;
  float value; // what to add; then the logit itself
  int seen, counted;
};
struct Row {
  double slope;  // y of a logit
  double topP, typicalP, u;
  double minY;   // tokens further down are dropped; infinity: none
  int row, greedy, topK, fed;
  int mask;      // its first word; -1: none
  int edits, numEdits; // the first and how many; behind them is room for one more
  int logprob, tops;
  float repetition, frequency, presence;
};
struct Top { int token; float logprob; };
struct Result {
  int token, failure;
  float logprob;
  int tops;
  Top top[MAXTOP];
};
struct SampleParams {
  const void* logits; // [L, vocab]
  const Row* rows;    // a block each
  Edit* edits;
  const u32* masks;
  const int* fed;     // tokens that the step before chose
  int* drawn;         // tokens for the step after
  Result* results;
  int vocab;
};

struct Found { // a token, and all that is before it with itself
  u64 place;   // in the order: see placeOf
  double mass;
};

// Shared is a block's shared memory; the bitmap lies behind it.
struct Shared {
  u32 count[BINS], dent[BINS]; // tokens of a bin, and the sum of their d
  union {
    struct { u64 place[MOST]; u32 dent[MOST]; } list;
    struct { u32 count[SUBBINS], dent[SUBBINS]; } sub;
    struct { u64 place[MOST], weight[MOST]; } typical;
    struct { u64 weight[SUBBINS]; u32 count[SUBBINS]; } part;
  };
  double mass[THREADS]; // of the bins up to a thread's last
  u32 tokens[THREADS];
  u64 word[32];
  double number[32];
  Found found;
  u64 lo, hi;
  double base;
  u64 weight; // of what is before
  u32 before, members;
  int bin, hit, extra;
};

static_assert(sizeof(Shared) == 55880 && sizeof(Row) == 88 && sizeof(Result) == 176, "sample.go says the same");

DEVICE u32 shuffleU32(u32 v, int mask) {
  u32 y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(y) : "r"(v), "r"(mask));
  return y;
}
DEVICE u64 shuffleU64(u64 v, int mask) { return (u64)shuffleU32(v >> 32, mask) << 32 | shuffleU32((u32)v, mask); }
DEVICE void sharedAdd(u32* p, u32 v) { asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(sharedAddress(p)), "r"(v) : "memory"); }
DEVICE void sharedAdd64(u64* p, u64 v) { asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(sharedAddress(p)), "l"(v) : "memory"); }
DEVICE u32 sharedNext(u32* p) {
  u32 y;
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(y) : "r"(sharedAddress(p)) : "memory");
  return y;
}
DEVICE void sharedMin(int* p, int v) { asm volatile("red.shared.min.s32 [%0], %1;" ::"r"(sharedAddress(p)), "r"(v) : "memory"); }
DEVICE void sharedOr(u32* p, u32 v) { asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(sharedAddress(p)), "r"(v) : "memory"); }

constexpr float NEVER = -__builtin_inff();

// placeOf orders tokens, the likeliest first: by logit, then the lower id. 0xff80… and beyond are -inf and NaN.
DEVICE u64 placeOf(float x, int id) {
  u32 bits = __builtin_bit_cast(u32, x + 0.0f); // -0 is 0
  u32 rising = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (u64)~rising << 32 | (u32)id;
}
constexpr u64 NOWHERE = ~0ull;

// View is a row as the passes see it.
struct View {
  const void* row;
  int vocab;
  const u32* skip; // bitmap of the tokens to leave out; null: none
  const Edit* edits;
  int numEdits;
};

template <typename T> DEVICE void load8(const T* p, float (&x)[8]);
template <> DEVICE void load8(const bf16* p, float (&x)[8]) {
  Vec16 v = *(const Vec16*)p;
  UNROLL for (int j = 0; j < 4; j++) x[2 * j] = low(v.x[j]), x[2 * j + 1] = high(v.x[j]);
}
template <> DEVICE void load8(const float* p, float (&x)[8]) {
  UNROLL for (int h = 0; h < 2; h++) {
    Vec16 v = *(const Vec16*)(p + 4 * h);
    UNROLL for (int j = 0; j < 4; j++) x[4 * h + j] = __builtin_bit_cast(float, v.x[j]);
  }
}

// each calls f(id, logit) for this thread's share of a row, ids rising, then for its share of the edited tokens.
template <typename T, typename F> DEVICE void each(const View& v, F f) {
  constexpr int BATCH = 4 / sizeof(T); // loads of 8 tokens that are under way at once
  const T* row = (const T*)v.row;
  const u8* skip = (const u8*)v.skip;
  int wide = ((u64)row & 15) == 0 ? v.vocab & ~7 : 0;
  _Pragma("nounroll") for (int first = threadX() * 8; first < wide; first += BATCH * THREADS * 8) {
    float x[BATCH][8];
    UNROLL for (int b = 0; b < BATCH; b++) {
      int at = first + b * THREADS * 8;
      if (at < wide) load8(row + at, x[b]);
    }
    UNROLL for (int b = 0; b < BATCH; b++) {
      int at = first + b * THREADS * 8;
      if (at >= wide) break;
      u32 out = skip ? skip[at / 8] : 0;
      UNROLL for (int j = 0; j < 8; j++)
        if (!(out >> j & 1)) f(at + j, x[b][j]);
    }
  }
  _Pragma("nounroll") for (int i = wide + threadX(); i < v.vocab; i += THREADS)
    if (!skip || !(skip[i / 8] >> (i & 7) & 1)) f(i, toFloat(row[i]));
  _Pragma("nounroll") for (int i = threadX(); i < v.numEdits; i += THREADS) f(v.edits[i].id, v.edits[i].value);
}

DEVICE u64 blockMin(u64 v, Shared& s) {
  UNROLL for (int m = 16; m > 0; m /= 2) {
    u64 o = shuffleU64(v, m);
    v = o < v ? o : v;
  }
  barrier();
  if (lane() == 0) s.word[warp()] = v;
  barrier();
  v = s.word[lane() % (THREADS / 32)];
  UNROLL for (int m = 8; m > 0; m /= 2) {
    u64 o = shuffleU64(v, m);
    v = o < v ? o : v;
  }
  return v;
}
DEVICE u64 blockMax(u64 v, Shared& s) { return ~blockMin(~v, s); }

// likeliest is the place of the likeliest token of this thread's share.
template <typename T> DEVICE u64 likeliest(const View& v) {
  float best = NEVER;
  int id = -1;
  each<T>(v, [&](int i, float x) {
    if (x > best || (x == best && i < id)) best = x, id = i; // edits come out of turn
  });
  return id < 0 ? NOWHERE : placeOf(best, id);
}

DEVICE float logitAt(u64 place) {
  u32 rising = ~(u32)(place >> 32);
  return __builtin_bit_cast(float, rising >> 31 ? rising & 0x7fffffffu : ~rising);
}

// root is 2^(-b/64).
DEVICE double root(int b) {
  double r = __builtin_bit_cast(double, (u64)(1023 - (b >> 6)) << 52);
  if (b & 1) r *= 0.98922801319397548;
  if (b & 2) r *= 0.97857206208770009;
  if (b & 4) r *= 0.95760328069857365;
  if (b & 8) r *= 0.91700404320467122;
  if (b & 16) r *= 0.84089641525371450;
  if (b & 32) r *= 0.70710678118654757;
  return r;
}

// Scale turns logits into y, 64ths of an octave below the top.
struct Scale {
  float top, slope, floor; // tokens above floor count
  DEVICE float y(float x) const { return __nvvm_mul_rn_f(__nvvm_add_rn_f(top, -x), slope); }
  DEVICE bool counts(float x) const { return x > floor && y(x) < BINS; } // NaN does not
};

// dentOf is d of a token: a weight f of a bin further down is 1 - d/2^20 of the bin's.
DEVICE u32 dentOf(float y, int bin) {
  constexpr float L = 0.010830424696249145f; // ln 2 / 64
  float f = (y - (float)bin) * L;
  return (u32)(UNIT * f * (1 - f * (0.5f - f * (1.0f / 6))) + 0.5f);
}
DEVICE double massOf(u64 count, u64 dent) { return (double)((count << 20) - dent) * (1.0 / UNIT); }

// countBins fills the bins, and the sums of each thread's.
template <typename T> DEVICE void countBins(const View& v, const Scale& k, Shared& s) {
  for (int i = threadX(); i < BINS; i += THREADS) s.count[i] = s.dent[i] = 0;
  barrier();
  each<T>(v, [&](int, float x) {
    if (k.counts(x)) {
      float y = k.y(x);
      int bin = (int)y;
      sharedAdd(&s.count[bin], 1);
      sharedAdd(&s.dent[bin], dentOf(y, bin));
    }
  });
  barrier();
  int t = threadX();
  double mass = 0;
  u32 tokens = 0;
  for (int b = t * OWN; b < (t + 1) * OWN; b++) {
    tokens += s.count[b];
    mass += root(b) * massOf(s.count[b], s.dent[b]);
  }
  s.mass[t] = mass;
  s.tokens[t] = tokens;
  for (int d = 1; d < THREADS; d *= 2) { // sums up to each thread's, in a fixed order
    barrier();
    double m = t >= d ? s.mass[t - d] : 0;
    u32 n = t >= d ? s.tokens[t - d] : 0;
    barrier();
    s.mass[t] += m;
    s.tokens[t] += n;
  }
  barrier();
}

// Goal is what find looks for: the token of a rank (from 1), or the first with which the mass comes to a sum.
struct Goal {
  u32 rank; // 0: mass counts
  double mass;
  DEVICE bool reached(u32 tokens, double sum) const { return rank ? tokens >= rank : sum >= mass; }
};

// pickBin finds the goal's bin. The last that has tokens is taken if rounding leaves the goal beyond all.
DEVICE void pickBin(const Goal& goal, Shared& s) {
  int t = threadX();
  u32 before = t ? s.tokens[t - 1] : 0, total = s.tokens[THREADS - 1];
  bool some = s.tokens[t] > before;
  if (t == 0) s.hit = THREADS;
  barrier();
  if (some && (goal.reached(s.tokens[t], s.mass[t]) || s.tokens[t] == total)) sharedMin(&s.hit, t);
  barrier();
  if (t == s.hit) {
    double mass = t ? s.mass[t - 1] : 0;
    for (int b = t * OWN;; b++) {
      u32 n = s.count[b];
      double with = mass + root(b) * massOf(n, s.dent[b]);
      if (n && (goal.reached(before + n, with) || before + n == s.tokens[t])) {
        s.bin = b, s.base = mass, s.before = before, s.members = n;
        break;
      }
      before += n, mass = with;
    }
  }
  barrier();
}

// narrow cuts the places [lo, hi] of a bin's tokens, too many to sort, down to a part that has the goal.
template <typename T> DEVICE void narrow(const View& v, const Scale& k, const Goal& goal, Shared& s) {
  int bin = s.bin;
  u64 lo = s.lo, hi = s.hi;
  int shift = 0;
  while ((hi - lo) >> shift >= SUBBINS) shift++;
  for (int i = threadX(); i < SUBBINS; i += THREADS) s.sub.count[i] = s.sub.dent[i] = 0;
  barrier();
  each<T>(v, [&](int id, float x) {
    float y = k.y(x);
    u64 place = placeOf(x, id);
    if (k.counts(x) && (int)y == bin && place >= lo && place <= hi) {
      int i = (int)((place - lo) >> shift);
      sharedAdd(&s.sub.count[i], 1);
      sharedAdd(&s.sub.dent[i], dentOf(y, bin));
    }
  });
  barrier();
  if (threadX() == 0) {
    double unit = root(bin);
    u32 left = s.members;
    for (int i = 0;; i++) {
      u32 n = s.sub.count[i];
      double with = s.base + unit * massOf(n, s.sub.dent[i]);
      left -= n;
      if (n && (goal.reached(s.before + n, with) || left == 0)) {
        s.members = n;
        s.lo = lo + ((u64)i << shift);
        s.hi = s.lo + ((1ull << shift) - 1);
        break;
      }
      s.before += n, s.base = with;
    }
  }
  barrier();
}

// find is the goal's token, and the mass up to it.
template <typename T> DEVICE Found find(const View& v, const Scale& k, const Goal& goal, Shared& s) {
  pickBin(goal, s);
  int bin = s.bin;
  if (s.members > MOST) { // the ends of what is there
    u64 lo = NOWHERE, hi = 0;
    each<T>(v, [&](int id, float x) {
      if (k.counts(x) && (int)k.y(x) == bin) {
        u64 place = placeOf(x, id);
        lo = place < lo ? place : lo;
        hi = place > hi ? place : hi;
      }
    });
    lo = blockMin(lo, s);
    hi = blockMax(hi, s);
    if (threadX() == 0) s.lo = lo, s.hi = hi;
    barrier();
    while (s.members > MOST) narrow<T>(v, k, goal, s);
  } else if (threadX() == 0) {
    s.lo = 0, s.hi = NOWHERE;
  }
  if (threadX() == 0) s.extra = 0;
  barrier();
  u64 lo = s.lo, hi = s.hi;
  each<T>(v, [&](int id, float x) {
    float y = k.y(x);
    u64 place = placeOf(x, id);
    if (k.counts(x) && (int)y == bin && place >= lo && place <= hi) {
      u32 at = sharedNext((u32*)&s.extra);
      s.list.place[at] = place;
      s.list.dent[at] = dentOf(y, bin);
    }
  });
  barrier();
  // Each thread sees for its tokens what is before them. One token is the first with which the goal is reached.
  u32 n = s.members;
  double unit = root(bin);
  for (u32 i = threadX(); i < n; i += THREADS) {
    u64 own = s.list.place[i];
    u32 rank = 0, dent = 0;
    for (u32 j = 0; j < n; j++)
      if (s.list.place[j] < own) rank++, dent += s.list.dent[j];
    double without = s.base + unit * massOf(rank, dent);
    double with = s.base + unit * massOf(rank + 1, dent + s.list.dent[i]);
    bool reached = goal.reached(s.before + rank + 1, with) || rank + 1 == n;
    if (reached && (rank == 0 || !goal.reached(s.before + rank, without))) s.found = Found{own, with};
  }
  barrier();
  Found f = s.found;
  barrier();
  return f;
}

// logarithm of x ≥ 1, to a few units in the last place of a double: x = 2^n · m, ln m = 2 artanh((m-1)/(m+1)).
DEVICE double logarithm(double x) {
  u64 bits = __builtin_bit_cast(u64, x);
  int n = (int)(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m /= 2, n++;
  double t = (m - 1) / (m + 1), q = t * t, sum = 0;
  for (int i = 21; i > 0; i -= 2) sum = sum * q + 1.0 / i;
  return n * 0.69314718055994531 + 2 * t * sum;
}

// blockAdd is the sum over all threads, in a fixed order.
DEVICE double blockAdd(double v, Shared& s) {
  for (int m = 16; m > 0; m /= 2) v += __builtin_bit_cast(double, shuffleU64(__builtin_bit_cast(u64, v), m));
  barrier();
  if (lane() == 0) s.number[warp()] = v;
  barrier();
  v = 0;
  for (int w = 0; w < THREADS / 32; w++) v += s.number[w];
  return v;
}

// Typical is the order of tokens by how near their information is to the entropy of those that the filters left.
struct Typical {
  Scale k;
  u64 last;     // of those left, by placeOf
  double shift; // ln of their mass, less their entropy
  DEVICE bool counts(float x, int id) const { return k.counts(x) && placeOf(x, id) <= last; }
  DEVICE u64 place(float x, int id) const {
    float far = (float)__builtin_fabs((double)k.y(x) * 0.010830424696249145 + shift);
    return (u64)__builtin_bit_cast(u32, far) << 32 | (u32)id;
  }
  // weight is of 2^40 for the likeliest.
  DEVICE u64 weight(float x) const { return (u64)(exp2(k.y(x) * (-1.0f / 64)) * 1099511627776.0f); }
};

struct Sought { u64 place, weight; }; // a token in that order, and the weight of all that is before it with itself

// seek is the first token, in the order o, with which the weights come to goal.
template <typename T> DEVICE Sought seek(const View& v, const Typical& o, u64 goal, Shared& s) {
  u64 lo = 0, hi = (u64)0x7f800000 << 32; // of any distance
  if (threadX() == 0) s.weight = 0, s.members = MOST + 1;
  barrier();
  _Pragma("nounroll") while (s.members > MOST) {
    int shift = 0;
    while ((hi - lo) >> shift >= SUBBINS) shift++;
    for (int i = threadX(); i < SUBBINS; i += THREADS) s.part.weight[i] = s.part.count[i] = 0;
    barrier();
    each<T>(v, [&](int id, float x) {
      u64 place = o.place(x, id);
      if (o.counts(x, id) && place >= lo && place <= hi) {
        int i = (int)((place - lo) >> shift);
        sharedAdd(&s.part.count[i], 1);
        sharedAdd64(&s.part.weight[i], o.weight(x));
      }
    });
    barrier();
    if (threadX() == 0) {
      u64 with = s.weight;
      int last = 0; // that has any
      for (int i = 0; i < SUBBINS; i++) {
        if (s.part.count[i] == 0) continue;
        s.weight = with, last = i;
        with += s.part.weight[i];
        if (with >= goal) break;
      }
      s.members = s.part.count[last];
      s.lo = lo + ((u64)last << shift);
      s.hi = s.lo + ((1ull << shift) - 1);
    }
    barrier();
    lo = s.lo, hi = s.hi;
  }
  if (threadX() == 0) s.extra = 0;
  barrier();
  each<T>(v, [&](int id, float x) {
    u64 place = o.place(x, id);
    if (o.counts(x, id) && place >= lo && place <= hi) {
      u32 at = sharedNext((u32*)&s.extra);
      s.typical.place[at] = place;
      s.typical.weight[at] = o.weight(x);
    }
  });
  barrier();
  u32 n = s.members;
  u64 before = s.weight;
  barrier();
  for (u32 i = threadX(); i < n; i += THREADS) {
    u64 own = s.typical.place[i], with = before;
    u32 rank = 0;
    for (u32 j = 0; j < n; j++)
      if (s.typical.place[j] < own) rank++, with += s.typical.weight[j];
    bool first = rank == 0 || with < goal;
    with += s.typical.weight[i];
    if (first && (with >= goal || rank + 1 == n)) s.lo = own, s.weight = with;
  }
  barrier();
  Sought found = {s.lo, s.weight};
  barrier();
  return found;
}

// drawTypical draws from the tokens up to place last, of that mass.
template <typename T> DEVICE u64 drawTypical(const View& v, const Scale& k, const Row& r, u64 last, double mass, Shared& s) {
  Typical o = {k, last, 0};
  double sum = 0, weights = 0;
  each<T>(v, [&](int id, float x) {
    if (o.counts(x, id)) sum += exp2(k.y(x) * (-1.0f / 64)) * k.y(x), weights += (double)o.weight(x);
  });
  sum = blockAdd(sum, s);
  weights = blockAdd(weights, s);
  o.shift = -sum * 0.010830424696249145 / mass; // the entropy is ln mass + ln 2/64 · sum/mass
  Sought f = {0, (u64)weights};
  _Pragma("nounroll") for (int draw = 0; draw < 2; draw++) // the filter, then the draw from what it leaves
    f = seek<T>(v, o, (u64)((draw ? r.u : r.typicalP) * (double)f.weight), s);
  return f.place;
}

// choose filters the row and draws.
template <typename T> DEVICE u64 choose(const View& v, const Row& r, float top, Shared& s) {
  Scale k = {top, (float)r.slope, NEVER};
  if (r.minY < 1e300) { // just under the logit at minY, so that rounding loses no token that is there
    float x = (float)((double)top - r.minY / r.slope);
    u32 bits = __builtin_bit_cast(u32, x);
    k.floor = x == 0 ? -1e-45f : __builtin_bit_cast(float, x > 0 ? bits - 1 : bits + 1);
  }
  countBins<T>(v, k, s);
  Found f = {NOWHERE, s.mass[THREADS - 1]};
  _Pragma("nounroll") for (int filter = 0; filter < 3; filter++) { // top-k, top-p and the draw itself
    if (filter == 2 && r.typicalP < 1) return drawTypical<T>(v, k, r, f.place, f.mass, s) & 0xffffffffu;
    Goal goal = {0, f.mass * (filter == 1 ? r.topP : r.u)};
    if (filter == 0) goal.rank = r.topK < s.tokens[THREADS - 1] ? r.topK : 0;
    if (filter == 0 ? goal.rank > 0 : filter == 2 || r.topP < 1) f = find<T>(v, k, goal, s);
  }
  return f.place;
}

// report writes the log-probabilities, from the row as the model gave it.
template <typename T> DEVICE void report(const View& raw, const Row& r, int token, Result& out, Shared& s) {
  u64 mine = likeliest<T>(raw);
  u64 best = blockMin(mine, s);
  float top = logitAt(best);
  double sum = 0;
  each<T>(raw, [&](int, float x) { sum += x > NEVER ? exp2((x - top) * LOG2E) : 0.0f; });
  sum = blockAdd(sum, s);
  double total = (double)top + logarithm(sum);
  if (threadX() == 0) out.logprob = (float)((double)toFloat(((const T*)raw.row)[token]) - total);
  int n = 0;
  for (; n < r.tops && best != NOWHERE; n++) {
    if (threadX() == 0) out.top[n] = Top{(int)(u32)best, (float)((double)logitAt(best) - total)};
    if (mine == best) { // this thread's next
      mine = NOWHERE;
      each<T>(raw, [&](int i, float x) {
        u64 place = placeOf(x, i);
        if (x > NEVER && place > best && place < mine) mine = place;
      });
    }
    best = blockMin(mine, s);
  }
  if (threadX() == 0) out.tops = n;
}

// edit gives edited tokens their logits and marks them, and the masked, in the bitmap.
template <typename T> DEVICE View edit(const SampleParams& p, const Row& r, const T* row, u32* skip, Shared& s) {
  View v = {row, p.vocab, nullptr, p.edits + r.edits, r.numEdits};
  if (r.mask < 0 && r.numEdits == 0 && r.fed < 0) return v;
  v.skip = skip;
  const u32* mask = r.mask < 0 ? nullptr : p.masks + r.mask;
  for (int i = threadX(); i < ceilDiv(p.vocab, 32); i += THREADS) skip[i] = mask ? ~mask[i] : 0;
  Edit* edits = p.edits + r.edits;
  int fed = r.fed < 0 ? -1 : p.fed[r.fed];
  if (threadX() == 0) s.extra = fed < 0 ? 0 : 1;
  barrier();
  for (int i = threadX(); i < r.numEdits; i += THREADS)
    if (edits[i].id == fed) {
      edits[i].seen++, edits[i].counted++;
      s.extra = 0;
    }
  barrier();
  v.numEdits += s.extra;
  if (s.extra && threadX() == 0) edits[r.numEdits] = Edit{fed, 0, 1, 1};
  barrier();
  for (int i = threadX(); i < v.numEdits; i += THREADS) {
    Edit& e = edits[i];
    float x = __nvvm_add_rn_f(toFloat(row[e.id]), e.value);
    if (e.seen > 0) x = x > 0 ? __nvvm_div_rn_f(x, r.repetition) : __nvvm_mul_rn_f(x, r.repetition);
    if (e.counted > 0) x = __nvvm_add_rn_f(x, -__nvvm_add_rn_f(__nvvm_mul_rn_f(r.frequency, (float)e.counted), r.presence));
    if (mask && !(mask[e.id / 32] >> (e.id & 31) & 1)) x = NEVER;
    e.value = x;
    sharedOr(&skip[e.id / 32], 1u << (e.id & 31));
  }
  barrier();
  return v;
}

template <typename T> DEVICE void sample(const SampleParams& p) {
  extern SHARED u64 memory[];
  Shared& s = *(Shared*)memory;
  u32* skip = (u32*)(&s + 1);
  begin();
  const Row& r = p.rows[blockX()];
  Result& out = p.results[blockX()];
  const T* row = (const T*)p.logits + (long)r.row * p.vocab;
  View v = edit<T>(p, r, row, skip, s);
  u64 place = blockMin(likeliest<T>(v), s);
  int failure = place == NOWHERE ? 1 : logitAt(place) == __builtin_inff() ? 2 : 0;
  if (failure == 0 && !r.greedy) place = choose<T>(v, r, logitAt(place), s);
  int token = failure == 1 ? 0 : (int)(u32)place;
  if (threadX() == 0) {
    out.token = p.drawn[blockX()] = token;
    out.failure = failure;
    out.logprob = 0;
    out.tops = 0;
  }
  if (r.logprob && failure == 0) report<T>(View{row, p.vocab, nullptr, nullptr, 0}, r, token, out, s);
}
KERNEL(THREADS, 2) sample_bf16(PARAM SampleParams p) { sample<bf16>(p); }
KERNEL(THREADS, 2) sample_f32(PARAM SampleParams p) { sample<float>(p); }
