// The kernels for experts in Q4_0.
#include "../gemm/packed/formats.h"
#define FORMAT U4
#include "packed_kernels.h"
