// Attention of one new token a sequence over the paged cache, at memory speed. A block takes one sequence, the (up to 8) query
// heads that share a key head, and one of `splits` parts of the keys; its four warps take 16 or 32 keys in turn. The parts of a
// sequence meet in scratch memory, where the last block to finish adds them up, always in the same order.
//
// Scores are computed transposed, S' = K Q', and so is the result, O' = V' P': then K and V are the A operand of mma, which
// every lane loads from global memory straight into registers, 16 bytes at a time, with no shared memory between. (The
// order of d within a product does not matter as long as Q is permuted as K is.)
#include "../cache.h"

struct DecodeParams {
  Step step;
  const bf16* q;  // [T, heads × kSize]
  u8* cache;
  bf16* y;        // [T, heads × vSize]
  float* partial; // [seqs × groups × splits][8 heads][vSize + 4]: unscaled sums, then maximum and weight, and two unused
  int* arrived;   // [seqs × groups] zeros; how many splits are done
  const float* sinks; // [heads] a score without a key, or null
  int heads, kvHeads, kSize, vSize, window;
  int splits, fill; // the most parts a sequence is cut into, and how many of each fill the GPU
  int pad;
  float scale, softcap; // softcap 0: none
  // Of a launch that turns queries and keys and stores keys and values itself: what is new in this step, not turned yet, in rows
  // like the cache's, and the angles to turn by, [T, kSize / 2 × 2].
  const bf16 *newKeys, *newValues;
  const float* angles;
  int adjacent, pad2; // adjacent: pairs are neighbours, not halves of a head
};
constexpr int WARPS = 4, HEADS = 8, MAX_SPLITS = 64;
struct alignas(16) Numbers { float x[4]; };

// loadPart is loadOnce of a line whose neighbour another block reads at the same time: the memory is faster with both.
DEVICE Vec16 loadPart(const void* p, bool in) {
  Vec16 v = {};
  if (in)
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(p) : "memory");
  return v;
}

DEVICE Vec16 loadOnce(const void* p, bool in) {
  Vec16 v = {};
  if (in)
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(p) : "memory");
  return v;
}

// first and second 16-bit halves of two registers, side by side
DEVICE u32 lows(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x5410); }
DEVICE u32 highs(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x7632); }

// What a warp holds of 16 keys and values, and how they are multiplied. It takes PARTS times as many at a time: as many bytes on
// their way as cover the memory's latency. Lane 4g + t loads of keys g and g + 8 the pieces that
// start at its t, and of values 2t, 2t + 1, 2t + 8 and 2t + 9 the pieces that start at its g. Tile j of the result has, in rows g
// and g + 8, what the lane's own numbers of the values go to: place says where.

template <typename C> constexpr bool IEEE = false;
template <> constexpr bool IEEE<f16> = true;

