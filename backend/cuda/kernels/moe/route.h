// Routing: which rows go to which experts (top-k), and the permutation that groups them. A slot is one expert of one row; slots are sorted by expert, and
// within an expert by row, so that an expert's rows are contiguous. A job is up to `each` slots of one expert. Nothing goes to the host: launches have blocks
// for the largest number of jobs, and read the actual number from device memory.
#pragma once
#include "../cuda.h"

struct RouteParams {
  Step step;
  const void* scores; // [rows, experts]
  int* chosen;        // [rows × top] experts, the best first; NONE
  float* share;       // [rows × top] the weights of their results
  int* slot;          // [rows × top] their slots
  int* row;           // [slots] the row of each
  int* first;         // [experts + 1] first slot of each expert
  int* total;         // number of jobs
  Vec16* jobs;        // [jobs] the expert, the expert's first job, its first slot, and the end of its slots
  int count;          // the step has counts[count] rows
  int experts, top, ofAll, each;
  int begin, held; // the experts that this device has, of which slots and jobs are; all others have none, and their slot is -1
  int pad;
};

// What RouteParams.ofAll and its like in other launches say of shares: softmax over the chosen experts' scores, over all scores, or the scores themselves.
enum { OF_CHOSEN, OF_ALL, GIVEN };

// NONE is in place of an expert where a row has fewer with a share than it may: those that are on this device, of rows that have come from others.
constexpr int NONE = -1;

constexpr int MAX_EXPERTS = 1024, MAX_TOP = 64, ROUTE_THREADS = 512, ALONE_ROWS = 16;

DEVICE u32 warpMaxOf(u32 v) {
  u32 d;
  asm volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(d) : "r"(v));
  return d;
}
DEVICE u32 warpMinOf(u32 v) {
  u32 d;
  asm volatile("redux.sync.min.u32 %0, %1, -1;" : "=r"(d) : "r"(v));
  return d;
}
DEVICE int shuffleUp(int v, int by) { // lanes below `by` get their own value
  int y;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, -1;" : "=r"(y) : "r"(v), "r"(by));
  return y;
}
DEVICE u32 ballot(bool v) {
  u32 b;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, -1;\n\t}" : "=r"(b) : "r"((int)v));
  return b;
}
DEVICE int ones(u32 v) { return __builtin_popcount(v); }

// A score as an unsigned integer in the same order, and back. Scores that are not NaN give more than 0.
DEVICE u32 ordered(float s) {
  u32 b = __builtin_bit_cast(u32, s + 0.0f); // -0 is 0
  return b >> 31 ? ~b : b | 0x80000000;
}
DEVICE float score(u32 o) { return __builtin_bit_cast(float, o >> 31 ? o & 0x7fffffff : ~o); }

// Ranked is the sort key of experts: of equal scores the first expert ranks highest. 0 is none. A key of bf16 contains the expert, so that the maximum takes one
// reduction; float keys take two.
template <typename T> struct Ranked {
  u32 word;
  DEVICE Ranked(float s, int) : word(ordered(s)) {}
  static DEVICE float scoreOf(u32 most) { return score(most); }
};
template <> struct Ranked<bf16> {
  u32 word;
  DEVICE Ranked(float s, int expert) : word((ordered(s) & 0xffff0000) | (0xffff - expert)) {}
  static DEVICE float scoreOf(u32 most) { return score(most >> 31 ? most & 0xffff0000 : most | 0xffff); }
};

// Chosen is a row's experts, the best first: lane l has places l, l + 32, … and their shares, the weights of their results.
template <int PLACES> struct Chosen {
  int expert[PLACES];
  float share[PLACES];
};

