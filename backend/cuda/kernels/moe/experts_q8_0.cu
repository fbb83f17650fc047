// The kernels for experts in Q8_0.
#include "../slab/unit.h"
#define FORMAT Eight
#include "packed.h"
