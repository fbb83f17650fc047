// The kernels for Q6_K.
#define FORMAT U6
#include "kernels.h"
