// The kernels for 2:4 sparse numbers.
#define FORMAT Sparse24
#define FLOAT_CODES
#include "kernels.h"
