// Skinny GEMM in bf16; see skinny.h.
#include "skinny.h"
using namespace skinny_gemm;

KERNEL(256, 3) skinny8(PARAM SkinnyParams p) { skinny<MmaBf16, 8, 1, 1, false>(p); }
KERNEL(512, 1) skinny8_few(PARAM SkinnyParams p) { skinny<MmaBf16, 16, 1, 1, false>(p); }
KERNEL(256, 2) skinny16(PARAM SkinnyParams p) { skinny<MmaBf16, 8, 2, 2, false>(p); }
KERNEL(256, 2) skinny8_gated(PARAM SkinnyParams p) { skinny<MmaBf16, 8, 1, 2, true>(p); }
