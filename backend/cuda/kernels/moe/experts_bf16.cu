// The kernels for experts in BF16.
#include "../slab/unit.h"
#define FORMAT Sixteen
#include "kernels.h"
