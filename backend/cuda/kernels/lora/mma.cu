// LoRA adapters on the tensor cores: rows in bf16, up to 16 of one adapter a tile, for decoding (BGMV) and prompts (SGMV) alike. The order of k is that in
// which lanes load 16 bytes: it may be any, if it is the same for both operands.
#include "params.h"

constexpr int WARPS = 8, GROUP = 16; // GROUP: ranks of one pass

// hidden is h of a row of the block's tile: the sum of its splits, whose loads are in flight together.
DEVICE float hidden(const LoraParams& p, int row, int target, int rank) {
  const float* h = p.h + ((long)blockX() * TILE_ROWS + row) * p.targets * p.rank + (long)target * p.rank + rank;
  long next = (long)gridX() * TILE_ROWS * p.targets * p.rank;
  float part[MAX_SPLITS], sum = 0;
  UNROLL for (int z = 0; z < MAX_SPLITS; z++) {
    part[z] = 0;
    if (z < p.splits) part[z] = h[z * next];
  }
  UNROLL for (int z = 0; z < MAX_SPLITS; z++) sum += part[z];
  return sum;
}

// loadRow loads 16 bytes that are read once.
DEVICE Vec16 loadRow(const bf16* p, bool valid) {
  if (valid) return loadNoAllocate(p);
  return Vec16{};
}

DEVICE Vec16 loadX(const bf16* p, bool valid) {
  if (valid) return *(const Vec16*)p;
  return Vec16{};
}

// Shrunk is what a thread of a block has of h, over the block's part of the columns of A: a number of a row and a rank, if it is there.
struct Shrunk {
  LoraSlot slot;
  const int* tile;
  int target, pass, row, rank;
  bool there;
  float sum;
};

// shrink is h = A x. A block takes a tile, 16 ranks of one target (a pass) and a part of the columns of A; its warps take 32 columns each by turns. Without ranks
// for the block it is false.
DEVICE bool shrink(const LoraParams& p, Shrunk& is) {
  constexpr int AHEAD = 4; // chunks of 32 columns whose loads are in flight together
  SHARED static float sums[WARPS][TILE_ROWS][GROUP];
  launchDependents();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], passes = ceilDiv(p.rank, GROUP), target = blockY() / passes, pass = blockY() % passes, first = pass * GROUP;
  LoraSlot s = {};
  if (count > 0) s = p.slots[target][tile[0]];
  if (first >= s.rank) { // the next launch waits for this one alone
    gridDependencyWait();
    return false;
  }
  bool second = first + 8 < s.rank;
  int g = lane() / 4, t = lane() % 4, chunks = p.in / 32;
  int chunk = chunks * blockZ() / p.splits + warp(), end = chunks * (blockZ() + 1) / p.splits;
  const bf16* a = (const bf16*)s.a + (long)(first + g) * p.in + 8 * t;
  const bf16* x = (const bf16*)p.x + 8 * t;
  const int* rows = p.rows + tile[1];
  long low = g < count ? (long)rows[g] * p.in : 0, high = g + 8 < count ? (long)rows[g + 8] * p.in : 0;
  Vec16 a0[AHEAD], a1[AHEAD];
  UNROLL for (int i = 0; i < AHEAD; i++) { // adapters do not depend on the launch before
    int k = 32 * (chunk + WARPS * i);
    bool valid = k < 32 * end;
    a0[i] = loadRow(a + k, valid);
    a1[i] = loadRow(a + 8 * (long)p.in + k, valid && second);
  }
  gridDependencyWait();
  float d0[4] = {}, d1[4] = {};
  for (;;) {
    Vec16 x0[AHEAD], x1[AHEAD];
    UNROLL for (int i = 0; i < AHEAD; i++) {
      int k = 32 * (chunk + WARPS * i);
      bool valid = k < 32 * end;
      x0[i] = loadX(x + low + k, valid && g < count);
      x1[i] = loadX(x + high + k, valid && g + 8 < count);
    }
    UNROLL for (int i = 0; i < AHEAD; i++) {
      mma(d0, x0[i].x[0], x1[i].x[0], x0[i].x[1], x1[i].x[1], a0[i].x[0], a0[i].x[1]);
      mma(d0, x0[i].x[2], x1[i].x[2], x0[i].x[3], x1[i].x[3], a0[i].x[2], a0[i].x[3]);
      if (second) {
        mma(d1, x0[i].x[0], x1[i].x[0], x0[i].x[1], x1[i].x[1], a1[i].x[0], a1[i].x[1]);
        mma(d1, x0[i].x[2], x1[i].x[2], x0[i].x[3], x1[i].x[3], a1[i].x[2], a1[i].x[3]);
      }
    }
    chunk += WARPS * AHEAD;
    if (!anySync(chunk < end)) break;
    UNROLL for (int i = 0; i < AHEAD; i++) {
      int k = 32 * (chunk + WARPS * i);
      bool valid = k < 32 * end;
      a0[i] = loadRow(a + k, valid);
      a1[i] = loadRow(a + 8 * (long)p.in + k, valid && second);
    }
  }
  UNROLL for (int e = 0; e < 4; e++) {
    int row = g + 8 * (e / 2), j = 2 * t + e % 2;
    sums[warp()][row][j] = d0[e];
    sums[warp()][row][8 + j] = d1[e];
  }
  barrier();
  int row = threadX() / GROUP, j = threadX() % GROUP; // as many threads as numbers
  is = {s, tile, target, pass, row, first + j, row < count && first + j < s.rank, 0};
  UNROLL for (int w = 0; w < WARPS; w++) is.sum += sums[w][row][j];
  return true;
}

