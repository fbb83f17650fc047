// LoRA adapters of rows (SGMV and, of single rows, BGMV; Chen et al., Punica, arXiv:2310.18547): rows of one adapter are grouped in tiles, and
// each adapter is computed with the rank that it has.
#include "params.h"

// dots adds to sum[e] what the lanes of a warp have of the products of w [n] with row e of x.
template <typename T> DEVICE void dots(float (&sum)[TILE_ROWS], const T* w, const T* x, const int* rows, int count, int n) {
  UNROLL for (int e = 0; e < TILE_ROWS; e++) sum[e] = 0;
  for (int k = lane(); k < n; k += 32) {
    float f = toFloat(w[k]);
    UNROLL for (int e = 0; e < TILE_ROWS; e++)
      if (e < count) sum[e] += f * toFloat(x[(long)rows[e] * n + k]);
  }
  UNROLL for (int e = 0; e < TILE_ROWS; e++) sum[e] = warpSum(sum[e]);
}

// shrink is h = A x. A block takes one tile and one target, a warp some ranks.
template <typename T> DEVICE void shrink(const LoraParams& p) {
  launchDependentsAndWait();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], target = blockY();
  if (count == 0) return;
  LoraSlot s = p.slots[target][tile[0]];
  const int* rows = p.rows + tile[1];
  for (int j = warp(); j < s.rank; j += threads() / 32) {
    float sum[TILE_ROWS];
    dots(sum, (const T*)s.a + (long)j * p.in, (const T*)p.x, rows, count, p.in);
    if (lane() == 0)
      for (int e = 0; e < count; e++) p.h[((long)(blockX() * TILE_ROWS + e) * p.targets + target) * p.rank + j] = sum[e];
  }
}
KERNEL(256, 1) lora_shrink_f32(PARAM LoraParams p) { shrink<float>(p); }
KERNEL(256, 1) lora_shrink_bf16(PARAM LoraParams p) { shrink<bf16>(p); }

// replace is y = rows × x for the rows of W that the adapter has of its own. A warp takes one.
template <typename T> DEVICE void replace(const LoraParams& p) {
  launchDependentsAndWait();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], target = blockZ(), i = blockY() * (threads() / 32) + warp();
  if (count == 0) return;
  LoraSlot s = p.slots[target][tile[0]];
  if (!s.rows || i >= s.count) return;
  const int* rows = p.rows + tile[1];
  float sum[TILE_ROWS];
  dots(sum, (const T*)s.rows + (long)i * p.in, (const T*)p.x, rows, count, p.in);
  int o = s.indices ? s.indices[i] : i;
  if (lane() == 0)
    for (int e = 0; e < count; e++) {
      T* y = (T*)p.y[target] + (long)rows[e] * p.out[target] + o;
      float was = toFloat(*y);
      *y = fromFloat<T>(was + p.scales[tile[1] + e] * (sum[e] - was));
    }
}
KERNEL(256, 1) lora_replace_f32(PARAM LoraParams p) { replace<float>(p); }
KERNEL(256, 1) lora_replace_bf16(PARAM LoraParams p) { replace<bf16>(p); }

// expand is y += by × (scale × B h + (columns - 1) y + bias), by that of the row. A block takes one tile and 256 columns of a target, a thread one column.
template <typename T> DEVICE void expand(const LoraParams& p) {
  SHARED float h[TILE_ROWS][MAX_RANK];
  launchDependentsAndWait();
  const int* tile = p.tiles + 4 * blockX();
  int count = tile[2], target = blockZ(), o = blockY() * threads() + threadX();
  if (count == 0) return;
  LoraSlot s = p.slots[target][tile[0]];
  if (s.rank == 0 && !s.columns && !s.bias) return;
  const int* rows = p.rows + tile[1];
  for (int i = threadX(); i < count * s.rank; i += threads())
    h[i / s.rank][i % s.rank] = s.scale * p.h[((long)(blockX() * TILE_ROWS + i / s.rank) * p.targets + target) * p.rank + i % s.rank];
  barrier();
  if (o >= p.out[target]) return;
  float sum[TILE_ROWS];
  float bias = s.bias ? s.bias[o] : 0, column = s.columns ? s.columns[o] - 1 : 0;
  UNROLL for (int e = 0; e < TILE_ROWS; e++) sum[e] = bias;
  const T* b = (const T*)s.b;
  for (int j = 0; j < s.rank; j++) {
    float f = toFloat(b[bAt(p.out[target], o, j)]);
    UNROLL for (int e = 0; e < TILE_ROWS; e++)
      if (e < count) sum[e] += f * h[e][j];
  }
  UNROLL for (int e = 0; e < TILE_ROWS; e++)
    if (e < count) {
      T* y = (T*)p.y[target] + (long)rows[e] * p.out[target] + o;
      float was = toFloat(*y);
      *y = fromFloat<T>(was + p.scales[tile[1] + e] * (sum[e] + column * was));
    }
}
KERNEL(256, 1) lora_expand_f32(PARAM LoraParams p) { expand<float>(p); }
KERNEL(256, 1) lora_expand_bf16(PARAM LoraParams p) { expand<bf16>(p); }

struct LoraEmbedParams {
  const int* tiles; // as in LoraParams
  const int* rows;
  const float* scales;
  const int* ids;      // [T] tokens
  const int* previous; // tokens that the previous step sampled; see EmbedParams of rows.cu
  const LoraSlot* slots;
  void* y; // [T, width]
  int width;
  float scale; // of embeddings
};

// A block takes one row of a tile.
template <typename T> DEVICE void embed(const LoraEmbedParams& p) {
  launchDependentsAndWait();
  const int* tile = p.tiles + 4 * blockX();
  int e = blockY();
  if (e >= tile[2]) return;
  LoraSlot s = p.slots[tile[0]];
  int row = p.rows[tile[1] + e];
  float by = p.scales[tile[1] + e];
  long id = p.ids[row];
  if (id < 0) id = p.previous[-1 - id];
  long at = -1;
  if (s.rows && !s.indices) at = id;
  if (s.rows && s.indices)
    for (int i = 0; i < s.count; i++)
      if (s.indices[i] == id) at = i;
  if (at < 0 && s.rank == 0) return;
  const T* a = (const T*)s.a + id * s.rank;
  for (int o = threadX(); o < p.width; o += threads()) {
    T* y = (T*)p.y + (long)row * p.width + o;
    float was = toFloat(*y), now = at < 0 ? was : p.scale * toFloat(((const T*)s.rows)[at * p.width + o]);
    float sum = 0;
    for (int j = 0; j < s.rank; j++) sum += toFloat(((const T*)s.b)[(long)o * s.rank + j]) * toFloat(a[j]);
    *y = fromFloat<T>(was + by * (now + p.scale * s.scale * sum - was));
  }
}
KERNEL(256, 1) lora_embed_f32(PARAM LoraEmbedParams p) { embed<float>(p); }
KERNEL(256, 1) lora_embed_bf16(PARAM LoraEmbedParams p) { embed<bf16>(p); }
