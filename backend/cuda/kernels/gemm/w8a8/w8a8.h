// W8A8 GEMMs: weights and activations of 8 bits with a scale for each row of weights and of x. f8.cu and i8.cu include this with two MmaOps
// (mma_8bit.h) defined: WGMMA for dense_sm90, MMA for skinny and dense_sm80.
#include "../dense_sm90/gemm.h"
#include "../skinny/skinny.h"
#include "../dense_sm80/gemm.h"
#include "mma_8bit.h"

#if __CUDA_ARCH__ >= 900
KERNEL(384, 1) gemm16(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 16, 11, false, 1>(p); }
KERNEL(384, 1) gemm32(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 32, 9, false, 1>(p); }
KERNEL(384, 1) gemm64(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 64, 8, false, 1>(p); }
KERNEL(384, 1) gemm128(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 128, 6, false, 1>(p); }
KERNEL(384, 1) gemm256(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 256, 4, false, 1>(p); }
KERNEL(384, 1) gemm_cluster128(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 128, 6, false, 2>(p); }
KERNEL(384, 1) gemm_cluster256(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 256, 4, false, 2>(p); }
KERNEL(384, 1) gated16(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 16, 11, true, 1>(p); }
KERNEL(384, 1) gated32(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 32, 9, true, 1>(p); }
KERNEL(384, 1) gated64(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 64, 8, true, 1>(p); }
KERNEL(384, 1) gated128(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 128, 6, true, 1>(p); }
KERNEL(384, 1) gated256(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 256, 4, true, 1>(p); }
KERNEL(384, 1) gated_cluster128(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 128, 6, true, 2>(p); }
KERNEL(384, 1) gated_cluster256(PARAM dense_sm90::GemmParams p) { dense_sm90::gemm<WGMMA, 256, 4, true, 2>(p); }
#endif

KERNEL(256, 3) skinny8(PARAM skinny_gemm::SkinnyParams p) { skinny_gemm::skinny<MMA, 8, 1, 1, false>(p); }
KERNEL(512, 1) skinny8_few(PARAM skinny_gemm::SkinnyParams p) { skinny_gemm::skinny<MMA, 16, 1, 1, false>(p); }
KERNEL(256, 2) skinny16(PARAM skinny_gemm::SkinnyParams p) { skinny_gemm::skinny<MMA, 8, 2, 2, false>(p); }
KERNEL(256, 2) skinny8_gated(PARAM skinny_gemm::SkinnyParams p) { skinny_gemm::skinny<MMA, 8, 1, 2, true>(p); }
KERNEL(256, 2) gemm_mma_sync(PARAM dense_sm80::GemmParams p) { dense_sm80::tile<MMA>(p); }
