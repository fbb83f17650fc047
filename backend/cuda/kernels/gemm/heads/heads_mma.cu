// A product for each head (graph.HeadLinear) on the tensor cores: wgmma on Hopper, mma.sync elsewhere, fed by cp.async, with the head along Z. A block is
// ROWS × COLUMNS results of a head; a warp has 16 of the rows.
#include "../../swizzle.h"
#include "heads.h"

constexpr int ROWS = 128, COLUMNS = 128, DEPTH = 64, STAGES = 3, THREADS = 256;
constexpr int OPERAND = 128 * 128, STAGE = 2 * OPERAND; // bytes of 64 columns of rows, or of a matrix
extern SHARED u8 dynamic[];

#if __CUDA_ARCH__ >= 900
DEVICE void publish() { fenceProxyAsync(); }
// multiply adds the products of a stage to those of a warpgroup's 64 rows.
DEVICE void multiply(float (&d)[COLUMNS / 2], u32 stage) {
  u64 a = smemDescriptor(stage + warp() / 4 * 64 * 128), b = smemDescriptor(stage + OPERAND);
  wgmmaFence();
  UNROLL for (int k = 0; k < DEPTH / 16; k++) wgmma(d, a + k * 2, b + k * 2, 1);
  wgmmaCommit();
  wgmmaWait<0>();
  UNROLL for (int i = 0; i < COLUMNS / 2; i++) asm volatile("" : "+f"(d[i])::"memory");
}
#else
DEVICE void publish() {}
DEVICE void multiply(float (&d)[COLUMNS / 2], u32 stage) {
  UNROLL for (int k = 0; k < DEPTH / 16; k++) {
    u32 a[4], b[4];
    ldmatrix4(a, stage + swizzled(warp() * 16 + lane() % 16, 2 * k + lane() / 16));
    UNROLL for (int n = 0; n < COLUMNS / 16; n++) {
      ldmatrix4(b, stage + OPERAND + swizzled(16 * n + lane() / 16 * 8 + lane() % 8, 2 * k + lane() / 8 % 2));
      mma(*(float(*)[4])&d[8 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
      mma(*(float(*)[4])&d[8 * n + 4], a[0], a[1], a[2], a[3], b[2], b[3]);
    }
  }
}
#endif

KERNEL(256, 1) heads_mma(PARAM HeadsParams p) {
  launchDependentsAndWait();
  int m0 = blockY() * ROWS, n0 = blockX() * COLUMNS, h = blockZ(), steps = ceilDiv(p.k, DEPTH);
  u32 stages = (sharedAddress(dynamic) + 1023) & ~1023u;
  const bf16 *x = (const bf16*)p.x + (long)h * p.size, *w = (const bf16*)p.w + (long)h * p.n * p.k;
  long xRow = (long)p.heads * p.size;
  int line0 = threadX() / 8, chunk = threadX() % 8;
  auto load = [&](int step) __attribute__((always_inline)) {
    u32 to = stages + step % STAGES * STAGE;
    int k = step * DEPTH + chunk * 8;
    bool in = step < steps && k < p.k;
    UNROLL for (int i = 0; i < ROWS / (THREADS / 8); i++) {
      int line = line0 + i * (THREADS / 8), m = m0 + line, n = n0 + line;
      bool row = in && m < p.rows, column = in && n < p.n;
      cpAsync16(to + swizzled(line, chunk), row ? x + m * xRow + k : x, row);
      cpAsync16(to + OPERAND + swizzled(line, chunk), column ? w + (long)n * p.k + k : w, column);
    }
    cpAsyncCommit();
  };
  UNROLL for (int i = 0; i < STAGES - 1; i++) load(i);
  if (blockX() == 0) copyRest16(p, h, m0, ROWS);
  float d[COLUMNS / 2] = {};
  for (int step = 0; step < steps; step++) {
    cpAsyncWait<STAGES - 2>();
    publish();
    barrier(); // the stage is here, and the one before has been read
    load(step + STAGES - 1);
    multiply(d, stages + step % STAGES * STAGE);
  }
  // Results go through shared memory, so that they are stored in lines of 16 bytes a lane; a warp stores the rows that it has computed.
  cpAsyncWait<0>();
  barrier();
  u32 mine = stages + warp() * 16 * 256;
  auto place = [&](int row, int c) __attribute__((always_inline)) { return mine + row * 256 + (((c ^ row) & 7) | (c & 8)) * 16; }; // of 8 columns
  UNROLL for (int j = 0; j < COLUMNS / 8; j++) UNROLL for (int e = 0; e < 2; e++)
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(place(lane() / 4 + 8 * e, j) + lane() % 4 * 4), "r"(pack(d[4 * j + 2 * e], d[4 * j + 2 * e + 1])) : "memory");
  warpBarrier();
  int c = lane() % 16, n = n0 + 8 * c;
  UNROLL for (int i = 0; i < 8; i++) {
    int row = 2 * i + lane() / 16, m = m0 + warp() * 16 + row;
    if (m >= p.rows || n >= p.n) continue;
    Vec16 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3]) : "r"(place(row, c)) : "memory");
    *(Vec16*)((bf16*)p.y + ((long)m * p.heads + h) * p.width + n) = x;
  }
}
