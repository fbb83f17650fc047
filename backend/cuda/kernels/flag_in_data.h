// Cross-block reduction through global memory with the flag in the data: a partial sum is never EMPTY, so that a word itself says whether it has been
// written; its reader makes it EMPTY again, as all words are between launches. That needs no fence, no counter and no barrier. But blocks wait for
// each other, and must all be resident on the GPU at one time: a grid has at most a block for each multiprocessor, and those of the launches before and
// after neither wait for it nor keep it out. Beside kernels of other processes (MPS) that does not hold, and the Go side lets no blocks wait.
#pragma once
#include "cuda.h"

constexpr u32 EMPTY = 0xffffffff; // a word that holds no partial sum

// encodePartial makes a partial sum a word that is not EMPTY, and addPartial adds what a word holds.
DEVICE u32 encodePartial(float sum) { // the only NaN that comes out of an addition is 0x7fffffff
  u32 word;
  asm volatile("add.rn.f32 %0, %1, 0f00000000;" : "=r"(word) : "f"(sum));
  return word;
}
DEVICE void addPartial(float& sum, u32 word) { sum += __builtin_bit_cast(float, word); }
DEVICE u32 encodePartial(int sum) { return sum ^ 0x7fffffff; } // the least integer would be EMPTY; it takes a depth of 133,000
DEVICE void addPartial(int& sum, u32 word) { sum += (int)(word ^ 0x7fffffff); }

// storePartial writes four words, loadPartial reads them as they are at the time. A warp polls until none is EMPTY with all lanes alike (anySync):
// otherwise the compiler keeps nothing in uniform registers, which the main loops need.
DEVICE void storePartial(Vec16* to, Vec16 v) {
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}
DEVICE Vec16 loadPartial(const Vec16* at) {
  Vec16 v;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(at) : "memory");
  return v;
}
