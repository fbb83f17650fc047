// The linear layer for few rows in bf16; see skinny.h.
#include "skinny.h"
using namespace few;

KERNEL(256, 3) skinny8(PARAM SkinnyParams p) { skinny<Bf16, 8, 1, 1, false>(p); }
KERNEL(512, 1) skinny8_few(PARAM SkinnyParams p) { skinny<Bf16, 16, 1, 1, false>(p); }
KERNEL(256, 2) skinny16(PARAM SkinnyParams p) { skinny<Bf16, 8, 2, 2, false>(p); }
KERNEL(256, 2) skinny8_gated(PARAM SkinnyParams p) { skinny<Bf16, 8, 1, 2, true>(p); }
