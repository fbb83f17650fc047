// The kernels for experts in MXFP4.
#include "../slab/unit.h"
#include "../slab/wide.h"
#define FORMAT Float4
#include "kernels.h"
