// The linear layer in signed bytes.
#define WGMMA I8
#define MMA I8
#include "w8a8.h"
