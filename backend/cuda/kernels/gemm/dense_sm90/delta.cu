// Dense GEMM on Hopper in bf16 whose rows have adapters; see gemm.h.
#include "gemm.h"
using namespace dense_sm90;

#if __CUDA_ARCH__ >= 900
struct DeltaParams {
  GemmParams product;
  Deltas deltas;
};
#define DELTA_KERNEL(name, bn, stages, gated, cluster) \
  KERNEL(384, 1) name(PARAM DeltaParams p) { gemm<MmaBf16, bn, stages, gated, cluster, true>(p.product, &p.deltas); }
DELTA_KERNEL(delta_gemm16, 16, 11, false, 1)
DELTA_KERNEL(delta_gemm32, 32, 9, false, 1)
DELTA_KERNEL(delta_gemm64, 64, 8, false, 1)
DELTA_KERNEL(delta_gemm128, 128, 6, false, 1)
DELTA_KERNEL(delta_gemm256, 256, 4, false, 1)
DELTA_KERNEL(delta_gated16, 16, 11, true, 1)
DELTA_KERNEL(delta_gated32, 32, 9, true, 1)
DELTA_KERNEL(delta_gated64, 64, 8, true, 1)
DELTA_KERNEL(delta_gated128, 128, 6, true, 1)
DELTA_KERNEL(delta_gated256, 256, 4, true, 1)
DELTA_KERNEL(delta_gemm_cluster128, 128, 6, false, 2)
DELTA_KERNEL(delta_gemm_cluster256, 256, 4, false, 2)
DELTA_KERNEL(delta_gated_cluster128, 128, 6, true, 2)
DELTA_KERNEL(delta_gated_cluster256, 256, 4, true, 2)
#endif
