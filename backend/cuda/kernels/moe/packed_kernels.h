// The expert kernels of a packed format.
#include "kernels.h"
#include "grouped_gemv.h"

KERNEL((GEMV_WARPS * 32), 1) gemv_gated(PARAM GroupedGemvParams p) { groupedGemv<FORMAT, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv_down(PARAM GroupedGemvParams p) { groupedGemv<FORMAT, false>(p); }
