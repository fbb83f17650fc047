// Hopper's products of 64 rows of weights with 32 to 256 slots, 16 columns deep: D[64 × N] += A[64 × 16] × B[N × 16]', bf16 in and float32 out.
// B lies in shared memory; A too, or in registers as mma's. Thread 32w + 4g + t of the warpgroup holds in d[4j + i] row 16w + g + 8(i/2),
// column 8j + 2t + i%2.
#pragma once
#include "../hopper.h"

// unswizzled describes a K-major tile in shared memory that consists of pieces of eight rows × eight columns, each 128 bytes in a row; the
// next eight columns follow, and the next eight rows come `rows` bytes on. 256 bytes further is the next k16.
DEVICE u64 unswizzled(u32 address, u64 rows) { return (u64)((address & 0x3ffff) >> 4) | 8ull << 16 | rows >> 4 << 32; }

#define R0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R1 R0 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R2 R1 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define R3 R2 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define R4 R3 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define R5 R4 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define R6 R5 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define R7 R6 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D0 FOUR(0), FOUR(4), FOUR(8), FOUR(12)
#define D1 D0, FOUR(16), FOUR(20), FOUR(24), FOUR(28)
#define D2 D1, FOUR(32), FOUR(36), FOUR(40), FOUR(44)
#define D3 D2, FOUR(48), FOUR(52), FOUR(56), FOUR(60)
#define D4 D3, FOUR(64), FOUR(68), FOUR(72), FOUR(76)
#define D5 D4, FOUR(80), FOUR(84), FOUR(88), FOUR(92)
#define D6 D5, FOUR(96), FOUR(100), FOUR(104), FOUR(108)
#define D7 D6, FOUR(112), FOUR(116), FOUR(120), FOUR(124)

// Both products of a width: N slots, N / 2 sums a thread, and the numbers of the operands behind those.
#define PRODUCTS(N, SUMS, REGS, OUT, A0, A1, A2, A3, B)                                                                                           \
  DEVICE void multiply(float (&d)[SUMS], u64 a, u64 b) {                                                                                          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGS "}, %" #A0 ", %" #A1 ", 1, 1, 1, 0, 0;" : OUT : "l"(a), "l"(b)); \
  }                                                                                                                                               \
  DEVICE void multiply(float (&d)[SUMS], const u32 (&a)[4], u64 b) {                                                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGS "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", 1, 1, 1, 0;" \
                 : OUT : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                                     \
  }
PRODUCTS(32, 16, R0, D0, 16, 17, 18, 19, 20)
PRODUCTS(64, 32, R1, D1, 32, 33, 34, 35, 36)
PRODUCTS(96, 48, R2, D2, 48, 49, 50, 51, 52)
PRODUCTS(128, 64, R3, D3, 64, 65, 66, 67, 68)
PRODUCTS(160, 80, R4, D4, 80, 81, 82, 83, 84)
PRODUCTS(192, 96, R5, D5, 96, 97, 98, 99, 100)
PRODUCTS(224, 112, R6, D6, 112, 113, 114, 115, 116)
PRODUCTS(256, 128, R7, D7, 128, 129, 130, 131, 132)
