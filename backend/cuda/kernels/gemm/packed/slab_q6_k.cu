// The kernels for Q6_K.
#define FORMAT Six
#include "kernels.h"
