// The kernels for MXFP4.
#define FORMAT Float4
#include "kernels.h"
