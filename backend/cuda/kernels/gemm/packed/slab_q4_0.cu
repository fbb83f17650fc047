// The kernels for Q4_0.
#define FORMAT FourPlain
#include "kernels.h"
