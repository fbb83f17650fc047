// Every kernel of a format of whole numbers with scales.
#include "kernels.h"
#include "few.h"

KERNEL((FEW_WARPS * 32), 1) few_gated(PARAM FewExpertsParams p) { fewExperts<FORMAT, true>(p); }
KERNEL((FEW_WARPS * 32), 1) few_down(PARAM FewExpertsParams p) { fewExperts<FORMAT, false>(p); }
