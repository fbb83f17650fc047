// The linear layer whose weights stay quantised in memory: Q4_0 for 1 to 32 rows, at memory speed, and their decoding to
// bf16 for more. packed.go lays a weight out in units of 16 rows × 128 columns, each one contiguous piece: the codes in the order
// in which the lanes of a warp load them, 16 bytes at a time, then the scales.
//
// The codes are small integers, exact in bf16, so the tensor cores multiply codes, not numbers, and the scale of a block of 32
// goes on the float32 sum: nothing is rounded on the way. Lane t of a quad takes the eight codes 8t.. of every block; x is read
// alike, so mma's own order of k does not matter.
#include "../cuda.h"

struct PackedPart { // one weight; several that read the same x are one launch
  const u8* w;       // [ceil(n / 16)][ceil(k / 128)] units
  const float* bias; // [n] or null
  bf16* y;           // [m, n]
  int n;
};
struct PackedParams {
  const bf16* x; // [m, k]
  PackedPart part[3];
  int m, k, parts, fn; // fn: graph.Fn of a gated launch, whose parts are the gate and the up matrix
};

constexpr int COLUMNS = 128, BLOCKS = 4; // of a unit

// openFour turns eight codes of four bits into pairs of bf16. 128 + code is the code in the last bits of bf16's 128.
DEVICE void openFour(u32 v, u32 (&pairs)[4]) {
  UNROLL for (int i = 0; i < 4; i++)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pairs[i]) : "r"(((v >> (4 * i)) & 0x000f000f) | 0x43004300), "r"(0x3f803f80), "r"(0xc308c308));
}

// A format: VECTORS × 16 bytes of codes a lane for half a unit (8 rows), and how to open those of a block.
struct Q4 {
  static constexpr int VECTORS = 1;
  static DEVICE void open(const Vec16 (&v)[1], int block, u32 (&pairs)[4]) { openFour(v[0].x[block], pairs); }
};
// Unit is what a lane (g, t) holds of a unit: rows g and g + 8, columns 8t.. of each block.
template <typename Q> struct Unit {
  Vec16 codes[2][Q::VECTORS], scales; // scales: four of row g, four of row g + 8, as halves
  static constexpr int BYTES = Q::VECTORS * 1024 + 128;
  DEVICE void load(const u8* at) {
    UNROLL for (int half = 0; half < 2; half++) UNROLL for (int v = 0; v < Q::VECTORS; v++)
      codes[half][v] = loadStream(at + (half * Q::VECTORS + v) * 512 + lane() * 16);
    scales = loadStream(at + Q::VECTORS * 1024 + lane() / 4 * 16);
  }
  DEVICE float scale(int half, int block) const {
    return (float)__builtin_bit_cast(f16, (u16)(scales.x[half * 2 + block / 2] >> (block % 2 * 16)));
  }
};

