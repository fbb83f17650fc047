// Skinny GEMM in bf16 of rows with LoRA adapters; see adapted.h.
#include "adapted.h"
using namespace skinny_gemm;

KERNEL(256, 3) adapted8(PARAM AdaptedParams p) { adapted<8, false>(p); }
KERNEL(512, 1) adapted8_few(PARAM AdaptedParams p) { adapted<16, false>(p); }
KERNEL(256, 2) adapted8_gated(PARAM AdaptedParams p) { adapted<8, true>(p); }
