// The kernels for INT4.
#define FORMAT U4PerUnit
#include "kernels.h"
