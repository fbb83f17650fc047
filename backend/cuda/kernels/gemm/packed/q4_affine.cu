// The kernels for Q4_1, Q4_K and other formats of four bits with scale and floor.
#define FORMAT U4Affine
#include "kernels.h"