// Halves are caches of 16-bit numbers: bf16, or IEEE halves. KC × 32 and VH × 64 are the head sizes there is room for.
template <typename C, int KC, int VH> struct Halves {
  using Number = C;
  static constexpr bool HALF = IEEE<C>;
  static constexpr int PARTS = 1, PRODUCTS = KC * 2, TILES = (VH + 1) / 2 * 8, WIDTH = VH * 64;
  struct Query { Vec16 x[KC]; };
  Vec16 k[KC][2], v[4][VH];

  static DEVICE int place(int j, int i) { return (j / 8 * 2 + i / 2) * 64 + lane() / 4 * 8 + j % 8; }
  static DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    if (HALF) mmaHalf(d, a0, a1, a2, a3, b0, b1);
    else mma(d, a0, a1, a2, a3, b0, b1);
  }
  static DEVICE u32 pair(float first, float second) { return HALF ? packHalf(first, second) : pack(first, second); }
  static DEVICE void loadRaw(Query& q, const bf16* x, bool in, int size) {
    UNROLL for (int c = 0; c < KC; c++) {
      int d = c * 32 + lane() % 4 * 8;
      q.x[c] = loadOnce(x + d, in && d < size);
    }
  }
  static DEVICE void finish(Query& q) {
    if (HALF) UNROLL for (int c = 0; c < KC; c++) q.x[c] = asHalf(q.x[c]);
  }
  static DEVICE void loadQuery(Query& q, const bf16* x, bool in, int size) {
    loadRaw(q, x, in, size);
    finish(q);
  }

  // Turn holds the cosines and sines of what a lane has of a head of KC × 32 numbers: both halves of its pairs.
  struct Turn {
    float x[KC * 8];
    DEVICE Turn(const float* angles, bool adjacent) {
      UNROLL for (int c = 0; c < KC; c++) {
        const float* from = adjacent ? angles + (c * 32 + lane() % 4 * 8) : angles + (c / 2 * 32 + lane() % 4 * 8) * 2 + c % 2 * 8;
        UNROLL for (int i = 0; i < 2; i++) {
          Vec16 v = loadOnce(from + i * 4, true);
          UNROLL for (int e = 0; e < 4; e++) x[c * 8 + i * 4 + e] = __builtin_bit_cast(float, v.x[e]);
        }
      }
    }
    DEVICE void operator()(Query& q, bool adjacent) const {
      if (adjacent) {
        UNROLL for (int i = 0; i < KC * 4; i++) {
          u32& pair = q.x[i / 4].x[i % 4];
          float c = x[2 * i], s = x[2 * i + 1];
          pair = pack(low(pair) * c - high(pair) * s, high(pair) * c + low(pair) * s);
        }
        return;
      }
      UNROLL for (int i = 0; i < KC * 2; i++) {
        u32 &one = q.x[i / 4].x[i % 4], &two = q.x[i / 4 + KC / 2].x[i % 4];
        const float* t = x + i * 4; // of two pairs
        u32 turned = pack(low(one) * t[0] - low(two) * t[1], high(one) * t[2] - high(two) * t[3]);
        two = pack(low(two) * t[0] + low(one) * t[1], high(two) * t[2] + high(one) * t[3]);
        one = turned;
      }
    }
  };
  // Fresh is the key and value of the step's own token, which are not in the cache yet.
  struct Fresh {
    Query k;
    Vec16 v[VH];
    DEVICE void load(const bf16* key, const bf16* value, int kSize, int vSize) {
      loadRaw(k, key, true, kSize);
      UNROLL for (int h = 0; h < VH; h++) {
        int d = h * 64 + lane() / 4 * 8;
        v[h] = loadOnce(value + d, d < vSize);
        if (HALF) v[h] = asHalf(v[h]);
      }
    }
    DEVICE void store(C* key, C* value, int kSize, int vSize) const {
      UNROLL for (int c = 0; c < KC; c++) {
        int d = c * 32 + lane() % 4 * 8;
        if (lane() < 4 && d < kSize) *(Vec16*)(key + d) = k.x[c];
      }
      UNROLL for (int h = 0; h < VH; h++) {
        int d = h * 64 + lane() / 4 * 8;
        if (lane() % 4 == 0 && d < vSize) *(Vec16*)(value + d) = v[h];
      }
    }
  };
  DEVICE void put(const Fresh& f, int token) { // as the token's, of the 16 at hand
    UNROLL for (int half = 0; half < 2; half++)
      if (lane() / 4 + half * 8 == token) UNROLL for (int c = 0; c < KC; c++) k[c][half] = f.k.x[c];
    UNROLL for (int i = 0; i < 4; i++)
      if (lane() % 4 * 2 + (i & 1) + (i / 2) * 8 == token) UNROLL for (int h = 0; h < VH; h++) v[i][h] = f.v[h];
  }
  DEVICE void loadKeys(const Pages<C>& p, int page, int token0, int kv, int length) {
    int token = token0 + lane() / 4, d = lane() % 4 * 8;
    const C* x = p.key(page, token, kv) + d;
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++)
      k[c][half] = loadOnce(x + half * 8 * p.heads * p.kSize + c * 32, c * 32 + d < p.kSize && token + half * 8 < length);
  }
  DEVICE void loadValues(const Pages<C>& p, int page, int token0, int kv, int length) {
    int d = lane() / 4 * 8;
    const C* x = p.value(page, token0, kv) + d;
    UNROLL for (int i = 0; i < 4; i++) {
      int token = lane() % 4 * 2 + (i & 1) + (i / 2) * 8;
      UNROLL for (int h = 0; h < VH; h++) v[i][h] = loadOnce(x + token * p.heads * p.vSize + h * 64, h * 64 + d < p.vSize && token0 + token < length);
    }
  }
  DEVICE void score(float (&s)[4], const Query& q, int i) {
    int c = i / 2, e = i % 2 * 2;
    multiply(s, k[c][0].x[e], k[c][1].x[e], k[c][0].x[e + 1], k[c][1].x[e + 1], q.x[c].x[e], q.x[c].x[e + 1]);
  }
  DEVICE float keyUnit(int) const { return 1; }
  DEVICE float valueUnit(int) const { return 1; }
  DEVICE void add(float (&o)[TILES][4], u32 b0, u32 b1) {
    UNROLL for (int j = 0; j < TILES; j++) {
      constexpr Vec16 none = {};
      int h = j / 8 * 2, e = j % 8 / 2;
      const Vec16 &x0 = v[0][h], &x1 = v[1][h], &x2 = v[2][h], &x3 = v[3][h];
      const Vec16 &z0 = h + 1 < VH ? v[0][h + 1 < VH ? h + 1 : 0] : none, &z1 = h + 1 < VH ? v[1][h + 1 < VH ? h + 1 : 0] : none,
                  &z2 = h + 1 < VH ? v[2][h + 1 < VH ? h + 1 : 0] : none, &z3 = h + 1 < VH ? v[3][h + 1 < VH ? h + 1 : 0] : none;
      if (j % 2 == 0)
        multiply(o[j], lows(x0.x[e], x1.x[e]), lows(z0.x[e], z1.x[e]), lows(x2.x[e], x3.x[e]), lows(z2.x[e], z3.x[e]), b0, b1);
      else
        multiply(o[j], highs(x0.x[e], x1.x[e]), highs(z0.x[e], z1.x[e]), highs(x2.x[e], x3.x[e]), highs(z2.x[e], z3.x[e]), b0, b1);
    }
  }
};