// lora_shrink_mma stores h, each part of the columns by itself.
KERNEL(256, 1) lora_shrink_mma(PARAM LoraParams p) {
  Shrunk is;
  if (!shrink(p, is) || !is.there) return;
  p.h[(((long)blockZ() * gridX() + blockX()) * TILE_ROWS + is.row) * p.targets * p.rank + (long)is.target * p.rank + is.rank] = is.sum;
}

// addSplits has the last of the blocks that share the columns of A add up what all have; for the others it is false.
DEVICE bool addSplits(const LoraParams& p, int* arrived, Shrunk& is) {
  SHARED static int before;
  int block = blockY() * gridX() + blockX(), splits = p.splits;
  if (splits == 1) return true;
  float* h = p.h + (long)block * splits * 256 + threadX();
  h[blockZ() * 256] = is.sum;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  barrier();
  if (threadX() == 0) asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived + block) : "memory");
  barrier();
  if (before + 1 < splits) return false;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (threadX() == 0) arrived[block] = 0;
  float part[MAX_SPLITS];
  UNROLL for (int z = 0; z < MAX_SPLITS; z++) {
    part[z] = 0;
    if (z < splits) asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(part[z]) : "l"(h + z * 256) : "memory");
  }
  is.sum = 0;
  UNROLL for (int z = 0; z < MAX_SPLITS; z++) is.sum += part[z];
  return true;
}

// lora_planes_mma stores h, times the scales, in bf16 as dense_sm90/adapter_steps.h reads it: each slot's rows in a plane of their own.
KERNEL(256, 1) lora_planes_mma(PARAM PlanesParams p) {
  Shrunk is;
  if (!shrink(p.lora, is) || !addSplits(p.lora, p.arrived, is)) return;
  if (!is.there) return;
  int at = is.tile[1] + is.row;
  int unit = (is.tile[3] * p.passes + is.pass) * p.sides + is.target % p.sides;
  long step = (long)(is.target / p.sides) * p.steps + unit / 4;
  ((bf16*)p.planes)[(step * p.rows + p.lora.rows[at]) * 64 + unit % 4 * GROUP + is.rank % GROUP] = fromFloat<bf16>(is.sum * is.slot.scale * p.lora.scales[at]);
}

// lora_tiles_mma stores h, times the scales, in bf16 as dense_sm90/adapter_tiles.h reads it: of each tile its window of 16 rows, 0 in those that are not the
// tile's, and of ranks that its adapter has not.
KERNEL(256, 1) lora_tiles_mma(PARAM TilesParams p) {
  alignas(16) SHARED bf16 window[TILE_ROWS][GROUP];
  Shrunk is = {};
  bool ranks = shrink(p.lora, is);
  int passes = ceilDiv(p.lora.rank, GROUP), target = blockY() / passes, pass = blockY() % passes;
  const int* tile = p.lora.tiles + 4 * blockX();
  if (tile[2] == 0) return;
  if (ranks ? !addSplits(p.lora, p.arrived, is) : blockZ() > 0) return;
  ((bf16*)window)[threadX()] = fromFloat<bf16>(0);
  barrier();
  if (ranks && is.there) {
    int at = tile[1] + is.row;
    window[p.lora.rows[at] % TILE_ROWS][is.rank % GROUP] = fromFloat<bf16>(is.sum * is.slot.scale * p.lora.scales[at]);
  }
  barrier();
  Vec16* to = (Vec16*)p.h + (((long)target * p.passes + pass) * p.room + blockX()) * (TILE_ROWS * GROUP / 8);
  if (threadX() < TILE_ROWS * GROUP / 8) to[threadX()] = ((const Vec16*)window)[threadX()];
}

