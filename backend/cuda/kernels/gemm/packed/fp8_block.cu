// The kernels for FP8 in blocks with a scale each.
#define FORMAT E4M3
#define FLOAT_CODES
#include "kernels.h"
