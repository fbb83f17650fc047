// The kernels for experts in Q6_K.
#include "../gemm/packed/formats.h"
#define FORMAT U6
#include "packed_kernels.h"
