// Hopper's warpgroup instructions (sm_90a): asynchronous matrix products from shared memory, the bulk copy engine and the
// barriers that tell of its arrivals.
#pragma once
#include "cuda.h"
#include "wgmma_registers.h"

struct alignas(64) TensorMap { u8 bytes[128]; }; // the copy engine's description of a matrix; made by the driver

DEVICE void barrierInit(u32 bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEVICE void barrierInitDone() { asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void barrierArrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void barrierExpect(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
DEVICE void barrierWait(u32 bar, u32 phase) {
  asm volatile("{\n\t.reg .pred done;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}"
               ::"r"(bar), "r"(phase) : "memory");
}

// Ring is where one is in a ring of stages: phase turns with each round, as the barriers of its stages count.
template <int STAGES> struct Ring {
  int stage = 0;
  u32 phase = 0;
  DEVICE void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// How long the L2 cache should keep what is fetched.
constexpr u64 KEEP_SHORT = 0x12F0000000000000, KEEP_LONG = 0x14F0000000000000;

// fetchBox starts the copy of a box of a matrix to shared memory; the barrier counts its bytes.
DEVICE void fetchBox(u32 to, const TensorMap* map, int col, int row, u32 bar, u64 keep) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(bar), "l"(keep) : "memory");
}

// fetchBytes is a copy of bytes in a row that are read once, or a few times soon after each other.
DEVICE void fetchBytes(u32 to, const u8* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(KEEP_SHORT) : "memory");
}

// fetchBoxPair is fetchBox into both blocks of a cluster of two, at the same place of each and with the same barrier of each.
DEVICE void fetchBoxPair(u32 to, const TensorMap* map, int col, int row, u32 bar, u64 keep) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(bar), "h"((u16)3), "l"(keep) : "memory");
}

DEVICE int clusterRank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// barrierArriveAt arrives at a barrier of another block of the cluster. (With .release.cluster spelt out the assembler puts a
// fence of the whole GPU before it, which halves the speed of a loop; what it guards here are reads of the tensor cores,
// which are done.)
DEVICE void barrierArriveAt(u32 bar, int block) {
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\tmbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
               ::"r"(bar), "r"(block) : "memory");
}
DEVICE void clusterBarrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
DEVICE void clusterBarrierLoose() { // for warps that may not be together
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
// clusterArrive and clusterAwait are the halves of such a barrier for blocks that have to know of each other only that their barriers are
// made (barrierInitDone).
DEVICE void clusterArrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void clusterAwait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// fetchBox3 is fetchBox of a matrix described in planes; the L2 cache keeps what it fetches as anything else.
DEVICE void fetchBox3(u32 to, const TensorMap* map, int col, int row, int plane, u32 bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(plane), "r"(bar) : "memory");
}

// sharedFence makes ordinary writes to shared memory visible to the matrix products that follow the next barrier.
DEVICE void sharedFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int N> DEVICE void keepRegisters() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEVICE void takeRegisters() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
DEVICE void namedBarrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void namedArrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// operand describes a K-major tile in shared memory whose rows are 128 bytes, swizzled by 128 bytes as the copy engine writes
// them: address, a stride of 1024 bytes between groups of eight rows, swizzle mode 1. 32 bytes further is the next k16.
DEVICE u64 operand(u32 address) { return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

DEVICE void productFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void productCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void productWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// product is D[64 × N] (+)= A[64 × 16] × B[N × 16]', both from shared memory, for N of 16 to 256; add 0 starts a new sum. Thread
// 32w + 4g + t of the warpgroup holds in d[4j + i] row 16w + g + 8(i/2), column 8j + 2t + i%2. productHalf is that of IEEE halves.
#define PRODUCT(name, type, n, sums)                                                                                       \
  DEVICE void name(float (&d)[sums], u64 a, u64 b, int add) {                                                              \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %[add], 0;\n\twgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                 "." type " {" NAMES##sums "}, %[a], %[b], p, 1, 1, 0, 0;\n\t}"                                            \
                 : SUMS##sums("+f") : [a] "l"(a), [b] "l"(b), [add] "r"(add));                                             \
  }
PRODUCT(product, "bf16", 16, 8)
PRODUCT(product, "bf16", 32, 16)
PRODUCT(product, "bf16", 64, 32)
PRODUCT(product, "bf16", 128, 64)
PRODUCT(product, "bf16", 256, 128)
PRODUCT(productHalf, "f16", 128, 64)

// operandT describes a tile whose rows are k and whose columns, 64 to a line of 128 bytes, are contiguous: 1024 bytes between
// groups of eight k, `columns` bytes between groups of 64 columns. 2048 bytes further is the next k16.
DEVICE u64 operandT(u32 address, u32 columns) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(columns >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

// productT is D[64 × N] += A[64 × 16] × B[16 × N], A from registers as mma holds it, B from shared memory as operandT says, for N of 64
// and 128. productTHalf is that of IEEE halves.
#define PRODUCT_T(name, type, n, sums)                                                                                             \
  DEVICE void name(float (&d)[sums], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, " \
                 "%[b], 1, 1, 1, 1;"                                                                                               \
                 : SUMS##sums("+f") : [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [a3] "r"(a3), [b] "l"(b));                         \
  }
PRODUCT_T(productT, "bf16", 64, 32)
PRODUCT_T(productT, "bf16", 128, 64)
PRODUCT_T(productTHalf, "f16", 64, 32)
PRODUCT_T(productTHalf, "f16", 128, 64)
