// The kernels for INT4.
#define FORMAT FourWhole
#include "kernels.h"
