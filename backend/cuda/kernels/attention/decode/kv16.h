// How a warp loads and multiplies 16 keys and values of a 16-bit KV cache.
#pragma once
#include "../../kv_cache.h"

constexpr int HEADS = 8; // query heads of a block, the columns of its mma

// load takes 16 bytes of a key or a value, and leaves v as it is where the head has no such part. NEAR: another block reads the rest
// of the line at the same time, and the memory is faster with both.
template <bool NEAR> DEVICE void load(Vec16& v, const u8* p, bool in) {
  if (NEAR)
    asm volatile("{\n\t.reg .pred in;\n\tsetp.ne.b32 in, %5, 0;\n\t@in ld.global.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+r"(v.x[0]), "+r"(v.x[1]), "+r"(v.x[2]), "+r"(v.x[3]) : "l"(p), "r"((int)in) : "memory");
  else
    asm volatile("{\n\t.reg .pred in;\n\tsetp.ne.b32 in, %5, 0;\n\t@in ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+r"(v.x[0]), "+r"(v.x[1]), "+r"(v.x[2]), "+r"(v.x[3]) : "l"(p), "r"((int)in) : "memory");
}

DEVICE Vec16 loadOnce(const void* p, bool in) {
  Vec16 v = {};
  if (in)
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(p) : "memory");
  return v;
}

// UNIT is how many times too small a cache's numbers are multiplied.
template <typename C> constexpr float UNIT = 1;

// The low and the high 16-bit halves of two registers, side by side.
DEVICE u32 lows(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x5410); }
DEVICE u32 highs(u32 a, u32 b) { return __nvvm_prmt(a, b, 0x7632); }

// KVAddresses is the byte offsets of a lane's pieces of keys and values in the paged cache: what does not change from step to step.
template <typename C> struct KVAddresses {
  const u8* cache;
  u32 page, kRow, vRow; // from page to page, and from token to token
  u32 key, value;       // the lane's first, from the start of a page
  u32 kScale, vScale;   // those of the lane's token's numbers
  int mask;             // tokens of a page, less one

  // k and v are where the lane's pieces of a head begin, and its tokens are kToken and vToken of 16.
  DEVICE KVAddresses(const Pages<C>& p, int kv, int k, int kToken, int v, int vToken) {
    cache = p.cache, mask = (1 << p.shift) - 1;
    page = p.part(p.kSize) + p.part(p.vSize), kRow = p.heads * p.kSize * sizeof(C), vRow = p.heads * p.vSize * sizeof(C);
    key = kv * p.kSize * (int)sizeof(C) + k + kToken * kRow;
    value = p.part(p.kSize) + kv * p.vSize * (int)sizeof(C) + v + vToken * vRow;
    u32 scale = ((kv << p.shift) + kToken) * 4;
    kScale = (kRow << p.shift) + scale, vScale = p.part(p.kSize) + (vRow << p.shift) + scale;
  }
  DEVICE const u8* start(int at) const { return cache + (u64)(u32)at * page; }
  DEVICE u32 in(int token) const { return token & mask; }
};

template <typename C> constexpr bool IEEE = false;
template <> constexpr bool IEEE<f16> = true;

