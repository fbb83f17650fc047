// The shared memory of a block, and block-wide reductions.
#pragma once
#include "params.h"

constexpr int THREADS = 512, BINS = 4096, OWN = BINS / THREADS; // OWN: bins of a thread in the prefix sums
constexpr int MOST = 1024;    // tokens that are ranked by comparing all pairs
constexpr int SUBBINS = 1024; // parts into which more tokens are divided, until one has at most MOST
constexpr float UNIT = 1048576.0f; // fixed-point unit of a bin's weights

struct Found { // a token, and the mass of all tokens up to and including it
  u64 place;   // rank key: see placeOf
  double mass;
};

// Shared is a block's shared memory; the bitmap follows it.
struct Shared {
  u32 count[BINS], dent[BINS]; // tokens of a bin, and the sum of their d
  union {
    struct { u64 place[MOST]; u32 dent[MOST]; } list;                // find.h: the tokens to rank
    struct { u32 count[SUBBINS], dent[SUBBINS]; } sub;               // find.h: parts of a bin
    struct { u64 place[MOST], weight[MOST]; } typical;               // typical.h: likewise
    struct { u64 weight[SUBBINS]; u32 count[SUBBINS]; } part;
  };
  double mass[THREADS]; // of the bins up to a thread's last
  u32 tokens[THREADS];  // in these
  u64 word[32];         // blockMin's, of each warp
  double number[32];    // blockAdd's
  Found found;
  u64 lo, hi;         // range of places that contains the goal
  double base;        // mass of the tokens before that range
  u64 weight;         // or their weight
  u32 before;         // or their number
  u32 members;        // tokens in the range
  int bin, hit;       // the goal's bin, and the thread that has it
  int extra;          // tokens listed so far; in edit, 1 if an edit is appended
};

static_assert(sizeof(Shared) == 55880, "sample.go says the same");

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
