// The kernels for experts in MXFP4.
#include "../slab/unit.h"
#define FORMAT Float4
#include "packed.h"
