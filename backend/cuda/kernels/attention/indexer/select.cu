// The choice of the keys with the highest scores (graph.TopKeys): a block a row. Radix select: four passes count the next eight bits of the scores that
// are still candidates, which gives the least score chosen; then all keys from it on are written in order. Which of equal scores are chosen where not all
// can be is backend.SelectTop's choice, which one thread makes as it does; of very many keys it is the first.
#include "indexer.h"

constexpr int THREADS = 512, WARPS = THREADS / 32;
constexpr int EXACT = 4096; // the most keys for which SelectTop is followed

// ordered is a score as a number that compares alike, without a sign.
DEVICE u32 ordered(float score) {
  u32 bits = __builtin_bit_cast(u32, score + 0.0f); // -0 is 0
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

DEVICE u32 ballot(bool each) {
  u32 y;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, -1;\n\t}" : "=r"(y) : "r"((u32)each));
  return y;
}

DEVICE void countShared(u32* counter) {
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(sharedAddress(counter)) : "memory");
}

struct Candidate {
  float score;
  int at;
};

DEVICE void swap(Candidate& a, Candidate& b) {
  Candidate c = a;
  a = b, b = c;
}

// heapSelect and selectTop are those of backend.SelectTop (select.go), line by line.
DEVICE void heapSelect(Candidate* x, int n, int k) {
  auto sift = [&](int i) {
    for (int child; child = 2 * i + 1, child < k; i = child) {
      if (child + 1 < k && x[child].score > x[child + 1].score) child++;
      if (!(x[i].score > x[child].score)) return;
      swap(x[i], x[child]);
    }
  };
  for (int i = k / 2 - 1; i >= 0; i--) sift(i);
  for (int i = k; i < n; i++)
    if (x[i].score > x[0].score) {
      swap(x[0], x[i]);
      sift(0);
    }
}

DEVICE void selectTop(Candidate* x, int n, int k) {
  auto before = [&](int a, int b) { return x[a].score > x[b].score; };
  int nth = k - 1, first = 0, last = n;
  for (int depth = 2 * (31 - __builtin_clz(n)); last - first > 3; depth--) {
    if (depth == 0) {
      heapSelect(x + first, last - first, nth - first + 1);
      return;
    }
    int a = first + 1, b = first + (last - first) / 2, c = last - 1, m = a;
    bool ab = before(a, b), bc = before(b, c), ac = before(a, c);
    if ((ab && bc) || (!ab && !ac && !bc)) m = b;
    else if ((ab && ac) || (!ab && !ac && bc)) m = c;
    swap(x[first], x[m]);
    int low = first + 1, high = last;
    for (;;) {
      while (before(low, first)) low++;
      high--;
      while (before(first, high)) high--;
      if (low >= high) break;
      swap(x[low], x[high]);
      low++;
    }
    if (low <= nth) first = low;
    else last = low;
  }
  for (int i = first + 1; i < last; i++)
    for (int j = i; j > first && before(j, j - 1); j--) swap(x[j], x[j - 1]);
}

// write puts the keys in order that a function says are chosen, at most topK of them, and -1 behind them. Of keys that are `equal`, the first so many are.
template <typename F> DEVICE void write(const TopKeysParams& p, const IndexRow& r, int equals, F kind) {
  SHARED static int counts[2][WARPS][2];
  float* out = p.chosen + (long)r.row * p.topK;
  int more = 0, equal = 0; // chosen and equal ones so far
  for (int base = 0, turn = 0; base < r.end; base += THREADS, turn ^= 1) {
    int key = base + threadX(), is = key < r.end ? kind(key) : 0; // 2: chosen, 1: equal
    u32 mores = ballot(is == 2), same = ballot(is == 1);
    if (lane() == 0) counts[turn][warp()][0] = __builtin_popcount(mores), counts[turn][warp()][1] = __builtin_popcount(same);
    barrier();
    int moreBefore = more, equalBefore = equal;
    UNROLL for (int w = 0; w < WARPS; w++) {
      int a = counts[turn][w][0], b = counts[turn][w][1];
      if (w < warp()) moreBefore += a, equalBefore += b;
      more += a, equal += b;
    }
    u32 lower = (1u << lane()) - 1;
    moreBefore += __builtin_popcount(mores & lower), equalBefore += __builtin_popcount(same & lower);
    if (is == 2 || (is == 1 && equalBefore < equals)) out[moreBefore + mini(equalBefore, equals)] = key;
  }
  for (int i = more + mini(equal, equals) + threadX(); i < p.topK; i += THREADS) out[i] = -1;
}

KERNEL(512, 1) select_keys(PARAM TopKeysParams p) {
  // Counters of the passes, a set a warp; then the candidates of SelectTop.
  SHARED static union {
    u32 counts[WARPS][256];
    Candidate candidates[EXACT];
  } shared;
  SHARED static u32 total[256], chosen[EXACT / 32];
  SHARED static int digit, left;
  launchDependentsAndWait();
  IndexRow r(p, blockX());
  if (r.row >= p.step.counts[COUNT_TOKENS]) return;
  if (r.all(p)) {
    write(p, r, 0, [&](int key) { return r.sees(key) ? 2 : 0; });
    return;
  }
  u32 least = 0, known = 0; // the bits of the least score chosen, as far as they are known
  int need = p.topK;        // of the scores that are equal to it there
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadX(); i < WARPS * 256; i += THREADS) shared.counts[0][i] = 0;
    barrier();
    for (int key = threadX(); key < r.end; key += THREADS) {
      u32 x = ordered(r.scores[key]);
      if ((x & known) == least) countShared(&shared.counts[warp()][x >> shift & 255]);
    }
    barrier();
    if (threadX() < 256) {
      u32 sum = 0;
      UNROLL for (int w = 0; w < WARPS; w++) sum += shared.counts[w][threadX()];
      total[threadX()] = sum;
    }
    barrier();
    if (warp() == 0) { // lane l has digits 255 - 8l and the seven below it
      int mine[8], sum = 0;
      UNROLL for (int i = 0; i < 8; i++) sum += mine[i] = total[255 - 8 * lane() - i];
      int above = 0;
      UNROLL for (int l = 0; l < 32; l++) {
        int other = shuffleFrom(sum, l);
        if (l < lane()) above += other;
      }
      UNROLL for (int i = 0; i < 8; i++) {
        if (above < need && above + mine[i] >= need) digit = 255 - 8 * lane() - i, left = need - above;
        above += mine[i];
      }
    }
    barrier();
    least |= (u32)digit << shift, known |= 255u << shift, need = left;
    barrier(); // the digit has been read
  }
  // total[digit] scores are the least one, of which `need` are chosen.
  if ((int)total[least & 255] > need && r.keys <= EXACT) {
    for (int key = threadX(); key < r.keys; key += THREADS) shared.candidates[key] = {key < r.end ? r.scores[key] : -__builtin_inff(), key};
    for (int i = threadX(); i < EXACT / 32; i += THREADS) chosen[i] = 0;
    barrier();
    if (threadX() == 0) {
      selectTop(shared.candidates, r.keys, p.topK);
      for (int i = 0; i < p.topK; i++) chosen[shared.candidates[i].at / 32] |= 1u << shared.candidates[i].at % 32;
    }
    barrier();
    write(p, r, 0, [&](int key) { return chosen[key / 32] >> key % 32 & 1 ? 2 : 0; });
    return;
  }
  write(p, r, need, [&](int key) {
    u32 x = ordered(r.scores[key]);
    return x > least ? 2 : x == least ? 1 : 0;
  });
}
