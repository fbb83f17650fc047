// One token of the gated delta rule in many sequences (graph.GatedDelta) on Hopper: a persistent block goes through states of value heads of sequences. A
// producer warp loads them whole by bulk copies, ahead of the 256 threads that move them on by a token, in place in shared memory, and bulk copies store
// them: the memory always has reads and writes in flight, whatever threads wait for.
#include "../sm90.h"
#include "gated_delta.h"

#if __CUDA_ARCH__ >= 900
constexpr int CONSUMERS = 256, WARPS = CONSUMERS / 32, STAGES = 3, MAX_KEY = 128, MAX_VALUE = 128, KEYS = MAX_KEY / WARPS;

// bulkStore stores contiguous bytes of shared memory; bulkCommit ends a group of such stores, bulkWaitRead waits until all but the last N groups have
// read the shared memory, bulkWait until all is written. They are one thread's.
DEVICE void bulkStore(u8* to, u32 from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
DEVICE void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void bulkWaitRead() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
DEVICE void bulkWait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

struct Stage { // an item: a value head of a sequence
  alignas(128) float state[MAX_KEY * MAX_VALUE];
  alignas(16) bf16 q[MAX_KEY], k[MAX_KEY], v[MAX_VALUE];
};
struct Item {
  float* state; // null: the sequence is none of this kernel's
  int row, head, fresh;
  float decay, rate;
};
extern SHARED __attribute__((aligned(128))) u8 dynamic[];

// produce loads items; each lane looks one up, 32 at a time.
DEVICE void produce(const DeltaParams& p, Stage* stages, Item* items, u32 full, u32 empty, int count) {
  const Step& s = p.step;
  long size = (long)p.keySize * p.valueSize;
  Item mine = {};
  for (int n = 0, item = blockX(); item < count; n++, item += gridX()) {
    if (n % 32 == 0) {
      int ahead = item + lane() * gridX(), seq = ahead / p.valueHeads;
      mine = {};
      if (ahead < count && s.qStart[seq + 1] - s.qStart[seq] == 1) {
        Sequence q(s, seq, p.states, size * p.valueHeads);
        mine.head = ahead % p.valueHeads, mine.row = q.from, mine.fresh = q.fresh, mine.state = q.state + mine.head * size;
        mine.decay = expf(p.logDecay<bf16, false>(mine.row, mine.head, 0)), mine.rate = p.rate<bf16>(mine.row, mine.head);
      }
    }
    int stage = n % STAGES;
    if (n >= STAGES) mbarrierWait(empty + 8 * stage, (n / STAGES + 1) & 1);
    if (lane() == n % 32) {
      Stage& to = stages[stage];
      u32 bar = full + 8 * stage;
      items[stage] = mine;
      if (!mine.state) {
        mbarrierArrive(bar);
      } else {
        int key = 2 * p.keySize, value = 2 * p.valueSize, state = mine.fresh ? 0 : (int)size * 4;
        mbarrierExpectTx(bar, state + 2 * key + value);
        if (state) tmaLoadBulk(sharedAddress(to.state), (const u8*)mine.state, state, bar);
        tmaLoadBulk(sharedAddress(to.q), (const u8*)p.query<bf16>(mine.row, mine.head), key, bar);
        tmaLoadBulk(sharedAddress(to.k), (const u8*)p.key<bf16>(mine.row, mine.head), key, bar);
        tmaLoadBulk(sharedAddress(to.v), (const u8*)p.value<bf16>(mine.row, mine.head), value, bar);
      }
    }
    warpBarrier();
  }
}

DEVICE void consumersBarrier() { namedBarrierSync(1, CONSUMERS); }

KERNEL(288, 1) gated_delta_states(PARAM DeltaParams p) {
  SHARED static u64 barriers[2 * STAGES];
  SHARED static Item items[STAGES];
  SHARED static float q[MAX_KEY], k[MAX_KEY];
  SHARED static Four predicted[WARPS][32], sums[WARPS][32];
  Stage* stages = (Stage*)dynamic;
  u32 full = sharedAddress(barriers), empty = full + 8 * STAGES;
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) mbarrierInit(full + 8 * i, 1), mbarrierInit(empty + 8 * i, 1);
    mbarrierInitFence();
  }
  barrier();
  launchDependentsAndWait();
  int count = p.step.counts[COUNT_SEQS] * p.valueHeads, me = warp();
  if (me == WARPS) {
    produce(p, stages, items, full, empty, count);
    return;
  }
  int stored = -1; // the last item whose state is on its way to memory; thread 0's
  int columns = p.valueSize / 4, first = me * KEYS;
  bool mine = lane() < columns;
  for (int n = 0, item = blockX(); item < count; n++, item += gridX()) {
    Stage& at = stages[n % STAGES];
    mbarrierWait(full + 8 * (n % STAGES), n / STAGES & 1);
    const Item of = items[n % STAGES];
    if (of.state) {
      if (me < 2) { // the query, the key
        const bf16* from = me == 0 ? at.q : at.k;
        float x[MAX_KEY / 32], squares = 0;
        UNROLL for (int i = 0; i < MAX_KEY / 32; i++) {
          int d = i * 32 + lane();
          x[i] = d < p.keySize ? toFloat(from[d]) : 0;
          squares += x[i] * x[i];
        }
        float scale = rsqrt(warpSum(squares) + L2_EPS) * (me == 0 ? p.scale : 1);
        UNROLL for (int i = 0; i < MAX_KEY / 32; i++) (me == 0 ? q : k)[i * 32 + lane()] = x[i] * scale;
      }
      Four state[KEYS], sum = {};
      Four* rows = (Four*)at.state + first * columns + lane();
      UNROLL for (int i = 0; i < KEYS; i++) state[i] = mine && !of.fresh && first + i < p.keySize ? rows[i * columns] : Four{};
      consumersBarrier();
      UNROLL for (int i = 0; i < KEYS; i++) UNROLL for (int e = 0; e < 4; e++) state[i].x[e] *= of.decay, sum.x[e] += state[i].x[e] * k[first + i];
      predicted[me][lane()] = sum;
      consumersBarrier();
      Four delta = {};
      UNROLL for (int w = 0; w < WARPS; w++) {
        Four part = predicted[w][lane()];
        UNROLL for (int e = 0; e < 4; e++) delta.x[e] += part.x[e];
      }
      UNROLL for (int e = 0; e < 4; e++) {
        float value = mine ? toFloat(at.v[4 * lane() + e]) : 0;
        delta.x[e] = of.rate * (value - delta.x[e]), sum.x[e] = 0;
      }
      UNROLL for (int i = 0; i < KEYS; i++) {
        UNROLL for (int e = 0; e < 4; e++) state[i].x[e] += k[first + i] * delta.x[e], sum.x[e] += state[i].x[e] * q[first + i];
        if (mine && first + i < p.keySize) rows[i * columns] = state[i];
      }
      sums[me][lane()] = sum;
      fenceProxyAsync(); // the state is read by a bulk copy
      consumersBarrier();
      if (me == 1 && mine) {
        bf16* y = (bf16*)p.y + ((long)of.row * p.valueHeads + of.head) * p.valueSize + 4 * lane();
        sum = {};
        UNROLL for (int w = 0; w < WARPS; w++) {
          Four part = sums[w][lane()];
          UNROLL for (int e = 0; e < 4; e++) sum.x[e] += part.x[e];
        }
        *(u64*)y = (u64)pack(sum.x[2], sum.x[3]) << 32 | pack(sum.x[0], sum.x[1]);
      }
    } else {
      consumersBarrier(); // the item has been read
    }
    if (threadX() == 0) {
      if (of.state) bulkStore((u8*)of.state, sharedAddress(at.state), p.keySize * p.valueSize * 4);
      bulkCommit();
      bulkWaitRead<1>();
      if (stored >= 0) mbarrierArrive(empty + 8 * (stored % STAGES));
      stored = n;
    }
  }
  if (threadX() == 0) bulkWait();
}
#endif
