// 8-bit GEMM of INT8.
#define WGMMA MmaI8
#define MMA MmaI8
#include "w8a8.h"
