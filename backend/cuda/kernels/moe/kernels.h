// Every kernel of a format. A .cu file of each includes this with FORMAT defined. The numbers are how many slots a job may have.
#include "single.h"
#include "wide.h"

// A multiprocessor has registers for so many blocks of gated jobs of 8 and of 16 slots.
constexpr int GATED8 = FORMAT::BYTES <= 640 ? 4 : 3, GATED16 = FORMAT::BYTES <= 1088 ? 3 : 2;
KERNEL(128, GATED8) gated8(PARAM ExpertsParams p) { experts<FORMAT, 1, true>(p); }
KERNEL(128, GATED16) gated16(PARAM ExpertsParams p) { experts<FORMAT, 2, true>(p); }
KERNEL(128, 2) gated32(PARAM ExpertsParams p) { experts<FORMAT, 4, true>(p); }
KERNEL(128, 4) one8(PARAM ExpertsParams p) { experts<FORMAT, 1, false>(p); }
KERNEL(128, 4) one16(PARAM ExpertsParams p) { experts<FORMAT, 2, false>(p); }
KERNEL(128, 3) one32(PARAM ExpertsParams p) { experts<FORMAT, 4, false>(p); }
KERNEL(256, OPENED<FORMAT> ? 2 : 1) single_gated(PARAM SingleParams p) { single<FORMAT, true>(p); }
KERNEL(512, 1) single_down(PARAM SingleParams p) { single<FORMAT, false>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL(384, 1) gated256(PARAM WideExpertsParams p) { wideExperts<FORMAT, true>(p); }
KERNEL(384, 1) one256(PARAM WideExpertsParams p) { wideExperts<FORMAT, false>(p); }
#endif
