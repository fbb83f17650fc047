// The kernels for experts in Q8_0.
#include "../gemm/packed/unit.h"
#define FORMAT Eight
#include "packed.h"
