// Dense GEMM with mma.sync in bf16; see gemm.h.
#include "gemm.h"
using namespace dense_sm80;

KERNEL(256, 2) gemm_mma_sync(PARAM GemmParams p) { tile<MmaBf16>(p); }
