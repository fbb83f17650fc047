// The kernels for experts in Q8_0.
#include "../gemm/packed/formats.h"
#define FORMAT U8
#include "packed_kernels.h"
