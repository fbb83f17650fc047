// Dense GEMM on Hopper in bf16; see gemm.h.
#include "gemm.h"
using namespace dense_sm90;

#if __CUDA_ARCH__ >= 900
struct InterleaveParams {
  const Vec16 *gate, *up; // [rows, vectors]
  Vec16* y;               // [2 × rows, vectors]: eight rows of the one, eight of the other
  int rows, vectors;
};
KERNEL(256, 1) interleave(PARAM InterleaveParams p) {
  launchDependentsAndWait();
  int r = blockX(), to = r / 8 * 16 + r % 8;
  for (int i = threadX(); i < p.vectors; i += 256) {
    p.y[(long)to * p.vectors + i] = p.gate[(long)r * p.vectors + i];
    p.y[(long)(to + 8) * p.vectors + i] = p.up[(long)r * p.vectors + i];
  }
}

KERNEL(384, 1) gemm16(PARAM GemmParams p) { gemm<MmaBf16, 16, 11, false, 1>(p); }
KERNEL(384, 1) gemm32(PARAM GemmParams p) { gemm<MmaBf16, 32, 9, false, 1>(p); }
KERNEL(384, 1) gemm64(PARAM GemmParams p) { gemm<MmaBf16, 64, 8, false, 1>(p); }
KERNEL(384, 1) gemm128(PARAM GemmParams p) { gemm<MmaBf16, 128, 6, false, 1>(p); }
KERNEL(384, 1) gemm256(PARAM GemmParams p) { gemm<MmaBf16, 256, 4, false, 1>(p); }
KERNEL(384, 1) gated16(PARAM GemmParams p) { gemm<MmaBf16, 16, 11, true, 1>(p); }
KERNEL(384, 1) gated32(PARAM GemmParams p) { gemm<MmaBf16, 32, 9, true, 1>(p); }
KERNEL(384, 1) gated64(PARAM GemmParams p) { gemm<MmaBf16, 64, 8, true, 1>(p); }
KERNEL(384, 1) gated128(PARAM GemmParams p) { gemm<MmaBf16, 128, 6, true, 1>(p); }
KERNEL(384, 1) gated256(PARAM GemmParams p) { gemm<MmaBf16, 256, 4, true, 1>(p); }
KERNEL(384, 1) gemm_cluster128(PARAM GemmParams p) { gemm<MmaBf16, 128, 6, false, 2>(p); }
KERNEL(384, 1) gemm_cluster256(PARAM GemmParams p) { gemm<MmaBf16, 256, 4, false, 2>(p); }
KERNEL(384, 1) gated_cluster128(PARAM GemmParams p) { gemm<MmaBf16, 128, 6, true, 2>(p); }
KERNEL(384, 1) gated_cluster256(PARAM GemmParams p) { gemm<MmaBf16, 256, 4, true, 2>(p); }
#endif
