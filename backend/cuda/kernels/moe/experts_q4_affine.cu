// The kernels for experts in Q4_1, Q4_K and, with another floor, Q4_0.
#include "../slab/unit.h"
#include "../slab/wide.h"
#define FORMAT Four
#include "kernels.h"
