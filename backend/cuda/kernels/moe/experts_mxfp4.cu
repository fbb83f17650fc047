// The kernels for experts in MXFP4.
#include "../gemm/packed/formats.h"

// E2M1Mad is E2M1 whose bytes are combined by mad, on the FMA pipe: the other instructions of dequantisation share the ALU pipe, which limits the GEMV of
// one row.
struct E2M1Mad : E2M1 {
  DEVICE void bytes(int block, u32 (&words)[2]) const {
    u32 v = codes.x[block], other = v ^ 0x88888888;
    UNROLL for (int i = 0; i < 2; i++) {
      u32 positive = prmt(0x0f0e0d0c, 0x18141210, v >> (16 * i)), negative = prmt(0x090a0b0c, 0x00040608, other >> (16 * i));
      asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(words[i]) : "r"(positive), "r"(1), "r"(negative));
    }
  }
};
#define FORMAT E2M1Mad
#include "packed_kernels.h"
