// The kernels for NVFP4.
#define FORMAT E2M1By16
#include "kernels.h"
