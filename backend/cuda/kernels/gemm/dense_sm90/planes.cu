// Dense GEMM on Hopper in bf16 with what adapters add as further steps; see adapter_steps.h.
#include "gemm.h"
using namespace dense_sm90;

#if __CUDA_ARCH__ >= 900
struct PlanesParams {
  GemmParams product;
  AdapterSteps adapters;
};
#define PLANES_KERNEL(name, bn, stages, gated, cluster) \
  KERNEL(384, 1) name(PARAM PlanesParams p) { gemm<MmaBf16, bn, stages, gated, cluster, false>(p.product, nullptr, p.adapters); }
PLANES_KERNEL(planes_gemm16, 16, 11, false, 1)
PLANES_KERNEL(planes_gemm32, 32, 9, false, 1)
PLANES_KERNEL(planes_gemm64, 64, 8, false, 1)
PLANES_KERNEL(planes_gemm128, 128, 6, false, 1)
PLANES_KERNEL(planes_gemm256, 256, 4, false, 1)
PLANES_KERNEL(planes_gated16, 16, 11, true, 1)
PLANES_KERNEL(planes_gated32, 32, 9, true, 1)
PLANES_KERNEL(planes_gated64, 64, 8, true, 1)
PLANES_KERNEL(planes_gated128, 128, 6, true, 1)
PLANES_KERNEL(planes_gated256, 256, 4, true, 1)
PLANES_KERNEL(planes_gemm_cluster128, 128, 6, false, 2)
PLANES_KERNEL(planes_gemm_cluster256, 256, 4, false, 2)
PLANES_KERNEL(planes_gated_cluster128, 128, 6, true, 2)
PLANES_KERNEL(planes_gated_cluster256, 256, 4, true, 2)
#endif
