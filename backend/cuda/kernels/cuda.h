// What every kernel of ours includes: CUDA's few keywords without CUDA's headers, element types, and the PTX
// instructions that clang has no name for. Clang compiles this alone (-nocudainc -nocudalib), so no toolkit is needed.
#pragma once

#define DEVICE __attribute__((device)) __attribute__((always_inline)) inline
#define KERNEL(threads, blocks) extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, blocks))) void
#define PARAM const __attribute__((grid_constant))
#define SHARED __attribute__((shared))
#define UNROLL _Pragma("unroll")

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __bf16 bf16;
typedef _Float16 f16;

struct alignas(16) Vec16 { u32 x[4]; }; // 16 bytes: the widest load and store

// Step is what kernels may read of the step at hand; step.go fills it. Counts live in memory and not in launches, so
// that a CUDA graph serves every step of its bucket.
struct Step {
  const int* counts;    // tokens, sequences, logits
  const int* positions; // [T] of rotations; which keys a row looks at follows from kvLen and qStart
  const int* slots;     // [T]
  const int* rowSeq;    // [T] which sequence the row is of
  const int* qStart;    // [S+1]
  const int* kvLen;     // [S]
  const int* pages;     // [S × seqPages]
  const int* logitsIndices; // [L]
  const int* tiles;     // [n × 2] prefill attention's work: sequence, first row
  int seqPages;
  int pageShift; // log2 of the tokens in a page
};
enum { COUNT_TOKENS, COUNT_SEQS, COUNT_LOGITS };

DEVICE int threadX() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE int blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE int blockY() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE int blockZ() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE int gridX() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE int gridY() { return __nvvm_read_ptx_sreg_nctaid_y(); }
DEVICE int threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE int lane() { return threadX() & 31; }
DEVICE int warp() { return threadX() >> 5; }
DEVICE void barrier() { __syncthreads(); }
DEVICE void warpBarrier() { asm volatile("bar.warp.sync -1;" ::: "memory"); }

// Programmatic dependent launch: a kernel launched on a stream with Overlap may start while the one before it still runs. gridDependencyWait
// (griddepcontrol.wait) holds it until that one's writes can be read; launchDependents (griddepcontrol.launch_dependents) lets the next one start. Both
// do nothing in an ordinary launch.
#if __CUDA_ARCH__ >= 900
DEVICE void gridDependencyWait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEVICE void launchDependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEVICE void launchDependentsAndWait() { launchDependents(); gridDependencyWait(); }
#else
DEVICE void gridDependencyWait() {}
DEVICE void launchDependents() {}
DEVICE void launchDependentsAndWait() {}
#endif

DEVICE float minf(float a, float b) { return __builtin_fminf(a, b); }
DEVICE float maxf(float a, float b) { return __builtin_fmaxf(a, b); }
DEVICE int mini(int a, int b) { return a < b ? a : b; }
DEVICE int maxi(int a, int b) { return a > b ? a : b; }
DEVICE int ceilDiv(int a, int b) { return (a + b - 1) / b; }

DEVICE float exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float log2(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float rsqrt(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

constexpr float LOG2E = 1.4426950408889634f;
DEVICE float expf(float x) { return exp2(x * LOG2E); }

// tanhf is exact to a few units in the last place of a float for large |x| and to 1e-7 absolute near 0; the hardware's
// tanh.approx (5e-4) is not good enough for soft-capped scores.
DEVICE float tanhf(float x) {
  float a = __builtin_fabsf(x);
  if (a < 0.1f) { // the series: exp cancels here
    float s = x * x;
    return x * (1.0f + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315))));
  }
  float e = exp2(-2 * LOG2E * a);
  float y = (1 - e) * reciprocal(1 + e);
  return x < 0 ? -y : y;
}

// erff by Abramowitz & Stegun 7.1.26, absolute error 1.5e-7.
DEVICE float erff(float x) {
  float a = __builtin_fabsf(x), t = reciprocal(1 + 0.3275911f * a);
  float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  float y = 1 - p * expf(-a * a);
  return x < 0 ? -y : y;
}