// opened makes IEEE halves of the two eight-bit numbers in the low or the high half of x. What e4m3 becomes is UNIT times too small
// where there is no instruction for it. The signs of int8 have been turned: such a byte is its number + 128, and the low bits of
// a half of 1024 + 128 + its number.
template <typename C> constexpr float UNIT = 1;
#if __CUDA_ARCH__ < 900
template <> constexpr float UNIT<f8> = F8_UNIT;
#endif
DEVICE u32 opened(u32 x, bool high, i8) {
  u32 y = __nvvm_prmt(x, 0x64646464, high ? 0x4342 : 0x4140);
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y) : "r"(0x64806480));
  return y;
}
DEVICE u32 opened(u32 x, bool high, f8) {
#if __CUDA_ARCH__ >= 900
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)(high ? x >> 16 : x)));
  return y;
#else
  u32 y = __nvvm_prmt(x, 0, high ? 0x3424 : 0x1404);
  return (y >> 1 & 0x3f803f80) | (y & 0x80008000);
#endif
}
DEVICE u32 turned(u32 x, i8) { return x ^ 0x80808080; }
DEVICE u32 turned(u32 x, f8) { return x; }

// Bytes are caches of eight-bit numbers, which the tensor cores get as IEEE halves. KC × 64 and VB × 32 × VW are the head sizes
// there is room for; VW is how many words of a value a lane takes at a time.
template <typename C, int KC, int VB, int VW> struct Bytes {
  using Number = C;
  static constexpr bool SCALED = SCALE_BYTES<C>;
  static constexpr int PARTS = KC > 2 ? 1 : 2, PRODUCTS = KC * 4, TILES = VB * 2 * VW, WIDTH = VB * 32 * VW;
  struct Query { u32 x[KC * 4][2]; };
  struct Fresh {}; // keys and values are rounded to eight bits elsewhere
  u32 v[4][VB][VW];
  Vec16 k[KC][2];
  float kUnit[2], vUnit[4];

  static DEVICE int place(int j, int i) { return (j / (2 * VW) * 8 + lane() / 4) * 4 * VW + j % (2 * VW) + i / 2 * 2 * VW; }
  static DEVICE u32 pair(float first, float second) { return packHalf(first, second); }
  static DEVICE void loadQuery(Query& q, const bf16* x, bool in, int size) {
    UNROLL for (int c = 0; c < KC; c++) UNROLL for (int half = 0; half < 2; half++) {
      int d = c * 64 + lane() % 4 * 16;
      Vec16 y = asHalf(loadOnce(x + d + half * 8, in && d < size));
      UNROLL for (int w = 0; w < 4; w++) q.x[c * 4 + half * 2 + w / 2][w % 2] = y.x[w];
    }
  }
  DEVICE void loadKeys(const Pages<C>& p, int page, int token0, int kv, int length) {
    int token = token0 + lane() / 4, d = lane() % 4 * 16;
    const C* x = p.key(page, token, kv) + d;
    UNROLL for (int half = 0; half < 2; half++) {
      bool in = token + half * 8 < length;
      UNROLL for (int c = 0; c < KC; c++) k[c][half] = loadPart(x + half * 8 * p.heads * p.kSize + c * 64, in && c * 64 + d < p.kSize);
      kUnit[half] = SCALED && in ? *p.keyScale(page, token + half * 8, kv) : 0;
    }
  }
  DEVICE void loadValues(const Pages<C>& p, int page, int token0, int kv, int length) {
    int d = lane() / 4 * 4 * VW;
    const C* x = p.value(page, token0, kv) + d;
    UNROLL for (int i = 0; i < 4; i++) {
      int token = lane() % 4 * 2 + (i & 1) + (i / 2) * 8;
      bool in = token0 + token < length;
      UNROLL for (int b = 0; b < VB; b++) loadWords(v[i][b], x + token * p.heads * p.vSize + b * 32 * VW, in && b * 32 * VW + d < p.vSize);
    }
    // Scores are transposed: a lane weighs tokens g and g + 8.
    if (SCALED) UNROLL for (int half = 0; half < 2; half++) {
      int token = token0 + lane() / 4 + half * 8;
      vUnit[half] = token < length ? *p.valueScale(page, token, kv) : 0;
    }
  }
  static DEVICE void loadWords(u32 (&w)[4], const void* p, bool in) {
    Vec16 x = loadPart(p, in);
    UNROLL for (int i = 0; i < 4; i++) w[i] = x.x[i];
  }
  static DEVICE void loadWords(u32 (&w)[2], const void* p, bool in) {
    w[0] = w[1] = 0;
    if (in) asm volatile("ld.global.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p) : "memory");
  }
  DEVICE void score(float (&s)[4], const Query& q, int i) {
    u32 a = turned(k[i / 4][0].x[i % 4], C()), b = turned(k[i / 4][1].x[i % 4], C());
    mmaHalf(s, opened(a, false, C()), opened(b, false, C()), opened(a, true, C()), opened(b, true, C()), q.x[i][0], q.x[i][1]);
  }
  DEVICE float keyUnit(int half) const { return SCALED ? kUnit[half] : UNIT<C>; }
  DEVICE float valueUnit(int half) const { return SCALED ? vUnit[half] : 1; }
  DEVICE void add(float (&o)[TILES][4], u32 b0, u32 b1) {
    UNROLL for (int b = 0; b < VB; b++) UNROLL for (int w = 0; w < VW / 2; w++) {
      u32 a[4][4]; // [operand][byte of the word]: two tokens side by side
      auto both = [&](u32 (&to)[4], int i, int word) {
        u32 x = turned(v[i][b][word], C()), y = turned(v[i + 1][b][word], C());
        u32 first = __nvvm_prmt(x, y, 0x5140), second = __nvvm_prmt(x, y, 0x7362);
        to[0] = opened(first, false, C()), to[1] = opened(first, true, C()), to[2] = opened(second, false, C()), to[3] = opened(second, true, C());
      };
      both(a[0], 0, w), both(a[1], 0, w + VW / 2), both(a[2], 2, w), both(a[3], 2, w + VW / 2);
      UNROLL for (int n = 0; n < 4; n++) mmaHalf(o[b * 2 * VW + w * 4 + n], a[0][n], a[1][n], a[2][n], a[3][n], b0, b1);
    }
  }
};

// TURN: the launch turns queries and keys and stores the step's own keys and values in the cache too. All other keys and values are
// there before the step begins, so they are fetched before the kernel ahead of this one has ended.
template <typename S, bool TURN> DEVICE void decode(const DecodeParams& p) {
  constexpr int PARTS = S::PARTS, STEP = 16 * PARTS, TILES = S::TILES;
  SHARED static float out[WARPS][HEADS][S::WIDTH];
  SHARED static float tops[WARPS][HEADS], sums[WARPS][HEADS];
  SHARED static float partTop[HEADS][MAX_SPLITS], partSum[HEADS][MAX_SPLITS], weight[HEADS][MAX_SPLITS]; // of the parts of a sequence
  SHARED static int last;
  releaseNext();
  const Step& s = p.step;
  int share = p.heads / p.kvHeads, blocksPerKV = ceilDiv(share, HEADS);
  int kv = blockY() / blocksPerKV, head0 = kv * share + blockY() % blocksPerKV * HEADS;
  int heads = mini(HEADS, (kv + 1) * share - head0), seq = blockZ();
  int g = lane() / 4, t = lane() % 4;
  // The step's data came before any kernel of the step, so it needs no wait.
  int row = s.qStart[seq], next = s.qStart[seq + 1], length = s.kvLen[seq];
  if (seq >= s.counts[COUNT_SEQS] || next - row != 1) return; // no sequence, or prefill's work
  int first = p.window > 0 ? maxi(0, length - p.window) : 0;
  int step0 = first / STEP, steps = ceilDiv(length, STEP) - step0;
  // As many splits as fill the GPU, or, of long sequences, parts of 1,024 keys, which even out between multiprocessors.
  // A few hundred keys are one part: adding parts up takes longer than reading another three times 64.
  int each = maxi(ceilDiv(steps, maxi(p.fill, mini(steps * STEP / 1024, p.splits))), (steps <= 5 * WARPS / PARTS ? 5 : 2) * WARPS / PARTS), active = ceilDiv(steps, each);
  if (blockX() >= active) return;
  int end = mini(step0 + (blockX() + 1) * each, step0 + steps);

  const int* pages = s.pages + (long)seq * s.seqPages;
  int at = step0 + blockX() * each + warp(), page[PARTS]; // the pages of the keys to load next
  auto findPages = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) {
      int token = step * STEP + i * 16;
      page[i] = step < end && token < length ? pages[token >> s.pageShift] : 0;
    }
  };
  findPages(at);
  int cached = TURN ? length - 1 : length; // tokens in the cache
  Pages<typename S::Number> cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  typename S::Query q;
  S x[PARTS];
  float o[TILES][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  auto loadKeys = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) x[i].loadKeys(cache, page[i], step * STEP + i * 16, kv, cached);
  };
  auto loadValues = [&](int step) {
    UNROLL for (int i = 0; i < PARTS; i++) x[i].loadValues(cache, page[i], step * STEP + i * 16, kv, cached);
    findPages(step + WARPS);
  };
  const bf16* query = p.q + ((long)row * p.heads + head0 + g) * p.kSize;
  int lastStep = (length - 1) / STEP;
  bool owner = lastStep < end && lastStep >= at && (lastStep - at) % WARPS == 0; // of the step's own token
  typename S::Fresh fresh;
  if constexpr (TURN) {
    int lastPage = owner ? pages[(length - 1) >> s.pageShift] : 0;
    if (at < end) loadKeys(at), loadValues(at);
    awaitInput();
    S::loadRaw(q, query, g < heads, p.kSize);
    typename S::Turn turn(p.angles + (long)row * p.kSize, p.adjacent);
    if (owner) {
      fresh.load(p.newKeys + ((long)row * p.kvHeads + kv) * p.kSize, p.newValues + ((long)row * p.kvHeads + kv) * p.vSize, p.kSize, p.vSize);
      turn(fresh.k, p.adjacent);
      S::finish(fresh.k);
      if (blockY() % blocksPerKV == 0) fresh.store(cache.key(lastPage, length - 1, kv), cache.value(lastPage, length - 1, kv), p.kSize, p.vSize);
    }
    turn(q, p.adjacent);
    S::finish(q);
  } else {
    awaitInput();
    S::loadQuery(q, query, g < heads, p.kSize);
    if (at < end) loadKeys(at), loadValues(at);
  }
  for (; at < end; at += WARPS) {
    bool more = at + WARPS < end;
    if constexpr (TURN) {
      if (owner && at == lastStep) x[0].put(fresh, (length - 1) % STEP);
    }
    float sc[PARTS][4] = {}, now[2] = {top[0], top[1]};
    UNROLL for (int i = 0; i < S::PRODUCTS; i++) UNROLL for (int n = 0; n < PARTS; n++) x[n].score(sc[n], q, i);
    UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) sc[n][i] *= p.scale * x[n].keyUnit(i / 2);
    if (more) loadKeys(at + WARPS);
    if (p.softcap != 0) {
      UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) sc[n][i] = p.softcap * tanhf(sc[n][i] / p.softcap);
    }
    UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) {
      float& score = sc[n][i];
      int token = at * STEP + n * 16 + g + (i / 2) * 8;
      score = token >= first && token < length ? score * LOG2E : -1e30f;
      now[i & 1] = maxf(now[i & 1], score);
    }
    UNROLL for (int m = 4; m <= 16; m *= 2) UNROLL for (int i = 0; i < 2; i++) now[i] = maxf(now[i], shuffleXor(now[i], m));
    UNROLL for (int i = 0; i < 2; i++) {
      float shrink = exp2(top[i] - now[i]);
      top[i] = now[i];
      sum[i] *= shrink;
      UNROLL for (int j = 0; j < TILES; j++) o[j][i] *= shrink, o[j][i + 2] *= shrink;
    }
    UNROLL for (int n = 0; n < PARTS; n++) {
      float w[4];
      UNROLL for (int i = 0; i < 4; i++) {
        w[i] = sc[n][i] <= -1e30f ? 0 : exp2(sc[n][i] - top[i & 1]);
        sum[i & 1] += w[i];
        w[i] *= x[n].valueUnit(i / 2);
      }
      x[n].add(o, transpose8(S::pair(w[0], w[1])), transpose8(S::pair(w[2], w[3])));
    }
    if (more) loadValues(at + WARPS);
  }

  // The warps meet: each writes its part, then all threads add up their numbers over the warps.
  UNROLL for (int i = 0; i < 2; i++) {
    UNROLL for (int m = 4; m <= 16; m *= 2) sum[i] += shuffleXor(sum[i], m);
    if (g == 0) tops[warp()][t * 2 + i] = top[i], sums[warp()][t * 2 + i] = sum[i];
  }
  UNROLL for (int j = 0; j < TILES; j++) UNROLL for (int i = 0; i < 4; i++) {
    int d = S::place(j, i);
    if (d < S::WIDTH) out[warp()][t * 2 + (i & 1)][d] = o[j][i] * UNIT<typename S::Number>;
  }
  barrier();
  int group = seq * gridY() + blockY(), width = p.vSize + 4;
  float* mine = p.partial + ((long)group * p.splits + blockX()) * HEADS * width;
  auto sink = [&](int h) { return p.sinks ? p.sinks[head0 + h] * LOG2E : -1e30f; };
  for (int i = threadX(); i < heads * p.vSize; i += WARPS * 32) {
    int h = i / p.vSize, d = i % p.vSize;
    float alone = active == 1 ? sink(h) : -1e30f, m = alone, l, x = 0; // of several splits, the sink joins their sum
    UNROLL for (int w = 0; w < WARPS; w++) m = maxf(m, tops[w][h]);
    l = alone > -1e30f ? exp2(alone - m) : 0;
    UNROLL for (int w = 0; w < WARPS; w++) {
      float f = exp2(tops[w][h] - m);
      l += sums[w][h] * f;
      x += out[w][h][d] * f;
    }
    if (active == 1) {
      p.y[((long)row * p.heads + head0 + h) * p.vSize + d] = fromFloat<bf16>(x / l);
    } else {
      mine[h * width + d] = x;
      if (d == 0) mine[h * width + p.vSize] = m, mine[h * width + p.vSize + 1] = l;
    }
  }
  if (active == 1) return;

  // The splits meet: the last block to arrive adds all up. The fence orders its reads behind the others' writes.
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  barrier();
  if (threadX() == 0) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + group) : "memory");
    last = before == active - 1;
    if (last) p.arrived[group] = 0;
  }
  barrier();
  if (!last) return;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  const float* all = p.partial + (long)group * p.splits * HEADS * width;
  for (int i = threadX(); i < heads * active; i += WARPS * 32) {
    int h = i / active, n = i % active;
    const float* part = all + ((long)n * HEADS + h) * width + p.vSize;
    partTop[h][n] = part[0], partSum[h][n] = part[1];
  }
  barrier();
  for (int i = threadX(); i < heads * active; i += WARPS * 32) {
    int h = i / active, n = i % active;
    float m = sink(h);
    for (int e = 0; e < active; e++) m = maxf(m, partTop[h][e]);
    weight[h][n] = exp2(partTop[h][n] - m);
    if (n == 0) sums[0][h] = exp2(sink(h) - m);
  }
  barrier();
  for (int i = threadX() * 4; i < heads * p.vSize; i += WARPS * 32 * 4) {
    int h = i / p.vSize, d = i % p.vSize;
    const float* one = all + (long)h * width + d;
    float l = sums[0][h];
    Numbers x = {};
#pragma unroll 16
    for (int n = 0; n < active; n++) {
      float w = weight[h][n];
      Numbers part = *(const Numbers*)(one + (long)n * HEADS * width);
      l += w * partSum[h][n];
      UNROLL for (int e = 0; e < 4; e++) x.x[e] += w * part.x[e];
    }
    u32* y = (u32*)(p.y + ((long)row * p.heads + head0 + h) * p.vSize + d);
    y[0] = pack(x.x[0] / l, x.x[1] / l), y[1] = pack(x.x[2] / l, x.x[3] / l);
  }
}
// KERNELS makes the four sizes of a type: heads of up to 64, 96, 128 and 256.
#define KERNELS(type, S64, S96, S128, S256)                                       \
  KERNEL(128, 3) decode64_##type(PARAM DecodeParams p) { decode<S64, false>(p); }  \
  KERNEL(128, 3) decode96_##type(PARAM DecodeParams p) { decode<S96, false>(p); }  \
  KERNEL(128, 3) decode128_##type(PARAM DecodeParams p) { decode<S128, false>(p); } \
  KERNEL(128, 2) decode256_##type(PARAM DecodeParams p) { decode<S256, false>(p); }
