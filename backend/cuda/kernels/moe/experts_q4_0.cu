// The kernels for experts in Q4_0.
#include "../slab/unit.h"
#define FORMAT FourPlain
#include "packed.h"
