// Scores of an indexer's keys (graph.TopKeys): Σ over heads of w × max(0, q · k). indexScores takes any types, a thread a key. indexScoresMma has the
// products from the tensor cores, with the heads of a row as M and keys as N: a warp holds 32 keys in registers and goes through the heads 16 at a time.
#include "indexer.h"

constexpr int THREADS = 128, MAX_SIZE = 256;
constexpr float UNSEEN = -__builtin_inff(); // the score of a key of a token tree that the row does not descend from

template <typename T, typename C> DEVICE void indexScores(const TopKeysParams& p) {
  SHARED static float q[MAX_SIZE];
  launchDependentsAndWait();
  IndexRow r(p, blockY());
  if (r.all(p) || blockX() * THREADS >= r.end) return;
  int key = blockX() * THREADS + threadX(), in = key & ((1 << p.step.pageShift) - 1);
  bool mine = key < r.end;
  u8* page = mine ? r.page(p, key, p.size * (int)sizeof(C) + SCALE_BYTES<C>) : p.cache;
  const C* k = (const C*)page + (long)(mine ? in : 0) * p.size;
  float unit = 1, score = 0;
  if (SCALE_BYTES<C> && mine) unit = ((float*)(page + ((long)p.size << p.step.pageShift)))[in];
  for (int h = 0; h < p.heads; h++) {
    barrier(); // the head before has been read
    for (int i = threadX(); i < p.size; i += THREADS) q[i] = toFloat(((const T*)p.q)[((long)r.row * p.heads + h) * p.size + i]);
    barrier();
    float dot = 0;
    for (int i = 0; i < p.size; i++) dot += q[i] * toFloat(k[i]);
    score += toFloat(((const T*)p.w)[(long)r.row * p.heads + h]) * maxf(0, dot * unit);
  }
  if (mine) r.scores[key] = r.sees(key) ? score : UNSEEN;
}
#define INDEX_SCORES(T, C) \
  KERNEL(128, 1) index_scores_##T##_##C(PARAM TopKeysParams p) { indexScores<T, C>(p); }
typedef float f32;
INDEX_SCORES(f32, f32)
INDEX_SCORES(f32, f16)
INDEX_SCORES(f32, bf16)
INDEX_SCORES(f32, i8)
INDEX_SCORES(f32, f8)
INDEX_SCORES(bf16, f32)
INDEX_SCORES(bf16, f16)
INDEX_SCORES(bf16, bf16)
INDEX_SCORES(bf16, i8)
INDEX_SCORES(bf16, f8)

// A warp's tile: KEYS keys, in tiles of 8 columns of an mma; heads have 32 × BLOCKS numbers.
constexpr int KEYS = 32, TILES = KEYS / 8;

// Operands of k16 are taken from a row eight numbers at a time: those of lane t are 8t to 8t+7 of each 32, on both sides, so that a load has 16 bytes
// and two products take it. What an mma adds up in which place makes no difference.
template <int BLOCKS> DEVICE void indexScoresMma(const TopKeysParams& p) {
  launchDependentsAndWait();
  IndexRow r(p, blockY());
  int first = (blockX() * (THREADS / 32) + warp()) * KEYS, g = lane() / 4, t = lane() % 4;
  if (r.all(p) || first >= r.end) return;
  Vec16 key[TILES][BLOCKS];
  UNROLL for (int n = 0; n < TILES; n++) {
    int k = mini(first + 8 * n + g, r.end - 1);
    const u8* at = r.page(p, k, 2 * p.size) + (k & ((1 << p.step.pageShift) - 1)) * 2 * p.size + 16 * t;
    UNROLL for (int b = 0; b < BLOCKS; b++) key[n][b] = *(const Vec16*)(at + 64 * b);
  }
  float sum[TILES][2] = {};
  const u8* q = (const u8*)p.q + (long)r.row * p.heads * p.size * 2 + 16 * t;
  const bf16* w = (const bf16*)p.w + (long)r.row * p.heads;
  for (int h = 0; h < p.heads; h += 16) {
    float weight[2], dot[TILES][4] = {};
    Vec16 query[2][BLOCKS];
    UNROLL for (int i = 0; i < 2; i++) {
      int head = h + g + 8 * i;
      weight[i] = head < p.heads ? toFloat(w[head]) : 0;
      UNROLL for (int b = 0; b < BLOCKS; b++) query[i][b] = head < p.heads ? *(const Vec16*)(q + (long)head * p.size * 2 + 64 * b) : Vec16{};
    }
    UNROLL for (int b = 0; b < BLOCKS; b++) UNROLL for (int i = 0; i < 4; i += 2) UNROLL for (int n = 0; n < TILES; n++)
      mma(dot[n], query[0][b].x[i], query[1][b].x[i], query[0][b].x[i + 1], query[1][b].x[i + 1], key[n][b].x[i], key[n][b].x[i + 1]);
    UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 4; e++) sum[n][e % 2] += weight[e / 2] * maxf(0, dot[n][e]);
  }
  UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int e = 0; e < 2; e++) {
    UNROLL for (int m = 4; m < 32; m *= 2) sum[n][e] += shuffleXor(sum[n][e], m); // the heads lie in eight lanes
    int k = first + 8 * n + 2 * t + e;
    if (g == 0 && k < r.end) r.scores[k] = r.sees(k) ? sum[n][e] : UNSEEN;
  }
}
KERNEL(128, 1) index_scores_mma_32(PARAM TopKeysParams p) { indexScoresMma<1>(p); }
KERNEL(128, 1) index_scores_mma_64(PARAM TopKeysParams p) { indexScoresMma<2>(p); }
KERNEL(128, 1) index_scores_mma_128(PARAM TopKeysParams p) { indexScoresMma<4>(p); }