// KV16 is what a warp holds of 16 keys and values, and how they are multiplied, for 16-bit KV caches: bf16, or IEEE halves.
// KC × 32 and VH × 64 are the head sizes there is room for. (KV8, in kv8.h, is the same for 8-bit caches.)
//
// Lane 4g + t loads of keys g and g + 8 the pieces that start at its t, and of values 2t, 2t + 1, 2t + 8 and 2t + 9 the pieces that
// start at its g. All 16 are loaded, also those that are not the sequence's: they lie in its page. Tile j of the result has, in rows g
// and g + 8, what the lane's own numbers of the values go to: place says where.
template <typename C, int KC, int VH> struct KV16 {
  using Number = C;
  static constexpr bool HALF = IEEE<C>;
  static constexpr int PRODUCTS = KC * 2, TILES = (VH + 1) / 2 * 8, WIDTH = VH * 64;
  struct Query { Vec16 x[KC]; };
  struct Scores { float x[4]; };
  Vec16 k[KC][2], v[4][VH];

  static DEVICE int place(int j, int i) { return (j / 8 * 2 + i / 2) * 64 + lane() / 4 * 8 + j % 8; }
  static DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    if (HALF) mmaF16(d, a0, a1, a2, a3, b0, b1);
    else mma(d, a0, a1, a2, a3, b0, b1);
  }
  static DEVICE u32 pair(float first, float second) { return HALF ? packF16(first, second) : pack(first, second); }
  static DEVICE void loadRaw(Query& q, const bf16* x, bool in, int size) {
    UNROLL for (int c = 0; c < KC; c++) {
      int d = c * 32 + lane() % 4 * 8;
      q.x[c] = loadOnce(x + d, in && d < size);
    }
  }
  static DEVICE void finish(Query& q) {
    if (HALF) UNROLL for (int c = 0; c < KC; c++) q.x[c] = bf16ToF16(q.x[c]);
  }
  static DEVICE void loadQuery(Query& q, const bf16* x, bool in, int size) {
    loadRaw(q, x, in, size);
    finish(q);
  }

  // Norm holds the weights with which each head of KC × 32 numbers is normalised by itself (RMSNorm), those of a lane's numbers.
  struct Norm {
    float w[KC * 8];
    DEVICE Norm(const float* from) {
      UNROLL for (int i = 0; i < KC * 8; i++) w[i] = from[i / 8 * 32 + lane() % 4 * 8 + i % 8];
    }
    DEVICE void operator()(Query& q, float eps) const {
      float sum = 0;
      UNROLL for (int i = 0; i < KC * 4; i++) {
        u32 pair = q.x[i / 4].x[i % 4];
        sum += low(pair) * low(pair) + high(pair) * high(pair);
      }
      sum += shuffleXor(sum, 1);
      sum += shuffleXor(sum, 2);
      float scale = rsqrt(sum / (KC * 32) + eps);
      UNROLL for (int i = 0; i < KC * 4; i++) {
        u32& pair = q.x[i / 4].x[i % 4];
        pair = pack(low(pair) * scale * w[2 * i], high(pair) * scale * w[2 * i + 1]);
      }
    }
  };
  struct Norms { Norm queries, keys; };
  // Rope holds the cosines and sines for a lane's numbers of a head of KC × 32 numbers: both halves of its pairs.
  struct Rope {
    float x[KC * 8];
    DEVICE Rope(const float* angles, bool adjacent) {
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
        u32 roped = pack(low(one) * t[0] - low(two) * t[1], high(one) * t[2] - high(two) * t[3]);
        two = pack(low(two) * t[0] + low(one) * t[1], high(two) * t[2] + high(one) * t[3]);
        one = roped;
      }
    }
  };
  // NewToken is the key and value of the step's own token, which are not in the cache yet.
  struct NewToken {
    Query k;
    Vec16 v[VH];
    DEVICE void load(const bf16* key, const bf16* value, int kSize, int vSize) {
      loadRaw(k, key, true, kSize);
      UNROLL for (int h = 0; h < VH; h++) {
        int d = h * 64 + lane() / 4 * 8;
        v[h] = loadOnce(value + d, d < vSize);
        if (HALF) v[h] = bf16ToF16(v[h]);
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
  DEVICE void insert(const NewToken& f, int token) { // as one of the current 16
    UNROLL for (int half = 0; half < 2; half++)
      if (lane() / 4 + half * 8 == token) UNROLL for (int c = 0; c < KC; c++) k[c][half] = f.k.x[c];
    UNROLL for (int i = 0; i < 4; i++)
      if (lane() % 4 * 2 + (i & 1) + (i / 2) * 8 == token) UNROLL for (int h = 0; h < VH; h++) v[i][h] = f.v[h];
  }
  static DEVICE KVAddresses<C> places(const Pages<C>& p, int kv) { return {p, kv, lane() % 4 * 16, lane() / 4, lane() / 4 * 16, lane() % 4 * 2}; }
  DEVICE void loadKeys(const KVAddresses<C>& p, int page, int token0, int size) {
    const u8* x = p.start(page) + (p.key + p.in(token0) * p.kRow);
    UNROLL for (int half = 0; half < 2; half++)
      UNROLL for (int c = 0; c < KC; c++) load<false>(k[c][half], x + half * 8 * p.kRow + c * 64, c * 32 + lane() % 4 * 8 < size);
  }
  DEVICE void loadValues(const KVAddresses<C>& p, int page, int token0, int size) {
    const u8* x = p.start(page) + (p.value + p.in(token0) * p.vRow);
    UNROLL for (int i = 0; i < 4; i++)
      UNROLL for (int h = 0; h < VH; h++) load<false>(v[i][h], x + (i % 2 + i / 2 * 8) * p.vRow + h * 128, h * 64 + lane() / 4 * 8 < size);
  }
  // clearBehind zeroes the values of tokens from n on: P = 0 times NaN would be NaN.
  DEVICE void clearBehind(int n) {
    UNROLL for (int i = 0; i < 4; i++)
      if (lane() % 4 * 2 + i % 2 + i / 2 * 8 >= n) UNROLL for (int h = 0; h < VH; h++) v[i][h] = {};
  }
  DEVICE void score(Scores& s, const Query& q, int i) {
    int c = i / 2, e = i % 2 * 2;
    multiply(s.x, k[c][0].x[e], k[c][1].x[e], k[c][0].x[e + 1], k[c][1].x[e + 1], q.x[c].x[e], q.x[c].x[e + 1]);
  }
  DEVICE float scoreOf(const Scores& s, int i) const { return s.x[i]; }
  static DEVICE float unit(const Query&, int) { return 1; } // of scoreOf, for each of a lane's two heads
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
