// The linear layer for many rows in bf16; see tile.h.
#include "tile.h"
using namespace tiled;

KERNEL(256, 2) tile(PARAM TileParams p) { tile<Bf16>(p); }