#define SHAPE(...) __VA_ARGS__
KERNELS(bf16, SHAPE(Halves<bf16, 2, 1>), SHAPE(Halves<bf16, 3, 2>), SHAPE(Halves<bf16, 4, 2>), SHAPE(Halves<bf16, 8, 4>))
KERNELS(f16, SHAPE(Halves<f16, 2, 1>), SHAPE(Halves<f16, 3, 2>), SHAPE(Halves<f16, 4, 2>), SHAPE(Halves<f16, 8, 4>))
KERNELS(i8, SHAPE(Bytes<i8, 1, 1, 2>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 2, 1, 4>), SHAPE(Bytes<i8, 4, 2, 4>))
KERNELS(f8, SHAPE(Bytes<f8, 1, 1, 2>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 2, 1, 4>), SHAPE(Bytes<f8, 4, 2, 4>))
#if __CUDA_ARCH__ >= 900 // where launches overlap
KERNEL(128, 2) decode64_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 2, 1>, true>(p); }
KERNEL(128, 2) decode64_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 2, 1>, true>(p); }
KERNEL(128, 2) decode128_turn_bf16(PARAM DecodeParams p) { decode<Halves<bf16, 4, 2>, true>(p); }
KERNEL(128, 2) decode128_turn_f16(PARAM DecodeParams p) { decode<Halves<f16, 4, 2>, true>(p); }
#endif
