// The linear layer in signed bytes.
#define WGMMA I8
#define MMA I8
#include "../narrow/products.h"
