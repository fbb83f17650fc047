// 8-bit GEMM of E4M3.
#define WGMMA WgmmaF8
#define MMA MmaF8
#include "w8a8.h"