DEVICE float shuffleXor(float v, int mask) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(v), "r"(mask));
  return y;
}
// shuffleFrom broadcasts the value of one lane.
DEVICE float shuffleFrom(float v, int lane) {
  float y;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(v), "r"(lane));
  return y;
}
DEVICE int shuffleFrom(int v, int lane) {
  asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, -1;" : "+r"(v) : "r"(lane));
  return v;
}
DEVICE u64 shuffleFrom(u64 v, int lane) {
  u32 low = shuffleFrom((int)v, lane), high = shuffleFrom((int)(v >> 32), lane);
  return (u64)high << 32 | low;
}
// uniform is v of lane 0: what all lanes have alike, so that the compiler keeps it in a uniform register.
DEVICE int uniform(int v) {
  asm volatile("shfl.sync.idx.b32 %0, %0, 0, 31, -1;" : "+r"(v));
  return v;
}
DEVICE bool anySync(bool each) { return __nvvm_vote_any_sync(-1, each); }
DEVICE bool allSync(bool each) { return __nvvm_vote_all_sync(-1, each); }
DEVICE float warpSum(float v) {
  UNROLL for (int m = 16; m > 0; m /= 2) v += shuffleXor(v, m);
  return v;
}
DEVICE float warpMax(float v) {
  UNROLL for (int m = 16; m > 0; m /= 2) v = maxf(v, shuffleXor(v, m));
  return v;
}

// blockSum adds one number of each thread, for blocks of up to 1024 threads; every thread gets the sum. The order is
// fixed, so the same input gives the same bits.
DEVICE float blockSum(float v, float* scratch32) {
  v = warpSum(v);
  if (lane() == 0) scratch32[warp()] = v;
  barrier();
  v = lane() < threads() / 32 ? scratch32[lane()] : 0;
  v = warpSum(v);
  barrier();
  return v;
}

template <typename T> DEVICE float toFloat(T v) { return (float)v; }
template <> DEVICE float toFloat(bf16 v) { return __builtin_bit_cast(float, (u32)__builtin_bit_cast(u16, v) << 16); }
template <typename T> DEVICE T fromFloat(float v) { return (T)v; }
template <> DEVICE bf16 fromFloat(float v) {
  u16 b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(v));
  return __builtin_bit_cast(bf16, b);
}

// Two bf16 in a register, the first in the low half.
DEVICE float low(u32 pair) { return __builtin_bit_cast(float, pair << 16); }
DEVICE float high(u32 pair) { return __builtin_bit_cast(float, pair & 0xffff0000u); }
DEVICE u32 pack(float first, float second) {
  u32 p;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(second), "f"(first));
  return p;
}

DEVICE u32 packF16(float first, float second) {
  u32 p;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(second), "f"(first));
  return p;
}
// bf16ToF16 converts pairs of bf16 to pairs of IEEE half.
DEVICE Vec16 bf16ToF16(Vec16 v) {
  UNROLL for (int i = 0; i < 4; i++) v.x[i] = packF16(low(v.x[i]), high(v.x[i]));
  return v;
}

// loadNoAllocate loads weights, which are read once and should not push anything else out of the caches.
DEVICE Vec16 loadNoAllocate(const void* p) {
  Vec16 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(p));
  return v;
}

DEVICE u32 sharedAddress(const void* p) { return (u32)(u64)(__attribute__((address_space(3))) const void*)p; }

// mma is D[16×8] += A[16×16] × B[16×8] on the tensor cores, bf16 in and float32 out. Lane l = 4g + t holds
//   a: A[g][2t,2t+1], A[g+8][2t..], A[g][2t+8..], A[g+8][2t+8..]   b: B[2t,2t+1][g], B[2t+8..][g]
//   d: D[g][2t], D[g][2t+1], D[g+8][2t], D[g+8][2t+1]
DEVICE void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// mmaF16 is mma of IEEE halves.
DEVICE void mmaF16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// transpose8 transposes an 8×8 matrix of 16-bit numbers, held as mma holds one.
DEVICE u32 transpose8(u32 v) {
  u32 y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(v));
  return y;
}

DEVICE void cpAsync16(u32 to, const void* from, bool valid) { // zeros when not valid
  int n = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
}
DEVICE void cpAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void cpAsyncWait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

DEVICE void ldmatrix4(u32 (&r)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix4Trans(u32 (&r)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
