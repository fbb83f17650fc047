// The kernels for Q4_1, Q4_K and other formats of four bits with scale and floor.
#define FORMAT Four
#include "kernels.h"