// topK finds a row's experts: those with the highest scores, of equal scores the first. One warp computes it, each lane PER experts, every 32nd; keys
// already chosen are set to 0. Places depend on each other in sequence, so shares, which not every caller needs, are computed at the end.
template <typename T, int PER, int PLACES> DEVICE Chosen<PLACES> topK(const T* scores, int experts, int top, int ofAll, bool shares) {
  u32 left[PER], word[PLACES] = {}, highest = 0;
  Chosen<PLACES> c = {};
  UNROLL for (int i = 0; i < PER; i++) left[i] = lane() + 32 * i < experts ? Ranked<T>(toFloat(scores[lane() + 32 * i]), lane() + 32 * i).word : 0;
  auto best = [&] {
    u32 m = 0;
    UNROLL for (int i = 0; i < PER; i++) m = m > left[i] ? m : left[i];
    return warpMaxOf(m);
  };
  auto power = [&](u32 word) { return word ? expf(Ranked<T>::scoreOf(word) - Ranked<T>::scoreOf(highest)) : 0; };
  float sum = 0;
  if (ofAll == OF_ALL && shares) {
    highest = best();
    UNROLL for (int i = 0; i < PER; i++) sum += power(left[i]);
  }
  for (int k = 0; k < top; k++) {
    u32 most = best(), at = MAX_EXPERTS;
    if constexpr (sizeof(T) == 2) {
      at = most ? 0xffff - (most & 0xffff) : 0; // NaN scores: any expert, as the result is NaN too
    } else {
      UNROLL for (int i = PER - 1; i >= 0; i--) at = left[i] == most ? lane() + 32 * i : at;
      at = most ? warpMinOf(at) : 0;
    }
    UNROLL for (int i = 0; i < PER; i++) left[i] = lane() + 32 * i == at ? 0 : left[i];
    UNROLL for (int i = 0; i < PLACES; i++) {
      bool mine = k == lane() + 32 * i;
      word[i] = mine ? most : word[i], c.expert[i] = mine ? at : c.expert[i];
    }
    if (k == 0) highest = most;
  }
  if (!shares) return c;
  if (ofAll == GIVEN) {
    UNROLL for (int i = 0; i < PLACES; i++) c.share[i] = word[i] ? Ranked<T>::scoreOf(word[i]) : 0;
    return c;
  }
  UNROLL for (int i = 0; i < PLACES; i++) {
    c.share[i] = power(word[i]);
    if (ofAll == OF_CHOSEN) sum += c.share[i];
  }
  sum = warpSum(sum);
  UNROLL for (int i = 0; i < PLACES; i++) c.share[i] /= sum;
  return c;
}

// chooseRow stores a row's experts, and also in keep unless that is null.
template <typename T, int PER> DEVICE void chooseRow(const RouteParams& p, int r, int* keep) {
  constexpr int PLACES = MAX_TOP / 32;
  Chosen<PLACES> c = topK<T, PER, PLACES>((const T*)p.scores + (long)r * p.experts, p.experts, p.top, p.ofAll, true);
  UNROLL for (int i = 0; i < PLACES; i++) {
    int k = lane() + 32 * i, at = r * p.top + k;
    if (k >= p.top) continue;
    int expert = p.ofAll == GIVEN && c.share[i] == 0 ? NONE : c.expert[i];
    p.chosen[at] = expert, p.share[at] = c.share[i];
    if (keep) keep[at] = expert;
  }
}

// Four chosen experts, from index i on; -1 beyond the end.
DEVICE Vec16 fourAt(const int* chosen, int i, int end) {
  if (i + 4 <= end) return *(const Vec16*)(chosen + i);
  Vec16 v;
  UNROLL for (int j = 0; j < 4; j++) v.x[j] = i + j < end ? chosen[i + j] : -1;
  return v;
}

// assignSlots assigns an expert's slots, from `to` on, to its choices in [from, end). One warp, four choices a lane.
DEVICE void assignSlots(const RouteParams& p, const int* chosen, int expert, int from, int end, int to) {
  u32 below = (1u << lane()) - 1, inverse = 0xffffffffu / p.top + 1; // i / top, as i × top < 2^32
  Vec16 next = fourAt(chosen, from + lane() * 4, end);
  for (int base = from; base < end; base += 128) {
    int i = base + lane() * 4, s = to;
    Vec16 v = next;
    next = fourAt(chosen, i + 128, end);
    u32 all[4];
    UNROLL for (int j = 0; j < 4; j++) all[j] = ballot((int)v.x[j] - p.begin == expert), s += ones(all[j] & below), to += ones(all[j]);
    UNROLL for (int j = 0; j < 4; j++) {
      if (!(all[j] >> lane() & 1)) continue;
      p.row[s] = p.top == 1 ? i + j : (int)((u64)(i + j) * inverse >> 32);
      p.slot[i + j] = s++;
    }
  }
}