// lora_clear empties planes: n times 16 bytes.
struct ClearParams {
  Vec16* at;
  long n;
};
KERNEL(256, 1) lora_clear(PARAM ClearParams p) {
  launchDependentsAndWait();
  for (long i = blockX() * threads() + threadX(); i < p.n; i += (long)gridX() * threads()) p.at[i] = Vec16{};
}

// addRows is y += by × (scale × sum + column × y + bias) for eight columns of a row.
DEVICE void addRows(const LoraSlot& s, bf16* y, int column, float by, const float (&sum)[8]) {
  Vec16 v = *(const Vec16*)y;
  UNROLL for (int i = 0; i < 4; i++) {
    float out[2];
    UNROLL for (int e = 0; e < 2; e++) {
      int c = column + 2 * i + e;
      float was = e ? high(v.x[i]) : low(v.x[i]), add = sum[2 * i + e];
      if (s.bias) add += s.bias[c];
      if (s.columns) add += (s.columns[c] - 1) * was;
      out[e] = was + by * add;
    }
    v.x[i] = pack(out[0], out[1]);
  }
  *(Vec16*)y = v;
}

// lora_expand_mma is y += by × (scale × B h + (columns - 1) y + bias). A block takes a tile and columns of a target, a warp 32 of them by turns: lane 4g + t has
// columns 8t to 8t + 7 of rows g and g + 8. h is two bf16 for each number, so that nothing of it is lost.
KERNEL(256, 1) lora_expand_mma(PARAM LoraParams p) {
  SHARED u32 first[TILE_ROWS][MAX_RANK / 2 + 4], rest[TILE_ROWS][MAX_RANK / 2 + 4];
  launchDependents();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], target = blockZ(), out = p.out[target];
  LoraSlot s = {};
  if (count > 0) s = p.slots[target][tile[0]];
  if (s.rank == 0 && !s.columns && !s.bias) return gridDependencyWait();
  const int* rows = p.rows + tile[1];
  int g = lane() / 4, t = lane() % 4;
  int column = 32 * (blockY() * WARPS + warp()), step = 32 * WARPS * gridY();
  int mine = 8 * (g / 2) + g % 2; // of the columns of an operand: + 2 × its number
  const bf16* b = (const bf16*)s.b;
  // What a lane has of 16 ranks of four operands; those of the first columns do not depend on the launch before.
  u64 part[4];
  UNROLL for (int j = 0; j < 4; j++) {
    int c = column + mine + 2 * j;
    part[j] = 0;
    if (s.rank >= 16 && c < out) part[j] = *(const u64*)(b + bAt(out, c, 4 * t));
  }
  gridDependencyWait();
  for (int i = threadX(); i < TILE_ROWS * s.rank / 2; i += threads()) {
    int row = i / (s.rank / 2), j = i % (s.rank / 2) * 2;
    float sum[2] = {};
    if (row < count) sum[0] = hidden(p, row, target, j), sum[1] = hidden(p, row, target, j + 1);
    sum[0] *= s.scale, sum[1] *= s.scale;
    u32 near = pack(sum[0], sum[1]);
    first[row][j / 2] = near;
    rest[row][j / 2] = pack(sum[0] - low(near), sum[1] - high(near));
  }
  barrier();
  float byLow = g < count ? p.scales[tile[1] + g] : 0, byHigh = g + 8 < count ? p.scales[tile[1] + g + 8] : 0;
  for (; column < out; column += step) {
    float d[4][4] = {};
    int k = 0;
    for (; k + 16 <= s.rank; k += 16) {
      int at = k / 2 + 2 * t;
      UNROLL for (int j = 0; j < 4; j++) {
        u32 b0 = (u32)part[j], b1 = (u32)(part[j] >> 32);
        mma(d[j], first[g][at], first[g + 8][at], first[g][at + 1], first[g + 8][at + 1], b0, b1);
        mma(d[j], rest[g][at], rest[g + 8][at], rest[g][at + 1], rest[g + 8][at + 1], b0, b1);
        int c = column + mine + 2 * j, next = k + 16;
        if (next + 16 > s.rank) c += step, next = 0;
        part[j] = 0;
        if (c < out) part[j] = *(const u64*)(b + bAt(out, c, next + 4 * t));
      }
    }
    if (k < s.rank) {
      int at = k / 2 + t;
      UNROLL for (int j = 0; j < 4; j++) {
        int c = column + mine + 2 * j;
        u32 b0 = c < out ? *(const u32*)(b + bAt(out, c, k + 2 * t)) : 0;
        mma(d[j], first[g][at], first[g + 8][at], 0, 0, b0, 0);
        mma(d[j], rest[g][at], rest[g + 8][at], 0, 0, b0, 0);
      }
    }
    int c = column + 8 * t;
    if (c >= out) continue;
    float sum[8];
    UNROLL for (int j = 0; j < 4; j++) sum[2 * j] = d[j][0], sum[2 * j + 1] = d[j][1];
    if (g < count) addRows(s, (bf16*)p.y[target] + (long)rows[g] * out + c, c, byLow, sum);
    UNROLL for (int j = 0; j < 4; j++) sum[2 * j] = d[j][2], sum[2 * j + 1] = d[j][3];
    if (g + 8 < count) addRows(s, (bf16*)p.y[target] + (long)rows[g + 8] * out + c, c, byHigh, sum);
  }
}