DEVICE float gate(int fn, float x) {
  if (fn == 0) return x * reciprocal(1 + expf(-x));
  return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

// A block takes RT tiles of 16 rows of weights (GATED: tiles of the gate and of the up matrix by turns), its WARPS warps the k
// between them, DEEP units of loads in flight each. NT × 8 is the rows of x there is room for.
template <typename Q, int WARPS, int DEEP, int NT, int RT, bool GATED> DEVICE void packed(const PackedParams& p) {
  SHARED static float sums[WARPS][RT * NT * 128];
  releaseNext();
  constexpr int TILES = GATED ? RT / 2 : RT; // of a part
  int tile = blockX() * TILES, which = 0;
  if (!GATED)
    while (which + 1 < p.parts && tile >= ceilDiv(p.part[which].n, 16 * TILES) * TILES) tile -= ceilDiv(p.part[which++].n, 16 * TILES) * TILES;
  int g = lane() / 4, t = lane() % 4, n = p.part[which].n, units = ceilDiv(p.k, COLUMNS), last = ceilDiv(n, 16) - 1;

  const u8* w[RT];
  UNROLL for (int r = 0; r < RT; r++) {
    const u8* of = p.part[GATED ? r % 2 : which].w;
    w[r] = of + (long)mini(tile + (GATED ? r / 2 : r), last) * units * Unit<Q>::BYTES;
  }
  float acc[RT][NT][4] = {};
  Unit<Q> a[DEEP][RT];
  auto load = [&](int unit) {
    UNROLL for (int d = 0; d < DEEP; d++) UNROLL for (int r = 0; r < RT; r++)
      a[d][r].load(w[r] + (long)mini(unit + d * WARPS, units - 1) * Unit<Q>::BYTES);
  };
  int unit = warp();
  load(unit);
  awaitInput();
  for (; unit < units;) {
    UNROLL for (int d = 0; d < DEEP; d++) {
      UNROLL for (int block = 0; block < BLOCKS; block++) {
        int k = (unit + d * WARPS) * COLUMNS + block * 32 + t * 8; // past the end x counts as zero
        Vec16 b[NT];
        UNROLL for (int j = 0; j < NT; j++) {
          b[j] = Vec16{};
          if (j * 8 + g < p.m && k < p.k) b[j] = *(const Vec16*)(p.x + (long)(j * 8 + g) * p.k + k);
        }
        UNROLL for (int r = 0; r < RT; r++) {
          u32 top[4], bottom[4];
          Q::open(a[d][r].codes[0], block, top);
          Q::open(a[d][r].codes[1], block, bottom);
          float s0 = a[d][r].scale(0, block), s1 = a[d][r].scale(1, block);
          UNROLL for (int j = 0; j < NT; j++) {
            float sum[4] = {};
            mma(sum, top[0], bottom[0], top[1], bottom[1], b[j].x[0], b[j].x[1]);
            mma(sum, top[2], bottom[2], top[3], bottom[3], b[j].x[2], b[j].x[3]);
            UNROLL for (int i = 0; i < 4; i++) acc[r][j][i] += (i < 2 ? s0 : s1) * sum[i];
          }
        }
      }
    }
    unit += WARPS * DEEP;
    if (unit < units) load(unit);
  }

  // The warps' sums meet in shared memory, laid out [row of x][row of weights], and are added in the warps' order.
  UNROLL for (int r = 0; r < RT; r++) UNROLL for (int j = 0; j < NT; j++) UNROLL for (int i = 0; i < 4; i++)
    sums[warp()][(j * 8 + t * 2 + (i & 1)) * (RT * 16) + r * 16 + g + (i / 2) * 8] = acc[r][j][i];
  barrier();
  for (int i = threadX(); i < RT * NT * 128; i += WARPS * 32) {
    int m = i / (RT * 16), c = i % (RT * 16), r = c / 16;
    if (GATED && r % 2) continue;
    int row = (tile + (GATED ? r / 2 : r)) * 16 + c % 16;
    if (m >= p.m || row >= n) continue;
    float v = 0, up = 0;
    UNROLL for (int k = 0; k < WARPS; k++) v += sums[k][i];
    const PackedPart& part = p.part[which];
    if (part.bias) v += part.bias[row];
    if (GATED) {
      UNROLL for (int k = 0; k < WARPS; k++) up += sums[k][i + 16];
      if (p.part[1].bias) up += p.part[1].bias[row];
      v = gate(p.fn, toFloat(fromFloat<bf16>(v))) * toFloat(fromFloat<bf16>(up));
    }
    long at = (long)m * n + row;
    part.y[at] = fromFloat<bf16>(v);
  }
}

struct OpenParams {
  const u8* w; // units of an [n, k] weight
  bf16* y;     // [n, k], or woven with another of its size: eight rows of each by turns, as gemm.Weave has it
  int n, k, woven, second;
};

// A warp decodes a unit.
template <typename Q> DEVICE void open(const OpenParams& p) {
  begin();
  int units = ceilDiv(p.k, COLUMNS), all = units * ceilDiv(p.n, 16), unit = blockX() * 8 + warp();
  if (unit >= all) return;
  Unit<Q> a;
  a.load(p.w + (long)unit * Unit<Q>::BYTES);
  int row0 = unit / units * 16 + lane() / 4, k0 = unit % units * COLUMNS + lane() % 4 * 8;
  UNROLL for (int half = 0; half < 2; half++) UNROLL for (int block = 0; block < BLOCKS; block++) {
    int row = row0 + half * 8, k = k0 + block * 32;
    if (row >= p.n || k >= p.k) continue;
    u32 pairs[4];
    Q::open(a.codes[half], block, pairs);
    float s = a.scale(half, block);
    Vec16 v;
    UNROLL for (int i = 0; i < 4; i++) v.x[i] = pack(s * low(pairs[i]), s * high(pairs[i]));
    if (p.woven) row = row / 8 * 16 + row % 8 + p.second * 8;
    *(Vec16*)(p.y + (long)row * p.k + k) = v;
  }
}

// rowsN and gatedN are for up to N rows of x; rows8_few has twice the warps, for weights too few to fill the GPU otherwise. The
// wide one takes twice the weights a block, as x, which every block reads, is the greater part of what comes from the L2 cache.
#define FAMILY(F, Q) \
  KERNEL(256, 3) rows8_##F(PARAM PackedParams p) { packed<Q, 8, 2, 1, 1, false>(p); } \
  KERNEL(512, 2) rows8_few_##F(PARAM PackedParams p) { packed<Q, 16, 1, 1, 1, false>(p); } \
  KERNEL(256, 2) rows16_##F(PARAM PackedParams p) { packed<Q, 8, 1, 2, 2, false>(p); } \
  KERNEL(256, 2) rows32_##F(PARAM PackedParams p) { packed<Q, 8, 1, 4, 2, false>(p); } \
  KERNEL(128, 2) rows32_wide_##F(PARAM PackedParams p) { packed<Q, 4, 1, 4, 4, false>(p); } \
  KERNEL(256, 2) gated8_##F(PARAM PackedParams p) { packed<Q, 8, 2, 1, 2, true>(p); } \
  KERNEL(256, 2) gated16_##F(PARAM PackedParams p) { packed<Q, 8, 1, 2, 2, true>(p); } \
  KERNEL(256, 2) gated32_##F(PARAM PackedParams p) { packed<Q, 8, 1, 4, 2, true>(p); } \
  KERNEL(256, 1) open_##F(PARAM OpenParams p) { open<Q>(p); }
FAMILY(Q4_0, Q4)
