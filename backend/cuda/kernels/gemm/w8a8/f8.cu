// The linear layer in e4m3.
#define WGMMA F8
#define MMA F8Opened
#include "w8a8.h"
