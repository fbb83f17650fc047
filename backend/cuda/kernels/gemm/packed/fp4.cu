// The kernels for bitsandbytes' FP4.
#define FORMAT FP4
#define FLOAT_CODES
#include "kernels.h"
