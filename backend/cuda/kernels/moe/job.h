// The share of a block in a product of experts.
#pragma once
#include "../cuda.h"

// Job is what a block has to do: slots of an expert, and which run of tiles. Blocks of one expert's jobs follow each other tile by tile,
// so that what reads the same weights runs at the same time.
struct Job {
  int expert, slot, count, tiles; // tiles: which run of them
  // find takes block number b of a launch with so many runs of tiles a job; it reports whether there is work for it.
  template <typename P> DEVICE bool find(const P& p, int b, int runs) {
    int any = b / runs;
    Vec16 j = p.jobs[any];
    if (any >= *p.total) return false;
    expert = j.x[0];
    int in = b - (int)j.x[1] * runs, end = j.x[3], jobs = ceilDiv(end - (int)j.x[2], p.each);
    tiles = in / jobs;
    slot = j.x[2] + in % jobs * p.each;
    count = mini(p.each, end - slot);
    return true;
  }
};
