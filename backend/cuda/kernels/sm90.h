// Hopper's own instructions (sm_90a): wgmma (warpgroup matrix multiply-accumulate), TMA loads with mbarriers that count their bytes, thread block
// clusters with distributed shared memory, and setmaxnreg for warp-specialised kernels.
#pragma once
#include "cuda.h"
#include "wgmma_registers.h"

struct alignas(64) TensorMap { u8 bytes[128]; }; // a CUtensorMap: what TMA knows of a matrix; made by the driver

DEVICE void mbarrierInit(u32 bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEVICE void mbarrierInitFence() { asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void mbarrierArrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void mbarrierExpectTx(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
DEVICE void mbarrierWait(u32 bar, u32 phase) {
  asm volatile("{\n\t.reg .pred done;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}"
               ::"r"(bar), "r"(phase) : "memory");
}

// PipelineState is a position in a ring of STAGES buffers (producer-consumer pipeline); phase is the parity that the mbarrier of its stage waits for.
template <int STAGES> struct PipelineState {
  int stage = 0;
  u32 phase = 0;
  DEVICE void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// L2 cache hints of TMA loads, as createpolicy encodes them.
constexpr u64 EVICT_FIRST = 0x12F0000000000000, EVICT_LAST = 0x14F0000000000000;

// tmaLoad2D starts the TMA load of a box of a matrix into shared memory; the mbarrier counts its bytes.
DEVICE void tmaLoad2D(u32 to, const TensorMap* map, int col, int row, u32 bar, u64 keep) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(bar), "l"(keep) : "memory");
}

// tmaLoadBulk loads contiguous bytes, without a tensor map; if not said otherwise, bytes that are read once or a few times soon after each other.
DEVICE void tmaLoadBulk(u32 to, const u8* from, int bytes, u32 bar, u64 keep = EVICT_FIRST) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(keep) : "memory");
}

// tmaLoadMulticast is a multicast tmaLoad2D into both blocks of a cluster of two: to the same shared-memory address and mbarrier of each.
DEVICE void tmaLoadMulticast(u32 to, const TensorMap* map, int col, int row, u32 bar, u64 keep) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(bar), "h"((u16)3), "l"(keep) : "memory");
}

DEVICE int clusterRank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// mbarrierArriveRemote arrives at an mbarrier of another block of the cluster. (With .release.cluster spelt out ptxas puts a
// fence of the whole GPU before it, which halves the speed of a loop; what it guards here are reads of the tensor cores,
// which are done.)
DEVICE void mbarrierArriveRemote(u32 bar, int block) {
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\tmbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
               ::"r"(bar), "r"(block) : "memory");
}
DEVICE void clusterBarrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
DEVICE void clusterBarrierUnaligned() { // for warps that may have diverged
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
// clusterArriveRelaxed and clusterWait are the halves of a cluster barrier for blocks that need to know of each other only that their mbarriers are
// initialised (mbarrierInitFence).
DEVICE void clusterArriveRelaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void clusterWait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// tmaLoad3D is tmaLoad2D with a third dimension and no L2 hint.
DEVICE void tmaLoad3D(u32 to, const TensorMap* map, int col, int row, int plane, u32 bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(to), "l"(map), "r"(col), "r"(row), "r"(plane), "r"(bar) : "memory");
}

// fenceProxyAsync makes ordinary writes to shared memory visible to wgmma and TMA behind the next barrier.
DEVICE void fenceProxyAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A warpgroup of producers gives registers up (setmaxnregDec), those of consumers take them (setmaxnregInc).
template <int N> DEVICE void setmaxnregDec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEVICE void setmaxnregInc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
DEVICE void namedBarrierSync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void namedBarrierArrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// smemDescriptor is wgmma's shared-memory descriptor of a K-major tile whose rows are 128 bytes, swizzled by 128 bytes as TMA writes
// them: address, a stride of 1024 bytes between groups of eight rows, swizzle mode 1. 32 bytes further is the next k16.
DEVICE u64 smemDescriptor(u32 address) { return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

DEVICE void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void wgmmaWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// wgmma is D[64 × N] (+)= A[64 × 16] × B[N × 16]', both from shared memory (SS), for N of 16 to 256; add 0 starts a new sum. Thread
// 32w + 4g + t of the warpgroup holds in d[4j + i] row 16w + g + 8(i/2), column 8j + 2t + i%2. wgmmaF16 is that of IEEE halves.
#define WGMMA_SS(name, type, n, sums)                                                                                       \
  DEVICE void name(float (&d)[sums], u64 a, u64 b, int add) {                                                              \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %[add], 0;\n\twgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                 "." type " {" ACC_NAMES##sums "}, %[a], %[b], p, 1, 1, 0, 0;\n\t}"                                            \
                 : ACC_OPERANDS##sums("+f") : [a] "l"(a), [b] "l"(b), [add] "r"(add));                                             \
  }
WGMMA_SS(wgmma, "bf16", 16, 8)
WGMMA_SS(wgmma, "bf16", 32, 16)
WGMMA_SS(wgmma, "bf16", 64, 32)
WGMMA_SS(wgmma, "bf16", 128, 64)
WGMMA_SS(wgmma, "bf16", 256, 128)
WGMMA_SS(wgmmaF16, "f16", 128, 64)

// smemDescriptorTrans is the descriptor of an MN-major tile: its rows are k and its columns, 64 to a line of 128 bytes, are contiguous: 1024 bytes between
// groups of eight k, `columns` bytes between groups of 64 columns. 2048 bytes further is the next k16.
DEVICE u64 smemDescriptorTrans(u32 address, u32 columns) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(columns >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

// wgmmaRSTrans is D[64 × N] += A[64 × 16] × B[16 × N], A from registers (RS) as mma holds it, B MN-major as smemDescriptorTrans says, for N of 64
// and 128. wgmmaRSTransF16 is that of IEEE halves.
#define WGMMA_RS_TRANS(name, type, n, sums)                                                                                             \
  DEVICE void name(float (&d)[sums], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" ACC_NAMES##sums "}, {%[a0],%[a1],%[a2],%[a3]}, " \
                 "%[b], 1, 1, 1, 1;"                                                                                               \
                 : ACC_OPERANDS##sums("+f") : [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [a3] "r"(a3), [b] "l"(b));                         \
  }
WGMMA_RS_TRANS(wgmmaRSTrans, "bf16", 64, 32)
WGMMA_RS_TRANS(wgmmaRSTrans, "bf16", 128, 64)
WGMMA_RS_TRANS(wgmmaRSTransF16, "f16", 64, 32)
WGMMA_RS_TRANS(wgmmaRSTransF16, "f16", 128, 64)