// alignSlots assigns slots to the rows' experts (moe_align_block_size in vLLM), which it counts from the device's first on. Every block counts the rows of all. In a launch of one block each warp
// assigns the slots of some experts; otherwise a block has one expert, and each warp a part of the choices.
DEVICE void alignSlots(const RouteParams& p, int rows, const int* chosen) {
  constexpr int WARPS = ROUTE_THREADS / 32;
  SHARED static int count[MAX_EXPERTS], first[MAX_EXPERTS + 1], job[MAX_EXPERTS + 1], found[WARPS];
  int slots = rows * p.top, part = ceilDiv(slots, WARPS * 128) * 128, from = mini(warp() * part, slots), end = mini(from + part, slots), mine = 0;
  for (int e = threadX(); e < p.held; e += ROUTE_THREADS) count[e] = 0;
  barrier();
  for (int i = from + lane() * 4; i < end; i += 128) {
    Vec16 v = fourAt(chosen, i, end);
    UNROLL for (int j = 0; j < 4; j++) {
      int e = (int)v.x[j] - p.begin;
      mine += e == blockX();
      if ((u32)e < (u32)p.held) asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(sharedAddress(count + e)) : "memory");
      else if (blockX() == 0 && i + j < end) p.slot[i + j] = -1;
    }
  }
  mine = (int)warpSum((float)mine);
  if (lane() == 0) found[warp()] = mine;
  barrier();
  if (warp() == 0) { // prefix sums; a lane has a run of experts
    int run = ceilDiv(p.held, 32), from = mini(lane() * run, p.held), to = mini(from + run, p.held);
    int before = 0, jobs = 0;
    for (int e = from; e < to; e++) before += count[e], jobs += ceilDiv(count[e], p.each);
    int own = before, ownJobs = jobs;
    UNROLL for (int by = 1; by < 32; by *= 2) {
      int a = shuffleUp(before, by), j = shuffleUp(jobs, by);
      if (lane() >= by) before += a, jobs += j;
    }
    if (lane() == 31) first[p.held] = before, job[p.held] = jobs;
    before -= own, jobs -= ownJobs;
    for (int e = from; e < to; e++) {
      first[e] = before, job[e] = jobs;
      before += count[e], jobs += ceilDiv(count[e], p.each);
    }
  }
  barrier();
  if (blockX() == 0) {
    for (int e = threadX(); e <= p.held; e += ROUTE_THREADS) p.first[e] = first[e];
    for (int e = warp(); e < p.held; e += WARPS)
      for (int j = job[e] + lane(); j < job[e + 1]; j += 32) p.jobs[j] = Vec16{(u32)e, (u32)job[e], (u32)first[e], (u32)first[e + 1]};
    if (threadX() == 0) *p.total = job[p.held];
  }
  if (gridX() == 1) {
    for (int e = warp(); e < p.held; e += WARPS)
      if (count[e] > 0) assignSlots(p, chosen, e, 0, slots, first[e]);
    return;
  }
  int to = first[blockX()];
  for (int w = 0; w < warp(); w++) to += found[w];
  if (mine > 0) assignSlots(p, chosen, blockX(), from, end, to);
}

// route finds the experts of rows, a warp per row. A launch of one block also aligns the slots.
template <typename T> DEVICE void route(const RouteParams& p) {
  SHARED alignas(16) static int kept[ALONE_ROWS * MAX_TOP];
  launchDependentsAndWait();
  bool alone = gridX() == 1;
  int rows = p.step.counts[p.count];
  for (int r = blockX() * (ROUTE_THREADS / 32) + warp(); r < rows; r += gridX() * (ROUTE_THREADS / 32)) {
    int* keep = alone ? kept : (int*)0;
    if (p.experts <= 128) chooseRow<T, 4>(p, r, keep);
    else if (p.experts <= 256) chooseRow<T, 8>(p, r, keep);
    else chooseRow<T, MAX_EXPERTS / 32>(p, r, keep);
  }
  if (!alone) return;
  barrier();
  alignSlots(p, rows, kept);
}
