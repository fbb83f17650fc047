// Cross-block reduction through global memory with the flag in the data: a partial sum is never EMPTY, so that a word shows whether it has been
// written; its reader resets it to EMPTY, as all words are between launches. That needs no fence, no counter and no barrier. But blocks wait for
// each other, and must all be resident on the GPU at one time: a grid has at most one block per multiprocessor, and blocks of the previous and
// next launches neither wait for it nor prevent its residency. With kernels of other processes (MPS) that does not hold; Go then launches no kernel whose blocks wait for each other.
#pragma once
#include "cuda.h"

constexpr u32 EMPTY = 0xffffffff; // a word that holds no partial sum

// encodePartial makes a partial sum a word that is not EMPTY, and addPartial adds what a word holds.
DEVICE u32 encodePartial(float sum) { // the only NaN that an addition returns is 0x7fffffff
  u32 word;
  asm volatile("add.rn.f32 %0, %1, 0f00000000;" : "=r"(word) : "f"(sum));
  return word;
}
DEVICE void addPartial(float& sum, u32 word) { sum += __builtin_bit_cast(float, word); }
DEVICE u32 encodePartial(int sum) { return sum ^ 0x7fffffff; } // the least integer would be EMPTY; only k above 133,000 can reach it
DEVICE void addPartial(int& sum, u32 word) { sum += (int)(word ^ 0x7fffffff); }

// storePartial writes four words, loadPartial reads their current values. A warp polls until none is EMPTY with all lanes alike (anySync):
// otherwise the compiler keeps nothing in uniform registers, which the main loops need.
DEVICE void storePartial(Vec16* to, Vec16 v) {
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}
DEVICE Vec16 loadPartial(const Vec16* at) {
  Vec16 v;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(at) : "memory");
  return v;
}
