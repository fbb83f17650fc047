// Loads and stores of 16 bytes that the compiler does not split.
#pragma once
#include "../cuda.h"

DEVICE Vec16 loadVec(const void* from) {
  Vec16 v;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(from) : "memory");
  return v;
}
DEVICE void storeVec(void* to, const Vec16& v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}
