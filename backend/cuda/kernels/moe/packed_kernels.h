// Every kernel of a format of whole numbers with scales.
#include "kernels.h"
#include "grouped_gemv.h"

KERNEL((GEMV_WARPS * 32), 1) few_gated(PARAM GroupedGemvParams p) { groupedGemv<FORMAT, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) few_down(PARAM GroupedGemvParams p) { groupedGemv<FORMAT, false>(p); }
