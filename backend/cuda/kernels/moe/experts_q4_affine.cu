// The kernels for experts in Q4_1 and Q4_K.
#include "../slab/unit.h"
#include "../slab/wide.h"
#define FORMAT Four
#include "kernels.h"
