// The kernels for experts in Q6_K.
#include "../gemm/packed/unit.h"
#define FORMAT Six
#include "packed.h"
