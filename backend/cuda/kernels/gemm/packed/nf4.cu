// The kernels for NF4.
#define FORMAT NF4
#define FLOAT_CODES
#include "kernels.h"
