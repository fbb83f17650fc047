// How matrices lie in shared memory for wgmma and ldmatrix: panels of 64 numbers of 16 bits across, in lines of 128 bytes, and copies to them by cp.async
// that an mbarrier counts.
#pragma once
#include "sm90.h"

// swizzled is where chunk c of 16 bytes of a line lies in its panel, which begins at a multiple of 1024 bytes: as swizzle mode 1 of wgmma has it.
DEVICE u32 swizzled(int line, int c) { return line * 128 + ((c ^ line) & 7) * 16; }

// storeMatrices stores four 8 × 8 matrices of 16-bit numbers as mma holds its first operand (Hopper); lane l gives where row l % 8 of matrix l / 8 lies.
DEVICE void storeMatrices(u32 to, const u32 (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

#if __CUDA_ARCH__ >= 900
// awaitCopies waits for a phase of an mbarrier, behind which what copies have written may be read, by wgmma too.
DEVICE void awaitCopies(u32 bar, u32 phase) {
  mbarrierWait(bar, phase);
  fenceProxyAsync();
}
#else
DEVICE void awaitCopies(u32 bar, u32 phase) {
  asm volatile("{\n\t.reg .pred done;\n\tagain:\n\tmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n\t@!done bra again;\n\t}" ::"r"(bar), "r"(phase) : "memory");
}
#endif
// arriveCopied arrives at an mbarrier once the copies that this thread has begun by cp.async are there.
DEVICE void arriveCopied(u32 bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory"); }