// lora_delta_mma is y = by × scale × B h, for a product that adds it in its epilogue; of a matrix that the adapter leaves alone it is 0. Blocks and lanes
// are as in lora_expand_mma. A unit is 16 ranks of 32 columns; those of several units are on their way at once.
KERNEL(256, 3) lora_delta_mma(PARAM LoraParams p) {
  constexpr int AHEAD = 4;
  SHARED u32 first[TILE_ROWS][DELTA_RANK / 2 + 4], rest[TILE_ROWS][DELTA_RANK / 2 + 4];
  launchDependents();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], target = blockZ(), out = p.out[target];
  if (count == 0) return gridDependencyWait();
  LoraSlot s = p.slots[target][tile[0]];
  const int* rows = p.rows + tile[1];
  int g = lane() / 4, t = lane() % 4;
  int column = 32 * (blockY() * WARPS + warp()), step = 32 * WARPS * gridY(), passes = maxi(1, ceilDiv(s.rank, 16));
  int units = column < out ? ceilDiv(out - column, step) * passes : 0;
  int mine = 8 * (g / 2) + g % 2; // of the columns of an operand: + 2 × its number
  u64 part[AHEAD][4] = {};
  int nextColumn = column, nextK = 0;
  auto load = [&](int i) __attribute__((always_inline)) { // what lies beyond the last column is not stored
    if (s.rank > 0) UNROLL for (int j = 0; j < 4; j++)
      part[i][j] = *(const u64*)((const bf16*)s.b + bAt(out, mini(nextColumn + mine + 2 * j, out - 1), nextK + 4 * t));
    if ((nextK += 16) >= 16 * passes) nextColumn += step, nextK = 0;
  };
  UNROLL for (int i = 0; i < AHEAD; i++) load(i); // adapters do not depend on the launch before
  gridDependencyWait();
  for (int i = threadX(); i < TILE_ROWS * 8 * passes; i += threads()) {
    int row = i / (8 * passes), j = i % (8 * passes) * 2;
    float sum[2] = {};
    if (row < count && j < s.rank) sum[0] = s.scale * hidden(p, row, target, j), sum[1] = s.scale * hidden(p, row, target, j + 1);
    u32 near = pack(sum[0], sum[1]);
    first[row][j / 2] = near;
    rest[row][j / 2] = pack(sum[0] - low(near), sum[1] - high(near));
  }
  barrier();
  float byLow = g < count ? p.scales[tile[1] + g] : 0, byHigh = g + 8 < count ? p.scales[tile[1] + g + 8] : 0;
  bf16 *yLow = (bf16*)p.y[target] + (g < count ? (long)rows[g] * out : 0), *yHigh = (bf16*)p.y[target] + (g + 8 < count ? (long)rows[g + 8] * out : 0);
  float d[4][4] = {};
  int k = 0;
  for (int unit = 0; unit < units; unit += AHEAD) UNROLL for (int i = 0; i < AHEAD; i++) {
    if (unit + i >= units) break;
    int at = k / 2 + 2 * t;
    UNROLL for (int j = 0; j < 4; j++) {
      u32 b0 = (u32)part[i][j], b1 = (u32)(part[i][j] >> 32);
      mma(d[j], first[g][at], first[g + 8][at], first[g][at + 1], first[g + 8][at + 1], b0, b1);
      mma(d[j], rest[g][at], rest[g + 8][at], rest[g][at + 1], rest[g + 8][at + 1], b0, b1);
    }
    load(i);
    if ((k += 16) < 16 * passes) continue;
    int c = column + 8 * t;
    Vec16 v[2];
    UNROLL for (int j = 0; j < 4; j++) v[0].x[j] = pack(byLow * d[j][0], byLow * d[j][1]), v[1].x[j] = pack(byHigh * d[j][2], byHigh * d[j][3]);
    if (c < out && g < count) *(Vec16*)(yLow + c) = v[0];
    if (c < out && g + 8 < count) *(Vec16*)(yHigh + c) = v[1];
    UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++) d[j][e] = 0;
    column += step, k = 0;
  }
}
