// The kernels for experts in BF16.
#include "../gemm/packed/unit.h"
#define FORMAT Sixteen
#include "kernels.h"
