// The kernels for formats that are taken apart to bytes, with a scale for 16.
#define FORMAT U8By16
#include "kernels.h"
