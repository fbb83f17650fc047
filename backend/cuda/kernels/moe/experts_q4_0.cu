// The kernels for experts in Q4_0.
#include "../slab/unit.h"
#include "../slab/wide.h"
#define FORMAT FourPlain
#include "kernels.h"
