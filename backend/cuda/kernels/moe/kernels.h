// The expert kernels of a format. Each format's .cu file includes this with FORMAT defined. The numbers in names are the most slots of a job.
#include "single_row.h"
#include "grouped_gemm_sm90.h"

// Blocks per multiprocessor, by registers, of gated jobs of 8 and of 16 slots.
constexpr int GATED8 = FORMAT::BYTES <= 640 ? 4 : 3, GATED16 = FORMAT::BYTES <= 1088 ? 3 : 2;
KERNEL(128, GATED8) gated8(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 1, true>(p); }
KERNEL(128, GATED16) gated16(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 2, true>(p); }
KERNEL(128, 2) gated32(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 4, true>(p); }
KERNEL(128, 4) down8(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 1, false>(p); }
KERNEL(128, 4) down16(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 2, false>(p); }
KERNEL(128, 3) down32(PARAM GroupedGemmParams p) { groupedGemm<FORMAT, 4, false>(p); }
KERNEL(256, QUANTISED<FORMAT> ? 2 : 1) single_row_gated(PARAM SingleRowParams p) { singleRow<FORMAT, true>(p); }
KERNEL(512, 1) single_row_down(PARAM SingleRowParams p) { singleRow<FORMAT, false>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL(384, 1) gated256(PARAM GroupedGemmSm90Params p) { groupedGemmSm90<FORMAT, true>(p); }
KERNEL(384, 1) down256(PARAM GroupedGemmSm90Params p) { groupedGemmSm90<FORMAT, false>(p); }
#endif
