// The kernels for experts in Q4_0.
#include "../gemm/packed/unit.h"
#define FORMAT FourPlain
#include "packed.h"
