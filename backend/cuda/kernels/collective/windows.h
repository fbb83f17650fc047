// Windows of GPUs that address each other's memory: NVLink or PCIe peer access, and CUDA IPC between processes. Every rank has a window of
// memory that the others write to (push): what is sent carries its own flag, as in ../flag_in_data.h, so that a message takes one way over the
// link, without a fence or a barrier. A window has two stages, which launches use in turn. A rank that writes to a stage again has received all of the
// launch between, which the other one began only when it had read and emptied that stage.
//
// Sums are float32 and added in the order of ranks, so all ranks have the same bits.
#pragma once
#include "../flag_in_data.h"

constexpr int MAX_RANKS = 8;

struct CollectiveParams {
  const void* x;         // of this rank
  void* y;               // of all
  u8* windows[MAX_RANKS]; // of each rank, as this one addresses them
  const u32* aborted;    // in host memory; not 0: nobody waits any more, and results do not matter
  long n;                // numbers of x; received by Recv
  int rank, ranks;
  int width, whole;      // of a gather: numbers of a row of x, and of one of y
  int peer;              // of a message: to or from whom
  int share;             // 1: two ranks share a GPU, so kernels behind this one must not take its multiprocessors while it waits
};

// A window: counters, a cache line each, then the two stages.
constexpr int LINE = 128;                                    // bytes
constexpr int EPOCH = 0, SENT = 1, RECEIVED = 1 + MAX_RANKS, // lines of counters: launches; messages to and from each rank,
    TAKEN = 1 + 2 * MAX_RANKS;                               // and those that it has taken, which it writes itself
constexpr int HEAD = 4096;                                   // bytes before the stages
constexpr int STAGE = 16 << 20;                              // bytes of a stage
constexpr int ONCE = (512 << 10) / 16;                       // most vectors of an all-reduce in one shot
constexpr int GATHERED = STAGE / 2;                          // bytes into a stage of an all-reduce in two shots: where sums come

// A counter is 65536 times the launches: each launch's first block adds what the others, who add 1, leave. So a block that has not added yet
// reads the same launch as all others.
constexpr u32 LAUNCH = 65536;

DEVICE u32* counter(u8* window, int line) { return (u32*)(window + line * LINE); }
DEVICE u32 loadCounter(const u32* at) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
DEVICE u32 weight() { return blockX() == 0 ? LAUNCH - (gridX() - 1) : 1; }
DEVICE void count(u32* at) { // once a block, when its threads have read the counter
  barrier();
  if (threadX() == 0) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(weight()) : "memory");
}

// What a stage holds: vectors, or single words where rows are not made of vectors. A number of 16 bits goes as a word.
DEVICE void push(Vec16* to, Vec16 v) {
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]) : "memory");
}
DEVICE void push(u32* to, u32 v) { asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(to), "r"(v) : "memory"); }
DEVICE Vec16 look(const Vec16* at) {
  Vec16 v;
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "l"(at) : "memory");
  return v;
}
DEVICE u32 look(const u32* at) { return loadCounter(at); }
DEVICE bool isEmpty(Vec16 v) { return v.x[0] == EMPTY || v.x[1] == EMPTY || v.x[2] == EMPTY || v.x[3] == EMPTY; }
DEVICE bool isEmpty(u32 v) { return v == EMPTY; }
DEVICE u32 notEmpty(u32 v) { return v == EMPTY ? 0x7fffffff : v; } // another NaN, or another pair of them
DEVICE Vec16 notEmpty(Vec16 v) {
  UNROLL for (int i = 0; i < 4; i++) v.x[i] = notEmpty(v.x[i]);
  return v;
}
DEVICE void clear(Vec16* at) { *at = Vec16{{EMPTY, EMPTY, EMPTY, EMPTY}}; }
DEVICE void clear(u32* at) { *at = EMPTY; }

constexpr int PATIENCE = 4096; // looks between those at the host's word, each of which takes microseconds

DEVICE bool giveUp(int& looks, const u32* aborted) { return ++looks % PATIENCE == 0 && loadCounter(aborted) != 0; }

// take waits for what is pushed to a place of this rank's window, and empties it.
template <typename V> DEVICE V take(V* at, const u32* aborted) {
  V v;
  int looks = 0;
  while (isEmpty(v = look(at)))
    if (giveUp(looks, aborted)) return v;
  clear(at);
  return v;
}

template <typename V> DEVICE V* stage(const CollectiveParams& p, int rank, u32 launch, int offset) {
  return (V*)(p.windows[rank] + HEAD + (long)(launch & 1) * STAGE + offset);
}

// A vector of x or y; numbers beyond the end are 0, and not stored.
template <typename T> constexpr int EACH = 16 / sizeof(T);
template <typename T> DEVICE Vec16 loadVector(const void* from, long i, long n) {
  const T* x = (const T*)from + i * EACH<T>;
  if ((i + 1) * EACH<T> <= n) return *(const Vec16*)x;
  alignas(16) T v[EACH<T>];
  UNROLL for (int j = 0; j < EACH<T>; j++) v[j] = i * EACH<T> + j < n ? x[j] : fromFloat<T>(0);
  return __builtin_bit_cast(Vec16, v);
}
template <typename T> DEVICE void storeVector(void* to, long i, long n, Vec16 v) {
  T* y = (T*)to + i * EACH<T>;
  if ((i + 1) * EACH<T> <= n) {
    *(Vec16*)y = v;
    return;
  }
  T each[EACH<T>];
  __builtin_memcpy(each, &v, 16);
  UNROLL for (int j = 0; j < EACH<T>; j++)
    if (i * EACH<T> + j < n) y[j] = each[j];
}

template <typename T> struct Sum;
template <> struct Sum<float> {
  float s[4];
  DEVICE void add(Vec16 v, bool first) { UNROLL for (int j = 0; j < 4; j++) s[j] = first ? __builtin_bit_cast(float, v.x[j]) : s[j] + __builtin_bit_cast(float, v.x[j]); }
  DEVICE Vec16 rounded() {
    Vec16 v;
    UNROLL for (int j = 0; j < 4; j++) v.x[j] = __builtin_bit_cast(u32, s[j]);
    return v;
  }
};
template <> struct Sum<bf16> {
  float s[8];
  DEVICE void add(Vec16 v, bool first) {
    UNROLL for (int j = 0; j < 4; j++) {
      s[2 * j] = first ? low(v.x[j]) : s[2 * j] + low(v.x[j]);
      s[2 * j + 1] = first ? high(v.x[j]) : s[2 * j + 1] + high(v.x[j]);
    }
  }
  DEVICE Vec16 rounded() {
    Vec16 v;
    UNROLL for (int j = 0; j < 4; j++) v.x[j] = pack(s[2 * j], s[2 * j + 1]);
    return v;
  }
};

// begin waits for the kernel before, and gives the number of the launch.
DEVICE u32 begin(const CollectiveParams& p, int line) {
  if (!p.share) launchDependents();
  gridDependencyWait();
  return loadCounter(counter(p.windows[p.rank], line)) / LAUNCH;
}

// meet has a launch in which ranks may have nothing for each other receive a word from all of them, on which the use of stages depends: see above. It takes the last words of a stage.
constexpr int GREETINGS = STAGE - 128;
DEVICE void meet(const CollectiveParams& p, u32 launch) {
  int r = threadX();
  if (blockX() > 0 || r >= p.ranks || r == p.rank) return;
  push(stage<u32>(p, r, launch, GREETINGS) + p.rank, 1u);
  take(stage<u32>(p, p.rank, launch, GREETINGS) + r, p.aborted);
}
