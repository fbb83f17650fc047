// The kernels for Q4_0.
#define FORMAT U4
#include "kernels.h"
