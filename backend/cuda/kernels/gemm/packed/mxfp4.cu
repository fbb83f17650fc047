// The kernels for MXFP4.
#define FORMAT E2M1
#include "kernels.h"
