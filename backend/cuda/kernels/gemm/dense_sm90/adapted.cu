// Dense GEMM on Hopper in bf16 whose rows have many adapters; see adapter_tiles.h.
#include "gemm.h"
#include "adapter_tiles.h"
using namespace dense_sm90;

#if __CUDA_ARCH__ >= 900
struct AdaptedParams {
  GemmParams product;
  AdapterTiles adapters;
};
#define ADAPTED_KERNEL(name, bn, stages, gated, cluster) \
  KERNEL(384, 1) name(PARAM AdaptedParams p) { gemm<MmaBf16, bn, stages, gated, cluster, false>(p.product, nullptr, p.adapters); }
ADAPTED_KERNEL(adapted_gemm16, 16, 11, false, 1)
ADAPTED_KERNEL(adapted_gemm32, 32, 9, false, 1)
ADAPTED_KERNEL(adapted_gemm64, 64, 8, false, 1)
ADAPTED_KERNEL(adapted_gemm128, 128, 6, false, 1)
ADAPTED_KERNEL(adapted_gemm256, 256, 4, false, 1)
ADAPTED_KERNEL(adapted_gated16, 16, 11, true, 1)
ADAPTED_KERNEL(adapted_gated32, 32, 9, true, 1)
ADAPTED_KERNEL(adapted_gated64, 64, 8, true, 1)
ADAPTED_KERNEL(adapted_gated128, 128, 6, true, 1)
ADAPTED_KERNEL(adapted_gated256, 256, 4, true, 1)
ADAPTED_KERNEL(adapted_gemm_cluster128, 128, 6, false, 2)
ADAPTED_KERNEL(adapted_gemm_cluster256, 256, 4, false, 2)
ADAPTED_KERNEL(adapted_gated_cluster128, 128, 6, true, 2)
ADAPTED_KERNEL(adapted_gated_cluster256, 256, 4, true, 2)
#endif
