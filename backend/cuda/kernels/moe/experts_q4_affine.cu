// The kernels for experts in Q4_1 and Q4_K.
#include "../gemm/packed/unit.h"
#define FORMAT Four
#include "packed.h"
