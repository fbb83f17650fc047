// The kernels for experts in Q6_K.
#include "../slab/unit.h"
#define FORMAT Six
#include "packed.h"
