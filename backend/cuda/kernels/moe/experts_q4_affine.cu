// The kernels for experts in Q4_1 and Q4_K.
#include "../gemm/packed/formats.h"
#define FORMAT U4Affine
#include "packed_kernels.h"
