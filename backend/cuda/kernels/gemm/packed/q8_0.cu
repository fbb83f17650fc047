// The kernels for Q8_0.
#define FORMAT U8
#include "kernels.h"
