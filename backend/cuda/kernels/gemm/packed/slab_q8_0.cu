// The kernels for Q8_0.
#define FORMAT Eight
#include "kernels.h"
