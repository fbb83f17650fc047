// How a warp reads and multiplies 16 keys and values of a cache of 16-bit numbers.
#pragma once
#include "../cache.h"

constexpr int HEADS = 8;
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
