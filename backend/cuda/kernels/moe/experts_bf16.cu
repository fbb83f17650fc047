// The kernels for experts in BF16.
#include "../gemm/packed/formats.h"
#define FORMAT Bf16Weights
#include "kernels.h"
